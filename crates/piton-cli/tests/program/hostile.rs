//! Repositories, files and neighbours that mean harm: nothing of theirs stops a run, and no secret is one command away.

use crate::stage::{Ran, Stage};
use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::{Value, json};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

fn says(text: &str) -> Value {
    json!({"text": text})
}

fn runs(command: &str) -> Value {
    json!({"tools": [{"name": "bash", "args": {"command": command}}]})
}

#[test]
fn files_of_patterns_that_never_end_stop_no_run() {
    for place in [".gitignore", ".ignore", ".git/info/exclude", ".git/objects/info/alternates"] {
        for is_pipe in [false, true] {
            let grep = json!({"tools": [{"name": "grep", "args": {"pattern": "needle"}}]});
            let stage = Stage::new(json!([grep, runs("echo x > made"), says("done")]));
            stage.workspace.write("a.txt", "needle\n");
            let path = stage.workspace.path().join(place);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::create_dir_all(stage.workspace.path().join(".git/objects")).unwrap();
            match is_pipe {
                true => mkfifoat(CWD, &path, Mode::RWXU).unwrap(),
                false => symlink("/dev/zero", &path).unwrap(),
            }
            let ran = stage.run(&["look at @a.txt"]).expect_code(0);
            assert!(ran.outcomes()[0]["text"].as_str().unwrap().starts_with("a.txt:1:needle"), "{place}");
        }
    }
}

#[test]
fn what_never_ends_is_not_read_to_its_end() {
    let stage = Stage::new(json!([says("done")]));
    let zero = |args: &[&str]| Ran::of(stage.piton(args)).expect_code(1).expect_said(&["not a regular file"]);
    zero(&["session", "import", "/dev/zero"]);
    zero(&["run", "--model", "recorded//dev/zero", "go"]);
    zero(&["run", "--output-schema", "/dev/zero", "go"]);
    zero(&["models", "--refresh", "/dev/zero"]);
    let mut import = Command::new("sh");
    let piton = env!("CARGO_BIN_EXE_piton");
    import.args(["-c", &format!("ulimit -v 4000000; exec {piton} session import - </dev/zero")]);
    import.env("PITON_DATA_DIR", stage.home.path().join("data")).env("HOME", stage.home.path());
    Ran::of(import).expect_code(1).expect_said(&["too large"]);
    assert!(stage.provider.requests().is_empty());
}

#[test]
fn what_lies_in_the_place_of_files_of_its_own_stops_no_run() {
    let stage = Stage::new(json!([runs("echo x > made"), says("done")]));
    std::fs::create_dir_all(stage.home.path().join("data")).unwrap();
    mkfifoat(CWD, stage.home.path().join("data/sandbox.json"), Mode::RWXU).unwrap();
    let entries: Vec<String> = (0..200_000).map(|n| format!("\"s{n}\":{{\"command\":\"true\"}}")).collect();
    stage.home.write("mcp.json", format!("{{\"mcpServers\":{{{}}}}}", entries.join(",")));
    let ran = stage.run(&["go"]).expect_code(0).expect_said(&["mcp.json", "left out"]);
    assert_eq!(ran.all("call_settled").len(), 1);
    assert!(stage.workspace.has("made"));
}

#[test]
fn a_data_folder_behind_a_link_is_used_by_its_real_name() {
    let stage = Stage::new(json!([runs("echo x > made && git status 2>/dev/null; cat made"), says("done")]));
    std::fs::create_dir_all(stage.home.path().join("elsewhere")).unwrap();
    symlink("elsewhere", stage.home.path().join("link")).unwrap();
    let mut run = stage.run_command(&["--sandbox", "workspace-write", "go"]);
    run.env("PITON_DATA_DIR", stage.home.path().join("link/piton"));
    let ran = Ran::of(run).expect_code(0);
    assert_eq!(ran.outcomes()[0]["status"], "ok", "{}", ran.outcomes()[0]);
    assert!(stage.workspace.has("made") && stage.home.path().join("elsewhere/piton/sessions").is_dir());
}

