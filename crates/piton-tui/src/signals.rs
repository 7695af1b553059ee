//! What the terminal is told beside the screen: its title, that work goes on, and a notice for somebody who looks elsewhere.
//! From what goes on to bytes; nothing here knows a terminal's file.
//!
//! ```text
//!   Face::standing ──► Signals::tell ──► bytes, where something is different from before
//! ```

use crate::text;
use std::fmt::Write as _;

/// So long something has to have gone on, in milliseconds, before its end is worth a notice.
pub const NOTICE_AFTER_MS: u64 = 10_000;

/// Keeps the title that was there, and brings it back.
const TITLE_KEPT: &str = "\x1b[22;0t";
const TITLE_BACK: &str = "\x1b[23;0t";
/// No work goes on.
const NO_PROGRESS: &str = "\x1b]9;4;0\x1b\\";
/// Characters of a title or a notice.
const MOST_CHARS: usize = 80;

/// What of this is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wishes {
    /// The title says what goes on.
    pub title: bool,
    /// Terminals that can show it are told that work goes on.
    pub progress: bool,
    /// How somebody is told who looks elsewhere.
    pub notice: Notice,
    /// After how long, in milliseconds.
    pub notice_after_ms: u64,
}

/// How somebody is told who looks elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// As the terminal can: in words, else by its bell.
    Auto,
    /// By its bell.
    Bell,
    /// Not at all.
    Off,
}

impl Wishes {
    /// Nothing of it: for a terminal that understands no sequences. A notice would be its bell at best.
    pub(crate) fn none() -> Self {
        Self { title: false, progress: false, notice: Notice::Off, ..Self::default() }
    }
}

impl Default for Wishes {
    fn default() -> Self {
        Self { title: true, progress: true, notice: Notice::Auto, notice_after_ms: NOTICE_AFTER_MS }
    }
}

/// What goes on, as far as somebody who looks elsewhere wants to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// What the conversation is about: its title, or its folder.
    pub about: String,
    /// What it is doing.
    pub doing: Doing,
}

/// What a conversation is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Doing {
    /// Nothing.
    Rests,
    /// It works.
    Works,
    /// It waits for an answer to this.
    Asks(String),
}

/// How words reach a terminal's notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Words {
    /// OSC 9.
    Nine,
    /// OSC 777.
    Notify,
    /// It has none that are known.
    None,
}

/// What a terminal was told last.
#[derive(Debug)]
pub struct Signals {
    wishes: Wishes,
    words: Words,
    shows_progress: bool,
    is_focused: bool,
    told: Option<Standing>,
    /// Since when it works without a pause.
    working_ms: Option<u64>,
    /// Since when a question waits that no notice was given of.
    asking_ms: Option<u64>,
}

impl Signals {
    /// A terminal that was told nothing yet.
    pub fn new(wishes: Wishes) -> Self {
        Self {
            wishes,
            words: Words::None,
            shows_progress: false,
            is_focused: true,
            told: None,
            working_ms: None,
            asking_ms: None,
        }
    }

    /// The terminal has said its name and version.
    pub fn learn(&mut self, name: &str) {
        let name = name.to_lowercase();
        let is = |known: &[&str]| known.iter().any(|known| name.starts_with(known));
        self.words = if is(&["iterm2", "wezterm", "ghostty", "kitty"]) {
            Words::Nine
        } else if is(&["foot", "vte", "rxvt", "konsole", "contour"]) {
            Words::Notify
        } else {
            Words::None
        };
        // To others the same sequence is a notice with the words `4;3`.
        self.shows_progress = is(&["wezterm", "ghostty", "iterm2 3.6", "mintty", "conemu", "windows terminal"]);
        // What goes on is told anew, to one that understands more.
        self.told = None;
    }

    /// The terminal has the focus, or has it no more.
    pub fn focus(&mut self, is_focused: bool) {
        self.is_focused = is_focused;
    }

