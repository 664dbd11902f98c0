//! Roles of administrators: what each may do.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::token::TokenScope;

/// A part of administration.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum AdminRight {
    /// Read the configuration without its secrets, and the state of the server.
    See = 1,
    /// Read the audit log.
    Audit = 2,
    /// Keep the service running: sessions, jobs, locked logins, rates, logs, and nodes that take no
    /// new work for a while.
    Operate = 4,
    /// Change the configuration of a site, and read it with what protects its secrets.
    Configure = 8,
    /// Start rules by hand, pause and resume them.
    Run = 32,
    /// Answer what `approve` steps of rules ask one by name, or by the name of one's group.
    Approve = 64,
    /// End nodes, take them off the list, and whatever else concerns the installation as a whole.
    Steer = 16,
}

impl AdminRight {
    /// All parts that there are.
    pub const ALL: [AdminRight; 7] = [
        AdminRight::See,
        AdminRight::Audit,
        AdminRight::Operate,
        AdminRight::Configure,
        AdminRight::Run,
        AdminRight::Approve,
        AdminRight::Steer,
    ];

    /// The word in messages and documentation.
    pub fn as_str(self) -> &'static str {
        match self {
            AdminRight::See => "see",
            AdminRight::Audit => "audit",
            AdminRight::Operate => "operate",
            AdminRight::Configure => "configure",
            AdminRight::Run => "run",
            AdminRight::Approve => "approve",
            AdminRight::Steer => "steer",
        }
    }
}

impl fmt::Display for AdminRight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A set of [`AdminRight`]s.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct AdminRights(u8);

impl AdminRights {
    /// The empty set, which everybody has who is no administrator.
    pub fn none() -> Self {
        AdminRights(0)
    }

    /// True if `right` is among them.
    pub fn has(self, right: AdminRight) -> bool {
        self.0 & right as u8 != 0
    }

    /// What both sets hold.
    #[must_use]
    pub fn and(self, other: AdminRights) -> AdminRights {
        AdminRights(self.0 & other.0)
    }
}

impl FromIterator<AdminRight> for AdminRights {
    fn from_iter<I: IntoIterator<Item = AdminRight>>(rights: I) -> Self {
        AdminRights(rights.into_iter().fold(0, |set, right| set | right as u8))
    }
}

impl fmt::Debug for AdminRights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(AdminRight::ALL.into_iter().filter(|it| self.has(*it))).finish()
    }
}

/// What an account of type `admin` may do. Each may do what those before it may.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Looks on, and changes nothing; answers what `approve` steps of rules ask it.
    Viewer,
    /// Looks on, and reads the audit log.
    Auditor,
    /// Keeps the service running, and changes no configuration.
    Operator,
    /// Does everything at one site, which is not `main`.
    SiteAdministrator,
    /// Does everything: an account of the site `main` at every site and node.
    Administrator,
}

impl Role {
    /// All roles that there are.
    pub const ALL: [Role; 5] =
        [Role::Viewer, Role::Auditor, Role::Operator, Role::SiteAdministrator, Role::Administrator];

    /// What it may do.
    pub fn rights(self) -> AdminRights {
        use AdminRight::{Approve, Audit, Configure, Operate, Run, See, Steer};
        let rights: &[AdminRight] = match self {
            Role::Viewer => &[See, Approve],
            Role::Auditor => &[See, Approve, Audit],
            Role::Operator => &[See, Approve, Audit, Operate, Run],
            Role::SiteAdministrator => &[See, Approve, Audit, Operate, Run, Configure],
            Role::Administrator => &[See, Approve, Audit, Operate, Run, Configure, Steer],
        };
        rights.iter().copied().collect()
    }
}

impl TokenScope {
    /// Parts of administration that a token of these scopes leaves to its account.
    pub fn admin_rights_of(scopes: &[TokenScope]) -> AdminRights {
        use AdminRight::{Approve, Audit, Configure, Operate, Run, See, Steer};
        let each = scopes.iter().flat_map(|scope| -> &[AdminRight] {
            match scope {
                TokenScope::FilesRead | TokenScope::FilesWrite => &[],
                TokenScope::AuditRead => &[Audit],
                TokenScope::AdminRead => &[See],
                TokenScope::AdminWrite => &[Approve, Operate, Run, Configure, Steer],
            }
        });
        each.copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_may_do_what_the_one_before_it_may_and_more() {
        for pair in Role::ALL.windows(2) {
            let (less, more) = (pair[0].rights(), pair[1].rights());
            assert_eq!(less.and(more), less, "{pair:?}");
            assert_ne!(less, more, "{pair:?}");
        }
        assert!(Role::Administrator.rights().has(AdminRight::Steer));
    }

    #[test]
    fn scopes_together_leave_everything_and_those_of_files_nothing() {
        let all = TokenScope::admin_rights_of(&TokenScope::ALL);
        assert_eq!(all, Role::Administrator.rights());
        let files = [TokenScope::FilesRead, TokenScope::FilesWrite];
        assert_eq!(TokenScope::admin_rights_of(&files), AdminRights::none());
        let reading = TokenScope::admin_rights_of(&[TokenScope::AdminRead]);
        assert!(reading.has(AdminRight::See) && !reading.has(AdminRight::Audit));
    }
}
