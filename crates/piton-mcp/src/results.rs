//! What a server answers, as a model and a person can take it: text, pictures, and in words what is neither.

use crate::keep::Keep;
use crate::schema::Schema;
use crate::text;
use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use piton_core::call::{Outcome, Picture, Status};
use piton_core::limits::IMAGE_BYTES;
use piton_tools::read::{image_type, picture_fault};
use piton_tools::servers::ServerContent;
use rmcp::model::{ContentBlock, ResourceContents, Role};
use serde_json::{Value, json};

/// Pictures of one result.
const MOST_PICTURES: usize = 20;
/// Bytes of a structured result that go on record beside its text.
const MOST_STRUCTURED_BYTES: usize = 64 << 10;
/// The largest thing that is kept in a file.
const MOST_KEPT_BYTES: usize = 16 << 20;

/// Base64 as servers write it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Texts and pictures as they are collected.
pub(crate) struct Collected<'k> {
    keep: &'k Keep,
    parts: Vec<String>,
    pictures: Vec<Picture>,
}

impl<'k> Collected<'k> {
    pub(crate) fn new(keep: &'k Keep) -> Self {
        Self { keep, parts: Vec::new(), pictures: Vec::new() }
    }

    /// Blocks of content as they came; one that is not known is named.
    pub(crate) fn blocks(&mut self, blocks: &[Value]) {
        for block in blocks {
            match serde_json::from_value::<ContentBlock>(block.clone()) {
                Ok(block) => self.block(block),
                Err(_) => {
                    let kind = block.get("type").and_then(Value::as_str).unwrap_or("no");
                    self.parts.push(format!("[content of the type {}, which is not known here]", text::line(kind, 60)));
                }
            }
        }
    }

    pub(crate) fn block(&mut self, block: ContentBlock) {
        match block {
            ContentBlock::Text(block) => self.parts.push(text::output(&block.text)),
            ContentBlock::Image(block) => self.bytes(&block.data, &block.mime_type, None),
            ContentBlock::Audio(block) => self.bytes(&block.data, &block.mime_type, None),
            ContentBlock::Resource(block) => self.resource(block.resource, Heading::Shown),
            ContentBlock::ResourceLink(link) => {
                let about = link.description.filter(|about| !about.is_empty()).map(|about| format!(": {about}"));
                let words = format!("{} at {}{}", link.name, link.uri, about.unwrap_or_default());
                self.parts.push(format!("[resource {}; read_resource reads it]", text::line(&words, 1_000)));
            }
            _ => self.parts.push("[content of a type that is not known here]".to_owned()),
        }
    }

    pub(crate) fn resource(&mut self, resource: ResourceContents, heading: Heading) {
        match resource {
            ResourceContents::TextResourceContents { uri, text: said, .. } => {
                if heading == Heading::Shown {
                    self.parts.push(format!("[resource {}]", text::line(&uri, 500)));
                }
                self.parts.push(text::output(&said));
            }
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                self.bytes(&blob, mime_type.as_deref().unwrap_or("application/octet-stream"), Some(&uri));
            }
            _ => self.parts.push("[a resource of a type that is not known here]".to_owned()),
        }
    }

    pub(crate) fn say(&mut self, words: String) {
        self.parts.push(words);
    }

    /// A picture that models can look at is shown; all else is kept in a file, and named.
    fn bytes(&mut self, data: &str, media_type: &str, uri: Option<&str>) {
        let of = uri.map(|uri| format!(" of {}", text::line(uri, 500))).unwrap_or_default();
        let media = text::line(media_type, 60);
        let plain: String = data.chars().filter(|char| !char.is_ascii_whitespace()).collect();
        let Ok(content) = BASE64.decode(plain) else {
            self.parts.push(format!("[{media}{of}, damaged]"));
            return;
        };
        let size = text::size(content.len());
        let kind = image_type(&content);
        let fault = kind.and_then(|kind| self.fault(kind, &content));
        if let (Some(kind), None) = (kind, fault) {
            let data = base64::prelude::BASE64_STANDARD.encode(&content);
            self.pictures.push(Picture { media_type: kind.to_owned(), data });
            self.parts.push(format!("[picture{of}: {kind}, {size}]"));
            return;
        }
        let why = fault.map(|fault| format!(", not shown: {fault}")).unwrap_or_default();
        self.parts.push(match content.len() <= MOST_KEPT_BYTES {
            true => match self.keep.attach(&content, ending(media_type)) {
                Ok(path) => format!("[{media}{of}, {size}{why}, kept at {}]", path.display()),
                Err(error) => format!("[{media}{of}, {size}{why}, could not be kept: {error}]"),
            },
            false => format!("[{media}{of}, {size}, too large to be kept]"),
        });
    }

    /// Why a picture is not shown.
    fn fault(&self, kind: &str, content: &[u8]) -> Option<&'static str> {
        if u64::try_from(content.len()).is_ok_and(|bytes| bytes > IMAGE_BYTES) {
            return Some("it is larger than models take");
        }
        if self.pictures.len() == MOST_PICTURES {
            return Some("there are too many");
        }
        picture_fault(kind, content)
    }

    pub(crate) fn content(self) -> ServerContent {
        ServerContent { text: self.parts.join("\n"), pictures: self.pictures }
    }
}

