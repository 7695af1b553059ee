//! How long it takes to read what a message refers to: `@dir` of 5,000 files, with room for a quarter of a window of
//! 200,000 tokens. Prints milliseconds, one a line. `cargo xtask bench` runs it in a release build.

#![allow(clippy::print_stdout, reason = "a measurement: its output")]

use piton_core::message::Part;
use piton_core::reference::Style;
use piton_core::tokens::Family;
use piton_engine::context::References;
use piton_tools::disk::Disk;
use std::error::Error;
use std::time::Instant;

const FILES: usize = 5_000;
const TIMES: usize = 15;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let workspace = folder.path().canonicalize()?;
    for number in 0..FILES {
        let folder = workspace.join(format!("dir/{:02}/{:02}", number % 50, number % 7));
        std::fs::create_dir_all(&folder)?;
        let text = format!("/// Number {number}.\npub fn number_{number}() -> usize {{\n    {number}\n}}\n").repeat(15);
        std::fs::write(folder.join(format!("{number}.rs")), text)?;
    }
    let references = References {
        sizes: piton_core::reference::ReferenceSizes::default(),
        workspace,
        style: Style::Piton,
        window_tokens: Some(200_000),
        images: Some(true),
        family: Family::OpenAi,
    };
    for _ in 0..TIMES {
        let started = Instant::now();
        let found = references.resolve(&[Part::text("look at @dir")], &Disk::to_read());
        println!("{}", started.elapsed().as_secs_f64() * 1e3);
        let cut =
            found.items.iter().any(|item| item.notice.as_ref().is_some_and(|notice| notice.contains("5000 files")));
        if !cut {
            return Err("the folder was not cut to the cap".into());
        }
    }
    Ok(())
}
