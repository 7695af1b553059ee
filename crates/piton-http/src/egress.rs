//! What leaves a sandbox: connections to hosts that a person opened, through a proxy in Piton's own process.
//!
//! ```text
//!   a client in the sandbox                  Egress                              the host
//!   CONNECT, absolute URL, SOCKS5 ────────▶ canonical host name
//!                                           listed? every address public?
//!                                           connect to the address that was checked ────▶
//!        ◀──────────────────── bytes, in both directions, untouched ────────────────────▶
//!   403 or "not allowed" ◀───────────────── not listed, or not public
//! ```
//!
//! The client is assumed to be hostile. What it names is made canonical once ([`host`]), looked up once, and the connection goes
//! to one of the addresses that were judged ([`address`]), so a second answer of the name's server changes nothing. Who the
//! client is, how its listening socket got here, and what is sent through a connection is not known here. What is not on the list may
//! be for somebody to judge ([`Judge`]). TLS passes through:
//! certificates are the client's to check.

pub mod address;
mod client;
pub mod host;
mod http;
mod proxy;
mod relay;
mod socks;
#[cfg(test)]
mod tests;

pub use host::{Host, HostError, HostRule, Place};
pub use proxy::Proxy;

use async_trait::async_trait;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;

/// How long a name may take to be looked up.
const LOOKUP_TIME: Duration = Duration::from_secs(10);
/// How long one address may take to answer.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// How many of a host's addresses are tried.
const MOST_ADDRESSES: usize = 4;

/// The hosts that are open, and how they are looked up.
#[derive(Clone)]
pub struct Egress {
    rules: Vec<HostRule>,
    resolver: Arc<dyn Resolver>,
    judge: Option<Arc<dyn Judge>>,
}

/// Says of each host whether it is open, which may take as long as a person takes to answer.
#[async_trait]
pub trait Judge: Send + Sync {
    /// Whether a host is open that is on the list, or is not.
    async fn opens(&self, place: &Place, is_listed: bool) -> bool;
}

/// Looks up hosts, and judges what it finds.
#[async_trait]
pub trait Resolver: Send + Sync {
    /// All addresses of a name.
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>>;

    /// Whether connections may go to this address.
    fn may_reach(&self, address: IpAddr) -> bool;
}

/// The machine's own resolver; public addresses only.
#[derive(Debug, Clone, Copy)]
pub struct SystemResolver;

#[async_trait]
impl Resolver for SystemResolver {
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((name, 0)).await?.map(|found| found.ip()).collect())
    }

    fn may_reach(&self, address: IpAddr) -> bool {
        address::is_public(address) && !address::is_of_this_machine(address)
    }
}

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EgressError {
    /// The client named something that is no host.
    #[error("connect: {0}")]
    NoHost(HostError),
    /// No rule opens it.
    #[error("connect to {0}; `--net {rule}` or `net = [\"{rule}\"]` in [sandbox] would open it", rule = .0.rule())]
    NotOpen(Place),
    /// Its name stands for the client's own machine, on every machine.
    #[error(
        "connect to {0} by way of the proxy: that is this machine, which no rule opens; a server in the sandbox is reached without the proxy"
    )]
    OwnMachine(Place),
    /// It has an address that is not public, whatever rule opens it.
    #[error("connect to {place}; its address {address} is not public, and no rule opens such addresses")]
    NotPublic {
        /// What was asked for.
        place: Place,
        /// The address.
        address: IpAddr,
    },
    /// It cannot be reached.
    #[error("cannot connect to {place}: {error}")]
    Unreachable {
        /// What was asked for.
        place: Place,
        /// Why.
        error: String,
    },
}

impl EgressError {
    /// Whether it was refused, not tried in vain.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            Self::NoHost(_) | Self::NotOpen(_) | Self::OwnMachine(_) | Self::NotPublic { .. } => true,
            Self::Unreachable { .. } => false,
        }
    }
}

impl Egress {
    /// Opens these hosts, and no others.
    pub fn new(rules: Vec<HostRule>) -> Self {
        Self::over(rules, Arc::new(SystemResolver))
    }

    /// The same with another way to look up and judge addresses.
    pub fn over(rules: Vec<HostRule>, resolver: Arc<dyn Resolver>) -> Self {
        Self { rules, resolver, judge: None }
    }

    /// The same hosts, where this has the last word on each.
    #[must_use]
    pub fn judged_by(&self, judge: Arc<dyn Judge>) -> Self {
        Self { judge: Some(judge), ..self.clone() }
    }

    /// What is open.
    pub fn rules(&self) -> &[HostRule] {
        &self.rules
    }

    /// Connects to a host, if it is open and every address it has may be reached.
    pub async fn connect(&self, place: &Place) -> Result<TcpStream, EgressError> {
        let not_public = |address| EgressError::NotPublic { place: place.clone(), address };
        // No rule can open such a one.
        if let Host::Address(address) = place.host
            && !self.resolver.may_reach(address)
        {
            return Err(not_public(address));
        }
        if place.host.is_own_machine() {
            return Err(EgressError::OwnMachine(place.clone()));
        }
        // A name that is not open is not even looked up: that, too, would tell somebody something.
        let is_listed = self.rules.iter().any(|rule| rule.opens(place));
        let is_open = match &self.judge {
            Some(judge) => judge.opens(place, is_listed).await,
            None => is_listed,
        };
        if !is_open {
            return Err(EgressError::NotOpen(place.clone()));
        }
        let unreachable = |error: String| EgressError::Unreachable { place: place.clone(), error };
        let addresses = match &place.host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => {
                let found = tokio::time::timeout(LOOKUP_TIME, self.resolver.addresses(name)).await;
                let found = found.map_err(|_| unreachable("the look-up of its name took too long".to_owned()))?;
                found.map_err(|error| unreachable(error.to_string()))?
            }
        };
        // One address that must not be reached speaks against the whole host: its owner chooses which of them is tried.
        if let Some(address) = addresses.iter().copied().find(|address| !self.resolver.may_reach(*address)) {
            return Err(not_public(address));
        }
        let mut error = "its name has no address".to_owned();
        for address in addresses.into_iter().take(MOST_ADDRESSES) {
            match tokio::time::timeout(CONNECT_TIME, TcpStream::connect((address, place.port))).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(failed)) => error = failed.to_string(),
                Err(_) => error = format!("no answer within {} s", CONNECT_TIME.as_secs()),
            }
        }
        Err(unreachable(error))
    }
}

impl fmt::Debug for Egress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Egress").field("rules", &self.rules).finish_non_exhaustive()
    }
}

impl PartialEq for Egress {
    /// The same hosts are open, and the same resolver and judge are asked.
    fn eq(&self, other: &Self) -> bool {
        let is_same_judge = match (&self.judge, &other.judge) {
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            (own, other) => own.is_none() && other.is_none(),
        };
        self.rules == other.rules && Arc::ptr_eq(&self.resolver, &other.resolver) && is_same_judge
    }
}

impl Eq for Egress {}
