//! What a web page says, as text that a model can read: HTML as Markdown without what a browser does not show, everything
//! else as it is, in whatever character set. Pictures and other bytes are named and not read.

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};
use html_to_markdown_rs::{ConversionOptions, HiddenContent, PreprocessingOptions, PreprocessingPreset, convert};
use piton_core::hidden;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Bytes in which a page says what it is, as browsers have it.
const SNIFFED_BYTES: usize = 1_024;

/// A page as text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) text: String,
    /// `text/html`; empty where the server did not say.
    pub(crate) kind: String,
    /// What else is to be said of it.
    pub(crate) notices: Vec<String>,
}

/// Reads a page. The error ends the sentence that begins with its address.
pub(crate) fn read(body: &[u8], content_type: Option<&str>) -> Result<Reading, String> {
    let kind = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let form = form(&kind, body).ok_or_else(|| {
        let kind = hidden::visible_name(if kind.is_empty() { "data" } else { &kind });
        format!("is {kind} of {} bytes, which is not read as text", body.len())
    })?;
    let charset = content_type.and_then(|whole| labelled(whole.as_bytes()));
    let decoded = decoded(body, charset, form);
    let text = match form {
        Form::Html => markdown(&decoded)?,
        Form::Text => decoded,
    };
    let text = text.replace("\r\n", "\n");
    let (clean, taken_out) = hidden::strip(&text);
    let mut notices = Vec::new();
    if taken_out > 0 {
        notices.push(format!("{taken_out} hidden characters were taken out"));
    }
    let text = clean.replace('\r', "\n");
    if text.trim().is_empty() {
        notices.push("the page has no text; it may be made by scripts, which are not run".to_owned());
    }
    let kind = hidden::visible_name(&kind);
    Ok(Reading { text, kind, notices })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Html,
    Text,
}

/// How a page is read; `None`: not at all.
fn form(kind: &str, body: &[u8]) -> Option<Form> {
    let begin = &body[..body.len().min(SNIFFED_BYTES)];
    let is_wide = begin.starts_with(b"\xff\xfe") || begin.starts_with(b"\xfe\xff");
    let is_binary = begin.contains(&0) && !is_wide;
    match kind {
        "text/html" | "application/xhtml+xml" => Some(Form::Html),
        "" | "application/octet-stream" => {
            let begin = begin.to_ascii_lowercase();
            let begin = begin.trim_ascii_start();
            let is_html = begin.starts_with(b"<!doctype html") || begin.starts_with(b"<html");
            (!is_binary).then_some(if is_html { Form::Html } else { Form::Text })
        }
        "image/svg+xml" => Some(Form::Text),
        _ => {
            let named =
                ["json", "xml", "javascript", "ecmascript", "yaml", "toml", "x-sh", "sql", "graphql", "x-ndjson"];
            let sub = kind.rsplit(['/', '+']).next().unwrap_or_default().trim_start_matches("x-");
            let is_text = kind.starts_with("text/")
                || kind.starts_with("application/") && named.iter().any(|name| name.trim_start_matches("x-") == sub);
            (is_text && !is_binary).then_some(Form::Text)
        }
    }
}

/// The text: by the mark at its beginning, what the server says, what the page says, or as it looks.
fn decoded(body: &[u8], by_server: Option<&'static Encoding>, form: Form) -> String {
    let by_page = || labelled(&body[..body.len().min(SNIFFED_BYTES)]).filter(|_| form == Form::Html);
    let marked = Encoding::for_bom(body).map(|(encoding, _)| encoding);
    let encoding = marked.or(by_server).or_else(by_page);
    let encoding = encoding.unwrap_or_else(|| if std::str::from_utf8(body).is_ok() { UTF_8 } else { WINDOWS_1252 });
    let (text, ..) = encoding.decode(body);
    text.into_owned()
}

/// The encoding behind `charset=`, in a header or at the beginning of a page.
fn labelled(text: &[u8]) -> Option<&'static Encoding> {
    const MARK: &[u8] = b"charset=";
    let lower = text.to_ascii_lowercase();
    let at = memchr::memmem::find(&lower, MARK)? + MARK.len();
    let label = lower[at..].trim_ascii_start();
    let label = label.strip_prefix(b"\"").or_else(|| label.strip_prefix(b"'")).unwrap_or(label);
    let end = label.iter().position(|byte| b"\"' ;/>\t\r\n".contains(byte)).unwrap_or(label.len());
    Encoding::for_label(&label[..end])
}

