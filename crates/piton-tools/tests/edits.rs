//! `edit`, beyond a text that is there as written: what is like it, several edits in one call, and files that are in the way.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use piton_core::call::{Outcome, Status};
use piton_tools::after_edit::{AfterEdit, Does};
use piton_tools::plan::Look;
use piton_tools::toolset::ToolSet;
use serde_json::{Value, json};
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use support::Place;

async fn edit(place: &Place, path: &str, content: impl AsRef<[u8]>, edit: Value) -> Outcome {
    place.put(path, content);
    place.read(path).await;
    let mut input = edit;
    input["path"] = json!(path);
    place.run("edit", input).await
}

#[tokio::test]
async fn a_text_that_is_not_there_as_written_is_found_and_that_is_told() {
    let place = Place::new();
    let content = "class A {\n    def f():\n        return x\n}\n";
    let old = json!({"old_string": "def f():\n    return x", "new_string": "    def f():\n        return 2"});
    let outcome = edit(&place, "a.py", content, old).await;
    assert_eq!(place.content("a.py"), b"class A {\n    def f():\n        return 2\n}\n");
    assert_eq!(
        outcome.text,
        "edited a.py (+1 −1)\n(old_string was not there as written, but with another indentation: lines 2–3. Check the \
         result.)\n@@ -1,4 +1,4 @@\n class A {\n     def f():\n-        return x\n+        return 2\n }\n"
    );
    let exact = edit(&place, "b.py", "one\n", json!({"old_string": "one", "new_string": "two"})).await;
    assert!(!exact.text.contains("as written"), "{}", exact.text);
}

#[tokio::test]
async fn a_text_that_may_be_in_several_places_is_refused_with_their_lines() {
    let place = Place::new();
    let content = "\tone(1)\n--\n    one(1)\n";
    let outcome = edit(&place, "a", content, json!({"old_string": "  one(1)", "new_string": "x"})).await;
    assert_eq!(
        (outcome.status, outcome.text.as_str()),
        (Status::Ok, "edited a (+1 −1)\n@@ -1,3 +1,3 @@\n \tone(1)\n --\n-    one(1)\n+  x\n"),
        "as a part of a line it is there as written, once"
    );
    let outcome = edit(&place, "b", content, json!({"old_string": "   \tone(1)", "new_string": "x"})).await;
    assert_eq!(outcome.status, Status::Failed);
    assert_eq!(
        outcome.text,
        "edit: old_string is not there as written, and 2 times with another indentation in b (lines 1, 3). Add lines \
         around it to name one, or set replace_all."
    );
    assert_eq!(place.content("b"), content.as_bytes());
    let all = json!({"old_string": "   \tone(1)", "new_string": "x", "replace_all": true});
    assert!(edit(&place, "c", content, all).await.text.contains("with another indentation: lines 1, 3."));
    assert_eq!(place.content("c"), b"x\n--\nx\n");
}

