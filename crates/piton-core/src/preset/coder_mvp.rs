//! The reform plan of Pulse Coder's loop (document S2): the same kernel, with fewer steps and a plain end where a reply is
//! cut.

use super::{Preset, set};
use crate::policy::OnLength;
use crate::progress::{Compare, NoProgress, Stuck};

/// `options.maxSteps` where the caller says nothing, in model replies a turn.
const MAX_STEPS: u32 = 25;
/// `DOOM_LOOP_THRESHOLD`, in identical calls in a row over the whole turn.
const DOOM_LOOP_THRESHOLD: u32 = 3;

pub(super) const PRESET: Preset = Preset {
    name: "coder-mvp",
    about: "the plan to reform that kernel: 25 steps, and a cut reply is the answer",
    based_on: Some("pulse"),
    settings: || {
        vec![
            set("max_steps", MAX_STEPS, "S2-003 S2-004 C-21"),
            set(
                "no_progress",
                NoProgress { repeats: DOOM_LOOP_THRESHOLD, compare: Compare::Input, then: Stuck::End },
                "S2-040 S2-041 C-20",
            ),
            set("on_length", OnLength::End, "S2-018 C-16"),
        ]
    },
};
