//! Prose on its way out, with anything held back that may still become a marker.
//!
//! ```text
//!   character ──▶ held: "<use_to"  ──▶ may become a marker: wait
//!                                  ──▶ is a marker:         say so
//!                                  ──▶ cannot any more:     let its first character go, look at the rest again
//! ```
//!
//! Every dialect reads its prose through this. What stands in Markdown code is quoted, and no marker.

use super::code::Code;

/// Something that may stand in prose and is not prose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Marker {
    pub(super) shape: Shape,
    pub(super) role: Role,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// These characters. A `▁` also stands for `_` and for a space: models mix them up.
    Token(&'static str),
    /// `<name>`, attributes allowed.
    Tag(&'static str),
    /// This character, where a message begins with it.
    First(char),
}

/// What a marker does to the text after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// A call may follow.
    Opens,
    /// Nothing: it is left out.
    Noise,
}

/// What a marker in Markdown code is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InCode {
    /// Talked about.
    Quoted,
    /// A marker all the same.
    Marker,
}

/// Whether a text is something, or may become it with more text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    No,
    Maybe,
    Yes,
}

impl Marker {
    pub(super) const fn token(token: &'static str) -> Self {
        Self { shape: Shape::Token(token), role: Role::Opens }
    }

    pub(super) const fn tag(name: &'static str) -> Self {
        Self { shape: Shape::Tag(name), role: Role::Opens }
    }

    pub(super) const fn first(c: char) -> Self {
        Self { shape: Shape::First(c), role: Role::Opens }
    }

    pub(super) const fn noise(token: &'static str) -> Self {
        Self { shape: Shape::Token(token), role: Role::Noise }
    }
}

impl Shape {
    fn fit(self, text: &str, is_message_begun: bool) -> Fit {
        match self {
            Self::Token(token) => token_fit(token, text),
            Self::Tag(name) => tag_fit(name, text),
            Self::First(c) if !is_message_begun && text.chars().eq([c]) => Fit::Yes,
            Self::First(_) => Fit::No,
        }
    }
}

/// Prose with its possible markers held back.
#[derive(Debug)]
pub(super) struct Hold {
    markers: Vec<Marker>,
    held: String,
    code: Code,
    in_code: InCode,
    /// Something other than white space was let go.
    is_message_begun: bool,
}

impl Hold {
    pub(super) fn new(markers: Vec<Marker>, in_code: InCode) -> Self {
        Self { markers, held: String::new(), code: Code::default(), in_code, is_message_begun: false }
    }

    /// Takes one character, adds to `prose` what cannot be a marker, and tells of a marker that is complete now, with
    /// its text.
    pub(super) fn push(&mut self, c: char, prose: &mut String) -> Option<(Marker, String)> {
        self.held.push(c);
        loop {
            let first = self.held.chars().next()?;
            let is_quoted = self.in_code == InCode::Quoted && self.code.holds(first);
            let (fit, marker) = if is_quoted { (Fit::No, None) } else { self.fit() };
            match fit {
                Fit::Yes => return marker.map(|marker| (marker, std::mem::take(&mut self.held))),
                Fit::Maybe => return None,
                Fit::No => {
                    self.held.drain(..first.len_utf8());
                    self.let_go(first, prose);
                }
            }
        }
    }

    /// Text that is prose whatever it looks like.
    pub(super) fn pass(&mut self, text: &str, prose: &mut String) {
        text.chars().for_each(|c| self.let_go(c, prose));
    }

    /// From here on, no character begins the message.
    pub(super) fn begin_message(&mut self) {
        self.is_message_begun = true;
    }

    /// What is still held back. Nothing may follow.
    pub(super) fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    fn let_go(&mut self, c: char, prose: &mut String) {
        self.code.push(c);
        self.is_message_begun |= !c.is_whitespace();
        prose.push(c);
    }

    fn fit(&self) -> (Fit, Option<Marker>) {
        let mut best = Fit::No;
        for marker in &self.markers {
            match marker.shape.fit(&self.held, self.is_message_begun) {
                Fit::Yes => return (Fit::Yes, Some(*marker)),
                Fit::Maybe => best = Fit::Maybe,
                Fit::No => {}
            }
        }
        (best, None)
    }
}

