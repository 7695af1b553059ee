//! `piton auth`: keeps keys, lists where they are, and forgets them. A key is never printed.

use crate::cli::AuthCommand;
use crate::failure::{Context, Failure, Result, bail, ensure};
use crate::out::report;
use crate::out::view;
use crate::settings;
use crate::surroundings::Surroundings;
use piton_core::event::TurnEnd;
use piton_engine::assemble::keys::{self, Place};
use piton_engine::assemble::server;
use piton_engine::config::Config;
use piton_engine::spelling::nearest;
use piton_models::provider::{self, ListError, PROVIDERS, ProviderSpec};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::Stdin;
use std::time::Duration;

/// Obeys one of them.
pub(crate) async fn auth(command: AuthCommand, around: &Surroundings) -> Result<u8> {
    let config = settings::of_user(around)?;
    match command {
        AuthCommand::Login { provider, file, unchecked } => login(&provider, (file, unchecked), &config, around).await,
        AuthCommand::List => list(&config, around),
        AuthCommand::Logout { provider } => logout(&provider, &config, around),
    }
}

async fn login(name: &str, (in_file, unchecked): (bool, bool), config: &Config, around: &Surroundings) -> Result<u8> {
    is_known(name, config)?;
    let Some(key) = key_from_person(name, around).await? else {
        return Ok(report::exit_code(TurnEnd::Canceled));
    };
    if !unchecked && !may_be_kept(name, &key, config, around).await? {
        return Ok(report::EXIT_FAILED);
    }
    let (place, left) = keys::keep(name, &key, !in_file, &around.machine)?;
    if let Some(error) = left {
        view::write_stderr(&format!("note: the previous key may still be in the keyring: {error:#}\n"));
    }
    let told = match place {
        Place::File => {
            format!("stored in {}, which only you can read; not encrypted", keys::file(&around.machine).display())
        }
        Place::Keyring | Place::Variable(_) | Place::Command => format!("kept in {place}"),
    };
    view::write_stdout(&format!("the key of {name} is {told}\n"));
    if let Some(Place::Variable(variable)) = keys::places(name, config, &around.machine)?.first() {
        view::write_stderr(&format!("note: {variable} is set and takes precedence\n"));
    }
    Ok(0)
}

/// What the provider says of a key.
#[derive(Debug)]
enum Verdict {
    Accepted,
    Refused(String),
    /// It could not be asked, or its answer says nothing of the key.
    Unknown(String),
}

/// Whether to keep a key: one that the provider refuses is kept only if the person insists.
async fn may_be_kept(name: &str, key: &str, config: &Config, around: &Surroundings) -> Result<bool> {
    match verdict(name, key, config, around).await {
        Verdict::Accepted => view::write_stderr(&format!("{name} accepts the key\n")),
        Verdict::Unknown(why) => view::write_stderr(&format!("note: the key is unchecked: {}\n", view::clean(&why))),
        Verdict::Refused(why) => {
            view::write_stderr(&format!("{name} refuses the key: {}\n", view::clean(&why)));
            if around.stdin_is_terminal {
                view::write_stderr("store it anyway? y/N: ");
                let line = tokio::select! {
                    line = read_line() => line?,
                    _ = tokio::signal::ctrl_c() => String::new(),
                };
                if line.trim().eq_ignore_ascii_case("y") {
                    return Ok(true);
                }
            }
            view::write_stderr("nothing was stored; `piton auth login --unchecked` stores a key without asking\n");
            return Ok(false);
        }
    }
    Ok(true)
}

/// Asks the provider for its models, with this key: the cheapest request there is.
async fn verdict(name: &str, key: &str, config: &Config, around: &Surroundings) -> Verdict {
    /// A person waits.
    const PATIENCE: Duration = Duration::from_secs(10);
    /// Lists that anybody gets say nothing of a key.
    const PUBLIC_LISTS: [&str; 1] = ["openrouter"];
    if PUBLIC_LISTS.contains(&name) {
        return Verdict::Unknown(format!("{name} lists its models to anybody"));
    }
    let asking = async {
        let spec = server::spec(name, None, config, &around.machine)?;
        let spec = ProviderSpec { key: Some(key.to_owned()), key_from: None, renewal: None, ..spec };
        let options = server::http_options(name, config, &around.machine)?;
        Ok::<_, Failure>(provider::list_models(&spec, &options).await)
    };
    match tokio::time::timeout(PATIENCE, asking).await {
        Ok(Ok(Ok(_))) => Verdict::Accepted,
        // A key that may list nothing (403) may answer all the same. Google calls a wrong key a bad argument.
        Ok(Ok(Err(ListError::Model(error))))
            if error.status == Some(401) || (error.status == Some(400) && error.message.contains("API key")) =>
        {
            Verdict::Refused(error.message)
        }
        Ok(Ok(Err(error))) => Verdict::Unknown(error.to_string()),
        Ok(Err(error)) => Verdict::Unknown(error.to_string()),
        Err(_) => Verdict::Unknown(format!("{name} did not answer within {} s", PATIENCE.as_secs())),
    }
}

