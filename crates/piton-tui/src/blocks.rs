//! What each block of a story looks like.

use crate::theme::Theme;
use crate::{diff, markdown, text};
use piton_core::call::{CallKind, NO_OUTPUT, Outcome, Status};
use piton_core::client::CheckRun;
use piton_core::ending::TurnEnd;
use piton_core::event::{Direction, GivenKind, Spent, Trigger};
use piton_core::hook::{HookEnd, HookRun};
use piton_core::ids::{CallId, MessageId};
use piton_core::question::Decision;
use piton_core::story::{
    Block, BlockId, Body, CallBlock, CallStage, Caller, CompactionBlock, CompactionEnd, ModelBlock, ModelState,
    RewindState, WordsState,
};
use piton_core::task::over;
use piton_core::todo::{TodoItem, TodoStatus};
use ratatui_core::style::Style;
use ratatui_core::text::{Line, Span};
use std::borrow::Cow;
use std::sync::Arc;

/// Rows of a change that are shown; all of it is shown by the key for details.
const MOST_DIFF: usize = 40;
/// Lines of a failed command's output that are shown.
const MOST_TAIL: usize = 6;
/// Lines of a running command's output that are shown to whoever started it.
const MOST_LIVE: usize = 8;
/// Lines of its output that stay.
const MOST_PRINTED: usize = 40;
/// Rows of a long message that are shown: the first and the last ones.
const SAID_HEAD: usize = 4;
const SAID_TAIL: usize = 2;
/// A message of more rows is long.
const MOST_SAID: usize = 16;
/// Todos that are shown.
const MOST_TODOS: usize = 12;
/// Bytes of an answer's text in which its last lines are looked for.
const TAIL_BYTES: usize = 16 << 10;

/// How blocks are drawn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sketch<'t> {
    pub(crate) columns: usize,
    pub(crate) theme: &'t Theme,
    /// Whether what is long is folded.
    pub(crate) folds: bool,
    /// The command that gets the person's keys.
    pub(crate) typed_into: Option<&'t CallId>,
}

