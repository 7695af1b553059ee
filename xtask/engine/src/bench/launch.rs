//! `cargo xtask bench --launch REPORT PROGRAM ARGS...`: starts a program, waits until its last process is gone, and
//! writes down what the kernel counted.
//!
//! A process of its own, and a small one: the kernel starts a program's peak memory at the memory of whoever started
//! it, and the bench is big, since it keeps every request that the fake provider saw.

use anyhow::Context;
use rustix::process::{getpid, set_child_subreaper};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus};
use std::time::Duration;

/// What came of a program and all processes below it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Report {
    /// Just before its process was made, on the monotonic clock.
    pub(super) started: Duration,
    /// Whether it exited with 0.
    pub(super) succeeded: bool,
    /// User and system time together.
    pub(super) cpu: Duration,
    /// The most memory that a single process held, its mapped files included.
    pub(super) peak_bytes: u64,
}

/// Launches `program` with this process's environment and folder.
pub(super) fn launch(report: &str, program: &str, args: &[&str]) -> anyhow::Result<()> {
    // Processes that outlive their parent become ours, so that they are counted too.
    set_child_subreaper(Some(getpid())).context("cannot become a subreaper")?;
    let mut command = Command::new(program);
    command.args(args);
    let started = monotonic();
    let child = command.spawn().with_context(|| format!("cannot start {program}"))?;
    let seen = wait_for_all(child.id(), started).context("cannot wait for the processes")?;
    std::fs::write(report, seen.to_json().to_string()).with_context(|| format!("cannot write {report}"))
}

/// The clock that [`std::time::Instant`] reads.
pub(super) fn monotonic() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    // The kernel's nanoseconds are fewer than a second's.
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

impl Report {
    fn to_json(self) -> Value {
        let (started, cpu) = (self.started.as_secs_f64(), self.cpu.as_secs_f64());
        json!({ "started": started, "succeeded": self.succeeded, "cpu": cpu, "peak_bytes": self.peak_bytes })
    }

    /// `None` if it is not one of ours.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        Some(Self {
            started: Duration::from_secs_f64(value["started"].as_f64()?),
            succeeded: value["succeeded"].as_bool()?,
            cpu: Duration::from_secs_f64(value["cpu"].as_f64()?),
            peak_bytes: value["peak_bytes"].as_u64()?,
        })
    }
}

fn wait_for_all(program: u32, started: Duration) -> io::Result<Report> {
    let mut report = Report { started, succeeded: false, cpu: Duration::ZERO, peak_bytes: 0 };
    while let Some((process, status, usage)) = wait_for_one()? {
        report.succeeded |= process == program && status.success();
        report.cpu += duration(usage.ru_utime) + duration(usage.ru_stime);
        let kibibytes = u64::try_from(usage.ru_maxrss).unwrap_or_default();
        report.peak_bytes = report.peak_bytes.max(kibibytes << 10);
    }
    Ok(report)
}

/// Waits for the next process to end; its usage includes what it waited for itself. `None` if there is none left.
#[expect(unsafe_code, reason = "no safe wait tells what the process used")]
fn wait_for_one() -> io::Result<Option<(u32, ExitStatus, libc::rusage)>> {
    let mut status = 0;
    // SAFETY: it is made of numbers only, which may be zero.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to variables of ours that outlive the call.
    let process = unsafe { libc::wait4(-1, &raw mut status, 0, &raw mut usage) };
    let Ok(process) = u32::try_from(process) else {
        let error = io::Error::last_os_error();
        return if error.raw_os_error() == Some(libc::ECHILD) { Ok(None) } else { Err(error) };
    };
    Ok(Some((process, ExitStatus::from_raw(status), usage)))
}

fn duration(time: libc::timeval) -> Duration {
    let seconds = Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or_default());
    seconds + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or_default())
}
