//! Document S0: Neovate's `runLoop`.

use super::*;
use piton_core::call::Status;
use piton_core::message::Role;
use piton_core::model::Delta;
use std::io::{Read, Write};

/// S0-002 S0-003 S0-061: tools are run and their results fed back until the model wants none.
#[test]
fn s0_002_tools_are_run_until_none_is_left() {
    let ran = Lab::new(
        "neovate",
        vec![says(&use_tool("echo", &json!({"n": 1}))), says(&use_tool("echo", &json!({"n": 2}))), says("third")],
    )
    .run();
    assert_eq!((ran.requests.len(), &*ran.report().text), (3, "third"));
    let roles: Vec<Role> = ran.played.transcript().iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::Tool, Role::Assistant, Role::Tool, Role::Assistant]);
}

/// S0-005 S0-022: text and reasoning are told as they come, and together are what is kept.
#[test]
fn s0_005_text_and_reasoning_are_told_as_they_come() {
    let mut line = Line::reply(&["Hel".into(), "lo".into()], Vec::new(), FinishReason::Stop, used(1, 1));
    line.deltas.insert(0, Delta::Reasoning { text: "hm".into() });
    let ran = Lab::new("neovate", vec![line]).run();
    let deltas = ran.played.deltas();
    assert_eq!(deltas[0], Delta::Reasoning { text: "hm".into() });
    let text: String = deltas
        .iter()
        .filter_map(|delta| if let Delta::Text { text } = delta { Some(text.as_str()) } else { None })
        .collect();
    assert_eq!(*text, *ran.report().text);
}

/// S0-006 S0-007: the loop needs nothing but what it is given: no configuration, no home, and it leaves nothing behind.
#[test]
fn s0_006_the_loop_needs_only_what_it_is_given() {
    let workspace = TempWorkspace::new();
    let script = Script::new(vec![says("done")]);
    let settings = Settings::by_preset("neovate", script).unwrap();
    let played = Play::new(settings, "go").run(&workspace.path()).unwrap();
    assert_eq!(played.report.end, TurnEnd::Completed);
    assert_eq!(std::fs::read_dir(workspace.path()).unwrap().count(), 0);
}

/// S0-012: who said it is kept beside what was said.
#[test]
fn s0_012_the_model_is_recorded_as_provider_and_name() {
    let ran = Lab::new("neovate", vec![says("hi")]).run();
    assert_eq!(ran.played.transcript()[1].model.as_deref(), Some("prov/mod"));
}

/// S0-013 S0-015 S0-045: tools are described in the prompt where there are any; instructions may be absent.
#[test]
fn s0_013_without_tools_there_is_no_prompt_of_tools() {
    let bare = Lab::new("neovate", vec![says("hi")]).props(vec![]).change(|settings| settings.system = "".into()).run();
    assert_eq!(bare.requests[0].system, "");
    let full = Lab::new("neovate", vec![says("hi")]).change(|settings| settings.system = "Be brief.".into()).run();
    let system = &full.requests[0].system;
    assert!(system.starts_with("Be brief.") && system.contains("## echo") && system.contains("<use_tool>"), "{system}");
    assert!(full.requests[0].tools.is_empty(), "the provider is told of none");
}

/// S0-014: paths are relative to the folder of the session.
#[test]
fn s0_014_paths_are_relative_to_the_folder_of_the_session() {
    let lines = vec![says(&use_tool("read", &json!({"path": "a.txt"}))), says("read")];
    let ran = Lab::new("neovate", lines).tools(ToolSet::builtin()).run();
    assert!(ran.outcomes()[0].text.contains("alpha"), "{:?}", ran.outcomes());
}

/// S0-017: fifty where nobody says anything.
#[test]
fn s0_017_the_default_is_fifty() {
    let settings = Settings::by_preset("neovate", Script::new(vec![])).unwrap();
    assert_eq!(settings.policy.steps.max, Some(50));
}

