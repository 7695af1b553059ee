//! What the text in a rule's brackets covers: commands, paths, hosts.

use super::Action;
use crate::call::CommandPart;
use piton_shell::{Below, CommandPattern};
use std::path::{Component, Path};

/// What a rule's brackets cover.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Pattern {
    /// Simple commands.
    Command(CommandPattern),
    /// Paths, like a line of `.gitignore`.
    Path(String),
    /// Hosts.
    Host(String),
    /// An agent or a skill.
    Name(String),
}

/// Where patterns of paths begin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places<'a> {
    pub(super) workspace: &'a str,
    pub(super) home: &'a str,
}

/// Fields of a call of `task` or `skill`.
const FIELDS: [&str; 7] =
    ["model", "isolation", "background", "run_in_background", "prompt", "description", "subagent_type"];

impl Pattern {
    /// A pattern for commands: `git push *`, `git diff:*`. `None`, here and below: the text is none.
    pub(super) fn command(text: &str) -> Option<Self> {
        CommandPattern::parse(text).ok().map(Self::Command)
    }

    pub(super) fn path(text: &str) -> Option<Self> {
        let is_odd =
            text.is_empty() || text.contains(['?', '[', '!', '\\']) || text.split('/').any(|part| part == "..");
        (!is_odd).then(|| Self::Path(text.to_owned()))
    }

    /// `domain:example.org`, `domain:*.example.org`, `domain:example.org:8443`.
    pub(super) fn host(text: &str) -> Option<Self> {
        let host = text.strip_prefix("domain:").unwrap_or(text).trim().trim_end_matches('.').to_lowercase();
        let (name, port) = host.rsplit_once(':').map_or((host.as_str(), None), |(name, port)| (name, Some(port)));
        let below = name.strip_prefix("*.").unwrap_or(name);
        let is_name = !below.is_empty()
            && below
                .split('.')
                .all(|label| !label.is_empty() && label.chars().all(|c| c.is_alphanumeric() || c == '-'));
        let is_port = port.is_none_or(|port| port.parse::<u16>().is_ok());
        (is_name && is_port).then_some(Self::Host(host))
    }

    /// `reviewer`, `db-*`.
    pub(super) fn name(text: &str) -> Option<Self> {
        let stem = text.strip_suffix('*').unwrap_or(text);
        // What Claude Code writes about a field of the call, not about who is called.
        let is_field = text.split_once(':').is_some_and(|(field, _)| FIELDS.contains(&field));
        let is_name = !is_field && !stem.is_empty() && stem.chars().all(|c| c.is_alphanumeric() || "-_.:".contains(c));
        is_name.then(|| Self::Name(text.to_owned()))
    }

    /// Whether it means the agent or the skill of this name.
    pub(super) fn matches_name(&self, name: &str) -> bool {
        let Self::Name(pattern) = self else { return false };
        pattern.strip_suffix('*').map_or(pattern == name, |stem| name.starts_with(stem))
    }

    /// How much of it says something: the more, the more particular.
    pub(super) fn particularity(&self) -> (usize, bool) {
        let text = match self {
            Self::Command(pattern) => pattern.as_str(),
            Self::Path(text) | Self::Host(text) | Self::Name(text) => text,
        };
        let stem = text.trim_end_matches(['*', ' ', ':']);
        (stem.chars().filter(|c| *c != '*').count(), !text.contains('*'))
    }

    /// Whether a rule with this pattern and this action is about a command: to allow it, it has to cover it for certain.
    pub(super) fn matches_command(&self, part: &CommandPart, action: Action) -> bool {
        let Self::Command(pattern) = self else { return false };
        match action {
            Action::Allow => pattern.permits(&part.read()),
            Action::Ask | Action::Deny => pattern.could_match(&part.read()),
        }
    }

    /// The program of a command pattern, where it names one.
    pub(super) fn program(&self) -> Option<&str> {
        let Self::Command(pattern) = self else { return None };
        pattern.as_str().split([' ', ':']).next().filter(|word| !word.contains('*'))
    }

