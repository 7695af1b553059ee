//! A hook that is a command: JSON on standard input, JSON or an exit code as the answer. Exit code 2 refuses, with what
//! is on standard error as the reason; any other than 0 is a failure of the hook, and as if it had not run.

use super::handler::{Handler, HookEvent, beginning};
use super::wire::{self, Answer, Specific};
use super::{
    CallChange, CompactionChange, Hook, HookContext, HookError, HookResult, HookVerdict, ModelAnswer, ModelCall,
    ModelChange, OutcomeChange, Points, PromptChange, SessionStart, StepDone, Stop, StopChange, TurnDone, Words,
};
use async_trait::async_trait;
use piton_core::call::Outcome;
use piton_core::event::{Subject, Trigger, TurnEnd};
use piton_core::message::{Message, ToolCall};
use piton_core::question::Decision;
use piton_core::todo::{self, TodoStatus};
use piton_tools::spawn::{Confinement, Env, Keep, Spawn, moved_away};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A command that is run at a point of the loop.
pub struct CommandHook {
    handler: Handler,
    name: String,
    env: Env,
    has_run: AtomicBool,
    /// The folder that its files came with.
    files: Option<PathBuf>,
    /// The folder in which it may keep something, where it runs in a sandbox.
    keeps: Option<PathBuf>,
    /// Whether it was told that these are gone.
    told_gone: AtomicBool,
    /// Why it must not run now, where it says so.
    guard: Option<Guard>,
}

/// Looks, before each run of a hook, whether there is a reason against it. May block its thread.
pub(crate) type Guard = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// What a command's end came to.
enum Said {
    /// Nothing, or what JSON says.
    Json(Box<Answer>),
    /// Text that is not JSON; and for people, what the command's sandbox moved away.
    Plain(String, Option<String>),
    /// It refuses, and why, if it says so.
    Refused(Option<String>),
}

impl CommandHook {
    /// A hook that runs this command with this environment and nothing else in it.
    pub fn new(handler: Handler, env: Env) -> Self {
        let (has_run, told_gone) = Default::default();
        Self { name: handler.summary(), handler, env, has_run, files: None, keeps: None, told_gone, guard: None }
    }

    /// One whose files came with this folder. When that is gone the hook fails, whatever an interpreter makes of a missing script.
    #[must_use]
    pub fn of_files_in(self, folder: PathBuf) -> Self {
        Self { files: Some(folder), ..self }
    }

    /// Whether its files are gone. A hook that may fail says so once, and is passed over from then on.
    fn is_gone(&self) -> HookResult<bool> {
        let Some(folder) = self.files.as_ref().filter(|folder| !folder.is_dir()) else { return Ok(false) };
        if self.told_gone.swap(true, Ordering::Relaxed) && !self.handler.is_required {
            return Ok(true);
        }
        Err(HookError(format!("its plugin is gone: there is no folder {}", folder.display())))
    }

    /// The same, which may change this folder where it is confined.
    pub(crate) fn keeping(self, folder: Option<PathBuf>) -> Self {
        Self { keeps: folder, ..self }
    }

    /// The same, and before each run this is asked.
    pub(crate) fn guarded(mut self, guard: Option<Guard>) -> Self {
        self.guard = guard;
        self
    }

    /// Runs the command, if it is for this. `names`: what its matcher is compared with.
    async fn ask(&self, event: HookEvent, names: &[&str], cx: &HookContext, more: Value) -> HookResult<Option<Said>> {
        if self.handler.event != event || !self.handler.matcher.is_for(names) || self.has_run_enough() {
            return Ok(None);
        }
        self.tell(event, cx, more).await
    }

    /// Whether it runs once only and did. Else, it runs now.
    fn has_run_enough(&self) -> bool {
        self.handler.is_once && self.has_run.swap(true, Ordering::Relaxed)
    }

