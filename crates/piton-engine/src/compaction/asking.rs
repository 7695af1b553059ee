//! Who is asked for a summary, with what, and how often: one model after the other, each request checked against the
//! budget before it is made, shorter where a provider says that it does not fit.

use super::Sketch;
use crate::bus::Bus;
use crate::clock::World;
use crate::family::Kin;
use crate::prompt::{self, CostEstimate};
use futures_util::StreamExt;
use piton_core::budget::{Bound, Budget, Leave, Short, UpcomingCall, Used};
use piton_core::client::Live;
use piton_core::compact;
use piton_core::event::{Event, SummaryCall, Trigger};
use piton_core::ids::SessionId;
use piton_core::limits::STREAM_SILENT_MS;
use piton_core::message::{FinishReason, Part, Usage, prose};
use piton_core::model::{ModelError, ModelErrorKind, ModelEvent, Reply, Request};
use piton_core::retry;
use piton_models::model::Model;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const SILENCE: Duration = Duration::from_millis(STREAM_SILENT_MS);

/// A summary to be asked for.
pub(crate) struct Task {
    pub(crate) sketch: Sketch,
    /// Who is asked, in order: the next one where the one before gives none.
    pub(crate) askings: Vec<Asking>,
    /// What its turn may use, and has used. Between turns there is only a budget of the session.
    pub(crate) is_in_turn: bool,
    pub(crate) budget: Budget,
    pub(crate) used: Used,
    pub(crate) bill: SharedBill,
}

/// A model, and what it is asked with.
pub(crate) struct Asking {
    pub(crate) model: Arc<dyn Model>,
    /// The longest first; the others are for where that does not fit.
    pub(crate) tries: Vec<Try>,
    pub(crate) retry: retry::RetryPolicy,
}

/// A request for a summary.
#[derive(Clone)]
pub(crate) struct Try {
    pub(crate) request: Request,
    /// Whether it begins as the session's own requests do.
    pub(crate) is_own_prefix: bool,
    pub(crate) estimate: CostEstimate,
}

/// What asking has used so far. The driver sees it too, for the case that the asking is cut off.
pub(crate) type SharedBill = Arc<Mutex<Bill>>;

/// See [`SharedBill`].
#[derive(Default)]
pub(crate) struct Bill {
    model: String,
    attempts: u32,
    usage: Usage,
    cost_micros: Option<u64>,
    at_most: Option<Bound>,
    /// What the request can use at most that is under way.
    under_way: Option<Bound>,
}

/// What came of asking.
pub(crate) struct Summarised {
    pub(crate) sketch: Sketch,
    pub(crate) said: Result<String, String>,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) bill: SharedBill,
    /// Whether it was the first request, the one that the cache knows, and no other.
    pub(crate) is_own_prefix: bool,
}

/// Who hears what happens meanwhile, and by which clock.
pub(crate) struct Progress {
    pub(crate) world: World,
    pub(crate) bus: Bus,
    pub(crate) step: u32,
    /// Whose conversation it is, and its place in the family whose budget it uses up.
    pub(crate) session: SessionId,
    pub(crate) kin: Kin,
}

/// Why a model gave no summary.
struct Refused {
    why: String,
    /// It answered, but with something else.
    is_odd: bool,
}

impl Task {
    /// What the first request that may be made can use at most; why none may be made, where the budget covers none.
    pub(crate) fn estimate(&self) -> Result<Bound, Short> {
        let mut estimated = Ok(Bound::default());
        for Asking { model, tries, .. } in &self.askings {
            let Some(first) = tries.first() else { continue };
            estimated = first.permit(&**model, &self.budget, &self.used).map(|(at_most, _)| at_most);
            if estimated.is_ok() {
                break;
            }
        }
        estimated
    }
}

impl Try {
    /// What it can use at most, and how long its reply may be.
    fn permit(&self, model: &dyn Model, budget: &Budget, used: &Used) -> Result<(Bound, Option<u32>), Short> {
        let asked_for = self.request.max_output_tokens;
        let call = UpcomingCall {
            model: model.name(),
            input_tokens: self.estimate.input_tokens,
            output_tokens: asked_for.or(model.limits().max_output_tokens),
            rates: self.estimate.rates,
        };
        match call.leave(budget, used) {
            Leave::Free => Ok((call.at_most(call.longest_reply()), asked_for)),
            Leave::Capped(most) => Ok((call.at_most(most), Some(most))),
            Leave::Short(short) => Err(short),
        }
    }
}

impl Bill {
    fn count(&mut self, model: &dyn Model, usage: &Usage, is_counted: bool, at_most: Bound) {
        self.under_way = None;
        self.usage.add(usage);
        if !is_counted {
            self.at_most.get_or_insert_default().add(&at_most);
        }
        if let Some(cost) = prompt::cost(model, usage, is_counted) {
            *self.cost_micros.get_or_insert(0) += cost;
        }
    }

