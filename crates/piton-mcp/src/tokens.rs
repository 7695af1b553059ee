//! The tokens of servers that people have logged in to, and the registrations with those who issue them: one file of Piton's own,
//! readable by its owner alone, replaced whole.
//!
//! A token is for one server, hence kept by its address; a registration is with an issuer, and kept by that. Two locks: one for
//! changes of the file, and one for each server while its token is renewed, so that one process at a time does that.

use crate::keep;
use crate::surroundings::Surroundings;
use async_trait::async_trait;
use rmcp::transport::auth::{AuthError, CredentialRefreshGuard, CredentialStore, StoredCredentials};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;

/// A registration with an issuer.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Registration {
    pub(crate) client_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) client_secret: Option<String>,
    /// The address that the browser comes back to, as it was registered.
    pub(crate) redirect_uri: String,
}

#[derive(Default, Serialize, Deserialize)]
struct Kept {
    /// By the address of the server.
    #[serde(default)]
    tokens: BTreeMap<String, StoredCredentials>,
    /// By issuer.
    #[serde(default)]
    registrations: BTreeMap<String, Registration>,
    /// Scopes that a server has asked for since somebody logged in, by its address.
    #[serde(default)]
    wanted: BTreeMap<String, BTreeSet<String>>,
}

/// The tokens of one server.
#[derive(Debug, Clone)]
pub(crate) struct Tokens {
    folder: PathBuf,
    url: String,
}

impl Tokens {
    pub(crate) fn of(around: &Surroundings, url: &str) -> Self {
        Self { folder: around.folder.clone(), url: url.to_owned() }
    }

    /// Whether somebody has logged in.
    pub(crate) fn are_there(&self) -> bool {
        self.stored().is_some_and(|stored| stored.token_response.is_some())
    }

    pub(crate) fn stored(&self) -> Option<StoredCredentials> {
        self.read().tokens.remove(&self.url)
    }

    /// The token that requests are sent with.
    pub(crate) fn access_token(&self) -> Option<String> {
        // Its own way to it needs a trait of another crate.
        let kept = serde_json::to_value(self.stored()?.token_response?).ok()?;
        kept.get("access_token")?.as_str().map(str::to_owned)
    }

    /// The registration with an issuer.
    pub(crate) fn registration(&self, issuer: &str) -> Option<Registration> {
        self.read().registrations.remove(issuer)
    }

    pub(crate) fn keep_registration(&self, issuer: &str, registration: &Registration) -> io::Result<()> {
        self.change(|kept| drop(kept.registrations.insert(issuer.to_owned(), registration.clone())))
    }

    pub(crate) fn forget_registration(&self, issuer: &str) -> io::Result<()> {
        self.change(|kept| drop(kept.registrations.remove(issuer)))
    }

    /// Scopes that the server has asked for beside those of the token.
    pub(crate) fn wanted(&self) -> BTreeSet<String> {
        self.read().wanted.remove(&self.url).unwrap_or_default()
    }

    /// The server wants these, too; whoever logs in the next time asks for them.
    pub(crate) fn want(&self, scopes: &str) -> io::Result<()> {
        let scopes = scopes.split_whitespace().map(str::to_owned);
        self.change(|kept| kept.wanted.entry(self.url.clone()).or_default().extend(scopes))
    }

    /// Forgets the token. Answers whether there was one.
    pub(crate) fn forget(&self) -> io::Result<bool> {
        let mut was_there = false;
        self.change(|kept| {
            was_there = kept.tokens.remove(&self.url).is_some();
            kept.wanted.remove(&self.url);
        })?;
        Ok(was_there)
    }

    fn file(&self) -> PathBuf {
        self.folder.join("tokens.json")
    }

    /// What is kept; nothing where it cannot be read, which whoever changes it is told.
    fn read(&self) -> Kept {
        self.kept().unwrap_or_default()
    }

    fn kept(&self) -> io::Result<Kept> {
        let file = self.file();
        let kept =
            keep::read(&file).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", file.display())));
        Ok(kept?.unwrap_or_default())
    }

    fn change(&self, change: impl FnOnce(&mut Kept)) -> io::Result<()> {
        let _lock = keep::lock(&self.folder, "tokens.lock")?;
        let mut kept = self.kept()?;
        change(&mut kept);
        keep::replace(&self.file(), &serde_json::to_vec(&kept)?)
    }
}

fn failed(error: &io::Error) -> AuthError {
    AuthError::CredentialStoreError(error.to_string())
}

#[async_trait]
impl CredentialStore for Tokens {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        Ok(self.kept().map_err(|error| failed(&error))?.tokens.remove(&self.url))
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        self.change(|kept| drop(kept.tokens.insert(self.url.clone(), credentials))).map_err(|error| failed(&error))
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.forget().map(drop).map_err(|error| failed(&error))
    }

    async fn acquire_refresh_guard(&self) -> Result<Option<CredentialRefreshGuard>, AuthError> {
        let (tokens, name) = (self.clone(), format!("{}.lock", blake3::hash(self.url.as_bytes()).to_hex()));
        let locked = tokio::task::spawn_blocking(move || keep::lock(&tokens.folder, &name)).await;
        let locked = locked.map_err(|error| AuthError::CredentialStoreError(error.to_string()))?;
        locked.map(|file| Some(CredentialRefreshGuard::new(file))).map_err(|error| failed(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[tokio::test]
    async fn tokens_are_kept_for_their_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = |url: &str| Tokens { folder: folder.path().join("mcp"), url: url.to_owned() };
        let (one, other) = (tokens("https://one/mcp"), tokens("https://other/mcp"));
        let token = serde_json::json!({"access_token": "secret", "token_type": "bearer"});
        let stored =
            StoredCredentials::new("us".to_owned(), Some(serde_json::from_value(token).unwrap()), Vec::new(), None);
        one.save(stored).await.unwrap();
        assert!(one.are_there() && !other.are_there());
        let mode = std::fs::metadata(one.file()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        other.want("a b").unwrap();
        assert_eq!(other.wanted().len(), 2);
        assert!(one.forget().unwrap() && !one.forget().unwrap() && !one.are_there());
    }

    #[tokio::test]
    async fn tokens_that_cannot_be_read_are_not_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = Tokens { folder: folder.path().to_owned(), url: "https://one/mcp".to_owned() };
        std::fs::write(tokens.file(), "{").unwrap();
        let stored = StoredCredentials::new("us".to_owned(), None, Vec::new(), None);
        let error = tokens.save(stored).await.unwrap_err().to_string();
        assert!(error.contains("tokens.json"), "{error}");
        assert!(tokens.load().await.is_err() && tokens.forget().is_err());
        assert_eq!(std::fs::read_to_string(tokens.file()).unwrap(), "{");
    }
}
