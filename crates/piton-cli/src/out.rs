//! What people read on the terminal: `view` draws, `report` has the words and exit codes.

pub(crate) mod report;
pub(crate) mod view;
