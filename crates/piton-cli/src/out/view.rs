//! Draws a running turn: prose on standard output as it comes, one line per tool call on standard error, and on a
//! terminal a line that shows what is being waited for. It draws what changes in the [`Story`]; of fragments that are no
//! part of that (silence, a pause) it says a word of its own.

mod given;
mod screen;
#[cfg(test)]
mod tests;

pub(crate) use crate::out::print::{
    clean, cut, first_line, folded, indent, output_was_lost, path, plural, shorten, thousands, width, write_stderr,
    write_stdout,
};

use crate::out::report;
use crate::out::server_news::ServerNews;
use crate::surroundings::Surroundings;
use anstyle::{AnsiColor, Style};
use imara_diff::{Algorithm, BasicLineDiffPrinter, Diff, InternedInput, UnifiedDiffConfig};
use piton_core::call::{CallKind, Outcome, Status};
use piton_core::client::{CheckRun, Compacted, Live, Published, Report, ServerNow};
use piton_core::event::{Direction, Event, GivenKind, Record, Rewind, Touched, Trigger};
use piton_core::hook::{HookEnd, HookRun};
use piton_core::message::Part;
use piton_core::policy::{Policy, SandboxMode};
use piton_core::story::{
    Block, BlockId, Body, CallBlock, CallStage, Change, CompactionBlock, CompactionEnd, Field, ModelBlock, ModelState,
    RewindState, Story, WordsState,
};
use piton_core::task::over;
use piton_core::todo::{TodoItem, TodoStatus};
use piton_engine::export::words;
use screen::Screen;
use std::collections::HashMap;
use std::io::IsTerminal;
use std::path::Path;
use std::time::Instant;

const DIM: Style = Style::new().dimmed();
const BOLD: Style = Style::new().bold();
const GREEN: Style = AnsiColor::Green.on_default();
const RED: Style = AnsiColor::Red.on_default();
const YELLOW: Style = AnsiColor::Yellow.on_default();
const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
/// Lines of a failed command's output that are shown.
const TAIL_LINES: usize = 4;
/// What a person waits for before the first change.
const SNAPSHOT: &str = "taking a snapshot for undo";
/// Characters of a command in the waiting line, where there is output to show beside it.
const MOST_OF_GIST: usize = 32;
/// Bytes of a line without an end that are kept.
const MOST_OF_LINE: usize = 4096;
/// What a miss of the cache must cost in a run, in millionths of a dollar, for the run to tell of it: five cents.
pub(crate) const MISS_WORTH_TELLING_MICROS: u64 = 50_000;

/// How a run is drawn. The default is for a pipe.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Look {
    /// Only the answer.
    pub(crate) quiet: bool,
    /// What commands print, too, as it comes.
    pub(crate) verbose: bool,
    /// Whether lines on standard error may be drawn over.
    pub(crate) animates: bool,
    /// Whether the session is the newest of the folder that the person is in.
    pub(crate) is_newest: bool,
    /// Whether prose on standard output is drawn as Markdown.
    pub(crate) renders: bool,
}

impl Look {
    /// As the terminal allows it, if there is one.
    pub(crate) fn of(around: &Surroundings) -> Self {
        Self { animates: around.may_animate(), renders: around.may_render(), ..Self::default() }
    }
}

/// What a running command has printed.
#[derive(Debug, Default)]
struct Printed {
    /// The line that is not over.
    line: String,
    /// Whether anything of it was shown.
    is_shown: bool,
}

