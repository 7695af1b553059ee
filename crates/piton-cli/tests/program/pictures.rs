//! A picture that a tool read: as one to a model that looks at pictures, in words to others, and for good.

use crate::stage::{Ran, Stage};
use serde_json::{Value, json};

/// A picture of one pixel.
pub(crate) const PIXEL: [u8; 70] = [
    137, 80, 78, 71, 13, 10, 26, 10, 0, 0, 0, 13, 73, 72, 68, 82, 0, 0, 0, 1, 0, 0, 0, 1, 8, 6, 0, 0, 0, 31, 21, 196,
    137, 0, 0, 0, 13, 73, 68, 65, 84, 120, 218, 99, 100, 248, 207, 80, 15, 0, 3, 134, 1, 128, 90, 52, 125, 107, 0, 0,
    0, 0, 73, 69, 78, 68, 174, 66, 96, 130,
];
/// The same as it is sent.
pub(crate) const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

fn stage(protocol: &'static str, more: &str) -> Stage {
    let call = json!({"tools": [{"name": "read", "args": {"path": "p.png"}}]});
    let script = json!([call, {"text": "a pixel"}, {"text": "still a pixel"}]);
    let stage = Stage::speaking(protocol, script).with_config(more);
    std::fs::write(stage.workspace.path().join("p.png"), PIXEL).unwrap();
    stage
}

fn looks(protocol: &str) -> String {
    format!("\n[models.\"{protocol}/test-model\"]\nimages = true\n")
}

fn request(stage: &Stage, number: usize) -> Value {
    stage.provider.requests()[number].body.clone()
}

#[test]
fn a_model_that_looks_is_sent_the_picture_over_every_protocol_and_again_when_the_session_goes_on() {
    for protocol in ["openai-chat", "openai-responses", "anthropic"] {
        let stage = stage(protocol, &looks(protocol));
        stage.run(&["look"]).expect_code(0);
        assert!(
            request(&stage, 1)["messages"].to_string().contains(PNG) || request(&stage, 1).to_string().contains(PNG),
            "{protocol}"
        );
        stage.run(&["--continue", "again"]).expect_code(0);
        let again = request(&stage, 2).to_string();
        assert_eq!(again.matches(PNG).count(), 1, "{protocol}");
        let exported = Ran::of(stage.piton(&["session", "export", "last", "--format", "md"])).expect_code(0);
        assert!(exported.stdout.contains("is a picture: PNG image (1x1)"), "{protocol}: {}", exported.stdout);
    }
}

#[test]
fn a_picture_that_is_referred_to_is_sent_whole_or_not_at_all() {
    let stage = stage("openai-chat", &looks("openai-chat"));
    std::fs::write(stage.workspace.path().join("cut.png"), &PIXEL[..60]).unwrap();
    let ran = stage.run(&["see @p.png and @cut.png"]).expect_code(0);
    let sent = request(&stage, 0).to_string();
    assert_eq!(sent.matches("data:image/png").count(), 1, "{sent}");
    assert!(sent.contains("@cut.png was not attached: it is damaged or cut off"), "{sent}");
    assert!(ran.stdout.contains("@cut.png was not attached"), "the person is told, too");
}

#[test]
fn a_model_of_which_that_is_not_known_reads_that_there_is_one() {
    for more in ["", "\n[models.\"openai-chat/test-model\"]\nimages = false\n"] {
        let stage = stage("openai-chat", more);
        stage.run(&["look"]).expect_code(0);
        let sent = request(&stage, 1).to_string();
        assert!(!sent.contains(PNG), "{sent}");
        assert!(sent.contains("p.png is a picture: PNG image (1x1)"), "{sent}");
        assert!(sent.contains("which is not shown: this model does not look at pictures"), "{sent}");
    }
}
