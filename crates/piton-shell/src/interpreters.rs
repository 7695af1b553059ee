//! Programs that run code of another language or take orders from their input, and which programs such code names.

/// Interpreters with the options behind which code stands.
const INTERPRETERS: &[(&str, &str)] = &[
    ("python python2 python3 pypy pypy3 ipython expect guile vi ex psql", "-c"),
    ("node nodejs", "-e -p -pe --eval --print"),
    ("bun", "-e --eval -p"),
    ("deno", "eval"),
    ("tsx", "-e --eval"),
    ("perl", "-e -E -n -p"),
    ("ruby lua luajit Rscript R osascript racket ghc elixir groovy scala swift mysql dc clojure", "-e"),
    ("php", "-r -B -R -E"),
    ("julia", "-e -E"),
    ("tclsh sed gsed bc m4 jshell irb", ""),
    ("sbcl gmake octave", "--eval"),
    ("emacs", "--eval -eval"),
    ("vim nvim", "-c +"),
    ("erl", "-eval"),
    ("gdb", "-ex --eval-command"),
    ("sqlite3", "-cmd"),
    ("make bmake just ninja", "--eval -E"),
    ("swipl", "-g -t"),
    ("ghci gnuplot maxima", "-e"),
];
/// Programs that take orders from their input, and have one among these that runs a command, whatever their arguments.
const TAKE_ORDERS: &str = "\
    ed red ex vi vim nvim view rvim gvim vimdiff sqlite3 duckdb psql mysql mariadb gdb lldb ftp sftp lftp telnet mail mailx mutt \
    gnuplot ghci iex swipl ocaml utop maxima dc nix nix-shell poetry pipenv";

/// Whether a program runs code of another language that it gets as an argument, file or input.
pub(crate) fn is_interpreter(name: &str) -> bool {
    flags(name).is_some()
}

/// Whether a program takes orders from its input that may run a command.
pub(crate) fn takes_orders(name: &str) -> bool {
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    TAKE_ORDERS.split_whitespace().any(|known| known == name || known == plain)
}

/// The options behind which an interpreter takes code; `None` for what is none.
pub(crate) fn flags(name: &str) -> Option<&'static str> {
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let is = |known: &str| known == name || known == plain;
    INTERPRETERS.iter().find(|(names, _)| names.split(' ').any(is)).map(|(_, flags)| *flags)
}

/// Whether code names a program, as a word of its own. A shell in it puts `r\m`, `r""m` and `r$@m` together.
pub fn names(code: &str, program: &str) -> bool {
    let has =
        |text: &str| text.split(|c: char| !c.is_alphanumeric() && !"_-.+".contains(c)).any(|word| word == program);
    let is_quoted = code.contains(['\\', '\'', '"', '`', '$']);
    has(code) || is_quoted && has(&unquoted(code))
}

/// Code without what is nothing to a shell in the middle of a word.
fn unquoted(code: &str) -> String {
    let text =
        ["\\\n", "$@", "$*", "$()", "``"].iter().fold(code.to_owned(), |text, nothing| text.replace(nothing, ""));
    text.replace(['\\', '\'', '"'], "")
}
