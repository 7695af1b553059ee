//! What was changed, to be undone and done again.

use super::buffer::Fragment;

/// Beyond this many bytes of changes the oldest are forgotten: a prompt that is replaced a thousand times by a large text
/// must not keep them all.
const MOST_BYTES: usize = 32 * 1024 * 1024;

/// One replacement in the text.
#[derive(Debug, Clone)]
pub(super) struct Edit {
    pub(super) at: usize,
    pub(super) removed: Fragment,
    pub(super) inserted: Fragment,
}

/// What one press of Undo takes back.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) edits: Vec<Edit>,
    /// The cursor before it and behind it.
    pub(super) before: usize,
    pub(super) after: usize,
}

/// How an edit came about: some are taken back together with the ones before them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A character was typed.
    Typing,
    /// A character was deleted to the left or to the right.
    Deleting,
    /// Anything else.
    Single,
}

/// The changes in their order.
#[derive(Debug, Clone, Default)]
pub(super) struct Undo {
    done: Vec<Step>,
    undone: Vec<Step>,
    bytes: usize,
    /// What the last step may still take in.
    open: Option<Kind>,
    /// Whether all edits go into one step, and whether it has begun.
    held: Held,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Held {
    #[default]
    No,
    Waiting,
    Begun,
}

impl Undo {
    /// Notes an edit. What was undone cannot be done again from here on.
    pub(super) fn note(&mut self, edit: Edit, kind: Kind, before: usize, after: usize) {
        self.bytes -= self.undone.drain(..).map(|step| step.weight()).sum::<usize>();
        self.bytes += edit.removed.weight() + edit.inserted.weight();
        let joins = self.held == Held::Begun || (self.held == Held::No && self.joins(&edit, kind, before));
        match self.done.last_mut().filter(|_| joins) {
            Some(step) => {
                step.after = after;
                match step.edits.last_mut() {
                    Some(last) if edit.removed.is_empty() && last.at + last.inserted.len() == edit.at => {
                        last.inserted.append(&edit.inserted);
                    }
                    Some(_) | None => step.edits.push(edit),
                }
            }
            None => self.done.push(Step { edits: vec![edit], before, after }),
        }
        if self.held == Held::Waiting {
            self.held = Held::Begun;
        }
        self.open = (kind != Kind::Single).then_some(kind);
        self.forget_oldest();
    }

    /// Ends the step: the next edit begins another.
    pub(super) fn close(&mut self) {
        self.open = None;
        if self.held == Held::Begun {
            self.held = Held::Waiting;
        }
    }

    /// From here on all edits are one step, until [`Undo::release`].
    pub(super) fn hold(&mut self) {
        if self.held == Held::No {
            self.held = Held::Waiting;
        }
    }

    pub(super) fn release(&mut self) {
        self.held = Held::No;
        self.open = None;
    }

    /// The step to take back.
    pub(super) fn undo(&mut self) -> Option<&Step> {
        self.close();
        let step = self.done.pop()?;
        self.undone.push(step);
        self.undone.last()
    }

    /// The step to do again.
    pub(super) fn redo(&mut self) -> Option<&Step> {
        self.close();
        let step = self.undone.pop()?;
        self.done.push(step);
        self.done.last()
    }

    fn joins(&self, edit: &Edit, kind: Kind, before: usize) -> bool {
        let Some(step) = self.done.last() else { return false };
        if self.open != Some(kind) || step.after != before {
            return false;
        }
        match kind {
            Kind::Typing => {
                // A word and the blanks behind it are one step.
                let last = step.edits.last().and_then(|edit| edit.inserted.text().chars().next_back());
                let begins_word = !edit.inserted.text().starts_with(char::is_whitespace);
                edit.removed.is_empty() && !(begins_word && last.is_some_and(char::is_whitespace))
            }
            Kind::Deleting => true,
            Kind::Single => false,
        }
    }

    fn forget_oldest(&mut self) {
        while self.bytes > MOST_BYTES && self.done.len() > 1 {
            let step = self.done.remove(0);
            self.bytes -= step.weight();
        }
    }
}

impl Step {
    fn weight(&self) -> usize {
        self.edits.iter().map(|edit| edit.removed.weight() + edit.inserted.weight()).sum()
    }
}
