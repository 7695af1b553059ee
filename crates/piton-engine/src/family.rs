//! A session and the sessions of its subagents, as far as they share something: one budget, and places to work in.
//!
//! A subagent has a place from its beginning to its end, except while all that it does is wait for subagents of its own: then
//! one of them, or whoever else waits, has it. So no more than a few ever ask a model or run a call at a time, and none waits for a
//! place that is kept by somebody who waits for it.
//!
//! The budget is the root's. Whoever is about to ask a model reserves the most that this can cost, in sight of all others, so that
//! together they never overdraw it. What a subagent has used counts here until the outcome of its call is on record: from
//! then on it counts as used by its caller.

use piton_core::budget::{Bound, Budget, Short, Used};
use piton_core::ending::Why;
use piton_core::ids::SessionId;
use piton_core::permission::Grant;
use piton_core::policy::Policy;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

mod places;
use self::places::{Place, Places, Rank};

/// Subagents of a family that work at a time; more wait. One that only waits for subagents of its own does not count.
pub(crate) const AT_ONCE: usize = 4;
/// How deep subagents may call subagents: the root is at 0.
pub(crate) const DEPTH: u8 = 3;
/// Subagents that one turn may call.
pub(crate) const MOST_IN_TURN: u32 = 64;

/// A session's place in its family.
#[derive(Debug, Clone)]
pub(crate) struct Kin {
    family: Arc<Family>,
    seat: Arc<Seat>,
    /// How many callers are above it.
    pub(crate) depth: u8,
}

/// Where a subagent works.
#[derive(Debug, Default)]
struct Seat {
    taken: Mutex<Taken>,
    /// Held by whichever of its jobs waits for a place: one is enough for all.
    coming: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Taken {
    place: Option<Place>,
    /// Its jobs that are at work in it.
    jobs: usize,
    /// Whether it waits for subagents of its own.
    waits: bool,
}

impl Seat {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a job work in the place that there is, or in this one. `None`: there is neither.
    fn enter(seat: &Arc<Self>, new: Option<Place>) -> Option<AtWork> {
        let mut taken = seat.taken();
        taken.place = taken.place.take().or(new);
        taken.place.as_ref()?;
        taken.jobs += 1;
        Some(AtWork(Arc::clone(seat)))
    }
}

impl Taken {
    /// Leaves the place to others while nothing is done in it but waiting for them.
    fn lend(&mut self) {
        if self.waits && self.jobs == 0 {
            self.place = None;
        }
    }
}

/// A subagent that has begun, until it is over: then its place is free.
#[derive(Debug)]
pub(crate) struct Begun(Arc<Seat>);

impl Drop for Begun {
    fn drop(&mut self) {
        self.0.taken().place = None;
    }
}

/// A job at work in its session's place, until this is dropped.
#[derive(Debug)]
pub(crate) struct AtWork(Arc<Seat>);

impl Drop for AtWork {
    fn drop(&mut self) {
        let mut taken = self.0.taken();
        taken.jobs -= 1;
        taken.lend();
    }
}

#[derive(Debug)]
struct Family {
    purse: Mutex<Purse>,
    places: Places,
    allowed: Mutex<Allowed>,
    /// Tells that these have changed.
    granted: watch::Sender<()>,
}

/// What a person has allowed for the rest of the session.
#[derive(Debug, Default)]
struct Allowed {
    /// By the member that was asked; it holds for all.
    grants: BTreeMap<SessionId, Vec<Grant>>,
    /// What was allowed to members other than the root, and is not on its record yet.
    unrecorded: Vec<(SessionId, Vec<Grant>)>,
}

#[derive(Debug, Default)]
struct Purse {
    /// The root's.
    budget: Budget,
    /// The steps that the root's turn and all who work for it may have.
    steps: Option<u32>,
    /// What each of those at work has used, or may be using.
    members: BTreeMap<SessionId, Used>,
}

impl Default for Kin {
    fn default() -> Self {
        let (purse, allowed) = (Mutex::default(), Mutex::default());
        let family = Family { purse, places: Places::new(AT_ONCE), allowed, granted: watch::Sender::default() };
        Self { family: Arc::new(family), seat: Arc::default(), depth: 0 }
    }
}

impl Kin {
    /// The place of whoever works for it.
    pub(crate) fn child(&self) -> Self {
        Self { family: Arc::clone(&self.family), seat: Arc::default(), depth: self.depth + 1 }
    }

    /// Takes notice of what a person has allowed a session.
    pub(crate) fn grants(&self, id: &SessionId, grants: &[Grant]) {
        let mut allowed = self.allowed();
        let before = match grants {
            [] => allowed.grants.remove(id),
            some => allowed.grants.insert(id.clone(), some.to_vec()),
        };
        let before = before.unwrap_or_default();
        let new: Vec<Grant> = grants.iter().filter(|grant| !before.contains(grant)).cloned().collect();
        if self.depth > 0 && !new.is_empty() {
            allowed.unrecorded.push((id.clone(), new));
        }
        drop(allowed);
        if before != grants {
            self.family.granted.send_replace(());
        }
    }

