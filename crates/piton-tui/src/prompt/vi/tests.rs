//! What vi's keys do: text before, keys, text after. `|` is the cursor.

use super::*;
use crate::keys::{Context, Keys, tests::events};
use crate::prompt::tests::{prompt, random_step, seen};
use crate::theme::Theme;
use std::sync::LazyLock;

/// In normal mode.
fn normal(text: &str) -> Prompt {
    let mut prompt = prompt(text);
    prompt.vi = Some(Box::new(Vi { mode: Mode::Normal, ..Vi::default() }));
    prompt.settle();
    prompt
}

fn press(prompt: &mut Prompt, keys: &str) -> Handled {
    static TABLE: LazyLock<Keys> = LazyLock::new(Keys::vi);
    let mut handled = Handled::No;
    for event in events(keys) {
        handled = TABLE.action(Context::Prompt, event).map_or(Handled::No, |action| prompt.apply(&action));
    }
    handled
}

fn check(cases: &[(&str, &str, &str)]) {
    for (before, keys, after) in cases {
        let mut prompt = normal(before);
        press(&mut prompt, keys);
        assert_eq!(seen(&prompt), *after, "{before:?} {keys}");
    }
}

#[test]
fn motions() {
    check(&[
        ("|one two", "w", "one |two"),
        ("|one.two x", "w", "one|.two x"),
        ("|one.two x", "W", "one.two |x"),
        ("|one two three", "2w", "one two |three"),
        ("one two|", "b", "one |two"),
        ("one two|", "bb", "|one two"),
        ("a.b c|", "BB", "|a.b c"),
        ("|one two", "e", "on|e two"),
        ("on|e two", "e", "one tw|o"),
        ("|a.b c", "E", "a.|b c"),
        ("  one |two", "0", "|  one two"),
        ("  one |two", "^", "  |one two"),
        ("|one\ntwo", "$", "on|e\ntwo"),
        ("|one\ntwo", "llll", "on|e\ntwo"),
        ("one\n|two", "hh", "one\n|two"),
        ("|a,b,c", "f,", "a|,b,c"),
        ("|a,b,c", "f,;", "a,b|,c"),
        ("|a,b,c", "f,;,", "a|,b,c"),
        ("|a,b,c", "2f,", "a,b|,c"),
        ("|a,b,c", "t,", "|a,b,c"),
        ("a,b,|c", "F,", "a,b|,c"),
        ("a,b,|c", "T,", "a,b,|c"),
        ("|a\nb,", "f,", "|a\nb,"),
        ("one\ntwo\nth|ree", "gg", "|one\ntwo\nthree"),
        ("|one\ntwo\n three", "G", "one\ntwo\n |three"),
        ("|one\ntwo\nthree", "2G", "one\n|two\nthree"),
        ("o|ne\ntwo", "j", "one\nt|wo"),
        ("one\nt|wo", "k", "o|ne\ntwo"),
        ("|one\n\ntwo", "w", "one\n|\ntwo"),
        ("|one\n\ntwo", "ww", "one\n\n|two"),
        ("one\n\n|two", "b", "one\n|\ntwo"),
        ("|日本 語", "w", "日本 |語"),
    ]);
}

#[test]
fn operators_with_motions() {
    check(&[
        ("|one two", "dw", "|two"),
        ("one |two\nx", "dw", "one| \nx"),
        ("|one two three", "d2w", "|three"),
        ("|one two three", "2dw", "|three"),
        ("|one two", "de", "| two"),
        ("one |two", "db", "|two"),
        ("one |two", "d0", "|two"),
        ("  one |two", "d^", "  |two"),
        ("one |two x\ny", "d$", "one| \ny"),
        ("|f(a, b)", "dt)", "|)"),
        ("|f(a, b)", "df)", "|"),
        ("f(a, |b)", "dF(", "f|b)"),
        ("f(a, |b)", "dT(", "f(|b)"),
        ("one\nt|wo\nthree", "dd", "one\n|three"),
        ("one\nt|wo", "dd", "|one"),
        ("|one\ntwo\nthree", "2dd", "|three"),
        ("|one\ntwo\nthree", "dj", "|three"),
        ("one\ntwo\nt|hree", "dgg", "|"),
        ("one\nt|wo\nthree", "dG", "|one"),
        ("|one two", "cwx<Esc>", "|x two"),
        ("|one two", "cex<Esc>", "|x two"),
        ("o|ne two", "ccx<Esc>", "|x"),
        ("one\nt|wo\nthree", "ccx<Esc>", "one\n|x\nthree"),
        ("one| two", "cwx<Esc>", "one|xtwo"),
        ("|one two", "Cx<Esc>", "|x"),
        ("one |two", "D", "one| "),
        ("|one", "sxy<Esc>", "x|yne"),
        ("|one\ntwo", "Sx<Esc>", "|x\ntwo"),
        ("|abc", "x", "|bc"),
        ("|abc", "2x", "|c"),
        ("ab|c", "x", "a|b"),
        ("ab|c", "X", "a|c"),
        ("|", "x", "|"),
        ("|one", "dx", "|one"),
        ("|one", "d<Esc>x", "|ne"),
    ]);
}

