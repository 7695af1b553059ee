//! Puts questions to the person at the terminal, one at a time.
//!
//! A thread of its own reads lines, so that the turn stays alive meanwhile. A line counts only for the question that
//! was on the screen when it was typed: what was typed before is thrown away, for it may not have been meant as a yes.
//! While a person looks at a question in their pager, the session waits with them.

use crate::editor::Pager;
use crate::out::{print, view};
use crate::run::shown::Shown;
use crate::surroundings::{CONTROLLING, Terminal};
use anstyle::Style;
use piton_core::client::{Answer, Published, Wanted};
use piton_core::hidden;
use piton_core::inquiry::InquiryQuestion;
use piton_core::question::{About, Choice, Decision, Fact, Mark, Question, QuestionBlock};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use tokio::sync::mpsc::{self, UnboundedReceiver};

/// Lines of a change that are shown; of a longer one, the beginning and the end. A command is always shown whole.
const SHOWN_LINES: usize = 40;
/// Once so often something was shown over a question, it is asked whole again: it may have left the screen.
const MOST_COVERS: u32 = 6;
const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const MARKED: Style = Style::new().bold().underline();

/// The questions of one run.
pub(crate) struct Questions {
    attended: bool,
    waiting: VecDeque<Wanted>,
    open: Option<Open>,
    typist: Option<Typist>,
}

/// Where a person sits, and what shows them what does not fit on a screen.
pub(crate) struct Seat {
    pub(crate) terminal: Terminal,
    pub(crate) pager: Pager,
}

/// The person at the terminal. Lines are read one by one, when they are asked for: in between, a pager has the keys.
struct Typist {
    terminal: File,
    pager: Pager,
    wants: std::sync::mpsc::Sender<()>,
    lines: UnboundedReceiver<String>,
    /// Whether a line is being read.
    is_reading: bool,
}

/// What a person typed under a question.
pub(crate) enum Typed {
    Answer(Answer),
    /// They want to see all of what it is about.
    View,
    /// The next of several questions is to be asked, or the same one anew.
    Next,
}

/// The question on the screen.
struct Open {
    wanted: Wanted,
    about: String,
    prompt: String,
    /// How often something was shown over it since it was asked whole.
    covers: u32,
    /// What was answered so far, where it is several questions of the model's own.
    given: Vec<Vec<String>>,
}

impl Questions {
    /// No questions yet. Where nobody sits there, they answer themselves and none is ever shown.
    pub(crate) fn new(seat: Option<Seat>) -> Self {
        let typist = seat.and_then(Typist::at);
        Self { attended: typist.is_some(), waiting: VecDeque::new(), open: None, typist }
    }

    /// Whether a question is on the screen.
    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Takes notice of a question that was raised or answered.
    pub(crate) fn hear(&mut self, published: &Published) {
        match published {
            Published::Wanted(wanted) if self.attended && !self.knows(wanted) => self.waiting.push_back(wanted.clone()),
            Published::Withdrawn(subject) => self.keep(|wanted| wanted.subject != *subject),
            // After a gap: what is not among these was withdrawn meanwhile.
            Published::Now(now) => self.keep(|wanted| now.wanted.contains(wanted)),
            _ => {}
        }
    }

    fn knows(&self, wanted: &Wanted) -> bool {
        self.waiting.contains(wanted) || self.open.as_ref().is_some_and(|open| open.wanted == *wanted)
    }

    fn keep(&mut self, is_open: impl Fn(&Wanted) -> bool) {
        self.waiting.retain(&is_open);
        self.open.take_if(|open| !is_open(&open.wanted));
    }

    /// Whether a question waits for the screen, or something was shown over the one that is there.
    pub(crate) fn are_due(&self, shown: &Shown) -> bool {
        let Shown::Text(view) = shown else { return false };
        if self.open.is_some() { view.has_spoken() } else { !self.waiting.is_empty() }
    }

