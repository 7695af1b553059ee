//! `grep`: lines by content, with ripgrep's own engine.

use crate::input::{number, truth};
use crate::search;
use crate::tool::{Tool, ToolContext, parse_input, schema_of};
use async_trait::async_trait;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use piton_core::call::{Outcome, Status, ToolClass, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;

/// Matching lines that are shown.
const MOST: usize = 200;
/// Characters of a line that are shown.
const LINE_CHARS: usize = 500;
/// Lines of context around a match, at most.
const CONTEXT_LINES: u64 = 10;

/// The tool.
pub(crate) struct Grep;

#[derive(Deserialize, JsonSchema)]
struct Input {
    /// Regular expression (Rust syntax)
    pattern: String,
    /// File or folder
    #[serde(default)]
    #[schemars(default)]
    path: Option<String>,
    /// Only files like `*.rs`
    #[serde(default, alias = "include")]
    #[schemars(default)]
    glob: Option<String>,
    #[serde(default, deserialize_with = "truth")]
    #[schemars(default)]
    ignore_case: bool,
    /// Lines around each match
    #[serde(default, deserialize_with = "number")]
    #[schemars(default)]
    context: Option<u64>,
}

#[async_trait]
impl Tool for Grep {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "grep".to_owned(),
            description: "Find lines by regular expression, as `path:line: text`. Leaves out what .gitignore does."
                .to_owned(),
            schema: schema_of::<Input>(),
            class: ToolClass::Read,
        }
    }

    async fn run(&self, input: Value, context: &ToolContext) -> Outcome {
        let context = context.clone();
        crate::tool::on_a_thread(move || grep(input, &context).unwrap_or_else(|refusal| refusal)).await
    }
}

fn grep(input: Value, context: &ToolContext) -> Result<Outcome, Outcome> {
    let input: Input = parse_input("grep", input)?;
    let matcher = RegexMatcherBuilder::new().case_insensitive(input.ignore_case).line_terminator(Some(b'\n')).build(&input.pattern);
    let matcher: RegexMatcher =
        matcher.map_err(|error| Outcome::failed(format!("not a valid regular expression: {error}")))?;
    let root = input.path.as_deref().map_or(context.workspace.clone(), |path| context.path(path));
    if !root.exists() {
        return Err(Outcome::failed(format!("{} does not exist.", context.shown(&root))));
    }
    let glob = input.glob.as_deref().map(search::matcher).transpose()?;
    let around = usize::try_from(input.context.unwrap_or(0).min(CONTEXT_LINES)).unwrap_or(0);
    let mut searcher = SearcherBuilder::new()
        .binary_detection(BinaryDetection::quit(0))
        .line_number(true)
        .before_context(around)
        .after_context(around)
        .build();
    let mut found = Found::default();
    for entry in search::walk(&root).flatten() {
        if context.cancel.is_cancelled() {
            return Err(Outcome::new(Status::Cancelled, "stopped before all files were searched"));
        }
        let below = entry.path().strip_prefix(&root).unwrap_or(entry.path());
        let is_wanted = glob.as_ref().is_none_or(|glob| glob.is_match(below) || entry.depth() == 0);
        if entry.file_type().is_some_and(|kind| kind.is_file()) && is_wanted {
            found.in_file(&mut searcher, &matcher, entry.path(), context);
        }
    }
    Ok(found.outcome(&input.pattern))
}

/// The lines found so far.
#[derive(Default)]
struct Found {
    lines: Vec<String>,
    matches: usize,
    files: usize,
}

impl Found {
    fn in_file(&mut self, searcher: &mut Searcher, matcher: &RegexMatcher, path: &Path, context: &ToolContext) {
        let before = self.matches;
        let mut sink = Lines { found: self, path: context.shown(path) };
        // A file that cannot be read has no matches.
        drop(searcher.search_path(matcher, path, &mut sink));
        self.files += usize::from(self.matches > before);
    }

    fn outcome(mut self, pattern: &str) -> Outcome {
        let title = format!("{pattern} ({} matches in {} files)", self.matches, self.files);
        if self.matches == 0 {
            return Outcome::ok("no line matches").titled(title);
        }
        if self.matches > MOST {
            self.lines.push(format!("({} matches in {} files; the first {MOST} are shown)", self.matches, self.files));
        }
        Outcome::ok(self.lines.join("\n")).titled(title)
    }

    fn push(&mut self, path: &str, number: Option<u64>, mark: char, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end_matches(['\n', '\r']);
        let mut cut: String = text.chars().take(LINE_CHARS).map(|c| if c.is_control() && c != '\t' { ' ' } else { c }).collect();
        if text.chars().nth(LINE_CHARS).is_some() {
            cut.push('…');
        }
        self.lines.push(format!("{path}{mark}{}{mark} {cut}", number.unwrap_or(0)));
    }
}

/// Takes the lines of one file.
struct Lines<'f> {
    found: &'f mut Found,
    path: String,
}

impl Sink for Lines<'_> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        self.found.matches += 1;
        if self.found.matches <= MOST {
            self.found.push(&self.path, found.line_number(), ':', found.bytes());
        }
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, around: &SinkContext<'_>) -> Result<bool, Self::Error> {
        if self.found.matches <= MOST {
            self.found.push(&self.path, around.line_number(), '-', around.bytes());
        }
        Ok(true)
    }
}