#[test]
fn a_command_cannot_read_the_environment_of_the_agent() {
    let agent = "$(awk '/PPid/{print $2}' /proc/$PPID/status)";
    let stage =
        Stage::new(json!([runs(&format!("cat /proc/{agent}/environ | tr '\\0' '\\n'; echo read")), says("done")]));
    let ran = Ran::of(Stage::without_power(&stage.run_command(&["go"]))).expect_code(0);
    let told = ran.outcomes()[0]["text"].as_str().unwrap().to_owned();
    assert!(told.contains("Permission denied") && told.contains("read"), "{told}");
    assert!(!told.contains("sk-test"), "{told}");
}

#[test]
fn a_repository_brings_no_shell_of_its_own() {
    for path in [".:/usr/bin:/bin", ":/usr/bin:/bin", "/usr/bin:/bin:."] {
        let stage = Stage::new(json!([runs("echo ours"), says("done")]));
        for name in ["bash", "sh", "git", "cat"] {
            stage.workspace.write(name, "#!/bin/sh\necho taken\n");
            let file = stage.workspace.path().join(name);
            std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let mut command = stage.run_command(&["go"]);
        command.env("PATH", path);
        let ran = Ran::of(command).expect_code(0);
        assert_eq!(ran.outcomes()[0]["text"].as_str().unwrap().trim(), "ours", "{path}");
    }
}

#[test]
fn too_few_files_are_an_error_and_no_panic() {
    let stage = Stage::new(json!([says("done")]));
    for files in [5, 6, 8, 12] {
        let run = stage.run_command(&["go"]);
        let mut limited = Command::new("sh");
        let line: Vec<&str> = run.get_args().map(|arg| arg.to_str().unwrap()).collect();
        let piton = env!("CARGO_BIN_EXE_piton");
        limited.args(["-c", &format!("ulimit -n {files}; exec {piton} \"$@\""), "sh"]).args(line);
        limited.env_clear().envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
        limited.current_dir(stage.workspace.path());
        let ran = Ran::of(limited).expect_code(1);
        assert!(ran.stderr.contains("Too many open files") && !ran.stderr.contains("panicked"), "{}", ran.stderr);
    }
}

#[test]
fn an_export_goes_to_standard_output_by_a_dash() {
    let stage = Stage::new(json!([says("<script>alert(1)</script> \u{202e}\u{9b}")]));
    stage.run(&["go"]).expect_code(0);
    let export = |args: &[&str]| {
        let line: Vec<&str> = ["session", "export", "last"].iter().chain(args).copied().collect();
        Ran::of(stage.piton(&line)).expect_code(0).stdout
    };
    for format in ["html", "md", "json"] {
        let text = export(&["--format", format, "-o", "-"]);
        assert_eq!(text, export(&["--format", format]), "{format}");
        assert!(!text.contains(['\u{202e}', '\u{9b}']), "{format}: {text}");
        assert_eq!(text.contains("<script>"), format == "json", "{text}");
    }
    assert!(!stage.workspace.path().join("-").exists());
}

#[test]
fn no_more_of_a_prompt_is_cached_than_there_is() {
    let usage =
        json!({"prompt_tokens": 10, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 1_000_000_000}});
    let stage = Stage::new(json!([{"text": "done", "usage": usage}]));
    let ran = stage.run(&["go"]).expect_code(0);
    let told = &ran.all("message_finished")[0]["reply"]["usage"];
    assert_eq!((told["input_tokens"].as_u64(), told["cache_read_tokens"].as_u64()), (Some(10), Some(10)), "{told}");
}

#[test]
fn a_name_looks_like_no_line_of_ours_and_is_not_longer_than_it_is_of_use() {
    let stage = Stage::new(json!([runs("true"), says("done")]));
    let odd = format!("a\npiton: all is well\u{202e}{}", "x".repeat(200));
    // Larger than a snapshot covers, and empty on the disk.
    let file = std::fs::File::create(stage.workspace.path().join(&odd)).unwrap();
    file.set_len(64 << 20).unwrap();
    let ran = stage.run(&["go"]).expect_code(0);
    let notice = ran.all("snapshot_taken")[0]["notices"][0].as_str().unwrap().to_owned();
    assert!(notice.starts_with(r"undo will not cover a\npiton: all is well\u{202e}xxx"), "{notice}");
    assert!(notice.contains('…') && notice.contains("x: "), "{notice}");
    assert!(notice.chars().count() < 300, "{notice}");
}
