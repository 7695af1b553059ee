//! Leaving plan mode, once a person approves of a plan.

use super::Driver;
use piton_core::client::Configure;
use piton_core::event::{Answerer, ChangedBy, Event};
use piton_core::inquiry::planning::{self, Approval};
use piton_core::permission::PermissionMode;
use piton_core::question::Decision;

impl Driver {
    /// What an answer approves of, where it is one to the question about a plan.
    pub(super) fn plan_approved(&self, event: &Event) -> Option<Approval> {
        let Event::ApprovalGiven { subject, decision, by } = event else { return None };
        if let (Decision::ApproveChanged(_), Some(Answerer::User)) = (decision, by) {
            // They are asked about what they have made of it.
            return None;
        }
        self.session.question(subject)?.inquiry.as_ref()?.plan.as_ref()?;
        planning::approval(decision.given())
    }

    /// A plan is approved: the session leaves plan mode, on record together with the answer.
    pub(super) fn leave_plan(&mut self, approval: Approval) {
        let settings = self.settings_to_come();
        let before = settings.displaced.mode.unwrap_or(settings.policy.mode);
        let before = Some(before).filter(|mode| *mode != PermissionMode::Plan);
        let mode = match approval {
            Approval::In(mode) => mode,
            Approval::AsBefore => before.unwrap_or_default(),
        };
        let mut changed = self.with_agent(Configure { mode: Some(mode), ..Configure::default() });
        changed.mode_before = self.settings_to_come().displaced_by(&changed);
        let (at_once, _) = self.apply_change(&changed, None);
        self.record(Event::SettingsChanged { changed, by: ChangedBy::User, at_once });
    }
}
