//! What is found, in which forms and across which borders; and what is left alone.

use super::firewall::NotRestored;
use super::{Depth, Firewall, Secrets, Tag};
use crate::call::{CallInput, Effects, Outcome};
use crate::event::{Author, Delivery, Event, Verdict};
use crate::ids::{CallId, MessageId};
use crate::message::{FinishReason, Part, ToolCall, Usage};
use crate::model::Reply;
use serde_json::json;
use std::sync::Arc;

mod corpus;
mod properties;

const CANARY: &str = "kanari9X-7f3a+b2/c4d=Vogel";

/// A tag without a key.
fn tag() -> Tag {
    Arc::new(|value: &[u8]| {
        value.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
    })
}

fn firewall() -> Firewall {
    Firewall::new(Secrets::new(tag()))
}

fn knowing(values: &[(&str, &str)]) -> Firewall {
    let firewall = firewall();
    values.iter().for_each(|(name, value)| firewall.know(name, value));
    firewall
}

fn clean(firewall: &Firewall, text: &str) -> String {
    firewall.cleaned(text, Depth::Everything).into_owned()
}

#[test]
fn the_same_value_has_the_same_placeholder_and_two_values_have_two() {
    let firewall = knowing(&[("CANARY", CANARY), ("OTHER", "another7value8here")]);
    let text = clean(&firewall, &format!("{CANARY} another7value8here {CANARY}"));
    let words: Vec<&str> = text.split(' ').collect();
    assert!(words[0].starts_with("‹secret:CANARY:") && words[1].starts_with("‹secret:OTHER:"), "{text}");
    assert_eq!(words[0], words[2]);
    assert_eq!(clean(&firewall, &text), text, "what is clean stays as it is");
}

#[test]
fn what_is_printed_behind_a_value_makes_no_other_value_of_it() {
    let line = "DB_PASSWORD=Wq7zKp2mXv9Lt4Rb";
    let firewall = firewall();
    firewall.know_file(line);
    let before = clean(&firewall, line);
    for behind in ["$", ";", "^M$", "\","] {
        let shown = clean(&firewall, &format!("{line}{behind}"));
        assert!(shown.starts_with(&before), "{behind}: {shown}");
        assert_eq!(clean(&firewall, line), before, "after {behind}");
    }
    // What goes on is another value, all of it.
    let longer = clean(&firewall, &format!("{line}-and-4more5of6it"));
    assert!(!longer.contains("4more5of6it"), "{longer}");
    assert_eq!(clean(&firewall, line), before, "a longer one that begins so takes nothing from it");
}

#[test]
fn two_values_of_one_short_tag_are_told_apart() {
    let firewall = Firewall::new(Secrets::new(Arc::new(|value| 0xabcd_0000 + value.len() as u32)));
    firewall.know("A", "first7value8here");
    firewall.know("A", "another7value8here");
    let text = clean(&firewall, "first7value8here another7value8here");
    assert_eq!(text, "‹secret:A:abcd›  ‹secret:A:abcd0012›".replace("  ", " "));
}

#[test]
fn words_are_no_values_to_look_for() {
    let firewall =
        knowing(&[("DB_PASSWORD", "postgres"), ("NODE_ENV", "development"), ("PORT", "3000"), ("FLAG", "true")]);
    let text = "postgres runs in development on port 3000: true";
    assert_eq!(clean(&firewall, text), text);
}

#[test]
fn a_value_that_was_given_away_once_is_found_in_other_forms() {
    let firewall = firewall();
    let token = "ghp_0a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R";
    assert!(clean(&firewall, &format!("token: {token}")).contains("‹secret:"));
    let backwards: String = token.chars().rev().collect();
    assert!(!clean(&firewall, &format!("it is {backwards}")).contains(&backwards));
    // Also where the other form stands before it.
    let firewall = super::tests::firewall();
    let text = clean(&firewall, &format!("{backwards} is {token}"));
    assert!(!text.contains(&backwards) && !text.contains(token), "{text}");
}

#[test]
fn what_the_model_wrote_itself_is_its_own_unless_it_is_known() {
    let firewall = knowing(&[("CANARY", CANARY)]);
    firewall.own(&[Part::text(format!("let password = \"hunter22\"; // {CANARY}"))]);
    let file = format!("password = \"hunter22\"\nkey = \"{CANARY}\"\n");
    let text = clean(&firewall, &file);
    assert!(text.contains("hunter22") && !text.contains(CANARY), "{text}");
}

#[test]
fn files_of_variables_give_away_their_secrets_and_nothing_else() {
    let file = "# DB_PASSWORD=commented1\nPORT=3000\nNODE_ENV=development\nexport API_KEY=\"abc123def456\" \nURL=https://example.org/a1\n\
                DATABASE_URL=postgres://app:pw4711xy@db/app\nFREE=Zm9v7QxA93kLmN0pQr5tUv\nMULTI_KEY=\"line-1-abcdefghijklmnopqrstuvwxyz\n\
                line-2-abcdefghijklmnopqrstuvwxyz\"\n";
    let firewall = firewall();
    firewall.know_file(file);
    let text = "abc123def456 and pw4711xy and Zm9v7QxA93kLmN0pQr5tUv on 3000, development, https://example.org/a1 line-2-abcdefghijklmnopqrstuvwxyz";
    let cleaned = clean(&firewall, text);
    for gone in ["abc123", "pw4711xy", "Zm9v7", "line-2"] {
        assert!(!cleaned.contains(gone), "{gone}: {cleaned}");
    }
    assert!(
        cleaned.ends_with(&cleaned[cleaned.find("on 3000").unwrap_or(0)..])
            && cleaned.contains("3000, development, https://example.org/a1")
    );
    for (file, value) in [
        ("machine h login anna password kartoffel77\n", "kartoffel77"),
        ("db.internal:5432:app:anna:kartoffel77\n", "kartoffel77"),
        ("//npm.internal/:_authToken=kartoffel77\n", "kartoffel77"),
        ("github.com:\n    oauth_token: kartoffel77\n", "kartoffel77"),
        (
            "[default]\naws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzzzKEY\n",
            "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzzzKEY",
        ),
        ("{\"password\": \"kartoffel77\",\n\"user\": \"anna\"}", "kartoffel77"),
    ] {
        let firewall = super::tests::firewall();
        firewall.know_file(file);
        assert!(!clean(&firewall, &format!("it is {value} here")).contains(value), "{file}");
    }
}