    /// The bytes by which the terminal learns what is different; none where nothing is.
    pub fn tell(&mut self, standing: &Standing, now_ms: u64) -> String {
        if self.told.as_ref() == Some(standing) {
            return self.remind(standing, now_ms);
        }
        let mut bytes = String::new();
        let before = self.told.replace(standing.clone());
        if self.wishes.title {
            if before.is_none() {
                bytes.push_str(TITLE_KEPT);
            }
            let _ = write!(bytes, "\x1b]0;{}\x1b\\", title(standing));
        }
        let doing = |standing: &Option<Standing>| standing.as_ref().map(|standing| standing.doing.clone());
        if doing(&before).as_ref() == Some(&standing.doing) {
            return bytes + &self.remind(standing, now_ms);
        }
        if self.wishes.progress && self.shows_progress {
            bytes.push_str(match standing.doing {
                Doing::Rests => NO_PROGRESS,
                Doing::Works => "\x1b]9;4;3\x1b\\",
                Doing::Asks(_) => "\x1b]9;4;4;100\x1b\\",
            });
        }
        let worked_ms = match standing.doing {
            Doing::Works => {
                self.asking_ms = None;
                self.working_ms.get_or_insert(now_ms);
                return bytes;
            }
            Doing::Rests | Doing::Asks(_) => self.working_ms.take().map_or(0, |since| now_ms.saturating_sub(since)),
        };
        let is_told = !self.is_focused && worked_ms >= self.wishes.notice_after_ms;
        self.asking_ms = (matches!(standing.doing, Doing::Asks(_)) && !is_told).then_some(now_ms);
        if is_told {
            bytes.push_str(&self.notice(standing));
        }
        bytes
    }

    /// A notice of a question that has waited for a while, while nobody looked.
    fn remind(&mut self, standing: &Standing, now_ms: u64) -> String {
        let is_late = |since: &u64| now_ms.saturating_sub(*since) >= self.wishes.notice_after_ms;
        if self.is_focused || !self.asking_ms.as_ref().is_some_and(is_late) {
            return String::new();
        }
        self.asking_ms = None;
        self.notice(standing)
    }

    fn notice(&self, standing: &Standing) -> String {
        let words = match &standing.doing {
            Doing::Asks(what) => format!("asks: {what}"),
            Doing::Rests | Doing::Works => format!("is done: {}", standing.about),
        };
        let words = plain(&words).replace(';', ",");
        match (self.wishes.notice, self.words) {
            (Notice::Off, _) => String::new(),
            (Notice::Auto, Words::Nine) => format!("\x1b]9;piton {words}\x1b\\"),
            (Notice::Auto, Words::Notify) => format!("\x1b]777;notify;piton;{words}\x1b\\"),
            (Notice::Auto | Notice::Bell, _) => "\x07".to_owned(),
        }
    }

    /// The bytes that take back what is shown beside the screen, at the end or while somebody else has the terminal.
    pub fn end(&mut self) -> String {
        let bytes = self.undo();
        self.told = None;
        bytes
    }

    /// The same, to be kept for the case that there is no time to ask for them.
    pub fn undo(&self) -> String {
        let mut bytes = String::new();
        let Some(told) = &self.told else { return bytes };
        if self.wishes.progress && self.shows_progress && told.doing != Doing::Rests {
            bytes.push_str(NO_PROGRESS);
        }
        if self.wishes.title {
            bytes.push_str(TITLE_BACK);
        }
        bytes
    }
}

fn title(standing: &Standing) -> String {
    let sign = match standing.doing {
        Doing::Rests => "",
        Doing::Works => "● ",
        Doing::Asks(_) => "? ",
    };
    format!("{sign}piton · {}", plain(&standing.about))
}