impl Sketch<'_> {
    /// A block that is final.
    pub(crate) fn block(&self, block: &Block) -> Vec<Line<'static>> {
        let theme = self.theme;
        match &block.body {
            Body::User { text, images, .. } => self.user(text, *images),
            Body::Words { text, .. } => markdown::render(text, self.columns, theme),
            Body::Thought { text, .. } => self.thought(text),
            Body::Call(call) => self.call(call),
            Body::Question { answer: Some(answer), .. } => self.answer(answer),
            Body::Given { items } => {
                let told = items.iter().filter(|item| item.kind == GivenKind::Reference);
                told.filter_map(|item| item.notice.as_deref())
                    .flat_map(|notice| self.aside(notice, theme.dim))
                    .collect()
            }
            Body::Todo { items } => self.todos(items),
            Body::Snapshot { notices, .. } => self.notices(notices),
            Body::TaskEnd { task, outcome } => {
                let mut rows = self.aside(&over(task, outcome, "is over"), theme.dim);
                rows.extend(self.undone(outcome));
                rows
            }
            Body::Hooks { runs, .. } => runs.iter().flat_map(|run| self.hook(run)).collect(),
            Body::Compaction(compaction) => self.compaction(compaction),
            Body::Pruned { calls, tokens: (before, after), .. } => {
                let calls = plural(*calls as u64, "old output");
                self.aside(
                    &format!("made room: {calls} cleared, {} → {} tokens", short(*before), short(*after)),
                    theme.dim,
                )
            }
            Body::Switched { from, model, reason } => {
                self.aside(&format!("{from} gave no reply ({reason}); asking {model}"), theme.warn)
            }
            Body::Model(model) => self.model(model),
            Body::Rewind { rewind, state } => self.rewind(rewind.direction, rewind.turns, state),
            Body::Title { title, .. } if !title.is_empty() => self.aside(&format!("title: {title}"), theme.dim),
            Body::Moved { workspace } => self.aside(&format!("now in {workspace}"), theme.dim),
            // The status line has the mode, and an agent is there by its name.
            Body::Configured { changed, .. }
                if changed.model.is_none()
                    && changed.tools.is_none()
                    && changed.effort.is_none()
                    && (changed.agent.is_none() || changed.mode.is_some()) =>
            {
                Vec::new()
            }
            Body::Configured { changed, .. } => self.aside(&changed.to_string(), theme.dim),
            Body::Lost { events } => self.aside(
                &format!("{} could not be read when it was repaired", plural(*events as u64, "event")),
                theme.warn,
            ),
            Body::TurnEnd { end, detail, spent, .. } => self.turn_end(*end, detail.as_deref(), spent),
            Body::Question { answer: None, .. }
            | Body::Session(_)
            | Body::Note { .. }
            | Body::Turn { .. }
            | Body::Step { .. }
            | Body::Title { .. }
            | Body::Stopping { .. } => Vec::new(),
        }
    }

    /// A block that is under way.
    pub(crate) fn live(&self, block: &Block, spinner: char, now_ms: u64) -> Vec<Line<'static>> {
        let theme = self.theme;
        let since = |from: u64| now_ms.saturating_sub(from) / 1000;
        match &block.body {
            Body::Call(call) => match &call.stage {
                CallStage::Writing(input) => self.writing(call, input, spinner),
                CallStage::Ready => self.row(self.head("●", theme.dim, call)),
                CallStage::Running(output) => {
                    let seconds = call.started_ms.map_or(0, since);
                    let mut behind = vec![Span::styled(format!(" {spinner} {seconds} s"), theme.dim)];
                    if has_terminal(call) {
                        let is_typed = self.typed_into == Some(&call.call);
                        let keys = if is_typed { "your keys go to it" } else { "Ctrl-\\ types into it" };
                        behind.push(Span::styled(format!(" · {keys}"), theme.accent));
                    }
                    // What changes is seen, however long the command is.
                    let room = self.columns.saturating_sub(behind.iter().map(|span| text::width(&span.content)).sum());
                    let head = self.head("●", theme.accent, call);
                    let mut spans = text::fit(&Line::from(head), room.max(self.columns / 3)).spans;
                    spans.extend(behind);
                    if call.caller != Caller::Model || self.typed_into == Some(&call.call) {
                        let mut rows = self.row(spans);
                        rows.extend(self.beside(&last_lines(output, MOST_LIVE)));
                        return rows;
                    }
                    if let Some(line) = last_lines(output, 1).pop() {
                        spans.push(Span::styled(format!("  │ {line}"), theme.dim));
                    }
                    self.row(spans)
                }
                CallStage::Settled(_) => self.call(call),
            },
            Body::Thought { text, .. } => {
                let line = last_lines(text, 1).pop().unwrap_or_default();
                self.row(vec![Span::styled(format!("{spinner} thinking  {line}"), theme.dim)])
            }
            Body::Model(model) => match &model.state {
                ModelState::Asked if model.first_ms.is_none() => {
                    let seconds = since(model.asked_ms);
                    let waited = if seconds > 1 { format!(" {seconds} s") } else { String::new() };
                    self.row(vec![Span::styled(format!("{spinner} waiting for {}{waited}", model.model), theme.dim)])
                }
                ModelState::Failed { error, retry_at_ms: Some(at), .. } => {
                    let left = at.saturating_sub(now_ms).div_ceil(1000);
                    self.row(vec![Span::styled(format!("{spinner} {}; again in {left} s", error.message), theme.warn)])
                }
                _ => Vec::new(),
            },
            Body::Compaction(_) => {
                self.row(vec![Span::styled(format!("{spinner} making room in the context"), theme.dim)])
            }
            Body::Rewind { .. } => self.row(vec![Span::styled(format!("{spinner} bringing files back"), theme.dim)]),
            _ => Vec::new(),
        }
    }

    /// A call whose arguments arrive: what it is about, and the end of a change that grows.
    fn writing(&self, call: &CallBlock, raw: &str, spinner: char) -> Vec<Line<'static>> {
        let theme = self.theme;
        let written = call.written();
        let about = match &written {
            Some(written) if !written.about.is_empty() => first_line(&written.about),
            Some(written) if !written.diff.is_empty() => String::new(),
            _ => raw[raw.ceil_char_boundary(raw.len().saturating_sub(self.columns))..].to_owned(),
        };
        let mut head = vec![
            Span::styled(format!("{spinner} "), theme.accent),
            Span::styled(call.tool.clone(), theme.strong),
            Span::styled(format!(" {about}"), theme.dim),
        ];
        let diff = written.map(|written| written.diff).unwrap_or_default();
        if diff.is_empty() {
            return self.row(head);
        }
        let count = |sign| diff.iter().filter(|line| line.starts_with(sign)).count();
        head.push(Span::styled(format!("  +{}", count('+')), theme.added));
        head.push(Span::styled(format!(" −{}", count('-')), theme.removed));
        let mut rows = self.row(head);
        for line in &diff[diff.len().saturating_sub(MOST_LIVE)..] {
            let (sign, style) = match line.as_bytes().first() {
                Some(b'+') => ("+ ", theme.added),
                Some(b'-') => ("− ", theme.removed),
                _ => ("  ", theme.dim),
            };
            let words = text::without_tabs(line.get(1..).filter(|_| sign != "  ").unwrap_or(line)).into_owned();
            let words = Span::styled(one_line(&words), style);
            rows.push(text::fit(&Line::from(vec![Span::styled(format!("  {sign}"), style), words]), self.columns));
        }
        rows
    }

    /// A block that was under way when the process that ran the session was killed.
    pub(crate) fn interrupted(&self, block: &Block) -> Vec<Line<'static>> {
        let aside = |words: &str| self.row(vec![Span::styled(format!("– {words}"), self.theme.warn)]);
        match &block.body {
            Body::Call(call) => {
                let words = match &call.stage {
                    CallStage::Writing(_) => " · interrupted while the model wrote it",
                    CallStage::Ready => " · not started yet",
                    CallStage::Running(_) => " · interrupted: /continue collects its result",
                    CallStage::Settled(_) => return self.call(call),
                };
                let mut spans = self.head("–", self.theme.warn, call);
                spans.push(Span::styled(words, self.theme.dim));
                self.row(spans)
            }
            Body::Model(model) => aside(&format!("{} was interrupted before it replied", model.model)),
            Body::Compaction(_) => aside("interrupted while making room in the context"),
            Body::Rewind { .. } => aside("interrupted while bringing files back"),
            _ => Vec::new(),
        }
    }

    /// One row, cut to the width.
    fn row(&self, spans: Vec<Span<'static>>) -> Vec<Line<'static>> {
        let clean = |span: Span<'static>| Span::styled(one_line(&span.content), span.style);
        vec![text::fit(&Line::from(spans.into_iter().map(clean).collect::<Vec<_>>()), self.columns)]
    }

    fn aside(&self, words: &str, style: Style) -> Vec<Line<'static>> {
        let line = Line::from(Span::styled(format!("  {}", one_line(words)), style));
        text::wrap(&line, self.columns, 4)
    }

    fn user(&self, words: &str, images: usize) -> Vec<Line<'static>> {
        let mut rows = vec![Line::default()];
        let lines = text::clean_lines(words.trim_end());
        let wrapped = |(number, line): (usize, &String)| {
            let sign = if number == 0 { "› " } else { "  " };
            let line =
                Line::from(vec![Span::styled(sign, self.theme.accent), Span::styled(line.clone(), self.theme.strong)]);
            text::wrap(&line, self.columns, 2)
        };
        if self.folds && is_long(words) {
            let end = lines.len().saturating_sub(SAID_TAIL);
            let head: Vec<_> =
                lines.iter().take(end).enumerate().take(SAID_HEAD).flat_map(wrapped).take(SAID_HEAD).collect();
            let tail: Vec<_> = lines.iter().enumerate().skip(end.max(1)).flat_map(wrapped).collect();
            rows.extend(head);
            let all = plural(lines.len() as u64, "line");
            rows.extend(self.aside(
                &format!("… [{all}, {} characters; Ctrl-O shows all] …", short(words.chars().count() as u64)),
                self.theme.dim,
            ));
            rows.extend(tail.into_iter().rev().take(SAID_TAIL).rev());
        } else {
            rows.extend(lines.iter().enumerate().flat_map(wrapped));
        }
        if images > 0 {
            rows.extend(self.aside(&plural(images as u64, "picture"), self.theme.dim));
        }
        rows
    }

    fn thought(&self, words: &str) -> Vec<Line<'static>> {
        if self.folds {
            let first = words.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
            let first = first.trim_matches(['*', '#', ' ']).to_owned();
            return self.row(vec![Span::styled(format!("∴ {first}"), self.theme.dim)]);
        }
        let lines = text::clean_lines(words.trim());
        let row =
            |line: &String| text::wrap(&Line::from(Span::styled(format!("∴ {line}"), self.theme.dim)), self.columns, 2);
        lines.iter().flat_map(row).collect()
    }

    /// What is said at the end of words that did not come to theirs.
    pub(crate) fn words_end(&self, state: WordsState) -> Vec<Line<'static>> {
        match state {
            WordsState::Abandoned => self.aside("(given up: it is asked again)", self.theme.warn),
            WordsState::Cut => self.aside("(cut off)", self.theme.warn),
            WordsState::Streaming | WordsState::Whole => Vec::new(),
        }
    }

    fn head(&self, sign: &'static str, style: Style, call: &CallBlock) -> Vec<Span<'static>> {
        vec![
            Span::styled(format!("{sign} "), style),
            Span::styled(one_line(call.name()), self.theme.strong),
            Span::raw(format!(" {}", first_line(&call.about))),
        ]
    }

    /// Calls that looked at something, in one line.
    pub(crate) fn looks(&self, looks: &[&Arc<Block>]) -> Vec<Line<'static>> {
        let calls = looks.iter().filter_map(|block| match &block.body {
            Body::Call(call) => Some(call),
            _ => None,
        });
        let mut spans = vec![Span::styled("● ", self.theme.good)];
        for (number, call) in calls.enumerate() {
            if number > 0 {
                spans.push(Span::styled(" · ", self.theme.dim));
            }
            spans.push(Span::styled(one_line(&call.tool), self.theme.strong));
            spans.push(Span::raw(format!(" {}", about(call))));
        }
        text::wrap(&Line::from(spans), self.columns, 2)
    }

    fn call(&self, call: &CallBlock) -> Vec<Line<'static>> {
        let theme = self.theme;
        let Some(outcome) = call.outcome() else { return Vec::new() };
        let (sign, style) = match outcome.status {
            Status::Ok => ("● ", theme.good),
            Status::Failed | Status::TimedOut | Status::Denied => ("✗ ", theme.bad),
            Status::Cancelled | Status::Interrupted | Status::NotStarted => ("– ", theme.warn),
        };
        let mut head = vec![
            Span::styled(sign, style),
            Span::styled(one_line(call.name()), theme.strong),
            Span::raw(format!(" {}", about(call))),
        ];
        let mut rows = Vec::new();
        let diff = call.diff.as_deref().filter(|diff| outcome.status == Status::Ok && !diff.is_empty());
        if let Some(unified) = diff {
            let unified = &*with_hunks(unified);
            let (added, removed) = diff::counts(unified);
            head.push(Span::styled(format!("  +{added}"), theme.added));
            head.push(Span::styled(format!(" −{removed}"), theme.removed));
            let path = call.places.first().map(String::as_str).unwrap_or_default();
            rows = self.folded(diff::lines(unified, path, self.columns, theme));
        }
        // The title of a command says it.
        if outcome.duration_ms >= 1000 && !outcome.title.ends_with(" s)") {
            let seconds = outcome.duration_ms as f64 / 1000.0;
            head.push(Span::styled(format!(" · {seconds:.1} s"), theme.dim));
        }
        if call.caller == Caller::UserAlone {
            head.push(Span::styled(" · kept from the model", theme.dim));
        }
        if call.caller != Caller::Model {
            rows.extend(self.printed(&outcome.text));
        } else if call.kind == CallKind::Execute && outcome.status == Status::Failed {
            rows.extend(self.tail(&outcome.text_without_undone(), outcome.exit_line().as_deref()));
        } else if outcome.status != Status::Ok && outcome.title.is_empty() {
            head.push(Span::styled(format!(": {}", first_line(&outcome.text)), theme.dim));
        }
        rows.insert(0, text::fit(&Line::from(head), self.columns));
        // Who runs a command of their own reads it in the output.
        if call.caller == Caller::Model {
            rows.extend(self.undone(outcome));
        }
        rows
    }

    /// What the sandbox took away of what was made while a command ran.
    fn undone(&self, outcome: &Outcome) -> Vec<Line<'static>> {
        outcome.undone().flat_map(|said| self.aside(&format!("sandbox: {said}"), self.theme.warn)).collect()
    }

    fn folded(&self, mut rows: Vec<Line<'static>>) -> Vec<Line<'static>> {
        let over = rows.len().saturating_sub(MOST_DIFF);
        if self.folds && over > 0 {
            rows.truncate(MOST_DIFF);
            rows.extend(self.aside(&format!("… {} (Ctrl-O)", plural(over as u64, "more line")), self.theme.dim));
        }
        rows
    }

    /// The end of a failed command's output: mostly, that is where it says why.
    fn tail(&self, output: &str, exit_line: Option<&str>) -> Vec<Line<'static>> {
        let mut lines = last_lines(output, MOST_TAIL);
        lines.retain(|line| Some(line.as_str()) != exit_line);
        self.beside(&lines)
    }

    fn beside(&self, lines: &[String]) -> Vec<Line<'static>> {
        let row = |line: &String| {
            let spans = vec![Span::styled("  │ ", self.theme.dim), Span::styled(line.clone(), self.theme.dim)];
            text::fit(&Line::from(spans), self.columns)
        };
        lines.iter().map(row).collect()
    }

    /// What a command of the user's has printed: they wanted to see it. Of what is long, the end.
    fn printed(&self, output: &str) -> Vec<Line<'static>> {
        if output.trim().is_empty() || output.trim() == NO_OUTPUT {
            return Vec::new();
        }
        let lines: Vec<String> = output.trim_end().lines().map(one_line).collect();
        let over = lines.len().saturating_sub(MOST_PRINTED);
        let over = if self.folds { over } else { 0 };
        let mut rows = Vec::new();
        if over > 0 {
            rows.extend(self.aside(&format!("… {} above (Ctrl-O)", plural(over as u64, "more line")), self.theme.dim));
        }
        for line in &lines[over..] {
            let line = Line::from(vec![Span::styled("  │ ", self.theme.dim), Span::raw(line.clone())]);
            rows.extend(text::wrap(&line, self.columns, 4));
        }
        rows
    }

    fn answer(&self, answer: &Decision) -> Vec<Line<'static>> {
        let words = match answer {
            Decision::Approve => return Vec::new(),
            Decision::ApproveForSession => "allowed, and from here on in this session".to_owned(),
            Decision::ApproveLasting(_) => "allowed, and from here on in later sessions, too".to_owned(),
            Decision::ApproveChanged(_) => "allowed with other input".to_owned(),
            Decision::Deny(None) => "not allowed".to_owned(),
            Decision::Deny(Some(words)) => format!("not allowed: {words}"),
            // The outcome of the call says what was answered.
            Decision::Answered(_) => return Vec::new(),
            Decision::Unattended => "nobody was there to answer".to_owned(),
            Decision::Expired => "nobody answered in time".to_owned(),
        };
        self.aside(&words, self.theme.dim)
    }

    pub(crate) fn todos(&self, items: &[TodoItem]) -> Vec<Line<'static>> {
        let first_open = items.iter().position(|item| item.status.is_open()).unwrap_or(items.len());
        let is_long = self.folds && items.len() > MOST_TODOS;
        let skipped = if is_long { first_open.saturating_sub(1).min(items.len() - MOST_TODOS) } else { 0 };
        let most = if is_long { MOST_TODOS } else { items.len() };
        let mut rows = Vec::new();
        if skipped > 0 {
            rows.extend(self.aside(&format!("… {skipped} above are done"), self.theme.dim));
        }
        for item in items.iter().skip(skipped).take(most) {
            let style = match item.status {
                TodoStatus::InProgress => self.theme.strong,
                TodoStatus::Pending => self.theme.text,
                TodoStatus::Done | TodoStatus::Dropped => self.theme.dim,
            };
            rows.extend(self.aside(&item.to_string(), style));
        }
        if let Some(more) = items.len().checked_sub(skipped + most).filter(|more| *more > 0) {
            rows.extend(self.aside(&format!("… and {more} more"), self.theme.dim));
        }
        rows
    }

    /// What undo does not cover.
    pub(crate) fn notices(&self, notices: &[String]) -> Vec<Line<'static>> {
        notices.iter().flat_map(|notice| self.aside(notice, self.theme.dim)).collect()
    }

    fn hook(&self, run: &HookRun) -> Vec<Line<'static>> {
        let theme = self.theme;
        let detail = run.detail.as_deref().unwrap_or_default();
        if let Some(check) = run.evidence.as_ref().and_then(CheckRun::of) {
            let (sign, style) = if check.passed { ("✓ ", theme.good) } else { ("✗ ", theme.bad) };
            let seconds = check.duration_ms as f64 / 1000.0;
            let mut rows = self.row(vec![
                Span::styled(sign, style),
                Span::styled(run.hook.clone(), theme.strong),
                Span::raw(format!(" {} · {seconds:.1} s", first_line(detail))),
            ]);
            if !check.passed {
                rows.extend(self.tail(&check.output, None));
            }
            return rows;
        }
        let did = run.did.join(", ");
        let (style, words) = match (run.end, did.is_empty(), detail.is_empty()) {
            (HookEnd::Ok, true, true) => return Vec::new(),
            (HookEnd::Ok, false, true) => (theme.dim, did),
            (HookEnd::Ok, true, false) => (theme.dim, first_line(detail)),
            (HookEnd::Ok, false, false) => (theme.dim, format!("{did}: {}", first_line(detail))),
            (HookEnd::Failed, ..) => (theme.warn, format!("failed: {detail}")),
            (HookEnd::TimedOut | HookEnd::Panicked, ..) => (theme.warn, detail.to_owned()),
        };
        self.aside(&format!("hook {}: {words}", run.hook), style)
    }

    fn compaction(&self, compaction: &CompactionBlock) -> Vec<Line<'static>> {
        match &compaction.end {
            Some(CompactionEnd::Summary { tokens: (before, after), .. }) => self.aside(
                &format!("made room: older messages summed up, {} → {} tokens", short(*before), short(*after)),
                self.theme.dim,
            ),
            Some(CompactionEnd::Failed { error }) if compaction.trigger != Trigger::Forced => {
                self.aside(&format!("no summary was made: {error}; nothing is lost"), self.theme.warn)
            }
            Some(CompactionEnd::Failed { .. } | CompactionEnd::Pruned) | None => Vec::new(),
        }
    }

    fn model(&self, model: &ModelBlock) -> Vec<Line<'static>> {
        match &model.state {
            ModelState::Replied { warnings, .. } => {
                warnings.iter().flat_map(|warning| self.aside(warning, self.theme.dim)).collect()
            }
            ModelState::Failed { error, retry_at_ms: Some(_), .. } => {
                self.aside(&format!("{}; asked again", error.message), self.theme.warn)
            }
            ModelState::Failed { .. } | ModelState::Asked | ModelState::Cut => Vec::new(),
        }
    }

    fn rewind(&self, direction: Direction, turns: u32, state: &RewindState) -> Vec<Line<'static>> {
        let (did, opposite) = match direction {
            Direction::Undo => ("taken back", "/redo"),
            Direction::Redo => ("brought back", "/undo"),
        };
        let turns = plural(turns.into(), "turn");
        match state {
            RewindState::Started => Vec::new(),
            RewindState::Finished { left } if left.is_empty() => {
                self.aside(&format!("↶ {turns} {did}; {opposite} reverses it"), self.theme.warn)
            }
            RewindState::Finished { left } => {
                let names = left.join(", ");
                self.aside(
                    &format!("↶ {turns} {did}, but left as they are: {names}; {opposite} reverses it"),
                    self.theme.warn,
                )
            }
            RewindState::Abandoned { error, .. } => self.aside(&format!("{turns} not {did}: {error}"), self.theme.bad),
        }
    }

    fn turn_end(&self, end: TurnEnd, detail: Option<&str>, spent: &Spent) -> Vec<Line<'static>> {
        let mut rows = vec![Line::default()];
        let words = match end {
            TurnEnd::Completed => None,
            TurnEnd::Canceled => Some("stopped"),
            TurnEnd::ToolDenied => Some("ended: calls were refused"),
            TurnEnd::MaxSteps => Some("ended: the limit of steps was reached"),
            TurnEnd::MaxTurns => Some("ended: the limit of turns was reached"),
            TurnEnd::Budget => Some("ended: the budget is used up"),
            TurnEnd::NoProgress => Some("ended: the model repeats itself"),
            TurnEnd::ContextLimit => Some("ended: the context is full"),
            TurnEnd::ContentFilter => Some("ended: the provider's filter"),
            TurnEnd::ApiError => Some("ended: the provider gave no reply"),
            TurnEnd::HookStopped => Some("ended: a hook stopped it"),
        };
        let style = if end == TurnEnd::Canceled { self.theme.warn } else { self.theme.bad };
        if let Some(words) = words {
            let detail = detail.map(|detail| format!(": {detail}")).unwrap_or_default();
            rows.extend(self.aside(&format!("{words}{detail}"), style));
        }
        let seconds = spent.duration_ms as f64 / 1000.0;
        let mut facts = vec![plural(spent.steps.into(), "step"), format!("{seconds:.1} s")];
        if spent.usage.total() > 0 {
            facts.push(format!("{} tokens", short(spent.usage.total())));
        }
        if let Some(micros) = spent.cost_micros.filter(|micros| *micros > 0) {
            facts.push(dollars(micros));
        }
        rows.extend(self.aside(&facts.join(" · "), self.theme.dim));
        rows
    }
}

