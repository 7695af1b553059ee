//! `edit`: replaces an exact piece of a file the model has read. Works on bytes, so that everything it does not touch
//! stays byte for byte as it is: line endings, a byte order mark, characters that are not UTF-8.

use crate::change::{self, CurrentFile, EditTarget};
use crate::input::lenient;
use crate::plan::{Look, Plan, QuestionDraft};
use crate::tool::{ToolContext, blocking};
use crate::typed::TypedTool;
use async_trait::async_trait;
use memchr::memmem;
use piton_core::call::{CallKind, Effects, Outcome};
use piton_core::question::QuestionBlock;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The tool.
#[derive(Debug, Clone, Copy)]
pub struct Edit;

const NAME: &str = "edit";

/// What the model sends.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// The file
    #[serde(alias = "filePath", alias = "file_path")]
    path: String,
    /// The exact text to replace, without line numbers; empty creates a new file
    #[serde(alias = "oldString")]
    old_string: String,
    /// The text to put there
    #[serde(alias = "newString")]
    new_string: String,
    /// Replace every occurrence
    #[serde(default, alias = "replaceAll", deserialize_with = "lenient::flag")]
    replace_all: Option<bool>,
}

#[async_trait]
impl TypedTool for Edit {
    type Input = Input;
    const NAME: &'static str = NAME;
    const DESCRIPTION: &'static str = "Replaces an exact piece of text in a file that was read before. old_string must occur exactly \
         once, whitespace included: add lines around it, or set replace_all.";
    const EFFECTS: Effects = Effects::WRITE;

    fn planned(&self, input: Input, look: &Look) -> Result<Plan, Outcome> {
        if input.old_string == input.new_string {
            return Err(same_strings());
        }
        let (access, title, look) = (look.write(&input.path), look.shown(&input.path), look.clone());
        let about = format!("Edit {title}?");
        let question = QuestionDraft::new(move || (about, vec![preview(&input, &look)]));
        Ok(Plan::new(CallKind::Edit, title, access, question))
    }

    async fn act(&self, input: Input, cx: &ToolContext) -> Outcome {
        blocking(cx, move |cx| edit(&input, cx).unwrap_or_else(|refused| refused)).await
    }

    async fn resume(&self, input: Input, cx: &ToolContext) -> Outcome {
        match change::settled(NAME, cx) {
            Some(outcome) => outcome,
            None => self.act(input, cx).await,
        }
    }
}

fn same_strings() -> Outcome {
    Outcome::failed("edit: old_string and new_string are the same; nothing to do")
}

/// The change as it would be now; where it does not fit the file, the two texts.
fn preview(input: &Input, look: &Look) -> QuestionBlock {
    let target = change::target(NAME, &input.path, &look.workspace, &*look.files);
    let fits = |target: &EditTarget| match &target.now {
        CurrentFile::Absent => input.old_string.is_empty().then(|| input.new_string.clone().into_bytes()),
        CurrentFile::File { content, .. } if !input.old_string.is_empty() => {
            Some(replaced(content, input, target).ok()?.0)
        }
        CurrentFile::File { .. } => None,
    };
    match target.ok().and_then(|target| Some((fits(&target)?, target))) {
        Some((content, target)) => change::preview(&target, &content),
        None => {
            let lines = |mark: char, text: &str| text.lines().map(|line| format!("{mark}{line}\n")).collect::<String>();
            let unified = lines('-', &input.old_string) + &lines('+', &input.new_string);
            QuestionBlock::Diff { path: input.path.clone(), unified }
        }
    }
}

fn edit(input: &Input, cx: &ToolContext) -> Result<Outcome, Outcome> {
    if input.old_string == input.new_string {
        return Err(same_strings());
    }
    let target = change::target(NAME, &input.path, &cx.workspace, &*cx.files)?;
    let (content, count) = match &target.now {
        CurrentFile::Absent if input.old_string.is_empty() => (input.new_string.as_bytes().to_vec(), 0),
        CurrentFile::Absent => {
            let text = format!("edit: {} does not exist. An empty old_string creates it.", target.shown);
            return Err(Outcome::failed(text));
        }
        CurrentFile::File { .. } if input.old_string.is_empty() => {
            let text = format!(
                "edit: {} exists, and an empty old_string only creates new files. Name the text to replace, or use write.",
                target.shown
            );
            return Err(Outcome::failed(text));
        }
        CurrentFile::File { content, .. } => {
            change::check_seen(NAME, &target, cx)?;
            replaced(content, input, &target)?
        }
    };
    let changed = change::apply(NAME, &target, &content, cx)?;
    let places = if count > 1 { format!(", {count} places") } else { String::new() };
    let size = format!("+{} −{}{places}", changed.diff.added, changed.diff.removed);
    let text = format!("edited {} ({size})\n{}", target.shown, changed.diff.text);
    Ok(Outcome::ok(text).titled(format!("edit {} ({size})", target.shown)).with(changed.metadata))
}

