//! `piton session cost`: what a session used and cost, step by step, and what the provider's cache did for it.

mod shares;

use crate::commands::cost::shares::Shares;
use crate::failure::Result;
use crate::out::report;
use crate::out::view::{self, MISS_WORTH_TELLING_MICROS, plural, thousands};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use piton_core::budget::Bound;
use piton_core::budget::dollars;
use piton_core::cache::{Miss, Reading};
use piton_core::call::{Delegated, Outcome};
use piton_core::event::{Event, Record, TitledBy};
use piton_core::ids::{CallId, Seq, SessionId, TimeMs};
use piton_core::message::Usage;
use piton_core::prompt::SegmentKind;
use piton_core::story::{
    self, Block, Body, CallBlock, CallStage, Change, CompactionBlock, CompactionEnd, ModelBlock, ModelState, Story,
};
use piton_engine::engine::{Engine, Handle};
use piton_engine::store::sqlite::index::Query;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Days of a folder that are listed.
const MOST_DAYS: usize = 14;

/// What a session came to.
#[derive(Debug, Default, Serialize)]
struct Bill {
    session: String,
    #[serde(flatten)]
    sum: Sum,
    turns: Vec<Turn>,
    /// What a model used to name the session, where one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<Sum>,
    /// Summaries that were made between turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    summaries: Option<Sum>,
    /// What the session may cost, as its last turn was run, where that is limited.
    #[serde(skip_serializing_if = "Allowed::is_unlimited")]
    budget: Allowed,
    models: Vec<ModelSum>,
    #[serde(flatten)]
    shares: Shares,
    cache: Cache,
    /// What the sessions of its folder cost, by the day of their last work, where that was asked for.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    folder_days_micros: BTreeMap<String, u64>,
}

/// Limits in millionths of a dollar.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
struct Allowed {
    /// Of all turns together.
    #[serde(skip_serializing_if = "Option::is_none")]
    session_micros: Option<u64>,
    /// Of one turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    turn_micros: Option<u64>,
}

/// Tokens and money of some calls.
#[derive(Debug, Default, Clone, Serialize)]
struct Sum {
    usage: Usage,
    cost_micros: Option<u64>,
    /// Calls that were or may have been billed and whose cost is not known.
    unpriced_calls: u32,
    /// What those have used at most, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    at_most: Option<Bound>,
}

#[derive(Debug, Serialize)]
struct Turn {
    turn: u32,
    #[serde(flatten)]
    sum: Sum,
    calls: Vec<Call>,
    /// What was used for calls that subagents answered.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subagents: Vec<Subagent>,
    /// What model calls used that MCP servers asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sampled: Vec<SampledCall>,
}

/// What a subagent used for one call.
#[derive(Debug, Serialize)]
struct Subagent {
    seq: Seq,
    call: CallId,
    session: SessionId,
    /// The agent and its work, in a line.
    title: String,
    #[serde(flatten)]
    sum: Sum,
}

/// A model call that an MCP server asked for.
#[derive(Debug, Serialize)]
struct SampledCall {
    seq: Seq,
    call: CallId,
    tool: String,
    model: String,
    #[serde(flatten)]
    sum: Sum,
}

/// One call of a model.
#[derive(Debug, Serialize)]
struct Call {
    seq: Seq,
    step: u32,
    attempt: u32,
    model: String,
    /// Whether it ended in a reply.
    replied: bool,
    #[serde(flatten)]
    sum: Sum,
    /// What the provider's cache did for it, where it replied.
    #[serde(skip_serializing_if = "Option::is_none")]
    cache: Option<Reading>,
}

#[derive(Debug, Serialize)]
struct ModelSum {
    model: String,
    #[serde(flatten)]
    sum: Sum,
}

/// The cache over the whole session.
#[derive(Debug, Default, Serialize)]
struct Cache {
    predicted_tokens: u64,
    reported_tokens: u64,
    misses: u32,
    /// What they cost, where the price is known.
    lost_micros: Option<u64>,
}

