//! Programs that print names of files below folders: `find . | xargs grep x` opens nothing but what lies there.
//!
//! What `xargs` reads is split at blanks, and a name may be an absolute path to whoever cut it off. So only a listing whose every
//! option is known is taken for one, and only where the names on the disk cannot be taken for anything else
//! ([`Programs::has_plain_names`](crate::Programs::has_plain_names)).

use crate::below::{self, or_here};
use crate::expand::Field;
use crate::harmless;
use crate::judged::Under;

/// Tests of `find` that change nothing about what is printed; their values are no folders.
const OF_FIND: &str = "\
    -name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -type -xtype -size -mtime -atime -ctime -mmin -amin -cmin \
    -newer -maxdepth -mindepth -user -group -perm -empty -executable -readable -writable -print -print0 -prune -not -a -and -o -or -mount \
    -xdev -daystart -H -P";
/// Long options of those that search which change nothing about the names that they print.
const OF_SEARCHES: &str = "\
    --files --files-with-matches --files-without-match --glob --iglob --type --type-not --hidden --no-ignore --no-ignore-vcs --null \
    --ignore-case --smart-case --fixed-strings --word-regexp --line-regexp --max-depth --sort --include --exclude --exclude-dir \
    --recursive --extended-regexp --perl-regexp --regexp --max-count --multiline --";
/// The same of `git ls-files` and `git diff --name-only`.
const OF_GIT: &str = "\
    -z -c -o -m -d --cached --others --modified --deleted --exclude-standard --name-only --staged --diff-filter --";
/// Letters of filters that leave each line as it is.
const OF_FILTERS: &[(&str, &str)] =
    &[("grep egrep fgrep", "viEFxwe"), ("head tail", "nqz0123456789"), ("sort", "urnzVf"), ("uniq", "uidz")];

/// The folders below which lie all files whose names a command prints. `listed`: those of its input. None: it cannot be told.
pub(crate) fn folders(words: &[Field], listed: &[Under]) -> Vec<Under> {
    let Some((program, arguments)) = words.split_first().filter(|_| !words.iter().any(Field::may_be_option)) else {
        return Vec::new();
    };
    let has = |list: &str, word: &str| list.split_whitespace().any(|known| known == word);
    let options =
        || arguments.iter().map(|field| field.text.as_str()).filter(|text| text.len() > 1 && text.starts_with('-'));
    let long = |text: &str| text.split('=').next().is_some_and(|name| has(OF_SEARCHES, name));
    let searches =
        |odd: &[char]| options().all(|text| if text.starts_with("--") { long(text) } else { !text.contains(odd) });
    match program.text.as_str() {
        "find" if options().all(|text| has(OF_FIND, text)) => below::found_by_find(arguments),
        // With `--files` the first word is no pattern.
        "rg" if searches(&['r', 'p', 'f']) && options().any(|text| text == "--files") => {
            or_here(arguments.iter().filter(|field| !field.text.starts_with('-')))
        }
        // Some letters follow links, or print something else.
        "rg" | "grep" if searches(if program.text == "rg" { &['r', 'p', 'f', 'L'] } else { &['f', 'R'] }) => {
            let files = harmless::files(&program.text, arguments);
            match lists(options()) {
                true => or_here(files.into_iter()),
                false => filtered(&program.text, arguments, listed),
            }
        }
        "git" => of_git(arguments),
        name => filtered(name, arguments, listed),
    }
}

/// Whether the options of a search are to print names alone.
fn lists<'t>(mut options: impl Iterator<Item = &'t str>) -> bool {
    options.any(|text| text.starts_with("--files-with") || !text.starts_with("--") && text.contains(['l', 'L']))
}

/// What a filter lets through of what it reads.
fn filtered(name: &str, arguments: &[Field], listed: &[Under]) -> Vec<Under> {
    let has = |list: &str| list.split_whitespace().any(|known| known == name);
    let Some((_, letters)) = OF_FILTERS.iter().find(|(names, _)| has(names)) else { return Vec::new() };
    let is_quiet =
        |field: &&Field| field.text.strip_prefix('-').is_none_or(|rest| rest.chars().all(|c| letters.contains(c)));
    let reads_input = harmless::files(name, arguments).is_empty();
    if reads_input && arguments.iter().all(|field| is_quiet(&field)) { listed.to_vec() } else { Vec::new() }
}

/// `git ls-files`, `git diff --name-only`: below the folder that it is in, or the repository's.
fn of_git(arguments: &[Field]) -> Vec<Under> {
    let Some((subcommand, rest)) = arguments.split_first() else { return Vec::new() };
    let texts = || rest.iter().map(|field| field.text.as_str());
    let is_known = |text: &str| OF_GIT.split_whitespace().any(|known| text.split('=').next() == Some(known));
    let is_outside = |text: &str| text.starts_with(['/', ':', '~']) || text.starts_with("..") || text.contains("/..");
    let lists = match subcommand.text.as_str() {
        "ls-files" => true,
        "diff" => texts().any(|text| text == "--name-only"),
        _ => false,
    };
    let is_plain = texts().all(|text| if text.starts_with('-') { is_known(text) } else { !is_outside(text) });
    if lists && is_plain { or_here(std::iter::empty()) } else { Vec::new() }
}
