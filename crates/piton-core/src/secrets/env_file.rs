//! Files of variables and credentials: `.env`, `.netrc`, `.npmrc`, `credentials`, `hosts.yml`. What of them is a secret.

use super::classify::is_strong;
use super::names::is_secret_variable;
use super::shapes::shaped;
use super::sieve;

/// The secrets of such a file, with the names that they are assigned to.
pub(super) fn secrets_of(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (name, value) in assignments(text) {
        let is_random = value.len() >= 20 && is_random(&value);
        if is_strong(&value) && (is_secret_variable(&name) || is_random) {
            found.push((name, value));
        }
    }
    found.extend(words_behind(text, &["password", "account"]).map(|value| ("password".to_owned(), value)));
    let bytes = text.as_bytes();
    sieve::candidates(bytes, &sieve::Windows::default(), |at| {
        if let Some(span) = shaped(bytes, at)
            && let Ok(value) = String::from_utf8(span.value)
        {
            found.push((span.name, value));
        }
    });
    found
}

/// Each `NAME=value` and `name: value`, quotes taken off; a quoted value may have lines.
fn assignments(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (line, behind) = rest.split_once('\n').unwrap_or((rest, ""));
        let own = line.trim().trim_start_matches("export ").trim_start_matches("set ");
        let next = match split(own) {
            Some((name, value)) if !own.starts_with('#') => {
                let name = name.trim().trim_matches(['"', '\'']);
                let value = value.trim();
                let (value, length) = whole_value(value, behind);
                let is_named = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
                if is_named {
                    let name = name.rsplit([':', '/', '.']).next().unwrap_or(name).trim_start_matches('_');
                    found.push((name.to_owned(), value));
                }
                length
            }
            _ => 0,
        };
        rest = &behind[next..];
    }
    found
}

/// At the sign that assigns: the equals sign where one comes before a colon with a space behind it.
fn split(line: &str) -> Option<(&str, &str)> {
    match line.split_once('=') {
        Some((name, value)) if !name.contains(": ") && !name.contains("\":") => Some((name, value)),
        // Host, port, database, user and password, as `.pgpass` has them.
        _ if line.matches(':').count() == 4 && !line.contains(' ') => {
            line.rsplit_once(':').map(|(_, password)| ("password", password))
        }
        _ => line.split_once(':'),
    }
}

/// A value without quotes and comments, and how much of the lines behind belongs to it.
fn whole_value(value: &str, behind: &str) -> (String, usize) {
    let quote = value.chars().next().filter(|first| matches!(first, '"' | '\''));
    let Some(quote) = quote else {
        let bare = value.split(" #").next().unwrap_or(value).trim();
        return (bare.trim_end_matches([',', ';']).to_owned(), 0);
    };
    let inner = &value[1..];
    if let Some(end) = inner.find(quote) {
        return (unescaped(&inner[..end]), 0);
    }
    match behind.find(quote) {
        Some(end) if behind[..end].len() < 16 << 10 => (format!("{inner}\n{}", &behind[..end]), end),
        _ => (inner.to_owned(), 0),
    }
}

fn unescaped(value: &str) -> String {
    value.replace("\\n", "\n")
}

/// Letters of both kinds and digits without words: a key, whatever it is called.
fn is_random(value: &str) -> bool {
    let count = |fits: fn(&u8) -> bool| value.bytes().filter(fits).count();
    let (digits, capitals, small) =
        (count(u8::is_ascii_digit), count(u8::is_ascii_uppercase), count(u8::is_ascii_lowercase));
    let is_token = value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_+/=.~".contains(&byte));
    is_token && digits >= 3 && small >= 3 && (capitals >= 3 || digits >= 8)
}

/// The words behind these, as `.netrc` has them.
fn words_behind<'t>(text: &'t str, names: &'t [&'t str]) -> impl Iterator<Item = String> + 't {
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_netrc = words.first().is_some_and(|first| matches!(*first, "machine" | "default"));
    let pairs: Vec<(&str, &str)> = words.windows(2).map(|pair| (pair[0], pair[1])).collect();
    pairs.into_iter().filter(move |(name, _)| is_netrc && names.contains(name)).map(|(_, value)| value.to_owned())
}
