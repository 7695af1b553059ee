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
    GLOBIGNORE HOME HISTFILE PAGER MANPAGER EDITOR FCEDIT VISUAL BROWSER LESSOPEN LESSCLOSE LESS PERLLIB PERL_UNICODE CLASSPATH \
    _JAVA_OPTIONS JDK_JAVA_OPTIONS MAVEN_OPTS GRADLE_OPTS RUSTC RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER RUSTDOC CARGO \
    CARGO_HOME RUSTUP_HOME RUSTUP_TOOLCHAIN MAKEFLAGS MAKEFILES CC CXX LD AR GOFLAGS GOROOT TAR_OPTIONS ZDOTDIR INPUTRC \
    TMOUT EXECIGNORE BASH_LOADABLES_PATH BASH_COMPAT POSIXLY_CORRECT COMSPEC VIMINIT EXINIT OPENSSL_CONF \
    RUSTFLAGS RUSTDOCFLAGS CARGO_ENCODED_RUSTFLAGS CFLAGS CXXFLAGS CPPFLAGS LDFLAGS OPENSSL_MODULES CURL_HOME WGETRC HOSTALIASES GREP_OPTIONS GREP_COLORS_ LOCPATH NLSPATH TERMINFO TERMCAP";

/// Names that begin or end like these, and steer nothing: how much is printed, how often is tried, who a commit is by.
const PLAIN: &str = "\
    NODE_ENV NODE_NO_WARNINGS NODE_DISABLE_COLORS NODE_DEBUG NODE_PENDING_DEPRECATION PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE \
    PYTHONHASHSEED PYTHONIOENCODING PYTHONUTF8 PYTHONFAULTHANDLER PYTHONDEVMODE PYTHONTRACEMALLOC PYTHONASYNCIODEBUG \
    PYTHONOPTIMIZE PYTHONNOUSERSITE PYTHONSAFEPATH PYTHONCOERCECLOCALE PYTHONPROFILEIMPORTTIME PYTHONVERBOSE PYTHON_COLORS \
    PYTHON_GIL PYTHON_JIT PYTHON_CPU_COUNT CARGO_TARGET_DIR PIP_NO_CACHE_DIR PIP_DISABLE_PIP_VERSION_CHECK PIP_NO_INPUT \
    PIP_QUIET PIP_PROGRESS_BAR PIP_ROOT_USER_ACTION PIP_CACHE_DIR PIP_DEFAULT_TIMEOUT PIP_BREAK_SYSTEM_PACKAGES UV_CACHE_DIR \
    UV_NO_PROGRESS UV_OFFLINE UV_LINK_MODE UV_NO_SYNC UV_FROZEN UV_LOCKED UV_SYSTEM_PYTHON UV_NO_CACHE UV_COMPILE_BYTECODE \
    DOCKER_BUILDKIT DOCKER_CLI_HINTS DOCKER_DEFAULT_PLATFORM BUNDLE_JOBS BUNDLE_WITHOUT BUNDLE_FROZEN BUNDLE_RETRY \
    BUNDLE_DEPLOYMENT MALLOC_CHECK_ MALLOC_PERTURB_ MALLOC_ARENA_MAX GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_AUTHOR_DATE \
    GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_COMMITTER_DATE GIT_TERMINAL_PROMPT GIT_OPTIONAL_LOCKS GIT_MERGE_AUTOEDIT";
/// The same behind `npm_config_`.
const PLAIN_OF_NPM: &str = "\
    yes loglevel cache audit fund progress color update_notifier offline prefer_offline production engine_strict save legacy_peer_deps";
/// Programs that compile, link, or keep what was compiled.
const COMPILERS: &str = "cc c++ gcc g++ clang clang++ tcc ccache sccache ar gcc-ar llvm-ar ld lld ld.lld mold gold";
/// Shells that a system brings.
const SHELLS: &str = "/bin/sh /bin/bash /usr/bin/bash /usr/bin/sh /bin/zsh /usr/bin/zsh /bin/dash /usr/bin/dash";
/// Options for Node that load and run nothing, or their beginnings.
const OF_NODE: &str = "\
    --max-old-space-size= --max-semi-space-size= --stack-size= --no-warnings --trace-warnings --trace-deprecation \
    --no-deprecation --experimental-vm-modules --enable-source-maps --unhandled-rejections= --openssl-legacy-provider \
    --stack-trace-limit= --dns-result-order=";
