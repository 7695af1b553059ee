//! Bedrock, Vertex and Azure, as far as they can be tried without them: what is sent, and to where.

use crate::stage::{Ran, Stage};
use serde_json::{Value, json};
use std::process::Command;

fn stage() -> Stage {
    Stage::new(json!([{"text": "ok", "repeat": true}]))
}

/// One run of this model with these variables.
fn run(stage: &Stage, model: &str, vars: &[(&str, &str)]) -> Command {
    let mut command = stage.piton(&["run", "--yes", "--model", model, "go"]);
    command.envs(vars.iter().copied());
    command
}

/// A header of the only request.
fn sent(stage: &Stage, header: &str) -> Option<String> {
    let requests = stage.provider.requests();
    requests.last().unwrap().header(header).map(str::to_owned)
}

#[test]
fn bedrock_requests_are_signed_with_keys_of_the_environment_a_profile_or_a_program() {
    let scope = "AWS4-HMAC-SHA256 Credential=AKIDTEST/";
    let keys = [("AWS_ACCESS_KEY_ID", "AKIDTEST"), ("AWS_SECRET_ACCESS_KEY", "s"), ("AWS_SESSION_TOKEN", "t1")];
    for (model, variable) in [
        ("bedrock/openai.gpt-oss-120b", "BEDROCK_BASE_URL"),
        ("bedrock-anthropic/anthropic.claude-opus-4-8", "BEDROCK_ANTHROPIC_BASE_URL"),
    ] {
        let stage = stage();
        let mut command = run(&stage, model, &keys);
        command.env(variable, stage.provider.url()).env("AWS_REGION", "eu-west-1");
        Ran::of(command).expect_code(0);
        let authorization = sent(&stage, "authorization").unwrap();
        assert!(authorization.starts_with(scope), "{authorization}");
        assert!(
            authorization
                .contains("/eu-west-1/bedrock/aws4_request, SignedHeaders=host;x-amz-date;x-amz-security-token,")
        );
        assert_eq!(sent(&stage, "x-amz-security-token").as_deref(), Some("t1"));
    }
    let stage = stage();
    stage.home.write(".aws/credentials", "[work]\naws_access_key_id = AKIDTEST\naws_secret_access_key = s\n");
    stage.home.write(
        ".aws/config",
        "[profile work]\nregion = us-east-2\n[profile other]\nregion=us-east-1\n\
         credential_process = echo '{\"AccessKeyId\":\"AKIDTEST\",\"SecretAccessKey\":\"s\",\"SessionToken\":\"t2\"}'\n[profile sso]\nregion=x\n",
    );
    let url = stage.provider.url();
    for (profile, words) in [("work", "/us-east-2/bedrock/"), ("other", "/us-east-1/bedrock/")] {
        let command = run(&stage, "bedrock/m", &[("AWS_PROFILE", profile), ("BEDROCK_BASE_URL", &url)]);
        Ran::of(command).expect_code(0);
        let authorization = sent(&stage, "authorization").unwrap();
        assert!(authorization.starts_with(scope) && authorization.contains(words), "{authorization}");
    }
    let command = run(&stage, "bedrock/m", &[("AWS_PROFILE", "sso"), ("BEDROCK_BASE_URL", &url)]);
    Ran::of(command).expect_code(1).expect_said(&["profile sso", "aws configure export-credentials"]);
    let command = run(
        &stage,
        "bedrock/m",
        &[("AWS_BEARER_TOKEN_BEDROCK", "k"), ("AWS_PROFILE", "work"), ("BEDROCK_BASE_URL", &url)],
    );
    Ran::of(command).expect_code(0);
    assert_eq!(sent(&stage, "authorization").as_deref(), Some("Bearer k"), "a key comes first");
}

#[test]
fn temporary_keys_of_aws_are_had_again_when_they_have_ended() {
    let stage =
        Stage::new(json!([{"status": 403, "body": {"message": "The security token is expired"}}, {"text": "ok"}]));
    let count = stage.home.path().join("count");
    let process = format!(
        "echo x >>{0}; echo '{{\"AccessKeyId\":\"AKIDTEST\",\"SecretAccessKey\":\"s\",\"SessionToken\":\"t'$(wc -l <{0})'\"}}'",
        count.display()
    );
    stage.home.write(".aws/config", format!("[default]\nregion = us-east-1\ncredential_process = {process}\n"));
    Ran::of(run(&stage, "bedrock/m", &[("BEDROCK_BASE_URL", &stage.provider.url())])).expect_code(0);
    let tokens: Vec<Option<String>> =
        stage.provider.requests().iter().map(|seen| seen.header("x-amz-security-token").map(str::to_owned)).collect();
    assert_eq!(tokens.len(), 2);
    assert_ne!(tokens[0], tokens[1]);
}

