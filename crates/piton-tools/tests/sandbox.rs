//! What a command in a sandbox can do and what it cannot, with the runner and real commands.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::disallowed_methods, reason = "tests start programs by themselves")]

mod support;

use piton_core::call::Status;
use piton_sandbox::{Backend, Write};
use piton_tools::disk::{ConfinedDisk, Disk};
use piton_tools::files::{Files, Found, Replacement};
use serde_json::json;
use std::io::Read as _;
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

/// The same, deeper than the top; each leaves what is named behind it unless it is taken away.
const LEFT_BELOW: &[(&str, &str)] = &[
    ("mkdir -p a/b/.vscode && echo x > a/b/.vscode/tasks.json", "a/b/.vscode"),
    ("mkdir -p a && echo x > a/.envrc", "a/.envrc"),
    ("mkdir -p a/.husky/_ && echo x > a/.husky/_/pre-commit", "a/.husky/_"),
    ("git init -q a/b && echo x > a/b/.git/hooks/pre-commit", "a/b/.git/hooks/pre-commit"),
    ("mkdir -p b/objects b/refs b/.vscode && echo x > b/HEAD && echo x > b/.vscode/tasks.json", "b/.vscode"),
    (
        "mkdir -p b/objects b/refs && echo x > b/HEAD && git init -q b/inner && echo x > b/inner/.git/hooks/pre-commit",
        "b/inner/.git/hooks/pre-commit",
    ),
    (
        "git init -q r && cd r && mkdir -p .git/modules/x && echo x > .git/modules/x/HEAD && git init -q m && \
         mv m/.git .git/modules/x/y && echo x > .git/modules/x/y/hooks/pre-commit",
        "r/.git/modules/x/y/hooks/pre-commit",
    ),
    ("git init -q --bare a/bare && echo x > a/bare/hooks/post-update", "a/bare/hooks/post-update"),
    ("git init -q a && ln -s /etc a/.git/logs", "a/.git/logs"),
    ("git init -q --separate-git-dir=gd a/b", "a/b/.git"),
    (
        "git init -q a/b && mkdir c && mv a/b c/b && mkdir -p c/b/.git/remotes && echo URL: x > c/b/.git/remotes/o",
        "c/b/.git/remotes",
    ),
    ("git init -q a && echo /elsewhere/objects > a/.git/objects/info/alternates", "a/.git/objects/info/alternates"),
    ("mkdir .VSCODE && echo x > .VSCODE/tasks.json", ".VSCODE"),
    ("echo x > .ENVRC", ".ENVRC"),
    ("mkdir .Claude && echo x > .Claude/settings.json", ".Claude"),
    ("echo x > .BashRC", ".BashRC"),
    ("mkdir -p .Git/hooks && echo x > .Git/hooks/pre-commit", ".Git/hooks/pre-commit"),
    ("git init -q a && echo '* filter=x' > a/.git/info/attributes", "a/.git/info/attributes"),
    // What is not searched is the way to nothing either.
    ("mkdir -p node_modules/p/.vscode", "-"),
    ("mv node_modules/p here", "here/.vscode"),
    ("mkdir -p deep/er/.idea && chmod 311 deep/er", "deep/er/.idea"),
];

#[tokio::test]
async fn what_would_be_run_later_does_not_stay_deeper_either() {
    for backend in [piton_sandbox::Backend::Namespaces, piton_sandbox::Backend::Landlock] {
        let mut place = Place::confined();
        place.reach().backend = backend;
        std::fs::create_dir(place.path("old")).unwrap();
        repository(&place.path("old"));
        place.put("mine/.vscode/tasks.json", "{}");
        let before = std::fs::read(place.path("old/.git/config")).unwrap();
        let mut number = 0;
        for (left, gone) in LEFT_BELOW {
            let (_, text) = run(&mut place, &mut number, left).await;
            assert_eq!(text.contains("[sandbox: "), *gone != "-", "{backend:?} {left}: {text}");
            assert!(place.path(gone).symlink_metadata().is_err(), "{backend:?} {left}: {text}");
            for made in ["a", "c", "gd"] {
                let _ = std::fs::remove_dir_all(place.path(made));
            }
        }
        // Refused, or taken back.
        run(&mut place, &mut number, "git -C old config core.fsmonitor x").await;
        let hook = "cd a && echo x > .git/hooks/pre-commit; touch ../mine/new";
        let (_, text) = run(&mut place, &mut number, &format!("git init -q a; {hook}")).await;
        assert!(text.contains("a/.git/hooks/pre-commit was made"), "{backend:?}: {text}");
        assert_eq!(std::fs::read(place.path("old/.git/config")).unwrap(), before, "{backend:?}");
        assert_eq!(place.content("mine/.vscode/tasks.json"), b"{}", "{backend:?}: what was there stays");
    }
}

