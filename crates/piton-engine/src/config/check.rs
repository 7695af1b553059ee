//! Validation of a configuration: unusable values, unknown names, contradicting keys. It runs before a session starts, so
//! that no run fails half-way because of a mistake in a file.

use super::mistake::{KeyPath, Mistake};
use super::{Config, FORMAT, is_preset_file, preset};
use crate::history::default_tools;
use crate::permission::read_rule;
use crate::spelling::did_you_mean;
use crate::tool_names::is_known;
use piton_core::permission::Action;
use piton_core::policy::Policy;
use piton_core::preset::{PRESETS, Preset};
use piton_core::retry::RetryPolicy;
use piton_core::server_tool;
use piton_http::options::{is_address, is_proxy, unknown_proxy_scheme};
use piton_models::catalogue::{Catalogue, Rates};
use piton_models::options::Options;
use piton_models::provider::{self, PROVIDERS, is_header};
use piton_models::short_names;

/// The longest time that can be said, in seconds: a year. Beyond it, clocks overflow.
const MOST_SECONDS: f64 = 31_536_000.0;
/// The most tokens that can be kept free or kept: as many as the largest window there is.
const MOST_TOKENS: u64 = 10_000_000;
/// The name of cassettes, which are asked like a provider.
const RECORDED: &str = "recorded";

impl Config {
    /// The same if it makes sense by itself, whatever else is said elsewhere.
    pub(super) fn checked(self) -> Result<Self, Mistake> {
        let rules: [fn(&Self) -> Option<Mistake>; 8] = [
            Self::words,
            Self::counts,
            Self::times,
            Self::amounts,
            Self::addresses,
            Self::names,
            Self::answers,
            Self::commands,
        ];
        match rules.iter().find_map(|rule| rule(&self)) {
            Some(mistake) => Err(mistake),
            None => Ok(self),
        }
    }

    fn words(&self) -> Option<Mistake> {
        if self.version.is_some_and(|version| version != FORMAT) {
            return Some(Mistake::new(["version"], format_args!("must be {FORMAT}")));
        }
        let said = self.preset.as_deref().filter(|said| !is_preset_file(said) && Preset::named(said).is_none());
        said.map(|said| {
            let known = PRESETS.map(|preset| preset.name);
            let meant = did_you_mean(said, known);
            Mistake::new(["preset"], format_args!("is `{said}`; there are {}{meant}", known.join(", ")))
        })
    }

    fn counts(&self) -> Option<Mistake> {
        let tables = [
            self.limits.mistake(),
            self.forks.mistake(),
            self.retry.mistake(),
            self.compaction.mistake(),
            self.context.mistake(),
        ];
        let windows = self.models.iter().find(|(_, model)| model.window == Some(0));
        let window = windows
            .map(|(name, _)| Mistake::new(["models", name.as_str(), "window"], "must be a whole number above 0"));
        tables.into_iter().flatten().next().or(window)
    }

    fn times(&self) -> Option<Mistake> {
        let way = |way: &[&str]| -> KeyPath { way.iter().map(|key| (*key).to_owned()).collect() };
        let http = &self.http;
        let mut times = vec![
            (way(&["retry", "first_wait"]), self.retry.first_wait),
            (way(&["retry", "longest_wait"]), self.retry.longest_wait),
            (way(&["http", "connect_timeout"]), http.connect_timeout),
            (way(&["http", "stall_timeout"]), http.stall_timeout),
            (way(&["http", "keep_alive_timeout"]), http.keep_alive_timeout),
            (way(&["check", "timeout"]), self.check.timeout),
            (way(&["tools", "bash_timeout"]), self.tools.bash_timeout),
            (way(&["tools", "bash_timeout_cap"]), self.tools.bash_timeout_cap),
            (way(&["tools", "background_timeout"]), self.tools.background_timeout),
            (way(&["tools", "background_unattended"]), self.tools.background_unattended),
        ];
        for (name, server) in &self.providers {
            times.push((way(&["providers", name, "retry", "first_wait"]), server.retry.first_wait));
            times.push((way(&["providers", name, "retry", "longest_wait"]), server.retry.longest_wait));
        }
        let is_odd = |seconds: f64| !(seconds > 0.0 && seconds <= MOST_SECONDS);
        let (way, _) = times.into_iter().find(|(_, seconds)| seconds.is_some_and(is_odd))?;
        Some(Mistake::new(way, "must be a number above 0, of seconds, and no more than 31536000 (a year)"))
    }

