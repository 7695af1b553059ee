//! What MCP servers ask while their tools run: a person answers, where one is there, or a model does (`sampling.rs`). Question and
//! answer are put on record together once it is answered: a call that is cut off is interrupted, and its question with it.

use crate::bus::Bus;
use crate::error::EngineError;
use crate::inbox::{Asked, WeakInbox};
use crate::sampling::{ByRule, Sampler};
use crate::settings::Attendance;
use async_trait::async_trait;
use piton_core::client::{Want, Wanted};
use piton_core::event::{Event, Subject};
use piton_core::hidden;
use piton_core::ids::CallId;
use piton_core::inquiry::{self, Inquiry, InquiryOption, InquiryQuestion};
use piton_core::limits::{INQUIRY_OPTION_CHARS, INQUIRY_OPTIONS, INQUIRY_QUESTIONS, INQUIRY_TEXT_CHARS};
use piton_core::question::{Decision, Question};
use piton_core::server_tool;
use piton_tools::servers::{Elicitation, ElicitationAnswer, ServerClient};
use serde_json::{Map, Value};
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// How often it is looked whether somebody is there who can answer.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Questions of one call that reach a person; the others are declined.
const MOST_QUESTIONS: u32 = 8;
/// How often a person is asked again whose answer does not fit.
const ROUNDS: usize = 3;
/// Model calls that a server may ask for during one call.
const MOST_SAMPLED: u32 = 32;
/// The answer by which a person says that they have opened an address.
const OPENED: &str = "I have opened it";
/// The other answer.
const NO: &str = "no";

/// The questions of servers that are open in a session.
#[derive(Debug, Default)]
pub(crate) struct Elicitations {
    open: Mutex<Vec<Open>>,
    /// Held by the server that asks a model.
    pub(crate) sampling: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug)]
struct Open {
    wanted: Wanted,
    answer: AnswerTo,
}

/// Takes an answer to whoever asked, and what tells that it is on record.
type AnswerTo = oneshot::Sender<(Decision, oneshot::Receiver<()>)>;

impl Elicitations {
    fn lock(&self) -> MutexGuard<'_, Vec<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes out the question that is answered, and where the answer goes. `shown` names the question that was seen.
    pub(crate) fn answer(
        &self,
        subject: &Subject,
        decision: &Decision,
        shown: Option<&str>,
    ) -> Result<(Question, AnswerTo), EngineError> {
        let mut all = self.lock();
        let gone = || EngineError::NoAnswer("the server does not ask this any more".to_owned());
        let is_meant = |open: &Open| open.wanted.subject == *subject && !open.answer.is_closed();
        let at = all.iter().position(is_meant).ok_or_else(gone)?;
        let Want::Approval(question) = &all[at].wanted.want else { return Err(gone()) };
        if shown.is_some_and(|shown| shown != question.shown) {
            return Err(EngineError::OtherQuestion { subject: subject.clone() });
        }
        if let Some(why) = question.refuses(decision) {
            return Err(EngineError::NoAnswer(why));
        }
        let question = Question::clone(question);
        Ok((question, all.remove(at).answer))
    }
}

/// Who answers what a server asks while one call runs.
pub(crate) struct CallClient {
    pub(crate) call: CallId,
    pub(crate) bus: Bus,
    pub(crate) open: Arc<Elicitations>,
    pub(crate) inbox: WeakInbox,
    pub(crate) attendance: Attendance,
    /// Cancelled when the call shall stop.
    pub(crate) stop: CancellationToken,
    /// What servers ask models with; `None`: it is no call of a server's tool.
    pub(crate) sampler: Option<Arc<Sampler>>,
    /// Its span, where the session is traced.
    pub(crate) traceparent: Option<String>,
    /// What the server wanted to know, and how often somebody was asked for it.
    questions: AtomicU32,
    asked: AtomicU32,
    sampled: AtomicU32,
}

impl fmt::Debug for CallClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CallClient").field(&self.call).finish()
    }
}

/// Takes a question back, however it ends.
struct Withdraw<'c>(&'c CallClient, &'c Subject);

impl Drop for Withdraw<'_> {
    fn drop(&mut self) {
        self.0.open.lock().retain(|open| open.wanted.subject != *self.1);
        self.0.bus.no_longer_wants(self.1);
    }
}

