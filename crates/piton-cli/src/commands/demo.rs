//! `piton demo`: the whole thing on a sample project, without a key. A recording plays the model; the tools, the tests
//! and the journal are real.

mod sample;

use crate::cli::DemoArgs;
use crate::commands::demo::sample::Sample;
use crate::failure::{Context, Result, ensure};
use crate::out::report;
use crate::out::view::{self, TextView};
use crate::run;
use crate::surroundings::Surroundings;
use piton_core::event::TurnEnd;
use piton_core::permission::PermissionMode;
use piton_core::policy::SandboxMode;
use piton_engine::assemble::{bare, sandbox};
use piton_engine::config::{BackendChoice, Config};
use piton_engine::engine::{Engine, Settings};
use piton_engine::store::sqlite::SessionDir;
use piton_models::recorded::Recorded;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const TASK: &str = "The tests fail. Find out why and fix it.";

/// Runs the demo and returns the exit code: 0 only if the tests really pass at the end.
pub(crate) async fn demo(args: DemoArgs, around: &Surroundings) -> Result<u8> {
    let sample = Sample::choose(around);
    let dir = unpack(sample, args.dir, around)?;
    let mut view = TextView::new(view::Look::of(around));
    view.note(&format!("A sample project in {} with a failing test is in {}", sample.language, dir.display()));
    view.note("The model is a recording; the tools, the tests and the journal are real.\n");
    view.note(&format!("> {TASK}\n"));
    let model = Arc::new(cassette(sample)?);
    let settings = settings(sample, model, &dir, around);
    if settings.sandbox.is_none() {
        view.note("No sandbox can run it here: its commands run with your rights.\n");
    }
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
    let green = show_result(&mut view, sample, &dir, around)?;
    view.note(&format!("The journal:  {}", journal.display()));
    view.note(&format!("Read it with: piton session show {id}"));
    view.note(&format!("Undo it:      cd {} && piton undo --session {id}", dir.display()));
    view.note(&format!("The project:  {}  (remove it when you like)", dir.display()));
    view.note("On your code: piton run \"fix the failing test\"");
    Ok(if green { 0 } else { report::EXIT_FAILED })
}

/// The sample project and the settings of a session in it, with what to say there.
pub(crate) fn prepared(around: &Surroundings) -> Result<(PathBuf, Settings, &'static str)> {
    let sample = Sample::choose(around);
    let dir = unpack(sample, None, around)?;
    let settings = settings(sample, Arc::new(cassette(sample)?), &dir, around);
    Ok((dir, settings, TASK))
}

/// Nobody is asked about the commands of a recording that is known. They run in the sandbox where one can be made that shows
/// them what they need.
fn settings(sample: &Sample, model: Arc<Recorded>, dir: &Path, around: &Surroundings) -> Settings {
    let mut settings = bare::settings(model, &around.machine, dir);
    settings.policy.mode = PermissionMode::Auto;
    if let Some((available, private)) = sandbox::available(&around.machine, BackendChoice::Auto)
        .ok()
        .zip(tempfile::Builder::new().prefix("piton-demo-").tempdir_in(&around.temp_dir).ok())
    {
        let wanted = (SandboxMode::WorkspaceWrite, available.backend);
        let inside = private.path().join("private");
        let trial = sandbox::by_hand(&around.machine, &Config::default(), wanted, dir, inside);
        if sample.works_in(&trial, dir, around) {
            sandbox::confine(&mut settings, &around.machine, available.backend);
        }
    }
    settings
}

/// The line of what the tests said that says why they did not run.
fn first_error(stderr: &[u8]) -> Option<String> {
    let said = String::from_utf8_lossy(stderr);
    let line = said.lines().find(|line| line.starts_with("error")).or_else(|| said.lines().next())?;
    Some(view::clean(line.trim_end_matches('.')))
}

/// The recording that plays the model.
fn cassette(sample: &Sample) -> Result<Recorded> {
    let (name, lines) = sample.cassette;
    Ok(Recorded::parse(lines)?.named(format!("recorded/{name}")))
}

/// Puts the sample project where it can be worked on.
fn unpack(sample: &Sample, said: Option<PathBuf>, around: &Surroundings) -> Result<PathBuf> {
    let dir = match said {
        Some(dir) => dir,
        None => tempfile::Builder::new().prefix("piton-demo-").tempdir_in(&around.temp_dir)?.keep(),
    };
    for (name, content) in sample.files {
        let path = dir.join(name);
        ensure!(!path.exists(), "{} exists already; name an empty folder with --dir", path.display());
        let parent = path.parent().context("a file in a folder")?;
        std::fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
        std::fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(dir.canonicalize()?)
}

/// The diff that was made, and the tests once more, run by the demo itself. Whether they pass.
fn show_result(view: &mut TextView, sample: &Sample, dir: &Path, around: &Surroundings) -> Result<bool> {
    view.note("\nWhat changed:\n");
    for (name, before) in sample.files {
        let after = std::fs::read_to_string(dir.join(name)).unwrap_or_default();
        if after != *before {
            let diff = view::unified(before, &after);
            view.note(&view::colour_diff(&format!("--- {name}\n+++ {name}\n{diff}")));
        }
    }
    let tests = sample.test(dir, around).context("cannot test the sample project")?;
    let (passed, failed) = sample.counts(&tests);
    let why = first_error(&tests.stderr).filter(|_| !tests.status.success() && passed + failed == 0);
    view.note(&match why {
        Some(why) => format!("\n`{}` cannot run the tests here, so the fix is untested: {why}", sample.tests),
        None => format!("\n`{}`, run once more by the demo: {passed} passed, {failed} failed", sample.tests),
    });
    Ok(tests.status.success())
}