    /// What was allowed to those who work for the root since this was asked last, by whom it was; the root has it on its record.
    pub(crate) fn take_unrecorded_grants(&self) -> Vec<(SessionId, Vec<Grant>)> {
        if self.depth == 0 { std::mem::take(&mut self.allowed().unrecorded) } else { Vec::new() }
    }

    fn allowed(&self) -> MutexGuard<'_, Allowed> {
        self.family.allowed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hears whenever a person has allowed one of the family something: what another asks may be answered by that.
    pub(crate) fn hear_grants(&self) -> watch::Receiver<()> {
        self.family.granted.subscribe()
    }

    /// What a person has allowed the others.
    pub(crate) fn grants_of_others(&self, id: &SessionId) -> Vec<Grant> {
        self.allowed().grants.iter().filter(|(of, _)| *of != id).flat_map(|(_, grants)| grants).cloned().collect()
    }

    /// Takes a place for a subagent that is to begin, once one is free. Told to stop, it needs none.
    pub(crate) async fn begin_work(&self, stop: &CancellationToken) -> Begun {
        let begun = Begun(Arc::clone(&self.seat));
        let place = self.family.places.take(Rank::New(DEPTH.saturating_sub(self.depth)));
        if let Some(place) = stop.run_until_cancelled(place).await {
            self.seat.taken().place = place;
        }
        begun
    }

    /// A job asks a model or runs a call: at once where the session has its place, else when it has one again. The root needs none.
    pub(crate) async fn at_work(&self) -> Option<AtWork> {
        if self.depth == 0 {
            return None;
        }
        let _first = self.seat.coming.lock().await;
        match Seat::enter(&self.seat, None) {
            Some(at_work) => Some(at_work),
            None => Seat::enter(&self.seat, self.family.places.take(Rank::Begun).await),
        }
    }

    /// Whether the session waits for subagents of its own, whatever else it does.
    pub(crate) fn waits(&self, waits: bool) {
        let mut taken = self.seat.taken();
        taken.waits = waits;
        taken.lend();
    }

    /// Decides what a session may still spend, which has used `own` by now, and reserves that, before anybody else of the family
    /// decides. The budget is the root's: `budget`, where this is the root.
    pub(crate) fn reserve<T>(
        &self,
        id: &SessionId,
        own: Used,
        budget: &Budget,
        decide: impl FnOnce(&Budget, &Used) -> (Bound, T),
    ) -> T {
        if self.depth == 0 {
            self.lock().budget = *budget;
        }
        self.claim(id, own, decide)
    }

    /// The same, by the budget that the root's turn began with.
    pub(crate) fn claim<T>(&self, id: &SessionId, own: Used, decide: impl FnOnce(&Budget, &Used) -> (Bound, T)) -> T {
        let mut purse = self.lock();
        let mut all = self.counted(own);
        for (_, used) in purse.members.iter().filter(|(member, _)| *member != id) {
            all.turn.add(&used.turn);
            all.session.add(&used.session);
        }
        let (reserved, decided) = decide(&purse.budget, &all);
        let mut own = self.counted(own);
        own.add(&reserved);
        purse.members.insert(id.clone(), own);
        decided
    }

    /// What counts of it: earlier calls of the same subagent are on its caller's bill.
    fn counted(&self, used: Used) -> Used {
        if self.depth == 0 { used } else { Used { session: used.turn, ..used } }
    }

    /// What is left of the root's budget, as all but this session have used it, or may be using it.
    pub(crate) fn left(&self, but: &SessionId) -> Budget {
        let purse = self.lock();
        let (mut turn, mut session) = (Bound::default(), Bound::default());
        for (_, used) in purse.members.iter().filter(|(member, _)| *member != but) {
            turn.add(&used.turn);
            session.add(&used.session);
        }
        let cost = |most: Option<u64>, used: Bound| most.map(|most| most.saturating_sub(used.cost_micros.unwrap_or(0)));
        let Budget { tokens, cost_micros, session_cost_micros, wall_clock_ms: _ } = purse.budget;
        Budget {
            tokens: tokens.map(|most| most.saturating_sub(turn.tokens)),
            cost_micros: cost(cost_micros, turn).into_iter().chain(cost(session_cost_micros, session)).min(),
            // The root's clock stops everybody.
            session_cost_micros: None,
            wall_clock_ms: None,
        }
    }

    /// Sets the budget that all go by, and what the root has used of it: where it does not ask a model before others do.
    pub(crate) fn begin(&self, id: &SessionId, own: Used, policy: &Policy) {
        if self.depth == 0 {
            let mut purse = self.lock();
            (purse.budget, purse.steps) = (policy.budget, policy.steps.max);
        }
        self.uses(id, own);
    }

