//! Programs with a grammar of their own: `find`, `sed`, `awk` and other languages, `curl` and `wget`.

use crate::expand::Field;
use crate::judged::{Judged, host};
use crate::reading::Effect;

const AWKS: &[&str] = &["awk", "gawk", "mawk", "nawk", "original-awk", "goawk"];
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
    ("make", "--eval -E"),
];

/// Whether a program has a grammar here.
pub(crate) fn is_special(name: &str) -> bool {
    matches!(name, "find" | "gfind" | "sed" | "gsed" | "curl" | "wget" | "dd" | "unset" | "read")
        || AWKS.contains(&name)
        || is_interpreter(name)
}

/// Whether a program runs code of another language that it gets as an argument, file or input.
pub(crate) fn is_interpreter(name: &str) -> bool {
    flags(name).is_some()
}

fn flags(name: &str) -> Option<&'static str> {
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let is = |known: &str| known == name || known == plain;
    INTERPRETERS.iter().find(|(names, _)| names.split(' ').any(is)).map(|(_, flags)| *flags)
}

/// What one of these programs does; `None` for any other.
pub(crate) fn judge(name: &str, arguments: &[Field]) -> Option<Judged> {
    Some(match name {
        "find" | "gfind" => find(arguments),
        "sed" | "gsed" => sed(arguments),
        "curl" | "wget" => fetch(name, arguments),
        "dd" => dd(arguments),
        "unset" | "read" => Judged::of(Effect::ChangesNothing),
        name if AWKS.contains(&name) => awk(arguments),
        name => interpreter(arguments, flags(name)?),
    })
}

/// Whether an interpreter with these arguments takes its code from its input.
pub(crate) fn reads_code_from_input(name: &str, arguments: &[Field]) -> bool {
    if matches!(name, "sed" | "gsed" | "make" | "gmake" | "vim" | "vi" | "nvim" | "emacs" | "gdb" | "swift" | "ghc") {
        let dash = arguments
            .windows(2)
            .any(|two| matches!(two[0].text.as_str(), "-f" | "--file") && from_outside(&two[1].text));
        return dash
            || arguments
                .iter()
                .any(|field| matches!(field.text.as_str(), "-f-" | "--file=-" | "-f/dev/stdin" | "--file=/dev/stdin"));
    }
    let first = arguments.iter().find(|field| !field.text.starts_with('-') || field.text == "-");
    let has_code = arguments
        .iter()
        .any(|field| flags(name).unwrap_or_default().split_whitespace().any(|flag| starts(&field.text, flag)));
    let module =
        arguments.iter().any(|field| field.text.starts_with("-m")) || matches!(name, "sqlite3" | "psql" | "mysql");
    !has_code && !module && first.is_none_or(|field| from_outside(&field.text))
}

/// Whether a path stands for what another process writes.
pub(crate) fn from_outside(path: &str) -> bool {
    path == "-" || path.starts_with("/dev/") || path.starts_with("/proc/") || path.starts_with("<(")
}

fn starts(text: &str, flag: &str) -> bool {
    let single = flag.len() == 2 && flag.starts_with('-');
    // `-xc code`, `-ccode`: letters in front of it, the code behind it.
    let letter = flag.chars().nth(1).unwrap_or('-');
    text == flag
        || (single && text.starts_with('-') && !text.starts_with("--") && text[1..].contains(letter))
        || (flag.starts_with("--") && text.starts_with(&format!("{flag}=")))
}

fn interpreter(arguments: &[Field], flags: &str) -> Judged {
    let mut judged = Judged::of(Effect::Unknown);
    let mut code = Vec::new();
    for (at, field) in arguments.iter().enumerate() {
        if flags.split_whitespace().any(|flag| starts(&field.text, flag)) {
            code.push(field.text.clone());
            code.extend(arguments.get(at + 1).map(|next| next.text.clone()));
        }
    }
    if !code.is_empty() {
        judged.code = Some(code.join(" "));
    }
    judged
}