#[tokio::test]
async fn several_edits_are_made_in_order_or_not_at_all() {
    let place = Place::new();
    let edits = json!({"edits": [
        {"old": "one", "new": "two"},
        {"old_string": "two", "newString": "2", "replaceAll": "true"},
        {"oldText": "three", "new": "", "all": null},
    ]});
    let outcome = edit(&place, "a", "one two three\n", edits).await;
    assert_eq!(outcome.title, "edit a (+1 −1, 4 places)", "{}", outcome.text);
    assert_eq!(place.content("a"), b"2 2 \n");
    let half = json!({"edits": [{"old": "one", "new": "1"}, {"old": "nowhere", "new": "x"}]});
    let outcome = edit(&place, "b", "one\n", half).await;
    assert_eq!(outcome.status, Status::Failed);
    assert!(outcome.text.starts_with("edit: edit 2 of 2: old_string was not found in b."), "{}", outcome.text);
    assert!(outcome.text.ends_with("Nothing was written."), "{}", outcome.text);
    assert_eq!(place.content("b"), b"one\n");
    let in_text = json!({"edits": "[{\"old\": \"one\", \"new\": \"1\"}]"});
    assert_eq!(edit(&place, "b", "one\n", in_text).await.status, Status::Ok, "a list in a string is a list");
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_before_anybody_is_asked() {
    let place = Place::new();
    place.put("a", "one\n");
    let look = Look::without_session(place.cx.workspace.clone(), place.cx.files.clone(), true, Arc::default());
    let tools = ToolSet::builtin();
    let tool = tools.get("edit").unwrap();
    let refused = |input: Value| tool.plan(&input, &look).map(drop).unwrap_err().text;
    assert!(refused(json!({"path": "a"})).contains("missing fields `old_string` and `new_string`"));
    assert!(refused(json!({"path": "a", "old_string": "x"})).contains("missing field `new_string`"));
    assert!(refused(json!({"path": "a", "new_string": "x", "edits": []})).contains("missing field `old_string`"));
    let both = json!({"path": "a", "old_string": "x", "new_string": "y", "edits": [{"old": "a", "new": "b"}]});
    assert!(refused(both).contains("not both"));
    let same = json!({"path": "a", "edits": [{"old": "a", "new": "b"}, {"old": "c", "new": "c"}]});
    assert!(refused(same).contains("edit 2 of 2: old_string and new_string are the same"));
    assert!(refused(json!({"path": "a", "edits": [{"old": 3, "new": "b"}]})).contains("field `edits`"));
    assert!(refused(json!({"path": 3, "old_string": "a", "new_string": "b"})).contains("field `path`"));
    let plan = tool.plan(&json!({"path": "a", "edits": [{"old": "one", "new": "two"}]}), &look).unwrap();
    let (_, blocks) = plan.question.words();
    assert!(format!("{blocks:?}").contains("-one\\n+two\\n"), "{blocks:?}");
}

#[tokio::test]
async fn a_file_with_another_name_gets_a_content_of_its_own_and_that_is_told() {
    let place = Place::new();
    place.put("a", "one\n");
    std::fs::hard_link(place.path("a"), place.path("b")).unwrap();
    place.read("a").await;
    let outcome = place.run("edit", json!({"path": "a", "old_string": "one", "new_string": "two"})).await;
    assert!(outcome.text.contains("has another name, a hard link: that still has the old content"), "{}", outcome.text);
    assert_eq!((place.content("a"), place.content("b")), (b"two\n".to_vec(), b"one\n".to_vec()));
    assert_eq!(std::fs::metadata(place.path("a")).unwrap().nlink(), 1);
    let again = place.run("write", json!({"path": "a", "content": "three\n"})).await;
    assert_eq!(again.text, "wrote a (1 lines, 6 bytes)");
}

#[tokio::test]
async fn line_ends_and_a_mark_stay_where_a_text_is_only_like_what_is_there() {
    let place = Place::new();
    let input = json!({"old_string": "one \ntwo\n", "new_string": "1\n2\n"});
    edit(&place, "dos", "\u{feff}one\r\n  two\r\nthree", input).await;
    assert_eq!(place.content("dos"), "\u{feff}1\r\n2\r\nthree".as_bytes());
    edit(&place, "end", "a\n  b", json!({"old_string": "\tb\n", "new_string": "B\n"})).await;
    assert_eq!(place.content("end"), b"a\nB\n");
}

/// A formatter that makes tabs of four blanks, and diagnostics that say where a `bad` is.
fn rules() -> Arc<[AfterEdit]> {
    let rule = |files, command, does| AfterEdit::new(files, command, does).unwrap();
    [
        rule("*.txt", r"sed -i 's/    /\t/g' {file} && ls {file} > seen", Does::Format),
        rule("*.txt", "grep -n bad {file} || true", Does::Diagnose),
        rule("*.odd", "echo it cannot >&2; exit 3; : {file}", Does::Format),
    ]
    .into()
}

#[tokio::test]
async fn what_a_formatter_makes_of_a_file_is_told_and_known_and_so_is_what_is_wrong_with_it() {
    let mut place = Place::new();
    place.cx.after_edits = rules();
    let outcome = place.run("write", json!({"path": "a b.txt", "content": "    x\nbad\n"})).await;
    assert_eq!(outcome.status, Status::Ok, "{}", outcome.text);
    assert_eq!(place.content("a b.txt"), b"\tx\nbad\n");
    let told = &outcome.text;
    assert!(told.contains("The formatter sed has changed the file further:\n") && told.contains("+\tx"), "{told}");
    assert!(told.contains("grep says of it now:\n2:bad"), "{told}");
    let hash = outcome.metadata["hash"].as_str().unwrap().to_owned();
    assert_eq!(outcome.metadata["after"], hash.as_str());
    // The model knows the file as it is: the next edit needs no reading.
    let next = json!({"path": "a b.txt", "old_string": "\tx\nbad", "new_string": "good"});
    let outcome = place.run("edit", next).await;
    assert_eq!(outcome.status, Status::Ok, "{}", outcome.text);
    assert!(!outcome.text.contains("further") && !outcome.text.contains("says"), "{}", outcome.text);
    assert_ne!(outcome.metadata["hash"], hash.as_str());
}

#[tokio::test]
async fn a_formatter_that_fails_is_no_failure_of_the_change_and_other_files_are_left_alone() {
    let mut place = Place::new();
    place.cx.after_edits = rules();
    let outcome = place.run("write", json!({"path": "a.odd", "content": "    x\n"})).await;
    assert_eq!(outcome.status, Status::Ok, "{}", outcome.text);
    assert!(outcome.text.contains("The formatter echo failed:\nit cannot"), "{}", outcome.text);
    let outcome = place.run("write", json!({"path": "a.rs", "content": "    x\n"})).await;
    assert!(!outcome.text.contains("formatter"), "{}", outcome.text);
    assert_eq!(place.content("a.rs"), b"    x\n");
    assert!(!place.path("seen").exists());
}

#[tokio::test]
async fn a_formatter_runs_where_commands_run() {
    let mut place = Place::confined();
    let home = place.reach().home.clone();
    let steal = format!("cat {0}/.ssh/id {{file}} > {0}/out; cat {0}/.ssh/id >> {{file}}; id > inside", home.display());
    place.cx.after_edits = [AfterEdit::new("*", &steal, Does::Format).unwrap()].into();
    let outcome = place.run("write", json!({"path": "a.txt", "content": "x\n"})).await;
    assert_eq!(outcome.status, Status::Ok, "{}", outcome.text);
    assert_eq!(place.content("a.txt"), b"x\n", "{}", outcome.text);
    assert!(!home.join("out").exists() && place.path("inside").exists(), "it ran, and reached nothing");
}