#[test]
fn text_objects() {
    check(&[
        ("one t|wo three", "diw", "one | three"),
        ("one t|wo three", "daw", "one |three"),
        ("one t|wo", "daw", "on|e"),
        ("a.b|c d", "diW", "| d"),
        ("a.b|c d", "daW", "|d"),
        ("x \"a |b\" y", "di\"", "x \"|\" y"),
        ("x \"a |b\" y", "da\"", "x |y"),
        ("|x 'ab'", "ci'c<Esc>", "x '|c'"),
        ("x \"a\\\"|b\" y", "di\"", "x \"|\" y"),
        ("f(a, |b)", "di(", "f(|)"),
        ("f(a, |b)", "da)", "|f"),
        ("f(a, (|b))", "dib", "f(a, (|))"),
        ("f|(a, (b))", "dib", "f(|)"),
        ("f(a, (b)|)", "dib", "f(|)"),
        ("f { |a }", "di{", "f {|}"),
        ("f {\n |a\n}", "da{", "f| "),
        ("a[|1]", "ci[2<Esc>", "a[|2]"),
        ("|no brackets", "di(", "|no brackets"),
    ]);
}

#[test]
fn changes_in_place() {
    check(&[
        ("|abc", "rx", "|xbc"),
        ("|abc", "2rx", "x|xc"),
        ("a|b", "3rx", "a|b"),
        ("|aBc", "~~~", "Ab|C"),
        ("|abc", "2~", "AB|c"),
        ("|one\n  two\nthree", "J", "one| two\nthree"),
        ("|one\ntwo\nthree", "3J", "one two| three"),
        ("one\nt|wo", "J", "one\nt|wo"),
        ("|b", "ia<Esc>", "|ab"),
        ("|b", "ac<Esc>", "b|c"),
        ("  |b", "Ia<Esc>", "  |ab"),
        ("|ab\nx", "Ac<Esc>", "ab|c\nx"),
        ("|a\nb", "ox<Esc>", "a\n|x\nb"),
        ("a\n|b", "Ox<Esc>", "a\n|x\nb"),
        ("|", "3ix<Esc>", "xx|x"),
    ]);
}

#[test]
fn the_register() {
    check(&[
        ("|one two", "dwp", "tone| wo"),
        ("|ab", "xp", "b|a"),
        ("a|b", "xP", "|ba"),
        ("|one\ntwo", "yyp", "one\n|one\ntwo"),
        ("one\n|two", "yyp", "one\ntwo\n|two"),
        ("one\n|two", "yyP", "one\n|two\ntwo"),
        ("|one\ntwo\nx", "ddp", "two\n|one\nx"),
        ("|ab", "yl3p", "aaa|ab"),
        ("|one two", "yiwwP", "one on|etwo"),
        ("one\n|two", "Ykp", "one\n|two\ntwo"),
    ]);
}

#[test]
fn undo_redo_and_the_dot() {
    check(&[
        ("|one two three", "dwu", "|one two three"),
        ("|one two three", "dwdwuu", "|one two three"),
        ("|one two three", "dwdwuu<Ctrl-R>", "|two three"),
        ("|one two three", "cwx y<Esc>u", "|one two three"),
        ("|one two three", "dw.", "|three"),
        ("|one two three four", "dw2.", "|four"),
        ("|one two three", "cwx<Esc>w.", "x |x three"),
        ("|a\nb", "A;<Esc>j.", "a;\nb|;"),
        ("|a", "ix<Esc>u", "|a"),
        ("|abcd", "vldw.", "|c"),
        ("|abcdef", "vld.", "|ef"),
        ("|a\nb\nc\nd", "Vjd.", "|"),
        ("|abc", "x..", "|"),
        ("|ab", "rxl.", "x|x"),
    ]);
}

