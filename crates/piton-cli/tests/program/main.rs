//! The `piton` binary from the outside: real processes, a real socket, a real shell, a real disk.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "tests start the binary, in an environment of their own")]

mod agents;
mod attacks;
mod auth;
mod background;
mod bad_input;
mod branches;
mod catalogue;
mod chat;
mod clouds;
mod commands;
mod compact;
mod config;
mod context;
mod crash;
mod demo;
mod examples;
mod faults;
mod follow;
mod foreign;
mod hooks;
mod hostile;
mod inquiry;
mod mcp;
mod mcp_real;
mod money;
mod network;
mod options;
mod ordinary;
mod patches;
mod permission;
mod pictures;
mod plan;
mod plugins;
mod presets;
mod robustness;
mod sandbox;
mod secrets;
mod sessions;
mod shell;
mod repositories;
mod rows;
mod run;
mod slash;
mod stage;
mod steer;
mod skills;
mod subagents;
mod text_tools;
mod todo;
mod trace;
mod trust;
mod undo;
mod web;
