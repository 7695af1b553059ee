//! The chores that run Piton's own code. `cargo xtask` builds and starts it, and lists them.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a chore talks to whoever runs it")]
#![expect(clippy::disallowed_methods, reason = "a chore reads its own argv and environment, and starts processes")]

mod bench;
mod cases;
mod catalogue;
mod crash;
mod schema;
mod smoke_local;
mod wire_check;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["check"] => check(),
        ["cases", dir] => cases::cases(dir.as_ref()),
        ["wire-check", folder] => wire_check::wire_check(folder.as_ref()),
        ["catalogue"] => catalogue::write(),
        ["schema"] => schema::write(),
        ["smoke-local", words @ ..] => smoke_local::smoke_local(words),
        ["crash", words @ ..] => crash::crash(words),
        ["bench", names @ ..] => bench::bench(names),
        _ => Err(anyhow::anyhow!("not a chore: {}; cargo xtask help lists them", words.join(" "))),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// What the CI asks of the code besides its tests.
fn check() -> anyhow::Result<()> {
    catalogue::check()?;
    schema::check()?;
    cases::cases(Path::new("tests/cases"))
}
