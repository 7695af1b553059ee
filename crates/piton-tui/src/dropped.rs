//! Files in a pasted text: a terminal types the path of a file that is dropped onto it, quoted, with backslashes, or as it is;
//! file managers copy URIs. Which of them are there is not known here.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A longer text is no list of files.
const MOST_BYTES: usize = 1_000;
/// One of more lines neither.
const MOST_LINES: usize = 10;

/// What may be a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// As it stands in the text.
    pub text: String,
    /// Where it would be.
    pub path: PathBuf,
}

/// What in a pasted text may be files, by absolute paths or URIs. A line may be one path with blanks in it, or several: the
/// whole line comes first.
pub(crate) fn files(text: &str) -> Vec<Dropped> {
    let lines = || text.trim().lines();
    if text.len() > MOST_BYTES || lines().count() > MOST_LINES {
        return Vec::new();
    }
    lines().flat_map(|line| of_line(line.trim())).collect()
}

/// The files of a list of URIs (`text/uri-list`); `None` where it is none.
pub fn of_uris(text: &str) -> Option<Vec<PathBuf>> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let paths: Vec<PathBuf> = lines.map(of_uri).collect::<Option<_>>()?;
    (!paths.is_empty()).then_some(paths)
}

fn of_line(line: &str) -> Vec<Dropped> {
    let whole = line.starts_with('/').then(|| Dropped { text: line.to_owned(), path: line.into() });
    let words = words(line).and_then(|words| words.into_iter().map(of_word).collect::<Option<Vec<_>>>());
    let mut all: Vec<Dropped> = whole.into_iter().collect();
    let words = words.unwrap_or_default().into_iter().filter(|word| all.first() != Some(word));
    let words: Vec<Dropped> = words.collect();
    all.extend(words);
    all
}

fn of_word((text, value): (String, String)) -> Option<Dropped> {
    let path = if value.starts_with('/') { PathBuf::from(value) } else { of_uri(&value)? };
    Some(Dropped { text, path })
}

/// The words of a line as a shell reads them: each as it stands there, and what it means. `None`: a quote is open.
fn words(line: &str) -> Option<Vec<(String, String)>> {
    let mut words = Vec::new();
    let (mut from, mut value, mut quote) = (None, String::new(), None);
    let mut chars = line.char_indices();
    while let Some((at, char)) = chars.next() {
        if char.is_whitespace() && quote.is_none() {
            words.extend(from.take().map(|from: usize| (line[from..at].to_owned(), std::mem::take(&mut value))));
            continue;
        }
        from.get_or_insert(at);
        match (char, quote) {
            ('\\', None | Some('"')) => value.push(chars.next()?.1),
            ('\'' | '"', None) => quote = Some(char),
            (char, Some(open)) if char == open => quote = None,
            (char, _) => value.push(char),
        }
    }
    words.extend(from.map(|from| (line[from..].to_owned(), value)));
    quote.is_none().then_some(words)
}

/// The file that a URI names on this machine.
fn of_uri(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix("file://")?;
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    let mut bytes = Vec::new();
    let mut left = path.bytes();
    while let Some(byte) = left.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(left.next()?).to_digit(16);
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            byte => byte,
        });
    }
    let path = PathBuf::from(OsString::from_vec(bytes));
    path.is_absolute().then_some(path)
}

/// A path as a word of a prompt.
pub fn word_of(path: &Path) -> String {
    let path = path.to_string_lossy();
    if path.contains(char::is_whitespace) { format!("\"{path}\"") } else { path.into_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Vec<String> {
        files(text).into_iter().map(|file| format!("{} = {}", file.text, file.path.display())).collect()
    }

    #[test]
    fn a_path_is_known_however_a_terminal_types_it() {
        for (text, expected) in [
            ("/a/b.png", &["/a/b.png = /a/b.png"][..]),
            ("/a/b.png ", &["/a/b.png = /a/b.png"]),
            ("/a/b c.png", &["/a/b c.png = /a/b c.png"]),
            ("'/a/b c.png' ", &["'/a/b c.png' = /a/b c.png"]),
            ("\"/a/b c.png\"", &["\"/a/b c.png\" = /a/b c.png"]),
            (
                r"/a/b\ c\ \(1\).png",
                &[r"/a/b\ c\ \(1\).png = /a/b\ c\ \(1\).png", r"/a/b\ c\ \(1\).png = /a/b c (1).png"],
            ),
            ("file:///a/b%20c%C3%A9.png", &["file:///a/b%20c%C3%A9.png = /a/b cé.png"]),
            ("file://localhost/a.png\r\nfile:///b.png", &["file://localhost/a.png = /a.png", "file:///b.png = /b.png"]),
            (
                "/a.png '/b c.png'",
                &["/a.png '/b c.png' = /a.png '/b c.png'", "/a.png = /a.png", "'/b c.png' = /b c.png"],
            ),
        ] {
            assert_eq!(told(text), expected, "{text}");
        }
    }

    #[test]
    fn other_text_names_no_file() {
        let long = "/".repeat(MOST_BYTES + 1);
        for text in
            ["", "words", "a/b.png", "'/a", "\\", "https://a/b.png", "file://host/a", "file:///%4", &long, "x /a.png"]
        {
            assert_eq!(told(text), [""; 0], "{text}");
        }
        assert_eq!(of_uris("# copied\r\nfile:///a%20b\r\n"), Some(vec![PathBuf::from("/a b")]));
        assert_eq!(of_uris("file:///a\nwords"), None);
        assert_eq!(of_uris(""), None);
        assert_eq!((word_of(Path::new("/a")), word_of(Path::new("/a b"))), ("/a".to_owned(), "\"/a b\"".to_owned()));
    }
}
