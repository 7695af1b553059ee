//! `edit`: one exact piece of a file for another. Works on bytes: what is not touched stays as it is, whatever its
//! encoding, line endings or byte order mark.

use crate::change::{self, Left};
use crate::input::truth;
use crate::tool::{Tool, ToolContext, parse_input, schema_of};
use async_trait::async_trait;
use piton_core::call::{Outcome, ToolClass, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use similar::TextDiff;

/// The tool.
pub(crate) struct Edit;

#[derive(Deserialize, JsonSchema)]
struct Input {
    #[serde(alias = "filePath", alias = "file_path")]
    path: String,
    /// Exact text, with enough around it to be unique
    #[serde(alias = "oldString")]
    old_string: String,
    #[serde(alias = "newString")]
    new_string: String,
    /// Replace every occurrence
    #[serde(default, alias = "replaceAll", deserialize_with = "truth")]
    #[schemars(default)]
    replace_all: bool,
}

#[async_trait]
impl Tool for Edit {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "edit".to_owned(),
            description: "Replace old_string, copied exactly from a file you have read, by new_string.".to_owned(),
            schema: schema_of::<Input>(),
            class: ToolClass::Write,
        }
    }

    async fn run(&self, input: Value, context: &ToolContext) -> Outcome {
        let context = context.clone();
        let work = move || edit(input, &context).unwrap_or_else(|refusal| refusal);
        crate::tool::on_a_thread(work).await
    }

    async fn settle(&self, input: Value, context: &ToolContext) -> Outcome {
        match change::left_of(context) {
            Left::Nothing => self.run(input, context).await,
            Left::Outcome(outcome) => outcome,
        }
    }
}

fn edit(input: Value, context: &ToolContext) -> Result<Outcome, Outcome> {
    let Input { path, old_string, new_string, replace_all } = parse_input("edit", input)?;
    if old_string == new_string {
        return Err(Outcome::failed("Nothing was changed: old_string and new_string are the same."));
    }
    let (real, before) = change::current(&context.path(&path))?;
    let shown = context.shown(&real);
    let Some(before) = before else {
        if old_string.is_empty() {
            return finish(context, &real, None, new_string.as_bytes());
        }
        return Err(Outcome::failed(format!("{shown} does not exist. To create it, use write.")));
    };
    if old_string.is_empty() {
        return Err(Outcome::failed(format!("{shown} exists: say which text to replace (old_string is empty).")));
    }
    change::check_known(context, &real, &before)?;
    let (old, new) = with_line_endings_of(&before, &old_string, &new_string);
    let places = occurrences(&before, old.as_bytes());
    match places.len() {
        0 => Err(not_found(&shown, &before, &old_string)),
        1 => finish(context, &real, Some(&before), &replaced(&before, &places, old.len(), new.as_bytes())),
        _ if replace_all => finish(context, &real, Some(&before), &replaced(&before, &places, old.len(), new.as_bytes())),
        several => {
            let lines: Vec<String> = places.iter().take(10).map(|at| line_of(&before, *at).to_string()).collect();
            Err(Outcome::failed(format!(
                "{shown} was not changed: old_string occurs {several} times (lines {}). Add lines around it to say \
                 which one, or set replace_all.",
                lines.join(", ")
            )))
        }
    }
}

fn finish(context: &ToolContext, path: &std::path::Path, before: Option<&[u8]>, after: &[u8]) -> Result<Outcome, Outcome> {
    let mut outcome = change::apply(context, path, before, after)?;
    let shown = context.shown(path);
    let (added, removed) = (&outcome.metadata["added"], &outcome.metadata["removed"]);
    outcome.title = format!("{shown} (+{added} −{removed})");
    outcome.text = change::diff(&shown, before.unwrap_or_default(), after);
    Ok(outcome)
}

/// Models write `\n`. In a file whose lines end with `\r\n` that is what they mean.
fn with_line_endings_of(content: &[u8], old: &str, new: &str) -> (String, String) {
    let crlf = content.windows(2).filter(|pair| pair == b"\r\n").count();
    let all = content.iter().filter(|byte| **byte == b'\n').count();
    let verbatim = !old.contains('\n') && !new.contains('\n') || old.contains("\r\n");
    if crlf == 0 || crlf * 2 < all || verbatim {
        return (old.to_owned(), new.to_owned());
    }
    let convert = |text: &str| text.replace("\r\n", "\n").replace('\n', "\r\n");
    (convert(old), convert(new))
}

fn occurrences(content: &[u8], piece: &[u8]) -> Vec<usize> {
    let mut places = Vec::new();
    let mut from = 0;
    while let Some(at) = find(&content[from..], piece) {
        places.push(from + at);
        from += at + piece.len();
    }
    places
}

fn find(content: &[u8], piece: &[u8]) -> Option<usize> {
    memchr::memmem::find(content, piece)
}

fn replaced(content: &[u8], places: &[usize], length: usize, new: &[u8]) -> Vec<u8> {
    let mut result = Vec::with_capacity(content.len() + places.len() * new.len());
    let mut from = 0;
    for at in places {
        result.extend_from_slice(&content[from..*at]);
        result.extend_from_slice(new);
        from = at + length;
    }
    result.extend_from_slice(&content[from..]);
    result
}

fn line_of(content: &[u8], at: usize) -> usize {
    1 + content[..at].iter().filter(|byte| **byte == b'\n').count()
}

/// Says what comes closest, so that the next try can be right.
fn not_found(shown: &str, content: &[u8], old: &str) -> Outcome {
    /// Lines compared at most: enough for any file a person edits.
    const COMPARED_LINES: usize = 20_000;
    let text = String::from_utf8_lossy(content);
    let lines: Vec<&str> = text.lines().take(COMPARED_LINES).collect();
    let height = old.lines().count().max(1);
    let wanted = old.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let best = lines
        .iter()
        .enumerate()
        .map(|(at, line)| (at, likeness(line.trim(), wanted)))
        .max_by(|one, other| one.1.total_cmp(&other.1).then(other.0.cmp(&one.0)));
    let hint = match best.filter(|(_, likeness)| *likeness >= 0.6) {
        Some((at, _)) => {
            let end = (at + height + 1).min(lines.len());
            let piece: Vec<String> = (at..end.min(at + 12)).map(|n| format!("{}: {}", n + 1, lines[n])).collect();
            format!(" The closest place is:\n{}", piece.join("\n"))
        }
        None => " Read the file again and copy the text exactly.".to_owned(),
    };
    Outcome::failed(format!("{shown} was not changed: old_string does not occur in it (white space counts).{hint}"))
}

fn likeness(one: &str, other: &str) -> f32 {
    if one == other {
        return 1.0;
    }
    let (short, long) = (one.len().min(other.len()), one.len().max(other.len()));
    if long == 0 || short * 3 < long || long > 400 {
        return 0.0;
    }
    TextDiff::from_chars(one, other).ratio()
}
