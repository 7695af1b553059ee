//! `list`, and what `read` shows beside plain text: pictures, notebooks, text in another encoding. And what both refuse.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use piton_core::call::{Outcome, Status};
use serde_json::{Value, json};
use support::Place;

/// A picture of one pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

fn png() -> Vec<u8> {
    BASE64_STANDARD.decode(PNG).unwrap()
}

async fn list(place: &Place, input: Value) -> Outcome {
    place.run("list", input).await
}

#[tokio::test]
async fn a_folder_is_a_tree_with_sizes_without_what_is_ignored() {
    let place = Place::new();
    place.put("src/main.rs", "fn main() {}\n");
    place.put("src/inner/deep/x.rs", "x".repeat(3 << 10));
    place.put("a.txt", "");
    place.put("big.bin", vec![0; 20 << 20]);
    place.put("target/out", "ignored");
    place.put(".gitignore", "target\n");
    place.put(".git/config", "git's own");
    std::fs::create_dir(place.path("empty")).unwrap();
    std::os::unix::fs::symlink("/etc", place.path("out")).unwrap();
    place.put("odd\nname", "1");
    let outcome = list(&place, json!({})).await;
    assert_eq!(
        outcome.text,
        "./ (6 files, 20M)\nempty/\nsrc/\n  inner/\n    deep/ (1 files, 3.0K)\n  main.rs 13\n.gitignore 7\na.txt 0\nbig.bin 20M\n\
         odd\u{2424}name 1\nout (no file)"
            .replace("odd\u{2424}name", &piton_core::hidden::visible_line("odd\nname"))
    );
    let below = list(&place, json!({"path": "src", "depth": "9"})).await;
    assert_eq!(below.text, "src/ (2 files, 3.0K)\ninner/\n  deep/\n    x.rs 3.0K\nmain.rs 13");
    assert_eq!(list(&place, json!({"path": "src", "depth": 1})).await.text.lines().count(), 3);
    let again = list(&place, json!({})).await;
    assert!(again.text.starts_with(&outcome.text), "the same each time: {again:?}");
}

#[tokio::test]
async fn of_a_large_folder_the_upper_levels_are_whole_and_the_rest_is_counted() {
    let place = Place::new();
    for folder in 0..20 {
        for file in 0..30 {
            place.put(&format!("d{folder:02}/f{file}"), "1");
        }
    }
    let outcome = list(&place, json!({})).await;
    assert_eq!(outcome.text.lines().count(), 21, "{}", outcome.text);
    assert!(outcome.text.ends_with("d19/ (30 files, 30)"), "{}", outcome.text);
    for file in 0..400 {
        place.put(&format!("flat/f{file:03}"), "1");
    }
    let flat = list(&place, json!({"path": "flat"})).await;
    assert!(flat.text.ends_with("f299 1\n(100 more entries; use glob, or list a folder below)"), "{}", flat.text);
}

#[tokio::test]
async fn list_refuses_what_is_no_folder_in_words() {
    let place = Place::new();
    place.put("a", "1");
    for (path, why) in [
        ("a", "list: a: it is a file; use read"),
        ("none", "list: none: it does not exist"),
        ("/dev/null", "list: /dev/null: it is not a folder (a device, pipe or socket)"),
        ("", "list: field `path` is empty"),
    ] {
        let outcome = list(&place, json!({"path": path})).await;
        assert_eq!((outcome.status, outcome.text.as_str()), (Status::Failed, why));
    }
    assert!(list(&place, json!({"path": 3})).await.text.contains("field `path`: invalid type"));
    place.cx.cancel.cancel();
    assert_eq!(list(&place, json!({})).await.status, Status::Cancelled);
}

#[tokio::test]
async fn a_picture_is_read_as_one() {
    let place = Place::new();
    place.put("logo.png", png());
    let outcome = place.read("logo.png").await;
    assert_eq!(outcome.text, "logo.png is a picture: PNG image (1x1), 1 KB.");
    assert_eq!(outcome.pictures.len(), 1);
    assert_eq!((outcome.pictures[0].media_type.as_str(), outcome.pictures[0].data.as_str()), ("image/png", PNG));
    let record = serde_json::to_value(&outcome).unwrap();
    assert_eq!(serde_json::from_value::<Outcome>(record).unwrap(), outcome, "it survives the journal");
    let plain = serde_json::to_value(place.run("read", json!({"path": "none"})).await).unwrap();
    assert!(plain.get("pictures").is_none(), "nobody else pays for it");
    assert_eq!(place.run("write", json!({"path": "logo.png", "content": "x"})).await.status, Status::Ok, "it was seen");
}

