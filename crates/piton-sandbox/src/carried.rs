//! What of a user's own settings goes with a command into its home: what its tools need and nobody can abuse. A commit carries
//! the user's name; packages come from the user's registry.
//!
//! Files are read as text, by rules that name what is carried ([`crate::tables`]). Nothing is run, no included file is followed,
//! and what is carried holds no password: neither a token, nor the user in an address.

mod cargo;

use crate::tables::{CARRIED_GIT, CARRIED_NPM, CARRIED_PIP};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// A file of a command's home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carried {
    /// Where, below the home: a relative path without `..`.
    pub at: PathBuf,
    /// All that is in it.
    pub text: String,
}

/// What is carried from a home, from the folder that `XDG_CONFIG_HOME` names, and in the place of git's files in both from the one
/// that `GIT_CONFIG_GLOBAL` names. Files that are not there, or not to be read, have nothing to carry.
pub fn carried(home: &Path, config_home: &Path, git_config: Option<&Path>) -> Vec<Carried> {
    let of_git = match git_config {
        Some(file) => vec![text(file)],
        // The later one wins, as it does for git.
        None => vec![text(&config_home.join("git/config")), text(&home.join(".gitconfig"))],
    };
    // The older name wins, as it does for cargo.
    let of_cargo = [".cargo/config", ".cargo/config.toml"].map(|name| text(&home.join(name)));
    let of_cargo = of_cargo.iter().find(|text| !text.is_empty());
    let files = [
        (".gitconfig", git(&of_git)),
        (".npmrc", npm(&text(&home.join(".npmrc")))),
        (".config/pip/pip.conf", pip(&[text(&home.join(".pip/pip.conf")), text(&config_home.join("pip/pip.conf"))])),
        (".cargo/config.toml", of_cargo.map(|text| cargo::carried(text)).unwrap_or_default()),
    ];
    let is_something = |(_, text): &(&str, String)| !text.is_empty();
    files.into_iter().filter(is_something).map(|(at, text)| Carried { at: at.into(), text }).collect()
}

fn text(file: &Path) -> String {
    /// More than anybody has written by hand.
    const MOST_BYTES: u64 = 1 << 20;
    let is_file = fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.len() <= MOST_BYTES);
    if is_file { fs::read_to_string(file).unwrap_or_default() } else { String::new() }
}

/// Of git's settings those of the table, the last value of each.
fn git(texts: &[String]) -> String {
    let found: Vec<(String, String)> = texts.iter().flat_map(|text| git_settings(text)).collect();
    let mut carried = String::new();
    for name in CARRIED_GIT {
        let last = found.iter().rfind(|(found, _)| found == name);
        if let Some(((section, key), (_, value))) = name.split_once('.').zip(last) {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\t', "\\t");
            carried.push_str(&format!("[{section}]\n\t{key} = \"{value}\"\n"));
        }
    }
    carried
}

/// The settings of sections without a subsection: `section.key` in small letters, and the value.
fn git_settings(text: &str) -> Vec<(String, String)> {
    let (mut section, mut found) = (None, Vec::new());
    for line in git_lines(text) {
        let setting = match line.strip_prefix('[').and_then(|line| line.split_once(']')) {
            Some((name, after)) => {
                let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
                section = name.chars().all(is_plain).then(|| name.to_lowercase());
                after.trim()
            }
            None => &line,
        };
        let Some(section) = section.as_ref().filter(|_| !setting.is_empty() && !setting.starts_with(['#', ';'])) else {
            continue;
        };
        let (key, value) = match setting.split_once('=') {
            Some((key, value)) => (key, git_value(value)),
            None => (setting, "true".to_owned()),
        };
        found.push((format!("{section}.{}", key.trim().to_lowercase()), value));
    }
    found
}

/// The lines of such a file. One that ends with a backslash goes on with the next, unless the backslash stands for itself.
pub(crate) fn git_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in text.lines() {
        let backslashes = line.bytes().rev().take_while(|byte| *byte == b'\\').count();
        let is_comment = !goes_on && line.trim_start().starts_with(['#', ';']);
        let is_cut = backslashes % 2 == 1 && !is_comment;
        let part = if is_cut { line.strip_suffix('\\').unwrap_or(line) } else { line };
        match lines.last_mut().filter(|_| goes_on) {
            Some(last) => last.push_str(part),
            None => lines.push(part.trim_start().to_owned()),
        }
        goes_on = is_cut;
    }
    lines
}

