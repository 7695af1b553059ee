//! Draws a running turn: prose on standard output as it comes, one line per tool call on standard error, and on a
//! terminal a line that shows what is being waited for.

mod given;

pub(crate) use crate::out::print::{
    clean, cut, first_line, indent, output_was_lost, plural, shorten, thousands, width, write_stderr, write_stdout,
};

use crate::out::report;
use anstyle::{AnsiColor, Style};
use piton_core::call::{Outcome, Status};
use piton_core::client::{CheckRun, Live, Published, Report};
use piton_core::event::{Direction, Event, Record, Subject, Trigger};
use piton_core::hook::{HookEnd, HookRun};
use piton_core::ids::CallId;
use piton_core::message::{Part, ToolCall};
use piton_core::model::Delta;
use piton_engine::export::story;
use std::collections::HashMap;
use std::io::IsTerminal;
use std::time::Instant;

const DIM: Style = Style::new().dimmed();
const BOLD: Style = Style::new().bold();
const GREEN: Style = AnsiColor::Green.on_default();
const RED: Style = AnsiColor::Red.on_default();
const YELLOW: Style = AnsiColor::Yellow.on_default();
const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
/// Lines of a failed command's output that are shown.
const TAIL_LINES: usize = 4;
/// What a miss of the cache must cost in a run, in millionths of a dollar, for the run to tell of it: five cents.
pub(crate) const MISS_WORTH_TELLING_MICROS: u64 = 50_000;

/// The text view of one run.
pub(crate) struct TextView {
    quiet: bool,
    animate: bool,
    /// Whether the cursor stands behind prose that did not end its line.
    mid_line: bool,
    /// Whether the last thing shown was a line beside the prose.
    after_aside: bool,
    /// Prose of the attempt that streams: nobody may read it twice when the attempt fails.
    shown_chars: usize,
    calls: HashMap<CallId, ToolCall>,
    /// Who is asked, once a turn has begun.
    model: String,
    /// Whether prose is shown as it comes; otherwise when its message is complete, so that nothing is shown in vain.
    streams: bool,
    /// Whether the beginning of the message that streams was missed.
    midway: bool,
    waiting_for: Option<(String, Instant)>,
    /// Why no room was made, as long as the turn may still end with just that: then its end says so.
    untold: Option<String>,
    /// Whether it was said in this step that a summary is asked for.
    told_of_summary: bool,
    spoke: bool,
    /// Characters of what can be taken away again: the waiting line, or a prompt.
    drawn: usize,
    /// Notices about undo that were shown.
    noticed: Vec<String>,
    frame: usize,
    /// What misses of the provider's cache cost so far, in millionths of a dollar.
    lost_micros: u64,
}

impl TextView {
    /// A view; `animate` only where standard error is a terminal.
    pub(crate) fn new(quiet: bool, animate: bool) -> Self {
        Self {
            quiet,
            animate: animate && !quiet,
            mid_line: false,
            after_aside: false,
            shown_chars: 0,
            calls: HashMap::new(),
            model: String::new(),
            streams: std::io::stdout().is_terminal(),
            midway: false,
            waiting_for: None,
            untold: None,
            told_of_summary: false,
            spoke: false,
            drawn: 0,
            noticed: Vec::new(),
            frame: 0,
            lost_micros: 0,
        }
    }

    /// Shows one thing that happened.
    pub(crate) fn show(&mut self, published: &Published) {
        match published {
            Published::Live(live) => self.show_live(live),
            Published::Recorded(record) => self.show_record(record),
        }
    }

    /// Takes notice of what happened before, without showing it.
    pub(crate) fn remember(&mut self, event: &Event) {
        match event {
            Event::MessageFinished { reply, .. } => self.note_calls(&reply.parts),
            Event::TurnStarted { model, .. }
            | Event::TurnResumed { model, .. }
            | Event::ModelSwitched { model, .. } => self.model.clone_from(model),
            _ => {}
        }
    }

