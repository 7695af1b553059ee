//! That themes can be read: by people, and from files.

use expect_test::expect;

use super::level::{luminance, rgb};
use super::*;

fn contrast(one: (u8, u8, u8), other: (u8, u8, u8)) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

/// Styles that give letters a colour, also upon lines that were added or removed.
const CODE: [&str; 5] = ["text", "keyword", "string", "comment", "number"];

/// Each pair of letters and background that is less than 4.5 apart.
fn unreadable(mut theme: Theme, backgrounds: &[(u8, u8, u8)]) -> Vec<String> {
    let mut wrong = Vec::new();
    let (added, removed) = (theme.added, theme.removed);
    for (name, field) in FIELDS {
        let style = *field(&mut theme);
        let letters = rgb(style.fg.expect("letters have a colour"));
        let mut behind: Vec<(u8, u8, u8)> = style.bg.map_or(backgrounds.to_vec(), |bg| vec![rgb(bg)]);
        if CODE.contains(&name) {
            behind.extend([added, removed].iter().filter_map(|style| style.bg).map(rgb));
        }
        for behind in behind {
            let contrast = contrast(letters, behind);
            if contrast < 4.5 {
                wrong.push(format!("{name} {letters:x?} on {behind:x?}: {contrast:.2}"));
            }
        }
    }
    wrong
}

#[test]
fn every_letter_can_be_read() {
    let dark = [(0, 0, 0), (0x1e, 0x1e, 0x1e)];
    for level in [Level::True, Level::TwoFiftySix] {
        for (theme, backgrounds) in [
            (Theme::dark(), dark.as_slice()),
            (Theme::colourblind(), &dark),
            (Theme::light(), &[(255, 255, 255)]),
            (Theme::colourblind_light(), &[(255, 255, 255)]),
        ] {
            assert_eq!(unreadable(theme.at(level), backgrounds), [""; 0], "{level:?}");
        }
    }
    assert!(!unreadable(Theme::dark(), &[(255, 255, 255)]).is_empty(), "the test can fail");
}

#[test]
fn lines_of_a_diff_differ_by_more_than_red_and_green() {
    for theme in [Theme::colourblind(), Theme::colourblind_light()] {
        for (one, other) in [(theme.added.bg, theme.removed.bg), (theme.good.fg, theme.bad.fg)] {
            let ((red, _, blue), (other_red, _, other_blue)) =
                (rgb(one.expect("a colour")), rgb(other.expect("a colour")));
            assert!(blue > red && other_red > other_blue, "blue against orange");
        }
    }
}

#[test]
fn themes_are_known_by_name() {
    for name in NAMES {
        assert!(Theme::named(name).is_some(), "{name}");
    }
    assert_eq!(Theme::named("Dark"), Some(Theme::dark()));
    assert_eq!(Theme::named("auto"), None);
    assert_eq!(Theme::of_background(Some((30, 30, 46))), Theme::dark());
    assert_eq!(Theme::of_background(Some((253, 246, 227))), Theme::light());
    assert_eq!(Theme::of_background(None), Theme::ansi());
}

#[test]
fn colours_are_brought_down() {
    let is_own = |colour: Option<Color>| !matches!(colour, Some(Color::Rgb(..) | Color::Indexed(16..)));
    for name in NAMES {
        let theme = Theme::named(name).expect("a theme");
        assert_eq!(theme.clone().at(Level::True), theme);
        for (_, field) in FIELDS {
            let style = *field(&mut theme.clone().at(Level::TwoFiftySix));
            assert!(!matches!((style.fg, style.bg), (Some(Color::Rgb(..)), _) | (_, Some(Color::Rgb(..)))));
            let style = *field(&mut theme.clone().at(Level::Sixteen));
            assert!(is_own(style.fg) && is_own(style.bg));
            let style = *field(&mut theme.clone().at(Level::None));
            assert_eq!((style.fg, style.bg), (None, None));
        }
        let none = theme.at(Level::None);
        assert_eq!(none.code, none.text, "code has its marks");
        assert_ne!(none.added_word, none.added);
        assert_ne!(none.chosen, none.text);
    }
    let sixteen = Theme::dark().at(Level::Sixteen);
    assert_eq!((sixteen.good.fg, sixteen.bad.fg, sixteen.text.fg), (Some(Color::Green), Some(Color::Red), None));
    assert_eq!(sixteen.dim, Theme::ansi().dim);
    assert_eq!(sixteen.added, Theme::ansi().added);
}

