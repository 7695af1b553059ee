//! `piton context`: what a model would get in this folder before anything is done, piece by piece, with its tokens.

use crate::cli::ContextArgs;
use crate::failure::Result;
use crate::out::view::{self, thousands};
use crate::settings;
use crate::surroundings::Surroundings;
use piton_core::message::Part;
use piton_core::model::Request;
use piton_core::policy::Policy;
use piton_core::tokens::Family;
use piton_engine::assemble::{self, Wishes, agents, catalogue, rules, skills, sources, tools_of};
use piton_engine::config::Config;
use piton_engine::context::{self, Instructions, References, instructions_note};
use piton_engine::engine::Settings;
use piton_models::model::{Model, ModelLimits, ModelStream, Nobody, Price};
use piton_models::text_tools::{CallsRead, Mode};
use piton_tools::disk::Disk;
use piton_tools::toolset::ToolSet;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// A piece of the first request.
struct Piece {
    kind: &'static str,
    /// What it is, for people.
    name: String,
    /// Where it is from.
    file: Option<String>,
    tokens: u64,
    notice: Option<String>,
    text: String,
}

/// Prints the pieces of the first request. Asks nobody, and needs no key.
pub(crate) fn context(args: &ContextArgs, around: &Surroundings) -> Result<u8> {
    let workspace = around.workspace(args.cwd.as_deref())?;
    let config = settings::of_workspace(around, &workspace, &args.layers())?;
    let said = args.model.as_deref().or(config.model.as_deref()).unwrap_or_default();
    let model = said.split(',').next().unwrap_or_default().trim().to_owned();
    let (limits, has_tools) = facts(&model, &config, around);
    let family = Family::of(&model);
    let measured = |kind, name: String, file, notice, text: String| {
        let tokens = family.estimate(&text);
        Piece { kind, name, file, tokens, notice, text }
    };
    let settings = Settings::new(Arc::new(Nobody { name: model.clone() }));
    let tools = tools(settings.tools.clone(), &workspace, &config, around)?;
    let settings = Settings { policy: rules::policy(&config)?, tools, ..settings };
    let sent = first_request(&settings, text_tools(&config, &settings.policy, &model), has_tools);
    let version = context::SYSTEM_PROMPT_VERSION;
    let taught = if sent.tools.is_empty() { ", with the tools as text" } else { "" };
    let mut pieces =
        vec![measured("system", format!("system prompt, version {version}{taught}"), None, None, sent.system)];
    for tool in sent.tools.iter() {
        let text = json!({"name": tool.name, "description": tool.description, "parameters": tool.schema}).to_string();
        pieces.push(measured("tool", format!("tool {}", tool.name), None, None, text));
    }
    let files = Disk::to_read();
    let environment = context::environment_note(&workspace, &around.machine.today);
    pieces.push(measured("environment", "environment".to_owned(), None, None, environment));
    if let Some(instructions) = sources::instructions(&config, &around.machine) {
        let window_tokens = limits.window_tokens;
        let found = Instructions { window_tokens, ..instructions }.at_start(&workspace, &files);
        for piece in &found {
            let by = piece.imported_by.as_ref().map_or(String::new(), |by| format!(", imported by {by}"));
            let file = Some(piece.path.display().to_string());
            let name = format!("{}{by}", piece.shown);
            // With what stands around it.
            let around = instructions_note(std::slice::from_ref(piece), "").unwrap_or_default();
            let text = piece.text.clone();
            let tokens = family.estimate(&around);
            pieces.push(Piece { tokens, ..measured("instructions", name, file, piece.notice.clone(), text) });
        }
    }
    if let Some(prompt) = &args.prompt {
        pieces.push(measured("prompt", "the prompt".to_owned(), None, None, prompt.clone()));
        let (style, sizes) = (settings.policy.references.style, settings.policy.references.sizes);
        let (window_tokens, images) = (limits.window_tokens, limits.images);
        let references = References { workspace, style, sizes, window_tokens, images, family };
        let found = references.resolve(&[Part::text(prompt.clone())], &files);
        let notices: Vec<String> = found.items.iter().filter_map(|item| item.notice.clone()).collect();
        for part in &found.parts {
            let text = match part {
                Part::Note { text, .. } => text.clone(),
                _ => String::new(),
            };
            let name = match text.as_str() {
                "" => "a picture that it refers to",
                remarks if remarks.starts_with('[') => "what the model is told about its references",
                _ => "files that it refers to",
            };
            pieces.push(Piece {
                tokens: family.estimate_part(part),
                ..measured("reference", name.to_owned(), None, None, text)
            });
        }
        if let (Some(last), false) = (pieces.last_mut(), notices.is_empty()) {
            last.notice = Some(notices.join("; "));
        }
    }
    print(args, &model, &limits, &pieces);
    Ok(0)
}

