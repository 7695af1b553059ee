//! The clipboard, by the programs of this desktop: a picture, files or text come from it, and text is put there. And pictures
//! whose path was pasted, as terminals do with what is dropped onto them.

use super::{Chat, Done};
use crate::out::view;
use crate::surroundings::Surroundings;
use piton_core::limits::IMAGE_BYTES;
use piton_tools::read::{image_type, picture_fault};
use piton_tools::regular;
use piton_tools::spawn::{Confinement, Env, Group, Keep, Spawn, Streams};
use piton_tui::dropped::{self, Dropped};
use piton_tui::face::Input;
use piton_tui::prompt::Picture;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::AsyncWriteExt;

/// How long the program may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// The largest picture that is taken.
const MOST_BYTES: u64 = 16 << 20;

/// What was on the clipboard.
pub(super) enum Clip {
    Text(String),
    Picture(Picture),
    /// Files that were copied in a file manager.
    Files(Vec<PathBuf>),
    /// No program is there that reads it.
    Unreadable,
}

/// A program that prints what is on the clipboard: how it is asked for a picture, and how for text.
struct Program {
    name: &'static str,
    /// Set where it can be used.
    variable: Option<&'static str>,
    picture: &'static str,
    files: &'static str,
    text: &'static str,
}

/// A file that a pasted text names.
pub(super) enum Seen {
    Picture(Picture),
    /// It is one that models do not take.
    Faulty(&'static str),
}

const PROGRAMS: [Program; 4] = [
    Program {
        name: "wl-paste",
        variable: Some("WAYLAND_DISPLAY"),
        picture: "wl-paste --type image/png",
        files: "wl-paste --no-newline --type text/uri-list",
        text: "wl-paste --no-newline --type text",
    },
    Program {
        name: "xclip",
        variable: Some("DISPLAY"),
        picture: "xclip -selection clipboard -target image/png -out",
        files: "xclip -selection clipboard -target text/uri-list -out",
        text: "xclip -selection clipboard -out",
    },
    Program { name: "pngpaste", variable: None, picture: "pngpaste -", files: "false", text: "pbpaste" },
    Program { name: "pbpaste", variable: None, picture: "false", files: "false", text: "pbpaste" },
];

/// What became of text that was to be put there.
pub(super) enum Copied {
    /// This program took it.
    By(&'static str),
    /// This program did not.
    Failed(&'static str),
    /// No program is there that does it.
    Unwritable,
}

/// The programs that put their input on the clipboard: each with its arguments, and the variable that is set where it can be used.
const WRITERS: [(&[&str], Option<&str>); 3] = [
    (&["wl-copy"], Some("WAYLAND_DISPLAY")),
    (&["xclip", "-selection", "clipboard"], Some("DISPLAY")),
    (&["pbcopy"], None),
];

impl Chat<'_> {
    /// Puts text on the clipboard. The terminal was asked to already; whether it did, it does not say.
    pub(super) fn copy(&mut self, text: String) {
        let around = self.around.clone();
        self.asked.push(Box::pin(async move { Done::Copied(text.lines().count(), write(&text, &around).await) }));
    }

    pub(super) fn copied(&self, lines: usize, copied: &Copied) {
        let lines = view::plural(lines as u64, "line");
        // A terminal that understands no sequences was not asked.
        let is_asked = self.around.machine.var("TERM") != Some("dumb");
        let asked = format!("your terminal was asked to copy {lines} (OSC 52), which not every terminal does");
        self.terminal.tell(Input::Hint(match copied {
            Copied::By(name) => format!("{lines} copied, by {name}"),
            Copied::Failed(name) if is_asked => format!("{name} failed; {asked}"),
            Copied::Failed(name) => format!("nothing is copied: {name} failed"),
            Copied::Unwritable if is_asked => asked,
            Copied::Unwritable => {
                "nothing is copied: this terminal cannot (TERM=dumb), and wl-copy, xclip and pbcopy cannot be used"
                    .to_owned()
            }
        }));
    }

    /// Looks which of the files that were pasted are pictures.
    pub(super) fn look_at(&mut self, files: Vec<Dropped>) {
        let looks = tokio::task::spawn_blocking(move || seen(files));
        self.asked.push(Box::pin(async move { Done::Dropped(looks.await.unwrap_or_default()) }));
    }

    pub(super) fn dropped(&self, seen: Vec<(String, Seen)>) {
        for (text, seen) in seen {
            match seen {
                Seen::Picture(picture) => self.terminal.tell(Input::Dropped(text, picture)),
                Seen::Faulty(why) => self.note(format!("{} stays a path: {why}", view::clean(&text))),
            }
        }
    }

    /// Asks for what is on the clipboard. The face goes on meanwhile.
    pub(super) fn paste(&mut self) {
        let around = self.around.clone();
        self.asked.push(Box::pin(async move { Done::Pasted(read(&around).await) }));
    }

    pub(super) fn pasted(&mut self, clip: Option<Clip>) {
        match clip {
            Some(Clip::Text(text)) => self.terminal.tell(Input::Pasted(text)),
            Some(Clip::Picture(picture)) => self.terminal.tell(Input::Picture(picture)),
            // Those that are pictures become some, as if they had been dropped here.
            Some(Clip::Files(files)) => {
                let words: Vec<String> = files.iter().map(|path| dropped::word_of(path)).collect();
                self.terminal.tell(Input::Pasted(words.join(" ") + " "));
            }
            Some(Clip::Unreadable) => self.note(
                "no program here reads the clipboard (wl-paste, xclip, pbpaste); your terminal's own paste takes text, and \
                 @picture.png a file",
            ),
            None => self.note("there is nothing on the clipboard"),
        }
    }
}

/// Which of these are pictures. What stands within a name that is one is none for itself.
fn seen(files: Vec<Dropped>) -> Vec<(String, Seen)> {
    let mut seen: Vec<(String, Seen)> = Vec::new();
    for Dropped { text, path } in files {
        let is_within = |(whole, _): &(String, Seen)| whole.len() > text.len() && whole.contains(&text);
        if seen.iter().any(is_within) {
            continue;
        }
        seen.extend(looked_at(&path).map(|found| (text, found)));
    }
    seen
}

/// The picture at this path, if there is one.
fn looked_at(path: &Path) -> Option<Seen> {
    let most = usize::try_from(IMAGE_BYTES).unwrap_or(usize::MAX);
    let file = regular::beginning(path, most).ok()?;
    let media_type = image_type(&file.bytes)?;
    if !file.is_whole() {
        return Some(Seen::Faulty("it is larger than the 3.75 MB that models take"));
    }
    if let Some(fault) = picture_fault(media_type, &file.bytes) {
        return Some(Seen::Faulty(fault));
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Some(Seen::Picture(Picture { name, media_type: media_type.to_owned(), bytes: file.bytes }))
}

/// Whether a program is there, and the desktop that it is for.
fn is_usable(around: &Surroundings, name: &str, variable: Option<&str>) -> bool {
    variable.is_none_or(|name| around.machine.var(name).is_some()) && around.machine.find_program(name).is_some()
}

async fn write(text: &str, around: &Surroundings) -> Copied {
    let Some((argv, _)) = WRITERS.iter().find(|(argv, variable)| is_usable(around, argv[0], *variable)) else {
        return Copied::Unwritable;
    };
    let env = Env::new(around.machine.vars.clone());
    // It stays in the background for as long as it has the clipboard: it has a group of its own, and is not ended with us.
    let streams = Streams { stdin: Stdio::piped(), stdout: Stdio::null(), stderr: Stdio::null() };
    let started = Spawn::new(argv.iter().copied(), &env, "/", Confinement::User).start_async(Group::Own, streams);
    let Ok(mut child) = started else { return Copied::Failed(argv[0]) };
    let taken = async {
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(text.as_bytes()).await?;
        }
        child.wait().await
    };
    match tokio::time::timeout(PATIENCE, taken).await {
        Ok(Ok(status)) if status.success() => Copied::By(argv[0]),
        Ok(_) => Copied::Failed(argv[0]),
        Err(_) => {
            let _ = child.start_kill();
            Copied::Failed(argv[0])
        }
    }
}

async fn read(around: &Surroundings) -> Option<Clip> {
    let is_usable = |program: &&Program| is_usable(around, program.name, program.variable);
    let Some(program) = PROGRAMS.iter().find(is_usable) else { return Some(Clip::Unreadable) };
    let file = tempfile::Builder::new().prefix("piton-clipboard-").tempfile_in(&around.temp_dir).ok()?;
    let env = Env::new(around.machine.vars.clone());
    if printed_to(file.path(), program.picture, &env).await
        && let Some(picture) = picture(file.path())
    {
        return Some(Clip::Picture(picture));
    }
    if printed_to(file.path(), program.files, &env).await
        && let Some(files) = bytes(file.path()).and_then(|list| dropped::of_uris(&String::from_utf8_lossy(&list)))
    {
        return Some(Clip::Files(files));
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
