//! `git`: its subcommands, and the options by which it writes files or runs programs.

use crate::expand::{Field, tail};
use crate::judged::{Judged, host};
use crate::options::{Grammar, Token};
use crate::reading::Effect;

/// In front of the subcommand, and harmless.
const GLOBAL: Grammar = Grammar {
    short: "hv",
    long: "no-pager no-optional-locks literal-pathspecs no-replace-objects version help html-path man-path info-path",
};
/// In front of the subcommand: another repository, configuration or programs. What git then runs is anybody's.
const GLOBAL_ACTS: Grammar = Grammar {
    short: "c:C:pP",
    long: "config-env= exec-path? git-dir= work-tree= namespace= super-prefix= bare paginate attr-source= list-cmds=",
};

/// What commands that look at history take.
const LOOK: Grammar = Grammar {
    short: "abcCdDefghiklLmMnopqrRstuUvwWxXzBEFGSIA0123456789n:L:S:G:U:M?C?B?l:X?",
    long: "oneline graph decorate? all branches? tags? remotes? stat? shortstat numstat name-only name-status patch no-patch raw summary patch-with-stat unified= color? no-color word-diff? word-diff-regex= color-words? color-moved? minimal patience histogram diff-algorithm= follow max-count= skip= since= after= until= before= author= committer= grep= invert-grep all-match regexp-ignore-case basic-regexp extended-regexp fixed-strings perl-regexp merges no-merges first-parent min-parents= max-parents= reverse date= date-order topo-order author-date-order relative-date pretty? format= abbrev-commit no-abbrev-commit abbrev? no-abbrev parents children left-right cherry-pick cherry-mark cherry full-history simplify-merges ancestry-path? cached staged merge-base no-index exit-code quiet check ignore-space-at-eol ignore-space-change ignore-all-space ignore-blank-lines ignore-submodules? submodule? diff-filter= find-renames? find-copies? find-copies-harder no-renames inter-hunk-context= function-context relative? no-relative text binary full-index src-prefix= dst-prefix= no-prefix no-ext-diff no-textconv pickaxe-all pickaxe-regex ita-invisible-in-index combined-all-paths cc remerge-diff dirstat? compact-summary walk-reflogs no-walk? do-walk boundary source use-mailmap mailmap no-decorate decorate-refs= decorate-refs-exclude= clear-decorations expand-tabs? notes? no-notes encoding= short branch porcelain? show-stash ahead-behind no-ahead-behind long verbose untracked-files? ignored? column? no-column renames no-rename null show-current list contains= no-contains= merged? no-merged? sort= points-at= ignore-case cached deleted others modified stage unmerged killed directory exclude= exclude-standard error-unmatch full-name deduplicate eol name-only recursive count show-toplevel show-prefix show-cdup git-dir is-inside-work-tree is-bare-repository is-inside-git-dir verify symbolic symbolic-full-name absolute-git-dir git-common-dir show-superproject-working-tree abbrev-ref? not default= get get-all get-regexp show-origin show-scope local global system name-only type= heads refs tags get-url upload-pack-none line-number files-with-matches files-without-match only-matching word-regexp invert-match max-depth= and or untracked no-index heading break show-function context= after-context= before-context= incremental porcelain line-porcelain root show-stats score-debug show-name show-number show-email ignore-rev= ignore-revs-file= batch-check? textconv-none exact-match candidates= dirty? broken? always match= long exclude= first-parent tags-only allow-unknown-type numbered email group= zero end-of-options include-root-refs",
};
/// What writes a file or runs a program in commands that else only look.
const LOOK_ACTS: Grammar = Grammar {
    short: "O:",
    long: "output= output-directory= show-signature ext-diff textconv open-files-in-pager? exec= extcmd= upload-pack= receive-pack= template= config= smtp-server= sendmail-cmd= to-cmd= cc-cmd= header-cmd= reference-transaction contents= filters batch batch-command access-hook= file= separate-git-dir= prefix-cmd= export-marks=",
};

/// Subcommands that only look, whatever operands they have.
const LOOKS: &str = "\
    status log diff show shortlog blame annotate whatchanged rev-parse rev-list ls-files ls-tree describe \
    name-rev merge-base cat-file for-each-ref show-ref diff-tree diff-index diff-files count-objects grep \
    check-ignore check-attr cherry range-diff version help var show-branch";

