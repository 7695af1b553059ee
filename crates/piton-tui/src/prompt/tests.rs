//! What the prompt does with keys.

use super::*;
use crate::keys::{Context, Keys, tests::events};
use expect_test::{Expect, expect};
use std::sync::LazyLock;

/// A prompt with this text; the cursor stands at `|`, or at the end.
pub(super) fn prompt(text: &str) -> Prompt {
    let mut prompt = Prompt::default();
    let (before, behind) = text.split_once('|').unwrap_or((text, ""));
    prompt.set(&format!("{before}{behind}"));
    prompt.cursor = before.len();
    prompt.undo = Undo::default();
    prompt
}

/// The text with `|` at the cursor.
pub(super) fn seen(prompt: &Prompt) -> String {
    let (before, behind) = prompt.shown().split_at(prompt.cursor());
    format!("{before}|{behind}")
}

pub(super) fn press(prompt: &mut Prompt, keys: &str) -> Handled {
    static TABLE: LazyLock<Keys> = LazyLock::new(Keys::default);
    let mut handled = Handled::No;
    for event in events(keys) {
        handled = TABLE.action(Context::Prompt, event).map_or(Handled::No, |action| prompt.apply(&action));
    }
    handled
}

fn drawn(prompt: &Prompt, columns: usize) -> String {
    let (lines, (row, column)) = prompt.lines(columns, &Theme::none());
    let rows: Vec<String> = lines.iter().map(ToString::to_string).collect();
    format!("{}\n{row}:{column}\n", rows.join("\n"))
}

fn check_drawn(text: &str, columns: usize, expected: &Expect) {
    expected.assert_eq(&drawn(&prompt(text), columns));
}

fn long_paste(lines: usize) -> String {
    (1..=lines).map(|line| format!("line {line}\n")).collect()
}

fn picture(name: &str) -> Picture {
    Picture { name: name.to_owned(), media_type: "image/png".to_owned(), bytes: vec![1, 2, 3] }
}

#[test]
fn keys_edit_as_in_readline() {
    for (before, keys, after) in [
        ("", "abc", "abc|"),
        ("ab|cd", "<Left>x", "ax|bcd"),
        ("ab|cd", "<Ctrl-A>x<Ctrl-E>y", "xabcdy|"),
        ("one two|", "<Alt-B>x<Alt-B><Alt-B>y", "y|one xtwo"),
        ("one| two", "<Alt-F>x", "one twox|"),
        ("a-b c|", "<Ctrl-W><Ctrl-W>", "|"),
        ("a-b|", "<Alt-Backspace>", "a-|"),
        ("|a-b", "<Alt-D><Alt-D>", "|"),
        ("one| two\nthree", "<Ctrl-K>", "one|\nthree"),
        ("one|\ntwo", "<Ctrl-K>", "one|two"),
        ("one\ntwo|", "<Ctrl-U>", "one\n|"),
        ("one\n|two", "<Ctrl-U>", "one|two"),
        ("one two|", "<Ctrl-W><Ctrl-W><Ctrl-Y><Ctrl-Y>", "one twoone two|"),
        ("one two|", "<Ctrl-W> x<Ctrl-U><Ctrl-Y>", "one  x|"),
        ("one two|", "<Ctrl-W><Left><Ctrl-U><Ctrl-Y><Alt-Y>", "two| "),
        ("one two|", "<Ctrl-W><Left><Ctrl-U><Ctrl-Y><Alt-Y><Alt-Y>", "one| "),
        ("ab|", "<Alt-T>", "ba|"),
        ("a|bc", "<Alt-T>", "ba|c"),
        ("|ab", "<Alt-T>", "|ab"),
        ("a\n|b", "<Alt-T>", "a\n|b"),
        ("é👩\u{200d}💻|", "<Backspace><Backspace>", "|"),
        ("|🇩🇪x", "<Right><Ctrl-D>", "🇩🇪|"),
        ("a|b", "<Ctrl-H><Ctrl-H><Delete><Delete>", "|"),
        ("a\\|", "<Enter>b", "a\nb|"),
        ("a", "<Shift-Enter>b<Ctrl-J>c", "a\nb\nc|"),
        ("one\ntwo\nthree|", "<Up><Up>", "one|\ntwo\nthree"),
        ("one\nt\nthree|", "<Up><Up><Down><Down>", "one\nt\nthree|"),
        ("one\ntwo|", "<Ctrl-Home>x<Ctrl-End>y", "xone\ntwoy|"),
    ] {
        let mut prompt = prompt(before);
        press(&mut prompt, keys);
        assert_eq!(seen(&prompt), after, "{before:?} {keys}");
    }
}

