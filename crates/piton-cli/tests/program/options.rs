//! What people set about a model's answers, from the command line and the configuration down to the wire.

use crate::stage::{Ran, Stage};
use serde_json::{Value, json};

fn stage(protocol: &'static str) -> Stage {
    Stage::speaking(protocol, json!([{"text": "ok", "repeat": true}]))
}

/// The body and headers of the only request for a reply.
fn sent(stage: &Stage) -> (Value, Vec<(String, String)>) {
    let mut requests = stage.provider.requests();
    requests.retain(|request| request.method == "POST" && request.path != "/api/show");
    assert_eq!(requests.len(), 1);
    let request = requests.remove(0);
    (request.body, request.headers)
}

#[test]
fn flags_reach_every_protocol_in_its_own_words() {
    let google = |stage: &Stage| format!("[providers.google]\nbase_url = {:?}\n", stage.provider.url());
    let ollama = |stage: &Stage| format!("[providers.ollama-native]\nbase_url = {:?}\n", stage.provider.url());
    for (protocol, expected) in [
        ("openai-chat", json!({"temperature": 0.5, "max_tokens": 3000, "reasoning_effort": "low"})),
        ("openai-responses", json!({"temperature": 0.5, "max_output_tokens": 3000, "reasoning": {"effort": "low"}})),
        ("anthropic", json!({"max_tokens": 3000, "thinking": {"type": "enabled", "budget_tokens": 1976}})),
        ("google", json!({"generationConfig": {"maxOutputTokens": 3000, "temperature": 0.5}})),
        (
            "ollama-native",
            json!({"options": {"num_ctx": 16384, "num_predict": 3000, "temperature": 0.5}, "think": true}),
        ),
    ] {
        let stage = stage(protocol);
        let config = google(&stage) + &ollama(&stage);
        let stage = stage.with_config(&config);
        let mut command = stage.run_command(&["--effort", "low", "--max-output", "3000", "--temperature=0.5", "go"]);
        command.env("GEMINI_API_KEY", "k");
        Ran::of(command).expect_code(0);
        let (body, _) = sent(&stage);
        for (key, value) in expected.as_object().unwrap() {
            assert_eq!(&body[key], value, "{protocol}: {body}");
        }
    }
}

#[test]
fn the_nearest_word_wins_and_extra_body_and_headers_are_added() {
    let stage = stage("openai-chat").with_config(
        "[options]\nmax_output = 1000\ntemperature = 1.0\n\
         [providers.openai-chat.options]\nmax_output = 2000\nheaders = { x-team = \"blue\", x-title = \"t\" }\n\
         extra_body = { provider = { sort = \"price\" }, seed = 7 }\n\
         [models.\"openai-chat/test-model\"]\nmax_output = 3000\nheaders = { x-title = \"u\", Authorization = \"Basic x\" }\n\
         extra_body = { provider = { zdr = true }, stream_options = { include_usage = false } }\n",
    );
    stage.run(&["--temperature", "0", "go"]).expect_code(0);
    let (body, headers) = sent(&stage);
    assert_eq!((&body["max_tokens"], &body["temperature"], &body["seed"]), (&json!(3000), &json!(0.0), &json!(7)));
    assert_eq!(body["provider"], json!({"sort": "price", "zdr": true}));
    assert_eq!(body["stream_options"], json!({"include_usage": false}), "what Piton itself says can be changed");
    let of = |name: &str| headers.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str()).collect();
    let all: [Vec<&str>; 3] = [of("x-team"), of("x-title"), of("authorization")];
    assert_eq!(all, [vec!["blue"], vec!["u"], vec!["Basic x"]]);
}

#[test]
fn the_same_options_are_the_same_bytes_in_every_request() {
    let script = json!([{"tools": [{"name": "bash", "args": {"command": "true"}}]}, {"text": "ok"}]);
    let stage = Stage::new(script).with_config(
        "[options]\neffort = \"high\"\n[options.extra_body]\nz = 1\na = { d = 1, c = 2 }\n[options.extra_body.m]\nx = true\n",
    );
    stage.run(&["go"]).expect_code(0);
    let without_messages = |mut body: Value| {
        body.as_object_mut().unwrap().shift_remove("messages");
        body.to_string()
    };
    let bodies: Vec<String> =
        stage.provider.requests().into_iter().map(|request| without_messages(request.body)).collect();
    assert_eq!(bodies.len(), 2);
    assert_eq!(bodies[0], bodies[1]);
}

