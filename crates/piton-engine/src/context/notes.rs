//! What the model is told as the work goes on: appended with the next message or at the beginning of the next step,
//! never put into what was sent.
//!
//! This is the place for every such reminder: one method each, called in [`Notes::at_step`]. (The last step's own note
//! is the turn machine's.)

use super::files;
use super::instructions::{Instructions, Piece, instructions_note};
use super::rules::Rules;
use piton_core::branch;
use piton_core::budget::dollars;
use piton_core::event::{Event, Given, GivenKind, Record, StepKind};
use piton_core::ids::TimeMs;
use piton_core::inquiry::planning;
use piton_core::limits::{BUDGET_NEARLY_SPENT_PERCENT, STEPS_NEARLY_SPENT};
use piton_core::message::Part;
use piton_core::permission::PermissionMode;
use piton_core::policy::LastStep;
use piton_core::tokens::estimate;
use piton_core::turn::State;
use piton_tools::files::Files;
use piton_tools::ledger::{ExternalChange, FileLedger};
use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

/// What is said before the instructions that hold from the beginning.
const AT_START: &str = "Standing instructions of the user and of this project. Keep to them. Where they differ, the file \
                        further down here counts; what the user says counts more than any of them.";
/// What is said before those of folders further down.
const FURTHER_DOWN: &str =
    "Instructions for files in folders that you are working in now. They count for what lies there.";

/// Files that a reminder names.
const MOST_NAMED: usize = 20;

/// What is added to an event, and what it is.
#[derive(Debug, Default)]
pub(crate) struct Addition {
    /// What the model reads.
    pub(crate) texts: Vec<String>,
    /// What is recorded of it.
    pub(crate) items: Vec<Given>,
}

/// What the model was told of the place, and what it was not told yet: a fold of the events at the head.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// Instruction files that it has.
    given: HashSet<PathBuf>,
    /// Files that it has looked at, or changed, since folders were looked through for instructions.
    touched: Vec<PathBuf>,
    /// Folders that were looked through.
    searched: HashSet<PathBuf>,
    /// Rules for single files, as they were found.
    rules: Rules,
    /// What was said at the beginning is gone from what the model sees.
    is_forgotten: bool,
    /// What it was told in this turn.
    told: HashSet<GivenKind>,
    /// Bytes of instructions that it has.
    instruction_bytes: usize,
    /// It was told of plan mode, and not yet that this is over.
    is_planning: bool,
}

impl Notes {
    /// The fold of a journal: of those events that lead to its head. Of files, too, the model knows what these say.
    pub(crate) fn fold(records: &[Record], ledger: &FileLedger) -> Self {
        let (mut notes, path) = (Self::default(), branch::Path::of(records));
        ledger.forget();
        for record in records.iter().filter(|record| path.contains(record.seq)) {
            notes.hear(record);
            remember_files(&record.event, ledger);
        }
        notes
    }

    /// Takes notice of what happened at the head.
    pub(crate) fn hear(&mut self, record: &Record) {
        match &record.event {
            Event::ContextGiven { items } => items.iter().for_each(|item| self.hear_of(item)),
            Event::CallSettled { outcome, .. } => {
                self.touched.extend(outcome.files().map(|file| PathBuf::from(file.path)));
                // Its outcome says so.
                self.is_planning &= !planning::is_approved(outcome);
            }
            // The beginning is summed up with the rest, and instructions are not for a summary.
            Event::CompactionFinished { .. } => {
                self.touched.extend(self.given.drain());
                self.searched.clear();
                self.rules = Rules::default();
                self.instruction_bytes = 0;
                self.is_forgotten = true;
            }
            Event::TurnStarted { .. } => {
                self.told.clear();
            }
            Event::StepStarted { kind, .. } => {
                // By then it was said again.
                self.is_forgotten &= *kind == StepKind::WrapUp;
            }
            _ => {}
        }
    }

    fn hear_of(&mut self, item: &Given) {
        match (item.kind, &item.path) {
            (GivenKind::Instructions, Some(path)) => {
                self.instruction_bytes += item.bytes;
                self.given.insert(PathBuf::from(path));
            }
            (GivenKind::Reference, Some(path)) => self.touched.push(PathBuf::from(path)),
            (kind @ (GivenKind::BudgetNear | GivenKind::StepsNear), _) => drop(self.told.insert(kind)),
            (kind @ GivenKind::PlanMode, _) => {
                self.told.insert(kind);
                self.is_planning = true;
            }
            (GivenKind::PlanModeOver, _) => {
                self.told.remove(&GivenKind::PlanMode);
                self.is_planning = false;
            }
            (_, _) => {}
        }
    }

