//! From bytes that anything may have written to text that a model can read and a terminal can show.

/// Valid UTF-8 without escape sequences and control characters; `\r\n` is a newline, and of a line that was drawn over
/// and over with `\r` only the last state is left.
pub fn readable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text = without_escapes(&text);
    let mut lines: Vec<&str> = Vec::new();
    for line in text.split('\n') {
        let line = line.strip_suffix('\r').unwrap_or(line);
        lines.push(line.rsplit('\r').find(|state| !state.is_empty()).unwrap_or_default());
    }
    let clean = lines.join("\n");
    clean.chars().filter(|c| *c == '\n' || *c == '\t' || !c.is_control()).collect()
}

/// Leaves out ANSI escape sequences: CSI (`ESC [ … letter`), OSC (`ESC ] … BEL` or `ESC \`), and two-character ones.
fn without_escapes(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\u{1b}' {
            clean.push(c);
            continue;
        }
        match chars.next() {
            Some('[') => {
                while chars.next_if(|c| !('@'..='~').contains(c)).is_some() {}
                chars.next();
            }
            Some(']') => {
                while let Some(c) = chars.next() {
                    if c == '\u{7}' || (c == '\u{1b}' && chars.next_if_eq(&'\\').is_some()) {
                        break;
                    }
                }
            }
            Some('(' | ')' | '#') => drop(chars.next()),
            Some(_) | None => {}
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_titles_and_control_characters_are_left_out() {
        assert_eq!(readable(b"\x1b[1;31mred\x1b[0m \x1b]0;title\x07x\x1b]0;t\x1b\\y\x00\x08z\tq\x1b(B"), "red xyz\tq");
    }

    #[test]
    fn a_progress_line_shows_its_last_state() {
        assert_eq!(readable(b"10%\r50%\r100%\r\ndone\r\n"), "100%\ndone\n");
    }

    #[test]
    fn any_bytes_become_valid_text() {
        let bytes: Vec<u8> = (0..=255).cycle().take(2_000).collect();
        assert!(readable(&bytes).chars().all(|c| c == '\n' || c == '\t' || !c.is_control()));
    }
}
