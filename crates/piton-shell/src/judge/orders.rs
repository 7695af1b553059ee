//! Commands in what a program is given beside its arguments, and behind words that are its own: input that it takes as orders
//! (`ed <<< '!rm x'`), values that are glued to options (`tar -Irm`), programs behind subcommands (`nix shell -c rm x`).

use super::{Context, Judge};
use crate::expand::{self, Field};
use crate::harmless;
use crate::interpreters;
use crate::judged::Judged;
use crate::reading::{Effect, UnknowableKind};
use crate::sqlite;

/// Programs with subcommands or options behind which another program stands, and words of theirs that say so beside those that all
/// have.
const RUNNERS: &[(&str, &str)] = &[
    (
        "npm pnpm yarn bun deno go gem dotnet brew bundle composer mix cabal stack opam dune bazel buck2 tox nox nix nix-shell jj hg \
         gh glab terraform rake mvn gradle gum lerna nx",
        "",
    ),
    ("uv poetry pipenv pdm hatch rye conda mamba micromamba", "run"),
    ("cargo", "-s --shell"),
    ("meson", "devenv"),
    ("gdb cgdb", "--args -args"),
    ("lldb", ""),
    ("watchexec nodemon", "-s --shell -x"),
];
/// Words of all of them.
const WORDS: &str = "exec x dlx cmd explore -- -c --command --exec --run";
/// So far such a word is looked for.
const MOST_WORDS: usize = 64;
/// So far a program is looked for behind it.
const MOST_OPTIONS: usize = 8;

/// The arguments as one text, in which values that are glued to a letter stand by themselves, too.
pub(super) fn spelled_out(arguments: &[Field]) -> String {
    /// Longer words are no letters with a name behind them.
    const MOST_LETTERS: usize = 24;
    let mut text = expand::text(arguments);
    for field in arguments {
        let Some(letters) = field.text.strip_prefix('-').filter(|letters| !letters.starts_with('-')) else { continue };
        let first = letters.split(|c: char| c.is_whitespace()).next().unwrap_or_default();
        if first.len() > MOST_LETTERS || !first.is_ascii() {
            continue;
        }
        for at in 1..first.len() {
            text.push(' ');
            text.push_str(&first[at..]);
        }
    }
    text
}

/// What of the arguments may be code or a command though no table says so: values of long options, and words that are no
/// simple ones (`--run_under=rm`, `'!rm x'`).
pub(super) fn composed(arguments: &[Field]) -> Option<String> {
    let odd = |c: char| c.is_whitespace() || "!\\{}()|&;`$\"'".contains(c);
    let code = |field: &Field| match field.text.strip_prefix('-') {
        Some(option) => option.split_once('=').map(|(_, value)| value.to_owned()),
        None => Some(field.text.clone()).filter(|text| text.contains(odd)),
    };
    let all: Vec<String> = arguments.iter().filter_map(code).collect();
    (!all.is_empty()).then(|| all.join(" "))
}

/// Words of code that run a text, and words that read the input.
const EVALUATES: &str = "exec eval compile system popen spawn execSync spawnSync qx subprocess os_execute execute";
const READS_INPUT: &str = "input stdin STDIN readline readlines gets ARGF getline raw_input readFileSync io";

/// Whether code runs what it reads from its input.
fn evaluates_input(code: &str) -> bool {
    let has = |list: &str| {
        code.split(|c: char| !c.is_alphanumeric() && c != '_')
            .any(|word| list.split_whitespace().any(|known| known == word))
    };
    has(EVALUATES) && (has(READS_INPUT) || code.contains('<'))
}

impl Judge<'_> {
    /// What the program is ordered to do by its input, and which programs stand behind words of its own.
    pub(super) fn orders(&mut self, name: &str, arguments: &[Field], judged: &mut Judged, context: &Context) {
        self.behind(name, arguments, context);
        if judged.effect == Effect::ChangesNothing {
            return;
        }
        if matches!(name, "sqlite3" | "duckdb") {
            let texts = arguments.iter().map(|field| &field.text).chain(&context.input);
            judged.risky.extend(texts.flat_map(|text| sqlite::acts(text)));
        }
        let takes = interpreters::takes_orders(name);
        let interprets = interpreters::is_interpreter(name);
        // Code may run what it reads.
        let has_code = interprets && judged.code.is_some();
        match &context.input {
            Some(text) if takes || has_code || !(interprets || harmless::takes_data(name)) => {
                let code = judged.code.get_or_insert_default();
                code.push('\n');
                code.push_str(text);
            }
            None if context.fed && interprets && judged.code.as_deref().is_some_and(evaluates_input) => {
                self.unknowable(UnknowableKind::Code, &context.text, context);
            }
            None if takes && context.fed => self.unknowable(UnknowableKind::Code, &context.text, context),
            Some(_) | None => {}
        }
    }

    /// A shell that a wrapper starts where it is given no command: it reads its input.
    pub(super) fn shell_input(&mut self, (input, fed): (Option<String>, bool), context: &Context) {
        match input {
            Some(text) => self.read_code(Some(&Field::literal(&text)), context),
            None if fed => self.unknowable(UnknowableKind::Code, &context.text, context),
            None => {}
        }
    }

    /// Programs behind words that may say that one follows. They are judged beside the command that they stand in: what the words
    /// mean to it is not known for certain.
    fn behind(&mut self, name: &str, arguments: &[Field], context: &Context) {
        let has = |list: &str, word: &str| list.split_whitespace().any(|known| known == word);
        let Some((_, own)) = RUNNERS.iter().find(|(names, _)| has(names, name)) else { return };
        for at in 0..arguments.len().min(MOST_WORDS) {
            let is_word = has(WORDS, &arguments[at].text) || has(own, &arguments[at].text);
            let first = at == 0 && name == "watchexec";
            if !is_word && !first {
                continue;
            }
            // Of `npm explore` a package's name stands between.
            let from = at + usize::from(is_word) + usize::from(arguments[at].text == "explore");
            // Options of its own, and their values, may stand in front.
            let own = |word: usize| {
                arguments[word].text.starts_with('-') || word > from && arguments[word - 1].text.starts_with('-')
            };
            let skipped = (from..arguments.len().min(from + MOST_OPTIONS))
                .find(|word| !own(*word) || self.may_run(&arguments[*word..*word + 1]));
            let from = skipped.unwrap_or(from);
            let Some(next) = arguments.get(from).filter(|next| !next.is_open()) else { continue };
            let mut inner = context.clone();
            inner.through.push(format!("{name} {}", arguments[at].text));
            inner.depth += 1;
            let begins = next.text.split(|c: char| c.is_whitespace()).next().unwrap_or_default();
            if begins.len() < next.text.len() && self.is_known(begins) {
                self.read_code(Some(next), &inner);
            } else if self.may_run(&arguments[from..from + 1]) {
                self.command(&arguments[from..], Judged::of(Effect::ChangesNothing), inner);
                return;
            }
        }
    }
}
