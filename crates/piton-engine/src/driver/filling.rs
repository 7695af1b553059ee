//! The template of a command on its way to words: its pieces, and what the commands among them print.

use crate::commands::Expanded;
use crate::directed::Directed;
use crate::jobs::UserMessage;
use piton_core::call::{Outcome, Picture, Status};
use piton_core::event::Event;
use piton_core::hook::HookVerdict;
use piton_core::ids::CallId;
use piton_core::message::Part;
use piton_core::shell::TemplateCommand;
use piton_core::subtask::TOLD;
use piton_core::template::Piece;
use serde_json::Value;

/// A template on its way to words.
pub(super) struct Filling {
    pieces: Vec<Piece>,
    pictures: Vec<Picture>,
    allows: Vec<String>,
    directed: Directed,
    /// What the commands among them have printed, in order.
    printed: Vec<Outcome>,
    /// The one that runs.
    runs: Option<CallId>,
    /// The next one, where hooks are asked about it.
    seen: Option<Seen>,
    /// Why a hook will have none of it.
    stopped: Option<String>,
}

/// What hooks say of a command before it runs.
struct Seen {
    call: CallId,
    /// The command as they leave it, or why it is not run; `None` while they look at it.
    said: Option<Result<String, String>>,
}

/// What a template wants next.
pub(super) enum Want {
    /// To wait: something runs for it.
    Wait,
    /// That this is run.
    Run(String),
    /// Nothing more: it is done.
    Say,
    /// Not to be said, for this reason.
    Refuse(String),
}

impl Filling {
    /// `ran`: what an earlier process, or an earlier try, has begun to run for the same message. It is not run again.
    pub(super) fn new<'r>(
        expanded: Expanded,
        directed: Directed,
        ran: impl IntoIterator<Item = &'r TemplateCommand>,
    ) -> Self {
        let Expanded { pieces, pictures, allows, directions: _, file: _ } = expanded;
        let (printed, stopped) = (Vec::new(), None);
        let mut filling = Self { pieces, pictures, allows, directed, printed, runs: None, seen: None, stopped };
        let (mut printed, mut runs) = (Vec::new(), None);
        let is_its = |(code, ran): &(&str, &TemplateCommand)| ran.is_changed || *code == ran.command;
        for (_, ran) in filling.commands().zip(ran).take_while(is_its) {
            match &ran.outcome {
                Some(outcome) => printed.push(outcome.clone()),
                None => runs = Some(ran.call.clone()),
            }
        }
        (filling.printed, filling.runs) = (printed, runs);
        filling
    }

    pub(super) fn want(&self) -> Want {
        if let Some(stopped) = self.printed.last().filter(|outcome| outcome.status == Status::Cancelled) {
            return Want::Refuse(format!("a command of its template was stopped: {}", stopped.text.trim()));
        }
        if self.runs.is_some() || self.is_seen_by_hooks() {
            return Want::Wait;
        }
        if let Some(reason) = &self.stopped {
            return Want::Refuse(format!("a hook stopped it: {reason}"));
        }
        self.commands().nth(self.printed.len()).map_or(Want::Say, |code| Want::Run(code.to_owned()))
    }

    /// What its template runs.
    pub(super) fn commands(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Shell(code) => Some(code.as_str()),
            Piece::Text(_) | Piece::Given(_) => None,
        })
    }

    /// All of it, and what of it is the template's own.
    fn words(&self) -> (String, String) {
        let (mut all, mut own, mut printed) = (String::new(), String::new(), self.printed.iter());
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => {
                    all.push_str(text);
                    own.push_str(text);
                }
                Piece::Given(text) => {
                    all.push_str(text);
                    own.push('\n');
                }
                Piece::Shell(_) => {
                    all.push_str(printed.next().map_or("", |outcome| outcome.text.trim_end()));
                    own.push('\n');
                }
            }
        }
        (all, own)
    }

    /// Hooks look at its next command, which shall have this id.
    pub(super) fn show(&mut self, call: CallId) {
        self.seen = Some(Seen { call, said: None });
    }

    /// Whether hooks look at its next command.
    pub(super) fn is_seen_by_hooks(&self) -> bool {
        self.seen.as_ref().is_some_and(|seen| seen.said.is_none())
    }

    /// Takes notice of what hooks have done with its next command.
    pub(super) fn hooks_ran(&mut self, events: &[Event]) {
        let code = self.commands().nth(self.printed.len()).unwrap_or_default().to_owned();
        let said = events.iter().find_map(|event| match event {
            Event::HooksRan { verdict, input, .. } => Some(said_of(code.clone(), verdict.as_ref(), input.as_ref())),
            _ => None,
        });
        let said =
            said.unwrap_or_else(|| Err("The command was not run: its hooks panicked; this is a bug.".to_owned()));
        if let Some(seen) = &mut self.seen {
            seen.said = Some(said);
        }
    }

    /// What hooks have said of its next command, if that has this id.
    pub(super) fn take_said(&mut self, next: &CallId) -> Option<Result<String, String>> {
        self.seen.take().filter(|seen| seen.call == *next)?.said
    }

    /// Takes notice of why a hook stops what it was asked about, where that is one of its commands.
    pub(super) fn stop(&mut self, call: &CallId, reason: &str) {
        let seen = self.seen.as_ref().map(|seen| &seen.call);
        if self.runs.as_ref().or(seen) == Some(call) {
            self.stopped = Some(reason.to_owned());
        }
    }

    /// Whether something runs for it.
    pub(super) fn is_running(&self) -> bool {
        self.runs.is_some()
    }

    /// Takes note that this runs for it.
    pub(super) fn runs(&mut self, call: CallId) {
        self.runs = Some(call);
    }

    /// Takes notice of what came of a call, where it is the one that runs.
    pub(super) fn ran(&mut self, call: &CallId, outcome: &Outcome) {
        if self.runs.take_if(|runs| runs == call).is_some() {
            self.printed.push(outcome.clone());
        }
    }

    /// The words and pictures take the place of the command.
    pub(super) fn fill(self, message: &mut UserMessage) {
        let (mut all, own) = self.words();
        let Directed { for_turn, mut subtask } = self.directed;
        if let Some(subtask) = &mut subtask {
            subtask.prompt = std::mem::replace(&mut all, TOLD.to_owned());
            // What was piped in beside words to an agent is for it.
            let by_name = subtask.by_name;
            let is_for_agent = move |part: &mut Part| by_name && matches!(part, Part::Text { .. });
            for part in message.parts.extract_if(.., is_for_agent) {
                if let Part::Text { text, .. } = part {
                    subtask.prompt.push_str(text.as_str());
                }
            }
        }
        let picture = |Picture { media_type, data }| Part::Image { media_type, data };
        let made: Vec<Part> = std::iter::once(Part::text(all)).chain(self.pictures.into_iter().map(picture)).collect();
        if let Some(called) = &mut message.called {
            (called.text, called.made) = (Some(own), made.len());
            called.allows = self.allows;
            (called.for_turn, called.subtask) = (for_turn, subtask);
        }
        message.parts.splice(0..0, made);
    }
}

