//! The recordings that are part of this program: they are asked as `recorded/NAME`, also by a session that goes on.

/// The one that the demo plays.
pub(crate) const CASSETTE: &str = include_str!("../demo/cassette.jsonl");
/// Its name.
pub(crate) const CASSETTE_NAME: &str = "demo";
/// All of them.
pub(crate) const CASSETTES: &[(&str, &str)] = &[(CASSETTE_NAME, CASSETTE)];
