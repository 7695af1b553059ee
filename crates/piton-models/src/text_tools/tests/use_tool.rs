//! `<use_tool>`, by the source document's examples and beyond.

use super::{Options, TextDialect, check, check_with, read, shown};
use crate::text_tools::{Calls, Notation};
use expect_test::{Expect, expect};

fn check_use(text: &str, expect: &Expect) {
    check(TextDialect::UseTool, text, expect);
}

fn relaxed() -> Options {
    Options { notation: Notation::Relaxed, ..Options::default() }
}

#[test]
fn text_and_calls_come_in_order() {
    check_use(
        "A.\n\n<use_tool>\n<tool_name>weather</tool_name>\n<arguments>\n{\"city\": \"Tokyo\"}\n</arguments>\n</use_tool>\n\nB.\n\n<use_tool>\n<tool_name>current_time</tool_name>\n<arguments>\n{\"timezone\": \"Asia/Tokyo\"}\n</arguments>\n</use_tool>",
        &expect![[r#"
            text      "A.\n\n"
            call      weather {"city":"Tokyo"}
            text      "\n\nB.\n\n"
            call      current_time {"timezone":"Asia/Tokyo"}
        "#]],
    );
}

#[test]
fn after_the_first_call_nothing_counts_if_only_the_first_is_wanted() {
    let text = "A <use_tool><tool_name>x</tool_name><arguments>{\"n\":1}</arguments></use_tool> B <use_tool><tool_name>y</tool_name></use_tool>";
    let options = Options { calls: Calls::FirstOnly, ..Options::default() };
    check_with(
        TextDialect::UseTool,
        options,
        text,
        &expect![[r#"
            text      "A "
            call      x {"n":1}
        "#]],
    );
}

#[test]
fn a_lone_bracket_is_text_and_half_a_tag_is_not() {
    check_use(
        "a < b",
        &expect![[r#"
            text      "a < b"
        "#]],
    );
    check_use(
        "1 <",
        &expect![[r#"
            text      "1 <"
        "#]],
    );
    check_use(
        "Hello <use_to",
        &expect![[r#"
            text      "Hello "
            remnant   "<use_to"
        "#]],
    );
    check_use(
        "the <use of",
        &expect![[r#"
            text      "the <use of"
        "#]],
    );
    check_use(
        "text </use_tool> more",
        &expect![[r#"
            text      "text </use_tool> more"
        "#]],
    );
    check_use("  \n", &expect![[r#""#]]);
}

#[test]
fn text_is_released_as_soon_as_it_can_be_no_tag() {
    let mut decoder = TextDialect::UseTool.decoder(super::tools(), Options::default());
    assert_eq!(shown(&decoder.push("Hello <use_to")), "text      \"Hello \"\n");
    assert_eq!(shown(&decoder.push("ls are")), "text      \"<use_tols are\"\n");
}

#[test]
fn whoever_only_mentions_the_tag_calls_nothing() {
    check_use(
        "I use <use_tool> for that. <use_tool>",
        &expect![[r#"
            text      "I use <use_tool> for that. "
            broken     "": the reply ended before the call did
        "#]],
    );
    check_use(
        "It is `<use_tool><tool_name>x</tool_name></use_tool>`, see?",
        &expect![[r#"
            text      "It is `<use_tool><tool_name>x</tool_name></use_tool>`, see?"
        "#]],
    );
    check_use(
        "So:\n```xml\n<use_tool><tool_name>x</tool_name></use_tool>\n```\nand <use_tool><tool_name>y</tool_name></use_tool>",
        &expect![[r#"
            text      "So:\n```xml\n<use_tool><tool_name>x</tool_name></use_tool>\n```\nand "
            call      y {}
        "#]],
    );
}

#[test]
fn the_grammar_is_read_kindly() {
    check_use(
        "<use_tool><tool_name>x</tool_name></use_tool>",
        &expect![[r#"
            call      x {}
        "#]],
    );
    check_use(
        "<use_tool><tool_name>x</tool_name><arguments>\n</arguments></use_tool>",
        &expect![[r#"
            call      x {}
        "#]],
    );
    check_use(
        "<use_tool id=\"1\">\n <name> bash </name>\n <argument lang='json'>{\"command\": \"ls\"}</argument>\n</use_tool>",
        &expect![[r#"
            call      bash {"command":"ls"}
        "#]],
    );
    check_use(
        "<use_tool><tool_name>x</tool_name><arguments><![CDATA[{\"a\":\"<b>&amp;\"}]]></arguments></use_tool>",
        &expect![[r#"
            call      x {"a":"<b>&amp;"}
        "#]],
    );
    check_use(
        "<use_tool><tool_name>x</tool_name><arguments>{&quot;a&quot;: &quot;1 &lt; 2 &amp;amp; 3&quot;}</arguments></use_tool>",
        &expect![[r#"
            call      x {"a":"1 < 2 &amp; 3"}
        "#]],
    );
    check_use(
        "<use_tool><tool_name>x</tool_name><arguments>\n```json\n{\"a\": 1}\n```\n</arguments></use_tool>",
        &expect![[r#"
            call      x {"a":1}
        "#]],
    );
    check_use(
        "<use_tool><tool_name>x</tool_name>{\"a\": 1}</use_tool>",
        &expect![[r#"
            call      x {"a":1}
        "#]],
    );
}

#[test]
fn parts_are_read_in_any_order_and_whatever_stands_between() {
    for text in [
        "<use_tool><arguments>{\"a\": \"</arguments> <tool_name>y</tool_name>\"}</arguments><tool_name>x</tool_name></use_tool>",
        "<use_tool><tool_name>x</tool_name> as you wish: <arguments>{\"a\": \"</arguments> <tool_name>y</tool_name>\"}</arguments></use_tool>",
        "<use_tool><tool_name>x</tool_name><reason>because</reason>\n<arguments>{\"a\": \"</arguments> <tool_name>y</tool_name>\"}</arguments></use_tool>",
        "<use_tool><arguments>{\"a\": \"</arguments> <tool_name>y</tool_name>\"}</arguments> by <why/> <name>x</name> now</use_tool>",
        "<use_tool><tool_name>x</tool_name><arguments>{\"a\": \"</arguments> <tool_name>y</tool_name>\"}}</arguments></use_tool>",
    ] {
        check_use(
            text,
            &expect![[r#"
                call      x {"a":"</arguments> <tool_name>y</tool_name>"}
            "#]],
        );
    }
    // What is not closed is not known, and never runs.
    check_use(
        "<use_tool><arguments>{\"a\": 1}</arguments><tool_name>rea",
        &expect![[r#"
            broken     "{\"a\":1}": the call does not say which tool
        "#]],
    );
}

#[test]
fn a_comment_is_no_part_of_the_arguments() {
    let text = "<use_tool><tool_name>x</tool_name><arguments>{\"a\": \"// b\", // the first\n \"c\": /* and\n more */ 1}</arguments></use_tool>";
    check_with(
        TextDialect::UseTool,
        relaxed(),
        text,
        &expect![[r#"
            call      x {"a":"// b","c":1}
        "#]],
    );
}

#[test]
fn tags_in_arguments_are_arguments() {
    check_use(
        r#"<use_tool><tool_name>write</tool_name><arguments>{"content":"</arguments></use_tool> <use_tool>\""}</arguments></use_tool>."#,
        &expect![[r#"
            call      write {"content":"</arguments></use_tool> <use_tool>\""}
            text      "."
        "#]],
    );
}

#[test]
fn broken_arguments_never_run() {
    check_use(
        "<use_tool><tool_name>x</tool_name><arguments>{invalid json}</arguments></use_tool>",
        &expect![[r#"
            broken    x "{invalid json}": not valid JSON: key must be a string at line 1 column 2
        "#]],
    );
    check_use(
        "<use_tool><tool_name>x</tool_name><arguments>\"a string\"</arguments></use_tool>",
        &expect![[r#"
            broken    x "\"a string\"": expected a JSON object
        "#]],
    );
    check_use(
        "<use_tool></use_tool>",
        &expect![[r#"
            broken     "{}": the call does not say which tool
        "#]],
    );
    check_use(
        "<use_tool><arguments>{}</arguments></use_tool>",
        &expect![[r#"
            broken     "{}": the call does not say which tool
        "#]],
    );
    // A quote too many: where the call ends is known only when the text does.
    check_use(
        "<use_tool><tool_name>x</tool_name><arguments>{\"a\": \"b\"\"}</arguments></use_tool> then <use_tool><tool_name>y</tool_name></use_tool>",
        &expect![[r#"
            broken    x "{\"a\": \"b\"\"}": not valid JSON: expected `,` or `}` at line 1 column 10
        "#]],
    );
}

#[test]
fn another_notation_is_read_if_that_is_allowed() {
    let text = "<use_tool><tool_name>x</tool_name><arguments>{path: 'a.txt',}</arguments></use_tool>";
    check_use(
        text,
        &expect![[r#"
            broken    x "{path: 'a.txt',}": not valid JSON: key must be a string at line 1 column 2
        "#]],
    );
    check_with(
        TextDialect::UseTool,
        relaxed(),
        text,
        &expect![[r#"
            call      x {"path":"a.txt"}
        "#]],
    );
    check_with(
        TextDialect::UseTool,
        relaxed(),
        "<use_tool><tool_name>write</tool_name><arguments>\n{\"content\": \"a\\nb\n\"}\\n</arguments></use_tool>",
        &expect![[r#"
            call      write {"content":"a\nb\n"}
        "#]],
    );
    check_with(
        TextDialect::UseTool,
        relaxed(),
        "<use_tool><tool_name>t</tool_name><arguments>{{\"demo\":\"This is not JSON at all\"\"\n</arguments></use_tool>",
        &expect![[r#"
            broken    t "{{\"demo\":\"This is not JSON at all\"\"": not valid JSON: key must be a string at line 1 column 2
        "#]],
    );
}

#[test]
fn a_call_runs_unclosed_only_if_nothing_but_marks_is_missing() {
    let ends = ["{\"a\":1}</arguments></use_tool", "{\"a\":1}</arg", "{\"a\":1}", "</arguments>", "{\"a\":1", "{", ""];
    let text = ends.map(|end| {
        let text = format!("<use_tool><tool_name>x</tool_name><arguments>{end}");
        shown(&read(TextDialect::UseTool, Options::default(), [text.as_str()]))
    });
    expect![[r#"
        call      x {"a":1}
        call      x {"a":1}
        call      x {"a":1}
        call      x {}
        broken    x "{\"a\":1": the reply ended before the call did
        broken    x "{": the reply ended before the call did
        broken    x "": the reply ended before the call did
    "#]]
    .assert_eq(&text.concat());
    check_use(
        "<use_tool><tool_name>x</tool_name>",
        &expect![[r#"
            broken    x "<tool_name>x</tool_name>": the reply ended before the call did
        "#]],
    );
    check_use(
        "<use_tool>\n<tool_na",
        &expect![[r#"
            broken     "<tool_na": the reply ended before the call did
        "#]],
    );
}
