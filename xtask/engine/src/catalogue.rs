//! `cargo xtask catalogue`: the page about providers, made from the table of providers and the data on models.

use anyhow::{Context, ensure};
use piton_models::catalogue;
use piton_models::credentials::Cloud;
use piton_models::protocol::WireProtocol;
use piton_models::provider::{PROVIDERS, Provider};
use std::fmt::Write;

const PAGE: &str = "docs/providers.md";
const FOR_ALL: &str = include_str!("catalogue/for_all.md");
const ANYTHING_ELSE: &str = include_str!("catalogue/anything_else.md");

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
         `piton models` lists the models that you can use (`--all`: also those of providers without a key, marked); \
         `--model PROVIDER/NAME` accepts any name that the provider knows, listed or not.\n",
        catalogue::about()
    );
    text.push_str(FOR_ALL);
    for provider in PROVIDERS {
        section(&mut text, provider)?;
    }
    text.push_str(ANYTHING_ELSE);
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
    let elsewhere = match provider.protocol_elsewhere {
        Some(WireProtocol::Chat) => "; Chat Completions at another address, unless `protocol` says otherwise",
        Some(other) => anyhow::bail!("no words for {other:?} at another address"),
        None => "",
    };
    let known = catalogue::models(provider.name);
    let models = if known.is_empty() { String::new() } else { format!(", {} models known", known.len()) };
    writeln!(
        text,
        "\n## {}\n\n{protocol}{models}{elsewhere}. [Documentation]({})\n\n```sh",
        provider.name, provider.docs
    )?;
    if let Some(variable) = provider.key_variables.first() {
        writeln!(text, "export {variable}=…        # or: piton auth login {}", provider.name)?;
    }
    let cloud = match provider.cloud {
        Some(Cloud::Aws) => {
            "export AWS_REGION=us-east-1        # and, in place of a key: AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY\n"
        }
        Some(Cloud::Google) => {
            "export GOOGLE_CLOUD_PROJECT=…        # and, in place of a key: gcloud auth application-default login, or GOOGLE_APPLICATION_CREDENTIALS\n"
        }
        None => "",
    };
    text.push_str(cloud);
    if let Some(variable) =
        provider.base_url_variable.filter(|_| provider.base_url.is_empty() && provider.cloud.is_none())
    {
        writeln!(text, "export {variable}={}", provider.base_url_example)?;
    }
    let model = provider.default_model.unwrap_or("NAME");
    writeln!(text, "piton run --model {}/{model} \"…\"\n```", provider.name)?;
    Ok(())
}