    /// All of it, what is under way at its worst.
    fn used(&self) -> Bound {
        let mut used = Bound { tokens: self.usage.total(), cost_micros: self.cost_micros };
        self.at_most.iter().chain(&self.under_way).for_each(|most| used.add(most));
        used
    }

    /// What it says on record, where anybody was asked.
    fn asked(&self) -> Option<SummaryCall> {
        let mut at_most = self.at_most;
        self.under_way.iter().for_each(|most| at_most.get_or_insert_default().add(most));
        (self.attempts > 0).then(|| SummaryCall {
            model: self.model.clone(),
            attempts: self.attempts,
            usage: self.usage,
            cost_micros: self.cost_micros,
            at_most,
            prompt: None,
        })
    }
}

/// The event of an asking that came to no end: it was stopped, or broke.
pub(crate) fn stopped(trigger: Trigger, error: String, bill: &SharedBill) -> Event {
    Event::CompactionFailed { trigger, why: None, error, asked: lock(bill).asked().map(Box::new) }
}

impl Summarised {
    /// The event that it ends in.
    pub(crate) fn event(self, prompt: Option<Box<piton_core::prompt::PromptContents>>) -> Event {
        let asked = lock(&self.bill).asked().map(|asked| Box::new(SummaryCall { prompt, ..asked }));
        match self.said {
            Ok(said) => self.sketch.finished(&said, asked),
            Err(error) => Event::CompactionFailed { trigger: self.sketch.trigger, why: None, error, asked },
        }
    }

    /// What all requests of this asking used.
    pub(crate) fn usage(&self) -> Usage {
        lock(&self.bill).usage
    }
}

/// Asks for a summary, one model after the other.
pub(crate) async fn summarise(task: Task, progress: Progress) -> Option<Summarised> {
    let Task { sketch, askings, budget, is_in_turn, used, bill } = task;
    let limits = Limits { budget, is_in_turn, used, bill: Arc::clone(&bill), progress };
    let (mut last, mut is_odd, mut why) = (None, false, Vec::new());
    for Asking { model, tries, retry } in askings {
        match limits.ask(&model, tries, &retry).await {
            Ok((said, is_own_prefix)) => {
                return Some(Summarised { sketch, said: Ok(said), model, bill, is_own_prefix });
            }
            Err(refused) => {
                is_odd = refused.is_odd;
                why.push((model.name().to_owned(), refused.why));
                last = Some(model);
            }
        }
    }
    let why = match why.as_slice() {
        [(_, why)] => why.clone(),
        all => all.iter().map(|(model, why)| format!("{model}: {why}")).collect::<Vec<_>>().join("; "),
    };
    let said = if is_odd { sketch.without(&why) } else { Err(why) };
    last.map(|model| Summarised { sketch, said, model, bill, is_own_prefix: false })
}

/// What holds for every request of one compaction.
struct Limits {
    budget: Budget,
    is_in_turn: bool,
    used: Used,
    bill: SharedBill,
    progress: Progress,
}

impl Limits {
    /// Asks one model: again where the provider fails, shorter where it does not fit, and once more where it did
    /// something else.
    async fn ask(
        &self,
        model: &Arc<dyn Model>,
        tries: Vec<Try>,
        retry: &retry::RetryPolicy,
    ) -> Result<(String, bool), Refused> {
        let failed = |why: String| Refused { why, is_odd: false };
        let mut tries = tries.into_iter();
        let mut now =
            tries.next().ok_or_else(|| failed("the conversation does not fit the model's window".to_owned()))?;
        let (mut failures, mut oddities, mut attempt) = (retry::Failures::default(), 0, 0);
        loop {
            attempt += 1;
            let (at_most, request) = self.begin(&**model, &now, attempt).map_err(failed)?;
            match listen(&**model, request, &self.progress).await {
                Ok(reply) => {
                    lock(&self.bill).count(&**model, &reply.usage, reply.is_counted(), at_most);
                    let why = match taken(&reply) {
                        Ok(said) => return Ok((said, now.is_own_prefix)),
                        Err(why) => why,
                    };
                    oddities += 1;
                    if oddities > 1 {
                        return Err(Refused { why: format!("asked for a summary twice, {why}"), is_odd: true });
                    }
                    self.tell_failure(&**model, attempt, &why, Some(0));
                    // Some providers keep messages apart by this, so it is not said at once.
                    (now.request.may_call, now.is_own_prefix) = (false, false);
                }
                Err(error) => {
                    self.pay_for(&**model, &error, at_most);
                    let shorter = if error.kind == ModelErrorKind::WindowExceeded { tries.next() } else { None };
                    if let Some(shorter) = shorter {
                        self.tell_failure(&**model, attempt, &error.message, Some(0));
                        now = shorter;
                        continue;
                    }
                    failures = failures.and(error.kind);
                    let wait_ms = retry::wait_ms(retry, &error, failures, self.progress.world.roll());
                    self.tell_failure(&**model, attempt, &error.message, wait_ms);
                    let wait_ms = wait_ms.ok_or_else(|| failed(error.message))?;
                    let world = &self.progress.world;
                    world.sleep_until(world.now_ms().saturating_add(wait_ms)).await;
                }
            }
        }
    }

