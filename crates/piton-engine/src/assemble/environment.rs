//! The environments of processes: of tools only what is on a list; of the user's own commands all but keys.

use crate::config::Config;
use piton_core::secrets::is_secret_variable;
use piton_models::provider::PROVIDERS;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// Variables by name.
pub type Variables = BTreeMap<OsString, OsString>;

/// What tools' processes see of our environment: what a shell, a build and a proxy need, and what `keys_for_tools` names. No
/// agent's socket, nothing that makes another program run (`LD_*`, `BASH_ENV`, `GIT_*`, `NODE_OPTIONS`), and nothing that is
/// named like a secret.
pub fn for_tools(vars: &Variables, config: &Config) -> Variables {
    let is_listed = |name: &str| {
        let is_family = FAMILIES.iter().any(|family| name.starts_with(family));
        (is_family || LISTED.contains(&name)) && !is_secret_variable(name) && !is_of_provider(OsStr::new(name), config)
    };
    let is_kept = |name: &OsStr| is_granted(name, config) || name.to_str().is_some_and(is_listed);
    let kept = vars.iter().filter(|(name, _)| is_kept(name)).map(|(name, value)| (name.clone(), value.clone()));
    let mut kept: Variables = kept.collect();
    // Settings that the user hands on are theirs.
    if !kept.contains_key(OsStr::new(PINNED[0].0)) {
        kept.extend(PINNED.map(|(name, value)| (name.into(), value.into())));
    }
    kept
}

/// What git is told for tools: a folder that looks like a repository without a working tree is none. A call could write one into the
/// workspace, or a repository bring it, and git would run what its configuration names.
const PINNED: [(&str, &str); 3] =
    [("GIT_CONFIG_COUNT", "1"), ("GIT_CONFIG_KEY_0", "safe.bareRepository"), ("GIT_CONFIG_VALUE_0", "explicit")];

