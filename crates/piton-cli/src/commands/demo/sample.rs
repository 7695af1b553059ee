//! The sample projects of the demo, one per language: the same fault in each. Which is shown is decided by what can be
//! run on this machine; a shell is everywhere.

use crate::cassettes::{self, Cassette};
use crate::surroundings::Surroundings;
use piton_tools::spawn::{Confinement, Env, Group, Spawn, Streams};
use std::path::Path;
use std::process::{Child, Output};

/// A project with a failing test, and the recording that mends it.
pub(super) struct Sample {
    pub(super) language: &'static str,
    pub(super) cassette: Cassette,
    /// Name and content of each file.
    pub(super) files: &'static [(&'static str, &'static str)],
    /// Its tests, as they are typed.
    pub(super) tests: &'static str,
    /// What must be there to run them: each command succeeds.
    needs: &'static [&'static [&'static str]],
    /// How many tests passed and failed, in a line of what they print.
    count: fn(&str) -> (u64, u64),
}

const SAMPLES: [Sample; 3] = [
    Sample {
        language: "Rust",
        cassette: cassettes::RUST,
        files: &[
            ("Cargo.toml", include_str!("../../../demo/rust/Cargo.toml.sample")),
            (".gitignore", "/target\n"),
            ("src/lib.rs", include_str!("../../../demo/rust/src/lib.rs")),
            ("tests/split.rs", include_str!("../../../demo/rust/tests/split.rs")),
        ],
        tests: "cargo test --offline --quiet",
        // A rustup without a toolchain has a cargo that cannot run, and one without a linker builds no test.
        needs: &[&["cargo", "--version"], &["cc", "--version"]],
        count: |line| match line.strip_prefix("test result") {
            Some(counts) => (number_before(counts, "passed"), number_before(counts, "failed")),
            None => (0, 0),
        },
    },
    Sample {
        language: "Python",
        cassette: cassettes::PYTHON,
        files: &[
            ("split_the_bill.py", include_str!("../../../demo/python/split_the_bill.py")),
            ("test_split.py", include_str!("../../../demo/python/test_split.py")),
        ],
        tests: "python3 -B -m unittest --verbose",
        // Debian's smallest Python has no unittest.
        needs: &[&["python3", "-c", "import unittest"]],
        count: |line| {
            let failed = [" ... FAIL", " ... ERROR"].iter().any(|end| line.ends_with(end));
            (u64::from(line.ends_with(" ... ok")), u64::from(failed))
        },
    },
    Sample {
        language: "shell",
        cassette: cassettes::SHELL,
        files: &[
            ("split.sh", include_str!("../../../demo/shell/split.sh")),
            ("test.sh", include_str!("../../../demo/shell/test.sh")),
        ],
        tests: "sh test.sh",
        needs: &[],
        count: |line| (u64::from(line.starts_with("ok ")), u64::from(line.starts_with("not ok "))),
    },
];

impl Sample {
    /// The first one whose tests can be run here.
    pub(super) fn choose(around: &Surroundings) -> &'static Self {
        let works = |words: &&[&str]| {
            run(words, &around.temp_dir, Confinement::Model, around).is_ok_and(|out| out.status.success())
        };
        let [rust, python, shell] = &SAMPLES;
        [rust, python].into_iter().find(|sample| sample.needs.iter().all(works)).unwrap_or(shell)
    }

    /// Whether what it needs can be run in this sandbox: a toolchain in an unusual place is not seen there.
    pub(super) fn works_in(&self, sandbox: &Confinement, dir: &Path, around: &Surroundings) -> bool {
        let works = |words: &&[&str]| run(words, dir, sandbox.clone(), around).is_ok_and(|out| out.status.success());
        self.needs.iter().all(works)
    }

    /// Runs the tests.
    pub(super) fn test(&self, dir: &Path, around: &Surroundings) -> std::io::Result<Output> {
        run(&self.tests.split(' ').collect::<Vec<_>>(), dir, Confinement::Model, around)
    }

    /// How many tests passed and how many failed, from what they printed.
    pub(super) fn counts(&self, out: &Output) -> (u64, u64) {
        let said = [&out.stdout, &out.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        let counts = said.iter().flat_map(|text| text.lines()).map(self.count);
        counts.fold((0, 0), |(passed, failed), line| (passed + line.0, failed + line.1))
    }
}

fn run(words: &[&str], dir: &Path, confinement: Confinement, around: &Surroundings) -> std::io::Result<Output> {
    let env = Env::new(around.machine.vars.clone());
    let spawn = Spawn::new(words, &env, dir, confinement);
    spawn.start(Group::Ours, Streams::caught()).and_then(Child::wait_with_output)
}

/// The number in front of a word: 4 in `ok. 4 passed; 0 failed`.
fn number_before(line: &str, word: &str) -> u64 {
    let words: Vec<&str> = line.split([' ', ';']).collect();
    let at = words.iter().position(|found| *found == word);
    at.and_then(|at| words.get(at.checked_sub(1)?)?.parse().ok()).unwrap_or_default()
}