    async fn tell(&self, event: HookEvent, cx: &HookContext, more: Value) -> HookResult<Option<Said>> {
        if self.is_gone()? {
            return Ok(None);
        }
        if let Some(guard) = self.guard.clone()
            && let Some(why) = tokio::task::spawn_blocking(move || guard()).await?
        {
            return Err(HookError(why));
        }
        let input = wire::common(event, cx, more).to_string();
        let command = self.command(cx);
        if self.handler.is_async {
            let limit = self.handler.timeout;
            // Nobody asks what came of it.
            tokio::spawn(async move { drop(tokio::time::timeout(limit, run(command, input)).await) });
            return Ok(None);
        }
        let ended = run(command, input).await?;
        ended.said().map(Some)
    }

    fn command(&self, cx: &HookContext) -> Spawn {
        let (command, workspace) = (&self.handler.command, &cx.workspace);
        let confinement = match (self.handler.is_confined, &self.keeps) {
            (true, Some(folder)) => cx.confinement.clone().keeping(folder),
            (true, None) => cx.confinement.clone(),
            (false, _) => Confinement::User,
        };
        let spawn = match &self.handler.args {
            Some(args) => Spawn::new([command].into_iter().chain(args), &self.env, workspace, confinement),
            None => Spawn::shell(command, &self.env, workspace, confinement),
        };
        spawn.with("CLAUDE_PROJECT_DIR", workspace).with("PITON_PROJECT_DIR", workspace)
    }

    /// Runs the command about a tool's call: once, or, where it waits for edits and the call is a patch, for each of its files.
    async fn ask_about(
        &self,
        event: HookEvent,
        call: &ToolCall,
        cx: &HookContext,
        more: Value,
    ) -> HookResult<Option<Said>> {
        let (theirs, matcher) = (wire::tool_name(&call.name), &self.handler.matcher);
        let names = [&[theirs, call.name.as_str()][..], wire::also_called(&call.name)].concat();
        if self.handler.event != event || !matcher.is_for(&names) {
            return Ok(None);
        }
        let mut inputs = match matcher.is_for(&names[..2]) {
            true => vec![wire::tool_input(call, cx)],
            false => wire::inputs_by_file(call, cx),
        };
        if let Some(condition) = &self.handler.condition {
            inputs.retain(|input| holds(condition, &names, input));
        }
        if inputs.is_empty() || self.has_run_enough() {
            return Ok(None);
        }
        let mut said: Option<Said> = None;
        for input in inputs {
            let mut all = json!({"tool_name": theirs, "tool_input": input, "tool_use_id": call.id});
            if let (Value::Object(all), Value::Object(more)) = (&mut all, &more) {
                all.extend(more.clone());
            }
            let one = self.tell(event, cx, all).await?;
            said = match (said, one) {
                (Some(said), Some(one)) => Some(said.and(one)),
                (said, one) => said.or(one),
            };
        }
        Ok(said)
    }
}

impl CommandHook {
    /// Runs the command for each todo that a call adds to the list, or marks as done. One that it refuses keeps the list as it is.
    async fn before_todos(&self, cx: &HookContext, call: &ToolCall) -> HookResult<CallChange> {
        let is_new = self.handler.event == HookEvent::TaskCreated;
        let mut change = CallChange::default();
        for (at, item) in piton_tools::todo::asked_for(call).into_iter().enumerate() {
            let known = cx.todos.iter().find(|known| known.text == item.text);
            let is_meant = match is_new {
                true => known.is_none(),
                false => item.status == TodoStatus::Done && known.is_none_or(|known| known.status != TodoStatus::Done),
            };
            if !is_meant {
                continue;
            }
            let more = json!({"task_id": (at + 1).to_string(), "task_subject": item.text});
            let (words, blocked, _) = words(self.ask(self.handler.event, &[], cx, more).await?);
            change.words.notes.extend(words.notes);
            change.words.remark = change.words.remark.or(words.remark);
            change.words.stop = change.words.stop.or(words.stop);
            if let Some(reason) = blocked {
                let what = if is_new { "cannot be added" } else { "is not done" };
                change.verdict = Some(HookVerdict::Refuse(format!("\"{}\" {what}: {reason}", item.text)));
                break;
            }
        }
        Ok(change)
    }
}

