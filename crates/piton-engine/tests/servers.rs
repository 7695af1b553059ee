//! MCP servers in a session: started beside the first request, told of in reminders, asked back, closed at the end.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use crate::support::{Home, call, cassette, recorded, says};
use piton_core::call::Status;
use piton_core::client::{Compact, Published, Wanted};
use piton_core::event::{Event, GivenKind, Sampled, Subject};
use piton_core::message::Message;
use piton_core::model::Request;
use piton_core::permission::Action;
use piton_core::question::{Decision, QuestionBlock};
use piton_engine::engine::{Attendance, Settings};
use piton_engine::otel;
use piton_models::model::{Model, ModelLimits, ModelStream, Price};
use piton_models::recorded::Recorded;
use piton_testkit::servers::{Part, PlayedServers};
use piton_tools::servers::Elicitation;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

fn with(servers: &Arc<PlayedServers>, lines: &[Value]) -> Settings {
    let mut settings = cassette(lines);
    settings.tools = settings.tools.with_servers(servers.clone());
    settings
}

fn outcomes(events: &[Event]) -> Vec<(Status, String)> {
    let of = |event: &Event| match event {
        Event::CallSettled { outcome, .. } => Some((outcome.status, outcome.text.clone())),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

#[tokio::test]
async fn servers_start_beside_the_first_request_are_told_of_and_closed() {
    let home = Home::new();
    let servers = PlayedServers::new([Part::ready("db", ["query"]), Part::hanging("slow")]);
    let query = json!({"name": "mcp__db__query", "arguments": {"text": "x"}});
    let session =
        home.create(with(&servers, &[call("list", &json!({})), call("call_tool", &query), says("done")])).await;
    assert_eq!(servers.log(), Vec::<String>::new(), "nothing is started before somebody speaks");
    session.prompt("go").await.unwrap();
    let events: Vec<Event> = session.records().await.unwrap().into_iter().map(|record| record.event).collect();
    let told: Vec<usize> = events
        .iter()
        .filter_map(|event| match event {
            Event::ContextGiven { items } => Some(items.iter().filter(|item| item.kind == GivenKind::Servers).count()),
            _ => None,
        })
        .collect();
    assert_eq!(told.iter().sum::<usize>(), 1, "that db is ready is told once: {told:?}");
    let notes: Vec<&String> = events
        .iter()
        .filter_map(|event| match event {
            Event::StepStarted { note: Some(note), .. } => Some(note),
            _ => None,
        })
        .collect();
    assert!(notes.iter().any(|note| note.contains("- db: 1 tool, mcp__db__query")), "{notes:?}");
    assert_eq!(outcomes(&events)[1], (Status::Ok, r#"db did query with {"text":"x"}."#.to_owned()));
    session.close().await;
    let log = servers.log();
    assert_eq!((log.first().unwrap().as_str(), log.last().unwrap().as_str()), ("start", "close"), "{log:?}");
}

#[tokio::test]
async fn what_is_left_out_of_a_server_is_told_once() {
    let home = Home::new();
    let servers = PlayedServers::new([Part::ready("db", ["query"]).without("the tool drop was left out: its schema")]);
    let lines = [call("list", &json!({})), call("list", &json!({})), call("list", &json!({})), says("done")];
    let session = home.create(with(&servers, &lines)).await;
    session.prompt("go").await.unwrap();
    let events: Vec<Event> = session.records().await.unwrap().into_iter().map(|record| record.event).collect();
    session.close().await;
    let told = events.iter().filter(|event| match event {
        Event::StepStarted { note: Some(note), .. } => note.contains("the tool drop was left out: its schema"),
        _ => false,
    });
    assert_eq!(told.count(), 1);
}

#[tokio::test]
async fn the_handle_of_a_task_is_on_record_before_it_is_asked_for() {
    let home = Home::new();
    let servers = PlayedServers::new([Part::ready("db", ["task"])]);
    let session = home.create(with(&servers, &[call("mcp__db__task", &json!({})), says("done")])).await;
    session.prompt("go").await.unwrap();
    let events: Vec<Event> = session.records().await.unwrap().into_iter().map(|record| record.event).collect();
    let at = |wanted: &dyn Fn(&Event) -> bool| events.iter().position(wanted);
    let task = at(&|event| matches!(event, Event::ServerTask { handle, .. } if *handle == json!({"task": "t1"})));
    let settled = at(&|event| matches!(event, Event::CallSettled { .. }));
    assert!(task.is_some() && task < settled, "{events:?}");
    session.close().await;
}

/// What a call that asks a person comes to, where they decide so; and what is on record of it.
async fn asked(elicitation: Elicitation, decision: Option<Decision>) -> (String, Vec<Event>, Option<Wanted>) {
    let servers = PlayedServers::new([Part::ready("db", ["query"])]);
    servers.ask(elicitation);
    decided(with(&servers, &[call("mcp__db__query", &json!({})), says("done")]), decision).await
}

/// What the one call of a session comes to, in which a person answers every question so.
async fn decided(mut settings: Settings, decision: Option<Decision>) -> (String, Vec<Event>, Option<Wanted>) {
    let home = Home::new();
    if decision.is_some() {
        settings.attendance = Attendance::Attended;
    }
    let session = home.create(settings).await;
    let mut heard = session.subscribe(1);
    let answering = async {
        let decision = decision?;
        loop {
            match heard.next().await.unwrap() {
                Some(Published::Wanted(wanted)) => {
                    session.answer(wanted.answer(decision)).await.unwrap();
                    return Some(wanted);
                }
                Some(_) => {}
                None => return None,
            }
        }
    };
    let (report, wanted) = tokio::join!(session.prompt("go"), answering);
    report.unwrap();
    let events: Vec<Event> = session.records().await.unwrap().into_iter().map(|record| record.event).collect();
    session.close().await;
    (outcomes(&events).remove(0).1, events, wanted)
}

#[tokio::test]
async fn what_a_server_asks_a_person_answers_with_its_name_on_it() {
    let schema = json!({"type": "object", "properties": {"port": {"type": "integer"}}, "required": ["port"]});
    let form = || Elicitation::Form { message: "Where is it?".into(), schema: schema.clone() };
    let answer = Decision::Answered(vec![vec!["8080".into()]]);
    let (text, events, wanted) = asked(form(), Some(answer)).await;
    assert!(text.ends_with(r#"The person said {"port":8080}."#), "{text}");
    let wanted = wanted.unwrap();
    let question = wanted.question().unwrap();
    assert_eq!(question.title, "The server db asks you");
    assert!(question.inquiry.as_ref().unwrap().questions[0].question.starts_with("Where is it?"));
    let is_asked =
        |event: &&Event| matches!(event, Event::ApprovalAsked { subject: Subject::Elicited { number: 1, .. }, .. });
    let is_given =
        |event: &&Event| matches!(event, Event::ApprovalGiven { subject: Subject::Elicited { number: 1, .. }, .. });
    assert_eq!((events.iter().filter(is_asked).count(), events.iter().filter(is_given).count()), (1, 1));
    let (text, ..) = asked(form(), Some(Decision::Deny(None))).await;
    assert!(text.ends_with("The person declined."), "{text}");
    let bare = Elicitation::Form { message: "Sure?".into(), schema: json!({"type": "object", "properties": {}}) };
    let (text, ..) = asked(bare, Some(Decision::Answered(vec![vec!["no".into()]]))).await;
    assert!(text.ends_with("The person declined."), "{text}");
    let url = "https://login.example/a?b=c";
    let address = Elicitation::Url { message: "Log in.".into(), url: url.into() };
    let (text, _, wanted) = asked(address, Some(Decision::Answered(vec![vec!["I have opened it".into()]]))).await;
    assert!(text.ends_with("The person said null."), "{text}");
    let wanted = wanted.unwrap();
    assert!(
        wanted.question().unwrap().inquiry.as_ref().unwrap().questions[0].question.contains(url),
        "it is shown whole"
    );
}

#[tokio::test]
async fn a_server_asks_a_person_eight_times_in_a_call_and_no_more() {
    let home = Home::new();
    let servers = PlayedServers::new([Part::ready("db", ["nags"])]);
    let schema = json!({"type": "object", "properties": {}});
    servers.ask(Elicitation::Form { message: "Sure?".into(), schema });
    let mut settings = with(&servers, &[call("mcp__db__nags", &json!({})), says("done")]);
    settings.attendance = Attendance::Attended;
    let session = home.create(settings).await;
    let mut heard = session.subscribe(1);
    let answering = async {
        while let Some(published) = heard.next().await.unwrap() {
            if let Published::Wanted(wanted) = published {
                session.answer(wanted.answer(Decision::Answered(vec![vec!["yes".into()]]))).await.unwrap();
            }
        }
    };
    tokio::select! {
        report = session.prompt("go") => drop(report.unwrap()),
        () = answering => panic!("the session goes on"),
    }
    session.close().await;
    let log = servers.log();
    let count = |what: &str| log.iter().filter(|line| *line == what).count();
    assert_eq!((count("accepted"), count("declined")), (8, 12), "{log:?}");
}

#[tokio::test]
async fn where_nobody_is_what_a_server_asks_is_declined() {
    let schema = json!({"type": "object", "properties": {}});
    let (text, events, _) = asked(Elicitation::Form { message: "Sure?".into(), schema }, None).await;
    assert!(text.ends_with("Nobody was there."), "{text}");
    assert!(!events.iter().any(|event| matches!(event, Event::ApprovalAsked { .. })), "{events:?}");
}

/// A session whose server asks a model during its call, by these rules.
fn sampling(request: &Value, rules: &[(&str, Action)]) -> Settings {
    let servers = PlayedServers::new([Part::ready("db", ["query"])]);
    servers.sample(request.clone());
    let mut settings = with(&servers, &[]);
    settings.model = Arc::new(Watched::new(&[used(call("mcp__db__query", &json!({}))), used(says("done"))]));
    rules.iter().for_each(|(rule, action)| settings.policy.permission.push(*rule, *action));
    settings
}

/// The same reply, whose tokens the provider has counted.
fn used(mut reply: Value) -> Value {
    reply["usage"] = json!({"input_tokens": 100, "output_tokens": 10});
    reply
}

fn prompt(text: &str) -> Value {
    let content = json!({"type": "text", "text": text});
    json!({"systemPrompt": "Be short.", "messages": [{"role": "user", "content": content}], "maxTokens": 50})
}

fn sampled(events: &[Event]) -> Vec<&Sampled> {
    let all = events.iter().filter_map(|event| match event {
        Event::ServerSampled { sampled, .. } => Some(&**sampled),
        _ => None,
    });
    all.collect()
}

#[tokio::test]
async fn a_server_asks_a_model_once_a_person_has_read_what() {
    let (text, events, wanted) = decided(sampling(&prompt("How much?"), &[]), Some(Decision::Approve)).await;
    assert!(text.ends_with("The model said \"forty-two\"."), "{text}");
    let wanted = wanted.unwrap();
    let question = wanted.question().unwrap();
    assert_eq!(question.title, "Let the server db ask recorded/cassette this?");
    let QuestionBlock::Text { text } = &question.body[0] else { panic!("{question:?}") };
    assert_eq!(text, "system:\nBe short.\n\nuser:\nHow much?");
    let [one] = sampled(&events)[..] else { panic!("{events:?}") };
    assert_eq!(
        (one.prompt.as_str(), one.answer.as_str(), one.model.as_str()),
        (text.as_str(), "forty-two", "recorded/cassette")
    );
    let spent = |event: &Event| match event {
        Event::TurnEnded { spent, .. } => Some(spent.usage.total()),
        _ => None,
    };
    let replies: u64 = events
        .iter()
        .filter_map(
            |event| if let Event::MessageFinished { reply, .. } = event { Some(reply.usage.total()) } else { None },
        )
        .sum();
    assert!(one.usage.total() > 0);
    assert_eq!(events.iter().find_map(spent), Some(replies + one.usage.total()), "the turn pays for it");

    let (text, events, _) = decided(sampling(&prompt("How much?"), &[]), Some(Decision::Deny(None))).await;
    assert!(text.ends_with("No model was asked: the user declined.") && sampled(&events).is_empty(), "{text}");
}

#[tokio::test]
async fn without_a_person_only_a_rule_for_sampling_lets_a_server_ask_a_model() {
    use Action::{Allow, Deny};
    for rules in [&[][..], &[("*", Allow)], &[("mcp__db", Allow)], &[("sampling__other", Allow)]] {
        let (text, events, _) = decided(sampling(&prompt("x"), rules), None).await;
        assert!(text.contains("the user can allow sampling__db") && sampled(&events).is_empty(), "{rules:?}: {text}");
    }
    for rules in [&[("sampling__db", Allow)][..], &[("sampling__*", Allow)]] {
        let (text, events, _) = decided(sampling(&prompt("x"), rules), None).await;
        assert!(text.contains("forty-two") && sampled(&events).len() == 1, "{rules:?}: {text}");
    }
    let rules = [("sampling__*", Allow), ("sampling__db", Deny)];
    let (text, ..) = decided(sampling(&prompt("x"), &rules), None).await;
    assert!(text.ends_with("No model was asked: a rule of the user's forbids it."), "{text}");
}

#[tokio::test]
async fn what_a_server_asks_a_model_is_paid_from_the_budget_or_not_asked() {
    let mut settings = sampling(&prompt(&"word ".repeat(12_000)), &[("sampling__db", Action::Allow)]);
    settings.policy.budget.tokens = Some(14_000);
    let (text, events, _) = decided(settings, None).await;
    assert!(text.contains("the user's budget does not cover it: the next call can need"), "{text}");
    assert!(sampled(&events).is_empty());
}

#[tokio::test]
async fn what_a_model_may_have_used_counts_even_if_the_call_is_stopped() {
    let (home, asked) = (Home::new(), Arc::new(Notify::new()));
    let mut settings = sampling(&prompt("How much?"), &[("sampling__db", Action::Allow)]);
    let lines = [used(call("mcp__db__query", &json!({})))];
    settings.model = Arc::new(Watched { falls_silent: Some(Arc::clone(&asked)), ..Watched::new(&lines) });
    let session = home.create(settings).await;
    let stop = async {
        asked.notified().await;
        session.cancel().await
    };
    let (report, stopped) = tokio::join!(session.prompt("go"), stop);
    assert!(report.is_ok() && stopped.is_ok(), "{report:?} {stopped:?}");
    let events: Vec<Event> = session.records().await.unwrap().into_iter().map(|record| record.event).collect();
    session.close().await;
    let [one] = sampled(&events)[..] else { panic!("{events:?}") };
    assert!(one.answer.is_empty() && one.at_most.is_some_and(|most| most.tokens > 50), "{one:?}");
}

/// A picture of one pixel.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

fn shows(data: &str) -> Value {
    let picture = json!({"type": "image", "data": data, "mimeType": "image/jpeg"});
    json!({"messages": [{"role": "user", "content": [{"type": "text", "text": "What is this?"}, picture]}]})
}

#[tokio::test]
async fn a_server_shows_a_model_that_looks_a_picture() {
    let model = Watched::new(&[used(call("mcp__db__query", &json!({}))), used(says("done"))]);
    let model = Arc::new(Watched { looks: Some(true), ..model });
    let settings = || Settings { model: Arc::clone(&model) as Arc<dyn Model>, ..sampling(&shows(PIXEL), &[]) };
    let (text, events, wanted) = decided(settings(), Some(Decision::Approve)).await;
    assert!(text.ends_with("The model said \"forty-two\"."), "{text}");
    let wanted = wanted.unwrap();
    let QuestionBlock::Text { text } = &wanted.question().unwrap().body[0] else { panic!("{wanted:?}") };
    assert_eq!(text, "user:\nWhat is this?\n\n[a picture, image/png, 1 kB, which cannot be shown here]");
    let [one] = sampled(&events)[..] else { panic!("{events:?}") };
    assert_eq!(&one.prompt, text);
    let shown = model.shown.lock().unwrap();
    let [Message { parts, .. }] = &shown[..] else { panic!("{shown:?}") };
    // As its bytes say, not as the server does.
    assert_eq!(parts[1], piton_core::message::Part::Image { media_type: "image/png".into(), data: PIXEL.into() });
}

#[tokio::test]
async fn a_model_call_of_a_server_stands_in_the_trace_below_the_call_of_its_tool() {
    let (home, settings) = (Home::new(), sampling(&prompt("How much?"), &[("sampling__db", Action::Allow)]));
    let session = home.create(settings).await;
    session.prompt("go").await.unwrap();
    let records = session.records().await.unwrap();
    let story = piton_core::story::Story::of(&records);
    let resource = otel::Resource { service: "piton".to_owned(), attributes: Vec::new() };
    let all = otel::export(session.id(), &story, 1, &resource).unwrap();
    session.close().await;
    let spans = all["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone();
    let of_tool = spans.iter().find(|span| span["name"] == "execute_tool mcp__db__query").unwrap();
    let below: Vec<&Value> = spans.iter().filter(|span| span["parentSpanId"] == of_tool["spanId"]).collect();
    let [asked] = below[..] else { panic!("{spans:#?}") };
    let attributes = asked["attributes"].to_string();
    assert_eq!(asked["name"], "chat cassette");
    assert!(attributes.contains("sampling") && attributes.contains("gen_ai.usage.input_tokens"), "{attributes}");
    let ids: std::collections::BTreeSet<String> = spans.iter().map(|span| span["spanId"].to_string()).collect();
    assert_eq!(ids.len(), spans.len());
}

#[tokio::test]
async fn a_server_asks_a_model_without_tools_and_not_for_too_much() {
    let message = |content: Value| json!({"messages": [{"role": "user", "content": content}]});
    let tools = json!({"messages": prompt("x")["messages"], "tools": [{"name": "t"}]});
    for (request, why) in [
        (shows(PIXEL), "recorded/cassette does not look at pictures"),
        (shows("x"), "a picture is not base64"),
        (shows("aGVsbG8="), "unsupported picture format"),
        (message(json!({"type": "audio", "data": "x"})), "only text and pictures can be sampled here"),
        (message(json!({"type": "tool_result"})), "this client samples without tools"),
        (tools, "this client samples without tools"),
        (prompt(&"x".repeat(70_000)), "at most 65536 bytes of text"),
        (json!({}), "a prompt has messages"),
    ] {
        let (text, events, _) = decided(sampling(&request, &[("sampling__db", Action::Allow)]), None).await;
        assert!(text.contains(why) && sampled(&events).is_empty(), "{text}");
    }
}

#[tokio::test]
async fn what_a_session_has_used_of_servers_is_offered_after_a_compaction_and_not_before() {
    let home = Home::new();
    let servers = PlayedServers::new([Part::ready("db", ["query", "drop"])]);
    let long = |word: &str| says(&word.repeat(400));
    let lines = [call("mcp__db__query", &json!({})), long("one "), long("two "), long("three "), says("a summary")];
    let model = Arc::new(Watched::new(&lines));
    let mut settings = with(&servers, &[]);
    settings.model = model.clone();
    let session = home.create(settings).await;
    for prompt in ["first", "second", "third"] {
        session.prompt(prompt).await.unwrap();
    }
    session.compact(Compact::about(None)).await.unwrap();
    session.prompt("go on").await.unwrap();
    session.close().await;
    let asked = model.tools.lock().unwrap().clone();
    let has = |tools: &Vec<String>, name: &str| tools.iter().any(|tool| tool == name);
    assert!(!has(&asked[0], "mcp__db__query") && asked[..4].iter().all(|tools| *tools == asked[0]), "{asked:?}");
    let last = asked.last().unwrap();
    assert!(has(last, "mcp__db__query") && !has(last, "mcp__db__drop"), "{last:?}");
}

/// A model that remembers which tools it was offered, and has another answer where it was offered none.
struct Watched {
    model: Recorded,
    without_tools: Recorded,
    tools: Mutex<Vec<Vec<String>>>,
    /// What it was sent without tools.
    shown: Mutex<Vec<Message>>,
    looks: Option<bool>,
    /// Told when it is asked without tools. It says nothing then.
    falls_silent: Option<Arc<Notify>>,
}

impl Watched {
    fn new(lines: &[Value]) -> Self {
        let without_tools = recorded(&[used(says("forty-two"))]);
        let model = recorded(lines);
        Self { model, without_tools, tools: Mutex::default(), shown: Mutex::default(), looks: None, falls_silent: None }
    }
}

impl Model for Watched {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn limits(&self) -> ModelLimits {
        ModelLimits { images: self.looks, ..self.model.limits() }
    }

    fn price(&self) -> Option<Price> {
        self.model.price()
    }

    fn stream(&self, request: Request) -> ModelStream {
        match &self.falls_silent {
            Some(asked) if request.tools.is_empty() => {
                asked.notify_one();
                return Box::pin(futures_util::stream::pending());
            }
            None if request.tools.is_empty() => {
                self.shown.lock().unwrap().extend(request.messages.iter().map(|message| Message::clone(message)));
                return self.without_tools.stream(request);
            }
            _ => {}
        }
        self.tools.lock().unwrap().push(request.tools.iter().map(|tool| tool.name.clone()).collect());
        self.model.stream(request)
    }
}
