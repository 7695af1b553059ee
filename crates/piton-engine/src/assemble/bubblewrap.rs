//! Why there is no backend with `bwrap`, told of the one that is here. Versions before 0.12.0 follow links of the workspace while they set
//! up, and make files outside of it (docs/decisions/0017-sandbox.md).

use super::machine::Machine;
use piton_tools::spawn::{Confinement, Env, Group, Spawn, Streams, output_within};
use std::time::Duration;

/// The first that makes nothing outside of a hostile workspace.
const SAFE: (u32, u32, u32) = (0, 12, 0);
/// How long it may take to say its version.
const WITHIN: Duration = Duration::from_secs(2);

/// Why `backend = "bwrap"` is refused here, and what to write instead.
pub(super) fn why_not_bubblewrap(machine: &Machine) -> String {
    let instead = "write \"auto\", \"namespaces\" or \"landlock\" for [sandbox] backend";
    format!("{}; {instead}", of_version(version(machine).as_deref()))
}

fn of_version(said: Option<&str>) -> String {
    let Some(said) = said else {
        return "bwrap is not installed, and Piton makes its namespaces itself".to_owned();
    };
    match parsed(said) {
        Some(version) if version < SAFE => format!(
            "{said} is older than 0.12.0: while it sets up a sandbox it follows links of the workspace and writes outside of it"
        ),
        Some(_) => format!("{said} is here, and Piton has no backend for it: it makes the same namespaces itself"),
        None => "bwrap does not say its version, and versions before 0.12.0 write outside of the sandbox".to_owned(),
    }
}

/// What the program says of itself, on one line.
fn version(machine: &Machine) -> Option<String> {
    let path = machine.var("PATH").unwrap_or("/usr/bin:/bin");
    let env = Env::new([("PATH".into(), path.into())].into());
    let spawn = Spawn::new(["bwrap", "--version"], &env, "/", Confinement::User);
    let child = spawn.start(Group::Own, Streams::caught()).ok()?;
    let output = output_within(WITHIN, child).ok().flatten()?;
    let said = String::from_utf8_lossy(&output.stdout);
    Some(piton_core::hidden::visible_line(said.lines().next().unwrap_or_default().trim()))
}

fn parsed(said: &str) -> Option<(u32, u32, u32)> {
    let mut numbers = said.split_whitespace().last()?.split('.').map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??, numbers.next().flatten().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_one_is_refused_by_its_version() {
        let old = of_version(Some("bubblewrap 0.8.0"));
        assert!(old.starts_with("bubblewrap 0.8.0 is older than 0.12.0"), "{old}");
        assert!(of_version(Some("bubblewrap 0.11.9")).contains("older"));
        for newer in ["bubblewrap 0.12.0", "bubblewrap 0.13", "bubblewrap 1.0.0"] {
            assert!(of_version(Some(newer)).contains("no backend for it"), "{newer}");
        }
        assert!(of_version(Some("what")).contains("does not say its version"));
        assert!(of_version(None).contains("not installed"));
    }
}
