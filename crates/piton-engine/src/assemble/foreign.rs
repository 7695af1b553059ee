//! The permission rules of other agents' settings: Claude Code's, and OpenCode's where the user asks for them.

use super::claude::add_to as add_of_claude;
use super::machine::Machine;
use super::notice::Notice;
use super::opencode_rules::add_to as add_of_opencode;
use crate::config::Config;
use piton_core::permission::Rules;
use std::path::Path;

/// Adds them to the rules of a session.
pub fn add_to(rules: &mut Rules, config: &Config, machine: &Machine, workspace: &Path, notices: &mut Vec<Notice>) {
    add_of_claude(rules, config, machine, workspace, notices);
    add_of_opencode(rules, config, machine, workspace, notices);
}
