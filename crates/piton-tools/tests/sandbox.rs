//! What a command in a sandbox can do and what it cannot, with the runner and real commands.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::disallowed_methods, reason = "tests start programs by themselves")]

mod support;

use piton_core::call::Status;
use piton_sandbox::Write;
use std::path::Path;
use std::process::Command;
use support::{Place, is_running, unique_sleep, wait_until};

/// A repository with one commit.
fn repository(at: &Path) {
    let script = "git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m first";
    let made = Command::new("sh").args(["-c", script]).current_dir(at).env("HOME", "/nowhere").status().unwrap();
    assert!(made.success());
}

fn empty(folder: &Path) {
    std::fs::remove_dir_all(folder).unwrap();
    std::fs::create_dir(folder).unwrap();
}

async fn run(place: &mut Place, number: &mut usize, command: &str) -> (Status, String) {
    *number += 1;
    place.cx.call = format!("c{number}_0").as_str().into();
    let outcome = place.bash(command).await;
    (outcome.status, outcome.text)
}

/// Each would reach what it must not, and then exits with 0.
const ATTACKS: &[(&str, &str)] = &[
    ("git's configuration", "git config core.fsmonitor 'touch /tmp/x'"),
    ("git's configuration, by rename", "cp .git/config c && echo x >> c && mv c .git/config"),
    ("the folder around it", "mv .git old && cp -r old .git && echo x >> .git/config"),
    ("a hook", "echo x > .git/hooks/post-commit"),
    ("the hooks, by rename", "mv .git/hooks h && mkdir .git/hooks"),
    ("a protected folder", "echo x > .vscode/tasks.json"),
    ("a protected folder, by rename", "mv .vscode v && mkdir .vscode"),
    ("another home", "cat \"$HOME/.ssh/id\""),
    ("root's home", "ls /root/.ssh"),
    ("the system", "touch /usr/bin/x || touch /etc/x || echo x >> /etc/hosts"),
    ("shadow", "test -s /etc/shadow"),
    ("the journal", "ls \"$PWD\"/../ses_*"),
    ("a link out", "ln -s / l && touch l/usr/x"),
    ("a link to another's folder", "ln -s /proc/1/root r && ls r/"),
    ("core_pattern", "p=$(cat /proc/sys/kernel/core_pattern); echo \"$p\" > /proc/sys/kernel/core_pattern"),
    ("sysrq", "echo h > /proc/sysrq-trigger"),
    ("a user namespace", "unshare -U true"),
    ("a mount namespace", "unshare -m true"),
    ("a mount", "mount -t tmpfs none /tmp"),
    ("a mount taken away", "umount .git/config"),
    ("a mount made writable", "mount -o remount,rw,bind /etc"),
    ("the network", "exec 3<>/dev/tcp/192.0.2.1/80"),
    ("a datagram", "echo x > /dev/udp/192.0.2.1/53"),
    ("a process outside", "kill -0 $OUTSIDE"),
    ("the first process's memory", "cat /proc/1/environ /proc/1/mem"),
    ("its descriptors", "ls -l /proc/1/fd/0 && readlink /proc/1/fd/0"),
    ("a device", "mknod d b 8 0 || mknod d c 1 3"),
    ("another user", "setpriv --reuid 1 true"),
    ("capabilities", "grep -q 'CapEff:.*[1-9a-f]' /proc/self/status"),
    ("another host's name", "hostname evil"),
    ("the time", "date -s 2001-01-01"),
];

/// Each is ordinary work, and exits with 0.
const WORK: &[(&str, &str)] = &[
    ("writing", "echo a > a && mkdir -p d/e && mv a d/e/b && cat d/e/b && rm -r d"),
    ("a commit", "echo a > f && git add -A && git commit -qm second"),
    (
        "a branch and a merge",
        "git checkout -qb b && echo b > g && git add g && git commit -qm b && git checkout -q - && git merge -q b",
    ),
    ("a rebase", "git checkout -q b && git commit -q --allow-empty -m c && git rebase -q -"),
    ("a stash", "echo x >> f && git stash -q && git stash pop -q && git checkout -q f"),
    (
        "a worktree",
        "git worktree add -q /tmp/wt -b wt && (cd /tmp/wt && git commit -q --allow-empty -m w) && git worktree remove /tmp/wt",
    ),
    ("a new repository", "mkdir n && cd n && git init -q . && git config a.b c && cd .. && rm -rf n"),
    (
        "a server",
        "python3 -c 'import socket; s=socket.create_server((\"127.0.0.1\",0)); c=socket.create_connection(s.getsockname()); s.accept()'",
    ),
    ("a server over IPv6", "python3 -c 'import socket; socket.create_server((\"::1\",0), family=socket.AF_INET6)'"),
    ("a Unix socket", "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"/tmp/s\")'"),
    ("processes", "python3 -c 'import multiprocessing as m; print(m.Pool(2).map(abs, [-1, 2]))'"),
    (
        "shared memory",
        "python3 -c 'from multiprocessing import shared_memory as s; a=s.SharedMemory(create=True,size=9); a.close(); a.unlink()'",
    ),
    ("temporary files", "f=$(mktemp) && echo x > $f && mktemp -d"),
    ("devices", "head -c 9 /dev/urandom > /dev/null && : < /dev/zero"),
    ("a terminal", "script -qc true /dev/null"),
    ("signals", "sleep 9 & kill %1; wait %1; test $? = 143"),
    ("a time limit", "timeout 1 true"),
    ("descriptors", "cat <(echo x) > /dev/stdout"),
    ("links", "touch t && ln -s t u && ln t v && chmod +x t && rm t u v"),
    ("the home", "mkdir -p ~/.config && echo x > ~/.config/y"),
    ("users", "id && whoami"),
    ("processes in a list", "ls /proc/self/fd && ps ax > /dev/null"),
];

