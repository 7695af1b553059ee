//! `bash` as the model calls it: where a command starts, and how long a script may be.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use piton_core::call::{Access, Status};
use piton_tools::toolset::ToolSet;
use serde_json::{Value, json};
use std::os::unix::fs::symlink;
use std::time::Duration;
use support::{Place, is_running, unique_sleep, wait_until};

fn planned(place: &Place, input: &Value) -> Result<piton_tools::plan::Plan, String> {
    ToolSet::builtin().get("bash").unwrap().plan(input, &place.look()).map_err(|outcome| outcome.text)
}

#[tokio::test]
async fn a_command_starts_in_its_workdir_wherever_a_link_leads_within_the_workspace() {
    let place = Place::new();
    place.put("deep/er/file", "");
    symlink(place.path("deep/er"), place.path("link")).unwrap();
    for workdir in ["deep/er", "link", "./deep/../link", place.path("link").to_str().unwrap()] {
        let outcome = place.run("bash", json!({"command": "pwd -P; ls", "workdir": workdir})).await;
        assert_eq!(outcome.text, format!("{}\nfile", place.path("deep/er").display()), "{workdir}");
        place.renew();
    }
}

#[tokio::test]
async fn a_workdir_out_of_the_workspace_is_refused_before_anything_runs() {
    let place = Place::new();
    place.put("file", "");
    symlink("/usr", place.path("out")).unwrap();
    for (workdir, why) in [
        ("out", "is /usr, which is not below the workspace"),
        ("..", "which is not below the workspace"),
        ("/", "is /, which is not below the workspace"),
        ("a\0b", "holds a NUL character"),
    ] {
        let input = json!({"command": "touch ran", "workdir": workdir});
        let refused = planned(&place, &input).unwrap_err();
        assert!(refused.contains(why), "{workdir}: {refused}");
        // A link that was swapped since it was planned meets the same words.
        let outcome = place.run("bash", input).await;
        assert!(outcome.status == Status::Failed && outcome.text.contains(why), "{workdir}: {}", outcome.text);
    }
    for workdir in ["gone", "file"] {
        let outcome = place.run("bash", json!({"command": "touch ran", "workdir": workdir})).await;
        assert!(outcome.text.ends_with("Nothing ran."), "{workdir}: {}", outcome.text);
    }
    assert!(!place.path("ran").exists() && !place.calls_dir.exists());
}

#[test]
fn a_question_says_in_which_folder_and_rules_see_paths_from_there() {
    let place = Place::new();
    place.put("real/file", "");
    symlink(place.path("real"), place.path("link")).unwrap();
    let plan = planned(&place, &json!({"command": "rm file ../other", "workdir": "link"})).unwrap();
    let shown = format!("{:?}", plan.planned.accesses);
    for path in ["real/file", "other"] {
        let path = place.path(path);
        assert!(shown.contains(&format!("Write({:?})", path.to_str().unwrap())), "{shown}");
    }
    let (_, body) = plan.question.words();
    let folder = format!("In the folder {}.", place.path("real").display());
    assert!(format!("{body:?}").contains(&folder), "{body:?}");
}

#[test]
fn a_program_is_known_by_whatever_link_leads_to_it() {
    let place = Place::new();
    let programs = tempfile::tempdir().unwrap();
    std::fs::write(programs.path().join("mow"), "").unwrap();
    place.put("sub/file", "");
    symlink(programs.path().join("mow"), place.path("sub/soft")).unwrap();
    std::fs::hard_link(programs.path().join("mow"), place.path("sub/hard")).unwrap();
    let mut look = place.look();
    let env = [("PATH", programs.path()), ("HOME", &place.path("sub"))];
    look.env = std::sync::Arc::new(env.map(|(name, value)| (name.into(), value.into())).into());
    for word in ["sub/soft", "~/soft", "~+/sub/soft", "cd sub; ./soft", "sub/hard", "./sub/../sub/hard", "~/hard"] {
        let input = json!({"command": format!("{word} x")});
        let plan = ToolSet::builtin().get("bash").unwrap().plan(&input, &look).map_err(|outcome| outcome.text).unwrap();
        assert!(format!("{:?}", plan.planned.accesses).contains("\"mow\""), "{word}: {:?}", plan.planned.accesses);
    }
}

