//! `piton models`: which models can be asked from here.

use crate::cli::ModelsArgs;
use crate::setup;
use crate::surroundings::Surroundings;
use crate::view;
use piton_models::provider::{self, PROVIDERS, Provider};
use serde_json::json;

/// Lists them, provider by provider.
pub(crate) async fn models(args: &ModelsArgs, around: &Surroundings) -> anyhow::Result<u8> {
    let mut found = 0;
    let http = setup::http_options(&setup::config(around)?, around);
    for provider in PROVIDERS {
        let spec = setup::spec(provider.name, None, around);
        let is_local = setup::local_providers().any(|local| local.name == provider.name);
        // `openai-chat` without an address would be the llama.cpp of this machine a second time.
        if spec.key.is_none() && spec.base_url.is_none() && !is_local {
            continue;
        }
        let options = if is_local { setup::probe_options() } else { http.clone() };
        match provider::list_models(&spec, &options).await {
            Ok(models) => {
                for model in models {
                    found += 1;
                    show(args, provider, &model.id, model.window_tokens);
                }
            }
            Err(_) if is_local => {}
            Err(error) => view::write_stderr(&format!("{}: {error}\n", provider.name)),
        }
    }
    if found == 0 {
        view::write_stderr("no provider with a key and no local server answered; see `piton doctor`\n");
        return Ok(crate::report::EXIT_FAILED);
    }
    Ok(0)
}

fn show(args: &ModelsArgs, provider: &Provider, id: &str, window: Option<u64>) {
    let name = format!("{}/{id}", provider.name);
    if args.json {
        view::write_stdout(&format!(
            "{}\n",
            json!({"model": name, "provider": provider.name, "window_tokens": window})
        ));
        return;
    }
    let window = window.map(|tokens| format!("  {} tokens", view::thousands(tokens))).unwrap_or_default();
    view::write_stdout(&format!("{name}{window}\n"));
}
