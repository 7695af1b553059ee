//! A story as one HTML page that needs nothing else: no script, no font, no address. Light or dark as the reader's
//! system is. What a model or a tool wrote is text here: nothing of it becomes markup but the Markdown that we render,
//! and that without raw HTML, without images, and with links to the web only.

use super::When;
use super::words::{not_rewound, rewound, sentence, status};
use piton_core::budget;
use piton_core::call::{CallInput, CallKind, Outcome, Status};
use piton_core::event::Direction;
use piton_core::hidden;
use piton_core::ids::CallId;
use piton_core::story::{Block, Body, CallBlock, CompactionEnd, ModelState, RewindState, Story, WordsState};
use piton_core::todo::TodoItem;
use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd};

const STYLE: &str = include_str!("page.css");

/// Writes a story down; the title is the one in the list.
pub fn write(story: &Story, title: &str, when: When<'_>) -> String {
    write_tree((story, title), &[], when)
}

/// The same with the stories of its subagents behind it, and their titles.
pub fn write_tree((story, title): (&Story, &str), subagents: &[(Story, String)], when: When<'_>) -> String {
    let parts: String = std::iter::once(part(story, title, when))
        .chain(subagents.iter().map(|(story, title)| part(story, &format!("Subagent: {title}"), when)))
        .collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n{parts}<footer>A session of Piton</footer>\n</body>\n</html>\n",
        title = escape(titled(story, title)),
    )
}

fn titled<'t>(story: &'t Story, title: &'t str) -> &'t str {
    if title.is_empty() { story.session().id.as_str() } else { title }
}

/// One session of the page.
fn part(story: &Story, title: &str, when: When<'_>) -> String {
    let session = story.session();
    let title = titled(story, title);
    let cost = session.cost_micros.map(|micros| format!("${}", budget::dollars(micros)));
    let model = Some(session.model.clone()).filter(|model| !model.is_empty());
    let count = |number: u32, word: &str| format!("{number} {word}{}", if number == 1 { "" } else { "s" });
    let turns = format!("{}, {}", count(session.turns, "turn"), count(session.steps, "step"));
    let facts: String = [Some(when(session.started_ms)), model, Some(turns), cost]
        .into_iter()
        .flatten()
        .map(|fact| format!("<span>{}</span>", escape(&fact)))
        .collect();
    let body: String = story.blocks().filter(|block| !block.taken_back).map(|block| drawn(block, when)).collect();
    let rest = if session.busy { "<p class=\"aside\">Cut off here.</p>" } else { "" };
    format!(
        "<header><h1>{title}</h1><p class=\"facts\">{facts}</p><p class=\"facts\"><code>{folder}</code>\
         <code>{id}</code></p></header>\n<main>\n{body}{rest}</main>\n",
        title = escape(title),
        folder = escape(&session.workspace),
        id = escape(&session.id),
    )
}

fn task_ended(task: &CallId, outcome: &Outcome) -> String {
    let (task, title) = (escape(task.as_str()), escape(&outcome.title));
    format!("The command <code>{task}</code> in the background is over: {title}.")
}

fn drawn(block: &Block, when: When<'_>) -> String {
    match &block.body {
        Body::User { text, images, .. } => {
            let images =
                if *images > 0 { format!("<p class=\"aside\">with {images} images</p>") } else { String::new() };
            let (at, text) = (when(block.at_ms), escape(text.trim()));
            format!("<section class=\"you\"><h2>You <time>{at}</time></h2><p>{text}</p>{images}</section>\n")
        }
        Body::Note { text } => folded("Note to the model", &format!("<pre>{}</pre>", escape(text))),
        Body::Thought { text, .. } => folded("Thought", &format!("<div class=\"prose\">{}</div>", prose(text))),
        Body::Words { text, state } => {
            let (class, mark) = match state {
                WordsState::Whole | WordsState::Streaming => ("", ""),
                WordsState::Cut => (" cut", " · cut off"),
                WordsState::Abandoned => (" cut", " · abandoned"),
            };
            format!(
                "<section class=\"piton{class}\"><h2>Piton <time>{}{mark}</time></h2><div class=\"prose\">{}</div></section>\n",
                when(block.at_ms),
                prose(text)
            )
        }
        Body::Call(call) => called(call),
        Body::Model(model) => match &model.state {
            ModelState::Failed { error, .. } => bad(&format!("The model gave no reply: {}", escape(&error.message))),
            ModelState::Asked | ModelState::Replied { .. } | ModelState::Cut => String::new(),
        },
        Body::Compaction(compaction) => match &compaction.end {
            Some(CompactionEnd::Summary { text, .. }) => folded(
                "What was before, in short, as the model sees it",
                &format!("<div class=\"prose\">{}</div>", prose(text)),
            ),
            Some(CompactionEnd::Pruned | CompactionEnd::Failed { .. }) | None => String::new(),
        },
        Body::Pruned { calls, .. } => {
            aside(&format!("{calls} old outputs above were cleared from what the model reads."))
        }
        Body::Configured { changed, at_once, .. } => aside(&escape(&sentence(&changed.with_when(*at_once)))),
        Body::Todo { items } => todos(items),
        Body::Moved { workspace } => aside(&format!("From here on in <code>{}</code>", escape(workspace))),
        Body::Rewind { rewind, state } => match state {
            RewindState::Finished { .. } if rewind.direction == Direction::Redo && rewind.to.is_some() => String::new(),
            RewindState::Finished { .. } => aside(&format!("Here {}.", escape(&rewound(rewind)))),
            RewindState::Abandoned { error, touches } => {
                bad(&format!("Here {}.", escape(&not_rewound(rewind, error, touches))))
            }
            RewindState::Started => String::new(),
        },
        Body::TaskEnd { task, outcome } => aside(&task_ended(task, outcome)),
        Body::Lost { events } => bad(&format!("{events} events were lost to damage here.")),
        Body::TurnEnd { end, detail, spent, .. } => {
            let word = serde_json::to_value(end).unwrap_or_default();
            let detail = detail.as_ref().map(|detail| format!(": {}", escape(detail))).unwrap_or_default();
            let seconds = spent.duration_ms as f64 / 1000.0;
            let cost = spent.cost_micros.map(|micros| format!(" · ${}", budget::dollars(micros))).unwrap_or_default();
            let word = escape(word.as_str().unwrap_or_default());
            format!("<p class=\"turn-end\">{word}{detail} · {seconds:.1} s{cost}</p>\n")
        }
        Body::Session(_)
        | Body::Given { .. }
        | Body::Turn { .. }
        | Body::Step { .. }
        | Body::Question { .. }
        | Body::Snapshot { .. }
        | Body::Hooks { .. }
        | Body::Switched { .. }
        | Body::Title { .. }
        | Body::Stopping { .. } => String::new(),
    }
}

