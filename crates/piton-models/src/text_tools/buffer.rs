//! Prose shown the way Neovate shows it: nothing while the text may end in the middle of one of six tags, then all of
//! what was held back as one piece, and nothing more once a call has begun (rows S0-048…S0-050, S0-104…S0-107).
//!
//! [`super::hold`] shows more, and sooner. This is for the preset that has to show exactly what its document shows.

/// The beginnings of the tags, as far as their names.
const TAGS: [&str; 6] = ["<use_tool", "<tool_name", "<arguments", "</use_tool", "</tool_name", "</arguments"];
/// Of the text, so many UTF-16 units at its end are looked at.
const LOOKED_AT: usize = 15;
/// What begins a call.
const CALL: &str = "<use_tool>";

/// Whether the text may end in the middle of a tag. A text shorter than a tag must be its beginning as a whole; of a
/// longer one, any end may be.
pub fn ends_in_tag(text: &str) -> bool {
    // A character has one unit or two.
    let start = text.char_indices().nth_back(LOOKED_AT - 1).map_or(0, |(at, _)| at);
    let units: Vec<u16> = text[start..].encode_utf16().collect();
    let end = &units[units.len().saturating_sub(LOOKED_AT)..];
    TAGS.iter().any(|tag| {
        let tag: Vec<u16> = tag.encode_utf16().collect();
        match end.len() < tag.len() {
            true => tag.starts_with(end),
            false => (1..=tag.len()).any(|length| end.ends_with(&tag[..length])),
        }
    })
}

/// A reply's prose on its way to whoever watches.
#[derive(Debug, Default)]
pub struct Buffer {
    /// The end of the text: as much as is looked at.
    end: String,
    held: String,
    has_called: bool,
    /// Whether there was anything but white space.
    has_words: bool,
}

impl Buffer {
    /// Takes more of the reply's text; gives what may be shown now.
    pub fn push(&mut self, piece: &str) -> Option<String> {
        self.end.push_str(piece);
        self.held.push_str(piece);
        self.has_called |= self.end.contains(CALL);
        self.has_words |= !piece.trim().is_empty();
        // Of what was there before, a tag has no more than this.
        let start = self.end.char_indices().nth_back(LOOKED_AT - 1).map_or(0, |(at, _)| at);
        self.end.drain(..start);
        if ends_in_tag(&self.end) { None } else { self.show() }
    }

    /// The text is over: what is still held back is shown.
    pub fn finish(&mut self) -> Option<String> {
        self.show()
    }

    fn show(&mut self) -> Option<String> {
        let piece = std::mem::take(&mut self.held);
        let is_prose = !self.has_called && self.has_words;
        Some(piece).filter(|piece| is_prose && !piece.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_never_see_half_a_tag_however_the_text_is_cut() {
        let text = "Look <b>here</b>.\n<use_tool>\n<tool_name>x</tool_name><arguments>{}</arguments></use_tool> after";
        let mut buffer = Buffer::default();
        let mut shown: String = text.chars().filter_map(|c| buffer.push(c.encode_utf8(&mut [0; 4]))).collect();
        shown.extend(buffer.finish());
        assert_eq!(shown, "Look <b>here</b>.\n");
    }

    /// The same, with all of the text looked at each time.
    #[derive(Default)]
    struct Thorough {
        text: String,
        held: String,
    }

    impl Thorough {
        fn push(&mut self, piece: &str) -> Option<String> {
            self.text.push_str(piece);
            self.held.push_str(piece);
            if thoroughly_ends_in_tag(&self.text) { None } else { self.show() }
        }

        fn show(&mut self) -> Option<String> {
            let piece = std::mem::take(&mut self.held);
            let is_prose = !self.text.contains(CALL) && !self.text.trim().is_empty();
            Some(piece).filter(|piece| is_prose && !piece.is_empty())
        }
    }

    fn thoroughly_ends_in_tag(text: &str) -> bool {
        let units: Vec<u16> = text.encode_utf16().collect();
        let end = &units[units.len().saturating_sub(LOOKED_AT)..];
        TAGS.iter().any(|tag| {
            let tag: Vec<u16> = tag.encode_utf16().collect();
            match end.len() < tag.len() {
                true => tag.starts_with(end),
                false => (1..=tag.len()).any(|length| end.ends_with(&tag[..length])),
            }
        })
    }

    #[test]
    fn looking_at_the_end_alone_shows_the_same() {
        let words = [
            "<",
            "<use_tool>",
            "<use_to",
            "ol>",
            "</arg",
            "uments>",
            "<tool_name",
            " ",
            "\n",
            "x",
            "\u{1f980}",
            "words ",
            "é",
        ];
        let mut dice = fastrand::Rng::with_seed(15);
        for _ in 0..5_000 {
            let (mut buffer, mut thorough) = (Buffer::default(), Thorough::default());
            for _ in 0..dice.usize(..30) {
                let piece: String = (0..dice.usize(..4)).map(|_| words[dice.usize(..words.len())]).collect();
                assert_eq!(buffer.push(&piece), thorough.push(&piece), "after {:?}", thorough.text);
            }
            assert_eq!(ends_in_tag(&thorough.text), thoroughly_ends_in_tag(&thorough.text));
            assert_eq!(buffer.finish(), thorough.show(), "of {:?}", thorough.text);
        }
    }

    #[test]
    fn a_long_reply_costs_no_more_than_its_length() {
        let mut buffer = Buffer::default();
        let shown: usize = (0..400_000).filter_map(|_| buffer.push("word ")).map(|piece| piece.len()).sum();
        assert_eq!(shown, 2_000_000);
        assert!(buffer.end.len() <= 4 * LOOKED_AT, "what is looked at does not grow");
    }

    #[test]
    fn what_is_left_at_the_end_is_shown() {
        let mut buffer = Buffer::default();
        assert_eq!(buffer.push("1 < 2 and then <"), None);
        assert_eq!(buffer.finish().as_deref(), Some("1 < 2 and then <"));
        assert_eq!(buffer.finish(), None);
    }
}
