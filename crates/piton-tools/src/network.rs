//! The network of one sandbox, from outside: takes the socket that the sandbox hands out, and connects whoever comes there to
//! the hosts that are open.
//!
//! ```text
//!   first process ── listening socket ──▶ runner ── its stdin, a socket ──▶ Outlet ──▶ Proxy
//!   of a sandbox                                                            (Piton's process)
//! ```
//!
//! Nobody else holds that socket, so with this, or with Piton's process, connections are cut and new ones refused. What
//! is open is [`Egress`]'s to know.

use piton_http::egress::{Egress, Proxy};
use piton_sandbox::{SharedNetwork, receive_descriptor};
use std::ffi::OsString;
use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::{Arc, OnceLock};
use tokio::io::Interest;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::task::JoinHandle;

/// Variables by which programs are told of the proxy. Most know the small or the large ones.
const PROXY_VARIABLES: [&str; 6] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];
/// What is reached without it: servers in the sandbox.
const PAST_PROXY: &str = "localhost,127.0.0.1,::1,0.0.0.0";
/// Without it, Node's `fetch` does not look at the others.
const NODE: (&str, &str) = ("NODE_USE_ENV_PROXY", "1");

/// What a command in a sandbox with a proxy has in its environment besides.
pub(crate) fn variables(port: u16) -> impl Iterator<Item = (OsString, OsString)> {
    let proxy = format!("http://127.0.0.1:{port}");
    let proxies = PROXY_VARIABLES.into_iter().map(move |name| (name, proxy.clone()));
    let past = ["NO_PROXY", "no_proxy"].map(|name| (name, PAST_PROXY.to_owned()));
    let node = (NODE.0, NODE.1.to_owned());
    proxies.chain(past).chain([node]).map(|(name, value)| (name.into(), value.into()))
}

/// A standard input by which a runner hears of us, and hands the socket over: its end and ours. It hears first of the network
/// that its sandbox is to have, if one is given.
pub(crate) fn channel(shared: Option<&SharedNetwork>) -> io::Result<(Stdio, OwnedReadHalf, OwnedWriteHalf)> {
    let (ours, theirs) = UnixStream::pair()?;
    shared.map_or(Ok(()), |shared| shared.send(&ours))?;
    ours.set_nonblocking(true)?;
    let (hears, tells) = tokio::net::UnixStream::from_std(ours)?.into_split();
    Ok((std::os::fd::OwnedFd::from(theirs).into(), hears, tells))
}

/// The hosts that are open to one command, while it runs. Dropped, they are closed.
#[derive(Debug)]
pub struct Outlet {
    task: JoinHandle<()>,
    proxy: Arc<OnceLock<Proxy>>,
}

impl Outlet {
    /// Waits for the socket, and serves it from then on.
    pub(crate) fn start(egress: Arc<Egress>, channel: OwnedReadHalf) -> Self {
        let proxy = Arc::new(OnceLock::new());
        let started = Arc::clone(&proxy);
        let task = tokio::spawn(async move {
            // Without it the command's connections are refused, which is what it is told then.
            if let Ok(Some(listener)) = taken(&channel).await {
                let _ = started.set(Proxy::start(egress, listener));
            }
        });
        Self { task, proxy }
    }

    /// What was refused, for people and the model: a sentence each.
    pub fn refused(&self) -> Vec<String> {
        let refused = self.proxy.get().map(Proxy::refused).unwrap_or_default();
        refused.into_iter().map(|what| format!("network: refused to {what}")).collect()
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn taken(channel: &OwnedReadHalf) -> io::Result<Option<tokio::net::TcpListener>> {
    let channel: &tokio::net::UnixStream = channel.as_ref();
    let Some(socket) = channel.async_io(Interest::READABLE, || receive_descriptor(channel)).await? else {
        return Ok(None);
    };
    let listener = TcpListener::from(socket);
    listener.set_nonblocking(true)?;
    tokio::net::TcpListener::from_std(listener).map(Some)
}
