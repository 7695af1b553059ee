//! The plan of a call, made before it runs: what it will access, its title, and the question for approval.
//!
//! Planning is cheap and changes nothing. Whatever needs the disk (the diff of an edit) waits until a person is asked ([`QuestionDraft::words`]).

use crate::files::Files;
use crate::spawn::Env;
use piton_core::call::{Access, CallKind, Effects, Planned, ToolSpec, Touches};
use piton_core::ids::SessionId;
use piton_core::inquiry::Inquiry;
use piton_core::question::QuestionBlock;
use piton_core::secrets::Firewall;
use serde_json::Value;
use std::ffi::OsStr;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// What planning may look at.
#[derive(Clone)]
pub struct Look {
    /// The session of the call.
    pub session: SessionId,
    /// The canonical working directory.
    pub workspace: PathBuf,
    /// The files as tools and commands find them.
    pub files: Arc<dyn Files>,
    /// The files as a command finds them that runs outside of the sandbox.
    pub machine: Arc<dyn Files>,
    /// Whether commands run in a sandbox.
    pub is_confined: bool,
    /// Whether the model can run commands in this turn.
    pub has_shell: bool,
    /// What commands find in their environment.
    pub env: Env,
    /// Takes secrets out of what is shown.
    pub firewall: Firewall,
    /// The links that paths were found to lead through.
    pub links: Links,
}

/// Links that planning came upon: each path as it is meant, and the file that it really is.
#[derive(Debug, Clone, Default)]
pub struct Links(Arc<Mutex<Vec<(PathBuf, PathBuf)>>>);

impl Links {
    /// So many are told of; more are not read.
    const MOST: usize = 32;

    fn add(&self, meant: &Path, real: &Path) {
        let mut links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if meant != real && links.len() < Self::MOST && !links.iter().any(|(known, _)| known == meant) {
            links.push((meant.to_owned(), real.to_owned()));
        }
    }

    /// Those that were found so far.
    pub fn found(&self) -> Vec<(PathBuf, PathBuf)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A call as its tool understands it.
#[derive(Debug)]
pub struct Plan {
    /// What is recorded of it.
    pub planned: Planned,
    /// The question whether it may run.
    pub question: QuestionDraft,
    /// Where in a script some of the accesses stand, in bytes.
    pub places: Vec<(Access, Range<usize>)>,
    /// What it may do, where that is not what its tool says of every call.
    pub effects: Option<Effects>,
    /// What it asks a person, in the place of the question whether it may run. Its answers are the outcome: it never runs.
    pub inquiry: Option<Inquiry>,
    /// What the call does instead where this is refused, or would be asked about and nobody is there.
    pub instead: Option<Box<Plan>>,
}

/// A question that is worded when it is asked: that may take the disk.
pub struct QuestionDraft(Box<dyn FnOnce() -> (String, Vec<QuestionBlock>) + Send>);

impl Plan {
    /// A plan of this kind and title that accesses this, and may run if the person says yes to `question`.
    pub fn new(kind: CallKind, title: impl Into<String>, access: Access, question: QuestionDraft) -> Self {
        Self::of(Planned { kind, title: title.into(), accesses: vec![access] }, question)
    }

    /// A plan that may be carried out if the person says yes to `question`.
    pub fn of(planned: Planned, question: QuestionDraft) -> Self {
        Self { planned, question, places: Vec::new(), effects: None, inquiry: None, instead: None }
    }

    /// The same, which accesses this, too.
    #[must_use]
    pub fn and(mut self, access: Access) -> Self {
        self.planned.accesses.push(access);
        self
    }

    /// The same, which accesses these, too, each with its place in the script, where it has one.
    #[must_use]
    pub fn and_places(mut self, accesses: Vec<(Access, Option<Range<usize>>)>) -> Self {
        for (access, place) in accesses {
            self.places.extend(place.map(|place| (access.clone(), place)));
            if !self.planned.accesses.contains(&access) {
                self.planned.accesses.push(access);
            }
        }
        self
    }

