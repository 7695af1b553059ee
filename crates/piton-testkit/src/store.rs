//! What every [`Store`] keeps: one suite, run by the tests of each implementation.
//!
//! An implementation shows the suite a [`Stage`]: an empty store. What only some can suffer (a full disk, a file that was
//! changed) is in their own tests.

use futures_util::FutureExt;
use piton_core::event::{Delivery, Event, Record, Spent, TitledBy, TurnEnd};
use piton_core::ids::{MessageId, Seq, SessionId};
use piton_core::message::Part;
use piton_core::policy::Policy;
use piton_engine::store::{Activity, CheckResult, Kept, Log, Opening, Store, StoreError, Summary};
use std::sync::Arc;

/// Where an implementation is tested.
pub trait Stage: Sync {
    /// Another process's view of the sessions: nothing is remembered, everything is found.
    fn store(&self) -> Arc<dyn Store>;

    /// What openings say of the caller's thread.
    fn shares_runtime(&self) -> bool;

    /// The writer of this session loses its lock or lease and does not know.
    fn expire(&self, id: &SessionId);
}

/// Runs the whole suite. Panics at the first promise that is not kept, and names it.
pub async fn conforms(stage: &dyn Stage) {
    what_was_appended_is_read_back_in_pages(stage).await;
    a_large_body_comes_back_whole(stage).await;
    a_session_begins_with_its_first_append(stage).await;
    events_that_do_not_follow_are_refused(stage).await;
    what_was_handed_in_twice_is_written_once(stage).await;
    a_second_writer_is_told_who_has_it(stage).await;
    who_opens_it_next_is_the_next_epoch_and_reads_the_same(stage).await;
    a_writer_that_lost_its_lease_is_fenced(stage).await;
    an_id_is_given_once(stage).await;
    what_happened_elsewhere_is_adopted_whole_or_not_at_all(stage).await;
    a_summary_says_what_the_events_say(stage).await;
}

async fn what_was_appended_is_read_back_in_pages(stage: &dyn Stage) {
    let scene = Scene::new(stage, "pages");
    let mut log = scene.create().await;
    let written: Vec<Arc<Record>> = (1..=700).map(|seq| scene.record(seq)).collect();
    for some in [&written[..1], &written[1..3], &written[3..3], &written[3..]] {
        log.append(some).await.expect("it is appended");
        assert_eq!(log.head(), some.last().map_or(3, |last| last.seq), "the head is the last of them");
    }
    let (store, id) = (stage.store(), &scene.id);
    let mut read = Vec::new();
    loop {
        let page = store.read(id, read.len() as Seq + 1, 300).await.expect("a page");
        if page.is_empty() {
            break;
        }
        assert!(page.len() <= 300, "no more than asked for");
        read.extend(page);
    }
    assert!(read.iter().eq(written.iter().map(AsRef::as_ref)), "all of it, in order, beside its writer");
    assert_eq!(store.read(id, 0, 2).await.expect("a page"), read[..2], "there is nothing before the first");
    assert_eq!(store.read(id, 2, 0).await.expect("a page"), [], "nothing asked, nothing read");
    assert_eq!(scene.each().await, read, "one by one the same");
    let spoken = store.of_kinds(id, &["user_spoke", "session_started"]).await.expect("some");
    assert_eq!(spoken, [&read[1..], &read[..1]].concat(), "by kind, in order within each");
    assert_eq!(store.of_kinds(id, &["turn_ended"]).await.expect("none"), [], "of a kind that did not happen");
    assert_eq!(store.verify(id).await.expect("a verdict"), CheckResult::Sound { events: 700 }, "every event is sound");
    drop(log);
    let salvage = store.salvage(id).await.expect("readable").expect("a session");
    assert_eq!((salvage.records, salvage.lost, salvage.altered), (read, vec![], vec![]), "nothing needs repair");
}

async fn a_large_body_comes_back_whole(stage: &dyn Stage) {
    let scene = Scene::new(stage, "large");
    let mut log = scene.create().await;
    let large = |seq, bytes: usize| Arc::new(Record { seq, at_ms: seq, event: said("🐍".repeat(bytes / 4)) });
    let written = [scene.record(1), large(2, 64 << 10), large(3, 3 << 20), scene.record(4)];
    log.append(&written).await.expect("it is appended");
    assert!(scene.each().await.iter().eq(written.iter().map(AsRef::as_ref)), "every byte");
    let page = stage.store().read(&scene.id, 3, 1).await.expect("a page");
    assert!(page == [(*written[2]).clone()], "alone, too");
    assert_eq!(stage.store().verify(&scene.id).await.expect("a verdict"), CheckResult::Sound { events: 4 });
}

