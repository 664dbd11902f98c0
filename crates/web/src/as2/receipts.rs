//! Receipts (RFC 8098, RFC 4130 §7): made while the message is at hand, kept with its event, and
//! given byte by byte the same whenever the message comes again.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use entrepot_as2_proto::{
    As2Headers, DigestAlgorithm, Disposition, Mic, MicalgStyle, Receipt, RsaPadding, Signer, signed,
};
use entrepot_auth::As2OwnKey;
use entrepot_nouns::Env;
use entrepot_nouns::event::As2Receipt;

use crate::limits::AS2_BOUNDARY_BYTES;
use crate::problem::Problem;

/// The version that is spoken: that of compression (RFC 5402).
const VERSION: &str = "1.2";

/// Makes the receipts of one message.
pub(super) struct Receipts<'a> {
    names: &'a As2Headers,
    env: &'a Env,
    key: Option<As2OwnKey>,
}

impl<'a> Receipts<'a> {
    /// Of a message whose sender is nobody who could check a signature.
    pub(super) fn unsigned(names: &'a As2Headers, env: &'a Env) -> Receipts<'a> {
        Receipts { names, env, key: None }
    }

    /// Of a message of a partner, signed with this key where that is asked for.
    pub(super) fn signed_by(
        names: &'a As2Headers,
        env: &'a Env,
        key: Option<As2OwnKey>,
    ) -> Receipts<'a> {
        Receipts { names, env, key }
    }

    /// The receipt; `None`: none was asked for.
    pub(super) fn make(&self, disposition: Disposition, mic: Option<&Mic>) -> Option<As2Receipt> {
        let request = self.names.receipt.as_ref()?;
        let receipt = Receipt {
            recipient: &self.names.to,
            original_message_id: self.names.message_id.as_deref().unwrap_or_default(),
            disposition,
            mic,
            style: MicalgStyle::default(),
            reporting_ua: concat!("Entrepot/", env!("CARGO_PKG_VERSION")),
        };
        let boundary = self.boundary();
        let mut document = receipt.document(&boundary);
        if request.options.signed
            && let Some(key) = &self.key
        {
            let signer = self.signer(key, mic);
            match signed(&document, &signer, MicalgStyle::default(), &self.boundary()) {
                Ok(with_signature) => document = with_signature,
                Err(error) => {
                    tracing::error!(code = "EP1201", %error, "a receipt of AS2 is not signed");
                }
            }
        }
        let id: entrepot_nouns::EventId = self.env.new_id();
        Some(As2Receipt {
            message_id: format!("<{id}@entrepot>"),
            content_type: document.content_type,
            body: STANDARD.encode(&document.body),
            url: request.delivery.clone(),
            head: None,
            certificate: None,
        })
    }

    /// By the first digest that was asked for, else by that of the message.
    fn signer(&self, key: &As2OwnKey, mic: Option<&Mic>) -> Signer {
        let digest = asked_digest(self.names).or(mic.map(|mic| mic.algorithm));
        Signer {
            certificate: key.certificate.clone(),
            key: key.private.clone(),
            digest: digest.unwrap_or(DigestAlgorithm::Sha256),
            padding: RsaPadding::Pkcs1,
            time: self.env.now().seconds(),
        }
    }

    /// Random, so that it does not occur in what it bounds.
    fn boundary(&self) -> String {
        let mut bytes = [0; AS2_BOUNDARY_BYTES];
        self.env.fill_random(&mut bytes);
        format!("entrepot-{}", entrepot_nouns::transfer::hex(&bytes))
    }
}

/// The first digest that the receipt was asked to have.
pub(super) fn asked_digest(names: &As2Headers) -> Option<DigestAlgorithm> {
    names.receipt.as_ref()?.options.digests.first().copied()
}

/// The answer to a message with a receipt: the receipt, or nothing, for it is sent by itself.
pub(super) fn answer(names: &As2Headers, receipt: &As2Receipt) -> Result<Response, Problem> {
    if receipt.url.is_some() {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let unreadable = |what: &str| {
        let why = format!("the receipt cannot be given: {what}");
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "EP1205", why)
    };
    let body = STANDARD.decode(&receipt.body).map_err(|_| unreadable("its body is damaged"))?;
    let mut response = Response::new(Body::from(body));
    let field = |value: &str| {
        HeaderValue::from_str(value).map_err(|_| unreadable("a field of it is damaged"))
    };
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, field(&receipt.content_type)?);
    for (name, value) in [
        ("as2-version", VERSION),
        ("as2-from", &names.to.field()),
        ("as2-to", &names.from.field()),
        ("message-id", &receipt.message_id),
        ("mime-version", "1.0"),
    ] {
        fields.insert(HeaderName::from_static(name), field(value)?);
    }
    Ok(response)
}
