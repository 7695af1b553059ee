//! The places that the subagents of a family work in: as many as may work at a time. More wait, in an order that ends what
//! was begun before anything new begins.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Who waits: those of a lower rank come first, and among equals whoever came first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// It has begun, and goes on.
    Begun,
    /// It is to begin, with this many levels that may be below it: the deeper it is, the more callers wait for its answer.
    New(u8),
}

/// The places of a family.
#[derive(Debug)]
pub(super) struct Places(Shared);

/// A place to work in, until this is dropped.
#[derive(Debug)]
pub(super) struct Place(Option<Shared>);

type Shared = Arc<Mutex<Hall>>;

#[derive(Debug)]
struct Hall {
    /// While this is not 0, no one waits.
    free: usize,
    waiting: BTreeMap<(Rank, u64), oneshot::Sender<Place>>,
    /// How many have ever waited.
    count: u64,
}

impl Places {
    pub(super) fn new(free: usize) -> Self {
        Self(Arc::new(Mutex::new(Hall { free, waiting: BTreeMap::new(), count: 0 })))
    }

    /// A place, once one is free. `None`: the family is no more.
    pub(super) async fn take(&self, rank: Rank) -> Option<Place> {
        let coming = {
            let mut hall = lock(&self.0);
            if hall.free > 0 {
                hall.free -= 1;
                return Some(Place(Some(Arc::clone(&self.0))));
            }
            let (sender, coming) = oneshot::channel();
            hall.count += 1;
            let key = (rank, hall.count);
            hall.waiting.insert(key, sender);
            coming
        };
        coming.await.ok()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(shared) = self.0.take() else { return };
        let mut hall = lock(&shared);
        while let Some((_, waiter)) = hall.waiting.pop_first() {
            match waiter.send(Place(Some(Arc::clone(&shared)))) {
                Ok(()) => return,
                // It waits no more. Dropped as it is, the place would come back here, where the hall is locked.
                Err(mut refused) => drop(refused.0.take()),
            }
        }
        hall.free += 1;
    }
}

fn lock(hall: &Mutex<Hall>) -> MutexGuard<'_, Hall> {
    hall.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn now(places: &Places, rank: Rank) -> Option<Place> {
        places.take(rank).now_or_never().flatten()
    }

    #[test]
    fn a_place_goes_to_whoever_has_begun_then_to_the_deepest_and_to_none_that_has_left() {
        let places = Places::new(1);
        let first = now(&places, Rank::New(2)).unwrap();
        let waits = |rank| {
            let mut waits = Box::pin(places.take(rank));
            assert!(waits.as_mut().now_or_never().is_none(), "there is one place");
            waits
        };
        let (mut new, left, mut deep, mut begun) =
            (waits(Rank::New(2)), waits(Rank::Begun), waits(Rank::New(0)), waits(Rank::Begun));
        drop(left);
        drop(first);
        assert!(new.as_mut().now_or_never().is_none() && deep.as_mut().now_or_never().is_none());
        let place = begun.as_mut().now_or_never().flatten().unwrap();
        drop(place);
        assert!(new.as_mut().now_or_never().is_none());
        let place = deep.as_mut().now_or_never().flatten().unwrap();
        // One that was given a place and left before it looked gives it back.
        drop(place);
        drop(new);
        let last = now(&places, Rank::New(2)).unwrap();
        assert!(now(&places, Rank::New(2)).is_none());
        drop(last);
        assert!(now(&places, Rank::New(2)).is_some());
    }
}
