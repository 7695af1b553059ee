//! What stands in the model's context: by kind, with what is kept out of it and what is kept free.

use super::Look;
use crate::out::view;
use piton_core::call::ToolSpec;
use piton_core::event::{Event, GivenKind, Record};
use piton_core::message::{Part, Role};
use piton_core::server_tool;
use piton_core::skill;
use piton_core::tokens::Family;
use piton_core::turn::State;
use piton_engine::engine::Settings;
use piton_tools::subagent;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The grid: so many rows of so many cells.
const ROWS: u64 = 10;
const CELLS: u64 = 20;
/// Calls that are named for what they take.
const DEAREST: usize = 10;

/// What a piece of the context is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    System,
    Tools,
    Servers,
    Skills,
    Agents,
    Instructions,
    Told,
    Yours,
    Models,
    Calls,
    Results,
    Pictures,
}

impl Kind {
    /// Its sign, its word in JSON, and what people call it.
    const ALL: [(Self, char, &'static str, &'static str); 12] = [
        (Self::System, '▣', "system", "system prompt"),
        (Self::Tools, '◧', "tools", "tools"),
        (Self::Servers, '◨', "servers", "servers: loaded tools"),
        (Self::Skills, '◩', "skills", "skills"),
        (Self::Agents, '◫', "agents", "agents"),
        (Self::Instructions, '◆', "instructions", "instructions"),
        (Self::Told, '◈', "notes", "notes, summaries"),
        (Self::Yours, '■', "user", "your words"),
        (Self::Models, '▤', "assistant", "the model's words"),
        (Self::Calls, '▥', "calls", "calls"),
        (Self::Results, '▦', "results", "results of calls"),
        (Self::Pictures, '◪', "pictures", "pictures"),
    ];
}

fn kind_of(role: Role, part: &Part) -> Kind {
    match part {
        Part::Image { .. } => Kind::Pictures,
        Part::ToolCall(_) => Kind::Calls,
        Part::ToolResult { tool, .. } if tool == skill::TOOL => Kind::Skills,
        Part::ToolResult { .. } => Kind::Results,
        Part::Note { .. } => Kind::Told,
        Part::Text { .. } | Part::Reasoning { .. } if role == Role::Assistant => Kind::Models,
        Part::Text { .. } | Part::Reasoning { .. } => Kind::Yours,
    }
}

/// What stands in every request before the messages, in tokens by estimate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FrameSizes {
    system: u64,
    tools: u64,
    servers: u64,
    skills: u64,
    agents: u64,
    /// Tools of servers that the model finds by a search: they are not in the request.
    deferred: u64,
}

impl FrameSizes {
    /// Of a session with these settings.
    pub(crate) fn of(settings: &Settings) -> Self {
        let family = Family::of(settings.model.name());
        let size = |name: &str, description: &str, schema: &Value| {
            family.estimate(&json!({"name": name, "description": description, "parameters": schema}).to_string())
        };
        let mut sizes = Self { system: family.estimate(&settings.system), ..Self::default() };
        let offered = settings.offered();
        for ToolSpec { name, description, schema, .. } in offered.iter() {
            *sizes.of_tool(name) += size(name, description, schema);
        }
        let servers = settings.tools.servers().map(|servers| servers.servers()).unwrap_or_default();
        let tools = servers.iter().flat_map(|server| server.tools.iter());
        let is_deferred = |name: &str| offered.iter().all(|spec| spec.name != name);
        sizes.deferred = tools
            .filter(|tool| is_deferred(&tool.name))
            .map(|tool| size(&tool.name, &tool.description, &tool.schema))
            .sum();
        sizes
    }

    /// The sum that a tool of this name belongs to.
    fn of_tool(&mut self, name: &str) -> &mut u64 {
        match name {
            skill::TOOL => &mut self.skills,
            subagent::NAME => &mut self.agents,
            name if name == subagent::OUTPUT || name == subagent::STOP => &mut self.agents,
            server_tool::SEARCH | server_tool::CALL | server_tool::READ => &mut self.servers,
            name if name.starts_with(server_tool::PREFIX) => &mut self.servers,
            _ => &mut self.tools,
        }
    }
}

/// What the context holds.
pub(crate) struct ContextTable {
    model: String,
    /// The model's window, where it is known.
    known: Option<u64>,
    /// The window, or what is used of one that is not known.
    window: u64,
    used: u64,
    kinds: BTreeMap<Kind, u64>,
    /// Whether system prompt, tools are told apart.
    has_frame: bool,
    deferred: u64,
    /// Tokens of outputs that were cleared, which the model does not read any more.
    pruned: u64,
    kept_free: u64,
    dearest: Vec<Dear>,
}

/// A call whose result takes much.
struct Dear {
    call: String,
    title: String,
    tokens: u64,
    is_cleared: bool,
}