/// Options for compilers that load and run nothing, or their beginnings.
const OF_COMPILERS: &str = "-O -g -W -D -I -U -std= -m -pthread -pipe -ansi -pedantic -w -l";
/// Of these the ones that do: what they hand on may name a plugin or a file to write.
const ACTING_FOR_COMPILERS: &str = "-Wl, -Wa, -Wp, -wrapper -mllvm -load -gsplit-dwarf";
/// Options for Rust's compiler that do.
const ACTING_FOR_RUST: &str =
    "link plugin backend llvm-args sysroot extern emit out-dir save-temps profile -Z -L -l -o @";
/// Options for Go that load and run nothing, or their beginnings.
const OF_GO: &str = "-mod= -race -v -x -count= -tags= -buildvcs= -trimpath -p= -short -cover";
/// Options for Java that do not, or their beginnings.
const OF_JAVA: &str =
    "-Xmx -Xms -Xss -XX:+Use -XX:MaxMetaspaceSize= -XX:ActiveProcessorCount= -Dfile.encoding= -ea -server";

fn has(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|known| known == word)
}

/// Whether a variable of this name decides which programs run, what they load, which commands they start, or which files bash itself
/// opens.
pub(crate) fn steers(name: &str) -> bool {
    let of_npm = name.strip_prefix("npm_config_").or_else(|| name.strip_prefix("NPM_CONFIG_"));
    let is_plain = has(PLAIN, name) || of_npm.is_some_and(|name| has(PLAIN_OF_NPM, &name.to_lowercase()));
    !is_plain
        && (has(NAMES, name)
            || BEGINNINGS.split_whitespace().any(|begin| name.starts_with(begin))
            || ENDS.split_whitespace().any(|end| name.ends_with(end)))
}

/// Whether a value takes away what the variable of this name does.
pub(crate) fn disarms(name: &str, value: &str) -> bool {
    let words = || value.split_whitespace();
    let begins = |list: &str, word: &str| list.split_whitespace().any(|known| word.starts_with(known));
    match name {
        "HISTFILE" => matches!(value, "" | "/dev/null"),
        "CC" | "CXX" | "LD" | "AR" | "RUSTC_WRAPPER" | "RUSTC_WORKSPACE_WRAPPER" => {
            let plain =
                |word: &str| has(COMPILERS, word.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('-'));
            words().all(plain)
        }
        "SHELL" => has(SHELLS, value),
        "NODE_OPTIONS" => words().all(|word| begins(OF_NODE, word)),
        "CFLAGS" | "CXXFLAGS" | "CPPFLAGS" | "LDFLAGS" => {
            words().all(|word| begins(OF_COMPILERS, word) && !begins(ACTING_FOR_COMPILERS, word))
        }
        "RUSTFLAGS" | "RUSTDOCFLAGS" | "CARGO_ENCODED_RUSTFLAGS" | "CARGO_BUILD_RUSTFLAGS" => {
            !ACTING_FOR_RUST.split_whitespace().any(|acting| value.contains(acting))
        }
        "RUSTUP_TOOLCHAIN" => value.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_')),
        "GOFLAGS" => words().all(|word| begins(OF_GO, word)),
        "MAVEN_OPTS" | "GRADLE_OPTS" | "JAVA_TOOL_OPTIONS" | "JAVA_OPTS" | "_JAVA_OPTIONS" => {
            words().all(|word| begins(OF_JAVA, word))
        }
        "MAKEFLAGS" => words().all(|word| {
            let jobs = word.trim_start_matches('-').strip_prefix('j');
            jobs.is_some_and(|count| count.bytes().all(|byte| byte.is_ascii_digit()))
                || matches!(word, "-s" | "-k" | "--no-print-directory" | "-w")
        }),
        "LESS" => {
            value.chars().all(|c| c.is_ascii_alphabetic() || c == '-')
                && !value.contains(['k', 'o', 'O', 'p', 't', 'T'])
        }
        "BROWSER" => matches!(value, "" | "none" | "true" | ":" | "echo" | "/bin/true" | "/usr/bin/true"),
        _ if name.ends_with("EDITOR") || name == "VISUAL" => {
            matches!(value, "" | "true" | ":" | "cat" | "/bin/true" | "/usr/bin/true")
        }
        _ => name.ends_with("PAGER") && matches!(value, "" | "cat"),
    }
}

/// Whether a variable in front of a command counts for that command alone and does no more there than its name says: `IFS= read`.
pub(crate) fn is_of_builtin(name: &str, program: Option<&str>) -> bool {
    name == "IFS" && matches!(program, Some("read" | "mapfile" | "readarray"))
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
