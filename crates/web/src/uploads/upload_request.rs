//! A request for one upload: from its owner, or with its ticket.

use axum::body::Body;
use axum::extract::FromRequestParts as _;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use entrepot_vfs::{ResumableUpload, TicketedUpload, UploadId, VfsError};
use futures_util::FutureExt as _;

use super::tus::{self, UPLOAD_OFFSET};
use crate::context::RequestContext;
use crate::hooks::CommandRules;
use crate::login::SignedIn;
use crate::problem::Problem;
use crate::upload_body::UploadBody;

/// The secret that continues one upload when the sign-in of its owner has ended.
pub(super) const UPLOAD_TICKET: HeaderName = HeaderName::from_static("upload-ticket");

/// A request for one upload.
pub(super) struct UploadRequest {
    pub(super) context: RequestContext,
    pub(super) upload: ResumableUpload,
    pub(super) fields: HeaderMap,
    sender: Sender,
}

/// By what a request may continue an upload. It is held while the request runs.
enum Sender {
    Owner(SignedIn),
    Ticket(Box<TicketedUpload>),
}

impl UploadRequest {
    /// Looks who sends the request. A ticket counts more than a sign-in, which may have ended.
    ///
    /// # Errors
    /// There is no such upload for the sender, or the sender is nobody.
    pub(super) async fn of(
        context: RequestContext,
        id: &str,
        head: &mut Parts,
    ) -> Result<UploadRequest, Problem> {
        let id = id.parse::<UploadId>().map_err(|_| no_such_upload());
        let (sender, upload) = match tus::text(&head.headers, &UPLOAD_TICKET)? {
            Some(ticket) => {
                let ticketed = by_ticket(&context, &id?, ticket).await?;
                let upload = ticketed.upload().clone();
                (Sender::Ticket(Box::new(ticketed)), upload)
            }
            None => {
                let signed_in = SignedIn::from_request_parts(head, &()).await?;
                let upload = signed_in.vfs().resumable(&id?);
                (Sender::Owner(signed_in), upload)
            }
        };
        let fields = std::mem::take(&mut head.headers);
        Ok(UploadRequest { context, upload, fields, sender })
    }

    /// The rules on the upload.
    pub(super) fn rules(&self) -> CommandRules {
        match &self.sender {
            Sender::Owner(signed_in) => signed_in.rules(&self.context),
            Sender::Ticket(ticketed) => {
                CommandRules::of_account(&self.context, &ticketed.principal().account.name)
            }
        }
    }

    /// The body, which comes as long as the account may send it.
    pub(super) fn body(&self, body: Body) -> UploadBody {
        let patience = self.context.connection.config.body_time();
        match &self.sender {
            Sender::Owner(signed_in) => UploadBody::new(body, signed_in.clone(), patience),
            Sender::Ticket(ticketed) => {
                let ended = ticketed.ended().map(drop);
                UploadBody::until(Box::pin(ended), body, patience)
            }
        }
    }
}

async fn by_ticket(
    context: &RequestContext,
    id: &UploadId,
    ticket: &str,
) -> Result<TicketedUpload, Problem> {
    let is_of_upload = ticket.rsplit_once(':').is_some_and(|(of, _)| of == id.to_string());
    if !is_of_upload {
        return Err(no_such_upload());
    }
    let shared = context.shared();
    let ticketed = shared.vfs().open_ticket(shared.gate(), ticket).await.map_err(of_upload)?;
    let principal = ticketed.principal();
    if principal.site != context.site {
        return Err(no_such_upload());
    }
    if !principal.policy.admits(context.peer().ip()) {
        let why = "the account of this upload may not send from this address";
        return Err(Problem::new(StatusCode::FORBIDDEN, "EP0402", why));
    }
    context.connection.continues(&ticketed);
    Ok(ticketed)
}

fn no_such_upload() -> Problem {
    let why = "there is no such upload for this sender: it has expired, was ended, or belongs to \
        another account; begin a new one";
    Problem::new(StatusCode::NOT_FOUND, "EP1087", why)
}

/// What is refused of a request for an upload, as the specification of tus numbers it.
pub(super) fn of_upload(error: VfsError) -> Problem {
    match error {
        VfsError::NotFound => no_such_upload(),
        VfsError::OffsetMismatch { offset } => {
            Problem::from(error).with(UPLOAD_OFFSET, HeaderValue::from(offset))
        }
        // "460 Checksum Mismatch"; the upload stands where it stood.
        VfsError::DigestMismatch { .. } => {
            let problem = Problem::from(error);
            Problem { status: StatusCode::from_u16(460).unwrap_or(problem.status), ..problem }
        }
        error => error.into(),
    }
}
