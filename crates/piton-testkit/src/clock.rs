//! The time of tokio's runtime as an engine's clock. Where the runtime is paused, a wait that holds up everything takes
//! no time, and the clock shows that it has passed.

use async_trait::async_trait;
use piton_core::ids::TimeMs;
use piton_engine::clock::Clock;
use std::time::Duration;
use tokio::time::Instant;

/// Tells the runtime's time.
#[derive(Debug, Clone, Copy)]
pub struct RuntimeClock {
    began: Instant,
    began_ms: TimeMs,
}

impl RuntimeClock {
    /// A clock that shows this time now. Must be made within a tokio runtime.
    pub fn at(began_ms: TimeMs) -> Self {
        Self { began: Instant::now(), began_ms }
    }
}

#[async_trait]
impl Clock for RuntimeClock {
    fn now_ms(&self) -> TimeMs {
        self.began_ms + u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    async fn sleep_until(&self, at_ms: TimeMs) {
        let after = Duration::from_millis(at_ms.saturating_sub(self.began_ms));
        tokio::time::sleep_until(self.began + after).await;
    }
}