/// Assignments, comments and redirections by themselves: what each line accesses besides the script that it is.
#[test]
fn what_runs_no_program_is_judged_by_what_it_does() {
    let place = Place::new();
    let accesses = |command: &str| {
        let accesses = planned(&place, &json!({"command": command})).unwrap().planned.accesses;
        assert_eq!(accesses[0], Access::Run(command.to_owned()));
        let named = accesses[1..].iter().map(|access| match access {
            Access::Command(part) if part.is_harmless => format!("harmless [{}]", part.words.join(" ")),
            Access::Command(part) => format!("command [{}]", part.words.join(" ")),
            Access::Unknowable(_) => "unknowable".to_owned(),
            other => format!("{other:?}").replace(&format!("{}/", place.cx.workspace.display()), ""),
        });
        named.collect::<Vec<_>>().join(", ")
    };
    for (command, expected) in [
        ("x=1", "harmless []"),
        ("x=1 y=$x # why", "harmless []"),
        ("# only a comment", "harmless []"),
        ("[[ -n $x ]]", "harmless []"),
        ("< f", "Read(\"f\"), harmless []"),
        ("> /dev/null", "harmless []"),
        ("> f", "Write(\"f\"), harmless []"),
        ("x=1 > f", "Write(\"f\"), harmless []"),
        // More than it names.
        ("> $f", "SomePath(\"$f\"), command []"),
        ("> $f > g", "Write(\"g\"), SomePath(\"$f\"), command []"),
        ("> /dev/tcp/H.test/80", "Reach(\"h.test:80\"), command []"),
        ("ls; > $f", "harmless [ls], SomePath(\"$f\"), command []"),
        // What is run is judged, and the assignment beside it needs no rule.
        ("x=$(rm y)", "Write(\"y\"), command [rm y]"),
        ("x=1; ls", "harmless [ls]"),
        ("> f; ls", "Write(\"f\"), harmless [ls]"),
        ("PATH=.", "unknowable"),
        ("LD_PRELOAD=./x.so", "unknowable"),
        ("x=1 PATH=. > f", "unknowable, Write(\"f\")"),
    ] {
        assert_eq!(accesses(command), expected, "{command}");
    }
}

#[test]
fn what_xargs_adds_lies_where_it_was_found_unless_a_name_may_be_two() {
    let place = Place::new();
    place.put("src/plain", "");
    let leads_anywhere = || {
        let plan = planned(&place, &json!({"command": "find . | xargs grep x"})).unwrap();
        format!("{:?}", plan.planned.accesses).contains("SomePath")
    };
    assert!(!leads_anywhere());
    for odd in ["a /etc/passwd", "-f/x", "it's", "a\\b"] {
        place.put(&format!("src/{odd}"), "");
        assert!(leads_anywhere(), "{odd}");
        std::fs::remove_dir_all(place.path("src")).unwrap();
        place.put("src/plain", "");
    }
}

#[tokio::test]
async fn a_script_may_be_longer_than_a_word_of_a_command_line_and_has_an_end() {
    let place = Place::new();
    let long = format!("x=1\n{}echo $# $x \"${{IFS@Q}}\" ${{piton_script-none}}; exit 3", "# comment\n".repeat(20_000));
    assert!(long.len() > 200_000);
    let outcome = place.run("bash", json!({"command": long})).await;
    assert_eq!(outcome.text, "0 1 $' \\t\\n' none\nexit code 3");

    let refused = planned(&place, &json!({"command": "#".repeat((256 << 10) + 1)})).unwrap_err();
    assert!(
        refused.starts_with("bash: field `command` is 262145 bytes long, and at most 262144 are taken"),
        "{refused}"
    );
    assert!(planned(&place, &json!({"command": "#".repeat(256 << 10)})).is_ok());
}

