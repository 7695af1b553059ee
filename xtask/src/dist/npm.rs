//! The npm packages: `piton-agent` with the launcher and the manual pages, and one package per platform with the binary,
//! of which npm installs the one that fits.

use crate::dist::build::{PLATFORMS, Platform};
use crate::dist::files::Stage;
use crate::dist::tools::{NPM, copy, run, write};
use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package of everyone, and that of the platform.
pub(super) fn pack(stage: &Stage<'_>, out: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let work = stage.work.join("npm");
    let main = work.join("piton-agent");
    copy(Path::new("packaging/npm/piton.js"), &main.join("bin/piton.js"))?;
    copy(Path::new("packaging/npm/README.md"), &main.join("README.md"))?;
    copy(&stage.dir.join("LICENSE"), &main.join("LICENSE"))?;
    let mut pages = Vec::new();
    for page in stage.man_pages()? {
        let name = format!("man/{}", page.file_name().context("a page has a name")?.to_string_lossy());
        copy(&page, &main.join(&name))?;
        pages.push(name);
    }
    write(&main.join("package.json"), main_manifest(&stage.build.version, &pages))?;
    let platform = stage.build.platform;
    let own = work.join(platform.npm_name());
    copy(&stage.binary(), &own.join("bin").join(platform.executable()))?;
    copy(&stage.dir.join("LICENSE"), &own.join("LICENSE"))?;
    write(&own.join("package.json"), platform_manifest(platform, &stage.build.version))?;
    [main, own].iter().map(|dir| tarball(dir, &stage.build.version, out)).collect()
}

fn tarball(dir: &Path, version: &str, out: &Path) -> anyhow::Result<PathBuf> {
    let name = dir.file_name().context("a package has a name")?.to_string_lossy();
    run(Command::new(NPM).current_dir(dir).args(["pack", "--silent", "--pack-destination"]).arg(out))?;
    Ok(out.join(format!("{name}-{version}.tgz")))
}

impl Platform {
    pub(super) fn npm_name(&self) -> String {
        let (os, cpu, libc) = self.npm;
        let musl = if libc == Some("musl") { "-musl" } else { "" };
        format!("piton-agent-{os}-{cpu}{musl}")
    }
}

fn main_manifest(version: &str, pages: &[String]) -> String {
    let platforms: Vec<String> =
        PLATFORMS.iter().map(|platform| format!("    \"{}\": \"{version}\"", platform.npm_name())).collect();
    format!(
        r#"{{
  "name": "piton-agent",
  "version": "{version}",
  "description": "A coding agent for your terminal and your scripts: nothing is lost, and everything can be undone",
  "license": "Apache-2.0",
  "keywords": ["agent", "coding", "llm", "terminal"],
  "bin": {{ "piton": "bin/piton.js" }},
  "man": {pages:?},
  "files": ["bin", "man"],
  "engines": {{ "node": ">=18" }},
  "optionalDependencies": {{
{}
  }}
}}
"#,
        platforms.join(",\n")
    )
}

fn platform_manifest(platform: &Platform, version: &str) -> String {
    let (os, cpu, libc) = platform.npm;
    let libc = libc.map(|libc| format!("\n  \"libc\": [\"{libc}\"],")).unwrap_or_default();
    format!(
        r#"{{
  "name": "{}",
  "version": "{version}",
  "description": "The binary of piton-agent for {}",
  "license": "Apache-2.0",
  "os": ["{os}"],
  "cpu": ["{cpu}"],{libc}
  "files": ["bin"]
}}
"#,
        platform.npm_name(),
        platform.triple
    )
}
