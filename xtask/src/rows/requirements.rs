//! The rows as they were written: `docs/dev/audit/requirements.md`.

use anyhow::ensure;

pub(super) const LIST: &str = "docs/dev/audit/requirements.md";

/// One row of the checklist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Requirement {
    pub(super) id: String,
    /// What is asked for.
    pub(super) statement: String,
    /// Its numbers and exact forms; for a contradiction where it is.
    pub(super) exact: String,
    /// How it is checked; for a contradiction what was proposed.
    pub(super) check: String,
}

/// Every row, in order.
pub(super) fn read() -> anyhow::Result<Vec<Requirement>> {
    let rows: Vec<_> = super::read(LIST)?.lines().filter_map(row).collect();
    ensure!(!rows.is_empty(), "{LIST} has no rows");
    Ok(rows)
}

/// `| id | profile | requirement | numbers | check |`; a contradiction has no profile: `| id | where | contradiction | proposal |`.
fn row(line: &str) -> Option<Requirement> {
    let cells: Vec<&str> = cells(line.strip_prefix('|')?.trim_end().strip_suffix('|')?);
    let field = |at: usize| cells.get(at).map_or(String::new(), |cell| cell.trim().to_owned());
    let id = field(0);
    super::proofs::is_id(&id).then(|| match cells.len() {
        4 => Requirement { id, statement: field(2), exact: field(1), check: field(3) },
        _ => Requirement { id, statement: field(2), exact: field(3), check: field(4) },
    })
}

/// The cells of a line; `\|` is no border.
fn cells(line: &str) -> Vec<&str> {
    let (mut cells, mut from) = (Vec::new(), 0);
    for (at, _) in line.match_indices('|').filter(|(at, _)| !line[..*at].ends_with('\\')) {
        cells.push(&line[from..at]);
        from = at + 1;
    }
    cells.push(&line[from..]);
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_keeps_its_number_and_its_check() {
        let read = row(r"| S0-075 | N | the regex `a\|b` | 15 | → at_extract |").expect("a row");
        let (statement, exact) = (r"the regex `a\|b`".to_owned(), "15".to_owned());
        assert_eq!(read, Requirement { id: "S0-075".into(), statement, exact, check: "→ at_extract".into() });
        assert_eq!(row("| C-05 | 000 | rounds | a second limit |").expect("a row").check, "a second limit");
        assert_eq!(row("| id | P | requirement | numbers | check |"), None);
    }
}