/// HTML as Markdown, without scripts, styles and what a browser does not show at first.
fn markdown(html: &str) -> Result<String, String> {
    let options = ConversionOptions {
        extract_metadata: true,
        skip_images: true,
        hidden_content: HiddenContent::Drop,
        preprocessing: PreprocessingOptions {
            enabled: true,
            preset: PreprocessingPreset::Minimal,
            remove_navigation: false,
            remove_forms: false,
        },
        ..ConversionOptions::default()
    };
    // A library that fails at a page has failed at this page only.
    let converted = catch_unwind(AssertUnwindSafe(|| convert(html, Some(options))));
    match converted {
        Ok(Ok(result)) => Ok(result.content.unwrap_or_default()),
        Ok(Err(error)) => Err(format!("cannot be turned into Markdown ({error})")),
        Err(_) => Err("cannot be turned into Markdown".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(body: &[u8], kind: &str) -> String {
        read(body, Some(kind)).unwrap().text
    }

    #[test]
    fn html_becomes_markdown_without_what_nobody_sees() {
        let html = "<!doctype html><html><head><title>A page</title><style>p{}</style></head><body>\
                    <h1>Head</h1><p>Some <b>words</b> and a <a href=\"https://example.org/x\">link</a>.</p>\
                    <script>alert('script')</script><p style=\"display:none\">hidden one</p><p hidden>hidden two</p>\
                    <!-- a comment --><noscript>no script</noscript><template>a template</template>\
                    <ul><li>one</li><li>two</li></ul><pre><code>let x = 1;</code></pre>\
                    <table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table></body></html>";
        let text = text(html.as_bytes(), "text/html; charset=utf-8");
        for there in
            ["# Head", "Some **words** and a [link](https://example.org/x).", "- one\n- two", "let x = 1;", "| 1"]
        {
            assert!(text.contains(there), "{there}: {text}");
        }
        for gone in ["script", "hidden", "comment", "template", "p{}"] {
            assert!(!text.contains(gone), "{gone}: {text}");
        }
    }

    #[test]
    fn text_and_json_stay_as_they_are_and_pictures_are_named() {
        assert_eq!(text(b"{\"a\": [1, \"<b>\"]}", "application/json"), "{\"a\": [1, \"<b>\"]}");
        assert_eq!(text(b"# x\n<b>y</b>", "text/markdown"), "# x\n<b>y</b>");
        assert_eq!(text(b"<a/>", "application/atom+xml"), "<a/>");
        assert_eq!(read(b"<!DOCTYPE html><h1>x</h1>", None).unwrap().text.trim(), "# x");
        assert_eq!(read(b"plain", None).unwrap().text, "plain");
        for kind in ["image/png", "application/pdf", "application/zip", "video/mp4", "text/plain"] {
            let error = read(b"\x89PNG\0\0", Some(kind)).unwrap_err();
            assert_eq!(error, format!("is {kind} of 6 bytes, which is not read as text"));
        }
        assert_eq!(read(b"\0\0", None).unwrap_err(), "is data of 2 bytes, which is not read as text");
    }

    #[test]
    fn every_character_set_is_read_also_where_the_server_is_wrong_or_silent() {
        assert_eq!(text(b"gr\xfc\xdfe", "text/plain; charset=ISO-8859-1"), "grüße");
        assert_eq!(text("grüße".as_bytes(), "text/plain"), "grüße");
        assert_eq!(text(b"gr\xfc\xdfe", "text/plain"), "grüße", "not UTF-8: as most old pages are");
        assert_eq!(text(b"gr\xfc", "text/plain; charset=utf-8"), "gr\u{fffd}", "wrong, and no panic");
        assert_eq!(text(b"x", "text/plain; charset=no-such"), "x");
        assert_eq!(text(b"\xff\xfeh\0i\0", "text/plain; charset=utf-8"), "hi", "the mark counts");
        let japanese = b"<html><head><meta charset='Shift_JIS'></head><body>\x82\xa0</body></html>";
        assert_eq!(text(japanese, "text/html").trim(), "あ");
    }

    #[test]
    fn what_a_person_does_not_see_is_taken_out_and_told() {
        let html = "<p>a\u{202e}b\u{200b}c\u{1b}[31m</p>";
        let reading = read(html.as_bytes(), Some("text/html")).unwrap();
        assert_eq!(reading.text.trim(), "abc[31m");
        assert_eq!(reading.notices, ["3 hidden characters were taken out"]);
        let empty = read(b"<html><script>render()</script></html>", Some("text/html")).unwrap();
        assert!(empty.notices[0].contains("no text"), "{empty:?}");
    }

    #[test]
    fn pages_made_to_break_a_parser_are_read_in_time_and_memory() {
        let formats: String = (0..5_000).map(|n| format!("<font size={n}>")).collect();
        for html in [
            "<div>".repeat(200_000),
            "<b><i>".repeat(100_000),
            format!("{formats}{}", "<p>x".repeat(5_000)),
            "<table><tr><td>".repeat(50_000),
            "<a href=x>".repeat(100_000),
            "<".repeat(1 << 20),
            "&".repeat(1 << 20),
            format!("<p title=\"{}", "x".repeat(1 << 20)),
            "<ul><li>".repeat(50_000),
            "<blockquote>".repeat(50_000),
            "<svg><div></svg>".repeat(20_000),
        ] {
            let began = std::time::Instant::now();
            let _ = read(html.as_bytes(), Some("text/html"));
            assert!(began.elapsed().as_secs() < 60, "{} s: {}", began.elapsed().as_secs(), &html[..20]);
        }
    }
}
