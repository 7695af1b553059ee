//! Answers of small models that should be one line (a title, a commit message, a command), freed of what such models put
//! around it.

const THINK: (&str, &str) = ("<think>", "</think>");
const FENCE: &str = "```";

/// Without what the model thought aloud. What it did not close may be the answer itself, and stays.
pub fn without_thoughts(text: &str) -> String {
    let mut rest = text;
    let mut kept = String::new();
    while let Some((before, thought)) = rest.split_once(THINK.0) {
        let Some((_, after)) = thought.split_once(THINK.1) else { break };
        kept.push_str(before);
        rest = after;
    }
    kept + rest
}

/// What is in the code block that the whole text is; else the text without white space around it.
pub fn without_fence(text: &str) -> String {
    let text = text.trim();
    let inner = || {
        let (language, body) = text.strip_prefix(FENCE)?.split_once('\n')?;
        let body = body.strip_suffix(FENCE)?;
        let is_language = language.trim_end().chars().all(|c| c.is_alphanumeric() || "_-+#.".contains(c));
        (is_language && !body.contains(FENCE)).then(|| body.trim())
    };
    inner().unwrap_or(text).to_owned()
}

/// What stands between the backticks that the whole text is in; else the text as it is.
pub fn without_backticks(text: &str) -> String {
    let inner = text.strip_prefix('`').and_then(|rest| rest.strip_suffix('`'));
    inner.filter(|inner| !inner.is_empty() && !inner.contains('`')).unwrap_or(text).to_owned()
}

/// All of it: the answer itself.
pub fn bare(text: &str) -> String {
    let text = without_fence(&without_thoughts(text));
    without_backticks(&text).trim().to_owned()
}

/// The first line of an answer that says anything, thoughts left out, in at most so many characters (UTF-16 units); one
/// that is cut ends in `...`.
pub fn first_line(text: &str, most: usize) -> Option<String> {
    let text = without_thoughts(text);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    if line.encode_utf16().count() <= most {
        return Some(line.to_owned());
    }
    let mut room = most.saturating_sub(3);
    let fits = |c: &char| {
        let fits = c.len_utf16() <= room;
        room = room.saturating_sub(c.len_utf16());
        fits
    };
    Some(line.chars().take_while(fits).collect::<String>() + "...")
}