/// Every subcommand that git brings, and some that come with other packages. Anything else is an alias.
const SUBCOMMANDS: &str = "\
    add am annotate apply archimport archive attr backfill bisect blame branch bugreport bundle cat-file check-attr check-ignore \
    check-mailmap check-ref-format checkout checkout-index cherry cherry-pick citool clean clone column commit commit-graph \
    commit-tree config count-objects credential credential-cache credential-store cvsexportcommit cvsimport cvsserver daemon \
    describe diagnose diff diff-files diff-index diff-pairs diff-tree difftool fast-export fast-import fetch fetch-pack \
    filter-branch fmt-merge-msg for-each-ref for-each-repo format-patch fsck fsck-objects gc get-tar-commit-id gitk grep gui \
    hash-object help hook http-backend http-fetch http-push imap-send index-pack init init-db instaweb interpret-trailers \
    last-modified lfs log ls-files ls-remote ls-tree mailinfo mailsplit maintenance merge merge-base merge-file merge-index \
    merge-one-file merge-tree mergetool mktag mktree multi-pack-index mv name-rev notes p4 pack-objects pack-redundant pack-refs \
    patch-id pickaxe prune prune-packed pull push quiltimport range-diff read-tree rebase receive-pack reflog refs remote \
    remote-ext remote-fd remote-ftp remote-http remote-https repack replace replay repo request-pull rerere reset restore rev-list \
    rev-parse revert rm send-email send-pack sh-i18n sh-setup shell shortlog show show-branch show-index show-ref sparse-checkout \
    stage stash status stripspace submodule subtree svn switch symbolic-ref tag unpack-file unpack-objects update-index update-ref \
    update-server-info upload-archive upload-pack var verify-commit verify-pack verify-tag version web--browse whatchanged worktree \
    write-tree flow crypt annex filter-repo";

/// Configuration whose value is a command, or a folder or file in which commands stand.
const RUNS: &[&str] = &[
    "core.pager",
    "core.editor",
    "core.sshcommand",
    "core.fsmonitor",
    "core.hookspath",
    "core.askpass",
    "core.gitproxy",
    "core.attributesfile",
    "core.worktree",
    "core.alternaterefscommand",
    "sequence.editor",
    "diff.external",
    "credential.helper",
    "gpg.program",
    "gpg.ssh.defaultkeycommand",
    "init.templatedir",
    "include.path",
    "interactive.difffilter",
    "web.browser",
    "help.browser",
    "uploadpack.packobjectshook",
    "instaweb.httpd",
    "sendemail.smtpserver",
    "sendemail.tocmd",
    "sendemail.cccmd",
];

/// Whether a git has this subcommand, whoever configured it. What it does not have is an alias.
pub(crate) fn has_subcommand(name: &str) -> bool {
    SUBCOMMANDS.split_whitespace().any(|known| known == name) || name.starts_with("credential-")
}

/// Whether the value of this setting, in small letters, is a command.
pub(crate) fn runs(key: &str) -> bool {
    let ends = [
        "textconv",
        ".command",
        ".cmd",
        ".clean",
        ".smudge",
        ".process",
        ".program",
        ".driver",
        ".uploadpack",
        ".receivepack",
        ".helper",
        ".path",
        ".vcs",
        ".proxy",
    ];
    RUNS.contains(&key)
        || key.starts_with("pager.")
        || key.starts_with("hook.")
        || ends.iter().any(|end| key.ends_with(end))
}

/// Where the subcommand stands, behind options for git itself.
pub(crate) fn subcommand_at(arguments: &[Field]) -> usize {
    let mut at = 0;
    while arguments.get(at).is_some_and(|field| field.text.starts_with('-')) {
        at += match GLOBAL_ACTS.token(&arguments[at..]) {
            Token::Option { words, .. } => words,
            Token::Cluster(_) | Token::End | Token::Operand | Token::Unknown => 1,
        };
    }
    at
}

/// The folders that git goes to before it does anything.
pub(crate) fn folders(arguments: &[Field]) -> impl Iterator<Item = &Field> {
    let end = subcommand_at(arguments).min(arguments.len());
    let named = arguments[..end].windows(2).filter(|two| two[0].text == "-C");
    named.map(|two| &two[1])
}