impl ContextTable {
    /// Of a session by its records; `window` and `frame` as far as they are known.
    pub(crate) fn of(records: &[Record], model: &str, window: Option<u64>, frame: Option<FrameSizes>) -> Self {
        let session = State::fold(records);
        let family = Family::of(model);
        let mut kinds: BTreeMap<Kind, u64> = BTreeMap::new();
        let mut dearest = Vec::new();
        match frame {
            None => drop(kinds.insert(Kind::System, session.policy().compaction.rules.frame_tokens)),
            Some(FrameSizes { system, tools, servers, skills, agents, .. }) => kinds.extend([
                (Kind::System, system),
                (Kind::Tools, tools),
                (Kind::Servers, servers),
                (Kind::Skills, skills),
                (Kind::Agents, agents),
            ]),
        }
        for message in session.transcript() {
            for part in &message.parts {
                let tokens = family.estimate_part(part);
                *kinds.entry(kind_of(message.role, part)).or_default() += tokens;
                if let Part::ToolResult { tool, outcome, call } = part {
                    let title = view::first_line(if outcome.title.is_empty() { tool } else { &outcome.title });
                    let is_cleared = session.context().is_pruned(call);
                    dearest.push(Dear { call: call.0.clone(), title, tokens, is_cleared });
                }
            }
        }
        let (instructions, pruned) = given(records);
        let told = kinds.entry(Kind::Told).or_default();
        let instructions = instructions.min(*told);
        *told -= instructions;
        kinds.insert(Kind::Instructions, instructions);
        // The provider's count is the one that holds; an estimate of the parts is brought to it.
        let estimated: u64 = kinds.values().sum();
        let used = session.context().used_tokens().max(1);
        let scaled = |tokens: u64| tokens * used / estimated.max(1);
        kinds.values_mut().for_each(|tokens| *tokens = scaled(*tokens));
        dearest.iter_mut().for_each(|dear: &mut Dear| dear.tokens = scaled(dear.tokens));
        dearest.sort_by_key(|dear| std::cmp::Reverse(dear.tokens));
        dearest.truncate(DEAREST);
        let full_at = session.context().full_at_tokens();
        let known = window.or(full_at);
        let window = known.unwrap_or(used).max(used);
        let kept_free = full_at.map_or(0, |full| window.saturating_sub(full.max(used)));
        let (has_frame, deferred) = (frame.is_some(), frame.map_or(0, |frame| frame.deferred));
        Self { model: model.to_owned(), known, window, used, kinds, has_frame, deferred, pruned, kept_free, dearest }
    }

    fn free(&self) -> u64 {
        self.window.saturating_sub(self.used + self.kept_free)
    }

    /// Each kind that is there: its sign, its word, its name and its tokens.
    fn shares(&self) -> impl Iterator<Item = (char, &'static str, &'static str, u64)> {
        Kind::ALL.into_iter().filter_map(|(kind, sign, word, name)| {
            let tokens = self.kinds.get(&kind).copied().filter(|tokens| *tokens > 0)?;
            let name = if kind == Kind::System && !self.has_frame { "system prompt, tools" } else { name };
            Some((sign, word, name, tokens))
        })
    }

    /// For people.
    pub(crate) fn words(&self, look: Look) -> String {
        let (used, window) = (view::thousands(self.used), view::thousands(self.window));
        let mut text = match self.known {
            Some(_) => format!("{used} of {window} tokens, {} %\n\n", self.used * 100 / self.window),
            None => format!("{used} tokens; this model's context window is unknown\n\n"),
        };
        if look == Look::Drawn {
            text.push_str(&self.grid());
        }
        // Forty columns are enough for a row.
        let name = |sign: char, name: &str| {
            let sign = if look == Look::Drawn { format!("{sign} ") } else { String::new() };
            format!(" {sign}{name:<22}")
        };
        let row = |sign: char, of: &str, tokens: u64| {
            format!("{}{:>9} {:>3} %\n", name(sign, of), view::thousands(tokens), tokens * 100 / self.window)
        };
        self.shares().for_each(|(sign, _, name, tokens)| text.push_str(&row(sign, name, tokens)));
        // Of a window that nobody knows nothing can be said to be free.
        if self.known.is_some() {
            text.push_str(&row('·', "free", self.free()));
        }
        if self.kept_free > 0 {
            text.push_str(&row('×', "kept free to compact", self.kept_free));
        }
        let unsent = [("servers: behind search", self.deferred), ("pruned: cleared", self.pruned)];
        let unsent: Vec<_> = unsent.into_iter().filter(|(_, tokens)| *tokens > 0).collect();
        if !unsent.is_empty() {
            text.push_str("\nNot in the context:\n");
        }
        for (of, tokens) in unsent {
            text.push_str(&format!("{}{:>9}\n", name(' ', of), view::thousands(tokens)));
        }
        if !self.dearest.is_empty() {
            text.push_str("\nThe largest results:\n");
        }
        for Dear { title, tokens, is_cleared, .. } in &self.dearest {
            let cleared = if *is_cleared { " (cleared)" } else { "" };
            text.push_str(&format!(" {:>9}  {title}{cleared}\n", view::thousands(*tokens)));
        }
        text.push_str("\n/compact frees space. `piton context` shows what a new session begins with.\n");
        text
    }

