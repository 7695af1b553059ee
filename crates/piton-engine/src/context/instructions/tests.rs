//! Instruction files, in folders made for it.

use super::{Instructions, Piece, instructions_note};
use crate::context::rules::Rules;
use piton_tools::disk::Disk;
use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

struct Place {
    _folder: TempDir,
    root: PathBuf,
}

impl Place {
    /// A repository with these files in `repo/`, and whatever lies beside it.
    fn with(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("a path");
        fs::create_dir_all(root.join("repo/.git")).expect("a folder");
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
        Self { _folder: folder, root }
    }

    fn instructions(&self) -> Instructions {
        Instructions {
            global_dir: Some(self.root.join("config")),
            home: Some(self.root.join("home")),
            window_tokens: None,
        }
    }

    /// What holds in a folder of the repository, as `name: text | notice` lines.
    fn at(&self, folder: &str) -> Vec<String> {
        self.told(&self.instructions().at_start(&self.root.join(folder), &Disk::to_read()))
    }

    fn told(&self, pieces: &[Piece]) -> Vec<String> {
        let line = |piece: &Piece| {
            let notice = piece.notice.as_ref().map_or(String::new(), |notice| format!(" | {notice}"));
            let name = piece.path.strip_prefix(&self.root).unwrap_or(&piece.path).display().to_string();
            format!("{name}: {}{notice}", piece.text)
        };
        pieces.iter().map(line).collect()
    }
}

#[test]
fn files_of_claude_code_count_the_persons_and_those_kept_beside_a_repositorys() {
    let place = Place::with(&[
        ("home/.claude/CLAUDE.md", "for all my projects"),
        ("home/.claude/AGENTS.md", "no name that counts there"),
        ("config/AGENTS.md", "mine"),
        ("repo/AGENTS.md", "ours"),
        ("repo/CLAUDE.local.md", "mine here"),
        ("repo/a/CLAUDE.local.md", "mine further down"),
    ]);
    let start = [
        "home/.claude/CLAUDE.md: for all my projects",
        "config/AGENTS.md: mine",
        "repo/AGENTS.md: ours",
        "repo/CLAUDE.local.md: mine here",
    ];
    assert_eq!(place.at("repo"), start);
    let below = place.instructions().further_down(
        (&[place.root.join("repo/a")], &[], &mut Rules::default()),
        &place.root.join("repo"),
        &Disk::to_read(),
        (&HashSet::new(), 0),
    );
    assert_eq!(place.told(&below), ["repo/a/CLAUDE.local.md: mine further down"]);
}

#[test]
fn rules_of_claude_code_hold_for_all_files_or_for_those_that_they_name() {
    let place = Place::with(&[
        ("home/.claude/rules/mine.md", "always mine"),
        ("home/.claude/rules/rust.md", "\u{feff}---\npaths: \"**/*.rs\"\n---\nmy Rust"),
        ("repo/.claude/CLAUDE.md", "ours"),
        ("repo/.claude/rules/style.md", "tabs @../../docs/more.md"),
        ("repo/docs/more.md", "more"),
        ("repo/.claude/rules/deep/api.md", "---\npaths:\n  - \"src/**/*.{ts,tsx}\"\n  - docs/*\n---\n# API\nbe brief"),
        ("repo/.claude/rules/odd.md", "---\npaths: \"[\"\n---\nodd"),
        ("repo/.claude/rules/note.txt", "no rule"),
        ("repo/web/.claude/rules/web.md", "in the web"),
        ("elsewhere/secret.md", "key"),
    ]);
    let rules = place.root.join("repo/.claude/rules");
    std::os::unix::fs::symlink(place.root.join("elsewhere/secret.md"), rules.join("z.md")).expect("a link");
    let start = place.at("repo");
    let mistake = "applied to all files: paths: error parsing glob '[': unclosed character class; missing ']'";
    assert_eq!(
        start,
        [
            "home/.claude/rules/mine.md: always mine".to_owned(),
            "repo/.claude/CLAUDE.md: ours".to_owned(),
            format!("repo/.claude/rules/odd.md: odd | {mistake}"),
            "repo/.claude/rules/style.md: tabs @../../docs/more.md".to_owned(),
            "repo/docs/more.md: more".to_owned(),
            "repo/.claude/rules/z.md:  | not used: it leads out of the repository".to_owned(),
        ]
    );
    let repo = place.root.join("repo");
    let mut known = Rules::default();
    let mut touch = |files: &[&str], folders: &[&str]| {
        let path = |name: &&str| repo.join(name);
        let (files, folders): (Vec<PathBuf>, Vec<PathBuf>) =
            (files.iter().map(path).collect(), folders.iter().map(path).collect());
        let looked_for = (&folders[..], &files[..], &mut known);
        let pieces = place.instructions().further_down(looked_for, &repo, &Disk::to_read(), (&HashSet::new(), 0));
        place.told(&pieces)
    };
    let api = "repo/.claude/rules/deep/api.md: # API\nbe brief";
    assert_eq!(touch(&["src/a/b.tsx"], &[]), [api]);
    assert_eq!(touch(&["src/a.rs"], &[]), ["home/.claude/rules/rust.md: my Rust"]);
    assert_eq!(touch(&["README.md", "docs/a/b.md"], &[]), [""; 0]);
    assert_eq!(touch(&["web/a.css"], &["web"]), ["repo/web/.claude/rules/web.md: in the web"]);
    assert_eq!(touch(&[".claude/rules/deep/api.md"], &[]), [api], "when it was summed up it is given again");
}

