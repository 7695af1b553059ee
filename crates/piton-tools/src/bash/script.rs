//! A script as the words of a command line, however long it is.

/// The longest script that is run; nobody reads a longer one before it runs.
pub(super) const SCRIPT_BYTES: usize = 256 << 10;
/// Bytes of one word of a command line: the kernel takes 128 KiB, its end included.
const WORD_BYTES: usize = 120 << 10;

/// Runs the pieces that come behind it as one script, which sees nothing of them.
const JOINED: &str = r#"piton_ifs=$IFS; IFS=; piton_script="$*"; IFS=$piton_ifs; set --
eval "unset piton_ifs piton_script
$piton_script""#;

/// The command line that runs a script in a new shell. One that does not fit in a word is handed over in pieces.
pub(super) fn command_line(script: &str) -> Vec<String> {
    let shell = |words: &[&str]| ["bash", "-c"].iter().chain(words).map(|word| (*word).to_owned()).collect();
    if script.len() <= WORD_BYTES {
        return shell(&[script]);
    }
    let mut words = vec![JOINED, "bash"];
    let mut rest = script;
    while !rest.is_empty() {
        let (piece, more) = rest.split_at(rest.floor_char_boundary(WORD_BYTES));
        words.push(piece);
        rest = more;
    }
    shell(&words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_script_is_handed_over_in_pieces_that_are_the_whole_of_it() {
        assert_eq!(command_line("echo a"), ["bash", "-c", "echo a"]);
        let script = "echo é\n".repeat(SCRIPT_BYTES / 8);
        let words = command_line(&script);
        assert!(words.iter().all(|word| word.len() <= WORD_BYTES));
        assert_eq!(words[4..].concat(), script);
    }
}
