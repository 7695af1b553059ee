//! Addresses, what is missing, and lists of models.

use super::*;

fn spec(provider: &str, base_url: &str) -> ProviderSpec {
    ProviderSpec {
        provider: provider.into(),
        model: Some("m".into()),
        base_url: Some(base_url.into()),
        key: Some("sk-secret".into()),
        ..ProviderSpec::default()
    }
}

fn url(provider: &str, base_url: &str) -> String {
    let spec = spec(provider, base_url);
    address(&meant(&spec).unwrap(), &spec, Endpoint::Replies).unwrap().to_string()
}

fn refused(spec: &ProviderSpec) -> String {
    open(spec, &HttpOptions::default()).err().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn addresses_may_end_in_a_slash_a_version_or_the_whole_path() {
    for base in ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/", "http://h:1/v1/messages"] {
        assert_eq!(url("anthropic", base), "http://h:1/v1/messages");
    }
    for base in ["http://h:1", "http://h:1/v1", "http://h:1/v1/", "http://h:1/v1/chat/completions"] {
        assert_eq!(url("openai", base), "http://h:1/v1/chat/completions");
    }
    for base in ["http://h:1", "http://h:1/v1/", "http://h:1/v1/responses"] {
        assert_eq!(url("openai-responses", base), "http://h:1/v1/responses");
    }
    for base in ["http://h:1", "http://h:1/v1beta/", "http://h:1/v1beta/models/gemini-x:streamGenerateContent?alt=sse"]
    {
        assert_eq!(url("google", base), "http://h:1/v1beta/models");
    }
    for base in ["http://h:1", "http://h:1/", "http://h:1/api", "http://h:1/api/chat"] {
        assert_eq!(url("ollama-native", base), "http://h:1/api/chat");
    }
    assert_eq!(url("openai-chat", "https://h/api/paas/v4/"), "https://h/api/paas/v4/chat/completions");
    assert_eq!(url("anthropic", "https://h/anthropic"), "https://h/anthropic/v1/messages");
}

#[test]
fn what_is_missing_is_named() {
    let unknown = refused(&ProviderSpec { provider: "opanai".into(), ..ProviderSpec::default() });
    assert!(unknown.contains("opanai") && unknown.contains("openrouter"), "{unknown}");
    let no_key = refused(&ProviderSpec { provider: "anthropic".into(), ..ProviderSpec::default() });
    assert_eq!(no_key, "anthropic needs a key: set ANTHROPIC_API_KEY");
    let no_model = refused(&ProviderSpec { provider: "ollama".into(), ..ProviderSpec::default() });
    assert_eq!(no_model, "which model of ollama? name one as ollama/<model>");
    assert!(refused(&spec("openai", "localhost:8080")).contains("not an address"));
}

#[test]
fn a_key_is_never_printed() {
    assert!(!format!("{:?}", spec("openai", "http://h")).contains("secret"));
}

#[test]
fn a_model_knows_its_name_and_what_is_known_of_it() {
    let model = open(
        &ProviderSpec { provider: "anthropic".into(), key: Some("k".into()), ..ProviderSpec::default() },
        &HttpOptions::default(),
    );
    let model = model.ok().unwrap();
    assert_eq!(model.name(), "anthropic/claude-sonnet-5-5");
    assert_eq!(model.limits().window_tokens, Some(1_000_000));
    assert!(model.price().is_some());
}

#[test]
fn a_model_of_this_machine_is_free_whatever_else_is_said_of_it() {
    let price = |known: catalogue::ModelOverride| {
        let catalogue = Catalogue::default().with("ollama", "qwen3", known);
        let spec =
            ProviderSpec { provider: "ollama".into(), model: Some("qwen3".into()), catalogue, ..Default::default() };
        open(&spec, &HttpOptions::default()).ok().unwrap().price()
    };
    let window = catalogue::ModelOverride { window: Some(32_768), ..Default::default() };
    assert_eq!(price(window.clone()), Some(Price::FREE));
    let rates = catalogue::Rates { input: 1.0, output: 2.0, cache_read: None, cache_write: None, long: None };
    assert_eq!(price(catalogue::ModelOverride { price: Some(rates), ..window }).map(|price| price.output), Some(2.0));
}

