//! What the commands do that begin with `/`.

use super::{About, Chat, Done, review};
use crate::failure::{Context, Result};
use crate::out::{print, view};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use piton_core::branch::{self, TurnSpan};
use piton_core::client::{Compact, Plan, Prompt, Request, Scope};
use piton_core::configure::{BUILD, Configure};
use piton_core::effort::Effort;
use piton_core::event::{Direction, Event, Record};
use piton_core::permission::PermissionMode;
use piton_engine::agents::Agent;
use piton_engine::assemble::entries::State;
use piton_engine::assemble::scope::Scope as Place;
use piton_engine::assemble::{self, agents, commands, skills};
use piton_engine::context::NAMES;
use piton_tui::commands::Command;
use piton_tui::face::Input;
use piton_tui::picker::{Item, Purpose};
use piton_tui::review::Source;
use piton_tui::rewind::{Changed, Turn};
use std::collections::BTreeMap;
use std::io::Write;

/// Marks a model that cannot be asked yet.
const NO_KEY: &str = "✗ no key";
/// Turns of which it is counted what they changed, the newest.
const MOST_COUNTED: usize = 200;

impl Chat<'_> {
    pub(super) async fn command(&mut self, name: &str, words: &str) {
        match name {
            "model" if words.is_empty() => self.pick_model().await,
            "model" => self.model(words).await,
            "agent" if words.is_empty() => self.pick_agent(),
            "agent" => self.agent(words).await,
            "effort" => self.effort(words).await,
            "mode" => self.mode_named(words).await,
            "resume" if words.is_empty() => self.pick_session(),
            "resume" => self.resume(words).await,
            "new" | "clear" => self.renew().await,
            "fork" => self.ask_open(Request::Fork { at: None }, About::Else),
            "name" => self.ask_open(Request::Rename { title: words.to_owned() }, About::Else),
            "rewind" => self.pick_turn().await,
            "undo" => self.plan_turns(Direction::Undo, words),
            "redo" => self.plan_turns(Direction::Redo, words),
            "compact" => {
                let focus = Some(words.to_owned()).filter(|words| !words.is_empty());
                self.ask_open(Request::Compact(Compact::about(focus)), About::Else);
            }
            "continue" => self.ask_open(Request::GoOn {}, About::Else),
            "diff" => match Source::of_words(words) {
                Some(source) => self.review(source).await,
                None => self.note("/diff, /diff turn, /diff turn 2, /diff from 2, /diff git"),
            },
            "sessions" => self.pick_session(),
            "config" | "settings" if words.is_empty() => self.pick_setting(),
            "config" | "settings" => self.set(words).await,
            "hooks" => self.hooks().await,
            "theme" if words.is_empty() => self.pick_theme(),
            "theme" => self.use_theme(words).await,
            "trust" => self.trust(),
            "note" => self.note_in_instructions(words),
            "export" => self.export(words).await,
            _ => {
                if !self.page(name, words).await {
                    self.own_command(name, words).await;
                }
            }
        }
    }

    /// Asks the open session; where none is, that is said.
    fn ask_open(&mut self, request: Request, about: About) {
        match self.open {
            Some(_) => self.ask(request, about),
            None => self.note("there is no session yet: it begins with your first words"),
        }
    }

    async fn effort(&mut self, words: &str) {
        let Ok(effort) = words.parse::<Effort>() else {
            return self.note(format!("efforts: {}", Effort::NAMES.join(", ")));
        };
        if self.open.is_some() {
            let changed = Configure { effort: Some(effort), ..Configure::default() };
            return self.ask(Request::Configure(changed), About::Else);
        }
        self.wishes.had.effort = Some(effort);
        if self.assemble().await {
            self.note(format!("effort {words}"));
        }
    }

    /// Where agents, skills and commands are looked for.
    fn scope(&self) -> Result<Place> {
        Ok(assemble::scope(&self.around.machine, self.folder(), &self.wishes)?)
    }

    /// The agents that can run the session.
    fn pick_agent(&mut self) {
        let found = self.scope().and_then(|scope| Ok(agents::look(&scope)?));
        let found = match found.context("the agents cannot be looked up") {
            Ok(found) => found,
            Err(error) => return self.fail(&error),
        };
        let now = if self.facts.agent.is_empty() { BUILD } else { &self.facts.agent };
        let in_force = found.into_iter().filter(|found| found.state == State::InForce);
        let agents = in_force.filter_map(|found| Some(found.read.ok()?.agent)).filter(|agent| agent.is_primary);
        let item = |agent: Agent| Item {
            detail: if agent.name == now { format!("(now) {}", agent.description) } else { agent.description },
            label: agent.name.clone(),
            value: agent.name,
        };
        let items = agents.map(item).collect();
        let title = "Have the session run by".to_owned();
        self.terminal.tell(Input::Choose { purpose: Purpose::Agent, title, items });
    }

    pub(super) async fn agent(&mut self, name: &str) {
        if self.open.is_some() {
            let changed = Configure { agent: Some(name.to_owned()), ..Configure::default() };
            return self.ask(Request::Configure(changed), About::Else);
        }
        let known = self.settings.as_ref().map(|settings| settings.agents.of_session(name));
        if let Some(Err(why)) = known {
            return self.warn(why);
        }
        self.wishes.forget_agent();
        self.wishes.had.agent = Some(name.to_owned());
        if self.assemble().await {
            self.note(format!("agent {name}"));
        }
    }

    async fn mode_named(&mut self, words: &str) {
        match words.parse::<PermissionMode>() {
            Ok(mode) => self.mode(mode).await,
            Err(_) => self.note("modes: ask, accept-edits, plan, auto (Shift-Tab goes through them)"),
        }
    }

    /// A command that the repository or the user has written.
    async fn own_command(&mut self, name: &str, words: &str) {
        // It takes no session to see that there is none.
        let scope = match self.scope() {
            Ok(scope) => scope,
            Err(error) => return self.fail(&error.context("the commands cannot be looked up")),
        };
        match commands::is_there(name, &scope, &self.wishes.mcp_config) {
            Ok(()) => self.say(Prompt { command: Some(name.to_owned()), ..Prompt::new(words) }).await,
            Err(error) => self.warn(format!("/{name}: {error}")),
        }
    }

    /// The commands of the repository's and the user's, for the palette.
    pub(super) fn offer_commands(&self) {
        // Where they cannot be looked up, saying one tells why.
        let Ok(scope) = self.scope() else { return };
        let all = commands::look(&scope).unwrap_or_default();
        let offered = all.into_iter().filter_map(|found| {
            let command = found.read.as_ref().ok()?;
            let does = match found.state {
                State::InForce => command.description.clone(),
                State::Untrusted => format!("(not trusted yet: piton trust) {}", command.description),
                State::Shadowed | State::Broken => return None,
            };
            let folder = found.at.as_ref()?.folder.parent()?.file_name()?.to_string_lossy().into_owned();
            Some(Command { name: command.name.clone(), takes: command.hint.clone(), does, from: view::clean(&folder) })
        });
        let mut offered: Vec<Command> = offered.collect();
        let all = skills::look(&scope).unwrap_or_default();
        offered.extend(all.into_iter().filter(|found| found.state == State::InForce).filter_map(|found| {
            let skill = found.read.ok()?.skill;
            let (name, does) = (skill.name().to_owned(), skill.given.description.clone());
            let takes = skill.argument_hint.unwrap_or_default();
            skill.is_for_people.then(|| Command { name, takes, does, from: "skill".to_owned() })
        }));
        self.terminal.tell(Input::Commands(offered));
    }

    async fn resume(&mut self, words: &str) {
        match crate::commands::sessions::find::find(self.engine, self.around, words) {
            Ok(id) => self.switch(id).await,
            Err(error) => self.fail(&error),
        }
    }

    async fn pick_model(&mut self) {
        self.note("asking which models there are …");
        let listed = self.printed(&["models", "--all", "--json"]).await;
        let item = |line: &str| {
            let line: serde_json::Value = serde_json::from_str(line).ok()?;
            let name = line["model"].as_str()?.to_owned();
            let window = line["window_tokens"].as_u64().map(|tokens| format!("{}k tokens", tokens / 1000));
            let is_missing = line["key_missing"].as_bool() == Some(true);
            let mark = is_missing.then(|| NO_KEY.to_owned());
            let login =
                is_missing.then(|| format!("piton auth login {}", line["provider"].as_str().unwrap_or_default()));
            let key = line["key"].as_str().map(|key| format!("key from {key}"));
            let price = price(&line["known"]["price"]);
            let has_key = key.is_some();
            let detail = [mark, window, price, key, login].into_iter().flatten().collect::<Vec<_>>().join(" · ");
            Some(((is_missing, !has_key), Item { label: name.clone(), detail, value: name }))
        };
        let mut items: Vec<((bool, bool), Item)> = listed.lines().filter_map(item).collect();
        // Models with a key come first, those that need one last.
        items.sort_by_key(|(place, _)| *place);
        let items: Vec<Item> = items.into_iter().map(|(_, item)| item).collect();
        if items.is_empty() {
            return self.warn("no provider with a key and no local server answered; /doctor says more");
        }
        self.terminal.tell(Input::Choose { purpose: Purpose::Model, title: "Ask".to_owned(), items });
    }

    /// The turns that can be gone back to, the newest first.
    async fn pick_turn(&mut self) {
        let Some(open) = &self.open else { return self.note("there is no turn yet") };
        let records = match open.session.records().await {
            Ok(records) => records,
            Err(error) => return self.warn(error.to_string()),
        };
        let turns = turns(&records);
        if turns.is_empty() {
            return self.note("there is no turn to go back to");
        }
        self.terminal.tell(Input::Rewind(turns.clone()));
        // What each changed takes the snapshots around it, and is there a little later.
        let mut spans = branch::turns(&records);
        spans.drain(..spans.len().saturating_sub(MOST_COUNTED));
        let (engine, folder) = (self.engine.clone(), self.folder().to_owned());
        let counting = tokio::task::spawn_blocking(move || review::counted(&engine, &folder, &spans));
        self.asked.push(Box::pin(async move {
            let counted: BTreeMap<u32, Changed> = counting.await.unwrap_or_default().into_iter().collect();
            let with = |turn: Turn| Turn { changed: counted.get(&turn.turn).copied(), ..turn };
            Done::Counted(turns.into_iter().map(with).collect())
        }));
    }

    /// What becomes of files that somebody changed since was chosen.
    pub(super) fn rewind_to(&mut self, value: &str) {
        match value.split_once(':') {
            None => {}
            Some(("drop", _)) => {}
            Some((how, plan)) => {
                let Ok(mut plan) = serde_json::from_str::<Plan>(plan) else { return };
                plan.rewind.overwrite = how == "overwrite";
                self.put_back_prompts(&plan);
                self.ask(Request::Rewind { rewind: plan.rewind }, About::Else);
            }
        }
    }

    /// Takes turns back, or brings them back, as far as nobody changed files since.
    pub(super) fn plan(&mut self, direction: Direction, turns: u32, scope: Scope) {
        self.ask_open(Request::Plan { direction, turns, scope }, About::Plan);
    }

    fn plan_turns(&mut self, direction: Direction, turns: &str) {
        let turns = if turns.trim().is_empty() { Ok(1) } else { turns.trim().parse() };
        match turns {
            Ok(turns) if turns > 0 => self.plan(direction, turns, Scope::Both),
            _ => self.note("how many turns? /undo 2"),
        }
    }

    /// What a rewind would do is known: it is done, unless somebody changed files since.
    pub(super) fn planned(&mut self, plan: Plan) {
        if plan.is_unsaved {
            self.warn(view::UNSAVED);
        }
        let mut conflicts = plan.conflicts();
        conflicts.extend(plan.doubtful.iter().cloned());
        if conflicts.is_empty() {
            self.put_back_prompts(&plan);
            return self.ask(Request::Rewind { rewind: plan.rewind }, About::Else);
        }
        let names: Vec<String> = conflicts.iter().map(|path| view::path(path)).collect();
        self.warn(format!("changed since, by you or another program: {}", names.join(", ")));
        let Ok(coded) = serde_json::to_string(&plan) else { return };
        let item = |label: &str, detail: &str, value: String| Item {
            label: label.to_owned(),
            detail: detail.to_owned(),
            value,
        };
        let items = vec![
            item("cancel", "", "drop:".to_owned()),
            item("undo the other files", "these files stay as they are", format!("keep:{coded}")),
            item("undo these too", "your edits in them are lost", format!("overwrite:{coded}")),
        ];
        let title = "Some files were changed since".to_owned();
        self.terminal.tell(Input::Choose { purpose: Purpose::Rewind, title, items });
    }

    /// The first prompt that is taken back is there to be said otherwise.
    fn put_back_prompts(&self, plan: &Plan) {
        if plan.rewind.direction == Direction::Undo
            && plan.rewind.to.is_some()
            && let Some(first) = plan.prompts.first()
        {
            self.terminal.tell(Input::PutBack(first.clone()));
        }
    }

    /// A line for the instructions of this folder.
    fn note_in_instructions(&mut self, words: &str) {
        if words.is_empty() {
            return;
        }
        // Of several files of a folder the first counts: another one would switch off what is there.
        let there = NAMES.iter().find(|name| self.folder().join(name).is_file());
        let name = there.unwrap_or(&NAMES[0]);
        let path = self.folder().join(name);
        let written = (|| {
            let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&path)?;
            let is_mid_line = std::fs::read(&path)?.last().is_some_and(|byte| *byte != b'\n');
            file.write_all(format!("{}- {words}\n", if is_mid_line { "\n" } else { "" }).as_bytes())
        })();
        match written.with_context(|| format!("cannot write to {}", path.display())) {
            Ok(()) => {
                self.note(format!("noted in {}/{name}: it counts from the next session on", self.folder_short()));
            }
            Err(error) => self.fail(&error),
        }
    }

    async fn export(&mut self, words: &str) {
        let Some(id) = self.place.resumed().cloned() else { return self.note("there is nothing to export yet") };
        let file = if words.is_empty() { format!("{}.md", print::short_id(id.as_str())) } else { words.to_owned() };
        let path = self.folder().join(&file);
        let path = path.to_string_lossy().into_owned();
        let told = self.printed(&["session", "export", id.as_str(), "--output", &path]).await;
        self.note(if told.trim().is_empty() { format!("written to {file}") } else { told });
    }

    /// A command of the person's own. It may be the first thing of a session.
    pub(super) async fn shell(&mut self, command: String, keep_from_model: bool) {
        let words = format!("{}{command}", if keep_from_model { "!!" } else { "!" });
        if self.open.is_none()
            && let Err(error) = self.open().await
        {
            self.fail(&error);
            return self.terminal.tell(Input::PutBack(words));
        }
        self.ask(Request::Shell { command, keep_from_model, terminal: true }, About::Shell(words));
    }
}

