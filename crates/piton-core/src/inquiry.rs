//! Questions that the model puts to a person by `ask_user`, as data: what is asked, which answers it may have, and what the
//! model reads of them. They are part of the call's question ([`crate::question::Question::inquiry`]), and the answer is a
//! decision of its own ([`crate::question::Decision::Answered`]). No tool runs: the outcome follows from the two, here, so
//! that an answer that is on record is never asked for again.
//!
//! This module must not know: how a question is drawn, and who is there to answer it.

pub mod planning;

pub use self::planning::Given;

use self::planning::{ASKING, EDITING, ProposedPlan};
use crate::call::{Outcome, Status};
use crate::hidden;
use crate::limits::{
    INQUIRY_ANSWER_CHARS, INQUIRY_MAX_SECONDS, INQUIRY_OPTION_CHARS, INQUIRY_OPTIONS, INQUIRY_QUESTIONS,
    INQUIRY_TEXT_CHARS,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The tool that asks a person.
pub const TOOL: &str = "ask_user";

/// Several questions to a person, asked together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inquiry {
    /// The questions, in order.
    pub questions: Vec<InquiryQuestion>,
    /// The time limit in seconds; without it, there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u32>,
    /// The plan to approve, if there is one; shown before the question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Box<ProposedPlan>>,
}

/// One question of an inquiry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InquiryQuestion {
    /// Its subject, in a word or two.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub header: String,
    /// The question.
    pub question: String,
    /// The possible answers. A person may always answer in their own words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<InquiryOption>,
    /// Whether several options may be chosen.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub several: bool,
    /// The answer if nobody gives one; empty if there is no default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub default: Vec<String>,
}

/// A possible answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InquiryOption {
    /// The answer.
    pub label: String,
    /// An explanation, if it needs one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

impl Inquiry {
    /// The question whether a plan is to be carried out.
    pub fn about(plan: String) -> Self {
        let option = |label: &str| InquiryOption { label: label.to_owned(), description: String::new() };
        let question = InquiryQuestion {
            header: "The plan".to_owned(),
            question: "Go on by this plan? Words of your own send it back.".to_owned(),
            options: vec![option(ASKING), option(EDITING)],
            ..InquiryQuestion::default()
        };
        let plan = Some(Box::new(ProposedPlan { text: plan, file: None, changed: false }));
        Self { questions: vec![question], seconds: None, plan }
    }

    /// The error, in words for the model.
    pub fn fault(&self) -> Option<String> {
        match self.questions.len() {
            0 => return Some("there is no question".to_owned()),
            many if many > INQUIRY_QUESTIONS => {
                return Some(format!("{many} questions are too many; ask at most {INQUIRY_QUESTIONS} at a time"));
            }
            _ => {}
        }
        if self.seconds.is_some_and(|seconds| seconds == 0 || seconds > INQUIRY_MAX_SECONDS) {
            return Some(format!("`seconds` is from 1 to {INQUIRY_MAX_SECONDS}"));
        }
        let fault = |(at, question): (usize, &InquiryQuestion)| Some(format!("questions[{at}]: {}", question.fault()?));
        self.questions.iter().enumerate().find_map(fault)
    }

    /// Why these words are no answer to it.
    pub fn refuses(&self, answers: &[Vec<String>]) -> Option<String> {
        if answers.len() > self.questions.len() {
            return Some(format!("there are {} answers to {} questions", answers.len(), self.questions.len()));
        }
        let long = |words: &String| words.chars().count() > INQUIRY_ANSWER_CHARS;
        if answers.iter().flatten().any(long) {
            return Some(format!("an answer is longer than {INQUIRY_ANSWER_CHARS} characters"));
        }
        let has_too_many = |(question, words): (&InquiryQuestion, &Vec<String>)| {
            let most = if question.several { INQUIRY_OPTIONS + 1 } else { 1 };
            (words.len() > most).then(|| format!("`{}` takes {most} at most", question.line()))
        };
        self.questions.iter().zip(answers).find_map(has_too_many)
    }

