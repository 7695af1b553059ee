//! `piton doctor`: what is found on this machine. Keys by name, never by value.

use crate::commands::config;
use crate::out::view;
use crate::setup;
use crate::setup::cloud;
use crate::setup::keys::{self, Place};
use crate::surroundings::Surroundings;
use piton_engine::config::Config;
use piton_engine::engine::Engine;
use piton_models::provider::{self, PROVIDERS};

/// Prints the findings. The exit code is 0 only if Piton could work.
pub(crate) async fn doctor(around: &Surroundings) -> anyhow::Result<u8> {
    line("piton", &format!("{} ({})", env!("CARGO_PKG_VERSION"), around.exe.display()));
    let config = config::of_user(around);
    let mut healthy = configuration(around, config.as_ref());
    let config = config.unwrap_or_default();
    healthy &= sessions(around);
    let models = keys(&config, around).unwrap_or_else(|error| {
        line("key", &format!("{error:#}"));
        healthy = false;
        0
    }) + local_servers(&config, around).await;
    if models == 0 {
        line(
            "models",
            "none: keep a key (`piton auth login PROVIDER`), or start a local server (`piton run` tells which)",
        );
    }
    for tool in ["bash", "git", "bwrap"] {
        let found = around.find_program(tool);
        line(tool, &found.map_or("not found".to_owned(), |path| path.display().to_string()));
    }
    line("sandbox", "none yet: tools run with your rights, and ask before they act");
    Ok(if healthy && models > 0 { 0 } else { crate::out::report::EXIT_FAILED })
}

fn configuration(around: &Surroundings, config: Result<&Config, &anyhow::Error>) -> bool {
    let path = around.config_file.display();
    match config {
        Ok(_) if around.config_file.exists() => line("config", &format!("{path}")),
        Ok(_) => line("config", &format!("{path} (not there; the defaults hold)")),
        Err(error) => {
            line("config", &format!("{error:#}"));
            return false;
        }
    }
    true
}

fn sessions(around: &Surroundings) -> bool {
    let engine = Engine::open(&around.data_dir);
    let found = engine.index().and_then(|index| index.list(None, usize::MAX));
    match found {
        Ok(all) => line("sessions", &format!("{} in {}", all.len(), engine.sessions_dir().display())),
        Err(error) => {
            line("sessions", &error.to_string());
            return false;
        }
    }
    true
}

fn keys(config: &Config, around: &Surroundings) -> anyhow::Result<usize> {
    let mut found = 0;
    let own = config.providers.keys().map(String::as_str).filter(|name| provider::find(name).is_none());
    for name in PROVIDERS.iter().map(|provider| provider.name).chain(own) {
        match keys::places(name, config, around)?.first() {
            None => match provider::find(name).and_then(|known| cloud::place(known, around)) {
                None => continue,
                Some(place) => line("key", &format!("{name}: by {place}")),
            },
            Some(Place::Variable(variable)) => line("key", &format!("{variable} is set ({name})")),
            Some(place) => line("key", &format!("{name}: in {place}")),
        }
        found += 1;
    }
    Ok(found)
}

async fn local_servers(config: &Config, around: &Surroundings) -> usize {
    let mut found = 0;
    for provider in setup::local_providers() {
        let Ok(spec) = setup::spec(provider.name, None, config, around) else { continue };
        let address = spec.base_url.as_deref().unwrap_or(provider.base_url);
        if let Ok(models) = provider::list_models(&spec, &setup::probe_options()).await {
            line(provider.name, &format!("{} at {}", view::plural(models.len() as u64, "model"), address));
            found += models.len();
        }
    }
    found
}

fn line(what: &str, text: &str) {
    view::write_stdout(&format!("{what:<10} {text}\n"));
}
