//! Redaction of exports: what [`piton_core::secrets`] knows or takes for a secret, whoever wrote it, the model included. It
//! cannot find a secret that looks like an ordinary word.

use piton_core::event::Record;
use piton_core::secrets::{Firewall, Secrets};
use std::sync::Arc;

/// What stands in a secret's place. One that the journal never had stays as the placeholder that it has there.
pub const MARK: &str = "[redacted]";

/// Takes secrets out.
pub struct Redactor {
    firewall: Firewall,
    /// How many were taken out.
    pub found: usize,
}

impl Redactor {
    /// Knows what secrets look like, and these by name and value.
    pub fn new(values: impl IntoIterator<Item = (String, String)>) -> Self {
        // No tag is shown.
        let firewall = Firewall::new(Secrets::new(Arc::new(|_| 0)));
        values.into_iter().for_each(|(name, value)| firewall.know_key(&name, &value));
        Self { firewall, found: 0 }
    }

    /// The same events without the secrets.
    pub fn records(&mut self, records: &[Record]) -> Vec<Record> {
        let mut redacted = records.to_vec();
        for record in &mut redacted {
            self.found += self.firewall.redact_event(&mut record.event, MARK);
        }
        redacted
    }

    /// The same text without the secrets.
    pub fn text(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        self.found += self.firewall.redact(&mut text, MARK);
        text
    }
}