/// Whether of a message only the beginning and the end are shown.
pub(crate) fn is_long(words: &str) -> bool {
    /// Of a usual screen.
    const COLUMNS: usize = 80;
    let rows = words.lines().map(|line| 1 + line.len() / COLUMNS);
    rows.scan(0, |all, rows| Some(std::mem::replace(all, *all + rows))).any(|before| before >= MOST_SAID)
}

/// A diff that is one change without a hunk's head, as of a file that is new: with that head.
fn with_hunks(diff: &str) -> Cow<'_, str> {
    if diff.starts_with("@@") {
        return Cow::Borrowed(diff);
    }
    let lines = |sign| diff.lines().filter(|line| line.starts_with(sign)).count();
    let (removed, added) = (lines('-'), lines('+'));
    let from = |lines| usize::from(lines > 0);
    Cow::Owned(format!("@@ -{},{removed} +{},{added} @@\n{diff}", from(removed), from(added)))
}

/// Whether a model has answered, or will not: where it is asked again, once that is over.
pub(crate) fn is_answered(model: &ModelBlock) -> bool {
    match &model.state {
        ModelState::Asked => false,
        ModelState::Failed { retry_at_ms: Some(_), waited_to_ms, .. } => waited_to_ms.is_some(),
        ModelState::Failed { .. } | ModelState::Replied { .. } | ModelState::Cut => true,
    }
}