fn awk(arguments: &[Field]) -> Judged {
    let mut judged = Judged::of(Effect::ChangesNothing);
    let (mut at, mut program) = (0, None);
    while let Some(field) = arguments.get(at) {
        let text = field.text.as_str();
        match text {
            "-F" | "-v" | "--field-separator" | "--assign" => at += 1,
            "--" => {
                at += 1;
                break;
            }
            text if text.starts_with("-F")
                || text.starts_with("-v")
                || text.starts_with("--field-separator=")
                || text.starts_with("--assign=") => {}
            "--posix" | "--traditional" | "--re-interval" | "--sandbox" | "-S" | "-P" => {}
            text if text.starts_with('-') && text.len() > 1 => {
                judged.acts(text);
                judged.code = Some(arguments.iter().map(|field| field.text.as_str()).collect::<Vec<_>>().join(" "));
                return judged;
            }
            _ => break,
        }
        at += 1;
    }
    if let Some(field) = arguments.get(at) {
        program = Some(field);
    }
    let Some(program) = program else { return judged };
    let text = &program.text;
    let quiet = !["system", "|", ">", "getline", "@", "close", "print >"].iter().any(|risk| text.contains(risk))
        || only_compares(text);
    if program.is_open() || !quiet {
        judged.effect = Effect::Unknown;
    }
    judged.code = Some(text.clone());
    judged
        .reads
        .extend(arguments.get(at + 1..).unwrap_or_default().iter().filter(|field| !field.text.contains('=')).cloned());
    judged
}

/// Whether every `>` and `|` of an awk program compares: `$1 > 5 {print}`, `a || b`.
fn only_compares(text: &str) -> bool {
    if ["system", "getline", "@", "print", "close"].iter().any(|word| text.contains(word)) {
        let condition = text.split('{').next().unwrap_or_default();
        let body = &text[condition.len()..];
        let calm = !condition.contains("print")
            && !["system", "getline", "@", "close", ">", "|"].iter().any(|risk| body.contains(risk))
            && !condition.contains("system")
            && !condition.contains("getline")
            && !condition.contains('@');
        return calm && !condition.replace("||", "").contains('|');
    }
    !text.replace("||", "").contains('|')
}

fn dd(arguments: &[Field]) -> Judged {
    let mut judged = Judged::of(Effect::Changes);
    for field in arguments {
        if let Some(path) = field.text.strip_prefix("of=") {
            judged.writes.push(tail(field, path));
        } else if let Some(path) = field.text.strip_prefix("if=") {
            judged.reads.push(tail(field, path));
        }
    }
    judged
}

/// The end of a field, as open as the field.
fn tail(field: &Field, text: &str) -> Field {
    let cut = field.text.len() - text.len();
    Field { text: text.to_string(), known: field.known.map(|known| known.saturating_sub(cut)), ..field.clone() }
}

/// Tests and actions of `find` that change nothing, with one value.
const FIND_WITH_VALUE: &str = "\
    -name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -type -xtype -size -mtime -atime \
    -ctime -mmin -amin -cmin -newer -anewer -cnewer -newermt -newerct -maxdepth -mindepth -user -group -uid -gid \
    -perm -links -inum -samefile -lname -ilname -fstype -printf -used -context";
/// The same without a value.
const FIND_ALONE: &str = "\
    -empty -executable -readable -writable -print -print0 -prune -quit -ls -true -false -not -a -and -o -or \
    -depth -d -mount -xdev -follow -daystart -noleaf -nouser -nogroup -warn -nowarn -ignore_readdir_race -E -H \
    -L -P -O1 -O2 -O3";

fn find(arguments: &[Field]) -> Judged {
    let mut judged = Judged::of(Effect::ChangesNothing);
    let mut paths = true;
    let mut at = 0;
    while let Some(field) = arguments.get(at) {
        let text = field.text.as_str();
        let has = |list: &str| list.split_whitespace().any(|known| known == text);
        paths &=
            !matches!(text, "!" | "(" | ")" | ",") && (!text.starts_with('-') || matches!(text, "-H" | "-L" | "-P"));
        match text {
            "!" | "(" | ")" | "," => {}
            _ if has(FIND_WITH_VALUE) => at += 1,
            _ if has(FIND_ALONE) => {}
            "-delete" => judged.acts(text),
            "-fprint" | "-fprint0" | "-fls" | "-fprintf" => {
                judged.acts(text);
                judged.writes.extend(arguments.get(at + 1).cloned());
                at += if text == "-fprintf" { 2 } else { 1 };
            }
            // What they run is looked at by itself.
            "-exec" | "-execdir" | "-ok" | "-okdir" => {
                let end = arguments[at..].iter().position(|field| matches!(field.text.as_str(), ";" | "+"));
                at += end.unwrap_or(arguments.len());
            }
            _ if paths && !field.may_be_option() => judged.reads.push(field.clone()),
            _ => judged.unsure(),
        }
        at += 1;
    }
    if judged.effect == Effect::Changes {
        judged.writes.extend(judged.reads.clone());
    }
    judged
}

