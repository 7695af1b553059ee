//! What MCP servers know of a line that is being typed. Nobody who types waits for it.

use super::{Chat, Done};
use piton_engine::assemble::servers::complete::{Offer, complete};
use piton_tui::face::Input;
use piton_tui::picker::Item;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

impl Chat<'_> {
    /// Asks the servers of the session how a line goes on, and no more about the one before.
    pub(super) fn look_up(&mut self, line: String) {
        std::mem::replace(&mut self.looking_up, CancellationToken::new()).cancel();
        let Some(servers) = self.servers.as_ref().map(Arc::clone) else { return };
        let given_up = self.looking_up.clone();
        self.asked.push(Box::pin(async move {
            let offers = given_up.run_until_cancelled(complete(&*servers, &line)).await;
            Done::Offered(offers.map(|offers| (line, offers)))
        }));
    }

    /// Hands on what they said.
    pub(super) fn offered(&self, offered: Option<(String, Vec<Offer>)>) {
        let Some((line, offers)) = offered else { return };
        let item = |Offer { label, detail, value }| Item { label, detail, value };
        self.terminal.tell(Input::Offers(line, offers.into_iter().map(item).collect()));
    }
}
