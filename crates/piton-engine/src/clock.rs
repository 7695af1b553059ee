//! Clock and randomness. The engine takes both from [`World`], so that an embedder can replace them: a simulation, a test
//! that skips waiting, a fleet whose machines share one clock.

use async_trait::async_trait;
use piton_core::ids::{MessageId, SessionId, TimeMs};
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Bits of an id that count within a millisecond.
const COUNTER_BITS: u32 = 12;

/// Tells the time and waits for it.
#[async_trait]
pub trait Clock: Send + Sync + Debug {
    /// Milliseconds since the Unix epoch. May step back.
    fn now_ms(&self) -> TimeMs;

    /// Returns at this time, at once if it has passed. May be dropped half-way.
    async fn sleep_until(&self, at_ms: TimeMs);
}

/// Chance.
pub trait Dice: Send + Sync + Debug {
    /// 64 random bits.
    fn bits(&self) -> u64;
}

/// The time and the chance that an engine goes by, and what it makes of them. Clones share both.
#[derive(Debug, Clone)]
pub struct World {
    clock: Arc<dyn Clock>,
    dice: Arc<dyn Dice>,
    /// Which boot of the machine this is, where that is known.
    boot_id: Option<Arc<str>>,
    /// Milliseconds and counter of the newest id.
    newest_id: Arc<AtomicU64>,
}

/// The system's wall clock.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock;

/// A generator that the system has seeded.
#[derive(Debug, Clone, Copy)]
pub struct SystemDice;

impl World {
    /// The system's time and chance.
    pub fn system() -> Self {
        static SYSTEM: LazyLock<World> = LazyLock::new(|| World::new(Arc::new(SystemClock), Arc::new(SystemDice)));
        SYSTEM.clone()
    }

    /// A world of its own.
    pub fn new(clock: Arc<dyn Clock>, dice: Arc<dyn Dice>) -> Self {
        let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|id| id.trim().into());
        Self { clock, dice, boot_id, newest_id: Arc::default() }
    }

    /// The same in another boot of the machine.
    pub fn booted(self, boot_id: &str) -> Self {
        Self { boot_id: Some(boot_id.into()), ..self }
    }

    /// Which boot of the machine this is, where that is known.
    pub fn boot_id(&self) -> Option<&str> {
        self.boot_id.as_deref()
    }

    /// Milliseconds since the Unix epoch.
    pub fn now_ms(&self) -> TimeMs {
        self.clock.now_ms()
    }

    /// Returns at this time, at once if it has passed.
    pub async fn sleep_until(&self, at_ms: TimeMs) {
        self.clock.sleep_until(at_ms).await;
    }

    /// Uniform in 0..=1000, to spread retries.
    pub fn roll(&self) -> u64 {
        self.dice.bits() % 1001
    }

    /// An id that no session has; sorts by time.
    pub fn session_id(&self) -> SessionId {
        SessionId(format!("ses_{}", self.id()))
    }

    /// An id for something that a user says.
    pub fn message_id(&self) -> MessageId {
        MessageId(format!("msg_{}", self.id()))
    }

    /// A UUID of version 7: each sorts behind the one before, also within a millisecond.
    fn id(&self) -> String {
        let now = self.now_ms() << COUNTER_BITS;
        let next = |newest: u64| Some((newest + 1).max(now));
        let newest = self.newest_id.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next).unwrap_or(now);
        let stamp = (newest + 1).max(now);
        let (ms, counter) = (stamp >> COUNTER_BITS, stamp & ((1 << COUNTER_BITS) - 1));
        format!("{ms:012x}7{counter:03x}{:016x}", self.dice.bits() >> 2 | 1 << 63)
    }
}

#[async_trait]
impl Clock for SystemClock {
    fn now_ms(&self) -> TimeMs {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    async fn sleep_until(&self, at_ms: TimeMs) {
        tokio::time::sleep(Duration::from_millis(at_ms.saturating_sub(self.now_ms()))).await;
    }
}

impl Dice for SystemDice {
    fn bits(&self) -> u64 {
        fastrand::u64(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Stopped(TimeMs);

    #[async_trait]
    impl Clock for Stopped {
        fn now_ms(&self) -> TimeMs {
            self.0
        }

        async fn sleep_until(&self, _: TimeMs) {}
    }

    #[derive(Debug)]
    struct Loaded(u64);

    impl Dice for Loaded {
        fn bits(&self) -> u64 {
            self.0
        }
    }

    #[test]
    fn ids_are_uuids_of_version_7_and_sort_in_the_order_they_were_made() {
        let world = World::new(Arc::new(Stopped(0x0199_0000_1234)), Arc::new(Loaded(u64::MAX)));
        let ids = [world.session_id(), world.session_id()].map(|id| id.0);
        assert_eq!(ids, ["ses_0199000012347000bfffffffffffffff", "ses_0199000012347001bfffffffffffffff"]);
        let many: Vec<MessageId> = (0..10_000).map(|_| world.message_id()).collect();
        assert!(many.is_sorted_by(|one, next| one < next), "more than a counter's worth within one millisecond");
        assert_eq!(world.roll(), u64::MAX % 1001);
    }
}
