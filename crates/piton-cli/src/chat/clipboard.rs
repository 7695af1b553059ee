//! What is on the clipboard: a picture or text, by the program of this desktop.

use super::{Chat, Done};
use crate::surroundings::Surroundings;
use piton_tools::spawn::{Confinement, Env, Keep, Spawn};
use piton_tui::face::Input;
use piton_tui::prompt::Picture;
use std::path::Path;
use std::time::Duration;

/// How long the program may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// The largest picture that is taken.
const MOST_BYTES: u64 = 16 << 20;

/// What was on the clipboard.
pub(super) enum Clip {
    Text(String),
    Picture(Picture),
    /// No program is there that reads it.
    Unreadable,
}

/// A program that prints what is on the clipboard: how it is asked for a picture, and how for text.
struct Program {
    name: &'static str,
    /// Set where it can be used.
    variable: Option<&'static str>,
    picture: &'static str,
    text: &'static str,
}

const PROGRAMS: [Program; 4] = [
    Program {
        name: "wl-paste",
        variable: Some("WAYLAND_DISPLAY"),
        picture: "wl-paste --type image/png",
        text: "wl-paste --no-newline --type text",
    },
    Program {
        name: "xclip",
        variable: Some("DISPLAY"),
        picture: "xclip -selection clipboard -target image/png -out",
        text: "xclip -selection clipboard -out",
    },
    Program { name: "pngpaste", variable: None, picture: "pngpaste -", text: "pbpaste" },
    Program { name: "pbpaste", variable: None, picture: "false", text: "pbpaste" },
];

impl Chat<'_> {
    /// Asks for what is on the clipboard. The face goes on meanwhile.
    pub(super) fn paste(&mut self) {
        let around = self.around.clone();
        self.asked.push(Box::pin(async move { Done::Pasted(read(&around).await) }));
    }

    pub(super) fn pasted(&mut self, clip: Option<Clip>) {
        match clip {
            Some(Clip::Text(text)) => self.terminal.tell(Input::Pasted(text)),
            Some(Clip::Picture(picture)) => self.terminal.tell(Input::Picture(picture)),
            Some(Clip::Unreadable) => self.note(
                "no program here reads the clipboard (wl-paste, xclip, pbpaste); your terminal's own paste takes text, and \
                 @picture.png a file",
            ),
            None => self.note("there is nothing on the clipboard"),
        }
    }
}

async fn read(around: &Surroundings) -> Option<Clip> {
    let is_usable = |program: &&Program| {
        program.variable.is_none_or(|name| around.machine.var(name).is_some())
            && around.machine.find_program(program.name).is_some()
    };
    let Some(program) = PROGRAMS.iter().find(is_usable) else { return Some(Clip::Unreadable) };
    let file = tempfile::Builder::new().prefix("piton-clipboard-").tempfile_in(&around.temp_dir).ok()?;
    let env = Env::new(around.machine.vars.clone());
    if printed_to(file.path(), program.picture, &env).await
        && let Some(picture) = picture(file.path())
    {
        return Some(Clip::Picture(picture));
    }
    if !printed_to(file.path(), program.text, &env).await {
        return None;
    }
    let text = String::from_utf8_lossy(&bytes(file.path())?).into_owned();
    (!text.is_empty()).then_some(Clip::Text(text))
}

/// Runs a command that prints into this file. Whether it went well.
async fn printed_to(file: &Path, command: &str, env: &Env) -> bool {
    let spawn =
        Spawn::shell(&format!("{command} > \"$OUT\""), env, "/", Confinement::User).with("OUT", file.as_os_str());
    let Ok(mut running) = spawn.run(None, Keep::First) else { return false };
    // Dropped, it is ended.
    let ended = tokio::time::timeout(PATIENCE, running.wait()).await;
    matches!(ended, Ok(Ok(status)) if status.success())
}

fn bytes(file: &Path) -> Option<Vec<u8>> {
    let is_small = std::fs::metadata(file).is_ok_and(|meta| meta.len() <= MOST_BYTES);
    if is_small { std::fs::read(file).ok() } else { None }
}

/// The picture in this file, if it is one.
fn picture(file: &Path) -> Option<Picture> {
    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";
    let bytes = bytes(file)?;
    let name = "clipboard.png".to_owned();
    bytes.starts_with(PNG).then(|| Picture { name, media_type: "image/png".to_owned(), bytes })
}