/// What a git command does.
pub(crate) fn judge(arguments: &[Field]) -> Judged {
    let mut judged = Judged::of(Effect::ChangesNothing);
    let mut at = 0;
    while let Some(field) = arguments.get(at) {
        if field.splits || field.may_be_option() {
            judged.may_act(&field.text);
            return judged;
        }
        match GLOBAL_ACTS.token(&arguments[at..]) {
            Token::Option { words, .. } => {
                judged.acts(&field.text);
                // The value is a part of what a rule must name.
                judged.risky.extend(arguments.get(at + 1).filter(|_| words == 2).map(|value| value.text.clone()));
                at += words;
                continue;
            }
            Token::Cluster(_) | Token::End | Token::Operand | Token::Unknown => {}
        }
        match GLOBAL.token(&arguments[at..]) {
            Token::Option { words, .. } => at += words,
            Token::Operand => break,
            Token::Cluster(_) | Token::End | Token::Unknown => {
                judged.acts(&field.text);
                at += 1;
            }
        }
    }
    let (Some(subcommand), rest) = (arguments.get(at), arguments.get(at + 1..).unwrap_or_default()) else {
        return judged;
    };
    subcommand_of(&subcommand.text, rest, &mut judged);
    judged
}

fn subcommand_of(name: &str, rest: &[Field], judged: &mut Judged) {
    let (mut operands, mut options) = (Vec::new(), Vec::new());
    let mut at = 0;
    let mut ended = false;
    while let Some(field) = rest.get(at) {
        if ended || !field.text.starts_with('-') {
            if field.may_be_option() && !ended {
                judged.may_act(&field.text);
            }
            operands.push(field);
            at += 1;
            continue;
        }
        options.push(field.text.as_str());
        if field.text == "--" {
            ended = true;
            at += 1;
            continue;
        }
        at += option(name, rest, at, judged);
    }
    let dashes = rest.iter().position(|field| field.text == "--");
    let behind = operands.len()
        - dashes.map_or(operands.len(), |at| operands.iter().filter(|field| before(rest, at, field)).count());
    paths(name, &operands, behind, judged);
    let no_operands = operands.is_empty();
    let first = operands.first().map(|field| field.text.as_str());
    let has = |wanted: &[&str]| options.iter().any(|option| wanted.contains(option));
    let looks = match name {
        name if LOOKS.split_whitespace().any(|known| known == name) => true,
        "branch" => {
            has(&["--list", "-l", "--show-current", "--contains", "--merged", "--no-merged", "--points-at"])
                || no_operands
        }
        "tag" => has(&["--list", "-l", "--contains", "--merged", "--points-at"]) || no_operands,
        "remote" => no_operands || matches!(first, Some("get-url")),
        "stash" => matches!(first, Some("list" | "show")),
        "worktree" | "bundle" => matches!(first, Some("list" | "list-heads")),
        "submodule" => no_operands || matches!(first, Some("status" | "summary")),
        "reflog" => no_operands || matches!(first, Some("show")),
        "notes" => no_operands || matches!(first, Some("list" | "show")),
        "config" => {
            has(&["--get", "--get-all", "--get-regexp", "--list", "-l"]) || matches!(first, Some("get" | "list"))
        }
        "symbolic-ref" => operands.len() == 1 && !has(&["-d", "--delete"]),
        "bisect" => matches!(first, Some("log" | "view")),
        _ => false,
    };
    // Letters that only look in `log`, but delete or move in these.
    let letters =
        matches!(name, "branch" | "tag" | "remote" | "config" | "reflog" | "symbolic-ref" | "stash" | "worktree");
    let changes = letters && options.iter().any(|option| !harmless_here(option));
    if !looks || changes {
        judged.effect = Effect::Changes;
    }
    judged.hosts.extend(
        operands
            .iter()
            .filter(|field| field.text.contains("://") || (name == "clone" && field.text.contains('@')))
            .filter_map(|field| host(&field.text))
            .map(|host| host.split(':').next().unwrap_or_default().to_string()),
    );
    own_options(name, &options, &operands, judged);
    // `ext::` runs a program.
    for field in operands.iter().filter(|field| field.text.contains("::")) {
        if matches!(name, "clone" | "fetch" | "pull" | "push" | "ls-remote" | "remote" | "submodule") {
            judged.acts(&field.text);
        }
    }
}

/// What some subcommands do by options that are harmless in others.
fn own_options(name: &str, options: &[&str], operands: &[&Field], judged: &mut Judged) {
    let has = |wanted: &[&str]| options.iter().any(|option| wanted.contains(option));
    let all = || operands.iter().map(|field| (*field).clone());
    match name {
        // It starts a browser, which the configuration may name.
        "help" => {
            let web = |option: &&&str| has_letter(option, &['w']) || option.starts_with("--w");
            options.iter().filter(web).for_each(|option| judged.acts(option));
        }
        "interpret-trailers" if options.iter().any(|option| option.starts_with("--in")) => {
            judged.acts("--in-place");
            judged.writes.extend(all());
        }
        "merge-file" if !has(&["-p", "--stdout"]) => judged.writes.extend(all().take(1)),
        _ => {}
    }
}