/// Whether a condition such as `Bash(git *)` holds for a call.
fn holds(condition: &str, names: &[&str], input: &Value) -> bool {
    let (tool, about) = match condition.split_once('(') {
        Some((tool, rest)) => (tool.trim(), rest.trim_end().strip_suffix(')').unwrap_or(rest)),
        None => (condition.trim(), "*"),
    };
    let subject = ["command", "file_path", "path", "pattern", "url"].iter().find_map(|key| input[key].as_str());
    let several = input[wire::FILE_PATHS].as_array().map_or(&[][..], Vec::as_slice);
    let subjects: Vec<&str> = match several {
        [] => vec![subject.unwrap_or_default()],
        several => several.iter().filter_map(Value::as_str).collect(),
    };
    let pieces: Vec<String> = about.replace(":*", "*").split('*').map(regex::escape).collect();
    let pattern = format!("(?s)^{}$", pieces.join(".*"));
    let is_about =
        || regex::Regex::new(&pattern).is_ok_and(|pattern| subjects.iter().any(|subject| pattern.is_match(subject)));
    (tool == "*" || names.contains(&tool)) && (about == "*" || is_about())
}

impl Said {
    /// What two runs about one call say together: the stricter word counts, and nothing is allowed that one of them does not
    /// allow.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Refused(one), Self::Refused(other)) => Self::Refused(wire::joined(one, other)),
            (refused @ Self::Refused(_), _) | (_, refused @ Self::Refused(_)) => refused,
            (Self::Json(one), Self::Json(other)) => Self::Json(Box::new(one.and(*other))),
            (Self::Json(answer), Self::Plain(_, moved)) | (Self::Plain(_, moved), Self::Json(answer)) => {
                Self::Json(Box::new(answer.and(Answer { system_message: moved, ..Answer::default() })))
            }
            (Self::Plain(one, moved), Self::Plain(other, too)) => {
                Self::Plain(format!("{one}\n{other}"), wire::joined(moved, too))
            }
        }
    }
}

/// How a command ended.
struct Ended {
    /// `None`: by a signal.
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// Runs a command, and ends whatever it leaves behind.
async fn run(command: Spawn, input: String) -> HookResult<Ended> {
    let running = command.run(Some((input + "\n").into_bytes()), Keep::First);
    let mut running = running.map_err(|error| HookError(format!("it cannot be started: {error}")))?;
    let status = running.wait().await?;
    let (stdout, stderr) = running.output().await;
    Ok(Ended { code: status.code(), stdout, stderr })
}

impl Ended {
    fn said(self) -> HookResult<Said> {
        let Self { code, stdout, mut stderr } = self;
        let moved: Vec<String> = moved_away(&mut stderr).iter().map(|said| format!("sandbox: {said}")).collect();
        let moved = (!moved.is_empty()).then(|| moved.join("\n"));
        match code {
            Some(0) => {}
            Some(2) => {
                wire::cut(&mut stderr);
                let reason = Some(stderr.trim().to_owned()).filter(|reason| !reason.is_empty());
                return Ok(Said::Refused(wire::joined(reason, moved)));
            }
            Some(code) => {
                let moved = moved.map(|moved| format!("\n{moved}")).unwrap_or_default();
                return Err(HookError(format!("exit code {code}: {}{moved}", beginning(&stderr))));
            }
            None => return Err(HookError("it was killed by a signal".to_owned())),
        }
        let text = stdout.trim();
        if text.starts_with('{') {
            let mut answer = Answer::parse(text).map_err(HookError)?;
            answer.system_message = wire::joined(answer.system_message, moved);
            return Ok(Said::Json(Box::new(answer)));
        }
        let mut text = text.to_owned();
        wire::cut(&mut text);
        Ok(Said::Plain(text, moved))
    }
}

/// What all answers have in common. Text that is no JSON means nothing at most points: formatters and linters print some at
/// each call.
fn words(said: Option<Said>) -> (Words, Option<String>, Specific) {
    let mut words = Words::default();
    match said {
        None => (words, None, Specific::default()),
        Some(Said::Refused(reason)) => (words, Some(reason.unwrap_or_else(no_reason)), Specific::default()),
        Some(Said::Plain(_, moved)) => {
            words.remark = moved;
            (words, None, Specific::default())
        }
        Some(Said::Json(answer)) => {
            let blocked = answer.blocks().then(|| answer.reason.clone().unwrap_or_else(no_reason));
            if answer.r#continue == Some(false) {
                let reason = answer.stop_reason.or(answer.reason).unwrap_or_else(|| "a hook stopped it".to_owned());
                words.stop = Some(reason);
            }
            words.remark = answer.system_message;
            words.notes.extend(answer.hook_specific_output.additional_context.clone());
            (words, blocked, answer.hook_specific_output)
        }
    }
}