#[test]
fn lists_of_models_are_read_in_their_dialects() {
    let list = listed(
        br#"{"data":[{"id":"a","max_model_len":4096},{"id":"b","meta":{"n_ctx_train":8192}},{"id":"models/c"}]}"#,
        WireProtocol::Chat,
    );
    let windows: Vec<_> = list.unwrap().into_iter().map(|model| (model.id, model.window_tokens)).collect();
    assert_eq!(windows, [("a".into(), Some(4096)), ("b".into(), Some(8192)), ("models/c".into(), None)]);
    let gemini =
        listed(br#"{"models":[{"name":"models/gemini-x","inputTokenLimit":1048576}]}"#, WireProtocol::Gemini).unwrap();
    assert_eq!((gemini[0].id.as_str(), gemini[0].window_tokens), ("gemini-x", Some(1_048_576)));
    assert_eq!(listed(br#"{"models":[{"name":"qwen3:4b"}]}"#, WireProtocol::Ollama).unwrap()[0].id, "qwen3:4b");
    assert!(listed(b"<html>", WireProtocol::Chat).is_err());
}

#[test]
fn only_servers_of_ones_own_may_leave_calls_in_the_text() {
    for (provider, base_url, read) in [
        ("groq", None, CallsRead::Surely),
        ("mistral", Some("https://api.mistral.ai"), CallsRead::Surely),
        ("openai-chat", Some("https://api.groq.com/openai/v1"), CallsRead::Surely),
        ("azure", Some("https://mine.openai.azure.com/openai/v1"), CallsRead::Surely),
        ("groq", Some("http://127.0.0.1:9/v1"), CallsRead::Perhaps),
        ("openai-chat", None, CallsRead::Perhaps),
        ("ollama", None, CallsRead::Perhaps),
        ("llamacpp", Some("http://box:8080"), CallsRead::Perhaps),
    ] {
        let spec = ProviderSpec { base_url: base_url.map(Into::into), ..spec(provider, "") };
        let provider = &meant(&spec).unwrap();
        let url = address(provider, &spec, Endpoint::Replies).unwrap();
        assert_eq!(calls_read(provider, &url), read, "{} at {url}", provider.name);
    }
}

#[test]
fn openai_speaks_responses_and_who_is_compatible_chat_completions() {
    let own = ProviderSpec { provider: "openai".into(), ..ProviderSpec::default() };
    assert_eq!(meant(&own).unwrap().protocol, WireProtocol::Responses);
    for base_url in ["https://api.openai.com/v1", "https://api.openai.com", "https://eu.api.openai.com/v1"] {
        assert!(url("openai", base_url).ends_with("openai.com/v1/responses"), "{base_url}");
        assert!(url("openai-chat", base_url).ends_with("openai.com/v1/chat/completions"), "{base_url}");
    }
    for base_url in ["http://127.0.0.1:1/v1", "https://fakeapi.openai.com.example/v1"] {
        assert!(url("openai", base_url).ends_with("/v1/chat/completions"), "{base_url}");
        assert!(url("openai-responses", base_url).ends_with("/v1/responses"), "{base_url}");
    }
}

#[test]
fn who_reaches_nobody_is_told_which_variable_names_the_server() {
    let said = |name: &str, spec: &ProviderSpec| address_said(find(name).expect("it is known"), spec);
    let unset = ProviderSpec::default();
    assert!(said("openai-chat", &unset).is_some_and(|said| said.starts_with("OPENAI_BASE_URL is not set")));
    assert_eq!(said("openai-chat", &spec("openai-chat", "http://127.0.0.1:1/v1")), None);
    assert_eq!(said("openai", &unset), None, "it has a server of its own");
}

#[test]
fn who_is_not_let_in_is_told_what_helps() {
    let said = |provider: &str, spec: ProviderSpec| key_said(find(provider).expect("it is known"), &spec);
    let sent = |key: &str, from| ProviderSpec { key: Some(key.into()), key_from: from, ..ProviderSpec::default() };
    let variable = |name: &str| Some(KeySource::Variable(name.to_owned()));
    for (said, helps) in [
        (
            said("anthropic", sent("sk-x", variable("ANTHROPIC_API_KEY"))),
            "the key is from ANTHROPIC_API_KEY, which comes before a kept key: correct it, or unset it and use `piton auth login \
             anthropic`",
        ),
        (
            said("openai", sent("sk-x", Some(KeySource::Kept("the keyring")))),
            "the key is from the keyring: replace it with `piton auth login openai`",
        ),
        (
            said("groq", sent("gsk_x", Some(KeySource::Command))),
            "the key is what the key_command of [providers.groq] prints: check that, or keep a key with `piton auth login groq`",
        ),
        (
            said("openai", sent("sk-ant-x", Some(KeySource::Kept("keys.json")))),
            "this looks like a key of anthropic; the key is from keys.json: replace it with `piton auth login openai`",
        ),
        (
            said("deepseek", ProviderSpec { key_from: variable("MINE"), ..ProviderSpec::default() }),
            "no key was sent: MINE, its key_variable, is not set; set it, or keep a key with `piton auth login deepseek`",
        ),
        // What the environment has for OpenAI is not sent to whoever listens on this machine.
        (said("openai-chat", ProviderSpec::default()), "no key was sent: keep one with `piton auth login openai-chat`"),
    ] {
        assert_eq!(said, helps);
    }
}
