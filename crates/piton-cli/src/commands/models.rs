//! `piton models`: which models can be asked from here, and with whose key.

use crate::cli::ModelsArgs;
use crate::failure::{Context, Result};
use crate::out::view;
use crate::settings;
use crate::surroundings::Surroundings;
use piton_engine::assemble::{catalogue, cloud, keys, server};
use piton_engine::config::Config;
use piton_http::fetch;
use piton_models::catalogue::{Catalogue, ModelFacts};
use piton_models::provider::{self, ListedModel, PROVIDERS};
use piton_tools::private;
use piton_tools::regular;
use serde_json::json;
use std::io::Write;
use std::path::Path;

/// Lists them, provider by provider. One that fails does not hide the others.
pub(crate) async fn models(args: &ModelsArgs, around: &Surroundings) -> Result<u8> {
    let config = settings::of_user(around)?;
    if let Some(source) = &args.refresh {
        return refresh(source, &config, around).await;
    }
    let own = config.providers.iter().filter(|(_, server)| server.protocol.is_some()).map(|(name, _)| name.as_str());
    let known = catalogue::of(&around.machine);
    let mut found = 0;
    for name in PROVIDERS.iter().map(|provider| provider.name).chain(own) {
        match list(name, &config, around).await {
            Ok(models) => {
                let place = keys::places(name, &config, &around.machine)?.first().map(ToString::to_string);
                let place = place.or_else(|| cloud::place(provider::find(name)?, &around.machine));
                if let (Some(place), false) = (&place, args.json) {
                    view::write_stderr(&format!("{name}: key from {place}\n"));
                }
                let is_known = provider::find(name).is_some();
                let facts = |model: &ListedModel| {
                    let known = config.known(known.clone(), name, &model.id);
                    // A server of one's own may call anything by any name.
                    if is_known { known.look_up(name, &model.id) } else { known.newer(name, &model.id) }
                };
                let key = place.as_deref().map_or(Key::NotNeeded, Key::From);
                models.iter().for_each(|model| show(args, name, model, facts(model).as_ref(), key));
                found += models.len();
                if args.all && models.is_empty() && place.is_none() && is_known {
                    let without = of_catalogue(&known, name);
                    let facts = |model: &ListedModel| known.look_up(name, &model.id);
                    without.for_each(|model| show(args, name, &model, facts(&model).as_ref(), Key::Missing));
                }
            }
            Err(error) => {
                let names = known.names(name);
                let instead = if names.is_empty() { "" } else { "; what follows is of the catalogue" };
                view::write_stderr(&format!("{name}: {error:#}{instead}\n"));
                found += names.len();
                let listed = of_catalogue(&known, name);
                let facts = |model: &ListedModel| known.look_up(name, &model.id);
                listed.for_each(|model| show(args, name, &model, facts(&model).as_ref(), Key::NotNeeded));
            }
        }
    }
    if found == 0 {
        view::write_stderr("no provider with a key and no local server answered; see `piton doctor`\n");
        return Ok(crate::out::report::EXIT_FAILED);
    }
    Ok(0)
}

/// Keeps a newer catalogue, if it is one; else everything stays as it is.
async fn refresh(source: &str, config: &Config, around: &Surroundings) -> Result<u8> {
    let bytes = if source.starts_with("http://") || source.starts_with("https://") {
        fetch(source, &server::http_options("", config, &around.machine)?, regular::CATALOGUE_BYTES).await?
    } else {
        let text = regular::named(Path::new(source), regular::CATALOGUE_BYTES);
        text.with_context(|| format!("cannot read {source}"))?.into_bytes()
    };
    let text = String::from_utf8(bytes).ok().with_context(|| format!("{source} is not text; nothing was changed"))?;
    let checked = Catalogue::check(&text).with_context(|| format!("{source} is no catalogue; nothing was changed"))?;
    let path = catalogue::file(&around.machine);
    let failed = || format!("cannot write {}", path.display());
    private::make_folder(&around.machine.data_dir).with_context(failed)?;
    let mut new = tempfile::NamedTempFile::new_in(&around.machine.data_dir).with_context(failed)?;
    new.write_all(checked.text.as_bytes()).with_context(failed)?;
    new.persist(&path).with_context(failed)?;
    let (models, providers) =
        (view::plural(checked.models as u64, "model"), view::plural(checked.providers as u64, "provider"));
    view::write_stdout(&format!(
        "stored {models} of {providers} in {}; they override the built-in catalogue\n",
        path.display()
    ));
    Ok(0)
}

/// The models of a provider; none where nobody set it up.
async fn list(name: &str, config: &Config, around: &Surroundings) -> Result<Vec<ListedModel>> {
    let spec = server::spec(name, None, config, &around.machine)?;
    let is_cloud = provider::find(name).is_some_and(|provider| provider.cloud.is_some());
    let needs_key = provider::find(name).is_none_or(|provider| provider.needs_key);
    // An address that follows from a region alone is nobody's wish.
    let is_set_up = spec.key.is_some() || spec.credentials.is_some() || (spec.base_url.is_some() && !is_cloud);
    let is_local = server::local_providers().any(|local| local.name == name);
    // `openai-chat` without an address would be the llama.cpp of this machine a second time.
    if !is_set_up && (needs_key || !is_local) {
        return Ok(Vec::new());
    }
    if is_local {
        // A server of this machine that is not there is nothing to report.
        return Ok(provider::list_models(&spec, &server::probe_options()).await.unwrap_or_default());
    }
    Ok(provider::list_models(&spec, &server::http_options(name, config, &around.machine)?).await?)
}

/// The key of a model's provider.
#[derive(Clone, Copy)]
enum Key<'k> {
    /// It is found here.
    From(&'k str),
    /// None is known, and the models are listed all the same.
    NotNeeded,
    /// None is known, so that the provider was not asked.
    Missing,
}

fn of_catalogue(known: &Catalogue, provider: &str) -> impl Iterator<Item = ListedModel> {
    known.names(provider).into_iter().map(|id| ListedModel { id, window_tokens: None })
}

/// One line of the list: what the server says, and what the catalogue knows besides.
fn show(args: &ModelsArgs, provider: &str, model: &ListedModel, known: Option<&ModelFacts>, key: Key<'_>) {
    let name = format!("{provider}/{}", model.id);
    let window_tokens = model.window_tokens.or(known.and_then(|known| known.limits.window_tokens));
    if args.json {
        let place = if let Key::From(place) = key { Some(place) } else { None };
        let mut line = json!({"model": name, "provider": provider, "window_tokens": window_tokens, "key": place});
        if let Key::Missing = key {
            line["key_missing"] = json!(true);
        }
        if let Some(ModelFacts { limits, images, tools, reasoning, price, .. }) = known {
            line["known"] = json!({"max_output_tokens": limits.max_output_tokens, "images": images, "tools": tools,
                "reasoning": reasoning, "price": price.map(|price| json!({"input": price.input, "output": price.output}))});
        }
        view::write_stdout(&format!("{line}\n"));
        return;
    }
    let window = window_tokens.map(|tokens| format!("  {} tokens", view::thousands(tokens))).unwrap_or_default();
    let missing = if let Key::Missing = key { "  (no key)" } else { "" };
    view::write_stdout(&format!("{name}{window}{missing}\n"));
}
