//! Document S3: etcode's agent loop.

use super::*;
use piton_core::call::Status;
use piton_core::message::Role;
use piton_engine::context::{Instructions, environment_note};

/// S3-012: one round in this order.
#[test]
fn s3_012_a_round_goes_in_this_order() {
    let ran = Lab::new("etcode", vec![says("done")]).run();
    let kinds = ran.kinds();
    assert_eq!(
        kinds[2..],
        ["user_spoke", "turn_started", "step_started", "message_finished", "step_finished", "turn_ended"]
    );
}

/// S3-021: the limit of steps is a hard stop.
#[test]
fn s3_021_the_limit_is_a_hard_stop() {
    let ran = Lab::new("etcode", rounds(9)).change(|settings| settings.policy.steps.max = Some(2)).run();
    assert_eq!((ran.end(), ran.requests.len(), ran.outcomes().len()), (TurnEnd::MaxSteps, 2, 2));
}

/// S3-022 N4-01: calls are answered whatever the model says its reason to stop was.
#[test]
fn s3_022_calls_are_answered_whatever_the_reason_to_stop() {
    let mut first = calls("", &[("echo", json!({"n": 1}))]);
    reply(&mut first).finish = FinishReason::Stop;
    let ran = Lab::new("etcode", vec![first, says("done")]).run();
    assert_eq!((ran.requests.len(), &*ran.report().text), (2, "done"));
}

/// S3-020 S3-023 S3-050 S3-063 S4-057: what cannot be retried ends the run, and the session stays usable.
#[test]
fn s3_063_what_cannot_be_retried_ends_the_run() {
    let ran = Lab::new("etcode", vec![fails(400), says("again")]).prompts(&["first"]).run();
    assert_eq!((ran.end(), ran.requests.len()), (TurnEnd::ApiError, 1));
    assert!(ran.kinds().contains(&"model_failed"));
    let ran = Lab::new("etcode", vec![fails(400), says("again")]).prompts(&["first", "second"]).run();
    assert_eq!((ran.end(), &*ran.report().text), (TurnEnd::Completed, "again"));
}

/// S3-033: a call that was cancelled before it ran is answered all the same.
#[test]
fn s3_033_every_call_has_its_answer() {
    let stopper = Arc::new(Prop { name: "echo".into(), stops: true, ..Prop::default() });
    let lines = vec![calls("", &[("echo", json!({"n": 1})), ("echo", json!({"n": 2}))]), says("never")];
    let ran = Lab::new("etcode", lines).props(vec![stopper]).run();
    let transcript = ran.played.transcript();
    assert_eq!(piton_core::turn::malformed(transcript.iter().map(AsRef::as_ref)), None);
}

/// S3-040: a tool that the rules forbid is not offered.
#[test]
fn s3_040_a_forbidden_tool_is_not_offered() {
    let ran = Lab::new("etcode", vec![says("hi")])
        .tools(ToolSet::builtin())
        .change(|settings| settings.policy.permission.push("bash", Action::Deny))
        .run();
    assert!(ran.requests[0].tools.iter().all(|tool| tool.name != "bash") && !ran.requests[0].tools.is_empty());
}

/// S3-041 S3-056: an error of a tool is a result, and the run goes on.
#[test]
fn s3_056_a_failed_tool_is_a_result() {
    let failing = Arc::new(Prop { name: "echo".into(), says: Some("no".into()), fails: true, ..Prop::default() });
    let mut lines = rounds(1);
    lines.push(says("done"));
    let ran = Lab::new("etcode", lines).props(vec![failing]).run();
    assert_eq!((ran.outcomes()[0].status, ran.end()), (Status::Failed, TurnEnd::Completed));
}

/// S3-060 S3-061 S3-062: three classes of errors are retried, five times, from one second on.
#[test]
fn s3_062_five_retries_from_one_second_on() {
    let ran = Lab::new("etcode", vec![fails(429)]).run();
    assert_eq!((ran.end(), ran.requests.len()), (TurnEnd::ApiError, 6));
    assert_eq!(ran.waits(), [1_000, 2_000, 4_000, 8_000, 16_000]);
    for kind in [ModelErrorKind::Overloaded, ModelErrorKind::Stalled] {
        assert_eq!(Lab::new("etcode", vec![breaks(kind), says("ok")]).run().requests.len(), 2);
    }
    assert_eq!(Lab::new("etcode", vec![breaks(ModelErrorKind::Network), says("ok")]).run().requests.len(), 1);
}