    fn amounts(&self) -> Option<Mistake> {
        if self.context.reference_bytes.is_some_and(|bytes| !(1..=1 << 30).contains(&bytes)) {
            return Some(Mistake::new(["context", "reference_bytes"], "must be from 1 to 1073741824, a gibibyte"));
        }
        if self.undo.max_size.is_some_and(|megabytes| !(1..=1_000_000).contains(&megabytes)) {
            return Some(Mistake::new(["undo", "max_size"], "must be from 1 to 1000000, in megabytes"));
        }
        let tokens = [("reserve", self.compaction.reserve), ("keep", self.compaction.keep)];
        let (key, _) = tokens.into_iter().find(|(_, tokens)| tokens.is_some_and(|tokens| tokens > MOST_TOKENS))?;
        let what = format_args!("must be no more than {MOST_TOKENS} tokens, as many as the largest window").to_string();
        Some(Mistake::new(["compaction", key], what))
    }

    fn addresses(&self) -> Option<Mistake> {
        const ADDRESS: &str = "must be an address of the form http://host:port/path or https://…";
        if let Some(proxy) = self.http.proxy.as_deref().filter(|proxy| !proxy.is_empty() && !is_proxy(proxy)) {
            let spoken = "must be the address of a proxy that speaks http:// or https://, or \"\" for none";
            let other = unknown_proxy_scheme(proxy).map(|scheme| format!(" ({scheme}:// is not spoken here)"));
            return Some(Mistake::new(["http", "proxy"], format!("{spoken}{}", other.unwrap_or_default())));
        }
        if self.otel.endpoint.as_deref().is_some_and(|endpoint| !is_address(endpoint)) {
            return Some(Mistake::new(["otel", "endpoint"], ADDRESS));
        }
        if let Some(search) = &self.tools.web_search {
            let way = |key| ["tools", "web_search", key];
            let (has_words, names_key) = (search.url.contains("{query}"), search.uses_key());
            if !has_words || !is_address(&search.url.replace("{query}", "x").replace("{key}", "x")) {
                return Some(Mistake::new(way("url"), format!("{ADDRESS}, with {{query}} where the words belong")));
            }
            if names_key != search.key_variable.is_some() {
                let what = "and {key} in the url or in a header belong together: one says where the key is, the other where it goes";
                return Some(Mistake::new(way("key_variable"), what));
            }
        }
        if let (_, Some((way, what))) = self.after_edits() {
            return Some(Mistake::new(way, what));
        }
        let is_odd = |said: &Option<String>| said.as_deref().is_some_and(|url| !is_address(url));
        let (name, _) = self.providers.iter().find(|(_, server)| is_odd(&server.base_url))?;
        Some(Mistake::new(["providers", name.as_str(), "base_url"], ADDRESS))
    }

    fn names(&self) -> Option<Mistake> {
        const NAME: &str = "must be a model's name as provider/name";
        let is_name = |said: &str| match said.split_once('/') {
            Some((provider, name)) => !provider.is_empty() && !name.is_empty(),
            None => provider::find(said).is_some_and(|known| known.default_model.is_some()),
        };
        // What a name alone means, the catalogue of the machine says.
        let may_mean_one = |said: &str| is_name(said) || (!said.is_empty() && !said.contains('/'));
        if self.model.as_deref().is_some_and(|said| !said.split(',').all(|said| may_mean_one(said.trim()))) {
            return Some(Mistake::new(["model"], format_args!("{NAME}; several are separated by commas")));
        }
        let single = [("titles", &self.titles.model), ("compaction", &self.compaction.model)];
        let odd = single.into_iter().find(|(_, said)| said.as_deref().is_some_and(|said| !is_name(said)));
        if let Some((table, _)) = odd {
            return Some(Mistake::new([table, "model"], NAME));
        }
        let odd = self.model_aliases.iter().find(|(_, meant)| !may_mean_one(meant.trim()));
        if let Some((name, _)) = odd {
            return Some(Mistake::new(["model_aliases", name.as_str()], NAME));
        }
        let odd = self.models.keys().find(|name| !name.contains('/') || !is_name(name));
        odd.map(|name| Mistake::new(["models", name.as_str()], "must be called provider/name, as the model is"))
    }

