//! Options as a set: whoever forbids `rm -rf *` means `rm -fr x`, `rm -r -f x`, `rm --recursive --force x` and `rm x -rf`, too.

/// Programs, some with a subcommand, and names of one option of theirs, in groups: letters and long names, without dashes.
const SAME: &[(&str, &str)] = &[
    ("rm", "r R recursive, f force, d dir, i interactive, v verbose"),
    ("cp", "r R recursive, a archive, f force, l link, s symbolic-link, t target-directory"),
    ("mv", "f force, n no-clobber, t target-directory"),
    ("ln", "s symbolic, f force"),
    ("chmod chown chgrp", "R recursive, f quiet silent"),
    ("mkdir rmdir", "p parents"),
    ("git push", "f force, d delete, n dry-run, u set-upstream"),
    ("git fetch git pull", "f force, p prune, t tags"),
    ("git commit", "a all, m message, n no-verify, F file, s signoff, e edit"),
    ("git clean", "f force, n dry-run, i interactive, e exclude, q quiet"),
    ("git branch git tag", "d delete, f force, m move, c copy, l list, a all annotate"),
    ("git checkout git switch", "f force discard-changes, c create, C force-create, d detach"),
    ("git add git rm git mv", "A all, f force, u update, p patch, n dry-run"),
    ("git rebase", "i interactive, x exec, f force-rebase no-ff"),
    ("git worktree", "f force"),
    (
        "docker podman",
        "d detach, i interactive, t tty tag, v volume volumes, p publish, e env, u user, f force file, a all, w workdir",
    ),
    ("kubectl", "n namespace, f filename, A all-namespaces, l selector, k kustomize"),
    ("npm pnpm yarn", "g global, D save-dev, f force, w workspace"),
    ("pip pip2 pip3", "U upgrade, r requirement, e editable, t target, y yes, i index-url"),
    ("cargo", "p package, r release, F features, j jobs"),
    (
        "curl",
        "o output, O remote-name, d data, X request, T upload-file, F form, k insecure, L location, H header, u user",
    ),
    ("wget", "O output-document, i input-file, r recursive"),
    ("sed gsed", "i in-place, n quiet silent, e expression, f file"),
    ("tar", "x extract get, c create, t list, f file, C directory, r append, u update, z gzip"),
    (
        "make gmake",
        "C directory, f file makefile, B always-make, j jobs, k keep-going, n just-print dry-run, i ignore-errors",
    ),
    ("rsync", "a archive, r recursive, e rsh, n dry-run"),
    ("apt apt-get dnf yum", "y yes assume-yes assumeyes"),
    ("systemctl", "f force, t type, H host, M machine"),
    ("kill pkill killall", "s signal, l list"),
];
/// Programs whose long options have one dash: their letters are none.
const SINGLE_DASH: &str =
    "find gfind java javac go terraform tofu openssl ffmpeg ffprobe gcc g++ clang clang++ ld convert magick tcc";
/// Programs whose operands are names of what to do, in any order.
const ANY_ORDER: &str = "make gmake bmake just rake ninja ant gradle gradlew mvn task";

/// Whether a word is an option.
pub(crate) fn is_flag(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-') && word != "--"
}

/// Whether the operands of a program may stand in any order.
pub(crate) fn is_any_order(program: &str) -> bool {
    has(ANY_ORDER, base(program))
}

/// Whether these words have each of the options that a pattern names.
pub(crate) fn have_all(words: &[&str], wanted: &[&str]) -> bool {
    let options: Vec<&str> =
        words.iter().skip(1).take_while(|word| **word != "--").filter(|word| is_flag(word)).copied().collect();
    let groups = groups_of(words);
    wanted.iter().all(|flag| has_one(base(words[0]), &options, &groups, flag))
}

fn has_one(program: &str, options: &[&str], groups: &[&str], flag: &str) -> bool {
    if let Some((front, _)) = flag.split_once('*') {
        return options.iter().any(|option| option.starts_with(front));
    }
    let is_whole =
        |option: &&str| *option == flag || option.strip_prefix(flag).is_some_and(|rest| rest.starts_with('='));
    if options.iter().any(is_whole) {
        return true;
    }
    if flag.contains('=') || !flag.starts_with("--") && has(SINGLE_DASH, program) {
        return false;
    }
    match flag.strip_prefix("--") {
        Some(long) => has_name(options, groups, long),
        None => flag[1..].chars().all(|letter| has_name(options, groups, letter.encode_utf8(&mut [0; 4]))),
    }
}

/// Whether one of the options has this name, or another of the same option.
fn has_name(options: &[&str], groups: &[&str], name: &str) -> bool {
    let group = groups.iter().find(|group| has(group, name)).copied().unwrap_or(name);
    group.split_whitespace().any(|name| {
        options.iter().any(|option| match option.strip_prefix("--") {
            // GNU programs take any beginning of a name.
            Some(long) => {
                let long = long.split('=').next().unwrap_or_default();
                name.len() > 1 && (name == long || long.len() > 1 && name.starts_with(long))
            }
            None => name.len() == 1 && option[1..].contains(name),
        })
    })
}

/// The options of the program that have several names.
fn groups_of(words: &[&str]) -> Vec<&'static str> {
    /// Words among which the subcommand is looked for.
    const WITHIN: usize = 6;
    let program = base(words[0]);
    let mut all = Vec::new();
    for (names, groups) in SAME {
        let is_program = !names.starts_with("git ") && has(names, program);
        let is_subcommand = names.starts_with("git ") && program == "git" && {
            let subcommands = names.split_whitespace().filter(|name| *name != "git");
            subcommands.into_iter().any(|name| words.iter().take(WITHIN).any(|word| *word == name))
        };
        if is_program || is_subcommand {
            all.extend(groups.split(',').map(str::trim));
        }
    }
    all
}

fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

fn has(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|known| known == word)
}
