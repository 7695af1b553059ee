//! What people may set about a model's answers, and what each provider calls it.
//!
//! [`Options`] is what was said. [`Options::translate`] turns it, once per model, into the members it adds to every
//! request body, and into a line for each wish that this model would refuse and that is therefore left out. Same
//! options, same bytes: the prefix that a provider caches stays what it is.

use crate::effort::{Effort, EffortWord};
use crate::generation::{self, Claude, Gemini};
use crate::protocol::WireProtocol;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt;

/// What was said. Everything is optional; what is not said is left to the provider.
#[derive(Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Sampling temperature, 0 to 2.
    pub temperature: Option<f64>,
    /// Nucleus sampling: the share of the likeliest tokens that is drawn from, 0 to 1.
    pub top_p: Option<f64>,
    /// The most tokens of one answer, reasoning included.
    pub max_output: Option<u32>,
    /// Reasoning effort.
    #[schemars(with = "Option<EffortWord>")]
    pub effort: Option<Effort>,
    /// The same in tokens, where a provider counts them.
    pub thinking_budget: Option<u32>,
    /// Members of the request body that Piton does not know: merged into it last, and deep.
    #[serde(default)]
    pub extra_body: Map<String, Value>,
    /// Headers of every request.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("temperature", &self.temperature)
            .field("top_p", &self.top_p)
            .field("max_output", &self.max_output)
            .field("effort", &self.effort)
            .field("thinking_budget", &self.thinking_budget)
            .field("extra_body", &self.extra_body)
            // Some gateways want a key there.
            .field("headers", &self.headers.keys())
            .finish()
    }
}

/// How a server that speaks Chat Completions is told how much to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thinking {
    /// `reasoning_effort`, on OpenAI's scale from `none` to `xhigh`.
    Scale,
    /// `reasoning_effort`, of which most servers know `none`, `low`, `medium` and `high`.
    Three,
    /// `reasoning_effort`, `none` or `high` (Mistral).
    Two,
    /// `reasoning`, an object with an effort or a number of tokens (OpenRouter).
    Object,
    /// `thinking`, on or off (Moonshot, Z.ai).
    Switch,
    /// `thinking`, on or off, and `reasoning_effort`, `high` or `max` (DeepSeek).
    SwitchAndTwo,
    /// `enable_thinking` and `thinking_budget` (Alibaba).
    Qwen,
}

/// Whom the options are for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) protocol: WireProtocol,
    pub(crate) thinking: Thinking,
    pub(crate) model: &'a str,
    /// What Messages is told as `max_tokens`, of which thoughts are a part.
    pub(crate) max_tokens: u32,
}

/// Options in a provider's words.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Translated {
    /// Members to be merged into every body.
    pub(crate) body: Map<String, Value>,
    /// What was said but is not sent, each with its reason.
    pub(crate) left_out: Vec<String>,
}

impl Options {
    /// These, and where they say nothing, what `general` says.
    #[must_use]
    pub fn or(self, general: &Self) -> Self {
        let mut extra_body = Value::Object(general.extra_body.clone());
        merge(&mut extra_body, Value::Object(self.extra_body));
        let mut headers = general.headers.clone();
        headers.extend(self.headers);
        // Effort and budget say the same: who says one does not want the other from elsewhere.
        let (effort, thinking_budget) = match (self.effort, self.thinking_budget) {
            (None, None) => (general.effort, general.thinking_budget),
            said => said,
        };
        Self {
            temperature: self.temperature.or(general.temperature),
            top_p: self.top_p.or(general.top_p),
            max_output: self.max_output.or(general.max_output),
            effort,
            thinking_budget,
            extra_body: extra_body.as_object().cloned().unwrap_or_default(),
            headers,
        }
    }

