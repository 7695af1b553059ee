//! The page for readers: `docs/dev/audit/source-loops.md`.

use super::ran::Ran;
use super::{RAN, Row, Status, requirements};
use std::fmt::Write;

/// The documents, by the beginning of their rows' ids.
const DOCUMENTS: [(&str, &str); 10] = [
    ("S0", "Neovate's `runLoop` (preset `neovate`)"),
    ("S1", "the loop kernel of Pulse Coder (preset `pulse`)"),
    ("S2", "the plan to reform that loop (preset `coder-mvp`)"),
    ("S3", "etcode's agent loop (preset `etcode`)"),
    ("S4", "OpenCode's `loop` (preset `opencode`)"),
    ("N0", "newer Neovate"),
    ("N1", "newer Pulse Coder"),
    ("N3", "newer etcode"),
    ("N4", "newer OpenCode"),
    ("C", "where the documents contradict each other, and what was proposed"),
];

pub(super) fn markdown(rows: &[Row], ran: &Ran) -> anyhow::Result<String> {
    let statuses: Vec<Status> = rows.iter().map(|row| row.status(ran)).collect();
    let count = |is: fn(&Status) -> bool| statuses.iter().filter(|status| is(status)).count();
    let (tests, suites) = ran.numbers();
    let list = requirements::LIST.rsplit('/').next().unwrap_or_default();
    let mut text = format!(
        "# The loops of the source documents\n\nFive documents describe five loops. This is their checklist, row by row, with the \
         number and the check that each row had before Piton was written ([{list}]({list})), what stands for it, and what came of \
         that when it was run: tests that run under the row's preset ([presets.md](../../presets.md)), or a suite of `tests/cases` \
         ([cases.md](cases.md)).\n\n`cargo xtask rows` runs {tests} tests and {suites} suites, writes their results to `{RAN}`, and \
         makes this page of it. `cargo xtask ci` fails where its own run says anything else. *otherwise*: it is done in another \
         way, and the reason is given. *waits*: it is not there, or only the part that its tests show.\n\nRun at {}.\n\n**{} rows: \
         {} proved, {} done otherwise, {} waiting, {} open.**\n",
        ran.of,
        rows.len(),
        count(|status| *status == Status::Proved),
        count(|status| matches!(status, Status::Otherwise(_))),
        count(|status| matches!(status, Status::Waits(_))),
        count(|status| matches!(status, Status::Open(_))),
    );
    for (prefix, title) in DOCUMENTS {
        let head = if prefix == "C" { "where | proposed" } else { "exactly | check" };
        write!(
            text,
            "\n## {prefix}: {title}\n\n| row | what | {head} | stands for it | status |\n| --- | --- | --- | --- | --- | --- |\n"
        )?;
        for (row, status) in rows.iter().zip(&statuses) {
            if row.required.id.split('-').next() != Some(prefix) {
                continue;
            }
            let tests = row.proof.tests.iter().map(|test| format!("`{}`", test.name));
            let suites = row.proof.suites.iter().map(|suite| format!("suite `{suite}` ({})", ran.suite(suite)));
            let proof: Vec<String> = tests.chain(suites).collect();
            let status = match status {
                Status::Proved => "proved".to_owned(),
                Status::Otherwise(how) => format!("otherwise: {how}"),
                Status::Waits(what) => format!("waits for {what}"),
                Status::Open(what) => format!("**open**: {}", what.join(", ")),
            };
            let required = &row.required;
            writeln!(
                text,
                "| {} | {} | {} | {} | {} | {status} |",
                required.id,
                required.statement,
                required.exact,
                required.check,
                proof.join(", ")
            )?;
        }
    }
    Ok(text)
}