/// What the user's own commands see (hooks, checks, `key_command`, keyrings): all but keys. Those are the variables in which
/// providers have theirs, and every other whose name ends in `_API_KEY`. `GITHUB_TOKEN` stays where it is not the key in use.
pub fn for_own_commands(vars: &Variables, config: &Config) -> Variables {
    let is_key =
        |name: &OsStr| (is_of_provider(name, config) && name != "GITHUB_TOKEN") || has_ending(name, &["_API_KEY"]);
    let is_kept = |name: &OsStr| {
        is_granted(name, config) || !(is_key(name) || CLOUD_SECRETS.iter().any(|secret| name == *secret))
    };
    vars.iter().filter(|(name, _)| is_kept(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn is_granted(name: &OsStr, config: &Config) -> bool {
    config.keys_for_tools.iter().any(|granted| name == granted.as_str())
}

/// Names that begin so.
const FAMILIES: [&str; 2] = ["LC_", "RUSTUP_"];

/// What programs need to run at all, and to find their toolchains, caches, certificates and proxies. Listed in
/// `docs/secrets.md`.
const LISTED: [&str; 119] = [
    // The shell and the terminal.
    "PATH",
    "HOME",
    "LANG",
    "LANGUAGE",
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "CLICOLOR",
    "FORCE_COLOR",
    "TZ",
    "USER",
    "LOGNAME",
    "SHELL",
    "TMPDIR",
    "TMP",
    "TEMP",
    "CI",
    "COLUMNS",
    "LINES",
    // Caches and settings.
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    // Rust, C.
    "CARGO_HOME",
    "CARGO_TARGET_DIR",
    "CARGO_BUILD_JOBS",
    "CARGO_INCREMENTAL",
    "CARGO_NET_OFFLINE",
    "CARGO_TERM_COLOR",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "RUSTFLAGS",
    "CC",
    "CXX",
    "AR",
    "CFLAGS",
    "CXXFLAGS",
    "CPPFLAGS",
    "LDFLAGS",
    "MAKEFLAGS",
    "PKG_CONFIG_PATH",
    "CMAKE_PREFIX_PATH",
    "CMAKE_GENERATOR",
    "SDKROOT",
    "EMSDK",
    "LIBCLANG_PATH",
    "OPENSSL_DIR",
    // Go, the JVM, Android.
    "GOPATH",
    "GOROOT",
    "GOBIN",
    "GOCACHE",
    "GOMODCACHE",
    "GOPROXY",
    "GOFLAGS",
    "CGO_ENABLED",
    "JAVA_HOME",
    "JDK_HOME",
    "MAVEN_HOME",
    "M2_HOME",
    "GRADLE_HOME",
    "GRADLE_USER_HOME",
    "SDKMAN_DIR",
    "KOTLIN_HOME",
    "SCALA_HOME",
    "ANDROID_HOME",
    "ANDROID_SDK_ROOT",
    "ANDROID_NDK_HOME",
    // JavaScript.
    "NVM_DIR",
    "NVM_BIN",
    "FNM_DIR",
    "FNM_MULTISHELL_PATH",
    "VOLTA_HOME",
    "PNPM_HOME",
    "BUN_INSTALL",
    "DENO_DIR",
    "NODE_PATH",
    "COREPACK_HOME",
    "NODE_ENV",
    // Python.
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "CONDA_DEFAULT_ENV",
    "CONDA_EXE",
    "PYENV_ROOT",
    "PYENV_VERSION",
    "POETRY_HOME",
    "PIPX_HOME",
    "UV_CACHE_DIR",
    "UV_PYTHON",
    "PIP_CACHE_DIR",
    "PIP_INDEX_URL",
    // Ruby, PHP, .NET, Haskell, OCaml, Elixir, Nix, version managers.
    "RBENV_ROOT",
    "GEM_HOME",
    "GEM_PATH",
    "COMPOSER_HOME",
    "DOTNET_ROOT",
    "STACK_ROOT",
    "CABAL_DIR",
    "OPAMROOT",
    "MIX_HOME",
    "HEX_HOME",
    "NIX_PATH",
    "NIX_PROFILES",
    "ASDF_DIR",
    "ASDF_DATA_DIR",
    "MISE_DATA_DIR",
    // Certificates.
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NIX_SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    // The proxy.
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
];

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

/// Whether a provider, or the search of the web, has its key in this variable: one that is known, or one of the configuration.
pub(super) fn is_of_provider(name: &OsStr, config: &Config) -> bool {
    let search = config.tools.web_search.as_ref().and_then(|search| search.key_variable.as_deref());
    let configured = config.providers.values().filter_map(|server| server.key_variable.as_deref()).chain(search);
    PROVIDERS.iter().flat_map(|provider| provider.key_variables).copied().chain(configured).any(|key| name == key)
}

pub(super) fn has_ending(name: &OsStr, endings: &[&str]) -> bool {
    endings.iter().any(|ending| name.as_encoded_bytes().ends_with(ending.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(by: fn(&Variables, &Config) -> Variables, names: &[&str], config: &str) -> Vec<String> {
        let vars = names.iter().map(|name| ((*name).into(), "value".into())).collect();
        let seen = by(&vars, &Config::parse(config).expect("a valid file"));
        seen.keys().map(|name| name.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn tools_see_what_is_on_the_list_and_what_the_user_adds() {
        let names = [
            "PATH",
            "HOME",
            "LC_ALL",
            "CARGO_HOME",
            "http_proxy",
            "GOPATH",
            "SSH_AUTH_SOCK",
            "LD_PRELOAD",
            "LD_LIBRARY_PATH",
            "BASH_ENV",
            "ENV",
            "GIT_DIR",
            "GIT_SSH_COMMAND",
            "NODE_OPTIONS",
            "PYTHONSTARTUP",
            "PROMPT_COMMAND",
            "GITHUB_TOKEN",
            "DB_PASSWORD",
            "RUSTUP_TOKEN",
            "ANTHROPIC_API_KEY",
            "DBUS_SESSION_BUS_ADDRESS",
            "EDITOR",
            "PITON_DATA_DIR",
        ];
        let usual = [
            "CARGO_HOME",
            "GIT_CONFIG_COUNT",
            "GIT_CONFIG_KEY_0",
            "GIT_CONFIG_VALUE_0",
            "GOPATH",
            "HOME",
            "LC_ALL",
            "PATH",
            "http_proxy",
        ];
        assert_eq!(seen(for_tools, &names, ""), usual);
        let granted = seen(for_tools, &names, "keys_for_tools = [\"GITHUB_TOKEN\", \"EDITOR\"]");
        assert_eq!(granted.len(), usual.len() + 2);
        assert!(granted.contains(&"GITHUB_TOKEN".to_owned()) && granted.contains(&"EDITOR".to_owned()));
    }

    #[test]
    fn own_commands_see_the_environment_without_keys() {
        let names =
            ["PATH", "ANTHROPIC_API_KEY", "SOME_API_KEY", "EDITOR", "AWS_SECRET_ACCESS_KEY", "MINE", "SSH_AUTH_SOCK"];
        let mine = "[providers.mine]\nprotocol = \"chat\"\nbase_url = \"http://h\"\nkey_variable = \"MINE\"";
        assert_eq!(seen(for_own_commands, &names, mine), ["EDITOR", "PATH", "SSH_AUTH_SOCK"]);
        let granting = seen(for_own_commands, &names, "keys_for_tools = [\"SOME_API_KEY\"]");
        assert_eq!(granting, ["EDITOR", "MINE", "PATH", "SOME_API_KEY", "SSH_AUTH_SOCK"]);
    }
}
