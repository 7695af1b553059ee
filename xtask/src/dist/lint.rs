//! What cannot be run on this machine, a container and GitHub's workflows, is held against its rules.

use crate::dist::build::PLATFORMS;
use crate::dist::tools::{self, CHECK_SCHEMA, HADOLINT, installed, run};
use anyhow::{Context, ensure};
use std::process::Command;

const WORKFLOWS: [&str; 2] = [".github/workflows/ci.yml", ".github/workflows/release.yml"];

pub(super) fn lint() -> anyhow::Result<()> {
    tools::install(&[HADOLINT, CHECK_SCHEMA])?;
    for script in ["packaging/install.sh", "packaging/action.sh"] {
        run(Command::new("sh").args(["-n", script]))?;
    }
    run(installed("hadolint")?.args(["--config", "packaging/hadolint.yaml", "packaging/Dockerfile"]))?;
    let schema = |name: &str| {
        installed("check-jsonschema").map(|mut tool| {
            tool.args(["--builtin-schema", name]);
            tool
        })
    };
    run(schema("vendor.github-workflows")?.args(WORKFLOWS))?;
    run(schema("vendor.github-actions")?.arg("action.yml"))?;
    platforms_are_released()?;
    binstall_finds_the_tarball()
}

/// The release workflow builds for every platform that npm's launcher may ask for.
fn platforms_are_released() -> anyhow::Result<()> {
    let workflow = std::fs::read_to_string(WORKFLOWS[1])?;
    for platform in &PLATFORMS {
        ensure!(workflow.contains(&format!("target: {},", platform.triple)), "no job builds {}", platform.triple);
    }
    Ok(())
}

/// `cargo binstall` is told where the tarball is and what it has inside, in a template of its own.
fn binstall_finds_the_tarball() -> anyhow::Result<()> {
    let manifest = std::fs::read_to_string("crates/piton-cli/Cargo.toml")?;
    let value = |key: &str| {
        let line = manifest.lines().find_map(|line| line.strip_prefix(&format!("{key} = \"")));
        line.and_then(|line| line.strip_suffix('"')).with_context(|| format!("{key} for cargo binstall"))
    };
    let (url, bin) = (value("pkg-url")?, value("bin-dir")?);
    ensure!(url.ends_with("/v{ version }/piton-{ target }.tar.gz"), "the tarball is not called so: {url}");
    ensure!(bin == "piton-{ target }/{ bin }{ binary-ext }", "the binary is not there in the tarball: {bin}");
    Ok(())
}