/// More entries than are looked at while somebody waits.
const WIDE: &str = "mkdir -p wide && cd wide && seq 60000 | xargs touch && cd ..";

#[tokio::test]
async fn in_a_large_workspace_what_would_be_run_later_does_not_stay_either() {
    let mut place = Place::confined();
    std::fs::create_dir(place.path("old")).unwrap();
    repository(&place.path("old"));
    place.put("wide/old/.vscode/tasks.json", "{}");
    let mut number = 0;
    let (status, text) = run(&mut place, &mut number, WIDE).await;
    assert_eq!(status, Status::Ok, "{text}");
    // What lies behind the limit is found when the result is out, and told with the next.
    for folder in ["a/b/c", "wide/z/y", "wide/old/z"] {
        let hook = format!("{folder}/r/.git/hooks/pre-commit");
        let made = format!("mkdir -p {folder}/.idea && git init -q {folder}/r && echo x > {hook}");
        let (_, at_once) = run(&mut place, &mut number, &made).await;
        let gone = [place.path(&format!("{folder}/.idea")), place.path(&hook)];
        wait_until("they are gone", || gone.iter().all(|gone| !gone.exists()));
        let unsearched = place.reach().private.join("unsearched");
        wait_until("nothing is owed", || unsearched.read_dir().is_ok_and(|mut owed| owed.next().is_none()));
        let (_, later) = run(&mut place, &mut number, "true").await;
        let told = format!("{at_once}\n{later}");
        assert!(told.contains(&format!("{folder}/.idea was made")), "{told}");
    }
    assert_eq!(place.content("wide/old/.vscode/tasks.json"), b"{}", "what was there stays");
    assert!(place.path("old/.git/config").exists());
}

#[tokio::test]
async fn a_search_that_was_cut_and_never_made_up_for_is_made_up_for_by_the_next_command() {
    let mut place = Place::confined();
    let mut number = 0;
    run(&mut place, &mut number, "mkdir -p deep").await;
    let private = place.reach().private.clone();
    std::fs::create_dir_all(private.join("unsearched")).unwrap();
    let began = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    // As a runner leaves it that is killed while it goes on searching.
    std::fs::write(private.join(format!("unsearched/{began}.0.1")), "").unwrap();
    place.put("wide/z/.idea/x", "left by that command");
    let (_, text) = run(&mut place, &mut number, WIDE).await;
    assert!(!text.contains("too large"), "{text}");
    wait_until("it is gone", || !place.path("wide/z/.idea").exists());
}

