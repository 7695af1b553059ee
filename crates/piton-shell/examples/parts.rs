//! Prints what a command would do: `cargo run -p piton-shell --example parts < command.sh`.

use piton_shell::{ByName, read};
use std::io::Read;

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn main() -> std::io::Result<()> {
    let mut command = String::new();
    std::io::stdin().read_to_string(&mut command)?;
    let reading = read(&command, &ByName);
    println!("changes nothing: {}", reading.changes_nothing());
    reading.parts.iter().for_each(|part| println!("{part:?}"));
    reading.unknowable.iter().for_each(|unknowable| println!("{unknowable:?}"));
    Ok(())
}
