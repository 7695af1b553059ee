//! What nobody may read in an error, a warning or a journal: providers like to quote the key that they refuse.

/// The values that are not told, longest first.
#[derive(Default)]
pub(crate) struct Secrets(Vec<String>);

/// Shorter values are words that may stand anywhere.
const SHORTEST_BYTES: usize = 4;

/// So much of the beginning of a secret is one, too: a text may have been cut within it.
const TELLING_BYTES: usize = 6;

const HIDDEN: &str = "[key]";

impl Secrets {
    /// Adds a value.
    pub(crate) fn add(&mut self, value: &str) {
        if value.len() >= SHORTEST_BYTES {
            self.0.push(value.to_owned());
            self.0.sort_by_key(|value| std::cmp::Reverse(value.len()));
        }
    }

    /// Adds the value of a header: as it is, and without the scheme before it. Most headers hold no secret, and are short.
    pub(crate) fn add_header(&mut self, value: &str) {
        const SHORTEST_HEADER_BYTES: usize = 8;
        let bare = value.split_once(' ').map(|(_, bare)| bare);
        [Some(value), bare]
            .into_iter()
            .flatten()
            .filter(|value| value.len() >= SHORTEST_HEADER_BYTES)
            .for_each(|value| self.add(value));
    }

    /// The text without them, and without the beginning of one at its end.
    pub(crate) fn hide(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.0 {
            text = text.replace(secret.as_str(), HIDDEN);
            // JSON may write a slash with a backslash.
            text = text.replace(&secret.replace('/', "\\/"), HIDDEN);
        }
        let shown = text.trim_end_matches('…');
        let cut = self.0.iter().filter_map(|secret| {
            let ends = (TELLING_BYTES..secret.len()).rev().filter(|end| secret.is_char_boundary(*end));
            ends.map(|end| &secret[..end]).find(|start| shown.ends_with(start)).map(str::len)
        });
        match cut.max() {
            Some(length) => format!("{}{HIDDEN}", &shown[..shown.len() - length]),
            None => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_hidden_whole_quoted_and_cut() {
        let mut secrets = Secrets::default();
        secrets.add("sk-ant-ab/cdef");
        secrets.add_header("Bearer tok-12345678");
        secrets.add_header("my team");
        secrets.add("abc");
        for (text, shown) in [
            ("wrong key: sk-ant-ab/cdef.", "wrong key: [key]."),
            (r#"{"message":"sk-ant-ab\/cdef"}"#, r#"{"message":"[key]"}"#),
            ("wrong key: sk-ant-ab/c", "wrong key: [key]"),
            ("wrong key: sk-ant", "wrong key: [key]"),
            ("got Bearer tok-12345678", "got [key]"),
            ("got tok-12345678 of my team, abc, sk-an", "got [key] of my team, abc, sk-an"),
        ] {
            assert_eq!(secrets.hide(text), shown);
        }
    }
}
