//! What `git` runs beside itself: aliases, programs in its configuration, commands of its subcommands.

use super::{Context, Judge};
use crate::expand::{self, Field};
use crate::git;
use crate::judged::Judged;
use crate::reading::{Effect, UnknowableKind};
use crate::wrappers;

impl Judge<'_> {
    pub(super) fn git(&mut self, arguments: &[Field], judged: &mut Judged, context: &Context) {
        self.git_settings(arguments, judged, context);
        if let Some(shown) = context.through.iter().find(|shown| wrappers::clears_environment(shown)) {
            // Without its settings git believes any folder that looks like a repository.
            judged.acts(shown);
        }
        let at = git::subcommand_at(arguments);
        let globals = &arguments[..at.min(arguments.len())];
        if globals.iter().any(|field| field.text.starts_with("-C")) {
            judged.unsure();
        }
        let Some(subcommand) = arguments.get(at) else { return };
        let rest = &arguments[at + 1..];
        // One that the command itself defines was read.
        let own = format!("alias.{}=", subcommand.text).to_lowercase();
        let is_own = globals.iter().any(|field| field.text.to_lowercase().contains(&own));
        if !subcommand.is_open() && !git::has_subcommand(&subcommand.text) && !is_own {
            // An alias, which may mean anything.
            self.unknowable(UnknowableKind::Program, &format!("git {}", subcommand.text), context);
        }
        if subcommand.is_open() {
            self.unknowable(UnknowableKind::Program, &context.text, context);
        }
        let text = |at: usize| rest.get(at).map(|field| field.text.as_str());
        match (subcommand.text.as_str(), text(0)) {
            ("submodule", _) if rest.iter().any(|field| field.text == "foreach") => {
                let at = rest.iter().position(|field| field.text == "foreach").unwrap_or_default() + 1;
                let skip = rest[at..].iter().take_while(|field| field.text.starts_with('-')).count();
                self.git_code(&rest[at + skip..], "git submodule foreach", context);
            }
            ("bisect", Some("run")) => self.git_code(&rest[1..], "git bisect run", context),
            ("rebase" | "difftool" | "mergetool", _) => {
                let options: &[&str] =
                    if subcommand.text == "rebase" { &["-x", "--exec"] } else { &["-x", "--extcmd"] };
                for (at, field) in rest.iter().enumerate() {
                    let glued = options.iter().find_map(|option| {
                        let value = field.text.strip_prefix(option)?;
                        value.strip_prefix('=').or((option.len() == 2 && !value.is_empty()).then_some(value))
                    });
                    // `-ix code`: in a cluster of letters, too.
                    let cluster = field.text.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
                    let behind = cluster.and_then(|letters| letters.split_once('x')).map(|(_, code)| code);
                    let glued = glued.or(behind.filter(|code| !code.is_empty()));
                    let is_alone = options.contains(&field.text.as_str()) || behind == Some("");
                    let separate = is_alone.then(|| rest.get(at + 1)).flatten();
                    let code = glued.map(|code| crate::expand::tail(field, code)).or_else(|| separate.cloned());
                    if let Some(code) = code {
                        judged.risky.push(field.text.clone());
                        self.git_code(&[code], &format!("git {} {}", subcommand.text, options[0]), context);
                    }
                }
            }
            ("merge-index" | "remote-ext" | "for-each-repo" | "grep", _) => {
                self.git_programs(&subcommand.text, rest, judged, context);
            }
            ("filter-branch", _) => self.unknowable(UnknowableKind::Code, &context.text, context),
            ("config", _) => {
                let words: Vec<&Field> =
                    rest.iter().filter(|field| !field.text.starts_with('-') && field.text != "set").collect();
                if let [key, value, ..] = words.as_slice() {
                    self.git_setting(&key.text, value, "git config", judged, context);
                }
            }
            _ => {}
        }
    }

    /// Programs that a subcommand takes as an operand or in an option.
    fn git_programs(&mut self, subcommand: &str, rest: &[Field], judged: &mut Judged, context: &Context) {
        match subcommand {
            "merge-index" | "remote-ext" => {
                // Of `remote-ext` a name stands in front.
                let skip = rest.iter().take_while(|field| field.text.starts_with('-')).count();
                let at = skip + usize::from(subcommand == "remote-ext");
                let words = if subcommand == "remote-ext" { rest.get(at..) } else { rest.get(at..at + 1) };
                self.git_code(words.unwrap_or_default(), &format!("git {subcommand}"), context);
            }
            "for-each-repo" => {
                let skip = rest.iter().take_while(|field| field.text.starts_with('-')).count();
                let mut inner = context.clone();
                inner.through.push("git for-each-repo".to_string());
                inner.depth += 1;
                let command = [&[Field::literal("git")], rest.get(skip..).unwrap_or_default()].concat();
                self.command(&command, Judged::of(Effect::ChangesNothing), inner);
            }
            "grep" => {
                for field in rest.iter().take_while(|field| field.text != "--") {
                    let long = field
                        .text
                        .split_once('=')
                        .filter(|(name, _)| name.len() > 3 && "--open-files-in-pager".starts_with(name));
                    let cluster = field.text.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
                    let glued = cluster.and_then(|letters| letters.split_once('O'));
                    if let Some((_, code)) = long.or(glued).filter(|(_, code)| !code.is_empty()) {
                        judged.risky.push(field.text.clone());
                        self.git_code(&[crate::expand::tail(field, code)], "git grep -O", context);
                    }
                }
            }
            _ => {}
        }
    }

    /// `git -c key=value`, `git clone --config key=value`.
    fn git_settings(&mut self, arguments: &[Field], judged: &mut Judged, context: &Context) {
        for (at, field) in arguments.iter().enumerate() {
            let next = arguments.get(at + 1);
            let setting = match field.text.as_str() {
                "-c" | "--config-env" | "--config" => next.cloned(),
                text if text.starts_with("-c") && text.contains('=') => Some(crate::expand::tail(field, &text[2..])),
                text => ["--config-env=", "--config="]
                    .iter()
                    .find_map(|option| text.strip_prefix(option))
                    .map(|value| crate::expand::tail(field, value)),
            };
            let Some(setting) = setting else { continue };
            let Some((key, value)) =
                setting.text.split_once('=').filter(|(key, _)| setting.known.is_none_or(|known| known > key.len()))
            else {
                if setting.is_open() {
                    self.unknowable(UnknowableKind::Code, &context.text, context);
                }
                continue;
            };
            let value = crate::expand::tail(&setting, value);
            self.git_setting(key, &value, "git -c", judged, context);
        }
    }

    fn git_setting(&mut self, key: &str, value: &Field, shown: &str, judged: &mut Judged, context: &Context) {
        let mut inner = context.clone();
        inner.through.push(format!("{shown} {key}"));
        inner.depth += 1;
        let key = key.to_lowercase();
        if let Some(code) = value.text.strip_prefix('!') {
            self.read_code(Some(&Field { known: value.known, ..Field::literal(code) }), &inner);
        } else if key.starts_with("alias.") {
            self.read_code(Some(&Field::literal(&format!("git {}", value.text))), &inner);
        } else if key.starts_with("include") && key.ends_with(".path") {
            // Settings in a file: any of them may be a command.
            judged.reads.push(value.clone());
            self.unknowable(UnknowableKind::Code, &context.text, context);
        } else if git::runs(&key) {
            self.read_code(Some(&Field { known: value.known, ..Field::literal(&value.text) }), &inner);
        }
    }

    /// Words that a subcommand gives to a shell.
    fn git_code(&mut self, words: &[Field], shown: &str, context: &Context) {
        let mut inner = context.clone();
        inner.through.push(shown.to_string());
        inner.depth += 1;
        self.read_code(Some(&expand::joined(words)), &inner);
    }
}
