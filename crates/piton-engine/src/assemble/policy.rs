//! The policy of a session, whatever its model: rules, permission mode and tools, and the sandbox that goes with them.

use super::error::AssembleError;
use super::machine::Machine;
use super::notice::Notice;
use super::wishes::Wishes;
use super::{rules, sandbox};
use crate::config::Config;
use crate::settings::SandboxSettings;
use piton_core::configure::is_every;
use piton_core::permission::PermissionMode;
use piton_core::policy::Policy;

/// The rules of a session's turns, whatever its model, and the sandbox of its commands.
pub fn of_session(
    config: &Config,
    machine: &Machine,
    wishes: &Wishes,
    notices: &mut Vec<Notice>,
) -> Result<(Policy, Option<SandboxSettings>), AssembleError> {
    let mut policy = rules::policy(config)?;
    policy.calls.enabled = wishes.had.tools.clone().filter(|tools| !is_every(tools));
    policy.mode = mode(config, wishes, wishes.had.mode, false);
    let sandbox = sandbox::settings(config, machine, wishes, &mut policy, notices)?;
    policy.mode = mode(config, wishes, wishes.had.mode, sandbox.is_some());
    Ok((policy, sandbox))
}

/// The permission mode: what a flag says, else what a client has switched the session to, else the configured one, else what the
/// sandbox makes safe: there the kernel confines what is not asked about, and undo takes it back.
pub(super) fn mode(config: &Config, wishes: &Wishes, had: Option<PermissionMode>, has_sandbox: bool) -> PermissionMode {
    let is_said = wishes.flags.iter().any(|flag| flag.sets("permission_mode"));
    let had = had.filter(|_| !is_said);
    let said = wishes.mode.or(had).or(config.permission_mode);
    let unsaid = if has_sandbox && wishes.is_watched { PermissionMode::AcceptEdits } else { PermissionMode::default() };
    said.unwrap_or(unsaid)
}
