//! The template of a command on its way to words: its pieces, and what the commands among them print.

use crate::commands::Expanded;
use crate::directed::Directed;
use crate::jobs::UserMessage;
use piton_core::call::{Outcome, Picture, Status};
use piton_core::ids::CallId;
use piton_core::message::Part;
use piton_core::shell::TemplateCommand;
use piton_core::subtask::TOLD;
use piton_core::template::Piece;

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
        let mut filling = Self { pieces, pictures, allows, directed, printed: Vec::new(), runs: None };
        let (mut printed, mut runs) = (Vec::new(), None);
        for (_, ran) in filling.commands().zip(ran).take_while(|(code, ran)| *code == ran.command) {
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
        if self.runs.is_some() {
            return Want::Wait;
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