    /// What makes no sense to any provider: the key, and what it must be.
    pub fn mistake(&self) -> Option<(&'static str, &'static str)> {
        if self.temperature.is_some_and(|temperature| !(0.0..=2.0).contains(&temperature)) {
            return Some(("temperature", "a number from 0 to 2"));
        }
        if self.top_p.is_some_and(|top_p| !(0.0..=1.0).contains(&top_p)) {
            return Some(("top_p", "a number from 0 to 1"));
        }
        if self.max_output == Some(0) {
            return Some(("max_output", "a number above 0"));
        }
        if self.effort.is_some() && self.thinking_budget.is_some() {
            return Some(("thinking_budget", "left out where effort is said: they are two words for one thing"));
        }
        None
    }

    /// These options in the words of one model.
    pub(crate) fn translate(&self, target: Target<'_>) -> Translated {
        let mut to = Translated::default();
        match target.protocol {
            WireProtocol::Chat => self.chat(target, &mut to),
            WireProtocol::Responses => self.responses(target, &mut to),
            WireProtocol::Anthropic => self.anthropic(target, &mut to),
            WireProtocol::Gemini => self.gemini(target, &mut to),
            WireProtocol::Ollama => self.ollama(target, &mut to),
        }
        let mut body = Value::Object(to.body);
        merge(&mut body, Value::Object(self.extra_body.clone()));
        to.body = body.as_object().cloned().unwrap_or_default();
        to
    }

    fn chat(&self, target: Target<'_>, to: &mut Translated) {
        self.openai_sampling(target, to);
        if let (Some(tokens), Thinking::Object) = (self.thinking_budget, target.thinking) {
            to.set("reasoning", json!({ "max_tokens": tokens }));
        } else if let (Some(tokens), Thinking::Qwen) = (self.thinking_budget, target.thinking) {
            to.set("enable_thinking", true.into());
            to.set("thinking_budget", tokens.into());
        } else if self.thinking_budget.is_some() {
            to.leave_out(target, "thinking_budget", "it counts no tokens of thought; say effort");
        }
        let Some(effort) = self.effort else { return };
        let graded = matches!(target.thinking, Thinking::Scale | Thinking::Three);
        if graded && let Some(efforts) = generation::openai_efforts(target.model) {
            match nearest(effort, efforts) {
                Some(effort) => to.set("reasoning_effort", effort.word().into()),
                None => to.leave_out(target, "effort", "it does not think"),
            }
            return;
        }
        let switch = json!({ "type": if effort == Effort::None { "disabled" } else { "enabled" } });
        match target.thinking {
            Thinking::Scale => to.set("reasoning_effort", effort.min(Effort::Xhigh).word().into()),
            Thinking::Three if effort == Effort::None => to.set("reasoning_effort", "none".into()),
            Thinking::Three => to.set("reasoning_effort", effort.clamp(Effort::Low, Effort::High).word().into()),
            Thinking::Two => {
                to.set("reasoning_effort", if effort == Effort::None { "none" } else { "high" }.into());
            }
            Thinking::Object => to.set("reasoning", json!({ "effort": effort.min(Effort::Xhigh).word() })),
            Thinking::Switch => to.set("thinking", switch),
            Thinking::SwitchAndTwo => {
                to.set("thinking", switch);
                if effort > Effort::None {
                    to.set("reasoning_effort", if effort > Effort::High { "max" } else { "high" }.into());
                }
            }
            Thinking::Qwen => to.set("enable_thinking", (effort > Effort::None).into()),
        }
    }

    fn responses(&self, target: Target<'_>, to: &mut Translated) {
        self.openai_sampling(target, to);
        match (self.effort, generation::openai_efforts(target.model)) {
            (None, _) => {}
            (Some(effort), None) => to.set("reasoning", json!({ "effort": effort.min(Effort::Xhigh).word() })),
            (Some(effort), Some(efforts)) => match nearest(effort, efforts) {
                Some(effort) => to.set("reasoning", json!({ "effort": effort.word() })),
                None => to.leave_out(target, "effort", "it does not think"),
            },
        }
        if self.thinking_budget.is_some() {
            to.leave_out(target, "thinking_budget", "it counts no tokens of thought; say effort");
        }
    }

    /// What is said of how tokens are drawn.
    fn sampling(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let said = [("temperature", self.temperature), ("top_p", self.top_p)];
        said.into_iter().filter_map(|(name, said)| Some((name, said?)))
    }