    /// Puts the next question on the screen, or the open one again if something was shown over it.
    pub(crate) fn show(&mut self, shown: &mut Shown) {
        let Shown::Text(view) = shown else { return };
        let was_covered = view.has_spoken();
        if let Some(open) = &mut self.open {
            if was_covered {
                open.covers += 1;
                if open.covers.is_multiple_of(MOST_COVERS) {
                    view.note(&open.about);
                }
                view.prompt(&open.prompt);
            }
            return;
        }
        let Some(wanted) = self.waiting.pop_front() else { return };
        let Some(question) = wanted.question() else { return };
        let (whole, about) = (drawn(question, usize::MAX), drawn(question, SHOWN_LINES));
        let prompt = prompt(&question.choices, whole.lines().count() > about.lines().count());
        let mut open = Open { wanted, about, prompt, covers: 0, given: Vec::new() };
        open.turn_to_next();
        view.note(&open.about);
        view.prompt(&open.prompt);
        self.open = Some(open);
        self.typist.iter_mut().for_each(Typist::listen);
    }

    /// Asks the next of several questions, or the same one anew after a slip.
    pub(crate) fn ask_next(&mut self, shown: &mut Shown) {
        let (Some(open), Some(typist), Shown::Text(view)) = (&self.open, &mut self.typist, shown) else { return };
        view.note(&open.about);
        view.prompt(&open.prompt);
        typist.listen();
    }

    /// Shows all of what the open question is about, as long as the person looks at it.
    pub(crate) fn view(&mut self, shown: &mut Shown) {
        let (Some(open), Some(typist), Shown::Text(view)) = (&self.open, &mut self.typist, shown) else { return };
        let Some(question) = open.wanted.question() else { return };
        let whole = anstream::adapter::strip_str(&drawn(question, usize::MAX)).to_string();
        if let Err(error) = typist.pager.show(&whole) {
            view.note(&format!("{whole}\n({error})"));
        }
        view.prompt(&open.prompt);
        typist.listen();
    }

    /// What is typed under the open question; `None` where nobody can answer any more. Waits for ever when there is none.
    pub(crate) async fn typed(&mut self) -> Option<Typed> {
        let (Some(open), Some(typist)) = (&mut self.open, &mut self.typist) else {
            return std::future::pending().await;
        };
        let line = typist.lines.recv().await;
        typist.is_reading = false;
        if open.asking().is_some()
            && let Some(line) = &line
        {
            let answer = open.take(line);
            if answer.is_some() {
                self.open = None;
            }
            return Some(answer.map_or(Typed::Next, Typed::Answer));
        }
        let choices = open.wanted.question().map(|question| &*question.choices).unwrap_or_default();
        if line.as_deref().is_some_and(|line| ["v", "view"].contains(&line.trim())) {
            return Some(Typed::View);
        }
        let answer = line.map(|line| Typed::Answer(open.wanted.answer(decision(&line, choices))));
        self.attended = answer.is_some();
        self.open = None;
        answer
    }
}

impl Open {
    /// The question of the model's own that is to be answered next, which one it is and of how many.
    fn asking(&self) -> Option<(&InquiryQuestion, usize, usize)> {
        let inquiry = self.wanted.question()?.inquiry.as_deref()?;
        let at = self.given.len();
        Some((inquiry.questions.get(at)?, at, inquiry.questions.len()))
    }

    /// Words the next question of the model's own, where that is what is asked.
    fn turn_to_next(&mut self) {
        let Some((question, at, of)) = self.asking() else { return };
        let plan = self.wanted.question().and_then(|question| question.inquiry.as_ref()?.plan.as_deref());
        let plan = plan.map_or(String::new(), |plan| {
            let kept = plan.file.iter().map(|file| format!("{DIM}kept in {}{DIM:#}\n", view::clean(file)));
            format!("{}\n{}", view::indent(&clean_lines(&plan.text)), kept.collect::<String>())
        });
        let (about, prompt) = (format!("{plan}{}", inquired(question, at, of)), prompt_for(question));
        (self.about, self.prompt, self.covers) = (about, prompt, 0);
    }

    /// Takes a line as the answer to the question that is asked. The answer to them all, once each has one.
    fn take(&mut self, line: &str) -> Option<Answer> {
        let (question, _, of) = self.asking()?;
        match question.read(line) {
            Ok(words) => self.given.push(words),
            Err(why) => {
                self.about = format!("{why}.");
                return None;
            }
        }
        if self.given.len() < of {
            self.turn_to_next();
            return None;
        }
        Some(self.wanted.answer(Decision::Answered(std::mem::take(&mut self.given))))
    }
}

