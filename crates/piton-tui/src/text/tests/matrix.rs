//! The width of four hundred strings against a terminal's own idea: `vt100` counts as most terminals do, each code point alone.
//!
//! Where the two differ, the string is listed. Terminals that count by graphemes (mode 2027: Ghostty, WezTerm, Contour,
//! Windows Terminal, kitty) agree with us, others draw such a character wider than it is. So a row that holds one may be
//! drawn anew by more than its text, and no column behind it is relied on.

use std::fmt::Write as _;

use expect_test::expect;

use crate::text::{clean_lines, width};

/// Columns that the cursor of a terminal has gone when the text was written.
fn of_terminal(text: &str) -> usize {
    let size = |cells| std::num::NonZero::new(cells).expect("not zero");
    let mut terminal = vt100::Parser::new(size(2), size(400), 0);
    terminal.process(text.as_bytes());
    usize::from(terminal.screen().cursor_position().1)
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn flags() -> Vec<String> {
    let countries = "AD AE AR AT AU BE BR CA CH CL CN CZ DE DK EG ES EU FI FR GB GR HK HU ID IE IL IN IR IT JP KE KR MX NG NL NO NZ PL PT SE";
    let letter = |letter: char| char::from_u32(0x1f1e6 + letter as u32 - 'A' as u32).expect("a letter");
    let mut flags: Vec<String> = words(countries).iter().map(|code| code.chars().map(letter).collect()).collect();
    flags.extend(words("🏳️‍🌈 🏳️‍⚧️ 🏴‍☠️ 🏴 🏁 🎌"));
    flags
}

fn skins() -> Vec<String> {
    let tones = ['\u{1f3fb}', '\u{1f3fc}', '\u{1f3fd}', '\u{1f3fe}', '\u{1f3ff}'];
    let hands = ["👍", "👋", "✋", "🤝", "🙏", "💪", "👩", "🧑"];
    hands.iter().flat_map(|hand| tones.iter().map(move |tone| format!("{hand}{tone}"))).collect()
}

/// Letters with one to three marks above and below.
fn combining() -> Vec<String> {
    let marks = ["\u{301}", "\u{308}", "\u{323}\u{302}", "\u{20d7}", "\u{336}", "\u{300}\u{301}\u{302}"];
    ["a", "e", "o", "n", "Z", "日", "ж", "1"]
        .iter()
        .flat_map(|of| marks.iter().map(move |mark| format!("{of}{mark}")))
        .collect()
}

/// Control characters, as they are shown.
fn controls() -> Vec<String> {
    let codes = (0..0x20).chain(0x7f..0xa0).filter(|code| *code != 0x0a).filter_map(char::from_u32);
    codes.map(|char| format!("a{char}b")).collect()
}

fn groups() -> Vec<(&'static str, Vec<String>)> {
    vec![
        ("emoji", words("😀 🎉 🚀 ✅ ❌ ⚡ ⭐ 🔥 💡 🐛 📦 🔒 ⏳ ⌛ ⚽ ☕ ♻ ⚠ ✔ ✖ ❤ ☀ ☎ ✈ ℹ ▶ ⏸ ⚙ 🛠 🖥 🗑 🅰 🈁 🀄 🃏")),
        ("emoji with a selector", words("❤️ ☀️ ☎️ ✈️ ℹ️ ▶️ ⏸️ ⚙️ 🛠️ 🖥️ 🗑️ ⚠️ ✔️ ✖️ ♻️ ©️ ®️ ™️ 😀︎ ⌛︎ ⚡︎ 1️⃣ #️⃣ *️⃣ 0⃣")),
        ("emoji joined", words("👩‍💻 👨‍👩‍👧‍👦 👨‍👨‍👦 👩‍❤️‍👨 👩‍❤️‍💋‍👩 🧑‍🚀 👩🏽‍🔬 👨🏿‍🦱 🐕‍🦺 🐻‍❄️ 👁️‍🗨️ 🧑‍🤝‍🧑 👩🏻‍🤝‍👨🏾 🫱🏻‍🫲🏿 ❤️‍🔥 😮‍💨 😵‍💫 🧔‍♂️ 🏃‍♀️ 🏃‍♀️‍➡️ 🐦‍⬛ 🍋‍🟩")),
        ("skin tones", skins()),
        ("flags", flags()),
        ("combining marks", combining()),
        (
            "Chinese, Japanese, Korean",
            words(
                "日本語 中文字 漢 ひらがな カタカナ ｶﾀｶﾅ ﾊﾟ が が ー 、。 「」 ！？ ＡＢＣ １２３ 한국어 한 ㄱㄴ 각 힣 가 ㊗ ㊙ ㈱ ㍿ ① ⑳ Ⅳ ／ ～ ￥ ￦ 々 〆 ㇰ 𠮷 𩸽 ☆ ★ ○ ● ■ → ← × ÷ § ° ± ─ │ ┼ ░ ▓ … “”",
            ),
        ),
        (
            "from right to left",
            words("שלום עִבְרִית مرحبا العَرَبِيَّة لا لآ لإ ﷲ ﷺ فارسی نمی‌خواهم اردو پښتو ܐܪܡܝܐ ދިވެހި ߒߞߏ ٣٤٥ ۱۲۳ שָׁ ־ ، ؟"),
        ),
        (
            "other scripts",
            words(
                "हिन्दी क्ष नि ज्ञ বাংলা ক্ত தமிழ் நி తెలుగు ಕನ್ನಡ മലയാളം සිංහල ไทย กำ ที่ ລາວ မြန်မာ ខ្មែរ བོད་ཡིག ქართული አማርኛ Ελληνικά Кириллица Ñandú Tiếng Việt ẞ ﬁ ﬀ ŉ ǆ ℃ № ⅓ ² ∑ ∞ 𝓐 𝟙 🄰 ᚠ 𓀀 𒀀 ☃ ♔ ⠿ ⠹",
            ),
        ),
        (
            "tabs",
            ["a\tb", "\t", "\t\t", "日\tx", "e\u{301}\tx", "abcd\tx", "👩‍💻\tx", "a\t\tb"].map(str::to_owned).to_vec(),
        ),
        ("control characters", controls()),
        (
            "hidden characters",
            [
                "\u{200b}",
                "\u{200d}",
                "a\u{200d}b",
                "\u{202e}abc",
                "\u{2066}x\u{2069}",
                "\u{feff}x",
                "\u{ad}x",
                "\u{61c}",
                "x\u{fe0f}",
                "\u{e0041}",
                "\u{3164}",
                "\u{2028}x",
                "\u{1d173}",
            ]
            .map(str::to_owned)
            .to_vec(),
        ),
    ]
}

#[test]
fn widths_are_those_of_a_terminal_but_for_these() {
    let (mut out, mut all) = (String::new(), 0);
    for (name, strings) in groups() {
        let mut wrong = Vec::new();
        for text in &strings {
            let line = clean_lines(text).join("");
            let (ours, theirs) = (width(&line), of_terminal(&line));
            if ours != theirs {
                wrong.push(format!("{line} {ours}/{theirs}"));
            }
        }
        all += strings.len();
        let _ = writeln!(out, "{name}: {} of {} differ", wrong.len(), strings.len());
        for line in wrong.chunks(8) {
            let _ = writeln!(out, "  {}", line.join(", "));
        }
    }
    assert!(all >= 400, "{all}");
    expect![[r#"
        emoji: 0 of 35 differ
        emoji with a selector: 2 of 25 differ
          ⌛︎ 1/2, ⚡︎ 1/2
        emoji joined: 22 of 22 differ
          👩‍💻 2/4, 👨‍👩‍👧‍👦 2/8, 👨‍👨‍👦 2/6, 👩‍❤️‍👨 2/6, 👩‍❤️‍💋‍👩 2/8, 🧑‍🚀 2/4, 👩🏽‍🔬 2/6, 👨🏿‍🦱 2/6
          🐕‍🦺 2/4, 🐻‍❄️ 2/4, 👁️‍🗨️ 2/4, 🧑‍🤝‍🧑 2/6, 👩🏻‍🤝‍👨🏾 2/10, 🫱🏻‍🫲🏿 2/8, ❤️‍🔥 2/4, 😮‍💨 2/4
          😵‍💫 2/4, 🧔‍♂️ 2/4, 🏃‍♀️ 2/4, 🏃‍♀️‍➡️ 2/6, 🐦‍⬛ 2/4, 🍋‍🟩 2/4
        skin tones: 40 of 40 differ
          👍🏻 2/4, 👍🏼 2/4, 👍🏽 2/4, 👍🏾 2/4, 👍🏿 2/4, 👋🏻 2/4, 👋🏼 2/4, 👋🏽 2/4
          👋🏾 2/4, 👋🏿 2/4, ✋🏻 2/4, ✋🏼 2/4, ✋🏽 2/4, ✋🏾 2/4, ✋🏿 2/4, 🤝🏻 2/4
          🤝🏼 2/4, 🤝🏽 2/4, 🤝🏾 2/4, 🤝🏿 2/4, 🙏🏻 2/4, 🙏🏼 2/4, 🙏🏽 2/4, 🙏🏾 2/4
          🙏🏿 2/4, 💪🏻 2/4, 💪🏼 2/4, 💪🏽 2/4, 💪🏾 2/4, 💪🏿 2/4, 👩🏻 2/4, 👩🏼 2/4
          👩🏽 2/4, 👩🏾 2/4, 👩🏿 2/4, 🧑🏻 2/4, 🧑🏼 2/4, 🧑🏽 2/4, 🧑🏾 2/4, 🧑🏿 2/4
        flags: 3 of 46 differ
          🏳️‍🌈 2/4, 🏳️‍⚧️ 2/4, 🏴‍☠️ 2/4
        combining marks: 0 of 48 differ
        Chinese, Japanese, Korean: 0 of 56 differ
        from right to left: 0 of 22 differ
        other scripts: 1 of 47 differ
          ខ្មែរ 3/4
        tabs: 1 of 8 differ
          👩‍💻  x 5/7
        control characters: 0 of 64 differ
        hidden characters: 0 of 13 differ
    "#]]
    .assert_eq(&out);
}
