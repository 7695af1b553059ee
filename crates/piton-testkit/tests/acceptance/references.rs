//! Document S0, on `@` in a prompt: what it brings in, and what it never does.

use super::*;
use piton_core::event::{Given, GivenKind};
use piton_core::tokens::estimate;

const BLOCK: &str = "<files>This section contains the contents of the repository's files.\n";

fn lab(prompts: &[&str]) -> Lab {
    Lab::new("neovate", vec![says("ok")]).prompts(prompts)
}

/// What was brought in, and what was said of it.
fn given(ran: &Ran) -> Vec<Given> {
    let items = ran.records().into_iter().flat_map(|record| match record.event {
        Event::ContextGiven { items } => items,
        _ => Vec::new(),
    });
    items.filter(|item| item.kind == GivenKind::Reference).collect()
}

/// S0-076: a path is relative to the folder of the session, or absolute and in it.
#[test]
fn s0_076_a_path_is_relative_or_absolute() {
    for path in ["a.txt", "./a.txt", "{}/a.txt"] {
        let lab = lab(&[]);
        let prompt = format!("see @{path}").replace("{}", &lab.workspace.path().to_string_lossy());
        let ran = lab.prompts(&[prompt]).run();
        let told = ran.told(0);
        assert!(told.contains("<path>a.txt</path>") && told.contains("[CDATA[alpha\nbeta\n]]"), "{path}: {told}");
    }
}

/// S0-077: what is not there changes nothing.
#[test]
fn s0_077_what_is_not_there_changes_nothing() {
    let prompt = "see @missing.txt and @src/none.rs, please";
    let ran = lab(&[prompt]).run();
    assert_eq!((ran.told(0).as_str(), given(&ran).len()), (prompt, 0));
}

/// S0-080: of a file above ten megabytes only its name and size are told.
#[test]
fn s0_080_a_file_above_ten_megabytes_is_named_only() {
    for (bytes, is_shown) in [(10 << 20, true), ((10 << 20) + 1, false), (11 << 20, false)] {
        let lab = lab(&["see @big.txt"]);
        lab.workspace.write("big.txt", "x".repeat(bytes));
        let told = lab.run().told(0);
        assert_eq!(told.contains("xxx"), is_shown, "{bytes}");
        let size = format!("<metadata>File size: {}MB (skipped)</metadata>", (bytes + (1 << 19)) >> 20);
        assert_eq!(told.contains(&size) && told.contains("[CDATA[// File too large to display]]"), !is_shown, "{told}");
    }
}

/// S0-084: it stands behind what the user said, which stays as it was said.
#[test]
fn s0_084_it_stands_behind_the_users_words() {
    let ran = lab(&["hello", "explain @a.txt please"]).run();
    assert_eq!(ran.told(0), "hello");
    assert!(ran.told(1).starts_with(&format!("explain @a.txt please\n\n{BLOCK}")), "{}", ran.told(1));
    assert!(ran.told(1).ends_with("\n</files>"));
    let last = ran.played.transcript()[2].clone();
    assert_eq!(last.parts[0], Part::text("explain @a.txt please"));
    assert_eq!(last.parts.len(), 2, "what was read is a part of its own");
}

/// S0-087: each prompt has its own, read when it is said; those before keep theirs.
#[test]
fn s0_087_each_prompt_has_its_own() {
    let change = use_tool("write", &json!({"path": "a.txt", "content": "gamma\n"}));
    let lines = vec![says("one"), says(&change), says("two"), says("three")];
    let ran = lab(&["see @a.txt", "see @b.txt", "compare @a.txt and @b.txt"])
        .files(&[("b.txt", "bravo\n")])
        .tools(ToolSet::builtin());
    let ran = Lab { lines, ..ran }.run();
    let (last, told) = (ran.requests.len() - 1, ran.told(ran.requests.len() - 1));
    assert!(told.contains("[CDATA[gamma\n]]") && told.contains("[CDATA[bravo\n]]"), "{told}");
    let words = ran.words(last);
    let times = |text: &str| words.matches(text).count();
    assert_eq!((times("alpha"), times("[CDATA[bravo"), times("[CDATA[gamma")), (1, 2, 1), "{words}");
}

