//! References, in folders made for it.

use super::{References, Resolved};
use piton_core::message::Part;
use piton_core::reference::Style;
use piton_core::tokens::Family;
use piton_tools::disk::Disk;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use tempfile::TempDir;

struct Place {
    _folder: TempDir,
    root: PathBuf,
    references: References,
}

impl Place {
    fn with(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("a path").join("w");
        fs::create_dir(&root).expect("a folder");
        let references = References {
            sizes: piton_core::reference::ReferenceSizes::default(),
            workspace: root.clone(),
            style: Style::Piton,
            window_tokens: None,
            images: Some(true),
            family: Family::OpenAi,
        };
        let place = Self { _folder: folder, root, references };
        files.iter().for_each(|(path, text)| place.write(path, text.as_bytes()));
        place
    }

    fn write(&self, path: &str, bytes: &[u8]) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, bytes).expect("a file");
    }

    fn resolve(&self, text: &str) -> Resolved {
        self.references.resolve(&[Part::text(text)], &Disk::to_read())
    }

    /// The paths that were shown with how much of each, then what the model is told besides.
    fn told(&self, text: &str) -> Vec<String> {
        let between = |text: &str, from: &str, to: &str| {
            text.split(from).skip(1).filter_map(|rest| Some(rest.split_once(to)?.0.to_owned())).collect::<Vec<_>>()
        };
        let mut told = Vec::new();
        for part in self.resolve(text).parts {
            match part {
                Part::Note { text, .. } if text.starts_with("<files>") => {
                    let paths = between(&text, "<path>", "</path>");
                    let amounts = between(&text, "<metadata>", "</metadata>");
                    told.extend(paths.iter().zip(amounts).map(|(path, amount)| format!("{path}: {amount}")));
                }
                Part::Note { text, .. } => told.push(text),
                Part::Image { media_type, .. } => told.push(media_type),
                other => panic!("{other:?}"),
            }
        }
        told
    }
}

/// A whole PNG of one pixel.
const PIXEL: [u8; 70] = [
    137, 80, 78, 71, 13, 10, 26, 10, 0, 0, 0, 13, 73, 72, 68, 82, 0, 0, 0, 1, 0, 0, 0, 1, 8, 6, 0, 0, 0, 31, 21, 196,
    137, 0, 0, 0, 13, 73, 68, 65, 84, 120, 218, 99, 100, 248, 207, 80, 15, 0, 3, 134, 1, 128, 90, 52, 125, 107, 0, 0,
    0, 0, 73, 69, 78, 68, 174, 66, 96, 130,
];

#[test]
fn files_folders_ranges_and_patterns() {
    let place = Place::with(&[
        ("src/a.rs", "1\n2\n3"),
        ("src/deep/b.rs", "b"),
        ("src/deep/c.md", "c"),
        ("two words.md", "w"),
        (".gitignore", "*.log\n"),
        ("src/x.log", "ignored"),
    ]);
    let whole = |path: &str, lines: &str| format!("{path}: Complete file ({lines})");
    assert_eq!(
        place.told("compare @src/a.rs, @\"two words.md\" and (@src/deep/b.rs)."),
        [whole("src/a.rs", "3 lines"), whole("two words.md", "1 line"), whole("src/deep/b.rs", "1 line")]
    );
    assert_eq!(
        place.told("@src @src/a.rs"),
        [whole("src/a.rs", "3 lines"), whole("src/deep/b.rs", "1 line"), whole("src/deep/c.md", "1 line")]
    );
    assert_eq!(place.told("@src/**/*.rs"), [whole("src/a.rs", "3 lines"), whole("src/deep/b.rs", "1 line")]);
    assert_eq!(place.told("@src/a.rs:2-3!"), ["src/a.rs: Lines 2-3 of 3"]);
    assert_eq!(place.told("@src/a.rs:2"), ["src/a.rs: Line 2 of 3"]);
    assert_eq!(place.told("@src/a.rs:3-2"), ["[@src/a.rs:3-2: its last line comes before its first]"]);
    let absolute = format!("@{}", place.root.join("src/a.rs").display());
    assert_eq!(place.told(&absolute), [whole("src/a.rs", "3 lines")]);
    let read = place.resolve("@src/a.rs @src/deep/b.rs:1");
    assert!(read.items[0].hash.is_some() && read.items[1].hash.is_none(), "what was seen in part is not known");
}