/// The text view of one run.
pub(crate) struct TextView {
    look: Look,
    story: Box<Story>,
    screen: Screen,
    /// Whether the last thing shown was a line beside the prose.
    after_aside: bool,
    /// Prose of the attempt that streams: nobody may read it twice when the attempt fails.
    shown_chars: usize,
    /// Words of the finished reply, until those that were not shown as they came are.
    unshown: String,
    /// Whether prose is shown as it comes. Where it is all that is printed, and nobody watches, it is shown when its message
    /// is complete: a program then reads no words of a try that failed.
    streams: bool,
    waiting_for: Option<(String, Instant)>,
    /// What running commands print, and the newest line of it.
    printed: HashMap<BlockId, Printed>,
    newest_line: String,
    /// Why no room was made, as long as the turn may still end with just that: then its end says so.
    untold: Option<String>,
    /// Whether it was said in this step that a summary is asked for.
    told_of_summary: bool,
    /// MCP servers of which something was said.
    server_news: ServerNews,
    spoke: bool,
    /// Notices about undo that were shown.
    noticed: Vec<String>,
    frame: usize,
    is_introduced: bool,
    /// What misses of the provider's cache cost so far, in millionths of a dollar.
    lost_micros: u64,
    /// Whether a call was refused that a person alone can allow.
    refused_asked_each_time: bool,
}

impl TextView {
    /// A view that looks like this.
    pub(crate) fn new(look: Look) -> Self {
        let animates = look.animates && !look.quiet;
        Self {
            look: Look { animates, ..look },
            story: Box::default(),
            screen: if look.renders { Screen::of_pages(animates) } else { Screen::default() },
            after_aside: false,
            shown_chars: 0,
            unshown: String::new(),
            streams: !look.quiet || std::io::stdout().is_terminal(),
            waiting_for: None,
            printed: HashMap::new(),
            newest_line: String::new(),
            untold: None,
            told_of_summary: false,
            server_news: ServerNews::default(),
            spoke: false,
            noticed: Vec::new(),
            frame: 0,
            is_introduced: false,
            lost_micros: 0,
            refused_asked_each_time: false,
        }
    }

    /// Shows one thing that happened.
    pub(crate) fn hear(&mut self, published: &Published) {
        self.draw(published);
        self.screen.flush();
    }

    /// Takes notice of what happened before, without showing it.
    pub(crate) fn remember(&mut self, record: &Record) {
        let changes = self.story.record(record);
        self.forget_what_is_over(&changes);
    }

    /// Shows what somebody said in the session who does not sit here.
    pub(crate) fn user_said(&mut self, parts: &[Part]) {
        let text = piton_core::message::prose(parts);
        self.aside(&format!("{BOLD}»{BOLD:#} {}", first_line(text.trim())));
        self.screen.flush();
    }

    /// Moves the waiting line on. Called ten times a second on a terminal.
    pub(crate) fn tick(&mut self) {
        let Some((what, since)) = self.waiting_for.clone() else { return };
        let waited = since.elapsed();
        if !self.look.animates || self.screen.is_mid_line() || waited.as_millis() < 300 {
            return;
        }
        self.frame = (self.frame + 1) % FRAMES.len();
        let (what, line) = match self.newest_line.as_str() {
            "" => (what, String::new()),
            line => (cut(what, MOST_OF_GIST), format!("  {line}")),
        };
        self.screen.wait(&format!("{} {what} ({} s){line}", FRAMES[self.frame], waited.as_secs()));
        self.screen.flush();
    }

    /// The last line: what the turn came to; where nothing else is shown, what the model said.
    pub(crate) fn summary(&mut self, report: &Report, session: &str) {
        self.screen.end_line();
        if self.look.quiet && !report.text.is_empty() {
            self.screen.prose(report.text.trim_end());
            self.screen.end_prose();
        }
        if !self.look.quiet {
            self.after_aside = true;
            self.set_off();
            let line = self.summed_up(report, session);
            let line = width(std::io::stderr()).map_or_else(|| line.clone(), |columns| folded(&line, columns));
            self.screen.line(&format!("{DIM}{line}{DIM:#}"));
        }
        self.screen.flush();
    }

    fn summed_up(&self, report: &Report, session: &str) -> String {
        let spent = &report.spent;
        let usage = &spent.usage;
        if report.turn == 0 {
            // A turn that did not begin: nobody was asked.
            return format!("no model was asked · {session}");
        }
        let cost = match (spent.cost_micros.unwrap_or(0), spent.unpriced_calls) {
            (0, 0) => String::new(),
            (_, unpriced) => format!(" · {}", report::cost(spent.cost_micros, unpriced)),
        };
        let cached = match usage.cache_read_tokens {
            0 => String::new(),
            read => format!(" ({} cached)", thousands(read)),
        };
        let undo = if report.changed_files { " · undo with: piton undo" } else { "" };
        format!(
            "{} · {} · {}{cost} · {:.1} s · {session}{undo}",
            clean(&self.story.session().model),
            plural(u64::from(spent.steps), "step"),
            report::tokens(usage, &cached, spent.steps > 0),
            spent.duration_ms as f64 / 1000.0,
        )
    }