/// The new content, and how many places changed.
fn replaced(content: &[u8], input: &Input, target: &EditTarget) -> Result<(Vec<u8>, usize), Outcome> {
    for (old, new) in readings(content, input) {
        let places: Vec<usize> = memmem::find_iter(content, &old).collect();
        match places.len() {
            0 => {}
            1 => return Ok((splice(content, &places, old.len(), &new), 1)),
            count if input.replace_all == Some(true) => return Ok((splice(content, &places, old.len(), &new), count)),
            count => {
                let lines: Vec<String> = places.iter().take(20).map(|at| line_of(content, *at).to_string()).collect();
                let text = format!(
                    "edit: old_string occurs {count} times in {} (lines {}{}). Add lines around it to name one, or set \
                     replace_all.",
                    target.shown,
                    lines.join(", "),
                    if count > lines.len() { ", …" } else { "" },
                );
                return Err(Outcome::failed(text));
            }
        }
    }
    let hint = closest(&String::from_utf8_lossy(content), &input.old_string);
    Err(Outcome::failed(format!("edit: old_string was not found in {}. {hint}", target.shown)))
}

/// How the texts may be meant: with the file's line endings, and as they are. Models see and write plain newlines.
fn readings(content: &[u8], input: &Input) -> Vec<(Vec<u8>, Vec<u8>)> {
    let crlf = memmem::find_iter(content, b"\r\n").count();
    let lf = memchr::memchr_iter(b'\n', content).count() - crlf;
    let plain = (input.old_string.clone().into_bytes(), input.new_string.clone().into_bytes());
    let converted = (with_crlf(&input.old_string), with_crlf(&input.new_string));
    match (crlf, crlf > lf) {
        (0, _) => vec![plain],
        (_, true) => vec![converted, plain],
        (_, false) => vec![plain, converted],
    }
}

fn with_crlf(text: &str) -> Vec<u8> {
    text.replace("\r\n", "\n").replace('\n', "\r\n").into_bytes()
}

fn splice(content: &[u8], places: &[usize], old_len: usize, new: &[u8]) -> Vec<u8> {
    let mut result = Vec::with_capacity(content.len() + places.len() * new.len());
    let mut from = 0;
    for at in places {
        result.extend_from_slice(&content[from..*at]);
        result.extend_from_slice(new);
        from = at + old_len;
    }
    result.extend_from_slice(&content[from..]);
    result
}

fn line_of(content: &[u8], at: usize) -> usize {
    memchr::memchr_iter(b'\n', &content[..at]).count() + 1
}

/// What in the file is most like the text that was not found, for the model to see what it got wrong.
fn closest(content: &str, old: &str) -> String {
    /// Below this, lines have nothing to do with each other.
    const CUTOFF: f32 = 0.5;
    let wanted: Vec<&str> = old.lines().collect();
    let lines: Vec<&str> = content.lines().collect();
    let height = wanted.len().clamp(1, lines.len().max(1));
    let equal = |start: usize| {
        let pairs = lines[start..].iter().zip(&wanted);
        pairs.filter(|(line, wanted)| !wanted.trim().is_empty() && line.trim() == wanted.trim()).count()
    };
    let best = (0..(lines.len() + 1).saturating_sub(height))
        .map(|start| (equal(start), start))
        .max_by_key(|(n, start)| (*n, usize::MAX - start));
    match best {
        Some((count, start)) if count > 0 => {
            let filled = wanted.iter().filter(|line| !line.trim().is_empty()).count();
            let what = if count == filled { "It differs only in whitespace from" } else { "The closest lines are" };
            format!("{what}:\n{}", numbered(&lines, start, height))
        }
        _ => match most_similar(&lines, wanted.iter().find(|line| !line.trim().is_empty()).unwrap_or(&"")) {
            Some((ratio, start)) if ratio >= CUTOFF => {
                format!("The closest lines are:\n{}", numbered(&lines, start, height))
            }
            _ => "Nothing in it is similar: read it again.".to_owned(),
        },
    }
}

fn most_similar(lines: &[&str], wanted: &str) -> Option<(f32, usize)> {
    /// Comparing letter by letter takes time: not every line of a large file is.
    const LINES: usize = 3_000;
    const CHARS: usize = 200;
    let head = |text: &str| text.trim().chars().take(CHARS).collect::<String>();
    let wanted = head(wanted);
    let near = |line: &str| line.len() * 3 >= wanted.len() && wanted.len() * 3 >= line.trim().len().min(CHARS);
    let rated = lines.iter().take(LINES).enumerate().filter(|(_, line)| near(line)).map(|(at, line)| {
        let line = head(line);
        (crate::diff::likeness(&wanted, &line), at)
    });
    rated.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)))
}

fn numbered(lines: &[&str], start: usize, height: usize) -> String {
    /// More than this nobody compares.
    const SHOWN: usize = 15;
    const CHARS: usize = 300;
    let shown = lines.iter().enumerate().skip(start).take(height.min(SHOWN));
    let lines = shown.map(|(at, line)| {
        let visible: String = line.chars().filter(|char| *char == '\t' || !char.is_control()).take(CHARS).collect();
        format!("{}: {visible}", at + 1)
    });
    lines.collect::<Vec<_>>().join("\n")
}
