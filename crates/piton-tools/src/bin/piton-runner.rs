//! The runner as a binary, for embedders whose own binary cannot serve as one: `piton-runner <folder of the calls>`.

use piton_tools::spawn::Env;
use std::path::PathBuf;
use std::process::ExitCode;

#[allow(
    clippy::disallowed_methods,
    reason = "a binary of its own, which reads its argument and environment here and nowhere else"
)]
fn main() -> ExitCode {
    /// As in `sysexits.h`: the command line is wrong.
    const EX_USAGE: u8 = 64;
    let Some(calls_dir) = std::env::args_os().nth(1).map(PathBuf::from) else { return ExitCode::from(EX_USAGE) };
    let env = Env::new(std::env::vars_os().collect());
    let code = piton_tools::runner::runner_main(&calls_dir, &env, std::io::stdin().lock());
    u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from)
}
