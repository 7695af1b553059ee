//! How commands are traced that bash runs, for the test `bash` and the fuzz target `shell`.
//!
//! `PATH` names no folder, so bash finds no program; each name that it looks for is written to the file `$TRACE` with its arguments,
//! as bash would have passed them. Programs that are named by their path run untraced.

use piton_shell::{Part, Reading};

/// Bash reads this first (`BASH_ENV`): limits on time and files, and the function that writes the trace, one record a line.
pub(crate) const PRELUDE: &str = "ulimit -t 2 -f 64\nexec 19>>\"$TRACE\"\n\
    command_not_found_handle() { local all; printf -v all '%s\\037' \"$@\"; \
    printf '%s\\036' \"${all//$'\\n'/$'\\035'}\" >&19; [[ $1 != c* ]]; }\n";

/// The commands of a trace, in the order in which bash looked for them.
pub(crate) fn commands(trace: &[u8]) -> Vec<Vec<String>> {
    let text = String::from_utf8_lossy(trace);
    // A record is one line: what is written line by line, another in the background may write into.
    let record = |record: &str| record.split_terminator('\u{1f}').map(|word| word.replace('\u{1d}', "\n")).collect();
    // The limit on files ends a loop without an end, in the middle of a record.
    let whole = text.rfind('\u{1e}').map_or("", |end| &text[..end]);
    whole.split('\u{1e}').filter(|text| !text.is_empty()).map(record).collect()
}

/// Whether a part is what bash ran, or what it was run through: of a wrapper, the name counts, for what it runs is the part.
pub(crate) fn is_among(reading: &Reading, ran: &[String]) -> bool {
    let is_run = |part: &Part| {
        // `~` is whatever the home is.
        let is_open = !part.unresolved.is_empty() || part.words.iter().any(|word| word.contains('~'));
        part.words.join(" ") == ran.join(" ") || is_open && part.words.first() == ran.first()
    };
    let wraps = |wrapper: &String| wrapper.split(' ').next() == ran.first().map(String::as_str);
    reading.parts.iter().any(|part| is_run(part) || part.through.iter().any(wraps))
}
