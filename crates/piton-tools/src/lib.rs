//! Piton's tools, the runner that keeps a shell command to at most one run, and the snapshots that take things back.
//!
//! A tool takes an input and answers with an outcome; a failure is an outcome like any other. Nothing here asks for
//! permission, reads the environment, or prints: what may run was decided before, and everything a tool needs comes in
//! its [`tool::ToolContext`]. Linux only, for now: the runner leans on subreapers, pidfds and `/proc`.
//!
//! Modules in reading order.

#![allow(clippy::result_large_err, reason = "an outcome is the answer of a call either way, and there is one per call")]

pub mod tool;
pub mod host;
pub mod plan;
pub mod input;
pub mod typed;
pub mod limits;
pub mod ledger;
pub mod regular;
mod repository;
pub mod ignored;
pub mod files;
pub mod private;
pub mod disk;
mod paths;
pub mod diff;
mod change;
pub mod after_edit;
mod pdf;
pub mod read;
pub mod write;
pub mod edit;
pub mod patch;
mod walk;
mod search;
pub mod grep;
pub mod glob;
pub mod list;
pub mod bash;
pub mod tasks;
pub mod todo;
pub mod subagent;
pub mod skill;
pub mod ask_user;
pub mod exit_plan;
pub mod servers;
pub mod server_tools;
mod web_page;
pub mod web_fetch;
pub mod web_search;
pub mod toolset;
pub mod clean;
pub mod network;
pub mod spawn;
pub mod executor;
pub mod runner;
pub mod backend;
pub mod snapshot;
