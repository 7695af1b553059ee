//! Programs that open whatever lies below a folder: the files are named nowhere, and a rule that forbids one has to see the folder.
//!
//! What only lists names (`ls -R`, `find` by itself, `tree`) is not here. A word that turns out to be a file is none of these, which
//! whoever knows the disk can tell.

use crate::expand::Field;
use crate::harmless;
use crate::judged::Under;

/// Programs that search, pack, send or serve all that lies below their operands, or below the folder that they are in.
const WHOLE: &str = "\
    serve http-server miniserve darkhttpd live-server static-server simple-http-server repomix gitingest code2prompt files-to-prompt \
    gitleaks trufflehog detect-secrets semgrep ast-grep mksquashfs genisoimage mkisofs xorrisofs ditto";
/// The same, behind one of these words.
const BY_WORD: &[(&str, &str)] = &[
    ("7z 7za 7zr rar", "a u"),
    ("rclone", "copy copyto sync move moveto cat serve"),
    ("aws gsutil s3cmd mc az gcloud", "cp mv sync put copy upload"),
    ("restic borg kopia duplicity tarsnap", "backup create snapshot full incr"),
    ("docker podman nerdctl kubectl oc", "cp"),
    ("croc wormhole", "send"),
    ("caddy", "file-server"),
];
/// Programs that `find` may run on what it finds without their reading what is in it.
const ONLY_NAMES: &str = "\
    echo printf ls dir vdir stat basename dirname realpath readlink test [ : true false rm rmdir unlink touch mkdir chmod chown chgrp \
    du";

/// Whether a program does not look into the files that it is given.
pub(crate) fn only_names(name: &str) -> bool {
    lists(ONLY_NAMES, name)
}

/// What the program `name` opens below folders. `fed`: something else writes its input; `reads`: what it is known to read.
pub(crate) fn of(name: &str, arguments: &[Field], fed: bool, reads: &[Field]) -> Vec<Under> {
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let operands = || arguments.iter().filter(|field| is_operand(field));
    match plain {
        "grep" | "egrep" | "fgrep" | "zgrep" | "bzgrep" | "xzgrep" | "zstdgrep" | "ggrep" | "pcregrep"
        | "pcre2grep" | "ugrep" | "rgrep" => grep(name, arguments),
        "rg" | "ripgrep" | "rga" | "ag" | "ack" | "pt" | "sift" | "ug" => ripgrep(name, arguments, fed),
        "git" => git(arguments),
        "cp" | "scp" | "rsync" if is_recursive(arguments, "rRa", &["--recursive", "--archive"]) => {
            reads.iter().map(Under::all).collect()
        }
        // Another name for the folder is another for what is in it.
        "mv" | "ln" => {
            let one = harmless::files(name, arguments);
            let alone = one.first().filter(|_| one.len() == 1).map(|field| (*field).clone());
            reads.iter().cloned().chain(alone).map(|field| Under::all(&field)).collect()
        }
        "diff" if is_recursive(arguments, "r", &["--recursive"]) => reads.iter().map(Under::all).collect(),
        "tar" | "bsdtar" | "gtar" | "star" if crate::arguments::creates(arguments) => tar(arguments, reads),
        "zip"
            if is_recursive(arguments, "rR", &["--recurse-paths"])
                || arguments.iter().any(|field| field.text == "-@") =>
        {
            or_here(operands().skip(1))
        }
        "jar" if operands().next().is_some_and(|field| field.text.contains(['c', 'u'])) => or_here(operands().skip(1)),
        "jar" if has_letter(arguments, "cu") => or_here(operands()),
        "cpio" | "bsdcpio" if is_recursive(arguments, "op", &["--create", "--pass-through"]) => {
            or_here(std::iter::empty())
        }
        "pax" if has_letter(arguments, "w") => or_here(operands()),
        "wc" | "sort" if arguments.iter().any(|field| field.text.starts_with("--files0-f")) => {
            or_here(std::iter::empty())
        }
        "python" | "pypy" => python(arguments),
        "php" if has_letter(arguments, "S") => {
            or_here(arguments.windows(2).filter(|two| two[0].text == "-t").map(|two| &two[1]))
        }
        "httpd" => or_here(arguments.windows(2).filter(|two| two[0].text == "-h").map(|two| &two[1])),
        "ruby" if arguments.iter().any(|field| field.text == "-run") => or_here(operands().skip(1)),
        plain if lists(WHOLE, plain) => or_here(operands()),
        plain => {
            let by_word = BY_WORD.iter().find(|(names, _)| lists(names, plain));
            let words = by_word.map(|(_, words)| *words).unwrap_or_default();
            let at = arguments.iter().take(4).position(|field| lists(words, &field.text));
            let behind = at.map(|at| arguments[at + 1..].iter().filter(|field| is_operand(field)));
            behind.map(or_here).unwrap_or_default()
        }
    }
}

