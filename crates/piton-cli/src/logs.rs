//! `--log-file` and `--debug requests`: what Piton does, line by line, for whoever looks for a fault. Nothing is written
//! where nobody asks for it.

use crate::cli::{Cli, DebugTopic};
use crate::failure::{Context, Failure, Result};
use crate::out::view;
use piton_tools::private;
use std::fs::File;
use std::io::{self, Write};
use std::sync::Mutex;
use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Where the bodies of requests and answers are told.
const REQUESTS: &str = "piton::requests";

/// Starts the log that was asked for, if one was.
pub(crate) fn start(cli: &Cli) -> Result<()> {
    let Some(path) = &cli.log_file else {
        if cli.debug.is_some() {
            return Err(Failure::usage("--debug needs a log to be in: name one with --log-file FILE"));
        }
        return Ok(());
    };
    let file = private::append(path);
    let file = file.with_context(|| format!("cannot write the log {}", path.display()))?;
    let requests = match cli.debug {
        Some(DebugTopic::Requests) => LevelFilter::DEBUG,
        None => LevelFilter::OFF,
    };
    // Ours only: what the libraries below have to say is not about an agent.
    let filter = Targets::new().with_target("piton", Level::DEBUG).with_target(REQUESTS, requests);
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(Mutex::new(Log { file, is_lost: false }))
        .with_ansi(false)
        .with_span_events(FmtSpan::CLOSE)
        .with_filter(filter);
    tracing_subscriber::registry().with(lines).try_init().context("cannot start the log")
}

/// The file. A run is not worth less for a log that cannot be written, but whoever asked for it should know.
struct Log {
    file: File,
    is_lost: bool,
}

impl Write for Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Err(error) = self.file.write_all(line)
            && !std::mem::replace(&mut self.is_lost, true)
        {
            view::write_stderr(&format!("note: the log cannot be written ({error}); it is not complete\n"));
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
