//! What the sandbox stopped, as a failed command told it: programs pass on the kernel's word for it.

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

/// The lines of a failed command's output that say so, the last ones first to be kept.
pub(super) fn stopped(output: &str) -> Vec<String> {
    /// More would repeat the output.
    const MOST: usize = 3;
    /// Enough for a path and its reason.
    const LINE_CHARS: usize = 200;
    let tells = |line: &&str| SIGNS.iter().any(|sign| line.contains(sign));
    let mut lines: Vec<String> = output
        .lines()
        .rev()
        .filter(tells)
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
}
