//! `cargo xtask wire-check DIR`: a folder of recorded answers against the real decoders. What a recording consists of
//! and when a reading is right is written in `piton_testkit::conformance` and in the folder's README.

use anyhow::{Context, ensure};
use piton_testkit::conformance;
use std::path::Path;
use std::process::exit;

/// Prints every recording that is read wrongly and, last, how many are read rightly. Ends the process with 1 unless
/// that is all of them.
pub(crate) fn wire_check(folder: &Path) -> anyhow::Result<()> {
    let cases = conformance::cases(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    ensure!(!cases.is_empty(), "no recording (*.meta.json) lies in {}", folder.display());
    let mut right = 0;
    for case in &cases {
        let differences = case.differences();
        if differences.is_empty() {
            right += 1;
            continue;
        }
        println!("{}", case.name);
        differences.iter().for_each(|line| println!("    {line}"));
    }
    println!("{right} of {}", cases.len());
    if right < cases.len() {
        exit(1);
    }
    Ok(())
}
