//! The disk keeps what every implementation of the files keeps, and the file tools work on any of them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use piton_core::call::Status;
use piton_testkit::files::{Memory, conforms};
use piton_tools::disk::Disk;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use support::Place;

#[test]
fn the_disk_conforms() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().canonicalize().unwrap();
    let folder = root.join("workspace");
    std::fs::create_dir(&folder).unwrap();
    let disk = || Disk::new(root.join("calls"));
    conforms(&disk(), &disk(), &folder);
}

#[test]
fn files_in_memory_conform() {
    let memory = Memory::default();
    conforms(&memory, &memory, Path::new("/workspace"));
}

#[tokio::test]
async fn a_model_reads_and_changes_what_an_editor_has_not_saved() {
    let mut place = Place::new();
    place.put("a.txt", "saved\n");
    let (buffers, path) = (Arc::new(Memory::default()), place.path("a.txt"));
    buffers.put(&path, b"not saved\n");
    place.cx.files = buffers.clone();
    assert_eq!(place.read("a.txt").await.text, "1: not saved");
    let edit = json!({"path": "a.txt", "old_string": "not saved", "new_string": "changed"});
    let outcome = place.run("edit", edit.clone()).await;
    assert_eq!(outcome.status, Status::Ok, "{}", outcome.text);
    assert_eq!(place.read("a.txt").await.text, "1: changed");
    assert_eq!(place.content("a.txt"), b"saved\n", "the disk is not touched");
    place.cx = place.restarted();
    let settled = place.settle("edit", edit).await;
    assert!(settled.text.contains("already applied before the interruption"), "{}", settled.text);
    let missing = place.read("b.txt").await.text;
    assert_eq!(missing, "read: b.txt does not exist. Did you mean a.txt?", "names come from there, too");
}
