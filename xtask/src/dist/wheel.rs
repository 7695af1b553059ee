//! The wheel `piton-agent`, by maturin. cargo has built the binary already; maturin finds it done.

use crate::dist::build::GLIBC;
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
    tools::install(&[tools::MATURIN])?;
    let mut maturin = tools::installed("maturin")?;
    maturin.current_dir(&project).env("CARGO_TARGET_DIR", tools::target_dir()?);
    maturin.args(["build", "--quiet", "--profile", stage.build.profile, "--out"]).arg(out);
    if !stage.build.is_shipped() {
        maturin.args(["--compatibility", "linux"]);
    } else if stage.build.platform.is_glibc() {
        let (major, minor) = GLIBC;
        maturin.args(["--zig", "--target", stage.build.platform.triple]);
        maturin.args(["--compatibility", &format!("manylinux_{major}_{minor}")]);
    } else {
        maturin.args(["--target", stage.build.platform.triple]);
    }
    run(&mut maturin)?;
    let wheels = std::fs::read_dir(out)?.map(|entry| Ok(entry?.path()));
    let mut wheels = wheels.collect::<anyhow::Result<Vec<_>>>()?;
    wheels.retain(|path| path.extension().is_some_and(|extension| extension == "whl"));
    ensure!(wheels.len() == 1, "maturin has built {} wheels", wheels.len());
    wheels.pop().context("one wheel")
}
