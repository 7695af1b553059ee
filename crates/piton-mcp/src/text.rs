//! What servers write, made fit to be shown and read: no control, invisible or direction-changing characters, and cut to size.

use piton_core::hidden;

/// A text on one line, for names, titles and errors.
pub(crate) fn line(text: &str, most_chars: usize) -> String {
    cut(&hidden::visible_line(&beginning(text, most_chars)), most_chars)
}

/// A text of several lines that describes something.
pub(crate) fn words(text: &str, most_bytes: usize) -> String {
    cut_bytes(&hidden::visible(&beginning(text, most_bytes)), most_bytes)
}

/// What a call came to, all of it: escape sequences are taken out rather than shown.
pub(crate) fn output(text: &str) -> String {
    if !text.chars().any(|char| char == '\r' || hidden::is_hidden(char)) {
        return text.to_owned();
    }
    hidden::strip(&piton_tools::clean::clean(text.as_bytes())).0.into_owned()
}

/// Enough of a text to be cut to `most` characters later, however long it is.
fn beginning(text: &str, most: usize) -> String {
    text.chars().take(most + 1).collect()
}

fn cut(text: &str, most_chars: usize) -> String {
    match text.char_indices().nth(most_chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn cut_bytes(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(most)])
}

/// A number of bytes, for people.
pub(crate) fn size(bytes: usize) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{} kB", bytes.div_ceil(1_000)),
        _ => format!("{:.1} MB", bytes as f64 / 1_000_000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_raw_is_left() {
        assert_eq!(line("a\nb\u{1b}[31m\u{202e}", 100), "a\\nb\\u{1b}[31m\\u{202e}");
        assert_eq!(line(&"x".repeat(10_000), 20).chars().count(), 21);
        assert_eq!(words("two\nlines\u{200b}", 100), "two\nlines\\u{200b}");
        assert_eq!(words(&"é".repeat(5_000), 2_000).len(), 2_000 + '…'.len_utf8());
        assert_eq!(output("\u{1b}[31mred\u{1b}[0m \u{202e}x"), "red x");
    }
}