    /// What is shown begins in the middle of things: the message under way is shown when it is complete.
    pub(crate) fn begin_midway(&mut self) {
        self.midway = true;
    }

    /// Shows what somebody said in the session who does not sit here.
    pub(crate) fn user_said(&mut self, parts: &[Part]) {
        let text = piton_core::message::prose(parts);
        self.aside(&format!("{BOLD}»{BOLD:#} {}", first_line(text.trim())));
    }

    /// Moves the waiting line on. Called ten times a second on a terminal.
    pub(crate) fn tick(&mut self) {
        let Some((what, since)) = self.waiting_for.clone() else { return };
        let waited = since.elapsed();
        if !self.animate || self.mid_line || waited.as_millis() < 300 {
            return;
        }
        self.frame = (self.frame + 1) % FRAMES.len();
        let text = format!("{} {what} ({} s)", FRAMES[self.frame], waited.as_secs());
        // It must fit on one line of the terminal as wide as it is now, or it could not be drawn over.
        let text: String = text.chars().take(columns().saturating_sub(1)).collect();
        let line = format!("\r\x1b[K{DIM}{text}{DIM:#}");
        write_stderr(&line);
        self.drawn = text.chars().count();
    }

    /// The last line: what the turn came to.
    pub(crate) fn summary(&mut self, report: &Report, session: &str) {
        self.clear();
        self.end_line();
        if self.quiet {
            return;
        }
        self.after_aside = true;
        self.set_off();
        let spent = &report.spent;
        let usage = &spent.usage;
        let cost = match (spent.cost_micros.unwrap_or(0), spent.unpriced_calls) {
            (0, 0) => String::new(),
            (_, unpriced) => format!(" · {}", report::cost(spent.cost_micros, unpriced)),
        };
        let cached = match usage.cache_read_tokens {
            0 => String::new(),
            read => format!(" ({} cached)", thousands(read)),
        };
        if report.turn == 0 {
            // A turn that did not begin: nobody was asked.
            return write_stderr(&format!("{DIM}no model was asked · {session}{DIM:#}\n"));
        }
        let undo = if report.changed_files { " · take it back: piton undo" } else { "" };
        let line = format!(
            "{DIM}{} · {} · {}{cost} · {:.1} s · {session}{undo}{DIM:#}\n",
            clean(&self.model),
            plural(u64::from(spent.steps), "step"),
            report::tokens(usage, &cached, spent.steps > 0),
            spent.duration_ms as f64 / 1000.0,
        );
        write_stderr(&line);
    }

    /// Whether misses of the provider's cache cost enough to tell of it.
    pub(crate) fn has_missed_the_cache(&self) -> bool {
        !self.quiet && self.lost_micros >= MISS_WORTH_TELLING_MICROS
    }

    /// A line for people, beside the answer.
    pub(crate) fn note(&mut self, line: &str) {
        self.clear();
        self.end_line();
        self.spoke = true;
        write_stderr(&format!("{line}\n"));
    }

    /// The call behind a question.
    pub(crate) fn call(&self, subject: &Subject) -> Option<&ToolCall> {
        let (Subject::Call(id) | Subject::GoOn(id)) = subject;
        self.calls.get(id)
    }

    /// Whether anything was shown since this was asked last.
    pub(crate) fn has_spoken(&mut self) -> bool {
        std::mem::take(&mut self.spoke)
    }

    /// Shows a prompt that whatever comes next may take away again.
    pub(crate) fn prompt(&mut self, text: &str) {
        self.clear();
        write_stderr(text);
        (self.drawn, self.spoke) = (text.chars().count(), false);
    }

    /// Nothing has to be taken away: the user has ended the line.
    pub(crate) fn line_was_ended(&mut self) {
        self.drawn = 0;
    }

