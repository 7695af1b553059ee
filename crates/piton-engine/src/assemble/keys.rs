//! API keys: where Piton looks for them, and where `piton auth` stores them.
//!
//! The order is: environment, what is kept (in the keyring of the desktop, or in a file that only its owner can read),
//! and last a command of the configuration. `keys.json` in the data folder knows of every kept key where it is, so that
//! the keyring is asked only for a key that is in it, and never where the environment has one.

use super::environment::{self, Variables};
use super::machine::Machine;
use super::rules::provider_of;
use super::trouble::{Context, Trouble, ensure};
use crate::config::Config;
use crate::list_file::{ListFile, Lock};
use piton_models::model::Model;
use piton_models::pass::{Pass, Renewal};
use piton_models::provider::{self, KeySource};
use piton_tools::private;
use piton_tools::regular;
use piton_tools::spawn::{self, Confinement, Env, Group, Spawn, Streams};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Where a key is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In this environment variable.
    Variable(String),
    /// In the keyring.
    Keyring,
    /// In `keys.json`.
    File,
    /// Where the `key_command` of the configuration finds it.
    Command,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => f.write_str(name),
            Self::Keyring => f.write_str("the keyring"),
            Self::File => f.write_str("keys.json"),
            Self::Command => f.write_str("key_command"),
        }
    }
}

impl From<Place> for KeySource {
    fn from(place: Place) -> Self {
        match place {
            Place::Variable(name) => Self::Variable(name),
            Place::Keyring => Self::Kept("the keyring"),
            Place::File => Self::Kept("keys.json"),
            Place::Command => Self::Command,
        }
    }
}

/// What `keys.json` says of a provider.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kept {
    /// It is in the keyring.
    Keyring,
    /// This is it.
    Key(String),
}

/// The key of a provider, from the first place that has one, and that place. What comes later is not even looked at.
pub(super) fn find(name: &str, config: &Config, machine: &Machine) -> Result<Option<(String, Place)>, Trouble> {
    let place = match variables(name, config, machine).into_iter().next() {
        Some(place) => Some(place),
        None => places(name, config, machine)?.into_iter().next(),
    };
    place.map(|place| Ok((read(name, &place, config, machine)?, place))).transpose()
}

/// The same, but only a key that was kept or named for this provider, and none that others have in the environment too.
pub(super) fn find_its_own(name: &str, config: &Config, machine: &Machine) -> Result<Option<(String, Place)>, Trouble> {
    let named = config.providers.get(name).and_then(|server| server.key_variable.as_deref());
    let is_its_own = |place: &Place| match place {
        Place::Variable(variable) => named == Some(variable.as_str()),
        Place::Keyring | Place::File | Place::Command => true,
    };
    let place = places(name, config, machine)?.into_iter().find(is_its_own);
    place.map(|place| Ok((read(name, &place, config, machine)?, place))).transpose()
}

/// How the key at a place is had anew: only a command's may end.
pub(super) fn renewal(name: &str, place: &Place, config: &Config, machine: &Machine) -> Option<Renewal> {
    let command = config.providers.get(name)?.key_command.clone().filter(|_| *place == Place::Command)?;
    let (name, env) = (name.to_owned(), environment::for_own_commands(&machine.vars, config));
    Some(Renewal::new(move || {
        let key = printed_key(&name, &command, env.clone()).ok()?;
        Some(Pass { key: Some(key), credentials: None })
    }))
}

/// Every place that has a key for a provider; the first is used. Nothing is run and no keyring asked.
pub fn places(name: &str, config: &Config, machine: &Machine) -> Result<Vec<Place>, Trouble> {
    let mut places = variables(name, config, machine);
    places.extend(kept(machine)?.get(name).map(|kept| match kept {
        Kept::Keyring => Place::Keyring,
        Kept::Key(_) => Place::File,
    }));
    let server = config.providers.get(name);
    places.extend(server.and_then(|server| server.key_command.as_ref()).map(|_| Place::Command));
    Ok(places)
}

fn variables(name: &str, config: &Config, machine: &Machine) -> Vec<Place> {
    let server = config.providers.get(name);
    let named = server.and_then(|server| server.key_variable.as_deref());
    let is_own = server.is_some_and(|server| server.protocol.is_some());
    let known = provider::find(name).filter(|_| !is_own).map(|known| known.key_variables).unwrap_or_default();
    let all = named.into_iter().chain(known.iter().copied());
    all.filter(|variable| machine.var(variable).is_some()).map(|name| Place::Variable(name.to_owned())).collect()
}

/// The variable that a provider's key is taken from, if it is.
fn variable(name: &str, config: &Config, machine: &Machine) -> Option<String> {
    variables(name, config, machine).into_iter().find_map(|place| match place {
        Place::Variable(variable) => Some(variable),
        Place::Keyring | Place::File | Place::Command => None,
    })
}