/// Whether a word stands before the one at `at`.
fn before(rest: &[Field], at: usize, field: &Field) -> bool {
    rest[..at].iter().any(|earlier| std::ptr::eq(earlier, field))
}

/// The files that the operands of a subcommand are; the last `behind` of them stand behind `--`.
fn paths(name: &str, operands: &[&Field], behind: usize, judged: &mut Judged) {
    let (front, files) = operands.split_at(operands.len() - behind.min(operands.len()));
    let is_path = |field: &&&Field| {
        let text = field.text.as_str();
        let range = text.contains("..") && !text.starts_with("..") && !text.contains("/..");
        !range
            && !text.contains(':')
            && (text.contains(['/', '.'])
                || matches!(
                    name,
                    "add" | "rm" | "mv" | "clean" | "merge-file" | "hash-object" | "apply" | "am" | "stage" | "restore"
                ))
    };
    // `HEAD:file`, `:0:file`.
    let stored = front.iter().filter_map(|field| {
        let (_, path) = field.text.rsplit_once(':')?;
        Some(tail(field, path)).filter(|_| !field.text.contains("://") && !path.is_empty())
    });
    let named = || front.iter().filter(is_path).chain(files).map(|field| (*field).clone());
    match name {
        "checkout" | "restore" | "reset" | "clean" | "rm" | "mv" | "switch" | "checkout-index" | "sparse-checkout" => {
            judged.writes.extend(named());
            // By its new name it is read past a rule about the old one.
            let moved = if name == "mv" { named().count().saturating_sub(1) } else { 0 };
            judged.reads.extend(named().take(moved));
        }
        // The folder or file that they make.
        "init" | "init-db" => judged.writes.extend(operands.first().map(|field| (*field).clone())),
        "clone" | "worktree" | "bundle" => judged.writes.extend(operands.get(1).map(|field| (*field).clone())),
        "archive" | "format-patch" | "push" | "fetch" | "pull" | "remote" => {}
        "diff" | "show" | "log" | "blame" | "annotate" | "grep" | "cat-file" | "ls-files" | "ls-tree" | "add"
        | "stage" | "commit" | "hash-object" | "apply" | "am" | "whatchanged" | "diff-tree" | "diff-index"
        | "diff-files" | "stash" | "difftool" | "merge-file" => {
            judged.reads.extend(named());
            judged.reads.extend(stored);
        }
        "status" | "branch" | "config" | "rev-parse" | "merge-base" | "describe" | "merge" | "rebase" => {}
        // Any of its words may be a file, or what is stored of one.
        _ => judged.knows_files = false,
    }
}

/// Whether one of these is among the letters behind a single dash.
fn has_letter(option: &str, letters: &[char]) -> bool {
    option.strip_prefix('-').is_some_and(|cluster| !cluster.starts_with('-') && cluster.contains(letters))
}

/// Takes the option at `at` where it names a file or a program that [`option`] knows nothing of; how many words it is, where that is all
/// there is to it.
fn file_option(name: &str, rest: &[Field], at: usize, judged: &mut Judged) -> Option<usize> {
    let field = &rest[at];
    let looks = matches!(name, "log" | "show" | "blame" | "annotate" | "diff" | "shortlog" | "whatchanged");
    let letter = looks && (field.text.starts_with("-L") || field.text.starts_with("-O"));
    let glued = |option: &str| field.text.strip_prefix(option).map(|value| tail(field, value));
    let named = glued("--ignore-revs-file=");
    let separate = (letter && field.text.len() == 2) || field.text == "--ignore-revs-file";
    if separate {
        judged.reads.extend(rest.get(at + 1).and_then(file_of));
        return Some(2);
    }
    if letter {
        judged.reads.extend(file_of(&tail(field, &field.text[2..])));
    }
    judged.reads.extend(named);
    judged.writes.extend(glued("--prefix=").filter(|_| name == "checkout-index"));
    if matches!(name, "instaweb" | "send-email" | "web--browse" | "imap-send") {
        judged.risky.push(field.text.clone());
    }
    None
}

