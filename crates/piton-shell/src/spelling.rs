//! Ways to spell one command: with options in front of what it does, by another of its names, in short. Whoever forbids
//! `git push *` means `git -C . push`, `git --no-pager push` and `git-push`, too.

use crate::special;

/// Programs, and their options in front of a subcommand that take the next word. Of any other option it is taken to be possible.
const TAKE_A_VALUE: &[(&str, &str)] = &[
    ("git", "-c -C --git-dir --work-tree --namespace --super-prefix --config-env --attr-source"),
    ("docker podman", "-H --host -c --context --config -l --log-level -f --file -p --project-name --project-directory"),
    ("kubectl", "-n --namespace --context --cluster --user -s --server --kubeconfig --token --as -o --output"),
    ("cargo", "--config -C -Z --color --manifest-path --target-dir -p --package"),
    ("npm pnpm yarn", "--tag --prefix --registry -C --dir --cwd -w --workspace --userconfig --otp --access --filter"),
    ("helm", "-n --namespace --kube-context --kubeconfig"),
    ("gh", "-R --repo"),
    ("aws", "--profile --region --endpoint-url --output --query --ca-bundle"),
];

/// Programs, and what their subcommands are also called: the last of a group is the name that rules use.
const SHORT: &[(&str, &str)] = &[
    (
        "npm pnpm yarn bun",
        "i in ins inst insta instal isnt isnta isntal isntall add install, un unlink remove rm r uninstall, t tst test, \
         rum urn run-script run, x exec, up upgrade udpate update, pub publ publi publis publish, c config, innit create init, \
         unp unpu unpub unpubl unpubli unpublis unpublish, dep depr depre deprec depreca deprecat deprecate, ln link",
    ),
    ("cargo", "b build, c check, d doc, t test, r run, rm remove"),
    ("docker podman", "rmi image\u{a0}rm"),
    ("pip pip2 pip3", "inst install"),
    ("kubectl", "del delete"),
    ("svn", "ci commit, co checkout, up update, del remove rm delete"),
    ("hg", "ci commit, up co checkout update"),
];

/// Names of a program that stand for a program with words behind it.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("docker-compose", "docker compose"),
    ("podman-compose", "podman compose"),
    ("pip2", "pip"),
    ("pip3", "pip"),
    ("python3", "python"),
    ("nodejs", "node"),
    ("gmake", "make"),
];

/// Programs, and words that may stand in front of their subcommands.
const BETWEEN: &[(&str, &str)] = &[("docker podman nerdctl", "container image"), ("yarn", "npm")];

/// How many words from `at` on may be left out: an option, and what may be its value.
pub(crate) fn skips(words: &[&str], at: usize) -> &'static [usize] {
    let word = words[at];
    let is_option = at > 0 && word.len() > 1 && word.starts_with(['-', '+']);
    if !is_option {
        return &[];
    }
    if word.starts_with('+') || word.contains('=') || word == "--" {
        return &[1];
    }
    let known = |(programs, options): &&(&str, &str)| has(programs, words[0]) && has(options, word);
    if TAKE_A_VALUE.iter().any(|row| known(&row)) { &[2] } else { &[1, 2] }
}

/// The same command in other words.
pub(crate) fn others<'w>(words: &[&'w str]) -> Vec<Vec<&'w str>> {
    let mut all = Vec::new();
    let Some((program, rest)) = words.split_first() else { return all };
    let (program, base) = (*program, program.rsplit('/').next().unwrap_or(program));
    if let Some((_, known)) = OTHER_NAMES.iter().find(|(name, _)| *name == base) {
        all.push(known.split(' ').chain(rest.iter().copied()).collect());
    }
    // `docker container run`, `yarn npm publish`
    if let Some((_, between)) = BETWEEN.iter().find(|(programs, _)| has(programs, base)) {
        let at = words.iter().take(SHORT_WITHIN).skip(1).position(|word| has(between, word)).map(|at| at + 1);
        all.extend(at.map(|at| [&words[..at], &words[at + 1..]].concat()));
    }
    // Programs that are installed as one file for each subcommand.
    for family in ["git", "cargo"] {
        if let Some(subcommand) = base.strip_prefix(family).and_then(|rest| rest.strip_prefix('-')) {
            // `cargo-x x args`: cargo gives the name once more.
            let rest = if rest.first() == Some(&subcommand) { &rest[1..] } else { rest };
            all.push([family, subcommand].into_iter().chain(rest.iter().copied()).collect());
        }
    }
    if base.starts_with("python") || base.starts_with("pypy") {
        let module = special::python_module(rest);
        all.extend(module.map(|(module, at)| [&[module], rest.get(at..).unwrap_or_default()].concat()));
    }
    if let Some((_, groups)) = SHORT.iter().find(|(programs, _)| has(programs, base)) {
        for (at, word) in rest.iter().enumerate().take(SHORT_WITHIN) {
            let group = groups.split(',').find(|group| has(group, word));
            let name = group.and_then(|group| group.split_ascii_whitespace().last()).filter(|name| name != word);
            all.extend(name.map(|name| {
                let mut words = words.to_vec();
                words.splice(at + 1..at + 2, name.split('\u{a0}'));
                words[0] = program;
                words
            }));
        }
    }
    all
}

/// Words in which a subcommand is looked for.
const SHORT_WITHIN: usize = 6;

fn has(list: &str, word: &str) -> bool {
    list.split_ascii_whitespace().any(|known| known == word)
}
