//! Names of variables and fields whose value is a secret.

/// What a name may end with whose value is a secret.
const ENDS: [&[&str]; 34] = [
    &["password"],
    &["passwd"],
    &["passphrase"],
    &["passcode"],
    &["pwd"],
    &["pass"],
    &["secret"],
    &["secrets"],
    &["token"],
    &["apikey"],
    &["apitoken"],
    &["authtoken"],
    &["accesstoken"],
    &["secretkey"],
    &["accesskey"],
    &["privatekey"],
    &["credential"],
    &["credentials"],
    &["api", "key"],
    &["access", "key"],
    &["secret", "key"],
    &["private", "key"],
    &["signing", "key"],
    &["encryption", "key"],
    &["account", "key"],
    &["auth", "key"],
    &["master", "key"],
    &["license", "key"],
    &["service", "key"],
    &["session", "key"],
    &["shared", "key"],
    &["storage", "key"],
    &["deploy", "key"],
    &["webhook", "secret"],
];

/// What such a name may end with in one word.
const JOINED: [&str; 5] = ["password", "passwd", "passphrase", "apikey", "secretkey"];

/// Words at a name's end that do not change what it is.
const BESIDE: [&str; 24] = [
    "prod",
    "production",
    "dev",
    "development",
    "staging",
    "stage",
    "test",
    "live",
    "default",
    "old",
    "new",
    "current",
    "value",
    "plain",
    "raw",
    "base64",
    "b64",
    "hex",
    "base",
    "main",
    "admin",
    "root",
    "primary",
    "secondary",
];

/// Words before `token` of a token that opens nothing: of a page, of a text.
const HARMLESS: [&str; 31] = [
    "next",
    "page",
    "continuation",
    "pad",
    "eos",
    "bos",
    "unk",
    "sep",
    "cls",
    "mask",
    "stop",
    "max",
    "min",
    "num",
    "input",
    "output",
    "prompt",
    "total",
    "completion",
    "special",
    "start",
    "end",
    "design",
    "per",
    "sync",
    "resume",
    "cancellation",
    "first",
    "last",
    "parse",
    "invalid",
];

/// Whether what is assigned to this name is a secret: `DB_PASSWORD`, `apiKey`, `client-secret`.
pub fn is_secret_name(name: &str) -> bool {
    let words = words(name);
    let mut words = words.as_slice();
    while let [start @ .., last] = words {
        let is_number = last.bytes().all(|byte| byte.is_ascii_digit());
        if start.is_empty() || !(is_number || is_one_of(last, &BESIDE)) {
            break;
        }
        words = start;
    }
    let ends_with = |end: &[&str]| {
        words.len() >= end.len() && words.iter().rev().zip(end.iter().rev()).all(|(word, other)| is_same(word, other))
    };
    let is_harmless = match words {
        [.., before, last] => last == "token" && is_one_of(before, &HARMLESS),
        _ => false,
    };
    // Written together: PGPASSWORD.
    let is_joined = words.last().is_some_and(|last| JOINED.iter().any(|end| last.ends_with(end)));
    !is_harmless && (is_joined || ENDS.iter().any(|end| ends_with(end)))
}

fn is_one_of(word: &str, words: &[&str]) -> bool {
    words.iter().any(|other| is_same(word, other))
}

/// Most words differ in their first letter, which is seen without a call.
fn is_same(word: &str, other: &str) -> bool {
    word.len() == other.len() && word.bytes().next() == other.bytes().next() && word == other
}

/// Whether a variable of the environment, or of a file of variables, holds a secret: here every key counts.
pub fn is_secret_variable(name: &str) -> bool {
    const ENDS: [&str; 9] = ["key", "auth", "dsn", "pat", "pin", "salt", "cookie", "bearer", "jwt"];
    let words = words(name);
    // Where something is kept is no secret: SSH_AUTH_SOCK, GPG_KEY_FILE.
    is_secret_name(name) || words.len() > 1 && words.last().is_some_and(|last| ENDS.contains(&last.as_str()))
}

/// Whether it is named like a password, which may be a word.
pub(super) fn is_password_name(name: &str) -> bool {
    let words = words(name);
    words.iter().any(|word| matches!(word.as_str(), "password" | "passwd" | "passphrase" | "pwd" | "pass"))
}

/// The words of a name, in small letters: of `clientSecret`, `CLIENT_SECRET` and `client-secret` the same two.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = vec![String::new()];
    let mut before = ' ';
    let mut letters = name.chars().peekable();
    while let Some(letter) = letters.next() {
        let is_next_small = letters.peek().is_some_and(char::is_ascii_lowercase);
        let begins = letter.is_ascii_uppercase()
            && (before.is_ascii_lowercase() || (before.is_ascii_uppercase() && is_next_small));
        if begins || !letter.is_ascii_alphanumeric() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter.is_ascii_alphanumeric()) {
            word.push(letter.to_ascii_lowercase());
        }
        before = letter;
    }
    words.retain(|word| !word.is_empty());
    words
}
