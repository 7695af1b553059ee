//! Runs the tests of the workspace, one executable after the other, and knows how each of them ended.

use crate::as_from_a_shell;
use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Where a test is found in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// Its file, without `.rs`.
    pub(crate) file: String,
    /// Its function.
    pub(crate) name: String,
}

/// A test that was run.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    /// The folder of its crate, and its executable: `lib`, or the name of a test of `tests/`.
    package: String,
    target: String,
    /// Its name there, with modules.
    name: String,
    word: String,
    /// It failed beside others and passed alone.
    pub(crate) is_unsteady: bool,
}

/// The tests of a crate, built.
#[derive(Debug)]
pub(crate) struct Executable {
    package: PathBuf,
    target: String,
    path: PathBuf,
}

/// What became of a test that was run alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passed,
    Failed,
    /// It took longer than any test may, and was ended.
    Hung,
}

/// So many failures in one executable may be tests that a busy machine upset: they are run once more. More are a defect.
const MOST_RUN_AGAIN: usize = 3;

/// The longest that a test may take alone.
const LONGEST: Duration = Duration::from_secs(60);

/// Runs these tests, or all. Fails where one cannot be built; how each ended is in the answer.
pub(crate) fn run(only: Option<&[Place]>) -> anyhow::Result<Vec<Ended>> {
    let mut ended = Vec::new();
    // Some tests start the binaries.
    let built =
        as_from_a_shell(&mut Command::new("cargo")).args(["build", "--workspace", "--bins", "--quiet"]).status()?;
    ensure!(built.success(), "the binaries do not build");
    for executable in build(Path::new("."), None, &["--workspace"])? {
        let mut command = executable.command();
        if let Some(only) = only {
            let tests = executable.tests()?.into_iter();
            let names: Vec<String> =
                tests.filter(|name| only.iter().any(|place| executable.has(name, place))).collect();
            if names.is_empty() {
                continue;
            }
            command.arg("--exact").args(names);
        }
        println!("  {} {}", executable.folder(), executable.target);
        let out = command.output().with_context(|| format!("cannot run {}", executable.path.display()))?;
        let said = String::from_utf8_lossy(&out.stdout);
        if !out.status.success() {
            println!("{said}");
        }
        let mut outcomes: Vec<Ended> =
            said.lines().filter_map(outcome).map(|(name, word)| executable.ended(name, word)).collect();
        executable.run_again(&mut outcomes)?;
        if !out.status.success() && outcomes.iter().all(|ended| ended.word == "ok" && !ended.is_unsteady) {
            ended.push(executable.ended("(as a whole)", "FAILED"));
        }
        ended.extend(outcomes);
    }
    Ok(ended)
}

/// Builds tests in a tree, into this folder where it is not the tree's own.
pub(crate) fn build(tree: &Path, target: Option<&Path>, which: &[&str]) -> anyhow::Result<Vec<Executable>> {
    println!("cargo test --no-run {}", which.join(" "));
    let mut command = Command::new("cargo");
    as_from_a_shell(&mut command).current_dir(tree).args([
        "test",
        "--no-run",
        "--quiet",
        "--message-format",
        "json-render-diagnostics",
    ]);
    if let Some(target) = target {
        command.env("CARGO_TARGET_DIR", target);
    }
    let out = command.args(which).output().context("cannot run cargo")?;
    ensure!(out.status.success(), "the tests do not build:\n{}", String::from_utf8_lossy(&out.stderr));
    Ok(String::from_utf8_lossy(&out.stdout).lines().filter_map(executable).collect())
}

/// The executable of a message of cargo's, if it is about one of tests.
fn executable(message: &str) -> Option<Executable> {
    let after = |start: &str, end: &str| message.split_once(start)?.1.split_once(end).map(|(value, _)| value);
    let is_test = after("\"profile\":{", "}")?.contains("\"test\":true");
    let path = after("\"executable\":\"", "\"").filter(|_| is_test)?;
    let kind = after("\"target\":{\"kind\":[\"", "\"")?;
    let name = message.split_once("\"target\":{")?.1.split_once("\"name\":\"")?.1.split_once('"')?.0;
    let target = if kind == "test" { name } else { kind };
    let package = Path::new(after("\"manifest_path\":\"", "\"")?).parent()?;
    Some(Executable { package: package.to_owned(), target: target.to_owned(), path: path.into() })
}

/// `test turn::tests::name ... ok`
fn outcome(line: &str) -> Option<(&str, &str)> {
    let (name, word) = line.strip_prefix("test ")?.split_once(" ... ")?;
    Some((name.split(" - ").next().unwrap_or(name), word.trim()))
}

impl Executable {
    /// Whether it is this target of this package.
    pub(crate) fn is(&self, (package, target): (&str, &str)) -> bool {
        self.folder() == package && self.target == target
    }

