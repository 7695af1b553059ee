//! `/context`, `/cache` and `/cost` as pictures of characters: what stands in the model's context now, what the provider's cache did
//! for each step, and what was spent. Each kind has a sign of its own, so that no colour has to be seen.

use crate::commands::cost::why;
use crate::out::view;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use piton_core::message::{Part, Role};
use piton_core::story::{Body, ModelState, Story};
use piton_core::tokens::Family;
use piton_core::turn::State;
use std::collections::BTreeMap;

/// The grid of the context: so many rows of so many cells.
const ROWS: u64 = 10;
const CELLS: u64 = 20;
/// Columns of a bar.
const BAR: u64 = 50;
/// Calls that are named for what they take.
const DEAREST: usize = 10;

/// What a piece of the context is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Frame,
    Told,
    Yours,
    Models,
    Calls,
    Results,
    Pictures,
}

impl Kind {
    const ALL: [(Self, char, &'static str); 7] = [
        (Self::Frame, '▣', "system prompt and tools"),
        (Self::Told, '◈', "instructions, notes, summaries"),
        (Self::Yours, '■', "your words"),
        (Self::Models, '▤', "the model's words and thoughts"),
        (Self::Calls, '▥', "calls"),
        (Self::Results, '▦', "results of calls"),
        (Self::Pictures, '◪', "pictures"),
    ];
}

fn kind_of(role: Role, part: &Part) -> Kind {
    match part {
        Part::Image { .. } => Kind::Pictures,
        Part::ToolCall(_) => Kind::Calls,
        Part::ToolResult { .. } => Kind::Results,
        Part::Note { .. } => Kind::Told,
        Part::Text { .. } | Part::Reasoning { .. } if role == Role::Assistant => Kind::Models,
        Part::Text { .. } | Part::Reasoning { .. } => Kind::Yours,
    }
}

/// What the context holds now, of a window so large.
pub(super) fn context(session: &State, model: &str, window: Option<u64>) -> String {
    let family = Family::of(model);
    let mut sums: BTreeMap<Kind, u64> = BTreeMap::new();
    let mut dearest: Vec<(u64, String)> = Vec::new();
    sums.insert(Kind::Frame, session.policy().compaction.rules.frame_tokens);
    for message in session.transcript() {
        for part in &message.parts {
            let tokens = family.estimate_part(part);
            *sums.entry(kind_of(message.role, part)).or_default() += tokens;
            if let Part::ToolResult { tool, outcome, call } = part {
                let title = if outcome.title.is_empty() { tool } else { &outcome.title };
                let pruned = if session.context().is_pruned(call) { " (cleared)" } else { "" };
                dearest.push((tokens, format!("{}{pruned}", view::first_line(title))));
            }
        }
    }
    let estimated: u64 = sums.values().sum();
    // The provider's count is the one that holds; an estimate of the parts is brought to it.
    let used = session.context().used_tokens().max(1);
    let scaled = |tokens: u64| tokens * used / estimated.max(1);
    let full_at = session.context().full_at_tokens();
    let known = window.or(full_at);
    let window = known.unwrap_or(used).max(used);
    let kept_free = full_at.map_or(0, |full| window.saturating_sub(full.max(used)));
    let free = window.saturating_sub(used + kept_free);

    let mut cells = String::new();
    let per_cell = |tokens: u64| (tokens * ROWS * CELLS).div_ceil(window);
    for (kind, sign, _) in Kind::ALL {
        let many = per_cell(scaled(sums.get(&kind).copied().unwrap_or(0)));
        cells.extend(std::iter::repeat_n(sign, usize::try_from(many).unwrap_or(0)));
    }
    let most = usize::try_from(ROWS * CELLS).unwrap_or(200);
    let reserved = usize::try_from(kept_free * ROWS * CELLS / window).unwrap_or(0);
    let cells: Vec<char> = cells.chars().chain(std::iter::repeat('·')).take(most - reserved.min(most)).collect();
    let cells: Vec<char> = cells.into_iter().chain(std::iter::repeat('×')).take(most).collect();

    let percent = used * 100 / window;
    let mut text = match known {
        Some(_) => format!("{} of {} tokens, {percent} %\n\n", view::thousands(used), view::thousands(window)),
        None => format!("{} tokens; this model's context window is unknown\n\n", view::thousands(used)),
    };
    for row in cells.chunks(usize::try_from(CELLS).unwrap_or(20)) {
        text.push_str("  ");
        row.iter().for_each(|cell| text.extend([*cell, ' ']));
        text.push('\n');
    }
    text.push('\n');
    let row = |sign: char, name: &str, tokens: u64| {
        format!("  {sign} {name:<32}{:>10}  {:>3} %\n", view::thousands(tokens), tokens * 100 / window)
    };
    for (kind, sign, name) in Kind::ALL {
        if let Some(tokens) = sums.get(&kind).copied().filter(|tokens| *tokens > 0) {
            text.push_str(&row(sign, name, scaled(tokens)));
        }
    }
    text.push_str(&row('·', "free", free));
    if kept_free > 0 {
        text.push_str(&row('×', "kept free: compacted before that", kept_free));
    }
    dearest.sort_by_key(|(tokens, _)| std::cmp::Reverse(*tokens));
    if !dearest.is_empty() {
        text.push_str("\nWhat takes most of it:\n");
    }
    for (tokens, title) in dearest.iter().take(DEAREST) {
        text.push_str(&format!("  {:>10}  {title}\n", view::thousands(scaled(*tokens))));
    }
    text.push_str("\n/compact frees space. `piton context` shows the initial context.\n");
    text
}

/// A bar whose parts are as long as their share of `whole`.
fn bar(parts: &[(char, u64)], whole: u64) -> String {
    let columns = |tokens: u64| (tokens * BAR).div_ceil(whole.max(1)).min(BAR);
    parts.iter().map(|(sign, tokens)| sign.to_string().repeat(usize::try_from(columns(*tokens)).unwrap_or(0))).collect()
}

/// What the provider's cache did for each request, a bar each; a mark and its reason where it was missed.
pub(super) fn cache(story: &Story) -> String {
    let replies = || {
        story.blocks().filter_map(|block| match &block.body {
            Body::Model(model) if matches!(model.state, ModelState::Replied { .. }) => Some((block.turn, model)),
            _ => None,
        })
    };
    let longest = replies().map(|(_, model)| model.usage.total()).max().unwrap_or(0);
    if longest == 0 {
        return "No request was counted yet.\n".to_owned();
    }
    let mut text = "█ read from the cache   ▓ written to it   ▒ neither   ░ the reply\n".to_owned();
    let mut of_turn = 0;
    for (turn, model) in replies() {
        if turn != of_turn {
            text.push_str(&format!("\nturn {turn}\n"));
            of_turn = turn;
        }
        let usage = &model.usage;
        let fresh = usage.input_tokens.saturating_sub(usage.cache_read_tokens + usage.cache_write_tokens);
        let parts =
            [('█', usage.cache_read_tokens), ('▓', usage.cache_write_tokens), ('▒', fresh), ('░', usage.output_tokens)];
        let percent = usage.cache_read_tokens * 100 / usage.input_tokens.max(1);
        let (step, bar) = (model.step, bar(&parts, longest));
        text.push_str(&format!("  step {step:<4} {percent:>3} %  {bar}  {}\n", view::thousands(usage.total())));
        if let Some((reading, miss)) = model.cache.as_ref().and_then(|reading| Some((reading, reading.miss.as_ref()?)))
        {
            let lost = reading.lost_micros.filter(|lost| *lost > 0);
            let lost = lost.map(|lost| format!(", ${:.4}", lost as f64 / 1e6)).unwrap_or_default();
            text.push_str(&format!("    ▲ missed{lost}: {}\n", why(miss)));
        }
    }
    text
}

/// What was spent in each turn, a bar each, by whom, and how far that is to the limit; then of this folder, by day.
pub(super) fn cost(story: &Story, budget_micros: Option<u64>, days: &[(u64, u64)]) -> String {
    let (mut turns, mut models) = (BTreeMap::<u32, u64>::new(), BTreeMap::<&str, u64>::new());
    let mut words: BTreeMap<u32, String> = BTreeMap::new();
    let mut last = 0;
    for block in story.blocks() {
        match &block.body {
            Body::User { text, .. } => drop(words.entry(last + 1).or_insert_with(|| view::first_line(text))),
            Body::Turn { turn, .. } => last = *turn,
            Body::Model(model) => {
                let cost = model.cost_micros.unwrap_or(0);
                *turns.entry(block.turn).or_default() += cost;
                *models.entry(&model.model).or_default() += cost;
            }
            _ => {}
        }
    }
    let total = story.session().cost_micros.unwrap_or(0);
    if total == 0 && days.iter().all(|(_, cost)| *cost == 0) {
        return "Nothing was paid for, or no price is known. The tokens are below.\n\n".to_owned();
    }
    let dollars = |micros: u64| format!("${:.4}", micros as f64 / 1e6);
    let line = |name: &str, micros: u64, most: u64, words: &str| {
        format!("  {name:<12} {:>10}  {:<50}  {words}\n", dollars(micros), bar(&[('█', micros)], most))
    };
    let mut text = format!("This session: {}\n", dollars(total));
    if let Some(budget) = budget_micros.filter(|budget| *budget > 0) {
        let percent = total * 100 / budget;
        text.push_str(&format!(
            "  of {} ({percent} %)  {}\n",
            dollars(budget),
            bar(&[('█', total.min(budget))], budget)
        ));
    }
    text.push('\n');
    let most = turns.values().copied().max().unwrap_or(0);
    for (turn, micros) in &turns {
        let said: String = words.get(turn).map(|words| words.chars().take(40).collect()).unwrap_or_default();
        text.push_str(&line(&format!("turn {turn}"), *micros, most, &said));
    }
    if models.len() > 1 {
        text.push('\n');
        let most = models.values().copied().max().unwrap_or(0);
        models.iter().for_each(|(model, micros)| text.push_str(&line("", *micros, most, &view::clean(model))));
    }
    if !days.is_empty() {
        text.push_str("\nSessions of this folder, by the day of their last work:\n");
        let mut by_day: BTreeMap<String, u64> = BTreeMap::new();
        for (at_ms, micros) in days {
            *by_day.entry(day_of(*at_ms)).or_default() += micros;
        }
        let most = by_day.values().copied().max().unwrap_or(0);
        for (day, micros) in by_day.iter().rev().take(14) {
            text.push_str(&line(day, *micros, most, ""));
        }
    }
    text.push('\n');
    text
}

fn day_of(at_ms: u64) -> String {
    let at = i64::try_from(at_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok()).unwrap_or_default();
    at.to_zoned(TimeZone::system()).date().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use piton_core::event::{Delivery, Event, Record, StepKind};
    use piton_core::message::{FinishReason, Usage};
    use piton_core::model::Reply;
    use piton_core::policy::Policy;

    fn records(events: Vec<Event>) -> Vec<Record> {
        (1..).zip(events).map(|(seq, event)| Record { seq, at_ms: seq * 1_000, event }).collect()
    }

    fn session() -> Vec<Record> {
        let started = Event::SessionStarted {
            session: "ses_1".into(),
            workspace: "/w".into(),
            version: "0".into(),
            parent: None,
        };
        let said = Event::UserSpoke {
            message: "m".into(),
            parts: vec![Part::text("fix the test ".repeat(20))],
            delivery: Delivery::Steer,
            typed: None,
            allows: Vec::new(),
            for_turn: None,
            subtask: None,
        };
        let (model, policy) = ("fake/model".to_owned(), Box::new(Policy::piton()));
        let turn = Event::TurnStarted {
            turn: 1,
            model,
            fallbacks: vec![],
            policy,
            compact_at_tokens: Some(8_000),
            this_turn_only: false,
        };
        let mut events = vec![started, said, turn];
        for (step, read) in [(1, 0), (2, 900)] {
            events.push(Event::StepStarted { step, kind: StepKind::Ordinary, note: None });
            let usage = Usage {
                input_tokens: 1_000,
                output_tokens: 500,
                cache_read_tokens: read,
                cache_write_tokens: 100,
                ..Usage::default()
            };
            let reply = Reply { usage, ..Reply::new(vec![Part::text("It is fixed. ".repeat(20))], FinishReason::Stop) };
            let mut replied = Event::replied(step, reply);
            if let Event::MessageFinished { cost_micros, .. } = &mut replied {
                *cost_micros = Some(u64::from(step) * 10_000);
            }
            events.push(replied);
            events.push(Event::StepFinished { step });
        }
        records(events)
    }

    #[test]
    fn the_grid_has_two_hundred_cells_and_each_kind_its_share() {
        let session = State::fold(&session());
        let text = context(&session, "fake/model", Some(10_000));
        let cells: String = text.lines().skip(2).take(10).collect();
        let count = |sign: char| cells.matches(sign).count();
        assert_eq!(cells.chars().filter(|char| !char.is_whitespace()).count(), 200, "{text}");
        assert_eq!(count('×'), 40, "a fifth is kept free: {text}");
        assert!(count('■') > 0 && count('▤') > 0 && count('·') > 100, "{text}");
        assert!(text.contains("your words") && text.contains("kept free"), "{text}");
    }

    #[test]
    fn the_cache_is_drawn_step_by_step() {
        expect![[r#"
            █ read from the cache   ▓ written to it   ▒ neither   ░ the reply

            turn 1
              step 1      0 %  ▓▓▓▓▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒░░░░░░░░░░░░░░░░░  1,500
              step 2     90 %  ██████████████████████████████▓▓▓▓░░░░░░░░░░░░░░░░░  1,500
        "#]]
        .assert_eq(&cache(&Story::of(&session())));
        assert!(cache(&Story::default()).contains("No request"));
    }

    #[test]
    fn the_cost_has_a_bar_a_turn_and_the_budgets_line() {
        let text = cost(&Story::of(&session()), Some(60_000), &[(1_000, 5_000), (2_000, 5_000)]);
        assert!(text.contains("This session: $0.0300") && text.contains("of $0.0600 (50 %)"), "{text}");
        assert!(text.contains("turn 1") && text.contains("$0.0100  █"), "both sessions of that day: {text}");
        assert_ne!(text, cache(&Story::of(&session())));
    }
}
