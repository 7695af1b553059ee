//! JSON as people write it: comments and commas before a closing bracket are passed over.

use serde_json::Value;

/// Reads it. The error says where it is none.
pub(crate) fn parse(text: &str) -> Result<Value, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let first = match serde_json::from_str(text) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    // Whatever is passed over is blanked, so that lines and columns stay.
    serde_json::from_str(&plain(text)).map_err(|second: serde_json::Error| {
        let error = if text.contains("//") || text.contains("/*") { second } else { first };
        format!("it is not valid JSON: {error}")
    })
}

fn plain(text: &str) -> String {
    let mut out: Vec<u8> = text.as_bytes().to_vec();
    let mut at = 0;
    let mut comma = None;
    // What stood before it, blanks and comments aside: between brackets a comma alone is a mistake.
    let mut last = b'{';
    while at < out.len() {
        match out[at] {
            b'"' => {
                (comma, last) = (None, b'"');
                at += 1;
                while at < out.len() && out[at] != b'"' {
                    at += if out[at] == b'\\' { 2 } else { 1 };
                }
                at += 1;
            }
            b'/' if out.get(at + 1) == Some(&b'/') => {
                while at < out.len() && out[at] != b'\n' {
                    out[at] = b' ';
                    at += 1;
                }
            }
            b'/' if out.get(at + 1) == Some(&b'*') => {
                let end = out[at..].windows(2).position(|two| two == b"*/").map_or(out.len(), |end| at + end + 2);
                out[at..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
                at = end;
            }
            b',' => {
                comma = (!matches!(last, b'{' | b'[' | b',')).then_some(at);
                last = b',';
                at += 1;
            }
            b'}' | b']' => {
                if let Some(comma) = comma.take() {
                    out[comma] = b' ';
                }
                last = b'}';
                at += 1;
            }
            byte => {
                if !byte.is_ascii_whitespace() {
                    (comma, last) = (None, byte);
                }
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn comments_and_last_commas_are_passed_over() {
        let text = "{\n  // one, \"two\"\n  \"a\": [1, 2, ], /* three\n */ \"b\": \"x // y, }\\\"\",\n}";
        assert_eq!(parse(text), Ok(json!({"a": [1, 2], "b": "x // y, }\""})));
    }

    #[test]
    fn what_is_no_json_is_told_with_its_line() {
        for text in ["{\n \"a\": }", "{\"a\": 1 /*", "{\"a\": \"x\\", "[1,,2]", "{,}", "/", "{\n// x\n\"a\"}"] {
            assert!(parse(text).unwrap_err().starts_with("it is not valid JSON"), "{text}");
        }
        assert!(parse("{\n\"a\": x}").unwrap_err().contains("line 2"));
    }
}
