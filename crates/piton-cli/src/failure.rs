//! Why a command failed: the error, what kind it is, and what to do about it.
//!
//! A [`Failure`] is built where the error is known: each error of the libraries has a `From` here that chooses the kind and
//! the hints. `out::report` renders it, for people and as JSON; the exit code follows from the kind.

use piton_engine::assemble::{AssembleError, Trouble};
use piton_engine::commands::CommandError;
use piton_engine::compaction::CompactError;
use piton_engine::config::layers::LayerError;
use piton_engine::config::trust::TrustError;
use piton_engine::config::{ConfigError, NoPreset};
use piton_engine::control::ControlError;
use piton_engine::engine::EngineError;
use piton_engine::export::json::NotAnExport;
use piton_engine::fork::ForkError;
use piton_engine::hooks::SchemaError;
use piton_engine::library::LibraryError;
use piton_engine::rewind::RewindError;
use piton_engine::spelling::nearest;
use piton_engine::store::StoreError;
use piton_engine::store::sqlite::index::IndexError;
use piton_engine::upkeep::UpkeepError;
use piton_http::HttpError;
use piton_models::catalogue::CatalogueError;
use piton_models::provider::{ListError, OpenError};
use piton_models::recorded::CassetteError;
use piton_tools::snapshot::SnapshotError;
use serde::Serialize;
use std::error::Error;
use std::fmt;
use tracing_subscriber::util::TryInitError;

/// What a command of this binary returns.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// What kind of failure it is: what a person or a program does about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FailureKind {
    /// Something that was asked for cannot be done as things are.
    User,
    /// The configuration has a mistake.
    Config,
    /// The command line has a mistake.
    Usage,
    /// Another process has the session.
    Busy,
    /// A file is damaged, or of a newer Piton.
    Damaged,
    /// No model could be asked.
    Model,
    /// Nothing can confine the commands of the model here.
    Sandbox,
    /// Piton itself is at fault.
    Internal,
}

/// An error with its kind and its hints.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    /// What was tried, from the outermost.
    context: Vec<String>,
    error: Box<dyn Error + Send + Sync>,
    /// What to do about it, a line each.
    pub(crate) hints: Vec<String>,
}

impl Failure {
    pub(crate) fn new(kind: FailureKind, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { kind, context: Vec::new(), error: error.into(), hints: Vec::new() }
    }

    /// Something that cannot be done as things are.
    pub(crate) fn user(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(FailureKind::User, error)
    }

    /// A mistake of the command line.
    pub(crate) fn usage(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(FailureKind::Usage, error)
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// The error itself, if it is of this type.
    pub(crate) fn find<E: Error + 'static>(&self) -> Option<&E> {
        self.error.downcast_ref()
    }

    /// With what was tried.
    pub(crate) fn context(mut self, what: impl Into<String>) -> Self {
        self.context.insert(0, what.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.context.iter().try_for_each(|what| write!(f, "{what}: "))?;
        write!(f, "{}", self.error)?;
        let mut next = self.error.source();
        while let Some(cause) = next {
            write!(f, ": {cause}")?;
            next = cause.source();
        }
        Ok(())
    }
}

/// Says what was tried when something failed or is missing.
pub(crate) trait Context<T> {
    fn context<W: Into<String>>(self, what: W) -> Result<T>;
    fn with_context<W: Into<String>>(self, what: impl FnOnce() -> W) -> Result<T>;
}

impl<T, E: Into<Failure>> Context<T> for Result<T, E> {
    fn context<W: Into<String>>(self, what: W) -> Result<T> {
        self.map_err(|error| error.into().context(what))
    }

    fn with_context<W: Into<String>>(self, what: impl FnOnce() -> W) -> Result<T> {
        self.map_err(|error| error.into().context(what()))
    }
}

impl<T> Context<T> for Option<T> {
    fn context<W: Into<String>>(self, what: W) -> Result<T> {
        self.ok_or_else(|| Failure::user(what.into()))
    }

