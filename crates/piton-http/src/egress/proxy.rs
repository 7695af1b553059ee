//! The proxy at one listening socket: HTTP and SOCKS5, told apart by the first byte.

use super::client::{Refusals, in_time};
use super::{Egress, http, socks};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// Connections at once; the next ones wait. Each takes two descriptors of Piton's.
const MOST_CONNECTIONS: usize = 128;
/// After a failed `accept`, which may fail again at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// A proxy under way. Dropped, it ends, with every connection through it.
#[derive(Debug)]
pub struct Proxy {
    task: JoinHandle<()>,
    refusals: Arc<Refusals>,
}

impl Proxy {
    /// Serves whoever connects to this socket.
    pub fn start(egress: Arc<Egress>, listener: TcpListener) -> Self {
        let refusals = Arc::new(Refusals::default());
        let task = tokio::spawn(serve(listener, egress, Arc::clone(&refusals)));
        Self { task, refusals }
    }

    /// What it has refused, each once, as far as anybody would read it.
    pub fn refused(&self) -> Vec<String> {
        self.refusals.all()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, egress: Arc<Egress>, refusals: Arc<Refusals>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < MOST_CONNECTIONS => match accepted {
                Ok((client, _)) => {
                    let (egress, refusals) = (Arc::clone(&egress), Arc::clone(&refusals));
                    connections.spawn(async move { talk(client, &egress, &refusals).await });
                }
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
}

/// A connection that fails half-way is closed: its client sees that, and there is nobody else to tell.
async fn talk(client: TcpStream, egress: &Egress, refusals: &Refusals) -> io::Result<()> {
    let mut first = [0];
    if in_time(client.peek(&mut first)).await? == 0 {
        return Ok(());
    }
    match first[0] {
        socks::VERSION => socks::serve(client, egress, refusals).await,
        _ => http::serve(client, egress, refusals).await,
    }
}