fn folded(summary: &str, body: &str) -> String {
    format!("<details class=\"quiet\"><summary>{summary}</summary>{body}</details>\n")
}

fn aside(text: &str) -> String {
    format!("<p class=\"aside\">{text}</p>\n")
}

fn bad(text: &str) -> String {
    format!("<p class=\"aside bad\">{text}</p>\n")
}

fn todos(items: &[TodoItem]) -> String {
    if items.is_empty() {
        return aside("The todos were cleared.");
    }
    let lines: String = items.iter().map(|item| format!("{}\n", escape(&item.to_string()))).collect();
    format!("<pre class=\"todo\">{lines}</pre>\n")
}

fn called(call: &CallBlock) -> String {
    let outcome = call.outcome();
    let (class, mark) = match outcome.map(|outcome| outcome.status) {
        Some(Status::Ok) => ("ok", "✓"),
        Some(Status::Failed | Status::TimedOut | Status::Denied) => ("bad", "✗"),
        Some(Status::Cancelled | Status::Interrupted | Status::NotStarted) | None => ("odd", "–"),
    };
    let about: String = call.about.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(160).collect();
    let took = outcome.map(|outcome| outcome.duration_ms).filter(|ms| *ms >= 100);
    let took = took.map(|ms| format!(" · {:.1} s", ms as f64 / 1000.0)).unwrap_or_default();
    // The change that an edit answers with is drawn as one.
    let text = outcome.map(|outcome| outcome.text.as_str()).unwrap_or_default();
    let text = call.diff.as_deref().and_then(|change| text.strip_suffix(change)).unwrap_or(text).trim_end();
    let output = if text.is_empty() { String::new() } else { format!("<pre>{}</pre>", escape(text)) };
    let change = call.diff.as_deref().map(|change| diff(change.lines())).unwrap_or_default();
    format!(
        "<details class=\"tool {class}\"><summary><b class=\"mark\">{mark}</b> <b>{}</b> <code>{}</code>\
         <span class=\"status\">{}{took}</span></summary>{}{change}{output}</details>\n",
        escape(call.name()),
        escape(&about),
        escape(&status(outcome)),
        input(call),
    )
}

/// What the call was given, in the form that tells most.
fn input(call: &CallBlock) -> String {
    let input = match &call.input {
        CallInput::Invalid { raw, .. } => return format!("<pre class=\"input\">{}</pre>", escape(raw)),
        CallInput::Json(input) => input,
    };
    let is_told = input.as_object().is_some_and(|fields| fields.len() == 1) && call.about.len() < 80;
    match call.kind {
        CallKind::Execute if input.get("command").is_some() => {
            format!("<pre class=\"input\">$ {}</pre>", escape(&call.about))
        }
        // The change says it all.
        _ if call.diff.is_some() => String::new(),
        // All of it stands in the line above.
        _ if is_told => String::new(),
        _ => {
            let json = serde_json::to_string_pretty(input).unwrap_or_default();
            format!("<pre class=\"input\">{}</pre>", escape(&json))
        }
    }
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
    let text = hidden::visible(text);
    let events = Parser::new_ext(&text, options).filter_map(move |event| match event {
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
    for c in hidden::visible(text).chars() {
        match c {
            '&' => into.push_str("&amp;"),
            '<' => into.push_str("&lt;"),
            '>' => into.push_str("&gt;"),
            '"' => into.push_str("&quot;"),
            '\'' => into.push_str("&#39;"),
            c => into.push(c),
        }
    }
    into
}
