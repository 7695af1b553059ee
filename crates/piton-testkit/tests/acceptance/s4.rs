//! Document S4: OpenCode's `loop`.

use super::*;
use async_trait::async_trait;
use piton_core::call::{Effects, Status, ToolSpec};
use piton_tools::tool::{Tool, ToolContext};

/// S4-006: steps are counted from nothing for each prompt.
#[test]
fn s4_006_steps_begin_anew_with_each_prompt() {
    let ran = Lab::new("opencode", vec![says("one"), says("two")])
        .prompts(&["a", "b"])
        .change(|settings| settings.policy.steps.max = Some(2))
        .run();
    assert_eq!((ran.end(), ran.requests.len()), (TurnEnd::Completed, 2));
}

/// S4-020 S4-021 S4-022: every reason to stop ends the run but calls and an unknown one; a cut answer is marked.
#[test]
fn s4_021_every_reason_to_stop() {
    let stop = Lab::new("opencode", vec![says("done")]).run();
    assert_eq!((stop.end(), stop.report().detail.clone(), stop.requests.len()), (TurnEnd::Completed, None, 1));
    let cut = Lab::new("opencode", vec![finishes("part", FinishReason::Length), says("never")]).run();
    assert_eq!((cut.end(), cut.requests.len(), &*cut.report().text), (TurnEnd::Completed, 1, "part"));
    assert!(cut.report().detail.as_deref().unwrap().contains("cut"), "the person is told");
    let tools = Lab::new("opencode", {
        let mut lines = rounds(1);
        lines.push(says("done"));
        lines
    })
    .run();
    assert_eq!(tools.requests.len(), 2);
}

/// S4-023: an unknown reason goes on, and not for ever.
#[test]
fn s4_023_an_unknown_reason_goes_on_but_not_for_ever() {
    let ran = Lab::new("opencode", vec![finishes("hm", FinishReason::Other), says("done")]).run();
    assert_eq!((ran.requests.len(), ran.report().text.contains("done")), (2, true));
    let ran = Lab::new("opencode", vec![finishes("hm", FinishReason::Other)]).run();
    assert_eq!((ran.end(), ran.requests.len()), (TurnEnd::Completed, 3));
}

/// S4-051: no limit of steps where none is set; where one is, the last step is told so and is the last.
#[test]
fn s4_051_without_a_limit_it_goes_on_and_with_one_it_stops() {
    let mut lines = rounds(60);
    lines.push(says("done"));
    assert_eq!(Lab::new("opencode", lines).run().requests.len(), 61);
    let ran = Lab::new("opencode", rounds(9)).change(|settings| settings.policy.steps.max = Some(2)).run();
    assert_eq!((ran.end(), ran.requests.len()), (TurnEnd::MaxSteps, 2));
    assert!(!ran.requests[1].may_call && ran.words(1).contains("last step"));
}

/// S4-061 S4-062: a rule refuses a call and the run goes on; a person who says no ends it, unless it is told to go on.
#[test]
fn s4_062_a_person_who_says_no_ends_the_run_and_a_rule_does_not() {
    let lines = || {
        let mut lines = rounds(1);
        lines.push(says("done"));
        lines
    };
    let by_rule =
        Lab::new("opencode", lines()).change(|settings| settings.policy.permission.push("echo", Action::Deny)).run();
    assert_eq!((by_rule.end(), by_rule.requests.len()), (TurnEnd::Completed, 2));
    assert_eq!(by_rule.outcomes()[0].status, Status::Denied);
    let by_person = Lab::new("opencode", lines()).asking(Decision::Deny(None)).run();
    assert_eq!((by_person.end(), by_person.requests.len()), (TurnEnd::ToolDenied, 1));
    let allowed = Lab::new("opencode", lines()).asking(Decision::Approve).run();
    assert_eq!((allowed.end(), allowed.report().spent.calls), (TurnEnd::Completed, 1));
}

/// S4-071: what may pass goes on, what cannot ends the run.
#[test]
fn s4_071_fatal_errors_end_and_passing_ones_do_not() {
    let ran = Lab::new("opencode", vec![fails(503), says("ok")]).run();
    assert_eq!((ran.end(), ran.waits()), (TurnEnd::Completed, vec![2_000]));
    assert_eq!(Lab::new("opencode", vec![fails(400), says("never")]).run().requests.len(), 1);
}

/// S4-072 S4-053 S4-056: every request holds the results before it, and every reply is one message.
#[test]
fn s4_072_every_request_holds_the_results_before_it() {
    let mut lines = rounds(2);
    lines.push(says("done"));
    let ran = Lab::new("opencode", lines).run();
    let sizes: Vec<usize> = ran.requests.iter().map(|request| request.messages.len()).collect();
    assert_eq!(sizes, [1, 3, 5]);
    assert_eq!(ran.requests[0].model, "mod");
}

/// S4-074 S4-079: the last message comes back, and a call keeps its input, output, title and times.
#[test]
fn s4_079_a_call_keeps_what_it_was_and_what_came_of_it() {
    let lines = vec![calls("", &[("read", json!({"path": "a.txt"}))]), says("done")];
    let ran = Lab::new("opencode", lines).tools(ToolSet::builtin()).run();
    let outcome = &ran.outcomes()[0];
    assert!(outcome.text.contains("alpha") && !outcome.title.is_empty() && outcome.metadata["path"].is_string());
    assert_eq!(&*ran.report().text, "done");
}

/// S4-077: ids sort by the time they were made.
#[test]
fn s4_077_ids_sort_by_time() {
    let ids: Vec<_> = (0..1_000).map(|_| piton_engine::engine::new_message_id().0).collect();
    assert!(ids.is_sorted());
}

/// A tool that changes a file behind the model's back.
struct Meddle;

#[async_trait]
impl Tool for Meddle {
    fn spec(&self) -> ToolSpec {
        let schema = json!({"type": "object", "properties": {}});
        ToolSpec { name: "meddle".into(), description: "Meddles.".into(), schema, effects: Effects::OPAQUE }
    }

    async fn run(&self, _: Value, context: &ToolContext) -> Outcome {
        std::fs::write(context.workspace.join("a.txt"), "omega\n").unwrap();
        Outcome::ok("done")
    }
}

/// S4-052: before a step the model is reminded of what it could not know, once each: of files that are others now, of
/// steps that are nearly used up.
#[test]
fn s4_052_the_model_is_reminded_before_a_step() {
    let mut lines = vec![calls("", &[("read", json!({"path": "a.txt"}))]), calls("", &[("meddle", json!({}))])];
    lines.extend(rounds(12));
    let ran = Lab::new("opencode", lines)
        .tools(ToolSet::builtin().with(Arc::new(Meddle)))
        .change(|settings| settings.policy.steps.max = Some(12))
        .run();
    let first_with = |text: &str| (0..ran.requests.len()).find(|at| ran.words(*at).contains(text));
    let (changed, few) = ("have changed on the disk since you last saw them", "5 steps of this turn are left");
    assert_eq!((first_with(changed), first_with(few)), (Some(2), Some(7)));
    assert!(ran.told(2).contains("- a.txt") && ran.told(7).contains("On the last one there are no tools."));
    let last = ran.words(ran.requests.len() - 1);
    assert_eq!((last.matches(changed).count(), last.matches(few).count()), (1, 1), "each once");
}
