//! `cargo xtask dist`: what people install. One binary, built once, and packed as a tarball, a wheel, an npm package and a
//! Debian package. `--check` packs the debug binary by the same code, installs each package and plays the demo from it.

mod build;
mod check;
mod deb;
mod files;
mod lint;
mod npm;
mod tarball;
mod tools;
mod wheel;

use crate::dist::build::Build;
use crate::dist::files::Stage;
use anyhow::{Context, bail, ensure};
use std::path::{Path, PathBuf};

pub(crate) const HELP: &str = "\
cargo xtask dist [WHAT…]  build what people install, into target/dist-packages or --out DIR: tarball, wheel, npm, deb (all of
                          them unless named) and SHA256SUMS, for this machine's platform or --target TRIPLE;
                          --url ADDRESS: the release that install.sh gets them from; --check: pack the debug binary,
                          install each package, play the demo from it, and lint what cannot be run here";

/// A package that can be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Package {
    Tarball,
    Wheel,
    Npm,
    Deb,
}

const PACKAGES: [(&str, Package); 4] =
    [("tarball", Package::Tarball), ("wheel", Package::Wheel), ("npm", Package::Npm), ("deb", Package::Deb)];

/// What was asked for.
#[derive(Debug)]
struct Wanted {
    packages: Vec<Package>,
    out: PathBuf,
    target: String,
    url: Option<String>,
}

pub(crate) fn dist(words: &[&str]) -> anyhow::Result<()> {
    if words == ["--check"] {
        return check::check();
    }
    let wanted = Wanted::parse(words)?;
    let build = Build::shipped(&wanted.target)?;
    let written = pack(&build, &wanted)?;
    build::ensure_old_glibc(&build)?;
    for file in written {
        println!("{}", file.display());
    }
    Ok(())
}

/// Packs a binary, and says which files were written.
fn pack(build: &Build, wanted: &Wanted) -> anyhow::Result<Vec<PathBuf>> {
    let stage = Stage::new(build)?;
    let mut written = Vec::new();
    for package in &wanted.packages {
        written.extend(match package {
            Package::Tarball => vec![tarball::pack(&stage, &wanted.out)?],
            Package::Wheel => vec![wheel::pack(&stage, &wanted.out)?],
            Package::Npm => npm::pack(&stage, &wanted.out)?,
            Package::Deb => vec![deb::pack(&stage, &wanted.out)?],
        });
    }
    written.push(tarball::installer(wanted.url.as_deref(), &wanted.out)?);
    written.push(tarball::sums(&wanted.out)?);
    Ok(written)
}

impl Wanted {
    fn parse(words: &[&str]) -> anyhow::Result<Self> {
        let mut wanted = Self {
            packages: Vec::new(),
            out: PathBuf::from("target/dist-packages"),
            target: build::host()?,
            url: None,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word} needs a value"));
            match *word {
                "--out" => wanted.out = PathBuf::from(value()?),
                "--target" => wanted.target = (*value()?).to_owned(),
                "--url" => wanted.url = Some((*value()?).to_owned()),
                name => match PACKAGES.iter().find(|(known, _)| *known == name) {
                    Some((_, package)) => wanted.packages.push(*package),
                    None => bail!("not a package: {name}\n\n{HELP}"),
                },
            }
        }
        if wanted.packages.is_empty() {
            let is_linux = wanted.target.contains("linux-gnu");
            let all = PACKAGES.iter().map(|(_, package)| *package);
            wanted.packages = all.filter(|package| is_linux || *package != Package::Deb).collect();
        }
        fresh(&wanted.out)?;
        wanted.out = wanted.out.canonicalize()?;
        Ok(wanted)
    }
}

/// An empty folder.
fn fresh(dir: &Path) -> anyhow::Result<()> {
    if dir.exists() {
        // Only what an earlier call has left is removed.
        let is_ours = dir.join("SHA256SUMS").exists() || std::fs::read_dir(dir)?.next().is_none();
        ensure!(is_ours || dir.starts_with("target"), "{} has other files: name an empty folder", dir.display());
        std::fs::remove_dir_all(dir)?;
    }
    std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))
}
