//! A story as one HTML page that needs nothing else: no script, no font, no address. Light or dark as the reader's
//! system is. What a model or a tool wrote is text here: nothing of it becomes markup but the Markdown that we render,
//! and that without raw HTML, without images, and with links to the web only.

use super::When;
use super::story::{AnswerState, Entry, Story, not_rewound, rewound, status, telling};
use piton_core::budget;
use piton_core::call::{CallInput, Outcome, Status};
use piton_core::message::ToolCall;
use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd};

const STYLE: &str = include_str!("page.css");

/// Writes a story down.
pub fn write(story: &Story<'_>, when: When<'_>) -> String {
    let title = if story.title.is_empty() { story.id.as_str() } else { &story.title };
    let cost = story.cost_micros.map(|micros| format!("${}", budget::dollars(micros)));
    let model = Some(story.model.clone()).filter(|model| !model.is_empty());
    let count = |number: u32, word: &str| format!("{number} {word}{}", if number == 1 { "" } else { "s" });
    let turns = format!("{}, {}", count(story.turns, "turn"), count(story.steps, "step"));
    let facts: String = [Some(when(story.started_ms)), model, Some(turns), cost]
        .into_iter()
        .flatten()
        .map(|fact| format!("<span>{}</span>", escape(&fact)))
        .collect();
    let body: String = story.entries.iter().map(|entry| told(entry, when)).collect();
    let rest = if story.is_at_rest { "" } else { "<p class=\"aside\">Cut off here.</p>" };
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n<header><h1>{title}</h1><p class=\"facts\">{facts}</p><p class=\"facts\"><code>{folder}</code>\
         <code>{id}</code></p></header>\n<main>\n{body}{rest}</main>\n\
         <footer>A session of Piton</footer>\n</body>\n</html>\n",
        title = escape(title),
        folder = escape(&story.workspace),
        id = escape(story.id.as_str()),
    )
}

fn told(entry: &Entry<'_>, when: When<'_>) -> String {
    match entry {
        Entry::Said { at_ms, text, images } => {
            let images =
                if *images > 0 { format!("<p class=\"aside\">with {images} images</p>") } else { String::new() };
            let text = escape(text.trim());
            format!(
                "<section class=\"you\"><h2>You <time>{}</time></h2><p>{text}</p>{images}</section>\n",
                when(*at_ms)
            )
        }
        Entry::Noted { text } => {
            format!(
                "<details class=\"quiet\"><summary>Note to the model</summary><pre>{}</pre></details>\n",
                escape(text)
            )
        }
        Entry::Thought { text } => {
            format!(
                "<details class=\"quiet\"><summary>Thought</summary><div class=\"prose\">{}</div></details>\n",
                prose(text)
            )
        }
        Entry::Answered { at_ms, text, state } => {
            let (class, mark) = match state {
                AnswerState::Whole => ("", ""),
                AnswerState::Cut => (" cut", " · cut off"),
                AnswerState::Abandoned => (" cut", " · abandoned"),
            };
            format!(
                "<section class=\"piton{class}\"><h2>Piton <time>{}{mark}</time></h2><div class=\"prose\">{}</div></section>\n",
                when(*at_ms),
                prose(text)
            )
        }
        Entry::Called { call, outcome } => called(call, *outcome),
        Entry::Failed { why } => format!("<p class=\"aside bad\">The model gave no reply: {}</p>\n", escape(why)),
        Entry::Compacted { summary } => format!(
            "<details class=\"quiet\"><summary>What was before, in short, as the model sees it</summary>\
             <div class=\"prose\">{}</div></details>\n",
            prose(summary)
        ),
        Entry::Pruned { calls } => {
            format!("<p class=\"aside\">{calls} old outputs above were cleared from what the model reads.</p>\n")
        }
        Entry::Moved { workspace } => {
            format!("<p class=\"aside\">From here on in <code>{}</code></p>\n", escape(workspace))
        }
        Entry::Rewound { rewind } => format!("<p class=\"aside\">Here {}.</p>\n", rewound(rewind)),
        Entry::NotRewound { rewind, error, touches } => {
            format!("<p class=\"aside bad\">Here {}.</p>\n", escape(&not_rewound(rewind, error, touches)))
        }
        Entry::Lost { events } => format!("<p class=\"aside bad\">{events} events were lost to damage here.</p>\n"),
        Entry::TurnEnded { end, detail, spent } => {
            let word = serde_json::to_value(end).unwrap_or_default();
            let detail = detail.map(|detail| format!(": {}", escape(detail))).unwrap_or_default();
            let seconds = spent.duration_ms as f64 / 1000.0;
            let cost = spent.cost_micros.map(|micros| format!(" · ${}", budget::dollars(micros))).unwrap_or_default();
            format!(
                "<p class=\"turn-end\">{}{detail} · {seconds:.1} s{cost}</p>\n",
                escape(word.as_str().unwrap_or_default())
            )
        }
    }
}