    /// The names of its tests.
    pub(crate) fn tests(&self) -> anyhow::Result<Vec<String>> {
        let out = self.command().args(["--list", "--format", "terse"]).output();
        let out = out.with_context(|| format!("cannot run {}", self.path.display()))?;
        let text = String::from_utf8_lossy(&out.stdout);
        Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
    }

    /// Whether its test of this name is the one at this place.
    pub(crate) fn has(&self, name: &str, place: &Place) -> bool {
        self.ended(name, "").is(place)
    }

    /// Runs one test.
    pub(crate) fn run_alone(&self, name: &str) -> anyhow::Result<Verdict> {
        let mut command = self.command();
        command.args(["--exact", name]).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().with_context(|| format!("cannot run {}", self.path.display()))?;
        let began = Instant::now();
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(if status.success() { Verdict::Passed } else { Verdict::Failed });
            }
            if began.elapsed() > LONGEST {
                child.kill()?;
                child.wait()?;
                return Ok(Verdict::Hung);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Runs those that failed once more, each alone, where they are few.
    fn run_again(&self, outcomes: &mut [Ended]) -> anyhow::Result<()> {
        let failed: Vec<&mut Ended> = outcomes.iter_mut().filter(|ended| ended.word == "FAILED").collect();
        if failed.len() > MOST_RUN_AGAIN {
            return Ok(());
        }
        for ended in failed {
            let out = self.command().args(["--exact", &ended.name]).output();
            let out = out.with_context(|| format!("cannot run {}", self.path.display()))?;
            println!(
                "  {} failed; alone it {}",
                ended.name,
                if out.status.success() { "passed" } else { "failed, too" }
            );
            if out.status.success() {
                (ended.word, ended.is_unsteady) = ("ok".to_owned(), true);
            }
        }
        Ok(())
    }

    /// As cargo would run it.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.current_dir(&self.package).env("CARGO_MANIFEST_DIR", &self.package).stdout(Stdio::piped());
        command
    }

    fn folder(&self) -> String {
        self.package.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    fn ended(&self, name: &str, word: &str) -> Ended {
        let (package, target) = (self.folder(), self.target.clone());
        Ended { package, target, name: name.to_owned(), word: word.to_owned(), is_unsteady: false }
    }
}

impl Ended {
    /// How it ended, in a word of libtest's: `ok`, `FAILED`, `ignored`.
    pub(crate) fn word(&self) -> &str {
        &self.word
    }

    /// Whether it is the one at this place.
    pub(crate) fn is(&self, place: &Place) -> bool {
        let mut path = place.file.split('/').skip_while(|folder| *folder != self.package);
        let (package, kind) = (path.next(), path.next());
        let mut modules: Vec<&str> = path.collect();
        let is_target = match kind {
            Some("src") => matches!(self.target.as_str(), "lib" | "bin"),
            Some("tests") => modules.first() == Some(&self.target.as_str()),
            _ => false,
        };
        if kind == Some("tests") && !modules.is_empty() {
            modules.remove(0);
        }
        modules.retain(|module| !matches!(*module, "main" | "lib" | "mod"));
        let (inside, name) = self.name.rsplit_once("::").unwrap_or(("", &self.name));
        let inside: Vec<&str> = inside.split("::").filter(|module| !module.is_empty()).collect();
        package.is_some() && is_target && name == place.name && inside.starts_with(&modules)
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}: {}", self.package, self.target, self.name, self.word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_known_by_the_file_it_stands_in() {
        let ended = |target: &str, name: &str| Ended {
            package: "piton-core".into(),
            target: target.into(),
            name: name.into(),
            word: "ok".into(),
            is_unsteady: false,
        };
        let place = |file: &str| Place { file: format!("crates/piton-core/{file}"), name: "works".into() };
        assert!(ended("lib", "turn::tests::works").is(&place("src/turn/tests")));
        assert!(ended("lib", "retry::tests::works").is(&place("src/retry")));
        assert!(!ended("lib", "turn::tests::works").is(&place("src/retry")));
        assert!(ended("acceptance", "s0::works").is(&place("tests/acceptance/s0")));
        assert!(ended("hooks", "works").is(&place("tests/hooks")));
        assert!(!ended("hooks", "works").is(&place("src/hooks")), "a test of tests/ is none of the library");
        let message = r#"{"reason":"compiler-artifact","manifest_path":"/w/crates/a/Cargo.toml","target":{"kind":["test"],
            "crate_types":["bin"],"name":"acceptance"},"profile":{"opt_level":"0","test":true},"executable":"/w/t/a-1","fresh":true}"#;
        let found = executable(message).expect("an executable");
        assert_eq!((found.folder().as_str(), found.target.as_str()), ("a", "acceptance"));
        assert!(executable(&message.replace("true}", "false}")).is_none(), "a program is no test");
        assert_eq!(outcome("test a::b ... ok"), Some(("a::b", "ok")));
        assert_eq!(outcome("test a - should panic ... FAILED"), Some(("a", "FAILED")));
    }
}