/// S0-034 S0-060 S0-057 S0-033: a refusal is the call's result, and ends the run.
#[test]
fn s0_034_a_denied_tool_ends_the_run() {
    let lines = vec![says(&use_tool("echo", &json!({}))), says("never")];
    let ran = Lab::new("neovate", lines).asking(Decision::Deny(None)).run();
    assert_eq!((ran.end(), ran.requests.len()), (TurnEnd::ToolDenied, 1));
    assert_eq!(&*ran.report().result, "Error: Tool execution was denied by user.");
    let outcome = &ran.outcomes()[0];
    assert_eq!((outcome.status, outcome.text.as_str()), (Status::Denied, "Error: Tool execution was denied by user."));
    assert_eq!(ran.report().spent.calls, 0);
    assert_eq!(ran.played.transcript().last().unwrap().role, Role::Tool, "the result is in the history");
}

/// S0-036 S0-040: cancelled before the first request, nothing is asked.
#[test]
fn s0_036_cancelled_at_the_start_nothing_is_asked() {
    let ran = Lab::new("neovate", vec![says("never")]).stopped_at_once().run();
    assert_eq!((ran.end(), ran.requests.len()), (TurnEnd::Canceled, 0));
    assert_eq!(&*ran.report().result, "Operation was canceled");
}

/// S0-040 S0-119: cancelled while the model speaks, what it said is kept and marked, and no later word comes.
#[test]
fn s0_040_cancelled_in_mid_stream_what_was_said_is_kept_and_marked() {
    let ran = Lab::new("neovate", vec![hangs("half an answer")]).run();
    assert_eq!(ran.end(), TurnEnd::Canceled);
    let last = ran.played.transcript().last().unwrap().clone();
    assert!(last.interrupted && last.prose() == "half an answer", "{last:?}");
}

/// S0-004 S0-040: cancelled while a tool runs, its result is kept and nothing more is asked.
#[test]
fn s0_004_cancelled_while_a_tool_runs_nothing_more_is_asked() {
    let stopper = Arc::new(Prop { name: "echo".into(), stops: true, ..Prop::default() });
    let lines = vec![says(&use_tool("echo", &json!({}))), says("never")];
    let ran = Lab::new("neovate", lines).props(vec![stopper]).run();
    assert_eq!((ran.end(), ran.requests.len(), ran.outcomes().len()), (TurnEnd::Canceled, 1, 1));
}

/// S0-041: a cancel closes the connection to the provider.
#[test]
fn s0_041_a_cancel_closes_the_connection() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut seen = [0; 65_536];
        assert!(stream.read(&mut seen).unwrap() > 0);
        let chunk = json!({"choices": [{"index": 0, "delta": {"content": "half"}}]});
        let said = format!("data: {chunk}\n\n");
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        write!(stream, "{head}{:x}\r\n{said}\r\n", said.len()).unwrap();
        // Nothing, or a reset: the other side is gone.
        while stream.read(&mut seen).is_ok_and(|length| length > 0) {}
    });
    let spec = piton_models::provider::ProviderSpec {
        provider: "openai-chat".into(),
        model: Some("m".into()),
        base_url: Some(url),
        ..Default::default()
    };
    let model = piton_models::provider::open(&spec, &Default::default()).unwrap();
    let data = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let settings = Settings::by_preset("neovate", model).unwrap();
        let session = piton_engine::engine::Engine::open(data.path()).create(data.path(), settings).await.unwrap();
        let mut heard = session.subscribe(1);
        let hearing = async {
            while let Ok(Some(published)) = heard.next().await {
                if let piton_core::client::Published::Live(_) = published {
                    return drop(session.cancel());
                }
            }
        };
        let (report, ()) = tokio::join!(session.prompt("go"), hearing);
        assert_eq!(report.unwrap().end, TurnEnd::Canceled);
    });
    server.join().unwrap();
}

/// S0-032 S0-042 S0-043: rounds of tools are not counted: sixty of them, and one reply is allowed.
#[test]
fn s0_043_rounds_of_tools_are_free() {
    let mut lines: Vec<Line> = (0..60).map(|_| says(&use_tool("echo", &json!({"same": true})))).collect();
    lines.push(says("end"));
    let ran = Lab::new("neovate", lines).change(|settings| settings.policy.steps.max = Some(1)).run();
    assert_eq!((ran.end(), &*ran.report().result, ran.requests.len()), (TurnEnd::Completed, "end", 61));
    assert_eq!((ran.report().spent.counted_steps, ran.report().spent.steps), (1, 61), "turnsCount");
}