/// This part of the environment without the keys of these models, except those that the configuration leaves to tools.
pub(super) fn left_of<'m>(
    part: fn(&Variables, &Config) -> Variables,
    models: impl Iterator<Item = &'m Arc<dyn Model>>,
    config: &Config,
    machine: &Machine,
) -> Variables {
    let mut env = part(&machine.vars, config);
    for model in models {
        let variable = variable(provider_of(model.name()), config, machine);
        if let Some(variable) = variable.filter(|variable| !config.keys_for_tools.contains(variable)) {
            env.remove(OsStr::new(&variable));
        }
    }
    env
}

/// The key at a place.
fn read(name: &str, place: &Place, config: &Config, machine: &Machine) -> Result<String, Trouble> {
    match place {
        Place::Variable(variable) => Ok(machine.var(variable).unwrap_or_default().to_owned()),
        Place::Keyring => from_keyring(name, machine),
        Place::File => match kept(machine)?.remove(name) {
            Some(Kept::Key(key)) => Ok(key),
            Some(Kept::Keyring) | None => Err(Trouble::new(format!("the key of {name} was just removed"))),
        },
        Place::Command => {
            let command = config.providers.get(name).and_then(|server| server.key_command.as_deref());
            printed_key(name, command.unwrap_or_default(), environment::for_own_commands(&machine.vars, config))
        }
    }
}

/// Keeps a key: in the keyring where there is one and it takes it, else in the file. Where it is now, and why the one
/// before is still in the keyring, if it is.
pub fn keep(
    name: &str,
    key: &str,
    may_use_keyring: bool,
    machine: &Machine,
) -> Result<(Place, Option<Trouble>), Trouble> {
    let is_in_keyring = may_use_keyring && has_keyring(machine) && to_keyring(name, key, machine)?;
    let _lock = lock(machine)?;
    let mut all = kept(machine)?;
    // The one before would stay there, and nobody would know of it.
    let is_left = !is_in_keyring && matches!(all.get(name), Some(Kept::Keyring));
    let left = if is_left { clear_keyring(name, machine).err() } else { None };
    let (kept, place) = match is_in_keyring {
        true => (Kept::Keyring, Place::Keyring),
        false => (Kept::Key(key.to_owned()), Place::File),
    };
    all.insert(name.to_owned(), kept);
    write(&all, machine)?;
    Ok((place, left))
}

/// Forgets a kept key. Where it was, if it was.
pub fn forget(name: &str, machine: &Machine) -> Result<Option<Place>, Trouble> {
    let _lock = lock(machine)?;
    let mut all = kept(machine)?;
    let place = match all.remove(name) {
        None => return Ok(None),
        Some(Kept::Key(_)) => Place::File,
        Some(Kept::Keyring) => {
            clear_keyring(name, machine)?;
            Place::Keyring
        }
    };
    write(&all, machine)?;
    Ok(Some(place))
}

/// A provider's name, and its key if it can be had.
pub(super) type NamedKey = (String, Result<String, Trouble>);

/// Every key that is kept, and every one that a command prints, by its provider.
pub(super) fn kept_keys(config: &Config, machine: &Machine) -> Result<Vec<NamedKey>, Trouble> {
    let kept = kept(machine)?.into_iter().map(|(name, kept)| match kept {
        Kept::Keyring => (name, Place::Keyring),
        Kept::Key(_) => (name, Place::File),
    });
    let with_command = config.providers.iter().filter(|(_, server)| server.key_command.is_some());
    let commands = with_command.map(|(name, _)| (name.clone(), Place::Command));
    let read = |(name, place): (String, Place)| {
        let key = read(&name, &place, config, machine);
        (name, key)
    };
    Ok(kept.chain(commands).map(read).collect())
}

/// Every key that is in the file itself, by its provider; none where the file cannot be read, which is said elsewhere.
pub(super) fn kept_in_file(machine: &Machine) -> Vec<(String, String)> {
    let kept = kept(machine).unwrap_or_default().into_iter();
    kept.filter_map(|(name, kept)| match kept {
        Kept::Key(key) => Some((name, key)),
        Kept::Keyring => None,
    })
    .collect()
}

/// The providers of which a key is kept.
pub fn kept_names(machine: &Machine) -> Result<Vec<String>, Trouble> {
    Ok(kept(machine)?.into_keys().collect())
}

/// The file of kept keys.
pub fn file(machine: &Machine) -> PathBuf {
    machine.data_dir.join("keys.json")
}

fn kept(machine: &Machine) -> Result<BTreeMap<String, Kept>, Trouble> {
    let path = file(machine);
    let text = match regular::text(&path, regular::SETTINGS_BYTES) {
        Ok(text) => text,
        // That a data folder is none is found out by whoever needs to write there.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(BTreeMap::new());
        }
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let mode = std::fs::metadata(&path).map(|meta| meta.permissions().mode()).unwrap_or_default();
    ensure(mode & 0o077 == 0, || format!("others may read the keys in {0}: chmod 600 {0}", path.display()))?;
    // Not serde's own words: they would quote what is in the file.
    serde_json::from_str(&text)
        .ok()
        .with_context(|| format!("{} is damaged; remove it and log in again", path.display()))
}

