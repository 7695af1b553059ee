//! How long reading takes: `cargo run --release -p piton-shell --example speed`. Prints microseconds, the best of some runs, and
//! what `cargo xtask bench judge` shows.

use piton_shell::{ByName, read};
use std::time::Instant;

const RUNS: usize = 5;
const USUAL: &str = "a usual command of 2 KB";
/// Short commands, one after the other.
const SHORT: usize = 5_000;

/// Texts that want to be slow, by what they are.
fn texts() -> Vec<(&'static str, String)> {
    let full = 256 * 1024;
    let line = "git status && cargo test --workspace 2>&1 | tail -n 20; for f in src/*.rs; do grep -n \"fn $f\" \"$f\" || echo 'none'; done\n";
    let fill = |piece: &str, bytes: usize| piece.repeat(bytes / piece.len());
    let around = |open: &str, close: &str| {
        let deep = full / (open.len() + close.len());
        format!("{}{}", open.repeat(deep), close.repeat(deep))
    };
    vec![
        (USUAL, fill(line, 2048)),
        ("256 KB of usual commands", fill(line, full)),
        ("one quoted word", format!("echo '{}'", "a".repeat(full - 8))),
        ("one bare word", "a".repeat(full)),
        ("blanks", " ".repeat(full)),
        ("continuations", "\\\n".repeat(full / 2)),
        ("words", fill("a ", full)),
        ("substitutions in each other", around("$(", ")")),
        ("arithmetic in each other", around("$((", "))")),
        ("arithmetic that is none", fill("$((", full)),
        ("arithmetic that is none, in subscripts", fill("a[$((", full)),
        ("parameters in each other", around("${x:-", "}")),
        ("quotes in each other", fill("\"$(", full)),
        ("backticks", fill("`", full)),
        ("escaped backticks", fill("\\`", full)),
        ("backslashes in backticks", format!("`{}`", "\\".repeat(full - 2))),
        ("groups", around("{ ", ";}")),
        ("subshells", around("(", ")")),
        ("open braces", fill("{", full)),
        ("braces that explode", fill("{a,b}", full)),
        ("a long sequence", "echo {1..99999999}".to_string()),
        ("sequences that multiply", "echo {1..70}{1..70}{1..70}".to_string()),
        ("here-documents", fill("<<a ", full)),
        ("a here-document that does not end", format!("cat <<E\n{}", fill("x\n", full - 8))),
        ("cases", fill("case a in ", full)),
        ("evals", fill("eval ", full)),
        ("wrappers", fill("env ", full)),
        ("shells", fill("sh -c ", full)),
        ("functions", fill("a(){ ", full)),
        ("redirections", fill(">a ", full)),
        ("assignments", fill("a=b ", full)),
        ("stars", fill("*", full)),
        ("pipes", fill("a|", full)),
        ("evals of quotes", {
            let mut text = "rm x".to_string();
            while text.len() < full / 2 && text.matches("eval").count() < 16 {
                text = format!("eval '{}'", text.replace('\'', "'\\''"));
            }
            text.chars().take(full).collect()
        }),
    ]
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn main() {
    let (mut worst, mut usual) = ([0_u128; RUNS], [0_u128; RUNS]);
    for (name, command) in &texts() {
        let runs = (0..RUNS).map(|run| {
            let start = Instant::now();
            let reading = read(command, &ByName);
            let micros = start.elapsed().as_micros();
            worst[run] = worst[run].max(micros);
            if *name == USUAL {
                usual[run] = micros;
            }
            (micros, reading.parts.len(), reading.unknowable.first().map(|unknowable| unknowable.what))
        });
        let (micros, parts, unknowable) = runs.min_by_key(|run| run.0).unwrap_or_default();
        println!("{micros:>8} µs  {:>7} bytes  {parts:>5} parts  {name}  {unknowable:?}", command.len());
    }
    let short: Vec<String> =
        (0..SHORT).map(|number| format!("git show HEAD~{number}:src/a.rs | head -n {number}")).collect();
    let many = std::array::from_fn(|_| {
        let start = Instant::now();
        let parts: usize = short.iter().map(|command| read(command, &ByName).parts.len()).sum();
        assert_eq!(parts, 2 * SHORT);
        start.elapsed().as_micros()
    });
    for (name, micros) in [("usual_ms", usual), ("worst_ms", worst), ("short_ms", many)] {
        let all: Vec<String> = micros.iter().map(|micros| format!("{:.3}", *micros as f64 / 1e3)).collect();
        println!("{name} {}", all.join(" "));
    }
}
