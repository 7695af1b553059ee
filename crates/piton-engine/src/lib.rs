//! The engine stores sessions, runs their turns and serves their clients.
//!
//! To embed Piton, start at [`engine`]. The loop has two halves: [`piton_core::turn`] decides, `driver` acts.
//! Nothing here reads the environment or the home folder, and nothing prints. Modules in reading order.

pub mod engine;
mod settings;
pub mod commands;
pub mod front_matter;
pub mod agents;
pub mod skills;
mod family;
mod delegate;
mod elicit;
mod sampling;
mod children;
mod list_file;
mod tree;
pub mod plugins;
pub mod in_process;
pub mod standing;
mod error;
mod handle;
mod inbox;
mod firewall;
mod hosts;
mod driver;
mod jobs;
pub mod clock;
pub mod hooks;
mod prompt;
pub mod compaction;
pub mod history;
mod partial;
mod answers;
mod branches;
mod bus;
pub mod context;
pub mod spelling;
pub mod config;
pub mod assemble;
pub mod store;
pub mod fork;
pub mod rewind;
pub mod upkeep;
pub mod control;
pub mod library;
pub mod export;
pub mod otel;
mod worktree;
pub mod permission;
mod tool_names;
pub mod directions;
mod directed;
