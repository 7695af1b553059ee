//! `piton man`: manual pages made from the commands and flags themselves. Packages are built with it.

use crate::cli::Cli;
use crate::failure::{Context, Result};
use crate::out::view;
use clap::CommandFactory;
use std::path::Path;

/// Prints the page of `piton`, or writes one page per command.
pub(crate) fn man(out: Option<&Path>) -> Result<u8> {
    match out {
        Some(dir) => {
            std::fs::create_dir_all(dir)
                .and_then(|()| clap_mangen::generate_to(Cli::command(), dir))
                .with_context(|| format!("cannot write manual pages into {}", dir.display()))?;
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut page)?;
            view::write_stdout(&String::from_utf8_lossy(&page));
        }
    }
    Ok(0)
}