async fn a_session_begins_with_its_first_append(stage: &dyn Stage) {
    let scene = Scene::new(stage, "unborn");
    let store = stage.store();
    assert!(matches!(scene.open().await, Err(StoreError::NotFound { .. })), "there is none");
    assert!(matches!(store.summary(&scene.id).await, Err(StoreError::NotFound { .. })), "nor a summary");
    assert!(matches!(store.read(&scene.id, 1, 9).await, Err(StoreError::NotFound { .. })), "nor an event");
    assert_eq!(store.holder(&scene.id).await, None, "nobody has it");
    let log = scene.create().await;
    assert_eq!((log.head(), log.epoch()), (0, 1), "it is empty, and this is its first writer");
    assert_eq!(store.read(&scene.id, 1, 9).await.expect("a page"), [], "what was not appended is not read");
    assert!(matches!(store.summary(&scene.id).await, Err(StoreError::NotFound { .. })), "it is no session yet");
    let twice = store.create(&scene.id, opening(stage)).await.map(drop);
    assert!(matches!(twice, Err(StoreError::Taken { .. })), "its id is taken while it may begin: {twice:?}");
    drop(log);
    assert!(matches!(scene.open().await, Err(StoreError::NotFound { .. })), "and never was one");
    drop(scene.create().await);
    let records = vec![Arc::unwrap_or_clone(scene.record(1))];
    store.adopt(&scene.id, opening(stage), records).await.expect("so its id is free");
    assert_eq!(scene.each().await.len(), 1, "for another");
}

async fn events_that_do_not_follow_are_refused(stage: &dyn Stage) {
    let scene = Scene::new(stage, "misplaced");
    let mut log = scene.create().await;
    let unbegun = Arc::new(Record { seq: 1, at_ms: 1, event: said("first".to_owned()) });
    misplaced(log.append(&[unbegun]).await, 0, "the first begins the session");
    log.append(&[scene.record(1), scene.record(2)]).await.expect("it is appended");
    misplaced(log.append(&[scene.record(4)]).await, 2, "no place is empty");
    misplaced(log.append(&[scene.record(3), scene.record(5)]).await, 2, "nor between two of them");
    misplaced(log.append(&[scene.record(3), scene.record(3)]).await, 2, "no place is taken twice");
    let other = Arc::new(Record { seq: 2, at_ms: 2, event: said("other".to_owned()) });
    misplaced(log.append(&[other, scene.record(3)]).await, 2, "what is written is not changed");
    assert_eq!((log.head(), scene.each().await.len()), (2, 2), "nothing of all that was written");
    log.append(&[scene.record(3)]).await.expect("and the right one is");
    assert_eq!((log.head(), scene.each().await.len()), (3, 3));
}

async fn what_was_handed_in_twice_is_written_once(stage: &dyn Stage) {
    let scene = Scene::new(stage, "again");
    let mut log = scene.create().await;
    let written: Vec<Arc<Record>> = (1..=6).map(|seq| scene.record(seq)).collect();
    log.append(&written[..1]).await.expect("it is appended");
    // Dropped half-way, wherever that is: it may have been written, it may still be.
    drop(log.append(&written[1..4]).now_or_never());
    log.append(&written[1..5]).await.expect("the same, and one behind them");
    assert_eq!(log.head(), 5, "each counts once");
    log.append(&written[1..5]).await.expect("as if its answer was lost");
    log.append(&written[5..]).await.expect("it goes on behind them");
    assert!(scene.each().await.iter().eq(written.iter().map(AsRef::as_ref)), "each is there once");
}

async fn a_second_writer_is_told_who_has_it(stage: &dyn Stage) {
    let scene = Scene::new(stage, "busy");
    let log = scene.begin().await;
    let Err(StoreError::Busy { holder }) = scene.open().await else { panic!("one writer at a time") };
    assert!(holder.0.as_ref().is_some_and(|name| name.contains("4711")), "who that is: {holder:?}");
    assert_eq!(stage.store().holder(&scene.id).await, Some(holder), "as whoever looks is told");
    assert_eq!(scene.each().await.len(), 2, "reading needs no lock, and who was refused left nothing");
    log.close(&[scene.record(3)]).await.expect("its last event is written");
    assert_eq!(stage.store().holder(&scene.id).await, None, "nobody has it any more");
    assert_eq!(scene.each().await.last(), Some(&*scene.record(3)), "what was said last is kept");
    let (log, _) = scene.open().await.expect("it is free");
    log.close(&[]).await.expect("who has nothing more to say can leave");
    let scene = Scene::new(stage, "brief");
    scene.create().await.close(&[scene.record(1), scene.record(2)]).await.expect("all of a session at once");
    assert_eq!(scene.each().await.len(), 2);
}