/// Every turn, those that were taken back too, without what each changed.
fn turns(records: &[Record]) -> Vec<Turn> {
    let spans = branch::turns(records);
    let mut ahead = u32::try_from(spans.iter().filter(|span| span.on_path).count()).unwrap_or(u32::MAX);
    let mut turn = |span: TurnSpan| {
        let back = span.on_path.then_some(ahead);
        ahead = ahead.saturating_sub(u32::from(span.on_path));
        Turn {
            turn: span.turn,
            follows: span.follows,
            at: began(records, &span),
            changed: None,
            cost_micros: cost_of(records, &span),
            back,
            prompt: span.prompt,
        }
    };
    spans.into_iter().map(&mut turn).collect()
}

/// The time of day at which a turn began.
fn began(records: &[Record], span: &TurnSpan) -> String {
    let index = usize::try_from(span.started).unwrap_or(usize::MAX).wrapping_sub(1);
    let at_ms = records.get(index).and_then(|record| i64::try_from(record.at_ms).ok());
    let at = at_ms.and_then(|ms| Timestamp::from_millisecond(ms).ok()).unwrap_or_default();
    at.to_zoned(TimeZone::system()).strftime("%H:%M").to_string()
}

fn cost_of(records: &[Record], span: &TurnSpan) -> u64 {
    let within = records.iter().filter(|record| span.started <= record.seq && record.seq <= span.last);
    let spent = within.filter_map(|record| match &record.event {
        Event::TurnEnded { spent, .. } => spent.cost_micros,
        _ => None,
    });
    spent.sum()
}

/// What a model costs for a million tokens that it reads and writes.
fn price(known: &serde_json::Value) -> Option<String> {
    let (input, output) = (known["input"].as_f64()?, known["output"].as_f64()?);
    Some(format!("${input} / ${output} a million"))
}
