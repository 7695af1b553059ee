//! The wheel `piton-agent`, by maturin. cargo has built the binary already; maturin finds it done.

use crate::dist::files::Stage;
use crate::dist::tools::{self, copy, run};
use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};

pub(super) fn pack(stage: &Stage<'_>, out: &Path) -> anyhow::Result<PathBuf> {
    let project = stage.work.join("wheel");
    copy(Path::new("packaging/pypi/pyproject.toml"), &project.join("pyproject.toml"))?;
    for name in ["README.md", "LICENSE"] {
        copy(&stage.dir.join(name), &project.join(name))?;
    }
    stage.share(&project.join("data/data/share"))?;
    let manifest = std::path::absolute("crates/piton-cli/Cargo.toml")?;
    let mut wanted = std::fs::read_to_string(project.join("pyproject.toml"))?;
    wanted.push_str(&format!("manifest-path = {:?}\n", manifest));
    tools::write(&project.join("pyproject.toml"), wanted)?;
    let mut maturin = stage.build.platform.maturin(stage.build.is_shipped)?;
    run(maturin.current_dir(&project).arg("--out").arg(out))?;
    let wheels = std::fs::read_dir(out)?.map(|entry| Ok(entry?.path()));
    let mut wheels = wheels.collect::<anyhow::Result<Vec<_>>>()?;
    wheels.retain(|path| path.extension().is_some_and(|extension| extension == "whl"));
    ensure!(wheels.len() == 1, "maturin has built {} wheels", wheels.len());
    wheels.pop().context("one wheel")
}