/// S0-042 S0-043: and the model is not told that its steps run out while they are free.
#[test]
fn s0_043_the_model_is_told_of_the_steps_that_count() {
    let mut lines: Vec<Line> = (0..60).map(|_| says(&use_tool("echo", &json!({"same": true})))).collect();
    lines.push(says("end"));
    let ran = Lab::new("neovate", lines).run();
    assert_eq!((ran.end(), ran.requests.len()), (TurnEnd::Completed, 61));
    assert!(!ran.words(60).contains("steps of this turn are left"), "fifty are");
}

/// C-05: an endless loop of tools ends all the same, at a limit of its own.
#[test]
fn c_05_an_endless_loop_of_tools_ends_all_the_same() {
    let ran = Lab::new("neovate", vec![says(&use_tool("echo", &json!({})))]).run();
    assert_eq!((ran.end(), ran.requests.len()), (TurnEnd::MaxSteps, 200));
}

/// S0-037: what was used before an error is in the result.
#[test]
fn s0_037_a_failed_run_tells_what_it_used() {
    let mut first = says(&use_tool("echo", &json!({})));
    reply(&mut first).usage = used(100, 10);
    let ran = Lab::new("neovate", vec![first, fails(529)]).run();
    assert_eq!((ran.end(), ran.report().spent.usage), (TurnEnd::ApiError, used(100, 10)));
    assert_eq!(ran.played.transcript().len(), 3, "and the history is there");
}

/// S0-032 S0-039: counts and time are of one run; the next one begins at nothing.
#[test]
fn s0_039_the_next_run_counts_from_the_beginning() {
    let lines = vec![says(&use_tool("echo", &json!({}))), says("one"), says("two")];
    let ran = Lab::new("neovate", lines).prompts(&["first", "second"]).run();
    let spent = ran.report().spent;
    assert_eq!((spent.steps, spent.calls, spent.usage), (1, 0, used(10, 5)));
}

/// S0-052: a reply without counts adds none.
#[test]
fn s0_052_a_reply_without_counts_adds_none() {
    let mut second = says("end");
    reply(&mut second).usage = Usage::default();
    let ran = Lab::new("neovate", vec![says(&use_tool("echo", &json!({}))), second]).run();
    assert_eq!(ran.report().spent.usage, used(10, 5));
}

/// S0-053: of several calls the first is taken, however the model makes them.
#[test]
fn s0_053_only_the_first_call_is_taken() {
    let both = [("echo", json!({"n": 1})), ("echo", json!({"n": 2}))];
    for first in
        [calls("A", &both), says(&format!("A {}{} B", use_tool("echo", &both[0].1), use_tool("echo", &both[1].1)))]
    {
        let ran = Lab::new("neovate", vec![first, says("end")]).run();
        let kept = ran.played.transcript()[1].clone();
        assert_eq!((ran.outcomes().len(), kept.calls().count(), kept.prose().trim()), (1, 1, "A"));
    }
}

/// S0-056 S0-058: each call has an id of its own, its result names it, and the tool gets the arguments that were sent.
#[test]
fn s0_056_results_name_their_calls() {
    let input = json!({"text": "ü \"quoted\" \n", "list": [1, null, {"x": 1.5}]});
    let lines = vec![says(&use_tool("echo", &input)), says(&use_tool("echo", &input)), says("end")];
    let ran = Lab::new("neovate", lines).run();
    let transcript = ran.played.transcript();
    let made: Vec<_> = transcript.iter().flat_map(|message| message.calls()).map(|call| call.id.clone()).collect();
    let answered: Vec<_> = transcript
        .iter()
        .flat_map(|message| &message.parts)
        .filter_map(|part| if let Part::ToolResult { call, .. } = part { Some(call.clone()) } else { None })
        .collect();
    assert_eq!(made, answered);
    assert_ne!(made[0], made[1]);
    assert_eq!(serde_json::from_str::<Value>(&ran.outcomes()[0].text).unwrap(), input);
}