    pub(super) fn matches_path(&self, path: &str, places: Places<'_>) -> bool {
        self.below(path, places, |pattern, names| covers(pattern, names, globbed))
    }

    /// Whether a path is what it covers, or the folder of which it covers all: who reads that reads this.
    pub(super) fn concerns(&self, path: &str, places: Places<'_>) -> bool {
        self.below(path, places, |pattern, names| {
            covers(pattern, names, globbed) || covers(whole(pattern), names, globbed)
        })
    }

    /// Whether a path with wildcards may become one that this concerns.
    pub(super) fn could_concern(&self, glob: &str, places: Places<'_>) -> bool {
        self.below(glob, places, |pattern, names| {
            let may_become = |pattern: &[String]| meet(pattern, names, Dots::Named, End::OrBelow);
            may_become(pattern) || may_become(whole(pattern))
        })
    }

    /// Whether something that it covers may lie below a folder, among what is opened there.
    pub(super) fn could_be_opened(&self, below: &Below, places: Places<'_>) -> bool {
        let Self::Path(pattern) = self else { return false };
        let (root, rest) = root_of(pattern, places);
        let pattern = [parts(Path::new(root)), parts(Path::new(&rest))].concat();
        let folder = [parts(Path::new(&below.folder)), vec!["**".to_owned()]].concat();
        let dots = if below.hidden { Dots::Any } else { Dots::Named };
        if below.names.is_empty() {
            return meet(&pattern, &folder, dots, End::OrBelow);
        }
        let end = if pattern.last().is_some_and(|name| is_files(name)) { End::Here } else { End::OrBelow };
        let named = |name: &String| meet(&pattern, &[folder.clone(), vec![name.clone()]].concat(), dots, end);
        below.names.iter().any(named)
    }

    /// Whether a path with wildcards may become a folder above all that this covers.
    pub(super) fn could_lie_below(&self, glob: &str, places: Places<'_>) -> bool {
        self.below(glob, places, |pattern, names| {
            let stem: Vec<String> = pattern.iter().take_while(|part| *part != "**").cloned().collect();
            stem.get(..names.len()).is_some_and(|above| !above.is_empty() && covers(above, names, meets))
        })
    }

    /// What `covers` says of the names of a path below the place where this pattern begins.
    fn below(&self, path: &str, places: Places<'_>, covers: impl Fn(&[String], &[String]) -> bool) -> bool {
        let Self::Path(pattern) = self else { return false };
        let (root, pattern) = root_of(pattern, places);
        let rest = Path::new(path).strip_prefix(root).ok().filter(|_| !root.is_empty());
        rest.is_some_and(|rest| covers(&parts(Path::new(&pattern)), &parts(rest)))
    }

    /// Whether a path is, or lies above, the folder in which all that it covers lies: who changes that changes this.
    pub(super) fn lies_below(&self, path: &str, places: Places<'_>) -> bool {
        let Self::Path(pattern) = self else { return false };
        let stem = pattern.split('*').next().unwrap_or_default();
        let folder = stem.rsplit_once('/').map(|(folder, _)| folder);
        let root = match pattern {
            pattern if pattern.starts_with('/') => Path::new("/"),
            pattern if pattern.starts_with("~/") => Path::new(places.home),
            _ => Path::new(places.workspace),
        };
        let folder = if pattern.contains('*') { folder } else { Some(stem.trim_end_matches('/')) };
        let below = folder.unwrap_or_default().trim_start_matches("~/").trim_start_matches("./");
        !below.is_empty() && root.join(below.trim_start_matches('/')).starts_with(path)
    }

    /// Whether it is about this host at some port.
    pub(super) fn could_match_host(&self, name: &str) -> bool {
        let Self::Host(pattern) = self else { return false };
        let port = pattern.rsplit_once(':').map(|(_, port)| format!(":{port}")).unwrap_or_default();
        self.matches_host(&format!("{name}{port}"))
    }

