//! Characters that a person does not see, or takes for others.

/// Whether nobody sees this character, or it changes the order in which others are seen. Controls are not among these.
pub fn is_invisible(c: char) -> bool {
    match c {
        // Soft hyphen, fillers, zero width, marks and overrides of direction, invisible operators, byte order mark.
        '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' => true,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' => true,
        '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}' => true,
        _ => false,
    }
}

/// Whether a character outside of quotes misleads whoever reads the command: controls other than tab and newline, what nobody
/// sees, blanks that bash does not take for blanks, and the mark of a text that was not UTF-8.
pub(crate) fn misleads(c: char) -> bool {
    match c {
        '\t' | '\n' | ' ' => false,
        '\u{fffc}' | '\u{fffd}' => true,
        c => c.is_control() || c.is_whitespace() || is_invisible(c),
    }
}
