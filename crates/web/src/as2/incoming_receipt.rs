//! A receipt that a partner sends by itself, for a message of ours (RFC 4130 §7.2).
//!
//! Anybody can post one, so it counts only if one of the partner's certificates has signed it, or
//! if it names a message that this server has sent: nobody but the partner knows that name. It is
//! on stable storage before the partner is answered; the job that waits for it reads it there.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use entrepot_as2_proto::{
    As2Headers, Headers, MicalgStyle, ReadReceipt, ReceiptError, bare_message_id, is_message_id,
    read_receipt,
};
use entrepot_auth::As2Partner;
use entrepot_nouns::endpoint::As2ReceiptKind;
use entrepot_nouns::event::{As2Receipt, As2ReceivedReceipt, As2Refusal};
use entrepot_nouns::transfer::hex;

use super::incoming::{shortened, tell_of_refusal};
use crate::context::RequestContext;
use crate::limits::AS2_RECEIPT_BYTES;
use crate::problem::Problem;
use crate::upload_body::UploadBody;

/// A receipt whose partner is known.
pub(super) struct IncomingReceipt {
    pub(super) context: RequestContext,
    pub(super) partner: Arc<As2Partner>,
    /// The header of HTTP.
    pub(super) fields: Headers,
    /// The same as it is kept.
    pub(super) head: String,
    pub(super) names: As2Headers,
}

impl IncomingReceipt {
    /// Takes the receipt.
    pub(super) async fn receive(self, mut body: UploadBody) -> Result<Response, Problem> {
        let (shared, site) = (self.context.shared(), self.context.site);
        let body = body.whole(AS2_RECEIPT_BYTES).await?;
        let certificates = self.partner.certificates(shared.env().now());
        let read = match read_receipt(&self.fields, &body, &certificates) {
            Ok(read) => read,
            Err(ReceiptError::Malformed) => return self.refuse(None, "it cannot be read").await,
            Err(ReceiptError::Signature(error)) => {
                return self.refuse(None, &error.to_string()).await;
            }
        };
        let Some(id) = read.original_message_id.clone().filter(|id| is_message_id(id)) else {
            return self.refuse(None, "it names no message").await;
        };
        let job = shared.gate().sender_of_as2(site, &self.partner, bare_message_id(&id)).await?;
        if read.signature.is_none() {
            if job.is_none() {
                let why = "it is not signed, and names no message that was sent";
                return self.refuse(Some(id), why).await;
            }
            let must = self.partner.target.send.receipt == As2ReceiptKind::Signed;
            if must && read.outcome.is_success() {
                return self.refuse(Some(id), "it is not signed").await;
            }
        }
        let peer = self.context.connection.as_peer(shared, site);
        let received = self.received(id, &read, &body);
        let recorded = shared.gate().attempt(peer).as2_receipt(received, job).await;
        recorded.map_err(|error| Problem {
            status: StatusCode::SERVICE_UNAVAILABLE,
            ..Problem::from(error)
        })?;
        Ok(StatusCode::NO_CONTENT.into_response())
    }

    fn received(&self, message_id: String, read: &ReadReceipt, body: &[u8]) -> As2ReceivedReceipt {
        let value = |name: &str| self.fields.value(name).unwrap_or_default().to_owned();
        let signature = read.signature.as_ref();
        As2ReceivedReceipt {
            partner: self.partner.endpoint.clone(),
            message_id,
            disposition: shortened(&read.disposition),
            mic: read.mic.as_ref().map(|mic| mic.text(MicalgStyle::default())),
            signed_by: signature.map(|signature| hex(&signature.certificate.fingerprint())),
            address: self.context.peer().ip().to_canonical().to_string(),
            tls: self.context.connection.as2_tls(),
            receipt: Box::new(As2Receipt {
                message_id: shortened(&value("Message-ID")),
                content_type: value("Content-Type"),
                body: STANDARD.encode(body),
                url: None,
                head: Some(self.head.clone()),
                certificate: signature.map(|it| STANDARD.encode(it.certificate.der())),
            }),
        }
    }

    /// It counts for nothing: its sender is told, and it is in the audit log.
    async fn refuse(&self, message_id: Option<String>, why: &str) -> Result<Response, Problem> {
        let refusal = As2Refusal {
            partner: Some(self.partner.endpoint.clone()),
            from: self.names.from.as_str().to_owned(),
            to: self.names.to.as_str().to_owned(),
            message_id,
            disposition: format!("receipt: {why}"),
            address: self.context.peer().ip().to_canonical().to_string(),
            head: Some(self.head.clone()),
            tls: self.context.connection.as2_tls(),
            receipt: None,
        };
        tell_of_refusal(&self.context, &self.partner, refusal).await?;
        let why = format!("the receipt counts for nothing: {why}");
        Err(Problem::new(StatusCode::BAD_REQUEST, "EP1242", why))
    }
}