impl CallClient {
    pub(crate) fn new(
        call: CallId,
        bus: Bus,
        open: Arc<Elicitations>,
        inbox: WeakInbox,
        attendance: Attendance,
        stop: CancellationToken,
    ) -> Self {
        let (questions, asked, sampled) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
        Self { call, bus, open, inbox, attendance, stop, sampler: None, traceparent: None, questions, asked, sampled }
    }

    /// The same for a call of a server's tool.
    pub(crate) fn for_server(self, sampler: Sampler, traceparent: Option<String>) -> Self {
        Self { sampler: Some(Arc::new(sampler)), traceparent, ..self }
    }

    fn is_attended(&self) -> bool {
        self.attendance == Attendance::Attended || self.bus.is_attended()
    }

    /// Asks, and waits for the answer. `None`: nobody is there, or the call was stopped.
    async fn ask(&self, question: Question) -> Option<Decision> {
        let number = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        let subject = Subject::Elicited { call: self.call.clone(), number };
        let wanted = Wanted { subject: subject.clone(), want: Want::Approval(Box::new(question)) };
        let (answer, mut answered) = oneshot::channel();
        self.open.lock().push(Open { wanted: wanted.clone(), answer });
        let withdraw = Withdraw(self, &subject);
        self.bus.wants_more(vec![wanted]);
        let mut looks = tokio::time::interval(LOOK_EVERY);
        let answer = loop {
            tokio::select! {
                biased;
                answer = &mut answered => break answer.ok(),
                () = self.stop.cancelled() => break None,
                _ = looks.tick() => if !self.is_attended() { break None },
            }
        };
        drop(withdraw);
        let (decision, recorded) = answer?;
        tokio::select! {
            // What a person has answered counts, whether that can be written or not.
            _ = recorded => {}
            () = self.stop.cancelled() => {}
        }
        Some(decision)
    }

    /// Has events recorded, and waits until they are durable.
    async fn record(&self, events: Vec<Event>) -> Result<(), String> {
        let (done, recorded) = oneshot::channel();
        let gone = || "the session cannot record it any more".to_owned();
        self.inbox.put(Asked::Record(events, done)).map_err(|_| gone())?;
        tokio::select! {
            recorded = recorded => recorded.map_err(|_| gone()),
            () = self.stop.cancelled() => Err("the call was stopped".to_owned()),
        }
    }

    async fn form(&self, server: &str, message: &str, schema: &Value) -> ElicitationAnswer {
        let Some(form) = Form::of(schema) else { return ElicitationAnswer::Decline };
        let mut again = None;
        for _ in 0..ROUNDS {
            let question = form.question(server, message, again.take());
            match self.ask(question).await {
                None => return ElicitationAnswer::Cancel,
                Some(Decision::Answered(answers)) if form.is_refused(&answers) => return ElicitationAnswer::Decline,
                Some(Decision::Answered(answers)) => match form.read(&inquiry::cleaned(&answers)) {
                    Ok(values) => return ElicitationAnswer::Accept(values),
                    Err(why) => again = Some(why),
                },
                Some(Decision::Approve | Decision::ApproveForSession | Decision::ApproveLasting(_)) => {
                    match form.read(&[]) {
                        Ok(values) => return ElicitationAnswer::Accept(values),
                        Err(why) => again = Some(why),
                    }
                }
                Some(_) => return ElicitationAnswer::Decline,
            }
        }
        ElicitationAnswer::Decline
    }

    async fn address(&self, server: &str, message: &str, url: &str) -> ElicitationAnswer {
        let option = |label: &str| InquiryOption { label: label.to_owned(), description: String::new() };
        // Whole: a person looks at where it leads.
        let text = format!("{}\n\n{}", hidden::visible(message), hidden::visible(url));
        let question = InquiryQuestion {
            header: header(server),
            question: text,
            options: vec![option(OPENED), option(NO)],
            ..InquiryQuestion::default()
        };
        let inquiry = Inquiry { questions: vec![question], seconds: None, plan: None };
        match self.ask(Question::inquire(inquiry, [])).await {
            None => ElicitationAnswer::Cancel,
            Some(Decision::Answered(answers)) if answers.iter().flatten().any(|words| words == OPENED) => {
                ElicitationAnswer::Accept(Value::Null)
            }
            Some(Decision::Approve) => ElicitationAnswer::Accept(Value::Null),
            Some(_) => ElicitationAnswer::Decline,
        }
    }
}