    /// What stands in front of the first message in a workspace.
    pub(crate) fn at_start(
        environment: Option<&str>,
        instructions: Option<&Instructions>,
        workspace: &Path,
        files: &dyn Files,
    ) -> Addition {
        let mut addition = Addition::default();
        if let Some(text) = environment {
            addition.add(text.to_owned(), Given::of(GivenKind::Environment, text));
        }
        if let Some(instructions) = instructions {
            addition.instructions(&instructions.at_start(workspace, files), AT_START);
        }
        addition
    }

    /// What is said at the beginning of a step, besides what its own note says.
    pub(crate) fn at_step(
        &mut self,
        session: &State,
        (kind, plans): (StepKind, bool),
        now_ms: TimeMs,
        environment: Option<&str>,
        instructions: Option<&Instructions>,
        (ledger, files): (&FileLedger, &dyn Files),
    ) -> Addition {
        let workspace = Path::new(session.workspace());
        let mut addition = Addition::default();
        // On the last step nothing can be done about any of this.
        if kind == StepKind::WrapUp {
            return addition;
        }
        let is_forgotten = std::mem::take(&mut self.is_forgotten);
        if is_forgotten {
            addition = Self::at_start(environment, instructions, workspace, files);
            self.given.extend(addition.items.iter().filter_map(|item| Some(PathBuf::from(item.path.as_ref()?))));
        }
        if let Some(instructions) = instructions {
            self.further_down(instructions, workspace, files, &mut addition);
        }
        changed_files(&ledger.changes(files), workspace, &mut addition);
        ended_tasks(session, &mut addition);
        self.budget_near(session, now_ms, &mut addition);
        self.steps_near(session, &mut addition);
        self.plan_mode(session, plans, is_forgotten, &mut addition);
        if let Some(text) = session.todo().reminder(is_forgotten) {
            addition.add_one(GivenKind::Todo, text);
        }
        addition
    }

    /// In which mode the model works, where it could not know: said in each turn of plan mode, and once where that was left.
    fn plan_mode(&self, session: &State, plans: bool, is_forgotten: bool, addition: &mut Addition) {
        let is_told = self.told.contains(&GivenKind::PlanMode) && !is_forgotten;
        if plans && !is_told {
            addition.add_one(GivenKind::PlanMode, planning::IN_PLAN.to_owned());
        } else if self.is_planning && !plans && session.policy().mode != PermissionMode::Plan {
            addition.add_one(GivenKind::PlanModeOver, planning::OVER.to_owned());
        }
    }

    /// Instructions in the folders of files that were touched.
    fn further_down(
        &mut self,
        instructions: &Instructions,
        workspace: &Path,
        files: &dyn Files,
        addition: &mut Addition,
    ) {
        let mut folders = BTreeSet::new();
        let touched = std::mem::take(&mut self.touched);
        for path in &touched {
            let within = path.ancestors().skip(1).take_while(|dir| dir.starts_with(workspace) && *dir != workspace);
            folders.extend(within.map(Path::to_path_buf));
        }
        let folders: Vec<PathBuf> = folders.into_iter().filter(|dir| self.searched.insert(dir.clone())).collect();
        if !touched.is_empty() {
            // What is said in this very step is not yet heard of.
            let used = self.instruction_bytes + addition.items.iter().map(|item| item.bytes).sum::<usize>();
            let looked_for = (&folders[..], &touched[..], &mut self.rules);
            let pieces = instructions.further_down(looked_for, workspace, files, (&self.given, used));
            addition.instructions(&pieces, FURTHER_DOWN);
        }
    }

    /// Less of the budget is left than the model may think.
    fn budget_near(&self, session: &State, now_ms: TimeMs, addition: &mut Addition) {
        if self.told.contains(&GivenKind::BudgetNear) {
            return;
        }
        let (budget, used) = (session.policy().budget, session.used());
        let is_near =
            |used: u64, most: u64| used.saturating_mul(100) >= most.saturating_mul(BUDGET_NEARLY_SPENT_PERCENT);
        let mut spent = Vec::new();
        if let Some(most) = budget.tokens.filter(|most| is_near(used.turn.tokens, *most)) {
            spent.push(format!("{} of {most} tokens", used.turn.tokens));
        }
        let cost = used.turn.cost_micros.unwrap_or(0);
        if let Some(most) = budget.cost_micros.filter(|most| is_near(cost, *most)) {
            spent.push(format!("${} of ${}", dollars(cost), dollars(most)));
        }
        let of_session = used.session.cost_micros.unwrap_or(0);
        if let Some(most) = budget.session_cost_micros.filter(|most| is_near(of_session, *most)) {
            spent.push(format!("${} of ${} for the session", dollars(of_session), dollars(most)));
        }
        let time = session.time_used_ms(now_ms);
        if let Some(most) = budget.wall_clock_ms.filter(|most| is_near(time, *most)) {
            spent.push(format!("{} of {} seconds", time / 1000, most / 1000));
        }
        if !spent.is_empty() {
            let text = format!(
                "The budget of this turn is nearly spent: {}. Finish what matters most, and leave the work in a state \
                 that holds.",
                spent.join(", ")
            );
            addition.add_one(GivenKind::BudgetNear, text);
        }
    }

