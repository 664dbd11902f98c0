//! What the API is served from.

use std::sync::Arc;

use entrepot_admin::Admin;
use entrepot_host::Applications;
use entrepot_nouns::as2::As2Entry;
use entrepot_nouns::{SiteId, TransferId};
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::watch;

use super::feed::Feeds;
use super::live::{LiveFeeds, LiveSource};

/// What the API shows of the node besides what the administration knows. The program that serves
/// implements it.
pub trait ApiNode: Send + Sync {
    /// The receipt of a transfer.
    fn receipt(
        &self,
        site: SiteId,
        transfer: TransferId,
    ) -> BoxFuture<'_, Result<Value, entrepot_admin::Problem>>;

    /// The evidence of a message of AS2, in one document.
    fn as2_evidence(
        &self,
        site: SiteId,
        entry: As2Entry,
    ) -> BoxFuture<'_, Result<Value, entrepot_admin::Problem>>;

    /// The last signed head of the node's journal, with the key that verifies it.
    fn head(&self) -> BoxFuture<'_, Result<Value, entrepot_admin::Problem>>;

    /// The metrics as they are now, in the text form of OpenMetrics.
    fn metrics(&self) -> BoxFuture<'_, String>;

    /// Changes whenever events of the node's journal are in the database.
    fn projected(&self) -> watch::Receiver<u64>;
}

/// What every call works with. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) admin: Arc<Admin>,
    pub(crate) node: Arc<dyn ApiNode>,
    pub(crate) feeds: Arc<Feeds>,
    pub(crate) live: Arc<LiveFeeds>,
    /// Unset: procedures of host applications cannot be called here.
    pub(crate) applications: Option<Applications>,
}

/// The API of a node, the same on all of its listeners. Cheap to clone.
#[derive(Clone)]
pub struct WebApi(pub(crate) Api);

impl WebApi {
    /// Over the administration, what the node says of itself, and what happens on it.
    pub fn new(admin: Arc<Admin>, node: Arc<dyn ApiNode>, live: LiveSource) -> WebApi {
        let feeds = Arc::new(Feeds::new(admin.clone(), node.projected()));
        let live = Arc::new(LiveFeeds::new(admin.clone(), live, feeds.end()));
        WebApi(Api { admin, node, feeds, live, applications: None })
    }

    /// With the host applications of the node.
    #[must_use]
    pub fn with_applications(mut self, applications: Applications) -> WebApi {
        self.0.applications = Some(applications);
        self
    }
}
