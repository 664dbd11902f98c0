//! Crash points: named places in what must survive a crash, at each of which a test can end a node,
//! and calls of the system that a test can make fail.

use std::io;

/// Marks a crash point. In programs built with debug assertions (tests), the variable
/// `ENTREPOT_CRASH_AT=name` or `name:n` ends the process there, the n-th time, as `kill -9` would:
/// nothing is flushed, nothing unwinds. In other builds the call compiles to nothing.
#[inline]
pub fn point(name: &str) {
    #[cfg(debug_assertions)]
    plan::look(name);
    #[cfg(not(debug_assertions))]
    let _ = name;
}

/// Marks a call of the system that a test can make fail. In programs built with debug assertions
/// the variable `ENTREPOT_FAIL_AT=name` or `name:n` gives an error here, the n-th time, in place of
/// the call; in other builds there is never one.
#[inline]
pub fn fault(name: &str) -> Option<io::Error> {
    #[cfg(debug_assertions)]
    {
        plan::fails(name).then(|| io::Error::other(format!("the fault '{name}' of a test")))
    }
    #[cfg(not(debug_assertions))]
    {
        let _ = name;
        None
    }
}

#[cfg(debug_assertions)]
mod plan {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    struct Plan {
        name: String,
        left: AtomicU64,
    }

    static CRASH: OnceLock<Option<Plan>> = OnceLock::new();
    static FAULT: OnceLock<Option<Plan>> = OnceLock::new();

    impl Plan {
        fn of(variable: &str) -> Option<Plan> {
            let text = std::env::var(variable).ok()?;
            let (name, count) = match text.split_once(':') {
                Some((name, count)) => (name.to_owned(), count.parse().unwrap_or(1)),
                None => (text, 1),
            };
            Some(Plan { name, left: AtomicU64::new(count) })
        }

        /// True at the n-th call with this name.
        fn is_due(&self, name: &str) -> bool {
            self.name == name && self.left.fetch_sub(1, Ordering::SeqCst) == 1
        }
    }

    pub(super) fn look(name: &str) {
        let plan = CRASH.get_or_init(|| Plan::of("ENTREPOT_CRASH_AT"));
        if plan.as_ref().is_some_and(|plan| plan.is_due(name)) {
            eprintln!("crash test: ending at '{name}'");
            std::process::abort();
        }
    }

    pub(super) fn fails(name: &str) -> bool {
        let plan = FAULT.get_or_init(|| Plan::of("ENTREPOT_FAIL_AT"));
        plan.as_ref().is_some_and(|plan| plan.is_due(name))
    }
}
