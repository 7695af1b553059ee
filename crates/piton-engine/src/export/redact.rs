//! Redaction of exports. A secret is recognised by its form (keys of known providers, private keys, tokens in headers and
//! addresses), by the name of the variable it is assigned to (`…_API_KEY=…`), or as the value of such a variable of this
//! process. It prefers to redact too much; it cannot find a secret that looks like an ordinary word.

use piton_core::event::Record;
use regex::{Captures, Regex};
use serde_json::Value;

/// What stands in a secret's place.
pub const MARK: &str = "[redacted]";

/// Values of variables shorter than this are no secrets, and would be found everywhere.
const SHORTEST_VALUE: usize = 8;

/// What known secrets look like. Listed in `docs/sessions.md`.
const FORMS: &[&str] = &[
    // OpenAI, Anthropic, OpenRouter, DeepSeek, Stripe and others.
    r"\b(?:sk|rk|pk)[-_][A-Za-z0-9_-]{16,}",
    // GitHub, GitLab.
    r"\bgh[pousr]_[A-Za-z0-9]{30,}",
    r"\bgithub_pat_[A-Za-z0-9_]{30,}",
    r"\bglpat-[A-Za-z0-9_-]{20,}",
    // Amazon, Google.
    r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    r"\bAIza[A-Za-z0-9_-]{35}",
    r"\bya29\.[A-Za-z0-9_-]{20,}",
    // Slack, Hugging Face, Groq, xAI, npm, PyPI.
    r"\bxox[abeprs]-[A-Za-z0-9-]{10,}",
    r"\bhf_[A-Za-z0-9]{30,}",
    r"\b(?:gsk_|xai-)[A-Za-z0-9]{30,}",
    r"\bnpm_[A-Za-z0-9]{36}",
    r"\bpypi-[A-Za-z0-9_-]{40,}",
    // JSON web tokens, private keys.
    r"\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)-----END [A-Z ]*PRIVATE KEY-----",
];

/// Secrets that only what stands around them tells: the groups `before` and `after` stay.
const PLACES: &[&str] = &[
    // NAME=value, NAME: value, NAME="value" of a variable that is named like a secret.
    r#"(?P<before>\b[A-Z0-9_]*(?:API_?KEY|_TOKEN|SECRET|PASSWORD|PASSWD|ACCESS_KEY|PRIVATE_KEY)["']?[ \t]*[:=][ \t]*["']?)[A-Za-z0-9_./+=~-]{8,}"#,
    // The same as a field of JSON inside of a text.
    r#"(?P<before>"[a-zA-Z_-]*(?i:api_?key|access_?token|auth_?token|secret|password)"[ \t]*:[ \t]*")[^"\\]{6,}"#,
    r"(?P<before>\b(?i:bearer|basic)[ \t]+)[A-Za-z0-9._~+/=-]{16,}",
    // A password in an address.
    r"(?P<before>[a-z]://[^/\s:@]+:)[^/\s:@]+(?P<after>@)",
];

/// Fields whose text is a secret, whatever it looks like.
const FIELDS: &[&str] = &["api_key", "apikey", "access_token", "auth_token", "secret", "password", "private_key"];

/// Takes secrets out.
pub struct Redactor {
    forms: Vec<Regex>,
    places: Vec<Regex>,
    values: Vec<String>,
    /// How many were taken out.
    pub found: usize,
}

impl Redactor {
    /// Knows the forms above and, by their values, the secrets of this place.
    pub fn new(values: impl IntoIterator<Item = String>) -> Self {
        let compiled = |patterns: &[&str]| -> Vec<Regex> {
            patterns
                .iter()
                .map(|pattern| Regex::new(pattern).expect("one of our patterns, which a test compiles"))
                .collect()
        };
        let mut values: Vec<String> = values.into_iter().filter(|value| value.len() >= SHORTEST_VALUE).collect();
        // The longer first: one may be the beginning of another.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Self { forms: compiled(FORMS), places: compiled(PLACES), values, found: 0 }
    }

    /// The same events without the secrets.
    pub fn records(&mut self, records: &[Record]) -> Result<Vec<Record>, serde_json::Error> {
        let redacted = records.iter().map(|record| {
            let mut value = serde_json::to_value(record)?;
            let before = self.found;
            self.value(&mut value);
            if self.found == before { Ok(record.clone()) } else { serde_json::from_value(value) }
        });
        redacted.collect()
    }

    /// The same text without the secrets.
    pub fn text(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for value in &self.values {
            let times = text.matches(value.as_str()).count();
            if times > 0 {
                self.found += times;
                text = text.replace(value.as_str(), MARK);
            }
        }
        for form in &self.forms {
            if form.is_match(&text) {
                self.found += form.find_iter(&text).count();
                text = form.replace_all(&text, MARK).into_owned();
            }
        }
        for place in &self.places {
            let mut found = 0;
            let kept = |captures: &Captures<'_>| {
                // What was taken out by its form is not taken out again.
                if captures[0].contains(MARK) {
                    return captures[0].to_owned();
                }
                found += 1;
                let group = |name| captures.name(name).map_or("", |part| part.as_str());
                format!("{}{MARK}{}", group("before"), group("after"))
            };
            if place.is_match(&text) {
                text = place.replace_all(&text, kept).into_owned();
            }
            self.found += found;
        }
        text
    }

    fn value(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(fields) => {
                for (name, field) in fields {
                    let is_secret = FIELDS.contains(&name.to_lowercase().as_str());
                    match field {
                        Value::String(text) if is_secret && !text.is_empty() => {
                            self.found += 1;
                            MARK.clone_into(text);
                        }
                        field => self.value(field),
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}
