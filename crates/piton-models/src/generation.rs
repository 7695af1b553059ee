//! What a model's name tells of what may be asked of it: each generation of a maker's models refuses other words.
//!
//! This is the one place where names are looked at for that. The catalogue does not say it well enough: of new models it
//! does not know whether they think, and of some it says so that refuse to be asked.

use crate::effort::Effort;

/// How one of Anthropic's models is told to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claude {
    /// Up to 3.5: not at all.
    Plain,
    /// 3.7 to 4.5, and whatever else speaks Messages: a number of tokens.
    Counting,
    /// 4.6: by itself, with an effort; a number is still taken.
    Adaptive,
    /// From 4.7 on: by itself, with an effort; neither a number nor a temperature is taken.
    OnlyAdaptive,
}

impl Claude {
    pub(crate) fn of(model: &str) -> Self {
        let Some((_, name)) = model.split_once("claude-") else { return Self::Counting };
        let mut numbers = name.split(['-', '.', '@', ':']).filter_map(|word| word.parse::<u32>().ok());
        // A date is no version.
        let mut version = || numbers.next().filter(|number| *number < 100).unwrap_or_default();
        match (version(), version()) {
            (0..=2, _) | (3, 0..=6) => Self::Plain,
            (3, _) | (4, 0..=5) => Self::Counting,
            (4, 6) => Self::Adaptive,
            _ => Self::OnlyAdaptive,
        }
    }
}

/// What may be asked of one of Google's models, and what must be said to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Gemini {
    /// Refuses to be asked for thoughts.
    Plain,
    /// 2.5: may be asked for its thoughts, and for so many tokens of them.
    Counting,
    /// 3 and later: thinks by degrees, and refuses calls in its own past that have no signature.
    Graded,
}

impl Gemini {
    pub(crate) fn of(model: &str) -> Self {
        let name = bare(model);
        let version = name.strip_prefix("gemini-").unwrap_or_default();
        let is_special = ["image", "tts", "audio", "live", "embedding"].iter().any(|word| name.contains(word));
        match version.as_bytes() {
            _ if is_special => Self::Plain,
            [b'2', b'.', b'5', ..] => Self::Counting,
            [b'3'..=b'9', ..] => Self::Graded,
            // `gemini-flash-latest` and its kin.
            _ if version.ends_with("-latest") && !version.starts_with(|first: char| first.is_ascii_digit()) => {
                Self::Graded
            }
            _ => Self::Plain,
        }
    }
}

/// Whether a model was trained to change files by patches of the V4A format: OpenAI's from GPT-5 on and those for code, but
/// not those with open weights.
pub fn writes_patches(model: &str) -> bool {
    let name = bare(model);
    let is_gpt = name.split("gpt-").skip(1).any(|rest| matches!(rest.bytes().next(), Some(b'5'..=b'9')));
    !name.contains("oss") && (is_gpt || name.contains("codex"))
}

/// Whether one of OpenAI's models thinks: the o series does, and all from GPT-5 on that are not for chat. `None`: its name
/// does not tell.
pub(crate) fn openai_thinks(model: &str) -> Option<bool> {
    let name = bare(model);
    let name = name.strip_prefix("openai.").or(name.strip_prefix("ft:")).unwrap_or(name);
    let generation = name.strip_prefix("gpt-").and_then(|rest| rest.bytes().next());
    match (name.as_bytes(), generation) {
        ([b'o', b'1'..=b'9', ..], _) => Some(true),
        (_, Some(b'5'..=b'9')) => Some(!name.contains("chat")),
        (_, Some(b'3' | b'4')) => Some(false),
        _ if name.starts_with("chatgpt-") => Some(false),
        _ => None,
    }
}

/// How much one of OpenAI's models can be told to think, from little to much. `None`: its name does not tell. Each
/// generation refuses the words of the others.
pub(crate) fn openai_efforts(model: &str) -> Option<&'static [Effort]> {
    use Effort::{High, Low, Medium, Minimal, None as Not, Xhigh};
    if !openai_thinks(model)? {
        return Some(&[]);
    }
    let name = bare(model);
    let (_, version) = name.split_once("gpt-").unwrap_or_default();
    let minor = version.get(1..).and_then(|rest| rest.strip_prefix('.')?.bytes().next());
    let is_fifth = version.starts_with('5');
    Some(match minor.filter(|_| is_fifth) {
        _ if version.is_empty() => &[Low, Medium, High],
        None if is_fifth && name.contains("pro") => &[High],
        None if is_fifth && name.contains("codex") => &[Low, Medium, High],
        None if is_fifth => &[Minimal, Low, Medium, High],
        Some(b'1') if name.contains("codex-max") => &[Low, Medium, High, Xhigh],
        Some(b'1') if name.contains("codex") => &[Low, Medium, High],
        Some(b'1') => &[Not, Low, Medium, High],
        _ if name.contains("pro") => &[Medium, High, Xhigh],
        _ if name.contains("codex") => &[Low, Medium, High, Xhigh],
        _ => &[Not, Low, Medium, High, Xhigh],
    })
}

/// The name without its maker's.
fn bare(model: &str) -> &str {
    model.rsplit('/').next().unwrap_or(model)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_who_writes_patches() {
        for model in ["openai/gpt-5.4", "openrouter/openai/gpt-5.1-codex-max", "codex-mini-latest", "ft:gpt-6:team"] {
            assert!(writes_patches(model), "{model}");
        }
        for model in ["openai/gpt-4.1", "gpt-4o", "gpt-oss-120b", "anthropic/claude-sonnet-5", "fake/model", "o3"] {
            assert!(!writes_patches(model), "{model}");
        }
    }

    #[test]
    fn a_name_tells_a_generation() {
        for (model, generation) in [
            ("models/gemini-2.5-flash", Gemini::Counting),
            ("gemini-2.5-flash-image", Gemini::Plain),
            ("gemini-3.8-flash-tts", Gemini::Plain),
            ("google/gemini-3-pro", Gemini::Graded),
            ("gemini-flash-latest", Gemini::Graded),
            ("gemini-1.5-pro-latest", Gemini::Plain),
            ("gemma-3-27b-it", Gemini::Plain),
        ] {
            assert_eq!(Gemini::of(model), generation, "{model}");
        }
        for (model, thinks) in [
            ("gpt-6.1-sol", Some(true)),
            ("openai/o3-mini", Some(true)),
            ("gpt-5-chat-latest", Some(false)),
            ("ft:gpt-4o:team", Some(false)),
            ("chatgpt-4o-latest", Some(false)),
            ("codex-mini", None),
            ("openai.gpt-oss-120b", None),
        ] {
            assert_eq!(openai_thinks(model), thinks, "{model}");
        }
    }
}
