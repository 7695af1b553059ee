//! `piton session shell`: a command of the user's own, run by the process that runs the session.

use crate::failure::{Result, bail};
use crate::out::view;
use piton_core::call::Status;
use piton_core::client::{Reply, Request};
use piton_core::ids::SessionId;
use piton_engine::engine::{Engine, EngineError};

/// Runs it, and prints what it printed; the exit code is 0 where the command's is.
pub(super) async fn shell(engine: &Engine, id: &SessionId, command: &str, private: bool, json: bool) -> Result<u8> {
    let Some(session) = engine.join(id).await? else {
        bail!("{id} is not running, so the command was not run. Open it with piton --resume {id} and type !{command}");
    };
    let request = Request::Shell { command: command.to_owned(), keep_from_model: private, terminal: false };
    let ran = match session.ask(request).next().await {
        Ok(ran @ Reply::Ran { .. }) => ran,
        Ok(_) | Err(EngineError::Closed) => {
            bail!("the process that ran {id} has left; piton session show {id} says how far the command came")
        }
        Err(error) => return Err(error.into()),
    };
    let Reply::Ran { outcome, .. } = &ran else { return Ok(1) };
    match json {
        true => view::write_stdout(&format!("{}\n", serde_json::to_string(&ran).unwrap_or_default())),
        false => view::write_stdout(&format!("{}\n", view::clean(outcome.text.trim_end()))),
    }
    Ok(u8::from(outcome.status != Status::Ok))
}