fn no_reason() -> String {
    "It gave no reason.".to_owned()
}

/// The same where plain text is for the model to read.
fn words_for_model(said: Option<Said>) -> (Words, Option<String>, Specific) {
    match said {
        Some(Said::Plain(text, remark)) => {
            let notes = Some(text).filter(|text| !text.is_empty()).into_iter().collect();
            (Words { notes, remark, ..Words::default() }, None, Specific::default())
        }
        said => words(said),
    }
}

/// Why there is a compaction, in Claude Code's word for it.
fn theirs(trigger: Trigger) -> &'static str {
    match trigger {
        Trigger::Ordinary | Trigger::Forced => "auto",
        Trigger::Asked | Trigger::Edited => "manual",
    }
}

#[async_trait]
impl Hook for CommandHook {
    fn name(&self) -> &str {
        &self.name
    }

    fn points(&self) -> Points {
        Points::of([self.handler.event.point()])
    }

    fn required(&self) -> bool {
        self.handler.is_required
    }

    fn timeout(&self) -> Duration {
        self.handler.timeout
    }

    fn serves(&self, is_subagent: bool) -> bool {
        self.handler.event.occurs(is_subagent)
    }

    fn concerns(&self, tool: &str) -> bool {
        if matches!(self.handler.event, HookEvent::TaskCreated | HookEvent::TaskCompleted) {
            return tool == todo::TOOL;
        }
        let names = [&[wire::tool_name(tool), tool][..], wire::also_called(tool)].concat();
        self.handler.event == HookEvent::Notification || self.handler.matcher.is_for(&names)
    }

    /// Refused is not failed: nothing was done.
    fn sees_unrun_calls(&self) -> bool {
        false
    }

    async fn on_session_start(&self, cx: &HookContext, start: SessionStart) -> HookResult<Words> {
        let source = match start {
            SessionStart::New => "startup",
            SessionStart::Resumed => "resume",
            SessionStart::Compacted => "compact",
        };
        let said = match &cx.subagent {
            Some(_) if start == SessionStart::Compacted => return Ok(Words::default()),
            Some(agent) => self.ask(HookEvent::SubagentStart, &[agent], cx, json!({})).await?,
            None => {
                let more = json!({"source": source, "model": cx.model});
                self.ask(HookEvent::SessionStart, &[source], cx, more).await?
            }
        };
        // A session is not for a hook to refuse: what it writes then is for the person to read.
        if let Some(Said::Refused(remark)) = said {
            return Ok(Words { remark, ..Words::default() });
        }
        Ok(words_for_model(said).0)
    }

    async fn on_prompt(&self, cx: &HookContext, text: &str) -> HookResult<PromptChange> {
        let said = self.ask(HookEvent::UserPromptSubmit, &[], cx, json!({"prompt": text})).await?;
        let (words, refuse, _) = words_for_model(said);
        Ok(PromptChange { refuse, words })
    }

