//! What servers are started in: values that whoever makes a client has read.

use crate::entry::Entry;
use piton_core::secrets::Firewall;
use piton_http::HttpOptions;
use piton_tools::spawn::Confinement;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

/// What servers are started in.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// A folder of Piton's own, `mcp` in its data folder: manifests, pins and tokens. Made when it is needed.
    pub folder: PathBuf,
    /// The whole environment of the user. A server gets a few variables of it, such as `PATH` and `HOME`, and those of its entry.
    pub env: BTreeMap<OsString, OsString>,
    /// The workspace, absolute: the one root that servers are told of, and the folder that confined ones start in.
    pub workspace: PathBuf,
    /// How to speak HTTP.
    pub http: HttpOptions,
    /// How the process of an entry that names its hosts is confined. Of a sandbox the private folder, the network and the hosts
    /// are replaced, for each server by its own. An entry that names no hosts is the user's own, and is not confined.
    pub confinement: Confinement,
    /// What is kept of what servers say passes it. It knows the user's secrets; those of entries are added to it.
    pub firewall: Firewall,
}

impl Surroundings {
    /// Adds the secrets of an entry, which a server may say back.
    pub(crate) fn know(&self, entry: &Entry) {
        entry.secrets().iter().for_each(|(name, value)| self.firewall.know(name, value));
    }
}
