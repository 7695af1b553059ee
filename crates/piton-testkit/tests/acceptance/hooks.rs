//! What the documents say of callbacks and hooks, of several of them.

use super::*;
use async_trait::async_trait;
use piton_core::call::Status;
use piton_engine::hooks::{HookContext, HookError, HookResult, ModelAnswer, ModelCall, ModelChange, OutcomeChange};
use std::sync::Mutex;
use std::time::Duration;

/// Takes its time over every piece of text.
#[derive(Default)]
struct Slow(Mutex<Vec<String>>);

#[async_trait]
impl Hook for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    async fn on_text_delta(&self, _: &HookContext, text: &str) -> HookResult {
        tokio::time::sleep(Duration::from_millis(50)).await;
        self.0.lock().unwrap().push(text.to_owned());
        Ok(())
    }

    async fn after_model_call(&self, _: &HookContext, _: &ModelAnswer) -> HookResult {
        self.0.lock().unwrap().push("(the end)".to_owned());
        Ok(())
    }
}

/// S0-020: a slow listener is waited for, and misses no text; whoever is quicker hears the same.
#[test]
fn s0_020_a_slow_listener_misses_no_text() {
    let pieces: Vec<String> = (0..300).map(|number| format!("word{number} ")).collect();
    let slow = Arc::new(Slow::default());
    let line = Line::reply(&pieces, Vec::new(), FinishReason::Stop, used(1, 1));
    let ran = Lab::new("neovate", vec![line]).hook(slow.clone()).run();
    let heard = slow.0.lock().unwrap().clone();
    assert_eq!(heard.last().map(String::as_str), Some("(the end)"), "all of it before the reply counts as said");
    assert_eq!(heard[..heard.len() - 1], pieces);
    assert_eq!((&*ran.report().text, ran.played.deltas().len()), (pieces.concat().as_str(), 300));
}

/// Puts its own words in the place of every result.
#[derive(Default)]
struct Censor(Mutex<Vec<Status>>);

#[async_trait]
impl Hook for Censor {
    fn name(&self) -> &str {
        "censor"
    }

    async fn after_tool_call(&self, _: &HookContext, call: &ToolCall, outcome: &Outcome) -> HookResult<OutcomeChange> {
        self.0.lock().unwrap().push(outcome.status);
        let outcome = Some(Outcome { text: format!("{} is nobody's business", call.name), ..outcome.clone() });
        Ok(OutcomeChange { outcome, ..OutcomeChange::default() })
    }
}

/// S0-027: a hook may put another result in the place of a call's, of a refused one's too.
#[test]
fn s0_027_a_hook_may_replace_any_result() {
    for (decision, status) in [(Decision::Approve, Status::Ok), (Decision::Deny(None), Status::Denied)] {
        let censor = Arc::new(Censor::default());
        let lines = vec![says(&use_tool("echo", &json!({"a": "secret"}))), says("end")];
        let ran = Lab::new("neovate", lines).hook(censor.clone()).asking(decision).run();
        assert_eq!(*censor.0.lock().unwrap(), [status]);
        let outcome = ran.outcomes().remove(0);
        assert_eq!((outcome.status, outcome.text.as_str()), (status, "echo is nobody's business"));
        let results: Vec<Part> =
            ran.played.transcript().iter().flat_map(|message| message.parts.clone()).filter(is_result).collect();
        assert!(matches!(&results[..], [Part::ToolResult { outcome: kept, .. }] if *kept == outcome), "{results:?}");
        if status == Status::Ok {
            assert!(ran.told(1).contains("echo is nobody's business"), "{}", ran.told(1));
        } else {
            assert_eq!((ran.end(), ran.requests.len()), (TurnEnd::ToolDenied, 1));
        }
    }
}

fn is_result(part: &Part) -> bool {
    matches!(part, Part::ToolResult { .. })
}

/// Would like to have another answer, and complains that there is none.
struct Meddler;

#[async_trait]
impl Hook for Meddler {
    fn name(&self) -> &str {
        "meddler"
    }

    async fn after_model_call(&self, _: &HookContext, answer: &ModelAnswer) -> HookResult {
        let mut other = answer.clone();
        if let Ok(reply) = &mut other.result {
            reply.parts = vec![Part::text("something else")];
            reply.finish = FinishReason::ContentFilter;
        }
        Err(HookError(format!("it should have said {other:?}")))
    }
}

