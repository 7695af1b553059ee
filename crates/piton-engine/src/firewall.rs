//! The firewall of a session: what it knows when the session opens, and the files of variables that are read again when they
//! change. Made here for every embedder; what a secret looks like is the business of [`piton_core::secrets`].
//!
//! Whatever is recorded passes it ([`crate::driver`]), hence what is kept, published and sent to the model are the same bytes.
//! What streams by passes it in pieces.

use crate::list_file::ListFile;
use crate::settings::{SecretSettings, Settings};
use piton_core::call::ToolSpec;
use piton_core::message::Role;
use piton_core::model::Request;
use piton_core::secrets::{Depth, Firewall, Secrets, is_secret_variable};
use piton_core::turn::State;
use piton_tools::private;
use piton_tools::regular::{self, SETTINGS_BYTES};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// In the data folder: what tags of placeholders are made with.
const KEY_FILE: &str = "secret.key";
const KEY_BYTES: usize = 32;

/// The firewall of a session that opens with these settings.
pub(crate) fn firewall(data_dir: &Path, settings: &Settings, session: &State) -> Firewall {
    let firewall = of_machine(data_dir, &settings.secrets);
    know_settings(&firewall, settings);
    let said = session.transcript().filter(|message| message.role == Role::Assistant);
    said.for_each(|message| firewall.own(&message.parts));
    firewall
}

/// One that knows these secrets, whoever uses it.
pub(crate) fn of_machine(data_dir: &Path, secrets: &SecretSettings) -> Firewall {
    let SecretSettings { redact, values, files } = secrets;
    if !redact {
        return Firewall::off();
    }
    // Where no secret is met, none is kept.
    let (folder, kept) = (data_dir.to_path_buf(), OnceLock::new());
    let tag = move |value: &[u8]| {
        let hash = blake3::keyed_hash(kept.get_or_init(|| key(&folder)), value);
        let first = hash.as_bytes().first_chunk::<4>().copied().unwrap_or_default();
        u32::from_be_bytes(first)
    };
    let firewall = Firewall::new(Secrets::new(Arc::new(tag)));
    values.iter().for_each(|(name, value)| firewall.know(name, value));
    files.iter().filter_map(|file| text(file)).for_each(|text| firewall.know_file(&text));
    firewall
}

/// Adds what models are asked with, and what tools' processes have in their environment that is named like a secret.
pub(crate) fn know_settings(firewall: &Firewall, settings: &Settings) {
    know_keys(firewall, settings);
    for (name, value) in settings.env.iter() {
        if let (Some(name), Some(value)) = (name.to_str(), value.to_str())
            && is_secret_variable(name)
        {
            firewall.know(name, value);
        }
    }
}

/// Adds what MCP servers are given to log in with.
pub(crate) fn know_servers(firewall: &Firewall, settings: &Settings) {
    for (name, value) in settings.tools.servers().map(|servers| servers.secrets()).unwrap_or_default() {
        firewall.know(&name, &value);
    }
}

/// Takes known secrets out of what a request says before the conversation: servers, skills and agents have words of theirs in it. A tool
/// whose name holds one is left out.
pub(crate) fn clean_frame(request: &mut Request, firewall: &Firewall) {
    let is_clean = |text: &str| matches!(firewall.cleaned(text, Depth::Known), Cow::Borrowed(_));
    firewall.clean(&mut request.system, Depth::Known);
    let words = |tool: &ToolSpec| format!("{} {} {}", tool.name, tool.description, tool.schema);
    if request.tools.iter().all(|tool| is_clean(&words(tool))) {
        return;
    }
    let mut tools: Vec<ToolSpec> = request.tools.iter().filter(|tool| is_clean(&tool.name)).cloned().collect();
    for tool in &mut tools {
        firewall.clean(&mut tool.description, Depth::Known);
        firewall.value(&mut tool.schema);
    }
    request.tools = tools.into();
}

/// Adds what models are asked with, which may be another key than before.
pub(crate) fn know_keys(firewall: &Firewall, settings: &Settings) {
    let models = std::iter::once(&settings.model).chain(&settings.fallbacks);
    for model in models.chain(&settings.titles).chain(&settings.compaction_model) {
        let provider = model.name().split('/').next().unwrap_or_default();
        model.secrets().iter().for_each(|key| firewall.know_key(provider, key));
    }
}

fn text(path: &Path) -> Option<String> {
    Some(regular::beginning(path, SETTINGS_BYTES).ok()?.text())
}

/// The key of this machine. Where it can be neither read nor kept, one for this process: placeholders are others then the
/// next time, and nothing else.
fn key(data_dir: &Path) -> [u8; KEY_BYTES] {
    kept_key(&data_dir.join(KEY_FILE)).unwrap_or_else(|_| random_key())
}

fn kept_key(path: &Path) -> io::Result<[u8; KEY_BYTES]> {
    let read = || -> io::Result<[u8; KEY_BYTES]> {
        let bytes = regular::whole_unlinked(path, KEY_BYTES)?;
        bytes.try_into().map_err(|_| io::ErrorKind::InvalidData.into())
    };
    // One that was cut off when it was written, as on a full disk, is none.
    let is_missing = |error: &io::Error| matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData);
    match read() {
        Err(error) if is_missing(&error) => {}
        read => return read,
    }
    let folder = path.parent().unwrap_or(Path::new("."));
    private::make_folder(folder)?;
    let list = ListFile::new(path.to_path_buf());
    let _lock = list.lock().map_err(io::Error::other)?;
    match read() {
        Err(error) if is_missing(&error) => {}
        // Another process was first.
        read => return read,
    }
    let key = random_key();
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(&key)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(key)
}