/// A command as hooks leave it, or why it is not run. Nobody is asked about a template.
fn said_of(code: String, verdict: Option<&HookVerdict>, input: Option<&Value>) -> Result<String, String> {
    match (verdict, input) {
        (Some(HookVerdict::Refuse(reason)), _) => {
            Err(format!("The command was not run: a hook refused it. {reason}").trim_end().to_owned())
        }
        (Some(HookVerdict::Ask(reason)), _) => {
            let why = "a hook wants a person to be asked, and nothing is asked about a template";
            Err(format!("The command was not run: {why}. {reason}").trim_end().to_owned())
        }
        (Some(HookVerdict::Allow) | None, None) => Ok(code),
        (Some(HookVerdict::Allow) | None, Some(input)) => match input["command"].as_str() {
            Some(command) => Ok(command.to_owned()),
            None => Err("The command was not run: a hook changed it into something without a command.".to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::Called;
    use piton_core::event::Delivery;
    use piton_core::ids::MessageId;

    #[test]
    fn what_a_command_makes_of_a_message_is_not_what_was_said() {
        let called = Called::new("mcp__db__greet".into(), "Ann".into());
        let mut message = UserMessage {
            id: MessageId::from("msg_1"),
            parts: vec![Part::note("beside")],
            delivery: Delivery::FollowUp,
            refers: true,
            called: Some(Box::new(called)),
            replaces: None,
        };
        let picture = Picture { media_type: "image/png".into(), data: "AA==".into() };
        let expanded = Expanded { pictures: vec![picture], ..Expanded::of(vec![Piece::Given("Hello Ann".into())]) };
        Filling::new(expanded, Directed::default(), []).fill(&mut message);
        let image = Part::Image { media_type: "image/png".into(), data: "AA==".into() };
        assert_eq!(message.parts, [Part::text("Hello Ann"), image, Part::note("beside")]);
        assert_eq!(message.as_said(), [Part::text("/mcp__db__greet Ann"), Part::note("beside")]);
    }
}