#[async_trait]
impl ServerClient for CallClient {
    async fn elicit(&self, server: &str, elicitation: Elicitation) -> Option<ElicitationAnswer> {
        if !self.is_attended() {
            return None;
        }
        if self.questions.fetch_add(1, Ordering::Relaxed) >= MOST_QUESTIONS {
            return Some(ElicitationAnswer::Decline);
        }
        Some(match elicitation {
            Elicitation::Form { message, schema } => self.form(server, &message, &schema).await,
            Elicitation::Url { message, url } => self.address(server, &message, &url).await,
        })
    }

    async fn sample(&self, server: &str, request: Value) -> Result<Value, String> {
        let sampler = self.sampler.as_ref().ok_or("no call of a tool of yours is under way")?;
        if self.sampled.fetch_add(1, Ordering::Relaxed) >= MOST_SAMPLED {
            return Err(format!("one call of a tool may ask models {MOST_SAMPLED} times"));
        }
        let prompt = sampler.read(&request)?;
        match sampler.by_rule(server) {
            ByRule::Allowed => {}
            ByRule::Denied => return Err("a rule of the user's forbids it".to_owned()),
            ByRule::Open if !self.is_attended() => {
                let rule = server_tool::sampling(server);
                return Err(format!("nobody is there to allow it, and no rule does; the user can allow {rule}"));
            }
            ByRule::Open if self.questions.fetch_add(1, Ordering::Relaxed) >= MOST_QUESTIONS => {
                return Err("the user is not asked more often during one call".to_owned());
            }
            ByRule::Open => match self.ask(sampler.question(server, &prompt)).await {
                Some(decision) if decision.is_yes() => {}
                _ => return Err("the user declined".to_owned()),
            },
        }
        Arc::clone(sampler).ask(self.call.clone(), server.to_owned(), prompt, self.stop.clone()).await
    }

    fn traceparent(&self) -> Option<String> {
        self.traceparent.clone()
    }

    async fn task_begun(&self, handle: &Value) -> Result<(), String> {
        self.record(vec![Event::ServerTask { call: self.call.clone(), handle: handle.clone() }]).await
    }
}

fn header(server: &str) -> String {
    format!("The server {server} asks you")
}

/// The fields that a server asks for, in order.
struct Form(Vec<Field>);

struct Field {
    name: String,
    question: InquiryQuestion,
    kind: Kind,
    is_required: bool,
}

/// What a field holds. Of a choice, each label with its value.
enum Kind {
    Text,
    Number,
    Whole,
    Truth,
    Choice(Vec<(String, Value)>),
    Choices(Vec<(String, Value)>),
}

impl Form {
    /// `None`: it asks for what cannot be asked.
    fn of(schema: &Value) -> Option<Self> {
        let fields = schema.get("properties").and_then(Value::as_object)?;
        let required: Vec<&str> =
            schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        let field = |(name, schema): (&String, &Value)| Field::of(name, schema, required.contains(&name.as_str()));
        let fields = fields.iter().map(field).collect::<Option<Vec<Field>>>()?;
        (fields.len() <= INQUIRY_QUESTIONS).then_some(Self(fields))
    }

    fn question(&self, server: &str, message: &str, again: Option<String>) -> Question {
        let message = hidden::visible(message).into_owned();
        let mut questions: Vec<InquiryQuestion> = self.0.iter().map(|field| field.question.clone()).collect();
        // A form without fields asks whether to go on.
        if questions.is_empty() {
            let option = |label: &str| InquiryOption { label: label.to_owned(), description: String::new() };
            let options = vec![option("yes"), option(NO)];
            questions.push(InquiryQuestion { question: "Go on?".to_owned(), options, ..InquiryQuestion::default() });
        }
        questions.iter_mut().for_each(|question| question.header = header(server));
        let again = again.map_or(String::new(), |why| format!("\n({why})"));
        questions[0].question = format!("{message}{again}\n\n{}", questions[0].question);
        Question::inquire(Inquiry { questions, seconds: None, plan: None }, [])
    }

