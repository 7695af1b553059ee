//! What is kept of servers between sessions, in a folder of Piton's own: manifests (what a server offered last, and which era
//! of the protocol it spoke) and pins (the descriptions and schemas that the user knows its tools by). Both go by the hash of
//! the entry. Files are replaced whole, so that sessions beside each other read whole ones.

use crate::catalogue::{Catalogue, Offered};
use crate::text;
use piton_tools::servers::Pin;
use piton_tools::{diff, private, regular};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The largest file that is read back.
const MOST_BYTES: usize = 32 << 20;
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
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pins(BTreeMap<String, Pinned>);

/// A tool as the user may see it: what it is known as, and whether it still is that.
pub(crate) struct Seen {
    pub(crate) description: String,
    pub(crate) schema: Value,
    pub(crate) pin: Pin,
}

impl Pins {
    /// Pins what is new. Answers whether anything was.
    pub(crate) fn learn(&mut self, tools: &[Offered]) -> bool {
        let before = self.0.len();
        for tool in tools {
            self.0.entry(tool.own_name.clone()).or_insert_with(|| Pinned::of(tool));
        }
        self.0.len() > before
    }

    /// Pins what has changed. Answers how many it was.
    pub(crate) fn accept(&mut self, tools: &[Offered]) -> usize {
        let changed: Vec<&Offered> = tools.iter().filter(|tool| self.seen(tool).pin != Pin::Same).collect();
        for tool in &changed {
            self.0.insert(tool.own_name.clone(), Pinned::of(tool));
        }
        changed.len()
    }

    /// A tool by its pin.
    pub(crate) fn seen(&self, tool: &Offered) -> Seen {
        let now = Pinned::of(tool);
        let known = self.0.get(&tool.own_name).unwrap_or(&now).clone();
        let pin = match known == now {
            true => Pin::Same,
            false => Pin::Changed {
                diff: text::words(&diff::unified(known.text().as_bytes(), now.text().as_bytes()), MOST_DIFF_BYTES),
            },
        };
        Seen { description: known.description, schema: known.schema, pin }
    }
}

impl Pinned {
    fn of(tool: &Offered) -> Self {
        Self { description: tool.description.clone(), schema: tool.schema.clone() }
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
        read(&self.file("manifests", hash)).unwrap_or_default()
    }

    pub(crate) fn keep_manifest(&self, hash: &str, manifest: &Manifest) {
        self.write("manifests", hash, manifest);
    }

    pub(crate) fn pins(&self, hash: &str) -> Pins {
        read(&self.file("pins", hash)).unwrap_or_default()
    }

    pub(crate) fn keep_pins(&self, hash: &str, pins: &Pins) {
        self.write("pins", hash, pins);
    }

    /// Keeps something that cannot be shown as text, by its content; where it is.
    pub(crate) fn attach(&self, content: &[u8], ending: &str) -> io::Result<PathBuf> {
        let folder = self.folder.join("attachments");
        private::make_folder(&folder)?;
        let name = blake3::hash(content).to_hex();
        let path = folder.join(format!("{}.{ending}", &name[..16]));
        private::write(&path, content)?;
        Ok(path)
    }

    fn file(&self, kind: &str, hash: &str) -> PathBuf {
        // It names a file, whoever made it.
        let is_plain = !hash.is_empty() && hash.len() <= 64 && hash.chars().all(|char| char.is_ascii_alphanumeric());
        let name = if is_plain { hash.to_owned() } else { blake3::hash(hash.as_bytes()).to_hex().to_string() };
        self.folder.join(kind).join(format!("{name}.json"))
    }

    /// What cannot be written is not known the next time, which costs a moment and nothing else.
    fn write(&self, kind: &str, hash: &str, value: &impl Serialize) {
        let file = self.file(kind, hash);
        let written = serde_json::to_vec(value).map_err(io::Error::from).and_then(|text| replace(&file, &text));
        if let Err(error) = written {
            tracing::warn!(file = %file.display(), %error, "what is known of an MCP server could not be kept");
        }
    }
}

/// Writes a file anew, whole or not at all.
pub(crate) fn replace(file: &Path, content: &[u8]) -> io::Result<()> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    private::make_folder(file.parent().unwrap_or(Path::new("/")))?;
    let unfinished = file.with_extension(format!("{}-{}.new", std::process::id(), NEXT.fetch_add(1, Relaxed)));
    private::write(&unfinished, content)?;
    std::fs::rename(&unfinished, file)
}

/// A file of ours; nothing where it is not there or not whole.
pub(crate) fn read<T: DeserializeOwned>(file: &Path) -> Option<T> {
    serde_json::from_slice(&regular::whole(file, MOST_BYTES).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
