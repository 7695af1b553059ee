//! The JSON that a command hook reads and writes: Claude Code's format, so that scripts written for it work here. Tools
//! and their fields have Claude Code's names in both directions.

use super::handler::{HookEvent, beginning};
use super::{HookContext, Unasked};
use piton_core::call::{CallInput, Outcome, Status};
use piton_core::message::ToolCall;
use piton_tools::patch;
use serde::Deserialize;
use serde_json::{Value, json};

/// Characters of one text that a hook gives us; what is longer is cut.
const MOST_CHARS: usize = 10_000;

/// One of our tools and its fields, and what they are called there.
struct Known {
    ours: &'static str,
    theirs: &'static str,
    fields: &'static [(&'static str, &'static str)],
}

const FILE: &[(&str, &str)] = &[("path", FILE_PATH)];
/// The field that has absolute paths there.
const FILE_PATH: &str = "file_path";
/// The files of a patch.
pub(super) const FILE_PATHS: &str = "file_paths";

/// The tools that both have, or are known there by name.
const TOOLS: [Known; 9] = [
    Known { ours: "bash", theirs: "Bash", fields: &[] },
    Known { ours: "edit", theirs: "Edit", fields: FILE },
    Known { ours: "glob", theirs: "Glob", fields: &[] },
    Known { ours: "grep", theirs: "Grep", fields: &[("ignore_case", "-i")] },
    Known { ours: "read", theirs: "Read", fields: FILE },
    Known { ours: "write", theirs: "Write", fields: FILE },
    Known { ours: "task", theirs: "Agent", fields: &[] },
    Known { ours: "web_fetch", theirs: "WebFetch", fields: &[] },
    Known { ours: "web_search", theirs: "WebSearch", fields: &[] },
];

fn known(ours: &str) -> Option<&'static Known> {
    TOOLS.iter().find(|tool| tool.ours == ours)
}

/// What a tool is called there.
pub(super) fn tool_name(ours: &str) -> &str {
    known(ours).map_or(ours, |tool| tool.theirs)
}

/// More names by which a hook may wait for this tool: a patch is what others do by these.
pub(super) fn also_called(ours: &str) -> &'static [&'static str] {
    if ours == patch::NAME { &["Edit", "Write", "edit", "write"] } else { &[] }
}

/// The files of a patch, absolute, those that it moves to included.
fn files_of(call: &ToolCall, cx: &HookContext) -> Vec<Value> {
    let text = call.input.value().and_then(|input| input.get("patch")?.as_str());
    let files = text.filter(|_| call.name == patch::NAME).and_then(|text| patch::parse(text).ok()).unwrap_or_default();
    let mut paths: Vec<Value> = Vec::new();
    for path in files.iter().flat_map(|file| [Some(file.path()), file.to()]).flatten() {
        let path = json!(cx.workspace.join(path));
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    paths
}

/// The input of a patch once for each of its files, with that as its `file_path`: what a script that waits for edits reads.
pub(super) fn inputs_by_file(call: &ToolCall, cx: &HookContext) -> Vec<Value> {
    let of_file = |path: Value| {
        let mut input = tool_input(call, cx);
        input[FILE_PATH] = path;
        input
    };
    match files_of(call, cx) {
        // A patch that cannot be read changes nothing.
        none if none.is_empty() => vec![tool_input(call, cx)],
        paths => paths.into_iter().map(of_file).collect(),
    }
}

/// A call's input as scripts expect it: paths absolute, under `file_path`; those of a patch under `file_paths`.
pub(super) fn tool_input(call: &ToolCall, cx: &HookContext) -> Value {
    let CallInput::Json(Value::Object(input)) = &call.input else { return json!({}) };
    let files = files_of(call, cx);
    let fields = known(&call.name).map_or(&[] as &[_], |tool| tool.fields);
    let theirs = input.iter().map(|(key, value)| {
        let name = fields.iter().find(|(ours, _)| ours == key).map_or(key.as_str(), |(_, theirs)| theirs);
        let value = match value.as_str().filter(|_| name == FILE_PATH) {
            Some(path) => json!(cx.workspace.join(path)),
            None => value.clone(),
        };
        (name.to_owned(), value)
    });
    let paths = (call.name == patch::NAME).then(|| (FILE_PATHS.to_owned(), Value::Array(files)));
    Value::Object(theirs.chain(paths).collect())
}

/// An input that a script gave back, in our tool's field names.
pub(super) fn own_input(tool: &str, theirs: Value) -> Value {
    let Value::Object(mut theirs) = theirs else { return theirs };
    if tool == patch::NAME {
        // The patch says so itself.
        theirs.retain(|key, _| key != FILE_PATH && key != FILE_PATHS);
    }
    let fields = known(tool).map_or(&[] as &[_], |tool| tool.fields);
    let own =
        |key: String| fields.iter().find(|(_, theirs)| *theirs == key).map_or(key, |(ours, _)| (*ours).to_owned());
    Value::Object(theirs.into_iter().map(|(key, value)| (own(key), value)).collect())
}

/// A call's outcome as scripts expect it.
pub(super) fn tool_response(outcome: &Outcome) -> Value {
    let mut response = json!({"success": !outcome.status.is_error(), "status": outcome.status});
    match outcome.metadata.get("output_bytes") {
        Some(bytes) => {
            // What the model is told of a command that printed nothing is nothing that it printed.
            let is_empty = outcome.status == Status::Ok && *bytes == 0 && outcome.metadata["left_behind"] == 0;
            response["stdout"] = json!(if is_empty { "" } else { &outcome.text });
            response["stderr"] = json!("");
            response["interrupted"] = json!(false);
        }
        None => response["content"] = json!(outcome.text),
    }
    if let Some(path) = outcome.metadata.get("path") {
        response["filePath"] = path.clone();
    }
    response
}

/// What every command reads.
pub(super) fn common(event: HookEvent, cx: &HookContext, more: Value) -> Value {
    let permission_mode = match cx.unasked {
        Unasked::Reading => "plan",
        Unasked::Nothing => "default",
        Unasked::Edits => "acceptEdits",
        Unasked::Everything => "bypassPermissions",
    };
    let mut input = json!({
        "session_id": cx.session,
        "transcript_path": cx.session_dir.join("journal.db"),
        "cwd": cx.workspace,
        "permission_mode": permission_mode,
        "hook_event_name": event.name(),
    });
    if let Some(agent) = &cx.subagent {
        input["agent_id"] = json!(cx.session);
        input["agent_type"] = json!(agent);
        input["agent_transcript_path"] = input["transcript_path"].clone();
    }
    if let (Value::Object(input), Value::Object(more)) = (&mut input, more) {
        input.extend(more);
    }
    input
}

/// What a command wrote, if that was JSON.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Answer {
    pub(super) r#continue: Option<bool>,
    pub(super) stop_reason: Option<String>,
    pub(super) system_message: Option<String>,
    pub(super) decision: Option<Value>,
    pub(super) reason: Option<String>,
    pub(super) hook_specific_output: Specific,
}

