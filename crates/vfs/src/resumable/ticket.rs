//! The secret by which an upload goes on when the session of its owner has ended.

use std::sync::Arc;

use entrepot_auth::{AuthError, Gate, Principal};

use super::create::ticket_hash;
use super::handle::ResumableUpload;
use super::record::UploadId;
use crate::error::{Result, VfsError};
use crate::limits;
use crate::service::Service;
use crate::session::Session;

/// An upload that is continued by its ticket: no other file of the account can be reached.
pub struct TicketedUpload {
    upload: ResumableUpload,
    /// Holds the account to its limits, and ends with it.
    session: Session,
}

impl Service {
    /// Opens the upload that a ticket belongs to, in place of a login. The account must be allowed
    /// to log in still, and each request asks for its rights. A ticket ends with its upload, and
    /// when nothing came by id for [`limits::TICKET_IDLE`].
    ///
    /// # Errors
    /// The ticket is good for nothing (any more), the account is disabled, or the upload lies on
    /// another node.
    pub async fn open_ticket(&self, gate: &Gate, ticket: &str) -> Result<TicketedUpload> {
        let (id, secret) = ticket.rsplit_once(':').ok_or(VfsError::NotFound)?;
        let id: UploadId = id.parse().map_err(|_| VfsError::NotFound)?;
        let hash = ticket_hash(secret);
        let owner = match self.0.book.look_by_id(&id) {
            Some(note) => {
                let idle = self.0.env.now().since(note.at);
                let record = note.by_id.filter(|record| record.ticket == hash);
                record.filter(|_| idle < limits::TICKET_IDLE).map(|_| (note.site, note.account))
            }
            None if id.node() != self.0.recorder.node() => {
                return Err(VfsError::OtherNode { node: id.node().to_string() });
            }
            None => {
                let finished = self.0.resumables.look_finished(&id);
                let finished = finished.filter(|finished| finished.ticket == hash);
                finished.map(|finished| (finished.site, finished.account))
            }
        };
        let (site, account) = owner.ok_or(VfsError::NotFound)?;
        let grant =
            gate.internal(site, &account, "upload ticket").await.map_err(|error| match error {
                AuthError::Refused { .. } => VfsError::denied("continue this upload"),
                _ => VfsError::busy("accounts cannot be looked up now"),
            })?;
        let session = Session::open(self, grant).await?;
        let upload = session.vfs().resumable(&id);
        Ok(TicketedUpload { upload, session })
    }
}

impl TicketedUpload {
    /// The upload, to be continued.
    pub fn upload(&self) -> &ResumableUpload {
        &self.upload
    }

    /// The account as it is now.
    pub fn principal(&self) -> Arc<Principal> {
        self.session.principal()
    }

    /// Waits until the account may not go on; gives the reason.
    pub fn ended(&self) -> impl Future<Output = String> + Send + 'static {
        self.session.ended()
    }

    /// The bandwidth limits of the account; changed live.
    pub fn throttles(&self) -> entrepot_auth::Throttles {
        self.session.throttles()
    }
}