    /// The outcome of the call, as the model reads it.
    pub fn outcome(&self, given: Given<'_>) -> Outcome {
        if let Some(plan) = &self.plan {
            return plan.outcome(given);
        }
        let (head, answers) = match given {
            Given::Answers(answers) => ("The user answered.".to_owned(), answers),
            Given::Defaults => ("The user gave no words of their own.".to_owned(), &[][..]),
            Given::Refused(words) => {
                let said = words.map_or(String::new(), |words| format!(" They said: {words}"));
                let text = format!("The user did not want to answer.{said}");
                return Outcome::new(Status::Denied, text).with(json!({"by": "user"}));
            }
            Given::Nobody => ("Nobody is there to answer.".to_owned(), &[][..]),
            Given::TooLate => (format!("Nobody answered within {} s.", self.seconds.unwrap_or_default()), &[][..]),
        };
        let (mut text, mut facts, mut titles, mut is_open) = (head, Vec::new(), Vec::new(), false);
        for (at, question) in self.questions.iter().enumerate() {
            let said = answers.get(at).filter(|words| !words.is_empty());
            let words = said.unwrap_or(&question.default);
            let shown = match (words.as_slice(), said) {
                ([], _) => "(no answer)".to_owned(),
                (words, Some(_)) => words.join("; "),
                (words, None) => format!("{} (the default)", words.join("; ")),
            };
            is_open |= words.is_empty();
            text.push_str(&format!("\n\n{}\n→ {shown}", question.question));
            titles.push(hidden::visible_name(&shown));
            facts.push(json!({"question": question.question, "answer": words, "is_default": said.is_none()}));
        }
        if is_open {
            text.push_str(
                "\n\nWhere there is no answer, decide yourself: take what is most likely wanted and easy to take back, go \
                 on, and say at the end what you assumed.",
            );
        }
        let is_missed = matches!(given, Given::Nobody | Given::TooLate) && is_open;
        let outcome = if is_missed { Outcome::failed(text) } else { Outcome::ok(text) };
        outcome.titled(format!("{TOOL} {}", titles.join(" · "))).with(json!({ "answers": facts }))
    }
}

