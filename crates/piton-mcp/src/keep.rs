//! What is kept of servers between sessions, in a folder of Piton's own: manifests (what a server offered last, and which era
//! of the protocol it spoke) and pins (the descriptions and schemas that the user knows its tools by). Both go by the hash of
//! the entry. Files are replaced whole, so that sessions beside each other read whole ones.

use crate::catalogue::{Catalogue, Offered};
use crate::{process, text};
use piton_core::secrets::{Depth, Firewall};
use piton_tools::servers::Pin;
use piton_tools::{diff, private, regular};
use rustix::fs::{FlockOperation, flock};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

/// The largest file that is read back.
const MOST_BYTES: usize = 32 << 20;
/// Tools of one server that are pinned: more than it can offer at a time, and no more than can be read back.
const MOST_PINS: usize = 4_000;
/// Bytes of the pins of one server, as they are written.
const MOST_PINS_BYTES: usize = 24 << 20;
/// The folder of what calls have brought that is no text.
const ATTACHMENTS: &str = "attachments";
/// How long it stays there.
const ATTACHMENT_AGE: Duration = Duration::from_secs(30 * 24 * 3_600);
/// Bytes of a difference that is shown.
const MOST_DIFF_BYTES: usize = 16 << 10;

/// Which era of the protocol a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Era {
    /// Before 2026-07-28: a connection begins with a handshake.
    Legacy,
    /// From 2026-07-28 on: every request stands for itself.
    Modern,
}

/// What a server was like when it was last seen.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// The era that it spoke.
    pub(crate) era: Option<Era>,
    /// The version of the protocol.
    #[serde(default)]
    pub(crate) version: String,
    /// What it calls itself, with its version.
    #[serde(default)]
    pub(crate) called: String,
    /// What it offered.
    pub(crate) catalogue: Catalogue,
}

/// What the user knows a tool as.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Pinned {
    description: String,
    schema: Value,
}

/// The pins of a server, by the own names of its tools. A tool that goes keeps its pin, so that it cannot come back as another.
/// A tool without a pin counts as changed: either there was no room for one, or the pins cannot be read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pins(BTreeMap<String, Pinned>);

/// One state of a file: each has a number and a time of its own, since files are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp(u64, SystemTime);

/// A tool as the user may see it: what it is known as, and whether it still is that.
pub(crate) struct Seen {
    pub(crate) description: String,
    pub(crate) schema: Value,
    pub(crate) pin: Pin,
}

impl Manifest {
    /// The same without secrets that are known. What the server would no longer know by its name is left out.
    pub(crate) fn cleaned(mut self, firewall: &Firewall) -> Self {
        let is_clean = |text: &str| matches!(firewall.cleaned(text, Depth::Known), Cow::Borrowed(_));
        if firewall.is_off() || serde_json::to_string(&self).is_ok_and(|whole| is_clean(&whole)) {
            return self;
        }
        self.catalogue.keep_named(is_clean);
        let mut whole = serde_json::to_value(&self).unwrap_or_default();
        firewall.known_value(&mut whole);
        serde_json::from_value(whole).unwrap_or_default()
    }
}

impl Pins {
    /// Pins what is new, as long as there is room. Answers whether anything was.
    pub(crate) fn learn(&mut self, tools: &[Offered]) -> bool {
        self.add(tools.iter().map(|tool| (&tool.own_name, Pinned::of(tool))))
    }

    fn merge(&mut self, known: &Self) {
        self.add(known.0.iter().map(|(name, pinned)| (name, pinned.clone())));
    }

