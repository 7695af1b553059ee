//! The secrets of a machine, by their names: stored keys, and environment variables named like keys. What looks like a secret
//! without being known is the business of [`piton_core::secrets`].

use super::environment::is_of_provider;
use super::keys;
use super::machine::Machine;
use super::notice::{Notice, chain};
use super::trouble::Trouble;
use super::wishes::Wishes;
use crate::config::Config;
use crate::settings::SecretSettings;
use piton_core::secrets::is_secret_variable;
use std::ffi::OsStr;
use std::path::Path;

/// A name, and the value that is a secret.
pub type Secret = (String, String);

/// Files below the home folder in which programs keep credentials.
const CREDENTIALS: [&str; 14] = [
    ".netrc",
    ".pgpass",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".git-credentials",
    ".aws/credentials",
    ".docker/config.json",
    ".cargo/credentials.toml",
    ".config/gh/hosts.yml",
    ".config/hub",
    ".gem/credentials",
    ".vault-token",
    ".ssh/id_rsa",
];

/// What nobody else should read: keys, wherever they are kept, and what our environment has that is named like one. A key
/// that cannot be had now is said, since it is not looked for then. Asks keyrings and commands.
pub fn secrets(config: &Config, machine: &Machine, notices: &mut Vec<Notice>) -> Result<Vec<Secret>, Trouble> {
    let mut secrets = variables(config, machine);
    for (name, key) in keys::kept_keys(config, machine)? {
        match key {
            Ok(key) => secrets.push((name, key)),
            Err(error) => notices.push(Notice::new(format!(
                "the key of {name} is not looked for, since it cannot be had: {}",
                chain(&error)
            ))),
        }
    }
    Ok(secrets)
}

/// What a session knows of them from its beginning: no keyring is asked and no command run. The keys of models in use, from
/// wherever, the session knows of the models.
pub(super) fn known_at_start(
    config: &Config,
    machine: &Machine,
    wishes: &Wishes,
    notices: &mut Vec<Notice>,
) -> SecretSettings {
    if wishes.no_redact {
        notices.push(Notice::new(
            "--no-redact: secrets are not taken out. What is read, printed and said goes to the model as it is, and stays in the \
             session's journal",
        ));
        return SecretSettings { redact: false, ..SecretSettings::default() };
    }
    known(config, machine)
}

/// The same for what is no session.
pub(super) fn known(config: &Config, machine: &Machine) -> SecretSettings {
    let kept = keys::kept_in_file(machine);
    let values: Vec<Secret> = variables(config, machine).into_iter().chain(kept).collect();
    let home = machine.var("HOME").map(Path::new);
    let files = home.into_iter().flat_map(|home| CREDENTIALS.iter().map(|file| home.join(file)));
    SecretSettings { redact: true, values: values.into(), files: files.collect() }
}

fn variables(config: &Config, machine: &Machine) -> Vec<Secret> {
    let is_secret = |name: &OsStr| is_of_provider(name, config) || name.to_str().is_some_and(is_secret_variable);
    // Where something lies is no secret: the working folder, a file with keys.
    let is_place = |value: &OsStr| Path::new(value).is_absolute() && Path::new(value).exists();
    let vars = machine.vars.iter().filter(|(name, value)| *name != "PWD" && is_secret(name) && !is_place(value));
    vars.filter_map(|(name, value)| Some((name.to_str()?.to_owned(), value.to_str()?.to_owned()))).collect()
}
