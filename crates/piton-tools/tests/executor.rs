//! The runners of this machine keep what every executor keeps.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use piton_sandbox::{Backend, Limits, Network, Reach, Write};
use piton_testkit::executor::{Stage, conforms};
use piton_tools::executor::Executor;
use piton_tools::runner::{RunnerCommand, Runners};
use piton_tools::spawn::{Confined, Confinement, Env};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

struct Machine(PathBuf);

/// The same in a sandbox.
struct InSandbox(Machine);

impl Stage for InSandbox {
    fn executor(&self) -> Arc<dyn Executor> {
        self.0.executor()
    }

    fn folder(&self) -> &Path {
        self.0.folder()
    }

    fn confinement(&self) -> Confinement {
        let reach = Reach {
            backend: Backend::Namespaces,
            workspace: self.folder().to_path_buf(),
            write: Write::Workspace,
            home: self.folder().join("home"),
            private: self.folder().join("private"),
            path: Vec::new(),
            read: Vec::new(),
            keep: Vec::new(),
            hidden: Vec::new(),
            carried: Vec::new(),
            approved: Vec::new(),
            limits: Limits::default(),
            network: Network::None,
        };
        let by = RunnerCommand { program: env!("CARGO_BIN_EXE_piton-runner").into(), args: Vec::new() };
        Confinement::Sandbox(Arc::new(Confined { reach, by, egress: None }))
    }

    fn env(&self) -> Env {
        self.0.env()
    }
}

impl Stage for Machine {
    fn executor(&self) -> Arc<dyn Executor> {
        let command = RunnerCommand { program: env!("CARGO_BIN_EXE_piton-runner").into(), args: Vec::new() };
        Arc::new(Runners::new(Some(command), self.0.join("ses_conforms/calls")))
    }

    fn folder(&self) -> &Path {
        &self.0
    }

    fn env(&self) -> Env {
        Env::new(BTreeMap::from([("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())]))
    }
}

#[tokio::test]
async fn the_runners_of_this_machine_conform() {
    let folder = tempfile::tempdir().unwrap();
    conforms(&Machine(folder.path().canonicalize().unwrap())).await;
}

#[tokio::test]
async fn they_conform_in_a_sandbox() {
    let folder = tempfile::tempdir().unwrap();
    conforms(&InSandbox(Machine(folder.path().canonicalize().unwrap()))).await;
}