/// The tools of a session in this workspace, with the agents and skills that are in force there.
fn tools(tools: ToolSet, workspace: &Path, config: &Config, around: &Surroundings) -> Result<ToolSet> {
    let scope = assemble::scope(&around.machine, workspace, &Wishes::default())?;
    let skills = skills::of_session(&scope, &mut Vec::new())?;
    let agents = agents::of_session(&scope, &mut Vec::new())?.with_skills_of_plugins(&skills);
    Ok(tools_of(tools, (&agents, &skills), config, &around.machine)?)
}

/// What is known about the model, by its name alone: its limits, and whether it has tools.
fn facts(model: &str, config: &Config, around: &Surroundings) -> (ModelLimits, Option<bool>) {
    let known = |provider, name| config.known(catalogue::of(&around.machine), provider, name).look_up(provider, name);
    let facts = model.split_once('/').and_then(|(provider, name)| known(provider, name));
    facts.map_or((ModelLimits::default(), None), |facts| (facts.limits, facts.tools))
}

/// How the model is to call tools: by the configuration, else by the preset, else by what is known of it.
fn text_tools(config: &Config, policy: &Policy, model: &str) -> Mode {
    let (provider, name) = model.split_once('/').unwrap_or((model, ""));
    config.text_tools_of(provider, name).or(Mode::of_policy(policy)).unwrap_or_default()
}

/// What stands at the beginning of every request, as it leaves for the provider.
fn first_request(settings: &Settings, mode: Mode, has_tools: Option<bool>) -> Request {
    let name = settings.model.name();
    let (_, model) = name.split_once('/').unwrap_or(("", name));
    let request = Request {
        session: String::new(),
        model: model.to_owned(),
        system: settings.system.to_string(),
        tools: settings.offered(),
        may_call: true,
        messages: Vec::new(),
        max_output_tokens: None,
    };
    let capture = Arc::new(RequestCapture(Mutex::new(request.clone())));
    // Asked, it answers nothing; what it was asked is what we want, and who reads its calls makes no difference to that.
    drop(mode.around(Arc::clone(&capture) as Arc<dyn Model>, model, has_tools, CallsRead::Surely).stream(request));
    capture.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// A model that keeps the request it gets.
struct RequestCapture(Mutex<Request>);

impl Model for RequestCapture {
    fn name(&self) -> &str {
        ""
    }

    fn limits(&self) -> ModelLimits {
        ModelLimits::default()
    }

    fn price(&self) -> Option<Price> {
        None
    }

    fn stream(&self, request: Request) -> ModelStream {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = request;
        Box::pin(futures_util::stream::empty())
    }
}

fn print(args: &ContextArgs, model: &str, limits: &ModelLimits, pieces: &[Piece]) {
    let total: u64 = pieces.iter().map(|piece| piece.tokens).sum();
    if args.json {
        let piece = |piece: &Piece| {
            let Piece { kind, name, file, tokens, notice, text } = piece;
            let text = if args.full { Value::from(text.as_str()) } else { Value::Null };
            json!({"kind": kind, "name": name, "file": file, "tokens": tokens, "bytes": piece.text.len(),
                   "notice": notice, "text": text})
        };
        let pieces: Vec<Value> = pieces.iter().map(piece).collect();
        let all = json!({"model": model, "window_tokens": limits.window_tokens, "tokens": total, "pieces": pieces});
        view::write_stdout(&format!("{all}\n"));
        return;
    }
    let mut text = " tokens  what\n".to_owned();
    for Piece { name, file, tokens, notice, text: content, .. } in pieces {
        let file = file.as_ref().filter(|file| !name.starts_with(file.as_str()));
        let file = file.map_or(String::new(), |file| format!("  ({})", view::clean(file)));
        let notice = notice.as_ref().map_or(String::new(), |notice| format!("\n         ! {}", view::clean(notice)));
        text.push_str(&format!("{:>7}  {}{file}{notice}\n", thousands(*tokens), view::clean(name)));
        if args.full {
            content.lines().for_each(|line| text.push_str(&format!("         │ {}\n", view::clean(line))));
        }
    }
    let of = match (limits.window_tokens, model) {
        (Some(window), _) => {
            let percent = total as f64 * 100.0 / window as f64;
            format!(", {percent:.1} % of the {} that {model} holds", thousands(window))
        }
        (None, "") => "; name a model with --model to count as it does".to_owned(),
        (None, model) => {
            format!("; the context window of {model} is unknown: set `window = N` in [models.\"{model}\"]")
        }
    };
    view::write_stdout(&format!("{text}{:>7}  in total, estimated{of}\n", thousands(total)));
}
