//! `edit`: replaces pieces of a file the model has read, all of them or none. Works on bytes, so that everything it does
//! not touch stays byte for byte as it is: line endings, a byte order mark, characters that are not UTF-8.

mod closest;
mod find;
mod replace;

use crate::change::{self, CurrentFile, EditTarget, Settled};
use crate::input::lenient;
use crate::ledger::FileState;
use crate::plan::{Look, Plan, QuestionDraft};
use crate::tool::{ToolContext, blocking};
use crate::typed::TypedTool;
use async_trait::async_trait;
use piton_core::call::{CallKind, Effects, Outcome};
use piton_core::question::QuestionBlock;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use find::{Hit, Miss, Way, find};
pub use replace::{Edit as Replacing, Edited, Inexact, Refused, Why, replace};

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
    #[serde(default, alias = "oldString", alias = "old", alias = "old_text", alias = "oldText")]
    old_string: Option<String>,
    /// The text to put there
    #[serde(default, alias = "newString", alias = "new", alias = "new_text", alias = "newText")]
    new_string: Option<String>,
    /// Replace every occurrence
    #[serde(default, alias = "replaceAll", alias = "all", deserialize_with = "lenient::flag")]
    replace_all: Option<bool>,
    /// Instead: several, in order, all or none
    #[serde(default, deserialize_with = "lenient::list")]
    edits: Option<Vec<One>>,
}

/// One of several edits.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct One {
    #[serde(alias = "old_string", alias = "oldString", alias = "old_text", alias = "oldText")]
    old: String,
    #[serde(alias = "new_string", alias = "newString", alias = "new_text", alias = "newText")]
    new: String,
    #[serde(
        default,
        alias = "replace_all",
        alias = "replaceAll",
        deserialize_with = "lenient::flag",
        skip_serializing_if = "Option::is_none"
    )]
    all: Option<bool>,
}

#[async_trait]
impl TypedTool for Edit {
    type Input = Input;
    const NAME: &'static str = NAME;
    const DESCRIPTION: &'static str = "Replaces text in a file that was read before. old_string must name one place: add \
         lines around it, or set replace_all.";
    const EFFECTS: Effects = Effects::WRITE;

    fn planned(&self, input: Input, look: &Look) -> Result<Plan, Outcome> {
        edits_of(&input)?;
        let (access, title, look) = (look.write(&input.path), look.shown(&input.path), look.clone());
        let about = format!("Edit {title}?");
        let question = QuestionDraft::new(move || (about, vec![preview(&input, &look)]));
        Ok(Plan::new(CallKind::Edit, title, access, question))
    }

    async fn act(&self, input: Input, cx: &ToolContext) -> Outcome {
        change::after_edit(blocking(cx, move |cx| edit(&input, cx)).await, cx).await
    }

    async fn resume(&self, input: Input, cx: &ToolContext) -> Outcome {
        match change::settled(NAME, cx) {
            Settled::Outcome(outcome) => change::after_edit(outcome, cx).await,
            // A single change is made or not.
            Settled::Open | Settled::Half { .. } => self.act(input, cx).await,
        }
    }
}

/// The edits that are asked for; at least one.
fn edits_of(input: &Input) -> Result<Vec<Replacing<'_>>, Outcome> {
    let failed = |text: &str| Err(Outcome::failed(format!("edit: {text}")));
    let edits: Vec<Replacing<'_>> = match (&input.old_string, &input.new_string, input.edits.as_deref()) {
        (Some(old), Some(new), None | Some([])) => {
            vec![Replacing { old, new, all: input.replace_all == Some(true) }]
        }
        (None, None, Some(edits @ [_, ..])) => edits.iter().map(One::read).collect(),
        (Some(_), None, None | Some([])) => return failed("missing field `new_string`"),
        (None, Some(_), None | Some([])) => return failed("missing field `old_string`"),
        (None, None, None | Some([])) => {
            return failed("missing fields `old_string` and `new_string` (or `edits`: [{old, new, all}])");
        }
        (_, _, Some([_, ..])) => return failed("give either `old_string` and `new_string`, or `edits`, not both"),
    };
    match edits.iter().position(|edit| edit.old == edit.new) {
        Some(at) => Err(refusal(&Refused { edit: at, why: Why::Same }, edits.len(), "")),
        None => Ok(edits),
    }
}

impl One {
    fn read(&self) -> Replacing<'_> {
        Replacing { old: &self.old, new: &self.new, all: self.all == Some(true) }
    }
}

/// The change as it would be now; where it does not fit the file, the texts.
fn preview(input: &Input, look: &Look) -> QuestionBlock {
    let edits = edits_of(input).unwrap_or_default();
    let target = change::target(NAME, &input.path, &look.workspace, &*look.files, &look.firewall);
    let fitting = target.ok().and_then(|target| Some((edited(&target, &edits).ok()?.content, target)));
    match fitting {
        Some((content, target)) => change::preview(&target, &content),
        None => {
            let lines = |mark: char, text: &str| text.lines().map(|line| format!("{mark}{line}\n")).collect::<String>();
            let unified = edits.iter().map(|edit| lines('-', edit.old) + &lines('+', edit.new)).collect();
            QuestionBlock::Diff { path: input.path.clone(), unified }
        }
    }
}

