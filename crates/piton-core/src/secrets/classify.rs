//! Whether a text may be a secret at all: neither a word, nor what people write in the place of one.

/// Shorter values are no secrets that could be found by their value, in bytes.
const LEAST: usize = 8;

/// Whether a value can be looked for wherever it turns up: it is no word, no number that stands for itself, no path.
pub(super) fn is_strong(value: &str) -> bool {
    let bytes = value.as_bytes();
    if bytes.len() < LEAST || is_dummy(bytes) {
        return false;
    }
    let count = |fits: fn(&u8) -> bool| bytes.iter().filter(|byte| fits(byte)).count();
    let (digits, capitals, small) =
        (count(u8::is_ascii_digit), count(u8::is_ascii_uppercase), count(u8::is_ascii_lowercase));
    let letters = capitals + small;
    let others = bytes.len() - digits - letters;
    if is_place(value) {
        return false;
    }
    match (digits, letters, others) {
        (_, 0, 0) => digits >= 12,
        (1.., 1.., _) => true,
        // Letters alone: too long for a word, or no word's capitals.
        (0, _, 0) => bytes.len() >= 20 || (capitals > 0 && small > 0 && changes_of_case(bytes) >= 3),
        (0, _, _) => bytes.len() >= 20 || (others >= 2 && !is_words(bytes)),
        (_, 0, _) => others >= 2 && bytes.len() >= 12 && !is_date(bytes),
    }
}

/// A path or an address, whose password is found by itself. Base64 may begin with a slash, too.
pub(super) fn is_place(value: &str) -> bool {
    let is_encoded = value.contains('+') || value.split('/').any(|part| part.len() >= 16 && is_random(part.as_bytes()));
    let is_path = value.starts_with('/') && (value.contains('.') || !is_encoded);
    is_path || value.starts_with("./") || value.starts_with("~/") || value.contains("://")
}

fn changes_of_case(bytes: &[u8]) -> usize {
    bytes.windows(2).filter(|pair| pair[0].is_ascii_uppercase() != pair[1].is_ascii_uppercase()).count()
}

/// Words joined by one kind of sign: `my-secret-name`.
fn is_words(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| byte.is_ascii_alphabetic() || b"-_. ".contains(byte))
}

fn is_date(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| byte.is_ascii_digit() || b"-:./ +".contains(byte))
}

/// Digits and letters, as no name has them: of a token whose prefix alone does not tell.
pub(super) fn is_mixed(body: &[u8]) -> bool {
    let digits = body.iter().filter(|byte| byte.is_ascii_digit()).count();
    let capitals = body.iter().filter(|byte| byte.is_ascii_uppercase()).count();
    let small = body.iter().filter(|byte| byte.is_ascii_lowercase()).count();
    (digits >= 2 && capitals >= 2)
        || (digits >= 4 && small >= 2)
        || (body.ends_with(b"=") && capitals >= 2)
        || (digits >= 1 && capitals >= 3 && small >= 3)
}

/// Digits, capitals and small letters, as no name has them that only begins like a token.
pub(super) fn is_random(body: &[u8]) -> bool {
    let count = |fits: fn(&u8) -> bool| body.iter().filter(|byte| fits(byte)).count();
    [u8::is_ascii_digit, u8::is_ascii_uppercase, u8::is_ascii_lowercase].into_iter().all(|kind| count(kind) >= 2)
}

/// Whether it may stand in base64.
pub(super) fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/-_=".contains(&byte)
}

/// What stands in it somewhere.
const WORDS: [&str; 30] = [
    "***",
    "...",
    "…",
    "xxxx",
    "example",
    "changeme",
    "change-me",
    "change_me",
    "placeholder",
    "dummy",
    "redacted",
    "replace",
    "your-",
    "your_",
    "yourkey",
    "yourtoken",
    "your ",
    "[hidden]",
    "insert",
    "fixme",
    "••",
    "000000",
    "process.env",
    "os.environ",
    "getenv",
    "env(",
    "env[",
    "secrets.",
    "vault:",
    "123456789",
];

/// What stands there alone.
const WHOLE: [&str; 32] = [
    "null",
    "none",
    "nil",
    "true",
    "false",
    "undefined",
    "string",
    "str",
    "required",
    "optional",
    "number",
    "bytes",
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "key",
    "apikey",
    "api_key",
    "api-key",
    "test",
    "testing",
    "value",
    "hidden",
    "empty",
    "pass",
    "pwd",
    "user",
    "username",
    "default",
    "void",
];

/// What people and programs write where a secret would stand.
pub(super) fn is_dummy(value: &[u8]) -> bool {
    let text = String::from_utf8_lossy(&value[..value.len().min(4_096)]).to_lowercase();
    let text = text.trim();
    let is_one = || text.chars().next().is_none_or(|first| text.chars().all(|other| other == first));
    let is_reference =
        || text.starts_with(['$', '<', '%', '#', '@']) || text.starts_with("{{") || text.starts_with("op://");
    // What is clean is not cleaned again.
    let is_placeholder = || super::placeholder::length(value) == Some(value.len());
    is_placeholder()
        || is_reference()
        || is_one()
        || WHOLE.contains(&text)
        || WORDS.iter().any(|word| text.contains(word))
}
