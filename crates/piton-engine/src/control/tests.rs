//! Following a session whose writers come and go.

use super::{Follower, Incoming};
use crate::store::sqlite::{Journal, SessionDir, SqliteStore};
use crate::store::{Opening, Store};
use futures_util::FutureExt;
use piton_core::client::Published;
use piton_core::event::Event;
use piton_core::ids::SessionId;
use std::sync::{Arc, mpsc};
use tokio::runtime;

fn opening() -> Opening {
    Opening { pid: std::process::id(), boot_id: None, now_ms: 0, shares_runtime: false }
}

fn titled(title: &str) -> Event {
    Event::TitleGiven { title: title.to_owned(), by: piton_core::event::TitledBy::User }
}

/// The kind of what is heard next; `None` where the session is told to its end.
async fn heard(follower: &mut Follower) -> Option<&'static str> {
    match follower.next().await.expect("the session can be read") {
        Some(Incoming::Published(Published::Recorded(record))) => Some(record.event.kind()),
        Some(other) => panic!("only records can come: {other:?}"),
        None => None,
    }
}

#[test]
fn a_writer_that_comes_while_the_journal_is_read_is_followed_to_its_end() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (store, id) = (SqliteStore::new(folder.path()), SessionId::from("ses_1"));
    let dir = SessionDir::new(&folder.path().join("sessions"), &id);
    let mut journal = Journal::create(&dir, opening()).expect("a new session");
    let (session, workspace, version) = (id.clone(), "/work".to_owned(), "0.1.0".to_owned());
    journal.stage(0, Event::SessionStarted { session, workspace, version, parent: None });
    journal.commit().expect("it can be written");
    journal.close(0);

    // One thread for the disk, so that it is known when the follower reads.
    let runtime = runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    runtime.expect("a runtime").block_on(async {
        let (go, gate) = mpsc::channel::<()>();
        let busy = tokio::task::spawn_blocking(move || gate.recv());
        let store: Arc<dyn Store> = Arc::new(store);
        let mut follower = Follower::new(store, id, 1);
        let mut first = Box::pin(heard(&mut follower));
        assert_eq!((&mut first).now_or_never(), None, "nobody has the lock, and the read waits for its thread");

        let (mut journal, _) = Journal::open(&dir, opening()).expect("nobody has it");
        journal.stage(0, titled("begun"));
        journal.commit().expect("it can be written");
        go.send(()).expect("the thread waits");
        busy.await.expect("it does not panic").expect("it was let go");
        assert_eq!(first.await, Some("session_started"));
        for kind in ["writer_closed", "writer_opened", "title_given"] {
            assert_eq!(heard(&mut follower).await, Some(kind));
        }
        assert_eq!(heard(&mut follower).now_or_never(), None, "it is not over while somebody writes");

        journal.stage(0, titled("done"));
        journal.close(0);
        assert_eq!(heard(&mut follower).await, Some("title_given"));
        assert_eq!(heard(&mut follower).await, Some("writer_closed"));
        assert_eq!(heard(&mut follower).await, None);
    });
}
