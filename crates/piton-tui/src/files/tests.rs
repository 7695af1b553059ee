//! What is found of a folder, and how fast in a large one.

use super::*;

/// Files as if they had been walked.
fn files(names: impl Iterator<Item = impl AsRef<str>>) -> Files {
    let mut files = Files { walk: None, names: Names::default(), search: None };
    names.for_each(|name| files.names.push(name.as_ref()));
    files
}

/// Searches until nothing more comes.
fn settled(files: &mut Files, needle: &str) -> Vec<String> {
    loop {
        let found = files.search(needle, 10);
        if files.is_settled() {
            return found.into_iter().map(|found| found.path).collect();
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_workspace_is_walked_without_what_is_ignored_or_hidden() {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in [
        (".gitignore", "target/\n*.log\n"),
        ("Cargo.toml", ""),
        ("src/lib.rs", ""),
        ("src/odd\nname.rs", ""),
        ("target/debug/piton", ""),
        ("build.log", ""),
        (".env", ""),
        (".git/config", ""),
        (".github/workflows/ci.yml", ""),
    ] {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    #[cfg(unix)]
    std::os::unix::fs::symlink("..", folder.path().join("src/up")).unwrap();
    let mut files = Files::start(folder.path());
    let mut all = settled(&mut files, "");
    if cfg!(unix) {
        all.retain(|path| path != "src/up");
    }
    assert_eq!(
        all,
        [
            ".github/",
            "Cargo.toml",
            "src/",
            ".github/workflows/",
            "src/lib.rs",
            "src/odd\nname.rs",
            ".github/workflows/ci.yml",
        ]
    );
    assert!(files.is_whole());
    let found = files.search("lib", 1);
    assert_eq!(found, [Found { path: "src/lib.rs".to_owned(), is_folder: false, positions: vec![4, 5, 6] }]);
    assert!(files.search("workfl", 1)[0].is_folder);
}

#[test]
fn a_folder_that_is_not_there_has_no_files() {
    let mut files = Files::start(Path::new("/nowhere/at/all"));
    assert_eq!(settled(&mut files, "x"), [""; 0]);
    assert!(files.is_empty());
}

#[test]
fn the_name_counts_more_than_the_way_to_it() {
    let names = ["prompt/a/b.rs", "src/prompt.rs", "src/prompt/tests.rs", "src/my_prompt.rs", "src/pr/om/pt.rs"];
    let found = settled(&mut files(names.iter()), "prompt");
    assert_eq!(found, ["src/prompt.rs", "src/my_prompt.rs", "prompt/a/b.rs", "src/prompt/tests.rs", "src/pr/om/pt.rs"]);
}

/// Half a million paths of some forty bytes.
fn many(count: usize) -> impl Iterator<Item = String> {
    const WORDS: &[&str] =
        &["src", "core", "engine", "model", "test", "view", "session", "journal", "parser", "table", "client", "main"];
    let mut random = fastrand::Rng::with_seed(9);
    let mut word = move || WORDS[random.usize(..WORDS.len())];
    (0..count).map(move |number| format!("{}/{}/{}/{}_{}{number}.rs", word(), word(), word(), word(), word()))
}

#[test]
fn narrowing_finds_what_a_new_search_finds() {
    let mut files = files(many(3_000));
    for needle in ["s", "se", "ses", "sesj", "sesj1", "ses", "s ", "s t", "S", "x", "xy"] {
        let narrowed = settled(&mut files, needle);
        files.search = None;
        assert_eq!(settled(&mut files, needle), narrowed, "{needle}");
    }
}

/// The bound holds in a build without optimisation too: a call stops when its time is over.
#[test]
fn the_first_hits_of_half_a_million_come_at_once() {
    let mut files = files(many(MOST_FILES));
    for needle in ["s", "se", "ses", "sess", "main", ""] {
        let begin = Instant::now();
        let found = files.search(needle, 50);
        let took = begin.elapsed();
        assert!(!found.is_empty(), "{needle}");
        // Three times what is wanted, for a machine that is busy.
        assert!(took < Duration::from_millis(150), "{needle}: {took:?}");
    }
}