impl Typist {
    fn at(seat: Seat) -> Option<Self> {
        let Seat { terminal, pager } = seat;
        let terminal = match terminal {
            Terminal::Stdin => std::io::stdin().as_fd().try_clone_to_owned().ok().map(File::from)?,
            Terminal::Controlling => File::open(CONTROLLING).ok()?,
        };
        let (wants, wanted) = std::sync::mpsc::channel();
        let (sender, lines) = mpsc::unbounded_channel();
        let mut reader = BufReader::new(terminal.try_clone().ok()?);
        let reads = move || {
            while let Ok(()) = wanted.recv() {
                let mut line = String::new();
                if !reader.read_line(&mut line).is_ok_and(|bytes| bytes > 0) || sender.send(line).is_err() {
                    return;
                }
            }
        };
        // Without a thread there are no lines, as where nobody is there.
        drop(std::thread::Builder::new().spawn(reads));
        Some(Self { terminal, pager, wants, lines, is_reading: false })
    }

    /// Reads the next line that is typed from here on.
    fn listen(&mut self) {
        self.forget_what_was_typed();
        if !std::mem::replace(&mut self.is_reading, true) {
            // The thread is gone where the terminal is: then there are no lines.
            let _ = self.wants.send(());
        }
    }

    fn forget_what_was_typed(&mut self) {
        // A terminal that is gone has nothing waiting in it.
        let _ = rustix::termios::tcflush(&self.terminal, rustix::termios::QueueSelector::IFlush);
        while self.lines.try_recv().is_ok() {
            self.is_reading = false;
        }
    }
}

impl Drop for Typist {
    /// What was typed without a question must not become a command of the shell.
    fn drop(&mut self) {
        self.forget_what_was_typed();
    }
}

/// What a line means. Words that are no choice are a refusal.
fn decision(line: &str, choices: &[Choice]) -> Decision {
    let line = line.trim();
    let word = line.to_lowercase();
    let is_meant = |choice: &&Choice| word == choice.name || (word.len() == 1 && choice.name.starts_with(&word));
    match choices.iter().find(is_meant) {
        Some(choice) => choice.decision.clone(),
        None => Decision::Deny(Some(line.to_owned()).filter(|line| !line.is_empty())),
    }
}

/// A question of the model's own, with the answers on offer.
fn inquired(question: &InquiryQuestion, at: usize, of: usize) -> String {
    let header = match question.header.as_str() {
        "" => "The model asks",
        header => header,
    };
    let place = if of > 1 { format!(" {DIM}({} of {of}){DIM:#}", at + 1) } else { String::new() };
    let mut text =
        format!("{BOLD}{}{BOLD:#}{place}\n{}", view::clean(header), view::indent(&clean_lines(&question.question)));
    for (at, option) in question.options.iter().enumerate() {
        let meaning = match option.description.as_str() {
            "" => String::new(),
            meaning => format!(" {DIM}{}{DIM:#}", view::clean(meaning)),
        };
        text.push_str(&format!("\n  {BOLD}{}{BOLD:#} {}{meaning}", at + 1, view::clean(&option.label)));
    }
    text
}

fn clean_lines(text: &str) -> String {
    text.lines().map(view::clean).collect::<Vec<_>>().join("\n")
}

/// The line that asks for its answer: `1-3, or your own words (Enter: SQLite): `.
fn prompt_for(question: &InquiryQuestion) -> String {
    let ways = match (question.options.len(), question.several) {
        (0, _) => "Your answer".to_owned(),
        (1, _) => "1, or your own words".to_owned(),
        (options, false) => format!("1-{options}, or your own words"),
        (options, true) => format!("one or more of 1-{options} (1,2), or your own words"),
    };
    let enter = match question.default.as_slice() {
        [] => "no answer".to_owned(),
        default => view::first_line(&default.join(", ")),
    };
    format!("{ways} (Enter: {enter}): ")
}

/// A question but for the line that asks for the answer; of texts and changes, so many lines each.
fn drawn(question: &Question, most: usize) -> String {
    let mut text = print::wrapped(&format!("{BOLD}{}{BOLD:#}", view::clean(&question.title)));
    for block in &question.body {
        let block = match block {
            QuestionBlock::Text { text } => view::indent(&cut(text.lines(), most)),
            QuestionBlock::Json { json } => view::indent(&cut(json.lines(), most)),
            QuestionBlock::Command { command, marks } => view::indent(&script(command, marks)),
            QuestionBlock::Facts { facts } => facts.iter().map(told).collect::<Vec<_>>().join("\n"),
            QuestionBlock::Diff { path: _, unified } => view::indent(&view::colour_diff(&cut(unified.lines(), most))),
            QuestionBlock::Note { text } => print::wrapped(&view::clean(text)),
        };
        text.push('\n');
        text.push_str(&block);
    }
    text
}