    pub(super) fn matches_host(&self, host: &str) -> bool {
        let Self::Host(pattern) = self else { return false };
        let host = host.to_lowercase();
        let (name, port) = host.rsplit_once(':').map_or((host.as_str(), None), |(name, port)| (name, Some(port)));
        let name = name.trim_end_matches('.');
        let (wanted, wanted_port) =
            pattern.rsplit_once(':').map_or((pattern.as_str(), None), |(name, port)| (name, Some(port)));
        let is_name = match wanted.strip_prefix("*.") {
            Some(above) => name.strip_suffix(above).is_some_and(|below| below.ends_with('.') && below.len() > 1),
            None => name == wanted,
        };
        is_name && wanted_port.is_none_or(|wanted| port == Some(wanted))
    }
}

/// Where a pattern begins, and what of it follows from there.
fn root_of<'p>(pattern: &str, places: Places<'p>) -> (&'p str, String) {
    match pattern {
        pattern if pattern.starts_with('/') => ("/", pattern.trim_start_matches('/').to_owned()),
        pattern if pattern.starts_with("~/") => (places.home, pattern[2..].to_owned()),
        // A name by itself is at any depth.
        pattern if !pattern.trim_end_matches('/').contains('/') => (places.workspace, format!("**/{pattern}")),
        pattern => (places.workspace, pattern.trim_start_matches("./").to_owned()),
    }
}

/// Whether a host, as the user opened it, is this one.
pub(super) fn is_host(open: &str, host: &str) -> bool {
    Pattern::host(open).is_some_and(|pattern| pattern.matches_host(host))
}

fn parts(path: &Path) -> Vec<String> {
    let names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
        _ => None,
    });
    names.collect()
}

/// The folder of which a pattern covers all.
fn whole(pattern: &[String]) -> &[String] {
    pattern.strip_suffix(&["**".to_owned()]).filter(|folder| !folder.is_empty()).unwrap_or(pattern)
}

/// Whether a path lies at a pattern or below it. `**` is any number of folders; names are compared by `fits`.
fn covers(pattern: &[String], path: &[String], fits: fn(&str, &str) -> bool) -> bool {
    // Without recursion: the last `**` is where another try begins.
    let (mut at, mut of_path, mut retry) = (0, 0, None);
    loop {
        match pattern.get(at).map(String::as_str) {
            None => return true,
            Some("**") => {
                if at + 1 == pattern.len() {
                    return of_path < path.len();
                }
                retry = Some((at, of_path));
                at += 1;
            }
            Some(part) if path.get(of_path).is_some_and(|name| fits(part, name)) => {
                (at, of_path) = (at + 1, of_path + 1);
            }
            Some(_) => match retry {
                Some((star, from)) if from < path.len() => {
                    (at, of_path, retry) = (star + 1, from + 1, Some((star, from + 1)));
                }
                _ => return false,
            },
        }
    }
}

/// What a wildcard stands for that a shell or a program reads, not a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dots {
    /// Any name.
    Any,
    /// One that begins with a dot only where the dot is written.
    Named,
}

/// Where a path that a pattern covers ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Where the pattern does.
    Here,
    /// There, or somewhere below.
    OrBelow,
}

/// Whether a name in a rule is a file's, as people name files: nothing lies below `.env` and `*.pem`.
fn is_files(name: &str) -> bool {
    let has_extension = name.trim_start_matches('.').rsplit_once('.').is_some_and(|(_, extension)| extension != "d");
    has_extension || name.starts_with(".env") || name.starts_with('.') && name.ends_with("rc")
}

/// Whether there is a path that is both at a pattern or below it, and one of those that `path` may become. In both, `**` is any number
/// of folders.
fn meet(pattern: &[String], path: &[String], dots: Dots, end: End) -> bool {
    // `reached[i][j]`: what is left of the pattern from `i` on can meet what is left of the path from `j` on.
    let mut reached = vec![vec![false; path.len() + 1]; pattern.len() + 1];
    reached[pattern.len()].fill(end == End::OrBelow);
    reached[pattern.len()][path.len()] = true;
    for i in (0..pattern.len()).rev() {
        for j in (0..=path.len()).rev() {
            reached[i][j] = match (pattern[i].as_str(), path.get(j).map(String::as_str)) {
                ("**", None) => i + 1 < pattern.len() && reached[i + 1][j],
                (_, None) => false,
                ("**", Some(_)) => reached[i + 1][j] || reached[i][j + 1],
                (name, Some("**")) => {
                    let is_seen = dots == Dots::Any || !name.starts_with('.');
                    reached[i][j + 1] || is_seen && reached[i + 1][j]
                }
                (name, Some(glob)) => {
                    let fits = if dots == Dots::Any { shares_name(name, glob) } else { meets(name, glob) };
                    fits && reached[i + 1][j + 1]
                }
            };
        }
    }
    reached[0][0]
}