#[tokio::test]
async fn a_repository_in_a_folder_that_is_not_searched_is_protected() {
    let mut place = Place::confined();
    for old in ["target/old", "web/node_modules/@of/old", "target/a/b/c/far", "own/target"] {
        std::fs::create_dir_all(place.path(old)).unwrap();
        repository(&place.path(old));
    }
    std::os::unix::fs::symlink("target/a/b/c/far", place.path("app")).unwrap();
    std::os::unix::fs::symlink("/etc", place.path("out")).unwrap();
    let private = place.reach().private.clone();
    std::fs::create_dir_all(private).unwrap();
    let mut number = 0;
    for old in ["target/old", "web/node_modules/@of/old", "app", "own/target"] {
        let (status, text) = run(&mut place, &mut number, &format!("echo x >> {old}/.git/config")).await;
        assert_eq!(status, Status::Failed, "{old}: {text}");
        let hook = format!("echo x > {old}/.git/hooks/pre-commit");
        let (status, text) = run(&mut place, &mut number, &hook).await;
        assert_eq!(status, Status::Failed, "{old}: {text}");
        let work = format!("cd {old} && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m more");
        let (status, text) = run(&mut place, &mut number, &work).await;
        assert_eq!(status, Status::Ok, "{old}: {text}");
    }
    let hooked = |folder: &str| format!("git init -q {folder} && echo x > {folder}/.git/hooks/pre-commit");
    for (command, gone) in [
        (hooked("target/new"), "target/new/.git/hooks/pre-commit"),
        (hooked("node_modules/new"), "node_modules/new/.git/hooks/pre-commit"),
        // Nobody is led there, until somebody is.
        (hooked("target/x/y/z/new"), "-"),
        ("ln -s target/x/y/z/new led".to_owned(), "led/.git/hooks/pre-commit"),
        (hooked("target/x/y/z/more"), "-"),
        ("mv target/x/y/z/more target/more".to_owned(), "target/more/.git/hooks/pre-commit"),
    ] {
        let (_, text) = run(&mut place, &mut number, &command).await;
        assert_eq!(text.contains("and moved away: "), gone != "-", "{command}: {text}");
        assert!(!place.path(gone).exists(), "{command}: {text}");
    }
    let build =
        "mkdir -p target/debug/.vscode node_modules/p && echo x > target/debug/f && git -C target/new status -s";
    let (status, text) = run(&mut place, &mut number, build).await;
    assert!(status == Status::Ok && !text.contains("[sandbox: "), "{text}");
}

#[tokio::test]
async fn what_was_there_deeper_cannot_be_changed_and_what_the_session_made_can_be_removed() {
    let mut place = Place::confined();
    std::fs::create_dir_all(place.path("lib/old")).unwrap();
    repository(&place.path("lib/old"));
    place.put("lib/.vscode/tasks.json", "{}");
    // It is what the session's own things are older than.
    let private = place.reach().private.clone();
    std::fs::create_dir_all(private).unwrap();
    let mut number = 0;
    for attack in [
        "echo x >> lib/old/.git/config",
        "echo x > lib/old/.git/hooks/pre-commit",
        "mv lib/old/.git lib/old/git",
        "mv lib other",
        "echo x > lib/.vscode/tasks.json",
    ] {
        let (status, text) = run(&mut place, &mut number, attack).await;
        assert_eq!(status, Status::Failed, "{attack}: {text}");
    }
    let author = "git -c user.name=a -c user.email=a@b";
    for work in [
        format!(
            "cd lib/old && echo a > f && git add f && {author} commit -qm more && git checkout -qb b && git stash list"
        ),
        format!("git init -q new && cd new && {author} commit -q --allow-empty -m first && git config user.name me"),
        "echo x > new/f && git -C new add f && git -C new worktree add -q ../tree && git -C new branch x".to_owned(),
        "git -C new worktree remove ../tree && mv new newer && rm -r newer".to_owned(),
    ] {
        let (status, text) = run(&mut place, &mut number, &work).await;
        assert_eq!(status, Status::Ok, "{work}: {text}");
        assert!(!text.contains("[sandbox: "), "{work}: {text}");
    }
}

/// By each of them a git outside would write or run elsewhere, in the repository at the top or in the one that it is a worktree of.
const LEADS: &[&str] = &[
    "mkdir -p .git/info && echo '* filter=x' > .git/info/attributes",
    "rm -r .git/logs && ln -s /etc .git/logs",
    "mkdir -p .git/logs/refs/x && ln -s /etc/passwd .git/logs/refs/x/y",
    "echo /elsewhere/objects > .git/objects/info/alternates",
    "mkdir .git/rebase-merge && echo 'exec touch /tmp/x' > .git/rebase-merge/git-rebase-todo",
    "mkdir .git/rebase-merge && echo evil > .git/rebase-merge/strategy",
    "mkdir .git/sequencer && echo 'x touch /tmp/x' > .git/sequencer/todo",
];

