//! How fast the firewall is: megabytes per second on output without secrets, and on output with some, in pieces as a file is
//! cleaned; and what it takes to be ready. Run it with optimisation; `cargo xtask bench firewall` does.

#![allow(clippy::print_stdout, reason = "a measurement: its output")]

use piton_core::secrets::{Depth, Firewall, Secrets};
use std::sync::Arc;
use std::time::Instant;

const RUNS: usize = 5;
const BYTES: usize = 50_000_000;
const PIECE_BYTES: usize = 256 << 10;

fn main() {
    let values: Vec<String> =
        (0..40).map(|number| format!("value{number:03}-{:016x}", number * 0x9e37_79b9_7f4a_7c15_u128)).collect();
    let firewall = || {
        let firewall = Firewall::new(Secrets::new(Arc::new(|_| 0)));
        values.iter().enumerate().for_each(|(number, value)| firewall.know(&format!("KEY_{number}"), value));
        firewall
    };
    let clean = [
        "   Compiling piton-core v0.1.0 (/work/piton/crates/piton-core)\n",
        "warning: unused variable: `token`\n   --> src/secrets.rs:12:9\n",
        "2026-01-01T12:30:45.123456Z  INFO request{id=550e8400-e29b-41d4-a716-446655440000}: finished in 12.3 ms\n",
        "test secrets::tests::tokens_are_found ... ok\n",
        "    let password = config.password.clone();\n    if passed { return Ok(basic(auth)?); }\n",
        "3f786850e387550fdab836ed7e6dc881de23001b  target/debug/deps/libpiton_core-89abcdef01234567.rlib\n",
        "{\"id\":12345,\"name\":\"anna\",\"url\":\"https://example.org/a/b?c=d\",\"ok\":true,\"next_token\":null}\n",
    ]
    .concat();
    let seldom = format!("{}API_KEY={}\n", clean.repeat(20), values[7]);
    report("clean_mb_s", &clean, &firewall);
    report("secrets_mb_s", &seldom, &firewall);
    let ready: Vec<String> = (0..RUNS)
        .map(|_| {
            let began = Instant::now();
            let firewall = firewall();
            firewall.cleaned("hello, what is in this folder?", Depth::Everything);
            format!("{:.3}", began.elapsed().as_secs_f64() * 1e3)
        })
        .collect();
    println!("ready_ms {}", ready.join(" "));
}

fn report(name: &str, text: &str, firewall: &dyn Fn() -> Firewall) {
    let text = text.repeat(BYTES / text.len() + 1);
    let speeds: Vec<String> = (0..RUNS)
        .map(|_| {
            let mut stream = firewall().stream(Depth::Everything);
            let began = Instant::now();
            let mut out = 0;
            for piece in text.as_bytes().chunks(PIECE_BYTES) {
                out += stream.push_bytes(piece).len();
            }
            out += stream.finish_bytes().len();
            assert!(out > 0);
            format!("{:.0}", text.len() as f64 / 1e6 / began.elapsed().as_secs_f64())
        })
        .collect();
    println!("{name} {}", speeds.join(" "));
}