#[test]
fn visual_mode() {
    check(&[
        ("|one two", "ved", "| two"),
        ("|one two", "vec1<Esc>", "|1 two"),
        ("one |two", "vbd", "|wo"),
        ("one t|wo x", "viwd", "one | x"),
        ("f(a, |b)", "vi(d", "f(|)"),
        ("|one\ntwo\nthree", "Vjd", "|three"),
        ("|one two", "veyP", "on|eone two"),
        ("|abc", "vl~", "|ABc"),
        ("|abc", "vlrx", "|xxc"),
        ("|one\ntwo", "vjJ", "one| two"),
        ("|one two", "vey$vp", "one twon|e"),
        ("a|bcd", "vlohd", "|d"),
        ("|abc", "vl<Esc>x", "a|c"),
        ("|abc", "vvx", "|bc"),
        ("|one\ntwo", "VjcX<Esc>", "|X"),
    ]);
}

#[test]
fn modes_and_what_is_handed_back() {
    let mut prompt = Prompt::default();
    prompt.set_vi(true);
    assert_eq!(prompt.mode(), Some(Mode::Insert));
    assert_eq!(press(&mut prompt, "ab<Esc>"), Handled::Yes);
    assert_eq!((prompt.mode(), seen(&prompt)), (Some(Mode::Normal), "a|b".to_owned()));
    assert_eq!(press(&mut prompt, "<Esc>"), Handled::No);
    assert_eq!(press(&mut prompt, "j"), Handled::AtBottom);
    assert_eq!(press(&mut prompt, "k"), Handled::AtTop);
    assert_eq!(press(&mut prompt, "v"), Handled::Yes);
    let (lines, _) = prompt.lines(80, &Theme::none());
    assert_eq!(lines[0].spans[1].content, "b");
    assert_eq!(lines[0].spans[1].style, Theme::none().chosen);
    assert_eq!(press(&mut prompt, "<Esc>"), Handled::Yes);
    assert_eq!(press(&mut prompt, "d<Esc>"), Handled::Yes);
    // A slow terminal sends Escape and a letter as one key.
    press(&mut prompt, "A c<Alt-b>");
    assert_eq!((prompt.mode(), seen(&prompt)), (Some(Mode::Normal), "|ab c".to_owned()));
    assert_eq!(press(&mut prompt, "<Enter>"), Handled::Submit);
    assert_eq!(prompt.take().text, "ab c");
    assert_eq!(prompt.mode(), Some(Mode::Insert));
    prompt.set_vi(false);
    assert_eq!(prompt.mode(), None);
}

#[test]
fn a_chip_is_a_character_and_a_word() {
    let paste = "line\n".repeat(12);
    let mut prompt = normal("|see it");
    press(&mut prompt, "w");
    prompt.paste(&paste);
    assert_eq!(prompt.shown(), "see [Paste 12 lines]it");
    press(&mut prompt, "0w");
    assert_eq!(seen(&prompt), "see |[Paste 12 lines]it");
    press(&mut prompt, "xp");
    assert_eq!(prompt.text(), format!("see i{paste}t"));
    press(&mut prompt, "rx~u");
    press(&mut prompt, "hl<Enter>");
    assert_eq!(prompt.shown(), format!("see i{paste}t"));
}

#[test]
fn random_keys_keep_the_invariants() {
    const KEYS: &[char] = &[
        'd', 'c', 'y', 'w', 'b', 'e', 'W', '0', '^', '$', 'f', 't', 'F', 'T', ';', ',', 'i', 'a', '"', '(', '{', 'x',
        'r', '~', 'u', 'p', 'P', 'o', 'O', 'A', 'I', '.', 'J', 'g', 'G', 'v', 'V', '2', '3', 'h', 'j', 'k', 'l', 's',
    ];
    for seed in 0..10 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut prompt = normal("first \"a (b)\" {\n日本 é\n}");
        for step in 0..1_000 {
            match random.u32(..10) {
                0 => random_step(&mut prompt, &mut random),
                1 => {
                    press(&mut prompt, "<Esc>");
                }
                _ => {
                    press(&mut prompt, &KEYS[random.usize(..KEYS.len())].to_string());
                }
            }
            if prompt.shown().len() > 400 {
                prompt.set("short (text)");
            }
            assert_eq!(prompt.text.snapped(prompt.cursor), prompt.cursor, "seed {seed}, step {step}");
            prompt.window(20, 5, &Theme::none());
        }
        press(&mut prompt, "<Esc><Esc>");
        for _ in 0..1_200 {
            press(&mut prompt, "u");
        }
        assert_eq!(prompt.shown(), "first \"a (b)\" {\n日本 é\n}", "seed {seed}");
    }
}
