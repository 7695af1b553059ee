//! What the documents say of a context that is full, of several of them.

use super::*;
use async_trait::async_trait;
use piton_core::compact::MARK;
use piton_core::event::Trigger;
use piton_core::message::NoteKind;
use piton_engine::hooks::{HookContext, HookResult, ModelCall, ModelChange};
use std::sync::Mutex;

/// Neovate's conversation of one round of tools, whose first reply was counted as more than 70 % of the window.
fn neovate() -> Lab {
    let mut first = says(&use_tool("echo", &json!({"n": 1})));
    reply(&mut first).usage = used(30_000, 10);
    Lab::new("neovate", vec![first, says("end")]).window(40_000)
}

/// Pulse's, of so many rounds of tools with thirty thousand characters each, by a provider that counts nothing.
fn pulse(times: usize) -> Lab {
    let long = Arc::new(Prop { name: "echo".into(), says: Some("x".repeat(30_000)), ..Prop::default() });
    let mut lines = uncounted(rounds(times));
    lines.extend(uncounted(vec![says("done")]));
    Lab::new("pulse", lines).props(vec![long])
}

/// S0-018: with compaction switched off, no summary is asked for, however long the conversation is.
#[test]
fn s0_018_compaction_can_be_switched_off() {
    let ran = neovate().change(|settings| settings.policy.compaction.rules.auto = false).run();
    assert_eq!((ran.end(), ran.requests.len(), ran.summaries.len()), (TurnEnd::Completed, 2, 0));
    assert!(!ran.kinds().iter().any(|kind| kind.starts_with("compaction")));
    assert_eq!(neovate().run().summaries.len(), 1, "where it is on, one is");
}

/// S0-044: before each call of the model it is looked whether the context is full, and room is made first.
#[test]
fn s0_044_room_is_made_before_the_next_call() {
    let ran = neovate().run();
    let order: Vec<&str> =
        ran.kinds().into_iter().filter(|kind| ["step_started", "compaction_finished"].contains(kind)).collect();
    assert_eq!(order, ["step_started", "compaction_finished", "step_started"]);
    let (before, after) = (ran.words(0), ran.words(1));
    assert!(!before.contains(MARK) && after.contains(MARK) && after.contains("All went well."), "{after}");
    assert_eq!((ran.end(), &*ran.report().text), (TurnEnd::Completed, "end"));
}

/// S1-012: two summaries a run at most, whether they help or not.
#[test]
fn s1_012_two_compactions_at_most() {
    let ran = pulse(20).run();
    assert_eq!((ran.end(), ran.requests.len(), ran.summaries.len()), (TurnEnd::Completed, 21, 2));
    let ran = pulse(20).summary(&"of no help ".repeat(20_000)).run();
    assert!(ran.summaries.len() <= 2, "{}", ran.summaries.len());
}

/// Writes down what each call of the model is about to be made with, and what stands for older messages.
#[derive(Default)]
struct Watch {
    calls: Mutex<Vec<ModelCall>>,
    summaries: Mutex<Vec<String>>,
}

#[async_trait]
impl Hook for Watch {
    fn name(&self) -> &str {
        "watch"
    }

    async fn before_model_call(&self, _: &HookContext, call: &ModelCall) -> HookResult<ModelChange> {
        self.calls.lock().unwrap().push(call.clone());
        let system = Some(format!("{} Seen.", call.system));
        Ok(ModelChange { system, ..ModelChange::default() })
    }

    async fn on_compacted(&self, _: &HookContext, _: Trigger, summary: &str) -> HookResult {
        self.summaries.lock().unwrap().push(summary.to_owned());
        Ok(())
    }
}

/// S1-022: tools and prompt of a call are made ready after room was made, and hooks see them so.
#[test]
fn s1_022_tools_and_prompt_are_made_ready_after_it() {
    let watch = Arc::new(Watch::default());
    let ran = pulse(8).hook(watch.clone()).run();
    let calls = watch.calls.lock().unwrap();
    assert_eq!(calls.len(), ran.requests.len(), "a summary is no call of the loop");
    let begins_anew = |messages: &[Arc<Message>]| messages[0].parts.iter().any(is_summary);
    let first = calls.iter().position(|call| begins_anew(&call.messages)).unwrap();
    assert!(first > 0 && begins_anew(&ran.requests[first].messages));
    for (call, request) in calls.iter().zip(&ran.requests) {
        assert_eq!((call.messages.as_ref(), call.tools.as_ref()), (&request.messages[..], &*request.tools));
        assert_eq!(format!("{} Seen.", call.system), request.system);
    }
}

fn is_summary(part: &Part) -> bool {
    matches!(part, Part::Note { text, .. } if text.starts_with(MARK))
}

/// S1-024: what stands for the older messages is handed out, and is what the next call begins with.
#[test]
fn s1_024_what_stands_for_older_messages_is_handed_out() {
    let watch = Arc::new(Watch::default());
    let ran = pulse(8).hook(watch.clone()).run();
    let told = watch.summaries.lock().unwrap().clone();
    let Some(Event::CompactionFinished { summary, .. }) = ran.compactions().pop() else { panic!("none") };
    assert_eq!(told, std::slice::from_ref(&summary));
    let sent = ran.requests.last().unwrap().messages[0].clone();
    assert_eq!(sent.parts[0], Part::Note { kind: NoteKind::Summary, text: summary });
}