fn list(config: &Config, around: &Surroundings) -> Result<u8> {
    let mut names: Vec<String> = PROVIDERS.iter().map(|provider| provider.name.to_owned()).collect();
    let others = config.providers.keys().cloned().chain(keys::kept_names(&around.machine)?);
    for other in others {
        if !names.contains(&other) {
            names.push(other);
        }
    }
    let mut found = false;
    for name in names {
        let places: Vec<String> = keys::places(&name, config, &around.machine)?.iter().map(Place::to_string).collect();
        let Some((first, others)) = places.split_first() else { continue };
        let others = if others.is_empty() { String::new() } else { format!(" (also: {})", others.join(", ")) };
        view::write_stdout(&format!("{name:<18} {first}{others}\n"));
        found = true;
    }
    if !found {
        view::write_stderr("no keys found; `piton auth login PROVIDER` stores one\n");
    }
    Ok(0)
}

fn logout(name: &str, config: &Config, around: &Surroundings) -> Result<u8> {
    match keys::forget(name, &around.machine)? {
        Some(place) => view::write_stdout(&format!("the key of {name} is no longer in {place}\n")),
        None => bail!("no key for {name} is stored"),
    }
    if let Some(place) = keys::places(name, config, &around.machine)?.first() {
        view::write_stderr(&format!("note: there is still a key in {place}\n"));
    }
    Ok(0)
}

/// Keeping a key that nobody will ask for is a mistake that would pass unnoticed. Servers of this machine may want one:
/// `vllm --api-key` does.
fn is_known(name: &str, config: &Config) -> Result<()> {
    if config.providers.contains_key(name) || provider::find(name).is_some() {
        return Ok(());
    }
    let meant = nearest(name, PROVIDERS.iter().map(|provider| provider.name));
    let meant = meant.map(|word| format!("; did you mean {word}?")).unwrap_or_default();
    bail!("there is no provider {name:?}{meant}")
}

/// The key, typed without echo or piped in; `None` after Ctrl-C.
async fn key_from_person(name: &str, around: &Surroundings) -> Result<Option<String>> {
    let line = if around.stdin_is_terminal {
        // First: what is typed before it is thrown away.
        let silence = Silence::over(std::io::stdin());
        view::write_stderr(&format!("key for {name} (it is not shown): "));
        let typed = tokio::select! {
            line = read_line() => Some(line),
            _ = tokio::signal::ctrl_c() => None,
        };
        drop(silence);
        view::write_stderr("\n");
        match typed {
            Some(line) => line?,
            None => return Ok(None),
        }
    } else {
        read_line().await?
    };
    let key = line.trim();
    sound(key)?;
    Ok(Some(key.to_owned()))
}

/// Whether this can be a key at all.
fn sound(key: &str) -> Result<()> {
    /// Ten times the longest token that is known.
    const MAX_BYTES: usize = 16 << 10;
    ensure!(!key.is_empty(), "no key was given");
    let is_one_word = key.chars().all(|c| c.is_ascii_graphic());
    ensure!(is_one_word, "not a key: it has spaces or characters that no key has");
    ensure!(key.len() <= MAX_BYTES, "not a key: it has {} bytes", key.len());
    let is_quoted = key.starts_with(['"', '\'']) || key.ends_with(['"', '\'']);
    ensure!(!is_quoted, "not a key: enter it without quotes");
    if let Some((name, _)) = key.split_once('=')
        && name.ends_with("_KEY")
    {
        bail!("that is a line that sets {name}: enter only the part after the `=`");
    }
    Ok(())
}

async fn read_line() -> Result<String> {
    let read = || -> std::io::Result<String> {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line)?;
        Ok(line)
    };
    tokio::task::spawn_blocking(read).await.context("cannot read the key")?.context("cannot read the key")
}

/// A terminal that does not show what is typed, until this is dropped.
struct Silence {
    terminal: Stdin,
    before: Option<Termios>,
}

impl Silence {
    fn over(terminal: Stdin) -> Self {
        let before = tcgetattr(&terminal).ok();
        if let Some(mut modes) = before.clone() {
            modes.local_modes.remove(LocalModes::ECHO);
            // A terminal that cannot be silenced still takes the key.
            let _ = tcsetattr(&terminal, OptionalActions::Flush, &modes);
        }
        Self { terminal, before }
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = tcsetattr(&self.terminal, OptionalActions::Now, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_a_key_is_not_kept() {
        for key in ["sk-1", "AIza_2-3", "eyJhbGciOiJ9.eyJ.c2ln", "YWJjZA=="] {
            sound(key).unwrap();
        }
        for (key, why) in [
            ("", "no key"),
            ("sk 1", "spaces"),
            ("\"sk-1\"", "without quotes"),
            ("OPENAI_API_KEY=sk-1", "sets OPENAI_API_KEY"),
            (&"x".repeat(100_000), "100000 bytes"),
        ] {
            let error = sound(key).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