#[test]
fn one_file_a_folder_from_the_persons_own_down_to_here() {
    let place = Place::with(&[
        ("config/PITON.md", "mine"),
        ("repo/AGENTS.md", "top\n"),
        ("repo/CLAUDE.md", "not this one"),
        ("repo/a/b/CLAUDE.md", "deep"),
        ("repo/a/b/GEMINI.md", "nor this"),
        ("repo/a/b/c/AGENTS.md", "deeper"),
        ("AGENTS.md", "above the repository"),
    ]);
    assert_eq!(place.at("repo/a/b"), ["config/PITON.md: mine", "repo/AGENTS.md: top", "repo/a/b/CLAUDE.md: deep"]);
    let known = HashSet::from([place.root.join("repo/a/b/CLAUDE.md")]);
    let folders = [place.root.join("repo/a/b"), place.root.join("repo/a/b/c")];
    let pieces = place.instructions().further_down(
        (&folders, &[], &mut Rules::default()),
        &place.root.join("repo"),
        &Disk::to_read(),
        (&known, 0),
    );
    assert_eq!(place.told(&pieces), ["repo/a/b/c/AGENTS.md: deeper"]);
    assert_eq!(pieces[0].shown, "a/b/c/AGENTS.md");
}

#[test]
fn imports_are_followed_four_hops_far_and_never_in_a_circle() {
    let place = Place::with(&[
        ("repo/AGENTS.md", "see @docs/1.md, and `@docs/code.md`; ask @someone about @gone.md"),
        ("repo/docs/1.md", "one @2.md @1.md"),
        ("repo/docs/2.md", "two @3.md. @../AGENTS.md"),
        ("repo/docs/3.md", "three @4.md"),
        ("repo/docs/4.md", "four @5.md"),
        ("repo/docs/5.md", "five"),
    ]);
    let told = place.at("repo");
    assert_eq!(told.len(), 5, "{told:?}");
    assert!(told[0].ends_with("| imports gone.md, which is not there"), "{told:?}");
    assert_eq!(
        told[1..4],
        ["repo/docs/1.md: one @2.md @1.md", "repo/docs/2.md: two @3.md. @../AGENTS.md", "repo/docs/3.md: three @4.md"]
    );
    assert_eq!(told[4], "repo/docs/4.md: four @5.md | imports 5.md more than 4 hops away");
}

#[test]
fn what_is_near_is_not_taken_for_far_away() {
    let place = Place::with(&[
        ("repo/AGENTS.md", "@1.md @style.md"),
        ("repo/1.md", "@2.md"),
        ("repo/2.md", "@3.md"),
        ("repo/3.md", "@4.md"),
        ("repo/4.md", "@style.md"),
        ("repo/style.md", "tabs"),
    ]);
    assert!(!place.at("repo").concat().contains("hops away"), "{:?}", place.at("repo"));
    let place = Place::with(&[("repo/AGENTS.md/x", "a folder"), ("repo/CLAUDE.md", "top")]);
    assert_eq!(place.at("repo"), ["repo/CLAUDE.md: top"], "a folder is no file of instructions");
}