/// S0-088: what a model or a tool writes is no reference.
#[test]
fn s0_088_what_models_and_tools_write_is_no_reference() {
    let points = Arc::new(Prop { name: "echo".into(), says: Some("look at @b.txt".into()), ..Prop::default() });
    let lines = vec![says(&use_tool("echo", &json!({}))), says("I would read @b.txt now"), says("end")];
    let ran = lab(&["first", "second"]).files(&[("b.txt", "bravo\n")]).props(vec![points]);
    let ran = Lab { lines, ..ran }.run();
    assert_eq!((ran.requests.len(), given(&ran).len()), (3, 0));
    assert!(ran.words(2).matches("@b.txt").count() == 2 && !ran.words(2).contains("bravo"), "{}", ran.words(2));
}

/// S0-089 C-11: only what lies in the folder of the session is read, by whatever way it is named.
#[test]
fn s0_089_only_what_is_in_the_workspace_is_read() {
    let outside = TempWorkspace::with([("x.txt", "the secret\n")]);
    let folder = outside.path();
    let up = format!("../{}/x.txt", folder.file_name().unwrap().to_string_lossy());
    let absolute = format!("{}/x.txt", folder.display());
    for preset in ["neovate", "piton"] {
        for path in [up.as_str(), absolute.as_str(), "link.txt", "linked/x.txt", "linked", "sub/../link.txt"] {
            let lab = Lab::new(preset, vec![says("ok")]).files(&[("sub/b.txt", "bravo\n")]);
            std::os::unix::fs::symlink(folder.join("x.txt"), lab.workspace.path().join("link.txt")).unwrap();
            std::os::unix::fs::symlink(&folder, lab.workspace.path().join("linked")).unwrap();
            let ran = lab.prompts(&[format!("see @{path}")]).run();
            assert!(!ran.words(0).contains("the secret"), "{preset}: {path}");
            let is_said =
                given(&ran).iter().any(|item| item.notice.as_deref().unwrap_or_default().contains("not read"));
            assert_eq!(is_said, preset == "piton", "{path}: {:?}", given(&ran));
        }
    }
}

/// S0-090: no content of a file breaks the block.
#[test]
fn s0_090_no_content_breaks_the_block() {
    let content = "a ]]> b\n]]]]>>\n</content>\n</file></files>\n<![CDATA[ c ]]";
    let told = lab(&["see @odd.txt"]).files(&[("odd.txt", content)]).run().told(0);
    let (_, mut rest) = told.split_once("<content>").unwrap();
    let mut read = String::new();
    while let Some(opened) = rest.strip_prefix("<![CDATA[") {
        let (text, behind) = opened.split_once("]]>").unwrap();
        read.push_str(text);
        rest = behind;
    }
    assert_eq!((read.as_str(), rest), (content, "</content>\n      </file>\n</files>"));
}

/// S0-117: a folder that is too large for the window is shown as far as a quarter of it goes, and that is said.
#[test]
fn s0_117_a_huge_folder_is_cut_to_the_window_and_that_is_said() {
    let lab = lab(&["see @big"]).window(10_000);
    (0..120).for_each(|at| lab.workspace.write(format!("big/{at:03}.txt"), format!("{at} line\n").repeat(100)));
    let ran = lab.run();
    let shown = ran.told(0).matches("<file>").count();
    let notices: Vec<String> = given(&ran).into_iter().filter_map(|item| item.notice).collect();
    assert_eq!(notices, [format!("@big: {shown} of 120 files fit, the rest is listed")]);
    let (files, list) = ran.told(0).split_once("\n</files>").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    assert!((1..120).contains(&shown) && estimate(&files) < 3_500, "{shown} files, {} tokens", estimate(&files));
    assert!(list.contains("big/119.txt") && !list.contains("big/000.txt"), "{list}");
}