/// S1-031: what sees an answer changes nothing of it.
#[test]
fn s1_031_what_sees_an_answer_changes_nothing() {
    let lines = || {
        let mut lines = rounds(2);
        lines.push(says("done"));
        lines
    };
    let (alone, watched) = (Lab::new("pulse", lines()).run(), Lab::new("pulse", lines()).hook(Arc::new(Meddler)).run());
    let sent = |ran: &Ran| ran.requests.iter().map(|request| said(&request.messages)).collect::<Vec<_>>();
    assert_eq!(sent(&alone), sent(&watched));
    assert_eq!(said(&alone.played.transcript()), said(&watched.played.transcript()));
    assert_eq!((watched.end(), &*watched.report().result), (TurnEnd::Completed, "done"));
    let complaints = watched.records().into_iter().filter(|record| match &record.event {
        Event::HooksRan { runs, .. } => runs.iter().any(|run| run.hook == "meddler" && run.detail.is_some()),
        _ => false,
    });
    assert!(complaints.count() > 0, "but that it failed is on record");
}

/// A conversation without what differs between runs: ids and times.
fn said(messages: &[Arc<Message>]) -> Vec<String> {
    let part = |part: &Part| match part {
        Part::ToolResult { outcome, .. } => outcome.text.clone(),
        other => format!("{other:?}"),
    };
    messages.iter().flat_map(|message| &message.parts).map(part).collect()
}

/// N0-03: who is asked about a call may allow it as another one; the tool is run so, and the model reads that it was.
#[test]
fn n0_03_an_approval_may_change_the_call() {
    let changed = json!({"path": "b.txt"});
    for preset in ["neovate", "piton"] {
        let input = json!({"path": "a.txt"});
        let first = if preset == "neovate" { says(&use_tool("read", &input)) } else { calls("", &[("read", input)]) };
        let ran = Lab::new(preset, vec![first, says("end")])
            .files(&[("b.txt", "bravo\n")])
            .tools(ToolSet::builtin())
            .asking(Decision::ApproveChanged(changed.clone()))
            .run();
        let outcome = ran.outcomes().remove(0);
        assert!(outcome.text.contains("bravo") && !outcome.text.contains("alpha"), "{outcome:?}");
        assert_eq!((ran.end(), ran.report().spent.calls), (TurnEnd::Completed, 1));
        let is_told = ran.told(1).contains("[read for {\n  \"path\": \"b.txt\"\n}] result: ");
        assert_eq!(is_told, preset == "neovate", "{}", ran.told(1));
    }
    let no_object = Decision::ApproveChanged(json!("b.txt"));
    let lines = vec![calls("", &[("read", json!({"path": "a.txt"}))]), says("end")];
    let ran = Lab::new("piton", lines).tools(ToolSet::builtin()).asking(no_object).run();
    assert_eq!((ran.outcomes()[0].status, ran.report().spent.calls), (Status::Failed, 0));
}

/// Makes the system prompt of each call.
struct Factory;

#[async_trait]
impl Hook for Factory {
    fn name(&self) -> &str {
        "factory"
    }

    async fn before_model_call(&self, cx: &HookContext, call: &ModelCall) -> HookResult<ModelChange> {
        let system = Some(format!("Call {} with {} messages.", cx.step, call.messages.len()));
        Ok(ModelChange { system, ..ModelChange::default() })
    }
}

/// N1-04: whoever embeds Piton replaces the system prompt, adds to it, or has it made anew for each call.
#[test]
fn n1_04_the_prompt_is_replaced_added_to_or_made() {
    let lab = || {
        let mut lines = rounds(1);
        lines.push(says("done"));
        Lab::new("pulse", lines)
    };
    let own = piton_engine::context::system_prompt("prov/mod");
    let systems = |ran: &Ran| ran.requests.iter().map(|request| request.system.to_string()).collect::<Vec<_>>();
    assert_eq!(systems(&lab().run()), [own.clone(), own.clone()]);
    let replaced = lab().change(|settings| settings.system = "Be a pirate.".into()).run();
    assert_eq!(systems(&replaced), ["Be a pirate."; 2]);
    let added = lab().change(|settings| settings.system = format!("{}\nBe brief.", settings.system).into()).run();
    assert_eq!(systems(&added), [format!("{own}\nBe brief."), format!("{own}\nBe brief.")]);
    let made = lab().hook(Arc::new(Factory)).run();
    assert_eq!(systems(&made), ["Call 1 with 1 messages.", "Call 2 with 3 messages."]);
}