/// The message of a block, where it is what a user said.
pub(crate) fn message_of(block: &Block) -> Option<MessageId> {
    match &block.id {
        BlockId::User(message) => Some(message.clone()),
        _ => None,
    }
}

/// Whether a call is a command that runs and has a terminal.
pub(crate) fn has_terminal(call: &CallBlock) -> bool {
    let is_asked = |name: &str| call.input.value().is_some_and(|input| input[name] == true);
    matches!(call.stage, CallStage::Running(_))
        && call.kind == CallKind::Execute
        && (is_asked("pty") || is_asked("tty"))
}

/// Whether a rewind has come to its end.
pub(crate) fn is_over(state: &RewindState) -> bool {
    !matches!(state, RewindState::Started)
}

/// What a call was about, and what came of it, on one line.
fn about(call: &CallBlock) -> String {
    let title = call.outcome().map(|outcome: &Outcome| outcome.title.as_str()).unwrap_or_default();
    match title.strip_prefix(&call.tool).unwrap_or(title).trim() {
        "" => first_line(&call.about),
        // The lines that a change adds and removes are counted beside it.
        title if call.diff.is_some() => one_line(title.split(" (+").next().unwrap_or(title)),
        title => one_line(title),
    }
}

/// Text on one line, with nothing in it that a terminal would act upon.
pub(crate) fn one_line(words: &str) -> String {
    text::clean(words).replace('\n', "⏎ ").replace('\t', " ")
}

