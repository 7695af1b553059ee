//! `grep`: searches the content of files by regular expression, with ripgrep's engine.

use crate::input::lenient;
use crate::limits::{GREP_LINE_CHARS, GREP_MATCHES, GREP_MAX_CONTEXT};
use crate::paths;
use crate::plan::{Look, Plan};
use crate::search::{self, PathPattern};
use crate::tool::{ToolContext, blocking, cancelled};
use crate::typed::TypedTool;
use crate::walk;
use async_trait::async_trait;
use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use ignore::WalkState;
use piton_core::call::{Effects, Outcome};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// The tool.
#[derive(Debug, Clone, Copy)]
pub struct Grep;

const NAME: &str = "grep";

/// What the model sends.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// Regular expression (Rust syntax), matched line by line
    pattern: String,
    /// Folder or file to search; default the workspace
    path: Option<String>,
    /// Only files like `*.rs`
    #[serde(alias = "include")]
    glob: Option<String>,
    #[serde(default, alias = "ignoreCase", deserialize_with = "lenient::flag")]
    ignore_case: Option<bool>,
    /// Lines around each match
    #[serde(default, deserialize_with = "lenient::count")]
    context: Option<u64>,
}

#[async_trait]
impl TypedTool for Grep {
    type Input = Input;
    const NAME: &'static str = NAME;
    const DESCRIPTION: &'static str = "Searches file contents and returns `path:line:text`, sorted by path. Binary files and files \
         ignored by git are left out.";
    const EFFECTS: Effects = Effects::READ;

    fn planned(&self, input: Input, look: &Look) -> Result<Plan, Outcome> {
        Ok(search::plan("Search for this?", input.pattern, input.path.as_deref(), look))
    }

    async fn act(&self, input: Input, cx: &ToolContext) -> Outcome {
        blocking(cx, move |cx| grep(&input, cx)).await
    }
}

/// What was found in one file. At most [`GREP_MATCHES`] are kept, all are counted.
#[derive(Default)]
struct FileHits {
    lines: Vec<Line>,
    kept: usize,
    total: usize,
}

struct Line {
    number: u64,
    text: String,
    /// ripgrep's marks: `:` for a match, `-` for a line around one.
    mark: char,
}

/// What was found in all files. Only the first files in order of path that fill the limit are kept.
#[derive(Default)]
struct AllHits {
    files: BTreeMap<PathBuf, FileHits>,
    kept: usize,
    total: usize,
    matching_files: usize,
}

impl AllHits {
    fn add(&mut self, path: PathBuf, hits: FileHits) {
        self.total += hits.total;
        self.matching_files += 1;
        self.kept += hits.kept;
        self.files.insert(path, hits);
        while let Some(last) = self.files.last_entry() {
            if self.kept - last.get().kept < GREP_MATCHES {
                return;
            }
            self.kept -= last.remove().kept;
        }
    }
}

fn grep(input: &Input, cx: &ToolContext) -> Result<Outcome, Outcome> {
    let root = search::root(NAME, input.path.as_deref(), cx)?;
    let glob = input.glob.as_deref().filter(|glob| !glob.is_empty());
    let glob = glob.map(|glob| PathPattern::new(NAME, glob, &root)).transpose()?;
    let mut regex = RegexMatcherBuilder::new();
    // `$` matches before both kinds of line ending.
    regex.case_insensitive(input.ignore_case == Some(true)).crlf(true);
    let regex = regex.build(&input.pattern);
    let regex = regex.map_err(|error| Outcome::failed(format!("grep: not a valid regular expression: {error}")))?;
    let context = input.context.and_then(|lines| usize::try_from(lines).ok()).unwrap_or(0).min(GREP_MAX_CONTEXT);
    let hits = search_all(&root, glob.as_ref(), &regex, context, cx);
    if cx.cancel.is_cancelled() {
        return Err(cancelled());
    }
    let count = format!("{} {}", hits.total, if hits.total == 1 { "match" } else { "matches" });
    let title = format!("grep {} ({count})", paths::clean_name(&input.pattern));
    let metadata = json!({"matches": hits.total, "files": hits.matching_files});
    let text = match hits.total {
        0 => format!(
            "No match below {}. Binary files and files ignored by git are not searched.",
            paths::shown(&root, &cx.workspace)
        ),
        _ => listing(&hits, context > 0, cx),
    };
    Ok(Outcome::ok(text).titled(title).with(metadata))
}

