//! What the commands do that begin with `/`.

use super::{About, Chat};
use crate::failure::{Context, Result};
use crate::out::{print, view};
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
use piton_engine::store::sqlite::index::Query;
use piton_tui::commands::Command;
use piton_tui::face::Input;
use piton_tui::picker::{Item, Purpose};
use piton_tui::review::Source;
use std::io::Write;

/// Sessions that are offered to go on with.
const MOST_SESSIONS: usize = 200;

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
            "undo" => self.plan(Direction::Undo, words),
            "redo" => self.plan(Direction::Redo, words),
            "compact" => {
                let focus = Some(words.to_owned()).filter(|words| !words.is_empty());
                self.ask_open(Request::Compact(Compact::about(focus)), About::Else);
            }
            "continue" => self.ask_open(Request::GoOn {}, About::Else),
            "diff" => match words {
                "" | "session" => self.review(Source::Session).await,
                "turn" => self.review(Source::Turn).await,
                "git" => self.review(Source::Git).await,
                _ => self.note("/diff, /diff turn, /diff git"),
            },
            "note" => self.note_in_instructions(words),
            "export" => self.export(words).await,
            _ => {
                if !self.page(name).await {
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
        match commands::is_there(name, &scope) {
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

    pub(super) fn pick_session(&mut self) {
        let found = self.sessions();
        match found {
            Ok(items) if items.is_empty() => self.note("there is no other session"),
            Ok(items) => {
                self.terminal.tell(Input::Choose { purpose: Purpose::Session, title: "Go on with".to_owned(), items });
            }
            Err(error) => self.fail(&error),
        }
    }

    fn sessions(&self) -> Result<Vec<Item>> {
        let index = self.engine.index()?;
        let mut query =
            Query { project: Some(self.folder().to_owned()), limit: Some(MOST_SESSIONS), ..Query::default() };
        let mut found = index.select(&query)?;
        if found.is_empty() {
            query.project = None;
            found = index.select(&query)?;
        }
        let this = self.place.resumed();
        let item = |session: piton_engine::store::Summary| Item {
            label: if session.title.is_empty() { "(nothing said)".to_owned() } else { session.title.clone() },
            detail: format!(
                "{} · {} · {}",
                crate::commands::sessions::said::when(session.updated_ms),
                view::plural(session.turns.into(), "turn"),
                session.model.as_deref().unwrap_or("no model")
            ),
            value: session.id.to_string(),
        };
        Ok(found.into_iter().filter(|session| this != Some(&session.id)).map(item).collect())
    }

    async fn resume(&mut self, words: &str) {
        match crate::commands::sessions::find::find(self.engine, self.around, words) {
            Ok(id) => self.switch(id).await,
            Err(error) => self.fail(&error),
        }
    }

    async fn pick_model(&mut self) {
        self.note("asking which models there are …");
        let listed = self.printed(&["models", "--json"]).await;
        let item = |line: &str| {
            let line: serde_json::Value = serde_json::from_str(line).ok()?;
            let name = line["model"].as_str()?.to_owned();
            let window = line["window_tokens"].as_u64().map(|tokens| format!("{}k tokens", tokens / 1000));
            let key = line["key"].as_str().map(|key| format!("key from {key}"));
            let detail = [window, key].into_iter().flatten().collect::<Vec<_>>().join(" · ");
            Some(Item { label: name.clone(), detail, value: name })
        };
        let mut items: Vec<Item> = listed.lines().filter_map(item).collect();
        // Those that can be asked stand first.
        items.sort_by_key(|item| !item.detail.contains("key from"));
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
        let items = turns(&records);
        if items.is_empty() {
            return self.note("there is no turn to go back to");
        }
        let title = "Take back this turn and all behind it, words and files".to_owned();
        self.terminal.tell(Input::Choose { purpose: Purpose::Rewind, title, items });
    }

    /// A turn was chosen, or what becomes of files that somebody changed since.
    pub(super) fn rewind_to(&mut self, value: &str) {
        match value.split_once(':') {
            None => self.plan(Direction::Undo, value),
            Some(("drop", _)) => {}
            Some((how, plan)) => {
                let Ok(mut plan) = serde_json::from_str::<Plan>(plan) else { return };
                plan.rewind.overwrite = how == "overwrite";
                self.put_back_prompts(&plan);
                self.ask(Request::Rewind { rewind: plan.rewind }, About::Else);
            }
        }
    }

    fn plan(&mut self, direction: Direction, turns: &str) {
        let turns = if turns.trim().is_empty() { Ok(1) } else { turns.trim().parse() };
        match turns {
            Ok(turns) if turns > 0 => {
                self.ask_open(Request::Plan { direction, turns, scope: Scope::Both }, About::Plan);
            }
            _ => self.note("how many turns? /undo 2"),
        }
    }

    /// What a rewind would do is known: it is done, unless somebody changed files since.
    pub(super) fn planned(&mut self, plan: Plan) {
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
            item("leave everything as it is", "", "drop:".to_owned()),
            item("take back the rest", "these files stay as they are", format!("keep:{coded}")),
            item("overwrite them, too", "what was changed in them is lost", format!("overwrite:{coded}")),
        ];
        let title = "Some files were changed since".to_owned();
        self.terminal.tell(Input::Choose { purpose: Purpose::Rewind, title, items });
    }

    /// The first prompt that is taken back is there to be said otherwise.
    fn put_back_prompts(&self, plan: &Plan) {
        if plan.rewind.direction == Direction::Undo
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
        let path = self.folder().join("AGENTS.md");
        let written = (|| {
            let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&path)?;
            let is_mid_line = std::fs::read(&path)?.last().is_some_and(|byte| *byte != b'\n');
            file.write_all(format!("{}- {words}\n", if is_mid_line { "\n" } else { "" }).as_bytes())
        })();
        match written.with_context(|| format!("cannot write to {}", path.display())) {
            Ok(()) => {
                self.note(format!("noted in {}/AGENTS.md: it counts from the next session on", self.folder_short()));
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
        self.ask(Request::Shell { command, keep_from_model }, About::Prompt(words));
    }
}

/// A row for each turn that counts: how many turns would be taken back, and what was said.
fn turns(records: &[Record]) -> Vec<Item> {
    let cost_of = |span: &TurnSpan| {
        let within = records.iter().filter(|record| span.started <= record.seq && record.seq <= span.last);
        let spent = within.filter_map(|record| match &record.event {
            Event::TurnEnded { spent, .. } => spent.cost_micros,
            _ => None,
        });
        spent.sum::<u64>()
    };
    let spans = branch::turns(records).into_iter().filter(|span| span.on_path);
    let item = |(number, span): (usize, TurnSpan)| Item {
        label: view::first_line(&span.prompt),
        detail: match cost_of(&span) {
            0 => String::new(),
            cost => format!("${:.4}", cost as f64 / 1e6),
        },
        value: (number + 1).to_string(),
    };
    spans.rev().enumerate().map(item).collect()
}