/// A value without its quotes, escapes and comment.
pub(crate) fn git_value(text: &str) -> String {
    let (mut value, mut is_quoted) = (String::new(), false);
    let mut rest = text.trim().chars();
    // Blanks at the end count only within quotes.
    let mut kept = 0;
    while let Some(c) = rest.next() {
        match c {
            '"' => is_quoted = !is_quoted,
            '#' | ';' if !is_quoted => break,
            '\\' => match rest.next() {
                Some('n') => value.push('\n'),
                Some('t') => value.push('\t'),
                Some('b') | None => {}
                Some(other) => value.push(other),
            },
            c => value.push(c),
        }
        if is_quoted || !c.is_whitespace() {
            kept = value.len();
        }
    }
    value.truncate(kept);
    value
}

/// `registry=…` and `@scope:registry=…`: neither tokens nor anything that runs.
fn npm(text: &str) -> String {
    let is_carried = |key: &str| {
        let scoped = |name: &str| key.starts_with('@') && key.rsplit_once(':').is_some_and(|(_, last)| last == name);
        CARRIED_NPM.iter().any(|name| key == *name || scoped(name))
    };
    let carried = settings(text).into_iter().filter(|(key, _)| is_carried(key));
    carried.filter_map(|(key, value)| Some(format!("{key}={}\n", address(&value)?))).collect()
}

/// Addresses of package indexes, whatever section they stand in: the last value of each, since pip takes no name twice.
fn pip(texts: &[String]) -> String {
    let found: Vec<(String, String)> = texts.iter().flat_map(|text| settings(text)).collect();
    let mut lines = String::new();
    for name in CARRIED_PIP {
        let last = found.iter().rfind(|(key, _)| key.to_lowercase().replace('_', "-") == *name);
        let Some((_, value)) = last else { continue };
        let addresses: Vec<String> = value.split_whitespace().filter_map(address).collect();
        if !addresses.is_empty() {
            lines.push_str(&format!("{name} = {}\n", addresses.join("\n  ")));
        }
    }
    if lines.is_empty() { lines } else { format!("[global]\n{lines}") }
}

/// The `key = value` lines of an INI file. A line that begins with a blank goes on with the value before it.
fn settings(text: &str) -> Vec<(String, String)> {
    let mut settings: Vec<(String, String)> = Vec::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with(['#', ';'])) {
        match (line.split_once('='), settings.last_mut()) {
            (None, Some((_, value))) if line.starts_with([' ', '\t']) => {
                value.push(' ');
                value.push_str(line.trim());
            }
            (Some((key, value)), _) => settings.push((key.trim().to_owned(), value.trim().to_owned())),
            (None, _) => {}
        }
    }
    settings
}

/// An address of the web without its user; `None`: it is none, or holds what may be a secret.
fn address(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once("://")?;
    let is_web = scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("http");
    // A query may be a token, and `${TOKEN}` would be read from the environment.
    let is_plain = !rest.contains(['?', '#', '$', '%', '"', '\'', '\\']) && rest.chars().all(|c| c.is_ascii_graphic());
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().filter(|host| !host.is_empty())?;
    (is_web && is_plain && !path.split('/').any(is_like_a_token)).then(|| format!("{scheme}://{host}{path}"))
}

