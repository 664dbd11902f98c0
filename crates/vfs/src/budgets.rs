//! What the node has of descriptors, sessions and memory for the accounts it serves, and how much
//! of it a session may use. The rule by which they are shared is that of
//! [`Budget`](entrepot_storage::budget::Budget).

use entrepot_auth::Grant;
use entrepot_nouns::{AccountType, Protocol, SiteId};
use entrepot_storage::StoreUser;
use entrepot_storage::budget::{Budget, Holder, Permit, Share, Standing};

use crate::error::{Result, VfsError};
use crate::limits;

/// What the accounts of a node may use, all together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeLimits {
    /// File descriptors of sessions and of the files and directories they have open. A file that
    /// lies elsewhere counts too: it has a connection as soon as its bytes move.
    pub descriptors: u64,
    /// Sessions of peers.
    pub sessions: u64,
    /// Bytes of memory for what waits in it: writes out of order, parts of objects, what was read
    /// or sent ahead.
    pub memory_bytes: u64,
}

impl Default for NodeLimits {
    fn default() -> Self {
        NodeLimits {
            descriptors: limits::DESCRIPTORS,
            sessions: limits::SESSIONS,
            memory_bytes: limits::MEMORY_BYTES,
        }
    }
}

/// A budget as metrics show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetUse {
    /// `descriptors`, `sessions` or `memory_bytes`.
    pub kind: &'static str,
    /// How much is in use.
    pub used: u64,
    /// How much there is.
    pub limit: u64,
    /// How often something was refused, since the start.
    pub refused: u64,
}

/// The budgets of a node. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Budgets {
    descriptors: Budget,
    sessions: Budget,
    memory: Budget,
    /// For what rules do at endpoints. What waits in memory there is bounded by the number of jobs
    /// that are worked at a time.
    pub(crate) rules: StoreUser,
}

/// What one session may take of the budgets, and what it holds while it is open.
pub(crate) struct Shares {
    descriptors: Share,
    sessions: Share,
    all: Budgets,
    /// Memory for writes that wait for what comes before them.
    pub(crate) memory: Share,
    /// For whom stores work.
    pub(crate) store_user: StoreUser,
    /// Those of a peer; a job has none.
    _open: Option<[Permit; 2]>,
}

impl Budgets {
    pub(crate) fn new(limits: NodeLimits) -> Budgets {
        let kept = |total: u64| (total / limits::KEPT_PART).min(limits::KEPT_MOST);
        Budgets {
            descriptors: Budget::new(limits.descriptors, kept(limits.descriptors)),
            sessions: Budget::new(limits.sessions, kept(limits.sessions)),
            memory: Budget::new(limits.memory_bytes, 0),
            rules: StoreUser { holder: Holder::Rules, memory: None },
        }
    }

    /// Takes what an open session needs.
    ///
    /// # Errors
    /// The account has its share, or the node is full.
    pub(crate) fn admit(&self, grant: &Grant, holder: Holder) -> Result<Shares> {
        let principal = grant.principal();
        let is_administrator =
            principal.account.account_type == AccountType::Admin && principal.site == SiteId::MAIN;
        let standing = if is_administrator { Standing::Administrator } else { Standing::Ordinary };
        let descriptors = self.descriptors.share(holder, standing);
        let needed = match grant.peer().protocol {
            Protocol::Internal => None,
            Protocol::Ftp => Some(limits::FTP_SESSION_DESCRIPTORS),
            _ => Some(1),
        };
        let sessions = self.sessions.share(holder, standing);
        let open = match needed {
            None => None,
            Some(needed) => {
                let (Some(session), Some(open)) = (sessions.take(1), descriptors.take(needed))
                else {
                    return Err(VfsError::TooMany { what: "sessions" });
                };
                Some([session, open])
            }
        };
        let memory = self.memory.share(holder, standing);
        let store_user = StoreUser { holder, memory: Some(memory.clone()) };
        let all = self.clone();
        Ok(Shares { descriptors, sessions, all, memory, store_user, _open: open })
    }

    /// How much of each is in use.
    pub(crate) fn in_use(&self) -> [BudgetUse; 3] {
        let of = |kind: &'static str, budget: &Budget| BudgetUse {
            kind,
            used: budget.used(),
            limit: budget.total(),
            refused: budget.refused(),
        };
        [
            of("descriptors", &self.descriptors),
            of("sessions", &self.sessions),
            of("memory_bytes", &self.memory),
        ]
    }
}

impl Shares {
    /// Takes what a file or directory that is open needs.
    ///
    /// # Errors
    /// The account has its share, or the node is full.
    pub(crate) fn open_file(&self) -> Result<Permit> {
        self.descriptors.take(1).ok_or(VfsError::TooMany { what: "files" })
    }

    /// How many bytes of answers the session may have waiting for its client.
    pub(crate) fn answer_bytes(&self) -> u64 {
        let sessions = SessionCounts { own: self.sessions.held(), all: self.all.sessions.used() };
        sessions.answer_bytes(self.all.memory.total())
    }
}

/// Open sessions of an account, and of all.
struct SessionCounts {
    own: u64,
    all: u64,
}

impl SessionCounts {
    /// So much each that those of the account have half of the memory and all together the whole.
    fn answer_bytes(&self, memory_bytes: u64) -> u64 {
        (memory_bytes / 2 / self.own.max(1)).min(memory_bytes / self.all.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_many_sessions_stay_within_the_memory() {
        let of = |own, all| SessionCounts { own, all }.answer_bytes(256 << 20);
        assert_eq!(of(1, 1), 128 << 20);
        assert_eq!(of(0, 0), 128 << 20, "a job has no session");
        assert!(1000 * of(1000, 1000) <= 128 << 20);
        assert!(10_000 * of(1, 10_000) <= 256 << 20);
    }
}
