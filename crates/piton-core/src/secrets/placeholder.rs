//! What stands in a secret's place: `‹secret:NAME:ab12›`.

const OPEN: &str = "‹secret:";
const CLOSE: &str = "›";
/// Longer names are cut.
const NAME_BYTES: usize = 40;

/// A placeholder in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placeholder<'t> {
    /// Where it begins, in bytes.
    pub start: usize,
    /// All of it.
    pub text: &'t str,
}

/// The placeholder of this name and tag.
pub(super) fn written(name: &str, tag: &str) -> String {
    let fits = |letter: &char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    let mut name: String = name.chars().filter(fits).take(NAME_BYTES).collect();
    if name.is_empty() {
        name.push_str("value");
    }
    format!("{OPEN}{name}:{tag}{CLOSE}")
}

/// The placeholders in a text, in order.
pub fn placeholders(text: &str) -> Vec<Placeholder<'_>> {
    let at = text.match_indices(OPEN).filter_map(|(start, _)| {
        let end = start + length(&text.as_bytes()[start..])?;
        Some(Placeholder { start, text: &text[start..end] })
    });
    at.collect()
}

/// How long the placeholder is that begins here, if one does.
pub(super) fn length(text: &[u8]) -> Option<usize> {
    const TAG_MOST: usize = 8;
    let inner = text.strip_prefix(OPEN.as_bytes())?;
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let name = inner.iter().take(NAME_BYTES + 1).take_while(|byte| is_name(byte)).count();
    let tag = inner[name..].strip_prefix(b":")?;
    let digits = tag.iter().take(TAG_MOST + 1).take_while(|byte| byte.is_ascii_hexdigit()).count();
    let is_whole = name > 0 && (4..=TAG_MOST).contains(&digits) && tag[digits..].starts_with(CLOSE.as_bytes());
    is_whole.then(|| OPEN.len() + name + 1 + digits + CLOSE.len())
}

/// Whether a piece of a text lies within a placeholder: that was made by us.
pub(super) fn is_within(text: &[u8], start: usize, end: usize) -> bool {
    const MOST: usize = OPEN.len() + NAME_BYTES + 1 + 8 + CLOSE.len();
    let covers = |at: usize| text[at] == first_byte() && length(&text[at..]).is_some_and(|bytes| at + bytes >= end);
    (start.saturating_sub(MOST)..=start.min(text.len() - 1)).any(covers)
}

/// What a placeholder begins with.
pub(super) fn first_byte() -> u8 {
    OPEN.as_bytes()[0]
}

/// Whether the beginning of a placeholder stands here, whole or not.
pub(super) fn opens(text: &[u8]) -> bool {
    text.starts_with(OPEN.as_bytes())
}
