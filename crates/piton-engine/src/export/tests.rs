//! Exports as specifications: what comes back is what went out, a changed file is not taken, secrets stay here, and a
//! page holds nothing but what we put into it.

use super::redact::Redactor;
use super::{html, json, markdown};
use piton_core::call::{CallInput, Effects, Outcome, Status};
use piton_core::event::{Delivery, Direction, Event, Record, Rewind, Spent, StepKind, TurnEnd, Verdict};
use piton_core::ids::{CallId, MessageId, SessionId};
use piton_core::message::{FinishReason, Part, ToolCall, Usage};
use piton_core::model::Reply;
use piton_core::policy::Policy;
use piton_core::story::{Body, RewindState, Story};

/// A turn in which the user asked this, and the model answered that after a call with this input and outcome.
fn conversation(asked: &str, input: serde_json::Value, outcome: Outcome, answered: &str) -> Vec<Record> {
    let call = CallId::from("c1_0");
    let tool = if input.get("command").is_some() { "bash" } else { "edit" };
    let reply = |parts: Vec<Part>, finish| Reply::new(parts, finish);
    let (id, name, input) = (call.clone(), tool.to_owned(), CallInput::Json(input));
    let calls = vec![Part::ToolCall(ToolCall { id, provider_id: None, name, spelling: None, input, opaque: None })];
    let events = vec![
        Event::SessionStarted {
            session: SessionId::from("ses_1"),
            workspace: "/work".to_owned(),
            version: "0".to_owned(),
            parent: None,
        },
        Event::UserSpoke {
            message: MessageId::from("msg_1"),
            parts: vec![Part::text(asked)],
            delivery: Delivery::Steer,
            typed: None,
            allows: Vec::new(),
            for_turn: None,
            subtask: None,
        },
        Event::TurnStarted {
            turn: 1,
            model: "fake/model".to_owned(),
            fallbacks: vec![],
            policy: Box::new(Policy::piton()),
            compact_at_tokens: None,
            this_turn_only: false,
        },
        Event::StepStarted { step: 1, kind: StepKind::Ordinary, note: None },
        Event::MessageFinished {
            first_ms: None,
            step: 1,
            attempt: 1,
            reply: reply(calls, FinishReason::ToolCalls),
            cost_micros: Some(1_500),
            at_most: None,
            prompt: None,
        },
        Event::requested(call.clone(), Effects::OPAQUE, Verdict::Allow),
        Event::CallStarted { call: call.clone() },
        Event::CallSettled { call, outcome },
        Event::StepFinished { step: 1 },
        Event::StepStarted { step: 2, kind: StepKind::Ordinary, note: None },
        Event::MessageFinished {
            first_ms: None,
            step: 2,
            attempt: 1,
            reply: reply(vec![Part::text(answered)], FinishReason::Stop),
            cost_micros: None,
            at_most: None,
            prompt: None,
        },
        Event::StepFinished { step: 2 },
        Event::TurnEnded { turn: 1, end: TurnEnd::Completed, why: None, detail: None, spent: Spent::default() },
    ];
    (1..).zip(events).map(|(seq, event)| Record { seq, at_ms: seq * 1000, event }).collect()
}

fn plain() -> Vec<Record> {
    let input = serde_json::json!({"command": "make", "ratio": 0.1, "big": 12345678901234567890_u64});
    conversation("build it", input, Outcome::ok("done").with(serde_json::json!({"exit_code": 0})), "It **builds**.")
}

fn utc(at_ms: u64) -> String {
    format!("{at_ms} ms")
}

