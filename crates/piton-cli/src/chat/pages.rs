//! What other commands print, as pages: `/cost` is `piton session cost`.

use super::Chat;
use crate::cli::Cli;
use crate::commands::cost;
use crate::out::{print, view};
use crate::pictures::{self, ContextTable, Look};
use clap::Parser;
use piton_core::story::Story;
use piton_tools::servers::ServerState;
use piton_tui::face::Input;

/// A page that a command of Piton prints.
struct Page {
    name: &'static str,
    title: &'static str,
    /// The command; `ID` stands for the session.
    argv: &'static [&'static str],
    opens: Opens,
}

/// Which part of a page is shown first.
#[derive(PartialEq)]
enum Opens {
    AtTop,
    AtEnd,
}

const PAGES: [Page; 10] = [
    page("context", "what the model is sent before your words", &["context"]),
    page("cost", "Cost", &["session", "cost", "ID"]),
    page("trace", "what happened when", &["session", "trace", "ID"]),
    Page { opens: Opens::AtEnd, ..page("transcript", "the whole session", &["session", "show", "ID", "--full"]) },
    page("tasks", "commands in the background", &["session", "processes", "ID"]),
    page("agents", "subagents", &["session", "agents", "ID"]),
    page("permissions", "What you allowed with \"always\"", &["permission", "list"]),
    page("skills", "the skills, and where each comes from", &["skill"]),
    page("doctor", "this machine", &["doctor"]),
    page("mcp", "MCP servers", &["mcp", "list"]),
];

const fn page(name: &'static str, title: &'static str, argv: &'static [&'static str]) -> Page {
    Page { name, title, argv, opens: Opens::AtTop }
}

impl Chat<'_> {
    /// Shows a page, if there is one of that name.
    pub(super) async fn page(&mut self, name: &str, words: &str) -> bool {
        if matches!(name, "context" | "cache" | "cost" | "trace") && self.open.is_some() {
            let is_plain = self.is_heard || words.contains("plain");
            self.picture(name, if is_plain { Look::Plain } else { Look::Drawn }).await;
            return true;
        }
        if name == "cache" {
            self.note("there is no session yet: it begins with your first words");
            return true;
        }
        let Some(Page { title, argv, opens, .. }) = PAGES.iter().find(|page| page.name == name) else { return false };
        let id = self.place.resumed().map(ToString::to_string);
        if argv.contains(&"ID") && id.is_none() {
            self.note("there is no session yet: it begins with your first words");
            return true;
        }
        let id = id.unwrap_or_default();
        let argv: Vec<&str> = argv.iter().map(|word| if *word == "ID" { id.as_str() } else { *word }).collect();
        let mut text = self.printed(&argv).await;
        if name == "mcp" {
            text = self.servers_now() + &text;
        }
        self.terminal.tell(Input::Page { title: (*title).to_owned(), text, at_end: *opens == Opens::AtEnd });
        true
    }

    /// The servers of the session, each with what it is doing and how to mend it.
    fn servers_now(&self) -> String {
        let Some(servers) = &self.servers else { return String::new() };
        let mut text = "In this session:\n".to_owned();
        for server in servers.servers() {
            let state = match &server.state {
                ServerState::Known => "starts with your first words".to_owned(),
                ServerState::Starting => "is starting".to_owned(),
                ServerState::Ready => "is ready".to_owned(),
                ServerState::Failed { why, retry_in_s } => {
                    let again = retry_in_s.map(|seconds| format!("; tried again in {seconds} s"));
                    let again = again.unwrap_or_else(|| "; tried again when it is used, after a minute".to_owned());
                    format!("cannot be used: {why}{again}")
                }
                ServerState::NeedsLogin => format!("wants you to log in: piton mcp login {}", server.name),
            };
            let tools = view::plural(server.tools.len() as u64, "tool");
            text.push_str(&format!("{:<20} {} ({tools})\n", server.name, view::clean(&state)));
            for problem in server.problems.iter() {
                text.push_str(&format!("    {}\n", view::clean(problem)));
            }
            for prompt in server.prompts.iter() {
                text.push_str(&format!("    /mcp__{}__{}\n", server.name, view::clean(&prompt.name)));
            }
        }
        text + "\nConfigured:\n"
    }

    /// Shows what the session came to as a picture, or as a table.
    async fn picture(&mut self, name: &str, look: Look) {
        let Some(open) = &self.open else { return };
        let records = match open.session.records().await {
            Ok(records) => records,
            Err(error) => return self.warn(error.to_string()),
        };
        let id = open.session.id().clone();
        let story = || Story::of(&records);
        let (title, text) = match name {
            "context" => {
                let table = ContextTable::of(&records, &self.facts.model, self.facts.window, self.frame);
                ("Context", table.words(look))
            }
            "cache" => ("what the provider's cache did", pictures::cache(&story(), look)),
            "trace" => {
                let steps = self.printed(&["session", "trace", id.as_str()]).await;
                ("what happened when", format!("{}\n{steps}", pictures::lanes(&story(), look)))
            }
            _ if look == Look::Plain => ("Cost", self.printed(&["session", "cost", id.as_str()]).await),
            _ => {
                let (story, days) = (story(), cost::folder_days(self.engine, self.folder()));
                let picture = pictures::cost(&story, self.facts.budget_micros, &days);
                ("Cost", picture + &cost::table(&id, &story))
            }
        };
        self.terminal.tell(Input::Page { title: title.to_owned(), text, at_end: false });
    }

    /// What a command of Piton prints.
    pub(super) async fn printed(&self, argv: &[&str]) -> String {
        self.show_printed();
        let words = std::iter::once("piton").chain(argv.iter().copied());
        match Cli::try_parse_from(words) {
            Ok(cli) => {
                // What it printed says how it went.
                let _ = Box::pin(crate::obey(cli.command, self.around)).await;
            }
            Err(error) => return error.to_string(),
        }
        print::diverted().join("\n")
    }
}