#[test]
fn a_file_says_what_differs() {
    let theme = read(
        "# mine\nbase = \"light\"\naccent = \"#FFB454\"\nlink = { fg = \"bright-blue\", underline = false }\n[added]\nbg = 22\nbold = true\n[text]\nfg = \"default\"\n",
        &Theme::dark(),
    );
    let light = Theme::light();
    let mut wanted = light.clone();
    wanted.accent = light.accent.fg(Color::Rgb(0xff, 0xb4, 0x54));
    wanted.link = Style::new().fg(Color::LightBlue);
    wanted.added = light.added.bg(Color::Indexed(22)).add_modifier(Modifier::BOLD);
    wanted.text = Style::new();
    assert_eq!(theme, Ok(wanted));
    assert_eq!(read("", &Theme::dark()), Ok(Theme::dark()));
}

#[test]
fn mistakes_are_named_and_the_rest_is_used() {
    let text = "accent = \"red\"\nkeywrd = \"blue\"\nbase = \"drak\"\n\ndim = \"#12345\"\ngood = 256\nadded = { fgg = 1, bold = 1,\n  bg = true }\nwarn = [1]\n";
    let error = read(text, &Theme::none()).expect_err("has mistakes");
    expect![[r##"
        line 2, `keywrd`: unknown style; the styles are text, dim, strong, good, bad, warn, accent, code, link, added, added_word, removed, removed_word, chosen, keyword, string, comment, number
        line 3, `base`: unknown theme; the themes are dark, light, colourblind, colourblind-light, ansi, none
        line 5, `dim`: not a color; write "#a0c4ff", a name such as "red" or "bright-blue", a number up to 255, or "default"
        line 6, `good`: not a color; write "#a0c4ff", a name such as "red" or "bright-blue", a number up to 255, or "default"
        line 7, `added.fgg`: unknown setting; the settings are fg, bg, bold, dim, italic, underline, strike, reverse
        line 7, `added.bold`: must be true or false
        line 8, `added.bg`: not a color; write "#a0c4ff", a name such as "red" or "bright-blue", a number up to 255, or "default"
        line 9, `warn`: not a color; write "#a0c4ff", a name such as "red" or "bright-blue", a number up to 255, or "default""##]].assert_eq(&error.to_string().replace("; line", "\nline"));
    assert_eq!(error.theme.accent.fg, Some(Color::Red));
    assert_eq!(error.theme.dim, Theme::none().dim);

    let error = read("accent = \"red\"\nx y", &Theme::none()).expect_err("is not TOML");
    assert_eq!((error.mistakes.len(), error.mistakes[0].line), (1, 2));
    assert_eq!(*error.theme, Theme::none());
}

#[test]
fn the_page_names_every_theme_and_style_and_its_example_is_right() {
    let page = include_str!("../../../../docs/themes.md");
    for name in NAMES.into_iter().chain(FIELDS.map(|(name, _)| name)) {
        assert!(page.contains(&format!("`{name}`")), "{name}");
    }
    let example = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let theme = read(example, &Theme::none()).expect("is right");
    assert_eq!(theme.accent.fg, Some(Color::Rgb(0xff, 0xb4, 0x54)));
}

#[test]
fn nothing_breaks_reading() {
    const PARTS: [&str; 14] =
        ["text", " = ", "\"red\"", "\n", "[", "]", "{", "}", "fg", ",", "#ffffff", "1", "\u{202e}", "\"#日本\""];
    let mut rng = fastrand::Rng::with_seed(1);
    for _ in 0..5_000 {
        let text: String = (0..rng.usize(..12)).map(|_| PARTS[rng.usize(..PARTS.len())]).collect();
        let _ = read(&text, &Theme::ansi());
    }
}
