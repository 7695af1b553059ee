//! What lets requests in, and how it is had anew: a key that a command prints, and keys that a cloud lends, end after an
//! hour, and a session may take longer. Then the server refuses, and what it is refused with is fetched once more.
//!
//! Where it is from (a command, a process, a file) is the caller's business.

use crate::credentials::Credentials;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A key, or what stands in for one.
#[derive(Clone, Default, PartialEq)]
pub struct Pass {
    /// The key.
    pub key: Option<String>,
    /// What stands in for it.
    pub credentials: Option<Credentials>,
}

/// Fetches a pass anew from where it came. It may take its time, and is called where that keeps nobody else waiting.
/// `None`: there is none any more.
#[derive(Clone)]
pub struct Renewal(Arc<dyn Fn() -> Option<Pass> + Send + Sync>);

impl Renewal {
    /// One that does this.
    pub fn new(fetch: impl Fn() -> Option<Pass> + Send + Sync + 'static) -> Self {
        Self(Arc::new(fetch))
    }
}

impl PartialEq for Renewal {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Renewal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[renewal]")
    }
}

/// The pass in use, and those before it, which are nobody's business either.
pub(crate) struct Passes {
    renewal: Option<Renewal>,
    all: Mutex<Vec<Pass>>,
}

impl Passes {
    pub(crate) fn new(first: Pass, renewal: Option<Renewal>) -> Self {
        Self { renewal, all: Mutex::new(vec![first]) }
    }

    pub(crate) fn now(&self) -> Pass {
        self.all().last().cloned().unwrap_or_default()
    }

    /// What must not be shown of any of them.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let of_pass = |pass: &Pass| {
            pass.key.iter().cloned().chain(pass.credentials.iter().flat_map(Credentials::secrets)).collect::<Vec<_>>()
        };
        self.all().iter().flat_map(of_pass).collect()
    }

    pub(crate) fn can_be_renewed(&self) -> bool {
        self.renewal.is_some()
    }

    /// Whether there is another than the one that was refused: fetched by somebody in the meantime, or now.
    pub(crate) async fn renewed(&self, refused: &Pass) -> bool {
        let Some(Renewal(fetch)) = self.renewal.clone() else { return false };
        if self.now() != *refused {
            return true;
        }
        let Ok(Some(new)) = tokio::task::spawn_blocking(move || fetch()).await else { return false };
        let is_other = new != *refused;
        if is_other {
            self.all().push(new);
        }
        is_other
    }

    fn all(&self) -> MutexGuard<'_, Vec<Pass>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