    /// Two hundred cells; each kind that is there has one at least.
    fn grid(&self) -> String {
        let per_cell = |tokens: u64| (tokens * ROWS * CELLS).div_ceil(self.window);
        let many = |cells: u64| usize::try_from(cells).unwrap_or(0);
        let most = many(ROWS * CELLS);
        let used = self.shares().flat_map(|(sign, .., tokens)| std::iter::repeat_n(sign, many(per_cell(tokens))));
        let reserved = many(self.kept_free * ROWS * CELLS / self.window).min(most);
        let mut cells: Vec<char> = used.chain(std::iter::repeat('·')).take(most - reserved).collect();
        cells.resize(most, '×');
        let mut text = String::new();
        for row in cells.chunks(many(CELLS)) {
            row.iter().for_each(|cell| text.extend([' ', *cell]));
            text.push('\n');
        }
        text + "\n"
    }

    /// For programs.
    pub(crate) fn json(&self) -> Value {
        let category = |name: &str, kind: &str, tokens: u64| json!({"name": name, "kind": kind, "tokens": tokens});
        let mut categories: Vec<Value> =
            self.shares().map(|(_, word, _, tokens)| category(word, "used", tokens)).collect();
        categories.extend(self.known.map(|_| category("free", "free", self.free())));
        categories.push(category("kept_free", "reserved", self.kept_free));
        categories.push(category("servers_deferred", "deferred", self.deferred));
        categories.push(category("pruned", "pruned", self.pruned));
        let dear = |dear: &Dear| json!({"call": dear.call, "title": dear.title, "tokens": dear.tokens, "cleared": dear.is_cleared});
        json!({
            "model": self.model,
            "window_tokens": self.known,
            "used_tokens": self.used,
            "categories": categories,
            "largest_results": self.dearest.iter().map(dear).collect::<Vec<_>>(),
        })
    }
}

/// Tokens of the instructions that stand in the context, and of the outputs that were cleared since the last summary.
fn given(records: &[Record]) -> (u64, u64) {
    let (mut instructions, mut pruned) = (0, 0);
    for record in records {
        match &record.event {
            Event::ContextGiven { items } => {
                let of_files = items.iter().filter(|item| item.kind == GivenKind::Instructions);
                instructions += of_files.map(|item| item.tokens).sum::<u64>();
            }
            Event::ContextPruned { tokens_before, tokens_after, .. } => {
                pruned += tokens_before.saturating_sub(*tokens_after);
            }
            // What stood before it is in the summary.
            Event::CompactionFinished { .. } => (instructions, pruned) = (0, 0),
            _ => {}
        }
    }
    (instructions, pruned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use piton_core::event::Given;

    #[test]
    fn of_a_window_that_nobody_knows_nothing_is_said_to_be_free() {
        let said = |window| {
            let table = ContextTable::of(&[], "fake/model", window, None);
            let is_in_json = table.json()["categories"].to_string().contains("\"free\",\"kind\":\"free\"");
            (table.words(Look::Plain).contains(" free "), is_in_json)
        };
        assert_eq!((said(Some(1_000)), said(None)), ((true, true), (false, false)));
    }

    #[test]
    fn each_tool_belongs_to_what_it_is_there_for() {
        let mut sizes = FrameSizes::default();
        for (at, name) in
            ["bash", "mcp__db__query", "tool_search", "call_tool", "skill", "task", "task_output", "task_stop"]
                .iter()
                .enumerate()
        {
            *sizes.of_tool(name) += 10_u64.pow(u32::try_from(at).unwrap());
        }
        let wanted =
            FrameSizes { tools: 1, servers: 1_110, skills: 10_000, agents: 11_100_000, ..FrameSizes::default() };
        assert_eq!(sizes, wanted);
    }

    #[test]
    fn instructions_count_until_a_summary_and_what_was_cleared_is_told() {
        let item = |kind, tokens| Given { kind, path: None, hash: None, tokens, bytes: 0, notice: None };
        let given_now =
            Event::ContextGiven { items: vec![item(GivenKind::Instructions, 100), item(GivenKind::Environment, 5)] };
        let pruned = Event::ContextPruned {
            calls: vec![],
            to_bytes: None,
            tokens_before: 900,
            tokens_after: 300,
            suffices: true,
        };
        let record = |(seq, event)| Record { seq, at_ms: 0, event };
        let records: Vec<Record> = (1..).zip([given_now, pruned]).map(record).collect();
        assert_eq!(given(&records), (100, 600));
    }
}