    /// Whether it only asks whether to go on, and the answer is no.
    fn is_refused(&self, answers: &[Vec<String>]) -> bool {
        let said = answers.iter().flatten().next();
        self.0.is_empty() && said.is_some_and(|word| word.trim().eq_ignore_ascii_case(NO))
    }

    fn read(&self, answers: &[Vec<String>]) -> Result<Value, String> {
        let mut values = Map::new();
        for (at, field) in self.0.iter().enumerate() {
            let said = answers.get(at).filter(|words| !words.is_empty()).unwrap_or(&field.question.default);
            match field.read(said)? {
                Some(value) => drop(values.insert(field.name.clone(), value)),
                None if field.is_required => return Err(format!("{} is required", field.shown())),
                None => {}
            }
        }
        Ok(Value::Object(values))
    }
}

impl Field {
    fn of(name: &str, schema: &Value, is_required: bool) -> Option<Self> {
        let text = |key: &str| schema.get(key).and_then(Value::as_str).map(|text| cut(text, INQUIRY_TEXT_CHARS / 2));
        let kind = match schema.get("type").and_then(Value::as_str) {
            Some("string") => choices(schema).map_or(Kind::Text, Kind::Choice),
            Some("number") => Kind::Number,
            Some("integer") => Kind::Whole,
            Some("boolean") => Kind::Truth,
            Some("array") => Kind::Choices(choices(schema.get("items")?)?),
            None => Kind::Choice(choices(schema)?),
            Some(_) => return None,
        };
        let options: Vec<String> = match &kind {
            Kind::Choice(all) | Kind::Choices(all) => all.iter().map(|(label, _)| label.clone()).collect(),
            Kind::Truth => vec!["yes".to_owned(), "no".to_owned()],
            Kind::Text | Kind::Number | Kind::Whole => Vec::new(),
        };
        if options.len() > INQUIRY_OPTIONS {
            return None;
        }
        let default = match (schema.get("default"), &kind) {
            (Some(Value::Bool(is_so)), Kind::Truth) => vec![if *is_so { "yes" } else { "no" }.to_owned()],
            (Some(Value::String(text)), Kind::Text) => vec![cut(text, INQUIRY_TEXT_CHARS)],
            (Some(value @ Value::Number(_)), Kind::Number | Kind::Whole) => vec![value.to_string()],
            (Some(value), Kind::Choice(all)) => {
                all.iter().filter(|(_, other)| other == value).map(|(label, _)| label.clone()).collect()
            }
            _ => Vec::new(),
        };
        let said: Vec<String> =
            [text("title").or(Some(cut(name, 100))), text("description")].into_iter().flatten().collect();
        let optional = if is_required { "" } else { " (may be left out)" };
        let question = InquiryQuestion {
            header: String::new(),
            question: format!("{}{optional}", said.join(": ")),
            several: matches!(kind, Kind::Choices(_)),
            options: options.into_iter().map(|label| InquiryOption { label, description: String::new() }).collect(),
            default,
        };
        Some(Self { name: name.to_owned(), question, kind, is_required })
    }

    fn shown(&self) -> String {
        hidden::visible_name(&self.name)
    }

    /// The value that was answered; nothing where it was left out.
    fn read(&self, said: &[String]) -> Result<Option<Value>, String> {
        let Some(first) = said.first() else { return Ok(None) };
        let no = |what: &str| Err(format!("{} is {what}", self.shown()));
        let of = |all: &[(String, Value)], word: &String| {
            let found = all.iter().find(|(label, _)| label.eq_ignore_ascii_case(word));
            found.map(|(_, value)| value.clone()).ok_or(format!("{} is one of the options", self.shown()))
        };
        match &self.kind {
            Kind::Text => Ok(Some(Value::from(first.as_str()))),
            Kind::Number => match first.trim().parse::<f64>().ok().and_then(serde_json::Number::from_f64) {
                Some(number) => Ok(Some(Value::Number(number))),
                None => no("a number"),
            },
            Kind::Whole => {
                first.trim().parse::<i64>().map_or_else(|_| no("a whole number"), |number| Ok(Some(number.into())))
            }
            Kind::Truth => match first.trim().to_lowercase().as_str() {
                "yes" | "y" | "true" => Ok(Some(true.into())),
                "no" | "n" | "false" => Ok(Some(false.into())),
                _ => no("yes or no"),
            },
            Kind::Choice(all) => of(all, first).map(Some),
            Kind::Choices(all) => said
                .iter()
                .map(|word| of(all, word))
                .collect::<Result<Vec<Value>, String>>()
                .map(|all| Some(Value::Array(all))),
        }
    }
}

