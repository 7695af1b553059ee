//! Why an answer says that it has stopped, and whether that can be believed.
//!
//! Some gateways stamp a reason on every piece, or on empty ones before the first word. So a reason counts for what came
//! before it or with it; one that something followed has shown that in this answer it marks no end, and from then on only
//! the end of the body does.

use crate::protocol::Progress;
use piton_core::message::FinishReason;

/// The reason to stop of an answer in a protocol whose reason is no event of its own.
#[derive(Debug, Default)]
pub(crate) struct StopReason {
    raw: Option<String>,
    /// Something was said since.
    is_stale: bool,
    /// A reason came too early, so another may as well.
    is_doubted: bool,
}

impl StopReason {
    /// Words or calls came.
    pub(crate) fn said_more(&mut self) {
        if self.raw.is_some() {
            self.is_stale = true;
            self.is_doubted = true;
        }
    }

    /// A reason came. One for having finished is no reason where nothing was said: `is_empty`.
    pub(crate) fn because(&mut self, raw: &str, means: FinishReason, is_empty: bool) {
        let claims_end = matches!(means, FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Other);
        self.is_doubted |= is_empty && claims_end;
        self.is_stale = false;
        self.raw = Some(raw.to_owned());
    }

    pub(crate) fn progress(&self) -> Progress {
        if self.raw.is_some() && !self.is_doubted { Progress::Finished } else { Progress::Speaking }
    }

    /// Whether the answer may end here, if its body does.
    pub(crate) fn is_end(&self) -> bool {
        self.raw.is_some() && !self.is_stale
    }

    /// The reason in the provider's words.
    pub(crate) fn take(&mut self) -> Option<String> {
        self.raw.take()
    }
}