    /// OpenAI's thinking models refuse a temperature and `top_p`, wherever they are served.
    fn openai_sampling(&self, target: Target<'_>, to: &mut Translated) {
        let efforts = generation::openai_efforts(target.model);
        let sent = self.effort.and_then(|effort| nearest(effort, efforts?));
        let thinks = generation::openai_thinks(target.model) == Some(true) && sent != Some(Effort::None);
        for (name, said) in self.sampling() {
            match thinks {
                true => to.leave_out(target, name, "it thinks, and takes none then"),
                false => to.set(name, said.into()),
            }
        }
    }

    fn anthropic(&self, target: Target<'_>, to: &mut Translated) {
        let claude = Claude::of(target.model);
        match (claude, self.effort, self.thinking_budget) {
            (_, None | Some(Effort::None), None) => {}
            (Claude::Plain, ..) => to.leave_out(target, "effort", "it does not think"),
            (Claude::Adaptive | Claude::OnlyAdaptive, Some(effort), _) => {
                let effort = match (claude, effort) {
                    (_, Effort::None | Effort::Minimal | Effort::Low) => Effort::Low,
                    (Claude::Adaptive, Effort::Xhigh) => Effort::High,
                    (_, effort) => effort,
                };
                to.set("thinking", adaptive(claude));
                to.set("output_config", json!({ "effort": effort.word() }));
            }
            (Claude::OnlyAdaptive, None, Some(_)) => {
                to.leave_out(target, "thinking_budget", "it decides itself how long it thinks; say effort");
                to.set("thinking", adaptive(claude));
            }
            (Claude::Counting | Claude::Adaptive, effort, budget) => {
                let wanted = budget.or(effort.map(Effort::tokens)).unwrap_or_default().max(MIN_BUDGET);
                // Thoughts are a part of the answer, and something must be left for the rest.
                let room = target.max_tokens.saturating_sub(MIN_BUDGET);
                if room < MIN_BUDGET {
                    to.leave_out(target, "effort", "max_output has no room for thoughts");
                } else {
                    to.set("thinking", json!({ "type": "enabled", "budget_tokens": wanted.min(room) }));
                }
            }
        }
        let thinks = to.body.contains_key("thinking");
        for (name, said) in self.sampling() {
            if claude == Claude::OnlyAdaptive {
                to.leave_out(target, name, "it takes none");
            } else if thinks {
                to.leave_out(target, name, "it takes none while it thinks");
            } else if name == "top_p" && self.temperature.is_some() {
                to.leave_out(target, name, "it takes a temperature or top_p, not both");
            } else {
                to.set(name, said.min(1.0).into());
            }
        }
    }

    fn gemini(&self, target: Target<'_>, to: &mut Translated) {
        let generation = Gemini::of(target.model);
        let is_pro = target.model.contains("pro");
        let mut config = Map::new();
        if let Some(temperature) = self.temperature {
            config.insert("temperature".into(), temperature.into());
        }
        if let Some(top_p) = self.top_p {
            config.insert("topP".into(), top_p.into());
        }
        let level = self.effort.map(|effort| match effort {
            Effort::None | Effort::Minimal if is_pro => Effort::Low,
            effort => effort.clamp(Effort::Minimal, Effort::High),
        });
        match (level, self.thinking_budget) {
            (None, None) => {}
            (Some(level), _) if generation == Gemini::Graded => {
                config.insert("thinkingConfig".into(), json!({ "thinkingLevel": level.word() }));
            }
            (_, budget) if generation > Gemini::Plain => {
                // The smallest budget of the big model, which cannot be told not to think.
                let least = if is_pro { 128 } else { 0 };
                let tokens = budget.or(self.effort.map(Effort::tokens)).unwrap_or_default().max(least);
                // Vertex refuses to tell thoughts that are not to be.
                let thinking = match tokens {
                    0 => json!({ "includeThoughts": false, "thinkingBudget": 0 }),
                    tokens => json!({ "thinkingBudget": tokens }),
                };
                config.insert("thinkingConfig".into(), thinking);
            }
            _ => to.leave_out(target, "effort", "it does not think"),
        }
        if !config.is_empty() {
            to.set("generationConfig", config.into());
        }
    }

