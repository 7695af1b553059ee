//! The suites on changes of files: where an edit goes, and what it leaves.

use super::differs;
use piton_tools::edit::{Edited, Miss, Refused, Replacing, Why, find, replace};
use piton_tools::patch::{Chunk, FilePatch, Fitted, How, Line, Unfit, fit, parse};
use serde_json::{Value, json};

/// A text in a file, and what stands there instead.
pub(super) fn edit_replace(case: &Value) -> Result<(), String> {
    let input = &case["input"];
    let text = |key: &str| input[key].as_str().unwrap_or_default();
    let edit = Replacing { old: text("oldString"), new: text("newString"), all: input["replaceAll"] == true };
    let content = text("content").as_bytes();
    let got = replace(content, &[edit]);
    match case["expected"]["ok"].as_str() {
        Some(wanted) => edited_as(wanted, &got).map_err(|error| why_not(content, edit, wanted).map_or(error, differs)),
        None => refused_as(case["expected"]["error"].as_str().unwrap_or_default(), &got),
    }
}

/// Several edits of a file, which may be none yet.
pub(super) fn apply_edit(case: &Value) -> Result<(), String> {
    let edits: Vec<Replacing<'_>> = case["input"]["edits"].as_array().ok_or("no edits")?.iter().map(read).collect();
    let Some(content) = case["input"]["content"].as_str() else { return Err("a file that is not there".to_owned()) };
    let got = replace(content.as_bytes(), &edits);
    let Some(wanted) = case["expected"]["ok"].as_str() else {
        return refused_as(case["expected"]["error"].as_str().unwrap_or_default(), &got);
    };
    let Err(error) = edited_as(wanted, &got) else { return Ok(()) };
    let after = |edits: &[Replacing<'_>]| {
        replace(content.as_bytes(), edits).ok().map(|edited| String::from_utf8_lossy(&edited.content).into_owned())
    };
    if after(&edits).is_some_and(|own| own != wanted && own.replace("\r\n", "\n") == wanted) {
        return Err(differs("the file keeps its line ends; the reference writes all of them anew"));
    }
    let whole_lines: Vec<String> = edits.iter().map(|edit| format!("{}\n", edit.old)).collect();
    let with_ends = edits.iter().zip(&whole_lines).map(|(edit, line)| match edit.new {
        "" => Replacing { old: line, ..*edit },
        _ => *edit,
    });
    if after(&with_ends.collect::<Vec<_>>()).as_deref() == Some(wanted) {
        return Err(differs("what goes is what was written: a line's end goes with it where it was written, too"));
    }
    if let [edit] = edits.as_slice()
        && let Some(why) = why_not(content.as_bytes(), *edit, wanted)
    {
        return Err(differs(why));
    }
    Err(error)
}

fn read(edit: &Value) -> Replacing<'_> {
    let text = |key: &str| edit[key].as_str().unwrap_or_default();
    Replacing { old: text("old_string"), new: text("new_string"), all: edit["replace_all"] == true }
}

fn edited_as(wanted: &str, got: &Result<Edited, Refused>) -> Result<(), String> {
    match got {
        Ok(edited) if edited.content == wanted.as_bytes() => Ok(()),
        Ok(edited) => Err(format!("{:?}", String::from_utf8_lossy(&edited.content))),
        Err(refused) => Err(format!("{refused:?}")),
    }
}

