//! What a question shows beside the call itself: what made it a question and by which rule, where it runs and what it can reach,
//! the files behind links, the names of characters that nobody sees. And what a yes to it is bound to.

use super::JobContext;
use piton_core::call::Access;
use piton_core::hidden;
use piton_core::permission::{Action, Judgement, PartJudged};
use piton_core::question::{About, Fact, Mark, QuestionBlock, Target};
use piton_sandbox::Backend;
use piton_tools::files::{Files, Found};
use std::io::Read as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Parts that are named; of more, the number.
const MOST_PARTS: usize = 8;
/// Of a larger file the length stands in for its content.
const MOST_HASHED_BYTES: u64 = 64 << 20;

/// The facts of a call that a person is asked about.
pub(super) fn facts(
    judged: &Judgement,
    accesses: &[Access],
    links: &[(PathBuf, PathBuf)],
    cx: &JobContext<'_>,
) -> Vec<Fact> {
    let fact = |about, text: String| Fact { about, text };
    let asked: Vec<&PartJudged> = judged.parts.iter().filter(|part| part.action == Action::Ask).collect();
    let mut facts: Vec<Fact> = asked.iter().take(MOST_PARTS).map(|part| fact(About::Asked, because(part))).collect();
    if let Some(more) = asked.len().checked_sub(MOST_PARTS).filter(|more| *more > 0) {
        facts.push(fact(About::Asked, format!("and {more} more")));
    }
    let workspace = Path::new(cx.session.workspace());
    facts.push(fact(About::Folder, shown(workspace)));
    let led = links.iter().map(|(meant, real)| fact(About::Link, format!("{} is {}", shown(meant), shown(real))));
    facts.extend(led);
    let runs = |access: &Access| matches!(access, Access::Run(_));
    if accesses.iter().any(runs) {
        let (place, reach) = place(accesses, cx);
        facts.extend([fact(About::Place, place), fact(About::Reach, reach)]);
    }
    facts
}

/// A part, and who wants it to be asked about.
pub(super) fn because(part: &PartJudged) -> String {
    let why = match &part.rule {
        Some(rule) => {
            let from = rule.layer.as_ref().map(|layer| format!(" ({layer})")).unwrap_or_default();
            format!("by the rule {rule}{from}")
        }
        None => part.why.clone(),
    };
    format!("{}: {why}", hidden::visible_line(&part.named()))
}

/// Where a command runs, and what it can reach there.
fn place(accesses: &[Access], cx: &JobContext<'_>) -> (String, String) {
    let leaves = leaves(accesses);
    match &cx.services.settings.sandbox {
        Some(sandbox) if !leaves => {
            let hosts: Vec<String> =
                sandbox.egress.iter().flat_map(|egress| egress.rules().iter().map(ToString::to_string)).collect();
            let net = match (hosts.as_slice(), sandbox.backend) {
                (_, Backend::Landlock) => "no network".to_owned(),
                ([], Backend::Namespaces) => "no network without asking you".to_owned(),
                (hosts, Backend::Namespaces) => format!("network: {}", hosts.join(", ")),
            };
            ("in the sandbox".to_owned(), format!("can write the workspace, a private home and a temp folder; {net}"))
        }
        Some(_) | None => ("unconfined".to_owned(), "all your files and every host, with all your rights".to_owned()),
    }
}

fn shown(path: &Path) -> String {
    hidden::visible_name(&path.to_string_lossy())
}

/// The parts of a script that made it a question, as they stand in it.
pub(super) fn marks(judged: &Judgement, places: &[(Access, Range<usize>)]) -> Vec<Mark> {
    let asked = |access: &Access| {
        judged.parts.iter().any(|part| part.action == Action::Ask && part.access.as_ref() == Some(access))
    };
    let mut marks: Vec<Mark> = places
        .iter()
        .filter(|(access, range)| asked(access) && !range.is_empty())
        .map(|(_, range)| Mark { from: range.start, to: range.end })
        .collect();
    marks.sort();
    // What lies within another is marked with it.
    let mut apart: Vec<Mark> = Vec::new();
    for mark in marks {
        match apart.last_mut() {
            Some(last) if mark.from < last.to => last.to = last.to.max(mark.to),
            _ => apart.push(mark),
        }
    }
    apart
}