/// Some registries have the token as a part of the path: long, and letters mixed with digits.
fn is_like_a_token(part: &str) -> bool {
    /// The shortest that is known.
    const TOKEN_LETTERS: usize = 16;
    let has = |is: fn(&u8) -> bool| part.bytes().any(|byte| is(&byte));
    let is_word = part.bytes().all(|byte| byte.is_ascii_alphanumeric());
    part.len() >= TOKEN_LETTERS && is_word && has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn of(files: &[(&str, &str)]) -> Vec<(String, String)> {
        let home = tempfile::tempdir().unwrap();
        for (at, text) in files {
            let file = home.path().join(at);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        let carried = carried(home.path(), &home.path().join(".config"), None);
        carried.into_iter().map(|Carried { at, text }| (at.display().to_string(), text)).collect()
    }

    #[test]
    fn of_gits_settings_the_users_name_goes_along_and_nothing_that_runs() {
        let old = "[user]\n\tname = Old\n\temail=a@b.example ; at work\n[core] autocrlf = input\n";
        let own = "# a comment \\\n[User] # me\n  Name = \"Ada \\\"L\\\" \" x \\\n y\n[alias]\n\tst = !touch /tmp/x\n\
                   [core]\n\tfsmonitor = /tmp/evil\n\thooksPath = /tmp\n\tpager = evil\n[credential]\n\thelper = store\n\
                   [user \"sub\"]\n\tname = Nobody\n[include]\n\tpath = /tmp/more\n[init]\n\tdefaultBranch = trunk\\\\\n\
                   [url \"ssh://evil/\"]\n\tinsteadOf = https://\n";
        let carried = of(&[(".config/git/config", old), (".gitconfig", own)]);
        let expected = "[user]\n\tname = \"Ada \\\"L\\\"  x  y\"\n[user]\n\temail = \"a@b.example\"\n\
                        [init]\n\tdefaultbranch = \"trunk\\\\\"\n[core]\n\tautocrlf = \"input\"\n";
        assert_eq!(carried, [(".gitconfig".to_owned(), expected.to_owned())]);
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join(".gitconfig"), "[user]\nname = One\n").unwrap();
        fs::write(home.path().join("other"), "[user]\nname = Other\n").unwrap();
        let files = super::carried(home.path(), home.path(), Some(&home.path().join("other")));
        assert_eq!(files[0].text, "[user]\n\tname = \"Other\"\n");
    }

    #[test]
    fn of_cargos_settings_what_builds_need_goes_along_without_tokens() {
        let config = "[build]\nrustflags = [\"-Ctarget-cpu=native\"]\n[registry]\ntoken = \"secret\"\ndefault = \"gone\"\n\
                      [registries.corp]\nindex = \"sparse+https://me:secret@r.example/i/\"\ntoken = \"secret\"\n\
                      [registries.gone]\nindex = \"https://r.example/Tq5zr0Ylx8Wv7Uqd/i\"\n\
                      [source.crates-io]\nreplace-with = \"mirror\"\n[source.mirror]\nregistry = \"https://m.example/?t=secret\"\n\
                      [source.vendored]\ndirectory = \"/srv/vendor\"\n[env]\nMY_TOKEN = \"secret\"\n\
                      [http]\nproxy = \"http://u:secret@p.example\"\n[target.x86_64-unknown-linux-gnu]\nlinker = \"clang\"\n";
        let carried = of(&[(".cargo/config.toml", config)]);
        let expected = "[build]\nrustflags = [\"-Ctarget-cpu=native\"]\n\n[registries.corp]\nindex = \"sparse+https://r.example/i/\"\n\n\
                        [source.vendored]\ndirectory = \"/srv/vendor\"\n\n[target.x86_64-unknown-linux-gnu]\nlinker = \"clang\"\n";
        assert_eq!(carried, [(".cargo/config.toml".to_owned(), expected.to_owned())]);
        assert!(of(&[(".cargo/config.toml", "[registry]\ntoken = \"secret\"\n")]).is_empty());
        assert!(of(&[(".cargo/config", "no = toml = at all, secret")]).is_empty());
    }

    #[test]
    fn of_registries_the_addresses_go_along_without_anybodys_password() {
        let npm = "registry=https://me:secret@npm.example/\n//npm.example/:_authToken=secret\n@a:registry = https://a.example/x\n\
                   _auth=secret\nscript-shell=/tmp/evil\nregistry=https://r.example/${TOKEN}\n@b:registry=https://b.example/?t=secret\n\
                   @c:registry=https://c.example/Tq5zr0Ylx8Wv7Uqd/npm/\n";
        let pip = "[global]\nindex-url = https://u:secret@pip.example/simple\nextra_index_url=\n  http://x.example/\n  http://y.example/\n\
                   trusted-host = evil.test\ncert = /tmp/x\n[install]\nfind-links = /tmp\nindex-url = https://last.example/\n";
        let carried = of(&[(".npmrc", npm), (".config/pip/pip.conf", pip)]);
        let expected = [
            (".npmrc", "registry=https://npm.example/\n@a:registry=https://a.example/x\n"),
            (
                ".config/pip/pip.conf",
                "[global]\nindex-url = https://last.example/\nextra-index-url = http://x.example/\n  http://y.example/\n",
            ),
        ];
        assert_eq!(carried, expected.map(|(at, text)| (at.to_owned(), text.to_owned())));
        assert!(of(&[(".npmrc", "//npm.example/:_authToken=secret\n")]).is_empty());
    }
}
