//! Variables that change what programs do, and the arguments of builtins that name variables.

use crate::expand::Field;
use crate::options::{Grammar, Token};

/// Beginnings of such names.
const BEGINNINGS: &str = "\
    LD_ DYLD_ GIT_ BASH_FUNC_ PYTHON PERL5 RUBY NPM_CONFIG_ npm_config_ NODE_ SSH_ASKPASS SUDO_ GCONV_ GLIBC_ \
    MALLOC_ RIPGREP_CONFIG CARGO_BUILD_RUSTC CARGO_TARGET_ JAVA_ XDG_CONFIG XDG_DATA PIP_ UV_ DOCKER_ KUBE GEM_ \
    BUNDLE_ LUA_ AWKPATH AWKLIBPATH FZF_DEFAULT_";
/// Ends of such names.
const ENDS: &str = "_PAGER _EDITOR _BROWSER _RSH _SSH";
/// Such names.
const NAMES: &str = "\
    PATH BASH_CMDS BASH_ALIASES BASH_ENV ENV IFS SHELL SHELLOPTS BASHOPTS PS0 PS1 PS2 PS4 PROMPT_COMMAND CDPATH FPATH \
    GLOBIGNORE HOME HISTFILE PAGER MANPAGER EDITOR VISUAL BROWSER LESSOPEN LESSCLOSE LESS PERLLIB PERL_UNICODE CLASSPATH \
    _JAVA_OPTIONS JDK_JAVA_OPTIONS MAVEN_OPTS GRADLE_OPTS RUSTC RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER RUSTDOC CARGO \
    CARGO_HOME RUSTUP_HOME RUSTUP_TOOLCHAIN MAKEFLAGS MAKEFILES CC CXX LD AR GOFLAGS GOROOT TAR_OPTIONS ZDOTDIR INPUTRC \
    TMOUT EXECIGNORE BASH_LOADABLES_PATH BASH_COMPAT POSIXLY_CORRECT COMSPEC VIMINIT EXINIT OPENSSL_CONF \
    OPENSSL_MODULES CURL_HOME WGETRC HOSTALIASES GREP_OPTIONS GREP_COLORS_ LOCPATH NLSPATH TERMINFO TERMCAP";

/// Whether a variable of this name decides which programs run, what they load, which commands they start, or which files bash itself
/// opens.
pub(crate) fn steers(name: &str) -> bool {
    NAMES.split_whitespace().any(|known| known == name)
        || BEGINNINGS.split_whitespace().any(|begin| name.starts_with(begin))
        || ENDS.split_whitespace().any(|end| name.ends_with(end))
}

/// Whether a value takes away what the variable of this name does.
pub(crate) fn disarms(name: &str, value: &str) -> bool {
    match name {
        "HISTFILE" => matches!(value, "" | "/dev/null"),
        _ => name.ends_with("PAGER") && matches!(value, "" | "cat"),
    }
}

/// Builtins that give variables values or take them away, with the grammar of their options, and the letter of the one whose value is a
/// name.
const SETTERS: &[(&str, &str, char)] = &[
    ("read", "ersEa:d:i:n:N:p:t:u:", 'a'),
    ("mapfile readarray", "d:n:O:s:tu:C:c:", '\0'),
    ("printf", "v:", 'v'),
    ("wait", "fnp:", 'p'),
    ("getopts", "", '\0'),
    ("unset", "fvn", '\0'),
    ("export readonly declare typeset local", "aAfFgiIlnrtuxp", '\0'),
];

/// A name of a variable, as it stands in the arguments of a builtin.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Known(String),
    /// It is known only when the builtin runs.
    Open(String),
}

impl Name {
    pub(crate) fn of(field: &Field) -> Self {
        let name = field.text.split(['=', '[', '+']).next().unwrap_or_default();
        match field.known {
            Some(known) if known <= name.len() => Self::Open(field.text.clone()),
            Some(_) | None => Self::Known(name.to_string()),
        }
    }
}

/// The variables that the builtin `name` sets or unsets by these arguments.
pub(crate) fn set_by(name: &str, arguments: &[Field]) -> Vec<Name> {
    let Some((_, short, letter)) = SETTERS.iter().find(|(names, ..)| names.split(' ').any(|known| known == name))
    else {
        return Vec::new();
    };
    let grammar = Grammar { short, long: "" };
    let mut names = Vec::new();
    let (mut at, mut ended) = (0, false);
    while let Some(field) = arguments.get(at).filter(|field| !ended && !field.may_be_option()) {
        let words = match grammar.token(&arguments[at..]) {
            Token::Option { name, value, words } => {
                let is_name = *letter != '\0' && name.ends_with(*letter);
                let value = match words {
                    2 => arguments.get(at + 1).cloned(),
                    _ => value.map(|value| crate::expand::tail(field, value)),
                };
                names.extend(value.filter(|_| is_name).map(|value| Name::of(&value)));
                words
            }
            Token::Cluster(_) | Token::Unknown => 1,
            Token::End => {
                ended = true;
                1
            }
            Token::Operand => break,
        };
        at += words;
    }
    let rest = arguments.get(at..).unwrap_or_default();
    let operands = match name {
        "printf" | "wait" => &[],
        "getopts" => rest.get(1..2).unwrap_or_default(),
        _ => rest,
    };
    names.extend(operands.iter().map(Name::of));
    names
}

/// Whether these arguments give `mapfile` code to run, wherever the letter stands: `-C code`, `-tc1C code`.
pub(crate) fn calls_back(arguments: &[Field]) -> bool {
    let letters = |field: &Field| field.text.strip_prefix('-').is_some_and(|letters| letters.contains('C'));
    let mut options = arguments.iter().take_while(|field| field.text != "--");
    options.any(|field| field.may_be_option() || letters(field))
}

/// Whether these words of a declaration make names stand for other variables: `declare -n`, or an option that is not known.
pub(crate) fn refers(arguments: &[Field]) -> bool {
    let options = arguments.iter().take_while(|field| field.text != "--");
    let mut options = options.filter(|field| field.text.starts_with('-') || field.may_be_option());
    options.any(|field| field.may_be_option() || field.text.contains('n'))
}

/// Whether options of `set` make assignments behind a command's name count as those in front: `set -k; ls PATH=x`.
pub(crate) fn widens_assignments(arguments: &[Field]) -> bool {
    let options = arguments.iter().take_while(|field| field.text != "--");
    let mut options =
        options.filter(|field| field.text.starts_with('-') || field.text == "keyword" || field.may_be_option());
    options.any(|field| field.may_be_option() || field.text == "keyword" || field.text.contains('k'))
}
