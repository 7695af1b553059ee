//! Characters that a person does not see, or takes for others.

/// Whether a character outside of quotes misleads whoever reads the command: controls other than tab and newline, zero-width and
/// bidirectional marks, tags, blanks that bash does not take for blanks, and the mark of a text that was not UTF-8.
pub(crate) fn misleads(c: char) -> bool {
    match c {
        '\t' | '\n' => false,
        c if c.is_control() => true,
        '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' => true,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffd}' | '\u{e0000}'..='\u{e0fff}' => true,
        '\u{fe00}'..='\u{fe0f}' => true,
        ' ' => false,
        c => c.is_whitespace(),
    }
}
