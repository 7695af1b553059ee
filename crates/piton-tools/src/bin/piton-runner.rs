//! The runner as a binary, for embedders whose own binary cannot serve as one: `piton-runner <folder of the calls>`.

use piton_tools::spawn::Env;
use std::ffi::OsString;
use std::process::ExitCode;

#[allow(
    clippy::disallowed_methods,
    reason = "a binary of its own, which reads its argument and environment here and nowhere else"
)]
fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let env = Env::new(std::env::vars_os().collect());
    let code = piton_tools::runner::runner_main(&words, &env, std::io::stdin().lock());
    u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from)
}
