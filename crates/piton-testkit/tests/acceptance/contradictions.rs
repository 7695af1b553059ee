//! Where the documents contradict each other: one engine, and each preset with its document's side.

use super::*;
use piton_core::call::Status;
use piton_core::message::Role;
use piton_core::policy::Policy;

/// A run that is refused so many times, and would succeed then.
fn refused(preset: &'static str, times: usize) -> Ran {
    let mut lines: Vec<Line> = (0..times).map(|_| fails(503)).collect();
    lines.push(says("ok"));
    Lab::new(preset, lines).run()
}

/// C-01: the first wait is two seconds in one document and one in another, and doubles in both.
#[test]
fn c_01_the_first_wait_is_the_documents() {
    let waits = |preset| Lab::new(preset, vec![fails(429), fails(429), says("ok")]).run().waits();
    assert_eq!((waits("pulse"), waits("coder-mvp")), (vec![2_000, 4_000], vec![2_000, 4_000]));
    assert_eq!((waits("etcode"), waits("opencode")), (vec![1_000, 2_000], vec![2_000, 4_000]));
}

/// C-02: no retry, three errors a run, five retries a call, or no end of them.
#[test]
fn c_02_each_preset_has_its_documents_patience() {
    for (preset, requests, end) in [
        ("neovate", 1, TurnEnd::ApiError),
        ("pulse", 3, TurnEnd::ApiError),
        ("coder-mvp", 3, TurnEnd::ApiError),
        ("opencode", 31, TurnEnd::Completed),
    ] {
        let ran = refused(preset, 30);
        assert_eq!((ran.requests.len(), ran.end()), (requests, end), "{preset}");
    }
    let ran = Lab::new("etcode", vec![fails(429)]).run();
    assert_eq!((ran.requests.len(), ran.end()), (6, TurnEnd::ApiError));
    // The five are of one call: the next has five of its own.
    let mut lines: Vec<Line> = (0..5).map(|_| fails(429)).collect();
    lines.extend(rounds(1));
    lines.extend((0..5).map(|_| fails(429)));
    lines.push(says("ok"));
    let ran = Lab::new("etcode", lines).run();
    let waits = [1_000, 2_000, 4_000, 8_000, 16_000];
    assert_eq!((&*ran.report().text, ran.waits()), ("ok", [waits, waits].concat()));
}

/// C-03: the count comes before the kind: a hopeless error that is the third is told as the third.
#[test]
fn c_03_the_count_comes_before_the_kind() {
    let ran = Lab::new("pulse", vec![fails(500), fails(500), fails(400)]).run();
    assert_eq!(&*ran.report().result, "Failed after 3 errors: upstream 400");
    let ran = Lab::new("pulse", vec![fails(500), fails(400)]).run();
    assert_eq!(&*ran.report().result, "Error: upstream 400");
}

/// C-04 C-21: fifty turns, five hundred steps or twenty-five, or no limit; each number can be set.
#[test]
fn c_04_each_preset_has_its_documents_limit() {
    for (preset, most) in
        [("neovate", Some(50)), ("pulse", Some(500)), ("coder-mvp", Some(25)), ("etcode", None), ("opencode", None)]
    {
        assert_eq!(Policy::preset(preset).unwrap().steps.max, most, "{preset}");
        let first = |number: usize| match preset {
            "neovate" => says(""),
            _ => rounds(number + 1).remove(number),
        };
        let lines = (0..9).map(first).collect();
        let ran = Lab::new(preset, lines).change(|settings| settings.policy.steps.max = Some(2)).run();
        let requests = if preset == "neovate" { 1 } else { 2 };
        assert_eq!(ran.requests.len(), requests, "{preset}");
    }
}

/// C-06: of two calls in one message one is run, or both.
#[test]
fn c_06_the_first_call_or_all() {
    let both = [("echo", json!({"n": 1})), ("echo", json!({"n": 2}))];
    for (preset, ran) in [("neovate", 1), ("pulse", 2), ("coder-mvp", 2), ("etcode", 2), ("opencode", 2)] {
        assert_eq!(Lab::new(preset, vec![calls("", &both), says("end")]).run().outcomes().len(), ran, "{preset}");
    }
}

/// C-07: tools are told in the prompt and called in the text, or natively.
#[test]
fn c_07_tools_in_text_or_natively() {
    for (preset, in_text) in [("neovate", true), ("pulse", false), ("etcode", false), ("opencode", false)] {
        let ran = Lab::new(preset, vec![says("hi")]).run();
        let request = &ran.requests[0];
        assert_eq!((request.tools.is_empty(), request.system.contains("<use_tool>")), (in_text, in_text), "{preset}");
    }
}