    /// Takes the waiting line or the prompt away, all rows of it.
    pub(crate) fn clear(&mut self) {
        let drawn = std::mem::take(&mut self.drawn);
        if drawn > 0 {
            let above = (drawn - 1) / columns();
            write_stderr(&format!("\r\x1b[K{}", "\x1b[A\x1b[K".repeat(above)));
        }
    }

    fn show_live(&mut self, live: &Live) {
        if let Live::ModelDelta { .. } = live {
            self.tell_untold();
        }
        match live {
            Live::ModelDelta { delta: Delta::Text { text }, .. } if self.streams && !self.midway => self.prose(text),
            Live::ModelDelta { delta: Delta::CallBegan { name, .. }, .. } => {
                self.wait_for(format!("{} is writing a call of {name}", "the model"));
            }
            Live::ModelDelta { .. } | Live::ToolOutput { .. } => {}
            Live::ModelSilent { .. } => self.told(live),
            Live::SummaryAsked { .. } => {
                self.tell_untold();
                if !std::mem::replace(&mut self.told_of_summary, true) {
                    self.aside(&format!("{DIM}asking for a summary…{DIM:#}"));
                }
                self.wait_for("asking for a summary".to_owned());
            }
            // What comes next says whether that matters.
            Live::SummaryFailed { retry_ms: None, .. } => self.untold = trouble(live),
            Live::SummaryFailed { .. } => self.told(live),
            Live::Paused { paused: true } => {
                self.aside(&format!("{YELLOW}paused: what runs is finished first{YELLOW:#}"));
            }
            Live::Paused { paused: false } => self.aside("going on"),
            // The run ends with this error, and says so.
            Live::Broken { .. } => self.waiting_for = None,
        }
    }

    fn told(&mut self, live: &Live) {
        if let Some(words) = trouble(live) {
            self.aside(&format!("{YELLOW}{words}{YELLOW:#}"));
        }
    }

    /// It goes on: what went wrong before that is worth a line of its own.
    fn tell_untold(&mut self) {
        if let Some(words) = self.untold.take() {
            self.aside(&format!("{YELLOW}{words}{YELLOW:#}"));
        }
    }

    fn show_record(&mut self, record: &Record) {
        match &record.event {
            Event::TurnStarted { model, .. } | Event::TurnResumed { model, .. } => {
                self.model.clone_from(model);
            }
            Event::StepStarted { .. } => {
                (self.shown_chars, self.midway) = (0, false);
                self.wait_for("waiting for the model".to_owned());
            }
            Event::MessageFinished { reply, prompt, .. } => {
                self.tell_untold();
                self.told_of_summary = false;
                self.lost_micros += prompt.as_ref().and_then(|prompt| prompt.lost_micros).unwrap_or(0);
                self.finish_message(&reply.parts);
                reply.warnings.iter().for_each(|warning| self.aside(&format!("{DIM}{}{DIM:#}", clean(warning))));
            }
            Event::ModelFailed { error, retry_at_ms: Some(at_ms), abandoned, attempt, .. } => {
                let wait_ms = at_ms.saturating_sub(record.at_ms);
                self.failed_attempt(&error.message, *attempt, wait_ms, abandoned);
            }
            Event::ModelFailed { .. } => self.shown_chars = 0,
            Event::ModelSwitched { model, reason, .. } => {
                self.untold = None;
                let line = format!("{} gave no reply ({reason}); asking {model}", self.model);
                self.aside(&format!("{YELLOW}{}{YELLOW:#}", clean(&line)));
                self.model.clone_from(model);
                self.wait_for("waiting for the model".to_owned());
            }
            Event::BackoffPassed { .. } => self.wait_for("waiting for the model".to_owned()),
            Event::ContextGiven { items } => given::lines(items).iter().for_each(|line| {
                self.aside(&format!("{DIM}{}{DIM:#}", clean(line)));
            }),
            Event::SnapshotTaken { notices, .. } => self.show_notices(notices),
            Event::CallStarted { call } => {
                let what = self.calls.get(call).map(|call| format!("{} {}", call.name, gist(call)));
                what.into_iter().for_each(|what| self.wait_for(what));
            }
            Event::CallSettled { call, outcome } => self.settled(call, outcome),
            Event::HooksRan { runs, .. } => runs.iter().for_each(|run| self.hook_ran(run)),
            event @ (Event::RewindAbandoned { .. } | Event::RewindFinished { .. }) => {
                let line = finished_late(event).or_else(|| given_up(event));
                line.into_iter().for_each(|line| self.aside(&format!("{YELLOW}{line}{YELLOW:#}")));
            }
            Event::CompactionStarted { .. } => {
                self.untold = None;
                self.wait_for("making room in the context".to_owned());
            }
            event @ (Event::ContextPruned { .. }
            | Event::CompactionFinished { .. }
            | Event::CompactionFailed { .. }) => self.made_room(event),
            Event::TurnEnded { .. } => self.waiting_for = None,
            Event::SessionStarted { .. }
            | Event::WriterOpened { .. }
            | Event::WriterClosed {}
            | Event::UserSpoke { .. }
            | Event::MessageCut { .. }
            | Event::CallRequested { .. }
            | Event::ApprovalAsked { .. }
            | Event::ApprovalGiven { .. }
            | Event::StepFinished { .. }
            | Event::WindowLearned { .. }
            | Event::RewindStarted { .. }
            | Event::CancelRequested { .. }
            | Event::DeadlinePassed {}
            | Event::BudgetShort { .. }
            | Event::TitleGiven { .. }
            | Event::WorkspaceMoved { .. }
            | Event::EventLost {} => {}
        }
    }

