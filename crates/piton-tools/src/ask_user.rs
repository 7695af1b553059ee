//! `ask_user`: puts questions to the person. The answer is theirs ([`piton_core::inquiry`]), so this tool never runs: it says what
//! is asked, and the turn waits for the answer as it waits for an approval.

use crate::plan::{Look, Plan, QuestionDraft};
use crate::tool::ToolContext;
use crate::typed::TypedTool;
use async_trait::async_trait;
use piton_core::call::{Beside, CallKind, Effects, Outcome, Planned, Resume, Touches};
use piton_core::hidden;
use piton_core::inquiry::{self, Given, Inquiry, InquiryOption, InquiryQuestion};
use piton_core::question::QuestionBlock;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The tool.
#[derive(Debug, Clone, Copy)]
pub struct AskUser;

const NAME: &str = inquiry::TOOL;

/// What the model sends.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    questions: Vec<Question>,
    seconds: Option<u32>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Question {
    question: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    header: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    options: Vec<Answer>,
    #[serde(default, alias = "multiSelect", alias = "multi_select", skip_serializing_if = "std::ops::Not::not")]
    several: bool,
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    default: Option<Words>,
}

/// A label, or one with its meaning. The model is told of labels alone, and others are taken as they come.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Answer {
    Label(String),
    Described {
        label: String,
        #[serde(default)]
        description: String,
    },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Words {
    One(String),
    Several(Vec<String>),
}

#[async_trait]
impl TypedTool for AskUser {
    type Input = Input;
    const NAME: &'static str = NAME;
    const DESCRIPTION: &'static str = "Asks the user, where you cannot decide or find out yourself. They choose an option or answer in their own words. \
         `default` counts where nobody answers (within `seconds`).";
    /// It changes nothing and waits for nothing but the person.
    const EFFECTS: Effects = Effects { resume: Resume::Rerun, beside: Beside::Any, touches: Touches::Nothing };

    fn planned(&self, input: Input, _look: &Look) -> Result<Plan, Outcome> {
        let inquiry = inquiry(input)?;
        let title = inquiry.questions.iter().map(InquiryQuestion::line).collect::<Vec<_>>().join(" · ");
        let text = inquiry::as_text(&inquiry);
        let question = QuestionDraft::new(move || ("Ask you this?".to_owned(), vec![QuestionBlock::Text { text }]));
        let planned = Planned { kind: CallKind::Other, title, accesses: Vec::new() };
        Ok(Plan { inquiry: Some(inquiry), ..Plan::of(planned, question) })
    }

    /// Only where somebody runs tools without a turn that asks: there is nobody.
    async fn act(&self, input: Input, _cx: &ToolContext) -> Outcome {
        inquiry(input).map_or_else(|refused| refused, |inquiry| inquiry.outcome(Given::Nobody))
    }
}

/// What is asked, in characters that show.
fn inquiry(input: Input) -> Result<Inquiry, Outcome> {
    let clean = |text: &str| hidden::visible(hidden::strip(text).0.trim()).into_owned();
    let line = |text: &str| hidden::visible_line(&clean(text).split_whitespace().collect::<Vec<_>>().join(" "));
    let option = |answer: Answer| match answer {
        Answer::Label(label) => InquiryOption { label: line(&label), description: String::new() },
        Answer::Described { label, description } => {
            InquiryOption { label: line(&label), description: line(&description) }
        }
    };
    let question = |asked: Question| {
        let options: Vec<InquiryOption> = asked.options.into_iter().map(option).collect();
        let default = match asked.default {
            None => Vec::new(),
            Some(Words::One(words)) => vec![line(&words)],
            Some(Words::Several(words)) => words.iter().map(|words| line(words)).collect(),
        };
        // A default is spelled as its option is.
        let spelled = |words: String| {
            let same = options.iter().find(|option| option.label.to_lowercase() == words.to_lowercase());
            same.map_or(words, |option| option.label.clone())
        };
        let default = default.into_iter().filter(|words| !words.is_empty()).map(spelled).collect();
        InquiryQuestion {
            header: line(&asked.header),
            question: clean(&asked.question),
            options,
            several: asked.several,
            default,
        }
    };
    let questions = input.questions.into_iter().map(question).collect();
    let inquiry = Inquiry { questions, seconds: input.seconds, plan: None };
    match inquiry.fault() {
        Some(fault) => Err(Outcome::failed(format!("{NAME}: {fault}. Nobody was asked."))),
        None => Ok(inquiry),
    }
}
