//! What a real bash runs, against what was read: no command may run that is not among the parts of a reading that claims to know.
//!
//! Texts are made at random, of words that cannot do harm, and traced: see [`traced`].
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod traced;

use piton_shell::{ByName, read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use traced::is_among;

/// Runs commands in a folder of its own.
struct Bash {
    folder: PathBuf,
}

impl Bash {
    fn new() -> Self {
        let name = format!("bash-{}", std::process::id());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(folder.join("work")).unwrap();
        std::fs::write(folder.join("prelude"), traced::PRELUDE).unwrap();
        Self { folder }
    }

    /// The commands that bash looked for, in the order in which it did.
    #[expect(clippy::disallowed_methods, reason = "bash itself is what is compared with; no library's code starts it")]
    fn run(&self, text: &str, round: usize) -> Vec<Vec<String>> {
        // One for each: what a text leaves in the background may write later.
        let trace = self.folder.join(format!("trace-{round}"));
        std::fs::write(&trace, "").unwrap();
        let mut child = Command::new("/bin/bash")
            .args(["-c", text])
            .env_clear()
            .env("PATH", "/nonexistent")
            .env("BASH_ENV", self.folder.join("prelude"))
            .env("TRACE", &trace)
            .current_dir(self.folder.join("work"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // `ulimit` ends what computes; nothing else can wait, for nothing that waits is among the words.
        child.wait().unwrap();
        traced::commands(&std::fs::read(&trace).unwrap())
    }
}

impl Drop for Bash {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Words of which any may be a program.
const WORDS: &[&str] = &[
    "aa",
    "bb",
    "cc",
    "a'a'",
    "\"b\"b",
    "c\\c",
    "$'a\\x61'",
    "{aa,bb}",
    "a{a,b}",
    "{1..3}",
    "\"\"aa",
    "'a b'",
    "\"$(aa)\"",
    "`bb`",
    "$(cc x)",
    "${x:-$(aa)}",
    "${x-bb}",
    "$((1+2))",
    "a\\\na",
    "$\"aa\"",
    "x=1",
    "#",
    "a#b",
    "\"`aa`\"",
    "'",
    "*",
    "{a",
    "a}",
    "{}",
    "!",
    "\\",
    "$x",
    "\"$x\"",
    "$'\\'aa'",
    "\"\\\"aa\"",
    "\"'\"",
    "'\"'",
    "if",
    "do",
    "}",
    "time",
    "coproc",
    "[[",
    "in",
    "a=(1 $(bb))",
    "a[1]=$(aa)",
    "x+=1",
    "$(( $(echo 1) ))",
    "${#x}",
    "${x/a/`bb`}",
    "\"${x:=$(cc)}\"",
    "<(aa)",
    "-x",
    "--",
    "@(a|b)",
    "$(<x)",
    "\"$(echo \"$(bb)\")\"",
    "`echo \\`aa\\``",
    "\"\\$(aa)\"",
    "\\$(aa)",
    "'$(aa)'",
    "$(aa # )\n)",
    "$(case x in x) aa;; esac)",
    "$((aa); (bb))",
];

fn pick<'w>(random: &mut fastrand::Rng, words: &[&'w str]) -> &'w str {
    words[random.usize(..words.len())]
}

fn simple(random: &mut fastrand::Rng) -> String {
    let front = pick(
        random,
        &[
            "",
            "",
            "",
            "",
            "x=1 ",
            "x=$(aa) ",
            "! ",
            "time ",
            "command ",
            "builtin eval ",
            "eval ",
            "\\\n",
            "coproc ",
            "trap -- ",
            "2>&1 ",
            "</dev/null ",
        ],
    );
    let words: Vec<&str> = (0..random.usize(1..4)).map(|_| pick(random, WORDS)).collect();
    let back = pick(
        random,
        &[
            "",
            "",
            "",
            "",
            " >o",
            " 2>&1",
            " <<E\n$(aa) `bb`\nE\n",
            " <<'E'\n$(aa)\nE\n",
            " <<< \"$(bb)\"",
            " # aa",
            " <<-E\n\t$(cc)\n\tE\n",
            " {fd}>o",
            " &>o",
            "<<A <<B\nx\nA\n`aa`\nB\n",
        ],
    );
    format!("{front}{}{back}", words.join(" "))
}

/// A text of commands in each other, `depth` deep at most.
fn script(random: &mut fastrand::Rng, depth: usize) -> String {
    if depth == 0 {
        return simple(random);
    }
    let one = script(random, depth - 1);
    let quoted = one.replace('\'', "'\\''");
    match random.u32(..22) {
        0 => format!("{one}; {}", script(random, depth - 1)),
        1 => format!("{one} && {}", script(random, depth - 1)),
        2 => format!("{one} || {}", script(random, depth - 1)),
        3 => format!("{one} | {}", script(random, depth - 1)),
        4 => format!("{one}\n{}", script(random, depth - 1)),
        5 => format!("( {one} )"),
        6 => format!("{{ {one}; }}"),
        7 => format!("if {one}\nthen {}\nelse bb y\nfi", script(random, depth - 1)),
        8 => format!("for i in 1 2; do {one}\ndone"),
        9 => format!("case a in (b) aa;; a) {one}\n;; esac"),
        10 => format!("ff() {{ {one}\n}}; ff q"),
        11 => format!("echo $({one}\n)"),
        12 => format!("echo \"$({one}\n)\""),
        13 => format!("eval '{quoted}'"),
        14 => format!("trap '{quoted}' EXIT"),
        15 => format!("[[ -n $({one}\n) || a == b ]]"),
        16 => format!("echo ${{x:-$({one}\n)}}"),
        17 => format!("while {one}\ndo break\ndone"),
        18 => format!("bb <<E\n$({one}\n)\nE\n"),
        19 => format!("x=$({one}\n) aa"),
        20 => format!("echo `{}`", one.replace('\\', "\\\\").replace('`', "\\`").replace('$', "\\$")),
        _ => format!("{one} &"),
    }
}

/// The same text with some of its characters changed.
fn mutated(mut text: String, random: &mut fastrand::Rng) -> String {
    for _ in 0..random.usize(..4) {
        let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        let Some(at) = places.get(random.usize(..places.len().max(1))).copied() else { break };
        match random.u32(..2) {
            0 => drop(text.remove(at)),
            _ => text.insert_str(
                at,
                pick(
                    random,
                    &[
                        "'", "\"", "`", "$", "(", ")", "{", "}", ";", "&", "|", "\\", "\n", " ", "#", "!", "=", ",",
                        "<<E", "((", "))", "aa",
                    ],
                ),
            ),
        }
    }
    text
}

#[test]
fn bash_runs_nothing_that_was_not_read() {
    let bash = Bash::new();
    let mut random = fastrand::Rng::with_seed(option_env!("BASH_SEED").map_or(1, |seed| seed.parse().unwrap()));
    let rounds = option_env!("BASH_ROUNDS").map_or(1_500, |rounds| rounds.parse().unwrap());
    let (mut compared, mut ran) = (0, 0);
    for round in 0..rounds {
        let depth = random.usize(..4);
        let mut text = script(&mut random, depth);
        if round % 2 == 0 {
            text = mutated(text, &mut random);
        }
        // A file in the way, or a loop without an end, says nothing about reading.
        if text.contains("while :") || text.contains("until") {
            continue;
        }
        let reading = read(&text, &ByName);
        if !reading.unknowable.is_empty() {
            continue;
        }
        compared += 1;
        for command in bash.run(&text, round) {
            ran += 1;
            assert!(is_among(&reading, &command), "round {round}\n{text}\nruns {command:?}\n{reading:#?}");
        }
    }
    assert!(compared * 10 >= rounds, "{compared} texts of {rounds} were known");
    assert!(ran >= compared, "{ran} commands ran in {compared} texts");
}