    fn ollama(&self, target: Target<'_>, to: &mut Translated) {
        let options: Map<String, Value> = self.sampling().map(|(name, said)| (name.to_owned(), said.into())).collect();
        if !options.is_empty() {
            to.set("options", options.into());
        }
        if self.thinking_budget.is_some() {
            to.leave_out(target, "thinking_budget", "it counts no tokens of thought; say effort");
        }
        match self.effort {
            None => {}
            // The one family that takes a degree, and cannot be told not to think.
            Some(effort) if target.model.contains("gpt-oss") => {
                to.set("think", effort.clamp(Effort::Low, Effort::High).word().into());
            }
            Some(effort) => to.set("think", (effort > Effort::None).into()),
        }
    }
}

impl Translated {
    fn set(&mut self, key: &str, value: Value) {
        self.body.insert(key.to_owned(), value);
    }

    fn leave_out(&mut self, target: Target<'_>, option: &str, why: &str) {
        self.left_out.push(format!("{option} is not sent to {}: {why}", target.model));
    }
}

/// The least of these degrees that is as much as was said, else the most there is. `None`: there are none.
fn nearest(said: Effort, degrees: &[Effort]) -> Option<Effort> {
    degrees.iter().find(|degree| **degree >= said).or(degrees.last()).copied()
}

/// The fewest tokens that Anthropic takes for thoughts.
const MIN_BUDGET: u32 = 1_024;

/// From 4.7 on thoughts are hidden unless they are asked for.
fn adaptive(claude: Claude) -> Value {
    match claude {
        Claude::OnlyAdaptive => json!({ "type": "adaptive", "display": "summarized" }),
        Claude::Plain | Claude::Counting | Claude::Adaptive => json!({ "type": "adaptive" }),
    }
}

/// Where the protocols say how long a reply may be.
const REPLY_LIMITS: [&str; 5] = [
    "/max_tokens",
    "/max_completion_tokens",
    "/max_output_tokens",
    "/generationConfig/maxOutputTokens",
    "/options/num_predict",
];

/// Where they say how many tokens of it may be thoughts. Something must be left for the rest, or the request is refused.
const THOUGHT_LIMITS: [&str; 2] = ["/thinking/budget_tokens", "/reasoning/max_tokens"];

/// How long a reply this body asks for, if it says so.
pub(crate) fn longest_reply(body: &Value) -> Option<u32> {
    let told = REPLY_LIMITS.iter().filter_map(|path| body.pointer(path)?.as_u64());
    told.max().map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX))
}

/// Lowers what this body asks for to a reply of so many tokens. Thoughts for which there is no room are given up.
pub(crate) fn keep_within(body: &mut Value, cap: u32) {
    let lower = |body: &mut Value, path: &str, most: u32| {
        if let Some(tokens) = body.pointer_mut(path).filter(|tokens| tokens.as_u64().is_some_and(|n| n > most.into())) {
            *tokens = most.into();
        }
    };
    REPLY_LIMITS.iter().for_each(|path| lower(body, path, cap));
    let room = cap.saturating_sub(MIN_BUDGET);
    for path in THOUGHT_LIMITS.iter().filter(|path| body.pointer(path).is_some()).collect::<Vec<_>>() {
        lower(body, path, room);
        let member = path.split('/').nth(1).unwrap_or_default();
        if let Some(body) = body.as_object_mut().filter(|_| room < MIN_BUDGET) {
            body.shift_remove(member);
        }
    }
}

/// Lays `more` over a value: objects are merged member by member, all else is replaced.
pub(crate) fn merge(value: &mut Value, more: Value) {
    match (value, more) {
        (Value::Object(value), Value::Object(more)) => {
            for (key, more) in more {
                match value.get_mut(&key) {
                    Some(there) => merge(there, more),
                    None => {
                        value.insert(key, more);
                    }
                }
            }
        }
        (value, more) => *value = more,
    }
}

#[cfg(test)]
mod tests;
