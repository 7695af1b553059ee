//! Secrets that an export must redact: stored keys, and environment variables named like keys.

use super::environment::{has_ending, is_of_provider};
use super::keys;
use super::machine::Machine;
use super::notice::{Notice, chain};
use super::trouble::Trouble;
use crate::config::Config;
use std::ffi::OsStr;

/// What nobody else should read: keys, wherever they are kept, and what our environment has that is named like one. A key
/// that cannot be had now is said, since it is not looked for then.
pub fn secrets(config: &Config, machine: &Machine, notices: &mut Vec<Notice>) -> Result<Vec<String>, Trouble> {
    let endings = ["_API_KEY", "_TOKEN", "_SECRET", "_PASSWORD", "_ACCESS_KEY", "_PRIVATE_KEY"];
    let is_secret = |name: &OsStr| is_of_provider(name, config) || has_ending(name, &endings);
    let vars = machine.vars.iter().filter(|(name, _)| is_secret(name)).filter_map(|(_, value)| value.to_str());
    let mut secrets: Vec<String> = vars.map(str::to_owned).collect();
    for (name, key) in keys::kept_keys(config, machine)? {
        match key {
            Ok(key) => secrets.push(key),
            Err(error) => notices.push(Notice::new(format!(
                "the key of {name} is not looked for, since it cannot be had: {}",
                chain(&error)
            ))),
        }
    }
    Ok(secrets)
}