/// A script as it will run: what asked is marked, and what misleads is there to be seen.
fn script(command: &str, marks: &[Mark]) -> String {
    let inside = |mark: &&Mark| command.get(mark.from..mark.to).is_some();
    let (mut drawn, mut at) = (String::new(), 0);
    for Mark { from, to } in marks.iter().filter(inside) {
        drawn.push_str(&hidden::plainly(command.get(at..*from).unwrap_or_default()));
        // A mark goes on on each line that it covers.
        let marked = hidden::plainly(command.get(*from..*to).unwrap_or_default());
        let lines: Vec<String> = marked.split('\n').map(|line| format!("{MARKED}{line}{MARKED:#}")).collect();
        drawn.push_str(&lines.join("\n"));
        at = *to;
    }
    drawn + &hidden::plainly(command.get(at..).unwrap_or_default())
}

/// A fact in a line.
fn told(fact: &Fact) -> String {
    let about = match fact.about {
        About::Asked => "why",
        About::Folder => "in",
        About::Link => "link",
        About::Place => "runs",
        About::Reach => "access",
        About::Hidden => "invisible",
    };
    print::wrapped(&format!("  {DIM}{about}{DIM:#} {}", hidden::visible_line(&fact.text)))
}

/// The line that asks for the answer: `[y]es, [a]lways bash (any call in this session), [n]o (or Enter), or what to do
/// instead: `. `is_cut`: not all of what it is about is shown.
fn prompt(choices: &[Choice], is_cut: bool) -> String {
    let named = choices.iter().map(|Choice { name, label, decision, .. }| {
        let (first, rest) = name.split_at(name.chars().next().map_or(0, char::len_utf8));
        let label = if label.is_empty() { String::new() } else { format!(" {}", view::first_line(label)) };
        let enter = if *decision == Decision::Deny(None) { " (or Enter)" } else { "" };
        format!("[{first}]{rest}{label}{enter}")
    });
    let view = is_cut.then(|| "[v]iew all".to_owned());
    let named = named.chain(view);
    format!("{}, or what to do instead: ", named.collect::<Vec<_>>().join(", "))
}

