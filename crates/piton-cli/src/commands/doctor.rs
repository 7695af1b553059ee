//! `piton doctor`: what is found on this machine. Keys by name, never by value.

use crate::failure::Result;
use crate::out::view;
use crate::settings;
use crate::surroundings::Surroundings;
use piton_engine::assemble::keys::{self, Place};
use piton_engine::assemble::{AssembleError, cloud, server};
use piton_engine::config::Config;
use piton_engine::engine::Engine;
use piton_models::provider::{self, PROVIDERS};

/// Prints the findings. The exit code is 0 only if Piton could work.
pub(crate) async fn doctor(around: &Surroundings) -> Result<u8> {
    line("piton", &format!("{} ({})", env!("CARGO_PKG_VERSION"), around.machine.exe.display()));
    let config = settings::of_user(around);
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
        let found = around.machine.find_program(tool);
        line(tool, &found.map_or("not found".to_owned(), |path| path.display().to_string()));
    }
    line("sandbox", "none yet: tools run with your rights, and ask before they act");
    Ok(if healthy && models > 0 { 0 } else { crate::out::report::EXIT_FAILED })
}

fn configuration(around: &Surroundings, config: Result<&Config, &AssembleError>) -> bool {
    let path = around.machine.config_file.display();
    match config {
        Ok(_) if around.machine.config_file.exists() => line("config", &format!("{path}")),
        Ok(_) => line("config", &format!("{path} (not there; the defaults hold)")),
        Err(error) => {
            line("config", &error.chain());
            return false;
        }
    }
    true
}

fn sessions(around: &Surroundings) -> bool {
    let engine = Engine::open(&around.machine.data_dir);
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

fn keys(config: &Config, around: &Surroundings) -> Result<usize> {
    let mut found = 0;
    let own = config.providers.keys().map(String::as_str).filter(|name| provider::find(name).is_none());
    for name in PROVIDERS.iter().map(|provider| provider.name).chain(own) {
        match keys::places(name, config, &around.machine)?.first() {
            None => match provider::find(name).and_then(|known| cloud::place(known, &around.machine)) {
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
    for provider in server::local_providers() {
        let Ok(spec) = server::spec(provider.name, None, config, &around.machine) else { continue };
        let address = spec.base_url.as_deref().unwrap_or(provider.base_url);
        if let Ok(models) = provider::list_models(&spec, &server::probe_options()).await {
            line(provider.name, &format!("{} at {}", view::plural(models.len() as u64, "model"), address));
            found += models.len();
        }
    }
    found
}

fn line(what: &str, text: &str) {
    view::write_stdout(&format!("{what:<10} {text}\n"));
}
