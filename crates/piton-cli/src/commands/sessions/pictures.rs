//! `piton session context` and `cache`: what the conversation shows as `/context` and `/cache`, drawn, as a table, or as JSON.

use crate::cli::PictureArgs;
use crate::failure::Result;
use crate::out::view;
use crate::pictures::{self, ContextTable, FrameSizes, Look};
use crate::settings;
use crate::surroundings::Surroundings;
use piton_core::configure::Configure;
use piton_core::ids::SessionId;
use piton_core::story::{Body, ModelState, Story};
use piton_engine::assemble::Wishes;
use piton_engine::engine::Engine;
use serde_json::{Value, json};
use std::path::Path;

fn look(args: &PictureArgs) -> Look {
    if args.plain { Look::Plain } else { Look::Drawn }
}

/// What stands in the context of a session. What comes before the messages is told apart where its model can be asked from here.
pub(super) async fn context(engine: &Engine, id: &SessionId, args: &PictureArgs, around: &Surroundings) -> Result<()> {
    let records = engine.records(id).await?;
    let summary = engine.store().summary(id).await?;
    let model = summary.model.unwrap_or_default();
    let had = Configure { model: Some(model.clone()).filter(|model| !model.is_empty()), ..Configure::default() };
    let wishes = Wishes { had, ..Wishes::default() };
    let settings = settings::of_session(around, Path::new(&summary.workspace), &wishes).await.ok();
    let window = settings.as_ref().and_then(|settings| settings.model.limits().window_tokens);
    let table = ContextTable::of(&records, &model, window, settings.as_ref().map(FrameSizes::of));
    view::write_stdout(&if args.json { format!("{}\n", table.json()) } else { table.words(look(args)) });
    Ok(())
}

/// What the provider's cache did for each request.
pub(super) async fn cache(engine: &Engine, id: &SessionId, args: &PictureArgs) -> Result<()> {
    let story = Story::of(&engine.records(id).await?);
    view::write_stdout(&if args.json {
        format!("{}\n", of_steps(&story))
    } else {
        pictures::cache(&story, look(args))
    });
    Ok(())
}

fn of_steps(story: &Story) -> Value {
    let step = |block: &std::sync::Arc<piton_core::story::Block>| match &block.body {
        Body::Model(model) if matches!(model.state, ModelState::Replied { .. }) => Some(json!({
            "turn": block.turn, "step": model.step, "model": model.model, "usage": model.usage, "cache": model.cache,
        })),
        _ => None,
    };
    json!({"steps": story.blocks().filter_map(step).collect::<Vec<_>>()})
}
