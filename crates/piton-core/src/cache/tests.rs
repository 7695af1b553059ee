//! The ledger as specifications: requests and what the provider said of them, as records.

use super::*;
use crate::event::{ChangedBy, Configure, Trigger};
use crate::message::{FinishReason, Part};
use crate::model::Reply;
use crate::policy::Policy;
use serde_json::json;

/// A session of a model that bills what it is told to.
#[derive(Default)]
struct Desk {
    ledger: CacheLedger,
    records: Vec<Record>,
    now_ms: TimeMs,
}

impl Desk {
    fn new(model: &str) -> Self {
        let mut desk = Self::default();
        desk.turn(model);
        desk
    }

    fn turn(&mut self, model: &str) {
        let policy = Box::new(Policy::piton());
        self.record(Event::TurnStarted {
            turn: 1,
            model: model.into(),
            fallbacks: vec![],
            policy,
            compact_at_tokens: None,
            this_turn_only: false,
        });
    }

    fn record(&mut self, event: Event) -> Option<Reading> {
        let record = Record { seq: self.records.len() as Seq + 1, at_ms: self.now_ms, event };
        self.records.push(record.clone());
        self.ledger.apply(&record)
    }

    /// Asks with these segments, each of 1,000 bytes; the provider counts so many tokens and reads so many of them.
    fn ask(&mut self, segments: &[u64], input_tokens: u64, cache_read_tokens: u64) -> Reading {
        self.ask_as(StepKind::Ordinary, segments, input_tokens, cache_read_tokens)
    }

    fn ask_as(&mut self, kind: StepKind, segments: &[u64], input_tokens: u64, cache_read_tokens: u64) -> Reading {
        self.record(Event::StepStarted { step: 1, kind, note: None });
        let prompt = Box::new(self.ledger.compare(&row(segments)));
        let usage = Usage { input_tokens, cache_read_tokens, output_tokens: 1, ..Usage::default() };
        let reply = Reply { usage, ..Reply::new(vec![Part::text("x")], FinishReason::Stop) };
        let (cost_micros, at_most, prompt) = (None, None, Some(prompt));
        self.record(Event::MessageFinished { step: 1, attempt: 1, reply, cost_micros, at_most, prompt, first_ms: None })
            .expect("a reply makes an entry")
    }
}

/// A frame, and messages of two in turn.
fn row(hashes: &[u64]) -> Vec<Segment> {
    let kind = |at| match at {
        0 => SegmentKind::Frame,
        at if at % 2 == 1 => SegmentKind::User,
        _ => SegmentKind::Assistant,
    };
    hashes.iter().enumerate().map(|(at, &hash)| Segment { kind: kind(at), hash, bytes: 1_000 }).collect()
}

#[test]
fn a_request_that_extends_the_one_before_is_expected_to_read_all_of_it() {
    let mut desk = Desk::new("a/m");
    let first = desk.ask(&[1, 2], 10_000, 0);
    assert_eq!((first.predicted_tokens, first.miss), (0, None), "nothing could be read");
    let second = desk.ask(&[1, 2, 3, 4], 12_000, 9_900);
    assert_eq!((second.predicted_tokens, second.reported_tokens, second.miss), (10_000, 9_900, None));
}

#[test]
fn a_miss_names_what_differed_first() {
    let mut desk = Desk::new("a/m");
    desk.ask(&[1, 2, 3, 4], 40_000, 0);
    let reading = desk.ask(&[1, 2, 9, 4, 5], 50_000, 20_000);
    assert_eq!(reading.predicted_tokens, 20_000, "half of the bytes before were the same");
    assert_eq!(reading.miss, Some(Miss::PrefixChanged { segment: 2, kind: SegmentKind::Assistant }));
    let frame = desk.ask(&[8, 2, 9, 4, 5, 6], 60_000, 0);
    assert_eq!(frame.miss, Some(Miss::PrefixChanged { segment: 0, kind: SegmentKind::Frame }));
}

#[test]
fn what_the_provider_did_not_keep_is_told_apart_from_what_we_changed() {
    let mut desk = Desk::new("a/m");
    desk.ask(&[1, 2], 40_000, 0);
    desk.now_ms += 400_000;
    let reading = desk.ask(&[1, 2, 3], 41_000, 0);
    assert_eq!(reading.miss, Some(Miss::NotKept { idle_ms: 400_000 }));
    let last = desk.ask_as(StepKind::WrapUp, &[1, 2, 3, 4], 42_000, 2_000);
    assert_eq!(last.miss, Some(Miss::CallsForbidden));
}