    /// Shows the summary that a person asked for.
    pub(crate) fn compacted_as_asked(&mut self, made: &Compacted) {
        self.screen.end_line();
        self.screen.prose(made.summary.trim());
        self.screen.end_prose();
        self.screen.flush();
    }

    /// Whether misses of the provider's cache cost enough to tell of it.
    pub(crate) fn has_missed_the_cache(&self) -> bool {
        !self.look.quiet && self.lost_micros >= MISS_WORTH_TELLING_MICROS
    }

    /// Whether a call was refused that a person alone can allow.
    pub(crate) fn has_refused_what_is_asked_each_time(&self) -> bool {
        self.refused_asked_each_time
    }

    /// Whether the session is the newest of the folder that the person is in.
    pub(crate) fn is_of_newest(&self) -> bool {
        self.look.is_newest
    }

    /// A line for people, beside the answer.
    pub(crate) fn note(&mut self, line: &str) {
        self.tell(line);
        self.screen.flush();
    }

    /// Whether anything was shown since the last prompt.
    pub(crate) fn has_spoken(&self) -> bool {
        self.spoke
    }

    /// Shows a prompt that whatever comes next may take away again.
    pub(crate) fn prompt(&mut self, text: &str) {
        self.screen.prompt(text);
        self.spoke = false;
        self.screen.flush();
    }

    /// Nothing has to be taken away: the user has ended the line.
    pub(crate) fn line_was_ended(&mut self) {
        self.screen.line_was_ended();
    }

    /// Takes the waiting line or the prompt away, all rows of it.
    pub(crate) fn clear(&mut self) {
        self.screen.clear();
        self.screen.flush();
    }

    /// Once, before anything else is shown: who is asked, what holds its commands, and what is asked about.
    fn introduce(&mut self, model: &str, policy: &Policy) {
        if !self.look.animates || std::mem::replace(&mut self.is_introduced, true) {
            return;
        }
        let sandbox = match (policy.sandbox, policy.sandbox_backend.as_deref()) {
            (SandboxMode::Off, _) => "commands unconfined: no sandbox".to_owned(),
            (mode, Some("landlock")) => format!("sandbox {} (Landlock alone)", mode.word()),
            (mode, _) => format!("sandbox {}", mode.word()),
        };
        self.aside(&format!("{DIM}{} · {sandbox} · mode {}{DIM:#}", clean(model), policy.mode));
    }

    fn draw(&mut self, published: &Published) {
        if let Published::Live(live) = published {
            self.show_live(live);
        }
        if let Published::Recorded(record) = published
            && let Event::TurnStarted { model, policy, .. } = &record.event
        {
            self.introduce(model, policy);
        }
        let changes = self.story.hear(published);
        // What streams is told from its beginning when fragments of it were missed.
        let mut again = if let Published::Now(_) = published { self.shown_chars } else { 0 };
        for change in &changes {
            match change {
                Change::Put(block) if !block.taken_back => self.show(block),
                Change::Grow { id, field: Field::Text, text } if self.streams => {
                    if let Some(Body::Words { .. }) = self.story.block(id).map(|block| &block.body) {
                        let (at, _) = text.char_indices().nth(again).unwrap_or((text.len(), ' '));
                        again -= text[..at].chars().count();
                        self.prose(&text[at..]);
                    }
                }
                Change::Grow { id, field: Field::Output, text } => self.prints(id, text),
                Change::Drop(BlockId::User(_)) => self.aside(&format!("{DIM}a queued message was taken back{DIM:#}")),
                Change::Put(_) | Change::Grow { .. } | Change::Drop(_) => {}
            }
        }
        self.forget_what_is_over(&changes);
    }