/// Words of a model, a file or a person as part of a sequence: with nothing in them that would end it.
fn plain(words: &str) -> String {
    let line = text::clean(words).split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().filter(|char| !char.is_control()).take(MOST_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(doing: Doing) -> Standing {
        Standing { about: "fix the test".to_owned(), doing }
    }

    fn signals(name: &str) -> Signals {
        let mut signals = Signals::new(Wishes::default());
        signals.learn(name);
        signals
    }

    #[test]
    fn the_title_says_what_goes_on_and_is_given_back() {
        let mut signals = signals("XTerm(390)");
        let shown = [Doing::Works, Doing::Works, Doing::Asks("May it?".to_owned()), Doing::Rests]
            .map(|doing| signals.tell(&standing(doing), 0).replace('\x1b', "^"));
        assert_eq!(
            shown,
            [
                "^[22;0t^]0;● piton · fix the test^\\",
                "",
                "^]0;? piton · fix the test^\\",
                "^]0;piton · fix the test^\\",
            ]
        );
        assert_eq!((signals.end().as_str(), signals.end().as_str()), (TITLE_BACK, ""));
    }

    #[test]
    fn progress_is_told_to_terminals_alone_that_know_it() {
        for (name, knows) in
            [("WezTerm 2024", true), ("ghostty 1.2", true), ("tmux 3.5a", false), ("kitty(0.40)", false)]
        {
            let mut signals = signals(name);
            let bytes = signals.tell(&standing(Doing::Works), 0);
            assert_eq!(bytes.contains("\x1b]9;4;3"), knows, "{name}");
            assert_eq!(signals.end().contains(NO_PROGRESS), knows, "{name}");
        }
    }

    #[test]
    fn a_notice_comes_only_when_nobody_looks_and_only_after_a_while() {
        for (focused, took_ms, expected) in [(true, 60_000, false), (false, 9_999, false), (false, 10_000, true)] {
            let mut signals = signals("foot(1.2)");
            signals.tell(&standing(Doing::Works), 5);
            signals.focus(focused);
            let bytes = signals.tell(&standing(Doing::Rests), 5 + took_ms);
            let notice = "\x1b]777;notify;piton;is done: fix the test\x1b\\";
            assert_eq!(bytes.contains(notice), expected, "{focused} {took_ms}");
        }
    }

    #[test]
    fn a_question_that_waits_while_nobody_looks_is_told_of_once() {
        let mut signals = signals("foot(1.2)");
        let asks = standing(Doing::Asks("May it?".to_owned()));
        let is_told = |bytes: String| bytes.contains("\x1b]777;notify;piton;asks: May it?\x1b\\");
        signals.tell(&standing(Doing::Works), 0);
        // It came after a moment of work, while somebody looked.
        assert!(!is_told(signals.tell(&asks, 2_000)));
        assert!(!is_told(signals.tell(&asks, 60_000)), "somebody looks");
        signals.focus(false);
        assert!(is_told(signals.tell(&asks, 60_001)));
        assert!(!is_told(signals.tell(&asks, 99_000)), "once is enough");
        signals.tell(&standing(Doing::Works), 100_000);
        assert!(!is_told(signals.tell(&asks, 101_000)) && !is_told(signals.tell(&asks, 110_999)));
        assert!(is_told(signals.tell(&asks, 111_000)), "another question");
        signals.tell(&standing(Doing::Works), 200_000);
        assert!(is_told(signals.tell(&asks, 300_000)), "after long work, at once");
        assert!(!is_told(signals.tell(&asks, 400_000)));
    }

    #[test]
    fn a_terminal_without_words_has_its_bell_and_off_is_off() {
        for (notice, expected) in [(Notice::Auto, true), (Notice::Bell, true), (Notice::Off, false)] {
            let mut signals = Signals::new(Wishes { notice, title: false, ..Wishes::default() });
            signals.focus(false);
            signals.tell(&standing(Doing::Works), 0);
            assert_eq!(signals.tell(&standing(Doing::Asks("x".into())), 20_000) == "\x07", expected, "{notice:?}");
        }
    }

    #[test]
    fn what_a_model_calls_a_session_ends_no_sequence() {
        let mut signals = signals("WezTerm");
        let about = "a\x1b]0;evil\x07\u{9c}\nb\u{202e}".to_owned();
        let bytes = signals.tell(&Standing { about, doing: Doing::Rests }, 0);
        let inner = bytes.strip_prefix("\x1b[22;0t\x1b]0;").and_then(|rest| rest.split("\x1b\\").next()).unwrap();
        assert!(!inner.chars().any(|char| char.is_control() || char == '\u{202e}'), "{inner:?}");
    }

    #[test]
    fn nothing_is_said_where_nothing_is_wanted() {
        let wishes = Wishes { title: false, progress: false, notice: Notice::Off, ..Wishes::default() };
        let mut signals = Signals::new(wishes);
        signals.learn("ghostty");
        signals.focus(false);
        for doing in [Doing::Works, Doing::Rests] {
            assert_eq!(signals.tell(&standing(doing), 99_000), "");
        }
        assert_eq!(signals.end(), "");
    }
}
