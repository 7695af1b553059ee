//! Hosts that a running command wants to reach: rules judge them, and where they want it a person is asked.
//!
//! ```text
//!   a connection ─► Judge::opens ─► HostAsk ─► the driver: rules, or `approval_asked`
//!        goes on, or is refused ◄──────────── `approval_given`, once it is durable
//! ```
//!
//! A host is asked about once in a call, however many connections wait for it. An answer that is no "always" holds for the call. When
//! the call is over, or Piton's process is, nothing waits any more. What connects, and how, is [`piton_http::egress`]'s to know.

use async_trait::async_trait;
use piton_core::call::Access;
use piton_core::ids::CallId;
use piton_core::permission::{Action, Ask, Grant, Judgement, NET, PermissionMode, Reach, Rules};
use piton_http::egress::{Judge, Place};
use std::collections::HashMap;
use tokio::sync::{mpsc, oneshot};

/// Hosts that one call has a person asked about: a hostile command would have them asked about thousands.
const MOST_ASKED: usize = 8;

/// A connection that waits for a word.
#[derive(Debug)]
pub(crate) struct HostAsk {
    /// The call that its command is of.
    pub(crate) call: CallId,
    /// Where it wants to go, as a rule names it.
    pub(crate) host: String,
    /// Whether `[sandbox] net` or `--net` opens it.
    pub(crate) is_listed: bool,
    answer: oneshot::Sender<bool>,
}

impl HostAsk {
    /// Lets it go on, or not. It may have ended.
    pub(crate) fn tell(self, is_open: bool) {
        let _ = self.answer.send(is_open);
    }
}

/// Where connections ask.
#[derive(Debug, Clone)]
pub(crate) struct HostAsks(mpsc::UnboundedSender<HostAsk>);

/// The connections that wait, and what they are to be told.
#[derive(Debug)]
pub(crate) struct Hosts {
    asks: mpsc::UnboundedReceiver<HostAsk>,
    waiting: Vec<HostAsk>,
    answered: Vec<(HostAsk, bool)>,
    /// Hosts that a person was asked about, for each open call, with the answers that there are.
    asked: HashMap<CallId, HashMap<String, Option<bool>>>,
}

impl Hosts {
    /// Both ends.
    pub(crate) fn new() -> (HostAsks, Self) {
        let (sender, asks) = mpsc::unbounded_channel();
        (HostAsks(sender), Self { asks, waiting: Vec::new(), answered: Vec::new(), asked: HashMap::new() })
    }

    /// The next connection that asks. Waits for ever where none does.
    pub(crate) async fn next(&mut self) -> HostAsk {
        match self.asks.recv().await {
            Some(ask) => ask,
            None => std::future::pending().await,
        }
    }

    /// What a person has said to this host in this call.
    pub(crate) fn said(&self, ask: &HostAsk) -> Option<bool> {
        *self.asked.get(&ask.call)?.get(&ask.host)?
    }

    /// Whether a person may be asked about one more host of this call.
    pub(crate) fn may_ask(&self, call: &CallId) -> bool {
        self.asked.get(call).is_none_or(|asked| asked.len() < MOST_ASKED)
    }

    /// It waits for the answer of a person.
    pub(crate) fn wait(&mut self, ask: HostAsk) {
        self.asked.entry(ask.call.clone()).or_default().entry(ask.host.clone()).or_default();
        self.waiting.push(ask);
    }

    /// It is told this when all that is recorded is durable.
    pub(crate) fn tell_when_durable(&mut self, ask: HostAsk, is_open: bool) {
        self.answered.push((ask, is_open));
    }

    /// The answer is recorded: whoever waits for it is told when that is durable.
    pub(crate) fn answered(&mut self, call: &CallId, host: &str, is_open: bool) {
        if let Some(said) = self.asked.get_mut(call).and_then(|asked| asked.get_mut(host)) {
            *said = Some(is_open);
        }
        let about = self.waiting.extract_if(.., |ask| ask.call == *call && ask.host == host);
        self.answered.extend(about.map(|ask| (ask, is_open)));
    }

    /// A call is over.
    pub(crate) fn over(&mut self, call: &CallId) {
        self.waiting.retain(|ask| ask.call != *call);
        self.asked.remove(call);
    }

    /// Tells what is durable now.
    pub(crate) fn tell_durable(&mut self) {
        self.answered.drain(..).for_each(|(ask, is_open)| ask.tell(is_open));
    }
}

