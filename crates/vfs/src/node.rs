//! The node as an administrator steers it, from the command line or in a session of his own: how
//! fast everything together may go, and its end. Each order is in the audit log.

use entrepot_journal::Scope;
use entrepot_nouns::event::LimitedFact;
use entrepot_nouns::{AdminRight, Fact, PerDirection, SiteId};
use tokio_util::sync::CancellationToken;

use crate::error::{Result, VfsError};
use crate::service::Service;
use crate::session::Session;

impl Service {
    /// Sets how fast everything together on this node may go, of whichever site, until the node
    /// ends; `None`: as the policy of the site `main` says again. Answers what holds now.
    ///
    /// # Errors
    /// It cannot be recorded.
    pub fn limit_node(&self, rates: Option<PerDirection>, by: &str) -> Result<PerDirection> {
        self.limit(rates, by, &Scope::site(SiteId::MAIN))
    }

    /// Asks for the end of the node: running transfers may end, nothing new begins.
    ///
    /// # Errors
    /// It cannot be recorded.
    pub fn drain_node(&self, by: &str) -> Result<()> {
        self.end(by, &Scope::site(SiteId::MAIN))
    }

    /// Cancelled when the node is asked to end.
    pub fn draining(&self) -> CancellationToken {
        self.0.draining.clone()
    }

    fn limit(&self, rates: Option<PerDirection>, by: &str, scope: &Scope) -> Result<PerDirection> {
        let before = self.0.directory.order_node_rates(rates);
        let PerDirection { upload, download } = self.0.directory.node_rates();
        let rates = LimitedFact { upload, download, by: by.to_owned() };
        let fact = Fact::NodeLimited { rates };
        if let Err(error) = self.0.recorder.record(scope, fact) {
            self.0.directory.order_node_rates(before);
            return Err(error.into());
        }
        Ok(PerDirection { upload, download })
    }

    fn end(&self, by: &str, scope: &Scope) -> Result<()> {
        self.0.recorder.record(scope, Fact::NodeDraining { by: by.to_owned() })?;
        self.0.draining.cancel();
        Ok(())
    }
}

impl Session {
    /// As [`Service::limit_node`], by an administrator.
    ///
    /// # Errors
    /// The account is none, or it cannot be recorded.
    pub fn limit_node(&self, rates: Option<PerDirection>) -> Result<PerDirection> {
        let (service, by, scope) = self.administrator()?;
        service.limit(rates, &by, scope)
    }

    /// As [`Service::drain_node`], by an administrator.
    ///
    /// # Errors
    /// The account is none, or it cannot be recorded.
    pub fn drain_node(&self) -> Result<()> {
        let (service, by, scope) = self.administrator()?;
        service.end(&by, scope)
    }

    /// True if the account may steer the node, as it is now: one of the site `main` with the role
    /// of an administrator, for what it orders holds for every site.
    pub fn is_administrator(&self) -> bool {
        let principal = self.principal();
        principal.account.admin_rights().has(AdminRight::Steer) && principal.site == SiteId::MAIN
    }

    fn administrator(&self) -> Result<(&Service, String, &Scope)> {
        if !self.is_administrator() {
            return Err(VfsError::denied("steer the node"));
        }
        let state = &self.vfs().0;
        Ok((&state.service, self.principal().account.name.to_string(), &state.scope))
    }
}
