//! Freed memory that goes back to the system. glibc keeps what a long answer took: behind 10 MB of text a conversation held
//! 66 MB of heap, of which it needed a third.

use std::time::Duration;

/// Pages held beyond which it is worth the work, and the page faults for what is needed again.
#[cfg(target_env = "gnu")]
const ENOUGH_PAGES: u64 = (16 << 20) / 4096;

/// How long after the end of a turn all of it is drawn, and dropped.
const REST: Duration = Duration::from_millis(1_500);

/// Gives back what the turn that has just ended leaves free.
pub(crate) fn give_back_soon() {
    tokio::spawn(async {
        tokio::time::sleep(REST).await;
        // It must not hold up those who wait for the runtime.
        drop(tokio::task::spawn_blocking(give_back).await);
    });
}

/// Gives back what is free, where much is held.
#[cfg(target_env = "gnu")]
fn give_back() {
    if private_pages().is_some_and(|pages| pages < ENOUGH_PAGES) {
        return;
    }
    // SAFETY: it takes no pointer, and any thread may call it at any time.
    #[expect(unsafe_code, reason = "no safe function of the standard library or a kept crate does it")]
    let _ = unsafe { libc::malloc_trim(0) };
}

/// Other allocators give back by themselves.
#[cfg(not(target_env = "gnu"))]
fn give_back() {}

/// Pages of this process that no file stands behind. `None` where the kernel does not tell.
#[cfg(target_env = "gnu")]
fn private_pages() -> Option<u64> {
    let told = std::fs::read_to_string("/proc/self/statm").ok()?;
    let mut numbers = told.split_whitespace().skip(1).map(|number| number.parse::<u64>().ok());
    let (resident, shared) = (numbers.next()??, numbers.next()??);
    Some(resident.saturating_sub(shared))
}