    /// What came of making room.
    fn made_room(&mut self, event: &Event) {
        let (how, before, after) = match event {
            Event::ContextPruned { calls, to_bytes, tokens_before, tokens_after, .. } => {
                let outputs = plural(calls.len() as u64, if to_bytes.is_some() { "output" } else { "old output" });
                let did = if to_bytes.is_some() { "cut" } else { "cleared" };
                (format!("{outputs} {did}"), *tokens_before, *tokens_after)
            }
            Event::CompactionFinished { tokens_before, tokens_after, .. } => {
                ("older messages summed up".to_owned(), *tokens_before, *tokens_after)
            }
            // The turn ends with it, or another model is asked, and either says why.
            Event::CompactionFailed { trigger: Trigger::Forced, .. } => {
                (self.untold, self.waiting_for) = (None, None);
                return;
            }
            Event::CompactionFailed { error, .. } => {
                let kept = "nothing is lost, and it goes on with the conversation as it is";
                self.untold = Some(format!("no summary was made: {}; {kept}", clean(error)));
                return self.wait_for("waiting for the model".to_owned());
            }
            _ => return,
        };
        self.tell_untold();
        let tokens = format!("about {} tokens instead of {}", thousands(after), thousands(before));
        self.aside(&format!("{DIM}made room in the context: {how}, {tokens}{DIM:#}"));
        self.wait_for("waiting for the model".to_owned());
    }

    /// Prose as it comes. Quiet runs show the last answer only, at its end.
    fn prose(&mut self, text: &str) {
        if self.quiet || text.is_empty() {
            return;
        }
        self.clear();
        self.set_off();
        self.shown_chars += text.chars().count();
        write_stdout(&clean(text));
        self.spoke = true;
        self.mid_line = !text.ends_with('\n');
        self.waiting_for = None;
    }

    fn finish_message(&mut self, parts: &[Part]) {
        if self.shown_chars == 0 && !self.quiet {
            // Nobody watches, or the provider does not stream.
            self.prose(&piton_core::message::prose(parts));
        }
        self.end_line();
        self.note_calls(parts);
    }

    fn note_calls(&mut self, parts: &[Part]) {
        for part in parts {
            if let Part::ToolCall(call) = part {
                self.calls.insert(call.id.clone(), call.clone());
            }
        }
    }