/// Has the driver judge the hosts of one call.
#[derive(Debug)]
pub(crate) struct OfCall {
    pub(crate) call: CallId,
    pub(crate) asks: HostAsks,
}

#[async_trait]
impl Judge for OfCall {
    async fn opens(&self, place: &Place, is_listed: bool) -> bool {
        let (answer, heard) = oneshot::channel();
        let ask = HostAsk { call: self.call.clone(), host: place.rule(), is_listed, answer };
        // Whoever would answer is gone: then so is this connection, soon.
        self.asks.0.send(ask).is_ok() && heard.await.unwrap_or(false)
    }
}

/// Judges the hosts of what is no call, a check or a hook: by rules alone.
#[derive(Debug)]
pub(crate) struct ByRules {
    pub(crate) rules: Rules,
    pub(crate) mode: PermissionMode,
    pub(crate) reach: Reach,
}

#[async_trait]
impl Judge for ByRules {
    async fn opens(&self, place: &Place, is_listed: bool) -> bool {
        let Self { rules, mode, reach } = self;
        let held = Held { rules, grants: &[], mode: *mode, reach };
        held.says(&place.rule(), is_listed).action == Action::Allow
    }
}

/// What hosts are held against.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held<'a> {
    pub(crate) rules: &'a Rules,
    pub(crate) grants: &'a [Grant],
    pub(crate) mode: PermissionMode,
    pub(crate) reach: &'a Reach,
}

impl Held<'_> {
    /// What becomes of a host. One that is listed is open unless a rule speaks against it; any other needs a rule for `net`.
    pub(crate) fn says(&self, host: &str, is_listed: bool) -> Judgement {
        let rules = self.rules.about_hosts();
        let accesses = [Access::Reach(host.to_owned())];
        let ask = Ask { tool: NET, accesses: &accesses, workspace: "", is_confined: true, reach: self.reach };
        let mut judged = rules.judge_in(self.mode, self.grants, &ask);
        if is_listed && judged.rule.is_none() {
            judged.action = Action::Allow;
        }
        judged
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::permission::read_rule;

    fn says(rules: &[(&str, Action)], mode: PermissionMode, host: &str, is_listed: bool) -> Action {
        let rules = Rules(rules.iter().map(|(text, action)| read_rule(text, *action).unwrap()).collect());
        let reach = Reach { hosts: vec!["listed.test".into()], ..Reach::default() };
        Held { rules: &rules, grants: &[], mode, reach: &reach }.says(host, is_listed).action
    }

    #[test]
    fn a_host_is_open_by_the_list_or_by_a_rule_for_hosts_and_else_asked_about() {
        use Action::{Allow, Ask, Deny};
        for mode in [PermissionMode::Ask, PermissionMode::AcceptEdits, PermissionMode::Auto] {
            assert_eq!(says(&[], mode, "new.test", false), Ask, "{mode}");
            assert_eq!(says(&[], mode, "listed.test", true), Allow, "{mode}");
            assert_eq!(says(&[("net(domain:new.test)", Allow)], mode, "new.test", false), Allow, "{mode}");
            assert_eq!(says(&[("net(domain:*.new.test)", Allow)], mode, "a.new.test", false), Allow, "{mode}");
            assert_eq!(says(&[("net(domain:new.test)", Allow)], mode, "other.test", false), Ask, "{mode}");
            // In whatever spelling it was written: a connection has one.
            let written = [("net(domain:Bücher.test)", Allow)];
            assert_eq!(says(&written, mode, "xn--bcher-kva.test", false), Allow, "{mode}");
            // Whoever lets all commands run has opened no host.
            for rule in ["bash", "*", "web_fetch", "web_fetch(domain:new.test)"] {
                assert_eq!(says(&[(rule, Allow)], mode, "new.test", false), Ask, "{mode} {rule}");
            }
            // Nor has whoever forbids all else closed what is listed.
            assert_eq!(says(&[("*", Deny)], mode, "listed.test", true), Allow, "{mode}");
            // A ban on hosts counts for what is listed, too.
            assert_eq!(says(&[("net(domain:listed.test)", Deny)], mode, "listed.test", true), Deny, "{mode}");
            assert_eq!(says(&[("net", Deny)], mode, "new.test", false), Deny, "{mode}");
        }
        assert_eq!(says(&[], PermissionMode::Plan, "new.test", false), Deny);
    }
}