/// The commands that `find` runs, each with `{}` for what it finds; `None` where the end of one is missing or open.
pub(crate) fn find_runs(arguments: &[Field]) -> Option<Vec<Vec<Field>>> {
    let mut all = Vec::new();
    let mut at = 0;
    while let Some(field) = arguments.get(at) {
        at += 1;
        if !matches!(field.text.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir") {
            continue;
        }
        let rest = &arguments[at..];
        let end = rest.iter().position(|field| field.text == ";" || field.text == "+")?;
        let command =
            rest[..end].iter().map(|field| if field.text.contains("{}") { found(field) } else { field.clone() });
        all.push(command.collect());
        at += end + 1;
    }
    Some(all)
}

/// Where the command begins that `fd` runs, if it runs one.
pub(crate) fn fd_runs(name: &str, arguments: &[Field]) -> Option<usize> {
    let runs = |field: &Field| matches!(field.text.as_str(), "-x" | "-X" | "--exec" | "--exec-batch");
    let at = arguments.iter().position(runs).filter(|_| matches!(name, "fd" | "fdfind"))?;
    (at + 1 < arguments.len()).then_some(at + 1)
}

/// A word with `{}` in it: known up to there. What `find` puts there begins with one of its paths, not with a dash.
fn found(field: &Field) -> Field {
    let known = field.text.find("{}").unwrap_or_default();
    if known == 0 && field.text == "{}" {
        return Field { text: "./{}".to_string(), known: Some(2), splits: false, ..Field::default() };
    }
    Field { known: Some(known), splits: false, ..field.clone() }
}

fn sed(arguments: &[Field]) -> Judged {
    let mut judged = Judged::of(Effect::ChangesNothing);
    let (mut scripts, mut operands) = (Vec::new(), Vec::new());
    let mut at = 0;
    let mut ended = false;
    while let Some(field) = arguments.get(at) {
        let text = field.text.as_str();
        match text {
            "--" => ended = true,
            _ if ended || !text.starts_with('-') || text == "-" => operands.push(field),
            "-e" | "--expression" => {
                scripts.extend(arguments.get(at + 1));
                at += 1;
            }
            "-n" | "-E" | "-r" | "-s" | "-u" | "-z" | "-nE" | "-En" | "-nr" | "-rn" | "-ne" | "-Ee" | "-nEe"
            | "--quiet" | "--silent" | "--regexp-extended" | "--posix" | "--sandbox" | "--separate"
            | "--unbuffered" | "--null-data" | "--debug" => {
                if text.ends_with('e') && !text.starts_with("--") {
                    scripts.extend(arguments.get(at + 1));
                    at += 1;
                }
            }
            "-l" | "--line-length" => at += 1,
            _ if text.starts_with("-i")
                || text.starts_with("--in-place")
                || (!text.starts_with("--") && text.contains('i')) =>
            {
                judged.acts(text);
            }
            _ => {
                judged.acts(text);
                judged.effect = Effect::Unknown;
            }
        }
        at += 1;
    }
    if scripts.is_empty() && !operands.is_empty() {
        scripts.push(operands.remove(0));
    }
    if scripts.iter().any(|script| script.is_open() || !quiet_script(&script.text))
        || operands.iter().any(|field| field.may_be_option())
    {
        judged.unsure();
        judged.code = Some(scripts.iter().map(|script| script.text.as_str()).collect::<Vec<_>>().join("\n"));
    }
    let files = operands.into_iter().cloned();
    if judged.risky.is_empty() {
        judged.reads.extend(files);
    } else {
        judged.writes.extend(files);
    }
    judged
}

/// Whether a sed script is of a plain form: addresses with `p`, `d`, `q`, `=`, and `s/…/…/` with the flags `g`, `i`, `p` and numbers.
fn quiet_script(script: &str) -> bool {
    script.split([';', '\n']).all(|command| quiet_command(command.trim())) || quiet_command(script.trim())
}

