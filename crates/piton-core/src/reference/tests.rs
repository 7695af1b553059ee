//! References: the grammar of each style, and what is shown of a file.

use super::{LineRange, Reference, ShownFile, Style, content, extract, files, tree};
use crate::reference::ReferenceSizes;

fn paths(text: &str, style: Style) -> Vec<String> {
    extract(text, style).into_iter().map(|reference| reference.path).collect()
}

#[test]
fn a_reference_begins_a_word_and_ends_at_a_space() {
    let text = "see @src/a.rs and (@b.rs), me@host.org\n@\"two words.md\"\n@one\\ two\t@c\n@d @ @src/a.rs";
    assert_eq!(paths(text, Style::Piton), ["src/a.rs", "b.rs),", "two words.md", "one two", "c", "d"]);
}

#[test]
fn single_quotes_are_as_good_as_double_ones() {
    assert_eq!(paths("@'two words.md', it's @'s", Style::Piton), ["two words.md", "'s"]);
}

#[test]
fn neovates_references_are_those_of_its_expression() {
    assert_eq!(paths("me@host a@b\\c @\"x", Style::Neovate), ["host", "b", "\"x"]);
    assert_eq!(paths("@line1\n@line2 @\"a\"b", Style::Neovate), ["line1\n@line2", "a"]);
}

#[test]
fn of_several_readings_the_whole_comes_first() {
    let readings = |path: &str| {
        let reference = Reference { path: path.to_owned(), lines: None };
        let shown = |reading: Reference| match reading.lines {
            Some(LineRange { start, end }) => format!("{} {start}-{end}", reading.path),
            None => reading.path,
        };
        reference.readings().into_iter().map(shown).collect::<Vec<_>>()
    };
    assert_eq!(readings("a.rs"), ["a.rs"]);
    assert_eq!(readings("a.rs:3"), ["a.rs:3", "a.rs 3-3"]);
    assert_eq!(readings("a.rs:3-9),"), ["a.rs:3-9),", "a.rs:3-9)", "a.rs:3-9", "a.rs 3-9"]);
    assert_eq!(readings("..."), ["..."], "no folder above, and none of this one, is meant by full stops");
    assert_eq!(readings(".."), [".."]);
    assert_eq!(readings(".,"), [".,", "."]);
    assert_eq!(readings("../x."), ["../x.", "../x"]);
}

#[test]
fn a_long_run_of_full_stops_is_read_at_once() {
    let text = format!("@a{} @{}", ".".repeat(2_000), "b/".repeat(30_000));
    let found = extract(&text, Style::Piton);
    assert_eq!(found.len(), 2);
    assert!(found[0].readings().len() < 40 && found[1].readings().len() == 1);
    assert!(found[0].can_be_a_path() && !found[1].can_be_a_path());
}

#[test]
fn what_is_nearly_a_range_is_told_from_one() {
    let broken = |path: &str| {
        let reference = Reference { path: path.to_owned(), lines: None };
        reference.broken_range().map(|(path, range)| format!("{path} {range}"))
    };
    assert_eq!(broken("a.rs:5-").as_deref(), Some("a.rs 5-"));
    assert_eq!(broken("a.rs:-5").as_deref(), Some("a.rs -5"));
    assert_eq!(broken("a.rs:a-b").as_deref(), Some("a.rs a-b"));
    assert_eq!((broken("a.rs:5-9"), broken("a.rs:"), broken("a.rs")), (None, None, None));
}

#[test]
fn a_range_may_stand_behind_quotes() {
    let found = extract("@\"a b\":3-4, @\"c\":5- @\"d\": x", Style::Piton);
    let lines = |start, end| Some(LineRange { start, end });
    let expected = [("a b", lines(3, 4)), ("c", lines(5, 5)), ("d", None)];
    let expected = expected.map(|(path, lines)| Reference { path: path.to_owned(), lines });
    assert_eq!(found, expected);
}

#[test]
fn what_is_shown_says_how_much_of_the_file_it_is() {
    let shown = |text: &str, range: Option<(usize, usize)>, room| {
        let range = range.map(|(start, end)| LineRange { start, end });
        let block = content("f", text, range, (room, &ReferenceSizes::default()), Style::Neovate);
        (block.metadata, block.content, block.is_whole)
    };
    let line = |text: &str| text.to_owned();
    assert_eq!(shown("a\nb\n", None, 99), (line("Complete file (3 lines)"), line("a\nb\n"), true));
    assert_eq!(shown("a\nb\nc", Some((3, 2)), 99), (line("Lines 2-3 of 3 total lines"), line("b\nc"), false));
    assert_eq!(shown("a\nb", Some((0, 0)), 99).0, "Lines 1-0 of 2 total lines");
    assert_eq!(
        shown("a", Some((7, 9)), 99),
        (line("Lines 7-7 are beyond the end: 1 total lines"), String::new(), false)
    );
    assert_eq!(shown("a\nb\nc\nd", None, 4), (line("Showing first 2 lines of 4 total lines"), line("a\nb"), false));
    assert_eq!(shown("a\nb\nc\nd", None, 0).1, "a", "one line is always there");
    let long = "é".repeat(2_001);
    assert!(shown(&long, None, 9_999).1.ends_with("é... [truncated]"));
}

#[test]
fn no_file_can_leave_its_element() {
    let block = content("a</path>.txt", "x]]></content></file>", None, (99, &ReferenceSizes::default()), Style::Piton);
    let text = files(&[block]).expect("one file");
    assert!(text.contains("<path>a&lt;/path>.txt</path>"), "{text}");
    assert!(text.contains("<![CDATA[x]]]]><![CDATA[></content></file>]]></content>"), "{text}");
    assert_eq!(files(&Vec::<ShownFile>::new()), None);
}

#[test]
fn many_paths_become_their_folders() {
    let paths: Vec<String> = (0..300).map(|number| format!("src/{}/{number}.rs", number % 3)).collect();
    assert_eq!(tree(&paths), "src/0/ (100 files)\nsrc/1/ (100 files)\nsrc/2/ (100 files)");
    assert_eq!(tree(&paths[..2]), "src/0/0.rs\nsrc/1/1.rs");
}

#[test]
fn one_line_is_a_line_whatever_it_ends_in() {
    let shown = |range: Option<(usize, usize)>, style| {
        let range = range.map(|(start, end)| LineRange { start, end });
        let block = content("f", "one\r\ntwo\r\nthree\r\n", range, (99, &ReferenceSizes::default()), style);
        format!("{}: {:?}", block.metadata, block.content)
    };
    assert_eq!(shown(Some((2, 2)), Style::Piton), "Line 2 of 3: \"two\"");
    assert_eq!(shown(Some((1, 2)), Style::Piton), "Lines 1-2 of 3: \"one\\ntwo\"");
    assert_eq!(shown(None, Style::Piton), "Complete file (3 lines): \"one\\ntwo\\nthree\"");
    assert_eq!(shown(Some((4, 9)), Style::Piton), "There is no line 4: the file has 3 lines: \"\"");
    assert_eq!(shown(Some((2, 2)), Style::Neovate028), "Lines 2-2 of 4 total lines: \"two\\r\"");
}
