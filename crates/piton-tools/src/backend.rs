//! Where the calls of a session act: the port that makes its [`Executor`] and its [`Files`].
//!
//! [`Local`] is this machine. A container or an editor makes both of its own, so that a command and a file tool see the same
//! workspace.

use crate::disk::{ConfinedDisk, Disk};
use crate::executor::Executor;
use crate::files::Files;
use crate::runner::{RunnerCommand, Runners};
use crate::spawn::Confinement;
use std::path::Path;
use std::sync::Arc;

/// Makes what the calls of each session act through. Starts nothing and asks nothing of the disk yet.
pub trait Backend: Send + Sync {
    /// Runs the commands of a session whose calls keep what belongs to them in the folder `calls`.
    fn executor(&self, calls: &Path) -> Arc<dyn Executor>;

    /// The files of that session, as the tools of a model reach them that is confined like this. What is read for the user is
    /// asked for with [`Confinement::User`].
    fn files(&self, calls: &Path, confinement: &Confinement) -> Arc<dyn Files>;
}

/// This machine: its disk, and commands under a runner.
#[derive(Debug, Clone, Default)]
pub struct Local {
    /// How to start this program as a runner; without it, shell commands cannot be run.
    pub runner: Option<RunnerCommand>,
}

impl Backend for Local {
    fn executor(&self, calls: &Path) -> Arc<dyn Executor> {
        Arc::new(Runners::new(self.runner.clone(), calls.to_path_buf()))
    }

    fn files(&self, calls: &Path, confinement: &Confinement) -> Arc<dyn Files> {
        let disk = Disk::new(calls.to_path_buf());
        match confinement {
            Confinement::User | Confinement::Model => Arc::new(disk),
            Confinement::Sandbox(confined) => Arc::new(ConfinedDisk::new(disk, confined.reach.clone())),
        }
    }
}