    /// Few steps are left.
    fn steps_near(&self, session: &State, addition: &mut Addition) {
        // The step that this is said with has not begun.
        let (policy, Some(left)) = (session.policy(), session.steps_left()) else { return };
        let is_long = policy.steps.max.is_some_and(|most| most > 2 * STEPS_NEARLY_SPENT);
        if is_long && left <= STEPS_NEARLY_SPENT && !self.told.contains(&GivenKind::StepsNear) {
            let last = match policy.steps.last {
                LastStep::WrapUp => " On the last one there are no tools.",
                LastStep::Plain => "",
            };
            let text = format!("{left} steps of this turn are left, this one included.{last}");
            addition.add_one(GivenKind::StepsNear, text);
        }
    }
}

/// Commands and subagents in the background that are over, of which the model does not know it.
fn ended_tasks(session: &State, addition: &mut Addition) {
    for task in session.tasks().untold() {
        let Some(outcome) = &task.outcome else { continue };
        let what = if task.subagent.is_some() { "subagent" } else { "command" };
        let text = format!("The background {what} {} is over: {}\n{}", task.id, outcome.title, outcome.text.trim_end());
        addition.add_one(GivenKind::TaskEnded, text);
    }
}

/// Files that are not as the model saw them last.
fn changed_files(changes: &[ExternalChange], workspace: &Path, addition: &mut Addition) {
    if changes.is_empty() {
        return;
    }
    let mut lines: Vec<String> = changes
        .iter()
        .take(MOST_NAMED)
        .map(|change| {
            let gone = if change.hash.is_none() { " (gone)" } else { "" };
            format!("- {}{gone}", files::shown(&change.path, workspace))
        })
        .collect();
    if let Some(more) = changes.len().checked_sub(MOST_NAMED).filter(|more| *more > 0) {
        lines.push(format!("- and {more} more"));
    }
    let text = format!(
        "These files have changed on the disk since you last saw them, by a command or by somebody else. Read them again \
         before you rely on what they hold:\n{}",
        lines.join("\n")
    );
    let tokens = estimate(&text) / changes.len() as u64;
    addition.items.extend(changes.iter().map(|change| Given {
        path: Some(change.path.to_string_lossy().into_owned()),
        hash: change.hash.clone(),
        ..Given::new(GivenKind::FileChanged, tokens)
    }));
    addition.texts.push(text);
}

impl Addition {
    fn add(&mut self, text: String, item: Given) {
        self.texts.push(text);
        self.items.push(item);
    }

    pub(crate) fn add_one(&mut self, kind: GivenKind, text: String) {
        let item = Given::of(kind, &text);
        self.add(text, item);
    }

    fn instructions(&mut self, pieces: &[Piece], opening: &str) {
        self.texts.extend(instructions_note(pieces, opening));
        self.items.extend(pieces.iter().map(Piece::given));
    }

    /// What the model reads, as parts of a message.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Part> + use<'_> {
        self.texts.iter().map(|text| Part::note(text.clone()))
    }

    /// What the model reads, behind a note that stands there already.
    pub(crate) fn behind(&self, note: Option<String>) -> Option<String> {
        let texts: Vec<String> = self.texts.iter().cloned().chain(note).collect();
        (!texts.is_empty()).then(|| texts.join("\n\n"))
    }
}

/// Restores what the model knows of files from what is on record, so that a resumed session may edit what the session
/// before had read, and is told of no change twice.
pub(crate) fn remember_files(event: &Event, ledger: &FileLedger) {
    match event {
        Event::CallSettled { outcome, .. } => {
            for file in outcome.files() {
                match file.hash {
                    Some(hash) => ledger.restore(Path::new(file.path), hash),
                    None if file.is_gone => ledger.removed(Path::new(file.path)),
                    None => {}
                }
            }
        }
        Event::ContextGiven { items } => items.iter().for_each(|item| remember_given(item, ledger)),
        _ => {}
    }
}

/// The same of what was just put before the model.
pub(crate) fn remember_given(item: &Given, ledger: &FileLedger) {
    let Some(path) = item.path.as_deref().map(Path::new) else { return };
    match (item.kind, item.hash.as_deref()) {
        (GivenKind::FileChanged, hash) => ledger.told(path, hash),
        (_, Some(hash)) => ledger.restore(path, hash),
        (_, None) => {}
    }
}

#[cfg(test)]
mod tests;
