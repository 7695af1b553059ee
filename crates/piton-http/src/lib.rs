//! HTTP for whatever in Piton talks over the network: model providers, the trace collector, the tool `web_fetch`, later MCP.
//!
//! [`egress`] is the other direction of trust: the proxy by which commands in a sandbox reach the hosts that a person opened.
//!
//! It knows addresses, proxies, certificates, silence and server-sent events; it knows no provider, no key and no model.
//! Nothing here retries, and nothing reads the environment. Modules in reading order.

pub mod options;
pub mod http;
mod tls;
pub mod error;
pub mod sse;
pub mod egress;
pub mod page;

pub use error::HttpError;
pub use http::{Answer, Http, client, failure, fetch, pinned, post_json};
pub use options::{HttpOptions, Proxies};
pub use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
pub use reqwest::{Client, Response, StatusCode, Url};
pub use tls::Roots;
