//! Piton's MCP client. It implements `piton_tools::servers::Servers` for the servers that a configuration names.
//!
//! It knows transports, both eras of the protocol, authorization and what servers get wrong; it knows no session, no rule and no
//! person. It starts processes only by `piton_tools::spawn`, and reads no environment. Modules in reading order.

pub mod entry;
