//! YAML as agentskills.io takes it, which is as `strictyaml` does: every value is text, whatever it looks like, a list, or fields. Nothing
//! stands in brackets, nothing has an anchor or a tag, and no tab separates anything.

use granit_parser::{Event, Parser, ScalarStyle, Span, StructureStyle};
use piton_core::hidden;
use serde_json::{Map, Value};

/// How deep lists and fields may be.
const DEPTH: usize = 64;

/// Reads it. The error says what is wrong, with the line, counted from the one above.
pub(super) fn read(yaml: &str) -> Result<Value, String> {
    if yaml.trim_start().starts_with('\u{feff}') {
        return Err("line 2: an invisible character stands before the first field".to_owned());
    }
    let mut reading = Reading { open: Vec::new(), whole: None, lines_of_texts: Vec::new() };
    for event in Parser::new_from_str(yaml) {
        let (event, span) = event.map_err(|error| {
            let words = hidden::visible_line(&error.to_string());
            format!("its front matter is not valid YAML: {words}")
        })?;
        reading.take(event, &span)?;
    }
    reading.has_no_tabs(yaml)?;
    Ok(reading.whole.unwrap_or(Value::Null))
}

struct Reading {
    /// Lists and fields that are not over, the outermost first.
    open: Vec<Open>,
    whole: Option<Value>,
    /// The lines of texts that go over several.
    lines_of_texts: Vec<(usize, usize)>,
}

enum Open {
    List(Vec<Value>),
    /// With the name of the field whose value comes next.
    Fields(Map<String, Value>, Option<String>),
}

impl Reading {
    fn take(&mut self, event: Event<'_>, span: &Span) -> Result<(), String> {
        let line = span.start.line();
        let plain = |style: StructureStyle, anchor: usize, is_tagged: bool| match (style, anchor, is_tagged) {
            (StructureStyle::Flow, ..) => Err(format!("line {line}: lists and fields in brackets are not taken here")),
            (_, 1.., _) => Err(not_taken(line, "anchors and references")),
            (.., true) => Err(not_taken(line, "tags")),
            (StructureStyle::Block, 0, false) => Ok(()),
        };
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                plain(StructureStyle::Block, anchor, tag.is_some())?;
                self.lines_of_texts.push((line, span.end.line()));
                // Of these two the reference makes something else.
                let is_odd = style == ScalarStyle::Plain && matches!(&*text, "=" | "<<");
                self.put(if is_odd { Value::Null } else { Value::String(text.into_owned()) }, line)
            }
            Event::SequenceStart(style, anchor, tag) => {
                plain(style, anchor, tag.is_some())?;
                self.begin(Open::List(Vec::new()), line)
            }
            Event::MappingStart(style, anchor, tag) => {
                plain(style, anchor, tag.is_some())?;
                self.begin(Open::Fields(Map::new(), None), line)
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open::List(items)) => self.put(Value::Array(items), line),
                Some(Open::Fields(fields, _)) => self.put(Value::Object(fields), line),
                None => Ok(()),
            },
            Event::Alias(_) | Event::UnresolvedAlias(_) => Err(not_taken(line, "anchors and references")),
            _ => Ok(()),
        }
    }

    fn begin(&mut self, open: Open, line: usize) -> Result<(), String> {
        if self.open.len() >= DEPTH {
            return Err(format!("line {line}: it is nested too deep"));
        }
        self.open.push(open);
        Ok(())
    }

    fn put(&mut self, value: Value, line: usize) -> Result<(), String> {
        match (self.open.last_mut(), value) {
            (None, value) => self.whole = Some(value),
            (Some(Open::List(items)), value) => items.push(value),
            (Some(Open::Fields(fields, name @ Some(_))), value) => {
                fields.extend(name.take().map(|name| (name, value)));
            }
            (Some(Open::Fields(fields, name)), Value::String(said)) => {
                if fields.contains_key(&said) {
                    return Err(format!("line {line}: the field {} is there twice", hidden::visible_name(&said)));
                }
                *name = Some(said);
            }
            (Some(Open::Fields(_, _)), Value::Null) => return Err(format!("line {line}: this is no name of a field")),
            (Some(Open::Fields(..)), _) => return Err(format!("line {line}: the name of a field is a text")),
        }
        Ok(())
    }

    /// A tab is not taken for a space, except in text.
    fn has_no_tabs(&self, yaml: &str) -> Result<(), String> {
        for (at, line) in yaml.lines().enumerate().map(|(at, line)| (at + 1, line)) {
            let is_text = self.lines_of_texts.iter().any(|(first, last)| *first < at && at <= *last);
            let value = line.split_once(':').map_or("", |(_, value)| value.trim_start_matches(' '));
            if !is_text && (line.trim_start_matches(' ').starts_with('\t') || value.starts_with('\t')) {
                return Err(format!("line {at}: a tab stands where only spaces may"));
            }
        }
        Ok(())
    }
}

fn not_taken(line: usize, what: &str) -> String {
    format!("line {line}: {what} are not taken here")
}
