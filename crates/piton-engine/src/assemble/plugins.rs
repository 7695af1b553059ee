//! The plugins of a session: those of a flag, those that the settings of Claude Code enable and that lie in a folder here, and those that
//! the user has added. What is elsewhere is named with the command that fetches it, and never fetched from here.
//!
//! Those that a repository enables are inert until the user trusts them as they are, with every file.

use super::machine::Machine;
use super::notice::Notice;
use super::trouble::{Context, Trouble};
use crate::config::trust::{Item, Kind, ProjectFile, Standing, Trust, repository};
use crate::plugins::Plugin;
use crate::plugins::added::AddedPlugins;
use crate::plugins::marketplace::{self, Marketplace, Place};
use piton_core::hidden;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A plugin that was found, and whether it is used.
#[derive(Debug, Clone)]
pub struct Found {
    /// Its folder.
    pub root: PathBuf,
    /// What it is called where it was named.
    pub named: String,
    /// The plugin; or why it is none.
    pub read: Result<Plugin, String>,
    /// Who wants it.
    pub from: From,
    /// Whether it is used.
    pub state: PluginState,
}

/// Who wants a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum From {
    /// A flag, for this run.
    Flag,
    /// Settings of Claude Code's.
    Settings {
        /// The file that enables it.
        file: PathBuf,
        /// Whether the user enables it, in a marketplace of the user's own, and not only a repository.
        is_own: bool,
    },
    /// The user, who added it.
    Added,
}

/// Whether a plugin is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PluginState {
    /// It is.
    InForce,
    /// Another of its name comes before it.
    Shadowed,
    /// The repository wants it, and the user does not trust it as it is.
    Untrusted,
    /// It makes no sense.
    Broken,
    /// The user has switched it off.
    Off,
}

impl PluginState {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Self::InForce => "in force",
            Self::Shadowed => "shadowed",
            Self::Untrusted => "not trusted",
            Self::Broken => "cannot be used",
            Self::Off => "switched off",
        }
    }
}

/// A plugin that settings enable and that is not here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elsewhere {
    /// Its name.
    pub name: String,
    /// The settings that enable it.
    pub file: PathBuf,
    /// How it can be had, or why it cannot.
    pub how: Result<String, String>,
}

/// All plugins that there are for a session.
#[derive(Debug, Clone, Default)]
pub struct Plugins {
    /// Those that are here, in the order in which they count.
    pub found: Vec<Found>,
    /// Those that are not.
    pub elsewhere: Vec<Elsewhere>,
}

/// Below a folder of a repository, nearest first.
const OF_REPOSITORY: [&str; 2] = [".claude/settings.local.json", ".claude/settings.json"];
/// Below the user's home.
const OF_USER: &str = ".claude/settings.json";
/// Where Claude Code notes the marketplaces that it has fetched.
const KNOWN: &str = ".claude/plugins/known_marketplaces.json";

impl Plugins {
    /// Those for this workspace. `folders` are those of flags, `trusted` is what this run trusts beside what the user does, and
    /// `of_claude` is whether the settings of Claude Code count.
    pub fn look(
        machine: &Machine,
        workspace: &Path,
        folders: &[PathBuf],
        trusted: &[Item],
        of_claude: bool,
    ) -> Result<Self, Trouble> {
        let mut all = Self::default();
        for folder in folders {
            let read = Plugin::read(folder, None, &machine.data_dir);
            all.add(folder.clone(), name_of(folder), read, From::Flag, None);
        }
        let added = AddedPlugins::in_folder(&machine.data_dir);
        let list = added.list().map_err(Trouble::new)?;
        if of_claude {
            let wanted = Wanted::read(machine, workspace);
            let trust = Trust::in_folder(&machine.data_dir);
            let standing = match wanted.enabled.is_empty() {
                true => None,
                false => Some(trust.standings().context("the trust of plugins cannot be looked up")?),
            };
            let is_trusted = |item: &Item| {
                trusted.contains(item) || standing.as_ref().is_some_and(|of| of(item) == Standing::Trusted)
            };
            wanted.resolve(machine, &list.keys().map(String::as_str).collect(), &is_trusted, &mut all);
        }
        for (name, added_one) in &list {
            let root = added.folder(name, added_one);
            let off = (!added_one.enabled).then_some(PluginState::Off);
            all.add(root, name.clone(), added.open(name, added_one), From::Added, off);
        }
        all.set_apart(repository(workspace), &machine.data_dir);
        Ok(all)
    }