    /// The same, which accesses these, too.
    #[must_use]
    pub fn and_all(mut self, accesses: impl IntoIterator<Item = Access>) -> Self {
        self.planned.accesses.extend(accesses);
        self
    }

    /// What there is to say of a call whose tool says nothing: its input.
    pub fn unknown(spec: &ToolSpec, input: &Value) -> Self {
        let json = input.to_string();
        let (name, shown) = (spec.name.clone(), json.clone());
        let question = QuestionDraft::new(move || (format!("Use {name}?"), vec![QuestionBlock::Json { json: shown }]));
        Self::of(Planned { kind: CallKind::Other, title: json, accesses: accesses(spec) }, question)
    }
}

/// What a tool accesses of which only the effects are known.
pub fn accesses(ToolSpec { name, effects, .. }: &ToolSpec) -> Vec<Access> {
    let Effects { touches, .. } = effects;
    match touches {
        Touches::Nothing | Touches::Session => Vec::new(),
        Touches::Workspace | Touches::World => vec![Access::Use(name.clone())],
    }
}

impl QuestionDraft {
    /// The question (`Run this command?`) and what it is about, worded by this. It never fails: of a change that does
    /// not fit the file as it is, it shows what the model wrote, since a call before this one may yet make it fit.
    pub fn new(words: impl FnOnce() -> (String, Vec<QuestionBlock>) + Send + 'static) -> Self {
        Self(Box::new(words))
    }

    /// Words it. May block its thread.
    pub fn words(self) -> (String, Vec<QuestionBlock>) {
        (self.0)()
    }
}

impl fmt::Debug for QuestionDraft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Draft")
    }
}

impl Look {
    /// What there is to look at where no session is open.
    pub fn without_session(workspace: PathBuf, files: Arc<dyn Files>, is_confined: bool, env: Env) -> Self {
        Self {
            session: SessionId::from(""),
            workspace,
            machine: Arc::clone(&files),
            files,
            is_confined,
            has_shell: true,
            env,
            firewall: Firewall::off(),
            links: Links::default(),
        }
    }

    /// The same for a command that runs outside of the sandbox.
    pub(crate) fn outside(&self) -> Self {
        Self { files: Arc::clone(&self.machine), is_confined: false, ..self.clone() }
    }

    /// What reading the path that a model wrote accesses.
    pub(crate) fn read(&self, raw: &str) -> Access {
        Access::Read(self.absolute(raw))
    }

    /// What writing the path that a model wrote accesses.
    pub(crate) fn write(&self, raw: &str) -> Access {
        Access::Write(self.absolute(raw))
    }

    /// The file that is meant, through all links, as far as it can be reached; else the absolute path, without `.` in it.
    pub(crate) fn absolute(&self, raw: &str) -> String {
        let home = || self.env.get(OsStr::new("HOME")).map(PathBuf::from);
        let path = match raw.strip_prefix("~/").or((raw == "~").then_some("")) {
            Some(below) => home().map_or_else(|| PathBuf::from(raw), |home| home.join(below)),
            None => PathBuf::from(raw),
        };
        let path: PathBuf = self.workspace.join(path).components().collect();
        let real = self.files.real(&path).unwrap_or_else(|_| path.clone());
        self.links.add(&path, &real);
        real.to_string_lossy().into_owned()
    }

    /// The same of a path with wildcards: the folder before them through all links, and what follows as it is.
    pub(crate) fn pattern(&self, raw: &str) -> String {
        let is_open = |name: &&str| name.contains(['*', '?', '[']);
        let Some(name) = raw.split('/').find(is_open) else { return self.absolute(raw) };
        let (folder, rest) = raw.split_at(raw.find(name).unwrap_or_default());
        let folder = if folder.is_empty() { "." } else { folder };
        format!("{}/{rest}", self.absolute(folder).trim_end_matches('/'))
    }

    /// The path as people see it.
    pub(crate) fn shown(&self, raw: &str) -> String {
        crate::paths::shown(Path::new(&self.absolute(raw)), &self.workspace)
    }
}
