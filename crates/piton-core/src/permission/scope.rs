//! The narrowest rule that covers what was asked about: what "always" adds.

use super::rule::{BASH, Rule, Voice, named};
use super::{Action, Ask};
use crate::call::Access;
use std::path::Path;

/// How many words name what a command does, where it is more than one. The longest entry that fits counts.
const WORDS: &[(&[&str], usize)] = &[
    (&["git"], 2),
    (&["git", "remote"], 3),
    (&["git", "stash"], 3),
    (&["git", "worktree"], 3),
    (&["git", "config"], 3),
    (&["git", "bisect"], 3),
    (&["git", "submodule"], 3),
    (&["cargo"], 2),
    (&["cargo", "run"], 3),
    (&["cargo", "add"], 3),
    (&["npm"], 2),
    (&["npm", "run"], 3),
    (&["npm", "exec"], 3),
    (&["npm", "init"], 3),
    (&["npx"], 2),
    (&["pnpm"], 2),
    (&["pnpm", "run"], 3),
    (&["pnpm", "dlx"], 3),
    (&["pnpm", "exec"], 3),
    (&["yarn"], 2),
    (&["yarn", "run"], 3),
    (&["yarn", "dlx"], 3),
    (&["bun"], 2),
    (&["bun", "run"], 3),
    (&["bun", "x"], 3),
    (&["bunx"], 2),
    (&["deno"], 2),
    (&["deno", "task"], 3),
    (&["python"], 2),
    (&["python", "-m"], 3),
    (&["python3"], 2),
    (&["python3", "-m"], 3),
    (&["node"], 2),
    (&["perl"], 2),
    (&["ruby"], 2),
    (&["php"], 2),
    (&["lua"], 2),
    (&["ssh"], 2),
    (&["pip"], 2),
    (&["poetry"], 2),
    (&["uv"], 2),
    (&["uv", "pip"], 3),
    (&["uv", "run"], 3),
    (&["go"], 2),
    (&["dotnet"], 2),
    (&["gradle"], 2),
    (&["./gradlew"], 2),
    (&["mvn"], 2),
    (&["make"], 2),
    (&["just"], 2),
    (&["bundle"], 2),
    (&["bundle", "exec"], 3),
    (&["rake"], 2),
    (&["composer"], 2),
    (&["mix"], 2),
    (&["docker"], 2),
    (&["docker", "compose"], 3),
    (&["docker", "container"], 3),
    (&["docker", "image"], 3),
    (&["docker", "network"], 3),
    (&["docker", "volume"], 3),
    (&["podman"], 2),
    (&["kubectl"], 2),
    (&["kubectl", "rollout"], 3),
    (&["helm"], 2),
    (&["terraform"], 2),
    (&["terraform", "workspace"], 3),
    (&["aws"], 3),
    (&["az"], 3),
    (&["gcloud"], 3),
    (&["gh"], 3),
    (&["glab"], 3),
    (&["consul"], 2),
    (&["consul", "kv"], 3),
    (&["vault"], 2),
    (&["vault", "kv"], 3),
    (&["ip"], 3),
    (&["systemctl"], 2),
    (&["brew"], 2),
    (&["apt"], 2),
    (&["apt-get"], 2),
    (&["rustup"], 2),
    (&["rustup", "toolchain"], 3),
    (&["sh"], 2),
    (&["bash"], 2),
];

/// The words that name what a command does: `git remote add` of `git remote add origin x`.
fn naming(words: &[String]) -> &[String] {
    let fits = |entry: &&(&[&str], usize)| {
        words.len() >= entry.0.len() && entry.0.iter().zip(words).all(|(wanted, word)| wanted == word)
    };
    let count = WORDS.iter().filter(fits).max_by_key(|(stem, _)| stem.len()).map_or(1, |(_, count)| *count);
    &words[..count.min(words.len())]
}

/// The rule that covers a part of a call, and no more of its kind than one has to.
pub(super) fn narrowest(ask: &Ask<'_>, access: &Access) -> Option<Rule> {
    let rule = |tool: &str, pattern: Option<String>| {
        let rule = Rule { tool: tool.to_owned(), pattern, action: Action::Allow, voice: Voice::User, layer: None };
        // What cannot be written as a rule is not offered.
        Some(rule).filter(|rule| rule.pattern.is_none() || rule.matches(ask, access))
    };
    let folder = |path: &str| {
        let above = Path::new(path).parent().and_then(Path::to_str).filter(|above| *above != "/");
        above.map(|above| format!("{above}/**"))
    };
    match access {
        Access::Command(part) => {
            let named = naming(&part.words);
            // A star or white space of its own would stand for more than was asked about.
            let is_plain = |word: &String| !word.is_empty() && !word.contains(|c: char| c == '*' || c.is_whitespace());
            // An option does not say what a program is to do: of `git --no-pager *` all would be allowed.
            let is_word = |word: &String| is_plain(word) && !word.starts_with(['-', '+']);
            let is_written = !named.is_empty() && named.iter().all(is_word);
            is_written.then(|| rule(ask.tool_of(access), Some(format!("{} *", named.join(" "))))).flatten()
        }
        // A command's tool has no rules for paths.
        Access::Write(path) if ask.has_commands() && ask.is_below_workspace(path) => {
            let below = Path::new(path).strip_prefix(ask.workspace).ok()?;
            let folder = below.parent().and_then(Path::to_str).filter(|folder| !folder.is_empty());
            rule(
                "Edit",
                Some(folder.map_or_else(|| format!("./{}", below.display()), |folder| format!("./{folder}/**"))),
            )
        }
        Access::Write(path) if ask.has_commands() => rule("Edit", Some(folder(path)?)),
        Access::Write(path) if ask.is_below_workspace(path) => {
            let below = Path::new(path).strip_prefix(ask.workspace).ok()?;
            let folder = below.parent().and_then(Path::to_str).filter(|folder| !folder.is_empty());
            let file = || format!("./{}", below.display());
            rule(ask.tool_of(access), Some(folder.map_or_else(file, |folder| format!("./{folder}/**"))))
        }
        Access::Write(path) => rule(ask.tool_of(access), Some(folder(path)?)),
        Access::Read(path) => rule("Read", Some(folder(path)?)),
        Access::Reach(host) => rule("net", Some(format!("domain:{host}"))),
        Access::Use(used) => match named(used) {
            Some((tool, name)) => rule(tool, Some(name.to_owned())),
            None => rule(used, None),
        },
        // Whoever allows `bash` allows every command.
        Access::Run(_) if ask.tool_of(access) == BASH => None,
        Access::Run(_) | Access::Spawn => rule(ask.tool_of(access), None),
        Access::SomePath(_) | Access::Unknowable(_) | Access::Unsandboxed(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_named_by_its_first_words() {
        let named = |command: &str| {
            let words: Vec<String> = command.split(' ').map(ToOwned::to_owned).collect();
            naming(&words).join(" ")
        };
        assert_eq!(named("git remote add origin x"), "git remote add");
        assert_eq!(named("cargo test --all"), "cargo test");
        assert_eq!(named("npm run build --watch"), "npm run build");
        assert_eq!(named("git"), "git");
        assert_eq!(named("touch a"), "touch");
        // What follows is the program: any other would do anything.
        assert_eq!(named("python3 a.py"), "python3 a.py");
        assert_eq!(named("bash x.sh"), "bash x.sh");
    }
}