/// The values to choose from, each with what it is called.
fn choices(schema: &Value) -> Option<Vec<(String, Value)>> {
    let label = |value: &Value| cut(value.as_str()?, INQUIRY_OPTION_CHARS).into();
    if let Some(all) = schema.get("enum").and_then(Value::as_array) {
        let names = schema.get("enumNames").and_then(Value::as_array);
        let named = all.iter().enumerate().map(|(at, value)| {
            let name: Option<String> = names.and_then(|names| names.get(at)).and_then(label).or_else(|| label(value));
            Some((name?, value.clone()))
        });
        return named.collect();
    }
    let all = schema.get("oneOf").or(schema.get("anyOf")).and_then(Value::as_array)?;
    let named = all.iter().map(|one| {
        let value = one.get("const")?.clone();
        let name: Option<String> = one.get("title").and_then(label).or_else(|| label(&value));
        Some((name?, value))
    });
    named.collect()
}

fn cut(text: &str, most: usize) -> String {
    hidden::visible(text.trim()).chars().take(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn form(schema: &Value) -> Form {
        Form::of(schema).expect("a form")
    }

    fn read(form: &Form, answers: &[&[&str]]) -> Result<Value, String> {
        let words = |words: &&[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        form.read(&answers.iter().map(words).collect::<Vec<_>>())
    }

    #[test]
    fn answers_become_values_of_the_fields_kinds() {
        let form = form(&json!({
            "type": "object",
            "properties": {
                "a_name": {"type": "string", "title": "Your name"},
                "b_age": {"type": "integer", "default": 7},
                "c_sure": {"type": "boolean"},
                "d_size": {"type": "string", "enum": ["s", "l"], "enumNames": ["small", "large"]},
                "e_tags": {"type": "array", "items": {"anyOf": [{"const": "x", "title": "X"}, {"const": "y"}]}},
                "f_rate": {"type": "number"},
            },
            "required": ["a_name", "c_sure"],
        }));
        let all: &[&[&str]] = &[&["Ann"], &[], &["Yes"], &["LARGE"], &["x", "y"], &["0.5"]];
        let wanted =
            json!({"a_name": "Ann", "b_age": 7, "c_sure": true, "d_size": "l", "e_tags": ["x", "y"], "f_rate": 0.5});
        assert_eq!(read(&form, all), Ok(wanted));
        assert_eq!(read(&form, &[&["Ann"]]), Err("c_sure is required".to_owned()));
        assert_eq!(read(&form, &[&["Ann"], &["old"], &["no"]]), Err("b_age is a whole number".to_owned()));
        assert_eq!(read(&form, &[&["Ann"], &[], &["no"], &["huge"]]), Err("d_size is one of the options".to_owned()));
    }

    #[test]
    fn each_question_of_a_form_says_who_asks() {
        let form = form(&json!({"properties": {"a": {"type": "string"}, "b": {"type": "boolean"}}}));
        let asked = form.question("shop", "More, please", None);
        let inquiry = asked.inquiry.expect("questions");
        let headers: Vec<&str> = inquiry.questions.iter().map(|question| question.header.as_str()).collect();
        assert_eq!(headers, ["The server shop asks you"; 2]);
    }

    #[test]
    fn what_cannot_be_asked_is_no_form() {
        let deep = json!({"properties": {"a": {"type": "object"}}});
        let many: Map<String, Value> = (0..11).map(|n| (format!("f{n}"), json!({"type": "string"}))).collect();
        for schema in [json!({}), deep, json!({"properties": many})] {
            assert!(Form::of(&schema).is_none(), "{schema}");
        }
        assert_eq!(read(&form(&json!({"properties": {}})), &[&["yes"]]), Ok(json!({})));
    }
}
