//! Keeping the plans of plan mode as files, before a person is asked about them: they can be read in an editor, and are there later.
//!
//! Piton writes them itself, from what the model hands to `exit_plan`: no call of the model needs a right to write for it. A file that
//! is there is never written over, and a link is not followed. After a restart the same plan is found where it was kept.

use super::JobContext;
use crate::settings::PlanFolder;
use piton_core::inquiry::planning;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Letters of a file's name that are of the plan's.
const SLUG_CHARS: usize = 40;
/// How many plans of one name and day there may be.
const MOST: u32 = 100;
const DAY_MS: i64 = 86_400_000;

/// Knows where plans are kept.
pub(super) struct Keeper {
    /// In the repository, if that is one to write in.
    shared: Option<PlanFolder>,
    /// In the session's folder.
    own: PathBuf,
    workspace: PathBuf,
    now_ms: u64,
}

impl Keeper {
    pub(super) fn of(cx: &JobContext<'_>) -> Self {
        Self {
            shared: cx.services.settings.plan_folder.clone(),
            own: cx.services.stored.scratch().join("plans"),
            workspace: PathBuf::from(cx.session.workspace()),
            now_ms: cx.services.world.now_ms(),
        }
    }

    /// Keeps a plan: where, as people see it. `None`: it could not be written; it is on record all the same.
    pub(super) async fn keep(self, text: &str) -> Option<String> {
        let text = format!("{}\n", text.trim_end());
        let keep = move || {
            let name = format!("{}-{}", day(self.now_ms), slug(&text));
            let shared = self.shared.as_ref().and_then(|folder| folder());
            let kept = shared.and_then(|folder| write(&folder, &name, &text).ok());
            let kept = kept.or_else(|| write(&self.own, &name, &text).ok())?;
            let shown = kept.strip_prefix(&self.workspace).unwrap_or(&kept);
            Some(shown.to_string_lossy().into_owned())
        };
        tokio::task::spawn_blocking(keep).await.ok().flatten()
    }
}

/// Writes a new file of this name, or finds the one with this content.
fn write(folder: &Path, name: &str, text: &str) -> io::Result<PathBuf> {
    let is_link = |path: &Path| fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_symlink());
    // `.piton/plans`: neither may lead elsewhere.
    if folder.ancestors().take(2).any(is_link) {
        return Err(io::Error::other("a link"));
    }
    fs::create_dir_all(folder)?;
    for number in 1..=MOST {
        let path = folder.join(if number == 1 { format!("{name}.md") } else { format!("{name}-{number}.md") });
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => {
                file.write_all(text.as_bytes())?;
                file.sync_all()?;
                return Ok(path);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let is_same = !is_link(&path) && fs::read(&path).is_ok_and(|there| there == text.as_bytes());
                if is_same {
                    return Ok(path);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("too many plans of this name"))
}

/// The plan's name, as a name of a file.
fn slug(text: &str) -> String {
    let mut slug = String::new();
    for c in planning::name(text).chars() {
        match c {
            c if c.is_ascii_alphanumeric() => slug.push(c.to_ascii_lowercase()),
            _ if !slug.ends_with('-') && !slug.is_empty() => slug.push('-'),
            _ => {}
        }
        if slug.len() >= SLUG_CHARS {
            break;
        }
    }
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() { "plan".to_owned() } else { slug.to_owned() }
}

/// The day in UTC, as `2026-11-24`.
fn day(now_ms: u64) -> String {
    let days = i64::try_from(now_ms).unwrap_or_default().div_euclid(DAY_MS);
    // Days since the first of March of the year 0, by eras of 400 years.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{date:02}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use piton_testkit::TempWorkspace;

    #[test]
    fn a_plan_is_called_by_its_day_and_first_words() {
        assert_eq!(day(1_795_485_111_000), "2026-11-24");
        assert_eq!((day(0), day(951_782_400_000)), ("1970-01-01".to_owned(), "2000-02-29".to_owned()));
        assert_eq!(slug("\n# Fix: the *parser* / ../../etc\n\n1. x"), "fix-the-parser-etc");
        assert_eq!((slug("計画"), slug("")), ("plan".to_owned(), "plan".to_owned()));
        assert!(slug(&"a b ".repeat(100)).len() <= SLUG_CHARS);
    }

    #[test]
    fn no_plan_takes_the_place_of_another_and_no_link_is_followed() {
        let home = TempWorkspace::new();
        let folder = home.path().join(".piton/plans");
        let name = |text: &str| write(&folder, "x", text).map(|path| path.file_name().map(ToOwned::to_owned));
        assert_eq!(name("one").ok().flatten().as_deref(), Some("x.md".as_ref()));
        assert_eq!(name("two").ok().flatten().as_deref(), Some("x-2.md".as_ref()));
        assert_eq!(name("one").ok().flatten().as_deref(), Some("x.md".as_ref()), "it is kept already");
        let other = home.path().join("other");
        fs::create_dir(&other).expect("a folder");
        std::os::unix::fs::symlink(&other, home.path().join("link")).expect("a link");
        assert!(write(&home.path().join("link/plans"), "x", "one").is_err());
        assert!(fs::read_dir(&other).expect("it is there").next().is_none());
    }
}
