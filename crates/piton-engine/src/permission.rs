//! Permission rules as people write them: in a configuration, a flag, an agent's or a skill's file, the settings of another program.
//!
//! The core compares hosts letter by letter and knows no IDNA. Here the host of a rule gets the spelling by which the proxy and
//! the tools name the hosts that they reach ([`piton_http::egress::host::spelled`]). Rules that Piton wrote itself have it already.

use piton_core::permission::{Action, NotARule, Rule};
use piton_http::egress::host;

/// Reads a rule. `net(domain:bücher.example)` becomes `net(domain:xn--bcher-kva.example)`.
pub fn read_rule(text: &str, action: Action) -> Result<Rule, NotARule> {
    let spelled = with_spelled_host(text);
    Rule::parse(spelled.as_deref().unwrap_or(text), action).map_err(|_| NotARule(text.to_owned()))
}

/// The rule with its host in the one spelling; `None`: it is about no host.
fn with_spelled_host(text: &str) -> Option<String> {
    let (tool, pattern) = text.trim().strip_suffix(')')?.split_once('(')?;
    let host = pattern.trim().strip_prefix("domain:")?;
    Some(format!("{tool}(domain:{})", host::spelled(host.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_a_rule_has_one_spelling() {
        let read = |text: &str| read_rule(text, Action::Deny).map(|rule| rule.to_string());
        for (text, spelled) in [
            ("net(domain:Bücher.example)", "net(domain:xn--bcher-kva.example)"),
            ("net( domain:bu\u{308}cher.example. )", "net(domain:xn--bcher-kva.example)"),
            ("WebFetch(domain:*.bücher.example:8443)", "web_fetch(domain:*.xn--bcher-kva.example:8443)"),
            ("net(domain:xn--bcher-kva.example)", "net(domain:xn--bcher-kva.example)"),
            ("net(domain:*.example.org)", "net(domain:*.example.org)"),
            ("bash(curl domain:bücher.example)", "bash(curl domain:bücher.example)"),
            ("bash", "bash"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(spelled), "{text}");
        }
        for odd in ["net(domain:)", "net(domain:*.)", "net(domain:bücher example)", "net(bücher.example)"] {
            assert_eq!(read(odd), Err(NotARule(odd.to_owned())));
        }
    }
}
