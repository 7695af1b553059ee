//! Why settings could not be assembled.

use super::notice::chain;
use super::trouble::Trouble;
use crate::config::NoPreset;
use crate::config::layers::LayerError;
use crate::config::trust::TrustError;
use piton_models::provider::OpenError;

/// One variant for each thing that a client does about it.
#[derive(Debug, thiserror::Error)]
pub enum AssembleError {
    /// The configuration makes no sense.
    #[error(transparent)]
    Layers(#[from] LayerError),
    /// The list of what is trusted cannot be used.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// There is no such preset.
    #[error(transparent)]
    Preset(#[from] NoPreset),
    /// What a repository brings along is not what was trusted, and nobody would see that.
    #[error("{0}")]
    Changed(String),
    /// The model cannot be asked.
    #[error(transparent)]
    Model(#[from] OpenError),
    /// What was named is neither a provider nor a model, and models have names like it.
    #[error("there is no model `{name}`")]
    UnknownModel {
        /// What was named.
        name: String,
        /// Those that may be meant.
        near: Vec<String>,
    },
    /// No model was named, and none was found.
    #[error("no model to ask: no key and no local server was found")]
    NoModel,
    /// No model was named, and the server whose address is set has several.
    #[error("which model of {server}? It has {}", .models.join(", "))]
    WhichModel {
        /// Its address.
        server: String,
        /// They, as `provider/name`.
        models: Vec<String>,
    },
    /// No model was named, and the server whose address is set does not list its models.
    #[error("{server} does not list its models ({why})")]
    NoList {
        /// Its address.
        server: String,
        /// Why.
        why: String,
    },
    /// A limit in dollars for a model without a known price.
    #[error("{limit} needs a price for {model}, which is not known")]
    NoPrice {
        /// Its flag.
        limit: &'static str,
        /// Its name.
        model: String,
    },
    /// Nobody is there to be asked about commands that nothing confines.
    #[error("no sandbox can be made here ({why}), so nothing was started")]
    NoSandbox {
        /// Why.
        why: String,
    },
    /// A file, a program or the keyring failed.
    #[error(transparent)]
    Outside(#[from] Trouble),
}

impl AssembleError {
    /// It with all its causes, in one line.
    pub fn chain(&self) -> String {
        chain(self)
    }
}
