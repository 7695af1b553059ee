//! Signatures against AWS's published examples and what botocore 1.43 makes of the same requests; a service's assertion
//! against its public key. The private key was made for this test.

use super::*;

const PRIVATE_KEY: &str = include_str!("test_key.pem");

/// 2015-08-30T12:36:00Z, the moment of AWS's examples.
fn then() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_440_938_160)
}

fn signature(method: &str, url: &str, body: &str, token: Option<&str>, service: &str) -> String {
    let keys = AwsKeys {
        access_key_id: "AKIDEXAMPLE".into(),
        secret_access_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".into(),
        session_token: token.map(str::to_owned),
        region: "us-east-1".into(),
    };
    let url = Url::parse(url).unwrap();
    let headers = keys.sign(Outgoing { method, url: &url, body: body.as_bytes() }, service, then());
    let authorization = &headers.iter().find(|(name, _)| *name == "authorization").unwrap().1;
    let scope = format!("Credential=AKIDEXAMPLE/20150830/us-east-1/{service}/aws4_request,");
    assert!(authorization.contains(&scope), "{authorization}");
    authorization.split("Signature=").nth(1).unwrap().to_owned()
}

#[test]
fn requests_are_signed_as_in_the_published_examples() {
    for (method, url, expected) in [
        ("GET", "https://example.amazonaws.com/", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        ("POST", "https://example.amazonaws.com/", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
        (
            "GET",
            "https://example.amazonaws.com/?Param2=value2&Param1=value1",
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        ),
    ] {
        assert_eq!(signature(method, url, "", None, "service"), expected, "{method} {url}");
    }
}

#[test]
fn requests_for_models_are_signed_as_botocore_signs_them() {
    let mantle = "https://bedrock-mantle.us-east-1.api.aws/openai/v1/chat/completions";
    assert_eq!(service(&Url::parse(mantle).unwrap()), "bedrock-mantle");
    assert_eq!(
        signature("POST", mantle, r#"{"model":"m"}"#, Some("a/token+"), "bedrock-mantle"),
        "556a46afe72fdff7328f79d119ca5731447b0876db88939c776fc5b0f2f71a30"
    );
    let runtime = "https://bedrock-runtime.us-east-1.amazonaws.com/model/a:0/x";
    assert_eq!(service(&Url::parse(runtime).unwrap()), "bedrock");
    assert_eq!(
        signature("POST", runtime, r#"{"model":"m"}"#, None, "bedrock"),
        "3c0257bfc06d7ae537fa22449bfcf6400a317cd22e86d9fe65ecb7e3d9c59d0b"
    );
}

fn service_account() -> GoogleAccount {
    let file = json!({ "type": "service_account", "client_email": "a@p.iam.gserviceaccount.com", "project_id": "p",
        "private_key_id": "k1", "private_key": PRIVATE_KEY });
    GoogleAccount::parse(&file.to_string()).unwrap()
}

#[test]
fn a_service_says_who_it_is_under_its_signature() {
    let account = service_account();
    assert_eq!(account.project(), Some("p"));
    let assertion = account.assertion(then()).unwrap();
    let (text, signed) = assertion.rsplit_once('.').unwrap();
    let parts: Vec<serde_json::Value> =
        text.split('.').map(|part| serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()).collect();
    assert_eq!(parts[0], json!({ "alg": "RS256", "typ": "JWT", "kid": "k1" }));
    assert_eq!(parts[1]["aud"], "https://oauth2.googleapis.com/token");
    assert_eq!((&parts[1]["iat"], &parts[1]["exp"]), (&json!(1_440_938_160), &json!(1_440_941_760)));
    let key = PrivatePkcs8KeyDer::from_pem_slice(PRIVATE_KEY.as_bytes()).unwrap();
    let key = signature::RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()).unwrap();
    let public = signature::UnparsedPublicKey::new(&signature::RSA_PKCS1_2048_8192_SHA256, key.public().as_ref());
    public.verify(text.as_bytes(), &URL_SAFE_NO_PAD.decode(signed).unwrap()).unwrap();
}

#[test]
fn a_person_hands_in_the_token_that_gcloud_keeps() {
    let file = r#"{"type":"authorized_user","client_id":"c","client_secret":"s","refresh_token":"1//r t"}"#;
    let account = GoogleAccount::parse(file).unwrap();
    let (uri, form) = account.demand(then()).unwrap();
    assert_eq!(uri, "https://oauth2.googleapis.com/token");
    assert_eq!(form, "grant_type=refresh_token&client_id=c&client_secret=s&refresh_token=1%2F%2Fr+t");
}

#[test]
fn credentials_are_never_printed_and_damaged_ones_are_told_apart() {
    assert!(!format!("{:?}", Credentials::Google(service_account())).contains("PRIVATE"));
    assert!(GoogleAccount::parse(r#"{"type":"external_account"}"#).is_none());
    let mut broken = service_account();
    if let GoogleKind::ServiceAccount { private_key, .. } = &mut broken.kind {
        *private_key = "none".into();
    }
    assert_eq!(broken.assertion(then()).unwrap_err().kind, ModelErrorKind::Auth);
}
