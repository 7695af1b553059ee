//! What of a text leads somewhere when it is clicked: a place in a file of the folder, `src/lib.rs:12`.

use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;

/// Longer words are no names of files.
const MOST_BYTES: usize = 300;

/// Where names of files are looked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Links {
    /// The address of the folder, with a slash at its end; empty: there are no links.
    base: String,
}

impl Links {
    /// Links to the files of this folder.
    pub fn below(folder: &Path) -> Self {
        let mut base = String::new();
        if let Some(folder) = folder.to_str().filter(|folder| folder.starts_with('/')) {
            base.push_str("file://");
            for byte in folder.trim_end_matches('/').bytes() {
                match byte {
                    b'/' => base.push('/'),
                    byte if is_of_name(byte) => base.push(char::from(byte)),
                    byte => drop(write!(base, "%{byte:02X}")),
                }
            }
            base.push('/');
        }
        Self { base }
    }

    /// The places in files that a text names, each with its address. The file may not be there: nobody looks.
    pub(super) fn find(&self, text: &str) -> Vec<(Range<usize>, String)> {
        if self.base.is_empty() || !text.contains(':') {
            return Vec::new();
        }
        let mut found = Vec::new();
        let bytes = text.as_bytes();
        let mut from = 0;
        while let Some(colon) = text[from..].find(':').map(|at| from + at) {
            from = colon + 1;
            let before = bytes[..colon].iter().rev().take_while(|byte| is_of_name(**byte) || **byte == b'/').count();
            let digits = bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            let (start, end) = (colon - before, from + digits);
            let (path, line) = (&text[start..colon], &text[from..end]);
            if digits == 0 || !is_file(path) {
                continue;
            }
            let address = match path.strip_prefix('/') {
                Some(path) => format!("file:///{path}#{line}"),
                None => format!("{}{}#{line}", self.base, path.trim_start_matches("./")),
            };
            found.push((start..end, address));
            from = end;
        }
        found
    }
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._-".contains(&byte)
}

/// Whether this looks like a file: its name has an ending that begins with a letter. `12:30` and `host:80` are none; `//` is an
/// address.
fn is_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let ending = name.rsplit_once('.').map(|(_, ending)| ending).unwrap_or_default();
    let is_ending = ending.len() <= 8 && ending.starts_with(|char: char| char.is_ascii_alphabetic());
    // A host with a port looks like a file without a folder: its ending is one that code does not have.
    let is_host = !path.contains('/') && ["com", "org", "net", "io", "dev", "local", "test"].contains(&ending);
    path.len() <= MOST_BYTES && is_ending && !is_host && !path.starts_with("//") && !path.contains("..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_a_file_is_a_link_and_a_time_or_a_host_is_none() {
        let links = Links::below(Path::new("/home/a b/w"));
        let found = |text: &str| -> Vec<(String, String)> {
            links.find(text).into_iter().map(|(range, address)| (text[range].to_owned(), address)).collect()
        };
        let one = |text: &str, shown: &str, address: &str| {
            assert_eq!(found(text), [(shown.to_owned(), address.to_owned())], "{text}");
        };
        one("at src/lib.rs:12:5, there", "src/lib.rs:12", "file:///home/a%20b/w/src/lib.rs#12");
        one("(./calc.py:3)", "./calc.py:3", "file:///home/a%20b/w/calc.py#3");
        one("/etc/x.conf:7", "/etc/x.conf:7", "file:///etc/x.conf#7");
        assert_eq!(found("a.rs:1 b.rs:2").len(), 2);
        for none in [
            "12:30",
            "localhost:80",
            "example.com:80",
            "https://x.org/a.html:8",
            "../up.rs:3",
            "a.rs: 3",
            "é.rs:",
            "x:",
        ] {
            assert_eq!(found(none), [], "{none}");
        }
        assert_eq!(Links::default().find("src/lib.rs:12"), []);
    }
}
