//! The binary that is packed: for Linux against glibc 2.17, whatever the machine that builds it has.

use crate::dist::tools::{self, run};
use anyhow::{Context, bail, ensure};
use std::path::PathBuf;
use std::process::Command;

/// The oldest glibc that the binary runs with: that of manylinux2014, CentOS 7 and Ubuntu 14.04.
pub(super) const GLIBC: (u32, u32) = (2, 17);

/// A platform, as the makers of packages call it.
#[derive(Debug)]
pub(super) struct Platform {
    pub(super) triple: &'static str,
    /// `os`, `cpu` and, of Linux, `libc` in npm's words.
    pub(super) npm: (&'static str, &'static str, Option<&'static str>),
    /// Debian's name of the architecture.
    pub(super) deb: Option<&'static str>,
}

pub(super) const PLATFORMS: [Platform; 7] = [
    Platform { triple: "x86_64-unknown-linux-gnu", npm: ("linux", "x64", Some("glibc")), deb: Some("amd64") },
    Platform { triple: "aarch64-unknown-linux-gnu", npm: ("linux", "arm64", Some("glibc")), deb: Some("arm64") },
    Platform { triple: "x86_64-unknown-linux-musl", npm: ("linux", "x64", Some("musl")), deb: None },
    Platform { triple: "aarch64-unknown-linux-musl", npm: ("linux", "arm64", Some("musl")), deb: None },
    Platform { triple: "x86_64-apple-darwin", npm: ("darwin", "x64", None), deb: None },
    Platform { triple: "aarch64-apple-darwin", npm: ("darwin", "arm64", None), deb: None },
    Platform { triple: "x86_64-pc-windows-msvc", npm: ("win32", "x64", None), deb: None },
];

/// A binary, built.
#[derive(Debug)]
pub(super) struct Build {
    pub(super) platform: &'static Platform,
    pub(super) binary: PathBuf,
    /// Whether it is meant for people, and not for a check on this machine alone.
    pub(super) is_shipped: bool,
    pub(super) version: String,
}

impl Build {
    /// Builds what is shipped.
    pub(super) fn shipped(triple: &str) -> anyhow::Result<Self> {
        let known = PLATFORMS.iter().find(|platform| platform.triple == triple);
        let platform = known.with_context(|| format!("no packages are made for {triple}"))?;
        if platform.is_linux() {
            // maturin, and not cargo-zigbuild itself, which is a library of it: the wheel is packed by another call, which
            // finds everything built only if the linker is called the same.
            let scratch = tools::target_dir()?.join("dist-stage");
            let mut maturin = platform.maturin(true)?;
            run(maturin
                .args(["--bindings", "bin", "--manifest-path", "crates/piton-cli/Cargo.toml", "--out"])
                .arg(scratch))?;
        } else {
            let cargo = ["build", "--package", "piton-cli", "--bin", "piton", "--profile", "dist", "--target", triple];
            crate::cargo(&cargo)?;
        }
        let binary = tools::target_dir()?.join(triple).join("dist").join(platform.executable());
        Ok(Self { platform, binary, is_shipped: true, version: version()? })
    }

    /// The debug binary of this machine, which the tests have built.
    pub(super) fn debug() -> anyhow::Result<Self> {
        let host = host()?;
        let platform = PLATFORMS.iter().find(|platform| platform.triple == host);
        let platform = platform.with_context(|| format!("no packages are made for {host}"))?;
        crate::cargo(&["build", "--package", "piton-cli", "--bin", "piton"])?;
        let binary = tools::target_dir()?.join("debug").join(platform.executable());
        Ok(Self { platform, binary, is_shipped: false, version: version()? })
    }
}

impl Platform {
    pub(super) fn is_glibc(&self) -> bool {
        self.triple.ends_with("-linux-gnu")
    }

    /// `maturin build`: of what is shipped, or of the debug binary. What is shipped for Linux is linked by zig.
    pub(super) fn maturin(&self, is_shipped: bool) -> anyhow::Result<Command> {
        tools::install(&[tools::MATURIN])?;
        let mut maturin = tools::installed("maturin")?;
        maturin.env("CARGO_TARGET_DIR", tools::target_dir()?).args(["build", "--quiet"]);
        if !is_shipped {
            maturin.args(["--profile", "dev", "--compatibility", "linux"]);
            return Ok(maturin);
        }
        maturin.args(["--profile", "dist", "--target", self.triple]);
        if self.is_linux() {
            tools::install(&[tools::ZIG])?;
            let (major, minor) = GLIBC;
            let manylinux = format!("manylinux_{major}_{minor}");
            let oldest = if self.is_glibc() { &manylinux } else { "musllinux_1_2" };
            maturin.args(["--zig", "--compatibility", oldest]);
        }
        Ok(maturin)
    }

    /// Whether zig links it, which has every glibc and musl with it.
    pub(super) fn is_linux(&self) -> bool {
        self.triple.contains("-linux-")
    }

    pub(super) fn executable(&self) -> &'static str {
        if self.triple.contains("windows") { "piton.exe" } else { "piton" }
    }
}

/// The triple of this machine.
pub(super) fn host() -> anyhow::Result<String> {
    let said = tools::output(Command::new("rustc").arg("-vV"))?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc names its host")?.to_owned())
}

/// The version of the workspace.
fn version() -> anyhow::Result<String> {
    let said = tools::output(Command::new("cargo").args(["pkgid", "--package", "piton-cli"]))?;
    Ok(said.trim().rsplit(['#', '@']).next().context("cargo pkgid ends with the version")?.to_owned())
}

/// Fails where a binary for Linux asks for a newer glibc than it should.
pub(super) fn ensure_old_glibc(build: &Build) -> anyhow::Result<()> {
    if !build.platform.is_glibc() {
        return Ok(());
    }
    let found = newest_glibc(&tools::output(Command::new("objdump").arg("-T").arg(&build.binary))?)?;
    ensure!(found <= GLIBC, "the binary needs glibc {}.{}, not {}.{}", found.0, found.1, GLIBC.0, GLIBC.1);
    println!("the binary needs glibc {}.{} or newer", found.0, found.1);
    Ok(())
}

/// The newest version of glibc that a table of symbols names.
pub(super) fn newest_glibc(symbols: &str) -> anyhow::Result<(u32, u32)> {
    let versions = symbols.split("GLIBC_").skip(1).filter_map(|rest| {
        let mut numbers = rest.split(|c: char| !c.is_ascii_digit()).map(str::parse);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    });
    match versions.max() {
        Some(newest) => Ok(newest),
        None => bail!("objdump found no symbol of glibc"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_glibc_is_found_among_symbols() {
        let symbols = "0000 DF *UND* 0000 (GLIBC_2.2.5) write\n0000 DF *UND* 0000 (GLIBC_2.17) clock_gettime\n\
                       0000 DF *UND* 0000 (GLIBC_2.9)  pipe2\n0000 w D *UND* 0000 Base __gmon_start__";
        assert_eq!(newest_glibc(symbols).unwrap(), (2, 17), "2.9 is older than 2.17");
        assert!(newest_glibc("no symbols").is_err(), "an empty table is not a proof");
    }
}
