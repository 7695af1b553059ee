//! What a message refers to with `@`, read when it is spoken. The grammar is [`piton_core::reference`].
//!
//! Only the first text of a message is searched: what is piped in, or comes behind it in other ways, is not what the
//! person wrote and must not make files be read. Nothing outside the workspace is read, by link neither.

use super::files;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use globset::GlobBuilder;
use piton_core::event::{Given, GivenKind};
use piton_core::limits::{
    IMAGE_BYTES, REFERENCE_FOLDER_PERCENT, REFERENCE_IMAGES, REFERENCE_PERCENT, UNKNOWN_WINDOW_TOKENS,
};
use piton_core::message::Part;
use piton_core::reference::ReferenceSizes;
use piton_core::reference::{self, Reference, ShownFile, Style};
use piton_core::tokens::Family;
use piton_tools::files::{Files, Found as Kind, Next};
use piton_tools::ledger::hash_of;
use piton_tools::read::{image_type, is_binary, is_pdf, picture_fault};
use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};

/// Folders that hold what was made or fetched, and are left out.
const MADE: [&str; 3] = ["node_modules", "dist", "build"];
/// Files of a folder or by a pattern that are taken; more are of no use to anybody.
const MOST_FILES: usize = 20_000;
/// Files that are looked at for a pattern.
const MOST_LOOKED_AT: usize = 500_000;
/// Why a path that looks like one was not read.
const MISSING: &str = "there is no such file or folder in the workspace";
/// Endings of pictures, which are no text for the model.
const PICTURES: [&str; 9] = ["png", "jpg", "jpeg", "gif", "bmp", "webp", "svg", "tiff", "tif"];

/// By which rules references are read, and for whom.
#[derive(Debug, Clone)]
pub struct References {
    /// The folder that paths begin in and that nothing leads out of; without links in its path.
    pub workspace: PathBuf,
    /// Whose grammar and rules.
    pub style: Style,
    /// How much of a file is shown.
    pub sizes: ReferenceSizes,
    /// The window of the model that will read it, where it is known.
    pub window_tokens: Option<u64>,
    /// Whether that model looks at pictures, where it is known.
    pub images: Option<bool>,
    /// How it counts.
    pub family: Family,
}

/// What was read for a message.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Resolved {
    /// What joins the message, behind what was said.
    pub parts: Vec<Part>,
    /// What it is, file by file, with what is to be said about it.
    pub items: Vec<Given>,
}

impl References {
    /// Reads what a message refers to.
    pub fn resolve(&self, parts: &[Part], files: &dyn Files) -> Resolved {
        let text = parts.iter().find_map(|part| match part {
            Part::Text { text, .. } => Some(text.as_str()),
            _ => None,
        });
        let references = text.filter(|text| text.contains('@')).map(|text| reference::extract(text, self.style));
        let window = self.window_tokens.unwrap_or(UNKNOWN_WINDOW_TOKENS);
        let mut reader = ReferenceReader {
            rules: self,
            files,
            room: window * REFERENCE_PERCENT / 100,
            folder_room: window * REFERENCE_FOLDER_PERCENT / 100,
            seen: HashSet::new(),
            blocks: Vec::new(),
            images: Vec::new(),
            remarks: Vec::new(),
            items: Vec::new(),
        };
        references.unwrap_or_default().iter().for_each(|reference| reader.read(reference));
        reader.done()
    }
}

/// Where references are read, until there is no room for more.
struct ReferenceReader<'a> {
    rules: &'a References,
    files: &'a dyn Files,
    /// Tokens that all of it may still be.
    room: u64,
    /// Tokens that folders may still be.
    folder_room: u64,
    seen: HashSet<(PathBuf, Option<reference::LineRange>)>,
    blocks: Vec<ShownFile>,
    images: Vec<Part>,
    /// What the model is told beyond the files.
    remarks: Vec<String>,
    items: Vec<Given>,
}

/// What a reference was found to mean.
enum Meant {
    File(PathBuf, Option<reference::LineRange>),
    Folder(PathBuf),
    /// Files by a pattern.
    Several(Found),
    /// Something that is not read. Says why.
    Refused(String),
    /// No path at all: words.
    Words,
}

