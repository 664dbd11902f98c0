//! The head of the request that carries a message (RFC 4130 §6).

use std::time::Duration;

use entrepot_as2_proto::{Outgoing, micalg_name};
use entrepot_auth::as2;
use entrepot_net::dial::DialPolicy;
use entrepot_net::http::{HeaderCase, HeaderName, HeaderValue, Method, Request, header};
use entrepot_nouns::endpoint::As2ReceiptKind;

use super::draft::style;
use super::{AskedReceipt, Sending, StepError};
use crate::as2_fields as fields;
use crate::web_client;

/// What the exchange can beyond that: a message comes again under its id until it is answered.
const FEATURES: &str = "AS2-Reliability";
/// That a receipt is wanted; where it goes is said elsewhere, and this is read by nobody (RFC 4130
/// §7.3).
const RECEIPT_TO: &str = "as2@entrepot.invalid";

impl Sending {
    /// The request, without its body.
    pub(super) fn request(
        &self,
        outgoing: &Outgoing,
        receipt: AskedReceipt<'_>,
    ) -> Result<Request, StepError> {
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
            fields::name(name).ok_or_else(|| cannot("it has no AS2 names that can be sent"))
        };
        let mut all = vec![
            ("as2-version", fields::VERSION.to_owned()),
            ("as2-from", name(&target.station)?),
            ("as2-to", name(&target.partner)?),
            ("message-id", self.message_id.clone()),
            ("date", fields::date(self.started_at)),
            ("mime-version", "1.0".to_owned()),
            ("ediint-features", FEATURES.to_owned()),
            ("content-type", outgoing.content_type().to_owned()),
            ("content-transfer-encoding", "binary".to_owned()),
        ];
        let disposition = outgoing.content_disposition();
        all.extend(disposition.map(|it| ("content-disposition", it.to_owned())));
        all.extend(self.draft.subject.clone().map(|subject| ("subject", subject)));
        all.extend(self.receipt_fields(receipt));
        for (field, value) in all {
            let wrong = |_| cannot(&format!("'{value}' fits in no field {field}"));
            let value = HeaderValue::try_from(value.as_str()).map_err(wrong)?;
            request.headers.insert(HeaderName::from_static(field), value);
        }
        request.headers.insert(header::USER_AGENT, web_client::user_agent());
        if let Some((user, secret)) = target.user.as_ref().zip(self.secret.as_ref()) {
            let value = web_client::basic(user, secret.expose());
            let value = value.ok_or_else(|| cannot("its password fits in no header"))?;
            request.headers.insert(header::AUTHORIZATION, value);
        }
        Ok(request)
    }

    /// How the receipt is asked for.
    fn receipt_fields(&self, asked: AskedReceipt<'_>) -> Vec<(&'static str, String)> {
        let target = &self.partner.target;
        if target.send.receipt == As2ReceiptKind::None {
            return Vec::new();
        }
        let mut fields = vec![("disposition-notification-to", RECEIPT_TO.to_owned())];
        if target.send.receipt == As2ReceiptKind::Signed {
            let micalg = micalg_name(as2::digest(target.send.digest), style(target.send.micalg));
            let options = format!(
                "signed-receipt-protocol=optional, pkcs7-signature; \
                 signed-receipt-micalg=optional, {micalg}"
            );
            fields.push(("disposition-notification-options", options));
        }
        if let AskedReceipt::SentTo(url) = asked {
            fields.push(("receipt-delivery-option", url.to_owned()));
        }
        fields
    }
}
