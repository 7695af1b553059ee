//! The pure core of Piton: the vocabulary, the events of a session, and the machine that folds them.
//!
//! Nothing here reads a file, a clock, the environment or the network, and nothing is async: time, randomness and the
//! results of I/O come in as data. This makes it possible to replay and resume sessions, and to test them by the hundred
//! thousand. Do not add I/O here.
//!
//! Modules in reading order.

pub mod ids;
pub mod usage;
pub mod message;
pub mod call;
pub mod server_tool;
pub mod model;
pub mod effort;
pub mod ending;
pub mod hook;
pub mod prompt;
pub mod limits;
pub mod budget;
pub mod retry;
pub mod progress;
pub mod permission;
pub mod configure;
pub mod truncate;
pub mod compact;
pub mod policy;
pub mod preset;
pub mod todo;
pub mod skill;
pub mod inquiry;
pub mod question;
pub mod secrets;
pub mod event;
pub mod task;
pub mod shell;
pub mod subtask;
pub mod turn;
pub mod branch;
pub mod changes;
pub mod client;
pub mod request;
pub mod reference;
pub mod imports;
pub mod hidden;
pub mod words;
pub mod oneline;
pub mod template;
pub mod cache;
pub mod story;
pub mod stream_json;
pub mod trace;
pub mod tokens;
pub mod tool_fields;