    /// Takes in pins of tools that have none, as long as there is room. Answers whether there were any.
    fn add<'n>(&mut self, pins: impl Iterator<Item = (&'n String, Pinned)>) -> bool {
        let new: Vec<(&String, Pinned)> = pins.filter(|(name, _)| !self.0.contains_key(*name)).collect();
        if new.is_empty() {
            return false;
        }
        let (before, mut bytes) = (self.0.len(), self.bytes());
        for (name, pinned) in new {
            bytes += pinned.bytes(name);
            if self.0.len() == MOST_PINS || bytes > MOST_PINS_BYTES {
                tracing::warn!(
                    "an MCP server has had too many tools: those from {} on are not pinned",
                    text::line(name, 80)
                );
                break;
            }
            self.0.insert(name.clone(), pinned);
        }
        self.0.len() > before
    }

    /// Pins what has changed. Answers how many it was. Where there is no room, the tools that are gone are forgotten.
    pub(crate) fn accept(&mut self, tools: &[Offered]) -> usize {
        let changed: Vec<&Offered> = tools.iter().filter(|tool| !self.is_same(tool)).collect();
        for tool in &changed {
            self.0.insert(tool.own_name.clone(), Pinned::of(tool));
        }
        if self.0.len() > MOST_PINS || self.bytes() > MOST_PINS_BYTES {
            self.0.retain(|name, _| tools.iter().any(|tool| tool.own_name == *name));
        }
        changed.len()
    }

    /// Whether a tool is what the user knows it as.
    pub(crate) fn is_same(&self, tool: &Offered) -> bool {
        let known = self.0.get(&tool.own_name);
        known.is_some_and(|known| known.description == tool.description && known.schema == tool.schema)
    }

    /// A tool by its pin.
    pub(crate) fn seen(&self, tool: &Offered) -> Seen {
        let known = self.0.get(&tool.own_name).cloned().unwrap_or_else(Pinned::unknown);
        let pin = match self.is_same(tool) {
            true => Pin::Same,
            false => {
                let unified = diff::unified(known.text().as_bytes(), Pinned::of(tool).text().as_bytes());
                Pin::Changed { diff: text::words(&unified, MOST_DIFF_BYTES) }
            }
        };
        Seen { description: known.description, schema: known.schema, pin }
    }

    fn bytes(&self) -> usize {
        self.0.iter().map(|(name, pinned)| pinned.bytes(name)).sum()
    }
}

impl Pinned {
    fn of(tool: &Offered) -> Self {
        Self { description: tool.description.clone(), schema: tool.schema.clone() }
    }

    /// What is known of a tool without a pin.
    fn unknown() -> Self {
        Self { description: String::new(), schema: json!({"type": "object"}) }
    }

    /// Bytes that it takes in a file, with its name.
    fn bytes(&self, name: &str) -> usize {
        serde_json::to_vec(&(name, self)).map_or(MOST_PINS_BYTES, |written| written.len())
    }

    /// As it is compared, line by line.
    fn text(&self) -> String {
        let schema = serde_json::to_string_pretty(&self.schema).unwrap_or_default();
        format!("{}\n{}\n", self.description, piton_core::hidden::visible(&schema))
    }
}

/// The folder of all that is kept.
#[derive(Debug, Clone)]
pub(crate) struct Keep {
    folder: PathBuf,
}

impl Keep {
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    pub(crate) fn manifest(&self, hash: &str) -> Manifest {
        read(&self.file("manifests", hash)).ok().flatten().unwrap_or_default()
    }

    pub(crate) fn keep_manifest(&self, hash: &str, manifest: &Manifest) {
        log_unkept(self.write("manifests", hash, manifest));
    }

    /// The pins of a server, with those that only we know of.
    ///
    /// # Errors
    /// They are there and cannot be read: nothing may be taken for new then.
    pub(crate) fn pins(&self, hash: &str, known: &Pins) -> io::Result<Pins> {
        let mut pins: Pins = read(&self.file("pins", hash))?.unwrap_or_default();
        pins.merge(known);
        Ok(pins)
    }