    /// What is set about answers, and what is known of models.
    fn answers(&self) -> Option<Mistake> {
        let way = |way: &[&str]| -> KeyPath { way.iter().map(|key| (*key).to_owned()).collect() };
        let everywhere = (way(&["options"]), self.options.clone());
        let providers = self.providers.iter();
        let of_providers =
            providers.map(|(name, server)| (way(&["providers", name, "options"]), server.options.clone()));
        let of_models = self.models.iter().map(|(name, model)| (way(&["models", name]), model.options()));
        let of_session = (way(&["answers"]), self.answers.options());
        let mut all = [everywhere, of_session].into_iter().chain(of_providers).chain(of_models);
        if let Some(mistake) = all.find_map(|(table, options)| odd_options(&table, &options)) {
            return Some(mistake);
        }
        let odd = self.models.iter().find(|(_, model)| model.price.is_some_and(|price| !Rates::from(price).is_sound()));
        odd.map(|(name, _)| {
            Mistake::new(["models", name.as_str(), "price"], "must be in US dollars per million tokens, 0 or more")
        })
    }

    /// Tools, hooks and checks.
    fn commands(&self) -> Option<Mistake> {
        for (tool, action) in &self.permission {
            let way = ["permission", tool.as_str()];
            if read_rule(tool, *action).is_err() {
                let what = "must be a tool such as `bash`, or `*` for every tool, with what of it in brackets if not all: \
                            `bash(git push *)`, `Edit(src/**)`, `net(domain:example.org)`";
                return Some(Mistake::new(way, what));
            }
        }
        if self.check.commands.iter().any(|command| command.trim().is_empty()) {
            return Some(Mistake::new(["check", "commands"], "has an empty one; name a command such as `cargo test`"));
        }
        let error = self.hooks.read(true).err()?;
        let event = error.event().unwrap_or_default().to_owned();
        Some(Mistake::new(["hooks".to_owned(), event], format_args!("cannot be read: {error}")))
    }

    /// What makes no sense now that everything has been said.
    pub(super) fn mistake_in_all(&self) -> Option<Mistake> {
        self.unknown_provider().or_else(|| self.contradiction())
    }

    fn unknown_provider(&self) -> Option<Mistake> {
        for (name, server) in &self.providers {
            let way = ["providers", name.as_str()];
            if server.protocol.is_some() && server.base_url.is_none() {
                return Some(Mistake::new(way, "says its protocol but not its base_url"));
            }
            if server.protocol.is_none() && provider::find(name).is_none() {
                let meant = did_you_mean(name, self.provider_names());
                return Some(Mistake::new(
                    way,
                    format_args!(
                        "is about no provider that is known, and a server of your own needs `protocol` and `base_url`{meant}"
                    ),
                ));
            }
        }
        let models = self.model.iter().flat_map(|said| said.split(',')).filter(|said| said.contains('/'));
        let models = models.map(|said| (vec!["model"], said));
        let single = [("titles", &self.titles.model), ("compaction", &self.compaction.model)];
        let single = single.into_iter().filter_map(|(table, said)| Some((vec![table, "model"], said.as_deref()?)));
        let tables = self.models.keys().map(|name| (vec!["models", name], name.as_str()));
        let text_tools = self.text_tools.keys().map(|name| (vec!["text_tools", name], name.as_str()));
        models.chain(single).chain(tables).chain(text_tools).find_map(|(way, said)| {
            let said = said.trim();
            let unknown = self.no_such_provider(said.split('/').next().unwrap_or_default())?;
            if way.ends_with(&["model"]) && !short_names::meant(said, &Catalogue::default()).is_empty() {
                return None;
            }
            Some(Mistake::new(way, format_args!("names an unknown provider: {unknown}")))
        })
    }

    /// The providers that can be asked, by name: known ones, and servers of one's own.
    pub fn provider_names(&self) -> Vec<&str> {
        let own = self.providers.iter().filter(|(_, server)| server.protocol.is_some()).map(|(name, _)| name.as_str());
        PROVIDERS.iter().map(|provider| provider.name).chain(own).collect()
    }

