//! The suites on `@` references: what is found in a prompt, and what is appended to it.

use super::expect;
use anyhow::Context;
use piton_core::message::Part;
use piton_core::reference::{self, Style};
use piton_core::tokens::Family;
use piton_engine::context::References;
use piton_tools::disk::Disk;
use serde_json::{Value, json};

pub(super) fn extract_seed(case: &Value) -> Result<(), String> {
    let found = reference::extract(case["input"].as_str().unwrap_or_default(), Style::Neovate);
    expect(case, &found.into_iter().map(|reference| reference.path).collect())
}

pub(super) fn extract_0_28(case: &Value) -> Result<(), String> {
    let found = reference::extract(case["input"].as_str().unwrap_or_default(), Style::Neovate028);
    let shown = found.into_iter().map(|reference| match reference.lines {
        Some(lines) => json!({"path": reference.path, "lineRange": {"start": lines.start, "end": lines.end}}),
        None => json!({"path": reference.path}),
    });
    expect(case, &shown.collect())
}

pub(super) fn render_seed(case: &Value) -> Result<(), String> {
    render(case, Style::Neovate)
}

pub(super) fn render_0_28(case: &Value) -> Result<(), String> {
    render(case, Style::Neovate028)
}

/// What is appended, from real files. Files of a folder come in any order in the reference.
fn render(case: &Value, style: Style) -> Result<(), String> {
    let got = appended(&case["input"], style).map_err(|error| format!("{error:#}"))?;
    let blocks = |text: &Value| {
        let mut blocks: Vec<String> = text
            .as_str()
            .unwrap_or_default()
            .split("\n      <file>")
            .map(|block| block.replace("\n</files>", ""))
            .collect();
        blocks.sort();
        blocks
    };
    let is_same = got == case["expected"] || (got.is_string() && blocks(&got) == blocks(&case["expected"]));
    if is_same { Ok(()) } else { Err(got.to_string()) }
}

fn appended(input: &Value, style: Style) -> anyhow::Result<Value> {
    let folder = tempfile::tempdir()?;
    let workspace = folder.path().canonicalize()?.join("workspace");
    std::fs::create_dir(&workspace)?;
    for (path, text) in input["files"].as_object().context("a case has files")? {
        let path = workspace.join(path);
        std::fs::create_dir_all(path.parent().context("a file lies in a folder")?)?;
        std::fs::write(path, text.as_str().context("a file has text")?)?;
    }
    let references = References {
        workspace,
        style,
        sizes: Default::default(),
        window_tokens: None,
        images: None,
        family: Family::OpenAi,
    };
    let prompt = input["prompt"].as_str().context("a case has a prompt")?;
    let found = references.resolve(&[Part::text(prompt)], &Disk::to_read());
    let texts: Vec<String> = found
        .parts
        .into_iter()
        .filter_map(|part| match part {
            Part::Note { text, .. } => Some(text),
            _ => None,
        })
        .collect();
    Ok(if texts.is_empty() { Value::Null } else { texts.join("\n\n").into() })
}
