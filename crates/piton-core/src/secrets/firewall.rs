//! What all of a session's texts pass before they are kept, shown or sent. One for a session; clones share what it knows.

use super::event_text::{each_text_of, of_outcome};
use super::placeholder::{self, Placeholder, placeholders};
use super::{Found, Secrets, Voice, replaced};
use crate::call::Outcome;
use crate::event::Event;
use crate::message::Part;
use memchr::memchr;
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Values that are known: in what the model writes, which it knows itself.
    Known,
    /// These, and whatever looks like a secret.
    Everything,
}

/// Takes secrets out of texts.
#[derive(Clone, Default)]
pub struct Firewall(Option<Arc<Mutex<Secrets>>>);

/// A file with placeholders where its secrets are, and what these stand for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct View {
    /// The content without its secrets.
    pub content: Vec<u8>,
    /// Each placeholder, and the bytes in whose place it stands.
    secrets: Vec<(String, Vec<u8>)>,
}

/// Why a text cannot be put into a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotRestored {
    /// This placeholder stands for nothing in the file.
    Foreign(String),
    /// A placeholder of the file was cut.
    Cut,
}

impl Firewall {
    /// One that finds what these know and what looks like a secret.
    pub fn new(secrets: Secrets) -> Self {
        Self(Some(Arc::new(Mutex::new(secrets))))
    }

    /// One that lets everything pass.
    pub fn off() -> Self {
        Self(None)
    }

    /// Whether everything passes.
    pub fn is_off(&self) -> bool {
        self.0.is_none()
    }

    /// Adds a value that is a secret; see [`Secrets::know`].
    pub fn know(&self, name: &str, value: &str) {
        self.with(|secrets| secrets.know(name, value));
    }

    /// Adds a key that is in use; see [`Secrets::know_key`].
    pub fn know_key(&self, name: &str, key: &str) {
        self.with(|secrets| secrets.know_key(name, key));
    }

    /// Adds what is secret of a file of variables or credentials; see [`Secrets::know_file`].
    pub fn know_file(&self, text: &str) {
        self.with(|secrets| secrets.know_file(text));
    }

    /// What the model wrote itself and is not known is not taken for a secret from here on.
    pub fn own(&self, parts: &[Part]) {
        for part in parts {
            match part {
                Part::Text { text, .. } | Part::Reasoning { text, .. } => self.own_text(text),
                Part::ToolCall(call) => {
                    if let Some(input) = call.input.value() {
                        each_string(input, &mut |text| self.own_text(text));
                    }
                }
                Part::ToolResult { .. } | Part::Note { .. } | Part::Image { .. } => {}
            }
        }
    }

    fn own_text(&self, text: &str) {
        self.with(|secrets| secrets.own(text.as_bytes()));
    }

    /// The same text without secrets.
    pub fn cleaned<'t>(&self, text: &'t str, depth: Depth) -> Cow<'t, str> {
        let cleaned = self.with(|secrets| secrets.clean(text, depth)).flatten();
        cleaned.map_or(Cow::Borrowed(text), Cow::Owned)
    }

    /// Takes secrets out of a text.
    pub fn clean(&self, text: &mut String, depth: Depth) {
        if let Some(cleaned) = self.with(|secrets| secrets.clean(text, depth)).flatten() {
            *text = cleaned;
        }
    }

    /// Takes secrets out of every text of an event. What is no text (ids, hashes, kinds, what a provider wants back to the
    /// letter) stays as it is.
    pub fn event(&self, event: &mut Event) {
        if self.is_off() {
            return;
        }
        if let Event::MessageFinished { reply, .. } = event {
            self.own(&reply.parts);
        }
        event.each_text(&mut |voice, name, text| self.of_voice(voice, name, text));
    }

    /// Takes secrets out of an outcome.
    pub fn outcome(&self, outcome: &mut Outcome) {
        if !self.is_off() {
            of_outcome(outcome, &mut |voice, name, text| self.of_voice(voice, name, text));
        }
    }

    /// Takes secrets out of a JSON value, its names included.
    pub fn value(&self, value: &mut Value) {
        if !self.is_off() {
            each_text_of(value, Voice::World, &mut |voice, name, text| self.of_voice(voice, name, text));
        }
    }

    /// Takes secrets that are known out of a JSON value, its names included.
    pub fn known_value(&self, value: &mut Value) {
        if !self.is_off() {
            each_text_of(value, Voice::Model, &mut |voice, name, text| self.of_voice(voice, name, text));
        }
    }

    fn of_voice(&self, voice: Voice, name: Option<&str>, text: &mut String) {
        let depth = match voice {
            Voice::Model => Depth::Known,
            Voice::World => Depth::Everything,
        };
        self.clean(text, depth);
        if let (Some(name), Voice::World) = (name, voice) {
            self.clean_field(name, text);
        }
    }

    /// A field that is named like a secret holds one.
    fn clean_field(&self, name: &str, text: &mut String) {
        if let Some(found) = self.secret_field(name, text) {
            *text = found.placeholder;
        }
    }

    fn secret_field(&self, name: &str, text: &str) -> Option<Found> {
        let value = Value::from(text).to_string();
        let assignment = format!("{name}: {value}");
        let start = name.len() + 3;
        let is_whole = |found: &Found| found.start == start && found.end + 1 == assignment.len();
        self.find(assignment.as_bytes(), Depth::Everything).into_iter().find(is_whole)
    }

    /// Puts `mark` in the place of every secret of an event, whoever wrote it. Returns how many there were.
    pub fn redact_event(&self, event: &mut Event, mark: &str) -> usize {
        let mut count = 0;
        event.each_text(&mut |_, name, text| {
            count += self.redact(text, mark);
            if name.is_some_and(|name| text != mark && self.secret_field(name, text).is_some()) {
                mark.clone_into(text);
                count += 1;
            }
        });
        count
    }

    /// The same of a text.
    pub fn redact(&self, text: &mut String, mark: &str) -> usize {
        let mut found = self.find(text.as_bytes(), Depth::Everything);
        found.iter_mut().for_each(|found| mark.clone_into(&mut found.placeholder));
        if !found.is_empty() {
            *text = String::from_utf8_lossy(&replaced(text.as_bytes(), &found)).into_owned();
        }
        found.len()
    }

    /// The secrets in a text, in order.
    pub fn find(&self, text: &[u8], depth: Depth) -> Vec<Found> {
        self.with(|secrets| secrets.find(text, depth)).unwrap_or_default()
    }

    pub(super) fn with<T>(&self, act: impl FnOnce(&mut Secrets) -> T) -> Option<T> {
        self.0.as_ref().map(|secrets| act(&mut lock(secrets)))
    }

    /// A file as the model sees it.
    pub fn view(&self, content: &[u8]) -> View {
        let found = self.find(content, Depth::Everything);
        let secrets = found.iter().map(|found| (found.placeholder.clone(), content[found.start..found.end].to_vec()));
        View { secrets: secrets.collect(), content: replaced(content, &found) }
    }
}