#[test]
fn what_a_model_would_refuse_is_left_out_and_said_once() {
    let stage = stage("openai");
    let mut command = stage.piton(&["run", "--yes", "--model", "openai/gpt-5.4", "--temperature", "0.3", "go"]);
    command.env("OPENAI_API_KEY", "k");
    let ran = Ran::of(command).expect_code(0).expect_said(&["temperature is not sent to gpt-5.4"]);
    assert_eq!(ran.stderr.matches("temperature").count(), 1, "{}", ran.stderr);
    assert!(sent(&stage).0.get("temperature").is_none());
}

#[test]
fn a_wrong_option_is_answered_with_the_right_one_before_anything_is_sent() {
    let stage = stage("openai-chat");
    stage.run(&["--effort", "hihg", "go"]).expect_code(2).expect_said(&["--effort", "'high'"]);
    stage.run(&["--temperature", "3", "go"]).expect_code(2).expect_said(&["--temperature", "0 to 2"]);
    for (config, words) in [
        ("[options]\neffort = \"hihg\"\n", ["config.toml", "did you mean `high`?"]),
        ("[providers.opnai.options]\neffort = \"high\"\n", ["[providers.opnai]", "did you mean `openai`?"]),
        ("[models.\"antropic/x\"]\neffort = \"high\"\n", ["antropic/x", "did you mean `anthropic`?"]),
        ("[models.gpt-5]\neffort = \"high\"\n", ["[models.\"gpt-5\"]", "provider/name"]),
        ("[providers.mine]\nprotocol = \"chat\"\n", ["[providers.mine]", "base_url"]),
        ("[options.headers]\n\"x y\" = \"1\"\n", ["x y", "cannot be sent as a header"]),
        ("[http]\nca_file = \"/nowhere.pem\"\n", ["ca_file", "/nowhere.pem"]),
        ("[http]\nca_file = \"/etc/hostname\"\n", ["/etc/hostname", "certificate"]),
        ("[http]\nproxy = \"socks9://127.0.0.1:9\"\n", ["socks9://", "http://"]),
        ("[providers.openai.retry]\nfirst_wait = 0\n", ["first_wait", "above 0"]),
    ] {
        let stage = stage_with(config);
        stage.run(&["go"]).expect_code(1).expect_said(&words);
        assert!(stage.provider.requests().is_empty());
    }
}

fn stage_with(config: &str) -> Stage {
    stage("openai-chat").with_config(config)
}

#[test]
fn a_proxy_of_the_configuration_is_used_and_an_empty_one_is_none() {
    let direct = stage("openai-chat").with_config("[http]\nproxy = \"\"\n");
    let mut command = direct.run_command(&["go"]);
    command.env("HTTPS_PROXY", "http://127.0.0.1:9");
    Ran::of(command).expect_code(0);
    // The provider plays the proxy: it sees a request for another host.
    let stage = stage("openai-chat");
    let config = format!("[http]\nproxy = {:?}\n", stage.provider.url());
    let stage = stage.with_config(&config);
    let mut command = stage.run_command(&["go"]);
    command.env("OPENAI_BASE_URL", "http://models.invalid/v1");
    Ran::of(command).expect_code(0);
    assert_eq!(stage.provider.requests()[0].header("host"), Some("models.invalid"));
}