/// S0-062 S0-063: a tool that is not there, and arguments that are not right, are errors that the model reads.
#[test]
fn s0_063_wrong_arguments_are_an_error_that_the_model_reads() {
    let lines = vec![says(&use_tool("nope", &json!({}))), says(&use_tool("read", &json!({"lines": 3}))), says("sorry")];
    let ran = Lab::new("neovate", lines).tools(ToolSet::builtin()).run();
    let outcomes = ran.outcomes();
    assert!(outcomes[0].text.starts_with("Tool nope not found") && outcomes[0].status == Status::Failed);
    assert!(outcomes[1].text.contains("`path`") && outcomes[1].status == Status::Failed, "{outcomes:?}");
    assert_eq!(ran.end(), TurnEnd::Completed);
}

/// S0-065: a call that the end of the stream cut off is not run; the model is told, and goes on.
#[test]
fn s0_065_a_call_that_was_cut_off_is_not_run() {
    let lines = vec![says("Look\n<use_tool>\n<tool_name>echo</tool_name>\n<arguments>\n{\"a\":"), says("end")];
    let ran = Lab::new("neovate", lines).run();
    assert_eq!(
        (ran.outcomes()[0].status, ran.report().spent.calls, ran.end()),
        (Status::Failed, 0, TurnEnd::Completed)
    );
}

/// S0-091 S0-095: cached tokens are told apart, and with them a cost can be worked out.
#[test]
fn s0_091_cached_tokens_are_told_apart() {
    let mut line = says("hi");
    let usage = Usage {
        input_tokens: 100,
        output_tokens: 7,
        cache_read_tokens: 60,
        cache_write_tokens: 20,
        reasoning_tokens: 3,
    };
    reply(&mut line).usage = usage;
    let ran = Lab::new("neovate", vec![line]).run();
    assert_eq!(ran.report().spent.usage, usage);
    assert_eq!(ran.report().spent.cost_micros, Some(0), "the scripted model is free, and that is known");
}

/// S0-028 S0-092 S0-093: every reply is told with its counts and times, the last one too, before the next is asked.
#[test]
fn s0_092_every_reply_is_told_before_the_next_is_asked() {
    let ran = Lab::new("neovate", vec![says(&use_tool("echo", &json!({}))), says("end")]).run();
    let order: Vec<&str> = ran
        .kinds()
        .into_iter()
        .filter(|kind| ["step_started", "message_finished", "step_finished"].contains(kind))
        .collect();
    assert_eq!(order, ["step_started", "message_finished", "step_finished"].repeat(2));
    let times: Vec<u64> = ran.records().iter().map(|record| record.at_ms).collect();
    assert!(times.is_sorted());
}

/// S0-096: a budget of tokens ends the run by its own name, with the history kept.
#[test]
fn s0_096_a_budget_of_tokens_ends_the_run() {
    let mut first = says(&use_tool("echo", &json!({})));
    reply(&mut first).usage = used(90_000, 20_000);
    let ran = Lab::new("neovate", vec![first, says("never")])
        .change(|settings| settings.policy.budget.tokens = Some(100_000))
        .run();
    assert_eq!(ran.end(), TurnEnd::Budget);
    assert_eq!((ran.requests.len(), ran.report().spent.calls), (1, 0), "not even its call is run");
    assert_eq!(ran.played.transcript().len(), 3, "and the history is kept, the call answered");
}

/// S0-107: however the text is cut, no piece of a tag is shown.
#[test]
fn s0_107_no_piece_of_a_tag_is_shown() {
    let text = format!("Let me look.\n{}", use_tool("echo", &json!({"a": "<b>"})));
    let pieces: Vec<String> = text.chars().map(String::from).collect();
    let line = Line::reply(&pieces, Vec::new(), FinishReason::Stop, used(1, 1));
    let ran = Lab::new("neovate", vec![line, says("end")]).run();
    let shown: String = ran
        .played
        .deltas()
        .into_iter()
        .filter_map(|delta| if let Delta::Text { text } = delta { Some(text) } else { None })
        .collect();
    assert_eq!(shown, "Let me look.\nend");
}

/// S0-116: what was said before is known in the next prompt.
#[test]
fn s0_116_the_next_prompt_knows_what_was_said_before() {
    let ran = Lab::new("neovate", vec![says("one"), says("two")]).prompts(&["first", "second"]).run();
    let words = ran.words(1);
    assert!(words.contains("first") && words.contains("one") && words.contains("second"), "{words}");
}
