//! `cargo xtask ci`: exactly what the CI runs.

use anyhow::{Context, ensure};
use std::path::Path;
use std::process::Command;

/// Runs every check, stopping at the first that fails.
pub(crate) fn ci() -> anyhow::Result<()> {
    cargo(&["fmt", "--all", "--check"])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"])?;
    cargo(&["build", "--workspace", "--examples", "--quiet"])?;
    println!("tests");
    let ended = crate::tests_run::run(None)?;
    let failed: Vec<String> = ended.iter().filter(|ended| ended.word() != "ok").map(ToString::to_string).collect();
    ensure!(failed.is_empty(), "{} tests did not pass:\n  {}", failed.len(), failed.join("\n  "));
    cargo(&["test", "--workspace", "--doc", "--quiet"])?;
    println!("rows");
    crate::rows::check_run(&ended)?;
    for example in ["minimal", "custom_tool"] {
        cargo(&["run", "--package", "piton-engine", "--example", example, "--quiet"])?;
    }
    println!("tidy");
    crate::tidy::tidy()?;
    println!("catalogue");
    crate::catalogue::check()?;
    println!("schema");
    crate::schema::check()?;
    crate::events::check()?;
    println!("cases");
    crate::cases::cases(Path::new("tests/cases"))?;
    println!("all checks passed");
    Ok(())
}

fn cargo(args: &[&str]) -> anyhow::Result<()> {
    println!("cargo {}", args.join(" "));
    let status = Command::new("cargo").args(args).status().context("cannot run cargo")?;
    ensure!(status.success(), "cargo {} failed", args.join(" "));
    Ok(())
}
