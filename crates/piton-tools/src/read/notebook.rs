//! A Jupyter notebook as text: its cells by number, with what they printed. Pictures and pages in outputs are named only.

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Notebook {
    cells: Vec<Cell>,
}

#[derive(Deserialize)]
struct Cell {
    #[serde(default)]
    cell_type: String,
    #[serde(default)]
    source: Text,
    #[serde(default)]
    execution_count: Option<u64>,
    #[serde(default)]
    outputs: Vec<Output>,
}

#[derive(Deserialize)]
struct Output {
    /// Of a stream.
    #[serde(default)]
    text: Option<Text>,
    /// Of a result or a display, by media type.
    #[serde(default)]
    data: BTreeMap<String, Value>,
    /// Of an error.
    #[serde(default)]
    ename: Option<String>,
    #[serde(default)]
    evalue: Option<String>,
    #[serde(default)]
    traceback: Vec<String>,
}

/// A text, which notebooks hold as such or line by line.
#[derive(Deserialize)]
#[serde(untagged)]
enum Text {
    Whole(String),
    Lines(Vec<String>),
}

impl Default for Text {
    fn default() -> Self {
        Self::Lines(Vec::new())
    }
}

impl Text {
    fn whole(&self) -> String {
        match self {
            Self::Whole(text) => text.clone(),
            Self::Lines(lines) => lines.concat(),
        }
    }
}

/// The notebook as text, and how many cells it has; `None`: it is none.
pub(super) fn text(content: &[u8]) -> Option<(String, usize)> {
    let notebook: Notebook = serde_json::from_slice(content).ok()?;
    let mut text = String::new();
    for (number, cell) in (1..).zip(&notebook.cells) {
        let ran = cell.execution_count.map(|count| format!(", run {count}")).unwrap_or_default();
        let kind = if cell.cell_type.is_empty() { "cell" } else { &cell.cell_type };
        line(&mut text, &format!("# cell {number} ({kind}{ran})"));
        line(&mut text, &cell.source.whole());
        for output in &cell.outputs {
            output.tell(&mut text);
        }
        text.push('\n');
    }
    Some((text, notebook.cells.len()))
}

impl Output {
    fn tell(&self, text: &mut String) {
        line(text, "# output:");
        if let Some(printed) = &self.text {
            line(text, &plain(&printed.whole()));
        }
        if let Some(name) = &self.ename {
            line(text, &plain(&format!("{name}: {}", self.evalue.as_deref().unwrap_or_default())));
            line(text, &plain(&self.traceback.join("\n")));
        }
        let whole = |value: &Value| match value {
            Value::String(text) => text.clone(),
            Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect(),
            other => other.to_string(),
        };
        // The same in several forms: the plain one is for reading.
        for (kind, value) in &self.data {
            match kind.as_str() {
                "text/plain" => line(text, &plain(&whole(value))),
                "text/markdown" | "text/latex" | "application/json" if !self.data.contains_key("text/plain") => {
                    line(text, &plain(&whole(value)));
                }
                kind => line(text, &format!("[{kind}, {} characters]", whole(value).len())),
            }
        }
    }
}

fn line(text: &mut String, more: &str) {
    if !more.is_empty() {
        text.push_str(more.strip_suffix('\n').unwrap_or(more));
        text.push('\n');
    }
}

/// Without the colours of a terminal.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        plain.push_str(before);
        let sequence =
            after.strip_prefix('[').map(|inner| inner.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';'));
        rest = sequence.map_or(after, |inner| inner.get(1..).unwrap_or_default());
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn cells_have_numbers_and_outputs_are_words() {
        let notebook = json!({"nbformat": 4, "cells": [
            {"cell_type": "markdown", "source": ["# Title\n", "text"]},
            {"cell_type": "code", "execution_count": 3, "source": "1 + 1", "outputs": [
                {"output_type": "stream", "name": "stdout", "text": ["a\n", "b\n"]},
                {"output_type": "execute_result", "data": {"text/plain": ["2"], "text/html": "<b>2</b>", "image/png": "iVBO"}},
                {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["\u{1b}[0;31mred\u{1b}[0m end"]},
            ]},
            {"cell_type": "code", "source": [], "outputs": []},
        ]});
        let (text, cells) = text(notebook.to_string().as_bytes()).unwrap();
        assert_eq!(cells, 3);
        assert_eq!(
            text,
            "# cell 1 (markdown)\n# Title\ntext\n\n# cell 2 (code, run 3)\n1 + 1\n# output:\na\nb\n# output:\n[image/png, 4 \
             characters]\n[text/html, 8 characters]\n2\n# output:\nE: v\nred end\n\n# cell 3 (code)\n\n"
        );
    }

    #[test]
    fn what_is_no_notebook_is_none() {
        for content in ["", "{}", "[1]", "{\"cells\": 3}", "{\"cells\": [{\"source\": 3}]}"] {
            assert!(text(content.as_bytes()).is_none(), "{content}");
        }
        assert_eq!(text(b"{\"cells\": []}").unwrap(), (String::new(), 0));
    }
}