/// A line is held in memory whole; a file with a longer one has no matches.
const LONGEST_LINE_BYTES: usize = 16 << 20;

fn search_all(
    root: &Path,
    glob: Option<&PathPattern>,
    regex: &RegexMatcher,
    context: usize,
    cx: &ToolContext,
) -> AllHits {
    let all = Mutex::new(AllHits::default());
    walk::parallel(root).run(|| {
        let mut searcher = SearcherBuilder::new()
            .binary_detection(BinaryDetection::quit(0))
            .line_terminator(LineTerminator::crlf())
            .before_context(context)
            .after_context(context)
            .heap_limit(Some(LONGEST_LINE_BYTES))
            .build();
        let (regex, all) = (regex.clone(), &all);
        Box::new(move |entry| {
            if cx.cancel.is_cancelled() {
                return WalkState::Quit;
            }
            let Ok(entry) = entry else { return WalkState::Continue };
            let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
            if is_file && glob.is_none_or(|glob| glob.matches(entry.path(), root)) {
                let mut collect = Collect { hits: FileHits::default(), is_binary: false, cancel: &cx.cancel };
                // A file that cannot be read, or vanishes meanwhile, has no matches.
                let file = cx.files.open(entry.path());
                let searched = file.and_then(|file| searcher.search_reader(&regex, file, &mut collect));
                if searched.is_ok() && !collect.is_binary && collect.hits.total > 0 {
                    all.lock().unwrap_or_else(PoisonError::into_inner).add(entry.into_path(), collect.hits);
                }
            }
            WalkState::Continue
        })
    });
    all.into_inner().unwrap_or_else(PoisonError::into_inner)
}

struct Collect<'a> {
    hits: FileHits,
    is_binary: bool,
    cancel: &'a CancellationToken,
}

impl Sink for Collect<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.hits.total += 1;
        if self.hits.kept < GREP_MATCHES {
            self.hits.kept += 1;
            self.add(found.line_number(), found.bytes(), ':');
        }
        Ok(!self.cancel.is_cancelled())
    }

    fn context(&mut self, _: &Searcher, line: &SinkContext<'_>) -> Result<bool, io::Error> {
        if self.hits.kept < GREP_MATCHES {
            self.add(line.line_number(), line.bytes(), '-');
        }
        Ok(!self.cancel.is_cancelled())
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, io::Error> {
        self.is_binary = true;
        Ok(false)
    }
}

impl Collect<'_> {
    fn add(&mut self, number: Option<u64>, bytes: &[u8], mark: char) {
        /// No character is longer.
        const MOST_BYTES: usize = 4;
        let is_cut = bytes.len() > GREP_LINE_CHARS * MOST_BYTES;
        let bytes = &bytes[..bytes.len().min(GREP_LINE_CHARS * MOST_BYTES)];
        let line = String::from_utf8_lossy(bytes);
        let visible = line.chars().filter(|char| *char == '\t' || !char.is_control());
        let mut text: String = visible.clone().take(GREP_LINE_CHARS).collect();
        if is_cut || visible.count() > GREP_LINE_CHARS {
            text.push_str("… (line truncated)");
        }
        self.hits.lines.push(Line { number: number.unwrap_or_default(), text, mark });
    }
}

fn listing(hits: &AllHits, with_context: bool, cx: &ToolContext) -> String {
    let mut lines = Vec::new();
    let mut left = GREP_MATCHES;
    for (path, file) in &hits.files {
        let path = paths::shown(path, &cx.workspace);
        let mut last = None;
        for line in &file.lines {
            if line.mark == ':' && left == 0 {
                break;
            }
            left -= usize::from(line.mark == ':');
            let is_gap = last.map_or(!lines.is_empty(), |last: u64| last + 1 != line.number);
            if with_context && is_gap {
                lines.push("--".to_owned());
            }
            last = Some(line.number);
            let mark = line.mark;
            lines.push(format!("{path}{mark}{}{mark}{}", line.number, line.text));
        }
    }
    if hits.total > GREP_MATCHES {
        let more = hits.total - GREP_MATCHES;
        lines.push(format!(
            "({more} more matches, {} files in all; narrow the pattern, glob or path)",
            hits.matching_files
        ));
    }
    lines.join("\n")
}
