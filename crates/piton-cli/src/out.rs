//! What people read on the terminal: `print` writes, `view` draws a run, `report` has the words and exit codes.

pub(crate) mod markdown;
pub(crate) mod print;
pub(crate) mod report;
pub(crate) mod server_news;
pub(crate) mod view;