    /// What was drawn stays on the screen; nothing here looks back to it.
    fn forget_what_is_over(&mut self, changes: &[Change]) {
        let ends = |change: &Change| match change {
            Change::Put(block) => matches!(block.body, Body::TurnEnd { .. } | Body::Rewind { .. }),
            Change::Grow { .. } | Change::Drop(_) => false,
        };
        if changes.iter().any(ends) {
            self.story.forget();
        }
    }

    /// What keeps a reply waiting, and is on no record.
    fn show_live(&mut self, live: &Live) {
        match live {
            Live::ModelDelta { .. } => self.tell_untold(),
            Live::ToolOutput { .. } => {}
            Live::ModelSilent { .. } => self.told(live),
            Live::SubagentsAwaited { subagents } => {
                let line = format!("waiting for {} in the background", plural(*subagents as u64, "subagent"));
                self.aside(&format!("{DIM}{line}…{DIM:#}"));
            }
            Live::SnapshotSlow {} => {
                self.aside(&format!("{DIM}{SNAPSHOT}…{DIM:#}"));
                self.wait_for(SNAPSHOT);
            }
            Live::SummaryAsked { .. } => {
                self.tell_untold();
                if !std::mem::replace(&mut self.told_of_summary, true) {
                    self.aside(&format!("{DIM}asking for a summary…{DIM:#}"));
                }
                self.wait_for("asking for a summary");
            }
            // What comes next says whether that matters.
            Live::SummaryFailed { retry_ms: None, .. } => self.untold = trouble(live),
            Live::SummaryFailed { .. } => self.told(live),
            Live::Paused { paused: true } => {
                self.aside(&format!("{YELLOW}paused: running calls finish first{YELLOW:#}"));
            }
            Live::Paused { paused: false } => self.aside("continued"),
            Live::Servers { servers } => self.show_servers(servers),
            // The run ends with this error, and says so.
            Live::Broken { .. } => self.waiting_for = None,
            _ => {}
        }
    }