#[test]
fn words_stay_words_and_a_path_that_is_wrong_is_said_to_be() {
    let place = Place::with(&[("src/a.rs", "a")]);
    let words = "ask @someone, me@host.org, npm i @types/node @angular/core, @Override @media @ @/components/Button @~";
    assert_eq!(place.resolve(words), Resolved::default());
    let missing = place.resolve("see @src/b.rs and @notes.md");
    let notices: Vec<String> = missing.items.iter().filter_map(|item| item.notice.clone()).collect();
    let why = "there is no such file or folder in the workspace";
    assert_eq!(notices, [format!("@src/b.rs: {why}"), format!("@notes.md: {why}")]);
    assert_eq!(missing.parts, [Part::note(format!("[{}]", notices.join("\n")))]);
    let piped = [Part::text("look"), Part::text("<stdin>@src/a.rs</stdin>")];
    assert_eq!(place.references.resolve(&piped, &Disk::to_read()), Resolved::default(), "only what the person wrote");
}

#[test]
fn nothing_outside_the_workspace_is_read() {
    let place = Place::with(&[("in.txt", "in")]);
    fs::write(place.root.join("../secret.txt"), "key").expect("a file");
    symlink("../secret.txt", place.root.join("link.txt")).expect("a link");
    symlink("..", place.root.join("up")).expect("a link");
    let told = place.told("@../secret.txt @/etc/passwd @link.txt @up/secret.txt @up").concat();
    assert!(!told.contains("key") && !told.contains("root:") && !told.contains("<path>"), "{told}");
    assert_eq!(told.matches("lies outside the workspace and was not read").count(), 2, "{told}");
    assert_eq!(told.matches("it leads out of the workspace and was not read").count(), 3, "{told}");
    assert_eq!(place.told("@."), ["in.txt: Complete file (1 line)"], "links that lead out are passed over in a folder");
}

#[test]
fn the_folder_above_is_not_this_one() {
    let place = Place::with(&[("in.txt", "in")]);
    let why = "it lies outside the workspace and was not read";
    assert_eq!(place.told("@.."), [format!("[@..: {why}]")]);
    assert_eq!(place.told("look into @.., please"), [format!("[@..: {why}]")]);
    assert_eq!(place.told("@../"), [format!("[@../: {why}]")]);
    assert_eq!(place.told("well @... and @...."), [""; 0]);
    assert_eq!(place.told("all of @., please"), ["in.txt: Complete file (1 line)"]);
}

#[test]
fn a_mention_that_nearly_is_one_says_why_it_was_not_read() {
    let place = Place::with(&[("long.txt", "1\n2\n3"), ("two words.md", "w"), ("h/note.txt", "n")]);
    fs::create_dir(place.root.join("empty")).expect("a folder");
    let notice = |text: &str| {
        let notices: Vec<String> = place.resolve(text).items.into_iter().filter_map(|item| item.notice).collect();
        notices.join("|")
    };
    for (text, words) in [
        ("@~/.config/piton/config.toml", "@~/.config/piton/config.toml: what lies in the home folder is not read"),
        ("@\"two words.md", "its quotation mark is not closed"),
        ("@long.txt:5-", "`5-` is no range of lines"),
        ("@long.txt:-5", "`-5` is no range of lines"),
        ("@long.txt:a-b", "`a-b` is no range of lines"),
        ("@long.txt:0", "lines are counted from 1"),
        ("@long.txt:9", "no line 9: the file has 3 lines"),
        ("@empty", "@empty: there is no text file in it"),
    ] {
        assert!(notice(text).contains(words), "{text}: {}", notice(text));
    }
    assert_eq!(place.told("@'two words.md'"), ["two words.md: Complete file (1 line)"]);
    assert_eq!(place.told("@h/note.txt and @h"), ["h/note.txt: Complete file (1 line)"]);
    assert_eq!(place.resolve(&format!("@{}", ".".repeat(30_000))), Resolved::default());
    assert_eq!(place.resolve(&format!("@{}", "x".repeat(300))), Resolved::default(), "no name is that long");
}

#[test]
fn what_stands_around_files_counts() {
    let mut place = Place::with(&[]);
    for number in 0..400 {
        place.write(&format!("d/{number}.txt"), b"a line");
    }
    place.references.window_tokens = Some(16_000);
    let resolved = place.resolve("@d");
    let said: u64 = resolved.items.iter().map(|item| item.tokens).sum();
    let sent: u64 = resolved.parts.iter().map(|part| Family::OpenAi.estimate_part(part)).sum();
    assert!((3_000..6_500).contains(&sent), "a quarter of the window and the list of the rest: {sent}");
    assert!(sent.abs_diff(said) * 20 < sent, "{said} are said, {sent} are sent");
}