/// Prints what a session cost, and each of its subagents' where these are wanted, too.
pub(crate) async fn cost(engine: &Engine, id: &SessionId, tree: bool, json: bool) -> Result<()> {
    let mut of_root = bill(engine, id).await?;
    of_root.folder_days_micros = by_day(&folder_days(engine, Path::new(&engine.store().summary(id).await?.workspace)));
    of_root.print(json)?;
    for child in if tree { engine.subagents(id).await? } else { Vec::new() } {
        if !json {
            view::write_stdout(&format!("\nsubagent {child}\n"));
        }
        bill(engine, &child).await?.print(json)?;
    }
    Ok(())
}

async fn bill(engine: &Engine, id: &SessionId) -> Result<Bill> {
    let records = engine.records(id).await?;
    Ok(Bill { budget: Allowed::of(&records), ..Bill::of(id, &Story::of(&records)) })
}

/// What a session came to, as the command prints it, without its folder's days.
pub(crate) fn table(id: &SessionId, story: &Story) -> String {
    Bill::of(id, story).words()
}

/// When each session of a folder was worked on last, and what it cost.
pub(crate) fn folder_days(engine: &Engine, folder: &Path) -> Vec<(TimeMs, u64)> {
    let query = Query { project: Some(folder.to_owned()), ..Query::default() };
    let found = engine.index().and_then(|index| index.select(&query)).unwrap_or_default();
    found.iter().map(|session| (session.updated_ms, session.cost_micros.unwrap_or(0))).collect()
}

/// The same by day, without days on which nothing is known to have been paid.
pub(crate) fn by_day(days: &[(TimeMs, u64)]) -> BTreeMap<String, u64> {
    let mut by_day: BTreeMap<String, u64> = BTreeMap::new();
    for (at_ms, micros) in days.iter().filter(|(_, micros)| *micros > 0) {
        let at = i64::try_from(*at_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok()).unwrap_or_default();
        *by_day.entry(at.to_zoned(TimeZone::system()).date().to_string()).or_default() += micros;
    }
    by_day
}

/// A line about what missing the cache cost since this position, if it is worth one.
pub(crate) async fn miss_line(session: &Handle, from: Seq) -> Option<String> {
    let (mut story, mut caching, mut missed) = (Story::default(), Caching::default(), Vec::new());
    let visit = &mut |record: &mut Record| {
        for change in story.record(record) {
            let Change::Put(block) = change else { continue };
            let reading = caching.reading(&block);
            missed.extend(reading.filter(|reading| reading.seq >= from && reading.miss.is_some()));
        }
        story.forget();
    };
    session.store().each(session.id(), visit).await.ok()?;
    let lost: u64 = missed.iter().filter_map(|reading| reading.lost_micros).sum();
    let worst = missed.iter().max_by_key(|reading| reading.lost_micros)?;
    let why = worst.miss.as_ref().map(why)?;
    let more =
        if missed.len() > 1 { format!(" and {} more", plural(missed.len() as u64 - 1, "step")) } else { String::new() };
    (lost >= MISS_WORTH_TELLING_MICROS).then(|| {
        format!("The provider's cache was missed, which cost ${}: in step {}{more}, {why}", dollars(lost), worst.step)
    })
}

/// Providers that have reported reads or writes of a cache. Whether another has one nobody knows, so that there is nothing
/// to miss.
#[derive(Default)]
struct Caching(BTreeSet<String>);

impl Caching {
    /// What the cache did for the request of this block, as it is told of.
    fn reading(&mut self, block: &Block) -> Option<Reading> {
        let (reading, usage) = match &block.body {
            Body::Model(model) => (model.cache.clone()?, model.usage),
            Body::Compaction(compaction) => {
                (compaction.cache.clone()?, compaction.asked.as_ref().map(|asked| asked.usage)?)
            }
            _ => return None,
        };
        let provider = reading.model.split('/').next().unwrap_or_default().to_owned();
        if usage.cache_read_tokens > 0 || usage.cache_write_tokens > 0 {
            self.0.insert(provider.clone());
        }
        let is_told = self.0.contains(&provider);
        Some(if is_told { reading } else { Reading { lost_micros: None, miss: None, ..reading } })
    }
}

impl Allowed {
    /// As the last turn was run.
    fn of(records: &[Record]) -> Self {
        let budget = |record: &Record| match &record.event {
            // What a command asks of its turn alone is not how the session is run.
            Event::TurnStarted { policy, this_turn_only: false, .. } => {
                Some(Self { session_micros: policy.budget.session_cost_micros, turn_micros: policy.budget.cost_micros })
            }
            _ => None,
        };
        records.iter().rev().find_map(budget).unwrap_or_default()
    }

    fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }

    /// A line for each: what was spent of it.
    fn words(&self, session: &Sum, turn: Option<&Sum>) -> String {
        let line = |of: &str, sum: Option<&Sum>, most: Option<u64>| {
            let most = most.filter(|most| *most > 0)?;
            let spent = sum.and_then(|sum| sum.cost_micros).unwrap_or(0);
            let percent = u128::from(spent) * 100 / u128::from(most);
            Some(format!("budget   ${} of ${} {of} ({percent} %)\n", dollars(spent), dollars(most)))
        };
        let lines = [
            line("for the session", Some(session), self.session_micros),
            line("for each turn, in the last", turn, self.turn_micros),
        ];
        lines.into_iter().flatten().collect()
    }
}

impl Bill {
    fn of(id: &SessionId, story: &Story) -> Self {
        let mut bill = Self { session: id.to_string(), ..Self::default() };
        let mut caching = Caching::default();
        for block in story.blocks() {
            let cache = caching.reading(block);
            match &block.body {
                Body::Turn { turn, .. } => {
                    bill.turns.push(Turn {
                        turn: *turn,
                        sum: Sum::default(),
                        calls: Vec::new(),
                        subagents: Vec::new(),
                        sampled: Vec::new(),
                    });
                }
                Body::Model(model) => bill.add_reply(block.seq, model, cache),
                Body::Call(call) => {
                    call.sampled.iter().for_each(|sampled| bill.add_sampled(call, sampled));
                    if let CallStage::Settled(outcome) = &call.stage {
                        bill.add_subagent(block.changed_seq, (&call.call, &call.about), outcome);
                    }
                }
                Body::TaskEnd { task, outcome } => bill.add_subagent(block.changed_seq, (task, ""), outcome),
                Body::Compaction(compaction) => bill.add_summary(block.changed_seq, compaction, cache),
                Body::Title { by: TitledBy::Model { model, usage, cost_micros, at_most }, .. } => {
                    let mut sum = Sum::of(usage, *cost_micros, *at_most);
                    // It has replied, whether or not it was counted.
                    sum.unpriced_calls = u32::from(cost_micros.is_none());
                    bill.count(model, &sum);
                    bill.title.get_or_insert_default().add(&sum);
                }
                _ => {}
            }
        }
        bill.shares = Shares::of(story);
        bill
    }

    fn print(&self, json: bool) -> Result<()> {
        let text = if json { format!("{}\n", serde_json::to_string(self)?) } else { self.words() + &self.days() };
        view::write_stdout(&text);
        Ok(())
    }

    /// The newest days of its folder.
    fn days(&self) -> String {
        let line = |(day, micros): (&String, &u64)| format!("  {day}  ${}\n", dollars(*micros));
        let days: String = self.folder_days_micros.iter().rev().take(MOST_DAYS).map(line).collect();
        if days.is_empty() { days } else { format!("sessions of this folder, by the day of their last work\n{days}") }
    }

    fn add_reply(&mut self, seq: Seq, model: &ModelBlock, cache: Option<Reading>) {
        let replied = match &model.state {
            ModelState::Asked => return,
            // Nothing of it may be billed.
            ModelState::Cut if model.at_most.is_none() => return,
            ModelState::Replied { .. } => true,
            ModelState::Failed { .. } | ModelState::Cut => false,
        };
        let sum = Sum::of(&model.usage, model.cost_micros, model.at_most);
        let (step, attempt, model) = (model.step, model.attempt, model.model.clone());
        self.add(Call { seq, step, attempt, model, replied, sum, cache });
    }

    fn add_summary(&mut self, seq: Seq, compaction: &CompactionBlock, cache: Option<Reading>) {
        for lost in compaction.lost.iter().filter(|_| !compaction.between_turns) {
            let sum = Sum::of(&Usage::default(), None, Some(lost.at_most));
            let (seq, model) = (lost.seq, lost.model.clone());
            self.add(Call { seq, step: 0, attempt: 1, model, replied: false, sum, cache: None });
        }
        let Some(asked) = &compaction.asked else { return };
        let sum = Sum::of(&asked.usage, asked.cost_micros, asked.at_most);
        if compaction.between_turns {
            self.count(&asked.model, &sum);
            self.summaries.get_or_insert_default().add(&sum);
        } else {
            let replied = matches!(compaction.end, Some(CompactionEnd::Summary { .. }));
            let (attempt, model) = (asked.attempts, asked.model.clone());
            self.add(Call { seq, step: 0, attempt, model, replied, sum, cache });
        }
    }

