//! How much of a command is read. What is larger is not judged but said to be unknowable: a judge that stops half-way lets
//! the other half through.

/// Bytes of a command. A person cannot read more in a question, and the reader stays below its 50 ms.
pub const MOST_BYTES: usize = 256 * 1024;
/// How deep substitutions, groups, conditions and code within code may stand in each other. Recursion goes no deeper, so
/// this also bounds the stack.
pub const MOST_NESTING: usize = 64;
/// Words, redirections and assignments of a command altogether, after braces are expanded.
pub const MOST_NODES: usize = 5_000;
/// Bytes that all expanded braces may have together.
pub(crate) const MOST_EXPANDED_BYTES: usize = MOST_BYTES;
/// Looks at a character per byte of the command, beside [`FREE_STEPS`]. Only a text that has to be read again and again (`$((` that
/// turns out to be a substitution, in itself) needs more.
pub(crate) const STEPS_PER_BYTE: usize = 4;
/// Looks at a character that any command has, however short.
pub(crate) const FREE_STEPS: usize = 200_000;