/// Whether there is a name that is both a pattern's, in which `*` is any text, and a shell's, in which `?` and `[…]` stand for a
/// character, too. A shell's wildcard in front stands for no dot.
fn meets(pattern: &str, glob: &str) -> bool {
    let hidden = pattern.starts_with('.') && glob.starts_with(['*', '?', '[']);
    !hidden && shares_name(pattern, glob)
}

/// The same, where a wildcard stands for a dot, too.
fn shares_name(pattern: &str, glob: &str) -> bool {
    let (pattern, glob): (Vec<char>, Vec<char>) = (pattern.chars().collect(), bracketless(glob));
    // `row[i]`: what is left of the pattern from `i` on can meet what is left of the glob.
    let mut row = vec![false; pattern.len() + 1];
    let mut at = glob.len();
    row[pattern.len()] = true;
    for i in (0..pattern.len()).rev() {
        row[i] = pattern[i] == '*' && row[i + 1];
    }
    while at > 0 {
        at -= 1;
        let mut next = vec![false; pattern.len() + 1];
        let any = matches!(glob[at], '*' | '[' | ']' | '?');
        for i in (0..=pattern.len()).rev() {
            let skips_glob = any && row[i];
            let skips_pattern = pattern.get(i) == Some(&'*') && (next[i + 1] || row[i]);
            let takes = pattern.get(i).is_some_and(|c| (any || *c == glob[at]) && (row[i + 1] || any && next[i + 1]));
            next[i] = skips_glob || skips_pattern || takes;
        }
        row = next;
    }
    row[0]
}

/// A shell's wildcards with `?` in place of each set of characters: `[!x]`, `[a-z]`, `[[:alpha:]]`, `[]x]`.
fn bracketless(glob: &str) -> Vec<char> {
    let mut all = Vec::new();
    let chars: Vec<char> = glob.chars().collect();
    let mut at = 0;
    while let Some(c) = chars.get(at).copied() {
        match set_end(&chars, at).filter(|_| c == '[') {
            Some(end) => {
                all.push('?');
                at = end + 1;
            }
            None => {
                all.push(c);
                at += 1;
            }
        }
    }
    all
}

/// Where the set of characters ends that begins at `from`.
fn set_end(chars: &[char], from: usize) -> Option<usize> {
    let mut at = from + 1;
    at += usize::from(matches!(chars.get(at), Some('!' | '^')));
    at += usize::from(chars.get(at) == Some(&']'));
    loop {
        match (chars.get(at)?, chars.get(at + 1)) {
            (']', _) => return Some(at),
            ('[', Some(kind @ (':' | '.' | '='))) => {
                let class = chars.get(at + 2..)?.windows(2).position(|two| two == [*kind, ']'])?;
                at += class + 4;
            }
            _ => at += 1,
        }
    }
}

/// Whether a path with wildcards may become one that lies at a folder or file, or below it.
pub(super) fn may_lie_at(glob: &str, root: &str) -> bool {
    let (names, root) = (parts(Path::new(glob)), parts(Path::new(root)));
    names.len() >= root.len() && root.iter().zip(&names).all(|(name, glob)| meets(name, glob))
}