/// C-08 C-10: a reply is told before its calls are run, a step when they are done; each message that joins is told once.
#[test]
fn c_08_a_reply_is_told_before_its_calls_and_a_step_after_them() {
    for preset in ["neovate", "opencode"] {
        let first = if preset == "neovate" { says(&use_tool("echo", &json!({}))) } else { rounds(1).remove(0) };
        let ran = Lab::new(preset, vec![first, says("end")]).run();
        let kinds = ran.kinds();
        let order: Vec<&str> = kinds
            .into_iter()
            .filter(|kind| ["message_finished", "call_started", "call_settled", "step_finished"].contains(kind))
            .collect();
        let round = ["message_finished", "call_started", "call_settled", "step_finished"];
        assert_eq!(order, [&round[..], &["message_finished", "step_finished"]].concat(), "{preset}");
    }
}

/// C-13: a refusal ends the run, is an error that the model reads, or ends it where a person said it.
#[test]
fn c_13_a_refusal_ends_the_run_or_is_read() {
    for (preset, requests, end) in [
        ("neovate", 1, TurnEnd::ToolDenied),
        ("pulse", 2, TurnEnd::Completed),
        ("etcode", 2, TurnEnd::Completed),
        ("opencode", 1, TurnEnd::ToolDenied),
        ("piton", 2, TurnEnd::Completed),
    ] {
        let first = if preset == "neovate" { says(&use_tool("echo", &json!({}))) } else { rounds(1).remove(0) };
        let ran = Lab::new(preset, vec![first, says("end")]).asking(Decision::Deny(None)).run();
        assert_eq!((ran.requests.len(), ran.end()), (requests, end), "{preset}");
        assert_eq!(ran.outcomes()[0].status, Status::Denied, "{preset}");
    }
}

/// C-14: a result goes back in the user's place where calls are text, and as a tool's message where they are not.
#[test]
fn c_14_results_go_back_by_the_protocol() {
    let text = Lab::new("neovate", vec![says(&use_tool("echo", &json!({"n": 1}))), says("end")]).run();
    let last = text.requests[1].messages.last().unwrap();
    assert_eq!(last.role, Role::User);
    assert!(text.told(1).starts_with("[echo for {"), "{}", text.told(1));
    let native = Lab::new("coder-mvp", vec![rounds(1).remove(0), says("end")]).run();
    let last = native.requests[1].messages.last().unwrap();
    assert_eq!(last.role, Role::Tool);
    assert!(matches!(&last.parts[..], [Part::ToolResult { .. }]), "{last:?}");
}

/// C-15: text beside a call is kept, in every preset.
#[test]
fn c_15_text_beside_a_call_is_kept() {
    for preset in ["pulse", "coder-mvp", "etcode", "opencode", "piton"] {
        let ran = Lab::new(preset, vec![calls("Let me see.", &[("echo", json!({"n": 1}))]), says("done")]).run();
        assert!(ran.words(1).contains("Let me see."), "{preset}");
    }
}

/// C-17 C-27: an end for no known reason is the end, or goes on; with calls every end goes on.
#[test]
fn c_17_an_unknown_end_ends_or_goes_on() {
    for (preset, requests) in [("pulse", 1), ("neovate", 1), ("etcode", 1), ("piton", 1), ("opencode", 3)] {
        let ran = Lab::new(preset, vec![finishes("hm", FinishReason::Other)]).run();
        assert_eq!((ran.requests.len(), ran.end()), (requests, TurnEnd::Completed), "{preset}");
    }
    for finish in [FinishReason::Stop, FinishReason::Other, FinishReason::ToolCalls] {
        let mut first = rounds(1).remove(0);
        reply(&mut first).finish = finish;
        assert_eq!(Lab::new("opencode", vec![first, says("done")]).run().requests.len(), 2, "{finish:?}");
    }
}

/// C-19: a model that stops and a person who stops it are two ends.
#[test]
fn c_19_a_stop_of_the_model_is_no_cancel() {
    for preset in ["neovate", "pulse", "coder-mvp", "etcode", "opencode"] {
        assert_eq!(Lab::new(preset, vec![says("done")]).run().end(), TurnEnd::Completed, "{preset}");
        assert_eq!(Lab::new(preset, vec![hangs("half")]).run().end(), TurnEnd::Canceled, "{preset}");
    }
}