/// A request to an `http://` address has its key in clear text, so whose proxy it goes through was said for such.
#[test]
fn each_proxy_of_the_environment_is_for_its_own_scheme() {
    let way = |variables: &[&str], code: i32| {
        let proxy = stage("openai-chat");
        let mut command = proxy.run_command(&["go"]);
        proxy.home.write("config.toml", "[retry]\ntimes = 0\n");
        // Nobody listens there, and only `127.0.0.1` is always asked directly.
        command.env("OPENAI_BASE_URL", "http://127.0.0.2:9/v1");
        command.envs(variables.iter().map(|name| (name, proxy.provider.url())));
        Ran::of(command).expect_code(code);
        proxy.provider.requests().first().and_then(|seen| seen.header("host").map(str::to_owned))
    };
    assert_eq!(way(&["HTTPS_PROXY", "https_proxy"], 10), None, "the proxy for https:// sees no key");
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        assert_eq!(way(&[name], 0).as_deref(), Some("127.0.0.2:9"), "{name}");
    }
}

#[test]
fn a_proxy_that_is_none_harms_only_what_would_go_through_it() {
    for value in ["http://nope:99999", ":::bad", "foo bar", "socks5://127.0.0.1:9"] {
        let stage = stage("openai-chat");
        stage.home.write("config.toml", "[retry]\ntimes = 0\n");
        let run = |url: &str| {
            let mut command = stage.run_command(&["go"]);
            command.envs(["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"].map(|name| (name, value)));
            command.env("OPENAI_BASE_URL", url);
            Ran::of(command)
        };
        run(&format!("{}/v1", stage.provider.url())).expect_code(0);
        run("http://127.0.0.2:9/v1").expect_code(10).expect_stdout(&["prox"]);
    }
}

/// The members of a request for which providers have their own names.
fn named(model: &str, config: &str, envs: &[(&str, &str)]) -> Value {
    let stage = stage("openai-chat");
    let config = config.replace("URL", &stage.provider.url());
    let stage = stage.with_config(&config);
    let mut command = stage.piton(&["run", "--yes", "--max-output=2000", "--model", model, "go"]);
    command
        .env_remove("OPENAI_BASE_URL")
        .envs(envs.iter().map(|(name, value)| (name, value.replace("URL", &stage.provider.url()))));
    Ran::of(command).expect_code(0);
    sent(&stage).0
}

#[test]
fn a_provider_is_spoken_to_in_its_own_words_behind_any_address() {
    let azure = [("AZURE_OPENAI_API_KEY", "k"), ("AZURE_OPENAI_BASE_URL", "URL/openai/v1")];
    for (model, config, envs) in [
        ("openai/gpt-5.4", "[providers.openai]\nbase_url = \"URL/v1\"\n", &[][..]),
        ("azure/gpt-5.4", "", &azure[..]),
        ("github/gpt-5", "[providers.github]\nbase_url = \"URL/v1\"\n", &[("GITHUB_TOKEN", "k")]),
    ] {
        let body = named(model, config, envs);
        assert_eq!((&body["max_completion_tokens"], body.get("max_tokens")), (&json!(2_000), None), "{model}");
    }
    let own = named("mine/gpt-5", "[providers.mine]\nprotocol = \"chat\"\nbase_url = \"URL/v1\"\n", &[]);
    assert_eq!((&own["max_tokens"], own.get("max_completion_tokens")), (&json!(2_000), None));
}

#[test]
fn openai_itself_is_asked_for_an_effort_by_responses() {
    let stage = stage("openai");
    let asked = |base_url: &str| {
        let mut command = stage.piton(&["run", "--yes", "--effort", "high", "--model", "openai/gpt-5.4", "go"]);
        // Under its own host's name; the proxy answers in its place.
        command.env("OPENAI_BASE_URL", base_url).env("ALL_PROXY", stage.provider.url()).env("NO_PROXY", "127.0.0.1");
        Ran::of(command).expect_code(0);
        let request = stage.provider.requests().pop().unwrap();
        assert!(request.body["tools"].is_array());
        (request.path, request.body)
    };
    let (path, body) = asked("http://api.openai.com/v1");
    assert!(path.ends_with("api.openai.com/v1/responses"), "{path}");
    assert_eq!((&body["reasoning"], body.get("reasoning_effort")), (&json!({"effort": "high"}), None));
    let (path, body) = asked(&format!("{}/v1", stage.provider.url()));
    assert_eq!((path.as_str(), &body["reasoning_effort"]), ("/v1/chat/completions", &json!("high")));
}

