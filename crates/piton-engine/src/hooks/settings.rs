//! Parser of command hooks: the `hooks` object of Claude Code's settings, as JSON or as a table of our configuration. The
//! result is a list of [`Handler`]s, and a notice for each entry that Piton does not run.

use super::handler::{Handler, HookEvent, Matcher};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// Seconds that a command gets when it names none.
const COMMAND_SECONDS: f64 = 60.0;

/// The `hooks` object: for each event its groups.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(extend("propertyNames" = { "enum": HookEvent::ALL.map(|(name, ..)| name) }))]
pub struct HookTable(#[schemars(with = "BTreeMap<String, Vec<GroupShape>>")] BTreeMap<String, Vec<Group>>);

/// A group as it is written in our own configuration, to the letter, for the schema.
#[derive(JsonSchema)]
#[schemars(rename = "HookGroup", deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is wanted")]
struct GroupShape {
    /// The tools that it is for, or whatever else the event is about: names, or a regular expression.
    matcher: Option<String>,
    /// The handlers that have it in common.
    hooks: Option<Vec<HandlerShape>>,
    #[schemars(flatten)]
    own: HandlerShape,
}

/// The same of a handler.
#[derive(JsonSchema)]
#[schemars(rename = "HookHandler", deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is wanted")]
struct HandlerShape {
    /// Its kind.
    #[schemars(extend("enum" = ["command"]))]
    r#type: Option<String>,
    /// What is run: by `sh`, or as a program where there are `args`.
    command: Option<String>,
    /// The words behind it.
    args: Option<Vec<String>>,
    /// Seconds that it may take.
    #[schemars(extend("exclusiveMinimum" = 0))]
    timeout: Option<f64>,
    /// A call that it is for, such as `Bash(git *)`.
    r#if: Option<String>,
    /// Whether nobody waits for it.
    r#async: Option<bool>,
    /// Whether it runs once in a session.
    once: Option<bool>,
    /// Whether what it guards is refused where it cannot run.
    required: Option<bool>,
    /// Whether it runs in the session's sandbox. One of a repository always does.
    sandbox: Option<bool>,
    /// Passed over.
    shell: Option<String>,
    /// Passed over.
    #[schemars(rename = "statusMessage")]
    status_message: Option<String>,
    /// Passed over.
    description: Option<String>,
    /// Passed over.
    #[schemars(rename = "asyncRewake")]
    async_rewake: Option<bool>,
}

/// Handlers with what they match in common.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
struct Group {
    matcher: Option<String>,
    #[serde(default)]
    hooks: Vec<Said>,
    /// A group of one handler may say it right here.
    #[serde(flatten)]
    own: Said,
}

/// A handler as it was said.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
struct Said {
    r#type: Option<String>,
    command: Option<String>,
    args: Option<Vec<String>>,
    timeout: Option<f64>,
    r#if: Option<String>,
    #[serde(default)]
    r#async: bool,
    #[serde(default)]
    once: bool,
    #[serde(default)]
    required: bool,
    #[serde(default)]
    sandbox: bool,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

/// What came of reading them.
#[derive(Debug, Clone, Default)]
pub struct ReadHooks {
    /// The commands, in order.
    pub handlers: Vec<Handler>,
    /// What was said and is not run here, in words.
    pub notices: Vec<String>,
    /// Events with hooks that Piton does not have: Claude Code has more of them.
    pub unknown_events: Vec<String>,
}

/// Why hooks cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// It is not JSON of this shape.
    #[error("its hooks cannot be read")]
    Shape(#[from] serde_json::Error),
    /// A handler makes no sense.
    #[error("in hooks.{event}: {what}")]
    Handler {
        /// Where.
        event: String,
        /// What is wrong.
        what: String,
    },
}

impl SettingsError {
    /// Where it is, if that is known.
    pub fn event(&self) -> Option<&str> {
        match self {
            Self::Shape(_) => None,
            Self::Handler { event, .. } => Some(event),
        }
    }
}

/// What is said of a handler.
const KEYS: [&str; 10] =
    ["type", "command", "args", "timeout", "if", "async", "once", "required", "sandbox", "matcher"];
/// What is known of a handler and makes no difference here.
const IGNORED: [&str; 3] = ["shell", "statusMessage", "description"];

impl HookTable {
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The hooks of a settings file of Claude Code's. Other settings are passed over.
    pub fn of_settings(text: &str) -> Result<Self, SettingsError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Settings {
            #[serde(default)]
            hooks: HookTable,
            #[serde(default)]
            disable_all_hooks: bool,
        }
        let settings: Settings = serde_json::from_str(text)?;
        Ok(if settings.disable_all_hooks { Self::default() } else { settings.hooks })
    }

    /// The commands, in order, each once. `is_strict`: what is not understood is an error, as in our own configuration.
    pub fn read(&self, is_strict: bool) -> Result<ReadHooks, SettingsError> {
        let mut read = ReadHooks::default();
        for (name, groups) in &self.0 {
            let failed = |what: String| SettingsError::Handler { event: name.clone(), what };
            let Some(event) = HookEvent::named(name) else {
                let known: Vec<&str> = HookEvent::ALL.iter().map(|(known, ..)| *known).collect();
                let meant = crate::spelling::nearest(name, known.iter().copied());
                let meant = meant.map_or(".".to_owned(), |word| format!("; did you mean `{word}`?"));
                if is_strict {
                    return Err(failed(format!("there is no such event{meant} There are {}", known.join(", "))));
                }
                read.unknown_events.push(name.clone());
                continue;
            };
            for group in groups {
                let matcher = Matcher::parse(group.matcher.as_deref().unwrap_or_default()).map_err(failed)?;
                let own = (group.own != Said::default()).then_some(&group.own);
                if is_strict && own.is_none() && group.hooks.is_empty() {
                    return Err(failed("it has no command".to_owned()));
                }
                for said in own.into_iter().chain(&group.hooks) {
                    match said.handler(event, &matcher, is_strict) {
                        Ok(handler) if read.handlers.iter().any(|other| other.is_same(&handler)) => {}
                        Ok(handler) => read.handlers.push(handler),
                        Err(what) if is_strict => return Err(failed(what)),
                        Err(what) => read.notices.push(format!("a hook of {name} is not run: {what}")),
                    }
                }
            }
        }
        Ok(read)
    }
}

impl Said {
    fn handler(&self, event: HookEvent, matcher: &Matcher, is_strict: bool) -> Result<Handler, String> {
        let kind = self.r#type.as_deref().unwrap_or("command");
        if kind != "command" {
            return Err(format!("hooks of the type `{kind}` are not known here, only `command`"));
        }
        let strange = self.rest.keys().find(|key| !IGNORED.contains(&key.as_str()) && *key != "asyncRewake");
        if let Some(key) = strange.filter(|_| is_strict) {
            return Err(format!("there is no key `{key}`{}", crate::spelling::did_you_mean(key, KEYS)));
        }
        let command = self.command.clone().filter(|command| !command.trim().is_empty());
        let seconds = self.timeout.unwrap_or(COMMAND_SECONDS);
        if !seconds.is_finite() || seconds <= 0.0 {
            return Err("its timeout must be a number of seconds above 0".to_owned());
        }
        Ok(Handler {
            event,
            matcher: matcher.clone(),
            condition: self.r#if.clone(),
            command: command.ok_or("it has no command")?,
            args: self.args.clone(),
            timeout: Duration::from_secs_f64(seconds.min(86_400.0)),
            is_async: self.r#async,
            is_once: self.once,
            is_required: self.required,
            is_confined: self.sandbox,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_others_are_read_as_far_as_they_go_and_ours_to_the_letter() {
        let text = r#"{"model": "x", "hooks": {
            "PreToolUse": [{"matcher": "Bash", "hooks": [
                {"type": "command", "command": "a", "timeout": 30}, {"type": "command", "command": "a", "timeout": 30},
                {"type": "prompt", "prompt": "is it safe?"}]}],
            "TeammateIdle": [{"hooks": [{"type": "command", "command": "b"}]}]}}"#;
        let table = HookTable::of_settings(text).expect("sound");
        let read = table.read(false).expect("nothing is wrong with it");
        assert_eq!(read.handlers.len(), 1, "the same twice is one");
        assert_eq!(read.handlers[0].timeout, Duration::from_secs(30));
        assert_eq!(
            read.notices,
            ["a hook of PreToolUse is not run: hooks of the type `prompt` are not known here, only `command`"]
        );
        assert_eq!(read.unknown_events, ["TeammateIdle"]);
        let off = HookTable::of_settings(r#"{"disableAllHooks": true, "hooks": {"Stop": []}}"#).expect("sound");
        assert!(off.is_empty());
        assert!(HookTable::of_settings("{\"hooks\": 3}").is_err());

        let ours = |text: &str| toml::from_str::<HookTable>(text).expect("a table").read(true);
        let one = ours("[[PreToolUse]]\nmatcher = \"Bash\"\ncommand = \"x\"\nrequired = true\n").expect("sound");
        assert!(one.handlers[0].is_required);
        let error = ours("[[PreTolUse]]\ncommand = \"x\"\n").expect_err("a typo").to_string();
        assert!(error.contains("did you mean `PreToolUse`?"), "{error}");
        let error = ours("[[Stop]]\ncomand = \"x\"\n").expect_err("a typo").to_string();
        assert_eq!(error, "in hooks.Stop: there is no key `comand`; did you mean `command`?");
        let error = ours("[[Stop]]\nmatchr = \"x\"\ncommand = \"x\"\n").expect_err("a typo").to_string();
        assert!(error.ends_with("did you mean `matcher`?"), "{error}");
        let error = ours("[[Stop]]\nmatcher = \"x\"\n").expect_err("nothing to run").to_string();
        assert_eq!(error, "in hooks.Stop: it has no command");
        let error = ours("[[Stop]]\ncommand = \"x\"\ntimeout = 0\n").expect_err("no time").to_string();
        assert!(error.contains("timeout"), "{error}");
    }
}
