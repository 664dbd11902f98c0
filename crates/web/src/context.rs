//! What is known of a request besides what stands in it.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use entrepot_auth::PageOrigin;
use entrepot_net::tls::ClientCertificate;
use entrepot_nouns::SiteId;

use crate::connection::Connection;
use crate::problem::Problem;
use crate::shared::ListenerShared;

/// What is known of a request besides what stands in it. Cheap to clone; an extractor of handlers.
#[derive(Clone)]
pub(crate) struct RequestContext {
    /// The site whose accounts sign in: chosen by the host that the request names.
    pub(crate) site: SiteId,
    /// Where a page is loaded from by the request; `None`: from an IP address.
    pub(crate) origin: Option<PageOrigin>,
    pub(crate) connection: Arc<Connection>,
    pub(crate) shared: Arc<ListenerShared>,
}

impl RequestContext {
    /// The client, also behind a balancer.
    pub(crate) fn peer(&self) -> SocketAddr {
        self.connection.peer
    }

    /// The certificate of the client. The authorities of a listener vouch for names of its own
    /// site alone.
    pub(crate) fn certificate_for(&self, site: SiteId) -> Option<ClientCertificate> {
        let shown = self.connection.certificate(&self.shared)?;
        let certified = shown.certified && self.shared.site() == site;
        Some(ClientCertificate { certified, ..shown.clone() })
    }

    /// What all connections of the listener share.
    pub(crate) fn shared(&self) -> &ListenerShared {
        &self.shared
    }
}

impl<S: Sync> FromRequestParts<S> for RequestContext {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        // The invariant: `request::answer` puts it into every request before a handler runs.
        let context = parts.extensions.get::<RequestContext>();
        Ok(context.expect("a request comes with its context").clone())
    }
}