/// Whether the address of a resource stands before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heading {
    Shown,
    Left,
}

/// The end of a file's name, for a few types that people open.
fn ending(media_type: &str) -> &'static str {
    match media_type.split(';').next().unwrap_or_default().trim() {
        "audio/wav" | "audio/x-wav" | "audio/wave" => "wav",
        "audio/mpeg" | "audio/mp3" => "mp3",
        "audio/ogg" => "ogg",
        "image/png" => "png",
        "image/jpeg" => "jpg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        "image/svg+xml" => "svg",
        "application/pdf" => "pdf",
        "application/zip" => "zip",
        "application/gzip" => "gz",
        _ => "bin",
    }
}

/// A tool's result.
pub(crate) fn outcome(server: &str, tool: &str, result: &Value, output: Option<&Value>, keep: &Keep) -> Outcome {
    let mut collected = Collected::new(keep);
    let blocks = match result.get("content") {
        Some(Value::Array(blocks)) => blocks.as_slice(),
        // Some write one block, or its text alone, where a list belongs.
        Some(block @ Value::Object(_)) => std::slice::from_ref(block),
        Some(Value::String(said)) => {
            collected.say(text::output(said));
            &[]
        }
        _ => &[],
    };
    collected.blocks(blocks);
    let is_error = result.get("isError").is_some_and(|error| error == true || error == "true");
    let structured = result.get("structuredContent");
    if let Some(value) = structured {
        if !is_said(value, blocks) {
            let pretty = serde_json::to_string_pretty(value).unwrap_or_default();
            collected.say(text::output(&pretty));
        }
        if let Some(fault) = output.filter(|_| !is_error).and_then(|schema| misfit(value, schema)) {
            collected.say(format!("[this does not fit what the tool says of its output: {fault}]"));
        }
    } else if output.is_some() && !is_error {
        collected.say("[the tool says that its output is structured; this is not]".to_owned());
    }
    let ServerContent { text: mut said, pictures } = collected.content();
    if said.is_empty() {
        said = if is_error { "The tool failed and does not say why." } else { "The tool answered with nothing." }
            .to_owned();
    }
    let mut facts = json!({"server": server, "tool": tool});
    // What is larger is in the text, of which a model reads the beginning.
    if let Some(value) = structured.filter(|value| value.to_string().len() <= MOST_STRUCTURED_BYTES) {
        facts["structured"] = value.clone();
    }
    let status = if is_error { Status::Failed } else { Status::Ok };
    Outcome { pictures, ..Outcome::new(status, said).titled(title(server, tool)).with(facts) }
}

/// One line for people.
pub(crate) fn title(server: &str, tool: &str) -> String {
    format!("{server}: {}", text::line(tool, 80))
}

/// Whether one of the texts is this value.
fn is_said(value: &Value, blocks: &[Value]) -> bool {
    blocks.iter().filter_map(|block| block.get("text")?.as_str()).any(|text| {
        serde_json::from_str::<Value>(text).is_ok_and(|said| said == *value) || value.as_str() == Some(text)
    })
}

fn misfit(value: &Value, schema: &Value) -> Option<String> {
    match Schema::parse(schema) {
        Ok(schema) => schema.judge(value).err().map(|fault| text::line(&fault, 300)),
        Err(fault) => Some(text::line(&format!("its schema is none: {fault}"), 300)),
    }
}

/// The messages of a prompt as one text.
pub(crate) fn prompt(result: &Value, keep: &Keep) -> ServerContent {
    let mut collected = Collected::new(keep);
    let messages = result.get("messages").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let is_of_assistant = |message: &Value| {
        message.get("role").cloned().and_then(|role| serde_json::from_value::<Role>(role).ok()) == Some(Role::Assistant)
    };
    for message in messages {
        if is_of_assistant(message) {
            collected.say("[said by the assistant:]".to_owned());
        }
        if let Some(content) = message.get("content") {
            collected.blocks(std::slice::from_ref(content));
        }
    }
    collected.content()
}

/// The contents of a resource.
pub(crate) fn resource(result: &Value, keep: &Keep) -> ServerContent {
    let mut collected = Collected::new(keep);
    let contents = result.get("contents").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let heading = if contents.len() > 1 { Heading::Shown } else { Heading::Left };
    for content in contents {
        match serde_json::from_value::<ResourceContents>(content.clone()) {
            Ok(content) => collected.resource(content, heading),
            Err(_) => collected.say("[a resource that is not readable]".to_owned()),
        }
    }
    collected.content()
}

#[cfg(test)]
mod tests;
