//! The head of the request that carries a message (RFC 4130 §6).

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use entrepot_as2_proto::{As2Name, Outgoing, micalg_name};
use entrepot_auth::as2;
use entrepot_net::dial::DialPolicy;
use entrepot_net::http::{HeaderCase, HeaderName, HeaderValue, Method, Request, header};
use entrepot_nouns::Timestamp;
use entrepot_nouns::endpoint::As2ReceiptKind;

use super::draft::style;
use super::{Sending, StepError, http};

/// The version that is spoken: that of compression (RFC 5402) and of `EDIINT-Features`.
const VERSION: &str = "1.2";
/// What the exchange can beyond that: a message comes again under its id until it is answered.
const FEATURES: &str = "AS2-Reliability";
/// Receipts are given as the answer: what stands here is read by nobody (RFC 4130 §7.3).
const RECEIPT_TO: &str = "as2@entrepot.invalid";

impl Sending {
    /// The request, without its body.
    pub(super) fn request(&self, outgoing: &Outgoing) -> Result<Request, StepError> {
        let (target, endpoint) = (&self.partner.target, &self.partner.endpoint);
        let cannot =
            |why: &str| StepError::permanent("EP1210", format!("endpoint '{endpoint}': {why}"));
        let url = target.url.as_ref();
        let url = url.ok_or_else(|| cannot("nothing is sent to it, for it has no 'url'"))?;
        let made = Request::new(Method::POST, url);
        let mut request =
            made.map_err(|error| StepError::permanent(error.code(), error.to_string()))?;
        request.dial = DialPolicy { allow_private: target.allow_private };
        request.case = HeaderCase::Title;
        // What is too long is said by how long nothing moves, for a message may be of any size.
        request.head_time = Duration::MAX;
        let name = |name: &str| {
            let name = As2Name::new(name).map(|name| name.field());
            name.ok_or_else(|| cannot("it has no AS2 names that can be sent"))
        };
        let mut fields = vec![
            ("as2-version", VERSION.to_owned()),
            ("as2-from", name(&target.station)?),
            ("as2-to", name(&target.partner)?),
            ("message-id", self.message_id.clone()),
            ("date", date(self.started_at)),
            ("mime-version", "1.0".to_owned()),
            ("ediint-features", FEATURES.to_owned()),
            ("content-type", outgoing.content_type().to_owned()),
            ("content-transfer-encoding", "binary".to_owned()),
        ];
        let disposition = outgoing.content_disposition();
        fields.extend(disposition.map(|it| ("content-disposition", it.to_owned())));
        fields.extend(self.draft.subject.clone().map(|subject| ("subject", subject)));
        fields.extend(self.receipt_fields());
        for (field, value) in fields {
            let wrong = |_| cannot(&format!("'{value}' fits in no field {field}"));
            let value = HeaderValue::try_from(value.as_str()).map_err(wrong)?;
            request.headers.insert(HeaderName::from_static(field), value);
        }
        request.headers.insert(header::USER_AGENT, http::user_agent());
        if let Some((user, secret)) = target.user.as_ref().zip(self.secret.as_ref()) {
            let both = [user.as_bytes(), b":", secret.expose()].concat();
            let value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(both)));
            let mut value = value.map_err(|_| cannot("its password fits in no header"))?;
            value.set_sensitive(true);
            request.headers.insert(header::AUTHORIZATION, value);
        }
        Ok(request)
    }

    /// How the receipt is asked for.
    fn receipt_fields(&self) -> Vec<(&'static str, String)> {
        let send = self.partner.target.send;
        let to = ("disposition-notification-to", RECEIPT_TO.to_owned());
        match send.receipt {
            As2ReceiptKind::None => Vec::new(),
            As2ReceiptKind::Unsigned => vec![to],
            As2ReceiptKind::Signed => {
                let micalg = micalg_name(as2::digest(send.digest), style(send.micalg));
                let options = format!(
                    "signed-receipt-protocol=optional, pkcs7-signature; \
                     signed-receipt-micalg=optional, {micalg}"
                );
                vec![to, ("disposition-notification-options", options)]
            }
        }
    }
}

/// As HTTP has it (RFC 9110 §5.6.7).
fn date(at: Timestamp) -> String {
    let at = jiff::Timestamp::from_second(at.seconds()).unwrap_or_default();
    let text = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&at);
    text.unwrap_or_default()
}
