//! Shells, and the builtins that run a text: where their code comes from.

use crate::expand::{self, Field};
use crate::options::{Grammar, Token};

/// Shells whose grammar is, or is nearly, the one that is read here.
const READ: &[&str] = &["bash", "sh", "dash", "ash", "ksh", "mksh", "zsh", "rbash"];
/// Shells with another grammar.
const OTHERS: &[&str] = &[
    "fish",
    "csh",
    "tcsh",
    "nu",
    "elvish",
    "xonsh",
    "pwsh",
    "powershell",
    "cmd",
    "cmd.exe",
    "osh",
    "ysh",
    "rc",
    "yash",
    "posh",
    "es",
    "scsh",
    "ion",
    "murex",
    "oksh",
    "loksh",
    "pdksh",
    "sash",
    "hush",
    "xsh",
];
const OPTIONS: Grammar = Grammar {
    short: "abefhiklmnprstuvxBCDEHPTO:o:c",
    long: "login noprofile norc posix verbose restricted noediting debugger dump-strings dump-po-strings debug help version rcfile= init-file=",
};

/// Where the code comes from.
#[derive(Debug)]
pub(crate) enum Code {
    /// It runs none.
    None,
    Text(Field),
    /// Its standard input.
    Input,
    /// A file.
    File(Field),
    /// Another language, or a text that is known only when it runs.
    Elsewhere,
    /// It gives a name another meaning.
    Alias,
}

/// Whether an option of bash makes wildcards stand for more than they do without it.
pub(crate) fn widens(option: &str) -> bool {
    matches!(option, "dotglob" | "nocaseglob" | "nocasematch")
}

/// Whether a program is one of these.
pub(crate) fn runs_code(name: &str) -> bool {
    READ.contains(&name)
        || OTHERS.contains(&name)
        || matches!(
            name,
            "eval"
                | "source"
                | "."
                | "trap"
                | "alias"
                | "su"
                | "runuser"
                | "script"
                | "at"
                | "batch"
                | "crontab"
                | "sg"
                | "capsh"
        )
}

/// The code that a shell or builtin runs with these arguments.
pub(crate) fn code(name: &str, arguments: &[Field]) -> Code {
    match name {
        "eval" => {
            let words = arguments.iter().skip_while(|field| field.text == "--");
            joined(&words.cloned().collect::<Vec<_>>())
        }
        "trap" => trap(arguments),
        "alias" if arguments.iter().all(|field| !field.is_open() && !field.text.contains('=')) => Code::None,
        "alias" => Code::Alias,
        "crontab" if arguments.iter().any(|field| field.text == "-l") => Code::None,
        "source" | "." | "crontab" => {
            let file = arguments.iter().find(|field| !field.text.starts_with('-'));
            file.map_or(Code::Elsewhere, |file| Code::File(file.clone()))
        }
        "at" | "batch" => Code::Input,
        "su" | "runuser" | "script" => behind_c(arguments),
        name if READ.contains(&name) => shell(arguments),
        _ => Code::Elsewhere,
    }
}

fn joined(words: &[Field]) -> Code {
    if words.is_empty() { Code::None } else { Code::Text(expand::joined(words)) }
}

fn trap(arguments: &[Field]) -> Code {
    let rest: Vec<&Field> = arguments.iter().skip_while(|field| field.text == "--").collect();
    match rest.as_slice() {
        [] => Code::None,
        [first, ..] if matches!(first.text.as_str(), "-p" | "-l" | "-" | "") && !first.is_open() => Code::None,
        [first, ..] => Code::Text((*first).clone()),
    }
}

fn behind_c(arguments: &[Field]) -> Code {
    let at = arguments.iter().position(|field| {
        matches!(field.text.as_str(), "--command" | "--session-command")
            || (field.text.starts_with('-') && !field.text.starts_with("--") && field.text.ends_with('c'))
    });
    if let Some(code) = at.and_then(|at| arguments.get(at + 1)) {
        return Code::Text(code.clone());
    }
    Code::Elsewhere
}

fn shell(arguments: &[Field]) -> Code {
    let (mut at, mut text, mut input) = (0, false, false);
    while let Some(field) = arguments.get(at) {
        if field.splits || field.may_be_option() {
            return Code::Elsewhere;
        }
        if field.text.starts_with('+') {
            at += if field.text.ends_with(['o', 'O']) { 2 } else { 1 };
            continue;
        }
        match OPTIONS.token(&arguments[at..]) {
            Token::Option { name, words, value } => {
                if name.ends_with('O') && value.is_some_and(widens) {
                    return Code::Elsewhere;
                }
                match name.as_str() {
                    "rcfile" | "init-file" => return Code::Elsewhere,
                    "help" | "version" | "dump-strings" => return Code::None,
                    _ => {}
                }
                // With `-k` an assignment may stand anywhere in a command.
                if !field.text.starts_with("--") && name.contains('k') || value == Some("keyword") {
                    return Code::Elsewhere;
                }
                text |= !field.text.starts_with("--") && name.contains('c');
                input |= !field.text.starts_with("--") && name.contains('s');
                at += words;
            }
            Token::Cluster(letters) if letters.contains('k') => return Code::Elsewhere,
            Token::Cluster(letters) => {
                text |= letters.contains('c');
                input |= letters.contains('s');
                at += 1;
            }
            Token::End => {
                at += 1;
                break;
            }
            Token::Operand if field.text == "-" => {
                at += 1;
                break;
            }
            Token::Operand => break,
            Token::Unknown => return Code::Elsewhere,
        }
    }
    match arguments.get(at) {
        Some(code) if text => Code::Text(code.clone()),
        None if text => Code::None,
        Some(file) if !input => Code::File(file.clone()),
        Some(_) | None => Code::Input,
    }
}

/// The file that `script` writes all output to.
pub(crate) fn typescript(arguments: &[Field]) -> Field {
    let takes_value = |field: &Field| {
        let letters = field.text.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
        letters.is_some_and(|letters| letters.ends_with(['c', 'I', 'O', 'B', 'T', 'E', 'm', 'o']))
            || matches!(field.text.as_str(), "--command" | "--log-in" | "--log-out" | "--log-io" | "--log-timing")
    };
    let is_value = |at: usize| at > 0 && takes_value(&arguments[at - 1]);
    let file = arguments.iter().enumerate().find(|(at, field)| !field.text.starts_with('-') && !is_value(*at));
    file.map_or_else(|| Field::literal("typescript"), |(_, field)| field.clone())
}
