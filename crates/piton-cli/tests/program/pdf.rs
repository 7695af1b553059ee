//! The text of a PDF, by the `pdftotext` that the machine has, in the sandbox.

use crate::stage::Stage;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;

/// A PDF with these words, a page each.
fn pdf(pages: &[&str]) -> Vec<u8> {
    let kids: Vec<String> = (0..pages.len()).map(|page| format!("{} 0 R", 4 + 2 * page)).collect();
    let mut objects = vec![
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        format!("<< /Type /Pages /Kids [{}] /Count {} >>", kids.join(" "), pages.len()),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>".to_owned(),
    ];
    for (page, words) in pages.iter().enumerate() {
        objects.push(format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 300] /Resources << /Font << /F 3 0 R >> >> /Contents {} 0 R >>",
            5 + 2 * page
        ));
        let drawn = format!("BT /F 12 Tf 20 200 Td ({words}) Tj ET");
        objects.push(format!("<< /Length {} >>\nstream\n{drawn}\nendstream", drawn.len()));
    }
    let (mut text, mut table) = ("%PDF-1.4\n".to_owned(), "0000000000 65535 f \n".to_owned());
    for (number, object) in (1..).zip(&objects) {
        writeln!(table, "{:010} 00000 n ", text.len()).unwrap();
        write!(text, "{number} 0 obj\n{object}\nendobj\n").unwrap();
    }
    let (start, size) = (text.len(), objects.len() + 1);
    write!(text, "xref\n0 {size}\n{table}trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n")
        .unwrap();
    text.into_bytes()
}

/// What `read` says of these files, read in one step.
fn read(stage: &Stage, more: &[&str]) -> Vec<String> {
    let ran = stage.run(&[more, &["read"]].concat()).expect_code(0);
    ran.outcomes().iter().map(|outcome| outcome["text"].as_str().unwrap().to_owned()).collect()
}

fn stage(files: &[(&str, Vec<u8>)]) -> Stage {
    let calls: Vec<Value> = files.iter().map(|(name, _)| json!({"name": "read", "args": {"path": name}})).collect();
    let stage = Stage::new(json!([{"tools": calls}, {"text": "done"}]));
    for (name, bytes) in files {
        std::fs::write(stage.workspace.path().join(name), bytes).unwrap();
    }
    stage
}

#[test]
fn a_pdf_is_read_page_by_page_and_what_is_none_or_has_no_text_is_said() {
    let whole = pdf(&["Hello from the first page", "and from the second"]);
    let files = [
        ("two.PDF", whole.clone()),
        ("cut.pdf", whole[..whole.len() / 3].to_vec()),
        ("blank.pdf", pdf(&[""])),
        ("text.pdf", b"only words\n".to_vec()),
        ("large.pdf", [whole, vec![0; 11 << 20]].concat()),
    ];
    let said = read(&stage(&files), &[]);
    assert_eq!(
        said[0],
        "1: [page 1]\n2: Hello from the first page\n3: [page 2]\n4: and from the second\n\
         (the text of a PDF of 2 pages; `pdftotext -layout FILE -` keeps columns of tables)"
    );
    assert!(
        said[1].contains("looks like PDF document. Its content cannot be shown. Its text: pdftotext cannot read it: "),
        "{}",
        said[1]
    );
    assert!(said[2].contains("Its text: there is none on 1 page; they may be scanned."), "{}", said[2]);
    assert_eq!(said[3], "1: only words");
    assert!(said[4].contains("Its text: it has more than 10 MB."), "{}", said[4]);
}

#[test]
fn without_a_sandbox_nothing_is_run_on_a_pdf() {
    let said = read(&stage(&[("two.pdf", pdf(&["Hello"]))]), &["--sandbox", "off"]);
    assert!(said[0].contains("`pdftotext FILE -` prints its text, where that is installed."), "{}", said[0]);
}

/// Whatever a file makes the program do: it sees what a command of the model sees.
#[test]
fn what_reads_a_pdf_is_confined() {
    let stage = stage(&[("two.pdf", pdf(&["Hello"]))]);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(stage.home.path().join("secret"), "of the user").unwrap();
    let home = stage.home.path().display().to_string();
    let taken = format!("#!/bin/sh\ncat {home}/secret; echo x > {home}/written; head -c 8; echo; echo seen\n");
    let program = folder.path().join("pdftotext");
    std::fs::write(&program, taken).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = stage.run_command(&["read"]);
    command.env("PATH", format!("{}:/usr/bin:/bin", folder.path().display()));
    let ran = crate::stage::Ran::of(command).expect_code(0);
    let said = ran.outcomes()[0]["text"].as_str().unwrap().to_owned();
    assert!(said.starts_with("1: [page 1]\n2: %PDF-1.4\n"), "{said}");
    assert!(said.contains("seen") && !said.contains("of the user"), "{said}");
    assert!(!stage.home.path().join("written").exists());
}
