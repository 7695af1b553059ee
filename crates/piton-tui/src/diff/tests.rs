//! What a diff looks like, at several widths and with any text.

use expect_test::{Expect, expect};

use super::*;

/// The rows, with `⟦ ⟧` around marked words.
fn drawn(lines: &[Line<'static>], theme: &Theme) -> String {
    let mut out = String::new();
    for line in lines {
        for span in &line.spans {
            let is_word = span.style == theme.added_word || span.style == theme.removed_word;
            out.push_str(&if is_word { format!("⟦{}⟧", span.content) } else { span.content.to_string() });
        }
        assert!(!line.to_string().ends_with(' '), "{line:?}");
        out.push('\n');
    }
    out
}

fn check(unified: &str, columns: usize, expected: &Expect) {
    let theme = Theme::ansi();
    let lines = lines(unified, "calc.py", columns, &theme);
    assert!(lines.iter().all(|line| text::line_width(line) <= columns));
    expected.assert_eq(&drawn(&lines, &theme));
}

const DIFF: &str = "\
@@ -1,4 +1,4 @@
 def add(a, b):
-    return a - b
+    return a + b

 # the end
@@ -98,5 +98,7 @@ class Other:
 kept
-this line is gone
--- a/minus
+++ b/plus
+all of this is something new, and it is a line which is so long that it has to go on in a second row
+\ttab \u{1b}[31m
+
 kept, too
\\ No newline at end of file
";

#[test]
fn a_diff_at_forty() {
    check(
        DIFF,
        40,
        &expect![[r#"
          1   def add(a, b):
          2 −     return a ⟦-⟧ b
          2 +     return a ⟦+⟧ b
          3
          4   # the end
          ⋯
         98   kept
         99 − this line is gone
        100 − -- a/minus
         99 + ++ b/plus
        100 + all of this is something new, and
              it is a line which is so long that
              it has to go on in a second row
        101 +     tab \u{1b}[31m
        102 +
        103   kept, too
    "#]],
    );
}

#[test]
fn a_diff_at_eighty() {
    check(
        DIFF,
        80,
        &expect![[r#"
          1   def add(a, b):
          2 −     return a ⟦-⟧ b
          2 +     return a ⟦+⟧ b
          3
          4   # the end
          ⋯
         98   kept
         99 − this line is gone
        100 − -- a/minus
         99 + ++ b/plus
        100 + all of this is something new, and it is a line which is so long that it
              has to go on in a second row
        101 +     tab \u{1b}[31m
        102 +
        103   kept, too
    "#]],
    );
}

#[test]
fn a_diff_at_a_hundred_and_twenty() {
    check(
        DIFF,
        120,
        &expect![[r#"
          1   def add(a, b):
          2 −     return a ⟦-⟧ b
          2 +     return a ⟦+⟧ b
          3
          4   # the end
          ⋯
         98   kept
         99 − this line is gone
        100 − -- a/minus
         99 + ++ b/plus
        100 + all of this is something new, and it is a line which is so long that it has to go on in a second row
        101 +     tab \u{1b}[31m
        102 +
        103   kept, too
    "#]],
    );
}

#[test]
fn blanks_and_line_ends_that_are_the_change_are_seen() {
    check(
        "edited x\n@@ -1,4 +1,4 @@\n-end;  \n+end;\n-\tx\n-y\r\n-\tz\r\n+    x\n+y\n+\tzz\r\n",
        30,
        &expect![[r#"
            edited x
              1 − end;⟦··⟧
              1 + end;
              2 − ⟦→   ⟧x
              3 − y⟦␍⟧
              4 −     z
              2 + ⟦    ⟧x
              3 + y
              4 +     zz
        "#]],
    );
}

#[test]
fn what_is_no_hunk_is_said() {
    check(
        "edited a.txt (+1 −1)\n@@ -1 +1 @@\n-one\n+1\ncreated b\n@@ -0,0 +1,2 @@\n+x\n[cut]\n+y\n@@ bad @@\n",
        30,
        &expect![[r#"
        edited a.txt (+1 −1)
          1 − one
          1 + 1
        created b
          1 + x
        [cut]
        +y
        @@ bad @@
    "#]],
    );
}

#[test]
fn two_columns_where_there_is_room() {
    let theme = Theme::ansi();
    assert_eq!(split(DIFF, "", 139, &theme), lines(DIFF, "", 139, &theme));
    let lines = split(DIFF, "", 140, &theme);
    assert!(lines.iter().all(|line| text::line_width(line) <= 140));
    expect![[r#"
          1   def add(a, b):                                                 │   1   def add(a, b):
          2 −     return a ⟦-⟧ b                                               │   2 +     return a ⟦+⟧ b
          3                                                                  │   3
          4   # the end                                                      │   4   # the end
          ⋯
         98   kept                                                           │  98   kept
         99 − this line is gone                                              │  99 + ++ b/plus
        100 − -- a/minus                                                     │ 100 + all of this is something new, and it is a line which is so
                                                                             │       long that it has to go on in a second row
                                                                             │ 101 +     tab \u{1b}[31m
                                                                             │ 102 +
        101   kept, too                                                      │ 103   kept, too
    "#]].assert_eq(&drawn(&lines, &theme));
}

#[test]
fn lines_are_counted() {
    assert_eq!(counts(DIFF), (5, 3));
    assert_eq!(counts("no diff\n+x\n"), (0, 0));
    assert_eq!(counts(""), (0, 0));
}

#[test]
fn a_line_of_a_megabyte_is_cut() {
    let unified = format!("@@ -1 +1 @@\n-{0}\n+{0}b\n", "a".repeat(1_000_000));
    let lines = lines(&unified, "x.rs", 80, &Theme::ansi());
    assert_eq!(lines.len(), 110);
    assert!(lines[54].to_string().ends_with("a… (996000 bytes more)"), "{:?}", lines[54]);
}

#[test]
fn a_hundred_thousand_lines_are_drawn_soon() {
    let unified =
        format!("@@ -1,50000 +1,50000 @@\n{}{}", "-old line()\n".repeat(50_000), "+new line()\n".repeat(50_000));
    let begun = std::time::Instant::now();
    assert_eq!(lines(&unified, "x.rs", 80, &Theme::ansi()).len(), 100_000);
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
}

#[test]
fn nothing_breaks_it() {
    const PARTS: [&str; 16] = [
        "\n",
        "\n+",
        "\n-",
        "\n ",
        "@@ -1,2 +1,2 @@\n",
        "\n@@ -3 +9 @@\n",
        "word ",
        "日本",
        "\t",
        "\u{1b}[0m",
        "\"",
        "/*",
        "e\u{301}",
        "👩\u{200d}💻",
        "\\",
        "\r",
    ];
    let mut rng = fastrand::Rng::with_seed(5);
    for _ in 0..3_000 {
        let unified: String = (0..rng.usize(..40)).map(|_| PARTS[rng.usize(..PARTS.len())]).collect();
        let columns = rng.usize(1..200);
        for theme in [Theme::ansi(), Theme::none()] {
            let lines = split(&unified, "a.rs", columns, &theme);
            assert!(lines.iter().all(|line| text::line_width(line) <= columns), "{unified:?} {columns}");
        }
    }
}

#[test]
fn code_keeps_its_colours_where_the_change_is_behind_it() {
    let (unified, theme) = ("@@ -1 +1 @@\n-let a = 1;\n+let a = 22;\n", Theme::dark());
    let lines = lines(unified, "x.rs", 80, &theme);
    let styles: Vec<(&str, Style)> = lines[1].spans.iter().map(|span| (span.content.as_ref(), span.style)).collect();
    let keyword = theme.added.patch(theme.keyword);
    assert_eq!(keyword.bg, theme.added.bg);
    assert_eq!(styles[3], ("let", keyword));
    assert!(styles.contains(&("22", theme.added_word)), "{styles:?}");
    let plain = super::lines(unified, "x.rs", 80, &Theme::ansi());
    assert!(plain[1].spans.iter().all(|span| span.style != Theme::ansi().keyword));
}