#[test]
fn a_value_that_was_cut_off_is_found_by_its_beginning() {
    let firewall = knowing(&[("CANARY", CANARY)]);
    let half = &CANARY[..14];
    for cut in [
        format!("x {half}"),
        format!("x {half}… (line truncated)"),
        format!("x {half}\nnext"),
        format!("x {half}... (line truncated)"),
    ] {
        assert!(!clean(&firewall, &cut).contains(half), "{cut}");
    }
    assert_eq!(firewall.cleaned(half, Depth::Known), half, "the model may not guess one letter by letter");
    let other = format!("x {half}-something-else");
    assert_eq!(clean(&firewall, &other), other, "it is another value");
}

#[test]
fn ids_hashes_and_what_a_provider_wants_back_survive_and_every_text_is_cleaned() {
    let firewall = knowing(&[("CANARY", CANARY)]);
    let signature = json!({"signature": format!("{CANARY}AAAA")});
    let call = ToolCall {
        id: CallId("c1_0".into()),
        provider_id: Some("toolu_1".into()),
        name: "bash".into(),
        spelling: None,
        input: CallInput::Json(json!({"command": format!("echo {CANARY}"), CANARY: [1, CANARY]})),
        opaque: Some(signature.clone()),
    };
    let parts = vec![
        Part::Reasoning { text: format!("it is {CANARY}"), opaque: Some(signature.clone()) },
        Part::text(format!("it is {CANARY}")),
        Part::ToolCall(call.clone()),
        Part::Image { media_type: "image/png".into(), data: "iVBOR".into() },
    ];
    let reply = Reply {
        parts: parts.clone(),
        finish: FinishReason::ToolCalls,
        finish_raw: None,
        usage: Usage::default(),
        response_id: Some("resp_1".into()),
        warnings: vec![format!("odd: {CANARY}")],
    };
    let outcome = Outcome::ok(format!("API_KEY={CANARY}"))
        .titled(CANARY)
        .with(json!({"password": "postgres1", "path": "/a/b", "n": 1}));
    let events = [
        Event::UserSpoke {
            message: MessageId("m1".into()),
            parts,
            delivery: Delivery::Steer,
            typed: None,
            allows: Vec::new(),
            for_turn: None,
            subtask: None,
        },
        Event::replied(1, reply),
        Event::CallRequested {
            call: call.id.clone(),
            input: call.input.value().cloned(),
            author: Author::Model,
            effects: Effects::OPAQUE,
            verdict: Verdict::Deny(CANARY.into()),
            plan: None,
            judged: None,
        },
        Event::CallSettled { call: call.id.clone(), outcome },
    ];
    for mut event in events {
        let before = serde_json::to_value(&event).unwrap();
        firewall.event(&mut event);
        let after = serde_json::to_value(&event).unwrap();
        let text = after.to_string().replace(&signature["signature"].to_string(), "");
        assert!(!text.contains(CANARY), "{text}");
        assert!(!text.contains("postgres1"), "{text}");
        for kept in [
            "/message",
            "/type",
            "/call",
            "/reply/response_id",
            "/reply/parts/0/opaque",
            "/reply/parts/2/opaque",
            "/reply/parts/2/provider_id",
        ] {
            assert_eq!(before.pointer(kept), after.pointer(kept), "{kept}");
        }
    }
}

#[test]
fn a_view_gives_back_exactly_what_was_there() {
    let firewall = knowing(&[("CANARY", CANARY)]);
    let file = format!("A=1\nAPI_KEY={CANARY}\nB=\u{feff}\r\npassword: hunter22\n");
    let view = firewall.view(file.as_bytes());
    let shown = String::from_utf8(view.content.clone()).unwrap();
    assert!(!shown.contains(CANARY) && !shown.contains("hunter22") && view.has_secrets());
    assert_eq!(view.restored(&view.content), Ok(file.clone().into_bytes()));
    let changed = shown.replace("A=1", "A=2");
    assert_eq!(view.restored(changed.as_bytes()), Ok(file.replace("A=1", "A=2").into_bytes()));
    let foreign = "C=‹secret:OTHER:0000›";
    let plain = super::View::default();
    assert_eq!(plain.restored("a ‹b› ‹".as_bytes()), Ok("a ‹b› ‹".into()));
    assert!(matches!(plain.restored(foreign.as_bytes()), Err(NotRestored::Foreign(_))));
    assert_eq!(view.restored(foreign.as_bytes()), Err(NotRestored::Foreign("‹secret:OTHER:0000›".into())));
    let placeholder = super::placeholders(&shown)[0].text.to_owned();
    for cut in [&placeholder[..placeholder.len() - 4], &placeholder[placeholder.len() - 8..]] {
        assert_eq!(view.restored(cut.as_bytes()), Err(NotRestored::Cut), "{cut}");
    }
    let renamed = placeholder.replace("CANARY", "SOMETHING");
    assert_eq!(view.spelled(&renamed), placeholder);
}
