#![no_main]
//! Reading a bash command: any text is answered, in bounds; what runs in it is not lost behind another line; and a real bash runs
//! nothing that is not among the parts of a text that is known.
//!
//! That bash runs in Piton's sandbox (`piton sandbox`), since the text may be anything: nothing that it writes, kills or starts is
//! outside of a folder and a process namespace of its own. `PITON` names the binary; by default it is that of the debug build.

use libfuzzer_sys::fuzz_target;
use piton_shell::{ByName, CommandPattern, Reading, read};
use std::cell::RefCell;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

#[path = "../../crates/piton-shell/tests/traced/mod.rs"]
mod traced;

/// A longer text shows nothing that a shorter one does not.
const MOST_BYTES: usize = 2_000;
/// What a text leaves in the background ends with the sandbox.
const TEXTS_OF_A_SANDBOX: u32 = 500;
/// Runs each text that it reads, up to a NUL, and prints its trace and the end of it.
const SERVER: &str = "n=0; while IFS= read -r -d '' text; do
    rm -rf work; mkdir work; cd work; trace=../trace-$((n++)); : > $trace
    env -i LC_ALL=C.UTF-8 PATH=/nonexistent BASH_ENV=../prelude TRACE=$trace /usr/bin/timeout -s KILL 4 /bin/bash -c \"$text\" \
        < /dev/null > /dev/null 2>&1
    cd ..; cat trace-$((n-1)); rm -f trace-$((n-1)); printf '\\034'
done < in";

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let reading = read(&text, &ByName);
    for part in &reading.parts {
        assert!(text.get(part.span.clone()).is_some(), "a part lies in the text");
        assert!(part.unresolved.iter().all(|at| *at < part.words.len()));
    }
    if !reading.unknowable.is_empty() {
        return;
    }
    // A command on a line of its own behind a whole command runs, whatever that was.
    let rm = CommandPattern::parse("rm *").expect("a pattern");
    let both = read(&format!("{text}\nrm x"), &ByName);
    let seen = both.parts.iter().any(|part| rm.could_match(part));
    // A last backslash takes the end of the line, a comment does not.
    let goes_on = text.ends_with('\\') || text.trim_end().ends_with(['|', '&', '<', '>']);
    assert!(seen || goes_on || !both.unknowable.is_empty(), "{text:?}");
    compare(&text, &reading);
});

/// What bash runs of a text is among what was read of it.
fn compare(text: &str, reading: &Reading) {
    // A text that writes into the trace, or makes the marks of its records, says nothing.
    let is_plain = |text: &str| text.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\t'));
    let words = reading.parts.iter().flat_map(|part| &part.words);
    if text.len() > MOST_BYTES
        || reading.parts.is_empty()
        || text.contains("19")
        || !is_plain(text)
        || !words.into_iter().all(|word| is_plain(word))
    {
        return;
    }
    thread_local!(static BASH: RefCell<Option<Bash>> = const { RefCell::new(None) });
    let ran = BASH.with_borrow_mut(|bash| {
        if bash.as_ref().is_none_or(|bash| bash.texts == TEXTS_OF_A_SANDBOX) {
            *bash = None;
            *bash = Some(Bash::start());
        }
        let ran = bash.as_mut().and_then(|bash| bash.run(text));
        // It has killed all that it saw.
        if ran.is_none() {
            *bash = None;
        }
        ran
    });
    for command in ran.unwrap_or_default() {
        assert!(traced::is_among(reading, &command), "{text}\nruns {command:?}\n{reading:#?}");
    }
}

/// A sandbox that runs texts.
struct Bash {
    child: Child,
    /// `None`: it is to end.
    input: Option<File>,
    output: BufReader<ChildStdout>,
    folder: PathBuf,
    texts: u32,
}

impl Bash {
    fn start() -> Self {
        let folder = std::env::temp_dir().join(format!("piton-fuzz-shell-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for bash");
        std::fs::write(folder.join("prelude"), traced::PRELUDE).expect("the prelude");
        // Nothing of the terminal or its input is in the sandbox, so the texts come through a pipe in its folder.
        let made = Command::new("mkfifo").arg(folder.join("in")).status().expect("mkfifo");
        assert!(made.success(), "a pipe for the texts");
        let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/debug/piton");
        let piton = std::env::var_os("PITON").map_or(default, PathBuf::from);
        let mut child = Command::new(&piton)
            .args(["sandbox", "--cwd"])
            .arg(&folder)
            .args(["--", "/bin/bash", "-c", SERVER])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}; PITON names the binary", piton.display()));
        let output = child.stdout.take().expect("piped");
        let input = File::options().write(true).open(folder.join("in")).expect("the sandbox has opened its end");
        let mut bash = Self { child, input: Some(input), output: BufReader::new(output), folder, texts: 0 };
        assert_eq!(bash.run("aa x"), Some(vec![vec!["aa".to_owned(), "x".to_owned()]]), "bash is traced");
        bash
    }

    /// The commands that bash looked for; `None`: nothing is left that could say so.
    fn run(&mut self, text: &str) -> Option<Vec<Vec<String>>> {
        self.texts += 1;
        self.input.as_mut()?.write_all(&[text.as_bytes(), b"\0"].concat()).ok()?;
        let mut trace = Vec::new();
        self.output.read_until(0o34, &mut trace).ok()?;
        (trace.pop() == Some(0o34)).then(|| traced::commands(&trace))
    }
}

impl Drop for Bash {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
