//! Calls written as text: in every dialect, however the text is cut, the same text and the same calls come out.

#![no_main]

use libfuzzer_sys::fuzz_target;
use piton_core::call::CallInput;
use piton_models::text_tools::{Decoder, TextDialect, TextEvent, Options, TextCall};
use std::sync::Arc;

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    let text = String::from_utf8_lossy(bytes);
    let decoder = || match TextDialect::ALL.get(usize::from(choice) % (TextDialect::ALL.len() + 1)) {
        Some(dialect) => dialect.decoder(Arc::new([]), Options::default()),
        None => TextDialect::any(Arc::new([]), Options::default()),
    };
    let whole = read(decoder(), &text, usize::MAX);
    assert_eq!(read(decoder(), &text, 1), whole);
    assert_eq!(read(decoder(), &text, usize::from(choice / 8) + 1), whole);
});

/// Prose, reasoning, and the calls.
type Reading = (String, String, Vec<(String, CallInput)>);

fn read(mut decoder: Box<dyn Decoder>, text: &str, chunk_chars: usize) -> Reading {
    let chars: Vec<char> = text.chars().collect();
    let mut reading = Reading::default();
    let mut events = Vec::new();
    for chunk in chars.chunks(chunk_chars) {
        events.extend(decoder.push(&chunk.iter().collect::<String>()));
    }
    events.extend(decoder.finish());
    for event in events {
        match event {
            TextEvent::Text(more) | TextEvent::Remnant(more) => reading.0.push_str(&more),
            TextEvent::Reasoning(more) => reading.1.push_str(&more),
            TextEvent::Call(TextCall { id: _, name, input }) => reading.2.push((name, input)),
        }
    }
    reading
}
