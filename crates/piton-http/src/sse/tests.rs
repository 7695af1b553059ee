//! Events in every spelling and cut.

use super::*;

/// Decodes whole, in sevens and byte by byte, and expects the same `event|data` lines each time.
fn check(input: &[u8], expected: &[&str]) {
    for size in [1, 7, input.len().max(1)] {
        let mut decoder = SseDecoder::new();
        let mut events: Vec<SseEvent> = input.chunks(size).flat_map(|chunk| decoder.push(chunk)).collect();
        events.extend(decoder.finish());
        let seen: Vec<String> = events.iter().map(|event| format!("{}|{}", event.event, event.data)).collect();
        assert_eq!(seen, expected, "in chunks of {size}");
    }
}

#[test]
fn lines_may_end_in_lf_crlf_or_cr() {
    check(b"data: a\n\ndata: b\r\n\r\ndata: c\r\r", &["|a", "|b", "|c"]);
    check(b"data: a\r\ndata: b\r\n\r\n", &["|a\nb"]);
}

#[test]
fn a_byte_order_mark_is_skipped_once() {
    check(b"\xEF\xBB\xBFdata: a\n\n", &["|a"]);
    check(b"data: a\n\xEF\xBB\xBFdata: b\n\n", &["|a"]);
}

#[test]
fn comments_ids_and_unknown_fields_are_ignored() {
    check(b": OPENROUTER PROCESSING\n\nid: 7\nretry: 3\nfoo: x\ndata: a\n\n", &["|a"]);
}

#[test]
fn one_space_after_the_colon_belongs_to_the_syntax() {
    check(b"data:a\n\ndata:  b\n\n", &["|a", "| b"]);
}

#[test]
fn an_event_name_lasts_for_one_event() {
    check(b"event: ping\ndata: 1\n\ndata: 2\n\nevent: lost\n\ndata: 3\n\n", &["ping|1", "|2", "|3"]);
}

#[test]
fn characters_cut_by_a_chunk_survive_and_invalid_bytes_do_not_fail() {
    check("data: grüße 🐍\n\n".as_bytes(), &["|grüße 🐍"]);
    check(b"data: caf\xe9\n\n", &["|caf\u{FFFD}"]);
}

#[test]
fn an_unterminated_last_event_is_not_lost() {
    check(b"data: a\n\ndata: b", &["|a", "|b"]);
    check(b"data: a\n", &["|a"]);
}

#[test]
fn a_megabyte_byte_by_byte_is_one_event() {
    let mut decoder = SseDecoder::new();
    let text = "x".repeat(1_000_000);
    let count: usize = format!("data: {text}\n\n").bytes().map(|byte| decoder.push(&[byte]).len()).sum();
    assert_eq!(count, 1);
}
