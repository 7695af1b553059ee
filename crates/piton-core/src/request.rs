//! What goes to the model: transcript in, request out. Providers translate it, they do not decide.

use crate::call::ToolSpec;
use crate::event::StepKind;
use crate::model::Request;
use crate::turn::Session;
use std::sync::Arc;

/// What the embedder adds to a conversation.
#[derive(Debug, Clone)]
pub struct Frame {
    /// The system prompt; the same bytes for the whole session, or the provider's cache is lost.
    pub system: Arc<str>,
    /// The tools on offer, sorted by name.
    pub tools: Arc<[ToolSpec]>,
    /// The most tokens a reply may have, where it should be limited.
    pub max_output_tokens: Option<u32>,
}

/// The request for the step under way.
pub fn build(session: &Session, frame: &Frame, model: &str) -> Request {
    Request {
        session: session.id().0.clone(),
        model: model.to_owned(),
        system: frame.system.to_string(),
        tools: frame.tools.clone(),
        may_call: session.step_kind() != StepKind::WrapUp,
        messages: session.transcript().cloned().collect(),
        max_output_tokens: frame.max_output_tokens,
    }
}
