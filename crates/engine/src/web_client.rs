//! How requests are sent to servers of others, and what is quoted of what they say.

use entrepot_net::http::{Client, HeaderValue, Response};
use entrepot_net::tls::ServerTrust;

use crate::limits::{HTTP_QUOTED_BYTES, HTTP_QUOTED_CHARACTERS};

/// A client that checks servers by these authorities, or else by those of `system`.
pub(crate) fn client(system: &Client, authorities: Option<&str>) -> Client {
    match authorities {
        Some(pem) => Client::new(ServerTrust::Authorities(pem.as_bytes().to_vec())),
        None => system.clone(),
    }
}

/// How the program names itself to servers.
pub(crate) fn user_agent() -> HeaderValue {
    HeaderValue::from_static(concat!("Entrepot/", env!("CARGO_PKG_VERSION")))
}

/// Status and first words of an answer, in one line.
pub(crate) async fn said(response: Response) -> String {
    let status = response.status;
    let said = response.body.read_all(HTTP_QUOTED_BYTES).await.unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let plain = said.chars().map(|c| if c.is_control() { ' ' } else { c });
    let said: String = plain.take(HTTP_QUOTED_CHARACTERS).collect();
    let text = format!("{status}: {}", said.trim());
    text.trim_end_matches([':', ' ']).to_owned()
}
