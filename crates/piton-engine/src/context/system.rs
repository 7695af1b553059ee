//! The system prompt: one text for all models, with additions for the families that need them.

/// The system prompt. Short on purpose: with the tools' schemas it is the price of every first request.
pub const SYSTEM_PROMPT: &str = include_str!("system.md");

/// Rises with every change to the words below: sessions of different versions do not share a provider's cache, and
/// should not be compared without knowing it.
pub const SYSTEM_PROMPT_VERSION: u32 = 1;

/// What is added for a model, by a word in its name; the first that fits. Each is there for a habit of its own.
const FAMILIES: &[(&[&str], &str)] = &[
    // They stop to ask whether to go on, or announce what they are about to do and end the turn with it.
    (
        &["gpt", "o3", "o4", "codex"],
        "- Keep going until the task is done. Do not end with a plan, an announcement or an offer; do it.\n",
    ),
    // They explain each change in comments, and take over lines around it.
    (
        &["gemini"],
        "- Do not explain your changes in comments. Leave comments and lines that are not yours as they are.\n",
    ),
    // They describe a call instead of making it, and guess at files they have not read.
    (
        &["qwen", "llama", "mistral", "devstral", "codestral", "gemma", "phi", "deepseek", "glm", "gpt-oss"],
        "- To use a tool, call it; do not describe the call or print its JSON. Never guess what a file holds: read it.\n",
    ),
];

/// The system prompt for a model, named `provider/model`.
pub fn system_prompt(model: &str) -> String {
    let model = model.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    // A name begins with it or has it behind a mark: `o3` is not in `pro3`.
    let has = |word: &str| {
        model.match_indices(word).any(|(at, _)| !model[..at].ends_with(|char: char| char.is_ascii_alphanumeric()))
    };
    let local = FAMILIES.iter().rev().find(|(words, _)| words.contains(&"gpt-oss") && model.contains("gpt-oss"));
    let family = local.or_else(|| FAMILIES.iter().find(|(words, _)| words.iter().any(|word| has(word))));
    let added = family.map_or("", |(_, words)| words);
    // Among how to work, where it belongs.
    match SYSTEM_PROMPT.split_once("\n\nHow to answer") {
        Some((work, answer)) => format!("{work}\n{added}\nHow to answer{answer}"),
        None => format!("{SYSTEM_PROMPT}\n{added}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_gets_its_words_and_all_others_the_same_text() {
        let plain = system_prompt("anthropic/claude-opus-4-5");
        assert_eq!(plain, SYSTEM_PROMPT);
        assert_eq!(system_prompt("x/unheard-of-pro3"), plain);
        assert!(system_prompt("openai/gpt-5.4").contains("Keep going until"));
        assert!(system_prompt("openrouter/google/gemini-3-pro").contains("in comments"));
        assert!(system_prompt("ollama/qwen3-coder:30b").contains("call it"));
        assert!(system_prompt("groq/openai/gpt-oss-120b").contains("call it"));
        for (words, added) in FAMILIES {
            assert!(added.len() < 200 && added.ends_with('\n'), "{words:?}");
        }
    }

    #[test]
    fn words_that_change_raise_the_version() {
        let all: String = FAMILIES.iter().map(|(_, words)| *words).collect::<String>() + SYSTEM_PROMPT;
        let hash = blake3::hash(all.as_bytes()).to_hex();
        // Another hash: raise SYSTEM_PROMPT_VERSION, then write the new one here.
        assert_eq!((SYSTEM_PROMPT_VERSION, &hash[..12]), (1, "e0e54f4f7a16"));
    }
}
