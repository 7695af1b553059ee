//! Programs with a grammar of their own: `find`, `sed`, `awk` and other languages, `curl` and `wget`.

use crate::expand::{self, Field, tail};
use crate::interpreters::{flags, is_interpreter};
use crate::judged::{Judged, host};
use crate::reading::Effect;
use crate::{arguments, awk, sed};

const AWKS: &[&str] = &["awk", "gawk", "mawk", "nawk", "original-awk", "goawk"];

/// Whether a program has a grammar here.
pub(crate) fn is_special(name: &str) -> bool {
    matches!(name, "find" | "gfind" | "sed" | "gsed" | "curl" | "wget" | "dd" | "unset" | "read")
        || AWKS.contains(&name)
        || is_interpreter(name)
}

/// What one of these programs does; `None` for any other.
pub(crate) fn judge(name: &str, arguments: &[Field]) -> Option<Judged> {
    Some(match name {
        "find" | "gfind" => find(arguments),
        "sed" | "gsed" => sed::judge(arguments),
        "curl" | "wget" => fetch(name, arguments),
        "dd" => dd(arguments),
        "unset" | "read" => Judged::of(Effect::ChangesNothing),
        name if AWKS.contains(&name) => awk::judge(arguments),
        name => interpreter(name, arguments, flags(name)?),
    })
}

/// Modules of Python that read code from their input.
const PROMPTS: &str = "code pdb asyncio IPython ptpython bpython idlelib trace cProfile profile";

/// The module that Python runs (`-m pip`, `-Im pip`, `-mpip`), and where its arguments begin.
pub(crate) fn python_module<'w>(words: &[&'w str]) -> Option<(&'w str, usize)> {
    let mut at = 0;
    while let Some(letters) = words.get(at)?.strip_prefix('-') {
        at += 1;
        // The first letter that takes a value takes the rest of the word, or the next one.
        let Some(place) = letters.find(['c', 'm', 'W', 'X', 'Q']).filter(|_| !letters.starts_with('-')) else {
            continue;
        };
        let rest = &letters[place + 1..];
        match &letters[place..place + 1] {
            "m" if rest.is_empty() => return Some((words.get(at)?, at + 1)),
            "m" => return Some((rest, at)),
            "c" => return None,
            _ => at += usize::from(rest.is_empty()),
        }
    }
    None
}

/// The same, for the words of any program.
fn module_of<'f>(name: &str, arguments: &'f [Field]) -> Option<(&'f str, usize)> {
    let is_python = ["python", "pypy", "ipython"].iter().any(|python| name.starts_with(python));
    let words: Vec<&str> = arguments.iter().map(|field| field.text.as_str()).collect();
    is_python.then(|| python_module(&words)).flatten()
}

