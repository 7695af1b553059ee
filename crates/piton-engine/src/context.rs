//! What the model receives besides the conversation: the system prompt; before the first message, its environment and the
//! instructions in force; after a message, the files it refers to; and reminders during the work.
//!
//! ```text
//!   system prompt, tools             the same bytes for the whole session
//!   first message                    [environment] [instructions] what the user said [files]
//!   …
//!   before a step, where due         [instructions of a folder that was touched] [files that changed] [budget] [servers that changed]
//! ```
//!
//! All of it is appended and recorded with the event that carries it ([`piton_core::event::Event::ContextGiven`] says
//! what it was): nothing is read a second time when a session is resumed, and nothing that was sent ever changes.

mod environment;
mod files;
mod instructions;
mod notes;
mod references;
mod resources;
mod rules;
mod entries;
mod servers;
mod sessions;
mod system;

pub use self::entries::EntriesChanged;
pub(crate) use self::entries::EntryNotes;
pub use self::environment::environment_note;
pub use self::instructions::{Instructions, NAMES, Piece, instructions_note};
pub(crate) use self::notes::{Notes, remember_files, remember_given};
pub use self::references::{References, Resolved};
pub(crate) use self::servers::{ServerNotes, servers_now};
pub use self::system::{SYSTEM_PROMPT, SYSTEM_PROMPT_VERSION, system_prompt};
