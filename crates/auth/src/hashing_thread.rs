//! Threads for the hashing of passwords. One hash keeps a core busy for a tenth of a second or
//! more: at the priority of the other threads, a crowd that logs in would take the cores from
//! transfers that run.

use std::panic::resume_unwind;
use std::thread::{Builder, scope};

use crate::limits::HASHING_NICENESS;

/// Runs `work` on a thread of its own with a lower scheduling priority, and waits for it. Blocks:
/// not for threads of the runtime that serve connections. Where no thread can be started, `work`
/// runs on the calling one.
pub fn hash_aside<T: Send>(work: impl Fn() -> T + Sync) -> T {
    scope(|threads| {
        let lowered = || {
            // Linux has a niceness per thread. Only lower priority is asked for, which needs no
            // right; where it is refused, the hash is computed at the priority of the others.
            let _ = rustix::process::nice(HASHING_NICENESS);
            work()
        };
        match Builder::new().name("hashing".to_owned()).spawn_scoped(threads, lowered) {
            Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(error) => {
                tracing::warn!(%error, "no thread could be started for the hash of a password");
                work()
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use rustix::process::getpriority_process;

    use super::*;

    #[test]
    fn only_the_thread_of_a_hash_has_a_lower_priority() {
        let before = getpriority_process(None).unwrap();
        let during = hash_aside(|| getpriority_process(None).unwrap());
        assert_eq!(during, (before + HASHING_NICENESS).min(19));
        assert_eq!(getpriority_process(None).unwrap(), before, "the caller was slowed down too");
    }

    #[test]
    fn what_breaks_in_a_hash_breaks_the_caller() {
        let broken = std::panic::catch_unwind(|| hash_aside(|| assert_eq!(1, 2)));
        assert!(broken.is_err());
    }
}
