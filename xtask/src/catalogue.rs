//! `cargo xtask catalogue`: the table of models and the page about providers, made from the committed data.

use anyhow::{Context, ensure};
use piton_models::catalogue;
use piton_models::provider::{PROVIDERS, Provider, WireProtocol};
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;

const DATA: &str = "crates/piton-models/catalogue/models.jsonl";
const TABLE: &str = "crates/piton-models/src/catalogue/generated.rs";
const PAGE: &str = "docs/providers.md";

/// Writes both files.
pub(crate) fn write() -> anyhow::Result<()> {
    for (path, text) in [(TABLE, table()?), (PAGE, page()?)] {
        std::fs::write(path, text).with_context(|| format!("cannot write {path}"))?;
        println!("wrote {path}");
    }
    Ok(())
}

/// Fails if one of the files is not what the data makes.
pub(crate) fn check() -> anyhow::Result<()> {
    for (path, text) in [(TABLE, table()?), (PAGE, page()?)] {
        let found = std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
        ensure!(found == text, "{path} is not up to date: run cargo xtask catalogue");
    }
    Ok(())
}

fn lines() -> anyhow::Result<Vec<Value>> {
    let text = std::fs::read_to_string(Path::new(DATA)).with_context(|| format!("cannot read {DATA}"))?;
    text.lines().map(|line| serde_json::from_str(line).with_context(|| format!("in {DATA}: {line}"))).collect()
}

fn about() -> anyhow::Result<String> {
    Ok(lines()?
        .first()
        .and_then(|line| line["about"].as_str())
        .context("the first line says where it is from")?
        .to_owned())
}

fn table() -> anyhow::Result<String> {
    let mut rows: Vec<Value> = lines()?.into_iter().skip(1).collect();
    let name = |row: &Value, field: &str| row[field].as_str().unwrap_or_default().to_owned();
    rows.sort_by_key(|row| (name(row, "provider"), name(row, "model")));
    let mut text = format!(
        "//! Made by `cargo xtask catalogue`; not to be changed by hand. Source: {}.\n\n\
         use super::{{ModelFacts, row}};\n\n\
         #[rustfmt::skip]\npub(super) static MODELS: &[ModelFacts] = &[\n",
        about()?
    );
    for row in &rows {
        let window = row["window"].as_u64().unwrap_or_default();
        let most = row["max_output"].as_u64().unwrap_or_default();
        let most = if window > 0 { most.min(window) } else { most };
        let can = ["images", "tools", "reasoning"].map(|field| row[field].as_bool().unwrap_or_default());
        let (provider, model) = (name(row, "provider"), name(row, "model"));
        writeln!(text, "    row({provider:?}, {model:?}, {window}, {most}, {}, {can:?}),", rates(&row["price"]))?;
    }
    text.push_str("];\n");
    Ok(text)
}

/// A cache whose price is not told costs what plain input does.
fn rates(price: &Value) -> String {
    let (Some(input), Some(output)) = (price["input"].as_f64(), price["output"].as_f64()) else {
        return "None".to_owned();
    };
    let or_input = |field: &str| price[field].as_f64().unwrap_or(input);
    format!("Some({:?})", [input, output, or_input("cache_read"), or_input("cache_write")])
}

fn page() -> anyhow::Result<String> {
    let mut text = format!(
        "# Providers\n\nMade by `cargo xtask catalogue`. Windows and prices: {}.\n\n\
         `piton models` lists what can be asked from where you are; `--model PROVIDER/NAME` takes any name that the provider \
         knows, in this list or not.\n",
        about()?
    );
    for provider in PROVIDERS {
        section(&mut text, provider)?;
    }
    text.push_str(
        "\n## Anything else\n\nA server that speaks one of the protocols, in `~/.config/piton/config.toml`:\n\n```toml\n\
         [providers.mine]\nprotocol = \"chat\"            # chat, responses, anthropic, gemini or ollama\n\
         base_url = \"https://models.corp.example/v1\"\nkey_variable = \"MINE_API_KEY\"   # or key_command = \"pass show mine\"\n\
         ```\n\n```sh\npiton run --model mine/NAME \"…\"\n```\n",
    );
    Ok(text)
}

fn section(text: &mut String, provider: &Provider) -> anyhow::Result<()> {
    let protocol = match provider.protocol {
        WireProtocol::Chat => "Chat Completions",
        WireProtocol::Responses => "Responses",
        WireProtocol::Anthropic => "Messages",
        WireProtocol::Gemini => "Gemini",
        WireProtocol::Ollama => "Ollama's own",
    };
    let known = catalogue::models(provider.name);
    let models = if known.is_empty() { String::new() } else { format!(", {} models known", known.len()) };
    writeln!(text, "\n## {}\n\n{protocol}{models}. [Documentation]({})\n\n```sh", provider.name, provider.docs)?;
    if let Some(variable) = provider.key_variables.first() {
        writeln!(text, "export {variable}=…")?;
    }
    if let Some(variable) = provider.base_url_variable.filter(|_| provider.base_url.is_empty()) {
        writeln!(text, "export {variable}={}", provider.base_url_example)?;
    }
    let model = provider.default_model.unwrap_or("NAME");
    writeln!(text, "piton run --model {}/{model} \"…\"\n```", provider.name)?;
    Ok(())
}
