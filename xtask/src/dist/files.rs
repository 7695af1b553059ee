//! The files that every package has: the binary, its manual pages, its completions, the licence. They are laid out once.

use crate::dist::build::Build;
use crate::dist::tools::{copy, output, target_dir, write};
use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The shells with completions: clap's name, the file in our tarball, and its place below `share/`.
pub(super) const SHELLS: [(&str, &str, &str); 3] = [
    ("bash", "piton.bash", "bash-completion/completions/piton"),
    ("zsh", "_piton", "zsh/site-functions/_piton"),
    ("fish", "piton.fish", "fish/vendor_completions.d/piton.fish"),
];

/// A folder with `piton`, `man/`, `completions/`, `LICENSE`, `README.md` and `CHANGELOG.md`: what the tarball has.
#[derive(Debug)]
pub(super) struct Stage<'b> {
    pub(super) build: &'b Build,
    /// Named as the tarball is.
    pub(super) dir: PathBuf,
    /// For the packages' own staging.
    pub(super) work: PathBuf,
}

impl<'b> Stage<'b> {
    /// Lays the files out. Pages and completions come from the binary itself.
    pub(super) fn new(build: &'b Build) -> anyhow::Result<Self> {
        let work = target_dir()?.join("dist-stage");
        if work.exists() {
            std::fs::remove_dir_all(&work).with_context(|| format!("cannot empty {}", work.display()))?;
        }
        let dir = work.join(format!("piton-{}", build.platform.triple));
        let binary = dir.join(build.platform.executable());
        copy(&build.binary, &binary)?;
        output(Command::new(&binary).args(["man", "--out"]).arg(dir.join("man")))?;
        for (shell, file, _) in SHELLS {
            write(&dir.join("completions").join(file), output(Command::new(&binary).args(["completions", shell]))?)?;
        }
        for name in ["LICENSE", "README.md", "CHANGELOG.md"] {
            copy(Path::new(name), &dir.join(name))?;
        }
        Ok(Self { build, dir, work })
    }

    /// The manual pages, in order.
    pub(super) fn man_pages(&self) -> anyhow::Result<Vec<PathBuf>> {
        let entries = std::fs::read_dir(self.dir.join("man"))?.map(|entry| Ok(entry?.path()));
        let mut pages = entries.collect::<anyhow::Result<Vec<_>>>()?;
        pages.sort();
        Ok(pages)
    }

    /// Copies pages and completions into a `share/` folder.
    pub(super) fn share(&self, share: &Path) -> anyhow::Result<()> {
        for page in self.man_pages()? {
            copy(&page, &share.join("man/man1").join(page.file_name().context("a page has a name")?))?;
        }
        for (_, file, place) in SHELLS {
            copy(&self.dir.join("completions").join(file), &share.join(place))?;
        }
        Ok(())
    }

    pub(super) fn binary(&self) -> PathBuf {
        self.dir.join(self.build.platform.executable())
    }
}