#[tokio::test]
async fn what_leads_git_elsewhere_does_not_stay_in_a_worktree_either() {
    for is_linked in [false, true] {
        for lead in LEADS {
            let mut place = Place::confined();
            let workspace = place.cx.workspace.clone();
            let main = if is_linked { workspace.parent().unwrap().join("main") } else { workspace.clone() };
            std::fs::create_dir_all(&main).unwrap();
            repository(&main);
            if is_linked {
                std::fs::remove_dir(&workspace).unwrap();
                let added =
                    Command::new("git").args(["worktree", "add", "-q"]).arg(&workspace).current_dir(&main).status();
                assert!(added.unwrap().success());
            }
            let mut number = 0;
            let lead = lead.replace(".git/", &format!("{}/.git/", main.display()));
            let (status, text) = run(&mut place, &mut number, &lead).await;
            assert_eq!(status, Status::Ok, "{lead}: {text}");
            assert!(text.contains("[sandbox: "), "{lead}: {text}");
            let seen = "find .git -type l; cat .git/info/attributes .git/objects/info/alternates .git/rebase-merge/strategy; grep -rE '^(x|exec) ' .git/rebase-merge .git/sequencer";
            let looked = Command::new("sh").args(["-c", seen]).current_dir(&main).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&looked.stdout), "", "{lead}");
        }
    }
}

/// A place that works in a folder of a repository, or in a submodule: `sub` of what is around it.
fn within_a_repository(is_submodule: bool) -> Place {
    let mut place = Place::confined();
    let workspace = place.cx.workspace.clone();
    repository(&workspace);
    let made = match is_submodule {
        true => {
            let other = workspace.parent().unwrap().join("other");
            std::fs::create_dir(&other).unwrap();
            repository(&other);
            format!("git -c protocol.file.allow=always submodule -q add {} sub", other.display())
        }
        false => "mkdir sub && echo a > sub/a && echo b > b && git add .".to_owned(),
    };
    let script = format!("{made} && git -c user.name=a -c user.email=a@b commit -qm more");
    let made = Command::new("sh").args(["-c", &script]).current_dir(&workspace).env("HOME", "/nowhere").status();
    assert!(made.unwrap().success());
    place.cx.workspace = workspace.join("sub");
    place.reach().workspace = workspace.join("sub");
    place
}

#[tokio::test]
async fn git_works_in_a_folder_of_a_repository_and_in_a_submodule_and_what_it_runs_is_protected() {
    for is_submodule in [false, true] {
        let mut place = within_a_repository(is_submodule);
        let sub = place.cx.workspace.clone();
        let mut number = 0;
        let work = "test -z \"$(git status --short)\" && git log --oneline && echo c > c && git add c && \
                    git -c user.name=a -c user.email=a@b commit -qm mine && test -z \"$(git status --short)\"";
        let (status, text) = run(&mut place, &mut number, work).await;
        assert_eq!(status, Status::Ok, "submodule {is_submodule}: {text}");
        assert!(!text.contains("[sandbox: "), "submodule {is_submodule}: {text}");
        for attack in ["git config core.fsmonitor x", "echo x > \"$(git rev-parse --git-dir)/hooks/post-commit\""] {
            let (status, text) = run(&mut place, &mut number, attack).await;
            assert_eq!(status, Status::Failed, "submodule {is_submodule}: {attack}: {text}");
        }
        // What is around it, which in a submodule's sandbox is not there.
        run(&mut place, &mut number, "echo x > ../b; echo x > ../new").await;
        let around = sub.parent().unwrap();
        assert!(!around.join("new").exists());
        assert!(is_submodule || std::fs::read(around.join("b")).unwrap() == b"b\n");
        let lead = "mkdir -p \"$(git rev-parse --git-dir)/info\" && echo '* filter=x' > \"$(git rev-parse --git-dir)/info/attributes\"";
        let (_, text) = run(&mut place, &mut number, lead).await;
        assert!(text.contains("[sandbox: info/attributes was made"), "submodule {is_submodule}: {text}");
        // Another git sees the commit.
        let log = Command::new("git").args(["log", "-1", "--format=%s"]).current_dir(&sub).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&log.stdout), "mine\n", "submodule {is_submodule}");
        place.reach().write = Write::Nothing;
        let (status, text) = run(&mut place, &mut number, "git status --short && git log -1").await;
        assert_eq!(status, Status::Ok, "read-only, submodule {is_submodule}: {text}");
    }
}

