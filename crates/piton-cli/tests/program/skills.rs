//! Skills: what a repository and a user keep as `SKILL.md`, named until it is trusted, listed for the model, given to it whole.

use crate::mcp::SERVER;
use crate::stage::{Ran, Stage, kill, until};
use crate::steer::Talk;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const PDF: &str = "---\nname: pdf\ndescription: Reads PDF files. Use it when: forms come up\narguments: file\n---\n\
                   Read $file with scripts/read.py.\n";
const DEPLOY: &str = "---\ndescription: Ships it\ndisable-model-invocation: true\n---\nShip $ARGUMENTS now.\n";
const STYLE: &str = "---\nname: style\ndescription: How code looks here\nuser-invocable: false\n---\nTabs, always.\n";

fn skill(input: &Value) -> Value {
    json!({"tools": [{"name": "skill", "args": input}]})
}

/// The tool as the first request has it; `None`: it has none.
fn tool(stage: &Stage) -> Option<Value> {
    let requests = stage.provider.requests();
    let tools = requests[0].body["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["function"].clone()).find(|tool| tool["name"] == "skill")
}

fn stage(script: Value) -> Stage {
    Stage::new(script).with_files([
        (".claude/skills/pdf/SKILL.md", PDF),
        (".claude/skills/pdf/scripts/read.py", "print('text')\n"),
        (".opencode/skill/deploy/SKILL.md", DEPLOY),
        (".agents/skills/style/SKILL.md", STYLE),
        (".piton/skills/broken/SKILL.md", "---\nname: broken\ndescription: x\ncontext: spoon\n---\nx"),
    ])
}

fn text(outcome: &Value) -> &str {
    outcome["text"].as_str().unwrap()
}

#[test]
fn skills_of_a_repository_are_named_and_not_offered_until_they_are_trusted() {
    let stage = stage(json!([skill(&json!({"name": "pdf"})), {"text": "done", "repeat": true}]));
    let ran = stage.run(&["go"]).expect_code(0).expect_said(&[
        "3 things of this repository are ignored until you approve them: piton trust",
        "broken/SKILL.md is left out: line 4: context: `spoon` is none",
    ]);
    assert!(tool(&stage).is_none(), "no skill, no tool");
    assert!(text(&ran.outcomes()[0]).contains("Tool skill not found"));
    let listed = Ran::of(stage.piton(&["skill"])).expect_code(0);
    assert!(listed.stdout.contains("pdf                  not trusted"), "{}", listed.stdout);
    Ran::of(stage.piton(&["trust", "--yes"]))
        .expect_said(&["pdf/SKILL.md, a skill says", "file \"scripts/read.py\", 14 bytes, BLAKE3"]);
    Ran::of(stage.piton(&["skill", "list"]))
        .expect_code(0)
        .expect_stdout(&["pdf                  in force", "cannot be used"]);
    // What its words have the model run is trusted with it.
    stage.workspace.write(".claude/skills/pdf/scripts/read.py", "import os\n");
    Ran::of(stage.piton(&["skill", "pdf"])).expect_code(0).expect_stdout(&["not trusted", "Read $file"]);
    stage.run(&["again"]).expect_said(&["1 thing of this repository is ignored until you approve it: piton trust"]);
}

#[test]
fn a_trusted_skill_is_listed_for_the_model_and_given_whole() {
    let stage = stage(json!([
        {"tools": [
            {"name": "skill", "args": {"name": "pdf", "arguments": "form.pdf"}},
            {"name": "Skill", "args": {"skill": "deploy", "args": "prod"}},
            {"name": "skill", "args": {"query": "code"}},
        ]},
        {"text": "done"},
    ]));
    let model = format!("{}/test-model", stage.protocol);
    // Nobody is there to be asked, and nothing but reading is allowed.
    let args = ["run", "--mode", "plan", "--format", "stream-json", "--model", &model, "--trust", "go"];
    let ran = Ran::of(stage.piton(&args)).expect_code(0);
    let tool = tool(&stage).expect("there are skills");
    let description = tool["description"].as_str().unwrap();
    assert!(
        description
            .ends_with("Skills:\n- style: How code looks here\n- pdf: Reads PDF files. Use it when: forms come up"),
        "{description}"
    );
    let sent = stage.provider.requests()[1].body["messages"].to_string();
    for words in
        ["Read form.pdf with scripts/read.py.", "Its files:\\nscripts/read.py", "only the user starts it, with /deploy"]
    {
        assert!(sent.contains(words), "{words}: {sent}");
    }
    assert!(!sent.contains("Ship prod now"), "{sent}");
    let outcomes = ran.outcomes();
    assert!(text(&outcomes[0]).contains("/.claude/skills/pdf\n"), "{}", text(&outcomes[0]));
    assert!(outcomes.iter().any(|outcome| text(outcome) == "Skills with these words:\n- style: How code looks here"));
}

#[test]
fn the_users_own_skills_need_no_trust_and_come_after_the_repositorys() {
    let stage = stage(json!([skill(&json!({"name": "pdf"})), {"text": "done", "repeat": true}]));
    stage.home.write(".claude/skills/pdf/SKILL.md", "---\nname: pdf\ndescription: My own\n---\nMine.\n");
    let ran = stage.run(&["go"]).expect_code(0);
    assert!(tool(&stage).unwrap()["description"].as_str().unwrap().ends_with("\n- pdf: My own"));
    assert!(text(&ran.outcomes()[0]).contains("\nMine.\n"));
    Ran::of(stage.piton(&["trust", "--yes"])).expect_code(0);
    let listed = |args: &[&str]| Ran::of(stage.piton(args)).expect_code(0).stdout;
    assert!(!listed(&["skill", "list"]).contains("shadowed"));
    assert!(listed(&["skill", "list", "--all"]).contains("pdf                  shadowed"));
    assert!(listed(&["skill", "style", "--json"]).contains("\"for_people\":false"));
}

#[test]
fn a_subagent_has_the_skills_and_is_given_those_that_its_file_names() {
    let agent = "---\nname: writer\ndescription: Writes\nskills: [style, nothing]\n---\nYou write.\n";
    let stage = stage(json!([
        {"tools": [{"name": "task", "args": {"description": "write", "prompt": "write it", "subagent_type": "writer"}}]},
        {"of": "write it", "tools": [{"name": "skill", "args": {"name": "pdf"}}]},
        {"of": "write it", "text": "It is written."},
        {"text": "done"},
    ]))
    .with_files([(".claude/agents/writer.md", agent)]);
    stage
        .run(&["--trust", "go"])
        .expect_code(0)
        .expect_said(&["the agent writer names the skill nothing, which it cannot be given"]);
    let requests = stage.provider.requests();
    let own = requests[1].body["messages"].to_string();
    assert!(own.contains("You write.") && own.contains("Tabs, always."), "{own}");
    assert!(!requests[0].body["messages"].to_string().contains("Tabs, always."));
    assert!(requests[2].body["messages"].to_string().contains("Read  with scripts/read.py."));
}

#[test]
fn a_skill_with_a_session_of_its_own_is_done_by_a_subagent_where_one_can_be_called() {
    let fork =
        "---\nname: survey\ndescription: Looks around\ncontext: fork\nagent: Explore\n---\nSurvey $ARGUMENTS now.\n";
    let call = skill(&json!({"name": "survey", "arguments": "the docs"}));
    let stage = stage(json!([call, {"of": "Survey the docs now.", "text": "There are three."}, {"text": "done"}]))
        .with_files([(".piton/skills/survey/SKILL.md", fork)]);
    let ran = stage.run(&["--trust", "go"]).expect_code(0);
    assert!(text(&ran.outcomes()[0]).starts_with("There are three.\n\n[task_id: "), "{:?}", ran.outcomes());
    let delegated: Vec<Value> = ran.events().into_iter().filter(|event| event["type"] == "delegated").collect();
    assert_eq!(delegated.len(), 1);
    assert_eq!(delegated[0]["agent"], "explore");
    let requests = stage.provider.requests();
    let own = requests[1].body["messages"].to_string();
    assert!(own.contains("You find things out for another agent") && own.contains("The folder of this skill"), "{own}");
    assert!(!requests[2].body["messages"].to_string().contains("Survey the docs now."));
    // A ban on an agent holds for skills, and so does one on subagents.
    let stage = self::stage(json!([call, {"text": "done"}])).with_files([(".piton/skills/survey/SKILL.md", fork)]);
    let ran = stage.run(&["--trust", "--deny", "Agent(explore)", "go"]).expect_code(0);
    assert!(text(&ran.outcomes()[0]).contains("\nSurvey the docs now.\n"), "{:?}", ran.outcomes());
    let stage = self::stage(json!([call, {"text": "done"}])).with_files([(".piton/skills/survey/SKILL.md", fork)]);
    let ran = stage.run(&["--trust", "--deny", "task", "go"]).expect_code(0);
    assert!(text(&ran.outcomes()[0]).contains("\nSurvey the docs now.\n"), "{:?}", ran.outcomes());
    assert!(ran.events().iter().all(|event| event["type"] != "delegated"));
}

#[test]
fn a_skill_that_a_person_starts_has_its_commands_run_and_words_counted_as_claude_code_does() {
    let body = "---\nname: bang\ndescription: x\n---\n$0 on !`echo main; echo \"$CLAUDE_PROJECT_DIR\" > dir` of \
                ${CLAUDE_SESSION_ID}, $ARGUMENTS[1] last.\n";
    let stage = Stage::new(json!([{"text": "done"}])).with_files([(".claude/skills/bang/SKILL.md", body)]);
    stage.run(&["--trust", "/bang one two three"]).expect_code(0);
    let sent = stage.provider.requests()[0].body["messages"].to_string();
    let session = stage.session_dir().file_name().unwrap().to_str().unwrap().to_owned();
    assert!(sent.contains("one on main") && sent.contains(&format!(" of {session}, two last.")), "{sent}");
    assert_eq!(stage.workspace.read("dir").trim(), stage.workspace.path().to_str().unwrap());
}

#[test]
fn a_ban_on_one_skill_or_one_agent_is_on_no_other() {
    let task = |agent: &str| json!({"name": "task", "args": {"description": "a part", "prompt": "part", "subagent_type": agent}});
    let calls = json!([
        {"name": "skill", "args": {"name": "style"}}, {"name": "skill", "args": {"name": "pdf", "arguments": "a"}},
        task("Explore"), task("general-purpose"),
    ]);
    let stage = stage(json!([{"tools": calls}, {"of": "part", "text": "I did it."}, {"text": "done"}]))
        .with_files([(".claude/settings.json", r#"{"permissions": {"deny": ["Skill(pdf *)", "Agent(Explore)"]}}"#)]);
    let ran = stage.run(&["--trust", "go"]).expect_code(0);
    let outcomes = ran.outcomes();
    let status: Vec<&str> = outcomes.iter().map(|outcome| outcome["status"].as_str().unwrap()).collect();
    assert_eq!(status, ["ok", "denied", "denied", "ok"], "{outcomes:?}");
    assert!(text(&outcomes[2]).contains("the rule task(explore)"), "{outcomes:?}");
    assert!(text(&outcomes[3]).starts_with("I did it."), "{outcomes:?}");
}

#[test]
fn what_a_skill_allows_runs_unasked_until_its_turn_ends_and_lifts_no_rule() {
    let ship = "---\nname: ship\ndescription: Ships\nallowed-tools: Bash(touch:*) Bash(rm:*) *\n---\nShip it.\n";
    let bash = |command: &str| json!({"tools": [{"name": "bash", "args": {"command": command}}]});
    let script = || {
        json!([
            bash("touch before"), skill(&json!({"name": "ship"})), bash("touch during"), bash("rm -f kept"), bash("mkdir other"),
            {"text": "a"}, bash("touch after"), {"text": "b"},
        ])
    };
    let run = |more: &[&str]| {
        let stage = Stage::new(script())
            .with_files([(".claude/skills/ship/SKILL.md", ship), ("kept", "")])
            .with_config("[permission]\n\"bash(rm *)\" = \"ask\"\n");
        let model = format!("{}/test-model", stage.protocol);
        let base =
            ["run", "--mode", "ask", "--sandbox", "off", "--format", "stream-json", "--model", &model, "--trust"];
        Ran::of(stage.piton(&[&base[..], more, &["go"]].concat()));
        Ran::of(stage.piton(&[&base[..], more, &["-c", "again"]].concat()));
        ["before", "during", "kept", "other", "after"].map(|name| stage.workspace.has(name))
    };
    // Nobody is there to be asked: what is asked is refused. What a rule of the user's asks is asked.
    assert_eq!(run(&[]), [false, true, true, false, false]);
    assert_eq!(run(&["--deny", "bash"]), [false, false, true, false, false], "no ban is lifted");
}

#[test]
fn what_a_person_starts_allows_its_tools_until_the_turn_ends_and_lifts_no_rule() {
    let front = "---\nname: ship\ndescription: Ships\nallowed-tools: Bash(touch:*) Bash(rm:*) *\n---\nShip it.\n";
    let bash = |command: &str| json!({"tools": [{"name": "bash", "args": {"command": command}}]});
    let run = |file: &str, more: &[&str]| {
        let script = json!([bash("touch during"), bash("rm -f kept"), bash("mkdir other"), {"text": "a"}, bash("touch after"), {"text": "b"}]);
        let stage = Stage::new(script)
            .with_files([(file, front), ("kept", "")])
            .with_config("[permission]\n\"bash(rm *)\" = \"ask\"\n");
        let model = format!("{}/test-model", stage.protocol);
        let base =
            ["run", "--mode", "ask", "--sandbox", "off", "--format", "stream-json", "--model", &model, "--trust"];
        Ran::of(stage.piton(&[&base[..], more, &["/ship"]].concat()));
        Ran::of(stage.piton(&[&base[..], more, &["-c", "again"]].concat()));
        ["during", "kept", "other", "after"].map(|name| stage.workspace.has(name))
    };
    for file in [".claude/skills/ship/SKILL.md", ".claude/commands/ship.md"] {
        assert_eq!(run(file, &[]), [true, true, false, false], "{file}");
        assert_eq!(run(file, &["--deny", "bash"]), [false, true, false, false], "{file}: no ban is lifted");
    }
}

#[test]
fn the_model_is_told_of_skills_and_agents_that_change_while_it_works_and_its_frame_stays() {
    let stage = Stage::new(json!([{"text": "ok", "repeat": true}]));
    stage.home.write("skills/pdf/SKILL.md", PDF);
    stage.home.write("skills/old/SKILL.md", "---\nname: old\ndescription: Old\n---\nOld.");
    let mut talk = Talk::new(&stage, &["one"]);
    until("the first is answered", || talk.count("result") == 1);
    talk.say(r#"{"do":"prompt","text":"two"}"#);
    until("the second is answered", || talk.count("result") == 2);
    stage.home.write("skills/pdf/SKILL.md", PDF.replace("read.py", "write.py"));
    std::fs::remove_file(stage.home.path().join("skills/old/SKILL.md")).unwrap();
    stage.home.write("skills/fresh/SKILL.md", "---\nname: fresh\ndescription: New one\n---\nNew.");
    stage.home.write("agents/helper.md", "---\nname: helper\ndescription: Helps\n---\nHelp.");
    for prompt in ["three", "four"] {
        talk.say(json!({"do": "prompt", "text": prompt}));
        let want = if prompt == "three" { 3 } else { 4 };
        until("it is answered", || talk.count("result") == want);
    }
    assert_eq!(talk.end(), 0);
    let requests = stage.provider.requests();
    let told =
        |at: usize| requests[at].body["messages"].to_string().matches("have changed on the disk. This session").count();
    assert_eq!([0, 1, 2, 3].map(told), [0, 0, 1, 1], "told once");
    let last = requests[3].body["messages"].to_string();
    for line in ["- skill fresh: new", "- skill old: gone", "- skill pdf: changed", "- agent helper: new"] {
        assert!(last.contains(line), "{line}: {last}");
    }
    for request in &requests {
        assert_eq!(
            (&request.body["tools"], &request.body["messages"][0]),
            (&requests[0].body["tools"], &requests[0].body["messages"][0])
        );
    }
}

#[test]
fn a_skill_that_was_given_is_put_back_after_every_compaction() {
    let long = "as you wish ".repeat(300);
    let stage = stage(json!([
        skill(&json!({"name": "pdf", "arguments": "form.pdf"})), {"text": long},
        {"text": "## Next step\nthe summary"}, {"text": long},
        {"text": "## Next step\nthe next summary"}, {"text": "done"},
    ]));
    stage.run(&["--trust", "first"]).expect_code(0);
    let body = "Read form.pdf with scripts/read.py.";
    for request in [3, 5] {
        Ran::of(stage.piton(&["session", "compact", "last"])).expect_code(0);
        stage.run(&["-c", "go on"]).expect_code(0);
        let sent = stage.provider.requests()[request].body["messages"].to_string();
        assert!(!sent.contains("tool_call_id"), "the call is summed up: {sent}");
        assert_eq!(sent.matches(body).count(), 1, "{sent}");
        assert!(sent.contains("Skills that you were given before"), "{sent}");
    }
}

#[test]
fn a_skill_is_checked_by_the_rules_of_agentskills_io() {
    let stage = stage(json!([]));
    let check = |path: &str| Ran::of(stage.piton(&["skill", "validate", path]));
    check(".agents/skills/style").expect_code(1).expect_said(&["no such fields: user-invocable"]);
    stage.workspace.write("least/SKILL.md", "---\nname: least\ndescription: x\n---\n");
    check("least").expect_code(0).expect_stdout(&["least is a skill by the rules"]);
    Ran::of(stage.piton(&["skill", "nowhere"])).expect_code(1).expect_said(&["there is no skill `nowhere`"]);
}

/// How many bytes the first request has.
fn first_bytes(stage: &Stage) -> usize {
    stage.run(&["go"]).expect_code(0);
    let requests = stage.provider.requests();
    let body = &requests.last().unwrap().body;
    body["tools"].to_string().len() + body["messages"].to_string().len()
}

#[test]
fn two_hundred_skills_and_fifty_agents_add_6_kb_and_four_servers_of_fifty_tools_3_more() {
    let stage = Stage::new(json!([{"text": "ok", "repeat": true}]));
    let bare = first_bytes(&stage);
    let words = "does what has to be done about one of the many things that there are in this repository";
    for n in 0..200 {
        stage.home.write(
            format!("skills/skill-{n}/SKILL.md"),
            format!("---\nname: skill-{n}\ndescription: It {words}, no. {n}\n---\nDo it."),
        );
    }
    for n in 0..50 {
        stage.home.write(
            format!("agents/agent-{n}.md"),
            format!("---\nname: agent-{n}\ndescription: Who {words}, no. {n}\n---\nYou do it."),
        );
    }
    let with_entries = first_bytes(&stage) - bare;
    assert!((2 * 1024..=6 * 1024).contains(&with_entries), "{with_entries} bytes");
    stage.home.write("server.py", SERVER);
    let server = stage.home.path().join("server.py").display().to_string();
    let servers: serde_json::Map<String, Value> =
        (0..4).map(|n| (format!("server-{n}"), json!({"command": "python3", "args": [server, "fifty"]}))).collect();
    stage.home.write("mcp.json", json!({ "mcpServers": servers }).to_string());
    for n in 0..4 {
        Ran::of(stage.piton(&["mcp", "test", &format!("server-{n}")])).expect_code(0);
    }
    // Their tools are known by now.
    let with_servers = first_bytes(&stage) - bare;
    assert!((with_entries + 500..=9 * 1024).contains(&with_servers), "{with_servers} bytes");
}

/// Runs in the reference's own Python: a line for each folder, valid or not.
const REFERENCE: &str = "
import pathlib, sys
from skills_ref.validator import validate
for folder in sorted(path for path in pathlib.Path(sys.argv[1]).iterdir() if path.is_dir()):
    try:
        valid = not validate(folder)
    except Exception:
        valid = False
    print(int(valid), folder.name)
";

#[test]
fn a_skill_is_valid_where_the_reference_of_agentskills_says_so() {
    const VERSION: &str = "0.1.1";
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("skills-ref-{VERSION}"));
    let mut install = Command::new("sh");
    install.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pip.sh")).arg(&folder);
    install.args([&format!("skills-ref=={VERSION}"), "strictyaml==1.7.3"]);
    Ran::within(install, Duration::from_secs(600)).expect_code(0);
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../piton-engine/tests/skills");
    let mut reference = Command::new(folder.join("bin/python"));
    reference.args(["-c", REFERENCE]).arg(&fixtures);
    let said = Ran::of(reference).expect_code(0).stdout;
    let stage = Stage::new(json!([]));
    let mut differ = Vec::new();
    for line in said.lines() {
        let (valid, name) = line.split_once(' ').unwrap();
        let ours = Ran::of(stage.piton(&["skill", "validate", fixtures.join(name).to_str().unwrap()]));
        if (valid == "1") != (ours.code == 0) {
            differ.push(format!("{name}: {valid} there, here: {}", ours.stdout));
        }
    }
    assert!(said.lines().count() > 70 && differ.is_empty(), "{differ:#?}");
}

/// A skill whose text includes what commands print.
const STATE: &str = "---\nname: state\ndescription: How things are\nallowed-tools: Bash(git:*)\n---\n\
                     ${CLAUDE_SESSION_ID} on !`echo main; echo ran >> ran` and !`exit 3` of $1.\n";

#[test]
fn a_skill_that_the_model_loads_has_its_commands_run_as_a_command_of_the_models() {
    let script = json!([skill(&json!({"name": "state", "arguments": "here"})), {"text": "done"}]);
    let stage = || Stage::new(script.clone()).with_files([(".claude/skills/state/SKILL.md", STATE)]);
    let run = |more: &[&str]| {
        let stage = stage();
        let model = format!("{}/test-model", stage.protocol);
        let base = ["run", "--format", "stream-json", "--model", &model, "--trust"];
        let ran = Ran::of(stage.piton(&[&base[..], more, &["go"]].concat()));
        let has_run = stage.workspace.has("ran").then(|| stage.workspace.read("ran").lines().count());
        let session = stage.session_dir().file_name().unwrap().to_string_lossy().into_owned();
        (ran.outcomes()[0].clone(), has_run, session)
    };
    let (outcome, has_run, session) = run(&["--yes"]);
    let said = text(&outcome);
    assert!(said.contains(&format!("{session} on main and")) && said.contains("3 of here."), "{outcome}");
    assert_eq!((outcome["status"].as_str(), has_run), (Some("ok"), Some(1)));
    // What is said of commands is said of these, and whoever may not run them can read the skill.
    let unrun = |flags: &[&str]| {
        let (outcome, has_run, _) = run(flags);
        let said = text(&outcome);
        assert!(said.contains("on !`echo main; echo ran >> ran` and") && said.contains("were not run."), "{outcome}");
        assert_eq!((outcome["status"].as_str(), has_run), (Some("ok"), None), "{flags:?}");
    };
    unrun(&["--yes", "--deny", "bash(echo *)"]);
    unrun(&["--yes", "--deny", "bash"]);
    unrun(&["--mode", "ask"]);
    unrun(&["--mode", "ask", "--allow", "skill"]);
    unrun(&["--mode", "plan"]);
    let allowed = ["--mode", "ask", "--allow", "bash(echo *)", "--allow", "bash(exit *)", "--allow", "Edit(./ran)"];
    let (outcome, has_run, _) = run(&allowed);
    assert_eq!((outcome["status"].as_str(), has_run), (Some("ok"), Some(1)), "{outcome}");
    let (outcome, has_run, _) = run(&["--yes", "--deny", "skill(state)"]);
    assert_eq!((outcome["status"].as_str(), has_run), (Some("denied"), None), "{outcome}");
}

#[test]
fn the_commands_of_a_skill_run_once_when_piton_is_killed_and_their_output_is_collected() {
    let slow = "---\nname: slow\ndescription: x\n---\nIt says !`echo ran >> ran; until [ -e go ]; do sleep 0.05; done; echo slow result`.\n";
    let stage = Stage::new(json!([skill(&json!({"name": "slow"})), {"text": "done"}]))
        .with_files([(".claude/skills/slow/SKILL.md", slow)]);
    let mut child = stage.start(&["--trust", "go"]);
    until("the command runs", || stage.workspace.has("ran"));
    kill(child.id(), Signal::KILL);
    child.wait().unwrap();
    stage.workspace.write("go", "");
    let ran = stage.run(&["--trust", "--continue", "go on"]).expect_code(0);
    assert!(text(&ran.outcomes()[0]).contains("It says slow result."), "{:?}", ran.outcomes());
    assert_eq!(stage.workspace.read("ran").lines().count(), 1, "nothing ran twice");
}

#[test]
fn what_the_commands_of_a_skill_have_done_is_undone_with_the_turn() {
    let made = "---\nname: make\ndescription: x\n---\n!`true` and !`echo new > made; echo changed > kept; echo yes`.\n";
    let stage = Stage::new(json!([skill(&json!({"name": "make"})), {"text": "done"}]))
        .with_files([(".claude/skills/make/SKILL.md", made), ("kept", "as it was\n")]);
    let ran = stage.run(&["--trust", "go"]).expect_code(0);
    assert!(text(&ran.outcomes()[0]).contains("\n and yes."), "{:?}", ran.outcomes());
    assert!(stage.workspace.has("made") && stage.workspace.read("kept") == "changed\n");
    Ran::of(stage.piton(&["undo"])).expect_code(0);
    assert!(!stage.workspace.has("made") && stage.workspace.read("kept") == "as it was\n");
}

#[test]
fn the_line_of_an_opened_session_names_what_is_in_force_and_nothing_that_is_not_trusted() {
    let names = |stage: &Stage| {
        let ran = stage.run(&["go"]).expect_code(0);
        let opened = ran.all("opened").remove(0);
        ["agents", "skills", "commands"].map(|kind| opened[kind].clone())
    };
    let stage = stage(json!([{"text": "done", "repeat": true}])).with_files([
        (".piton/commands/git/pr.md", "Open one."),
        (".claude/agents/helper.md", "---\nname: helper\n---\nYou help."),
    ]);
    stage.home.write(".claude/commands/own.md", "Mine.");
    let own = json!(["build", "explore", "general", "plan"]);
    assert_eq!(names(&stage), [own, json!([]), json!(["own"])]);
    Ran::of(stage.piton(&["trust", "--yes"])).expect_code(0);
    let all = json!(["build", "explore", "general", "helper", "plan"]);
    assert_eq!(names(&stage), [all, json!(["deploy", "pdf", "style"]), json!(["git:pr", "own"])]);
}

#[test]
fn skills_of_other_programs_are_read_until_somebody_wants_none_of_them() {
    let stage = stage(json!([]));
    Ran::of(stage.piton(&["trust", "--yes"])).expect_code(0);
    let listed = |stage: &Stage| Ran::of(stage.piton(&["skill", "list", "--all"])).expect_code(0).stdout;
    let has = |stage: &Stage| ["pdf", "deploy", "style"].map(|name| listed(stage).contains(&format!("{name} ")));
    assert_eq!(has(&stage), [true, true, true]);
    let stage = stage.with_config("[claude]\nskills = false\n");
    assert_eq!(has(&stage), [false, true, true], "{}", listed(&stage));
    let stage = stage.with_config("[opencode]\nskills = false\n");
    assert_eq!(has(&stage), [true, false, true], "{}", listed(&stage));
}