/// Whether an interpreter with these arguments takes its code from its input; `judged` is what its options are known to do.
pub(crate) fn reads_code_from_input(name: &str, arguments: &[Field], judged: &Judged) -> bool {
    let named = || judged.reads.iter().any(|field| from_outside(&field.text));
    match name {
        "sed" | "gsed" => return judged.code.is_some() && named(),
        "make" | "gmake" | "bmake" | "just" | "ninja" | "vim" | "vi" | "nvim" | "emacs" | "gdb" | "swift" | "ghc" => {
            return named();
        }
        _ => {}
    }
    if let Some((module, _)) = module_of(name, arguments) {
        return PROMPTS.split(' ').any(|known| module.split('.').next() == Some(known));
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

/// Whether an argument of the program may be code, or an option that runs something.
pub(crate) fn takes_code(name: &str) -> bool {
    matches!(name, "find" | "gfind") || AWKS.contains(&name) || is_interpreter(name)
}

/// Whether the program text of `awk` may be anything.
pub(crate) fn open_program(name: &str, arguments: &[Field]) -> bool {
    AWKS.contains(&name) && awk::has_open_program(arguments)
}

fn starts(text: &str, flag: &str) -> bool {
    let single = flag.len() == 2 && flag.starts_with('-');
    // `-xc code`, `-ccode`: letters in front of it, the code behind it.
    let letter = flag.chars().nth(1).unwrap_or('-');
    text == flag
        || (single && text.starts_with('-') && !text.starts_with("--") && text[1..].contains(letter))
        || (flag.starts_with("--") && text.starts_with(&format!("{flag}=")))
}

fn interpreter(name: &str, arguments: &[Field], flags: &str) -> Judged {
    let mut judged = Judged::of(Effect::Unknown);
    arguments::judge(name, arguments, &mut judged);
    let mut code = Vec::new();
    for (at, field) in arguments.iter().enumerate() {
        if flags.split_whitespace().any(|flag| starts(&field.text, flag)) {
            code.push(field.text.clone());
            code.extend(arguments.get(at + 1).map(|next| next.text.clone()));
        }
    }
    // `python -m timeit 'code'`
    if let Some((module, at)) = module_of(name, arguments) {
        let own = &arguments[at.min(arguments.len())..];
        arguments::judge(module, own, &mut judged);
        code = own.iter().map(|field| field.text.clone()).collect();
        if matches!(module, "venv" | "virtualenv" | "ensurepip" | "zipapp") {
            judged.writes.extend(own.iter().filter(|field| !field.text.starts_with('-')).cloned());
        }
    }
    // Of the debugger's words any may be the program that it runs.
    if name == "gdb" {
        code = vec![expand::text(arguments)];
    }
    if !code.is_empty() {
        judged.code = Some(code.join(" "));
    }
    judged
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
            "-files0-from" => {
                judged.reads.extend(arguments.get(at + 1).cloned());
                judged.unsure();
                at += 1;
            }
            "-fprint" | "-fprint0" | "-fls" | "-fprintf" => {
                judged.acts(text);
                judged.writes.extend(arguments.get(at + 1).cloned());
                at += if text == "-fprintf" { 2 } else { 1 };
            }
            // What they run is looked at by itself.
            "-exec" | "-execdir" | "-ok" | "-okdir" => {
                judged.risky.push(text.to_string());
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

/// The commands that `find` runs, each with `{}` for what it finds, and where it stands; `None` where the end of one is missing or open.
pub(crate) fn find_runs(arguments: &[Field]) -> Option<Vec<(usize, Vec<Field>)>> {
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
        all.push((at - 1, command.collect()));
        at += end + 1;
    }
    Some(all)
}

/// The commands that `fd` runs, each with the place of its option.
pub(crate) fn fd_runs(name: &str, arguments: &[Field]) -> Vec<(usize, Vec<Field>)> {
    let mut all = Vec::new();
    let mut at = 0;
    while let Some(field) = arguments.get(at).filter(|_| matches!(name, "fd" | "fdfind")) {
        let text = field.text.as_str();
        let glued = ["--exec=", "--exec-batch="].iter().find_map(|option| text.strip_prefix(option));
        let glued = glued.or_else(|| {
            let letters = text.strip_prefix('-').filter(|letters| !letters.starts_with('-'))?;
            let (flags, glued) = letters.split_once(['x', 'X'])?;
            flags.chars().all(|flag| "HIsipagLuF0l1q".contains(flag)).then_some(glued)
        });
        let Some(program) = glued.or(matches!(text, "--exec" | "--exec-batch").then_some("")) else {
            at += 1;
            continue;
        };
        let rest = &arguments[at + 1..];
        let end = rest.iter().position(|field| field.text == ";").unwrap_or(rest.len());
        let first = (!program.is_empty()).then(|| tail(field, program));
        let words: Vec<Field> = first.into_iter().chain(rest[..end].iter().cloned()).collect();
        let is_placed =
            |field: &Field| ["{}", "{.}", "{/}", "{//}", "{/.}"].iter().any(|place| field.text.contains(place));
        let adds = !words.iter().any(is_placed);
        let placed = words.into_iter().map(|field| match field.text.find('{') {
            Some(0) if field.text == "{}" => found(&field),
            Some(place) if is_placed(&field) => Field { known: Some(place), ..field },
            _ => field,
        });
        let command: Vec<Field> = placed.chain(adds.then(|| Field::unknown("{}"))).collect();
        if command.len() > usize::from(adds) {
            all.push((at, command));
        }
        at += end + 2;
    }
    all
}

/// A word with `{}` in it: known up to there. What `find` puts there begins with one of its paths, not with a dash.
fn found(field: &Field) -> Field {
    let known = field.text.find("{}").unwrap_or_default();
    if known == 0 && field.text == "{}" {
        return Field { text: "./{}".to_string(), known: Some(2), splits: false, ..Field::default() };
    }
    Field { known: Some(known), splits: false, ..field.clone() }
}

/// The path in an address: `%2e` is a dot, and to `curl` what stands in brackets one of several. `None` where these are braces.
fn local(path: &str, expands: bool) -> Option<String> {
    let mut plain = Vec::new();
    let mut rest = path.as_bytes().iter();
    while let Some(byte) = rest.next().copied() {
        let code = rest.as_slice().get(..2).filter(|_| byte == b'%').and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(decoded) => {
                plain.push(decoded);
                rest.nth(1);
            }
            None => plain.push(byte),
        }
    }
    let plain = String::from_utf8(plain).ok()?;
    let plain = plain.strip_prefix("localhost").map_or(plain.clone(), ToString::to_string);
    (!expands || !path.contains(['{', '}'])).then_some(plain)
}

/// A path in which wildcards may stand.
fn pattern(path: &str) -> Field {
    match path.find(['*', '?', '[']) {
        Some(at) => Field { known: Some(at), only_wildcards: true, ..Field::literal(path) },
        None => Field::literal(path),
    }
}

/// `curl`, `wget`: what they fetch, send and write.
fn fetch(name: &str, arguments: &[Field]) -> Judged {
    let mut judged = Judged::of(Effect::Changes);
    let operands = arguments::judge(name, arguments, &mut judged);
    for field in operands {
        match field.text.strip_prefix("file://") {
            Some(path) => match local(path, name == "curl") {
                Some(plain) if plain == path => judged.reads.push(tail(field, path)),
                Some(plain) if !field.is_open() || field.only_wildcards => judged.reads.push(pattern(&plain)),
                Some(_) | None => judged.reads.push(Field::unknown(&field.text)),
            },
            None => judged.hosts.extend(host(&field.text)),
        }
    }
    for (at, field) in arguments.iter().enumerate() {
        let text = field.text.as_str();
        let is_value = at > 0 && arguments[at - 1].text.starts_with('-');
        // What is sent from a file: `-d @file`, `-d@file`, `-F name=@file`, `-F name=<file`.
        let encodes = |text: &str| ["--data-u", "--url-q", "--var"].iter().any(|option| text.starts_with(option));
        let encoded = encodes(text) || at > 0 && encodes(&arguments[at - 1].text);
        let sent = if is_value { text.strip_prefix('@') } else { None }
            .or_else(|| text.split_once('@').filter(|_| encoded).map(|(_, path)| path))
            .or_else(|| text.split_once("=@").map(|(_, path)| path))
            .or_else(|| text.split_once("=<").map(|(_, path)| path))
            .or_else(|| text.strip_prefix('-').and_then(|letters| letters.split_once('@')).map(|(_, path)| path));
        if let Some(path) = sent.filter(|path| !path.is_empty() && !text.contains("://")) {
            judged.reads.push(tail(field, path.split(';').next().unwrap_or(path)));
            judged.risky.push(text.to_string());
        }
        // `-w '%output{file}'` writes what it prints to a file.
        if let Some((_, file)) = text.split_once("%output{").filter(|_| name == "curl") {
            judged.acts(text);
            let file = file.split('}').next().unwrap_or_default().trim_start_matches(">>");
            judged.writes.push(tail(field, file));
        }
        // Settings, of which it prints what it does not understand.
        let glued = text.strip_prefix("-K").or_else(|| text.strip_prefix("--config="));
        if let Some(file) = glued.filter(|file| !file.is_empty() && name == "curl") {
            judged.reads.push(tail(field, file));
        } else if name == "curl" && at > 0 && matches!(arguments[at - 1].text.as_str(), "-K" | "--config") {
            judged.reads.push(field.clone());
        }
        let sends = ["-T", "--upload-file", "--post-file", "--body-file", "-i", "--input-file", "--netrc-file"];
        if sends.iter().any(|option| text == *option || text.starts_with(&format!("{option}="))) {
            judged.risky.push(text.to_string());
        }
        if let Some(url) =
            text.strip_prefix("--url=").or_else(|| (at > 0 && arguments[at - 1].text == "--url").then_some(text))
        {
            judged.hosts.extend(host(url));
        }
    }
    judged
}