    fn failed_attempt(&mut self, why: &str, attempt: u32, wait_ms: u64, abandoned: &[Part]) {
        let lost = if abandoned.is_empty() || self.shown_chars == 0 { "" } else { " (the text above is abandoned)" };
        self.shown_chars = 0;
        let seconds = wait_ms as f64 / 1000.0;
        let why = clean(why);
        self.aside(&format!("{YELLOW}{why}{lost}; retry {attempt} in {seconds:.1} s{YELLOW:#}"));
        self.wait_for("waiting to try again".to_owned());
    }

    /// A check with how it went, and of other hooks what went wrong, what they changed, and what they say.
    fn hook_ran(&mut self, run: &HookRun) {
        let name = clean(&run.hook);
        let did = clean(&run.did.join(", "));
        let detail = run.detail.as_deref().map(clean).unwrap_or_default();
        let detail = first_line(&detail);
        if let Some(check) = run.evidence.as_ref().and_then(CheckRun::of) {
            let (mark, style) = if check.passed { ('✓', GREEN) } else { ('✗', RED) };
            let seconds = check.duration_ms as f64 / 1000.0;
            self.aside(&format!("{style}{mark}{style:#} {BOLD}{name}{BOLD:#} {detail} ({seconds:.1} s)"));
            if !check.passed {
                self.tail(&check.output);
            }
            return;
        }
        let (style, words) = match (run.end, did.is_empty(), detail.is_empty()) {
            (HookEnd::Ok, true, true) => return,
            (HookEnd::Ok, false, true) => (DIM, did),
            (HookEnd::Ok, true, false) => (DIM, detail),
            (HookEnd::Ok, false, false) => (DIM, format!("{did}: {detail}")),
            (HookEnd::Failed, ..) => (YELLOW, format!("failed: {}", clean(run.detail.as_deref().unwrap_or_default()))),
            (HookEnd::TimedOut | HookEnd::Panicked, ..) => (YELLOW, clean(run.detail.as_deref().unwrap_or_default())),
        };
        self.aside(&format!("{style}hook {name}: {words}{style:#}"));
    }

    /// What undo will not cover. The same is said once.
    fn show_notices(&mut self, notices: &[String]) {
        /// More would be in the way.
        const MOST: usize = 3;
        let new: Vec<String> = notices.iter().filter(|notice| !self.noticed.contains(notice)).cloned().collect();
        if new.is_empty() {
            return;
        }
        let more = new.len().saturating_sub(MOST);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        let first: Vec<String> = new.iter().take(MOST).map(|notice| clean(notice)).collect();
        self.aside(&format!("{DIM}for undo: {}{more}{DIM:#}", first.join("; ")));
        self.noticed.extend(new);
    }

    fn settled(&mut self, id: &CallId, outcome: &Outcome) {
        let Some(call) = self.calls.get(id).cloned() else { return };
        let (mark, style) = match outcome.status {
            Status::Ok => ('✓', GREEN),
            Status::Failed | Status::TimedOut | Status::Denied => ('✗', RED),
            Status::Cancelled | Status::Interrupted | Status::NotStarted => ('–', YELLOW),
        };
        let title = outcome.title.strip_prefix(&call.name).unwrap_or(&outcome.title).trim();
        let what = if title.is_empty() { gist(&call) } else { clean(title) };
        // A title says how it went.
        let why = match outcome.title.as_str() {
            "" if outcome.status != Status::Ok => format!(" {DIM}{}{DIM:#}", first_line(&outcome.text)),
            _ => String::new(),
        };
        self.aside(&format!("{style}{mark}{style:#} {BOLD}{}{BOLD:#} {what}{why}", call.name));
        // What was not run has printed nothing.
        if call.name == "bash" && outcome.status == Status::Failed && !outcome.title.is_empty() {
            self.tail(&outcome.text);
        }
    }

