//! What is the same for every client, whatever it speaks: how long it may take to say what it wants, and the list of what it
//! was refused.

use super::EgressError;
use std::collections::BTreeSet;
use std::future::Future;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long a client may take to say what it wants.
const REQUEST_TIME: Duration = Duration::from_secs(10);
/// Refusals that are kept for people and the model to read.
const MOST_REFUSALS: usize = 20;

/// What was refused.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<BTreeSet<String>>);

impl Refusals {
    /// Each once, as far as anybody would read it.
    pub(super) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    pub(super) fn note(&self, error: &EgressError) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if error.is_refusal() && all.len() < MOST_REFUSALS {
            all.insert(error.to_string());
        }
    }
}

/// Whatever the client says before it is connected, it must say in time.
pub(super) async fn in_time<T>(said: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(REQUEST_TIME, said).await.map_err(|_| io::ErrorKind::TimedOut)?
}