#[test]
fn a_member_that_a_server_refuses_is_left_out_from_then_on() {
    let detail = json!([{"type": "extra_forbidden", "loc": ["body", "stream_options"], "msg": "Extra inputs are not permitted"}]);
    let refusal = json!({"status": 422, "body": {"detail": detail}});
    let read = json!({"tools": [{"name": "read", "args": {"path": "a.txt"}}]});
    let stage = Stage::new(json!([refusal, read, {"text": "ok"}])).with_files([("a.txt", "a")]);
    let ran = stage.run(&["go"]).expect_code(0);
    assert_eq!(ran.result()["text"], "ok");
    let sent: Vec<bool> =
        stage.provider.requests().iter().map(|request| request.body.get("stream_options").is_some()).collect();
    assert_eq!(sent, [true, false, false]);
    let failed = ran.all("model_failed");
    let words = failed[0]["error"]["message"].as_str().unwrap();
    assert!(words.contains("stream_options is left out from now on"), "{words}");
    // Twice is no news.
    let stage = Stage::new(json!([refusal, refusal]));
    stage.run(&["go"]).expect_code(10);
    assert_eq!(stage.provider.requests().len(), 2);
}

#[test]
fn a_model_that_takes_over_in_the_middle_of_a_turn_begins_to_think_with_the_next() {
    let read = json!({"tools": [{"name": "read", "args": {"path": "a.txt"}}]});
    let spent = json!({"status": 429, "body": {"error": {"message": "no money", "code": "insufficient_quota"}}});
    let stage = Stage::new(json!([read, spent, {"text": "ok"}, {"text": "ok"}])).with_files([("a.txt", "a")]);
    let chain = "openai-chat/gpt-5,anthropic/claude-sonnet-4-5";
    let run = |more: &[&str]| {
        let args = [&["run", "--yes", "--effort", "high"], more].concat();
        Ran::of(stage.piton(&args)).expect_code(0);
        stage.provider.requests().pop().unwrap()
    };
    let taken_over = run(&["--model", chain, "go"]);
    assert_eq!((taken_over.path.as_str(), taken_over.body.get("thinking")), ("/v1/messages", None));
    let next = run(&["--continue", "--model", "anthropic/claude-sonnet-4-5", "on"]);
    assert_eq!(next.body["thinking"]["type"], "enabled");
}

#[test]
fn each_provider_has_a_patience_of_its_own() {
    let failing = json!([{"status": 500, "body": {"error": {"message": "no"}}, "repeat": true}]);
    let asked = |more: &str| {
        let stage = Stage::new(failing.clone()).with_config(more);
        stage.run(&["go"]).expect_code(10);
        stage.provider.requests().len()
    };
    assert_eq!(asked(""), 6, "as [retry] says");
    assert_eq!(asked("[providers.openai-chat.retry]\ntimes = 1\n"), 2);
    assert_eq!(asked("[providers.openai.retry]\ntimes = 1\n"), 6, "another's patience is another's");
    let only = |statuses: &str| format!("[providers.openai-chat.retry]\non = {{ statuses = [{statuses}] }}\n");
    assert_eq!((asked(&only("429")), asked(&only("429, 500"))), (1, 6), "which failures are tried again, too");
    assert_eq!(asked("[providers.openai-chat.retry]\non = { kinds = [\"rate_limited\"] }\n"), 1);
    // In a chain each model has that of its provider.
    let stage = Stage::new(failing.clone())
        .with_config("[providers.anthropic.retry]\ntimes = 0\n[providers.openai-chat.retry]\ntimes = 2\n");
    let chain = "openai-chat/test-model,anthropic/claude-sonnet-4-5";
    Ran::of(stage.piton(&["run", "--yes", "--model", chain, "go"])).expect_code(10);
    let paths: Vec<String> = stage.provider.requests().into_iter().map(|request| request.path).collect();
    assert_eq!(paths.iter().filter(|path| path.ends_with("/chat/completions")).count(), 3, "{paths:?}");
    assert_eq!(paths.iter().filter(|path| path.ends_with("/messages")).count(), 1, "{paths:?}");
}
