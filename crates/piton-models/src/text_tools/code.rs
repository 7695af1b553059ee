//! Which part of a Markdown text is code or quoted. A call that stands there is talked about, not made.
//!
//! Read one character at a time, and simpler than CommonMark where a stream has to be: inline code ends at the latest
//! with its line, so that a stray backtick hides nothing below it.

/// Where in a Markdown text we are.
#[derive(Debug, Clone, Default)]
pub(super) struct Code {
    open: Open,
    run: Run,
    /// Something other than white space stands on this line.
    is_line_begun: bool,
    /// This line begins with `>`, and no fence is open.
    is_quote: bool,
    /// The fence's closing run was seen; it closes if nothing else stands on its line.
    is_closing: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Open {
    #[default]
    Nothing,
    /// Between two runs of this many backticks.
    Inline(usize),
    /// On the line that opens a fence, after its run.
    Info(Fence),
    /// On the lines between the fences.
    Lines(Fence),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fence {
    mark: char,
    length: usize,
}

/// A run of backticks or tildes that may go on.
#[derive(Debug, Clone, Copy, Default)]
struct Run {
    mark: char,
    length: usize,
    /// It is the first thing on its line.
    leads: bool,
}

/// How long a run opens a fence.
const FENCE: usize = 3;

impl Code {
    /// Whether `next` stands in code, or in a quotation.
    pub(super) fn holds(&mut self, next: char) -> bool {
        self.settle(next);
        self.open != Open::Nothing || self.is_quote
    }

    /// Goes on by one character.
    pub(super) fn push(&mut self, c: char) {
        self.settle(c);
        match c {
            '`' | '~' => {
                if self.run.length == 0 {
                    self.run = Run { mark: c, length: 0, leads: !self.is_line_begun };
                }
                self.run.length += 1;
                self.is_line_begun = true;
                self.is_closing = false;
            }
            '\n' => self.end_line(),
            _ if c.is_whitespace() => {}
            _ => {
                self.is_quote |= c == '>' && !self.is_line_begun && self.open == Open::Nothing;
                self.is_line_begun = true;
                self.is_closing = false;
            }
        }
    }

    /// A run is over when something else follows; only then is it known how long it is.
    fn settle(&mut self, next: char) {
        let run = std::mem::take(&mut self.run);
        if run.length == 0 {
            return;
        }
        if run.mark == next {
            self.run = run;
            return;
        }
        let fence = Fence { mark: run.mark, length: run.length };
        self.open = match self.open {
            Open::Nothing if run.leads && run.length >= FENCE => Open::Info(fence),
            Open::Nothing if run.mark == '`' => Open::Inline(run.length),
            Open::Inline(length) if run.mark == '`' && run.length == length => Open::Nothing,
            // Backticks after backticks on one line: it was inline code all along.
            Open::Info(Fence { mark: '`', length }) if run.mark == '`' && run.length == length => Open::Nothing,
            Open::Info(Fence { mark: '`', length }) if run.mark == '`' => Open::Inline(length),
            Open::Lines(open) if run.leads && run.mark == open.mark && run.length >= open.length => {
                self.is_closing = true;
                self.open
            }
            open @ (Open::Nothing | Open::Inline(_) | Open::Info(_) | Open::Lines(_)) => open,
        };
    }

    fn end_line(&mut self) {
        self.open = match self.open {
            Open::Nothing | Open::Inline(_) => Open::Nothing,
            Open::Info(fence) => Open::Lines(fence),
            Open::Lines(_) if self.is_closing => Open::Nothing,
            Open::Lines(fence) => Open::Lines(fence),
        };
        self.is_line_begun = false;
        self.is_quote = false;
        self.is_closing = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text with every character outside code as it is, and `.` for those inside.
    fn outside(text: &str) -> String {
        let mut code = Code::default();
        let mut seen = String::new();
        for c in text.chars() {
            seen.push(if c != '\n' && code.holds(c) { '.' } else { c });
            code.push(c);
        }
        seen
    }

    #[test]
    fn inline_code_ends_with_its_run_of_backticks() {
        assert_eq!(outside("a `b` c ``d`e`` f"), "a `.. c ``..... f");
    }

    #[test]
    fn a_stray_backtick_hides_nothing_below_its_line() {
        assert_eq!(outside("it` s\n<x>"), "it`..\n<x>");
    }

    #[test]
    fn a_fence_ends_with_a_line_of_its_own() {
        assert_eq!(outside("```xml\na ``` b\n```x\n````\nc"), "```...\n.......\n....\n....\nc");
        assert_eq!(outside("  ~~~\n```\n~~~\nc"), "  ~~~\n...\n...\nc");
    }

    #[test]
    fn a_quotation_ends_with_its_line() {
        assert_eq!(outside("> a\nb > c\n  > d"), ">..\nb > c\n  >..");
    }

    #[test]
    fn three_backticks_around_a_word_are_inline_code() {
        assert_eq!(outside("```x``` y"), "```.... y");
    }
}