#[test]
fn what_is_not_the_prompts_is_handed_back() {
    for (text, keys, handled) in [
        ("text", "<Enter>", Handled::Submit),
        ("", "<Enter>", Handled::Submit),
        ("text", "<Alt-Enter>", Handled::Submit),
        ("", "<Ctrl-D>", Handled::No),
        ("text", "<Ctrl-D>", Handled::Yes),
        ("text", "<Esc>", Handled::No),
        ("text", "<Ctrl-C>", Handled::No),
        ("text", "<Tab>", Handled::No),
        ("one\ntwo|", "<Up>", Handled::Yes),
        ("one\ntwo|", "<Up><Up>", Handled::AtTop),
        ("one\ntwo|", "<Down>", Handled::AtBottom),
    ] {
        assert_eq!(press(&mut prompt(text), keys), handled, "{text:?} {keys}");
    }
}

#[test]
fn undo_takes_back_words_and_redo_does_them_again() {
    let mut prompt = Prompt::default();
    press(&mut prompt, "fix the test<Backspace><Backspace>");
    let mut steps = vec![seen(&prompt)];
    for _ in 0..5 {
        press(&mut prompt, "<Ctrl-/>");
        steps.push(seen(&prompt));
    }
    assert_eq!(steps, ["fix the te|", "fix the test|", "fix the |", "fix |", "|", "|"]);
    press(&mut prompt, "<Alt-/><Alt-/><Alt-/><Alt-/><Alt-/>");
    assert_eq!(seen(&prompt), "fix the te|");
    press(&mut prompt, "<Ctrl-/>!<Alt-/>");
    assert_eq!(seen(&prompt), "fix the test!|");
}

#[test]
fn a_large_paste_is_a_chip_and_is_sent_whole() {
    let paste = long_paste(150);
    let mut prompt = prompt("look: ");
    prompt.paste(&paste);
    press(&mut prompt, " why?");
    assert_eq!(prompt.shown(), "look: [Paste 150 lines] why?");
    assert_eq!(prompt.text(), format!("look: {paste} why?"));
    assert_eq!(prompt.take().text, format!("look: {paste} why?"));
    assert!(prompt.is_empty());
    prompt.paste(&"é".repeat(1_234));
    assert_eq!(prompt.shown(), "[Paste 1,234 characters]");
    prompt.set("");
    prompt.paste("ten\r\nlines\rare\nnone");
    assert_eq!(prompt.shown(), "ten\nlines\nare\nnone");
}

#[test]
fn a_chip_is_one_character_and_is_killed_and_put_back_whole() {
    let paste = long_paste(12);
    let mut prompt = prompt("a");
    prompt.paste(&paste);
    assert_eq!(press(&mut prompt, "<Left><Left>x<Right><Right>y"), Handled::Yes);
    assert_eq!(seen(&prompt), "xa[Paste 12 lines]y|");
    press(&mut prompt, "<Backspace><Backspace>");
    assert_eq!(seen(&prompt), "xa|");
    press(&mut prompt, "<Ctrl-/>");
    assert_eq!(prompt.text(), format!("xa{paste}y"));
    press(&mut prompt, "<Ctrl-E><Ctrl-W><Ctrl-Y><Ctrl-Y>");
    assert_eq!(prompt.text(), format!("xa{paste}yxa{paste}y"));
    press(&mut prompt, "<Ctrl-E><Alt-B><Alt-B><Alt-Backspace>");
    assert_eq!(seen(&prompt), "xa[Paste 12 lines]|[Paste 12 lines]y");
    // A chip whose label is cut by an accent stays one.
    prompt.insert_str("\u{301}");
    press(&mut prompt, "<Left><Backspace>");
    assert_eq!(seen(&prompt), "xa\u{301}|[Paste 12 lines]y");
}

