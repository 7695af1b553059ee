//! What happened in a session in the order in which people read it: each call with its outcome, each turn with its end.
//! Told from the events and not from the transcript, since that forgets what was compacted. Turns that were taken back
//! are not told, only that they were.

use piton_core::branch::Path;
use piton_core::call::{CallInput, Outcome};
use piton_core::event::{Direction, Event, Record, Rewind, Spent, TitledBy, Touched, TurnEnd};
use piton_core::ids::{CallId, SessionId, TimeMs};
use piton_core::message::{Part, ToolCall};
use piton_core::turn::State;
use std::collections::HashMap;

/// A session to be told.
#[derive(Debug)]
pub struct Story<'r> {
    /// The session's id.
    pub id: SessionId,
    /// Its title; empty where nothing was said yet.
    pub title: String,
    /// The folder it works in.
    pub workspace: String,
    /// `provider/model` of its newest turn; may be empty.
    pub model: String,
    /// When it began.
    pub started_ms: TimeMs,
    /// What it cost in millionths of a US dollar, where that is known.
    pub cost_micros: Option<u64>,
    /// Turns so far.
    pub turns: u32,
    /// Steps so far.
    pub steps: u32,
    /// Whether nothing is under way.
    pub is_at_rest: bool,
    /// What happened.
    pub entries: Vec<Entry<'r>>,
}

/// Something that happened.
#[derive(Debug)]
pub enum Entry<'r> {
    /// The user said something.
    Said {
        /// When.
        at_ms: TimeMs,
        /// What.
        text: String,
        /// How many images came with it.
        images: usize,
    },
    /// Piton told the model something.
    Noted {
        /// What.
        text: &'r str,
    },
    /// The model thought aloud.
    Thought {
        /// What.
        text: &'r str,
    },
    /// The model said something.
    Answered {
        /// When.
        at_ms: TimeMs,
        /// What.
        text: &'r str,
        /// How it came out.
        state: AnswerState,
    },
    /// The model called a tool.
    Called {
        /// The call.
        call: &'r ToolCall,
        /// What came of it; `None` where that is not on record.
        outcome: Option<&'r Outcome>,
    },
    /// The model gave no reply.
    Failed {
        /// Why.
        why: &'r str,
    },
    /// Older messages were represented by a summary from here on.
    Compacted {
        /// That summary.
        summary: &'r str,
    },
    /// Old outputs were taken out of what the model reads.
    Pruned {
        /// How many.
        calls: usize,
    },
    /// The session went on in another folder.
    Moved {
        /// That folder.
        workspace: &'r str,
    },
    /// Turns were taken back, or brought back.
    Rewound {
        /// What was done.
        rewind: &'r Rewind,
    },
    /// Turns should have been taken back, or brought back, and it was given up half-way.
    NotRewound {
        /// What should have been done.
        rewind: &'r Rewind,
        /// What was in the way.
        error: &'r str,
        /// The files in question.
        touches: &'r Touched,
    },
    /// Events that could not be read when the session was repaired.
    Lost {
        /// How many.
        events: usize,
    },
    /// A turn ended.
    TurnEnded {
        /// Why.
        end: TurnEnd,
        /// More words about why.
        detail: Option<&'r str>,
        /// What it used.
        spent: &'r Spent,
    },
}

/// How an answer came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerState {
    /// To its end.
    Whole,
    /// Cut off, and kept.
    Cut,
    /// The attempt failed: the model never sees it again.
    Abandoned,
}

impl<'r> Story<'r> {
    /// Tells the story of these events; the title is the one in the list.
    pub fn of(records: &'r [Record], title: &str) -> Self {
        let session = State::fold(records);
        let mut outcomes = HashMap::new();
        for record in records {
            if let Event::CallSettled { call, outcome } = &record.event {
                outcomes.insert(call, outcome);
            }
        }
        let mut story = Self {
            id: session.id().clone(),
            title: title.to_owned(),
            workspace: session.workspace().to_owned(),
            model: session.model().to_owned(),
            started_ms: records.first().map_or(0, |record| record.at_ms),
            cost_micros: None,
            turns: session.turn(),
            steps: session.step(),
            is_at_rest: session.is_at_rest(),
            entries: Vec::new(),
        };
        let path = Path::of(records);
        for record in records {
            story.pay(&record.event);
            if path.contains(record.seq) || matches!(record.event, Event::WorkspaceMoved { .. }) {
                story.tell(record, &outcomes);
            }
        }
        story
    }

    /// What was taken back was paid for all the same.
    fn pay(&mut self, event: &Event) {
        let cost = match event {
            Event::MessageFinished { cost_micros, .. }
            | Event::ModelFailed { cost_micros, .. }
            | Event::TitleGiven { by: TitledBy::Model { cost_micros, .. }, .. } => *cost_micros,
            Event::CompactionFinished { asked: Some(asked), .. }
            | Event::CompactionFailed { asked: Some(asked), .. } => asked.cost_micros,
            _ => None,
        };
        if let Some(cost) = cost {
            *self.cost_micros.get_or_insert(0) += cost;
        }
    }

