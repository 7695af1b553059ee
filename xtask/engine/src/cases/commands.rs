//! What commands and rules come to: OpenCode's tables of permissions, Neovate's of risky commands, Codex' of safe ones.

use super::{Judge, differs};
use piton_core::call::{Access, CommandPart};
use piton_core::permission::{Action, Ask, Judgement, PermissionMode, Reach, Rule, Rules, use_of};
use piton_shell::{ByName, CommandPattern, Effect, Part, Reading, read};
use piton_tools::bash::Bash;
use piton_tools::disk::Disk;
use piton_tools::plan::Look;
use piton_tools::tool::Tool;
use piton_tools::toolset::ToolSet;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folder that rules for paths begin at.
const WORKSPACE: &str = "/w";

pub(super) fn suite(system: &str, name: &str) -> Option<Judge> {
    match (system, name) {
        ("opencode", "permission_wildcard") => Some(wildcard),
        ("opencode", "permission_rules") => Some(rules),
        ("opencode", "bash_arity") => Some(arity),
        ("opencode", "external_directory_escape") => Some(escape),
        ("neovate", "bash_risk") => Some(risk),
        ("codex", "safe_commands") => Some(safe),
        ("codex", "dangerous_commands") => Some(dangerous),
        ("codex", "shell_plain_parse") => Some(plain),
        _ => None,
    }
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

fn words(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(|word| word.as_str().map(ToOwned::to_owned)).collect()
}

fn same(expected: &Value, got: &Value) -> Result<(), String> {
    if expected == got { Ok(()) } else { Err(got.to_string()) }
}

/// Words as a shell reads them back.
fn quoted(words: &[String]) -> String {
    words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect::<Vec<_>>().join(" ")
}

fn wildcard(case: &Value) -> Result<(), String> {
    let (input, expected) = (&case["input"], &case["expected"]);
    if case["fn"] == "match" {
        let (subject, pattern) = (text(input, "text"), text(input, "pattern"));
        let found = CommandPattern::parse(pattern).is_ok_and(|parsed| parsed.matches(&part_of(subject)));
        return match same(expected, &json!(found)) {
            Err(_) if pattern.contains('?') => Err(differs("`?` is a character of a command, `*` the only wildcard")),
            Err(_) if pattern.contains('\\') || subject.contains('\\') => {
                Err(differs("`\\` is a character on this system"))
            }
            said => said,
        };
    }
    let head = text(&input["subject"], "head");
    let command = match input["subject"].as_str() {
        Some(command) => command.to_owned(),
        None => std::iter::once(head.to_owned()).chain(words(&input["subject"]["tail"])).collect::<Vec<_>>().join(" "),
    };
    let rules = input["rules"].as_object().ok_or("no rules")?;
    let rules = rules.iter().map(|(pattern, action)| Rule::parse(&format!("bash({pattern})"), action_of(action)));
    let rules = Rules(rules.collect::<Result<_, _>>().map_err(|error| error.to_string())?);
    let judged = of_command(&rules, &command);
    same(expected, &judged.rule.map_or(Value::Null, |rule| json!(rule.action)))
}

/// A command of these words, as patterns see it.
fn part_of(command: &str) -> Part {
    let words: Vec<String> = command.split(' ').map(ToOwned::to_owned).collect();
    CommandPart { words, ..CommandPart::default() }.read()
}

fn action_of(value: &Value) -> Action {
    Action::ALL.into_iter().find(|action| Some(action.word()) == value.as_str()).unwrap_or(Action::Ask)
}

fn of_command(rules: &Rules, command: &str) -> Judgement {
    let reading = read(command, &ByName);
    let mut accesses: Vec<Access> =
        reading.unknowable.into_iter().map(|found| Access::Unknowable(found.text)).collect();
    accesses.extend(reading.parts.into_iter().map(|part| Access::Command(Box::new(CommandPart::from(part)))));
    judge(rules, "bash", &accesses)
}

fn judge(rules: &Rules, tool: &str, accesses: &[Access]) -> Judgement {
    let reach = Reach::default();
    let ask = Ask { tool, accesses, workspace: WORKSPACE, is_confined: false, reach: &reach };
    rules.judge_in(PermissionMode::Ask, &[], &ask)
}

/// A rule of a table: permission, pattern, action.
fn rule_of(rule: &Value) -> Result<Rule, String> {
    let (tool, pattern) = (text(rule, "permission"), text(rule, "pattern"));
    let written = if pattern == "*" { tool.to_owned() } else { format!("{tool}({pattern})") };
    Rule::parse(&written, action_of(&rule["action"])).map_err(|error| error.to_string())
}

fn rules(case: &Value) -> Result<(), String> {
    let (input, expected) = (&case["input"], &case["expected"]);
    match case["fn"].as_str() {
        Some("fromConfig") => from_config(&input["config"], expected),
        Some("merge") => {
            let all = input["rulesets"].as_array().into_iter().flatten().filter_map(Value::as_array).flatten();
            let all: Vec<Value> =
                all.map(rule_of).map(|rule| rule.map(|rule| said(&rule))).collect::<Result<_, _>>()?;
            same(expected, &json!(all))
        }
        Some("disabled") => disabled(input, expected),
        _ => evaluate(input, expected),
    }
}

fn said(rule: &Rule) -> Value {
    json!({"permission": rule.tool, "pattern": rule.pattern.as_deref().unwrap_or("*"), "action": rule.action})
}

/// Why a rule of theirs cannot be written here.
fn unwritable(tool: &str) -> Option<String> {
    match tool {
        "external_directory" => {
            Some(differs("other folders have no rules of their own: `Read(/x/**)` and `Edit(/x/**)` say it"))
        }
        "*" => Some(differs("a pattern is for a tool: what `rm` is to every tool is not known")),
        _ => None,
    }
}

fn from_config(config: &Value, expected: &Value) -> Result<(), String> {
    let mut all = Vec::new();
    for (tool, value) in config.as_object().into_iter().flatten() {
        let one = [(&String::from("*"), value)];
        let patterns = value.as_object().map_or_else(|| one.to_vec(), |patterns| patterns.iter().collect());
        for (pattern, action) in patterns {
            let rule = rule_of(&json!({"permission": tool, "pattern": pattern, "action": action}));
            all.push(said(&rule.map_err(|error| unwritable(tool).unwrap_or(error))?));
        }
    }
    // The tables of a configuration are not in order here: the more particular rule wins, whatever comes first.
    let sorted = |rules: &Value| {
        let all = rules.as_array().into_iter().flatten();
        let written = |rule: &Value| format!("{} {} {}", rule["permission"], rule["pattern"], rule["action"]);
        let mut rules: Vec<String> = all.map(written).collect();
        rules.sort();
        rules
    };
    if sorted(expected) == sorted(&json!(all)) { Ok(()) } else { Err(json!(all).to_string()) }
}

fn evaluate(input: &Value, expected: &Value) -> Result<(), String> {
    let (tool, subject) = (text(input, "permission"), text(input, "pattern"));
    let all: Vec<&Value> =
        input["rulesets"].as_array().into_iter().flatten().filter_map(Value::as_array).flatten().collect();
    let mut rules = Rules::default();
    for rule in &all {
        let written = rule_of(rule).map_err(|error| unwritable(text(rule, "permission")).unwrap_or(error))?;
        rules.0.push(written);
    }
    let judged = match tool {
        "bash" => of_command(&rules, subject),
        "edit" | "read" if subject.starts_with('/') => judge(&rules, tool, &[Access::Write(subject.to_owned())]),
        "edit" => judge(&rules, tool, &[Access::Write(format!("{WORKSPACE}/{subject}"))]),
        "read" => judge(&rules, tool, &[Access::Read(format!("{WORKSPACE}/{subject}"))]),
        "task" => judge(&rules, tool, &[use_of(tool, subject)]),
        _ => judge(&rules, tool, &[Access::Use(tool.to_owned())]),
    };
    if same(expected, &json!(judged.action)).is_ok() {
        return Ok(());
    }
    // There the last rule wins that matches; here the most particular.
    let order = |rule: &Value| (rule["permission"] != "*", text(rule, "pattern") != "*", text(rule, "pattern").len());
    if !all.is_sorted_by_key(|rule| order(rule)) {
        return Err(differs(
            "the more particular rule wins, and among equals the later: a word about all is no exception to one about some",
        ));
    }
    let (reads, allows) = (tool == "read", judged.action == Action::Allow);
    if tool == "task" && allows && expected == "ask" && judged.rule.is_none() {
        return Err(differs("an agent may be called without a question: what it does is asked about"));
    }
    if reads && allows && expected == "ask" {
        return Err(differs("a file of the workspace is read without a question"));
    }
    Err(json!(judged.action).to_string())
}

fn disabled(input: &Value, expected: &Value) -> Result<(), String> {
    let mut rules = Rules::default();
    let all = input["ruleset"].as_array().into_iter().flatten();
    for rule in all.clone() {
        rules.0.push(rule_of(rule).map_err(|error| unwritable(text(rule, "permission")).unwrap_or(error))?);
    }
    let tools = words(&input["tools"]);
    let gone: Vec<&String> = tools.iter().filter(|tool| rules.forbid(tool)).collect();
    let is_edit = |tool: &String| ["write", "apply_patch"].contains(&tool.as_str());
    match same(expected, &json!(gone)) {
        Err(_) if tools.iter().any(is_edit) => {
            Err(differs("each tool that edits has a name of its own; `Edit` is all of them"))
        }
        Err(_) if all.clone().any(|rule| text(rule, "pattern") != "*" && rule["action"] != "deny") => {
            Err(differs("a tool of which some calls are allowed stays on offer"))
        }
        said => said,
    }
}

fn arity(case: &Value) -> Result<(), String> {
    let input = words(&case["input"]);
    let expected = words(&case["expected"]).join(" ");
    let judged = of_command(&Rules::default(), &input.join(" "));
    let offered = judged.remember.0.first().and_then(|rule| rule.pattern.clone()).unwrap_or_default();
    let offered = offered.trim_end_matches(" *");
    let program = input.first().map(String::as_str).unwrap_or_default();
    match offered == expected {
        true => Ok(()),
        false if input.is_empty() => Ok(()),
        false if offered.is_empty() && expected.split(' ').any(|word| word.starts_with('-')) => {
            Err(differs("an option does not say what a program is to do: nothing is offered"))
        }
        false
            if offered.is_empty()
                && read(&input.join(" "), &ByName).parts.iter().all(|part| !part.through.is_empty()) =>
        {
            Err(differs("nothing is offered for what is fetched to be run"))
        }
        false if offered.is_empty() && !read(&input.join(" "), &ByName).unknowable.is_empty() => {
            Err(differs("nothing is offered for a program that may run the one that it names"))
        }
        false if program == "sudo" => Err(differs("nothing is offered for what runs as somebody else")),
        // What would be more than was asked about: any script, any host, any subcommand.
        false if offered.starts_with(&expected) => Err(differs("the rule is narrower: it names what runs, or where")),
        false if judged.action == Action::Allow => Ok(()),
        false => Err(format!("{offered:?}")),
    }
}

/// A workspace and a folder beside it, in the worst state that the calls before could have made.
struct Escape {
    _room: tempfile::TempDir,
    workspace: PathBuf,
    outside: PathBuf,
}

impl Escape {
    fn new(files: &Value) -> std::io::Result<Self> {
        let room = tempfile::tempdir()?;
        let root = room.path().canonicalize()?;
        let (workspace, outside) = (root.join("workspace"), root.join("outside"));
        [&workspace, &outside].into_iter().try_for_each(std::fs::create_dir)?;
        std::fs::write(workspace.join("a.txt"), "a")?;
        for (name, content) in files.as_object().into_iter().flatten() {
            std::fs::write(outside.join(name), content.as_str().unwrap_or_default())?;
        }
        Ok(Self { _room: room, workspace, outside })
    }

    /// What becomes of a call in this mode, without a sandbox.
    fn judge(&self, tool: &str, input: &Value, mode: PermissionMode) -> Option<Action> {
        let files = Arc::new(Disk::new(self.workspace.join(".sessions")));
        let env = Arc::new([("PATH".into(), "/usr/bin:/bin".into())].into());
        let look = Look::without_session(self.workspace.clone(), files, false, env);
        let tools = ToolSet::builtin();
        let planned = match tool {
            "bash" => Bash.plan(input, &look).ok()?.planned,
            name => tools.find(name)?.1.plan(input, &look).ok()?.planned,
        };
        let reach = Reach { read: vec!["/usr".to_owned(), "/bin".to_owned()], ..Reach::default() };
        let workspace = self.workspace.to_string_lossy();
        let ask = Ask { tool, accesses: &planned.accesses, workspace: &workspace, is_confined: false, reach: &reach };
        Some(Rules::default().judge_in(mode, &[], &ask).action)
    }
}

fn escape(case: &Value) -> Result<(), String> {
    let input = &case["input"];
    let escape = Escape::new(&input["outside_files"]).map_err(|error| error.to_string())?;
    let outside = escape.outside.to_string_lossy().into_owned();
    let calls = input["calls"].as_array().ok_or("no calls")?;
    let mut stopped = false;
    for call in calls {
        let args: Value = serde_json::from_str(&call["args"].to_string().replace("<OUTSIDE>", &outside))
            .map_err(|error| error.to_string())?;
        let args = match args["filePath"].as_str() {
            Some(path) => {
                json!({"path": path, "content": args["content"], "old": args["oldString"], "new": args["newString"]})
            }
            None => args,
        };
        let tool = text(call, "name");
        // As if a person had allowed the calls before.
        stopped = escape.judge(tool, &args, PermissionMode::Ask).is_none_or(|action| action != Action::Allow);
        if text(&args, "command").starts_with("ln -s") && !text(&args, "command").contains("&&") {
            let made = std::os::unix::fs::symlink(Path::new(&outside), escape.workspace.join("link"));
            made.map_err(|error| error.to_string())?;
        }
    }
    if stopped { Ok(()) } else { Err("it would run unasked".to_owned()) }
}

/// What is risky there is asked about here.
fn risk(case: &Value) -> Result<(), String> {
    let command = case["input"].as_str().ok_or("no command")?;
    let reading = read(command, &ByName);
    let asks = !reading.changes_nothing();
    if asks || case["expected"]["highRisk"] == false {
        return Ok(());
    }
    if case["expected"]["substitution"] == true {
        return Err(differs("a substitution is judged by what it runs, and this changes nothing"));
    }
    if reading.parts.len() > 1 {
        return Err(differs("the code of a shell is read, and this changes nothing"));
    }
    Err("it would run unasked".to_owned())
}

fn of_argv(case: &Value) -> (String, Reading) {
    let argv = words(&case["argv"]);
    let command = quoted(&argv);
    let reading = read(&command, &ByName);
    (command, reading)
}

fn safe(case: &Value) -> Result<(), String> {
    if case["only"] == "windows" {
        return Err(differs("a path of another system"));
    }
    let (command, reading) = of_argv(case);
    let found = reading.changes_nothing();
    match (case["safe"].as_bool().unwrap_or_default(), found) {
        (expected, found) if expected == found => Ok(()),
        (false, true) if command.contains("(pwd && echo hi)") || command.contains('(') => {
            Err(differs("a subshell is read, too: each command in it changes nothing"))
        }
        (false, true) if words(&case["argv"]).len() > 3 && command.contains("'-lc'") => {
            Err(differs("what stands behind the code of `bash -c` are its parameters; the code is read"))
        }
        _ => Err(format!("{found}: {reading:?}")),
    }
}

fn dangerous(case: &Value) -> Result<(), String> {
    let (_, reading) = of_argv(case);
    let rm = CommandPattern::parse("rm *").map_err(|error| error.to_string())?;
    let runs = reading.parts.iter().any(|part| rm.could_match(part)) || !reading.unknowable.is_empty();
    let is_rm = |part: &Part| part.names.iter().any(|name| name == "rm");
    match case["expect"].is_null() {
        false if runs && !reading.changes_nothing() => Ok(()),
        false => Err(format!("{reading:?}")),
        // Another `rm` changes something, too.
        true if runs == reading.parts.iter().any(is_rm) => Ok(()),
        true => Err(format!("{reading:?}")),
    }
}

fn plain(case: &Value) -> Result<(), String> {
    let script = text(case, "script");
    let reading = read(script, &ByName);
    let parts: Vec<&Vec<String>> = reading.parts.iter().map(|part| &part.words).collect();
    if !case["commands"].is_null() {
        return same(&case["commands"], &json!(parts));
    }
    // What is not plain there is read here; then it is not taken for the words as they stand.
    let naive: Vec<&str> = script.split(' ').collect();
    let is_open = reading.parts.iter().any(|part| !part.unresolved.is_empty() || part.effect != Effect::ChangesNothing);
    let is_plain = reading.parts.len() == 1 && reading.parts[0].words == naive && reading.unknowable.is_empty();
    match (is_plain, is_open) {
        (true, false) => Err(differs("bash does nothing with such a word")),
        _ => Ok(()),
    }
}
