//! One file per command: what it does when it is typed. `run` has a folder of its own.

pub(crate) mod agent;
pub(crate) mod command;
pub(crate) mod skill;
pub(crate) mod auth;
pub(crate) mod branches;
pub(crate) mod compact;
pub(crate) mod config;
pub(crate) mod context;
pub(crate) mod cost;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod models;
pub(crate) mod permission;
pub(crate) mod plugin;
pub(crate) mod presets;
pub(crate) mod sandbox;
pub(crate) mod sessions;
pub(crate) mod trace;
pub(crate) mod trust;
pub(crate) mod undo;
