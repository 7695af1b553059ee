//! The Debian package, by Debian's own `dpkg-deb`. Packages that ask for nothing but glibc need no more than a control file.

use crate::dist::build::newest_glibc;
use crate::dist::files::Stage;
use crate::dist::tools::{copy, output, run, write};
use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(super) fn pack(stage: &Stage<'_>, out: &Path) -> anyhow::Result<PathBuf> {
    let build = stage.build;
    let architecture = build.platform.deb.with_context(|| format!("no .deb for {}", build.platform.triple))?;
    let root = stage.work.join("deb");
    copy(&stage.binary(), &root.join("usr/bin/piton"))?;
    stage.share(&root.join("usr/share"))?;
    // Where Debian's zsh looks.
    let zsh = root.join("usr/share/zsh");
    std::fs::rename(zsh.join("site-functions"), zsh.join("vendor-completions"))?;
    let doc = root.join("usr/share/doc/piton-agent");
    write(&doc.join("copyright"), COPYRIGHT)?;
    copy(&stage.dir.join("CHANGELOG.md"), &doc.join("CHANGELOG.md"))?;
    write(&doc.join("changelog"), changelog(&build.version)?)?;
    let mut gzip = Command::new("gzip");
    gzip.args(["-9", "--no-name"]).args(["CHANGELOG.md", "changelog"].map(|name| doc.join(name)));
    for page in std::fs::read_dir(root.join("usr/share/man/man1"))? {
        gzip.arg(page?.path());
    }
    output(&mut gzip)?;
    write(&root.join("DEBIAN/control"), control(stage, architecture, kilobytes(&root)?)?)?;
    write(&root.join("DEBIAN/md5sums"), md5sums(&root)?)?;
    run(Command::new("chmod").arg("-R").arg("u=rwX,go=rX").arg(&root))?;
    let package = out.join(format!("piton-agent_{}_{architecture}.deb", build.version));
    let compression = if build.is_shipped { "-Zxz" } else { "-Zgzip" };
    run(Command::new("dpkg-deb").args(["--root-owner-group", compression, "--build"]).arg(&root).arg(&package))?;
    Ok(package)
}

/// There is no address to write to yet.
const MAINTAINER: &str = "The authors of Piton <piton@localhost>";

/// What Debian calls a changelog: which version, when, by whom.
fn changelog(version: &str) -> anyhow::Result<String> {
    let date = output(Command::new("git").args(["log", "--max-count=1", "--format=%cD"]))?;
    Ok(format!(
        "piton-agent ({version}) stable; urgency=medium\n\n  * See CHANGELOG.md.gz.\n\n -- {MAINTAINER}  {}\n",
        date.trim()
    ))
}

const COPYRIGHT: &str = "\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: piton

Files: *
Copyright: 2026 the authors of Piton
License: Apache-2.0
 On Debian systems the licence is in /usr/share/common-licenses/Apache-2.0.
";

fn control(stage: &Stage<'_>, architecture: &str, kilobytes: u64) -> anyhow::Result<String> {
    let binary = stage.binary();
    let (major, minor) = newest_glibc(&output(Command::new("objdump").arg("-T").arg(&binary))?)?;
    let needed = output(Command::new("objdump").arg("-p").arg(&binary))?;
    // A binary that zig has linked brings its own unwinder.
    let unwinder = if needed.contains("libgcc_s.so.1") { ", libgcc-s1" } else { "" };
    Ok(format!(
        "\
Package: piton-agent
Version: {}
Architecture: {architecture}
Maintainer: {MAINTAINER}
Installed-Size: {kilobytes}
Depends: libc6 (>= {major}.{minor}){unwinder}
Recommends: ca-certificates, git
Section: devel
Priority: optional
Description: coding agent for the terminal and for scripts
 Piton reads a repository, edits files, runs commands and checks its own work,
 with any model that speaks a known protocol, local ones included. Every step
 is journaled before it acts: nothing is lost, nothing runs twice, and every
 turn can be undone.
",
        stage.build.version
    ))
}

fn kilobytes(root: &Path) -> anyhow::Result<u64> {
    let said = output(Command::new("du").args(["--summarize", "--apparent-size", "--block-size=1K"]).arg(root))?;
    said.split_whitespace().next().context("du prints a number")?.parse().context("du prints a number")
}

fn md5sums(root: &Path) -> anyhow::Result<String> {
    let mut find = Command::new("sh");
    find.current_dir(root).args(["-c", "find usr -type f | LC_ALL=C sort | xargs md5sum"]);
    output(&mut find)
}
