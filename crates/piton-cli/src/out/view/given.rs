//! What was put before the model besides what people and tools say, in a few words for who watches.

use super::{plural, thousands};
use piton_core::event::{Given, GivenKind};

/// One line for each kind of thing, and those things of which more is to be said.
pub(super) fn lines(items: &[Given]) -> Vec<String> {
    /// More would be in the way.
    const MOST: usize = 5;
    let mut lines = Vec::new();
    let of = |kind| items.iter().filter(move |item| item.kind == kind && item.tokens > 0);
    let read = of(GivenKind::Reference).filter(|item| item.path.is_some()).count() as u64;
    if read > 0 {
        let tokens = of(GivenKind::Reference).map(|item| item.tokens).sum();
        lines.push(format!("@ {}, about {} tokens", plural(read, "file"), thousands(tokens)));
    }
    let instructions: Vec<&str> = of(GivenKind::Instructions).filter_map(|item| item.path.as_deref()).collect();
    if !instructions.is_empty() {
        lines.push(format!("instructions: {}", instructions.join(", ")));
    }
    let changed = items.iter().filter(|item| item.kind == GivenKind::FileChanged).count() as u64;
    if changed > 0 {
        lines.push(format!("the model was told that {} changed on the disk", plural(changed, "file")));
    }
    if items.iter().any(|item| item.kind == GivenKind::BudgetNear) {
        lines.push("the model was told that the budget is nearly spent".to_owned());
    }
    if items.iter().any(|item| item.kind == GivenKind::Todo) {
        lines.push("the model was reminded of its todos".to_owned());
    }
    if items.iter().any(|item| item.kind == GivenKind::Servers) {
        lines.push("the model was told what has changed about MCP servers".to_owned());
    }
    if items.iter().any(|item| item.kind == GivenKind::EntriesChanged) {
        lines.push("the model was told what has changed about skills and agents".to_owned());
    }
    let notices: Vec<&String> = items.iter().filter_map(|item| item.notice.as_ref()).collect();
    lines.extend(notices.iter().take(MOST).map(|notice| (*notice).clone()));
    if let Some(more) = notices.len().checked_sub(MOST).filter(|more| *more > 0) {
        lines.push(format!("and {} (piton session show has them)", plural(more as u64, "more notice")));
    }
    lines
}