async fn who_opens_it_next_is_the_next_epoch_and_reads_the_same(stage: &dyn Stage) {
    let scene = Scene::new(stage, "epochs");
    drop(scene.begin().await);
    let mut before = scene.each().await;
    for epoch in 2..5 {
        let (mut log, visited) = scene.open().await.expect("dropping it lets others write");
        let seq = before.len() as Seq + 1;
        before.push(Record { seq, at_ms: 50, event: opening(stage).event(epoch) });
        assert_eq!(visited, before, "what was there, and that it was opened");
        assert_eq!(scene.each().await, before, "which is durable");
        assert_eq!((log.epoch(), log.head()), (epoch, seq), "who writes now");
        let next = scene.record(seq + 1);
        log.append(&[Arc::clone(&next)]).await.expect("it goes on");
        before.push(Arc::unwrap_or_clone(next));
    }
}

async fn a_writer_that_lost_its_lease_is_fenced(stage: &dyn Stage) {
    let scene = Scene::new(stage, "fenced");
    let mut sleeper = scene.begin().await;
    stage.expire(&scene.id);
    let (mut heir, _) = scene.open().await.expect("nobody seems to be there");
    for _ in 0..2 {
        let late = sleeper.append(&[scene.record(3)]).await;
        assert!(matches!(late, Err(StoreError::Fenced { kept: Kept(2) })), "{late:?}");
    }
    drop(sleeper);
    assert!(matches!(scene.open().await, Err(StoreError::Busy { .. })), "its end does not free what it lost");
    heir.append(&[scene.record(4)]).await.expect("the heir goes on");
    assert_eq!(scene.each().await.len(), 4, "nothing of the sleeper was written");
}

async fn an_id_is_given_once(stage: &dyn Stage) {
    let scene = Scene::new(stage, "taken");
    let log = scene.begin().await;
    let taken = |made: Result<(), StoreError>, when: &str| {
        assert!(matches!(&made, Err(StoreError::Taken { id }) if *id == scene.id), "{when}: {made:?}");
    };
    let store = stage.store();
    taken(store.create(&scene.id, opening(stage)).await.map(drop), "while it is written");
    drop(log);
    taken(store.create(&scene.id, opening(stage)).await.map(drop), "afterwards");
    let records = vec![Arc::unwrap_or_clone(scene.record(1))];
    taken(store.adopt(&scene.id, opening(stage), records).await, "by another's events");
    assert_eq!(scene.each().await.len(), 2, "and it is what it was");
}

async fn what_happened_elsewhere_is_adopted_whole_or_not_at_all(stage: &dyn Stage) {
    let scene = Scene::new(stage, "adopted");
    let store = stage.store();
    let mut records = [scene.record(1), scene.record(2), scene.record(3)].map(Arc::unwrap_or_clone).to_vec();
    records[1].event = opening(stage).event(7);
    let gap = vec![records[0].clone(), records[2].clone()];
    misplaced(store.adopt(&scene.id, opening(stage), gap).await, 0, "no place is empty");
    assert!(matches!(store.summary(&scene.id).await, Err(StoreError::NotFound { .. })), "nothing is left of it");
    store.adopt(&scene.id, opening(stage), records.clone()).await.expect("a new session");
    assert_eq!(scene.each().await, records, "in their places and with their times");
    assert_eq!(store.holder(&scene.id).await, None, "it is closed");
    let (log, _) = scene.open().await.expect("it can be opened");
    assert_eq!(log.epoch(), 8, "behind every writer that the events name");
}

