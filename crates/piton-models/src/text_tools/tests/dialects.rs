//! The dialects of open models, on texts from their vendors' templates and from the tests of the servers that parse
//! them.

use super::{Options, TextDialect, check, events, properties, read, shown, tools};
use expect_test::expect;

#[test]
fn hermes_writes_json_between_tags() {
    let dialect = TextDialect::Hermes;
    check(
        dialect,
        "\n\n<tool_call>\n{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call><|im_end|>",
        &expect![[r#"
            call      read {"path":"a"}
            call      now {}
        "#]],
    );
    check(
        dialect,
        "Sure.<tool_call>{\"arguments\": {\"path\": \"</tool_call>\"}, \"name\": \"read\"}</tool_call>",
        &expect![[r#"
            text      "Sure."
            call      read {"path":"</tool_call>"}
        "#]],
    );
    check(
        dialect,
        "<tool_call>\n{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}\n</tool_call>",
        &expect![[r#"
            broken    read "{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}": not valid JSON: EOF while parsing an object at line 1 column 43
        "#]],
    );
    check(
        dialect,
        "<tool_call>{\"name\": \"read\", \"arguments\": \"{\\\"path\\\": \\\"a\\\"}\"}",
        &expect![[r#"
            call      read {"path":"a"}
        "#]],
    );
}

/// What stands around the parts of a call, or closes nothing, hides none of them.
#[test]
fn json_is_read_with_comments_and_with_a_bracket_too_many() {
    let call = "{\"name\": \"read\", \"arguments\": {\"path\": \"a//b\"}}";
    let commented = "{\"name\": \"read\", /* which */ \"arguments\": {\"path\": \"a//b\"} // one\n}";
    let read = &expect![[r#"
        call      read {"path":"a//b"}
    "#]];
    for json in [format!("{call}}}"), format!("{call} // done"), format!("{call}\n# done\n"), commented.to_owned()] {
        check(TextDialect::Hermes, &format!("<tool_call>{json}</tool_call>"), read);
    }
    for json in [format!("{call}}}"), commented.to_owned()] {
        check(TextDialect::Llama, &json, read);
    }
    check(TextDialect::Mistral, &format!("[TOOL_CALLS][{commented}]"), read);
    let arguments = "{\"path\": /* c */ \"a//b\"}}";
    let kimi = "<|tool_call_begin|>read<|tool_call_argument_begin|>";
    check(
        TextDialect::Kimi,
        &format!("{kimi}{arguments}<|tool_call_end|>"),
        &expect![[r#"
            call      read #read {"path":"a//b"}
        "#]],
    );
    let deepseek = format!("<｜tool▁call▁begin｜>read<｜tool▁sep｜>{arguments}<｜tool▁call▁end｜>");
    check(TextDialect::DeepSeek, &deepseek, read);
    check(TextDialect::QwenCoder, &format!("<function=read>{arguments}</function>"), read);
    check(
        TextDialect::Hermes,
        "<tool_call>{\"name\": \"read\", \"arguments\": {\"path\": \"a\" /* open}}</tool_call>",
        &expect![[r#"
            broken    read "{\"name\": \"read\", \"arguments\": {\"path\": \"a\" /* open}}": not valid JSON: expected `,` or `}` at line 1 column 44
        "#]],
    );
}

#[test]
fn words_before_the_call_are_passed_over_and_prose_stays_prose() {
    let shown = |dialect: TextDialect, text: &str| {
        properties::cuts_make_no_difference(|| dialect.decoder(tools(), Options::default()), text);
        properties::cuts_make_no_difference(|| TextDialect::any(tools(), Options::default()), text);
        let found = shown(&events(TextDialect::any(tools(), Options::default()), [text]));
        assert_eq!(found, shown(&read(dialect, Options::default(), [text])), "found by looking");
        found
    };
    let call = "{\"arguments\": {\"path\": \"a\"}, \"name\": \"read\"}";
    for json in [
        format!("sure, here: {call}"),
        format!("// read it\n{call}"),
        format!("<json>{call}</json>"),
        format!("<json>\n{call}}}\n</json>\n"),
    ] {
        let text = format!("<tool_call>{json}</tool_call>");
        assert_eq!(shown(TextDialect::Hermes, &text), "call      read {\"path\":\"a\"}\n", "{text}");
    }
    // Not closed, it may have been only talk.
    let cut = shown(TextDialect::Hermes, &format!("<tool_call>sure: {call}"));
    assert!(cut.starts_with("broken    read") && cut.ends_with("the reply ended before the call did\n"), "{cut}");
    for prose in [
        "Write <tool_call> and your call here to call.",
        "A <tool_call> is, of course, a set {like this}.",
        "A <tool_call> as it is.",
    ] {
        assert_eq!(shown(TextDialect::Hermes, prose), format!("text      {prose:?}\n"));
    }
}

#[test]
fn qwen_coder_writes_markup_and_the_schema_types_it() {
    let dialect = TextDialect::QwenCoder;
    check(
        dialect,
        "Let me calculate.<tool_call>\n<function=area>\n<parameter=shape>\nrectangle\n</parameter>\n<parameter=dimensions>\n{\"width\": 10, \n \"height\": 20}\n</parameter>\n<parameter=precision>\n2\n</parameter>\n</function>\n</tool_call>",
        &expect![[r#"
            text      "Let me calculate."
            call      area {"shape":"rectangle","dimensions":{"width":10,"height":20},"precision":2}
        "#]],
    );
    // The opening tag forgotten, and text of several lines.
    check(
        dialect,
        "<function=read>\n<parameter=path>\n  a\n</parameter>\nb\n\n</parameter>\n</function>\n</tool_call>",
        &expect![[r#"
            call      read {"path":"  a\n</parameter>\nb\n"}
        "#]],
    );
    check(
        dialect,
        "<tool_call>\n<function=now>\n</function>\n</tool_call>\n<tool_call>\n<function=read>\n<parameter=path>\na\n</parameter>\n</function>\n</tool_call>",
        &expect![[r#"
            call      now {}
            call      read {"path":"a"}
        "#]],
    );
    check(
        dialect,
        "<function=read>{\"path\": \"a\"}</function>",
        &expect![[r#"
            call      read {"path":"a"}
        "#]],
    );
}

/// A value is bare text: what looks like an element in it is not one, and a part of it is not the value.
#[test]
fn qwen_coder_may_write_of_its_own_markup() {
    let dialect = TextDialect::QwenCoder;
    let about = "<tool_call>\n<function=read>\n<parameter=path>\na.md\n</parameter>\n<parameter=limit>\nQwen writes <function=now> and then its parameters\n</parameter>\n</function>\n</tool_call>";
    check(
        dialect,
        about,
        &expect![[r#"
            call      read {"path":"a.md","limit":"Qwen writes <function=now> and then its parameters"}
        "#]],
    );
    let cut = |end: &str| &about[..about.find(end).unwrap()];
    check(
        dialect,
        cut("eters\n</parameter>"),
        &expect![[r#"
            broken    read "<parameter=path>\na.md\n</parameter>\n<parameter=limit>\nQwen writes <function=now> and then its param": the reply ended before the call did
        "#]],
    );
    // The end of a function may be forgotten, that of a parameter may be anywhere.
    check(
        dialect,
        "<tool_call>\n<function=read>\n<parameter=path>\na\n</parameter>\n<function=read>\n<parameter=path>\nb\n</parameter>\n</tool_call>",
        &expect![[r#"
            call      read {"path":"a"}
            call      read {"path":"b"}
        "#]],
    );
    check(
        dialect,
        "<function=read>\n<parameter=path>\na\n</function>",
        &expect![[r#"
            broken    read "<parameter=path>\na\n</function>": the reply ended before the call did
        "#]],
    );
}

#[test]
fn glm_writes_keys_and_values_and_the_schema_types_them() {
    let dialect = TextDialect::Glm;
    check(
        dialect,
        "I will look.\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>北京</arg_value>\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>\n<tool_call>now\n</tool_call>",
        &expect![[r#"
            text      "I will look.\n"
            call      get_weather {"city":"北京","days":3}
            call      now {}
        "#]],
    );
    // GLM 4.7 leaves out the line breaks.
    check(
        dialect,
        "<tool_call>read<arg_key>path</arg_key><arg_value></tool_call> </arg_value> </arg_value></tool_call>",
        &expect![[r#"
            call      read {"path":"</tool_call> </arg_value> "}
        "#]],
    );
    check(
        dialect,
        "<tool_call>read\n<arg_key>path</arg_key>\n<arg_value>a</arg_value>\n<arg_key>odd\n<arg_value>b</arg_value>\n</tool_call>",
        &expect![[r#"
            broken    read "read\n<arg_key>path</arg_key>\n<arg_value>a</arg_value>\n<arg_key>odd\n<arg_value>b</arg_value>": not pairs of <arg_key> and <arg_value>
        "#]],
    );
}

#[test]
fn kimi_writes_tokens_and_numbers_its_calls() {
    let dialect = TextDialect::Kimi;
    check(
        dialect,
        "I'll check. <|tool_calls_section_begin|> <|tool_call_begin|>\nfunctions.get_weather:0 <|tool_call_argument_begin|> {\"city\": \"Beijing\"} <|tool_call_end|> <|tool_call_begin|>\nfunctions.get_weather:1 <|tool_call_argument_begin|> {\"city\": \"<|tool_call_end|>\"} <|tool_call_end|> <|tool_calls_section_end|>",
        &expect![[r#"
            text      "I'll check. "
            call      get_weather #functions.get_weather:0 {"city":"Beijing"}
            call      get_weather #functions.get_weather:1 {"city":"<|tool_call_end|>"}
        "#]],
    );
    check(
        dialect,
        "<|tool_calls_section_begin|><|tool_call_begin|>now:0<|tool_call_argument_begin|>{\"a\": 1 <|tool_call_end|><|tool_call_begin|>functions.read:1<|tool_call_argument_begin|>{}",
        &expect![[r#"
            broken    now #now:0 "{\"a\": 1": not valid JSON: EOF while parsing an object at line 1 column 7
            call      read #functions.read:1 {}
        "#]],
    );
}

#[test]
fn deepseek_writes_tokens_in_two_versions() {
    let dialect = TextDialect::DeepSeek;
    check(
        dialect,
        "Ok.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{\"city\": \"Tokyo\"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>",
        &expect![[r#"
            text      "Ok."
            call      get_weather {"city":"Tokyo"}
            call      now {}
        "#]],
    );
    check(
        dialect,
        "normal text<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>read<｜tool▁sep｜>{\"path\":\"a\"}<｜tool▁call▁end｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{\"y\":2}<｜tool▁call▁end｜><｜tool▁calls▁end｜> more",
        &expect![[r#"
            text      "normal text"
            call      read {"path":"a"}
            call      now {"y":2}
            text      " more"
        "#]],
    );
    // R1 spells its tokens as it likes.
    check(
        dialect,
        "<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜>now\n```json\n{}\n```<｜tool_call_end｜>",
        &expect![[r#"
            call      now {}
        "#]],
    );
}

#[test]
fn mistral_writes_a_list_or_names() {
    let dialect = TextDialect::Mistral;
    check(
        dialect,
        "[TOOL_CALLS]  [ {\"name\":\"read\" , \"arguments\" : {\"path\": \"]\"} } ]",
        &expect![[r#"
            call      read {"path":"]"}
        "#]],
    );
    check(
        dialect,
        "[TOOL_CALLS] [{\"arguments\": {\"name\": \"John\"}, \"name\": \"now\", \"id\": \"abcdefghi\"}, {\"name\": \"now\"}]",
        &expect![[r#"
            call      now #abcdefghi {"name":"John"}
            call      now {}
        "#]],
    );
    check(
        dialect,
        "Hm.[TOOL_CALLS]read[ARGS]{\"path\": \"a\"}[TOOL_CALLS]now[CALL_ID]123456789[ARGS]{}</s>",
        &expect![[r#"
            text      "Hm."
            call      read {"path":"a"}
            call      now #123456789 {}
        "#]],
    );
    check(
        dialect,
        "[TOOL_CALLS]get_weather{\"city\": \"San Francisco\", \"days\": 2}",
        &expect![[r#"
            call      get_weather {"city":"San Francisco","days":2}
        "#]],
    );
    check(
        dialect,
        "[TOOL_CALLS][{\"name\": \"now\", \"arguments\": {}}, {\"name\": \"read\", \"arguments\": {}]",
        &expect![[r#"
            broken    now "[{\"name\": \"now\", \"arguments\": {}}, {\"name\": \"read\", \"arguments\": {}]": the reply ended before the call did
        "#]],
    );
    check(
        dialect,
        "the [TOOL_CALLS] token is Mistral's",
        &expect![[r#"
            text      "the [TOOL_CALLS] token is Mistral's"
        "#]],
    );
}

#[test]
fn llama_writes_json_as_the_whole_message() {
    let dialect = TextDialect::Llama;
    check(
        dialect,
        "{\"name\": \"read\", \"parameters\": {\"path\": \"He said \\\"{x}\\\"\"}}",
        &expect![[r#"
            call      read {"path":"He said \"{x}\""}
        "#]],
    );
    check(
        dialect,
        "{\"name\": \"now\", \"parameters\": {}} ; {\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}<|eom_id|>",
        &expect![[r#"
            call      now {}
            call      read {"path":"a"}
        "#]],
    );
    check(
        dialect,
        "<|python_tag|>{\"type\": \"function\", \"name\": \"read\", \"parameters\": {\"path\": \"a\"}}<|eot_id|>",
        &expect![[r#"
            call      read {"path":"a"}
        "#]],
    );
    check(
        dialect,
        "[{\"name\": \"now\", \"parameters\": {}}]",
        &expect![[r#"
            call      now {}
        "#]],
    );
    check(
        dialect,
        "{\"name\": \"read\", \"parameters\": {invalid json}}",
        &expect![[r#"
            broken    read "{\"name\": \"read\", \"parameters\": {invalid json}}": not valid JSON: key must be a string at line 1 column 33
        "#]],
    );
}

#[test]
fn llama_writes_python_as_the_whole_message() {
    let dialect = TextDialect::Llama;
    check(
        dialect,
        "[get_weather(city='Martha\\'s', unit='\"C\"', days=2), read(path=\"a\", limit=None, more={'on': True, 'of': [1]})]",
        &expect![[r#"
            call      get_weather {"city":"Martha's","unit":"\"C\"","days":2}
            call      read {"path":"a","limit":null,"more":{"on":true,"of":[1]}}
        "#]],
    );
    check(
        dialect,
        "<|python_start|>[now()]<|python_end|>",
        &expect![[r#"
            call      now {}
        "#]],
    );
    check(
        dialect,
        "<|python_tag|>read.call(path=\"a\")",
        &expect![[r#"
            call      read {"path":"a"}
        "#]],
    );
    check(
        dialect,
        "[read('a')]",
        &expect![[r#"
            broken    read "[read('a')]": not a call with named arguments
        "#]],
    );
}

#[test]
fn what_only_looks_like_a_call_of_llamas_is_text() {
    let dialect = TextDialect::Llama;
    check(
        dialect,
        "[link](https://example.com) and so on",
        &expect![[r#"
            text      "[link](https://example.com) and so on"
        "#]],
    );
    check(
        dialect,
        "[1, 2]",
        &expect![[r#"
            text      "[1, 2]"
        "#]],
    );
    check(
        dialect,
        "{\"city\": \"Rome\"}",
        &expect![[r#"
            text      "{\"city\": \"Rome\"}"
        "#]],
    );
    check(
        dialect,
        "{\"name\": \"Bob\", \"parameters\": {}}",
        &expect![[r#"
            text      "{\"name\": \"Bob\", \"parameters\": {}}"
        "#]],
    );
    check(
        dialect,
        "Here: {\"name\": \"now\", \"parameters\": {}}",
        &expect![[r#"
            text      "Here: {\"name\": \"now\", \"parameters\": {}}"
        "#]],
    );
}

#[test]
fn text_behind_it_takes_a_message_of_llamas_back() {
    use super::{Options, read, shown};
    let text = "{\"name\": \"now\", \"parameters\": {}} is what I would send";
    expect![[r#"
        text      "{\"name\": \"now\", \"parameters\": {}} is what I would send"
    "#]]
    .assert_eq(&shown(&read(TextDialect::Llama, Options::default(), [text])));
}

#[test]
fn harmony_parts_thought_call_and_text() {
    let dialect = TextDialect::Harmony;
    check(
        dialect,
        "<|channel|>analysis<|message|>Need `weather.<|end|><|start|>assistant<|channel|>commentary<|message|>Let me look.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{\"city\":\"Tokyo\"}<|call|>",
        &expect![[r#"
            reasoning "Need `weather."
            text      "Let me look."
            call      get_weather {"city":"Tokyo"}
        "#]],
    );
    check(
        dialect,
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Done < 1.<|return|>",
        &expect![[r#"
            reasoning "Hm."
            text      "Done < 1."
        "#]],
    );
    check(
        dialect,
        "<|start|>assistant to=functions.read<|channel|>commentary json<|message|>{\"path\":\"<|call|>\"}<|call|><|start|>assistant<|channel|>analysis to=browser.search code<|message|>{}<|call|>",
        &expect![[r#"
            call      read {"path":"<|call|>"}
            call      browser.search {}
        "#]],
    );
    check(
        dialect,
        "<|channel|>commentary to=functions.now<|message|>foo<|call|>",
        &expect![[r#"
            broken    now "foo": not valid JSON: expected ident at line 1 column 2
        "#]],
    );
    check(
        dialect,
        "<|channel|>commentary to=functions.now <|constrain|>json<|message|>",
        &expect![[r#"
            broken    now "": the reply ended before the call did
        "#]],
    );
}

#[test]
fn a_reader_that_looks_goes_on_looking_after_what_was_none() {
    use super::{Options, events, shown, tools};
    let text = "[Note] I use <use_tool> or [TOOL_CALLS] here:\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
    let found = events(TextDialect::any(tools(), Options::default()), [text]);
    expect![[r#"
        text      "[Note] I use <use_tool> or [TOOL_CALLS] here:\n"
        call      now {}
    "#]]
    .assert_eq(&shown(&found));
}

#[test]
fn a_name_tells_the_dialect() {
    let name = |name| crate::text_tools::detect(name);
    assert_eq!(name("openai/gpt-oss-120b"), Some(TextDialect::Harmony));
    assert_eq!(name("NousResearch/Hermes-3-Llama-3.1-8B"), Some(TextDialect::Hermes));
    assert_eq!(name("deepseek-ai/DeepSeek-R1-Distill-Qwen-32B"), Some(TextDialect::DeepSeek));
    assert_eq!(name("Qwen/Qwen3-Coder-30B-A3B-Instruct"), Some(TextDialect::QwenCoder));
    assert_eq!(name("qwen2.5:7b"), Some(TextDialect::Hermes));
    assert_eq!(name("zai-org/GLM-4.5"), Some(TextDialect::Glm));
    assert_eq!(name("moonshotai/Kimi-K2-Instruct"), Some(TextDialect::Kimi));
    assert_eq!(name("meta-llama/Llama-3.2-3B-Instruct"), Some(TextDialect::Llama));
    assert_eq!(name("mistralai/Mistral-Small-3.2-24B-Instruct-2506"), Some(TextDialect::Mistral));
    assert_eq!(name("SmolLM2-135M"), None);
}
