//! Piton's hands: the tools a model can call, and the runner that carries out shell commands at most once.
//!
//! A tool is handed its input as JSON and a [`tool::ToolContext`], and answers with an outcome: bad input, a missing
//! file, a failing command are outcomes the model reads, never errors of the loop. Tools do not ask for permission and
//! know nothing of sessions. Modules in reading order.

pub mod tool;
mod input;
pub mod text;
pub mod ledger;
mod atomic;
mod change;
mod read;
mod write;
mod edit;
mod search;
mod grep;
mod glob;
mod bash;
pub mod runner;