#[test]
fn enter_opens_a_chip_that_was_moved_onto() {
    let paste = long_paste(12);
    let mut prompt = Prompt::default();
    prompt.paste(&paste);
    assert_eq!(press(&mut prompt, "<Enter>"), Handled::Submit);
    assert_eq!(press(&mut prompt, "<Left>x<Enter>"), Handled::Submit);
    assert_eq!(press(&mut prompt, "<Backspace><Enter>"), Handled::Submit);
    assert_eq!(press(&mut prompt, "<Right><Left><Enter>"), Handled::Yes);
    assert_eq!(seen(&prompt), format!("|{paste}"));
    press(&mut prompt, "<Ctrl-/>");
    assert_eq!(prompt.shown(), "[Paste 12 lines]");
}

#[test]
fn pictures_are_numbered_and_sent_in_their_order() {
    let mut prompt = Prompt::default();
    prompt.attach(picture("a.png"));
    prompt.insert_str(" and ");
    prompt.attach(picture("b.png"));
    press(&mut prompt, "<Ctrl-A>");
    prompt.attach(picture("c.png"));
    press(&mut prompt, "<Right><Backspace><Ctrl-E><Ctrl-W><Ctrl-Y><Ctrl-Y>");
    assert_eq!(prompt.shown(), "[Picture 3] and [Picture 2][Picture 2]");
    // A chip that was chosen, but is no paste, is not opened.
    assert_eq!(press(&mut prompt, "<Left><Enter>"), Handled::Submit);
    let sent = prompt.take();
    assert_eq!(sent.text, "[Picture 3] and [Picture 2][Picture 2]");
    assert_eq!(sent.pictures, [picture("c.png"), picture("b.png")]);
    prompt.attach(picture("d.png"));
    assert_eq!(prompt.shown(), "[Picture 1]");
}

#[test]
fn completions_replace_the_word_before_the_cursor() {
    let mut prompt = prompt("see @src/li| now");
    let (range, word) = prompt.word_before();
    assert_eq!((range.clone(), word), (4..11, "@src/li"));
    prompt.replace(range, "@src/lib.rs");
    assert_eq!(seen(&prompt), "see @src/lib.rs| now");
    assert_eq!(super::tests::prompt("a |").word_before(), (2..2, ""));
    prompt.set("");
    prompt.paste(&long_paste(12));
    prompt.insert_str("@x");
    assert_eq!(prompt.word_before().1, "@x");
    prompt.replace(3..5, "y");
    assert_eq!(prompt.shown(), "y@x");
}

