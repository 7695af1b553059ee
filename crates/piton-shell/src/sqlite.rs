//! `sqlite3` and `duckdb`: which of their orders write a file beside the database, run a program or load code.

/// Commands with a dot that do none of this.
const QUIET: &str = "\
    .bail .changes .databases .dbinfo .dbtotxt .dump .echo .eqp .exit .explain .fullschema .header .headers .help .indexes .indices .limit \
    .lint .mode .nullvalue .parameter .print .prompt .quit .schema .separator .sha3sum .show .stats .tables .timeout .timer .version \
    .vfsinfo .vfslist .vfsname .width";
/// Functions and statements that do.
const ACTING: &str = "writefile load_extension fts3_tokenizer attach";
/// The same, where a bracket follows.
const FUNCTIONS: &str = "edit";
/// The same, where the first of them stands in front of the other.
const TOGETHER: &[(&str, &str)] = &[("vacuum", "into"), ("copy", "to"), ("export", "database")];

/// The words of these orders by which they do more than to ask and change the database.
pub(crate) fn acts(orders: &str) -> Vec<String> {
    let has = |list: &str, word: &str| list.split_whitespace().any(|known| known == word);
    let dots = orders.lines().filter_map(|line| line.split_whitespace().next()).filter(|word| word.starts_with('.'));
    let mut all: Vec<String> = dots.filter(|word| !has(QUIET, word)).map(ToString::to_string).collect();
    let small = orders.to_ascii_lowercase();
    let words: Vec<(usize, &str)> = words(&small).collect();
    let calls = |at: usize, word: &str| {
        let rest = small[at + word.len()..].trim_start();
        rest.starts_with(['(', '"', '`', '\'', ']', '/', '-'])
    };
    let acting = words.iter().filter(|(at, word)| has(ACTING, word) || has(FUNCTIONS, word) && calls(*at, word));
    all.extend(acting.map(|(_, word)| word.to_string()));
    for (first, second) in TOGETHER {
        let begins = words.iter().position(|(_, word)| word == first);
        let both = begins.is_some_and(|at| words[at..].iter().any(|(_, word)| word == second));
        all.extend(both.then(|| first.to_string()));
    }
    all
}

/// The words of a text, each with its place.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let inside = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(move |c: char| inside(c)).filter_map(move |(at, _)| {
        let begins = !text[..at].ends_with(inside);
        let rest = &text[at..];
        begins.then(|| (at, &rest[..rest.find(|c: char| !inside(c)).unwrap_or(rest.len())]))
    })
}
