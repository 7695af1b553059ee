//! What a snapshot costs in a repository of 50,000 files: prints a line for each measurement, its name and the numbers
//! of all rounds. `cargo xtask bench snapshot` runs it in a release build.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a measurement: its git and its output")]

use piton_tools::snapshot::{Conflicts, Leg, Options, RestorePolicy, Snapshots, TreeId};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

const FILES: usize = 50_000;
const FILES_IN_A_FOLDER: usize = 20;
const LINES: usize = 120;
const CHANGED: usize = 1_000;
const ROUNDS: usize = 15;

fn main() -> Result<(), Box<dyn Error>> {
    let place = tempfile::tempdir()?;
    let workspace = place.path().join("workspace");
    build(&workspace)?;
    let git =
        ["/usr/bin/git", "/usr/local/bin/git", "/bin/git"].map(PathBuf::from).into_iter().find(|git| git.is_file());
    let shared = Options { git, ..Options::default() };

    let snapshots = Snapshots::open(&place.path().join("alone"), &workspace, Options::default())?;
    print("first_alone_s", &[timed(|| snapshots.take())?.0]);
    print("disk_alone_mb", &[snapshots.usage()?.own_bytes as f64 / 1e6]);

    let snapshots = Snapshots::open(&place.path().join("store"), &workspace, shared)?;
    let (seconds, first) = timed(|| snapshots.take())?;
    print("first_s", &[seconds]);
    print("disk_mb", &[snapshots.usage()?.own_bytes as f64 / 1e6]);
    // The first one after it reads again what changed within the clock's tick.
    snapshots.take()?;
    let unchanged: Result<Vec<f64>, _> = (0..ROUNDS).map(|_| timed(|| snapshots.take()).map(|it| it.0 * 1e3)).collect();
    print("unchanged_ms", &unchanged?);
    let mut changed = Vec::new();
    for round in 0..ROUNDS {
        fs::write(file(&workspace, round * 77), format!("changed {round}\n"))?;
        changed.push(timed(|| snapshots.take())?.0 * 1e3);
    }
    print("one_changed_ms", &changed);
    print("restore_s", &restores(&snapshots, &workspace)?);
    print("disk_after_mb", &[snapshots.usage()?.own_bytes as f64 / 1e6]);
    let kept = snapshots.prune(&[first.id])?;
    print("disk_pruned_mb", &[kept.own_bytes as f64 / 1e6]);
    Ok(())
}

/// Seconds that restoring a thousand changed files took.
fn restores(snapshots: &Snapshots, workspace: &Path) -> Result<Vec<f64>, Box<dyn Error>> {
    let mut times = Vec::new();
    for round in 0..5 {
        let before = snapshots.take()?.id;
        for number in 0..CHANGED {
            let path = file(workspace, number * (FILES / CHANGED));
            fs::write(path, format!("round {round} of file {number}\n"))?;
        }
        let after: TreeId = snapshots.take()?.id;
        let policy = RestorePolicy { conflicts: Conflicts::Stop, began: Some(after), dry_run: false };
        let (seconds, report) = timed(|| snapshots.restore(&[Leg { from: after, to: before }], policy))?;
        if report.changes.len() != CHANGED || snapshots.take()?.id != before {
            return Err("the restore did not restore".into());
        }
        times.push(seconds);
    }
    Ok(times)
}

fn build(workspace: &Path) -> Result<(), Box<dyn Error>> {
    for number in 0..FILES {
        let path = file(workspace, number);
        if number % FILES_IN_A_FOLDER == 0 {
            fs::create_dir_all(path.parent().ok_or("no parent")?)?;
        }
        let line = |line: usize| {
            format!("let value_{line} = {:x}; // of file {number}\n", number.wrapping_mul(2_654_435_761 + line))
        };
        fs::write(path, (0..LINES).map(line).collect::<String>())?;
    }
    fs::write(workspace.join(".gitignore"), "/target\n*.log\nnode_modules/\n")?;
    // No clean-up of git's own accord, which would be in the way of ours.
    let who = [
        "-c",
        "user.name=bench",
        "-c",
        "user.email=bench@localhost",
        "-c",
        "gc.auto=0",
        "-c",
        "maintenance.auto=false",
        "-c",
        "core.hooksPath=/dev/null",
    ];
    for words in
        [&["init", "--quiet"][..], &["add", "--all"], &["commit", "--quiet", "--message=all"], &["gc", "--quiet"]]
    {
        let status = Command::new("git").args(who).args(words).current_dir(workspace).status()?;
        if !status.success() {
            return Err(format!("git {} failed", words[0]).into());
        }
    }
    Ok(())
}

fn file(workspace: &Path, number: usize) -> PathBuf {
    let folder = number / FILES_IN_A_FOLDER;
    workspace.join(format!("part{}/folder{folder}/file{number}.rs", folder % 50))
}

fn timed<T, E>(act: impl FnOnce() -> Result<T, E>) -> Result<(f64, T), E> {
    let started = Instant::now();
    let done = act()?;
    Ok((started.elapsed().as_secs_f64(), done))
}

fn print(name: &str, numbers: &[f64]) {
    let numbers: Vec<String> = numbers.iter().map(|number| format!("{number:.3}")).collect();
    println!("{name} {}", numbers.join(" "));
}