#[test]
fn a_turn_that_was_taken_back_is_not_told_but_paid_for() {
    let mut records = conversation("a bad idea", serde_json::json!({"command": "ls"}), Outcome::ok("x"), "as you wish");
    let rewind = Rewind { direction: Direction::Undo, turns: 1, to: Some(2), files: vec![], overwrite: false };
    let seq = records.len() as u64 + 1;
    records.push(Record { seq, at_ms: 9, event: Event::RewindFinished { rewind, left: vec![], back: None } });
    let story = Story::of(&records);
    let left: Vec<&Body> = story.blocks().filter(|block| !block.taken_back).map(|block| &block.body).collect();
    let finished = |state: &RewindState| matches!(state, RewindState::Finished { .. });
    assert!(matches!(left[..], [Body::Session(_), Body::Rewind { state, .. }] if finished(state)), "{left:?}");
    assert!(story.session().cost_micros.is_some());
    let page = html::write(&story, "", &|_| String::new());
    assert!(page.contains("the last turn was taken back") && !page.contains("bad idea"), "{page}");
}

#[test]
fn json_comes_back_as_the_same_events() {
    let records = plain();
    let text = json::write(&records, "build it", 0).expect("our own types");
    assert_eq!(json::read(&text).expect("an export"), records);
    let laid_out: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let laid_out = serde_json::to_string_pretty(&laid_out).expect("JSON");
    assert_eq!(json::read(&laid_out).expect("laid out anew it is still the same"), records);
}

#[test]
fn json_that_was_changed_cut_or_is_something_else_is_not_taken() {
    let text = json::write(&plain(), "build it", 0).expect("our own types");
    let whole = text.trim_end();
    for length in [1, 20, whole.len() / 2, whole.len() - 1] {
        let error = json::read(&whole[..length]).expect_err("cut");
        assert!(matches!(error, json::NotAnExport::Cut(_)), "{length}: {error}");
    }
    let error = |text: &str| json::read(text).expect_err("not an export").to_string();
    assert!(error(&text.replace("build it\"}]", "destroy it\"}]")).contains("modified"));
    assert!(error(&text.replace("\"seq\":4", "\"seq\":5")).contains("modified"));
    assert!(error(&text.replace("\"piton_export\":1", "\"piton_export\":2")).contains("newer Piton"));
    for foreign in ["", "hello", "[1, 2]", "{}", "{\"piton_export\":1}"] {
        assert!(
            matches!(json::read(foreign), Err(json::NotAnExport::Foreign(_) | json::NotAnExport::Cut(_))),
            "{foreign}"
        );
    }
}

#[test]
fn an_export_by_somebody_who_means_harm_is_no_session() {
    for id in ["../../etc", "ses_../x", "ses_", "ses_a/b", "x"] {
        let mut records = plain();
        if let Event::SessionStarted { session, .. } = &mut records[0].event {
            *session = SessionId::from(id);
        }
        let text = json::write(&records, "", 0).expect("our own types");
        assert!(matches!(json::read(&text), Err(json::NotAnExport::NoSession(_))), "{id}");
    }
    let mut gap = plain();
    gap.remove(4);
    let text = json::write(&gap, "", 0).expect("our own types");
    assert!(matches!(json::read(&text), Err(json::NotAnExport::NoSession(_))));
}

