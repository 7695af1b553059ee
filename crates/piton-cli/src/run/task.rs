//! The task of a run: what was said on the command line, what was piped in, or both.

use crate::cli::{InputFormat, RunArgs};
use crate::failure::{Context, Result, bail, ensure};
use crate::out::view::{self, thousands};
use crate::surroundings::Surroundings;
use piton_core::client::Prompt;
use piton_core::tokens::Family;
use piton_engine::engine::Settings;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

/// After so long without an end of standard input somebody may wonder.
const PATIENCE_WITH_STDIN: Duration = Duration::from_secs(1);
/// Bytes that may be piped in. More than any model reads; a file of that size is better named.
const MAX_STDIN_BYTES: usize = 10 << 20;
/// Tokens of a task for a model whose window is not known: as many as widely used models read.
const MAX_UNKNOWN_TOKENS: u64 = 200_000;
/// The most of a text that may be no text, as one part in so many.
const MAX_ODD_PART: usize = 20;

/// The prompt of this command line; `None` where a session shall only go on, or lines will say more.
pub(crate) fn of(args: &RunArgs, around: &Surroundings) -> Result<Option<Prompt>> {
    if args.input_format == InputFormat::StreamJson {
        ensure!(args.prompt.as_deref() != Some("-"), "with --input-format stream-json prompts come as JSON lines");
        return Ok(args.prompt.clone().filter(|prompt| !prompt.trim().is_empty()).map(Prompt::new));
    }
    let said = args.prompt.as_deref().filter(|prompt| *prompt != "-");
    let wants_stdin = args.prompt.as_deref() == Some("-");
    let piped = match (wants_stdin, around.stdin_is_terminal, said) {
        (true, ..) => read_stdin()?,
        (false, false, _) if stdin_has_data() => read_stdin()?,
        _ => String::new(),
    };
    let prompt = match (said, piped.trim()) {
        (Some(said), "") => Prompt::new(said),
        (Some(said), piped) => Prompt { beside: Some(format!("\n\n<stdin>\n{piped}\n</stdin>")), ..Prompt::new(said) },
        (None, piped) => Prompt::new(piped),
    };
    if !prompt.text.trim().is_empty() || prompt.beside.is_some() {
        return Ok(Some(prompt));
    }
    let is_resumed = args.r#continue || args.resume.is_some();
    // What an agent begins with is known once its file is read.
    if args.prompt.is_none() && (is_resumed || args.settings.agent.is_some()) {
        return Ok(None);
    }
    empty()
}

fn empty<T>() -> Result<T> {
    bail!("the task is empty. Say what to do:  piton run \"fix the failing test\"");
}

/// What a session's agent begins with where nobody says anything: its `initialPrompt`.
pub(crate) fn of_agent(settings: &mut Settings) -> Result<Prompt> {
    Arc::make_mut(&mut settings.agent).initial_prompt.take().map_or_else(empty, |words| Ok(Prompt::new(words)))
}

/// Fails where the prompt alone is more than any model of the chain reads, as far as that is known.
pub(crate) fn fits(prompt: &Prompt, settings: &Settings) -> Result<()> {
    let mut most: Option<(&str, u64)> = None;
    for model in [&settings.model].into_iter().chain(&settings.fallbacks) {
        let Some(window) = model.limits().window_tokens else { return fits_the_usual(prompt, model.name()) };
        if tokens(prompt, model.name()) <= window {
            return Ok(());
        }
        if most.is_none_or(|(_, least)| window > least) {
            most = Some((model.name(), window));
        }
    }
    let Some((model, window)) = most else { return Ok(()) };
    bail!(
        "the task is about {} tokens, and {model} reads {} at most. Nothing was sent. Put it in a file and say what to \
         look for in it; the model reads what it needs",
        thousands(tokens(prompt, model)),
        thousands(window)
    );
}

/// The same where nobody knows what the model reads: what most models cannot read is not sent, and billed, by mistake.
fn fits_the_usual(prompt: &Prompt, model: &str) -> Result<()> {
    let tokens = tokens(prompt, model);
    ensure!(
        tokens <= MAX_UNKNOWN_TOKENS,
        "the task is about {} tokens, and how much {model} reads is not known. Nothing was sent. Put it in a file and say \
         what to look for in it, or set `window = TOKENS` in [models.\"{model}\"]",
        thousands(tokens)
    );
    Ok(())
}

/// About how many tokens it is to this model.
fn tokens(prompt: &Prompt, model: &str) -> u64 {
    let family = Family::of(model);
    family.estimate(&prompt.text) + prompt.beside.as_deref().map_or(0, |beside| family.estimate(beside))
}

/// Whether standard input is a pipe or a file, rather than nothing at all (a closed one, `/dev/null`, a socket of a
/// process manager that never ends).
fn stdin_has_data() -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::metadata("/dev/stdin").is_ok_and(|meta| meta.file_type().is_fifo() || meta.is_file())
}

fn read_stdin() -> Result<String> {
    let (done, reading) = std::sync::mpsc::channel::<()>();
    let remind = move || {
        // A pipe that nobody closes: programs that start others often leave one.
        if reading.recv_timeout(PATIENCE_WITH_STDIN) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            view::write_stderr(
                "reading standard input until its end; if nothing is to come, start piton with </dev/null\n",
            );
        }
    };
    // Without a thread nobody is reminded.
    drop(std::thread::Builder::new().spawn(remind));
    let mut bytes = Vec::new();
    let most = MAX_STDIN_BYTES as u64 + 1;
    std::io::stdin().lock().take(most).read_to_end(&mut bytes).context("cannot read standard input")?;
    drop(done);
    text(&bytes)
}

/// What was piped in as text. A word in another encoding is no reason to refuse it; a picture or a program is.
fn text(bytes: &[u8]) -> Result<String> {
    let text = String::from_utf8_lossy(bytes);
    let odd = text.chars().filter(|c| *c == char::REPLACEMENT_CHARACTER).count();
    if bytes.contains(&0) || odd > text.chars().count() / MAX_ODD_PART {
        bail!("standard input is not text. Nothing was sent. Name the file in the task instead");
    }
    ensure!(
        bytes.len() <= MAX_STDIN_BYTES,
        "more than {} MB were piped in. Nothing was sent. Name the file in the task instead, and say what to look for",
        MAX_STDIN_BYTES >> 20
    );
    Ok(text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_piped_in_is_text_and_not_endless() {
        assert_eq!(text(b"plain").unwrap(), "plain");
        assert!(text(b"caf\xe9 and much more that is plain text").is_ok(), "a word in Latin-1");
        assert!(text(b"\x89PNG\r\n\x1a\n\0\0\0").is_err());
        assert!(text(&[0xff; 100]).is_err());
        assert!(text(&vec![b'a'; MAX_STDIN_BYTES + 1]).is_err());
    }
}
