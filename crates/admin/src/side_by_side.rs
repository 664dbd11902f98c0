//! Slow work on several things at the same time, on as many cores as there are.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::thread::{available_parallelism, scope};

use parking_lot::Mutex;

use crate::limits::PASSWORDS_AT_ONCE;

/// Does `work` on each item, and gives what came of them in their order. Blocks.
pub(crate) fn side_by_side<T: Send, R: Send>(
    items: Vec<T>,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let cores = available_parallelism().map_or(1, NonZero::get);
    let workers = cores.min(PASSWORDS_AT_ONCE).min(items.len());
    if workers < 2 {
        return items.into_iter().map(work).collect();
    }
    let left = Mutex::new(items.into_iter().enumerate());
    let take = || left.lock().next();
    let some = || {
        let mut done = Vec::new();
        while let Some((number, item)) = take() {
            done.push((number, work(item)));
        }
        done
    };
    let mut done = scope(|threads| {
        let running: Vec<_> = (0..workers).map(|_| threads.spawn(some)).collect();
        let ended = running.into_iter().map(|it| it.join().unwrap_or_else(|it| resume_unwind(it)));
        ended.flatten().collect::<Vec<_>>()
    });
    done.sort_unstable_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_done_once_and_the_order_stays() {
        for count in [0, 1, 2, 1_000] {
            let doubled = side_by_side((0..count).collect(), |number: u32| number * 2);
            assert_eq!(doubled, (0..count).map(|number| number * 2).collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_breaks_breaks_the_caller() {
        let work = |number| assert_ne!(number, 7);
        let broken = std::panic::catch_unwind(|| side_by_side((0..10).collect(), work));
        assert!(broken.is_err());
    }
}
