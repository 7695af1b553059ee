//! `piton demo`: the whole thing on a sample project, without a key. A recording plays the model; the tools, the tests
//! and the journal are real.

use crate::cassettes::{CASSETTE, CASSETTE_NAME};
use crate::cli::DemoArgs;
use crate::failure::{Context, Result, bail, ensure};
use crate::out::report;
use crate::out::view::{self, TextView};
use crate::run;
use crate::surroundings::Surroundings;
use imara_diff::{Algorithm, BasicLineDiffPrinter, Diff, InternedInput, UnifiedDiffConfig};
use piton_core::event::TurnEnd;
use piton_core::permission::Action;
use piton_engine::assemble::bare;
use piton_engine::engine::Engine;
use piton_engine::store::sqlite::SessionDir;
use piton_models::recorded::Recorded;
use piton_tools::spawn::{Confinement, Env, Group, Spawn, Streams};
use std::path::{Path, PathBuf};
use std::process::{Child, Output};
use std::sync::Arc;

const TASK: &str = "The tests fail. Find out why and fix it.";

/// The sample project.
const PROJECT: [(&str, &str); 3] = [
    ("Cargo.toml", include_str!("../../demo/project/Cargo.toml.sample")),
    ("src/lib.rs", include_str!("../../demo/project/src/lib.rs")),
    ("tests/split.rs", include_str!("../../demo/project/tests/split.rs")),
];

/// Runs the demo and returns the exit code: 0 only if the tests really pass at the end.
pub(crate) async fn demo(args: DemoArgs, around: Surroundings) -> Result<u8> {
    needs_cargo(&around)?;
    let dir = unpack(args.dir, &around)?;
    let mut view = TextView::new(false, around.may_animate());
    view.note(&format!("A sample project with a failing test is in {}", dir.display()));
    view.note("The model is a recording; the tools, the tests and the journal are real.\n");
    view.note(&format!("> {TASK}\n"));
    let model = Arc::new(cassette()?);
    let mut settings = bare::settings(model, &around.machine, &dir);
    settings.policy.permission.push("*", Action::Allow);
    let engine = Engine::open(&around.machine.data_dir);
    let session = engine.create(&dir, settings).await?;
    let journal = SessionDir::of(session.store(), session.id()).journal_db();
    let id = session.id().clone();
    let report = match run::show_turn(session, TASK, &mut view).await? {
        Ok(report) => report,
        Err(stop) => return Ok(stop.code()),
    };
    if report.end != TurnEnd::Completed {
        return Ok(report::exit_code(report.end));
    }
    let green = show_result(&mut view, &dir, &around)?;
    view.note(&format!("The journal:  {}", journal.display()));
    view.note(&format!("Read it with: piton session show {id}"));
    view.note(&format!("Take it back: cd {} && piton undo --session {id}", dir.display()));
    view.note(&format!("The project:  {}  (remove it when you like)", dir.display()));
    view.note("On your code: piton run \"fix the failing test\"");
    Ok(if green { 0 } else { report::EXIT_FAILED })
}

/// Fails where cargo cannot be run: the recording would say that it had fixed tests that nobody ran.
fn needs_cargo(around: &Surroundings) -> Result<()> {
    let missing = match cargo(&["--version"], &around.temp_dir, around) {
        Ok(said) if said.status.success() => return Ok(()),
        Ok(said) => first_error(&said.stderr).unwrap_or_else(|| said.status.to_string()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => "it is not installed, or not in PATH".to_owned(),
        Err(error) => error.to_string(),
    };
    bail!(
        "the demo needs cargo, to run the tests of a sample project in Rust, and cargo cannot be run: {missing}. Nothing \
         was done. Install Rust (https://rustup.rs), or go to work on code of yours: piton run \"fix the failing test\""
    );
}

fn cargo(words: &[&str], dir: &Path, around: &Surroundings) -> std::io::Result<Output> {
    let env = Env::new(around.machine.vars.clone());
    let spawn = Spawn::new(["cargo"].iter().chain(words), &env, dir, Confinement::Model);
    spawn.start(Group::Ours, Streams::caught()).and_then(Child::wait_with_output)
}

/// The line of what cargo said that says why.
fn first_error(stderr: &[u8]) -> Option<String> {
    let said = String::from_utf8_lossy(stderr);
    let line = said.lines().find(|line| line.starts_with("error")).or_else(|| said.lines().next())?;
    Some(view::clean(line.trim_end_matches('.')))
}

/// The recording that plays the model.
fn cassette() -> Result<Recorded> {
    Ok(Recorded::parse(CASSETTE)?.named(format!("recorded/{CASSETTE_NAME}")))
}

/// Puts the sample project where it can be worked on.
fn unpack(said: Option<PathBuf>, around: &Surroundings) -> Result<PathBuf> {
    let dir = match said {
        Some(dir) => dir,
        None => tempfile::Builder::new().prefix("piton-demo-").tempdir_in(&around.temp_dir)?.keep(),
    };
    for (name, content) in PROJECT {
        let path = dir.join(name);
        ensure!(!path.exists(), "{} exists already; name an empty folder with --dir", path.display());
        let parent = path.parent().context("a file in a folder")?;
        std::fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
        std::fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(dir.canonicalize()?)
}

/// The diff that was made, and the tests once more, run by the demo itself. Whether they pass.
fn show_result(view: &mut TextView, dir: &Path, around: &Surroundings) -> Result<bool> {
    view.note("\nWhat changed:\n");
    for (name, before) in PROJECT {
        let after = std::fs::read_to_string(dir.join(name)).unwrap_or_default();
        if after != before {
            let input = InternedInput::new(before, after.as_str());
            let mut diff = Diff::compute(Algorithm::Histogram, &input);
            diff.postprocess_lines(&input);
            let printer = BasicLineDiffPrinter(&input.interner);
            let diff = diff.unified_diff(&printer, UnifiedDiffConfig::default(), &input);
            view.note(&view::colour_diff(&format!("--- {name}\n+++ {name}\n{diff}")));
        }
    }
    let tests = cargo(&["test", "--offline", "--quiet"], dir, around);
    let tests = tests.context("cannot run cargo to test the sample project; the demo needs Rust")?;
    let said = String::from_utf8_lossy(&tests.stdout);
    let count = |word: &str| {
        said.lines().filter(|line| line.starts_with("test result")).map(|line| number_before(line, word)).sum()
    };
    let (passed, failed): (u64, u64) = (count("passed"), count("failed"));
    let why = first_error(&tests.stderr).filter(|_| !tests.status.success() && passed + failed == 0);
    view.note(&match why {
        Some(why) => format!("\n`cargo test` cannot run the tests here, so nothing is known of the fix: {why}"),
        None => format!("\n`cargo test`, run once more by the demo: {passed} passed, {failed} failed"),
    });
    Ok(tests.status.success())
}

/// The number in front of a word: 4 in `ok. 4 passed; 0 failed`.
fn number_before(line: &str, word: &str) -> u64 {
    let words: Vec<&str> = line.split([' ', ';']).collect();
    let at = words.iter().position(|found| *found == word);
    at.and_then(|at| words.get(at.checked_sub(1)?)?.parse().ok()).unwrap_or_default()
}