#[test]
fn an_import_that_is_not_read_is_named() {
    let place = Place::with(&[
        ("repo/AGENTS.md", "@~/.ssh/id_rsa @/etc/passwd @../x @/components/Button @circle @pipe @src ask @someone"),
        ("repo/src/a", "a"),
        ("config/AGENTS.md", "@/etc/hostname @~/more.md @next.md @far"),
        ("config/next.md", "next"),
        ("home/more.md", "more"),
        ("elsewhere", "key"),
    ]);
    let repo = place.root.join("repo");
    std::os::unix::fs::symlink("circle", repo.join("circle")).expect("a link");
    std::os::unix::fs::symlink(place.root.join("elsewhere"), place.root.join("config/far")).expect("a link");
    rustix::fs::mknodat(rustix::fs::CWD, repo.join("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .expect("a pipe");
    let told = place.at("repo").join("\n");
    for words in [
        "imports ~/.ssh/id_rsa, which lies outside the repository; imports /etc/passwd, which lies outside the \
         repository; imports ../x, which lies outside the repository\n",
        "repo/circle:  | not used: its symbolic links lead in a circle",
        "repo/pipe:  | not used: it is not a regular file",
        "imports /etc/hostname, which lies outside your home",
        "config/far:  | not used: it leads out of your home",
        "config/next.md: next",
        "home/more.md: more",
    ] {
        assert!(told.contains(words), "{words}\n{told}");
    }
    assert!(!told.contains("key"));
}

#[test]
fn a_repository_leads_nowhere_else_but_a_persons_own_file_may() {
    let place = Place::with(&[
        ("home/secret", "key"),
        ("home/more.md", "more"),
        ("config/AGENTS.md", "own @~/more.md"),
        ("repo/AGENTS.md", "theirs @~/more.md @../home/more.md @/etc/hostname.md"),
        ("repo/docs/a.md", "x"),
    ]);
    std::os::unix::fs::symlink(place.root.join("home/secret"), place.root.join("repo/docs/AGENTS.md")).expect("a link");
    let told = place.at("repo/docs");
    assert_eq!(told[..2], ["config/AGENTS.md: own @~/more.md", "home/more.md: more"]);
    assert!(
        told[2].contains("imports ~/more.md, which lies outside the repository; imports ../home/more.md, which lies"),
        "{told:?}"
    );
    assert_eq!(told[3], "repo/docs/AGENTS.md:  | not used: it leads out of the repository");
    assert!(!told.concat().contains("key"));
}

#[test]
fn a_huge_file_is_cut_and_a_strange_one_is_said_to_be() {
    let huge = "be brief\n".repeat(1_200_000);
    let place = Place::with(&[
        ("repo/AGENTS.md", &huge),
        ("repo/a/AGENTS.md", "ni\u{200b}ce\u{202e}"),
        ("repo/b/AGENTS.md", "a\0b"),
    ]);
    let pieces = place.instructions().at_start(&place.root.join("repo/a"), &Disk::to_read());
    assert!(pieces[0].text.len() < 33_000 && pieces[0].hash.is_none());
    assert_eq!(pieces[0].notice.as_deref(), Some("cut to its first 32759 of 10800000 bytes"));
    assert!(pieces[0].text.ends_with("AGENTS.md for the rest]"));
    assert_eq!(
        (pieces[1].text.as_str(), pieces[1].notice.as_deref()),
        ("nice", Some("2 hidden characters were taken out"))
    );
    assert_eq!(place.at("repo/b")[1], "repo/b/AGENTS.md:  | not used: it is not text");
    std::os::unix::fs::symlink("AGENTS.md", place.root.join("repo/c.md")).expect("a link");
    fs::create_dir(place.root.join("repo/c")).expect("a folder");
    std::os::unix::fs::symlink("AGENTS.md", place.root.join("repo/c/AGENTS.md")).expect("a link");
    assert_eq!(place.at("repo/c")[1], "repo/c/AGENTS.md:  | not used: its symbolic links lead in a circle");
}

#[test]
fn the_nearest_file_has_room_when_all_together_are_too_long() {
    let long = "x\n".repeat(20_000);
    let place = Place::with(&[
        ("config/AGENTS.md", &long),
        ("repo/AGENTS.md", &long),
        ("repo/a/AGENTS.md", &long),
        ("repo/a/b/AGENTS.md", "near"),
    ]);
    let pieces = place.instructions().at_start(&place.root.join("repo/a/b"), &Disk::to_read());
    assert_eq!(pieces.last().map(|piece| piece.text.as_str()), Some("near"));
    let total: usize = pieces.iter().map(|piece| piece.text.len()).sum();
    assert!(total < 66_000, "{total}");
    assert!(pieces.iter().any(|piece| piece.notice.as_ref().is_some_and(|notice| notice.contains("cut to"))));
}

#[test]
fn a_small_window_has_less_room() {
    let long = "x\n".repeat(5_000);
    let place = Place::with(&[("repo/AGENTS.md", &long), ("repo/a/AGENTS.md", &long)]);
    let small = Instructions { window_tokens: Some(8_192), ..place.instructions() };
    let pieces = small.at_start(&place.root.join("repo/a"), &Disk::to_read());
    assert!(pieces[1].text.len() < 8_300, "{}", pieces[1].text.len());
    assert_eq!(pieces[0].notice.as_deref(), Some("not used: all instructions together may have 8192 bytes"));
}

#[test]
fn the_note_names_each_file() {
    let place = Place::with(&[("repo/AGENTS.md", "a @b.md"), ("repo/b.md", "b")]);
    let pieces = place.instructions().at_start(&place.root.join("repo"), &Disk::to_read());
    let note = instructions_note(&pieces, "Keep to them.").expect("a note");
    assert_eq!(
        note,
        "<instructions>\nKeep to them.\n\n<file path=\"AGENTS.md\">\na @b.md\n</file>\n\n\
         <file path=\"b.md\" imported_by=\"AGENTS.md\">\nb\n</file>\n</instructions>"
    );
    assert_eq!(instructions_note(&[], "Keep to them."), None);
}

#[test]
fn comments_of_files_of_claude_code_are_not_for_the_model() {
    let text = "<!-- for people -->\nTabs. <!-- here, too -->\n";
    let place =
        Place::with(&[("repo/CLAUDE.md", text), ("repo/.claude/rules/a.md", text), ("repo/sub/AGENTS.md", text)]);
    let (kept, whole) = ("Tabs. <!-- here, too -->", text.trim_end());
    let told = [
        format!("repo/CLAUDE.md: {kept}"),
        format!("repo/.claude/rules/a.md: {kept}"),
        format!("repo/sub/AGENTS.md: {whole}"),
    ];
    assert_eq!(place.at("repo/sub"), told);
}
