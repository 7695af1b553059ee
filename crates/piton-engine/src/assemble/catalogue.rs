//! The model catalogue: the built-in one, overlaid with what `piton models --refresh` has fetched.

use super::machine::Machine;
use piton_models::catalogue::Catalogue;
use piton_tools::regular;
use std::path::PathBuf;

/// What this machine knows.
pub fn of(machine: &Machine) -> Catalogue {
    // A cache of facts: one that cannot be read is as good as none.
    regular::text(&file(machine), regular::CATALOGUE_BYTES).map(|text| Catalogue::over(&text)).unwrap_or_default()
}

/// Where a newer catalogue is kept.
pub fn file(machine: &Machine) -> PathBuf {
    machine.data_dir.join("models.jsonl")
}