/// What `find` gives to the command that it runs behind these arguments.
pub(crate) fn found_by_find(arguments: &[Field]) -> Vec<Under> {
    let is_path = |field: &&Field| {
        !field.text.starts_with(['-', '(', '!', ',']) || matches!(field.text.as_str(), "-H" | "-L" | "-P")
    };
    let folders = arguments.iter().take_while(is_path).filter(|field| !field.text.starts_with('-'));
    let names = names_of_find(arguments).unwrap_or_default();
    or_here(folders).into_iter().map(|under| Under { names: names.clone(), ..under }).collect()
}

/// What the names are like that `find` finds, where each test in front says so.
fn names_of_find(arguments: &[Field]) -> Option<Vec<String>> {
    let texts: Vec<&str> = arguments.iter().map(|field| field.text.as_str()).collect();
    let value = |at: usize| arguments.get(at + 1).filter(|field| !field.is_open()).map(|field| field.text.clone());
    let turns = |text: &&str| matches!(*text, "!" | "-not" | "-o" | "-or" | "," | "(" | ")");
    let open = texts.iter().position(|text| *text == "(");
    let close = texts.iter().rposition(|text| *text == ")");
    let (Some(open), Some(close)) = (open, close) else {
        let at = texts.iter().position(|text| *text == "-name")?;
        return if texts.iter().any(turns) { None } else { value(at).map(|name| vec![name]) };
    };
    // `\( -name a -o -name b \)`, and nothing that turns it around.
    if open > close || texts[..open].iter().chain(&texts[close + 1..]).any(turns) {
        return None;
    }
    let mut names = Vec::new();
    let mut at = open + 1;
    while at < close {
        if texts[at] != "-name" || at + 1 >= close {
            return None;
        }
        names.push(value(at)?);
        at += 2;
        if at < close {
            if !matches!(texts[at], "-o" | "-or") {
                return None;
            }
            at += 1;
        }
    }
    (!names.is_empty()).then_some(names)
}

/// What `fd` gives to the command that it runs behind these arguments.
pub(crate) fn found_by_fd(arguments: &[Field]) -> Vec<Under> {
    let hidden =
        has_letter(arguments, "Hu") || has_long(arguments, &["--hidden", "--unrestricted"]) || opens(arguments);
    let names: Vec<String> =
        values(arguments, 'e', &["--extension"]).into_iter().map(|extension| format!("*.{extension}")).collect();
    let folders = harmless::files("fd", arguments);
    or_here(folders.into_iter()).into_iter().map(|under| Under { names: names.clone(), hidden, ..under }).collect()
}

fn grep(name: &str, arguments: &[Field]) -> Vec<Under> {
    let by_option = is_recursive(arguments, "rR", &["--recursive", "--dereference-recursive"])
        || values(arguments, 'd', &["--directories"]).iter().any(|value| value.starts_with('r'));
    if !by_option && name != "rgrep" && name != "ugrep" {
        return Vec::new();
    }
    let names = values(arguments, '\0', &["--include"]);
    let mut files = harmless::files(name, arguments);
    if !harmless::is_known(name) {
        files = arguments.iter().filter(|field| is_operand(field)).skip(1).collect();
    }
    or_here(files.into_iter()).into_iter().map(|under| Under { names: names.clone(), ..under }).collect()
}

