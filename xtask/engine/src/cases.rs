//! Behaviour tables: `cargo xtask cases DIR` runs every case file it knows against the real code.
//!
//! A case file is `{suite, about, cases: [{name, input, expected, …}]}`. Which suites are known, and under which preset
//! they run, is the table in [`suite`].

mod commands;
mod files;
mod neovate;
mod opencode;
mod pulse;
mod references;
mod room;

use anyhow::Context;
use piton_core::call::CallInput;
use piton_core::model::{ModelError, ModelErrorKind};
use piton_core::policy::Policy;
use piton_core::progress::{self, Seen};
use piton_core::retry::{self, Failures};
use piton_core::truncate::{self, KeepEnd, OutputCut};
use piton_models::errors::{self, HttpRefusal};
use piton_testkit::scenarios::WAITS;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Judges one case: nothing when it is as expected, else what came instead.
type Judge = fn(&Value) -> Result<(), String>;

/// In front of what is another way on purpose, with the reason.
const DIFFERS: &str = "differs: ";

/// Characters that are shown of what was expected: enough to know which it was.
const SHOWN_CHARS: usize = 400;

/// Runs all known case files below a folder and fails if one case fails.
pub(crate) fn cases(dir: &Path) -> anyhow::Result<()> {
    let mut files = Vec::new();
    collect(dir, &mut files)?;
    files.sort();
    let (mut known, mut failed) = (0, 0);
    for file in files {
        let Some(judge) = suite(&file) else { continue };
        known += 1;
        failed += run(&file, judge)?;
    }
    anyhow::ensure!(known > 0, "no case file that is known here lies in {}", dir.display());
    anyhow::ensure!(failed == 0, "{failed} cases failed");
    Ok(())
}

/// The suites that are known, by folder and file name.
fn suite(file: &Path) -> Option<Judge> {
    let system = file.parent()?.file_name()?.to_str()?;
    if let Some(judge) = commands::suite(system, file.file_stem()?.to_str()?) {
        return Some(judge);
    }
    match (system, file.file_stem()?.to_str()?) {
        ("opencode", "doom_loop") => Some(doom_loop),
        ("opencode", "truncate_output") => Some(truncate_output),
        ("opencode", "retry_delay") => Some(retry_delay),
        ("opencode", "retry_classify") => Some(retry_classify),
        ("opencode", "compaction_overflow") => Some(room::compaction_overflow),
        ("opencode", "prune_selection") => Some(room::prune_selection),
        ("opencode", "history_selection") => Some(room::history_selection),
        ("opencode", "context_overflow_detection") => Some(room::context_overflow),
        ("neovate", "compression_overflow") => Some(room::compression_overflow),
        ("pulse", "compaction") => Some(room::pulse_compaction),
        ("neovate", "at_extract_seed") => Some(references::extract_seed),
        ("neovate", "at_extract_0_28") => Some(references::extract_0_28),
        ("neovate", "at_render_seed") => Some(references::render_seed),
        ("neovate", "at_render_0_28") => Some(references::render_0_28),
        ("opencode", "edit_replace") => Some(files::edit_replace),
        ("codex", "apply_patch_parse") => Some(files::codex_patch_parse),
        ("opencode", "patch_parse") => Some(files::patch_parse),
        ("opencode", "patch_apply") => Some(files::patch_apply),
        ("neovate", "apply_edit") => Some(files::apply_edit),
        ("opencode", name) => opencode::suite(name),
        ("neovate", name) => neovate::suite(name),
        ("pulse", name) => pulse::suite(name),
        _ => None,
    }
}

fn run(file: &Path, judge: Judge) -> anyhow::Result<usize> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let table: Value =
        serde_json::from_str(&whole_characters(&text)).with_context(|| format!("{} is not JSON", file.display()))?;
    // Codex' tables are bare lists.
    let stem = file.file_stem().and_then(|stem| stem.to_str());
    let suite = table["suite"].as_str().or(stem.filter(|_| table.is_array()));
    let suite = suite.context("a case file names its suite")?;
    let cases = table["cases"].as_array().or(table.as_array()).context("a case file has cases")?;
    let (mut passed, mut waiting, mut different, mut lines) = (0, 0, 0, Vec::new());
    for case in cases {
        let name = case["name"].as_str().or(case["test"].as_str()).unwrap_or("(no name)");
        match judge(case) {
            Ok(()) => passed += 1,
            Err(got) if got.starts_with(WAITS) => {
                waiting += 1;
                lines.push(format!("  {name}: {got}"));
            }
            Err(got) if got.starts_with(DIFFERS) => {
                different += 1;
                lines.push(format!("  {name}: {got}"));
            }
            Err(got) => {
                let expected: String = case["expected"].to_string().chars().take(SHOWN_CHARS).collect();
                lines.push(format!("  FAILED: {name}: expected {expected}, got {got}"));
            }
        }
    }
    let waits = if waiting > 0 { format!(", {waiting} wait") } else { String::new() };
    let differ = if different > 0 { format!(", {different} differ on purpose") } else { String::new() };
    let system = file.parent().and_then(Path::file_name).unwrap_or_default().display();
    println!("{system}/{suite}: {passed} of {}{waits}{differ}", cases.len());
    lines.iter().for_each(|line| println!("{line}"));
    Ok(cases.len() - passed - waiting - different)
}

/// What a judge says of a case that Piton takes another way on purpose. The judge has to know the difference by what it is,
/// not by the name of a case: other cases of the same kind exist.
fn differs(reason: &str) -> String {
    format!("{DIFFERS}{reason}")
}