/// The part of it that is different for each event.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Specific {
    pub(super) permission_decision: Option<String>,
    pub(super) permission_decision_reason: Option<String>,
    pub(super) updated_input: Option<Value>,
    pub(super) additional_context: Option<String>,
    pub(super) updated_tool_output: Option<Value>,
    pub(super) updated_system: Option<String>,
    /// The names of the tools that stay on offer.
    pub(super) tools: Option<Vec<String>>,
    pub(super) decision: Option<Decided>,
}

/// An answer to a question.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Decided {
    pub(super) behavior: String,
    pub(super) message: Option<String>,
    #[serde(rename = "updatedInput")]
    pub(super) updated_input: Option<Value>,
}

impl Answer {
    /// Reads what was written. `Err`: what is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut answer: Self = serde_json::from_str(text)
            .map_err(|error| format!("its output begins like JSON but cannot be read: {error}: {}", beginning(text)))?;
        let specific = &mut answer.hook_specific_output;
        let texts = [
            &mut answer.stop_reason,
            &mut answer.system_message,
            &mut answer.reason,
            &mut specific.permission_decision_reason,
            &mut specific.additional_context,
        ];
        texts.into_iter().flatten().for_each(cut);
        Ok(answer)
    }

    /// What it and another one say together: the stricter word counts.
    pub(super) fn and(self, other: Self) -> Self {
        let is_first = self.strictness() >= other.strictness();
        let (mut strict, other) = if is_first { (self, other) } else { (other, self) };
        if strict.blocks() && other.blocks() {
            strict.reason = joined(strict.reason, other.reason);
        }
        strict.system_message = joined(strict.system_message, other.system_message);
        let (specific, more) = (&mut strict.hook_specific_output, other.hook_specific_output);
        specific.additional_context = joined(specific.additional_context.take(), more.additional_context);
        specific.updated_input = specific.updated_input.take().or(more.updated_input);
        strict
    }

    /// 0: it allows, 1: it says nothing of that, 2: somebody is to be asked, 3: it refuses or stops.
    fn strictness(&self) -> u8 {
        let Specific { permission_decision, decision, .. } = &self.hook_specific_output;
        let said = [permission_decision.as_deref(), decision.as_ref().map(|decided| decided.behavior.as_str())];
        let says = |word: &str| said.contains(&Some(word));
        match self {
            _ if self.blocks() || self.r#continue == Some(false) || says("deny") => 3,
            _ if says("ask") || says("defer") => 2,
            _ if says("allow") || self.decision == Some(json!("approve")) => 0,
            _ => 1,
        }
    }

    /// Whether it says `decision: "block"`.
    pub(super) fn blocks(&self) -> bool {
        self.decision.as_ref().and_then(Value::as_str) == Some("block")
    }
}

/// Two texts, each of which may be missing.
pub(super) fn joined(one: Option<String>, other: Option<String>) -> Option<String> {
    match (one, other) {
        (Some(one), Some(other)) if one != other => Some(format!("{one}\n{other}")),
        (one, other) => one.or(other),
    }
}

/// Cuts a text to what a hook may say.
pub(super) fn cut(text: &mut String) {
    if let Some((at, _)) = text.char_indices().nth(MOST_CHARS) {
        let left_out = text[at..].chars().count();
        text.truncate(at);
        text.push_str(&format!("\n[cut: {left_out} more characters]"));
    }
}
