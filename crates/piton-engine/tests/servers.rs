//! MCP servers in a session: started beside the first request, told of in reminders, asked back, closed at the end.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use crate::support::{Home, call, cassette, says};
use piton_core::call::Status;
use piton_core::client::{Published, Wanted};
use piton_core::event::{Event, GivenKind, Subject};
use piton_core::question::Decision;
use piton_engine::engine::{Attendance, Settings};
use piton_testkit::servers::{Part, PlayedServers};
use piton_tools::servers::Elicitation;
use serde_json::{Value, json};
use std::sync::Arc;

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
    let home = Home::new();
    let servers = PlayedServers::new([Part::ready("db", ["query"])]);
    servers.ask(elicitation);
    let mut settings = with(&servers, &[call("mcp__db__query", &json!({})), says("done")]);
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