/// S3-054 S3-055 S3-057 S3-080 S3-082 S3-083 S3-085 S3-086: what is kept of a reply and of a call.
#[test]
fn s3_080_reason_tokens_times_and_ids_are_kept() {
    let mut lines = rounds(1);
    lines.push(says("done"));
    let ran = Lab::new("etcode", lines).run();
    let records = ran.records();
    let replies: Vec<_> = records
        .iter()
        .filter_map(|record| match &record.event {
            Event::MessageFinished { reply, .. } => Some((reply.finish, reply.usage, record.at_ms > 0)),
            _ => None,
        })
        .collect();
    assert_eq!(replies, [(FinishReason::ToolCalls, used(10, 5), true), (FinishReason::Stop, used(10, 5), true)]);
    let position = |kind: &str| ran.kinds().iter().position(|other| *other == kind).unwrap();
    let (started, settled) = (&records[position("call_started")], &records[position("call_settled")]);
    assert!(started.at_ms <= settled.at_ms && position("call_started") < position("call_settled"));
    let (Event::CallStarted { call }, Event::CallSettled { call: answered, .. }) = (&started.event, &settled.event)
    else {
        panic!("other events");
    };
    assert_eq!(call, answered);
}

/// S3-030 S3-031 S3-032: what the model reads of user, assistant and tools.
#[test]
fn s3_030_messages_go_to_the_model_in_their_roles() {
    let ran = Lab::new("etcode", vec![calls("text", &[("echo", json!({"n": 1}))]), says("done")]).run();
    let roles: Vec<Role> = ran.requests[1].messages.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::Tool]);
}

/// What stands in front of the first message of a request.
fn opening(ran: &Ran, request: usize) -> Vec<String> {
    let notes = ran.requests[request].messages[0].parts.iter().map_while(|part| match part {
        Part::Note { text, .. } => Some(text.clone()),
        _ => None,
    });
    notes.collect()
}

/// S3-005: the model is told where it is and which instructions hold, once, and every request has it.
#[test]
fn s3_005_place_and_instructions_are_told_once() {
    let lines = vec![
        calls("", &[("write", json!({"path": "AGENTS.md", "content": "Be rude.\n"}))]),
        says("done"),
        says("and again"),
    ];
    let lab = Lab::new("etcode", lines)
        .files(&[("AGENTS.md", "Be kind.\n")])
        .tools(ToolSet::builtin())
        .prompts(&["first", "second"]);
    let place = lab.workspace.path();
    let note = environment_note(&place, "2026-01-02");
    let ran = lab
        .change(move |settings| {
            settings.environment_note = Some(note.clone());
            settings.instructions = Some(Instructions::default());
        })
        .run();
    assert_eq!(ran.requests.len(), 3);
    let told = opening(&ran, 0).join("\n");
    for word in [&*place.to_string_lossy(), std::env::consts::OS, "2026-01-02", "Be kind."] {
        assert!(told.contains(word), "{word}: {told}");
    }
    for later in 1..3 {
        assert_eq!(opening(&ran, later), opening(&ran, 0), "as it was when it was said");
        assert_eq!(ran.words(later).matches("Today: 2026-01-02").count(), 1);
    }
    assert!(ran.requests.iter().all(|request| request.system == ran.requests[0].system));
}

/// S3-110: the instructions of person and project hold, from outside in; one file a folder, and what it imports.
#[test]
fn s3_110_instructions_are_found_up_the_tree() {
    let home = TempWorkspace::with([("AGENTS.md", "rule of the person")]);
    let global_dir = Some(home.path());
    let ran = Lab::new("etcode", vec![says("done")])
        .files(&[
            (".git/HEAD", "ref: refs/heads/main\n"),
            ("AGENTS.md", "rule of the root, see @docs/style.md"),
            ("docs/style.md", "rule of style"),
            ("a/PITON.md", "rule of a"),
            ("a/CLAUDE.md", "rule of nobody: PITON.md comes first"),
            ("a/b/AGENTS.md", "rule of b"),
            ("a/b/c/AGENTS.md", "rule of c, further down"),
        ])
        .within("a/b")
        .change(move |settings| {
            settings.instructions = Some(Instructions { global_dir: global_dir.clone(), ..Instructions::default() });
        })
        .run();
    let told = opening(&ran, 0).join("\n");
    let rules = ["rule of the person", "rule of the root", "rule of style", "rule of a", "rule of b"];
    let places: Vec<Option<usize>> = rules.iter().map(|rule| told.find(rule)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}: {told}");
    assert!(!told.contains("rule of nobody") && !told.contains("rule of c"), "{told}");
}
