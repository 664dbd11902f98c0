//! Who makes a request, and what it may do.

use entrepot_auth::{Grant, Principal};
use entrepot_nouns::{
    AccountType, AdminRight, AdminRights, Name, Rights, Role, SiteId, TokenScope,
};

use crate::error::{AdminError, Result};

/// The administrator who makes a request, at the site that it works on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// An admin account, `cli:<user>`, or `node:<name>`.
    pub name: String,
    /// The site it works on.
    pub site: SiteId,
    /// The site of the account behind it.
    home: SiteId,
    rights: AdminRights,
    /// Of an account that is no administrator and asks about its own links: the rights on files
    /// that it logged in with.
    link_rights: Option<Rights>,
}

impl Actor {
    /// Who may read the data folder of the node, or the node itself: it may do everything.
    pub fn of_machine(name: String, site: SiteId) -> Actor {
        Actor::with_rights(name, site, Role::Administrator.rights())
    }

    /// An account that administers nothing but its own share links; `principal` with the rights
    /// that its session has.
    pub fn of_account(principal: &Principal) -> Actor {
        let rights = principal.mounts.iter().flat_map(|mount| mount.rights.iter()).collect();
        Actor {
            name: principal.account.name.to_string(),
            site: principal.site,
            home: principal.site,
            rights: AdminRights::none(),
            link_rights: Some(rights),
        }
    }

    /// The rights that its links have at most; `None`: it is an administrator.
    pub(crate) fn link_rights(&self) -> Option<Rights> {
        self.link_rights
    }

    /// Who has these rights and no more.
    pub(crate) fn with_rights(name: String, site: SiteId, rights: AdminRights) -> Actor {
        Actor { name, site, home: site, rights, link_rights: None }
    }

    /// The administrator who logged in, at its own site: it may do what its role allows, and of
    /// that what the scopes of its API token leave, if it logged in with one. Only accounts of
    /// `main` concern themselves with the installation as a whole.
    ///
    /// # Errors
    /// [`AdminError::NotAdministrator`]: the account is of another type than admin.
    pub fn of_grant(grant: &Grant) -> Result<Actor> {
        Actor::of_principal(grant.principal(), grant.scopes())
    }

    /// As [`Actor::of_grant`], of a session that was opened with such a grant.
    ///
    /// # Errors
    /// [`AdminError::NotAdministrator`]: the account is of another type than admin.
    pub fn of_principal(principal: &Principal, scopes: Option<&[TokenScope]>) -> Result<Actor> {
        let name = principal.account.name.to_string();
        let site = principal.site;
        if principal.account.account_type != AccountType::Admin {
            return Err(AdminError::NotAdministrator { actor: name });
        }
        let mut rights = principal.account.admin_rights();
        if site != SiteId::MAIN {
            rights = rights.and(Role::SiteAdministrator.rights());
        }
        if let Some(scopes) = scopes {
            rights = rights.and(TokenScope::admin_rights_of(scopes));
        }
        Ok(Actor::with_rights(name, site, rights))
    }

    /// An account as the actor of a change of its own, without any right to others.
    pub(crate) fn itself(owner: &Principal) -> Actor {
        Actor::with_rights(owner.account.name.to_string(), owner.site, AdminRights::none())
    }

    /// The same actor at another site.
    pub(crate) fn working_at(self, site: SiteId) -> Actor {
        Actor { site, ..self }
    }

    /// True if it has this right.
    pub fn may(&self, right: AdminRight) -> bool {
        self.rights.has(right)
    }

    /// Refuses what it has no right to.
    pub(crate) fn must(&self, right: AdminRight) -> Result<()> {
        if self.may(right) {
            return Ok(());
        }
        Err(AdminError::Forbidden { actor: self.name.clone(), right })
    }

    /// Nodes serve every site, so only actors of the site `main` steer them.
    pub(crate) fn must_be_of_main(&self) -> Result<()> {
        if self.site == SiteId::MAIN {
            return Ok(());
        }
        let problem = "nodes serve every site: ask at the site 'main'".to_owned();
        Err(AdminError::Refused { problem })
    }

    /// The account behind the actor; `cli:<user>` and `node:<name>` are none.
    pub(crate) fn account(&self) -> Option<Name> {
        self.name.parse().ok()
    }
    /// The account behind the actor, if it is one of the site that it works on.
    pub(crate) fn own_account(&self) -> Option<Name> {
        self.account().filter(|_| self.home == self.site)
    }
}