fn cut<'l>(lines: impl Iterator<Item = &'l str>, most: usize) -> String {
    let mut lines: Vec<String> = lines.map(view::clean).collect();
    let more = lines.len().saturating_sub(most);
    if more > 0 {
        let mark = format!("… {} …", view::plural(more as u64, "more line"));
        lines.splice(most / 2..most / 2 + more, [mark]);
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use piton_core::client::Want;
    use piton_core::event::Subject;
    use piton_core::inquiry::{Inquiry, InquiryOption};
    use piton_core::permission::{Action, Rules};

    fn question(body: Vec<QuestionBlock>) -> Question {
        let mut remember = Rules::default();
        remember.push("bash", Action::Allow);
        Question::may_run("Run this command?", body, remember)
    }

    #[test]
    fn several_questions_are_asked_one_by_one_and_answered_together() {
        let of = |question: &str, options: &[&str], default: &[&str]| InquiryQuestion {
            question: question.into(),
            options: options
                .iter()
                .map(|label| InquiryOption { label: (*label).into(), description: String::new() })
                .collect(),
            default: default.iter().map(|words| (*words).into()).collect(),
            ..InquiryQuestion::default()
        };
        let questions =
            vec![of("Which\u{1b}[2K database?", &["Postgres", "SQLite"], &["SQLite"]), of("Why?", &[], &[])];
        let question = Question::inquire(Inquiry { questions, seconds: None, plan: None }, None);
        let wanted = Wanted { subject: Subject::Call("c1_0".into()), want: Want::Approval(Box::new(question)) };
        let mut open = Open { wanted, about: String::new(), prompt: String::new(), covers: 0, given: Vec::new() };
        open.turn_to_next();
        let about = anstream::adapter::strip_str(&open.about).to_string();
        assert_eq!(about, "The model asks (1 of 2)\n  Which\\u{1b}[2K database?\n  1 Postgres\n  2 SQLite");
        assert_eq!(open.prompt, "1-2, or your own words (Enter: SQLite): ");
        assert!(open.take("3").is_none() && open.about.contains("1 to 2"), "{}", open.about);
        assert!(open.take("1").is_none() && open.about.contains("Why?"), "{}", open.about);
        assert_eq!(open.prompt, "Your answer (Enter: no answer): ");
        let answer = open.take("it is what we run\n").unwrap();
        assert_eq!(
            answer.decision,
            Decision::Answered(vec![vec!["Postgres".into()], vec!["it is what we run".into()]])
        );
        assert!(answer.shown.is_some());
    }

    #[test]
    fn only_a_plain_yes_is_a_yes() {
        let choices = question(vec![]).choices;
        assert!(prompt(&choices, true).contains(", [v]iew all, or what"));
        assert_eq!(
            prompt(&choices, false),
            "[y]es, [a]lways bash (in this session), [n]o (or Enter), or what to do instead: "
        );
        let decision = |line| decision(line, &choices);
        assert_eq!(decision(" Y "), Decision::Approve);
        assert_eq!(decision("always"), Decision::ApproveForSession);
        assert_eq!(decision(""), Decision::Deny(None));
        assert_eq!(decision("Yes, but use git mv"), Decision::Deny(Some("Yes, but use git mv".to_owned())));
    }

    #[test]
    fn what_asks_is_marked_wherever_it_stands() {
        let command = format!("{}curl http://h\n{}", "true\n".repeat(300), "true\n".repeat(300));
        let from = command.find("curl").unwrap();
        let to = from + "curl http://h".len();
        let drawn = script(&command, &[Mark { from, to }, Mark { from: 9_000, to: 9_001 }]);
        assert!(drawn.contains(&format!("\n{MARKED}curl http://h{MARKED:#}\n")), "{drawn}");
        assert_eq!(drawn.matches(&MARKED.to_string()).count(), 1);
        let two_lines = script("if a\nb", &[Mark { from: 3, to: 6 }]);
        assert_eq!(two_lines, format!("if {MARKED}a{MARKED:#}\n{MARKED}b{MARKED:#}"));
        let facts = vec![
            Fact { about: About::Asked, text: "`rm x`: by the rule bash(rm *) (--ask)".into() },
            Fact { about: About::Hidden, text: "\u{202e}".into() },
        ];
        let told = anstream::adapter::strip_str(&drawn_of(vec![QuestionBlock::Facts { facts }])).to_string();
        assert_eq!(told, "Run this command?\n  why `rm x`: by the rule bash(rm *) (--ask)\n  invisible \\u{202e}");
    }

    fn drawn_of(body: Vec<QuestionBlock>) -> String {
        drawn(&question(body), SHOWN_LINES)
    }

    #[test]
    fn a_question_shows_what_would_happen_and_cannot_hide_it() {
        let shown = |block: QuestionBlock| {
            anstream::adapter::strip_str(&drawn(&question(vec![block]), SHOWN_LINES)).to_string()
        };
        let command = "rm -rf x\u{1b}[2K\recho harmless".to_owned();
        assert_eq!(
            shown(QuestionBlock::Command { command, marks: vec![] }),
            "Run this command?\n  rm -rf x\\u{1b}[2K\\u{d}echo harmless"
        );
        let command = "echo safe \u{202e}; touch x\u{2066} \u{200b}".to_owned();
        let told = "Run this command?\n  echo safe \\u{202e}; touch x\\u{2066} \\u{200b}";
        assert_eq!(
            shown(QuestionBlock::Command { command, marks: vec![] }),
            told,
            "what turns the order of letters is shown"
        );
        let command = format!("ls{}; rm x\n\n\n\n\n\tend ", " ".repeat(80));
        let told = "Run this command?\n  ls ⟨80 blanks⟩ ; rm x\n  ⟨4 empty lines⟩\n  → end ";
        assert_eq!(
            shown(QuestionBlock::Command { command, marks: vec![] }),
            told,
            "what pushes out of sight is counted"
        );
        let unified = "+line\n".repeat(50) + "+end";
        let diff = shown(QuestionBlock::Diff { path: "a".into(), unified });
        assert!(diff.contains("… 11 more lines …") && diff.ends_with("+end"), "{diff}");
        let command = "true\n".repeat(500);
        assert_eq!(
            shown(QuestionBlock::Command { command, marks: vec![] }).lines().count(),
            501,
            "a command is shown whole"
        );
    }
}