fn quiet_command(command: &str) -> bool {
    let Some(rest) = past_addresses(command) else { return false };
    let rest = rest.trim_start().trim_start_matches('!').trim();
    match rest.chars().next() {
        None => command.is_empty(),
        Some('p' | 'd' | '=' | 'P' | 'D' | 'n' | 'N' | 'h' | 'H' | 'g' | 'G' | 'x' | 'l') => rest.len() == 1,
        Some('q' | 'Q') => rest[1..].trim().chars().all(|c| c.is_ascii_digit()),
        Some('s' | 'y') => substitution(&rest[1..]),
        Some(_) => false,
    }
}

fn substitution(rest: &str) -> bool {
    let Some(separator) = rest.chars().next().filter(|c| c.is_ascii_punctuation() && *c != '\\') else { return false };
    let mut escaped = false;
    let (mut seen, mut flags) = (0, "");
    for (at, c) in rest.char_indices() {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == separator {
            seen += 1;
            if seen == 3 {
                flags = &rest[at + 1..];
                break;
            }
        }
    }
    seen == 3 && flags.trim().chars().all(|c| matches!(c, 'g' | 'i' | 'I' | 'p' | 'm' | 'M' | '0'..='9'))
}

/// What stands behind `1,$`, `/a/,/b/`, `3`.
fn past_addresses(command: &str) -> Option<&str> {
    let mut rest = command;
    loop {
        rest = match rest.chars().next() {
            Some('0'..='9' | '$' | '+' | '~') => {
                rest.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '$' | '+' | '~'))
            }
            Some('/') => {
                let mut escaped = false;
                let end = rest[1..].char_indices().find(|(_, c)| {
                    let end = *c == '/' && !escaped;
                    escaped = *c == '\\' && !escaped;
                    end
                })?;
                rest[end.0 + 2..].trim_start_matches('I')
            }
            _ => return Some(rest),
        };
        match rest.trim_start().strip_prefix(',') {
            Some(next) => rest = next.trim_start(),
            None => return Some(rest),
        }
    }
}

fn fetch(name: &str, arguments: &[Field]) -> Judged {
    let mut judged = Judged::of(Effect::Changes);
    for (at, field) in arguments.iter().enumerate() {
        let text = field.text.as_str();
        let next = arguments.get(at + 1);
        let outputs: &[&str] = if name == "curl" {
            &[
                "-o",
                "--output",
                "-c",
                "--cookie-jar",
                "-D",
                "--dump-header",
                "--trace",
                "--trace-ascii",
                "--output-dir",
                "--hsts",
                "--alt-svc",
                "--etag-save",
                "--libcurl",
                "--stderr",
            ]
        } else {
            &["-O", "--output-document", "-o", "--output-file", "-a", "-P", "--directory-prefix", "--save-cookies"]
        };
        let inputs: &[&str] = &[
            "-K",
            "--config",
            "-T",
            "--upload-file",
            "--netrc-file",
            "-i",
            "--input-file",
            "--post-file",
            "--body-file",
        ];
        if outputs.contains(&text) {
            judged.writes.extend(next.cloned());
        } else if inputs.contains(&text) {
            judged.reads.extend(next.cloned());
            judged.risky.push(text.to_string());
        } else if let Some((option, value)) =
            text.split_once('=').filter(|(option, _)| outputs.contains(option) || inputs.contains(option))
        {
            let list = if outputs.contains(&option) { &mut judged.writes } else { &mut judged.reads };
            list.push(tail(field, value));
        } else if let Some(path) = text.strip_prefix('@').filter(|_| at > 0 && arguments[at - 1].text.starts_with('-'))
        {
            judged.reads.push(tail(field, path));
        } else if !text.starts_with('-')
            && (text.contains("://") || text.contains('.') || text.starts_with("localhost"))
        {
            let value = at > 0
                && matches!(
                    arguments[at - 1].text.as_str(),
                    "-H" | "--header" | "-d" | "--data" | "-A" | "--user-agent" | "-u" | "-o" | "-O" | "-X"
                );
            judged.hosts.extend(host(text).filter(|_| !value));
        }
    }
    judged
}