    fn with_context<W: Into<String>>(self, what: impl FnOnce() -> W) -> Result<T> {
        self.ok_or_else(|| Failure::user(what().into()))
    }
}

/// Fails with these words.
macro_rules! bail {
    ($words:literal $($rest:tt)*) => { return Err($crate::failure::Failure::user(format!($words $($rest)*))) };
    ($words:expr) => { return Err($crate::failure::Failure::user($words)) };
}

/// Fails with these words unless something holds.
macro_rules! ensure {
    ($holds:expr, $($words:tt)*) => { if !$holds { $crate::failure::bail!($($words)*); } };
}

pub(crate) use {bail, ensure};

/// The kind of an error, and what to do about it.
struct Advice(FailureKind, Option<String>);

/// An error that this binary knows.
trait Known: Error + Send + Sync + 'static {
    fn advice(&self) -> Advice;
}

impl<E: Known> From<E> for Failure {
    fn from(error: E) -> Self {
        let Advice(kind, hint) = error.advice();
        Self { hints: hint.into_iter().collect(), ..Self::new(kind, error) }
    }
}

impl Advice {
    fn none(kind: FailureKind) -> Self {
        Self(kind, None)
    }

    fn of(kind: FailureKind, hint: &str) -> Self {
        Self(kind, Some(hint.to_owned()))
    }
}

/// What to do about a session that another process has.
const IN_USE: &str = "Wait until it is done, stop it (`piton session cancel ID`), or work in a session of its own.";
const WRITABLE: &str = "Make sure it can be written, or keep sessions elsewhere with PITON_DATA_DIR=DIR.";
const NO_UNDO: &str = "`piton undo --chat-only` undoes the conversation only.";

impl Known for StoreError {
    fn advice(&self) -> Advice {
        match self {
            Self::Busy { .. } => Advice::of(FailureKind::Busy, IN_USE),
            Self::Newer { .. } => {
                Advice::of(FailureKind::Damaged, "Open it with that newer Piton; nothing was changed.")
            }
            Self::Damaged { .. } => Advice::of(
                FailureKind::Damaged,
                "Other sessions are not affected. `piton session repair ID` makes a new one from what can be read.",
            ),
            Self::NoLocks { .. } => {
                Advice::of(FailureKind::User, "Keep sessions on a local disk, with PITON_DATA_DIR=DIR.")
            }
            Self::Full { .. } => {
                Advice::of(FailureKind::User, "Free some space and continue with `piton run --continue`.")
            }
            Self::ReadOnly { .. } | Self::Io { .. } => Advice::of(FailureKind::User, WRITABLE),
            Self::Fenced { .. } => Advice::none(FailureKind::Busy),
            Self::Misplaced { .. } => Advice::none(FailureKind::Internal),
            Self::Taken { .. } => Advice::none(FailureKind::User),
            Self::NotFound { .. } => Advice::none(FailureKind::User),
        }
    }
}

impl Known for EngineError {
    fn advice(&self) -> Advice {
        match self {
            Self::Journal(error) => error.advice(),
            Self::Broken(error) => error.advice(),
            Self::Closed => Advice::none(FailureKind::Internal),
            Self::PromptRefused { .. } | Self::CommandRefused { .. } => Advice::none(FailureKind::User),
            Self::AtRest => Advice::of(FailureKind::User, "Say what comes next:  piton run --continue \"…\""),
            Self::NotBegun(_) | Self::NotOpen { .. } | Self::Refused(_) => Advice::none(FailureKind::User),
            Self::TooMany { .. } | Self::TooLarge { .. } => Advice::none(FailureKind::User),
            Self::Control(error) => error.advice(),
            Self::Fork(error) => error.advice(),
            Self::Rewind(error) => error.advice(),
            Self::Compact(error) => error.advice(),
            Self::Shell(_) => Advice::none(FailureKind::User),
            // Of this version's own making, or of a later one's.
            _ => Advice::none(FailureKind::Internal),
        }
    }
}

impl Known for IndexError {
    fn advice(&self) -> Advice {
        match self {
            Self::NoSuch { .. } | Self::TooFew { .. } => Advice::of(
                FailureKind::User,
                "`piton session list --all` lists all sessions, `piton session trash` the removed ones.",
            ),
            Self::Ambiguous { .. } => Advice::of(FailureKind::User, "Use a longer id."),
            Self::Store(StoreError::Damaged { .. }) => {
                Advice::of(FailureKind::Damaged, "The list is a cache: remove index.db, and Piton rebuilds it.")
            }
            Self::Store(error) => error.advice(),
        }
    }
}

