//! What of a session's bill its agents used, and how much its tools did and gave the model to read.

use crate::out::view::{self, plural, thousands};
use piton_core::budget::dollars;
use piton_core::call::{Delegated, Outcome, Status};
use piton_core::story::{Body, CallBlock, Caller, Story};
use piton_core::tokens::Family;
use piton_tools::subagent;
use serde::Serialize;
use std::collections::BTreeMap;

/// By agents and by tools, the most used first.
#[derive(Debug, Default, Serialize)]
pub(super) struct Shares {
    /// Subagents, by the name of the agent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    agents: Vec<AgentShare>,
    tools: Vec<ToolShare>,
}

/// What subagents of one name used.
#[derive(Debug, Default, Serialize)]
struct AgentShare {
    agent: String,
    calls: u32,
    tokens: u64,
    cost_micros: Option<u64>,
}

/// What a tool did.
#[derive(Debug, Default, Serialize)]
struct ToolShare {
    tool: String,
    calls: u32,
    failed: u32,
    duration_ms: u64,
    /// Tokens of its results, by estimate. The model is sent them with every later request.
    result_tokens: u64,
}

impl Shares {
    pub(super) fn of(story: &Story) -> Self {
        let (mut agents, mut tools) = (BTreeMap::<String, AgentShare>::new(), BTreeMap::<String, ToolShare>::new());
        let mut model = String::new();
        for block in story.blocks() {
            match &block.body {
                Body::Turn { model: of_turn, .. } => model.clone_from(of_turn),
                Body::Call(call) => {
                    if let Some(outcome) = call.outcome() {
                        of_agent(outcome, &mut agents);
                        of_tool(call, outcome, &model, &mut tools);
                    }
                }
                Body::TaskEnd { outcome, .. } => of_agent(outcome, &mut agents),
                _ => {}
            }
        }
        let mut shares = Self { agents: agents.into_values().collect(), tools: tools.into_values().collect() };
        shares.agents.sort_by_key(|share| std::cmp::Reverse(share.tokens));
        shares.tools.sort_by_key(|share| std::cmp::Reverse(share.result_tokens));
        shares
    }

    pub(super) fn words(&self) -> String {
        let mut text = String::new();
        for AgentShare { agent, calls, tokens, cost_micros } in &self.agents {
            let (name, calls) = (view::clean(agent), plural((*calls).into(), "call"));
            let cost = cost_micros.map(|cost| format!(" · ${}", dollars(cost))).unwrap_or_default();
            text.push_str(&format!("agent {name:<12}{calls:>9}  {:>8} tokens{cost}\n", thousands(*tokens)));
        }
        for ToolShare { tool, calls, failed, duration_ms, result_tokens } in &self.tools {
            let (name, calls) = (view::clean(tool), plural((*calls).into(), "call"));
            let failed = if *failed > 0 { format!(", {failed} failed") } else { String::new() };
            let seconds = *duration_ms as f64 / 1e3;
            let tokens = thousands(*result_tokens);
            text.push_str(&format!(
                "tool  {name:<12}{calls:>9}  {tokens:>8} tokens of results · {seconds:.1} s{failed}\n"
            ));
        }
        text
    }
}

fn of_agent(outcome: &Outcome, agents: &mut BTreeMap<String, AgentShare>) {
    let Some(Delegated { usage, cost_micros, .. }) = outcome.delegated.as_deref() else { return };
    let name = agent_of(outcome);
    let share = agents.entry(name.clone()).or_insert(AgentShare { agent: name, ..AgentShare::default() });
    share.calls += 1;
    share.tokens += usage.total();
    if let Some(cost) = cost_micros {
        *share.cost_micros.get_or_insert(0) += cost;
    }
}

/// The agent that came to an outcome, as it says itself, or its title does.
fn agent_of(outcome: &Outcome) -> String {
    let said = outcome.metadata.get("agent").and_then(|agent| agent.as_str());
    let titled = || outcome.title.strip_prefix(subagent::NAME)?.trim_start().split_once(':').map(|(name, _)| name);
    said.or_else(titled).unwrap_or("subagent").to_owned()
}

fn of_tool(call: &CallBlock, outcome: &Outcome, model: &str, tools: &mut BTreeMap<String, ToolShare>) {
    if call.caller != Caller::Model {
        return;
    }
    let new = ToolShare { tool: call.tool.clone(), ..ToolShare::default() };
    let share = tools.entry(call.tool.clone()).or_insert(new);
    share.calls += 1;
    share.failed += u32::from(matches!(outcome.status, Status::Failed | Status::TimedOut));
    share.duration_ms += outcome.duration_ms;
    share.result_tokens += Family::of(model).estimate(&outcome.text);
}
