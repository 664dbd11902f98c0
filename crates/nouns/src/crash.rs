//! Crash points: named places in what must survive a crash, at each of which a test can end a node.

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

#[cfg(debug_assertions)]
mod plan {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    struct Plan {
        name: String,
        left: AtomicU64,
    }

    static PLAN: OnceLock<Option<Plan>> = OnceLock::new();

    pub(super) fn look(name: &str) {
        let plan = PLAN.get_or_init(|| {
            let text = std::env::var("ENTREPOT_CRASH_AT").ok()?;
            let (name, count) = match text.split_once(':') {
                Some((name, count)) => (name.to_owned(), count.parse().unwrap_or(1)),
                None => (text, 1),
            };
            Some(Plan { name, left: AtomicU64::new(count) })
        });
        let Some(plan) = plan else { return };
        if plan.name == name && plan.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            eprintln!("crash test: ending at '{name}'");
            std::process::abort();
        }
    }
}