    /// What is said where nobody is called that, with the name that was meant.
    pub fn no_such_provider(&self, name: &str) -> Option<String> {
        let known = self.provider_names();
        let is_known = name == RECORDED || known.contains(&name);
        (!is_known).then(|| format!("there is no provider `{name}`{}", did_you_mean(name, known)))
    }

    fn contradiction(&self) -> Option<Mistake> {
        let mut policy = preset(self.preset.as_deref()).unwrap_or_else(|_| Policy::piton());
        self.apply(&mut policy);
        if self.retry.first_wait.is_some() && policy.retry.usual.first_ms > policy.retry.usual.cap_ms {
            return Some(too_long(&["retry"], &policy.retry.usual, &["retry"]));
        }
        for (name, server) in self.providers.iter().filter(|(_, server)| server.retry.first_wait.is_some()) {
            let retry = self.retry_of(name, &policy);
            if retry.first_ms > retry.cap_ms {
                let table = ["providers", name, "retry"];
                let longest = if server.retry.longest_wait.is_some() { &table[..] } else { &["retry"] };
                return Some(too_long(&table, &retry, longest));
            }
        }
        if let (Some(steps), Some(replies)) = (self.limits.max_steps, self.limits.max_replies)
            && replies < steps
        {
            let what =
                format_args!("is less than max_steps: of {steps} steps only {replies} could be made").to_string();
            return Some(Mistake::new(["limits", "max_replies"], what).against(["limits", "max_steps"]));
        }
        let tools = self.tool_limits();
        (tools.bash_default_ms > tools.bash_max_ms).then(|| {
            let most = seconds(tools.bash_max_ms);
            let what = format_args!("is longer than bash_timeout_cap, {most} seconds").to_string();
            Mistake::new(["tools", "bash_timeout"], what).against(["tools", "bash_timeout_cap"])
        })
    }
}

fn odd_options(table: &[String], options: &Options) -> Option<Mistake> {
    let key =
        |keys: &[&str]| -> KeyPath { table.iter().cloned().chain(keys.iter().map(|key| (*key).to_owned())).collect() };
    if let Some((name, what)) = options.mistake() {
        let mistake = Mistake::new(key(&[name]), format_args!("must be {what}"));
        return Some(if name == "thinking_budget" { mistake.against(key(&["effort"])) } else { mistake });
    }
    let (name, _) = options.headers.iter().find(|(name, value)| !is_header(name, value))?;
    Some(Mistake::new(key(&["headers", name]), "cannot be sent as a header, or its value cannot"))
}

fn too_long(table: &[&str], retry: &RetryPolicy, longest: &[&str]) -> Mistake {
    let key =
        |table: &[&str], key: &str| -> KeyPath { table.iter().chain([&key]).map(|key| (*key).to_owned()).collect() };
    let what = format!("is longer than longest_wait, {} seconds", seconds(retry.cap_ms));
    Mistake::new(key(table, "first_wait"), what).against(key(longest, "longest_wait"))
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}

/// Names that cover every tool of a kind.
const OF_KINDS: [&str; 3] = ["Read", "Edit", "net"];

/// What to say about a rule for a tool that Piton does not have: it may come from a server, and it may be misspelled.
pub(super) fn unknown_tool(rule: &str) -> Option<String> {
    let rule = read_rule(rule, Action::Ask).ok()?;
    let name = rule.tool.as_str();
    let specs = default_tools().specs();
    let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
    let is_ours = names.iter().any(|known| rule.names(known))
        || OF_KINDS.contains(&name)
        || is_known(name)
        || name.starts_with(server_tool::SAMPLING);
    let meant = did_you_mean(name, names.iter().copied());
    (!is_ours).then(|| format!("Piton has no tool `{name}` of its own ({}){meant}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::unknown_tool;

    #[test]
    fn a_rule_for_a_tool_that_a_session_may_have_is_no_mistake() {
        for rule in
            ["web_fetch", "web_search", "task(explore)", "exit_plan", "mcp__db__query", "Edit(src/**)", "bash(ls *)"]
        {
            assert_eq!(unknown_tool(rule), None, "{rule}");
        }
        assert!(unknown_tool("web_fetsch").unwrap().contains("Piton has no tool `web_fetsch`"));
    }
}