pub(crate) fn first_line(words: &str) -> String {
    let mut lines = words.lines().filter(|line| !line.trim().is_empty());
    let first = one_line(lines.next().unwrap_or_default());
    if lines.next().is_some() { format!("{first} …") } else { first }
}

/// The last lines that hold anything.
pub(crate) fn last_lines(output: &str, most: usize) -> Vec<String> {
    let from = output.ceil_char_boundary(output.len().saturating_sub(TAIL_BYTES));
    let lines: Vec<&str> = output[from..].lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(most)..].iter().map(|line| one_line(line)).collect()
}

/// `1 step`, `2 steps`.
pub(crate) fn plural(number: u64, word: &str) -> String {
    format!("{number} {word}{}", if number == 1 { "" } else { "s" })
}

/// `41k`, `1.2M`.
pub(crate) fn short(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        1_000..10_000 => format!("{:.1}k", number as f64 / 1e3),
        10_000..1_000_000 => format!("{}k", number / 1_000),
        _ => format!("{:.1}M", number as f64 / 1e6),
    }
}

/// Millionths of a dollar as dollars.
pub(crate) fn dollars(micros: u64) -> String {
    match micros {
        0..10_000 => format!("${:.4}", micros as f64 / 1e6),
        _ => format!("${:.2}", micros as f64 / 1e6),
    }
}