/// Takes the option at `at`; how many words it is.
fn option(name: &str, rest: &[Field], at: usize, judged: &mut Judged) -> usize {
    let text = &rest[at].text;
    let next = rest.get(at + 1);
    if let Some(words) = file_option(name, rest, at, judged) {
        return words;
    }
    match (name, text.as_str()) {
        ("archive" | "format-patch", "-o") => {
            judged.acts(text);
            judged.writes.extend(next.cloned());
            return 2;
        }
        ("clone" | "fetch-pack" | "ls-remote", "-u" | "-c") | ("rebase" | "difftool", "-x") => {
            judged.acts(text);
            return 2;
        }
        // Glued to its value, or behind other letters.
        ("clone" | "fetch-pack" | "ls-remote", letters) if has_letter(letters, &['u', 'c']) => judged.acts(text),
        ("rebase" | "difftool", letters) if has_letter(letters, &['x']) => judged.acts(text),
        ("commit" | "tag" | "merge" | "notes", "-F" | "-t") | ("config", "-f") => {
            judged.reads.extend(next.cloned());
            judged.effect = Effect::Changes;
            return 2;
        }
        ("commit" | "tag" | "merge" | "notes" | "stash", "-m") => {
            judged.effect = Effect::Changes;
            return 2;
        }
        ("grep", "-f") => {
            judged.reads.extend(next.cloned());
            return 2;
        }
        _ => {}
    }
    signatures(text, next, judged);
    // `-O<orderfile>` of diff reads a file; of grep it runs a pager. `--textconv` is on for them anyway.
    match LOOK_ACTS.token(&rest[at..]) {
        Token::Option { words, value, name: option } => {
            judged.acts(text);
            if let Some(value) = value {
                let file = if words == 2 { rest[at + 1].clone() } else { Field::literal(value) };
                match option.as_str() {
                    "output" | "output-directory" | "separate-git-dir" => judged.writes.push(file),
                    "file" | "contents" | "template" => judged.reads.push(file),
                    _ => {}
                }
            }
            return words;
        }
        Token::Cluster(_) | Token::End | Token::Operand | Token::Unknown => {}
    }
    match LOOK.token(&rest[at..]) {
        Token::Option { words, .. }
            if words == 2
                && matches!(name, "branch" | "tag" | "remote" | "stash" | "status" | "show-ref")
                && !text.starts_with("--") =>
        {
            1
        }
        Token::Option { words, .. } => words.min(rest.len() - at),
        Token::Cluster(_) if !text.contains('O') => 1,
        Token::Cluster(_) | Token::End | Token::Operand | Token::Unknown => {
            judged.unsure();
            if LOOKS.split_whitespace().any(|known| known == name) {
                judged.risky.push(text.clone());
            }
            1
        }
    }
}

/// A format that shows signatures runs the program that the settings name for them.
fn signatures(text: &str, next: Option<&Field>, judged: &mut Judged) {
    let format =
        if text == "--format" { next.map(|next| next.text.as_str()) } else { text.starts_with('-').then_some(text) };
    if format.is_some_and(|format| format.contains("%G") || format.contains("%(signature")) {
        judged.acts(text);
        judged.risky.extend(next.filter(|_| text == "--format").map(|next| next.text.clone()));
    }
}

fn harmless_here(option: &str) -> bool {
    let long = option.strip_prefix("--").map(|long| long.split('=').next().unwrap_or_default());
    match long {
        Some("") => true,
        Some(long) => [
            "list",
            "show-current",
            "contains",
            "no-contains",
            "merged",
            "no-merged",
            "points-at",
            "sort",
            "format",
            "verbose",
            "all",
            "remotes",
            "color",
            "no-color",
            "column",
            "no-column",
            "ignore-case",
            "abbrev",
            "no-abbrev",
            "get",
            "get-all",
            "get-regexp",
            "show-origin",
            "show-scope",
            "local",
            "global",
            "system",
            "name-only",
            "type",
            "null",
            "short",
            "quiet",
            "porcelain",
            "stat",
            "patch",
            "oneline",
            "date",
            "max-count",
            "all-names",
        ]
        .contains(&long),
        None => option[1..].chars().all(|letter| "avrlqnzip0123456789".contains(letter)),
    }
}

/// The file in `1,5:file` and `:function:file`, or the whole.
fn file_of(field: &Field) -> Option<Field> {
    let file = field.text.rsplit(':').next().unwrap_or_default();
    (!file.is_empty()).then(|| tail(field, file))
}