#[tokio::test]
async fn a_call_whose_command_went_on_in_the_background_is_settled_by_the_next() {
    let place = Place::new();
    let mut runner = place.start_runner("echo up; touch began; sleep 600");
    wait_until("it runs", || place.path("began").exists());
    let input = json!({"command": "echo up; touch began; sleep 600", "background": true, "notify": true});
    for _ in 0..2 {
        let outcome = place.settle("bash", input.clone()).await;
        assert!(outcome.status == Status::Ok && outcome.text.ends_with("Output so far:\nup"), "{}", outcome.text);
        assert!(outcome.task.unwrap().began.unwrap().notify);
    }
    assert!(piton_tools::runner::end(&place.base(), Duration::from_secs(20)));
    runner.wait().unwrap();
    let outcome = place.settle("bash", input).await;
    assert!(outcome.status == Status::Cancelled && outcome.task.is_none(), "{outcome:?}");
}

/// What says whether there is a terminal, how large, whose, and what is to be read there.
const LOOKS_AT_TERMINAL: &str = "test -t 0 && test -t 1 && test -t 2 && echo all three; tty; stty size; echo into >/dev/tty; \
                                 printf '\\033[31mred\\033[0m\\r\\n'; read -r line || echo nothing to read; echo $TERM";

#[tokio::test]
async fn a_command_in_a_terminal_has_one_of_its_own_at_which_nobody_sits() {
    for mut place in [Place::new(), Place::confined()] {
        let confinement = format!("{:?}", place.cx.confinement);
        let outcome = place.run("bash", json!({"command": LOOKS_AT_TERMINAL, "pty": true})).await;
        let lines: Vec<&str> = outcome.text.lines().collect();
        assert!(lines.get(1).is_some_and(|tty| tty.starts_with("/dev/pts/")), "{}: {confinement}", outcome.text);
        let expected = ["all three", lines[1], "24 80", "into", "red", "nothing to read", "xterm"];
        assert_eq!(lines, expected, "{confinement}");
        place.cx.call = "c1_1".into();
        let outcome = place.run("bash", json!({"command": "test -t 1 || echo none; tty"})).await;
        assert_eq!(outcome.text, "none\nnot a tty\nexit code 1", "the next has none");
    }
}

#[tokio::test]
async fn a_program_that_wants_a_terminal_runs_in_one_and_its_children_end_with_it() {
    for mut place in [Place::new(), Place::confined()] {
        let word = unique_sleep();
        let left = format!(
            "(trap '' HUP TERM; sleep {word}) & setsid sleep {word} & sleep 0.2; exec >out 2>&1 </dev/null; echo on"
        );
        let outcome = place.run("bash", json!({"command": left, "pty": true})).await;
        assert_eq!((outcome.status, place.content("out").as_slice()), (Status::Ok, &b"on\n"[..]), "{}", outcome.text);
        assert!(!is_running(&word));
        place.cx.call = "c1_1".into();
        let python = "import sys; sys.exit(0 if sys.stdin.isatty() and sys.stdout.isatty() else 7)";
        let command = format!(
            "/usr/bin/env python3 -c '{python}' || test $? = 127; stty -echo; stty -a | grep -o -- -echo\\; | head -1"
        );
        let outcome = place.run("bash", json!({"command": command, "pty": true})).await;
        assert_eq!(outcome.status, Status::Ok, "{}", outcome.text);
        place.cx.call = "c1_2".into();
        let outcome = place.run("bash", json!({"command": format!("sleep {word}"), "pty": true, "timeout": 300})).await;
        assert_eq!(outcome.status, Status::TimedOut, "{}", outcome.text);
        assert!(!is_running(&word));
    }
}

#[tokio::test]
async fn where_landlock_alone_holds_a_terminal_is_refused_in_words() {
    let mut place = Place::confined();
    place.reach().backend = piton_sandbox::Backend::Landlock;
    let outcome = place.run("bash", json!({"command": "touch ran", "pty": true})).await;
    assert!(outcome.text.contains("there is no terminal where Landlock alone holds"), "{}", outcome.text);
    assert!(!place.path("ran").exists());
}