fn random_key() -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    let filled = File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut key));
    if filled.is_err() {
        key.fill_with(|| fastrand::u8(..));
    }
    key
}

/// The files of variables below a workspace, read again when they change.
pub(crate) struct EnvFiles {
    firewall: Firewall,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// By path: modification time, size and inode of what was read.
    stamps: HashMap<PathBuf, (i64, i64, u64, u64)>,
    walked: Option<Instant>,
}

impl EnvFiles {
    pub(crate) fn new(firewall: Firewall) -> Self {
        Self { firewall, seen: Mutex::default() }
    }

    /// Reads the usual ones at the top of the workspace: before the first request nothing is looked through.
    pub(crate) fn read_top(&self, workspace: &Path) {
        const USUAL: [&str; 8] = [
            ".env",
            ".env.local",
            ".env.development",
            ".env.development.local",
            ".env.production",
            ".env.production.local",
            ".env.test",
            ".envrc",
        ];
        if !self.firewall.is_off() {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            USUAL.iter().for_each(|name| self.read(&workspace.join(name), &mut seen));
        }
    }

    /// The same, and those in folders below: these are looked for again after a while only.
    pub(crate) fn read_all(&self, workspace: &Path) {
        /// How often folders are looked through.
        const WALK_EVERY: Duration = Duration::from_secs(5);
        /// How far down they are.
        const DEPTH: usize = 3;
        if self.firewall.is_off() {
            return;
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.walked.is_none_or(|at| at.elapsed() >= WALK_EVERY) {
            seen.walked = Some(Instant::now());
            self.read_in(workspace, DEPTH, &mut 0, &mut seen);
            return;
        }
        self.read_in(workspace, 0, &mut 0, &mut seen);
        let known: Vec<PathBuf> = seen.stamps.keys().cloned().collect();
        known.iter().for_each(|path| self.read(path, &mut seen));
    }

    /// Reads those in a folder, and in folders below it so far down.
    fn read_in(&self, folder: &Path, depth: usize, entries: &mut usize, seen: &mut Seen) {
        /// More entries are not looked at: what is printed of a file that is not known is looked at all the same.
        const MOST_ENTRIES: usize = 5_000;
        /// What others brought.
        const PASSED_OVER: [&str; 7] = [".git", "node_modules", "target", "dist", "vendor", ".venv", "build"];
        let Ok(found) = fs::read_dir(folder) else { return };
        for entry in found.flatten() {
            *entries += 1;
            if *entries > MOST_ENTRIES {
                return;
            }
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            if name.starts_with(".env") {
                self.read(&entry.path(), seen);
            } else if depth > 0 && !PASSED_OVER.contains(&name) && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.read_in(&entry.path(), depth - 1, entries, seen);
            }
        }
    }

    fn read(&self, path: &Path, seen: &mut Seen) {
        let Ok(meta) = fs::metadata(path) else { return };
        let stamp = (meta.mtime(), meta.mtime_nsec(), meta.len(), meta.ino());
        if !meta.is_file() || seen.stamps.get(path) == Some(&stamp) {
            return;
        }
        seen.stamps.insert(path.to_owned(), stamp);
        if let Some(text) = text(path) {
            self.firewall.know_file(&text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use piton_core::secrets::Depth;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn the_key_is_made_once_and_its_owners_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = key(folder.path());
        assert_eq!(key(folder.path()), first);
        let mode = fs::metadata(folder.path().join(KEY_FILE)).expect("the key").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_ne!(random_key(), random_key());
        // A key that was cut off is replaced, and by one that stays.
        for cut in [0, KEY_BYTES - 1] {
            fs::write(folder.path().join(KEY_FILE), vec![7; cut]).expect("written");
            let second = key(folder.path());
            assert_eq!((key(folder.path()), second == first, second == [0; KEY_BYTES]), (second, false, false));
        }
    }

    #[test]
    fn files_of_variables_are_read_again_when_they_change_and_pipes_are_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, below) = (folder.path().join(".env.local"), folder.path().join("apps/web/.env"));
        rustix::fs::mkfifoat(rustix::fs::CWD, folder.path().join(".env"), rustix::fs::Mode::RWXU).expect("a pipe");
        fs::create_dir_all(below.parent().expect("a folder")).expect("folders");
        let firewall = Firewall::new(Secrets::new(Arc::new(|_| 0)));
        let files = EnvFiles::new(firewall.clone());
        let shows = |value: &str| firewall.cleaned(value, Depth::Known).contains(value);
        fs::write(&path, "API_KEY=first1value2\n").expect("written");
        files.read_top(folder.path());
        assert!(!shows("first1value2") && shows("second1value2"));
        fs::write(&path, "API_KEY=second1value2 \n").expect("written");
        fs::write(&below, "API_KEY=third1value2\n").expect("written");
        files.read_top(folder.path());
        assert!(!shows("first1value2") && !shows("second1value2") && shows("third1value2"));
        files.read_all(folder.path());
        assert!(!shows("third1value2"));
    }
}
