//! Bytes in both directions between a client and a host.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};

/// How long a connection may at least be silent in both directions; it is closed before twice that.
const IDLE_TIME: Duration = Duration::from_secs(300);
/// Bytes on their way in one direction.
const BUFFER_BYTES: usize = 16 << 10;

/// Passes on bytes until both sides have said all, one is gone, or both are silent for too long. The end of one direction is
/// passed on, too.
pub(super) async fn relay(client: &mut TcpStream, host: &mut TcpStream) -> io::Result<()> {
    let (from_client, to_client) = client.split();
    let (from_host, to_host) = host.split();
    let passed = AtomicU64::new(0);
    let both = async { tokio::try_join!(pass(from_client, to_host, &passed), pass(from_host, to_client, &passed)) };
    tokio::select! {
        ended = both => ended.map(drop),
        () = silence(&passed) => Err(io::ErrorKind::TimedOut.into()),
    }
}

async fn pass(mut from: ReadHalf<'_>, mut to: WriteHalf<'_>, passed: &AtomicU64) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..count]).await?;
        passed.fetch_add(count as u64, Ordering::Relaxed);
    }
}

/// Returns once nothing was passed on between two looks.
async fn silence(passed: &AtomicU64) {
    let mut before = passed.load(Ordering::Relaxed);
    loop {
        tokio::time::sleep(IDLE_TIME).await;
        let now = passed.load(Ordering::Relaxed);
        if now == before {
            return;
        }
        before = now;
    }
}