    /// Estimates a request that is about to be made, and notes that it is.
    fn begin(&self, model: &dyn Model, now: &Try, attempt: u32) -> Result<(Bound, Request), String> {
        let mut bill = lock(&self.bill);
        let mut used = self.used;
        used.add(&bill.used());
        let own = now.permit(model, &self.budget, &used);
        let decide = |budget: &Budget, all: &Used| {
            let budget = if self.is_in_turn { *budget } else { budget.of_session() };
            let permitted = own.and_then(|own| now.permit(model, &budget, all).map(|of_all| shorter(own, of_all)));
            (permitted.as_ref().map_or(Bound::default(), |(at_most, _)| *at_most), permitted)
        };
        let permitted = self.progress.kin.claim(&self.progress.session, used, decide);
        let (at_most, most) = permitted.map_err(|short| short.detail)?;
        model.name().clone_into(&mut bill.model);
        (bill.attempts, bill.under_way) = (bill.attempts + 1, Some(at_most));
        self.progress.bus.live(Live::SummaryAsked { model: model.name().to_owned(), attempt });
        Ok((at_most, Request { max_output_tokens: most, ..now.request.clone() }))
    }

    fn pay_for(&self, model: &dyn Model, error: &ModelError, at_most: Bound) {
        let mut bill = lock(&self.bill);
        bill.under_way = None;
        match &error.usage {
            Some(usage) => bill.count(model, usage, true, at_most),
            None if error.kind.may_be_billed() => bill.count(model, &Usage::default(), false, at_most),
            None => {}
        }
    }

    fn tell_failure(&self, model: &dyn Model, attempt: u32, error: &str, retry_ms: Option<u64>) {
        let (model, error) = (model.name().to_owned(), error.to_owned());
        self.progress.bus.live(Live::SummaryFailed { model, attempt, error, retry_ms });
    }
}

/// The one that allows the shorter reply.
fn shorter(one: (Bound, Option<u32>), other: (Bound, Option<u32>)) -> (Bound, Option<u32>) {
    if one.0.tokens <= other.0.tokens { one } else { other }
}

/// The model's words, if they are what was asked for.
fn taken(reply: &Reply) -> Result<String, String> {
    let text = prose(&reply.parts);
    let text = compact::own_words(&text);
    let calls = reply.parts.iter().any(|part| matches!(part, Part::ToolCall(_)));
    match reply.finish {
        FinishReason::ContentFilter => Err("the provider's filter stopped it".to_owned()),
        FinishReason::Error => Err("the provider ended it with an error".to_owned()),
        _ if calls => Err("the model called tools instead".to_owned()),
        _ if text.is_empty() => Err("the model said nothing".to_owned()),
        FinishReason::Length => Ok(format!("{text}\n[The summary was cut here, at its longest.]")),
        FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Paused | FinishReason::Other => {
            Ok(text.to_owned())
        }
    }
}

/// Hears a model out, and says so where it is silent.
async fn listen(model: &dyn Model, request: Request, progress: &Progress) -> Result<Reply, ModelError> {
    let mut stream = model.stream(request);
    let mut heard = Instant::now();
    let mut silent_until = heard + SILENCE;
    loop {
        match tokio::time::timeout_at(silent_until.into(), stream.next()).await {
            Ok(Some(event)) => {
                if let ModelEvent::Done(reply) = event? {
                    return Ok(*reply);
                }
                heard = Instant::now();
                silent_until = heard + SILENCE;
            }
            Ok(None) => {
                return Err(ModelError::new(ModelErrorKind::CutStream, "the model's stream ended without an end"));
            }
            Err(_) => {
                let silent_ms = u64::try_from(heard.elapsed().as_millis()).unwrap_or(u64::MAX);
                progress.bus.live(Live::ModelSilent { step: progress.step, silent_ms });
                silent_until += SILENCE;
            }
        }
    }
}

fn lock(bill: &SharedBill) -> MutexGuard<'_, Bill> {
    bill.lock().unwrap_or_else(PoisonError::into_inner)
}
