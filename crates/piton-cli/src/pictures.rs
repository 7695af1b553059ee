//! `/context`, `/cache`, `/cost` and `/trace` as pictures of characters, and the same as tables and as JSON: what stands in the
//! model's context now, what the provider's cache did for each step, what was spent, and what happened when. Each kind has a sign of its own, so
//! that no colour has to be seen.

mod context;
mod trace;

pub(crate) use context::{ContextTable, FrameSizes};
pub(crate) use trace::lanes;

use crate::commands::cost::{by_day, why};
use crate::out::view;
use piton_core::story::{Body, ModelState, Story};
use std::collections::BTreeMap;

/// Columns of a bar.
const BAR: u64 = 50;

/// Whether it is drawn, or only said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    Drawn,
    Plain,
}

/// A bar whose parts are as long as their share of `whole`.
fn bar(parts: &[(char, u64)], whole: u64) -> String {
    let columns = |tokens: u64| (tokens * BAR).div_ceil(whole.max(1)).min(BAR);
    parts.iter().map(|(sign, tokens)| sign.to_string().repeat(usize::try_from(columns(*tokens)).unwrap_or(0))).collect()
}

/// What the provider's cache did for each request, a bar each; a mark and its reason where it was missed.
pub(crate) fn cache(story: &Story, look: Look) -> String {
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
    let mut text = match look {
        Look::Drawn => "█ read from the cache   ▓ written to it   ▒ neither   ░ the reply\n".to_owned(),
        Look::Plain => {
            format!("  {:<10}{:>6}{:>12}{:>12}{:>12}{:>12}\n", "", "", "read", "written", "neither", "reply")
        }
    };
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
        let step = model.step;
        text.push_str(&match look {
            Look::Drawn => {
                let bar = bar(&parts, longest);
                format!("  step {step:<4} {percent:>3} %  {bar}  {}\n", view::thousands(usage.total()))
            }
            Look::Plain => {
                let numbers: String = parts.iter().map(|(_, many)| format!("{:>12}", view::thousands(*many))).collect();
                format!("  step {step:<5}{percent:>4} %{numbers}\n")
            }
        });
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
pub(crate) fn cost(story: &Story, budget_micros: Option<u64>, days: &[(u64, u64)]) -> String {
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
    if days.iter().any(|(_, micros)| *micros > 0) {
        text.push_str("\nSessions of this folder, by the day of their last work:\n");
        let by_day = by_day(days);
        let most = by_day.values().copied().max().unwrap_or(0);
        for (day, micros) in by_day.iter().rev().take(14) {
            text.push_str(&line(day, *micros, most, ""));
        }
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use piton_core::event::{Delivery, Event, Record, StepKind};
    use piton_core::message::{FinishReason, Part, Usage};
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
        let table = ContextTable::of(&session(), "fake/model", Some(10_000), None);
        let text = table.words(Look::Drawn);
        let cells: String = text.lines().skip(2).take(10).collect();
        let count = |sign: char| cells.matches(sign).count();
        assert_eq!(cells.chars().filter(|char| !char.is_whitespace()).count(), 200, "{text}");
        assert_eq!(count('×'), 40, "a fifth is kept free: {text}");
        assert!(count('■') > 0 && count('▤') > 0 && count('·') > 100, "{text}");
        assert!(text.contains("your words") && text.contains("kept free"), "{text}");
        let plain = table.words(Look::Plain);
        assert!(plain.contains("your words") && !plain.contains(['■', '·', '×']), "{plain}");
        let json = table.json();
        let all = json["categories"].as_array().unwrap();
        let of = |kind: &str| {
            all.iter().filter(|one| one["kind"] == kind).map(|one| one["tokens"].as_u64().unwrap()).sum::<u64>()
        };
        // What is rounded down is at most a token for each kind.
        assert!((10_000 - 12..=10_000).contains(&(of("used") + of("free") + of("reserved"))), "{json}");
        assert_eq!(of("reserved"), 2_000, "{json}");
    }

    #[test]
    fn what_stands_before_the_messages_is_told_apart_where_the_settings_are_known() {
        use piton_engine::engine::Settings;
        use std::sync::Arc;
        let model = piton_models::model::Nobody { name: "fake/model".to_owned() };
        let settings = Settings::new(Arc::new(model));
        let table = ContextTable::of(&session(), "fake/model", Some(10_000), Some(FrameSizes::of(&settings)));
        let text = table.words(Look::Drawn);
        for row in ["▣ system prompt ", "◧ tools "] {
            assert!(text.contains(row), "{row}: {text}");
        }
        assert!(!text.contains("system prompt, tools"), "{text}");
    }

    #[test]
    fn the_cache_is_drawn_step_by_step() {
        expect![[r#"
            █ read from the cache   ▓ written to it   ▒ neither   ░ the reply

            turn 1
              step 1      0 %  ▓▓▓▓▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒░░░░░░░░░░░░░░░░░  1,500
              step 2     90 %  ██████████████████████████████▓▓▓▓░░░░░░░░░░░░░░░░░  1,500
        "#]]
        .assert_eq(&cache(&Story::of(&session()), Look::Drawn));
        assert!(cache(&Story::default(), Look::Drawn).contains("No request"));
    }

    #[test]
    fn the_cost_has_a_bar_a_turn_and_the_budgets_line() {
        let text = cost(&Story::of(&session()), Some(60_000), &[(1_000, 5_000), (2_000, 5_000)]);
        assert!(text.contains("This session: $0.0300") && text.contains("of $0.0600 (50 %)"), "{text}");
        assert!(text.contains("turn 1") && text.contains("$0.0100  █"), "both sessions of that day: {text}");
        assert_ne!(text, cache(&Story::of(&session()), Look::Drawn));
    }
}
