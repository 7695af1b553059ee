//! What holds for every text and every dialect.

use super::{Options, TextDialect, TextEvent, events, joined, shown, tools};
use crate::text_tools::{Calls, Decoder, Notation, TextCall};
use piton_core::call::CallInput;

type New<'n> = dyn Fn() -> Box<dyn Decoder> + 'n;

/// However the text is cut into pieces, the same is found.
pub(super) fn cuts_make_no_difference(new: impl Fn() -> Box<dyn Decoder>, text: &str) {
    let whole = shown(&events(new(), [text]));
    let chars: Vec<String> = text.chars().map(String::from).collect();
    assert_eq!(shown(&events(new(), chars.iter().map(String::as_str))), whole, "by character: {text:?}");
    let mut random = Random(text.len() as u64 + 1);
    for _ in 0..8 {
        let pieces = random.pieces(text);
        assert_eq!(shown(&events(new(), pieces.iter().copied())), whole, "in pieces: {pieces:?}");
    }
}

/// A reply that ends early runs the calls that it holds whole and no other, and shows no piece of a marker.
pub(super) fn a_cut_reply_runs_nothing_else(new: impl Fn() -> Box<dyn Decoder>, text: &str) {
    /// A lone `<` is text, and so is the space before it.
    const MOST_CHARS: usize = 2;
    let whole = events(new(), [text]);
    let (all_calls, all_text) = (runnable(&whole), prose(&whole));
    for (at, _) in text.char_indices() {
        let cut = events(new(), [&text[..at]]);
        let calls = runnable(&cut);
        assert!(all_calls.starts_with(&calls), "cut at {at}: {:?} runs {calls:?}", &text[..at]);
        let streamed = prose(&joined(new().push(&text[..at])));
        assert!(all_text.starts_with(&streamed), "cut at {at}: {streamed:?} is shown");
        let rest = prose(&cut).strip_prefix(&streamed).map(|rest| rest.chars().count());
        assert!(
            rest.is_some_and(|chars| chars <= MOST_CHARS) || all_text.starts_with(&prose(&cut)),
            "cut at {at}: {:?} is shown at last",
            prose(&cut)
        );
    }
}

fn runnable(events: &[TextEvent]) -> Vec<TextCall> {
    let calls = events.iter().filter_map(|event| match event {
        TextEvent::Call(call) => Some(call.clone()),
        TextEvent::Text(_) | TextEvent::Reasoning(_) | TextEvent::Remnant(_) => None,
    });
    calls.filter(|call| matches!(call.input, CallInput::Json(_))).collect()
}

fn prose(events: &[TextEvent]) -> String {
    let texts = events.iter().filter_map(|event| match event {
        TextEvent::Text(text) => Some(text.as_str()),
        TextEvent::Reasoning(_) | TextEvent::Call(_) | TextEvent::Remnant(_) => None,
    });
    texts.collect()
}

/// Marsaglia's xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    fn pieces<'t>(&mut self, text: &'t str) -> Vec<&'t str> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let length = 1 + self.below(12);
            let at = rest.char_indices().nth(length).map_or(rest.len(), |(at, _)| at);
            let (piece, after) = rest.split_at(at);
            pieces.push(piece);
            rest = after;
        }
        pieces
    }

    /// Pieces of every dialect, thrown together.
    fn soup(&mut self) -> String {
        const INGREDIENTS: [&str; 56] = [
            "<use_tool>",
            "</use_tool>",
            "<tool_name>",
            "</tool_name>",
            "<arguments>",
            "</arguments>",
            "<name>",
            "read",
            "<tool_call>",
            "</tool_call>",
            "<function=",
            ">",
            "</function>",
            "<parameter=",
            "</parameter>",
            "a=",
            "<arg_key>",
            "</arg_key>",
            "<arg_value>",
            "</arg_value>",
            "{",
            "}",
            "[",
            "]",
            "\"",
            "'",
            "\\",
            "`",
            "```",
            "\n",
            " ",
            "{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}",
            "(",
            ")",
            ",",
            ";",
            "1",
            "é",
            "<",
            "|",
            "<|tool_calls_section_begin|>",
            "<|tool_call_begin|>",
            "functions.read:0",
            "<|tool_call_argument_begin|>",
            "<|tool_call_end|>",
            "<｜tool▁call▁begin｜>",
            "<｜tool▁sep｜>",
            "<｜tool▁call▁end｜>",
            "[TOOL_CALLS]",
            "[ARGS]",
            "<|python_tag|>",
            "<|channel|>",
            "<|message|>",
            "<|call|>",
            "commentary to=functions.read",
            "<|start|>",
        ];
        (0..self.below(40)).map(|_| INGREDIENTS[self.below(INGREDIENTS.len())]).collect()
    }

    fn noise(&mut self) -> String {
        let bytes: Vec<u8> = (0..self.below(200)).map(|_| self.below(256) as u8).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Every way to read.
fn each_reader(check: impl Fn(&New<'_>)) {
    for calls in [Calls::All, Calls::FirstOnly] {
        for notation in [Notation::Json, Notation::Relaxed] {
            let options = Options { calls, notation, ..Options::default() };
            for dialect in TextDialect::ALL {
                check(&|| dialect.decoder(tools(), options));
            }
            check(&|| TextDialect::any(tools(), options));
        }
    }
}

#[test]
fn any_text_is_read_alike_in_any_pieces() {
    let mut random = Random(42);
    // A second's worth; 2,000 rounds found nothing either.
    for _ in 0..60 {
        for text in [random.soup(), random.noise()] {
            each_reader(|new| {
                let whole = shown(&events(new(), [text.as_str()]));
                let pieces = Random(text.len() as u64 + 7).pieces(&text);
                assert_eq!(shown(&events(new(), pieces)), whole, "{text:?}");
            });
        }
    }
}

#[test]
fn text_without_a_marker_comes_through_unchanged() {
    let text = "if (a < b && c > d) { x[0] = <T>y; } `<use_tool>` 1 <2\n\n* <user@example.com> [TOOL] <|x|>";
    each_reader(|new| assert_eq!(prose(&events(new(), [text])), text));
}

#[test]
fn a_long_reply_is_read_in_time() {
    // Two seconds are the limit for a release build; an unoptimised one, with all decoders, stays within it, too.
    let prose_text = "A line of prose with `code`, a < b, and a [link](x).\n".repeat(4_000);
    let call = format!(
        "<use_tool><tool_name>w</tool_name><arguments>{{\"c\":\"{}\"}}</arguments></use_tool>",
        prose_text.replace('\n', "\\n")
    );
    let odd = "<tool_call>{\\\"</tool_call>".repeat(8_000);
    for text in [&prose_text, &call, &odd] {
        let pieces: Vec<&str> = (0..text.len()).step_by(4).map(|at| &text[at..text.len().min(at + 4)]).collect();
        let begin = std::time::Instant::now();
        events(TextDialect::any(tools(), Options::default()), pieces.iter().copied());
        events(TextDialect::Hermes.decoder(tools(), Options::default()), pieces);
        assert!(begin.elapsed().as_secs() < 10, "{:?}", begin.elapsed());
    }
}