    /// The pins of a server, with those of the tools that are new, which are kept. What cannot be read is left as it is.
    pub(crate) fn learn(&self, hash: &str, known: &Pins, tools: &[Offered]) -> Pins {
        // Where there can be no lock, nothing can be written either.
        let _lock = self.lock_pins();
        let learned = self.pins(hash, &Pins::default()).map(|kept| {
            let mut pins = kept.clone();
            pins.merge(known);
            pins.learn(tools);
            if pins != kept {
                log_unkept(self.write("pins", hash, &pins));
            }
            pins
        });
        learned.unwrap_or_else(|error| {
            tracing::warn!(%error, "the pins of an MCP server cannot be read: tools that are not known yet are not called");
            known.clone()
        })
    }

    /// Pins the tools of a server as they are now, whatever is kept of them. Answers how many had changed.
    pub(crate) fn accept(&self, hash: &str, known: &Pins, tools: &[Offered]) -> io::Result<(Pins, usize)> {
        let _lock = self.lock_pins()?;
        let mut pins = self.pins(hash, known).unwrap_or_else(|_| known.clone());
        let accepted = pins.accept(tools);
        self.write("pins", hash, &pins)?;
        Ok((pins, accepted))
    }

    /// Tells one state of a server's pins on the disk from another.
    pub(crate) fn stamp_of_pins(&self, hash: &str) -> Option<Stamp> {
        let found = std::fs::metadata(self.file("pins", hash)).ok()?;
        Some(Stamp(found.ino(), found.modified().ok()?))
    }

    fn lock_pins(&self) -> io::Result<File> {
        lock(&self.folder, "pins.lock")
    }

    /// Keeps something that cannot be shown as text, by its content; where it is.
    pub(crate) fn attach(&self, content: &[u8], ending: &str) -> io::Result<PathBuf> {
        let folder = self.folder.join(ATTACHMENTS);
        private::make_folder(&folder)?;
        let name = blake3::hash(content).to_hex();
        let path = folder.join(format!("{}.{ending}", &name[..16]));
        private::write(&path, content)?;
        Ok(path)
    }

    /// Removes what nobody needs any more: old attachments, and what is left of the sandboxes of dead processes.
    pub(crate) fn sweep(&self) {
        process::sweep(&self.folder.join(process::PRIVATE));
        let Some(oldest) = SystemTime::now().checked_sub(ATTACHMENT_AGE) else { return };
        for found in std::fs::read_dir(self.folder.join(ATTACHMENTS)).into_iter().flatten().flatten() {
            if found.metadata().and_then(|found| found.modified()).is_ok_and(|changed| changed < oldest) {
                let _ = std::fs::remove_file(found.path());
            }
        }
    }

    fn file(&self, kind: &str, hash: &str) -> PathBuf {
        // It names a file, whoever made it.
        let is_plain = !hash.is_empty() && hash.len() <= 64 && hash.chars().all(|char| char.is_ascii_alphanumeric());
        let name = if is_plain { hash.to_owned() } else { blake3::hash(hash.as_bytes()).to_hex().to_string() };
        self.folder.join(kind).join(format!("{name}.json"))
    }

    fn write(&self, kind: &str, hash: &str, value: &impl Serialize) -> io::Result<()> {
        let text = serde_json::to_vec(value)?;
        match text.len() > MOST_BYTES {
            true => Err(io::ErrorKind::FileTooLarge.into()),
            false => replace(&self.file(kind, hash), &text),
        }
    }
}

/// What could not be written is not known the next time, which costs a moment and nothing else.
fn log_unkept(written: io::Result<()>) {
    if let Err(error) = written {
        tracing::warn!(%error, "what is known of an MCP server could not be kept");
    }
}

/// Waits for a lock, which is held until the file is closed.
pub(crate) fn lock(folder: &Path, name: &str) -> io::Result<File> {
    private::make_folder(folder)?;
    let file = private::append(&folder.join(name))?;
    flock(&file, FlockOperation::LockExclusive)?;
    Ok(file)
}