impl Known for LibraryError {
    fn advice(&self) -> Advice {
        match self {
            Self::Journal(error) => error.advice(),
            Self::Index(error) => error.advice(),
            Self::Taken { .. } => {
                Advice::of(FailureKind::User, "Remove that one first (`piton session rm ID`), or keep it.")
            }
            Self::NothingLeft { .. } => Advice::of(FailureKind::Damaged, "Only a backup of its folder can help now."),
            Self::Files { .. } => {
                Advice::of(FailureKind::User, "Make sure that both places can be written and have space.")
            }
        }
    }
}

impl Known for RewindError {
    fn advice(&self) -> Advice {
        match self {
            Self::MidTurn | Self::Shell => Advice::of(FailureKind::Busy, "`piton session cancel ID` stops it."),
            Self::NotSoMany { .. } | Self::NothingToRedo => {
                Advice::of(FailureKind::User, "`piton session tree ID` shows the turns of a session.")
            }
            Self::NoSnapshot { .. } | Self::NoStore => Advice::of(FailureKind::User, NO_UNDO),
            Self::BadName(_) => Advice::none(FailureKind::Internal),
            Self::Snapshot(error) => error.advice(),
            Self::Abandoned(error) => error.advice(),
            Self::Journal(error) => error.advice(),
            Self::Broken(error) => error.advice(),
            Self::Stopped | Self::Refused(_) => Advice::none(FailureKind::User),
            Self::Closed => Advice::none(FailureKind::Internal),
        }
    }
}

impl Known for SnapshotError {
    fn advice(&self) -> Advice {
        match self {
            Self::StoreFull { .. } => Advice::of(FailureKind::User, "Free some space and try again."),
            Self::Store { .. } => Advice::of(FailureKind::User, WRITABLE),
            Self::Unknown(_) => Advice::of(FailureKind::User, NO_UNDO),
            _ => Advice::none(FailureKind::User),
        }
    }
}

impl Known for CompactError {
    fn advice(&self) -> Advice {
        match self {
            Self::MidTurn => {
                Advice::of(FailureKind::Busy, "Wait until it is done, or stop it: `piton session cancel ID`.")
            }
            Self::Nothing | Self::NoSummary | Self::Empty => Advice::none(FailureKind::User),
            Self::Failed(_) => Advice::of(
                FailureKind::Model,
                "Try again, ask another model with --model, or write the summary yourself with --summary FILE.",
            ),
            Self::Broken(error) => error.advice(),
            Self::Refused(_) => Advice::none(FailureKind::User),
            Self::Closed => Advice::none(FailureKind::Internal),
        }
    }
}

impl Known for ForkError {
    fn advice(&self) -> Advice {
        match self {
            Self::Journal(error) => error.advice(),
            Self::NotAtRest { .. } => Advice::of(FailureKind::User, "`piton session tree ID` shows where turns ended."),
            Self::NothingYet => Advice::none(FailureKind::User),
        }
    }
}

impl Known for ControlError {
    fn advice(&self) -> Advice {
        match self {
            Self::Unreachable { .. } | Self::OtherProtocol { .. } => Advice::of(FailureKind::Busy, IN_USE),
            Self::Journal(error) => error.advice(),
        }
    }
}

impl Known for UpkeepError {
    fn advice(&self) -> Advice {
        match self {
            Self::Index(error) => error.advice(),
            Self::Journal(error) => error.advice(),
            Self::Snapshot(error) => error.advice(),
            Self::Note(_) => Advice::of(FailureKind::User, WRITABLE),
        }
    }
}

impl Known for TrustError {
    fn advice(&self) -> Advice {
        Advice::of(FailureKind::Config, "Nothing is trusted until the list can be used again.")
    }
}

