//! The recordings that are part of this program: they are asked as `recorded/NAME`, also by a session that goes on.

/// What the demo plays, by the language of its sample project.
pub(crate) const RUST: Cassette = ("demo", include_str!("../demo/rust.jsonl"));
pub(crate) const PYTHON: Cassette = ("demo-python", include_str!("../demo/python.jsonl"));
pub(crate) const SHELL: Cassette = ("demo-shell", include_str!("../demo/shell.jsonl"));
/// All of them.
pub(crate) const CASSETTES: &[Cassette] = &[RUST, PYTHON, SHELL];

/// Its name, and its lines.
pub(crate) type Cassette = (&'static str, &'static str);