    /// The end of a failed command's output: mostly, that is where it says why.
    fn tail(&mut self, output: &str) {
        // Its exit code is in the line above.
        let tells = |line: &&str| !line.trim().is_empty() && !line.starts_with("exit code ");
        let lines: Vec<&str> = output.lines().filter(tells).collect();
        for line in &lines[lines.len().saturating_sub(TAIL_LINES)..] {
            self.aside(&format!("  {DIM}│ {}{DIM:#}", shorten(line)));
        }
    }

    /// A line beside the prose.
    fn aside(&mut self, line: &str) {
        if !self.quiet {
            self.note(line);
            self.after_aside = true;
        }
    }

    /// An empty line between such lines and prose, where somebody looks at both.
    fn set_off(&mut self) {
        if std::mem::take(&mut self.after_aside) && self.animate {
            write_stderr("\n");
        }
    }

    fn wait_for(&mut self, what: String) {
        self.waiting_for = Some((what, Instant::now()));
    }

    fn end_line(&mut self) {
        if std::mem::take(&mut self.mid_line) {
            write_stdout("\n");
        }
    }
}

/// Columns of the terminal behind standard error.
fn columns() -> usize {
    const USUAL: usize = 80;
    width(std::io::stderr()).unwrap_or(USUAL).max(2)
}

/// What a call is about, in one line.
pub(crate) fn gist(call: &ToolCall) -> String {
    shorten(&story::telling(call))
}

/// What became of an undo that was cut off and cannot be finished, and what to do about it.
pub(crate) fn given_up(event: &Event) -> Option<String> {
    let Event::RewindAbandoned { rewind, error, touches } = event else { return None };
    let again = match rewind.direction {
        Direction::Undo => {
            "`piton undo` tries again, once its snapshots can be used; `piton undo --chat-only` takes back the words alone"
        }
        Direction::Redo => "`piton redo` tries again, once its snapshots can be used",
    };
    let what = story::not_rewound(rewind, error, touches);
    Some(clean(&format!("{what}. Look at them, and put right by hand what is wrong; {again}")))
}

/// That turns went back or came back before anything else, in words.
pub(crate) fn finished_late(event: &Event) -> Option<String> {
    let Event::RewindFinished { rewind, left, .. } = event else { return None };
    let (what, done, opposite) = match rewind.direction {
        Direction::Undo => ("undo", "taken back", "redo"),
        Direction::Redo => ("redo", "brought back", "undo"),
    };
    let turns = plural(u64::from(rewind.turns), "turn");
    let left = match left.len() {
        0 => String::new(),
        some => format!(", but for {}", plural(some as u64, "file")),
    };
    Some(format!("{turns} {done}{left}, by the {what} that was begun before; `piton {opposite}` reverses it"))
}

/// What keeps a model's answer waiting, in words.
pub(crate) fn trouble(live: &Live) -> Option<String> {
    Some(match live {
        // The same with less, or with calls forbidden.
        Live::SummaryFailed { retry_ms: Some(0), .. } => return None,
        Live::ModelSilent { silent_ms, .. } => format!("the model has been silent for {} s", silent_ms / 1000),
        Live::SummaryFailed { attempt, error, retry_ms: Some(ms), .. } => {
            format!("{}; retry {attempt} in {:.1} s", clean(error), *ms as f64 / 1000.0)
        }
        Live::SummaryFailed { model, error, retry_ms: None, .. } => {
            format!("{}; {} gives no summary", clean(error), clean(model))
        }
        _ => return None,
    })
}

/// A unified diff with its lines in colour.
pub(crate) fn colour_diff(diff: &str) -> String {
    let colour = |line: &str| match line.as_bytes().first() {
        Some(b'+') => format!("{GREEN}{line}{GREEN:#}"),
        Some(b'-') => format!("{RED}{line}{RED:#}"),
        Some(b'@') => format!("{DIM}{line}{DIM:#}"),
        _ => line.to_owned(),
    };
    diff.lines().map(colour).collect::<Vec<_>>().join("\n")
}