    async fn before_tool_call(&self, cx: &HookContext, call: &ToolCall) -> HookResult<CallChange> {
        if self.handler.event != HookEvent::PreToolUse {
            return self.before_todos(cx, call).await;
        }
        let said = self.ask_about(HookEvent::PreToolUse, call, cx, json!({})).await?;
        let is_approved = matches!(&said, Some(Said::Json(answer)) if answer.decision == Some(json!("approve")));
        let (words, blocked, specific) = words(said);
        let given = specific.permission_decision_reason;
        let reason = given.clone().unwrap_or_else(no_reason);
        let verdict = match (blocked, specific.permission_decision.as_deref()) {
            (Some(reason), _) => Some(HookVerdict::Refuse(reason)),
            (None, Some("deny")) => Some(HookVerdict::Refuse(reason)),
            (None, Some("ask" | "defer")) => Some(HookVerdict::Ask(given.unwrap_or_default())),
            (None, Some("allow")) => Some(HookVerdict::Allow),
            (None, Some(other)) => {
                return Err(HookError(format!("`{other}` is no permissionDecision; there are allow, deny and ask")));
            }
            (None, None) => is_approved.then_some(HookVerdict::Allow),
        };
        let input = specific.updated_input.map(|input| wire::own_input(&call.name, input));
        Ok(CallChange { input, verdict, words })
    }

    async fn on_approval(&self, cx: &HookContext, _: &Subject, call: &ToolCall) -> HookResult<Option<Decision>> {
        if self.handler.event == HookEvent::Notification {
            let message = format!("Piton needs your permission to use {}", wire::tool_name(&call.name));
            let more = json!({"message": message, "notification_type": "permission_prompt"});
            self.ask(HookEvent::Notification, &["permission_prompt"], cx, more).await?;
            return Ok(None);
        }
        let said = self.ask_about(HookEvent::PermissionRequest, call, cx, json!({})).await?;
        let (_, _, specific) = words(said);
        let Some(decided) = specific.decision else { return Ok(None) };
        match decided.behavior.as_str() {
            "allow" => Ok(Some(match decided.updated_input {
                Some(input) => Decision::ApproveChanged(wire::own_input(&call.name, input)),
                None => Decision::Approve,
            })),
            "deny" => Ok(Some(Decision::Deny(decided.message))),
            other => Err(HookError(format!("`{other}` is no behavior; there are allow and deny"))),
        }
    }

    async fn after_tool_call(&self, cx: &HookContext, call: &ToolCall, outcome: &Outcome) -> HookResult<OutcomeChange> {
        let event = if outcome.status.is_error() { HookEvent::PostToolUseFailure } else { HookEvent::PostToolUse };
        let more = match event {
            HookEvent::PostToolUse => {
                json!({"tool_response": wire::tool_response(outcome), "duration_ms": outcome.duration_ms})
            }
            _ => json!({"error": outcome.text, "duration_ms": outcome.duration_ms}),
        };
        let (mut words, blocked, specific) = words(self.ask_about(event, call, cx, more).await?);
        words.notes.extend(
            blocked.map(|reason| {
                format!("A hook looked at the call of {} and says: {reason}", wire::tool_name(&call.name))
            }),
        );
        let outcome = specific.updated_tool_output.map(|output| {
            let text = output.as_str().map_or_else(|| output.to_string(), str::to_owned);
            Outcome { text, ..outcome.clone() }
        });
        Ok(OutcomeChange { outcome, words })
    }

    async fn on_stop(&self, cx: &HookContext, stop: &Stop) -> HookResult<StopChange> {
        let more = json!({"stop_hook_active": stop.rounds > 0, "last_assistant_message": stop.text});
        let said = match &cx.subagent {
            Some(agent) => self.ask(HookEvent::SubagentStop, &[agent], cx, more).await?,
            None => self.ask(HookEvent::Stop, &[], cx, more).await?,
        };
        let (words, send_back, _) = words(said);
        Ok(StopChange { send_back, evidence: None, words })
    }

