//! The runner alone, for whoever embeds Piton in a binary that cannot be started again as a runner:
//! `piton-runner BASE` with the order as JSON on standard input.

use std::path::Path;
use std::process::ExitCode;

#[expect(clippy::disallowed_methods, reason = "a binary reads its own argv")]
fn main() -> ExitCode {
    let Some(base) = std::env::args_os().nth(1) else { return ExitCode::from(2) };
    let code = piton_tools::runner::runner_main(Path::new(&base), std::io::stdin());
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
