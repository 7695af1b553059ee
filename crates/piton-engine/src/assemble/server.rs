//! How a provider's server is reached: address, key, proxy, certificates.

use super::keys::Place;
use super::machine::Machine;
use super::trouble::{Context, Trouble};
use super::{cloud, keys};
use crate::config::{Config, ProviderTable, milliseconds};
use piton_http::{HttpOptions, Proxies, Roots};
use piton_models::protocol::WireProtocol;
use piton_models::provider::{self, KeySource, PROBE_MS, PROVIDERS, Provider, ProviderSpec};
use piton_tools::regular;
use std::path::Path;

/// No provider has this name: the web is reached by the general settings of `[http]`.
pub(crate) const WEB: &str = "";

/// What environment and configuration say about a provider.
pub fn spec(name: &str, model: Option<String>, config: &Config, machine: &Machine) -> Result<ProviderSpec, Trouble> {
    let server = config.providers.get(name);
    match server.and_then(|server| Some((server, server.protocol?))) {
        Some((server, protocol)) => own_server(name, model, (server, protocol), config, machine),
        None => known_server(name, model, config, machine),
    }
}

/// A server that the configuration describes.
fn own_server(
    name: &str,
    model: Option<String>,
    (server, protocol): (&ProviderTable, WireProtocol),
    config: &Config,
    machine: &Machine,
) -> Result<ProviderSpec, Trouble> {
    let provider = match protocol {
        WireProtocol::Chat => "openai-chat",
        WireProtocol::Responses => "openai-responses",
        WireProtocol::Anthropic => "anthropic",
        WireProtocol::Gemini => "google",
        WireProtocol::Ollama => "ollama-native",
    };
    let found = keys::find(name, config, machine)?;
    let renewal = found.as_ref().and_then(|(_, place)| keys::renewal(name, place, config, machine));
    let (key, key_from) = key_of(found, Some(server));
    let base_url = server.base_url.clone();
    let label = Some(name.to_owned());
    let provider = provider.to_owned();
    Ok(ProviderSpec { provider, model, base_url, key, key_from, renewal, label, ..ProviderSpec::default() })
}

/// A key and where it is from, or where it was named to be.
fn key_of(found: Option<(String, Place)>, server: Option<&ProviderTable>) -> (Option<String>, Option<KeySource>) {
    match found {
        Some((key, place)) => (Some(key), Some(place.into())),
        None => (None, server.and_then(|server| server.key_variable.clone()).map(KeySource::Variable)),
    }
}

/// A provider of the table, at its own address or at another.
fn known_server(
    name: &str,
    model: Option<String>,
    config: &Config,
    machine: &Machine,
) -> Result<ProviderSpec, Trouble> {
    let known = provider::find(name);
    let by_variable = known.and_then(|known| known.base_url_variable).and_then(|variable| machine.var(variable));
    let configured = config.providers.get(name).and_then(|server| server.base_url.clone());
    let base_url = by_variable.map(str::to_owned).or(configured);
    let found = if is_meant(known, base_url.is_some()) {
        keys::find(name, config, machine)?
    } else {
        keys::find_its_own(name, config, machine)?
    };
    let renewal = found.as_ref().and_then(|(_, place)| keys::renewal(name, place, config, machine));
    let (key, key_from) = key_of(found, config.providers.get(name));
    let mut spec =
        ProviderSpec { provider: name.to_owned(), model, base_url, key, key_from, renewal, ..ProviderSpec::default() };
    if let Some(known) = known {
        cloud::complete(&mut spec, known, machine)?;
    }
    Ok(spec)
}

/// A key goes to the server it is for: the provider's own, or one that was named on purpose. Whoever listens on this machine
/// gets none that the environment has for others.
fn is_meant(known: Option<&Provider>, is_named: bool) -> bool {
    is_named || known.is_some_and(|known| known.needs_key)
}

/// Whether there is a key for a provider of the table, or what stands in for one. Nothing is run to find out.
pub(super) fn has_key(known: &Provider, config: &Config, machine: &Machine) -> Result<bool, Trouble> {
    let is_named = config.providers.get(known.name).is_some_and(|server| server.base_url.is_some())
        || known.base_url_variable.is_some_and(|variable| machine.var(variable).is_some());
    let has_place = is_meant(Some(known), is_named) && !keys::places(known.name, config, machine)?.is_empty();
    Ok(has_place || cloud::place(known, machine).is_some())
}

