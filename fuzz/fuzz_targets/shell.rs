#![no_main]
//! Reading a bash command: any text is answered, in bounds, and what runs in it is not lost behind another line.

use libfuzzer_sys::fuzz_target;
use piton_shell::{ByName, CommandPattern, read};

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let reading = read(&text, &ByName);
    for part in &reading.parts {
        assert!(text.get(part.span.clone()).is_some(), "a part lies in the text");
        assert!(part.unresolved.iter().all(|at| *at < part.words.len()));
    }
    // A command on a line of its own behind a whole command runs, whatever that was.
    if reading.unknowable.is_empty() {
        let rm = CommandPattern::parse("rm *").expect("a pattern");
        let both = read(&format!("{text}\nrm x"), &ByName);
        let seen = both.parts.iter().any(|part| rm.could_match(part));
        // A last backslash takes the end of the line, a comment does not.
        let goes_on = text.ends_with('\\') || text.trim_end().ends_with(['|', '&', '<', '>']);
        assert!(seen || goes_on || !both.unknowable.is_empty(), "{text:?}");
    }
});
