//! `--format stream-json`: what programs read of a session, a line each. A projection of what is published and a contract of
//! its own: what is internal may change, these lines keep their fields. `docs/stream-json.md` is their reference.
//!
//! Another face with lines of its own is another file like this one.

use crate::call::Effects;
use crate::client::{Mark, Of, Published, ServerNow};
use crate::event::{Configure, Event, Record};
use crate::ids::SessionId;
use crate::limits::OPENED_NAMES;
use serde::Serialize;
use serde_json::{Value, json};

/// The version of these lines. It rises when a program that knows an older one could misread a newer one.
pub const VERSION: u32 = 1;

/// The first line: which version of the lines follows, and who writes them.
pub fn hello(piton: &str) -> Value {
    json!({"type": "hello", "stream": VERSION, "piton": piton})
}

/// What is in force in a session when it is opened, by its names: in order, without what is not trusted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Offer {
    /// Agents, for sessions and for calls.
    pub agents: Vec<String>,
    /// Skills.
    pub skills: Vec<String>,
    /// Slash commands in files.
    pub commands: Vec<String>,
}

/// The line with which a session is opened here: which it is, the agent that runs it, what it offers and, where there are any, its
/// MCP servers. Names beyond [`OPENED_NAMES`] are counted.
pub fn opened(session: &SessionId, agent: &str, servers: &[ServerNow], offer: &Offer) -> Value {
    let mut line = json!({"type": "opened", "session": session, "agent": agent});
    for (kind, names) in [("agents", &offer.agents), ("skills", &offer.skills), ("commands", &offer.commands)] {
        let (listed, more) = names.split_at(names.len().min(OPENED_NAMES));
        line[kind] = json!(listed);
        if !more.is_empty() {
            line["more"][kind] = json!(more.len());
        }
    }
    if !servers.is_empty() {
        line["servers"] = json!(servers);
    }
    line
}

/// The line behind that of a record, for programs that do not look into every change of how a session is run.
pub fn beside(published: &Published) -> Option<Value> {
    let Published::Recorded(record) = published else { return None };
    match &record.event {
        Event::SettingsChanged { changed: Configure { agent: Some(agent), .. }, .. } => {
            Some(json!({"type": "agent_changed", "agent": agent}))
        }
        _ => None,
    }
}

/// The line for something that is published, if there is one.
pub fn line(published: &Published) -> Option<String> {
    match published {
        Published::Recorded(record) => Some(record_line(record)),
        // Our own types always are JSON.
        Published::Live(live) => serde_json::to_string(&**live).ok(),
        // What records and fragments tell in the end.
        Published::Now(_) | Published::CaughtUp | Published::Missed { .. } | Published::Closed(_) => None,
        Published::Wanted(_) | Published::Withdrawn(_) => serde_json::to_string(&Mark::of(published)).ok(),
    }
}

/// The same of a subagent, with whose it is: records and fragments alone.
pub fn line_of(of: &Of, published: &Published) -> Option<String> {
    match published {
        Published::Recorded(_) | Published::Live(_) => of.on(&line(published)?),
        _ => None,
    }
}

/// The line of a record.
pub fn record_line(record: &Record) -> String {
    let line = match &record.event {
        Event::CallRequested { effects, .. } => serde_json::to_string(&Requested { record, class: class(*effects) }),
        _ => serde_json::to_string(record),
    };
    // Our own types always are JSON.
    line.unwrap_or_default()
}

/// A requested call, with the one word for its effects that version 1 began with.
#[derive(Serialize)]
struct Requested<'r> {
    #[serde(flatten)]
    record: &'r Record,
    class: &'static str,
}

fn class(effects: Effects) -> &'static str {
    match effects {
        Effects::READ => "read",
        Effects::WRITE => "write",
        _ => "opaque",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Live;
    use crate::event::{ChangedBy, Verdict};
    use expect_test::expect;
    use std::sync::Arc;

    #[test]
    fn the_lines_keep_the_fields_that_programs_know() {
        let event = Event::requested("c1_0".into(), Effects::WRITE, Verdict::Allow);
        let recorded = Published::Recorded(Arc::new(Record { seq: 7, at_ms: 70, event }));
        let live = Published::Live(Arc::new(Live::Paused { paused: true }));
        let changed = Configure { agent: Some("plan".into()), ..Configure::default() };
        let changed = Event::SettingsChanged { changed, by: ChangedBy::User, at_once: false };
        let changed = Published::Recorded(Arc::new(Record { seq: 8, at_ms: 80, event: changed }));
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let offer = Offer { agents: names(&["build", "plan"]), skills: names(&["pdf"]), commands: names(&[]) };
        let said = [hello("0.1.0"), opened(&"ses_1".into(), "build", &[], &offer)].map(|line| Some(line.to_string()));
        let told = [line(&recorded), line(&live), line(&changed), beside(&changed).map(|line| line.to_string())];
        assert_eq!(beside(&recorded), None);
        let lines: Vec<String> = said.into_iter().chain(told).flatten().collect();
        expect![[r#"
            {"type":"hello","stream":1,"piton":"0.1.0"}
            {"type":"opened","session":"ses_1","agent":"build","agents":["build","plan"],"skills":["pdf"],"commands":[]}
            {"seq":7,"at_ms":70,"type":"call_requested","call":"c1_0","author":"model","effects":{"resume":"verify","beside":"alone","touches":"workspace"},"verdict":"allow","class":"write"}
            {"type":"paused","paused":true}
            {"seq":8,"at_ms":80,"type":"settings_changed","changed":{"agent":"plan"},"by":"user"}
            {"type":"agent_changed","agent":"plan"}"#]].assert_eq(&lines.join("\n"));
    }

    #[test]
    fn the_line_of_an_opened_session_counts_what_it_does_not_list() {
        let skills: Vec<String> = (0..OPENED_NAMES + 3).map(|at| format!("skill-{at:03}")).collect();
        let line = opened(&"ses_1".into(), "build", &[], &Offer { skills, ..Offer::default() });
        assert_eq!(line["skills"].as_array().map(Vec::len), Some(OPENED_NAMES));
        assert_eq!((&line["skills"][0], &line["more"]), (&json!("skill-000"), &json!({"skills": 3})));
    }
}