#[tokio::test]
async fn a_command_reaches_what_is_its_own_and_nothing_else() {
    let mut place = Place::confined();
    repository(&place.cx.workspace);
    place.put(".vscode/tasks.json", "{}");
    let mut env = vec![("OUTSIDE".to_owned(), std::process::id().to_string())];
    env.extend(
        ["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"]
            .map(|name| (name.to_owned(), "a".to_owned())),
    );
    let variables = std::sync::Arc::make_mut(&mut place.cx.env);
    variables.extend(env.into_iter().map(|(name, value)| (name.into(), value.into())));
    let before = std::fs::read(place.path(".git/config")).unwrap();
    let mut number = 0;
    for (name, command) in WORK {
        let (status, text) = run(&mut place, &mut number, command).await;
        assert_eq!(status, Status::Ok, "{name}: {text}");
    }
    for (name, command) in ATTACKS {
        let (status, text) = run(&mut place, &mut number, command).await;
        assert_eq!(status, Status::Failed, "{name}: {text}");
    }
    assert_eq!(std::fs::read(place.path(".git/config")).unwrap(), before);
    assert_eq!(std::fs::read(place.path(".vscode/tasks.json")).unwrap(), b"{}");
    let left: Vec<_> = std::fs::read_dir(place.path(".git/hooks")).unwrap().collect();
    assert!(left.iter().all(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|end| end == "sample")));
}

#[tokio::test]
async fn home_and_tmp_last_from_call_to_call_and_are_nobody_elses() {
    let mut place = Place::confined();
    let mut number = 0;
    let (status, text) = run(&mut place, &mut number, "echo 1 > /tmp/kept && echo 2 > ~/kept").await;
    assert_eq!(status, Status::Ok, "{text}");
    assert_eq!(run(&mut place, &mut number, "cat /tmp/kept ~/kept").await.1, "1\n2");
    assert!(!place.cx.workspace.parent().unwrap().join("home/kept").exists());
}

#[tokio::test]
async fn a_workspace_that_may_only_be_read_is_not_written_to() {
    let mut place = Place::confined();
    place.reach().write = Write::Nothing;
    place.put("a", "kept");
    let mut number = 0;
    assert_eq!(run(&mut place, &mut number, "echo x > a").await.0, Status::Failed);
    assert_eq!(run(&mut place, &mut number, "rm a").await.0, Status::Failed);
    assert_eq!(run(&mut place, &mut number, "cat a && echo x > /tmp/a").await.1, "kept");
    assert_eq!(place.content("a"), b"kept");
}

#[tokio::test]
async fn nothing_of_a_call_outlives_it_however_it_hides() {
    let mut place = Place::confined();
    let seconds = unique_sleep();
    let hidden = format!(
        "env -i setsid sh -c 'sleep {seconds} & sleep {seconds} &' & env -i setsid -f sleep {seconds}; sleep 0.2"
    );
    let mut number = 0;
    let (status, said) = run(&mut place, &mut number, &hidden).await;
    assert_eq!(status, Status::Ok, "{said}");
    assert!(said.contains("background"), "{said}");
    wait_until("all of it is gone", || !is_running(&seconds));
}

/// What a command leaves by which a git or an editor outside would run something; each ends with `fsmonitor` or a hook named in
/// some file of the workspace that git would read.
const LEFT: &[&str] = &[
    "mkdir .idea && echo x > .idea/workspace.xml",
    "git init -q --separate-git-dir=gd n && cp n/.git .git",
    "cp -r /tmp/g/.git . && git config core.fsmonitor 'touch /tmp/x'",
    "cp -r /tmp/g/.git . && echo x > .git/hooks/pre-commit",
    "cp -r /tmp/g/.git . && echo x > .git/hooks/pre-commit && chmod 311 .git/hooks",
    "cp -r /tmp/g/.git . && git config gc.recentObjectsHook x",
    "cp -r /tmp/g/.git/* . && git config -f config core.fsmonitor x",
    "cp -r /tmp/g/.git . && mkdir -p .git/modules/a/b && cp -r .git/HEAD .git/modules/a/b && echo '[core] fsmonitor = x' > .git/modules/a/b/config",
    "cp -r /tmp/g/.git . && mkdir -p .git/remotes && echo URL: x > .git/remotes/origin",
];