fn ripgrep(name: &str, arguments: &[Field], fed: bool) -> Vec<Under> {
    let only_lists = ["--files", "--type-list", "--version", "--help", "-V", "-h"];
    if arguments.iter().any(|field| only_lists.contains(&field.text.as_str())) {
        return Vec::new();
    }
    let files: Vec<&Field> = match harmless::is_known(name) {
        true => harmless::files(name, arguments),
        false => arguments.iter().filter(|field| is_operand(field)).skip(1).collect(),
    };
    if files.is_empty() && fed {
        return Vec::new();
    }
    let globs: Vec<String> =
        values(arguments, 'g', &["--glob", "--iglob"]).into_iter().filter(|glob| !glob.starts_with('!')).collect();
    let names: Vec<String> = globs
        .iter()
        .map(|glob| glob.rsplit('/').next().unwrap_or(glob).to_string())
        .filter(|_| !arguments.iter().any(|field| field.text.starts_with("--iglob")))
        .collect();
    let twice = arguments.iter().filter(|field| field.text.starts_with("-u") || field.text == "--unrestricted");
    let unrestricted = twice.map(|field| field.text.matches('u').count().max(1)).sum::<usize>() > 1;
    // What a glob or a type asks for is found though it is hidden.
    let hidden = !matches!(name, "rg" | "ripgrep")
        || has_letter(arguments, ".t")
        || has_long(arguments, &["--hidden", "--type", "--type-add", "--ignore-file"])
        || !globs.is_empty()
        || unrestricted
        || opens(arguments);
    or_here(files.into_iter()).into_iter().map(|under| Under { names: names.clone(), hidden, ..under }).collect()
}

/// Subcommands that print whatever a repository holds.
fn git(arguments: &[Field]) -> Vec<Under> {
    let at = crate::git::subcommand_at(arguments);
    let rest = arguments.get(at + 1..).unwrap_or_default();
    match arguments.get(at).map(|field| field.text.as_str()) {
        Some("grep") => {
            let behind = rest.iter().skip_while(|field| field.text != "--").skip(1);
            // A pattern for paths is for names at any depth.
            let (wild, plain): (Vec<&Field>, Vec<&Field>) = behind.partition(|field| field.text.contains('*'));
            let names =
                wild.iter().map(|field| field.text.rsplit('/').next().unwrap_or_default().to_string()).collect();
            let mut all: Vec<Under> = plain.iter().map(|field| Under::all(field)).collect();
            if !wild.is_empty() || plain.is_empty() {
                all.push(Under { names, ..Under::all(&Field::literal(".")) });
            }
            all
        }
        Some("archive" | "fast-export") => or_here(std::iter::empty()),
        Some("checkout-index") if has_letter(rest, "az") || has_long(rest, &["--all", "--stdin"]) => {
            or_here(std::iter::empty())
        }
        Some("cat-file") if rest.iter().any(|field| field.text.starts_with("--batch")) => {
            let checks = rest.iter().any(|field| field.text.starts_with("--batch-check"));
            if checks { Vec::new() } else { or_here(std::iter::empty()) }
        }
        Some("diff") if rest.iter().any(|field| field.text == "--no-index") => {
            rest.iter().filter(|field| is_operand(field)).map(Under::all).collect()
        }
        _ => Vec::new(),
    }
}

fn tar(arguments: &[Field], reads: &[Field]) -> Vec<Under> {
    let from = values(arguments, 'C', &["--directory"]).into_iter().map(|folder| Field::literal(&folder));
    let lists = has_letter(arguments, "T") || has_long(arguments, &["--files-from"]);
    let first = arguments.first().filter(|field| !field.text.starts_with('-') && field.text.contains(['T', 'C']));
    let here = (lists || first.is_some()).then(|| Field::literal("."));
    reads.iter().cloned().chain(from).chain(here).map(|field| Under::all(&field)).collect()
}