impl View {
    /// Whether there are secrets in it.
    pub fn has_secrets(&self) -> bool {
        !self.secrets.is_empty()
    }

    /// A text of the model's with this file's own spelling of its placeholders: what counts is the tag.
    pub fn spelled<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let theirs = placeholders(text);
        if theirs.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut spelled = text.to_owned();
        for Placeholder { start, text } in theirs.into_iter().rev() {
            if let Some((own, _)) = self.secret(text) {
                spelled.replace_range(start..start + text.len(), own);
            }
        }
        Cow::Owned(spelled)
    }

    fn secret(&self, placeholder: &str) -> Option<&(String, Vec<u8>)> {
        let exact = self.secrets.iter().find(|(own, _)| own == placeholder);
        exact.or_else(|| self.secrets.iter().find(|(own, _)| tag_of(own) == tag_of(placeholder)))
    }

    /// A new content for this file, with the values of its placeholders. A placeholder that stands for nothing in this file
    /// was another file's: nothing is put in its place.
    pub fn restored(&self, content: &[u8]) -> Result<Vec<u8>, NotRestored> {
        let mut restored = Vec::with_capacity(content.len());
        let first = placeholder::first_byte();
        let mut at = 0;
        while at < content.len() {
            let mut rest = &content[at..];
            // Where the file has no secrets, only the whole placeholder of another is looked for.
            if !self.has_secrets() {
                let other = memchr(first, rest).unwrap_or(rest.len());
                restored.extend_from_slice(&rest[..other]);
                (at, rest) = (at + other, &rest[other..]);
            }
            if rest.is_empty() {
                break;
            }
            let length = if rest[0] == first { placeholder::length(rest) } else { None };
            match length {
                Some(length) => {
                    let text = String::from_utf8_lossy(&rest[..length]);
                    let (_, value) = self.secret(&text).ok_or_else(|| NotRestored::Foreign(text.to_string()))?;
                    restored.extend_from_slice(value);
                    at += length;
                }
                None if self.is_piece(rest) => return Err(NotRestored::Cut),
                None => {
                    restored.push(rest[0]);
                    at += 1;
                }
            }
        }
        Ok(restored)
    }

    /// Whether a piece of a placeholder of this file begins here: it was cut.
    fn is_piece(&self, rest: &[u8]) -> bool {
        /// The sign alone may be anybody's.
        const LEAST: usize = '›'.len_utf8() + 1;
        let ends = |own: &str| {
            own.char_indices()
                .skip(1)
                .map(|(at, _)| at)
                .any(|at| own.len() - at >= LEAST && rest.starts_with(&own.as_bytes()[at..]))
        };
        self.has_secrets() && placeholder::opens(rest) || self.secrets.iter().any(|(own, _)| ends(own))
    }
}

fn tag_of(placeholder: &str) -> Option<&str> {
    Some(placeholder.strip_suffix('›')?.rsplit_once(':')?.1)
}

impl fmt::Debug for Firewall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Firewall").field(&!self.is_off()).finish()
    }
}

fn lock(secrets: &Mutex<Secrets>) -> MutexGuard<'_, Secrets> {
    secrets.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Every string of a JSON value, names included.
fn each_string(value: &Value, see: &mut dyn FnMut(&str)) {
    match value {
        Value::String(text) => see(text),
        Value::Array(items) => items.iter().for_each(|item| each_string(item, see)),
        Value::Object(fields) => fields.iter().for_each(|(name, field)| {
            see(name);
            each_string(field, see);
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
