//! How fast an answer is decoded: a Chat stream of 20,000 deltas, read again and again on one core. Prints MB/s, a
//! number a line, one for each round. `cargo xtask bench decode` runs it in a release build.

#![allow(clippy::print_stdout, reason = "a measurement's output")]

use piton_core::model::ModelError;
use piton_models::protocol::WireProtocol;
use piton_models::wire::{self, ResponseBody};
use std::time::Instant;

fn main() -> Result<(), ModelError> {
    const DELTAS: usize = 20_000;
    const ROUNDS: usize = 20;
    let chunk = |delta: &str, finish: &str| {
        format!(
            "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\
             \"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n"
        )
    };
    let mut stream: String = (0..DELTAS).map(|n| chunk(&format!("{{\"content\":\"word{n} \"}}"), "null")).collect();
    stream.push_str(&chunk("{}", "\"stop\""));
    stream.push_str("data: [DONE]\n\n");
    for _ in 0..ROUNDS {
        let started = Instant::now();
        let mut body = ResponseBody::new(wire::protocol(WireProtocol::Chat));
        for bytes in stream.as_bytes().chunks(16 << 10) {
            body.push(bytes)?;
        }
        body.finish()?;
        println!("{:.1}", stream.len() as f64 / 1e6 / started.elapsed().as_secs_f64());
    }
    Ok(())
}