    fn add_subagent(&mut self, seq: Seq, (call, about): (&CallId, &str), outcome: &Outcome) {
        let Outcome { delegated: Some(delegated), title, .. } = outcome else { return };
        let Delegated { session, usage, cost_micros, unpriced_calls, steps: _, at_most: _ } =
            Delegated::clone(delegated);
        let sum = Sum { usage, cost_micros, unpriced_calls, at_most: None };
        self.sum.add(&sum);
        if let Some(turn) = self.turns.last_mut() {
            turn.sum.add(&sum);
            let title = if title.is_empty() { about.to_owned() } else { title.clone() };
            turn.subagents.push(Subagent { seq, call: call.clone(), session, title, sum });
        }
    }

    fn add_sampled(&mut self, of: &CallBlock, &story::SampledCall { seq, ref sampled, .. }: &story::SampledCall) {
        let sum = Sum::of(&sampled.usage, sampled.cost_micros, sampled.at_most);
        self.count(&sampled.model, &sum);
        if let Some(turn) = self.turns.last_mut() {
            turn.sum.add(&sum);
            let (call, tool, model) = (of.call.clone(), of.tool.clone(), sampled.model.clone());
            turn.sampled.push(SampledCall { seq, call, tool, model, sum });
        }
    }

    fn count(&mut self, model: &str, sum: &Sum) {
        self.sum.add(sum);
        match self.models.iter_mut().find(|known| known.model == model) {
            Some(known) => known.sum.add(sum),
            None => self.models.push(ModelSum { model: model.to_owned(), sum: sum.clone() }),
        }
    }

    fn add(&mut self, call: Call) {
        self.count(&call.model, &call.sum);
        if let Some(reading) = &call.cache {
            self.cache.add(reading);
        }
        if let Some(turn) = self.turns.last_mut() {
            turn.sum.add(&call.sum);
            turn.calls.push(call);
        }
    }

    fn words(&self) -> String {
        let mut text = String::new();
        for turn in &self.turns {
            text.push_str(&format!("turn {:<3} {}\n", turn.turn, turn.sum.words()));
            turn.calls.iter().for_each(|call| text.push_str(&call.words()));
            for SampledCall { tool, model, sum, .. } in &turn.sampled {
                text.push_str(&format!("  {} asked {}  {}\n", view::clean(tool), view::clean(model), sum.words()));
            }
            for Subagent { session, title, sum, .. } in &turn.subagents {
                text.push_str(&format!("  {}  {}\n    {session}\n", view::clean(title), sum.words()));
            }
        }
        if let Some(title) = &self.title {
            text.push_str(&format!("title    {}\n", title.words()));
        }
        if let Some(summaries) = &self.summaries {
            text.push_str(&format!("summary  {}\n", summaries.words()));
        }
        if self.models.len() > 1 {
            for model in &self.models {
                text.push_str(&format!("{}  {}\n", view::clean(&model.model), model.sum.words()));
            }
        }
        text.push_str(&self.shares.words());
        text.push_str(&format!("session  {}\n", self.sum.words()));
        text.push_str(&self.budget.words(&self.sum, self.turns.last().map(|turn| &turn.sum)));
        text.push_str(&self.cache.words());
        text
    }
}

impl Sum {
    fn of(usage: &Usage, cost_micros: Option<u64>, at_most: Option<Bound>) -> Self {
        let is_open = cost_micros.is_none() && (usage.total() > 0 || at_most.is_some());
        Self { usage: *usage, cost_micros, unpriced_calls: u32::from(is_open), at_most }
    }

    fn add(&mut self, other: &Self) {
        self.usage.add(&other.usage);
        if let Some(cost) = other.cost_micros {
            *self.cost_micros.get_or_insert(0) += cost;
        }
        self.unpriced_calls += other.unpriced_calls;
        if let Some(most) = &other.at_most {
            self.at_most.get_or_insert_default().add(most);
        }
    }