fn edit(input: &Input, cx: &ToolContext) -> Result<Outcome, Outcome> {
    let edits = edits_of(input)?;
    let target = change::target(NAME, &input.path, &cx.workspace, &*cx.files, &cx.firewall)?;
    // What is refused for another reason need not be read again first.
    if edits.iter().all(|edit| !edit.old.is_empty()) {
        change::check_seen(NAME, &target, cx)?;
    }
    let edited = edited(&target, &edits).map_err(|refused| gone(&target, cx).unwrap_or(refused))?;
    let changed = change::apply(NAME, &target, &edited.content, cx)?;
    let places = if edited.places > 1 { format!(", {} places", edited.places) } else { String::new() };
    let size = format!("+{} −{}{places}", changed.diff.added, changed.diff.removed);
    let notes: String = edited.inexact.iter().map(|hit| inexact(hit, edits.len())).collect();
    let text = format!("edited {} ({size})\n{notes}{}{}", target.shown, changed.note, changed.diff.text);
    Ok(Outcome::ok(text).titled(format!("edit {} ({size})", target.shown)).with(changed.metadata))
}

/// What the model is told of a file that it has read and that is there no more.
fn gone(target: &EditTarget, cx: &ToolContext) -> Option<Outcome> {
    let was_seen = || cx.ledger.compare(&target.path, "") != FileState::Never;
    let is_gone = matches!(target.now, CurrentFile::Absent) && was_seen();
    is_gone.then(|| {
        let shown = &target.shown;
        Outcome::failed(format!(
            "edit: {shown} was deleted since you read it. A single edit with an empty old_string creates it anew."
        ))
    })
}

/// The file's content after all edits.
fn edited(target: &EditTarget, edits: &[Replacing<'_>]) -> Result<Edited, Outcome> {
    let shown = &target.shown;
    match (&target.now, edits) {
        (CurrentFile::Absent, [Replacing { old: "", new, .. }]) => {
            Ok(Edited { content: new.as_bytes().to_vec(), places: 0, inexact: Vec::new() })
        }
        (CurrentFile::Absent, _) => Err(Outcome::failed(format!(
            "edit: {shown} does not exist. A single edit with an empty old_string creates it."
        ))),
        (CurrentFile::File { content, .. }, edits) => {
            let spelled: Vec<_> =
                edits.iter().map(|edit| (target.spelled(edit.old), target.spelled(edit.new))).collect();
            let texts = edits.iter().zip(&spelled);
            let edits: Vec<_> = texts.map(|(edit, (old, new))| Replacing { old, new, all: edit.all }).collect();
            replace(content, &edits).map_err(|refused| refusal(&refused, edits.len(), shown))
        }
    }
}

/// What the model is told of an edit that cannot be made.
fn refusal(Refused { edit, why }: &Refused, of: usize, shown: &str) -> Outcome {
    /// More only fill the window.
    const LINES: usize = 20;
    let (which, rest) = match of {
        1 => (String::new(), ""),
        _ => (format!("edit {} of {of}: ", edit + 1), " Nothing was written."),
    };
    let text = match why {
        Why::Same => "old_string and new_string are the same; nothing to do".to_owned(),
        Why::Empty => format!(
            "{shown} exists, and an empty old_string only creates new files. Name the text to replace, or use write."
        ),
        Why::Nowhere(closest) => format!("old_string was not found in {shown}. {closest}"),
        Why::Several { lines, way } => {
            let shown_lines: Vec<String> = lines.iter().take(LINES).map(ToString::to_string).collect();
            let more = if lines.len() > LINES { ", …" } else { "" };
            let count = match way {
                Way::Exact => format!("occurs {} times", lines.len()),
                way => format!("is not there as written, and {} times {}", lines.len(), way.words()),
            };
            format!(
                "old_string {count} in {shown} (lines {}{more}). Add lines around it to name one, or set replace_all.",
                shown_lines.join(", ")
            )
        }
        Why::TooLarge(first, last) => format!(
            "old_string is not in {shown} as written, and what fits (lines {first}–{last}) is far larger. Read these lines \
             and write them exactly."
        ),
    };
    Outcome::failed(format!("edit: {which}{text}{rest}"))
}

/// A line about an edit whose text was not there as written.
fn inexact(Inexact { edit, way, lines }: &Inexact, of: usize) -> String {
    const PLACES: usize = 5;
    let which = if of > 1 { format!("edit {}: ", edit + 1) } else { String::new() };
    let place = |(first, last): &(usize, usize)| match first == last {
        true => first.to_string(),
        false => format!("{first}–{last}"),
    };
    let mut places: Vec<String> = lines.iter().take(PLACES).map(place).collect();
    if lines.len() > PLACES {
        places.push("…".to_owned());
    }
    let (places, way) = (places.join(", "), way.words());
    format!("({which}old_string was not there as written, but {way}: lines {places}. Check the result.)\n")
}