impl Known for LayerError {
    fn advice(&self) -> Advice {
        let kind = if self.is_of_a_flag() { FailureKind::Usage } else { FailureKind::Config };
        match self {
            Self::Invalid { source, .. } if source.is_about("model") => {
                Advice::of(kind, "Name a model as provider/name; `piton models` lists them.")
            }
            Self::Invalid { .. } | Self::NotTheirs { .. } => Advice::none(kind),
            Self::Together { .. } => Advice::of(kind, "`piton config show --origin` shows who set what."),
        }
    }
}

impl Known for AssembleError {
    fn advice(&self) -> Advice {
        match self {
            Self::Layers(error) => error.advice(),
            Self::Trust(error) => error.advice(),
            Self::Preset(error) => error.advice(),
            Self::Changed(_) => Advice::none(FailureKind::Config),
            Self::Model(error) => error.advice(),
            Self::NoModel => Advice::of(FailureKind::Model, NO_MODEL),
            Self::WhichModel { models, .. } => {
                let first = models.first().map(String::as_str).unwrap_or_default();
                Advice(FailureKind::Model, Some(format!("Name one: piton run --model {first} \"…\"")))
            }
            Self::NoList { .. } => Advice::of(
                FailureKind::Model,
                "Start that server or correct OPENAI_BASE_URL (base_url in [providers.openai-chat] of the configuration). If it runs \
                 and only has no list, name a model of it with --model openai-chat/NAME.",
            ),
            Self::NoPrice { model, .. } => Advice(
                FailureKind::Config,
                Some(format!(
                    "Set it: price = {{ input = …, output = … }} in [models.\"{model}\"] of the configuration; or limit the \
                     tokens instead, with --max-tokens."
                )),
            ),
            Self::NoSandbox { .. } => Advice::of(
                FailureKind::Sandbox,
                "`--sandbox off` (or mode = \"off\" in [sandbox] of your configuration) runs commands with all your rights: in a \
                 container or a machine that holds nothing else. docs/sandbox.md says what a sandbox needs.",
            ),
            Self::UnknownModel { near, .. } => {
                Advice(FailureKind::Model, Some(format!("Did you mean {}? `piton models` lists all.", near.join(", "))))
            }
            Self::Outside(error) => error.advice(),
        }
    }
}

impl Known for OpenError {
    fn advice(&self) -> Advice {
        let hint = match self {
            Self::UnknownProvider { name, known } => {
                let meant = nearest(name, known.split(", "));
                let meant = meant.map(|word| format!("Did you mean {word}? ")).unwrap_or_default();
                Some(format!("{meant}Name a model as provider/name; `piton models` lists them."))
            }
            Self::MissingKey { provider, .. } => Some(format!(
                "Or keep it for good: piton auth login {provider}\n\
                 Without any key: piton demo, or a local server such as Ollama."
            )),
            Self::MissingModel { .. } => Some("`piton models` lists the available models.".to_owned()),
            Self::BadBaseUrl { .. } | Self::MissingBaseUrl { .. } | Self::BadHeader { .. } => None,
        };
        Advice(FailureKind::Model, hint)
    }
}

/// Errors that say all there is to say.
macro_rules! plain {
    ($($kind:ident: $($error:ty),+;)+) => {
        $($(impl Known for $error {
            fn advice(&self) -> Advice {
                Advice::none(FailureKind::$kind)
            }
        })+)+
    };
}

plain! {
    User: std::io::Error, CommandError, tempfile::PersistError, jiff::Error, Trouble, NotAnExport, CatalogueError, CassetteError, SchemaError;
    Config: ConfigError, NoPreset;
    Model: ListError, HttpError;
    Internal: serde_json::Error, tokio::task::JoinError, TryInitError;
}

const NO_MODEL: &str = "\
Any one of these will do:

  piton auth login anthropic       keeps a key for Anthropic (or any other provider)
  export ANTHROPIC_API_KEY=…       a key for Anthropic
  export OPENAI_API_KEY=…          a key for OpenAI
  export OPENROUTER_API_KEY=…      a key for OpenRouter
  ollama serve                     a local server (Ollama, LM Studio, llama.cpp or vLLM)
  OPENAI_BASE_URL=http://… piton run --model openai-chat/NAME …    any compatible server

To see Piton work without any of them:  piton demo";
