//! What is kept of the request that carried a message, as evidence.

use entrepot_as2_proto::{Field, Headers};
use entrepot_net::http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use entrepot_nouns::event::As2Tls;
use entrepot_nouns::transfer::hex;
use serde::{Deserialize, Serialize};

/// What is kept of the request that carried a message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Carried {
    /// Its header, a field a line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) head: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tls: Option<As2Tls>,
}

impl Carried {
    /// By this request.
    pub(super) fn by(request: &Request) -> Carried {
        Carried { head: Some(fields(&request.headers).evidence()), tls: None }
    }

    /// Over the connection that this response came by.
    pub(super) fn over(self, response: &Response) -> Carried {
        let tls = response.tls.as_ref().map(|tls| As2Tls {
            version: tls.version.to_string(),
            suite: tls.suite.clone(),
            certificate: tls.certificate.as_ref().map(|it| hex(it)),
        });
        Carried { tls, ..self }
    }
}

/// The header of an answer.
pub(super) fn fields(headers: &HeaderMap) -> Headers {
    let field = |(name, value): (&HeaderName, &_)| Field {
        name: name.as_str().to_owned(),
        value: text_of(value),
    };
    Headers::new(headers.iter().map(field).collect())
}

fn text_of(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).trim().to_owned()
}