/// How a provider is talked to: by the configuration, and through the proxy that it or the environment names, except
/// for servers of this machine.
pub fn http_options(name: &str, config: &Config, machine: &Machine) -> Result<HttpOptions, Trouble> {
    let default = HttpOptions::default();
    let http = &config.http;
    let own = http.no_proxy.clone().or_else(|| machine.any(&["NO_PROXY", "no_proxy"]));
    let own = own.map(|hosts| format!(",{hosts}")).unwrap_or_default();
    let ca_file = config.providers.get(name).and_then(|server| server.ca_file.as_ref()).or(http.ca_file.as_ref());
    Ok(HttpOptions {
        connect_timeout_ms: http.connect_timeout.map_or(default.connect_timeout_ms, milliseconds),
        stall_ms: http.stall_timeout.map_or(default.stall_ms, milliseconds),
        keep_alive_ms: http.keep_alive_timeout.map_or(default.keep_alive_ms, milliseconds),
        proxies: proxies(config, machine),
        no_proxy: Some(format!("localhost,127.0.0.1,::1{own}")),
        roots: ca_file.map(|path| certificates(path)).transpose()?.unwrap_or_default(),
        ..default
    })
}

/// The configuration's proxy is for all; the environment has one for each scheme, and one for what is left.
fn proxies(config: &Config, machine: &Machine) -> Proxies {
    match &config.http.proxy {
        Some(none) if none.is_empty() => Proxies::default(),
        Some(proxy) => Proxies::all(proxy),
        None => Proxies {
            https: machine.any(&["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"]),
            http: machine.any(&["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"]),
        },
    }
}

fn certificates(path: &str) -> Result<Roots, Trouble> {
    let pem = regular::whole(Path::new(path), regular::CATALOGUE_BYTES)
        .with_context(|| format!("cannot read the ca_file {path}"))?;
    Roots::parse(&pem).with_context(|| format!("the ca_file {path} holds no sound certificate in PEM form"))
}

/// How a server of this machine that may not be there is talked to.
pub fn probe_options() -> HttpOptions {
    HttpOptions { connect_timeout_ms: PROBE_MS, stall_ms: PROBE_MS, ..HttpOptions::default() }
}

/// The servers of this machine that need no key.
pub fn local_providers() -> impl Iterator<Item = &'static Provider> {
    PROVIDERS.iter().filter(|provider| provider.key_variables.is_empty() && provider.base_url.contains("127.0.0.1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(vars: &[(&str, &str)]) -> Machine {
        Machine {
            vars: vars.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            ..Machine::default()
        }
    }

    #[test]
    fn a_key_goes_only_to_the_server_it_is_for() {
        let spec = |name: &str, machine: &Machine| {
            super::spec(name, None, &Config::default(), machine).expect("nothing can go wrong here")
        };
        let keyed = machine(&[("OPENAI_API_KEY", "sk-1")]);
        assert_eq!(spec("openai", &keyed).key.as_deref(), Some("sk-1"));
        assert_eq!(spec("openai-chat", &keyed).key, None, "whoever listens on this machine is not OpenAI");
        assert!(local_providers().all(|local| spec(local.name, &keyed).key.is_none()));
        let named = machine(&[("OPENAI_API_KEY", "sk-1"), ("OPENAI_BASE_URL", "http://my.server/v1")]);
        assert_eq!(spec("openai-chat", &named).key.as_deref(), Some("sk-1"));
    }

    #[test]
    fn a_server_of_this_machine_gets_the_key_that_was_named_for_it() {
        let keyed = machine(&[("OPENAI_API_KEY", "sk-1"), ("MINE", "sk-2")]);
        for name in ["vllm", "llamacpp", "lmstudio", "ollama", "openai-chat"] {
            let config = Config::parse(&format!("[providers.{name}]\nkey_variable = \"MINE\"")).expect("a valid file");
            let spec = super::spec(name, None, &config, &keyed).expect("nothing can go wrong here");
            assert_eq!((spec.key.as_deref(), spec.base_url), (Some("sk-2"), None), "{name}");
        }
    }
}