    fn tell(&mut self, record: &'r Record, outcomes: &HashMap<&'r CallId, &'r Outcome>) {
        let at_ms = record.at_ms;
        match &record.event {
            Event::UserSpoke { parts, .. } => self.speech(at_ms, parts),
            Event::StepStarted { note: Some(text), .. } => self.entries.push(Entry::Noted { text }),
            Event::MessageFinished { reply, .. } => self.reply(at_ms, &reply.parts, AnswerState::Whole, outcomes),
            Event::MessageCut { parts, .. } => self.reply(at_ms, parts, AnswerState::Cut, outcomes),
            Event::ModelFailed { error, abandoned, .. } => {
                let said = abandoned.iter().filter(|part| matches!(part, Part::Text { .. }));
                for part in said {
                    self.reply(at_ms, std::slice::from_ref(part), AnswerState::Abandoned, outcomes);
                }
                self.entries.push(Entry::Failed { why: &error.message });
            }
            Event::CompactionFinished { summary, .. } => self.entries.push(Entry::Compacted { summary }),
            Event::ContextPruned { calls, .. } => self.entries.push(Entry::Pruned { calls: calls.len() }),
            Event::RewindFinished { rewind, .. } => self.rewound(rewind),
            Event::RewindAbandoned { rewind, error, touches } => {
                self.entries.push(Entry::NotRewound { rewind, error, touches });
            }
            Event::WorkspaceMoved { workspace } => self.entries.push(Entry::Moved { workspace }),
            Event::EventLost {} => match self.entries.last_mut() {
                Some(Entry::Lost { events }) => *events += 1,
                _ => self.entries.push(Entry::Lost { events: 1 }),
            },
            Event::TurnEnded { end, detail, spent, .. } => {
                self.entries.push(Entry::TurnEnded { end: *end, detail: detail.as_deref(), spent });
            }
            _ => {}
        }
    }

    fn rewound(&mut self, rewind: &'r Rewind) {
        let is_moved = rewind.to.is_some();
        // The words that the turn had answered lie before it, and were taken back with it.
        while is_moved && matches!(self.entries.last(), Some(Entry::Said { .. } | Entry::Noted { .. })) {
            self.entries.pop();
        }
        // A conversation that was brought back is told as if nothing had happened.
        if rewind.direction == Direction::Undo || !is_moved {
            self.entries.push(Entry::Rewound { rewind });
        }
    }

    fn speech(&mut self, at_ms: TimeMs, parts: &'r [Part]) {
        for part in parts {
            if let Part::Note { text, .. } = part {
                self.entries.push(Entry::Noted { text });
            }
        }
        let images = parts.iter().filter(|part| matches!(part, Part::Image { .. })).count();
        let text = piton_core::message::prose(parts);
        self.entries.push(Entry::Said { at_ms, text, images });
    }

    fn reply(
        &mut self,
        at_ms: TimeMs,
        parts: &'r [Part],
        state: AnswerState,
        outcomes: &HashMap<&'r CallId, &'r Outcome>,
    ) {
        for part in parts {
            match part {
                Part::Text { text, .. } if text.trim().is_empty() => {}
                Part::Text { text, .. } => self.entries.push(Entry::Answered { at_ms, text, state }),
                Part::Reasoning { text, .. } if text.trim().is_empty() => {}
                Part::Reasoning { text, .. } => self.entries.push(Entry::Thought { text }),
                Part::ToolCall(call) => {
                    let outcome = outcomes.get(&call.id).copied();
                    self.entries.push(Entry::Called { call, outcome });
                }
                Part::ToolResult { .. } | Part::Note { .. } | Part::Image { .. } => {}
            }
        }
    }
}

/// What a rewind did, in words.
pub fn rewound(rewind: &Rewind) -> String {
    let done = match rewind.direction {
        Direction::Undo => "taken back",
        Direction::Redo => "brought back",
    };
    match (rewind.to.is_some(), rewind.turns) {
        (true, 1) => format!("the last turn was {done}"),
        (true, turns) => format!("the last {turns} turns were {done}"),
        (false, 1) => format!("the changes to files of the last turn were {done}"),
        (false, turns) => format!("the changes to files of the last {turns} turns were {done}"),
    }
}

/// What became of a rewind that was given up half-way, in words.
pub fn not_rewound(rewind: &Rewind, error: &str, touches: &Touched) -> String {
    let (what, done) = match rewind.direction {
        Direction::Undo => ("an undo", "taken back"),
        Direction::Redo => ("a redo", "brought back"),
    };
    let turns = if rewind.turns == 1 { "turn".to_owned() } else { format!("{} turns", rewind.turns) };
    let more = if touches.more == 0 { String::new() } else { format!(" and {} more", touches.more) };
    let files = match touches.is_empty() {
        true => "The files that it was to change".to_owned(),
        false => format!("These files ({}{more})", touches.paths.join(", ")),
    };
    format!(
        "{what} of the last {turns} was cut off and could not be finished: {error}. The conversation stays. {files} may \
         be half {done}, each as it was before or as it should be"
    )
}

/// What a call is about: the command, the path, the pattern, or all of its input.
pub fn telling(call: &ToolCall) -> String {
    let CallInput::Json(input) = &call.input else { return "(broken arguments)".to_owned() };
    let names = ["command", "path", "filePath", "file_path", "pattern"];
    names.iter().find_map(|name| input.get(name)?.as_str()).map_or_else(|| input.to_string(), str::to_owned)
}

/// A call's outcome in one word, as in the journal.
pub fn status(outcome: Option<&Outcome>) -> String {
    let word = outcome.and_then(|outcome| serde_json::to_value(outcome.status).ok());
    word.as_ref().and_then(|word| word.as_str()).unwrap_or("unknown").to_owned()
}
