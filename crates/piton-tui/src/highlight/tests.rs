//! What has a colour in each language, and that no text is lost.

use std::fmt::Write as _;

use expect_test::{Expect, expect};

use super::*;

/// The parts that have a colour, marked by its first letter.
fn check(name: &str, code: &str, expected: &Expect) {
    let theme = Theme::ansi();
    let (language, mut state) = (language(name).expect("a language"), State::default());
    let mut out = String::new();
    for text in code.lines() {
        for span in line(language, &mut state, text, &theme) {
            let mark = match span.style {
                style if style == theme.keyword => "k",
                style if style == theme.string => "s",
                style if style == theme.comment => "c",
                style if style == theme.number => "n",
                style if style == theme.removed => "r",
                _ => "",
            };
            let _ = if mark.is_empty() {
                write!(out, "{}", span.content)
            } else {
                write!(out, "{mark}⟨{}⟩", span.content)
            };
        }
        out.push('\n');
    }
    expected.assert_eq(&out);
}

#[test]
fn rust() {
    check(
        "src/lib.rs",
        "pub fn f<'a>(x: &'a str) -> Option<u8> { // why\n/* one /* two */\nstill */ let c = ['\\'', 'x', '\\u{1F600}'];\nlet s = r#\"raw \"\nmore\"# + \"a \\\" b\nc\" + b\"x\";\nx.await; 1_000u64..0xff; 1.5.max(2.) r\n",
        &expect![[r##"
            k⟨pub⟩ k⟨fn⟩ f<'a>(x: &'a str) -> Option<u8> { c⟨// why⟩
            c⟨/* one /* two */⟩
            c⟨still */⟩ k⟨let⟩ c = [s⟨'\''⟩, s⟨'x'⟩, s⟨'\u{1F600}'⟩];
            k⟨let⟩ s = s⟨r#"raw "⟩
            s⟨more"#⟩ + s⟨"a \" b⟩
            s⟨c"⟩ + bs⟨"x"⟩;
            x.k⟨await⟩; n⟨1_000u64⟩..n⟨0xff⟩; n⟨1.5⟩.max(n⟨2⟩.) r
        "##]],
    );
}

#[test]
fn python() {
    check(
        "python",
        "def f(self):  # say\n    \"\"\"Doc\n    \"quoted\" # no comment\n    \"\"\"\n    return f'{x}' if x else None, 'open\nx = a.class\n",
        &expect![[r#"
            k⟨def⟩ f(n⟨self⟩):  c⟨# say⟩
                s⟨"""Doc⟩
            s⟨    "quoted" # no comment⟩
            s⟨    """⟩
                k⟨return⟩ fs⟨'{x}'⟩ k⟨if⟩ x k⟨else⟩ n⟨None⟩, s⟨'open⟩
            x = a.class
        "#]],
    );
}

#[test]
fn script() {
    check(
        "a.tsx",
        "const x = `a ${b}\n` + \"s\" // c\nobj.default = undefined\n",
        &expect![[r#"
        k⟨const⟩ x = s⟨`a ${b}⟩
        s⟨`⟩ + s⟨"s"⟩ c⟨// c⟩
        obj.default = n⟨undefined⟩
    "#]],
    );
}

#[test]
fn go_c_and_java() {
    check(
        "m.go",
        "func main() { s := `raw\\`; c := '\\'' }\n",
        &expect![[r#"
        k⟨func⟩ main() { s := s⟨`raw\`⟩; c := s⟨'\''⟩ }
    "#]],
    );
    check(
        "x.hpp",
        "#include <a.h>\nint x = 'a'; /* b\n*/ return nullptr; \"a \\\nb\"\n",
        &expect![[r##"
        #k⟨include⟩ <a.h>
        k⟨int⟩ x = s⟨'a'⟩; c⟨/* b⟩
        c⟨*/⟩ k⟨return⟩ n⟨nullptr⟩; s⟨"a \⟩
        s⟨b"⟩
    "##]],
    );
    check(
        "A.java",
        "public class A { String s = \"\"\"\n  text\n\"\"\"; }\n",
        &expect![[r#"
        k⟨public⟩ k⟨class⟩ A { String s = s⟨"""⟩
        s⟨  text⟩
        s⟨"""⟩; }
    "#]],
    );
}

#[test]
fn shells() {
    check(
        "run.sh",
        "for f in *.rs; do echo \"$f #1\" --for x#y # all\ndone; awk '\n{print}' $if\n",
        &expect![[r#"
        k⟨for⟩ f k⟨in⟩ *.rs; k⟨do⟩ echo s⟨"$f #1"⟩ --for x#y c⟨# all⟩
        k⟨done⟩; awk s⟨'⟩
        s⟨{print}'⟩ $if
    "#]],
    );
}

#[test]
fn data() {
    check(
        "a.json",
        "{\"key\": \"value\", \"n\": [1.5e3, null]} // c\n",
        &expect![[r#"
        {k⟨"key"⟩: s⟨"value"⟩, k⟨"n"⟩: [n⟨1.5e3⟩, n⟨null⟩]} c⟨// c⟩
    "#]],
    );
    check(
        "Cargo.toml",
        "[a.b]\nkey-one = \"v\" # c\n\"quoted\" = '''\nraw = 1\n''' \nlist = [true, 1]\n",
        &expect![[r#"
            k⟨[a.b]⟩
            k⟨key-one⟩ = s⟨"v"⟩ c⟨# c⟩
            k⟨"quoted"⟩ = s⟨'''⟩
            s⟨raw = 1⟩
            s⟨'''⟩ 
            k⟨list⟩ = [n⟨true⟩, n⟨1⟩]
        "#]],
    );
    check(
        "c.yml",
        "- name: it's \"x\" # c\n  url: http://a/#b\n  on: true\nplain text\n",
        &expect![[r#"
        - k⟨name⟩: it's s⟨"x"⟩ c⟨# c⟩
          k⟨url⟩: http://a/#b
          k⟨on⟩: n⟨true⟩
        plain text
    "#]],
    );
}

#[test]
fn markup_styles_and_queries() {
    check(
        "a.html",
        "<!-- a\nb --><a href=\"x\n>y\" b>T &amp; < &x</a>\n",
        &expect![[r#"
        c⟨<!-- a⟩
        c⟨b -->⟩k⟨<a⟩ href=s⟨"x⟩
        s⟨>y"⟩ bk⟨>⟩T n⟨&amp;⟩ < &xk⟨</a>⟩
    "#]],
    );
    check(
        "a.css",
        ".a { color: red; /* c */ }\n  margin-left: 10px !important;\n",
        &expect![[r#"
        .a { color: red; c⟨/* c */⟩ }
          k⟨margin-left⟩: n⟨10px⟩ !k⟨important⟩;
    "#]],
    );
    check(
        "sql",
        "SELECT 'it''s' FROM t -- c\nwhere x IS null\n",
        &expect![[r#"
        k⟨SELECT⟩ s⟨'it''s'⟩ k⟨FROM⟩ t c⟨-- c⟩
        k⟨where⟩ x k⟨IS⟩ n⟨null⟩
    "#]],
    );
    check(
        "diff",
        "-a\n b\n",
        &expect![[r#"
        r⟨-a⟩
         b
    "#]],
    );
}

#[test]
fn names_are_known() {
    for name in ["", "txt", "text", "README", "a.b/c", "x.unknown", &"y".repeat(100)] {
        assert_eq!(language(name), None, "{name}");
    }
    assert_eq!(language("C:\\x\\Dockerfile"), Some(Language::Shell));
    assert_eq!(language("RUST"), Some(Language::Rust));
}

const ALL: [&str; 14] =
    ["rs", "py", "ts", "go", "c", "java", "sh", "json", "toml", "yaml", "html", "css", "sql", "diff"];

#[test]
fn the_text_stays_as_it_is() {
    const PARTS: [&str; 30] = [
        "\"", "'", "`", "\\", "/*", "*/", "//", "#", "r#\"", "\"#", "br\"", "<!--", "-->", "<a", ">", "&", "&lt;",
        "'''", "\"\"\"", "=", ":", "[", "]", "word", "if ", "1.5", "日本", "\u{301}", "--", " ",
    ];
    let mut rng = fastrand::Rng::with_seed(3);
    for name in ALL {
        let (language, mut state) = (language(name).expect("a language"), State::default());
        for _ in 0..3_000 {
            let text: String = (0..rng.usize(..20)).map(|_| PARTS[rng.usize(..PARTS.len())]).collect();
            let spans = line(language, &mut state, &text, &Theme::ansi());
            assert_eq!(spans.iter().map(|span| span.content.as_ref()).collect::<String>(), text, "{name}");
        }
    }
}

#[test]
fn a_long_line_costs_what_it_is_long() {
    const PARTS: [&str; 11] = ["\"", "r#", "/*", "'", "<a ", "&", "word ", "\\", "[", "x: ", "'\\"];
    let cost = |language, part: &str, times: usize| {
        let text = part.repeat(times / part.len());
        let begun = std::time::Instant::now();
        std::hint::black_box(line(language, &mut State::default(), &text, &Theme::ansi()));
        begun.elapsed()
    };
    for name in ALL {
        let language = language(name).expect("a language");
        for part in PARTS {
            // Twenty times as long; what is quadratic takes four hundred times as long each time, a busy machine does not.
            let slack = std::time::Duration::from_millis(100);
            let is_linear = (0..4).any(|_| cost(language, part, 40_000) < cost(language, part, 2_000) * 120 + slack);
            assert!(is_linear, "{name} {part:?}");
        }
    }
}