/// A refusal, for the same reason.
fn refused_as(words: &str, got: &Result<Edited, Refused>) -> Result<(), String> {
    let is_same = |why: &Why| match why {
        Why::Same => words.contains("identical"),
        Why::Empty => words.contains("cannot be empty"),
        Why::Nowhere(_) => words.contains("Could not find"),
        Why::Several { .. } => words.contains("multiple matches"),
        Why::TooLarge(..) => !words.is_empty(),
    };
    match got {
        Err(refused) if is_same(&refused.why) => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

/// Why Piton refuses an edit that the reference makes: the reference takes one of several places that are as good.
fn why_not(content: &[u8], edit: Replacing<'_>, wanted: &str) -> Option<&'static str> {
    let Err(Miss::Several { places, .. }) = find(content, edit.old.as_bytes(), edit.all) else { return None };
    let with = |place: &std::ops::Range<usize>| {
        [&content[..place.start], edit.new.as_bytes(), &content[place.end..]].concat() == wanted.as_bytes()
    };
    places
        .iter()
        .any(with)
        .then_some("several places fit as well: Piton names their lines, the reference takes the first")
}

/// What a patch says.
pub(super) fn patch_parse(case: &Value) -> Result<(), String> {
    let text = match &case["input"] {
        Value::String(text) => text.as_str(),
        argv => match argv.as_array().ok_or("no input")?.as_slice() {
            [name, patch] if name == "apply_patch" || name == "applypatch" => patch.as_str().unwrap_or_default(),
            [.., script] => script.as_str().unwrap_or_default(),
            [] => "",
        },
    };
    let expected = &case["expected"];
    let wanted = expected.pointer("/ok/hunks").or(expected.pointer("/args/hunks"));
    match (parse(text), wanted) {
        (Ok(files), Some(wanted)) => {
            let got = json!(files.iter().map(told).collect::<Vec<_>>());
            if got == *wanted { Ok(()) } else { Err(got.to_string()) }
        }
        (Err(_), None) => Ok(()),
        (got, _) => Err(format!("{got:?}")),
    }
}

fn told(file: &FilePatch) -> Value {
    match file {
        // The reference adds the last line's end when it writes.
        FilePatch::Add { path, content } => {
            json!({"type": "add", "path": path, "contents": content.strip_suffix('\n').unwrap_or(content)})
        }
        FilePatch::Delete { path } => json!({"type": "delete", "path": path}),
        FilePatch::Update { path, to, chunks } => {
            let chunk = |chunk: &Chunk| json!({"old_lines": chunk.old(), "new_lines": new(chunk)});
            let mut told =
                json!({"type": "update", "path": path, "chunks": chunks.iter().map(chunk).collect::<Vec<_>>()});
            if let Some(to) = to {
                told["move_path"] = json!(to);
            }
            told
        }
    }
}

fn new(chunk: &Chunk) -> Vec<&str> {
    let new = chunk.lines.iter().filter_map(|line| match line {
        Line::Kept(text) | Line::New(text) => Some(text.as_str()),
        Line::Gone(_) => None,
    });
    new.collect()
}

/// A patch of one file, made.
pub(super) fn patch_apply(case: &Value) -> Result<(), String> {
    let input = &case["input"];
    let patch = parse(input["patch"].as_str().ok_or("no patch")?).map_err(|bad| format!("{bad:?}"))?;
    let [FilePatch::Update { chunks, .. }] = patch.as_slice() else { return Err(format!("{patch:?}")) };
    let content = input["content"].as_str().ok_or("no content")?;
    let got = fit(content.as_bytes(), chunks);
    let Some(wanted) = case["expected"]["ok"]["content"].as_str() else {
        return got.map_or(Ok(()), |got| Err(format!("{got:?}")));
    };
    let mark = if case["expected"]["ok"]["bom"] == true { "\u{feff}" } else { "" };
    fitted_as(&format!("{mark}{wanted}"), &got, chunks)
}

fn fitted_as(wanted: &str, got: &Result<Fitted, Unfit>, chunks: &[Chunk]) -> Result<(), String> {
    let Ok(Fitted { content, told }) = got else { return Err(format!("{got:?}")) };
    let content = String::from_utf8_lossy(content);
    let trimmed = |text: &str| text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>();
    let is_fuzzy = told.iter().any(|told| matches!(told.how, How::LineEnds | How::Blanks | How::Characters));
    match &*content {
        content if content == wanted => Ok(()),
        content if format!("{content}\n") == wanted => {
            Err(differs("a last line that the patch does not touch keeps its end, or has none"))
        }
        content if is_fuzzy && trimmed(content) == trimmed(wanted) => Err(differs(
            "lines that a patch only shows stay as they are; the reference writes the patch's blanks over them",
        )),
        _ if chunks.iter().any(|chunk| chunk.at_end) => {
            Err(differs("`*** End of File` says which place is meant; the reference takes the first"))
        }
        content => Err(format!("{content:?}")),
    }
}

/// What a patch says, as Codex tells it. Its strict reading is not Piton's.
pub(super) fn codex_patch_parse(case: &Value) -> Result<(), String> {
    let told = |file: &FilePatch| match file {
        FilePatch::Add { path, content } => json!({"add": path, "contents": content}),
        FilePatch::Delete { path } => json!({"delete": path}),
        FilePatch::Update { path, to, chunks } => {
            let chunk = |chunk: &Chunk| json!({"context": chunk.contexts.first(), "old": chunk.old(), "new": new(chunk), "eof": chunk.at_end});
            json!({"update": path, "move": to, "chunks": chunks.iter().map(chunk).collect::<Vec<_>>()})
        }
    };
    match (parse(case["patch"].as_str().ok_or("no patch")?), &case["hunks"]) {
        (Ok(files), wanted) if *wanted == json!(files.iter().map(told).collect::<Vec<_>>()) => Ok(()),
        (Err(bad), Value::Null) if case["line"].is_null() || case["line"] == json!(bad.line) => Ok(()),
        (got, _) => Err(format!("{got:?}")),
    }
}