#[test]
fn addresses_follow_from_region_project_and_location() {
    let stage = stage();
    let asked = |model: &str, vars: &[(&str, &str)]| {
        let mut command = run(&stage, model, vars);
        // The provider plays the proxy; what it sees of an https address is a wish to be connected.
        command.env("HTTPS_PROXY", stage.provider.url()).args(["--max-steps", "1"]);
        stage.home.write("config.toml", "[retry]\ntimes = 0\n");
        Ran::of(command).expect_code(10);
        stage.provider.requests().last().unwrap().path.clone()
    };
    let bedrock = asked("bedrock/m", &[("AWS_BEARER_TOKEN_BEDROCK", "k"), ("AWS_REGION", "us-west-2")]);
    assert_eq!(bedrock, "bedrock-mantle.us-west-2.api.aws:443");
    let vertex = [("VERTEX_ACCESS_TOKEN", "k"), ("GOOGLE_CLOUD_PROJECT", "p")];
    assert_eq!(asked("vertex/m", &vertex), "aiplatform.googleapis.com:443");
    let [token, project] = vertex;
    let regional = asked("vertex/m", &[token, project, ("GOOGLE_CLOUD_LOCATION", "europe-west4")]);
    assert_eq!(regional, "europe-west4-aiplatform.googleapis.com:443");
}

#[test]
fn vertex_trades_an_account_for_a_token_once() {
    let script = json!([{"status": 200, "body": {"access_token": "ya29.token", "expires_in": 3599}},
        {"tools": [{"name": "bash", "args": {"command": "true"}}]}, {"text": "ok"}]);
    let stage = Stage::new(script);
    let token_uri = format!("{}/token/chat/completions", stage.provider.url());
    let account = json!({"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r",
        "token_uri": token_uri});
    stage.home.write(".config/gcloud/application_default_credentials.json", account.to_string());
    let command = run(&stage, "vertex/google/gemini-2.5-pro", &[("VERTEX_BASE_URL", &stage.provider.url())]);
    Ran::of(command).expect_code(0);
    let requests = stage.provider.requests();
    let seen: Vec<Option<&str>> = requests.iter().map(|request| request.header("authorization")).collect();
    assert_eq!(seen, [None, Some("Bearer ya29.token"), Some("Bearer ya29.token")]);
    let doctor = Ran::of(stage.piton(&["doctor"]));
    assert!(doctor.stdout.contains("vertex: by the login of gcloud"), "{}", doctor.stdout);
}

#[test]
fn a_token_that_is_not_given_is_one_line_without_a_retry() {
    let stage = Stage::new(
        json!([{"status": 400, "body": {"error": "invalid_grant", "error_description": "Token has been revoked."}}]),
    );
    let token_uri = format!("{}/token/chat/completions", stage.provider.url());
    let account = json!({"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r",
        "token_uri": token_uri});
    stage.home.write("adc.json", account.to_string());
    let path = stage.home.path().join("adc.json");
    let url = stage.provider.url();
    let vars = [("VERTEX_BASE_URL", url.as_str()), ("GOOGLE_APPLICATION_CREDENTIALS", path.to_str().unwrap())];
    Ran::of(run(&stage, "vertex/m", &vars)).expect_code(10).expect_said(&["Token has been revoked"]);
    assert_eq!(stage.provider.requests().len(), 1);
    stage.home.write("adc.json", "{}");
    Ran::of(run(&stage, "vertex/m", &vars)).expect_code(1).expect_said(&["adc.json", "VERTEX_ACCESS_TOKEN"]);
}

#[test]
fn azure_takes_a_key_in_a_header_of_its_own_and_a_token_as_one() {
    for (key, api_key, authorization) in
        [("0123abc", Some("0123abc"), None), ("eyJ0eXAi.x.y", None, Some("Bearer eyJ0eXAi.x.y"))]
    {
        let stage = stage();
        let vars = [("AZURE_OPENAI_API_KEY", key), ("AZURE_OPENAI_BASE_URL", &stage.provider.url())];
        Ran::of(run(&stage, "azure/gpt-5.4", &vars)).expect_code(0);
        assert_eq!(
            (sent(&stage, "api-key").as_deref(), sent(&stage, "authorization").as_deref()),
            (api_key, authorization)
        );
    }
}

#[test]
fn what_is_missing_for_a_cloud_is_named() {
    let stage = stage();
    let words = ["AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID"];
    for vars in [&[][..], &[("AWS_REGION", "us-east-1")]] {
        Ran::of(run(&stage, "bedrock/m", vars)).expect_code(1).expect_said(&words);
    }
    let keys = [("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "s")];
    Ran::of(run(&stage, "bedrock/m", &keys)).expect_code(1).expect_said(&["AWS_REGION"]);
    Ran::of(run(&stage, "vertex/m", &[])).expect_code(1).expect_said(&["VERTEX_ACCESS_TOKEN", "gcloud auth"]);
    let requests: Vec<Value> = stage.provider.requests().into_iter().map(|request| request.body).collect();
    assert!(requests.is_empty(), "{requests:?}");
}
