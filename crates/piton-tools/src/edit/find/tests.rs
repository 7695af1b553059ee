//! Which texts are found, how, and which are not.

use super::*;

fn found(content: &str, old: &str) -> Result<(Vec<String>, Way), Miss> {
    let text = |place: &Range<usize>| content[place.clone()].to_owned();
    find(content.as_bytes(), old.as_bytes(), false).map(|hit| (hit.places.iter().map(text).collect(), hit.way))
}

fn one(text: &str, way: Way) -> Result<(Vec<String>, Way), Miss> {
    Ok((vec![text.to_owned()], way))
}

fn several(content: &str, old: &str) -> Option<(usize, Way)> {
    match find(content.as_bytes(), old.as_bytes(), false) {
        Err(Miss::Several { places, way }) => Some((places.len(), way)),
        Err(Miss::Nowhere | Miss::TooLarge { .. }) | Ok(_) => None,
    }
}

#[test]
fn what_is_there_as_written_is_found_and_nothing_else() {
    assert_eq!(found("a  b\na b\n", "a b"), one("a b", Way::Exact));
    assert_eq!(several("x y x", "x"), Some((2, Way::Exact)));
    assert_eq!(several("  x\nx y\n", "x"), Some((2, Way::Exact)), "no other way makes it one place");
    assert_eq!(found("a\n", " \n "), Err(Miss::Nowhere), "white space is no name of a place");
    assert_eq!(found("a", ""), Err(Miss::Nowhere));
}

#[test]
fn lines_are_found_with_another_indentation_and_other_ends() {
    assert_eq!(found("if a:\n    b\n    c\n", "  b\n  c"), one("    b\n    c", Way::Indentation));
    assert_eq!(found("{\n\tb\n\t\tc\n}\n", "b\n\tc\n"), one("\tb\n\t\tc\n", Way::Indentation), "with the line's end");
    assert_eq!(found("foo   \nbar\n", "foo\nbar"), one("foo   \nbar", Way::LineEnds));
    assert_eq!(found("\u{feff}foo  \nbar\n", "foo\nbar"), one("foo  \nbar", Way::LineEnds), "the mark stays");
    assert_eq!(found("foo  \r\nbar\r\nx", "foo\nbar\n"), one("foo  \r\nbar\r\n", Way::LineEnds));
}

#[test]
fn of_several_places_the_one_with_the_lines_as_they_stand_to_each_other_is_meant() {
    let content = " a\n b\n--\n    a\n      b\n--\n";
    assert_eq!(found(content, "  a\n    b"), one("    a\n      b", Way::Indentation));
    assert_eq!(several(content, "a\nb "), Some((2, Way::LineEnds)));
    assert_eq!(several("\ta\n\t\ta\n", "  a"), Some((2, Way::Indentation)));
}

#[test]
fn a_block_is_found_by_its_ends_if_most_between_them_is_alike() {
    let content = "fn f() {\n    let value = compute(1);\n    value\n}\nfn g() {\n    other()\n}\n";
    let wanted = "fn f() {\n    let value = compute(2);\n    value\n}";
    assert_eq!(found(content, wanted), one("fn f() {\n    let value = compute(1);\n    value\n}", Way::Anchors));
    assert_eq!(found(content, "fn f() {\n    nothing like it\n    at all!\n}"), Err(Miss::Nowhere));
    let clear = "s\n alpha beta\ne\ns\n alpha bet4 gamma\ne\n";
    assert_eq!(found(clear, "s\n alpha bet4 gamm\ne"), one("s\n alpha bet4 gamma\ne", Way::Anchors));
    assert_eq!(several("s\n one a\ne\ns\n one b\ne\n", "s\n one c\ne"), Some((2, Way::Anchors)), "as alike");
    assert_eq!(found("a\nb\n", "a\nc"), Err(Miss::Nowhere), "two lines are all anchors");
    let twice = "s\n one\n two\n three\n four\n five\n six\n seven\ne\n";
    assert_eq!(found(twice, "s\n one\ne"), Err(Miss::Nowhere), "far larger");
}

