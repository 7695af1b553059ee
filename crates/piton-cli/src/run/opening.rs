//! The session of an order: joined where another process runs it, or opened here.

use crate::failure::{Result, bail, ensure};
use crate::out::view;
use crate::run::order::Place;
use crate::settings;
use crate::surroundings::Surroundings;
use crate::upkeep::Upkeep;
use piton_core::configure::Configure;
use piton_core::ids::SessionId;
use piton_engine::assemble::Wishes;
use piton_engine::engine::{Engine, EngineError, Handle, Settings};
use piton_engine::store::{StoreError, Summary};
use std::path::PathBuf;

/// The session where another process runs it. Fails where a flag asks for more than that process does.
pub(crate) async fn join(place: &Place, only_here: Option<&str>, engine: &Engine) -> Result<Option<Handle>> {
    let Some(id) = place.resumed() else { return Ok(None) };
    if engine.store().holder(id).await.is_none() {
        return Ok(None);
    }
    if let Some(flag) = only_here {
        bail!(
            "another process runs {id}, by its own rules: {flag} cannot be added to what it does, and nothing was said \
             there. Say it without {flag}, or once that process has left"
        );
    }
    Ok(engine.join(id).await?)
}

/// What a session needs to run here, before it is opened.
pub(crate) struct Prepared<'a> {
    place: &'a Place,
    folder: PathBuf,
    /// Whether a resumed session had another folder, which is gone.
    pub(crate) is_moved: bool,
    pub(crate) settings: Settings,
}

/// What a session was run with: one of which nothing else is on record was run by the agent `build`.
pub(crate) async fn had(engine: &Engine, id: &SessionId) -> Result<Configure> {
    let mut had = engine.configured(id).await?;
    had.agent = Some(had.agent().to_owned());
    Ok(had)
}

/// Finds the folder of a session and assembles its settings. A resumed session stays in its folder as long as
/// there is one: a folder that was named besides must be that. Where it is gone, the named one takes its place.
pub(crate) async fn prepare<'a>(
    place: &'a Place,
    wishes: &mut Wishes,
    engine: &Engine,
    around: &Surroundings,
) -> Result<Prepared<'a>> {
    let (folder, is_moved) = match place {
        Place::New(folder) => (folder.clone(), false),
        Place::Resumed { id, here, is_named } => {
            let Summary { workspace, model, .. } = engine.store().summary(id).await?;
            wishes.had = Configure { model, ..had(engine, id).await? };
            let had = PathBuf::from(&workspace);
            if had == *here {
                (had, false)
            } else if had.is_dir() {
                ensure!(!is_named, "{id} works in {workspace}; --cwd cannot move it while that is there");
                view::write_stderr(&format!("working in {workspace}\n"));
                (had, false)
            } else {
                ensure!(
                    is_named,
                    "{id} worked in {workspace}, which was moved or is gone. Go on with it in another folder with \
                     --cwd DIR"
                );
                view::write_stderr(&format!("{workspace} is gone; working in {} from here on\n", here.display()));
                (here.clone(), true)
            }
        }
    };
    let settings = settings::of_session(around, &folder, wishes).await?;
    Ok(Prepared { place, folder, is_moved, settings })
}

impl Prepared<'_> {
    /// Fails if there is no such command, before a session begins for it.
    pub(crate) fn must_have(&self, command: &str) -> Result<()> {
        let commands = self.settings.commands.as_ref();
        Ok(commands.map_or(Ok(()), |commands| commands.find(command, &self.folder))?)
    }

    /// Opens the session here; `None` where another process has it by now.
    pub(crate) async fn open(self, engine: &Engine, upkeep: &mut Upkeep<'_>) -> Result<Option<Handle>> {
        let Self { place, folder, is_moved, settings } = self;
        let snapshots = settings.snapshots.clone();
        let session = match place {
            Place::New(_) => Box::pin(engine.create(&folder, settings)).await?,
            Place::Resumed { id, .. } => {
                match Box::pin(engine.resume_in(id, is_moved.then_some(&*folder), settings)).await {
                    Err(EngineError::Journal(StoreError::Busy { .. })) => return Ok(None),
                    opened => opened?,
                }
            }
        };
        upkeep.opened(&session, snapshots);
        Ok(Some(session))
    }
}