#[tokio::test]
async fn a_clone_keeps_where_it_is_from() {
    let mut place = Place::confined();
    repository(&place.cx.workspace);
    let mut number = 0;
    let made = "git clone -q . cl && git init -q s && git -C s remote add origin https://example.org/a/b.git && \
                git init -q t && git -C t remote add origin ext::touch%20x";
    let (status, text) = run(&mut place, &mut number, made).await;
    assert_eq!(status, Status::Ok, "{text}");
    assert!(!text.contains("cl/.git/config") && !text.contains("s/.git/config"), "{text}");
    assert!(text.contains("t/.git/config was made"), "{text}");
    let later = "git -C cl pull -q && git -C s remote get-url origin && ! git -C t config remote.origin.url";
    let (status, text) = run(&mut place, &mut number, later).await;
    assert_eq!(status, Status::Ok, "{text}");
}

#[tokio::test]
async fn the_folder_of_hooks_that_a_configuration_names_is_protected() {
    let mut place = Place::confined();
    repository(&place.cx.workspace);
    place.put(".githooks/pre-commit", "mine");
    let named =
        Command::new("git").args(["config", "core.hooksPath", ".githooks"]).current_dir(&place.cx.workspace).status();
    assert!(named.unwrap().success());
    let mut number = 0;
    for attack in ["echo x > .githooks/pre-commit", "echo x > .githooks/post-commit", "mv .githooks other"] {
        let (status, text) = run(&mut place, &mut number, attack).await;
        assert_eq!(status, Status::Failed, "{attack}: {text}");
    }
    assert_eq!(place.content(".githooks/pre-commit"), b"mine");
    let (status, text) = run(&mut place, &mut number, "echo x > f && git add f && git status --short").await;
    assert_eq!(status, Status::Ok, "{text}");
}