    /// Plugins that lie in the repository keep their data apart.
    fn set_apart(&mut self, repository: &Path, data_dir: &Path) {
        for found in &mut self.found {
            if let Ok(plugin) = &mut found.read
                && plugin.root.starts_with(repository)
            {
                *plugin = plugin.clone().of_repository(data_dir);
            }
        }
    }

    fn add(
        &mut self,
        root: PathBuf,
        named: String,
        read: Result<Plugin, String>,
        from: From,
        state: Option<PluginState>,
    ) {
        let is_taken = |plugin: &Plugin| {
            let in_force = |found: &&Found| found.state == PluginState::InForce;
            self.found
                .iter()
                .filter(in_force)
                .any(|other| other.read.as_ref().is_ok_and(|it| it.name() == plugin.name()))
        };
        let state = match (&read, state) {
            (Err(_), _) => PluginState::Broken,
            (Ok(_), Some(state)) => state,
            (Ok(plugin), None) if is_taken(plugin) => PluginState::Shadowed,
            (Ok(_), None) => PluginState::InForce,
        };
        self.found.push(Found { root, named, read, from, state });
    }

    /// Those that are used, in the order in which they count. This is what whoever reads a part of plugins goes through, such as
    /// [`Plugin::servers`].
    pub fn in_force(&self) -> impl Iterator<Item = (&Plugin, &From)> {
        let in_force = self.found.iter().filter(|found| found.state == PluginState::InForce);
        in_force.filter_map(|found| Some((found.read.as_ref().ok()?, &found.from)))
    }

    /// What the user should know of them.
    pub(super) fn notices(&self) -> Vec<Notice> {
        let mut notices = Vec::new();
        let shown = |path: &Path| hidden::visible_line(&path.display().to_string());
        let mut untrusted = 0;
        for found in &self.found {
            match (&found.read, found.state) {
                (Err(why), _) => {
                    let (name, root) = (hidden::visible_name(&found.named), shown(&found.root));
                    notices.push(Notice::new(format!(
                        "the plugin {name} of {root} is left out: {}",
                        hidden::visible_line(why)
                    )));
                }
                (Ok(_), PluginState::Untrusted) => untrusted += 1,
                (Ok(_), _) => {}
            }
        }
        if untrusted > 0 {
            notices.push(Notice::Ignored(untrusted));
        }
        for Elsewhere { name, file, how } in &self.elsewhere {
            let (name, file) = (hidden::visible_name(name), shown(file));
            notices.push(Notice::new(match how {
                Ok(command) => {
                    format!(
                        "{file} enables the plugin {name}, which is not here: `{}` fetches it",
                        hidden::visible_line(command)
                    )
                }
                Err(why) => {
                    format!("{file} enables the plugin {name}, which is not here: {}", hidden::visible_line(why))
                }
            }));
        }
        notices
    }
}

/// Something to trust and its text, or why it cannot be read.
type ReadItem = Result<(Item, String), String>;

/// The plugins that a repository enables and that lie here, as something to trust.
pub(super) fn brought(machine: &Machine, workspace: &Path) -> Vec<(PathBuf, ReadItem)> {
    let mut all = Plugins::default();
    Wanted::read(machine, workspace).resolve(machine, &BTreeSet::new(), &|_| false, &mut all);
    let of_repository = all.found.into_iter().filter(|found| found.state != PluginState::InForce);
    of_repository
        .map(|found| match found.read {
            Ok(plugin) => {
                let (item, text) = item(&plugin);
                (item.path.clone(), Ok((item, text)))
            }
            Err(why) => (found.root, Err(why)),
        })
        .collect()
}

fn item(plugin: &Plugin) -> (Item, String) {
    let text = plugin.covered();
    (Item::new(Kind::Plugin, &plugin.file(), text.as_bytes()), text)
}

fn name_of(folder: &Path) -> String {
    folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// What is read of a settings file.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Settings {
    enabled_plugins: BTreeMap<String, Value>,
    extra_known_marketplaces: BTreeMap<String, Value>,
}

/// A plugin that settings name as `NAME@MARKETPLACE`.
#[derive(Debug)]
struct Named {
    is_enabled: bool,
    is_users: bool,
    file: PathBuf,
}

/// A marketplace that settings name.
#[derive(Debug)]
struct Known {
    is_users: bool,
    /// What relative paths in it count from.
    folder: PathBuf,
    source: Value,
    /// Where Claude Code has fetched it to.
    fetched: Option<PathBuf>,
}

/// What settings want, by name. The nearest file wins.
#[derive(Debug, Default)]
struct Wanted {
    enabled: BTreeMap<String, Named>,
    markets: BTreeMap<String, Known>,
}