    async fn on_turn(&self, cx: &HookContext, turn: &TurnDone) -> HookResult {
        let end = serde_json::to_value(turn.end).unwrap_or_default();
        let end = end.as_str().unwrap_or_default();
        if self.handler.event == HookEvent::TurnEnd {
            let more = json!({
                "end": end, "detail": turn.detail, "spent": turn.spent, "started_ms": turn.started_ms,
                "ended_ms": turn.ended_ms, "last_assistant_message": turn.text,
            });
            return self.ask(HookEvent::TurnEnd, &[end], cx, more).await.map(drop);
        }
        if turn.end == TurnEnd::Completed {
            return Ok(());
        }
        let more = json!({"error": end, "error_details": turn.detail, "last_assistant_message": turn.text});
        self.ask(HookEvent::StopFailure, &[end], cx, more).await.map(drop)
    }

    async fn before_compaction(&self, cx: &HookContext, trigger: Trigger) -> HookResult<CompactionChange> {
        let trigger = theirs(trigger);
        let more = json!({"trigger": trigger, "custom_instructions": ""});
        let (words, refuse, _) = words(self.ask(HookEvent::PreCompact, &[trigger], cx, more).await?);
        Ok(CompactionChange { refuse, words })
    }

    async fn on_compacted(&self, cx: &HookContext, trigger: Trigger, summary: &str) -> HookResult {
        let trigger = theirs(trigger);
        let more = json!({"trigger": trigger, "compact_summary": summary});
        self.ask(HookEvent::PostCompact, &[trigger], cx, more).await.map(drop)
    }

    async fn before_model_call(&self, cx: &HookContext, call: &ModelCall) -> HookResult<ModelChange> {
        let names: Vec<&str> = call.tools.iter().map(|tool| tool.name.as_str()).collect();
        let more = json!({
            "attempt": call.attempt, "system": &*call.system, "tools": names, "message_count": call.messages.len(),
        });
        let (mut words, blocked, specific) = words(self.ask(HookEvent::BeforeModel, &[], cx, more).await?);
        words.stop = words.stop.or(blocked);
        let left = |left: Vec<String>| call.tools.iter().filter(|tool| left.contains(&tool.name)).cloned().collect();
        Ok(ModelChange { system: specific.updated_system, tools: specific.tools.map(left), words })
    }

    async fn after_model_call(&self, cx: &HookContext, answer: &ModelAnswer) -> HookResult {
        let more = match &answer.result {
            Ok(reply) => json!({"attempt": answer.attempt, "finish_reason": reply.finish, "usage": reply.usage}),
            Err(error) => json!({"attempt": answer.attempt, "error": error.to_string()}),
        };
        self.ask(HookEvent::AfterModel, &[], cx, more).await.map(drop)
    }

    async fn on_message(&self, cx: &HookContext, message: &Message) -> HookResult {
        let role = serde_json::to_value(message.role).unwrap_or_default();
        let more = json!({"role": role, "text": message.prose(), "message": message});
        self.ask(HookEvent::Message, &[role.as_str().unwrap_or_default()], cx, more).await.map(drop)
    }

    async fn on_tool_use(&self, cx: &HookContext, call: &ToolCall) -> HookResult {
        self.ask_about(HookEvent::ToolUse, call, cx, json!({})).await.map(drop)
    }

    async fn on_step(&self, cx: &HookContext, step: &StepDone) -> HookResult {
        let more = json!({
            "step": cx.step, "usage": step.usage, "started_ms": step.started_ms, "ended_ms": step.ended_ms,
        });
        self.ask(HookEvent::Step, &[], cx, more).await.map(drop)
    }

    async fn on_session_end(&self, cx: &HookContext) -> HookResult {
        self.ask(HookEvent::SessionEnd, &["other"], cx, json!({"reason": "other"})).await.map(drop)
    }
}