#[test]
fn another_model_and_a_compaction_are_reasons_of_their_own() {
    let mut desk = Desk::new("a/m");
    desk.ask(&[1, 2, 3], 40_000, 0);
    desk.turn("b/m");
    assert_eq!(desk.ask(&[5, 2, 3, 4], 41_000, 0).miss, Some(Miss::ModelChanged));
    let (trigger, summary) = (Trigger::Ordinary, String::new());
    desk.record(Event::CompactionFinished {
        trigger,
        upto_seq: 1,
        summary,
        tokens_before: 2,
        tokens_after: 1,
        note: None,
        asked: None,
    });
    assert_eq!(desk.ask(&[5, 7], 9_000, 0).miss, Some(Miss::Compacted));
    assert_eq!(desk.ask(&[5, 7, 8], 9_500, 9_000).miss, None);
}

#[test]
fn a_few_tokens_more_or_less_are_no_miss() {
    let mut desk = Desk::new("a/m");
    desk.ask(&[1, 2], 900, 0);
    assert_eq!(desk.ask(&[1, 2, 3], 1_000, 0).miss, None, "too short for any provider's cache");
    desk.ask(&[1, 2, 3, 4], 40_000, 0);
    assert_eq!(desk.ask(&[1, 2, 3, 4, 5], 41_000, 39_000).miss, None);
}

#[test]
fn a_request_has_at_most_what_was_counted_last_and_a_token_for_each_byte_since() {
    let mut desk = Desk::new("a/m");
    assert_eq!(desk.ledger.most_tokens(&row(&[1, 2])), 3_000, "and what the provider adds");
    desk.ask(&[1, 2], 500, 0);
    assert_eq!(desk.ledger.most_tokens(&row(&[1, 2, 3])), 1_500);
    assert_eq!(desk.ledger.most_tokens(&row(&[1, 9, 3])), 4_000, "what was counted was something else");
}

#[test]
fn the_fold_of_the_records_is_the_ledger_and_each_adds_little_to_them() {
    let mut desk = Desk::new("a/m");
    let mut segments = vec![1, 2];
    for step in 3..300 {
        segments.push(step);
        desk.ask(&segments, 100 * step, 100 * (step - 1));
    }
    let text = serde_json::to_string(&desk.records).expect("records are JSON");
    let records: Vec<Record> = serde_json::from_str(&text).expect("what was written");
    assert_eq!(CacheLedger::fold(&records), desk.ledger);
    let Event::MessageFinished { prompt, .. } = &desk.records.last().expect("many").event else { panic!("a reply") };
    let expected = json!({ "kept": 298, "new": [["assistant", "000000000000012b", 1000]], "predicted_tokens": 29800 });
    assert_eq!(serde_json::to_value(prompt).expect("JSON"), expected);
}

#[test]
fn a_journal_of_before_the_ledger_still_reads() {
    let line =
        r#"{"seq":9,"at_ms":1,"type":"message_finished","step":1,"attempt":1,"reply":{"parts":[],"finish":"stop"}}"#;
    let record: Record = serde_json::from_str(line).expect("an older record");
    assert_eq!(CacheLedger::fold([&record]), CacheLedger::default());
    let line = r#"{"seq":9,"at_ms":1,"type":"turn_ended","turn":1,"end":"completed","spent":{"steps":1,"calls":0,"usage":{},"duration_ms":5}}"#;
    let Event::TurnEnded { spent, .. } = serde_json::from_str::<Record>(line).expect("an older record").event else {
        panic!("the end of a turn")
    };
    assert_eq!(spent.unpriced_calls, 0);
}

#[test]
fn another_agent_has_another_frame_and_that_is_why_it_is_paid_anew() {
    let mut desk = Desk::new("a/m");
    desk.ask(&[1, 2], 2_000, 0);
    let changed = Configure { agent: Some("reviewer".into()), ..Configure::default() };
    desk.record(Event::SettingsChanged { changed, by: ChangedBy::User, at_once: false });
    assert_eq!(desk.ask(&[1, 2, 3], 3_000, 2_000).miss, None, "the turn under way keeps its frame");
    assert_eq!(desk.ask(&[9, 2, 3, 4], 4_000, 0).miss, Some(Miss::AgentChanged));
    let miss = desk.ask(&[8, 2, 3, 4], 4_000, 0).miss;
    assert_eq!(miss, Some(Miss::PrefixChanged { segment: 0, kind: SegmentKind::Frame }), "that is another reason");
}