/// The characters of the blocks that nobody sees, or that turn the order of others, by name.
pub(super) fn hidden_characters(body: &[QuestionBlock]) -> Option<Fact> {
    let mut names: Vec<String> = Vec::new();
    for text in body.iter().filter_map(text_of) {
        for name in text.chars().filter(|c| *c == '\r' || hidden::is_hidden(*c)).map(name_of) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names.truncate(MOST_PARTS);
    (!names.is_empty()).then(|| Fact { about: About::Hidden, text: names.join(", ") })
}

fn text_of(block: &QuestionBlock) -> Option<&str> {
    match block {
        QuestionBlock::Command { command, .. } => Some(command),
        QuestionBlock::Diff { unified, .. } => Some(unified),
        QuestionBlock::Json { json } => Some(json),
        QuestionBlock::Text { text } => Some(text),
        QuestionBlock::Note { .. } | QuestionBlock::Facts { .. } => None,
    }
}

fn name_of(c: char) -> String {
    let word = match c {
        '\u{200b}' | '\u{200c}' | '\u{200d}' | '\u{2060}' | '\u{feff}' => "of no width",
        '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            "turns the order of letters"
        }
        '\u{1b}' => "escape: commands a terminal",
        '\r' => "carriage return: what follows covers the line",
        c if c.is_control() => "a control character",
        _ => "is not seen",
    };
    format!("\\u{{{:x}}} ({word})", u32::from(c))
}

/// Whether a call would leave the sandbox.
pub(super) fn leaves(accesses: &[Access]) -> bool {
    accesses.iter().any(|access| matches!(access, Access::Unsandboxed(_)))
}

/// The files that a question of a call is bound to: those that it finds where it runs.
pub(super) fn files_where_it_runs(
    accesses: &[Access],
    confined: Arc<dyn Files>,
    cx: &JobContext<'_>,
) -> Arc<dyn Files> {
    if leaves(accesses) { Arc::clone(&cx.services.files) } else { confined }
}

/// The files that a call would change, as they are now.
pub(super) fn targets(accesses: &[Access], files: &dyn Files) -> Vec<Target> {
    let written = accesses.iter().filter_map(|access| match access {
        Access::Write(path) if !path.contains(['*', '?', '[']) => Some(path),
        _ => None,
    });
    written.map(|path| Target { path: path.clone(), hash: hash(Path::new(path), files) }).collect()
}

/// What there is at a path, in a word that changes with it; `None`: nothing.
fn hash(path: &Path, files: &dyn Files) -> Option<String> {
    match files.look(path) {
        Ok(None) => None,
        Ok(Some(Found::File { bytes })) if bytes > MOST_HASHED_BYTES => Some(format!("{bytes} bytes")),
        Ok(Some(Found::File { .. })) => {
            let mut content = Vec::new();
            match files.open(path).and_then(|mut file| file.read_to_end(&mut content)) {
                Ok(_) => Some(blake3::hash(&content).to_hex().to_string()),
                Err(error) => Some(format!("unreadable: {}", error.kind())),
            }
        }
        Ok(Some(Found::Folder)) => Some("folder".to_owned()),
        Ok(Some(Found::Other)) => Some("no regular file".to_owned()),
        Err(error) => Some(format!("unreadable: {}", error.kind())),
    }
}

/// What is not as a person was shown it: the accesses of a call, planned again, or a file that it changes.
pub(super) fn changed_since(shown: (&[Access], &[Target]), now: &[Access], files: &dyn Files) -> Option<String> {
    let (accesses, bound) = shown;
    if let Some(other) = now.iter().find(|access| !accesses.contains(access)) {
        let path = other.path().map_or_else(|| "something else".to_owned(), hidden::visible_name);
        return Some(format!("it would now access {path}"));
    }
    if accesses.len() != now.len() {
        return Some("it would not access all that was shown".to_owned());
    }
    let other = bound.iter().find(|target| hash(Path::new(&target.path), files) != target.hash)?;
    Some(format!("{} has changed", hidden::visible_name(&other.path)))
}
