//! How text is cut and wrapped; its width is held against a terminal's in `matrix`.

mod matrix;

use super::*;
use ratatui_core::style::{Color, Modifier};

fn plain(rows: &[Line<'static>]) -> Vec<String> {
    rows.iter().map(ToString::to_string).collect()
}

fn wrapped(text: &str, columns: usize, hang: usize) -> Vec<String> {
    plain(&wrap(&Line::from(text.to_owned()), columns, hang))
}

#[test]
fn rows_end_at_words_and_hang() {
    assert_eq!(wrapped("one two three", 7, 0), ["one two", "three"]);
    assert_eq!(wrapped("one  two   three ", 9, 2), ["one  two", "  three"]);
    assert_eq!(wrapped("  indented words", 10, 2), ["  indented", "  words"]);
    assert_eq!(wrapped("", 10, 2), [""]);
    assert_eq!(wrapped("   ", 10, 2), [""]);
    assert_eq!(wrapped("                    far", 10, 0), ["far"]);
}

#[test]
fn a_long_word_is_broken_and_a_wide_one_goes_on_where_it_is() {
    assert_eq!(wrapped("see abcdefghijkl end", 6, 0), ["see ab", "cdefgh", "ijkl", "end"]);
    assert_eq!(wrapped("日本語の文章、です。", 6, 0), ["日本語", "の文", "章、で", "す。"]);
    assert_eq!(wrapped("👩‍💻👩‍💻", 1, 5), ["👩‍💻", "👩‍💻"]);
    assert_eq!(wrapped("abc", 1, 1), ["a", "b", "c"]);
}

#[test]
fn rows_keep_styles() {
    let (red, bold) = (Style::new().fg(Color::Red), Style::new().add_modifier(Modifier::BOLD));
    let line = Line::from(vec![Span::styled("one t", red), Span::styled("wo three", bold)]);
    let rows = wrap(&line, 7, 0);
    assert_eq!(rows[0].spans, [Span::styled("one t", red), Span::styled("wo", bold)]);
    assert_eq!(rows[1].spans, [Span::styled("three", bold)]);
}

#[test]
fn what_is_cut_ends_in_a_mark_at_a_character() {
    for (text, columns, shown) in [
        ("short", 5, "short"),
        ("longer", 5, "long…"),
        ("日本語", 5, "日本…"),
        ("日本語", 4, "日…"),
        ("👨‍👩‍👧‍👦 family", 3, "👨‍👩‍👧‍👦…"),
        ("ab", 1, "…"),
        ("ab", 0, ""),
        ("", 0, ""),
    ] {
        assert_eq!(cut(text, columns), shown, "{text} {columns}");
        let halves = text.char_indices().nth(2).map_or((text, ""), |(at, _)| text.split_at(at));
        let line = Line::from(vec![Span::raw(halves.0.to_owned()), Span::raw(halves.1.to_owned())]);
        if text.is_ascii() {
            assert_eq!(fit(&line, columns).to_string(), shown, "{text} {columns}");
        }
    }
}

#[test]
fn a_line_of_a_megabyte_is_cut_at_once() {
    let line = "ä".repeat(1_000_000);
    let begun = std::time::Instant::now();
    (0..1_000).for_each(|_| assert_eq!(cut(&line, 80).chars().count(), 80));
    assert!(begun.elapsed().as_secs() < 2);
}

#[test]
fn data_is_shown_not_obeyed() {
    assert_eq!(clean_lines("a\tb\r\n\u{1b}[2J\u{9b}m\tx\n日\tc\n"), ["a   b", "\\u{1b}[2J\\u{9b}m    x", "日  c"]);
    assert!(clean_lines("").is_empty());
}

/// Text of letters, blanks, wide characters, marks and emoji.
fn random(random: &mut fastrand::Rng, most: usize) -> String {
    const PARTS: [&str; 16] =
        ["a", "word", " ", "  ", "日本", "、", "👩‍💻", "🇩🇪", "e\u{301}", "لا", "\t", "-", "ﾊﾟ", "한", "\u{200d}", "❤️"];
    (0..random.usize(..most)).map(|_| PARTS[random.usize(..PARTS.len())]).collect()
}

#[test]
fn wrapping_loses_only_blanks_and_no_row_is_too_wide() {
    let mut rng = fastrand::Rng::with_seed(7);
    for _ in 0..4_000 {
        let text = clean_lines(&random(&mut rng, 30)).join("");
        let (columns, hang) = (rng.usize(1..30), rng.usize(..12));
        let spans: Vec<Span<'static>> = text
            .graphemes(true)
            .map(|grapheme| Span::styled(grapheme.to_owned(), Style::new().fg(Color::Indexed(rng.u8(..3)))))
            .collect();
        let line = Line::from(spans);
        let rows = wrap(&line, columns, hang);
        let seen = |text: &str| text.split_whitespace().collect::<String>();
        assert_eq!(seen(&plain(&rows).concat()), seen(&text), "{text:?} {columns} {hang}");
        for row in &rows {
            let is_alone = row.to_string().graphemes(true).count() == 1;
            assert!(line_width(row) <= columns || is_alone, "{text:?} {columns} {hang} {row:?}");
        }
        let cut = fit(&line, columns);
        assert!(line_width(&cut) <= columns);
        assert_eq!(cut.to_string() == text, line_width(&line) <= columns, "{text:?} {columns}");
    }
}
