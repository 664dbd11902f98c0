//! How requests are sent to servers of others, what proves to them who asks, and what is made of
//! what they say.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use entrepot_net::http::{Client, HeaderValue, Response, StatusCode};
use entrepot_net::tls::{ClientIdentity, ServerTrust};
use entrepot_nouns::Secret;

use crate::limits::{HTTP_QUOTED_BYTES, HTTP_QUOTED_CHARACTERS, HTTP_QUOTED_TIME};

/// A client that checks servers by these authorities, or else by those of `system`.
pub(crate) fn client(system: &Client, authorities: Option<&str>) -> Client {
    match authorities {
        Some(pem) => Client::new(ServerTrust::Authorities(pem.as_bytes().to_vec())),
        None => system.clone(),
    }
}

/// The same, and one that shows its certificate to servers that ask for one, where it has any.
pub(crate) fn proving(
    system: &Client,
    authorities: Option<&str>,
    identity: Option<ClientIdentity>,
) -> Client {
    let Some(identity) = identity else { return client(system, authorities) };
    let trust = match authorities {
        Some(pem) => ServerTrust::Authorities(pem.as_bytes().to_vec()),
        None => ServerTrust::System,
    };
    Client::with_identity(trust, identity)
}

/// How the program names itself to servers.
pub(crate) fn user_agent() -> HeaderValue {
    HeaderValue::from_static(concat!("Entrepot/", env!("CARGO_PKG_VERSION")))
}

/// The value of `Authorization` for a user and a password (Basic authentication, RFC 7617); `None`:
/// they fit in no field.
pub(crate) fn basic(user: &str, secret: &[u8]) -> Option<HeaderValue> {
    let both = [user.as_bytes(), b":", secret].concat();
    sensitive(format!("Basic {}", STANDARD.encode(both)).as_bytes())
}

/// The same for a token (RFC 6750 §2.1).
pub(crate) fn bearer(token: &Secret) -> Option<HeaderValue> {
    sensitive(&[b"Bearer ", token.expose()].concat())
}

/// A value that no log shows.
pub(crate) fn sensitive(value: &[u8]) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_bytes(value).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Whether a server that answers so may answer otherwise later.
pub(crate) fn may_pass(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 425 | 429 | 500..=599)
}

/// Status and first words of an answer, in one line: what came of them in [`HTTP_QUOTED_TIME`].
pub(crate) async fn said(mut response: Response) -> String {
    let (status, mut said) = (response.status, Vec::new());
    let reading = async {
        while said.len() < HTTP_QUOTED_BYTES
            && let Ok(Some(part)) = response.body.next().await
        {
            said.extend_from_slice(&part);
        }
    };
    let _ = tokio::time::timeout(HTTP_QUOTED_TIME, reading).await;
    said.truncate(HTTP_QUOTED_BYTES);
    let said = String::from_utf8_lossy(&said);
    let plain = said.chars().map(|c| if c.is_control() { ' ' } else { c });
    let said: String = plain.take(HTTP_QUOTED_CHARACTERS).collect();
    let text = format!("{status}: {}", said.trim());
    text.trim_end_matches([':', ' ']).to_owned()
}
