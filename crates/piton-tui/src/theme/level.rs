//! Colours brought down to those that a terminal has.

use ratatui_core::style::{Color, Style};

use super::{FIELDS, Theme};

/// How many colours a terminal has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// None: `NO_COLOR`, `TERM=dumb`.
    None,
    /// Sixteen, as its user has set them.
    Sixteen,
    /// The 256 of xterm.
    TwoFiftySix,
    /// 24 bits.
    True,
}

/// The lightness of the six steps of each colour in xterm's cube.
const STEPS: [u8; 6] = [0, 95, 135, 175, 215, 255];
/// Colours whose parts differ by less are grey.
const GREY: u8 = 40;

impl Theme {
    /// The theme in no more colours than that.
    #[must_use]
    pub fn at(mut self, level: Level) -> Self {
        let (mut none, mut ansi) = (Self::none(), Self::ansi());
        for (_, field) in FIELDS {
            let style = field(&mut self);
            *style = match level {
                Level::True => *style,
                Level::TwoFiftySix => Style { fg: style.fg.map(indexed), bg: style.bg.map(indexed), ..*style },
                Level::Sixteen => sixteen(*style, *field(&mut ansi)),
                Level::None => field(&mut none).add_modifier(style.add_modifier),
            };
        }
        self
    }
}

/// The style in the terminal's own colours. What is behind text cannot be brought down to sixteen so that it stays readable.
fn sixteen(style: Style, ansi: Style) -> Style {
    let is_own = |colour: Color| !matches!(colour, Color::Rgb(..) | Color::Indexed(16..));
    match (style.fg, style.bg) {
        (_, Some(bg)) if !is_own(bg) => ansi,
        (Some(fg), _) if !is_own(fg) => match hue(rgb(fg)) {
            Some(hue) => Style { fg: Some(hue), ..style },
            None => Style { fg: None, ..style }.add_modifier(ansi.add_modifier),
        },
        _ => style,
    }
}

/// The nearest of the terminal's colours; none for grey.
fn hue((red, green, blue): (u8, u8, u8)) -> Option<Color> {
    let (most, least) = (red.max(green).max(blue), red.min(green).min(blue));
    if most - least < GREY {
        return None;
    }
    let middle = least + (most - least) / 2;
    Some(match (red > middle, green > middle, blue > middle) {
        (true, false, false) => Color::Red,
        (true, true, false) => Color::Yellow,
        (false, true, false) => Color::Green,
        (false, true, true) => Color::Cyan,
        (false, false, true) => Color::Blue,
        (true, false, true) => Color::Magenta,
        (true, true, true) | (false, false, false) => return None,
    })
}

/// The nearest of the 256 colours.
fn indexed(colour: Color) -> Color {
    let Color::Rgb(red, green, blue) = colour else { return colour };
    let step = |part: u8| (0..6_u8).min_by_key(|at| part.abs_diff(STEPS[usize::from(*at)])).unwrap_or(0);
    let cube = 16 + 36 * step(red) + 6 * step(green) + step(blue);
    let sum = u16::from(red) + u16::from(green) + u16::from(blue);
    let grey = 232 + u8::try_from((sum / 3).saturating_sub(3) / 10).unwrap_or(23).min(23);
    let distance = |index: u8| {
        let (r, g, b) = rgb(Color::Indexed(index));
        [(r, red), (g, green), (b, blue)].iter().map(|(a, b)| u32::from(a.abs_diff(*b)).pow(2)).sum::<u32>()
    };
    Color::Indexed([cube, grey].into_iter().min_by_key(|index| distance(*index)).unwrap_or(cube))
}

/// Red, green and blue of a colour; of one that is the terminal's own, grey.
pub(super) fn rgb(colour: Color) -> (u8, u8, u8) {
    match colour {
        Color::Rgb(red, green, blue) => (red, green, blue),
        Color::Indexed(index @ 16..=231) => {
            let part = |by: u8| STEPS[usize::from((index - 16) / by % 6)];
            (part(36), part(6), part(1))
        }
        Color::Indexed(index @ 232..) => {
            let grey = 8 + 10 * (index - 232);
            (grey, grey, grey)
        }
        _ => (128, 128, 128),
    }
}

/// How light a colour is, from 0 to 1 (WCAG's relative luminance).
pub(super) fn luminance((red, green, blue): (u8, u8, u8)) -> f64 {
    let part = |part: u8| {
        let part = f64::from(part) / 255.0;
        if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * part(red) + 0.7152 * part(green) + 0.0722 * part(blue)
}