/// Files that were not named one by one.
#[derive(Default)]
struct Found {
    files: Vec<PathBuf>,
    /// Whether there are or may be more.
    is_cut: bool,
    /// Folders among them that could not be read.
    unreadable: usize,
}

impl ReferenceReader<'_> {
    fn read(&mut self, reference: &Reference) {
        match self.meant(reference) {
            Meant::File(path, lines) => self.file(&path, lines),
            Meant::Folder(path) if self.rules.style.reads_folders() => {
                let found = self.below(&path, MOST_FILES, |_| true);
                self.folder(&files::shown(&path, &self.rules.workspace), found);
            }
            Meant::Folder(_) | Meant::Words => {}
            Meant::Several(found) => self.folder(&reference.path, found),
            Meant::Refused(why) => {
                // Without what belongs to the sentence.
                let readings = reference.readings().into_iter().rev();
                let path = readings.filter(|_| reference.lines.is_none()).find(|reading| reading.lines.is_none());
                let path = files::line(Path::new(&path.unwrap_or_else(|| reference.clone()).path));
                self.remark(&format!("@{path}: {why}"), None);
            }
        }
    }

    /// The first reading that is there.
    fn meant(&self, reference: &Reference) -> Meant {
        let style = self.rules.style;
        if !reference.can_be_a_path() {
            return Meant::Words;
        }
        let readings = if style == Style::Piton { reference.readings() } else { vec![reference.clone()] };
        let mut refused = None;
        for reading in &readings {
            let path = self.rules.workspace.join(&reading.path);
            match self.inside(&path) {
                Ok(_)
                    if style == Style::Piton && reading.lines.is_some_and(|lines| lines.start.max(lines.end) == 0) =>
                {
                    return Meant::Refused("lines are counted from 1, so that there is no line 0".to_owned());
                }
                Ok(_) if style == Style::Piton && reading.lines.is_some_and(|lines| lines.start > lines.end) => {
                    return Meant::Refused("its last line comes before its first".to_owned());
                }
                Ok((real, Kind::Folder)) if style == Style::Piton => {
                    return match self.files.list(&real, 1) {
                        Ok(_) => Meant::Folder(real),
                        Err(error) => Meant::Refused(files::why(&error)),
                    };
                }
                Ok((real, Kind::Folder)) => return Meant::Folder(real),
                Ok((real, Kind::File { .. } | Kind::Other)) => return Meant::File(real, reading.lines),
                Err(Some(why)) => refused = refused.or(Some(why)),
                Err(None) => {}
            }
        }
        if let Some(why) = refused {
            return Meant::Refused(why);
        }
        if style != Style::Piton {
            return Meant::Words;
        }
        let pattern = readings.iter().find(|reading| reading.path.contains(['*', '?', '[', '{']));
        if let Some(files) = pattern.and_then(|pattern| self.matching(&pattern.path)) {
            return Meant::Several(files);
        }
        self.nearly_a_path(reference).map_or(Meant::Words, Meant::Refused)
    }

    /// Why nothing was read, where somebody who writes this means a file.
    fn nearly_a_path(&self, reference: &Reference) -> Option<String> {
        let path = &reference.path;
        if path.starts_with('"') && path.len() > 1 {
            return Some("its quotation mark is not closed, as in @\"two words.md\"".to_owned());
        }
        if path
            .strip_prefix("~/")
            .is_some_and(|below| below.starts_with(|char: char| char.is_alphanumeric() || char == '.'))
        {
            return Some("what lies in the home folder is not read, only what lies in the workspace".to_owned());
        }
        let is_file = |path: &str| self.inside(&self.rules.workspace.join(path)).is_ok();
        if let Some((_, range)) = reference.broken_range().filter(|(path, _)| is_file(path)) {
            return Some(format!("`{range}` is no range of lines, such as 10 or 10-40; nothing of it was read"));
        }
        self.looks_like_a_path(reference).then(|| MISSING.to_owned())
    }

    /// The path without links, if it lies in the workspace, and what is there. `Err(None)`: there is nothing.
    fn inside(&self, path: &Path) -> Result<(PathBuf, Kind), Option<String>> {
        let workspace = &self.rules.workspace;
        let found = self.files.real(path).and_then(|real| Ok((self.files.look(&real)?, real)));
        let (kind, real) = match found {
            Ok((Some(kind), real)) => (kind, real),
            // Of what lies outside it is not even said whether it is there.
            Ok((None, _)) | Err(_) if !files::plain(path).starts_with(workspace) => return Err(outside(path)),
            Ok((None, _)) => return Err(None),
            Err(error) => match error.kind() {
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => return Err(None),
                std::io::ErrorKind::InvalidFilename => return Err(None),
                _ => return Err(Some(files::why(&error))),
            },
        };
        if real.starts_with(workspace) {
            return Ok((real, kind));
        }
        let is_link = files::plain(path).starts_with(workspace);
        if is_link {
            Err(Some("it leads out of the workspace and was not read".to_owned()))
        } else {
            Err(outside(path))
        }
    }

    /// Whether somebody who writes this means a file: its folder is there, or its first one and it has an ending.
    fn looks_like_a_path(&self, reference: &Reference) -> bool {
        let path = Path::new(&reference.path);
        let has_ending = path.extension().is_some_and(|ending| {
            let ending = ending.to_string_lossy();
            (1..=6).contains(&ending.len()) && ending.bytes().all(|byte| byte.is_ascii_alphanumeric())
        });
        let first = path.components().next().filter(|first| matches!(first, Component::Normal(_)));
        let is_deep = path.components().count() > 1;
        let is_folder = |path: PathBuf| matches!(self.files.look(&path), Ok(Some(Kind::Folder)));
        let starts_here = first.is_some_and(|first| is_folder(self.rules.workspace.join(first)));
        (is_deep && starts_here) || (has_ending && !is_deep && reference.readings().len() == 1)
    }

    /// The files that a pattern matches, or `None` if it is no pattern or matches nothing.
    fn matching(&self, pattern: &str) -> Option<Found> {
        let pattern = pattern.trim_start_matches("./");
        let glob = GlobBuilder::new(pattern).literal_separator(true).build().ok()?.compile_matcher();
        // Where to begin: what stands before the first wildcard.
        let fixed = &pattern[..pattern.find(['*', '?', '[', '{']).unwrap_or(0)];
        let base = self.rules.workspace.join(fixed.rsplit_once('/').map_or("", |(folder, _)| folder));
        let (base, _) = self.inside(&base).ok()?;
        let workspace = &self.rules.workspace;
        let is_match = |path: &Path| path.strip_prefix(workspace).is_ok_and(|within| glob.is_match(within));
        let found = self.below(&base, MOST_LOOKED_AT, is_match);
        (!found.files.is_empty()).then_some(found)
    }

    /// The files below a folder that are wanted and lie in the workspace; so many are looked at.
    fn below(&self, folder: &Path, most: usize, is_wanted: impl Fn(&Path) -> bool) -> Found {
        let (mut found, mut looked_at) = (Found::default(), 0);
        self.files.walk(folder, &mut |entry| {
            let (path, kind) = match entry {
                Ok((path, Kind::Folder)) if is_passed_over(path) => return Next::PassOver,
                Ok((_, Kind::Folder)) => return Next::GoOn,
                Ok(entry) => entry,
                Err(_) => {
                    found.unreadable += 1;
                    return Next::GoOn;
                }
            };
            if looked_at == most || found.files.len() == MOST_FILES {
                found.is_cut = true;
                return Next::Stop;
            }
            looked_at += 1;
            if is_wanted(path) && matches!(kind, Kind::File { .. }) {
                found.files.extend(self.inside(path).ok().map(|(real, _)| real));
            }
            Next::GoOn
        });
        found
    }

    /// A file that was named.
    fn file(&mut self, path: &Path, lines: Option<reference::LineRange>) {
        if !self.seen.insert((path.to_path_buf(), lines)) {
            return;
        }
        let shown = files::shown(path, &self.rules.workspace);
        if is_picture(path) {
            return self.picture(path, &shown);
        }
        if self.room == 0 && !self.rules.style.is_silent() {
            return self.remark(&format!("@{shown}: there is no room left for it; read it"), Some(path));
        }
        match self.load(path, &shown, lines, self.room) {
            Ok(loaded) => self.add(path, loaded),
            Err(why) => self.remark(&format!("@{shown}: {why}"), Some(path)),
        }
    }

    /// Files that were not named one by one: as many as there is room for, the rest is listed.
    fn folder(&mut self, name: &str, found: Found) {
        let more = if found.is_cut { " or more" } else { "" };
        let (mut shown_files, mut left, mut passed_over, mut seen_before) = (0, Vec::new(), 0, 0);
        for path in found.files {
            if self.seen.contains(&(path.clone(), None)) {
                seen_before += 1;
                continue;
            }
            let shown = files::shown(&path, &self.rules.workspace);
            if is_picture(&path) {
                passed_over += 1;
                continue;
            }
            let room = self.folder_room.min(self.room);
            // Once something did not fit, nothing behind it is read: what is left out is one piece.
            if !left.is_empty() {
                left.push(shown);
                continue;
            }
            match self.load(&path, &shown, None, u64::MAX) {
                Ok(loaded) if self.tokens(&loaded.block) > room => left.push(shown),
                Ok(loaded) if loaded.hash.is_none() && !self.rules.style.is_silent() => passed_over += 1,
                Ok(loaded) => {
                    let before = self.room;
                    self.seen.insert((path.clone(), None));
                    self.add(&path, loaded);
                    self.folder_room = self.folder_room.saturating_sub(before - self.room);
                    shown_files += 1;
                }
                Err(_) => passed_over += 1,
            }
        }
        if self.rules.style.is_silent() && left.is_empty() {
            return;
        }
        if !left.is_empty() {
            let files = shown_files + left.len();
            let list = format!(
                "@{name} has {files}{more} files, more than there is room for: the first {shown_files} are shown above. Read \
                 what else you need of these:\n{}",
                reference::tree(&left)
            );
            let notice = format!("@{name}: {shown_files} of {files}{more} files fit, the rest is listed");
            self.items.push(item(None, None, self.rules.family.estimate(&list), Some(notice)));
            self.remarks.push(list);
        } else if found.unreadable > 0 {
            let folders = if found.unreadable == 1 { "folder" } else { "folders" };
            self.remark(&format!("@{name}: {} {folders} in it cannot be read", found.unreadable), None);
        } else if shown_files + seen_before == 0 {
            self.remark(&format!("@{name}: there is no text file in it"), None);
        }
        if passed_over > 0 && !self.rules.style.is_silent() {
            let files = if passed_over == 1 { "1 file that is" } else { &format!("{passed_over} files that are") };
            self.remarks.push(format!("@{name}: left out {files} not text"));
        }
    }

    /// A picture that was named.
    fn picture(&mut self, path: &Path, shown: &str) {
        if self.rules.style.is_silent() && self.rules.images != Some(true) {
            return;
        }
        let refused = match self.rules.images {
            Some(true) if self.images.len() == REFERENCE_IMAGES => {
                Some(format!("a message takes {REFERENCE_IMAGES} pictures"))
            }
            Some(true) => None,
            Some(false) => Some("the model does not look at pictures".to_owned()),
            None => {
                let why = "Piton does not know whether the model reads images; if it does, set images = true in its \
                           [models.\"PROVIDER/NAME\"] table of the configuration";
                Some(why.to_owned())
            }
        };
        let attached = refused.map_or_else(|| self.attach(path), Err);
        match attached {
            Ok((part, bytes)) => {
                self.images.push(part);
                self.items.push(item(Some(path), None, Family::estimate_image(), None));
                if !self.rules.style.is_silent() {
                    self.remarks.push(format!("@{shown} is attached ({bytes} bytes)"));
                }
            }
            Err(why) => self.remark(&format!("@{shown} was not attached: {why}"), Some(path)),
        }
    }

    fn load(&self, path: &Path, shown: &str, lines: Option<reference::LineRange>, room: u64) -> Result<Loaded, String> {
        let sizes = &self.rules.sizes;
        let most = usize::try_from(sizes.file_bytes).unwrap_or(usize::MAX);
        let unread = |size: u64| {
            let block = reference::unread(shown, size, sizes, self.rules.style);
            let notice = Some(format!("@{shown}: {}", block.metadata));
            Loaded { block, hash: None, notice }
        };
        match self.files.look(path) {
            Ok(Some(Kind::File { bytes })) if bytes > sizes.file_bytes => return Ok(unread(bytes)),
            Ok(_) => {}
            Err(error) => return Err(files::why(&error)),
        }
        let file = self.files.beginning(path, most).map_err(|error| files::why(&error))?;
        if is_binary(&file.bytes) || file.is_binary() || is_pdf(&file.bytes) {
            return Ok(unread(file.size));
        }
        let text = file.text();
        // What stands around it has its place, too.
        let around = Family::OpenAi.estimate(&reference::unread(shown, 0, sizes, self.rules.style).element());
        let block = reference::content(shown, &text, lines, (room.saturating_sub(around), sizes), self.rules.style);
        let hidden = block.content.chars().filter(|char| piton_core::hidden::is_hidden(*char)).count();
        let notice = match hidden {
            0 if block.is_short => Some(format!("@{shown}: {}", block.metadata)),
            0 => None,
            _ => Some(format!("@{shown} holds {hidden} hidden characters")),
        };
        Ok(Loaded { hash: Some(hash_of(&file.bytes)), block, notice })
    }

    /// A picture as a part of a message, and its size in bytes.
    fn attach(&self, path: &Path) -> Result<(Part, u64), String> {
        let most = usize::try_from(IMAGE_BYTES).unwrap_or(usize::MAX);
        let file = self.files.beginning(path, most).map_err(|error| files::why(&error))?;
        if !file.is_whole() {
            return Err(format!("it has {} bytes, {IMAGE_BYTES} are taken", file.size));
        }
        let media_type = image_type(&file.bytes).ok_or("it is no PNG, JPEG, GIF or WebP picture")?;
        // It would be refused, with every request after it.
        if let Some(fault) = picture_fault(media_type, &file.bytes) {
            return Err(fault.to_owned());
        }
        let data = BASE64_STANDARD.encode(&file.bytes);
        Ok((Part::Image { media_type: media_type.to_owned(), data }, file.size))
    }

    fn add(&mut self, path: &Path, loaded: Loaded) {
        let Loaded { block, hash, notice } = loaded;
        let tokens = self.tokens(&block);
        self.room = self.room.saturating_sub(tokens);
        self.items.push(item(Some(path), hash.filter(|_| block.is_whole), tokens, notice));
        self.blocks.push(block);
    }

    /// What a file costs as it is sent, with what stands around it.
    fn tokens(&self, block: &ShownFile) -> u64 {
        self.rules.family.estimate(&block.element())
    }

    /// Something that model and person are both told, where that is the style.
    fn remark(&mut self, what: &str, path: Option<&Path>) {
        if self.rules.style.is_silent() {
            return;
        }
        self.remarks.push(what.to_owned());
        self.items.push(item(path, None, 0, Some(what.to_owned())));
    }

    fn done(self) -> Resolved {
        let mut parts: Vec<Part> = reference::files(&self.blocks).map(Part::note).into_iter().collect();
        if !self.remarks.is_empty() {
            parts.push(Part::note(format!("[{}]", self.remarks.join("\n"))));
        }
        parts.extend(self.images);
        Resolved { parts, items: self.items }
    }
}

/// A file that was read.
struct Loaded {
    block: ShownFile,
    /// Of the whole file, if it is text.
    hash: Option<String>,
    notice: Option<String>,
}

fn item(path: Option<&Path>, hash: Option<String>, tokens: u64, notice: Option<String>) -> Given {
    let path = path.map(|path| path.to_string_lossy().into_owned());
    Given { path, hash, notice, ..Given::new(GivenKind::Reference, tokens) }
}

/// Whether a folder holds what was made or fetched, or is hidden.
fn is_passed_over(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with('.') || MADE.contains(&name.as_ref())
}

fn is_picture(path: &Path) -> bool {
    path.extension().is_some_and(|ending| PICTURES.iter().any(|picture| ending.eq_ignore_ascii_case(picture)))
}

/// What is said of a path that leads elsewhere. Words may begin with `/`, too; a path begins with a folder that is there.
fn outside(path: &Path) -> Option<String> {
    files::begins_with_a_folder(path).then(|| "it lies outside the workspace and was not read".to_owned())
}

#[cfg(test)]
mod tests;
