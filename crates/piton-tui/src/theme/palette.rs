//! The themes with colours of their own. Each letter has a contrast of at least 4.5 to what is behind it (WCAG 2.2, AA), for
//! any background from black to `#1e1e1e`, or white; a test holds them to that.

use ratatui_core::style::{Color, Modifier, Style};

use super::Theme;

fn fg(rgb: u32) -> Style {
    Style::new().fg(Color::from_u32(rgb))
}

fn on(bg: u32, rgb: u32) -> Style {
    fg(rgb).bg(Color::from_u32(bg))
}

impl Theme {
    /// For a dark background, in 24-bit colours.
    pub fn dark() -> Self {
        Self {
            text: fg(0xdcdcdc),
            dim: fg(0x9c9c9c),
            strong: fg(0xffffff).add_modifier(Modifier::BOLD),
            good: fg(0x7ec77b),
            bad: fg(0xff8085),
            warn: fg(0xe5c07b),
            accent: fg(0x61c8e0),
            code: fg(0x8fd0c8),
            link: fg(0x82aaff).add_modifier(Modifier::UNDERLINED),
            added: on(0x12301a, 0xd7f0d7),
            added_word: on(0x1f5a2c, 0xffffff).add_modifier(Modifier::BOLD),
            removed: on(0x3a1618, 0xf5d6d6),
            removed_word: on(0x7a2329, 0xffffff).add_modifier(Modifier::BOLD),
            chosen: on(0x264f78, 0xffffff),
            keyword: fg(0xd3a3f0),
            string: fg(0xa8d08d),
            comment: fg(0xa0a6ac),
            number: fg(0xf0b684),
        }
    }

    /// For a light background, in 24-bit colours.
    pub fn light() -> Self {
        Self {
            text: fg(0x24292f),
            dim: fg(0x5f6771),
            strong: fg(0x000000).add_modifier(Modifier::BOLD),
            good: fg(0x116329),
            bad: fg(0xb3261e),
            warn: fg(0x7d4e00),
            accent: fg(0x0550ae),
            code: fg(0x0a5c6b),
            link: fg(0x0756b8).add_modifier(Modifier::UNDERLINED),
            added: on(0xdafbe1, 0x0b3d17),
            added_word: on(0xaceebb, 0x06290f).add_modifier(Modifier::BOLD),
            removed: on(0xffebe9, 0x5c0f12),
            removed_word: on(0xffc1bc, 0x45080b).add_modifier(Modifier::BOLD),
            chosen: on(0x0550ae, 0xffffff),
            keyword: fg(0x6f42c1),
            string: fg(0x0a3069),
            comment: fg(0x57606a),
            number: fg(0x953800),
        }
    }

    /// [`Theme::dark`] without red and green: blue is good or added, orange is bad or removed.
    pub fn colourblind() -> Self {
        Self {
            good: fg(0x6cb6ff),
            bad: fg(0xffa657),
            warn: fg(0xf0e442),
            accent: fg(0xc9d7e8),
            added: on(0x0c2d4f, 0xd6e8ff),
            added_word: on(0x14508c, 0xffffff).add_modifier(Modifier::BOLD),
            removed: on(0x3d2406, 0xffe3c4),
            removed_word: on(0x7a4708, 0xffffff).add_modifier(Modifier::BOLD),
            keyword: fg(0x8cc4ff),
            string: fg(0xf3d9a4),
            number: fg(0xffb870),
            ..Self::dark()
        }
    }

    /// [`Theme::light`] without red and green: blue is good or added, orange is bad or removed.
    pub fn colourblind_light() -> Self {
        Self {
            good: fg(0x0550ae),
            bad: fg(0x8f4700),
            warn: fg(0x6b5900),
            accent: fg(0x24292f).add_modifier(Modifier::BOLD),
            added: on(0xddf0ff, 0x032f62),
            added_word: on(0xb6dcff, 0x021f42).add_modifier(Modifier::BOLD),
            removed: on(0xfff0dc, 0x5c2d00),
            removed_word: on(0xffd8a8, 0x452200).add_modifier(Modifier::BOLD),
            keyword: fg(0x0550ae),
            string: fg(0x6b4300),
            number: fg(0x8f4700),
            ..Self::light()
        }
    }
}