    fn show_servers(&mut self, servers: &[ServerNow]) {
        for line in self.server_news.lines(servers) {
            self.aside(&format!("{YELLOW}{line}{YELLOW:#}"));
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

    fn show(&mut self, block: &Block) {
        match &block.body {
            Body::Step { finished: false, .. } => {
                self.shown_chars = 0;
                self.unshown.clear();
            }
            Body::Words { text, state: WordsState::Whole } => self.unshown.push_str(text),
            Body::Model(model) => self.show_model(model),
            Body::Call(call) => self.show_call(call),
            // What the words refer to and the model does not get changes the answer.
            Body::Given { items } if self.look.quiet => {
                let missing = items.iter().filter(|item| item.kind == GivenKind::Reference);
                missing.filter_map(|item| item.notice.as_ref()).for_each(|notice| self.tell(&clean(notice)));
            }
            Body::Given { items } => {
                given::lines(items).iter().for_each(|line| self.aside(&format!("{DIM}{}{DIM:#}", clean(line))));
            }
            Body::Snapshot { notices, .. } => {
                self.waiting_for.take_if(|(what, _)| what == SNAPSHOT);
                self.show_notices(notices);
            }
            Body::Hooks { runs, .. } => runs.iter().for_each(|run| self.hook_ran(run)),
            Body::Switched { from, model, reason } => {
                self.untold = None;
                let line = clean(&format!("{from} gave no reply ({reason}); asking {model}"));
                self.aside(&format!("{YELLOW}{line}{YELLOW:#}"));
            }
            Body::Todo { items } => self.show_todos(items),
            Body::Configured { changed, at_once, .. } => {
                let line = clean(&changed.with_when(*at_once));
                self.aside(&format!("{DIM}{line}{DIM:#}"));
            }
            Body::TaskEnd { task, outcome } => {
                let line = first_line(&over(task, outcome, "is over"));
                self.aside(&format!("{DIM}{line}{DIM:#}"));
                self.undone(outcome);
            }
            Body::Rewind { rewind, state } => {
                let line = match state {
                    RewindState::Started => return,
                    RewindState::Finished { left } => finished_late(rewind, left),
                    RewindState::Abandoned { error, touches } => given_up(rewind, error, touches),
                };
                self.aside(&format!("{YELLOW}{line}{YELLOW:#}"));
            }
            Body::Pruned { calls, to_bytes, tokens, .. } => {
                let outputs = plural(*calls as u64, if to_bytes.is_some() { "output" } else { "old output" });
                let did = if to_bytes.is_some() { "cut" } else { "cleared" };
                self.made_room(&format!("{outputs} {did}"), *tokens);
            }
            Body::Compaction(compaction) => self.compacted(compaction),
            Body::TurnEnd { .. } => self.waiting_for = None,
            Body::Session(_)
            | Body::User { .. }
            | Body::Note { .. }
            | Body::Turn { .. }
            | Body::Step { .. }
            | Body::Words { .. }
            | Body::Thought { .. }
            | Body::Question { .. }
            | Body::Title { .. }
            | Body::Moved { .. }
            | Body::Lost { .. }
            | Body::Stopping { .. } => {}
        }
    }

    /// What is open and what was just finished: of a long list, not all.
    fn show_todos(&mut self, items: &[TodoItem]) {
        /// More would push the work off the screen.
        const MOST: usize = 12;
        let first_open = items.iter().position(|item| item.status.is_open()).unwrap_or(items.len());
        let skipped = if items.len() > MOST { first_open.saturating_sub(1).min(items.len() - MOST) } else { 0 };
        if skipped > 0 {
            self.aside(&format!("{DIM}  … {skipped} above are done{DIM:#}"));
        }
        for item in items.iter().skip(skipped).take(MOST) {
            let line = clean(&item.to_string());
            match item.status {
                TodoStatus::InProgress => self.aside(&format!("  {line}")),
                _ => self.aside(&format!("{DIM}  {line}{DIM:#}")),
            }
        }
        if let Some(more) = items.len().checked_sub(skipped + MOST).filter(|more| *more > 0) {
            self.aside(&format!("{DIM}  … and {more} more{DIM:#}"));
        }
    }

    fn show_model(&mut self, model: &ModelBlock) {
        match &model.state {
            ModelState::Asked => self.wait_for("waiting for the model"),
            ModelState::Replied { warnings, .. } => {
                self.tell_untold();
                self.told_of_summary = false;
                self.lost_micros += model.prompt.as_ref().and_then(|prompt| prompt.lost_micros).unwrap_or(0);
                let words = std::mem::take(&mut self.unshown);
                // Nobody watches, the provider does not stream, or the end of what streamed was not told.
                if let Some((at, _)) = words.char_indices().nth(self.shown_chars) {
                    self.prose(&words[at..]);
                }
                self.screen.end_prose();
                warnings.iter().for_each(|warning| self.aside(&format!("{DIM}{}{DIM:#}", clean(warning))));
            }
            ModelState::Failed { error, retry_at_ms: Some(at_ms), waited_to_ms: None } => {
                let lost = if self.shown_chars == 0 { "" } else { " (the text above is abandoned)" };
                self.screen.end_block();
                let seconds = at_ms.saturating_sub(model.answered_ms) as f64 / 1000.0;
                let why = clean(&error.message);
                self.aside(&format!("{YELLOW}{why}{lost}; retry {} in {seconds:.1} s{YELLOW:#}", model.attempt));
                self.shown_chars = 0;
                self.wait_for("waiting to try again");
            }
            ModelState::Failed { .. } => {
                self.screen.end_block();
                self.shown_chars = 0;
            }
            ModelState::Cut => self.screen.end_block(),
        }
    }

    fn show_call(&mut self, call: &CallBlock) {
        match &call.stage {
            CallStage::Writing(_) => {
                self.screen.end_block();
                self.wait_for(&format!("the model is writing a call of {}", call.tool));
            }
            CallStage::Ready => {}
            CallStage::Running(_) => self.wait_for(&format!("{} {}", call.name(), gist(&call.about))),
            CallStage::Settled(_) => self.settled(call),
        }
    }

    /// What a command prints while it runs: its newest line where something is waited for, all of it where that is wanted.
    fn prints(&mut self, id: &BlockId, text: &str) {
        let printed = self.printed.entry(id.clone()).or_default();
        printed.line.push_str(text);
        let whole = printed.line.rfind('\n').map(|end| printed.line.drain(..=end).collect::<String>());
        if let Some(most) = printed.line.len().checked_sub(MOST_OF_LINE) {
            let from = printed.line.ceil_char_boundary(most);
            printed.line.drain(..from);
        }
        let whole = whole.unwrap_or_default();
        printed.is_shown |= self.look.verbose && !whole.is_empty();
        let newest =
            [printed.line.as_str()].into_iter().chain(whole.lines().rev()).find(|line| !line.trim().is_empty());
        if let Some(line) = newest {
            self.newest_line = shorten(line.trim());
        }
        if self.look.verbose {
            self.lines_of_output(&whole);
        }
    }

    fn lines_of_output(&mut self, text: &str) {
        text.lines().for_each(|line| self.aside(&format!("  {DIM}│ {}{DIM:#}", clean(line))));
    }

    /// What came of a compaction.
    fn compacted(&mut self, compaction: &CompactionBlock) {
        match &compaction.end {
            None => {
                self.untold = None;
                self.wait_for("making room in the context");
            }
            Some(CompactionEnd::Summary { tokens, .. }) => self.made_room("older messages summed up", *tokens),
            // What was shortened has said so.
            Some(CompactionEnd::Pruned) => {}
            // The turn ends with it, or another model is asked, and either says why.
            Some(CompactionEnd::Failed { .. }) if compaction.trigger == Trigger::Forced => {
                (self.untold, self.waiting_for) = (None, None);
            }
            Some(CompactionEnd::Failed { error }) => {
                let kept = "nothing is lost; the conversation stays as it is";
                self.untold = Some(format!("no summary was made: {}; {kept}", clean(error)));
                self.wait_for("waiting for the model");
            }
        }
    }

    fn made_room(&mut self, how: &str, (before, after): (u64, u64)) {
        self.tell_untold();
        let tokens = format!("about {} tokens instead of {}", thousands(after), thousands(before));
        self.aside(&format!("{DIM}made room in the context: {how}, {tokens}{DIM:#}"));
        self.wait_for("waiting for the model");
    }

    /// Prose as it comes. Quiet runs show the last answer only, at its end.
    fn prose(&mut self, text: &str) {
        if self.look.quiet || text.is_empty() {
            return;
        }
        self.screen.clear();
        self.set_off();
        self.shown_chars += text.chars().count();
        self.screen.prose(text);
        self.spoke = true;
        self.waiting_for = None;
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
                self.tail(&check.output, None);
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
        self.aside(&format!("{DIM}{}{more}{DIM:#}", first.join("; ")));
        self.noticed.extend(new);
    }

    fn settled(&mut self, call: &CallBlock) {
        let Some(outcome) = call.outcome() else { return };
        let (mark, style) = match outcome.status {
            Status::Ok => ('✓', GREEN),
            Status::Failed | Status::TimedOut | Status::Denied => ('✗', RED),
            Status::Cancelled | Status::Interrupted | Status::NotStarted => ('–', YELLOW),
        };
        let title = outcome.title.strip_prefix(&call.tool).unwrap_or(&outcome.title).trim();
        let what = if title.is_empty() { gist(&call.about) } else { clean(title) };
        // A title says how it went.
        let why = match outcome.title.as_str() {
            "" if outcome.status != Status::Ok => {
                let text = outcome.text.strip_prefix(&format!("{}: ", call.tool)).unwrap_or(&outcome.text);
                format!(": {DIM}{}{DIM:#}", first_line(text))
            }
            _ => String::new(),
        };
        self.aside(&format!("{style}{mark}{style:#} {BOLD}{}{BOLD:#} {what}{why}", call.name()));
        self.undone(outcome);
        let is_asked_each_time = call.judged.as_ref().is_some_and(|judged| judged.each_time);
        self.refused_asked_each_time |= is_asked_each_time && outcome.status == Status::Denied;
        let printed = self.printed.remove(&BlockId::Call(call.call.clone())).unwrap_or_default();
        if self.look.verbose && call.kind == CallKind::Execute {
            // What has no end of line; all of it, where nothing came while it ran.
            let rest = if printed.is_shown { &printed.line } else { &outcome.text };
            return self.lines_of_output(rest);
        }
        // What was not run has printed nothing.
        if call.kind == CallKind::Execute && outcome.status == Status::Failed && !outcome.title.is_empty() {
            self.tail(&outcome.text_without_undone(), outcome.exit_line().as_deref());
        }
    }

    /// What the sandbox took away of what was made while a command ran.
    fn undone(&mut self, outcome: &Outcome) {
        outcome.undone().for_each(|said| self.aside(&format!("  {YELLOW}sandbox: {}{YELLOW:#}", clean(said))));
    }

    /// The end of a failed command's output: mostly, that is where it says why.
    fn tail(&mut self, output: &str, exit_line: Option<&str>) {
        // Its exit code is in the line above.
        let tells = |line: &&str| !line.trim().is_empty() && Some(*line) != exit_line;
        let lines: Vec<&str> = output.lines().filter(tells).collect();
        for line in &lines[lines.len().saturating_sub(TAIL_LINES)..] {
            self.aside(&format!("  {DIM}│ {}{DIM:#}", shorten(line)));
        }
    }

    /// A line beside the prose.
    fn aside(&mut self, line: &str) {
        if !self.look.quiet {
            self.tell(line);
            self.after_aside = true;
        }
    }

    fn tell(&mut self, line: &str) {
        self.screen.line(line);
        self.spoke = true;
    }

    /// An empty line between such lines and prose, where somebody looks at both.
    fn set_off(&mut self) {
        if std::mem::take(&mut self.after_aside) && self.look.animates {
            self.screen.line("");
        }
    }

    fn wait_for(&mut self, what: &str) {
        self.waiting_for = Some((what.to_owned(), Instant::now()));
        self.newest_line.clear();
    }
}

/// What a call is about, in one line.
pub(crate) fn gist(about: &str) -> String {
    shorten(about)
}

/// Of an undo whose turns changed files while `undo.snapshots` was off.
pub(crate) const UNSAVED: &str = "no snapshots were taken (undo.snapshots), so changed files stay as they are";

/// What became of an undo that was cut off and cannot be finished, and what to do about it.
pub(crate) fn given_up(rewind: &Rewind, error: &str, touches: &Touched) -> String {
    let again = match rewind.direction {
        Direction::Undo => {
            "`piton undo` tries again, once its snapshots can be used; `piton undo --chat-only` undoes the conversation only"
        }
        Direction::Redo => "`piton redo` tries again, once its snapshots can be used",
    };
    let what = words::not_rewound(rewind, error, touches);
    clean(&format!("{what}. Check them, and fix by hand what is wrong; {again}"))
}

/// That turns went back or came back before anything else, in words, with the files that were left as they are.
pub(crate) fn finished_late(rewind: &Rewind, left: &[String]) -> String {
    /// More are only counted.
    const MOST_NAMED: usize = 5;
    let (what, opposite) = match rewind.direction {
        Direction::Undo => ("undo", "redo"),
        Direction::Redo => ("redo", "undo"),
    };
    let turns = plural(u64::from(rewind.turns), "turn");
    let names: Vec<String> = left.iter().take(MOST_NAMED).map(|path| self::path(Path::new(path))).collect();
    let left = match (left.len(), left.len().saturating_sub(MOST_NAMED)) {
        (0, _) => String::new(),
        (_, 0) => format!(" except {}", names.join(", ")),
        (_, more) => format!(" except {} and {more} more", names.join(", ")),
    };
    format!("finished the interrupted {what} ({turns}){left}; `piton {opposite}` reverses it")
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

/// A unified diff without file names.
pub(crate) fn unified(before: &str, after: &str) -> String {
    let input = InternedInput::new(before, after);
    let mut diff = Diff::compute(Algorithm::Histogram, &input);
    diff.postprocess_lines(&input);
    diff.unified_diff(&BasicLineDiffPrinter(&input.interner), UnifiedDiffConfig::default(), &input).to_string()
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