/// The text with every escaped half of a character that has no other half replaced: JSON in Rust has no such thing.
fn whole_characters(text: &str) -> String {
    let half = |at: usize| {
        let code = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(code, 16).ok().filter(|code| (0xd800..0xe000).contains(code))
    };
    let (mut whole, mut done) = (String::new(), 0);
    for (at, _) in text.match_indices("\\u") {
        if at < done {
            continue;
        }
        let Some(code) = half(at) else { continue };
        let is_pair = code < 0xdc00 && half(at + 6).is_some_and(|low| low >= 0xdc00);
        whole.push_str(&text[done..at]);
        whole.push_str(if is_pair { &text[at..at + 12] } else { "\\ufffd" });
        done = at + if is_pair { 12 } else { 6 };
    }
    whole + &text[done..]
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "json") {
            files.push(path);
        }
    }
    Ok(())
}

fn expect(case: &Value, got: &Value) -> Result<(), String> {
    if case["expected"] == *got { Ok(()) } else { Err(got.to_string()) }
}

/// Is the last of these calls one repetition too many? They come without results.
fn doom_loop(case: &Value) -> Result<(), String> {
    let rule = preset("opencode").stuck;
    let calls = case["input"]["calls"].as_array().ok_or("no calls")?;
    let seen: Vec<Seen> = calls
        .iter()
        .map(|call| {
            let tool = call["tool"].as_str().unwrap_or_default();
            Seen::new(rule.compare, tool, &CallInput::from_value(call["input"].clone()), None)
        })
        .collect();
    expect(case, &json!(progress::circle(rule, &seen).is_some()))
}

fn truncate_output(case: &Value) -> Result<(), String> {
    let OutputCut::WholeLines { max_lines, max_bytes } = preset("opencode").calls.output_cut else {
        return Err("the preset cuts in another way".to_owned());
    };
    let options = &case["input"]["options"];
    let number = |key: &str, default: usize| {
        options[key].as_u64().and_then(|number| usize::try_from(number).ok()).unwrap_or(default)
    };
    let keep = if options["direction"] == "tail" { KeepEnd::Tail } else { KeepEnd::Head };
    let text = case["input"]["text"].as_str().ok_or("no text")?;
    let cut = truncate::whole_lines(text, number("maxLines", max_lines), number("maxBytes", max_bytes), keep);
    expect(
        case,
        &match cut {
            None => json!({"truncated": false}),
            Some(cut) => {
                json!({"truncated": true, "preview": cut.preview, "removed": cut.removed, "unit": cut.unit})
            }
        },
    )
}

fn retry_delay(case: &Value) -> Result<(), String> {
    let attempt = case["input"]["attempt"].as_u64().and_then(|n| u32::try_from(n).ok()).ok_or("no attempt")?;
    let headers = case["input"]["responseHeaders"].as_object();
    let error = match headers {
        None => ModelError::new(ModelErrorKind::Network, "no answer at all"),
        Some(headers) => {
            let headers: Vec<(&str, &str)> =
                headers.iter().map(|(name, value)| (name.as_str(), value.as_str().unwrap_or_default())).collect();
            errors::from_response(&HttpRefusal { status: 429, headers: &headers, body: "" }, SystemTime::now())
        }
    };
    let wait = retry::wait_ms(&preset("opencode").retry.usual, &error, Failures::alike(error.kind, attempt), 0);
    // The reference adds a wait of less than nothing to the clock; ours is a number of milliseconds to wait.
    let expected = case["expected"].as_i64().map_or(Value::Null, |ms| json!(ms.max(0)));
    if json!(wait) == expected { Ok(()) } else { Err(format!("{wait:?}")) }
}

/// `null` for an error that is not worth another try; else the words that are shown. OpenCode's own offers to buy
/// something are compared by whether there is another try only.
fn retry_classify(case: &Value) -> Result<(), String> {
    let error = reference_error(&case["input"]["error"]);
    let expected = &case["expected"];
    let error = match error {
        Some(error) if error.kind.is_retryable() && !expected.is_null() => error,
        None if expected.is_null() => return Ok(()),
        Some(error) if !error.kind.is_retryable() && expected.is_null() => return Ok(()),
        other => return Err(format!("{other:?}")),
    };
    let words = expected["message"].as_str().unwrap_or_default();
    let said = case["input"]["error"]["data"]["message"].as_str().unwrap_or_default();
    // Where the reference shows the provider's own words, so must Piton.
    if words == said && !words.is_empty() && !error.message.starts_with(words) {
        return Err(error.message);
    }
    Ok(())
}

/// The error as Piton's own classifier sees it: by response where there was one, by its words otherwise; `None` where
/// the words are of no known kind.
fn reference_error(error: &Value) -> Option<ModelError> {
    let data = &error["data"];
    let message = data["message"].as_str().unwrap_or_default();
    let body = data["responseBody"].as_str().unwrap_or_default();
    let parsed: Value = serde_json::from_str(message).unwrap_or_else(|_| json!({"message": message}));
    if let Some(status) = data["statusCode"].as_u64().and_then(|status| u16::try_from(status).ok()) {
        let spoken = json!({"error": {"message": message}}).to_string();
        let body = if body.is_empty() { &spoken } else { body };
        return Some(errors::from_response(&HttpRefusal { status, headers: &[], body }, SystemTime::now()));
    }
    if !body.is_empty() {
        return Some(errors::from_stream(&serde_json::from_str(body).unwrap_or(parsed)));
    }
    if data["isRetryable"] == true {
        // What the HTTP client itself reports: no status, no body.
        return Some(ModelError::new(ModelErrorKind::Network, message));
    }
    errors::recognise(&parsed).map(|kind| ModelError { kind, ..errors::from_stream(&parsed) })
}

/// The rules of a preset that is known to be there.
fn preset(name: &str) -> Policy {
    Policy::preset(name).unwrap_or_else(Policy::piton)
}