    /// Whether no step is left for the one that a session has begun, which is among its own. The last one is the root's: somebody has to
    /// answer the person.
    pub(crate) fn out_of_steps(&self, id: &SessionId, own: Used) -> Option<Short> {
        let mut purse = self.lock();
        let most = purse.steps?;
        let of_others = purse.members.iter().filter(|(member, _)| *member != id).map(|(_, used)| used.steps);
        let all = of_others.fold(own.steps, u32::saturating_add);
        let here = if self.depth == 0 { most } else { most.saturating_sub(1) };
        if all > here {
            let detail = format!("the limit of {most} steps, which counts those of subagents, is reached");
            return Some(Short { why: Why::Steps, detail });
        }
        purse.members.entry(id.clone()).or_default().steps = own.steps;
        None
    }

    /// The same of somebody below it that is not at work yet.
    pub(crate) fn expects(&self, id: &SessionId, used: Used) {
        self.child().uses(id, used);
    }

    /// Takes notice of what a session has used by now; nothing is under way.
    pub(crate) fn uses(&self, id: &SessionId, used: Used) {
        let used = self.counted(used);
        self.lock().members.insert(id.clone(), used);
    }

    /// The most that a session below may have used so far for what it does now.
    pub(crate) fn known_of(&self, id: &SessionId) -> Option<Used> {
        self.lock().members.get(id).copied().filter(|used| used.turn != Bound::default())
    }

    /// What a session has used counts elsewhere now.
    pub(crate) fn forget(&self, id: &SessionId) {
        self.lock().members.remove(id);
    }

    fn lock(&self) -> MutexGuard<'_, Purse> {
        self.family.purse.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use piton_core::permission::{Action, Rule};

    fn used(tokens: u64) -> Used {
        let bound = Bound { tokens, cost_micros: Some(tokens) };
        Used { turn: bound, session: bound, steps: 0 }
    }

    fn limited(tokens: Option<u64>, steps: Option<u32>) -> Policy {
        let mut policy = Policy::piton();
        (policy.budget.tokens, policy.steps.max) = (tokens, steps);
        policy
    }

    #[test]
    fn steps_are_counted_over_all_and_the_last_is_the_roots() {
        let root = Kin::default();
        let (one, two) = (root.child(), root.child());
        let ids = ["root", "one", "two"].map(SessionId::from);
        let taken = |steps: u32| Used { steps, ..Used::default() };
        assert_eq!(root.out_of_steps(&ids[0], taken(99)), None, "there is no limit");
        root.begin(&ids[0], taken(1), &limited(None, Some(5)));
        assert_eq!(one.out_of_steps(&ids[1], taken(1)), None);
        assert_eq!(two.out_of_steps(&ids[2], taken(1)), None);
        assert_eq!(one.out_of_steps(&ids[1], taken(2)), None);
        let short = two.out_of_steps(&ids[2], taken(2)).unwrap();
        assert_eq!(
            (short.why, short.detail.as_str()),
            (Why::Steps, "the limit of 5 steps, which counts those of subagents, is reached")
        );
        // What was refused was not taken.
        assert_eq!(root.out_of_steps(&ids[0], taken(2)), None);
        assert!(root.out_of_steps(&ids[0], taken(3)).is_some());
    }

    #[test]
    fn what_a_person_allows_one_is_heard_by_the_others() {
        let root = Kin::default();
        let (one, two) = (root.child(), root.child());
        let heard = two.hear_grants();
        let id = SessionId::from("one");
        one.grants(&id, &[]);
        assert!(!heard.has_changed().unwrap(), "nothing was allowed");
        let grant = Grant { rule: Rule::of("bash", Action::Allow), asked_by: None, at_ms: 1 };
        one.grants(&id, std::slice::from_ref(&grant));
        assert!(heard.has_changed().unwrap());
        assert_eq!(two.grants_of_others(&SessionId::from("two")), [grant]);
    }

    #[test]
    fn what_one_reserves_the_others_do_not_have() {
        let root = Kin::default();
        let (one, two) = (root.child(), root.child());
        let ids = ["root", "one", "two"].map(SessionId::from);
        root.begin(&ids[0], used(10), &limited(Some(100), None));
        let seen = |kin: &Kin, id: &SessionId, own: u64, reserved: u64| {
            kin.reserve(id, used(own), &Budget::default(), |budget, used| {
                (Bound { tokens: reserved, cost_micros: None }, (budget.tokens, used.turn.tokens))
            })
        };
        assert_eq!(seen(&one, &ids[1], 5, 30), (Some(100), 15), "the root's budget is everybody's");
        assert_eq!(seen(&two, &ids[2], 1, 0), (Some(100), 46), "what is reserved is not free");
        one.uses(&ids[1], used(7));
        assert_eq!(seen(&two, &ids[2], 1, 0).1, 18, "what was reserved is used or free");
        one.forget(&ids[1]);
        assert_eq!(seen(&two, &ids[2], 1, 0).1, 11);
    }
}