async fn a_summary_says_what_the_events_say(stage: &dyn Stage) {
    let scene = Scene::new(stage, "summary");
    let mut log = scene.create().await;
    let turn = Event::TurnStarted {
        turn: 1,
        model: "fake/a".to_owned(),
        fallbacks: vec!["fake/b".to_owned()],
        policy: Box::new(Policy::piton()),
        compact_at_tokens: None,
        this_turn_only: false,
    };
    let title = Event::TitleGiven { title: "A name".to_owned(), by: TitledBy::User };
    let ended = Event::TurnEnded { turn: 1, end: TurnEnd::Completed, why: None, detail: None, spent: Spent::default() };
    let mut prompt = said(" Say\n  it ".to_owned());
    if let Event::UserSpoke { parts, .. } = &mut prompt {
        parts.push(Part::text("<stdin>what was piped in beside it</stdin>"));
    }
    let first = [scene.started(), opening(stage).event(1), prompt, turn];
    log.append(&numbered(1, first)).await.expect("it is appended");
    let mut expected = Summary {
        id: scene.id.clone(),
        workspace: "/w".to_owned(),
        version: "0.1".to_owned(),
        title: "Say it".to_owned(),
        model: Some("fake/a,fake/b".to_owned()),
        created_ms: 100,
        updated_ms: 400,
        turns: 1,
        steps: 0,
        cost_micros: None,
        unpriced_calls: 0,
        status: Activity::Running,
        last_end: None,
        parent: None,
    };
    let store = stage.store();
    assert_eq!(store.summary(&scene.id).await.expect("a summary"), expected, "in a turn");
    let nameless = Event::TitleGiven { title: String::new(), by: TitledBy::User };
    log.append(&numbered(5, [title.clone(), nameless])).await.expect("it is appended");
    assert_eq!(store.summary(&scene.id).await.expect("a summary"), expected, "without a name it is the prompt's words");
    log.append(&numbered(7, [ended, title, Event::WriterClosed {}])).await.expect("it is appended");
    (expected.status, expected.last_end) = (Activity::Idle, Some(TurnEnd::Completed));
    (expected.title, expected.updated_ms) = ("A name".to_owned(), 700);
    assert_eq!(store.summary(&scene.id).await.expect("a summary"), expected, "its name and its end are no work on it");
    drop(log);
    drop(scene.open().await.expect("it is free"));
    assert_eq!(store.summary(&scene.id).await.expect("a summary"), expected, "nor is opening it");
}

/// A session of the suite.
struct Scene<'s> {
    stage: &'s dyn Stage,
    id: SessionId,
}

impl<'s> Scene<'s> {
    fn new(stage: &'s dyn Stage, name: &str) -> Self {
        Self { stage, id: SessionId(format!("ses_{name}")) }
    }

    async fn create(&self) -> Box<dyn Log> {
        self.stage.store().create(&self.id, opening(self.stage)).await.expect("a new session")
    }

    /// The session with two events.
    async fn begin(&self) -> Box<dyn Log> {
        let mut log = self.create().await;
        log.append(&[self.record(1), self.record(2)]).await.expect("it is appended");
        log
    }

    /// The session's next writer, and what it is shown.
    async fn open(&self) -> Result<(Box<dyn Log>, Vec<Record>), StoreError> {
        let mut visited = Vec::new();
        let visit = &mut |record: &mut Record| visited.push(record.clone());
        let log = self.stage.store().open(&self.id, opening(self.stage), visit).await?;
        Ok((log, visited))
    }

    /// All that is durable.
    async fn each(&self) -> Vec<Record> {
        let mut records = Vec::new();
        let visit = &mut |record: &mut Record| records.push(record.clone());
        self.stage.store().each(&self.id, visit).await.expect("a readable session");
        records
    }

    /// What stands at this place, in this suite.
    fn record(&self, seq: Seq) -> Arc<Record> {
        let event = if seq == 1 { self.started() } else { said(format!("word {seq}")) };
        Arc::new(Record { seq, at_ms: 10 * seq, event })
    }

    fn started(&self) -> Event {
        let (workspace, version) = ("/w".to_owned(), "0.1".to_owned());
        Event::SessionStarted { session: self.id.clone(), workspace, version, parent: None }
    }
}

fn opening(stage: &dyn Stage) -> Opening {
    let boot_id = Some("boot".to_owned());
    Opening { pid: 4711, boot_id, now_ms: 50, shares_runtime: stage.shares_runtime() }
}

fn said(text: String) -> Event {
    Event::UserSpoke {
        message: MessageId::from("msg_1"),
        parts: vec![Part::text(text)],
        delivery: Delivery::Steer,
        typed: None,
        allows: Vec::new(),
        for_turn: None,
        subtask: None,
    }
}

/// These events from this place on, a tenth of a second apart.
fn numbered(from: Seq, events: impl IntoIterator<Item = Event>) -> Vec<Arc<Record>> {
    let record = |(seq, event)| Arc::new(Record { seq, at_ms: 100 * seq, event });
    (from..).zip(events).map(record).collect()
}

/// It was refused, with this much durable.
fn misplaced(done: Result<(), StoreError>, durable: Seq, promise: &str) {
    let error = done.expect_err(promise);
    assert!(matches!(error, StoreError::Misplaced { kept: Kept(seq), .. } if seq == durable), "{promise}: {error}");
}
