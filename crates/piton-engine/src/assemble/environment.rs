//! The environment that tool processes inherit: everything except keys.

use crate::config::Config;
use piton_models::provider::PROVIDERS;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// Variables by name.
pub type Variables = BTreeMap<OsString, OsString>;

/// What tools' processes see of our environment: all but keys. Those are the variables in which providers have theirs,
/// and every other whose name ends in `_API_KEY`. `GITHUB_TOKEN` stays where it is not the key in use: git and gh are what
/// agents work with. What the configuration lists in `keys_for_tools` stays too.
pub fn for_tools(vars: &Variables, config: &Config) -> Variables {
    let is_key =
        |name: &OsStr| (is_of_provider(name, config) && name != "GITHUB_TOKEN") || has_ending(name, &["_API_KEY"]);
    let is_granted = |name: &OsStr| config.keys_for_tools.iter().any(|granted| name == granted.as_str());
    let is_kept =
        |name: &OsStr| is_granted(name) || !(is_key(name) || CLOUD_SECRETS.iter().any(|secret| name == *secret));
    vars.iter().filter(|(name, _)| is_kept(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// What Bedrock's requests may be signed with, what collectors of spans want to see, and keys by other names.
const CLOUD_SECRETS: [&str; 6] = [
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    // Of other agents, for the same providers.
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
];

/// Whether a provider has its key in this variable: one that is known, or one of the configuration.
pub(super) fn is_of_provider(name: &OsStr, config: &Config) -> bool {
    let configured = config.providers.values().filter_map(|server| server.key_variable.as_deref());
    PROVIDERS.iter().flat_map(|provider| provider.key_variables).copied().chain(configured).any(|key| name == key)
}

pub(super) fn has_ending(name: &OsStr, endings: &[&str]) -> bool {
    endings.iter().any(|ending| name.as_encoded_bytes().ends_with(ending.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_see_the_environment_without_keys() {
        let vars = [
            ("PATH", "/bin"),
            ("ANTHROPIC_API_KEY", "1"),
            ("SOME_API_KEY", "2"),
            ("EDITOR", "vi"),
            ("AWS_SECRET_ACCESS_KEY", "4"),
            ("MINE", "3"),
        ];
        let vars = vars.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let config =
            Config::parse("[providers.mine]\nprotocol = \"chat\"\nbase_url = \"http://h\"\nkey_variable = \"MINE\"");
        let seen = for_tools(&vars, &config.expect("a valid file"));
        assert_eq!(seen.keys().collect::<Vec<_>>(), ["EDITOR", "PATH"]);
        let granting = Config::parse("keys_for_tools = [\"SOME_API_KEY\"]").expect("a valid file");
        let seen = for_tools(&vars, &granting);
        assert_eq!(seen.keys().collect::<Vec<_>>(), ["EDITOR", "MINE", "PATH", "SOME_API_KEY"]);
    }
}