/// Whether the text is this token, or its beginning.
pub(super) fn token_fit(token: &str, text: &str) -> Fit {
    let mut wanted = token.chars();
    for c in text.chars() {
        match wanted.next() {
            Some(want) if is_same(want, c) => {}
            Some(_) | None => return Fit::No,
        }
    }
    if wanted.next().is_none() { Fit::Yes } else { Fit::Maybe }
}

/// How many bytes at the end of the text are this token, if they are.
pub(super) fn token_at_end(token: &str, text: &str) -> Option<usize> {
    let mut rest = text.chars().rev();
    let mut length = 0;
    for want in token.chars().rev() {
        length += rest.next().filter(|c| is_same(want, *c))?.len_utf8();
    }
    Some(length)
}

fn is_same(want: char, c: char) -> bool {
    want == c || (want == '▁' && (c == '_' || c == ' '))
}

/// Whether the text is `<name>`, possibly with attributes, or the beginning of that.
fn tag_fit(name: &str, text: &str) -> Fit {
    /// Longer than any attribute a model would think of.
    const MOST_BYTES: usize = 256;
    let Some(inside) = text.strip_prefix('<') else { return Fit::No };
    if name.starts_with(inside) {
        return Fit::Maybe;
    }
    match inside.strip_prefix(name) {
        Some(attributes) if text.len() <= MOST_BYTES => attributes_fit(attributes),
        Some(_) | None => Fit::No,
    }
}

/// Whether the text is ` key="value" …>`, or the beginning of that.
fn attributes_fit(text: &str) -> Fit {
    #[derive(PartialEq)]
    enum At {
        Gap,
        Name,
        Equals,
        Value(char),
        End,
    }
    // A name must be parted from what is before it.
    let mut at = At::End;
    for c in text.chars() {
        at = match (at, c) {
            (_, '<' | '`' | '\n') => return Fit::No,
            (At::Value(quote), c) if c == quote => At::End,
            (At::Value(quote), _) => At::Value(quote),
            (At::Gap | At::End, '>') => return Fit::Yes,
            (At::Gap | At::End, ' ') => At::Gap,
            (At::Gap | At::Name, c) if c.is_ascii_alphanumeric() || "_-:".contains(c) => At::Name,
            (At::Name, '=') => At::Equals,
            (At::Equals, '"' | '\'') => At::Value(c),
            (At::Gap | At::End | At::Name | At::Equals, _) => return Fit::No,
        };
    }
    Fit::Maybe
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was let go, `|` where a marker stood, and at the end in brackets what is still held back.
    fn held(markers: &[Marker], text: &str) -> String {
        let mut hold = Hold::new(markers.to_vec(), InCode::Quoted);
        let mut seen = String::new();
        for c in text.chars() {
            if hold.push(c, &mut seen).is_some() {
                seen.push('|');
            }
        }
        format!("{seen}[{}]", hold.finish())
    }

    #[test]
    fn a_tag_is_held_back_only_while_it_may_become_one() {
        let markers = [Marker::tag("use_tool")];
        assert_eq!(held(&markers, "a <use_to"), "a [<use_to]");
        assert_eq!(held(&markers, "a <use of"), "a <use of[]");
        assert_eq!(held(&markers, "1 < 2 <<use_tool>b"), "1 < 2 <|b[]");
        assert_eq!(held(&markers, "<use_tool id=\"1\" >b"), "|b[]");
        assert_eq!(held(&markers, "<use_tool of the"), "<use_tool of the[]");
        assert_eq!(held(&markers, "<use_tools>"), "<use_tools>[]");
    }

    #[test]
    fn a_marker_in_code_is_prose() {
        let markers = [Marker::tag("use_tool")];
        assert_eq!(held(&markers, "`<use_tool>` <use_tool>"), "`<use_tool>` |[]");
        assert_eq!(held(&markers, "```\n<use_tool>\n```\n<use_tool>"), "```\n<use_tool>\n```\n|[]");
    }

    #[test]
    fn tokens_are_known_by_any_of_their_spellings() {
        let markers = [Marker::token("<｜tool▁calls▁begin｜>")];
        assert_eq!(held(&markers, "<｜tool▁calls▁begin｜><｜tool_calls_begin｜><｜tool calls"), "||[<｜tool calls]");
    }

    #[test]
    fn a_first_character_counts_only_where_the_message_begins() {
        let markers = [Marker::first('{')];
        assert_eq!(held(&markers, " {"), " |[]");
        assert_eq!(held(&markers, "a {"), "a {[]");
    }
}
