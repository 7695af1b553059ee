//! The limits of the tools, each with its unit and its reason.
//!
//! What a session may change is in [`crate::tool::ToolLimits`]; these are the same for everybody.

use std::time::Duration;

/// Bytes of a command's output kept from its beginning, on disk. Beyond it only the end is kept.
pub const SPOOL_BYTES: u64 = 64 << 20;
/// Bytes kept of the end of an output beyond [`SPOOL_BYTES`]: builds end with what went wrong. Held in memory.
pub const SPOOL_TAIL_BYTES: usize = 1 << 20;
/// Lines one `read` shows unless it asks for fewer or more.
pub const READ_LINES: usize = 2_000;
/// Characters of a line that `read` shows; minified files have lines of megabytes.
pub const READ_LINE_CHARS: usize = 2_000;
/// Bytes one `read` shows, whatever number of lines was asked for.
pub const READ_BYTES: usize = 50_000;
/// The largest file that is hashed, hence can be edited or overwritten.
pub const TRACKED_BYTES: u64 = 10 << 20;
/// The largest file whose content is kept in memory, to show what changed since it was read.
pub const REMEMBERED_FILE_BYTES: usize = 256 << 10;
/// All contents kept in memory for that; the oldest go first.
pub const REMEMBERED_BYTES: usize = 8 << 20;
/// Directory entries that `read` shows.
pub const LISTED_ENTRIES: usize = 200;
/// Levels of folders that `list` shows unless it asks for fewer or more.
pub const TREE_DEPTH: usize = 3;
/// Entries that one `list` shows; deeper levels are left out until it fits.
pub const TREE_ENTRIES: usize = 300;
/// Entries that one `list` looks at: a second on a slow disk.
pub const TREE_LOOKS: usize = 50_000;
/// Matching lines one `grep` shows.
pub const GREP_MATCHES: usize = 200;
/// Characters of a line that `grep` shows.
pub const GREP_LINE_CHARS: usize = 500;
/// Lines before and after a match that may be asked for.
pub const GREP_MAX_CONTEXT: usize = 20;
/// Paths one `glob` shows.
pub const GLOB_PATHS: usize = 200;
/// The largest page that `web_fetch` takes, in bytes, unpacked.
pub const WEB_PAGE_BYTES: usize = 10_000_000;
/// The time a page may take to be there, redirects included, and as much again to be read.
pub const WEB_PAGE_TIME: Duration = Duration::from_secs(30);
/// The largest answer of a search that `web_search` takes, in bytes, unpacked.
pub const WEB_SEARCH_BYTES: usize = 2_000_000;
/// What one `web_search` shows if the model does not say how many, and at most.
pub const WEB_SEARCH_RESULTS: (usize, usize) = (10, 20);
/// Characters of what is searched for.
pub const WEB_SEARCH_QUERY_CHARS: usize = 1_000;
/// Characters of an excerpt that a search shows.
pub const WEB_SEARCH_EXCERPT_CHARS: usize = 500;
/// Lines of a diff that an outcome shows.
pub const DIFF_LINES: usize = 60;
/// Bytes of live output passed on per call; who watches needs no more, and the whole lies in a file.
pub const LIVE_BYTES: usize = 512 << 10;
/// How often a running command's output is looked at for those who watch.
pub const LIVE_EVERY: Duration = Duration::from_millis(25);
/// How often a command that another process started is looked at.
pub const ATTACHED_EVERY: Duration = Duration::from_millis(50);
/// How often one that is being stopped is looked at: a person waits for it to be gone.
pub const STOPPING_EVERY: Duration = Duration::from_millis(10);
/// Time a command whose time is up has to end by itself after it was asked to.
pub const STOP_GRACE: Duration = Duration::from_millis(500);
/// The same for a cancelled one. Who presses Ctrl-C shall have his machine back within 200 ms, whatever a command thinks
/// of it; most have ended long before.
pub const CANCEL_GRACE: Duration = Duration::from_millis(80);
/// Time a runner has to end a cancelled command before it is killed itself.
pub const RUNNER_GRACE: Duration = Duration::from_secs(3);
/// Time a runner takes at most to kill what a command left behind; only what hangs in the kernel needs it.
pub const SWEEP_TIME: Duration = Duration::from_secs(2);
/// Time a cancelled call that may change something has to answer before it is abandoned: as long as a runner takes at
/// most to end a command that resists, and a moment more.
pub const ABANDON_GRACE: Duration = RUNNER_GRACE.saturating_add(SWEEP_TIME).saturating_add(Duration::from_secs(1));
/// The same for a call that only looks, of which nothing is lost.
pub const ABANDON_LOOK_GRACE: Duration = Duration::from_millis(500);
/// How long starting a command in the background waits in case it ends at once: a missing program, a port in use.
pub const BACKGROUND_MOMENT: Duration = Duration::from_millis(500);
/// The most time that `bash_output` waits for more.
pub const OUTPUT_WAIT: Duration = Duration::from_secs(60);
/// The most time that `task_output` waits for the end of a subagent.
pub const SUBAGENT_WAIT: Duration = Duration::from_secs(600);
/// Characters at the end of the output of a command in the background that its end is told with.
pub const ENDED_OUTPUT_CHARS: usize = 2_000;
/// Silence after which the output of an ended command is complete, if something still holds its pipe.
pub const DRAIN_QUIET: Duration = Duration::from_millis(20);
/// The most time an ended command's output is still read.
pub const DRAIN_TIME: Duration = Duration::from_millis(100);
/// How often output is made durable while a command runs.
pub const SYNC_EVERY: Duration = Duration::from_secs(1);
/// The largest file that a snapshot covers: enough for any source and most fixtures; beyond it a person is told.
pub const SNAPSHOT_FILE_BYTES: u64 = 32 << 20;
/// Bytes of files that a snapshot covers, unless the configuration says otherwise: the source of an operating system, but not
/// gigabytes of data that would be copied before the first change.
pub const SNAPSHOT_BYTES: u64 = 2_000_000_000;
/// How long a file system of another machine may show no next file before a snapshot is given up.
pub const SNAPSHOT_PATIENCE: Duration = Duration::from_secs(30);
/// The largest object that is read back: a file, or a folder with more names than a workspace may have files.
pub const SNAPSHOT_OBJECT_BYTES: u64 = 64 << 20;
/// Files and folders that a workspace may have to be covered at all; looking at them takes about a second.
pub const SNAPSHOT_ENTRIES: usize = 500_000;
/// Entries of one ignored folder that are covered: build results and dependencies have more, local settings fewer.
pub const SNAPSHOT_IGNORED_ENTRIES: usize = 2_000;
/// Bytes of one ignored file or folder that are covered.
pub const SNAPSHOT_IGNORED_BYTES: u64 = 16 << 20;
/// Ignored entries looked at in all: bounds the time where there are many ignored folders.
pub const SNAPSHOT_IGNORED_LOOKS: usize = 10_000;
/// Ignored bytes covered in all.
pub const SNAPSHOT_IGNORED_TOTAL_BYTES: u64 = 64 << 20;
/// Bytes of a file that has its changed lines counted.
pub const SNAPSHOT_COUNTED_BYTES: usize = 1 << 20;