/// C-20 N4-06: three identical calls end the run, or are a question, or nothing.
#[test]
fn c_20_three_identical_calls() {
    let lines = || {
        let mut lines: Vec<Line> = (0..4).map(|_| calls("", &[("echo", json!({"same": 1}))])).collect();
        lines.push(says("done"));
        lines
    };
    let ran = Lab::new("coder-mvp", lines()).run();
    assert_eq!((ran.end(), ran.requests.len()), (TurnEnd::NoProgress, 3));
    // The kernel that the plan reforms knows no such check, nor has Neovate's.
    let ran = Lab::new("pulse", lines()).run();
    assert_eq!((ran.end(), ran.requests.len()), (TurnEnd::Completed, 5));
    let asked = |answer| {
        let ran = Lab::new("opencode", lines()).change(|settings| settings.attendance = Attendance::Attended);
        Lab { answer, ..ran }.run()
    };
    let (yes, no) = (asked(Decision::Approve), asked(Decision::Deny(None)));
    assert_eq!((yes.end(), yes.requests.len()), (TurnEnd::Completed, 5));
    assert_eq!((no.end(), no.requests.len()), (TurnEnd::NoProgress, 3));
    let questions = |ran: &Ran| ran.kinds().iter().filter(|kind| **kind == "approval_asked").count();
    assert_eq!((questions(&yes), questions(&no)), (1, 1), "after a yes, another three are allowed");
}

/// C-22: the loop returns an object, and in it the string that the document's loop returns.
#[test]
fn c_22_an_object_with_the_documents_string_in_it() {
    let ran = Lab::new("coder-mvp", rounds(9)).change(|settings| settings.policy.steps.max = Some(2)).run();
    let report = ran.report();
    assert_eq!((report.end, report.spent.steps, &*report.text), (TurnEnd::MaxSteps, 2, ""));
    assert_eq!(&*report.result, "Max steps reached, task may be incomplete.");
}

/// C-24: tokens are input, output, reasoning, and those of the cache apart, and are summed up so.
#[test]
fn c_24_tokens_of_every_kind_are_kept() {
    let usage = Usage {
        input_tokens: 100,
        output_tokens: 7,
        cache_read_tokens: 60,
        cache_write_tokens: 20,
        reasoning_tokens: 3,
    };
    let mut lines = vec![rounds(1).remove(0), says("done")];
    lines.iter_mut().for_each(|line| reply(line).usage = usage);
    let ran = Lab::new("opencode", lines).run();
    let twice = Usage {
        input_tokens: 200,
        output_tokens: 14,
        cache_read_tokens: 120,
        cache_write_tokens: 40,
        reasoning_tokens: 6,
    };
    assert_eq!(ran.report().spent.usage, twice);
}

/// C-18: each protocol's name for an end becomes one of ours, and the name itself is kept.
#[test]
fn c_18_every_name_for_an_end_is_one_of_ours() {
    use futures_util::StreamExt;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for protocol in ["openai-chat", "anthropic", "openai-responses", "google", "ollama-native"] {
        for (said, finish) in [("stop", FinishReason::Stop), ("length", FinishReason::Length)] {
            let server = piton_testkit::FakeProvider::start(json!([{"text": "x", "finish": said}]));
            let spec = piton_models::provider::ProviderSpec {
                provider: protocol.into(),
                model: Some("m".into()),
                base_url: Some(server.url()),
                key: Some("sk-test-key".into()),
                ..Default::default()
            };
            let model = piton_models::provider::open(&spec, &Default::default()).ok().unwrap();
            let mut request = Lab::new("etcode", vec![says("x")]).run().requests.remove(0);
            "m".clone_into(&mut request.model);
            let reply = runtime.block_on(async {
                let events: Vec<_> = model.stream(request).collect().await;
                events.into_iter().find_map(|event| match event.unwrap() {
                    piton_core::model::ModelEvent::Done(reply) => Some(*reply),
                    piton_core::model::ModelEvent::Delta(_) => None,
                })
            });
            let reply = reply.unwrap();
            assert_eq!(reply.finish, finish, "{protocol}");
            assert!(reply.finish_raw.is_some_and(|raw| !raw.is_empty()), "{protocol}: {said}");
        }
    }
}

/// C-09 S0-098: an observer is waited for, and one that fails is written down and breaks nothing.
#[test]
fn c_09_an_observer_is_waited_for_and_may_fail() {
    struct Observer;
    #[async_trait::async_trait]
    impl Hook for Observer {
        fn name(&self) -> &str {
            "observer"
        }

        async fn after_model_call(
            &self,
            _: &piton_engine::hooks::HookContext,
            _: &piton_engine::hooks::ModelAnswer,
        ) -> piton_engine::hooks::HookResult {
            Err(piton_engine::hooks::HookError("over the limit".into()))
        }
    }
    let ran = Lab::new("neovate", vec![says("done")]).hook(Arc::new(Observer)).run();
    assert_eq!((ran.end(), &*ran.report().result), (TurnEnd::Completed, "done"));
    let failed = ran.records().into_iter().any(|record| match record.event {
        Event::HooksRan { runs, .. } => {
            runs.iter().any(|run| run.detail.as_deref().unwrap_or_default().contains("over the limit"))
        }
        _ => false,
    });
    assert!(failed, "it is on record");
}