#[test]
fn what_cannot_be_read_is_said() {
    let place = Place::with(&[("x.txt", "x"), ("d/one.txt", "1")]);
    place.write("bin", b"\x7fELF\0\0");
    place.write("d/two.bin", b"a\0b");
    let huge = fs::File::create(place.root.join("huge.txt")).expect("a file");
    huge.set_len(11 << 20).expect("a size");
    symlink("b", place.root.join("a")).expect("a link");
    symlink("a", place.root.join("b")).expect("a link");
    symlink(".", place.root.join("d/again")).expect("a link");
    assert_eq!(
        place.told("@bin @huge.txt"),
        ["bin: Not shown: a binary file of 6 bytes", "huge.txt: Too large to show: 11 MB"]
    );
    assert_eq!(place.told("@a"), ["[@a: its symbolic links lead in a circle]"]);
    assert_eq!(place.told("@d"), ["d/one.txt: Complete file (1 line)", "[@d: left out 1 file that is not text]"]);
    fs::set_permissions(place.root.join("x.txt"), fs::Permissions::from_mode(0o000)).expect("set");
    // Whoever runs this as root may read everything.
    if fs::File::open(place.root.join("x.txt")).is_err() {
        assert_eq!(place.told("@x.txt"), ["[@x.txt: it may not be read (permission denied)]"]);
    }
    rustix::fs::mknodat(rustix::fs::CWD, place.root.join("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .expect("a pipe");
    assert_eq!(place.told("@pipe"), ["[@pipe: it is not a regular file]"]);
}

#[test]
fn a_folder_that_is_too_large_is_cut_and_the_rest_is_listed() {
    let mut place = Place::with(&[]);
    for number in 0..60 {
        place.write(
            &format!("d/{number:02}.txt"),
            "one two three four five six seven eight nine ten\n".repeat(10).as_bytes(),
        );
    }
    place.references.window_tokens = Some(8_000);
    let told = place.told("@d @d/59.txt");
    let shown = told.iter().filter(|line| line.ends_with("Complete file (10 lines)")).count();
    assert!((10..25).contains(&shown), "{shown} of 60 files fit into a quarter of 8,000 tokens");
    assert!(told[shown - 1].starts_with("d/59.txt"), "what is named on its own still has room");
    let rest = told.last().expect("a remark");
    assert!(rest.starts_with("[@d has 60 files, more than there is room for:") && rest.contains("d/58.txt"), "{rest}");
    let notice = place.resolve("@d").items.into_iter().find_map(|item| item.notice).expect("a notice");
    assert!(notice.ends_with("of 60 files fit, the rest is listed"), "{notice}");
}

#[test]
fn pictures_are_attached_where_the_model_looks_at_them() {
    let mut place = Place::with(&[("not.png", "x"), ("a.txt", "a")]);
    place.write("p.png", &PIXEL);
    assert_eq!(place.told("@p.png"), ["[@p.png is attached (70 bytes)]", "image/png"]);
    place.write("cut.png", &PIXEL[..60]);
    assert_eq!(place.told("@cut.png"), ["[@cut.png was not attached: it is damaged or cut off]"]);
    let mut harmed = PIXEL;
    harmed[45] ^= 1;
    place.write("harmed.png", &harmed);
    assert_eq!(place.told("@harmed.png"), ["[@harmed.png was not attached: it is damaged or cut off]"]);
    let mut wide = PIXEL;
    wide[16..20].copy_from_slice(&8_001_u32.to_be_bytes());
    place.write("wide.png", &wide);
    assert!(place.told("@wide.png")[0].contains("more than 8,000 pixels on a side"));
    assert_eq!(place.told("@not.png"), ["[@not.png was not attached: it is no PNG, JPEG, GIF or WebP picture]"]);
    assert_eq!(place.told("@."), ["a.txt: Complete file (1 line)", "[@.: left out 5 files that are not text]"]);
    place.references.images = Some(false);
    assert_eq!(place.told("@p.png"), ["[@p.png was not attached: the model does not look at pictures]"]);
    place.references.images = None;
    assert!(place.told("@p.png")[0].contains("images = true"));
}