/// S1-045: a compaction is told with its reason, what it stands for, and what it freed.
#[test]
fn s1_045_a_compaction_is_told_with_its_numbers() {
    let ran = pulse(8).run();
    let [Event::CompactionFinished { trigger, upto_seq, tokens_before, tokens_after, asked, .. }] =
        &ran.compactions()[..]
    else {
        panic!("not one")
    };
    assert_eq!(*trigger, Trigger::Ordinary);
    assert!(*tokens_before >= 48_000 && *tokens_after < 24_000, "{tokens_before} to {tokens_after}");
    let asked = asked.as_ref().unwrap();
    assert_eq!((asked.model.as_str(), asked.attempts), ("prov/mod", 1));
    let upto = ran.records().into_iter().find(|record| record.seq == *upto_seq).unwrap();
    assert_eq!(upto.event.kind(), "call_settled", "a call is never parted from its result");
}

/// A conversation of two turns, whose second answer is cut when the prompt has so many tokens.
fn cut(text: &str, prompt_tokens: u64) -> Lab {
    let mut second = finishes(text, FinishReason::Length);
    reply(&mut second).usage = used(prompt_tokens, 5);
    Lab::new("pulse", vec![says("an answer"), second, says("the rest")]).prompts(&["one", "two"])
}

/// S1-053: a reply that the full window has cut makes room, and the run goes on; where no room can be made, it ends with
/// what was said, or with the document's sentence.
#[test]
fn s1_053_a_full_window_makes_room_or_ends_with_the_sentence() {
    let ran = cut("part", 100_000).run();
    let [Event::CompactionFinished { trigger, .. }] = &ran.compactions()[..] else { panic!("not one") };
    assert_eq!((*trigger, ran.requests.len(), ran.summaries.len()), (Trigger::Forced, 3, 1));
    assert_eq!((ran.end(), &*ran.report().result), (TurnEnd::Completed, "the rest"));
    assert!(ran.words(2).contains(MARK));
    for (text, returned) in [("part", "part"), ("", "Context limit reached.")] {
        let alone = cut(text, 100_000);
        let alone = Lab { lines: alone.lines[1..].to_vec(), ..alone }.prompts(&["go"]).run();
        assert_eq!((alone.requests.len(), alone.summaries.len()), (1, 0), "there is nothing to sum up");
        assert_eq!((alone.end(), &*alone.report().result), (TurnEnd::ContextLimit, returned));
    }
    let mut again = finishes("", FinishReason::Length);
    reply(&mut again).usage = used(100_000, 5);
    let lab = cut("part", 100_000);
    let ran = Lab { lines: vec![lab.lines[0].clone(), again], ..lab }.run();
    assert_eq!((ran.end(), &*ran.report().result), (TurnEnd::ContextLimit, "Context limit reached."));
    assert!((1..=2).contains(&ran.summaries.len()) && ran.requests.len() <= 4, "{}", ran.requests.len());
    let ran = cut("part", 100_000).change(|settings| settings.policy.steps.max = Some(1)).run();
    assert_eq!(
        (ran.end(), ran.summaries.len()),
        (TurnEnd::MaxSteps, 0),
        "no room is made for a step that is not allowed"
    );
}

/// N1-06 C-16: whether the window is full is told by the prompt, at four fifths of what the model reads; below that the
/// reply was only long, and the model goes on with it.
#[test]
fn n1_06_a_cut_reply_is_no_full_window() {
    for (model, full_at) in [
        ("claude-sonnet-4", 144_000),
        ("gpt-5", 144_000),
        ("gpt-4.1-mini", 144_000),
        ("o3", 144_000),
        ("gpt-4o", 88_000),
        ("gemini-2.5-pro", 720_000),
        ("proto1", 88_000),
    ] {
        for (tokens, summaries) in [(full_at - 1, 0), (full_at, 1)] {
            let ran = cut("part", tokens).model(model).run();
            let made = ran.compactions().iter().filter(|event| is_forced(event)).count();
            assert_eq!((made, &*ran.report().result), (summaries, "the rest"), "{model} at {tokens}");
        }
    }
}

fn is_forced(event: &Event) -> bool {
    matches!(event, Event::CompactionFinished { trigger: Trigger::Forced, .. })
}

fn tokens(event: &Event) -> (u64, u64) {
    match event {
        Event::CompactionFinished { tokens_before, tokens_after, .. } => (*tokens_before, *tokens_after),
        _ => (0, 0),
    }
}

/// N1-07: what is still above the mark after room was made goes on all the same: the mark is far from the window's end.
#[test]
fn n1_07_what_is_still_above_the_mark_goes_on() {
    let long = |word: &str| word.repeat(26_000 / word.len());
    let lines: Vec<Line> = uncounted((0..7).map(|_| says(&long("answer "))).collect());
    let prompts: Vec<String> = (0..7).map(|at| format!("{at} {}", long("word "))).collect();
    let ran = Lab::new("pulse", lines).prompts(&prompts).run();
    let left = |event: &Event| matches!(event, Event::CompactionFinished { tokens_after: 48_000.., .. });
    assert!(ran.compactions().iter().any(left), "{:?}", ran.compactions().iter().map(tokens).collect::<Vec<_>>());
    assert_eq!((ran.end(), ran.requests.len()), (TurnEnd::Completed, 7));
}