#[tokio::test]
async fn what_would_be_run_later_does_not_stay() {
    let mut place = Place::confined();
    let mut number = 0;
    for left in LEFT {
        empty(&place.cx.workspace);
        let script = format!("mkdir -p /tmp/g && git init -q /tmp/g; {left}");
        let (_, text) = run(&mut place, &mut number, &script).await;
        assert!(text.contains("[sandbox: "), "{left}: {text}");
        let seen = "git config --list 2>&1 | grep -iE 'fsmonitor|hook=|remotes'; ls .git/hooks/pre-commit .idea .git/remotes 2>/dev/null";
        let mut looked = Command::new("sh");
        looked.args(["-c", seen]).current_dir(&place.cx.workspace).env("HOME", "/nowhere");
        let looked = looked.output().unwrap();
        assert_eq!(String::from_utf8_lossy(&looked.stdout), "", "{left}");
    }
}

#[tokio::test]
async fn looking_at_what_is_left_follows_no_link() {
    let mut place = Place::confined();
    let outside = place.cx.workspace.parent().unwrap().join("other");
    std::fs::create_dir_all(outside.join("hooks")).unwrap();
    std::fs::write(outside.join("config"), "[core]\n\tfsmonitor = mine\n").unwrap();
    std::fs::write(outside.join("hooks/pre-commit"), "mine").unwrap();
    let other = outside.display();
    let mut number = 0;
    for script in [
        format!("ln -s {other} .git"),
        format!("git init -q .; mkdir .git/modules; ln -s {other} .git/modules/x"),
        format!("git init -q .; ln -s {other} .git/modules"),
        format!(
            "git init -q .; rm -r .git/hooks .git/config; ln -s {other}/hooks .git/hooks; ln -s {other}/config .git/config"
        ),
    ] {
        empty(&place.cx.workspace);
        let (_, text) = run(&mut place, &mut number, &script).await;
        assert!(text.contains("[sandbox: "), "{script}: {text}");
        assert_eq!(std::fs::read(outside.join("config")).unwrap(), b"[core]\n\tfsmonitor = mine\n", "{script}");
        assert_eq!(std::fs::read(outside.join("hooks/pre-commit")).unwrap(), b"mine", "{script}");
    }
}

#[tokio::test]
async fn submodules_are_protected_whatever_their_names_and_their_folders_stay() {
    let mut place = Place::confined();
    repository(&place.cx.workspace);
    for name in ["config", "HEAD"] {
        place.put(&format!(".git/modules/libs/foo/{name}"), "[core]\n");
    }
    let mut number = 0;
    for attack in [
        "echo x >> .git/modules/libs/foo/config",
        "mv .git/modules .git/other",
        "mv .git/modules/libs .git/modules/other",
        "mv .git/modules/libs/foo .git/modules/libs/other",
    ] {
        let (status, text) = run(&mut place, &mut number, attack).await;
        assert_eq!(status, Status::Failed, "{attack}: {text}");
    }
    assert_eq!(place.content(".git/modules/libs/foo/config"), b"[core]\n");
}

#[tokio::test]
async fn a_plan_that_is_no_longer_true_is_made_again() {
    let mut place = Place::confined();
    let mut number = 0;
    // From here on a runner is at hand whose sandbox knows of no repository.
    let (status, text) = run(&mut place, &mut number, "true").await;
    assert_eq!(status, Status::Ok, "{text}");
    repository(&place.cx.workspace);
    let (status, text) = run(&mut place, &mut number, "echo x > .git/hooks/pre-commit").await;
    assert_eq!(status, Status::Failed, "{text}");
}

#[tokio::test]
async fn a_sandbox_that_cannot_be_made_runs_nothing() {
    let mut place = Place::confined();
    place.put("not-a-folder", "");
    place.reach().private = place.path("not-a-folder");
    let outcome = place.bash("touch ran").await;
    assert_eq!(outcome.status, Status::Failed);
    assert!(outcome.text.contains("sandbox"), "{}", outcome.text);
    assert!(!place.path("ran").exists());
}

#[tokio::test]
async fn too_many_processes_are_refused() {
    let mut place = Place::confined();
    let script = "import os\nfor n in range(3000):\n  try:\n    if os.fork() == 0: import time; time.sleep(9)\n  except OSError: print('refused at', n > 100); break\n";
    place.put("bomb.py", script);
    let mut number = 0;
    assert_eq!(run(&mut place, &mut number, "python3 bomb.py").await.1.lines().next(), Some("refused at True"));
}
