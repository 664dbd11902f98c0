//! How many file descriptors the process may have, and what they are for. The soft limit is raised
//! to the hard one at the start; of that, a part is left to the node itself, so that it can accept,
//! record, project and be administered whatever its clients do.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::failure::{Exit, Failure};

/// Fewer do not carry a node.
pub(crate) const LEAST: u64 = 256;
/// More are never asked for: some systems allow a billion, and each costs the kernel memory.
const MOST: u64 = 1 << 20;
/// What programs that rules start may open, as is usual: some of them use select(2).
const OF_PROGRAMS: u64 = 1024;
/// Listeners, journal, database, ops socket, helpers, and connections to endpoints that rest.
const OWN_MOST: u64 = 1024;
/// A job reads one file and writes another one; there are three pools.
const OF_PLACE: u64 = 6;
/// Connections that have not logged in, with those that are being told to go.
const WITHOUT_LOGIN_MOST: u64 = 2048;

/// What the descriptors of the process are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DescriptorPlan {
    /// The node itself.
    pub(crate) own: u64,
    /// Connections that have not logged in.
    pub(crate) without_login: u64,
    /// Sessions, with the files they have open.
    pub(crate) accounts: u64,
    /// Places of each pool of the engine: as many as were asked for, where that leaves enough.
    pub(crate) places: usize,
}

impl DescriptorPlan {
    /// For a process that may have `limit` of them, and is asked for pools of so many `places`.
    pub(crate) fn new(limit: u64, places: usize) -> DescriptorPlan {
        let most = usize::try_from(limit / 8 / OF_PLACE).unwrap_or(usize::MAX);
        let places = places.min(most.max(1));
        let of_places = u64::try_from(places).unwrap_or(u64::MAX).saturating_mul(OF_PLACE);
        let own = (limit / 4).min(OWN_MOST).saturating_add(of_places).min(limit / 2);
        let without_login = (limit / 4).min(WITHOUT_LOGIN_MOST);
        DescriptorPlan { own, without_login, accounts: limit - own - without_login, places }
    }
}

/// How many descriptors a server may have here: what [`raise`] makes of the limits.
pub(crate) fn allowed() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    limit.maximum.unwrap_or(MOST).min(MOST).max(limit.current.unwrap_or(MOST).min(MOST))
}

/// Raises the soft limit; gives what holds now.
///
/// # Errors
/// They are too few for a node.
pub(crate) fn raise() -> Result<u64, Failure> {
    let before = getrlimit(Resource::Nofile);
    let wanted = allowed();
    if before.current.is_some_and(|current| current < wanted) {
        let raised = Rlimit { current: Some(wanted), maximum: before.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!(%error, "the limit of file descriptors cannot be raised");
        }
    }
    let now = getrlimit(Resource::Nofile).current.unwrap_or(MOST).min(MOST);
    if now < LEAST {
        let what = format!(
            "the process may open {now} files and needs {LEAST} at least; raise LimitNOFILE= in \
             the unit, or the hard limit of 'ulimit -n'"
        );
        return Err(Failure::new("EP0270", Exit::Failed, what));
    }
    Ok(now)
}

/// For the helper that starts programs: they get the usual soft limit, and may raise it.
pub(crate) fn lower_for_programs() {
    let now = getrlimit(Resource::Nofile);
    let current = now.current.map_or(OF_PROGRAMS, |current| current.min(OF_PROGRAMS));
    // A helper with the limit of the server is a helper all the same.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(current), ..now });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_descriptors_are_shared_out_and_many_go_to_the_accounts() {
        let small = DescriptorPlan::new(512, 25);
        let wanted = DescriptorPlan { own: 188, without_login: 128, accounts: 196, places: 10 };
        assert_eq!(small, wanted);
        let large = DescriptorPlan::new(65_536, 25);
        assert_eq!((large.own, large.without_login, large.places), (1174, 2048, 25));
        for limit in [LEAST, 1000, 4096, MOST] {
            for places in [1, 25, 256] {
                let plan = DescriptorPlan::new(limit, places);
                assert_eq!(plan.own + plan.without_login + plan.accounts, limit);
                assert!(plan.accounts >= limit / 4, "{plan:?} of {limit}");
            }
        }
    }

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let now = raise().unwrap();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, Some(now));
        assert_eq!(Some(now), limit.maximum.map(|hard| hard.min(MOST)));
    }
}
