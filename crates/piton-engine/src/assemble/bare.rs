//! Default settings of a session on this machine, before flags and configuration apply.

use super::environment;
use super::machine::Machine;
use crate::config::Config;
use crate::context;
use crate::engine::{Attendance, Engine, Settings};
use piton_models::model::{Model, Nobody};
use piton_tools::backend::Local;
use piton_tools::snapshot::{self, Snapshots};
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

/// Settings with the default limits, nobody to ask.
pub fn settings(model: Arc<dyn Model>, machine: &Machine, workspace: &Path) -> Settings {
    let mut settings = Settings::new(model);
    settings.attendance = Attendance::Unattended;
    settings.backend = Arc::new(Local { runner: Some(super::sandbox::runner(machine)) });
    settings.env = Arc::new(environment::for_tools(&machine.vars, &Config::default()));
    settings.shares_runtime = false;
    settings.snapshots = snapshots(machine, workspace);
    settings.environment_note = Some(context::environment_note(workspace, &machine.today));
    settings
}

/// Settings for a session that is only maintained: no model is asked.
pub fn for_upkeep(model: &str, machine: &Machine, workspace: &Path) -> Settings {
    let model = Arc::new(Nobody { name: model.split(',').next().unwrap_or_default().to_owned() });
    settings(model, machine, workspace)
}

/// Where snapshots of the workspace are kept. A place that cannot be used only means that there is no undo, and the first
/// snapshot says so.
fn snapshots(machine: &Machine, workspace: &Path) -> Option<Arc<Snapshots>> {
    let paths = machine.vars.get(OsStr::new("PATH"))?;
    let git = std::env::split_paths(paths).map(|dir| dir.join("git")).find(|git| git.is_absolute() && git.is_file());
    let options = snapshot::Options { git, left_out: vec![machine.data_dir.clone()], faults: None };
    Engine::open(&machine.data_dir).snapshots(workspace, options).ok().map(Arc::new)
}
