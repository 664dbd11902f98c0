//! Which site a client reaches by a host name.

use entrepot_nouns::{HostName, SiteId};

use super::Gate;
use crate::directory::ReachedSite;
use crate::error::Result;

impl Gate {
    /// The site that a client of a listener of `home` reaches by a host name; `None`: none.
    ///
    /// # Errors
    /// The database is away, and was never asked before.
    pub async fn site_of_host(&self, home: SiteId, host: &str) -> Result<Option<ReachedSite>> {
        let Ok(host) = host.parse::<HostName>() else { return Ok(None) };
        let hosts = self.0.directory.hosts().await?;
        Ok(hosts.get(&host).filter(|site| serves(home, site.id)).cloned())
    }

    /// Whether a client of a listener of `home` reaches any site by a host name.
    ///
    /// # Errors
    /// The database is away, and was never asked before.
    pub async fn knows_hosts(&self, home: SiteId) -> Result<bool> {
        let hosts = self.0.directory.hosts().await?;
        Ok(hosts.values().any(|site| serves(home, site.id)))
    }
}

/// Listeners of `main` serve every site; those of another site serve that one alone.
fn serves(home: SiteId, site: SiteId) -> bool {
    home == SiteId::MAIN || home == site
}