#[test]
fn rows_are_wrapped_at_blanks_and_wide_characters_stay_whole() {
    check_drawn(
        "",
        20,
        &expect![[r#"

        0:0
    "#]],
    );
    check_drawn(
        "fix the failing test",
        12,
        &expect![[r#"
        fix the 
        failing 
        test
        2:4
    "#]],
    );
    check_drawn(
        "0123456789abcdef",
        11,
        &expect![[r#"
        0123456789
        abcdef
        1:6
    "#]],
    );
    check_drawn(
        "01234|56789\nx\n",
        11,
        &expect![[r#"
        0123456789
        x

        0:5
    "#]],
    );
    check_drawn(
        "日本語の文字",
        6,
        &expect![[r#"
        日本
        語の
        文字
        2:4
    "#]],
    );
    check_drawn(
        "日a",
        1,
        &expect![[r#"
        …
        a
        1:0
    "#]],
    );
}

#[test]
fn what_a_terminal_would_act_upon_is_a_mark() {
    check_drawn(
        "a\tb\u{1b}[2J\u{202e}x\u{9b}\0",
        80,
        &expect![[r#"
        a   b\u{1b}[2J\u{202e}x\u{9b}\u{0}
        0:34
    "#]],
    );
    check_drawn(
        "نمی\u{200c}خواهم 👩\u{200d}💻 x\u{200d}y \u{301}z",
        80,
        &expect![[r#"
        نمی‌خواهم 👩‍💻 x\u{200d}y ́z
        0:24
    "#]],
    );
    check_drawn(
        "\u{301}z",
        80,
        &expect![[r#"
        ◌́z
        0:2
    "#]],
    );
}

#[test]
fn chips_are_drawn_as_such_and_a_chosen_one_too() {
    let mut prompt = prompt("a");
    prompt.paste(&long_paste(12));
    let theme = Theme::ansi();
    let styles = |prompt: &Prompt| -> Vec<_> {
        prompt.lines(80, &theme).0[0].spans.iter().map(|span| (span.content.to_string(), span.style)).collect()
    };
    let label = "[Paste 12 lines]".to_owned();
    assert_eq!(styles(&prompt), [("a".to_owned(), theme.text), (label.clone(), theme.accent)]);
    press(&mut prompt, "<Left>");
    assert_eq!(styles(&prompt), [("a".to_owned(), theme.text), (label, theme.chosen)]);
    assert_eq!(prompt.lines(6, &theme).0[1].to_string(), "[Pas…");
}

#[test]
fn up_and_down_go_by_rows_as_they_were_drawn() {
    let mut prompt = prompt("one two three|");
    prompt.lines(6, &Theme::none());
    assert_eq!(press(&mut prompt, "<Up>"), Handled::Yes);
    assert_eq!(seen(&prompt), "one two| three");
    assert_eq!(press(&mut prompt, "<Up><Up>"), Handled::AtTop);
}

#[test]
fn a_window_shows_the_rows_around_the_cursor() {
    let mut prompt = prompt(&long_paste(40));
    let none = Theme::none();
    let shown = |prompt: &Prompt| {
        let window = prompt.window(20, 3, &none);
        let lines: Vec<_> = window.lines.iter().map(ToString::to_string).collect();
        (lines.join(","), window.cursor, window.more_above, window.more_below)
    };
    assert_eq!(shown(&prompt), ("line 39,line 40,".to_owned(), (2, 0), true, false));
    press(&mut prompt, "<Up><Up>");
    assert_eq!(shown(&prompt), ("line 39,line 40,".to_owned(), (0, 0), true, false));
    press(&mut prompt, "<Up>");
    assert_eq!(shown(&prompt), ("line 38,line 39,line 40".to_owned(), (0, 0), true, true));
    press(&mut prompt, "<Ctrl-Home>");
    assert_eq!(shown(&prompt), ("line 1,line 2,line 3".to_owned(), (0, 0), false, true));
    assert_eq!(prompt.rows(20), 41);
}

/// Places of which the prompt's invariants do not hold.
fn broken(prompt: &Prompt) -> Option<String> {
    let text = prompt.shown();
    if !text.is_char_boundary(prompt.cursor) || prompt.text.snapped(prompt.cursor) != prompt.cursor {
        return Some(format!("the cursor is at {}", prompt.cursor));
    }
    for placed in prompt.text.chips() {
        let label = text.get(placed.range.clone()).unwrap_or("");
        let inside = placed.range.start < prompt.cursor && prompt.cursor < placed.range.end;
        if !label.starts_with('[') || !label.ends_with(']') || inside {
            return Some(format!("a chip is {label:?}, the cursor at {}", prompt.cursor));
        }
    }
    None
}

/// What was laid out step by step must be what is laid out anew.
fn laid_out_wrong(prompt: &Prompt) -> Option<String> {
    let columns = 1 + prompt.cursor % 30;
    let fresh = Prompt { rows: RefCell::default(), ..prompt.clone() };
    let (lines, cursor) = prompt.lines(columns, &Theme::none());
    if (&lines, cursor) != (&fresh.lines(columns, &Theme::none()).0, fresh.lines(columns, &Theme::none()).1) {
        return Some(format!("rows differ at {columns} columns"));
    }
    let wide = lines.iter().find(|line| line.width() > columns);
    wide.map(|line| format!("{line:?} is wider than {columns}"))
}

pub(super) fn random_step(prompt: &mut Prompt, random: &mut fastrand::Rng) {
    const KEYS: &[&str] = &[
        "a",
        "é",
        " ",
        "\u{301}",
        "🇩",
        "🇪",
        "\u{200d}",
        "👩",
        "日",
        "\\",
        "<Enter>",
        "<Ctrl-J>",
        "<Left>",
        "<Right>",
        "<Up>",
        "<Down>",
        "<Alt-B>",
        "<Alt-F>",
        "<Ctrl-A>",
        "<Ctrl-E>",
        "<Ctrl-Home>",
        "<Ctrl-End>",
        "<Backspace>",
        "<Delete>",
        "<Alt-Backspace>",
        "<Ctrl-W>",
        "<Alt-D>",
        "<Ctrl-K>",
        "<Ctrl-U>",
        "<Ctrl-Y>",
        "<Alt-Y>",
        "<Ctrl-/>",
        "<Alt-/>",
        "<Alt-T>",
        "<Tab>",
        "<Ctrl-D>",
        "<Esc>",
    ];
    match random.u32(..100) {
        0 => drop(prompt.paste(&long_paste(11))),
        1 => drop(prompt.paste("\u{301}\r\n\u{1b}[31m\t\u{202e}")),
        2 => prompt.attach(picture("p")),
        3 => prompt.set("two\nlines"),
        4 => prompt.replace(random.usize(..20)..random.usize(..20), "new"),
        _ => {
            press(prompt, KEYS[random.usize(..KEYS.len())]);
        }
    }
}

#[test]
fn random_keys_keep_the_invariants() {
    for seed in 0..10 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut prompt = prompt("first");
        for step in 0..1_000 {
            random_step(&mut prompt, &mut random);
            // Long texts tell nothing that short ones do not.
            if prompt.shown().len() > 400 {
                prompt.set("short");
            }
            assert_eq!(broken(&prompt), None, "seed {seed}, step {step}: {:?}", prompt.shown());
            if step % 4 == 0 {
                assert_eq!(laid_out_wrong(&prompt), None, "seed {seed}, step {step}: {:?}", prompt.shown());
            }
        }
        for _ in 0..1_000 {
            press(&mut prompt, "<Ctrl-/>");
            assert_eq!(broken(&prompt), None, "seed {seed}");
        }
        assert_eq!(prompt.shown(), "first", "seed {seed}");
    }
}

#[test]
fn ten_megabytes_are_pasted_opened_and_sent() {
    let paste = "0123456789".repeat(1024 * 1024);
    let mut prompt = prompt("x");
    prompt.paste(&paste);
    press(&mut prompt, "<Left><Enter>");
    assert_eq!(prompt.shown().len(), paste.len() + 1);
    let window = prompt.window(80, 10, &Theme::none());
    assert_eq!((window.lines.len(), window.more_below), (10, true));
    assert_eq!(prompt.take().text.len(), paste.len() + 1);
}

/// Texts in which a key must cost no more than in a short one: what they are, and their length in bytes.
fn long_texts(bytes: usize) -> [(&'static str, String); 3] {
    let line = "let total = items.iter().map(|item| item.price).sum();\n";
    [
        ("lines", line.repeat(bytes / line.len())),
        ("one line", line.trim_end().repeat(bytes / line.len())),
        ("wide", "日本語の文字 👩\u{200d}💻 é ".repeat(bytes / 40)),
    ]
}

/// How long a key and the frame behind it take on average, at the end of the text, then at its beginning.
fn key_times(text: &str) -> [std::time::Duration; 2] {
    const KEYS: u32 = 100;
    let mut prompt = prompt(text);
    prompt.window(80, 20, &Theme::none());
    ["<Ctrl-End>", "<Ctrl-Home>"].map(|place| {
        press(&mut prompt, place);
        let begin = std::time::Instant::now();
        for key in 0..KEYS {
            press(&mut prompt, if key % 10 == 0 { "<Left>" } else { "x" });
            prompt.window(80, 20, &Theme::none());
        }
        begin.elapsed() / KEYS
    })
}

#[test]
fn a_key_costs_what_is_on_the_screen_and_not_what_is_in_the_text() {
    for (name, text) in long_texts(100_000) {
        for time in key_times(&text) {
            // Without optimisation, on a busy machine; a layout of the whole text takes a hundred times as long.
            assert!(time < std::time::Duration::from_millis(20), "{name}: {time:?}");
        }
    }
}

#[test]
fn a_picture_takes_the_place_of_the_path_that_was_pasted() {
    let mut prompt = prompt("see |");
    prompt.paste("/a/b.png ");
    prompt.insert_str("and");
    prompt.attach_for("/a/b.png", picture("b.png"));
    assert_eq!(seen(&prompt), "see [Picture 1] and|", "who has typed on goes on there");
    prompt.attach_for("/a/b.png", picture("b.png"));
    assert_eq!(seen(&prompt), "see [Picture 1] and|", "the path is not there any more");
    press(&mut prompt, "<Ctrl-/>");
    assert_eq!(prompt.shown(), "see /a/b.png and", "who wants the path has it back");
    press(&mut prompt, "<Alt-/>");
    let sent = prompt.take();
    assert_eq!((sent.text.as_str(), sent.pictures), ("see [Picture 1] and", vec![picture("b.png")]));
}