impl InquiryQuestion {
    /// The question on one line.
    pub fn line(&self) -> String {
        hidden::visible_name(&self.question.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// What a typed line answers: the number of an option, several numbers where several may be chosen, or words. An
    /// empty line is the default, or no answer where there is none. Fails, in words for the person, where the line
    /// can only be a slip.
    pub fn read(&self, line: &str) -> Result<Vec<String>, String> {
        let line = line.trim();
        if line.is_empty() {
            return Ok(self.default.clone());
        }
        let own_words = || Ok(vec![line.to_owned()]);
        if self.options.is_empty() {
            return own_words();
        }
        let label = |at: usize| self.options.get(at).map(|option| option.label.clone());
        if let Some(at) = self.named(line) {
            return Ok(label(at).into_iter().collect());
        }
        let pieces = || line.split([',', ' ', ';']).filter(|piece| !piece.is_empty());
        let options = self.options.len();
        if let Some(numbers) = pieces().map(|piece| piece.parse::<usize>().ok()).collect::<Option<Vec<usize>>>() {
            let (is_one, is_slip) =
                (numbers.len() == 1, numbers.iter().any(|number| *number == 0 || *number > options));
            // More than one digit is no number of an option: a port, a year.
            if is_one && is_slip && line.len() > 1 {
                return own_words();
            }
            if is_slip {
                return Err(format!("the options are 1 to {options}"));
            }
            if !is_one && !self.several {
                return Err(format!("choose one of 1 to {options}, or answer in words"));
            }
            return Ok((0..options).filter(|at| numbers.contains(&(at + 1))).filter_map(label).collect());
        }
        let named: Option<Vec<usize>> = line.split(',').map(|piece| self.named(piece.trim())).collect();
        match named.filter(|_| self.several) {
            Some(named) => Ok((0..options).filter(|at| named.contains(at)).filter_map(label).collect()),
            None => own_words(),
        }
    }

    /// The option of this label, however it is spelled.
    fn named(&self, words: &str) -> Option<usize> {
        let words = words.to_lowercase();
        self.options.iter().position(|option| option.label.to_lowercase() == words)
    }

    fn fault(&self) -> Option<String> {
        if self.question.trim().is_empty() {
            return Some("it has no text".to_owned());
        }
        let chars = self.question.chars().count().max(self.header.chars().count());
        if chars > INQUIRY_TEXT_CHARS {
            return Some(format!("it has {chars} characters; at most {INQUIRY_TEXT_CHARS} can be asked"));
        }
        if self.options.len() > INQUIRY_OPTIONS {
            return Some(format!("{} options are too many; offer at most {INQUIRY_OPTIONS}", self.options.len()));
        }
        let is_long = |words: &str| words.chars().count() > INQUIRY_OPTION_CHARS;
        for (at, option) in self.options.iter().enumerate() {
            if option.label.trim().is_empty() {
                return Some(format!("options[{at}] is empty"));
            }
            if is_long(&option.label) || is_long(&option.description) {
                return Some(format!("options[{at}] is longer than {INQUIRY_OPTION_CHARS} characters"));
            }
            if self.named(&option.label) != Some(at) {
                return Some(format!("the option `{}` is there twice", hidden::visible_name(&option.label)));
            }
        }
        if self.default.len() > 1 && !self.several {
            return Some("the default is several answers, and one is asked for".to_owned());
        }
        if self.default.iter().any(|words| words.chars().count() > INQUIRY_TEXT_CHARS) {
            return Some(format!("the default is longer than {INQUIRY_TEXT_CHARS} characters"));
        }
        let other = self.default.iter().find(|words| !self.options.is_empty() && self.named(words).is_none())?;
        Some(format!("the default `{}` is none of the options", hidden::visible_name(other)))
    }
}

/// Answers as they count: without characters that nobody sees, and without empty ones.
pub fn cleaned(answers: &[Vec<String>]) -> Vec<Vec<String>> {
    let clean = |words: &String| hidden::strip(words).0.trim().to_owned();
    let kept = |words: &Vec<String>| words.iter().map(clean).filter(|words| !words.is_empty()).collect();
    answers.iter().map(kept).collect()
}

/// The answers in one line, for people.
pub fn in_words(answers: &[Vec<String>]) -> String {
    let words = |words: &Vec<String>| match words.as_slice() {
        [] => "(no answer)".to_owned(),
        words => hidden::visible_name(&words.join(", ")),
    };
    answers.iter().map(words).collect::<Vec<_>>().join(" · ")
}

/// The questions as text, for views that do not know inquiries.
pub fn as_text(inquiry: &Inquiry) -> String {
    let question = |question: &InquiryQuestion| {
        let mut lines = vec![question.question.clone()];
        let numbered = question.options.iter().enumerate().map(|(at, option)| match option.description.as_str() {
            "" => format!("  {} {}", at + 1, option.label),
            description => format!("  {} {}: {description}", at + 1, option.label),
        });
        lines.extend(numbered);
        lines.extend((!question.default.is_empty()).then(|| format!("  default: {}", question.default.join(", "))));
        lines.join("\n")
    };
    let mut texts: Vec<String> = inquiry.plan.iter().map(|plan| plan.text.clone()).collect();
    let kept = inquiry.plan.iter().filter_map(|plan| Some(format!("(kept in {})", plan.file.as_ref()?)));
    texts.extend(kept);
    texts.extend(inquiry.questions.iter().map(question));
    let mut text = texts.join("\n\n");
    if let Some(seconds) = inquiry.seconds {
        text.push_str(&format!("\n\nWithout an answer it goes on after {seconds} s."));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn option(label: &str) -> InquiryOption {
        InquiryOption { label: label.to_owned(), description: String::new() }
    }

    fn choice(several: bool, default: &[&str]) -> InquiryQuestion {
        InquiryQuestion {
            question: "Which database?".to_owned(),
            options: vec![option("Postgres"), option("SQLite"), option("None")],
            several,
            default: default.iter().map(|words| (*words).to_owned()).collect(),
            ..InquiryQuestion::default()
        }
    }

    fn of(questions: Vec<InquiryQuestion>) -> Inquiry {
        Inquiry { questions, seconds: None, plan: None }
    }

    #[test]
    fn a_line_is_a_number_several_numbers_a_label_or_words() {
        let one = choice(false, &[]);
        let read = |line: &str| one.read(line).map(|words| words.join("|"));
        assert_eq!(read(" 2 "), Ok("SQLite".to_owned()));
        assert_eq!(read("sqlite"), Ok("SQLite".to_owned()));
        assert_eq!(read("neither, use files"), Ok("neither, use files".to_owned()));
        assert_eq!(read("5432"), Ok("5432".to_owned()), "longer than a number of an option");
        assert_eq!(read(""), Ok(String::new()));
        assert!(read("4").is_err_and(|why| why.contains("1 to 3")));
        assert!(read("0").is_err() && read("1,2").is_err_and(|why| why.contains("choose one")));
        let several = choice(true, &["None"]);
        let read = |line: &str| several.read(line).map(|words| words.join("|"));
        assert_eq!(read("2,1"), Ok("Postgres|SQLite".to_owned()), "in the order of the options, each once");
        assert_eq!(read("3 3"), Ok("None".to_owned()));
        assert_eq!(read("none, postgres"), Ok("Postgres|None".to_owned()));
        assert_eq!(read("\n"), Ok("None".to_owned()), "Enter is the default");
        assert!(read("1,9").is_err());
        let free = InquiryQuestion { question: "Which port?".to_owned(), ..InquiryQuestion::default() };
        assert_eq!(free.read("7"), Ok(vec!["7".to_owned()]), "without options a number is an answer");
    }

    #[test]
    fn what_cannot_be_asked_is_refused_in_words() {
        let fault = |question: InquiryQuestion| of(vec![question]).fault();
        let said = |fault: Option<String>, words: &str| {
            assert!(fault.as_deref().is_some_and(|why| why.contains(words)), "{fault:?}");
        };
        assert_eq!(fault(choice(false, &["SQLite"])), None);
        said(of(vec![]).fault(), "no question");
        said(of(vec![choice(false, &[]); 100]).fault(), "100 questions are too many");
        said(fault(InquiryQuestion::default()), "questions[0]: it has no text");
        said(fault(InquiryQuestion { question: "x".repeat(10_000), ..InquiryQuestion::default() }), "10000 characters");
        said(fault(InquiryQuestion { options: vec![option(" ")], ..choice(false, &[]) }), "options[0] is empty");
        said(fault(InquiryQuestion { options: vec![option("a"); 2], ..choice(false, &[]) }), "twice");
        let many: Vec<_> = (0..10).map(|at| option(&at.to_string())).collect();
        said(fault(InquiryQuestion { options: many, ..choice(false, &[]) }), "10 options are too many");
        said(fault(choice(false, &["Oracle"])), "none of the options");
        said(fault(choice(false, &["SQLite", "None"])), "several answers");
        said(Inquiry { seconds: Some(0), ..of(vec![choice(false, &[])]) }.fault(), "`seconds` is from 1");
    }

    #[test]
    fn the_model_reads_each_answer_below_its_question() {
        let inquiry = of(vec![choice(false, &[]), choice(true, &["None"])]);
        let answers = [vec!["SQLite".to_owned()], vec![]];
        assert_eq!(
            inquiry.outcome(Given::Answers(&answers)).text,
            "The user answered.\n\nWhich database?\n→ SQLite\n\nWhich database?\n→ None (the default)"
        );
        let refused = inquiry.outcome(Given::Refused(Some("ask me later")));
        assert_eq!((refused.status, refused.text.contains("They said: ask me later")), (Status::Denied, true));
    }

    #[test]
    fn where_nobody_answers_the_defaults_count_and_without_one_it_has_failed() {
        let with = of(vec![choice(false, &["SQLite"])]).outcome(Given::Nobody);
        assert_eq!(with.status, Status::Ok);
        assert_eq!(with.text, "Nobody is there to answer.\n\nWhich database?\n→ SQLite (the default)");
        let inquiry = Inquiry { seconds: Some(5), ..of(vec![choice(false, &["SQLite"]), choice(false, &[])]) };
        let without = inquiry.outcome(Given::TooLate);
        assert_eq!(without.status, Status::Failed);
        assert!(without.text.starts_with("Nobody answered within 5 s."), "{}", without.text);
        assert!(without.text.contains("SQLite (the default)") && without.text.contains("decide yourself"));
        let yes = of(vec![choice(false, &[])]).outcome(Given::Defaults);
        assert_eq!(yes.status, Status::Ok, "a person was there and left it to the model");
    }

    #[test]
    fn answers_fit_the_questions_and_hide_nothing() {
        let inquiry = of(vec![choice(false, &[]), choice(true, &[])]);
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(inquiry.refuses(&[words(&["a"]), words(&["b", "c"])]), None);
        assert_eq!(inquiry.refuses(&[]), None, "the defaults");
        assert!(inquiry.refuses(&[words(&["a", "b"])]).is_some());
        assert!(inquiry.refuses(&[vec![], vec![], vec![]]).is_some());
        assert!(inquiry.refuses(&[vec!["x".repeat(INQUIRY_ANSWER_CHARS + 1)]]).is_some());
        assert_eq!(cleaned(&[words(&[" a\u{202e}\u{1b}b ", "\u{200b}"])]), [words(&["ab"])]);
        assert_eq!(in_words(&[words(&["a", "b"]), vec![]]), "a, b · (no answer)");
    }

    #[test]
    fn an_answer_is_one_of_two_ways_to_go_on_or_words_that_send_it_back() {
        let inquiry = Inquiry::about("# Do it".to_owned());
        let answer = |line: &str| vec![inquiry.questions[0].read(line).unwrap_or_default()];
        let (ask, edit, words) = (answer("1"), answer("2"), answer("no tests yet"));
        assert_eq!(
            planning::approval(Given::Answers(&ask)),
            Some(planning::Approval::In(crate::permission::PermissionMode::Ask))
        );
        assert_eq!(
            planning::approval(Given::Answers(&edit)),
            Some(planning::Approval::In(crate::permission::PermissionMode::AcceptEdits))
        );
        assert_eq!(planning::approval(Given::Answers(&words)), None);
        assert_eq!(planning::approval(Given::Defaults), Some(planning::Approval::AsBefore), "a plain yes");
        for nothing in [Given::Answers(&[]), Given::Answers(&[vec![]]), Given::Refused(None), Given::Nobody] {
            assert_eq!(planning::approval(nothing), None, "{nothing:?}");
        }
        let outcome = inquiry.outcome(Given::Answers(&words));
        assert!(outcome.text.contains("sends the plan back: no tests yet"), "{}", outcome.text);
        assert!(!planning::is_approved(&outcome) && planning::is_approved(&inquiry.outcome(Given::Defaults)));
    }
}
