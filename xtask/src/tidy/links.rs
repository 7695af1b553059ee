//! Links between pages lead somewhere, and so does each page of `docs/` that the command line names; the tests that the list of
//! the terminal interface's points names are there.

use crate::sources::sources;
use anyhow::Context;
use std::path::{Path, PathBuf};

/// Each point with its tests.
const POINTS: &str = "docs/dev/tui-points.md";

/// Folders without pages for readers: those of builds, and the templates that pages are made of.
const SKIPPED: [&str; 5] = ["target", ".git", "corpus", "artifacts", "xtask"];

/// A fault for every link and every mention that leads nowhere.
pub(super) fn check(faults: &mut Vec<String>) -> anyhow::Result<()> {
    for file in files(Path::new("."))? {
        let name = file.strip_prefix(".").unwrap_or(&file).display().to_string();
        let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {name}"))?;
        let is_page = name.ends_with(".md");
        let targets = if is_page { links(&text) } else { mentions(&text) };
        for (line, target) in targets {
            let place = if is_page { file.with_file_name(&target) } else { PathBuf::from(&target) };
            if !place.exists() {
                faults.push(format!("{name}:{line}: there is no {target}"));
            }
        }
    }
    points(faults)
}

/// A fault for every test of [`POINTS`] that no crate has. A name may be cut: `a_long_name…`.
fn points(faults: &mut Vec<String>) -> anyhow::Result<()> {
    let read = |path: &Path| std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()));
    let code = sources(Path::new("crates"))?.iter().map(|file| read(file)).collect::<anyhow::Result<Vec<_>>>()?;
    for (number, line) in (1..).zip(read(Path::new(POINTS))?.lines()) {
        let quoted = line.split('`').skip(1).step_by(2);
        for name in quoted.filter(|name| !name.contains(['/', '.']) && name.matches('_').count() > 1) {
            let begins = format!("fn {}", name.trim_end_matches('…'));
            let begins = if name.ends_with('…') { begins } else { format!("{begins}(") };
            if !code.iter().any(|text| text.contains(&begins)) {
                faults.push(format!("{POINTS}:{number}: there is no test {name}"));
            }
        }
    }
    Ok(())
}

/// Pages everywhere, and the code whose words people read.
fn files(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let path = entry?.path();
        let is_skipped = SKIPPED.iter().any(|name| path.ends_with(name));
        let is_ours = |extension: &str| match extension {
            "md" => true,
            "rs" => path.starts_with("./crates/piton-cli/src"),
            _ => false,
        };
        if path.is_dir() && !path.is_symlink() && !is_skipped {
            found.extend(files(&path)?);
        } else if path.extension().and_then(|extension| extension.to_str()).is_some_and(is_ours) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Where a page's links lead that are neither of the web nor within it, with their lines. Code is no link.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut is_code = false;
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        // Every other piece between backquotes is code.
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        for rest in prose.split("](").skip(1).filter(|_| !is_code) {
            let target = rest.split([')', '#']).next().unwrap_or_default();
            if !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:") {
                found.push((number, target.to_owned()));
            }
        }
    }
    found
}

/// The pages of `docs/` that a source file names, with their lines.
fn mentions(text: &str) -> Vec<(usize, String)> {
    let is_path = |c: char| c.is_ascii_alphanumeric() || "/_-.".contains(c);
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for (at, _) in line.match_indices("docs/") {
            let is_start = !line[..at].ends_with(is_path);
            let path = line[at..].split(|c| !is_path(c)).next().unwrap_or_default().trim_end_matches('.');
            if is_start && path.ends_with(".md") {
                found.push((number, path.to_owned()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_mentions_are_found_with_their_lines() {
        let page = "[a](a.md) and [b](../b.md#part)\n[web](https://x.example) [here](#part) `[code](c.md)`\n\
                    ```\n[code](d.md)\n```\n[`x`](e.rs)";
        let found: Vec<(usize, String)> = links(page);
        assert_eq!(found, [(1, "a.md".into()), (1, "../b.md".into()), (6, "e.rs".into())]);
        let code = "//! See docs/a.md, and `docs/dev/b.md`.\nlet x = \"crates/docs/c.md docs/\";";
        assert_eq!(mentions(code), [(1, "docs/a.md".into()), (1, "docs/dev/b.md".into())]);
    }
}