    fn words(&self) -> String {
        let Usage { cache_read_tokens, cache_write_tokens, .. } = self.usage;
        let mut parts = Vec::new();
        if cache_read_tokens > 0 {
            parts.push(format!("{} cached", thousands(cache_read_tokens)));
        }
        if cache_write_tokens > 0 {
            parts.push(format!("{} written to the cache", thousands(cache_write_tokens)));
        }
        let of_these = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
        let cost = report::cost(self.cost_micros, self.unpriced_calls);
        let open = self.at_most.as_ref().map(|most| {
            let money = most.cost_micros.map(|cost| format!(", ${}", dollars(cost))).unwrap_or_default();
            format!("; unknown, at most {} tokens{money}", thousands(most.tokens))
        });
        let is_untold = self.at_most.is_some() || self.unpriced_calls > 0;
        let tokens = report::tokens(&self.usage, &of_these, is_untold);
        format!("{tokens} · {cost}{}", open.unwrap_or_default())
    }
}

impl Call {
    fn words(&self) -> String {
        let attempt = if self.attempt > 1 { format!(", attempt {}", self.attempt) } else { String::new() };
        let failed = if self.replied { "" } else { " failed" };
        // An attempt that nobody can be billed for is not worth a sum.
        let is_nothing = self.sum.usage.total() == 0 && self.sum.unpriced_calls == 0 && !self.replied;
        let sum = if is_nothing { String::new() } else { format!("  {}", self.sum.words()) };
        let what = if self.step == 0 { "summary".to_owned() } else { format!("step {}", self.step) };
        let mut text = format!("  {what}{attempt}{failed}{sum}\n");
        if let Some(reading) = &self.cache
            && let Some(miss) = &reading.miss
        {
            let cost = reading.lost_micros.filter(|lost| *lost > 0).map(|lost| format!(" (${})", dollars(lost)));
            text.push_str(&format!(
                "    cache: {} of {} tokens read again{}: {}\n",
                thousands(reading.reported_tokens),
                thousands(reading.predicted_tokens),
                cost.unwrap_or_default(),
                why(miss)
            ));
        }
        text
    }
}

impl Cache {
    fn add(&mut self, reading: &Reading) {
        self.predicted_tokens += reading.predicted_tokens;
        self.reported_tokens += reading.reported_tokens;
        if reading.miss.is_some() {
            self.misses += 1;
            if let Some(lost) = reading.lost_micros {
                *self.lost_micros.get_or_insert(0) += lost;
            }
        }
    }

    fn words(&self) -> String {
        match (self.predicted_tokens, self.reported_tokens) {
            (0, 0) => String::new(),
            (_, 0) => "cache    the provider reported no cache reads\n".to_owned(),
            (predicted, reported) => {
                let lost = self.lost_micros.map(|lost| format!(", which cost ${}", dollars(lost))).unwrap_or_default();
                let misses = match self.misses {
                    0 => "no misses".to_owned(),
                    1 => format!("1 miss{lost}"),
                    many => format!("{many} misses{lost}"),
                };
                let (reported, predicted) = (thousands(reported), thousands(predicted));
                format!("cache    {reported} tokens read, {predicted} predicted; {misses}\n")
            }
        }
    }
}

/// Why the cache was missed, in words.
pub(crate) fn why(miss: &Miss) -> String {
    match miss {
        Miss::ModelChanged => "another model was asked".to_owned(),
        Miss::AgentChanged => {
            "the agent or mode changed the system prompt or the tools, so nothing was in the cache".to_owned()
        }
        Miss::Rewound => "turns were undone or redone".to_owned(),
        Miss::Compacted => "older messages had been replaced by a summary".to_owned(),
        Miss::PrefixChanged { kind: SegmentKind::Frame, .. } => "the system prompt or the tools changed".to_owned(),
        Miss::PrefixChanged { segment, kind } => {
            let whose = match kind {
                SegmentKind::User | SegmentKind::Frame => "the user's",
                SegmentKind::Assistant => "the model's",
                SegmentKind::Tool => "a tool's",
            };
            format!("message {segment}, {whose}, changed")
        }
        Miss::CallsForbidden => {
            "the last step forbids calls, and the provider caches such requests separately".to_owned()
        }
        Miss::NotKept { idle_ms } => {
            format!("the provider no longer had the previous request, {} s old", idle_ms / 1000)
        }
    }
}
