//! The tools that look at files and change them, in a temporary workspace.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::disallowed_methods, reason = "tests start programs by themselves")]

mod support;

use piton_core::call::{Access, CallInput, CallKind, Outcome, Planned, Status, ToolSpec};
use piton_core::message::ToolCall;
use piton_core::truncate::OutputCut;
use piton_tools::plan::Look;
use piton_tools::toolset::ToolSet;
use serde_json::json;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;
use support::{Place, names};

#[test]
fn the_tools_are_sorted_and_what_the_model_is_told_is_short() {
    let tools = ToolSet::builtin();
    let specs = tools.specs();
    let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
    let ours = [
        "apply_patch",
        "ask_user",
        "bash",
        "bash_kill",
        "bash_output",
        "edit",
        "exit_plan",
        "glob",
        "grep",
        "list",
        "read",
        "todo",
        "write",
    ];
    assert_eq!(names, ours);
    // A model is told of patches or of edits, not of both; of questions where somebody can answer; of the way out of plan mode there.
    let is_told = |spec: &&ToolSpec| !["apply_patch", "ask_user", "exit_plan"].contains(&spec.name.as_str());
    let told: Vec<_> = specs.iter().filter(is_told).collect();
    let size = serde_json::to_string(&told).unwrap().len();
    // What it is told of commands in the background, of terminals and of folders.
    let spec = |name: &str| specs.iter().find(|spec| spec.name == name).unwrap();
    let sent = |name: &str| {
        let ToolSpec { name, description, schema, .. } = spec(name);
        let function = json!({"name": name, "description": description, "parameters": schema});
        json!({"type": "function", "function": function}).to_string().len() + 1
    };
    let field = |name: &str| format!(r#""{name}":{},"#, spec("bash").schema["properties"][name]).len();
    let fields = ["workdir", "background", "notify", "pty"].map(field);
    let added = sent("bash_output") + sent("bash_kill") + fields.iter().sum::<usize>();
    assert!(added <= 600, "{added} bytes");
    assert!(size <= 5_120, "{size} bytes");
    assert!(tools.get("bash").is_some() && tools.get("python").is_none());
}

#[tokio::test]
async fn read_numbers_lines_and_says_where_to_go_on() {
    let place = Place::new();
    place.put("a.txt", "one\ntwo\nthree\n");
    let outcome = place.read("a.txt").await;
    assert_eq!(outcome.text, "1: one\n2: two\n3: three");
    assert_eq!(outcome.title, "read a.txt (3 lines)");
    let part = place.run("read", json!({"filePath": "./a.txt", "offset": "2", "limit": 1})).await;
    assert_eq!(part.text, "2: two\n(lines 2–2 of 3; continue with offset=3)");
    let beyond = place.run("read", json!({"path": "a.txt", "offset": 9})).await;
    assert_eq!(beyond.text, "read: offset 9 is beyond the end of a.txt, which has 3 lines");
    place.put("empty", "");
    assert_eq!(place.read("empty").await.text, "(the file is empty)");
}

/// Reads a file in parts, each from where the one before says, as the model gets them: after the cut of every tool's output.
async fn read_in_parts(place: &Place, cut: OutputCut) -> Vec<String> {
    let (mut lines, mut offset) = (Vec::new(), 1);
    loop {
        let outcome = place.run("read", json!({"path": "long.txt", "offset": offset})).await;
        assert_eq!(cut.cut(&outcome.text), None, "it is cut a second time");
        let (notices, shown): (Vec<&str>, Vec<&str>) = outcome.text.lines().partition(|line| line.starts_with('('));
        lines.extend(shown.iter().map(|line| (*line).to_owned()));
        let Some((_, next)) = notices.last().and_then(|notice| notice.split_once("offset=")) else { return lines };
        offset = next.trim_end_matches(')').parse().unwrap();
        assert_eq!(lines.len() + 1, offset, "{notices:?}");
    }
}

#[tokio::test]
async fn read_shows_every_line_that_it_says_it_shows() {
    let whole: Vec<String> = (1..=5_000).map(|n| format!("{n}: täglich {}", "x".repeat(n % 90))).collect();
    let content: Vec<&str> = whole.iter().map(|line| line.split_once(": ").unwrap().1).collect();
    for cut in [
        OutputCut::HeadTail { max_chars: 30_000 },
        OutputCut::HeadTail { max_chars: 1_000 },
        OutputCut::WholeLines { max_lines: 300, max_bytes: 51_200 },
        OutputCut::WholeLines { max_lines: 2_000, max_bytes: 4_000 },
    ] {
        let mut place = Place::new();
        place.cx.output_cut = cut;
        place.put("long.txt", content.join("\n"));
        assert_eq!(read_in_parts(&place, cut).await, whole, "{cut:?}");
    }
}

#[tokio::test]
async fn what_is_looked_at_again_and_has_not_changed_is_told_with_the_count() {
    let place = Place::new();
    place.put("sub/a.txt", "one\n");
    let noted = |outcome: &Outcome| {
        let note = outcome.metadata["repeat_note"].as_str();
        assert_eq!(note.is_some(), outcome.text.contains("already seen"), "{outcome:?}");
        note.map(|note| note.trim().to_owned())
    };
    let note = |times: u32| format!("(You have already seen this: nothing has changed. Times read: {times}.)");
    for (tool, input) in [
        ("read", json!({"path": "sub/a.txt"})),
        ("read", json!({"path": "sub"})),
        ("list", json!({"path": "sub"})),
        ("list", json!({})),
    ] {
        let mut told = Vec::new();
        for _ in 0..3 {
            told.push(noted(&place.run(tool, input.clone()).await));
        }
        assert_eq!(told, [None, Some(note(2)), Some(note(3))], "{tool} {input}");
    }
    let other_lines = place.run("read", json!({"path": "sub/a.txt", "offset": 1, "limit": 1})).await;
    assert_eq!(noted(&other_lines), None, "another question");
    place.put("sub/a.txt", "two\n");
    for times in [None, Some(note(2))] {
        let outcome = place.run("read", json!({"path": "sub/a.txt"})).await;
        assert!(outcome.text.starts_with("1: two"), "{outcome:?}");
        assert_eq!(noted(&outcome), times, "what has changed is new");
    }
    place.cx.ledger.forget();
    assert_eq!(noted(&place.run("read", json!({"path": "sub/a.txt"})).await), None, "taken back");
}

#[tokio::test]
async fn read_suggests_similar_names_and_lists_directories() {
    let place = Place::new();
    place.put("src/config.rs", "");
    place.put("src/inner/x.rs", "");
    let missing = place.read("src/confg.rs").await;
    assert_eq!(missing.text, "read: src/confg.rs does not exist. Did you mean src/config.rs?");
    assert!(place.read("nowhere/x").await.text.contains("neither does the directory nowhere"));
    assert_eq!(place.read("src").await.text, "src is a directory with 2 entries:\nconfig.rs\ninner/");
}

#[tokio::test]
async fn read_refuses_what_is_no_file_at_once() {
    let place = Place::new();
    assert!(std::process::Command::new("mkfifo").arg(place.path("fifo")).status().unwrap().success());
    let outcome = place.read("fifo").await;
    assert_eq!(outcome.text, "read: fifo is not a regular file (a device, pipe or socket)");
    assert!(place.read("/dev/zero").await.text.contains("not a regular file"));
    assert!(place.read("").await.text.contains("`path` is empty"));
}

#[tokio::test]
async fn read_tells_what_a_binary_file_is() {
    let place = Place::new();
    let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x02\x80\0\0\x01\xe0".to_vec();
    png.resize(12 * 1024, 0);
    place.put("logo.png", png);
    let outcome = place.read("logo.png").await;
    assert!(outcome.text.contains("is a picture: PNG image (640x480), 12 KB. It is not shown"), "{}", outcome.text);
    place.put("tool", b"\x7fELF\0\0");
    let outcome = place.read("tool").await;
    assert!(outcome.text.contains("is a binary file, 6 bytes, looks like ELF program or library"), "{}", outcome.text);
}

#[tokio::test]
async fn read_takes_a_huge_line_in_little_memory() {
    let place = Place::new();
    let made = std::process::Command::new("bash")
        .args(["-c", "head -c 300000000 /dev/zero | tr '\\0' x > huge"])
        .current_dir(&place.cx.workspace)
        .status();
    assert!(made.unwrap().success());
    let outcome = place.read("huge").await;
    assert!(outcome.text.starts_with("1: xxx") && outcome.text.contains("... (line truncated)"));
    assert!(outcome.text.len() < 3_000);
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    assert!(peak.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() < 100_000, "{peak}");
    let refused = place.run("write", json!({"path": "huge", "content": "x"})).await;
    assert!(refused.text.contains("larger than 10 MiB"));
}

#[tokio::test]
async fn write_creates_folders_and_needs_to_have_read_what_it_replaces() {
    let place = Place::new();
    let created = place.run("write", json!({"path": "a/b/c.txt", "content": "one\n"})).await;
    assert_eq!(created.text, "created a/b/c.txt (1 lines, 4 bytes)");
    assert_eq!(created.metadata["before"], json!(null));
    place.put("old.txt", "old\n");
    let refused = place.run("write", json!({"path": "old.txt", "content": "new\n"})).await;
    assert_eq!(refused.status, Status::Failed);
    assert!(refused.text.contains("was not read in this session. Read it first"));
    place.read("old.txt").await;
    let written = place.run("write", json!({"path": "old.txt", "content": "new\nmore\n"})).await;
    assert_eq!((written.status, written.text.as_str()), (Status::Ok, "wrote old.txt (2 lines, 9 bytes)"));
    assert_eq!((&written.metadata["added"], &written.metadata["removed"]), (&json!(2), &json!(1)));
    assert_eq!(written.metadata["hash"], written.metadata["after"]);
    assert_eq!(place.content("old.txt"), b"new\nmore\n");
    assert_eq!(names(&place.cx.workspace), ["a", "old.txt"], "nothing unfinished is left");
}

#[tokio::test]
async fn a_file_changed_since_it_was_read_is_refused_with_the_difference() {
    let place = Place::new();
    place.put("a.txt", "one\ntwo\n");
    place.read("a.txt").await;
    place.put("a.txt", "one\nTWO\n");
    let input = json!({"path": "a.txt", "old_string": "one", "new_string": "1"});
    let refused = place.run("edit", input.clone()).await;
    assert!(refused.text.contains("was changed since you read it:\n@@"), "{}", refused.text);
    assert!(refused.text.contains("-two\n+TWO\n"), "{}", refused.text);
    assert_eq!(place.content("a.txt"), b"one\nTWO\n");
    // It has now seen the difference.
    assert_eq!(place.run("edit", input).await.status, Status::Ok);
}

#[tokio::test]
async fn a_file_that_is_gone_since_it_was_read_is_said_to_be_gone() {
    let place = Place::new();
    place.put("a.txt", "one\n");
    place.read("a.txt").await;
    std::fs::remove_file(place.path("a.txt")).unwrap();
    let input = json!({"path": "a.txt", "old_string": "one", "new_string": "1"});
    let refused = place.run("edit", input.clone()).await;
    let gone = "edit: a.txt was deleted since you read it. A single edit with an empty old_string creates it anew.";
    assert_eq!((refused.status, refused.text.as_str()), (Status::Failed, gone));
    let patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+1\n*** End Patch\n";
    let refused = place.run("apply_patch", json!({"patch": patch})).await;
    let gone = "apply_patch: a.txt cannot be updated: it does not exist. Add File creates it. Nothing was written.";
    assert_eq!((refused.status, refused.text.as_str()), (Status::Failed, gone));
    assert!(!place.path("a.txt").exists());
    // One that it never saw is not said to have been there.
    let never = json!({"path": "b.txt", "old_string": "one", "new_string": "1"});
    assert!(place.run("edit", never).await.text.starts_with("edit: b.txt does not exist."));
    let anew = place.run("edit", json!({"path": "a.txt", "old_string": "", "new_string": "1\n"})).await;
    assert_eq!((anew.status, place.content("a.txt").as_slice()), (Status::Ok, &b"1\n"[..]));
    assert!(place.run("edit", input).await.text.contains("was not found"), "it is there again");
}

#[tokio::test]
async fn what_was_read_before_a_restart_is_known_by_its_hash() {
    let mut place = Place::new();
    place.put("a.txt", "one\n");
    let seen = place.read("a.txt").await;
    place.cx = place.restarted();
    let hash = seen.metadata["hash"].as_str().unwrap().to_owned();
    place.cx.ledger.restore(std::path::Path::new(seen.metadata["path"].as_str().unwrap()), &hash);
    let edited = place.run("edit", json!({"path": "a.txt", "old_string": "one", "new_string": "two"})).await;
    assert_eq!(edited.status, Status::Ok);
}

#[tokio::test]
async fn a_write_goes_through_links_and_keeps_the_mode() {
    let place = Place::new();
    place.put("real/run.sh", "#!/bin/sh\n");
    std::fs::set_permissions(place.path("real/run.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink("real/run.sh", place.path("link")).unwrap();
    std::os::unix::fs::symlink("real/new.sh", place.path("dangling")).unwrap();
    place.read("link").await;
    let broken = place.read("dangling").await;
    assert_eq!(broken.text, "read: dangling is a link to real/new.sh, which does not exist");
    place.run("write", json!({"path": "link", "content": "#!/bin/bash\n"})).await;
    assert_eq!(place.content("real/run.sh"), b"#!/bin/bash\n");
    assert!(std::fs::symlink_metadata(place.path("link")).unwrap().is_symlink());
    assert_eq!(std::fs::metadata(place.path("real/run.sh")).unwrap().permissions().mode() & 0o777, 0o755);
    place.run("write", json!({"path": "dangling", "content": "x"})).await;
    assert_eq!(place.content("real/new.sh"), b"x");
    assert!(place.run("write", json!({"path": "real", "content": "x"})).await.text.contains("is a directory"));
    assert!(place.run("write", json!({"path": "/dev/null", "content": "x"})).await.text.contains("not a regular file"));
}

#[tokio::test]
async fn edit_replaces_one_place_and_shows_the_difference() {
    let place = Place::new();
    place.put("a.rs", "fn a() {}\nfn b() {}\n");
    place.read("a.rs").await;
    let outcome = place.run("edit", json!({"path": "a.rs", "oldString": "fn b", "newString": "fn c"})).await;
    assert_eq!(outcome.text, "edited a.rs (+1 −1)\n@@ -1,2 +1,2 @@\n fn a() {}\n-fn b() {}\n+fn c() {}\n");
    assert_eq!(place.content("a.rs"), b"fn a() {}\nfn c() {}\n");
    let again = place.run("edit", json!({"path": "a.rs", "old_string": "fn c", "new_string": "fn d"})).await;
    assert_eq!(again.status, Status::Ok, "what it wrote itself it has seen");
}

#[tokio::test]
async fn edit_wants_to_know_which_of_several_places() {
    let place = Place::new();
    place.put("a.txt", "x\ny\nx\n");
    place.read("a.txt").await;
    let input =
        |all: bool| json!({"path": "a.txt", "old_string": "x", "new_string": "z", "replace_all": all.to_string()});
    let refused = place.run("edit", input(false)).await;
    assert!(refused.text.contains("occurs 2 times in a.txt (lines 1, 3)"), "{}", refused.text);
    let all = place.run("edit", input(true)).await;
    assert_eq!(all.title, "edit a.txt (+2 −2, 2 places)");
    assert_eq!(place.content("a.txt"), b"z\ny\nz\n");
}

#[tokio::test]
async fn edit_shows_what_comes_closest_to_a_text_it_does_not_find() {
    let place = Place::new();
    place.put("a.rs", "fn main() {\n\tlet total = 1;\n\tprint(total);\n}\n");
    place.read("a.rs").await;
    let edit = |old: &str| place.run("edit", json!({"path": "a.rs", "old_string": old, "new_string": "x"}));
    let partly = edit("let total = 1;\nprint(nothing, of, the, kind);").await;
    assert!(partly.text.contains("closest lines are:\n2: \tlet total = 1;\n3: \tprint(total);"), "{}", partly.text);
    let similar = edit("let totals = 2;").await;
    assert!(similar.text.contains("closest lines are:\n2: \tlet total = 1;"), "{}", similar.text);
    assert!(edit("zzzzqqqq").await.text.contains("Nothing in it is similar"));
    assert!(edit("x").await.text.contains("are the same"));
}

#[tokio::test]
async fn edit_leaves_every_other_byte_as_it_is() {
    let place = Place::new();
    place.put("dos.txt", b"\xef\xbb\xbfcaf\xe9\r\none\r\ntwo\r\n");
    assert!(place.read("dos.txt").await.text.contains("not valid UTF-8"));
    let input = json!({"path": "dos.txt", "old_string": "one\ntwo\n", "new_string": "1\n2\n3\n"});
    let outcome = place.run("edit", input).await;
    assert_eq!(outcome.status, Status::Ok, "{}", outcome.text);
    assert_eq!(place.content("dos.txt"), b"\xef\xbb\xbfcaf\xe9\r\n1\r\n2\r\n3\r\n");
    place.put("mixed.txt", "a\nb\r\nc\n");
    place.read("mixed.txt").await;
    place.run("edit", json!({"path": "mixed.txt", "old_string": "a\n", "new_string": "A\nA\n"})).await;
    assert_eq!(place.content("mixed.txt"), b"A\nA\nb\r\nc\n");
}

#[tokio::test]
async fn an_empty_old_string_only_creates() {
    let place = Place::new();
    let create = json!({"path": "new/a.txt", "old_string": "", "new_string": "hello\n"});
    assert_eq!(place.run("edit", create.clone()).await.status, Status::Ok);
    assert_eq!(place.content("new/a.txt"), b"hello\n");
    let other = json!({"path": "new/a.txt", "old_string": "", "new_string": "other\n"});
    assert!(place.run("edit", other).await.text.contains("only creates new files"));
    let missing = json!({"path": "none.txt", "old_string": "a", "new_string": "b"});
    assert!(place.run("edit", missing).await.text.contains("does not exist"));
}

#[tokio::test]
async fn a_change_cut_off_by_a_crash_is_made_exactly_once() {
    let mut place = Place::new();
    place.put("a.txt", "one\n");
    place.read("a.txt").await;
    let input = json!({"path": "a.txt", "old_string": "one", "new_string": "one one"});
    // It never began: no intent.
    assert_eq!(place.settle("edit", input.clone()).await.status, Status::Ok);
    assert_eq!(place.content("a.txt"), b"one one\n");
    // It was done, and the end was not recorded.
    place.cx = place.restarted();
    let outcome = place.settle("edit", input.clone()).await;
    assert!(outcome.text.contains("already applied"), "{}", outcome.text);
    assert_eq!(place.content("a.txt"), b"one one\n");
    // The intent was written, the file not yet.
    place.put("a.txt", "one\n");
    place.read("a.txt").await;
    assert!(place.settle("edit", input.clone()).await.text.starts_with("edited a.txt"));
    assert_eq!(place.content("a.txt"), b"one one\n");
    // Somebody else was there meanwhile.
    place.put("a.txt", "something else\n");
    let conflict = place.settle("edit", input).await;
    assert_eq!(conflict.status, Status::Failed);
    assert!(conflict.text.contains("conflict after an interruption"), "{}", conflict.text);
    assert_eq!(place.content("a.txt"), b"something else\n");
}

#[tokio::test]
async fn a_new_file_cut_off_by_a_crash_is_written_once_too() {
    let place = Place::new();
    let input = json!({"path": "a.txt", "content": "one\n"});
    place.run("write", input.clone()).await;
    assert!(place.settle("write", input.clone()).await.text.contains("already applied"));
    std::fs::remove_file(place.path("a.txt")).unwrap();
    assert!(place.settle("write", input.clone()).await.text.starts_with("created a.txt"));
    std::fs::write(place.file("intent"), "{\"path\":").unwrap();
    assert!(place.settle("write", input).await.text.contains("already has exactly this content"));
}

#[tokio::test]
async fn grep_finds_lines_sorted_by_path_and_respects_what_git_ignores() {
    let place = Place::new();
    place.put("b.rs", "let Needle = 1;\r\nother\n");
    place.put("a/x.rs", "no\nneedle\n");
    place.put("target/y.rs", "needle\n");
    place.put(".gitignore", "target\n");
    place.put(".hidden.rs", "needle\n");
    place.put(".git/config", "needle\n");
    place.put("image.bin", b"needle\n\0\n");
    let outcome = place.run("grep", json!({"pattern": "needle"})).await;
    assert_eq!(outcome.text, ".hidden.rs:1:needle\na/x.rs:2:needle");
    let any_case = place.run("grep", json!({"pattern": "NEEDLE.*;$", "ignore_case": "true", "glob": "*.rs"})).await;
    assert_eq!(any_case.text, "b.rs:1:let Needle = 1;");
    let around = place.run("grep", json!({"pattern": "needle", "path": "a", "context": 1})).await;
    assert_eq!(around.text, "a/x.rs-1-no\na/x.rs:2:needle");
    let file = place.run("grep", json!({"pattern": "other", "path": "b.rs"})).await;
    assert_eq!(file.text, "b.rs:2:other");
    assert!(place.run("grep", json!({"pattern": "nothing"})).await.text.starts_with("No match below ."));
    assert!(
        place
            .run("grep", json!({"pattern": "(", "path": "a"}))
            .await
            .text
            .starts_with("grep: not a valid regular expression")
    );
}

#[tokio::test]
async fn no_tool_reads_what_is_no_file_of_a_disk() {
    let place = Place::new();
    place.put("a.txt", "version\n");
    std::os::unix::fs::symlink("/proc/kmsg", place.path("kernel")).unwrap();
    // `/proc/kmsg` makes its reader wait for the kernel's next message.
    for path in ["/proc/kmsg", "/proc/self/status", "/sys/kernel"] {
        let searching = place.run("grep", json!({"pattern": ".", "path": path}));
        let outcome = tokio::time::timeout(Duration::from_secs(60), searching).await.expect("it ends");
        assert!(outcome.text.starts_with("No match below"), "{path}: {}", outcome.text);
    }
    let outcome = place.read("kernel").await;
    assert!(outcome.text.contains("kernel"), "{}", outcome.text);
    assert_eq!(outcome.status, Status::Failed, "{}", outcome.text);
    assert!(place.run("grep", json!({"pattern": "version"})).await.text.starts_with("a.txt:1:version"));
}

#[tokio::test]
async fn grep_is_cut_and_says_how_much_more_there_is() {
    let place = Place::new();
    for name in ["c", "a", "b"] {
        place.put(name, "match\n".repeat(150));
    }
    place.put("d", format!("match {}\n", "x".repeat(1_000)));
    let outcome = place.run("grep", json!({"pattern": "match"})).await;
    let lines: Vec<&str> = outcome.text.lines().collect();
    assert_eq!(lines.len(), 201);
    assert_eq!((lines[149], lines[150], lines[199]), ("a:150:match", "b:1:match", "b:50:match"));
    assert_eq!(lines[200], "(251 more matches, 4 files in all; narrow the pattern, glob or path)");
    let long = place.run("grep", json!({"pattern": "match x"})).await;
    assert!(long.text.ends_with("xxx… (line truncated)") && long.text.chars().count() < 530);
}

#[tokio::test]
async fn glob_lists_the_newest_first() {
    let place = Place::new();
    let start = std::time::SystemTime::now();
    for (age, name) in ["src/new.rs", "old.rs", "src/deep/older.rs"].iter().enumerate() {
        place.put(name, "");
        let file = std::fs::File::options().write(true).open(place.path(name)).unwrap();
        file.set_modified(start - Duration::from_secs(60 * age as u64)).unwrap();
    }
    place.put("ignored.rs", "");
    place.put(".gitignore", "ignored.rs\n");
    let glob = |pattern: &str| place.run("glob", json!({"pattern": pattern}));
    assert_eq!(glob("*.rs").await.text, "src/new.rs\nold.rs\nsrc/deep/older.rs");
    assert_eq!(glob("src/*.{rs,ts}").await.text, "src/new.rs");
    assert_eq!(
        glob(&format!("{}/src/**/*.rs", place.cx.workspace.display())).await.text,
        "src/new.rs\nsrc/deep/older.rs"
    );
    assert!(glob("*.py").await.text.starts_with("No file below . matches"));
    assert!(glob("a{b").await.text.starts_with("glob: not a valid pattern"));
}

#[tokio::test]
async fn glob_is_cut_and_says_how_much_more_there_is() {
    let place = Place::new();
    for number in 0..250 {
        place.put(&format!("{number}.txt"), "");
    }
    let outcome = place.run("glob", json!({"pattern": "*.txt"})).await;
    assert_eq!(outcome.text.lines().count(), 201);
    assert!(outcome.text.ends_with("(50 more files; narrow the pattern or the path)"));
    assert_eq!(outcome.title, "glob *.txt (250 files)");
}

#[tokio::test]
async fn a_cancelled_search_stops() {
    let place = Place::new();
    place.cx.cancel.cancel();
    for (tool, input) in
        [("grep", json!({"pattern": "x"})), ("glob", json!({"pattern": "x"})), ("read", json!({"path": "x"}))]
    {
        assert_eq!(place.run(tool, input).await.status, Status::Cancelled, "{tool}");
    }
}

#[tokio::test]
async fn bad_input_names_the_field() {
    let place = Place::new();
    assert!(
        place
            .run("read", json!({}))
            .await
            .text
            .starts_with("read: missing field `path`. It takes: path (string), offset")
    );
    assert!(place.run("grep", json!({"pattern": "x", "context": "many"})).await.text.contains("field `context`"));
    assert!(place.run("edit", json!({"path": ["a"]})).await.text.contains("field `path`"));
}

#[test]
fn a_call_goes_by_the_tools_own_name_and_field_names_whatever_the_models_spelling() {
    let tools = ToolSet::builtin();
    let written = |name: &str, input| ToolCall {
        id: "c1_0".into(),
        provider_id: None,
        name: name.into(),
        spelling: None,
        input: CallInput::Json(input),
        opaque: None,
    };
    let call =
        tools.understand(&written("EDIT", json!({"filePath": "a", "oldString": "1", "newString": "2", "why": 0})));
    assert_eq!((call.name.as_str(), call.spelling()), ("edit", "EDIT"));
    assert_eq!(call.input.value(), Some(&json!({"path": "a", "old_string": "1", "new_string": "2"})));
    let call = tools.understand(&written("bash", json!({"command": "ls"})));
    assert_eq!((call.name.as_str(), call.spelling), ("bash", None));
    let broken = written("write", json!({"file": "a"}));
    assert_eq!(tools.understand(&broken), broken, "what cannot be read stays as it is");
}

#[test]
fn a_plan_says_what_a_call_accesses_and_its_question_shows_the_change() {
    let place = Place::new();
    place.put("a.txt", "one\ntwo\n");
    let look = Look::without_session(place.cx.workspace.clone(), place.cx.files.clone(), false, place.cx.env.clone());
    let worded = |tool: &str, input: serde_json::Value| {
        let plan = ToolSet::builtin().get(tool).unwrap().plan(&input, &look).unwrap();
        let (title, blocks) = plan.question.words();
        (plan.planned, title, serde_json::to_string(&blocks).unwrap())
    };
    let path = place.cx.workspace.join("a.txt").to_string_lossy().into_owned();
    let (planned, title, shown) = worded("edit", json!({"path": "./a.txt", "old_string": "two", "new_string": "2"}));
    assert_eq!(planned, Planned { kind: CallKind::Edit, title: "a.txt".into(), accesses: vec![Access::Write(path)] });
    assert_eq!(title, "Edit a.txt?");
    assert!(shown.contains(r" one\n-two\n+2\n"), "{shown}");
    let (_, _, shown) = worded("edit", json!({"path": "a.txt", "old_string": "three", "new_string": "3"}));
    assert!(shown.contains(r"-three\n+3\n"), "what does not fit yet is shown as it was written: {shown}");
    let (_, title, _) = worded("write", json!({"path": "a.txt", "content": "x"}));
    assert_eq!(title, "Overwrite a.txt (2 → 1 lines)?");
    let (_, title, shown) = worded("write", json!({"path": "new.txt", "content": "x\n"}));
    assert!(title == "Create new.txt?" && shown.contains("+x"), "{title} {shown}");
    let refused = ToolSet::builtin().get("bash").unwrap().plan(&json!({"command": " "}), &look);
    assert_eq!(refused.unwrap_err().text, "bash: field `command` is empty");
}
