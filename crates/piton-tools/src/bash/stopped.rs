//! What the sandbox stopped, as a failed command told it: programs pass on the kernel's word for it.

use piton_sandbox::protected;

/// How a program says that the kernel refused something a sandbox keeps from it.
const SIGNS: &[&str] = &[
    "Read-only file system",
    "Permission denied",
    "Operation not permitted",
    "Device or resource busy",
    "Network is unreachable",
    "Could not resolve host",
    "Temporary failure in name resolution",
    "Name or service not known",
    "EACCES",
    "EPERM",
    "EROFS",
    "EAI_AGAIN",
    "ENOTFOUND",
    "ENETUNREACH",
    "dns error",
];

/// The same of a mount that keeps something protected from changes: git writes a file anew, and puts it in its place.
const OF_PROTECTED: &[&str] = &["Read-only file system", "EROFS", "Device or resource busy", "EBUSY"];

/// The lines of a failed command's output that say so, the last ones first to be kept.
pub(super) fn stopped(output: &str) -> Vec<String> {
    last(output, |line| SIGNS.iter().any(|sign| line.contains(sign)))
}

/// The lines that say so of something protected in the workspace, whether or not the command failed.
pub(super) fn of_protected(output: &str) -> Vec<String> {
    let names: Vec<String> = protected().map(|name| format!("/{}/", name.trim_start_matches('/'))).collect();
    let is_one = |word: &str| {
        let path = format!("/{}/", word.to_lowercase());
        names.iter().any(|name| path.contains(name.as_str()))
    };
    let is_end = |c: char| c.is_whitespace() || "'\"`:,;()[]".contains(c);
    last(output, |line| OF_PROTECTED.iter().any(|sign| line.contains(sign)) && line.split(is_end).any(is_one))
}

fn last(output: &str, tells: impl Fn(&str) -> bool) -> Vec<String> {
    /// More would repeat the output.
    const MOST: usize = 3;
    /// Enough for a path and its reason.
    const LINE_CHARS: usize = 200;
    let mut lines: Vec<String> = output
        .lines()
        .rev()
        .filter(|line| tells(line))
        .map(|line| line.trim().chars().take(LINE_CHARS).collect())
        .take(MOST)
        .collect();
    lines.reverse();
    lines.dedup();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_refused_is_found_in_what_a_program_says() {
        let said = "compiling\nerror: could not lock config file .git/config: Read-only file system\n\
                    curl: (6) Could not resolve host: example.org\nmake: *** [all] Error 1\n";
        let found = stopped(said);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains(".git/config") && found[1].contains("example.org"), "{found:?}");
        assert!(stopped("assertion failed: left == right\n").is_empty());
        assert_eq!(stopped(&"x: Permission denied\n".repeat(900)).len(), 1);
    }

    #[test]
    fn what_is_said_of_something_protected_is_told_from_the_rest() {
        for said in [
            "warning: unable to unlink '.vscode/settings.json': Read-only file system",
            "bash: line 1: a/b/.envrc: Read-only file system",
            "error: could not write config file .git/config: Device or resource busy",
            "Error: EROFS: read-only file system, open '/w/.mcp.json'",
        ] {
            assert_eq!(of_protected(&format!("x\n{said}\ndone\n")), [said]);
        }
        for said in
            ["touch: /usr/x: Read-only file system", "umount: /mnt: Device or resource busy", ".vscode/x: File exists"]
        {
            assert!(of_protected(said).is_empty(), "{said}");
        }
    }
}
