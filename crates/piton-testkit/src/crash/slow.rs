//! Real processes and real kills.
