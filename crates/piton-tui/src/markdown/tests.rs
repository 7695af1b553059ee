//! Pages as they are drawn, whole and in pieces.

use std::time::{Duration, Instant};

use expect_test::{Expect, expect};

use super::*;

fn drawn(lines: &[Line<'static>]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn check(markdown: &str, columns: usize, expected: &Expect) {
    let lines = render(markdown, columns, &Theme::ansi());
    assert!(lines.iter().all(|line| text::line_width(line) <= columns));
    expected.assert_eq(&drawn(&lines));
}

const PAGE: &str = "\
# The fix

I **changed** `sum` in [the parser](src/parse.rs#L10), since it *dropped* the last digit; see
<https://example.org/numbers>.
Done:

- one that is rather longer than a narrow line
  - inner, with `code`
- [x] two
- [ ] three

> quoted words that go on until they have to wrap at some place
>
> ```sh
> cargo test
> ```

1. Run this:
   ```rust
   fn main() {
       println!(\"hello\");
   }
   ```
2. and this

| name | what it is | count |
|:-----|:----------:|------:|
| a | short | 1 |
| `b` | rather long words that will not fit beside the others | 23,456 |

---
2 ** 3 and a_b_c <stdin>, C#
";

#[test]
fn a_page_at_eighty() {
    check(
        PAGE,
        80,
        &expect![[r#"
        The fix

        I changed sum in the parser (src/parse.rs#L10), since it dropped the last digit;
        see
        https://example.org/numbers.
        Done:

        • one that is rather longer than a narrow line
          • inner, with code
        [x] two
        [ ] three

        │ quoted words that go on until they have to wrap at some place
        │
        │ cargo test

        1. Run this:
           fn main() {
               println!("hello");
           }
        2. and this

        name                       what it is                         count
        ────  ─────────────────────────────────────────────────────  ──────
        a                             short                               1
        b     rather long words that will not fit beside the others  23,456

        ────────────────────────────────────────

        2 ** 3 and a_b_c <stdin>, C#
    "#]],
    );
}

#[test]
fn a_page_at_forty() {
    check(
        PAGE,
        40,
        &expect![[r#"
        The fix

        I changed sum in the parser
        (src/parse.rs#L10), since it dropped the
        last digit; see
        https://example.org/numbers.
        Done:

        • one that is rather longer than a
          narrow line
          • inner, with code
        [x] two
        [ ] three

        │ quoted words that go on until they
        │ have to wrap at some place
        │
        │ cargo test

        1. Run this:
           fn main() {
               println!("hello");
           }
        2. and this

        name          what it is           count
        ────  ──────────────────────────  ──────
        a               short                  1
        b       rather long words that    23,456
               will not fit beside the
                        others

        ────────────────────────────────────────

        2 ** 3 and a_b_c <stdin>, C#
    "#]],
    );
}

#[test]
fn a_page_at_a_hundred_and_twenty() {
    check(
        PAGE,
        120,
        &expect![[r#"
        The fix

        I changed sum in the parser (src/parse.rs#L10), since it dropped the last digit; see
        https://example.org/numbers.
        Done:

        • one that is rather longer than a narrow line
          • inner, with code
        [x] two
        [ ] three

        │ quoted words that go on until they have to wrap at some place
        │
        │ cargo test

        1. Run this:
           fn main() {
               println!("hello");
           }
        2. and this

        name                       what it is                         count
        ────  ─────────────────────────────────────────────────────  ──────
        a                             short                               1
        b     rather long words that will not fit beside the others  23,456

        ────────────────────────────────────────

        2 ** 3 and a_b_c <stdin>, C#
    "#]],
    );
}

#[test]
fn blocks_end_where_commonmark_ends_them() {
    check(
        "Title\n=====\ntext\nlazy\n> quote\nlazy too\n\n- a\n\n  b\n- c\n\n\n  d\n* new list\n\n      code\n\n      more\nend\\\nhard  \nagain\n***\n10) ten\n1) eleven\n-\n- after\n7. - deep\n     - deeper\n1. eight\n20. twenty\n",
        30,
        &expect![[r#"
            Title
            text
            lazy

            │ quote
            │ lazy too

            • a

              b
            • c

              d
            • new list

              code

              more

            end
            hard
            again

            ──────────────────────────────

            10) ten
            11) eleven
            •
            • after
            7. • deep
                 • deeper
            8. eight
            20. twenty
        "#]],
    );
}

#[test]
fn a_bullet_below_a_number_belongs_to_it() {
    check(
        "1. one\n  - inner\n  - two\n2. two\n\ntext\n1999. no list\n",
        30,
        &expect![[r#"
        1. one
           • inner
           • two
        2. two

        text
        1999. no list
    "#]],
    );
}

#[test]
fn html_is_text_and_nothing_is_obeyed() {
    check(
        "<details>\n<summary>More *x*</summary>\n\nIn **it**\n\n</details>\n\nbell \u{7}, \u{1b}[31m, \u{202e}turned\n\n```\n\u{1b}]0;x\u{7}\n\ttab\n```\n[label]\u{8}(http://a \"b\") ![picture](a.png) [`x.rs`](x.rs) [](y) &lt; \\* [^1]\n",
        60,
        &expect![[r#"
            <details>
            <summary>More *x*</summary>

            In it

            </details>

            bell \u{7}, \u{1b}[31m, \u{202e}turned

            \u{1b}]0;x\u{7}
                tab

            [label]\u{8}(http://a "b") picture (a.png) x.rs (y) < * [^1]
        "#]],
    );
}

#[test]
fn a_table_that_does_not_fit_is_a_list() {
    check(
        "|first column|second|third|\n|-|-|-|\n|a|b|c|\n|d||\n",
        14,
        &expect![[r#"
        first column:
          a
        second: b
        third: c

        first column:
          d
        second:
        third:
    "#]],
    );
}

#[test]
fn code_that_is_not_over_stands_there_line_by_line() {
    let mut flow = Flow::default();
    let theme = Theme::ansi();
    let mut closed = Vec::new();
    flow.push("Run:\n```sh\ncargo te");
    closed.extend(flow.closed(40, &theme));
    assert_eq!(drawn(&closed), "Run:\n");
    assert_eq!(drawn(&flow.open(40, &theme)), "\ncargo te\n");
    flow.push("st\n\nls\n``");
    closed.extend(flow.closed(40, &theme));
    assert_eq!(drawn(&closed), "Run:\n\ncargo test\n\nls\n");
    flow.push("`\nDone");
    closed.extend(flow.closed(40, &theme));
    assert_eq!(drawn(&closed), "Run:\n\ncargo test\n\nls\n");
    assert_eq!(drawn(&flow.open(40, &theme)), "\nDone\n");
    flow.finish();
    assert_eq!(drawn(&flow.closed(40, &theme)), "\nDone\n");
    assert!(flow.open(40, &theme).is_empty());
}

#[test]
fn addresses_look_like_links() {
    let theme = Theme::ansi();
    let links = |text: &str| -> Vec<String> {
        let spans = render(text, 200, &theme).into_iter().flat_map(|line| line.spans);
        spans.filter(|span| span.style.fg == theme.link.fg).map(|span| span.content.into_owned()).collect()
    };
    for (text, found) in [
        ("see https://a.b/c_d_e?x=1&y=2.", vec!["https://a.b/c_d_e?x=1&y=2"]),
        ("(https://a.b/c_(d)), **http://x**!", vec!["https://a.b/c_(d)", "http://x"]),
        ("<https://a.b> and [b](https://c.d)", vec!["https://a.b", "https://c.d"]),
        ("`https://a.b` xhttps://a https:// file://x", vec![]),
        ("日本https://a.b。次", vec!["https://a.b"]),
        ("# Title https://a.b)", vec!["https://a.b"]),
    ] {
        assert_eq!(links(text), found, "{text}");
    }
}

#[test]
fn without_colours_code_keeps_its_marks() {
    let lines = render("a `b` c", 40, &Theme::none());
    assert_eq!(drawn(&lines), "a `b` c\n");
}

/// Lines of Markdown, or what looks like it.
fn random(rng: &mut fastrand::Rng, most: usize) -> String {
    const PARTS: [&str; 48] = [
        "\n",
        "\n",
        "\n\n",
        "\r\n",
        "- ",
        "  ",
        "    ",
        "1. ",
        "2) ",
        "> ",
        "```",
        "~~~",
        "```rust\n",
        "# ",
        "###",
        "===",
        "---",
        "|",
        "| a | b |\n|---|:-:|\n",
        "| c ",
        "word",
        "two words ",
        "*",
        "**",
        "_",
        "`",
        "[",
        "](",
        ")",
        "<div>",
        "<b>",
        "\\",
        "\t",
        "日本",
        "👩\u{200d}💻",
        "e\u{301}",
        "\u{1b}[0m",
        "\u{200b}",
        "\u{202e}",
        "[ ] ",
        "[x] ",
        "~~",
        "fn x() {",
        "\"",
        "/*",
        "https://a.b/c",
        "&amp;",
        "\u{2028}",
    ];
    (0..rng.usize(..most)).map(|_| PARTS[rng.usize(..PARTS.len())]).collect()
}

fn streamed(text: &str, rng: &mut fastrand::Rng, columns: usize, theme: &Theme) -> Vec<Line<'static>> {
    let (mut flow, mut lines) = (Flow::default(), Vec::new());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.ceil_char_boundary(rng.usize(1..=rest.len().min(40)));
        flow.push(&rest[..end]);
        rest = &rest[end..];
        if rng.bool() {
            lines.extend(flow.closed(columns, theme));
        }
        if rng.bool() {
            assert_eq!(flow.open(columns, theme), flow.open(columns, theme));
        }
    }
    flow.finish();
    lines.extend(flow.closed(columns, theme));
    lines
}

#[test]
fn however_a_text_is_cut_it_is_drawn_as_a_whole() {
    let mut rng = fastrand::Rng::with_seed(11);
    let theme = Theme::ansi();
    for _ in 0..1_500 {
        let text = random(&mut rng, 60);
        let columns = rng.usize(1..60);
        let whole = render(&text, columns, &theme);
        assert_eq!(drawn(&streamed(&text, &mut rng, columns, &theme)), drawn(&whole), "{text:?} {columns}");
        for line in &whole {
            let is_wide = line.spans.last().is_some_and(|span| text::width(&span.content) == 2);
            assert!(text::line_width(line) <= columns || is_wide, "{text:?} {columns} {line:?}");
        }
    }
}

#[test]
fn long_lines_and_blocks_are_cut_alike() {
    let mut rng = fastrand::Rng::with_seed(12);
    let theme = Theme::ansi();
    for part in ["word ", "x", "日", "| a | b |\n", "text\n", "> - a\n", "\u{1b}"] {
        for before in ["", "| a | b |\n|---|---|\n", "```\n", "> ", "# "] {
            let text = format!("{before}{}", part.repeat(20_000 / part.len() + rng.usize(..500)));
            let whole = render(&text, 80, &theme);
            let (mut flow, mut lines) = (Flow::default(), Vec::new());
            let mut rest = text.as_str();
            while !rest.is_empty() {
                let end = rest.ceil_char_boundary(rng.usize(1..=rest.len().min(3_000)));
                flow.push(&rest[..end]);
                rest = &rest[end..];
                lines.extend(flow.closed(80, &theme));
            }
            flow.finish();
            lines.extend(flow.closed(80, &theme));
            assert!(lines == whole, "{before:?} {part:?}");
        }
    }
}

/// The letters of a text, sorted: cells that wrap stand in another order than they were written.
fn letters(text: &str) -> String {
    let mut letters: Vec<char> = text.chars().filter(char::is_ascii_alphabetic).collect();
    letters.sort_unstable();
    letters.into_iter().collect()
}

#[test]
fn no_word_is_lost() {
    let mut rng = fastrand::Rng::with_seed(13);
    for _ in 0..2_000 {
        // Without code, since the word behind a fence is not shown, and without what is shown otherwise.
        let marks = ['`', '~', '(', '<', '&', '\u{1b}', '\u{200b}', '\u{202e}', '\u{2028}'];
        let text = random(&mut rng, 40).replace("[x]", "").replace("&amp;", "").replace(marks, "");
        let (shown, wanted) = (letters(&drawn(&render(&text, 50, &Theme::ansi()))), letters(&text));
        assert_eq!(shown, wanted, "{text:?}");
    }
}

/// How long a reply takes in pieces of a hundred bytes, drawn at each.
fn cost(part: &str, bytes: usize) -> Duration {
    let theme = Theme::ansi();
    let text = part.repeat(bytes / part.len());
    let begun = Instant::now();
    let (mut flow, mut rows) = (Flow::default(), 0);
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(rest.ceil_char_boundary(100));
        flow.push(piece);
        rest = behind;
        rows += flow.closed(80, &theme).len();
        std::hint::black_box(flow.open(80, &theme));
    }
    flow.finish();
    assert!(rows + flow.closed(80, &theme).len() > 0);
    begun.elapsed()
}

#[test]
fn a_reply_costs_what_it_is_long() {
    for part in [
        "A paragraph of some *words* and `code`.\nIt has two lines.\n\n",
        "```rust\nfn main() { println!(\"{}\", 1 + 2); } // says it\n",
        "- an item\n  - one in it\n",
        "> quoted\n",
        "word ",
        "line\n",
        "| a | b |\n|---|---|\n",
        "x",
    ] {
        // What is quadratic takes sixteen times as long each time; a busy machine does not.
        let is_linear = (0..4).any(|_| cost(part, 40_000) < cost(part, 10_000) * 10);
        assert!(is_linear, "{part:?}");
    }
}
