//! Messages that are not quite JSON, or not quite of the protocol: what can be mended is read, and of what cannot, which request it
//! answers is found, so that this one fails at once and says why.

use regex::{Captures, Regex};
use rmcp::model::{ErrorCode, ErrorData, JsonRpcError, ServerJsonRpcMessage};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::LazyLock;

/// Reads a line, mended where it has to be; or says what is wrong with it.
pub(crate) fn read(line: &[u8]) -> Result<ServerJsonRpcMessage, String> {
    let error = match serde_json::from_slice(line) {
        Ok(message) => return Ok(message),
        Err(error) => error,
    };
    let mended: Result<Value, _> = serde_json::from_str(&as_json(&String::from_utf8_lossy(line)));
    let Ok(mut message) = mended else { return Err(error.to_string()) };
    complete(&mut message);
    serde_json::from_value(message).map_err(|_| "it is no message of MCP".to_owned())
}

/// The failure of the request that a line answers, if it says which. `end` is its end, where what lies between was thrown away.
pub(crate) fn failed(line: &[u8], end: &[u8], why: &str) -> Option<ServerJsonRpcMessage> {
    let (line, end) = (String::from_utf8_lossy(line), String::from_utf8_lossy(end));
    let answer = ANSWER.captures(&line)?;
    let id = answer.name("id").or_else(|| LAST_ID.captures(&end)?.name("id"))?;
    let id = serde_json::from_str(id.as_str()).ok()?;
    let error = ErrorData::new(ErrorCode::PARSE_ERROR, format!("its answer cannot be read: {why}"), None);
    Some(ServerJsonRpcMessage::Error(JsonRpcError::new(Some(id), error)))
}

/// The beginning of an answer, which a request of the server's own has not.
static ANSWER: LazyLock<Regex> = LazyLock::new(|| {
    let version = r#"(?:"jsonrpc" *: *"2\.0" *, *)?"#;
    regex(&format!(r#"^ *\{{ *{version}(?:"id" *: *(?<id>[0-9]+|"[^"\\]*") *, *)?{version}"(?:result|error)" *:"#))
});
/// The end of one that says last which request it answers.
static LAST_ID: LazyLock<Regex> =
    LazyLock::new(|| regex(r#""id" *: *(?<id>[0-9]+|"[^"\\]*") *(?:, *"jsonrpc" *: *"2\.0" *)?\}[ \r]*$"#));
/// A text of JSON, or a number that is none and that JavaScript and Python write all the same.
static TOKEN: LazyLock<Regex> = LazyLock::new(|| regex(r#"(?s)"(?:[^"\\]|\\.)*"|-?(?:NaN|Infinity)"#));
/// Within a text: a character in two halves, a half alone, another escape, or what has to be written as one.
static PIECE: LazyLock<Regex> = LazyLock::new(|| {
    let (first, second) = (r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}");
    regex(&format!(r"(?s){first}{second}|(?<half>{first}|{second})|\\.|(?<raw>[\x00-\x1f])"))
});

#[expect(clippy::expect_used, reason = "the texts are constants, and each has a test")]
fn regex(text: &str) -> Regex {
    Regex::new(text).expect("a regular expression")
}

/// JSON, of what is meant as it.
fn as_json(text: &str) -> Cow<'_, str> {
    let whole = |piece: &Captures<'_>| match (piece.name("half"), piece.name("raw")) {
        (Some(_), _) => "\\ufffd".to_owned(),
        (_, Some(_)) => " ".to_owned(),
        (None, None) => piece[0].to_owned(),
    };
    TOKEN.replace_all(text, |token: &Captures<'_>| match token[0].starts_with('"') {
        true => PIECE.replace_all(&token[0], whole).into_owned(),
        false => "null".to_owned(),
    })
}

/// Adds what servers leave out, or write more simply than the protocol does.
fn complete(message: &mut Value) {
    let Some(fields) = message.as_object_mut() else { return };
    fields.entry("jsonrpc").or_insert_with(|| json!("2.0"));
    if let Some(Value::String(said)) = fields.get("error") {
        let error = json!({"code": ErrorCode::INTERNAL_ERROR.0, "message": said});
        fields.insert("error".to_owned(), error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmcp::model::RequestId;

    #[test]
    fn what_is_nearly_a_message_is_read() {
        let result = |line: &[u8]| match read(line) {
            Ok(ServerJsonRpcMessage::Response(answer)) => serde_json::to_value(answer.result).unwrap(),
            other => panic!("{other:?}"),
        };
        let said =
            br#"{"jsonrpc":"2.0","id":1,"result":{"a":"\ud83d x \ud83d\ude00 \\ud83d","b":[NaN,-Infinity,"NaN"]}}"#;
        let b = json!([null, null, "NaN"]);
        assert_eq!(result(said), json!({"a": "\u{fffd} x 😀 \\ud83d", "b": b}));
        assert_eq!(result(b"{\"id\":1,\"result\":{\"a\":\"\xff\t\"}}"), json!({"a": "\u{fffd} "}));
        let said = read(br#"{"jsonrpc":"2.0","id":1,"error":"boom"}"#);
        assert!(matches!(said, Ok(ServerJsonRpcMessage::Error(error)) if error.error.message == "boom"));
    }

    #[test]
    fn what_cannot_be_read_fails_the_request_that_it_answers() {
        let id = |line: &str| match failed(line.as_bytes(), line.as_bytes(), "why") {
            Some(ServerJsonRpcMessage::Error(error)) => error.id,
            _ => None,
        };
        let deep = "[".repeat(500);
        assert!(read(format!("{{\"id\":1,\"result\":{deep}{}}}", deep.replace('[', "]")).as_bytes()).is_err());
        assert_eq!(id(&format!(r#"{{"jsonrpc":"2.0","id":3,"result":{deep}"#)), Some(RequestId::Number(3)));
        assert_eq!(id(r#"{"id": "a", "jsonrpc": "2.0", "error": 5}"#), Some(RequestId::String("a".into())));
        assert_eq!(id(r#"{"result":{"id":1},"jsonrpc":"2.0","id":4}"#), Some(RequestId::Number(4)));
        // A request of the server's own, and what says of no request that it answers it.
        assert_eq!(id(r#"{"jsonrpc":"2.0","id":3,"method":"x","params":["#), None);
        assert_eq!(id(r#"{"method":"x","params":{},"jsonrpc":"2.0","id":3}"#), None);
        assert_eq!(id(r#"{"result":{"id":1}}"#), None);
    }
}