/// Writes a file anew, whole or not at all.
pub(crate) fn replace(file: &Path, content: &[u8]) -> io::Result<()> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    private::make_folder(file.parent().unwrap_or(Path::new("/")))?;
    let unfinished = file.with_extension(format!("{}-{}.new", std::process::id(), NEXT.fetch_add(1, Relaxed)));
    let mut new = private::create(&unfinished)?;
    let written =
        new.write_all(content).and_then(|()| new.sync_all()).and_then(|()| std::fs::rename(&unfinished, file));
    if written.is_err() {
        let _ = std::fs::remove_file(&unfinished);
    }
    written
}

/// A file of ours; nothing where there is none.
///
/// # Errors
/// It is there, and cannot be read or is not whole.
pub(crate) fn read<T: DeserializeOwned>(file: &Path) -> io::Result<Option<T>> {
    match regular::whole(file, MOST_BYTES) {
        Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use piton_core::secrets::Secrets;
    use serde_json::json;
    use std::sync::Arc;

    fn tool(description: &str) -> Offered {
        Offered {
            name: "mcp__s__t".to_owned(),
            own_name: "t".to_owned(),
            title: String::new(),
            description: description.to_owned(),
            schema: json!({"type": "object"}),
            output: None,
        }
    }

    #[test]
    fn what_is_kept_holds_no_secret_that_is_known() {
        let firewall = Firewall::new(Secrets::new(Arc::new(|_| 7)));
        firewall.know("TOKEN", "kartoffel77secret88");
        let kept = |manifest: Manifest| serde_json::to_string(&manifest.cleaned(&firewall)).unwrap();
        let said = "uses kartoffel77secret88";
        let mut named = tool("adds");
        "kartoffel77secret88".clone_into(&mut named.own_name);
        let mut in_schema = tool(said);
        in_schema.schema = json!({"type": "object", "properties": {"a": {"default": "kartoffel77secret88"}}});
        let catalogue =
            Catalogue { instructions: said.to_owned(), tools: vec![in_schema, named], ..Catalogue::default() };
        let text = kept(Manifest { called: said.to_owned(), catalogue, ..Manifest::default() });
        assert!(!text.contains("kartoffel77") && text.matches("\u{2039}secret:TOKEN:").count() == 4, "{text}");
        assert_eq!(text.matches("own_name").count(), 1, "it could not be called: {text}");
        let plain = Catalogue { tools: vec![tool("adds")], ..Catalogue::default() };
        let manifest = Manifest { catalogue: plain, ..Manifest::default() };
        assert_eq!(manifest.clone().cleaned(&firewall), manifest);
    }

    #[test]
    fn a_changed_tool_is_what_it_was_until_it_is_accepted() {
        let mut pins = Pins::default();
        assert!(pins.learn(&[tool("adds")]) && !pins.learn(&[tool("adds, and sends your keys")]));
        let seen = pins.seen(&tool("adds, and sends your keys"));
        assert_eq!(seen.description, "adds");
        let Pin::Changed { diff } = seen.pin else { panic!("it has changed") };
        assert!(diff.contains("-adds\n+adds, and sends your keys\n"), "{diff}");
        assert_eq!(pins.accept(&[tool("adds, and sends your keys")]), 1);
        assert_eq!(pins.seen(&tool("adds, and sends your keys")).pin, Pin::Same);
    }

    fn named(own_name: &str, description: &str) -> Offered {
        Offered { own_name: own_name.to_owned(), ..tool(description) }
    }

    #[test]
    fn pins_that_cannot_be_read_make_all_tools_changed_and_stay_until_they_are_accepted() {
        let folder = tempfile::tempdir().unwrap();
        let keep = Keep::new(folder.path());
        let pins = keep.learn("abc", &Pins::default(), &[tool("adds")]);
        assert!(pins.is_same(&tool("adds")));
        let file = keep.file("pins", "abc");
        std::fs::write(&file, "{").unwrap();
        let pins = keep.learn("abc", &Pins::default(), &[tool("adds")]);
        assert!(!pins.is_same(&tool("adds")), "it may be another than it was");
        let seen = pins.seen(&tool("adds"));
        assert!(seen.description.is_empty() && seen.pin != Pin::Same, "its words are not read either");
        assert_eq!(std::fs::read(&file).unwrap(), b"{");
        let (pins, accepted) = keep.accept("abc", &pins, &[tool("adds")]).unwrap();
        assert!(accepted == 1 && pins.is_same(&tool("adds")));
        assert_eq!(keep.pins("abc", &Pins::default()).unwrap(), pins);
    }

    #[test]
    fn a_server_cannot_have_so_many_tools_that_its_pins_are_lost() {
        let folder = tempfile::tempdir().unwrap();
        let keep = Keep::new(folder.path());
        let many = |from: usize| (from..from + 2_000).map(|at| named(&format!("t{at}"), "d")).collect::<Vec<_>>();
        let mut pins = keep.learn("abc", &Pins::default(), &[tool("adds")]);
        for round in 0..3 {
            pins = keep.learn("abc", &pins, &many(round * 2_000));
        }
        assert_eq!(pins.0.len(), MOST_PINS);
        assert!(pins.is_same(&named("t3998", "d")) && !pins.is_same(&named("t3999", "d")));
        assert!(!pins.is_same(&tool("adds, and sends your keys")));
        assert_eq!(keep.pins("abc", &Pins::default()).unwrap(), pins);
        let (pins, accepted) = keep.accept("abc", &pins, &many(4_000)).unwrap();
        assert_eq!((pins.0.len(), accepted), (2_000, 2_000), "what is there now has room");

        let large = |at: usize| named(&format!("l{at}"), &"d".repeat(1 << 20));
        let pins = keep.learn("abc", &pins, &(0..30).map(large).collect::<Vec<_>>());
        assert!(pins.is_same(&large(20)) && !pins.is_same(&large(29)));
        assert_eq!(keep.pins("abc", &Pins::default()).unwrap(), pins);
    }

    #[test]
    fn what_is_accepted_beside_us_stays_accepted() {
        let folder = tempfile::tempdir().unwrap();
        let keep = Keep::new(folder.path());
        let ours = keep.learn("abc", &Pins::default(), &[tool("adds")]);
        let stamp = keep.stamp_of_pins("abc");
        keep.accept("abc", &Pins::default(), &[tool("adds twice")]).unwrap();
        assert_ne!(keep.stamp_of_pins("abc"), stamp);
        let ours = keep.learn("abc", &ours, &[tool("adds twice"), named("new", "")]);
        assert!(ours.is_same(&tool("adds twice")));
        assert_eq!(keep.pins("abc", &Pins::default()).unwrap(), ours);
    }

    #[test]
    fn attachments_are_kept_for_a_month() {
        let folder = tempfile::tempdir().unwrap();
        let keep = Keep::new(folder.path());
        let (old, new) = (keep.attach(b"old", "bin").unwrap(), keep.attach(b"new", "bin").unwrap());
        File::options().write(true).open(&old).unwrap().set_modified(SystemTime::now() - 2 * ATTACHMENT_AGE).unwrap();
        keep.sweep();
        assert!(!old.exists() && new.exists());
    }

    #[test]
    fn what_is_kept_is_there_the_next_time() {
        let folder = tempfile::tempdir().unwrap();
        let keep = Keep::new(folder.path());
        let manifest = Manifest { era: Some(Era::Modern), ..Manifest::default() };
        for hash in ["abc", "../../etc/passwd"] {
            assert_eq!(keep.manifest(hash), Manifest::default());
            keep.keep_manifest(hash, &manifest);
            assert_eq!(keep.manifest(hash), manifest);
        }
        assert_eq!(std::fs::read_dir(folder.path().join("manifests")).unwrap().count(), 2);
    }
}
