//! `cargo xtask catalogue`: the page about providers, made from the table of providers and the data on models.

use anyhow::{Context, ensure};
use piton_models::catalogue;
use piton_models::provider::{PROVIDERS, Provider, WireProtocol};
use std::fmt::Write;

const PAGE: &str = "docs/providers.md";

/// Writes it.
pub(crate) fn write() -> anyhow::Result<()> {
    std::fs::write(PAGE, page()?).with_context(|| format!("cannot write {PAGE}"))?;
    println!("wrote {PAGE}");
    Ok(())
}

/// Fails if it is not what the tables make.
pub(crate) fn check() -> anyhow::Result<()> {
    let found = std::fs::read_to_string(PAGE).with_context(|| format!("cannot read {PAGE}"))?;
    ensure!(found == page()?, "{PAGE} is not up to date: run cargo xtask catalogue");
    Ok(())
}

fn page() -> anyhow::Result<String> {
    let mut text = format!(
        "# Providers\n\nMade by `cargo xtask catalogue`. Windows and prices: {}.\n\n\
         `piton models` lists what can be asked from where you are; `--model PROVIDER/NAME` takes any name that the provider \
         knows, in this list or not.\n",
        catalogue::about()
    );
    for provider in PROVIDERS {
        section(&mut text, provider)?;
    }
    text.push_str(
        "\n## Anything else\n\nA server that speaks one of the protocols, in `~/.config/piton/config.toml`:\n\n```toml\n\
         [providers.mine]\nprotocol = \"chat\"            # chat, responses, anthropic, gemini or ollama\n\
         base_url = \"https://models.corp.example/v1\"\nkey_variable = \"MINE_API_KEY\"   # or key_command = \"pass show mine\"\n\
         ```\n\n```sh\npiton run --model mine/NAME \"…\"\n```\n\n\
         If its model cannot call tools, or if calls come as text: [text-tools.md](text-tools.md).\n",
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