fn python(arguments: &[Field]) -> Vec<Under> {
    let at = arguments.iter().position(|field| field.text.starts_with("-m")).unwrap_or(arguments.len());
    let Some(option) = arguments.get(at) else { return Vec::new() };
    let glued = &option.text[2..];
    let (module, rest) = match glued {
        "" => (arguments.get(at + 1).map(|field| field.text.as_str()), arguments.get(at + 2..)),
        module => (Some(module), arguments.get(at + 1..)),
    };
    let rest = rest.unwrap_or_default();
    match module {
        Some("http.server" | "SimpleHTTPServer") => {
            let named: Vec<Field> =
                values(rest, 'd', &["--directory"]).into_iter().map(|folder| Field::literal(&folder)).collect();
            or_here(named.iter())
        }
        Some("zipfile" | "tarfile") if has_letter(rest, "c") || has_long(rest, &["--create"]) => {
            or_here(rest.iter().filter(|field| is_operand(field)).skip(1))
        }
        _ => Vec::new(),
    }
}

/// These folders; the one that the program is in where there are none.
/// These folders; without any the one that the command is in.
pub(crate) fn or_here<'f>(folders: impl Iterator<Item = &'f Field>) -> Vec<Under> {
    let all: Vec<Under> = folders.map(Under::all).collect();
    if all.is_empty() { vec![Under::all(&Field::literal("."))] } else { all }
}

fn is_operand(field: &Field) -> bool {
    !field.text.starts_with('-') && !field.text.contains("://")
}

/// Whether an option says so, or may.
fn is_recursive(arguments: &[Field], letters: &str, long: &[&str]) -> bool {
    has_letter(arguments, letters) || has_long(arguments, long) || opens(arguments)
}

/// Whether an argument may turn out to be an option. A wildcard with a name around it does not.
fn opens(arguments: &[Field]) -> bool {
    let is_name = |field: &Field| field.only_wildcards && field.text.chars().any(|c| !matches!(c, '*' | '?'));
    arguments.iter().any(|field| field.may_be_option() && !is_name(field))
}

fn has_letter(arguments: &[Field], letters: &str) -> bool {
    let clusters = arguments.iter().filter_map(|field| field.text.strip_prefix('-'));
    clusters.filter(|cluster| !cluster.starts_with('-')).any(|cluster| cluster.chars().any(|c| letters.contains(c)))
}

/// Whether one of these long options is given, in whatever part of it a program takes for it.
fn has_long(arguments: &[Field], long: &[&str]) -> bool {
    let names = arguments.iter().map(|field| field.text.split('=').next().unwrap_or_default());
    names.filter(|name| name.len() > 3).any(|name| long.iter().any(|known| known.starts_with(name)))
}

/// The values of an option, glued to it or behind it. One that is known only when it runs stands for any.
fn values(arguments: &[Field], letter: char, long: &[&str]) -> Vec<String> {
    let mut all = Vec::new();
    for (at, field) in arguments.iter().enumerate() {
        let next = || arguments.get(at + 1);
        let text = field.text.as_str();
        let found = match text.strip_prefix('-').filter(|rest| !rest.starts_with('-')) {
            Some(cluster) => match cluster.split_once(letter) {
                Some((_, "")) => next().map(|next| (next.text.clone(), next.is_open())),
                Some((_, value)) => Some((value.to_string(), field.is_open())),
                None => None,
            },
            None if long.contains(&text) => next().map(|next| (next.text.clone(), next.is_open())),
            None => {
                let glued = text.split_once('=').filter(|(name, _)| long.contains(name));
                glued.map(|(_, value)| (value.to_string(), field.is_open()))
            }
        };
        all.extend(found.map(|(value, open)| if open { "*".to_string() } else { value }));
    }
    all
}

fn lists(list: &str, name: &str) -> bool {
    list.split_whitespace().any(|known| known == name)
}