/// Held from reading the keys until they are written: of two that are kept at once, both must be there.
fn lock(machine: &Machine) -> Result<Lock, Trouble> {
    let path = file(machine);
    ListFile::new(path.clone()).lock().map_err(|why| Trouble::new(format!("{} {why}", path.display())))
}

/// Whole or not at all; a temporary file is its owner's alone from the start.
fn write(all: &BTreeMap<String, Kept>, machine: &Machine) -> Result<(), Trouble> {
    let path = file(machine);
    let failed = || format!("cannot write {}", path.display());
    private::make_folder(&machine.data_dir).with_context(failed)?;
    let mut new = tempfile::NamedTempFile::new_in(&machine.data_dir).with_context(failed)?;
    new.write_all(serde_json::to_string_pretty(all).with_context(failed)?.as_bytes()).with_context(failed)?;
    new.as_file().sync_all().with_context(failed)?;
    new.persist(&path).with_context(failed)?;
    Ok(())
}

/// The program by which libsecret's keyrings (GNOME's, KDE's, KeePassXC's) are asked.
const KEYRING: &str = "secret-tool";

fn has_keyring(machine: &Machine) -> bool {
    machine.find_program(KEYRING).is_some()
}

fn keyring(action: &[&str], name: &str, machine: &Machine) -> Spawn {
    let argv = [KEYRING].into_iter().chain(action.iter().copied()).chain(["service", "piton", "provider", name]);
    let env = Env::new(environment::for_own_commands(&machine.vars, &Config::default()));
    Spawn::new(argv, &env, ".", Confinement::User)
}

fn from_keyring(name: &str, machine: &Machine) -> Result<String, Trouble> {
    let again = || format!("piton auth login {name} keeps it anew");
    let output = asked(&keyring(&["lookup"], name, machine)).with_context(again)?;
    let key = String::from_utf8(output.stdout.clone()).unwrap_or_default().trim().to_owned();
    let is_there = output.status.success() && !key.is_empty();
    ensure(is_there, || format!("the keyring does not give the key of {name}{}; {}", words(&output), again()))?;
    Ok(key)
}

/// Whether the keyring took it: without a session of a desktop there is the program but no keyring behind it.
fn to_keyring(name: &str, key: &str, machine: &Machine) -> Result<bool, Trouble> {
    let label = format!("Piton: {name}");
    let ask = "cannot ask the keyring";
    let streams = Streams { stdin: Stdio::piped(), stdout: Stdio::null(), stderr: Stdio::null() };
    let mut child = keyring(&["store", "--label", &label], name, machine).start(Group::Ours, streams).context(ask)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not listen says so by its status.
        let _ = stdin.write_all(key.as_bytes());
    }
    Ok(child.wait().context(ask)?.success() && from_keyring(name, machine).is_ok_and(|back| back == key))
}

fn clear_keyring(name: &str, machine: &Machine) -> Result<(), Trouble> {
    let output = asked(&keyring(&["clear"], name, machine))?;
    ensure(output.status.success(), || format!("the keyring did not remove the key of {name}{}", words(&output)))?;
    Ok(())
}

fn asked(keyring: &Spawn) -> Result<Output, Trouble> {
    let child = keyring.start(Group::Ours, Streams::caught());
    child.and_then(Child::wait_with_output).context("cannot ask the keyring")
}

fn words(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    said.lines().next().map(|line| format!(" ({})", line.trim())).unwrap_or_default()
}

/// How long a command may look for a key: some ask their owner for a password first.
pub(super) const KEY_COMMAND_LIMIT: Duration = Duration::from_secs(60);

/// What a command of the configuration prints; `None` if it had to be stopped. It stays in our process group, since it may
/// have to ask for a password on the terminal.
pub(super) fn printed_by(command: &str, env: BTreeMap<OsString, OsString>) -> std::io::Result<Option<Output>> {
    let spawn = Spawn::shell(command, &Env::new(env), ".", Confinement::User);
    let child = spawn.start(Group::Ours, Streams { stderr: Stdio::inherit(), ..Streams::caught() })?;
    spawn::output_within(KEY_COMMAND_LIMIT, child)
}

/// The key that a command prints. Other providers' keys are none of its business.
fn printed_key(name: &str, command: &str, env: BTreeMap<OsString, OsString>) -> Result<String, Trouble> {
    let output = printed_by(command, env).with_context(|| format!("cannot run the key_command of {name}"))?;
    let output = output.with_context(|| {
        format!("the key_command of {name} did not end within {} s, and was stopped", KEY_COMMAND_LIMIT.as_secs())
    })?;
    ensure(output.status.success(), || format!("the key_command of {name} failed ({})", output.status))?;
    let key = String::from_utf8(output.stdout).ok().map(|key| key.trim().to_owned()).filter(|key| !key.is_empty());
    key.with_context(|| format!("the key_command of {name} printed no key"))
}