#[test]
fn words_are_found_with_other_white_space_between_them() {
    assert_eq!(found("if (a   ==\tb) {}\n", "a == b"), one("a   ==\tb", Way::Whitespace));
    assert_eq!(found("f(a,\n  b  c)\n", "f(a,\n  b c)"), one("f(a,\n  b  c)", Way::Whitespace));
    assert_eq!(several("a  b\na   b\n", "a b"), Some((2, Way::Whitespace)));
    assert_eq!(found("xa  b\n", "a b"), Err(Miss::Nowhere), "not within a word");
    assert_eq!(found("ab\n", "a b"), Err(Miss::Nowhere));
}

#[test]
fn escapes_and_white_space_around_the_whole_come_last() {
    assert_eq!(found("print(\"a\")\nb\n", "print(\\\"a\\\")\\nb"), one("print(\"a\")\nb", Way::Escapes));
    assert_eq!(found("let s = f(a,\n b);\n", "  f(a,\n b)\n"), one("f(a,\n b)", Way::Boundary));
    assert_eq!(found("a \\q b\n", "a \\q  c"), Err(Miss::Nowhere));
}

#[test]
fn all_places_of_the_first_way_are_taken_and_none_twice() {
    let hit = find(b"aaaa", b"aa", true).unwrap();
    assert_eq!(hit.places, [0..2, 2..4]);
    let hit = find(b" x\n  x\n", b"\tx", true).unwrap();
    assert_eq!((hit.places, hit.way), (vec![0..2, 3..6], Way::Indentation));
    let overlapping = find(b" a\n a\n a\n", b"a\n\ta", true).unwrap();
    assert_eq!(overlapping.places.len(), 1);
}

#[test]
fn bytes_that_are_no_text_are_in_nobodys_way() {
    let content = b"caf\xe9\n    one\n    two\n";
    let hit = find(content, b"one\ntwo", false).unwrap();
    assert_eq!(&content[hit.places[0].clone()], b"    one\n    two");
}

#[test]
fn a_way_that_is_not_exact_never_takes_part_of_another_word_or_line() {
    // Random texts: whatever is found begins and ends where the wanted text's words do.
    let mut dice = fastrand::Rng::with_seed(7);
    for _ in 0..20_000 {
        let mut text = |most: usize| -> String {
            (0..dice.usize(1..most)).map(|_| dice.choice(['a', 'b', ' ', '\n', '\t', '{']).unwrap()).collect()
        };
        let (content, old) = (text(40), text(12));
        if let Ok(hit) = find(content.as_bytes(), old.as_bytes(), false) {
            let words = |text: &str| text.split_whitespace().map(ToOwned::to_owned).collect::<Vec<_>>();
            let place = &content[hit.places[0].clone()];
            assert_eq!(hit.places.len(), 1);
            if hit.way != Way::Anchors {
                assert_eq!(words(place), words(&old), "{content:?} {old:?} {hit:?}");
            }
        }
    }
}

#[test]
fn a_text_that_overlaps_itself_is_in_several_places() {
    assert_eq!(several("end\nend\nend\n", "end\nend\n"), Some((2, Way::Exact)));
    let all = find(b"end\nend\nend\n", b"end\nend\n", true).unwrap();
    assert_eq!(
        (all.places.len(), all.places[0].clone()),
        (1, 0..8),
        "where all are wanted, those that can be replaced"
    );
}

#[test]
fn no_inexact_place_begins_or_ends_within_a_word() {
    assert_eq!(found("valid = 1\n", "id  = 1"), Err(Miss::Nowhere));
    assert_eq!(found("max = 10\n", "x  = 1"), Err(Miss::Nowhere));
    assert_eq!(found("let x = 1;\n", "x  = 1"), one("x = 1", Way::Whitespace));
    assert_eq!(found("foobar\n", "\nfoo\n"), Err(Miss::Nowhere));
    assert_eq!(found("foo(bar)\n", " foo "), one("foo", Way::Whitespace));
}