#[track_caller]
fn check_redacted(text: &str, expected: &str) {
    let mut redactor = Redactor::new(
        [("A", "hunter2-is-long"), ("B", "short")].map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    assert_eq!(redactor.text(text), expected);
    assert_eq!(redactor.found, expected.matches(super::redact::MARK).count());
}

#[test]
fn secrets_are_known_by_their_form_their_name_or_their_value() {
    let random = "Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4zAb3dEf6h";
    for form in [
        format!("sk-ant-api03-{random}"),
        format!("sk-proj-{random}"),
        format!("ghp_{random}"),
        format!("github_pat_{random}"),
        format!("glpat-{random}"),
        "AKIAIOSFODNN7ABCDEFG".to_owned(),
        format!("AIza{}", &random[..35]),
        format!("xoxb-{random}"),
        format!("hf_{random}"),
        format!("gsk_{random}"),
        format!("npm_{}", &random[..36]),
        format!("eyJhbGciOiJIUzI1NiJ9.{random}.{random}"),
        format!("-----BEGIN RSA PRIVATE KEY-----\n{random}\n{random}\n-----END RSA PRIVATE KEY-----"),
        "hunter2-is-long".to_owned(),
    ] {
        check_redacted(&format!("use {form} here"), "use [redacted] here");
    }
    check_redacted("export MY_API_KEY=abcdefgh123", "export MY_API_KEY=[redacted]");
    check_redacted("DB_PASSWORD: \"abcdefgh\"", "DB_PASSWORD: \"[redacted]\"");
    check_redacted("{\"access_token\": \"abc4def5\"}", "{\"access_token\": \"[redacted]\"}");
    check_redacted("Authorization: Bearer abcdef4ghij5KLmnop", "Authorization: Bearer [redacted]");
    check_redacted("git clone https://me:pa55word@host/x", "git clone https://me:[redacted]@host/x");
}

#[test]
fn what_is_no_secret_stays() {
    for text in [
        "the task-runner-for-long-names-of-things and max_tokens = 100000000",
        "let api_key: String = config.key(); token.is_empty() short",
        "export PATH=/usr/local/bin:/usr/bin MY_API_KEY=$(pass show key)",
        "https://example.com:8080/a@b",
        "hash 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    ] {
        check_redacted(text, text);
    }
}

#[test]
fn redacted_events_are_still_the_same_events() {
    let key = format!("sk-ant-{}", "a1".repeat(20));
    let command = format!("curl -H 'x-api-key: {key}' https://api");
    let records =
        conversation("go", serde_json::json!({"command": command, "password": "hunter22"}), Outcome::ok(&key), "ok");
    let mut redactor = Redactor::new([]);
    let redacted = redactor.records(&records);
    assert_eq!(redactor.found, 3);
    assert!(!format!("{redacted:?}").contains(&key) && !format!("{redacted:?}").contains("hunter22"));
    let kinds = |records: &[Record]| records.iter().map(|record| record.event.kind()).collect::<Vec<_>>();
    assert_eq!(kinds(&redacted), kinds(&records));
    let untouched = plain();
    assert_eq!(redactor.records(&untouched), untouched);
}

#[test]
fn a_page_holds_no_markup_of_others() {
    let evil = "<script>alert(1)</script><img src=x onerror=alert(1)>";
    let answer = format!(
        "{evil}\n\n[click](javascript:alert(1)) ![track](https://evil.example/x.png) [fine](https://ok.example)\n\n```\n{evil}\n```"
    );
    let records = conversation(evil, serde_json::json!({"command": evil}), Outcome::failed(evil), &answer);
    let page = html::write(&Story::of(&records), evil, &utc);
    for forbidden in ["<script", "<img", "javascript:", "evil.example", "onerror=alert(1)>"] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    assert!(page.contains("<a href=\"https://ok.example\">fine</a>"));
    assert!(page.matches("&lt;script&gt;").count() >= 5, "all of it can be read");
}

#[test]
fn a_page_shows_edits_as_diffs_and_tools_folded() {
    let diff = "edited a.rs (+1 −1)\n@@ -1 +1 @@\n-old\n+new";
    let input = serde_json::json!({"path": "a.rs", "old_string": "old", "new_string": "new"});
    let page = html::write(&Story::of(&conversation("go", input, Outcome::ok(diff), "done")), "t", &utc);
    for piece in
        ["<span class=\"del\">-old\n</span>", "<span class=\"add\">+new\n</span>", "<details class=\"tool ok\">"]
    {
        assert!(page.contains(piece), "{piece}");
    }
    for elsewhere in ["src=", "href=", "url(", "@import"] {
        assert!(!page.contains(elsewhere), "it needs nothing from elsewhere: {elsewhere}");
    }
}

#[test]
fn no_form_of_an_export_holds_tags_or_characters_that_nobody_sees() {
    let said = "hi <script>alert(1)</script> `<b>` <img src=x onerror=alert(2)>\n\n```\n<i>\n```\n<a title=\"`\"> `<script>` \
                C1 \u{9b}31m, order \u{202e}, tag \u{e0041}, \rreturn";
    let input = serde_json::json!({"command": "echo \u{202e}x"});
    let records = conversation(said, input, Outcome::ok("out \u{9b}2J\u{2066}"), said);
    let story = Story::of(&records);
    let title = "say <script>alert(3)</script> \u{202e}";
    let markdown = markdown::write(&story, title, &utc);
    let parsed = pulldown_cmark::Parser::new(&markdown).filter_map(|event| match event {
        pulldown_cmark::Event::Html(html) | pulldown_cmark::Event::InlineHtml(html) => Some(html.to_string()),
        _ => None,
    });
    let tags: String = parsed.collect();
    assert!(!["script", "img", "<i>", "<a"].iter().any(|tag| tags.contains(tag)), "{tags}");
    assert!(markdown.contains("`<b>`") && markdown.contains("```\n<i>\n```"), "code is left alone: {markdown}");
    let json = json::write(&records, title, 0).expect("JSON");
    assert_eq!(json::read(&json).expect("the same events"), records);
    for text in [&markdown, &html::write(&story, title, &utc), &json] {
        let odd = text.chars().find(|char| *char == '\r' || piton_core::hidden::is_hidden(*char));
        assert_eq!(odd, None, "{text}");
    }
    assert!(markdown.contains("order \\u{202e}, tag \\u{e0041}, \\u{d}return"), "{markdown}");
}

#[test]
fn markdown_reads_as_it_was_said() {
    let records =
        conversation("build it", serde_json::json!({"command": "make"}), Outcome::ok("a ``` fence"), "It **builds**.");
    let text = markdown::write(&Story::of(&records), "Build", &utc);
    expect_test::expect![[r#"
        # Build

        1000 ms · fake/model · 2 steps · $0.0015 · `ses_1`  
        Folder: `/work`

        ## You

        build it

        <details><summary><b>bash</b> <code>make</code> — ok</summary>

        ```sh
        make
        ```

        ````
        a ``` fence
        ````

        </details>

        ## Piton

        It **builds**.

        *completed*

        ---

    "#]]
    .assert_eq(&text);
}

#[test]
fn a_story_pairs_calls_with_outcomes_and_counts_what_was_lost() {
    let mut records =
        conversation("go", serde_json::json!({"command": "make"}), Outcome::new(Status::TimedOut, ""), "x");
    let cut: Vec<Record> = records.drain(..7).collect();
    let story = Story::of(&cut);
    assert!(story.call(&CallId::from("c1_0")).expect("it was called").outcome().is_none());
    assert!(story.session().busy);
    let lost = [8, 9].map(|seq| Record { seq, at_ms: 0, event: Event::EventLost {} });
    let repaired: Vec<Record> = cut.into_iter().chain(lost).collect();
    let story = Story::of(&repaired);
    assert!(matches!(story.blocks().next_back().map(|last| &last.body), Some(Body::Lost { events: 2 })));
    assert!(!story.session().busy);
}

#[test]
fn a_summary_that_was_paid_for_is_part_of_the_cost() {
    let mut records = conversation("do", serde_json::json!({"command": "ls"}), Outcome::ok("a"), "done");
    let before = Story::of(&records).session().cost_micros.unwrap_or_default();
    let asked = piton_core::event::SummaryCall {
        model: "fake/model".to_owned(),
        attempts: 1,
        usage: Usage::default(),
        cost_micros: Some(70),
        at_most: None,
        prompt: None,
    };
    let trigger = piton_core::event::Trigger::Asked;
    let event = Event::CompactionFailed { trigger, why: None, error: "empty".to_owned(), asked: Some(Box::new(asked)) };
    let last = records.last().unwrap();
    records.push(Record { seq: last.seq + 1, at_ms: last.at_ms, event });
    assert_eq!(Story::of(&records).session().cost_micros, Some(before + 70));
}

#[test]
fn a_session_that_no_other_has_called_is_no_subagent_of_an_export() {
    let records = plain();
    let text =
        json::write_tree((&records, "root"), &[(records.clone(), "other".to_owned())], 0).expect("our own types");
    assert!(matches!(json::read_tree(&text), Err(json::NotAnExport::NoSession(_))), "{text}");
}
