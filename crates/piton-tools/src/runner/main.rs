//! What a program of ours does when it is started as a runner: runs one call, runs one command in a sandbox, or is the first
//! process of a sandbox.

use super::confined::{self, start_here};
use super::work;
use crate::spawn::{CONFINE, Env};
use piton_sandbox::{FIRST, SharedNetwork, first_main};
use std::ffi::OsString;
use std::io::Read;
use std::path::Path;

/// The first descriptor that is no standard stream.
const FIRST_OF_OTHERS: i32 = 3;
/// The command line says nothing that a runner can do: as in `sysexits.h`.
const EX_USAGE: i32 = 64;

/// What a runner needs is not there: as in `sysexits.h`.
const EX_UNAVAILABLE: i32 = 69;
/// By this word behind its plan a runner learns that a network comes by its standard input, which its sandbox is to have.
pub(super) const SHARES: &str = "shares";

/// The whole life of a runner process; the answer is its exit code. `words` say what it is to do, see [`crate::spawn`] and
/// [`super::Runners`]. Call it first thing in `main`, before any thread is started.
pub fn runner_main(words: &[OsString], env: &Env, stdin: impl Read) -> i32 {
    // What whoever started Piton had open is not a command's.
    close_fds::set_fds_cloexec(FIRST_OF_OTHERS, &[]);
    match words {
        [word] if word == FIRST => first_main(start_here),
        [word, plan, argv @ ..] if word == CONFINE && !argv.is_empty() => confined::confine(plan, argv, env),
        [calls_dir] => work::run_calls(Path::new(calls_dir), None, env, stdin),
        [calls_dir, plan] => work::run_calls(Path::new(calls_dir), Some((plan, None)), env, stdin),
        [calls_dir, plan, shares] if shares == SHARES => match SharedNetwork::receive(rustix::stdio::stdin()) {
            Ok(Some(shared)) => work::run_calls(Path::new(calls_dir), Some((plan, Some(&shared))), env, stdin),
            // Whoever has started us is gone.
            Ok(None) | Err(_) => EX_UNAVAILABLE,
        },
        _ => EX_USAGE,
    }
}
