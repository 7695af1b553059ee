//! Why there is no sandbox.

use std::io;

/// Why there is no sandbox. Nothing ran.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The kernel gives no namespaces to this user.
    #[error("the system does not let this user make namespaces: {0}")]
    Namespaces(#[source] io::Error),
    /// A layer could not be put on.
    #[error("{layer} cannot be set up: {error}")]
    Layer {
        /// Which.
        layer: &'static str,
        /// Why.
        error: String,
    },
    /// The first process could not be started, or is gone.
    #[error("the sandbox cannot be started, and nothing ran: {0}")]
    First(#[source] io::Error),
    /// Nobody took the socket of its network.
    #[error("the sandbox's way to the network cannot be handed over, and nothing ran: {0}")]
    Proxy(#[source] io::Error),
}