#[tokio::test]
async fn a_rebase_goes_on_over_calls_without_what_it_would_have_run() {
    let mut place = Place::confined();
    repository(&place.cx.workspace);
    let mut number = 0;
    let author = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b";
    let begin = "git checkout -qb b && echo b > f && git add f && git commit -qm b && echo g > g && git add g && git commit -qm g && \
                 git checkout -q - && echo a > f && git add f && git commit -qm a && git checkout -q b && git rebase -q - ; test -d .git/rebase-merge";
    let (status, text) = run(&mut place, &mut number, &format!("{author}; {begin}")).await;
    assert_eq!(status, Status::Ok, "{text}");
    assert!(!text.contains("[sandbox: "), "{text}");
    let end =
        "echo ab > f && git add f && GIT_EDITOR=true git rebase --continue && test ! -d .git/rebase-merge && test -f g";
    let (status, text) = run(&mut place, &mut number, &format!("{author}; {end}")).await;
    assert_eq!(status, Status::Ok, "{text}");
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

/// A signal interrupted the wait for the sandbox, which passed for one that was never ready.
#[tokio::test]
async fn a_command_that_is_cancelled_while_its_sandbox_is_made_is_cancelled() {
    for delay_ms in [0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20] {
        let place = Place::confined();
        let cancel = place.cx.cancel.clone();
        tokio::spawn(async move {
            tokio::time::sleep(std::time::Duration::from_millis(delay_ms)).await;
            cancel.cancel();
        });
        let outcome = place.bash("sleep 600").await;
        assert_eq!(outcome.status, Status::Cancelled, "after {delay_ms} ms: {}", outcome.text);
    }
}

#[tokio::test]
async fn too_many_processes_are_refused() {
    let mut place = Place::confined();
    let script = "import os\nfor n in range(3000):\n  try:\n    if os.fork() == 0: import time; time.sleep(9)\n  except OSError: print('refused at', n > 100); break\n";
    place.put("bomb.py", script);
    let mut number = 0;
    assert_eq!(run(&mut place, &mut number, "python3 bomb.py").await.1.lines().next(), Some("refused at True"));
}

/// What random paths are made of. What leads out leads to the folder above the workspace.
const PARTS: &[&str] = &[
    "sub",
    "a",
    "deep",
    "file",
    "new",
    ".git",
    ".GIT",
    "config",
    "hooks",
    "HEAD",
    ".vscode",
    ".VSCode",
    "tasks.json",
    ".envrc",
    "old",
    "out",
    "secret",
    "in",
    "up",
    "loop",
    "..",
    "..",
    ".",
    "home",
    ".ssh",
    "id",
    "lib",
];

/// What is there, or leads there: every other path begins so.
const KNOWN: &[&str] = &[
    "sub/file",
    "sub/a/file",
    "file",
    "in/file",
    "sub/up/file",
    "sub/in/old/new",
    ".git/config",
    "sub/config",
    ".git/HEAD",
    "sub",
    "in",
    "sub/secret",
    "out/secret",
    "lib/.vscode/tasks.json",
    "lib/old/.git/config",
    "lib/old/new",
    "sub/deep/old/file",
    ".vscode/tasks.json",
];

/// A tree with what is protected, what is not, and links of all kinds.
fn planted() -> Place {
    let mut place = Place::confined();
    repository(&place.cx.workspace);
    for name in ["sub/a/file", "sub/file", "file", ".vscode/tasks.json", "lib/.vscode/tasks.json", "sub/deep/old/file"]
    {
        place.put(name, "x");
    }
    std::fs::create_dir_all(place.path("lib/old")).unwrap();
    repository(&place.path("lib/old"));
    let above = place.cx.workspace.parent().unwrap().to_path_buf();
    std::fs::write(above.join("secret"), "canary").unwrap();
    for (link, to) in [
        ("out", above.as_path()),
        ("sub/out", Path::new("../..")),
        ("sub/secret", Path::new("../../secret")),
        ("in", Path::new("sub/a")),
        ("sub/in", Path::new("../lib")),
        ("sub/up", Path::new("..")),
        ("loop", Path::new("loop")),
        ("sub/config", Path::new("../.git/config")),
    ] {
        std::os::unix::fs::symlink(to, place.path(link)).unwrap();
    }
    std::fs::create_dir_all(place.reach().private.clone()).unwrap();
    place
}

/// Whether the guard lets it be read, and be written to; nothing is written where the folder is not there.
fn guard(disk: &dyn Files, path: &Path) -> (bool, bool) {
    let reads = disk.open(path).is_ok_and(|mut open| open.read(&mut [0]).is_ok());
    let is_folder = |path: &Path| disk.look(path).ok().flatten().is_some_and(|found| matches!(found, Found::Folder));
    let writes = disk.real(path).is_ok_and(|real| {
        let has_place = real.parent().is_some_and(is_folder) && !is_folder(&real);
        let change = Replacement { path: real, before: None, after: None, rights: None };
        has_place && disk.replace(&"c1_0".into(), &change, b"x").is_ok()
    });
    (reads, writes)
}

/// What the guard of the file tools allows the kernel allows a command, and the other way round. Where it does not, the guard allows
/// less: other cases of protected names, and what is not there yet and would be taken away afterwards; and for a path that goes
/// through `/tmp`, which is another folder for a command.
#[tokio::test]
async fn what_the_guard_allows_the_kernel_allows() {
    const PATHS: usize = 400;
    for (backend, seed) in
        [(Backend::Namespaces, 1), (Backend::Namespaces, 2), (Backend::Landlock, 3), (Backend::Landlock, 4)]
    {
        let mut random = fastrand::Rng::with_seed(seed);
        let paths: Vec<String> = (0..PATHS)
            .map(|number| {
                let known = (number % 2 == 0).then(|| KNOWN[random.usize(..KNOWN.len())]);
                let more = if known.is_some() { 0..2 } else { 1..6 };
                let parts = (0..random.usize(more)).map(|_| PARTS[random.usize(..PARTS.len())]).collect::<Vec<_>>();
                let path = known.into_iter().chain(parts).collect::<Vec<_>>().join("/");
                // A file that is not there is named so for a tool, and not for a command.
                path.trim_end_matches("/.").to_owned()
            })
            .collect();
        // Each has a tree of its own, since both write.
        let (mut commands, mut tools) = (planted(), planted());
        (commands.reach().backend, tools.reach().backend) = (backend, backend);
        let script: String = paths
            .iter()
            .map(|path| {
                format!("r=n; w=n; p='{path}'; head -c 1 \"$p\" >/dev/null 2>&1 && r=y; (: >> \"$p\") 2>/dev/null && w=y; echo $r$w\n")
            })
            .collect();
        commands.put("sub/script", &script);
        tools.put("sub/script", &script);
        let outcome = commands.run("bash", json!({"command": "sh sub/script"})).await;
        let said: Vec<(bool, bool)> = (outcome.text.lines().filter(|line| line.len() == 2))
            .map(|line| (line.starts_with('y'), line.ends_with('y')))
            .collect();
        assert_eq!(said.len(), PATHS, "{}", outcome.text);
        let reach = tools.reach().clone();
        let disk = ConfinedDisk::new(Disk::new(tools.calls_dir.clone()), reach);
        let mut wrong = Vec::new();
        let (mut both_read, mut both_wrote, mut neither) = (0, 0, 0);
        for (path, kernel) in paths.iter().zip(said) {
            // Above what is not there a tool goes by the name alone, and a command nowhere.
            if path.rsplit_once("..").is_some_and(|(before, _)| !tools.path(before).is_dir()) {
                assert_eq!(kernel, (false, false), "{path}");
                continue;
            }
            let guard = guard(&disk, &tools.path(path));
            both_read += usize::from(guard.0 && kernel.0);
            both_wrote += usize::from(guard.1 && kernel.1);
            neither += usize::from(!guard.0 && !kernel.0);
            let lower = path.to_lowercase();
            let is_named = [".git", ".vscode", ".envrc", ".ssh"].iter().any(|name| lower.contains(name));
            let goes_out =
                ["out", "up", "..", "home", "secret"].iter().any(|part| path.split('/').any(|other| other == *part));
            let is_less = |guard: bool, kernel: bool| guard == kernel || kernel && (is_named || goes_out);
            // Under Landlock what is new at the top is made by tools alone, and is there for them afterwards.
            let is_new = backend == Backend::Landlock
                && (path.contains("new") || tools.path(path).exists() != commands.path(path).exists());
            if !(is_new || is_less(guard.0, kernel.0) && is_less(guard.1, kernel.1)) {
                wrong.push(format!("{path}: guard {guard:?}, kernel {kernel:?}"));
            }
        }
        assert!(wrong.is_empty(), "{backend:?}:\n{}", wrong.join("\n"));
        assert!(
            both_read > 20 && both_wrote > 20 && neither > 20,
            "{both_read} {both_wrote} {neither}: nothing is compared"
        );
    }
}

#[tokio::test]
async fn what_a_command_could_not_change_since_it_is_protected_is_told_even_if_it_ended_well() {
    let mut place = Place::confined();
    repository(&place.cx.workspace);
    place.put(".vscode/settings.json", "{}");
    let script = "git add -A && git -c user.name=a -c user.email=a@b commit -qm more && git branch b HEAD~ && git branch c && \
                  git config branch.c.remote o && echo x >> .vscode/settings.json";
    let made =
        Command::new("sh").args(["-c", script]).current_dir(&place.cx.workspace).env("HOME", "/nowhere").status();
    assert!(made.unwrap().success());
    let mut number = 0;
    for (command, told) in [
        ("git -c user.name=a -c user.email=a@b stash; true", "leave a path out"),
        ("git checkout -qf b; true", "leave a path out"),
        ("git branch -m c d", "renamed or deleted the branch all the same"),
        ("git branch -D d", "renamed or deleted the branch all the same"),
        ("echo x > .vscode/settings.json; true", "stays as it is: bash: line 1: .vscode/settings.json"),
    ] {
        let (_, text) = run(&mut place, &mut number, command).await;
        assert!(text.contains(told), "{command}: {text}");
    }
    for command in [
        "git status -s",
        "git branch e && git checkout -q e",
        "echo x > f && git add f && git rm -qf f",
        "touch /usr/x; true",
    ] {
        let (status, text) = run(&mut place, &mut number, command).await;
        assert!(status == Status::Ok && !text.contains("[sandbox: "), "{command}: {text}");
    }
}

#[tokio::test]
async fn a_worktree_that_only_the_sandbox_shows_is_told_of() {
    let mut place = Place::confined();
    repository(&place.cx.workspace);
    let mut number = 0;
    let (status, text) = run(&mut place, &mut number, "git worktree add -q ../x").await;
    assert_eq!(status, Status::Ok, "{text}");
    assert!(text.contains("/x is outside the workspace, and only there for commands"), "{text}");
    let (_, text) = run(&mut place, &mut number, "git worktree remove ../x && git worktree add -q in/x").await;
    assert!(!text.contains("[sandbox: "), "{text}");
}

#[tokio::test]
async fn what_a_program_outside_replaces_while_a_command_runs_is_not_the_commands_to_change() {
    let mut place = Place::confined();
    let workspace = place.cx.workspace.clone();
    repository(&workspace);
    place.put(".envrc", "mine");
    let git = |workspace: &Path, words: &[&str]| {
        assert!(
            Command::new("git").args(words).current_dir(workspace).env("HOME", "/nowhere").status().unwrap().success()
        );
    };
    git(&workspace, &["config", "core.sshCommand", "mine"]);
    git(&workspace, &["config", "alias.mine", "!mine"]);
    let evil = "touch begun; until [ -e go ]; do sleep 0.01; done; printf '[core]\\n\\tfsmonitor = evil\\n[alias]\\n\\tmine = !evil\\n' >> .git/config \
                && echo evil > .git/hooks/pre-commit && echo evil >> .envrc && touch done; until [ -e over ]; do sleep 0.01; done";
    let outside = std::thread::spawn(move || {
        let at = |name: &str| workspace.join(name);
        wait_until("it begins", || at("begun").exists());
        git(&workspace, &["remote", "add", "origin", "https://example.org/x.git"]);
        std::fs::rename(at(".git/hooks"), at("h")).unwrap();
        std::fs::create_dir(at(".git/hooks")).unwrap();
        std::fs::write(at(".envrc.new"), "mine, too").unwrap();
        std::fs::rename(at(".envrc.new"), at(".envrc")).unwrap();
        std::fs::write(at("go"), "").unwrap();
        wait_until("it has written", || at("done").exists());
        // While the command runs.
        wait_until("the configuration is clean", || {
            !std::fs::read_to_string(at(".git/config")).is_ok_and(|text| text.contains("evil"))
        });
        wait_until("the hook is gone", || !at(".git/hooks/pre-commit").exists());
        std::fs::write(at("over"), "").unwrap();
    });
    let (status, text) = run(&mut place, &mut 0, evil).await;
    outside.join().unwrap();
    assert_eq!(status, Status::Ok, "{text}");
    let config = String::from_utf8(place.content(".git/config")).unwrap();
    for kept in ["url = https://example.org/x.git", "sshCommand = mine", "mine = !mine"] {
        assert!(config.contains(kept), "{kept}: {config}");
    }
    for told in [".git/config was made or changed", "pre-commit was made or changed", ".envrc was replaced"] {
        assert!(text.contains(told), "{told}: {text}");
    }
    // Who replaces something and nothing else happens to it hears nothing.
    let quiet = std::thread::spawn({
        let workspace = place.cx.workspace.clone();
        move || {
            wait_until("it begins", || workspace.join("begun2").exists());
            git_config(&workspace);
            std::fs::write(workspace.join("over2"), "").unwrap();
        }
    });
    let (status, text) = run(&mut place, &mut 1, "touch begun2; until [ -e over2 ]; do sleep 0.01; done").await;
    quiet.join().unwrap();
    assert_eq!((status, text.contains("[sandbox: ")), (Status::Ok, false), "{text}");
}

fn git_config(workspace: &Path) {
    let set = ["config", "branch.main.remote", "origin"];
    assert!(Command::new("git").args(set).current_dir(workspace).env("HOME", "/nowhere").status().unwrap().success());
}
