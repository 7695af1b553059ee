//! The tarball that the shell installer, `cargo binstall` and people unpack; the installer itself; and the checksums.

use crate::dist::files::Stage;
use crate::dist::tools::{output, run, write};
use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// `piton-TRIPLE.tar.gz`: its name has no version, so that "the latest release" has an address.
pub(super) fn pack(stage: &Stage<'_>, out: &Path) -> anyhow::Result<PathBuf> {
    let name = stage.dir.file_name().context("the stage has a name")?;
    let tarball = out.join(name).with_extension("tar.gz");
    let mut tar = Command::new("tar");
    // The same files give the same archive.
    if cfg!(target_os = "linux") {
        tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0", "--mode=u+w,go-w,a+rX"]);
    }
    run(tar.arg("-C").arg(&stage.work).arg("-czf").arg(&tarball).arg(name))?;
    Ok(tarball)
}

/// `install.sh`, which knows where the rest of its release is.
pub(super) fn installer(url: Option<&str>, out: &Path) -> anyhow::Result<PathBuf> {
    const EMPTY: &str = "\nrelease=\n";
    let script = std::fs::read_to_string("packaging/install.sh").context("cannot read packaging/install.sh")?;
    ensure!(script.matches(EMPTY).count() == 1, "packaging/install.sh has one line `release=`");
    let url = url.unwrap_or_default();
    ensure!(!url.contains(['\'', '\n']), "an address has no quotes");
    let installer = out.join("install.sh");
    write(&installer, script.replace(EMPTY, &format!("\nrelease='{url}'\n")))?;
    Ok(installer)
}

/// `SHA256SUMS` of all that is there.
pub(super) fn sums(out: &Path) -> anyhow::Result<PathBuf> {
    let names = std::fs::read_dir(out)?.map(|entry| Ok(entry?.file_name()));
    let mut names = names.collect::<anyhow::Result<Vec<_>>>()?;
    names.retain(|name| name != "SHA256SUMS");
    names.sort();
    let sums = out.join("SHA256SUMS");
    write(&sums, output(Command::new("sha256sum").current_dir(out).args(&names))?)?;
    Ok(sums)
}