impl Wanted {
    fn read(machine: &Machine, workspace: &Path) -> Self {
        let mut wanted = Self::default();
        let root = repository(workspace);
        for folder in workspace.ancestors().take_while(|folder| folder.starts_with(root)) {
            OF_REPOSITORY.iter().for_each(|name| wanted.add(&folder.join(name), folder, false));
        }
        if let Some(home) = machine.var("HOME").map(Path::new) {
            wanted.add(&home.join(OF_USER), home, true);
            wanted.add_known(home);
        }
        wanted
    }

    /// A file that makes no sense is named by whoever reads its permissions.
    fn add(&mut self, file: &Path, folder: &Path, is_users: bool) {
        let Some(settings) = settings(file) else { return };
        for (name, said) in settings.enabled_plugins {
            let is_enabled = !matches!(said, Value::Bool(false) | Value::Null);
            let named = || Named { is_enabled, is_users, file: file.to_owned() };
            let named = self.enabled.entry(name).or_insert_with(named);
            // What the user wants everywhere needs no trust here.
            named.is_users |= is_users && is_enabled;
        }
        for (name, said) in settings.extra_known_marketplaces {
            let known = || Known { is_users, folder: folder.to_owned(), source: said["source"].clone(), fetched: None };
            self.markets.entry(name).or_insert_with(known);
        }
    }

    /// Those that Claude Code has fetched.
    fn add_known(&mut self, home: &Path) {
        let Ok(file) = ProjectFile::read(&home.join(KNOWN)) else { return };
        let all: BTreeMap<String, Value> = serde_json::from_slice(&file.bytes).unwrap_or_default();
        for (name, said) in all {
            let fetched = said["installLocation"].as_str().map(PathBuf::from).filter(|folder| folder.is_absolute());
            let known = || Known { is_users: true, folder: home.to_owned(), source: said["source"].clone(), fetched };
            self.markets.entry(name).or_insert_with(known);
        }
    }

    /// Adds those that are enabled. `added` are the names of those that the user has added, which need not be here twice.
    fn resolve(self, machine: &Machine, added: &BTreeSet<&str>, is_trusted: &dyn Fn(&Item) -> bool, all: &mut Plugins) {
        let mut markets: BTreeMap<&str, Result<Marketplace, String>> = BTreeMap::new();
        for (named, Named { is_users, file, .. }) in self.enabled.iter().filter(|(_, named)| named.is_enabled) {
            let (name, market) = named.split_once('@').unwrap_or((named, ""));
            let mut elsewhere = |how| {
                if !added.contains(name) {
                    all.elsewhere.push(Elsewhere { name: named.clone(), file: file.clone(), how });
                }
            };
            let Some(known) = self.markets.get(market) else {
                elsewhere(Err(format!("no settings say where the marketplace {market} is")));
                continue;
            };
            let Some(folder) = known.folder() else {
                elsewhere(match marketplace::address(&known.source) {
                    Some(address) => Ok(format!("piton plugin add {address} {name}")),
                    None => {
                        Err(format!("what settings say of the marketplace {market} is no folder and no git repository"))
                    }
                });
                continue;
            };
            let place = match markets.entry(market).or_insert_with(|| Marketplace::read(&folder)) {
                Ok(market) => market.find(name),
                Err(why) => Err(why.clone()),
            };
            match place {
                Ok(Place::Elsewhere(address)) => elsewhere(Ok(format!("piton plugin add {address}"))),
                Err(why) => elsewhere(Err(why)),
                Ok(Place::Here(root, given)) => {
                    let read = Plugin::read(&root, Some(&given), &machine.data_dir);
                    let is_own = *is_users && known.is_users;
                    let is_untrusted = !is_own && read.as_ref().is_ok_and(|plugin| !is_trusted(&item(plugin).0));
                    let state = is_untrusted.then_some(PluginState::Untrusted);
                    all.add(root, name.to_owned(), read, From::Settings { file: file.clone(), is_own }, state);
                }
            }
        }
    }
}

impl Known {
    /// Its folder, where it is one.
    fn folder(&self) -> Option<PathBuf> {
        let path =
            || self.source["path"].as_str().map(|path| self.folder.join(path.strip_prefix("./").unwrap_or(path)));
        match self.source["source"].as_str() {
            Some("directory") => path(),
            // `.claude-plugin/marketplace.json` itself.
            Some("file") => path()?.parent()?.parent().map(Path::to_owned),
            _ => self.fetched.clone(),
        }
    }
}

fn settings(file: &Path) -> Option<Settings> {
    serde_json::from_slice(&ProjectFile::read(file).ok()?.bytes).ok()
}