fn called(call: &ToolCall, outcome: Option<&Outcome>) -> String {
    let (class, mark) = match outcome.map(|outcome| outcome.status) {
        Some(Status::Ok) => ("ok", "✓"),
        Some(Status::Failed | Status::TimedOut | Status::Denied) => ("bad", "✗"),
        Some(Status::Cancelled | Status::Interrupted | Status::NotStarted) | None => ("odd", "–"),
    };
    let about: String = telling(call).split_whitespace().collect::<Vec<_>>().join(" ").chars().take(160).collect();
    let took = outcome.map(|outcome| outcome.duration_ms).filter(|ms| *ms >= 100);
    let took = took.map(|ms| format!(" · {:.1} s", ms as f64 / 1000.0)).unwrap_or_default();
    let output = outcome.map(|outcome| outcome.text.trim_end()).filter(|text| !text.is_empty());
    let output = output.map(|text| match call.name.as_str() {
        "edit" => diff(text.lines()),
        _ => format!("<pre>{}</pre>", escape(text)),
    });
    format!(
        "<details class=\"tool {class}\"><summary><b class=\"mark\">{mark}</b> <b>{}</b> <code>{}</code>\
         <span class=\"status\">{}{took}</span></summary>{}{}</details>\n",
        escape(&call.name),
        escape(&about),
        status(outcome),
        input(call),
        output.unwrap_or_default(),
    )
}

/// What the call was given, in the form that tells most.
fn input(call: &ToolCall) -> String {
    let input = match &call.input {
        CallInput::Invalid { raw, .. } => return format!("<pre class=\"input\">{}</pre>", escape(raw)),
        CallInput::Json(input) => input,
    };
    let text = |field: &str| input.get(field).and_then(|value| value.as_str());
    match call.name.as_str() {
        "bash" => text("command").map(|command| format!("<pre class=\"input\">$ {}</pre>", escape(command))),
        "write" => text("content").map(|content| {
            let added: Vec<String> = content.lines().map(|line| format!("+{line}")).collect();
            diff(added.iter().map(String::as_str))
        }),
        // Its output is the change.
        "edit" => Some(String::new()),
        // All of it stands in the line above.
        _ if input.as_object().is_some_and(|fields| fields.len() == 1) && telling(call).len() < 80 => {
            Some(String::new())
        }
        _ => None,
    }
    .unwrap_or_else(|| {
        let json = serde_json::to_string_pretty(input).unwrap_or_default();
        format!("<pre class=\"input\">{}</pre>", escape(&json))
    })
}

/// Lines of a unified diff, each in its colour.
fn diff<'l>(lines: impl Iterator<Item = &'l str>) -> String {
    let coloured: String = lines
        .map(|line| {
            let class = match line.as_bytes().first() {
                Some(b'+') => "add",
                Some(b'-') => "del",
                Some(b'@') => "hunk",
                _ => "same",
            };
            format!("<span class=\"{class}\">{}\n</span>", escape(line))
        })
        .collect();
    format!("<pre class=\"diff\">{coloured}</pre>")
}

/// Markdown as HTML in which nothing but our own markup stands.
fn prose(text: &str) -> String {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut links = Vec::new();
    let events = Parser::new_ext(text, options).filter_map(move |event| match event {
        Event::Html(html) | Event::InlineHtml(html) => Some(Event::Text(html)),
        // An image would be fetched from wherever a model says.
        Event::Start(Tag::Image { .. }) | Event::End(TagEnd::Image) => None,
        Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
            let is_web = ["https://", "http://", "#"].iter().any(|scheme| dest_url.starts_with(scheme));
            links.push(is_web);
            let dest_url = if is_web { dest_url } else { CowStr::Borrowed("") };
            is_web.then_some(Event::Start(Tag::Link { link_type, dest_url, title, id }))
        }
        Event::End(TagEnd::Link) => links.pop().unwrap_or(false).then_some(Event::End(TagEnd::Link)),
        event => Some(event),
    });
    let mut html = String::with_capacity(text.len() * 3 / 2);
    pulldown_cmark::html::push_html(&mut html, events);
    html
}

fn escape(text: &str) -> String {
    let mut into = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => into.push_str("&amp;"),
            '<' => into.push_str("&lt;"),
            '>' => into.push_str("&gt;"),
            '"' => into.push_str("&quot;"),
            '\'' => into.push_str("&#39;"),
            c if c.is_control() && c != '\n' && c != '\t' => into.push('\u{fffd}'),
            c => into.push(c),
        }
    }
    into
}