#[tokio::test]
async fn a_picture_that_a_provider_would_refuse_is_not_sent() {
    let place = Place::new();
    let cut = png()[..60].to_vec();
    let mut harmed = png();
    harmed[45] ^= 1;
    let mut wide = png();
    wide[16..20].copy_from_slice(&9_000_u32.to_be_bytes());
    let mut large = png();
    large.resize(4_000_000, 0);
    let gif = b"GIF89a\x02\x00\x03\x00 no end".to_vec();
    let jpeg = b"\xff\xd8\xff\xe0\0\x04ab\xff\xc0\0\x0b\x08\0\x05\0\x07\0\0".to_vec();
    let webp = b"RIFF\xff\xff\0\0WEBPVP8X\0\0\0\0\0\0\0\0\x09\0\0\x04\0\0".to_vec();
    for (name, content, why) in [
        ("cut.png", cut, "It is not shown: it is damaged or cut off."),
        ("harmed.png", harmed, "It is not shown: it is damaged or cut off."),
        ("wide.png", wide, "It is not shown: it has more than 8,000 pixels on a side"),
        ("large.png", large, "It is not shown: it is larger than the 3.75 MB"),
        ("cut.gif", gif, "It is not shown: it is damaged or cut off."),
        ("cut.jpg", jpeg, "It is not shown: it is damaged or cut off."),
        ("cut.webp", webp, "It is not shown: it is damaged or cut off."),
    ] {
        place.put(name, content);
        let outcome = place.read(name).await;
        assert!(outcome.text.contains(why), "{name}: {}", outcome.text);
        assert!(outcome.pictures.is_empty(), "{name}");
    }
    place.put("whole.gif", b"GIF89a\x02\x00\x03\x00\0;\0\0");
    place.put("whole.jpg", b"\xff\xd8\xff\xe0\0\x04ab\xff\xc0\0\x0b\x08\0\x05\0\x07\0\0\xff\xd9");
    place.put("whole.webp", b"RIFF\x16\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0\x09\0\0\x04\0\0");
    for name in ["whole.gif", "whole.jpg", "whole.webp"] {
        assert_eq!(place.read(name).await.pictures.len(), 1, "{name}");
    }
}

#[tokio::test]
async fn a_notebook_is_read_by_its_cells_and_edited_as_the_file_that_it_is() {
    let place = Place::new();
    let notebook = "{\"cells\": [{\"cell_type\": \"code\", \"execution_count\": 1, \"source\": [\"1+1\"], \"outputs\": \
                    [{\"data\": {\"text/plain\": [\"2\"]}}]}]}\n";
    place.put("a.ipynb", notebook);
    let outcome = place.read("a.ipynb").await;
    assert_eq!(
        outcome.text,
        "1: # cell 1 (code, run 1)\n2: 1+1\n3: # output:\n4: 2\n5: \n(a notebook of 1 cells, as text; edit works on its \
         JSON, whose lines grep shows)"
    );
    let edit = json!({"path": "a.ipynb", "old_string": "\"1+1\"", "new_string": "\"1+2\""});
    assert_eq!(place.run("edit", edit).await.status, Status::Ok);
    place.put("broken.ipynb", "{\"cells\": [\n");
    assert_eq!(place.read("broken.ipynb").await.text, "1: {\"cells\": [", "what is none is read as it is");
}

#[tokio::test]
async fn text_in_utf_16_is_read_and_what_cannot_be_edited_says_so() {
    let place = Place::new();
    let utf16: Vec<u8> = "\u{feff}one\r\nzwö\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    place.put("a.txt", &utf16);
    let outcome = place.read("a.txt").await;
    assert_eq!(outcome.text, "1: one\n2: zwö\n(UTF-16 text: edit and write work on UTF-8; change it with a command)");
    let big_end: Vec<u8> = "\u{feff}one".encode_utf16().flat_map(u16::to_be_bytes).collect();
    place.put("b.txt", big_end);
    assert!(place.read("b.txt").await.text.starts_with("1: one\n"));
    let edit = |path: &str| json!({"path": path, "old_string": "one", "new_string": "two"});
    let refused = place.run("edit", edit("a.txt")).await;
    assert!(refused.text.contains("a.txt is UTF-16 text; convert it first"), "{}", refused.text);
    place.put("x.bin", b"one\0");
    assert!(place.run("edit", edit("x.bin")).await.text.contains("x.bin is a binary file. Change it with a command."));
    assert_eq!(place.content("a.txt"), utf16);
    place.put("a.pdf", b"%PDF-1.7\n\0\0");
    assert!(
        place.read("a.pdf").await.text.contains("looks like PDF document. Its content cannot be shown. `pdftotext")
    );
}
