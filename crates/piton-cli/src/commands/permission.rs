//! `piton permission`: what was allowed for the rest of a session, and taking that back.

use crate::cli::PermissionCommand;
use crate::commands::sessions::find;
use crate::commands::sessions::said::when;
use crate::failure::{Result, bail};
use crate::out::view;
use crate::surroundings::Surroundings;
use piton_core::client::{Reply, Request};
use piton_core::ids::SessionId;
use piton_core::permission::Grant;
use piton_core::turn::State;
use piton_engine::control::{Connection, Incoming};
use piton_engine::engine::Engine;
use serde_json::json;

/// How the newest session of a folder is called.
const NEWEST: &str = "last";

/// Obeys one of the permission commands.
pub(crate) async fn permission(command: PermissionCommand, around: &Surroundings) -> Result<u8> {
    let engine = Engine::open(&around.machine.data_dir);
    match command {
        PermissionCommand::List { id, json } => {
            let id = find::find(&engine, around, id.as_deref().unwrap_or(NEWEST))?;
            list(&id, &grants(&engine, &id).await?, json);
        }
        PermissionCommand::Revoke { tools, session } => {
            let id = find::find(&engine, around, session.as_deref().unwrap_or(NEWEST))?;
            revoke(&engine, &id, tools).await?;
        }
    }
    Ok(0)
}

async fn grants(engine: &Engine, id: &SessionId) -> Result<Vec<Grant>> {
    Ok(State::fold(&engine.records(id).await?).grants().to_vec())
}

fn list(id: &SessionId, grants: &[Grant], as_json: bool) {
    for grant in grants {
        let (tool, at_ms) = (&grant.rule.tool, grant.at_ms);
        view::write_stdout(&if as_json {
            format!("{}\n", json!({"tool": tool, "action": grant.rule.action, "since_ms": at_ms}))
        } else {
            format!("{tool:<10} allowed in {id} since {}\n", when(at_ms))
        });
    }
    if grants.is_empty() && !as_json {
        view::write_stderr(&format!(
            "no tool is allowed with \"always\" in {id}; `piton config show` shows the rules for this folder\n"
        ));
    }
}

async fn revoke(engine: &Engine, id: &SessionId, tools: Vec<String>) -> Result<()> {
    let granted = grants(engine, id).await?;
    let is_granted = |tool: &String| granted.iter().any(|grant| grant.rule.tool == *tool);
    if let Some(tool) = tools.iter().find(|tool| !is_granted(tool)) {
        bail!("{tool} is not allowed with \"always\" in {id}; `piton permission list` shows what is");
    }
    if granted.is_empty() {
        view::write_stderr(&format!("no tool is allowed with \"always\" in {id}\n"));
        return Ok(());
    }
    let what = if tools.is_empty() { "everything".to_owned() } else { tools.join(", ") };
    match Connection::open(&**engine.store(), id).await? {
        None => engine.revoke(id, tools).await?,
        Some(writer) => revoke_there(writer, id, tools).await?,
    }
    view::write_stderr(&format!("{what} is asked about again in {id}\n"));
    Ok(())
}

/// The same in a session that another process runs.
async fn revoke_there(mut writer: Connection, id: &SessionId, tools: Vec<String>) -> Result<()> {
    writer.ask(&Request::Revoke { tools }).await?;
    while let Some(told) = writer.next().await {
        match told {
            Incoming::Reply(Reply::Revoked { .. }) => return Ok(()),
            Incoming::Reply(Reply::Refused(refusal)) => bail!("{}", refusal.error),
            _ => {}
        }
    }
    bail!("the piton that runs {id} has left before it answered; try again")
}