/// Whether a text is a pattern's, in which `*` is any text.
fn globbed(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else { return rest.is_empty() };
    for piece in pieces {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn to_allow_a_command_a_pattern_covers_it_for_certain() {
        let words = ["git", "diff", "$x"].map(ToOwned::to_owned).to_vec();
        let known = CommandPart { words: words[..2].to_vec(), ..CommandPart::default() };
        let open = CommandPart { words, unresolved: vec![2], ..CommandPart::default() };
        let pattern = |text: &str| Pattern::command(text).unwrap();
        assert!(pattern("git diff:*").matches_command(&known, Action::Allow));
        assert!(!pattern("git diff --stat").matches_command(&open, Action::Allow));
        assert!(pattern("git diff --stat").matches_command(&open, Action::Deny), "it may be just that");
        let risky = CommandPart { risky: vec!["--output=x".into()], ..known };
        assert!(!pattern("git diff *").matches_command(&risky, Action::Allow), "what it does beside was not allowed");
    }

    fn path(pattern: &str, path: &str) -> bool {
        let places = Places { workspace: "/w", home: "/home/me" };
        Pattern::path(pattern).unwrap().matches_path(path, places)
    }

    #[test]
    fn paths_are_matched_as_in_an_ignore_file() {
        assert!(path("src/**", "/w/src/a/b.rs") && !path("src/**", "/w/src") && !path("src/**", "/w/other/src/a"));
        assert!(path(".env", "/w/.env") && path(".env", "/w/a/.env") && path("*.pem", "/w/a/b.pem"));
        assert!(path("target/", "/w/a/target/x") && path("./a/*.rs", "/w/a/b.rs") && !path("./a/*.rs", "/w/a/b/c.rs"));
        assert!(path("/etc/**", "/etc/hosts") && path("~/x", "/home/me/x/y") && !path("~/x", "/home/me/xy"));
        assert!(path("a/**/b/**/c", "/w/a/1/b/b/2/c") && !path("a/**/b/c", "/w/a/b/d/c"));
        assert!(Pattern::path("../x").is_none() && Pattern::path("").is_none());
    }

    #[test]
    fn what_lies_below_a_folder_is_seen_from_above_it() {
        let places = Places { workspace: "/w", home: "/home/me" };
        let opened = |pattern: &str, folder: &str, names: &[&str], hidden| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            Pattern::path(pattern).unwrap().could_be_opened(&Below { folder: folder.to_owned(), names, hidden }, places)
        };
        for (pattern, folder) in [
            (".env", "/w"),
            (".env", "/w/a/b"),
            (".env", "/"),
            (".env", "/w/*"),
            ("conf/key", "/w"),
            ("conf/key", "/w/conf"),
            ("conf/**", "/w/conf/a"),
            ("a/**/key", "/w/a/b"),
            ("/etc/shadow", "/"),
            ("~/x", "/home"),
        ] {
            assert!(opened(pattern, folder, &[], true), "{pattern} {folder}");
        }
        for (pattern, folder) in [("conf/key", "/w/src"), ("/etc/shadow", "/w"), ("~/x", "/w"), (".env", "/v")] {
            assert!(!opened(pattern, folder, &[], true), "{pattern} {folder}");
        }
        assert!(!opened(".env", "/w", &[], false) && opened("conf/key", "/w", &[], false));
        assert!(!opened(".env", "/w", &["*.rs", "*.c"], true) && opened(".env", "/w", &["*.rs", ".e*"], true));
        assert!(opened("secret", "/w", &["*.rs"], true), "it may be a folder");
        assert!(opened("*.pem", "/w", &["key*"], true) && opened(".env", "/w", &["*"], true));
    }

    #[test]
    fn hosts_are_matched_by_name_and_port() {
        let host = |pattern: &str, host: &str| Pattern::host(pattern).unwrap().matches_host(host);
        assert!(host("domain:Example.org", "example.org.:443") && !host("domain:example.org", "a.example.org"));
        assert!(host("domain:*.example.org", "a.b.example.org") && !host("domain:*.example.org", "example.org"));
        assert!(!host("domain:*.example.org", "badexample.org") && host("domain:a.b:8443", "a.b:8443"));
        assert!(!host("domain:a.b:8443", "a.b:443"));
        for odd in ["domain:*.", "domain:", "domain:*", "domain:a b", "domain:a:99999"] {
            assert!(Pattern::host(odd).is_none(), "{odd}");
        }
    }
}
