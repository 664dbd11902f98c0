//! Certificates that prove to servers who we are: keys that endpoints name.

use entrepot_net::tls::ClientIdentity;
use entrepot_nouns::{Endpoint, Key, KeyType, Stored};

use crate::shared::Shared;
use crate::step::StepError;

/// What proves to the server of an endpoint who we are, by the key that it names.
///
/// # Errors
/// The key is not there, does not count now, or cannot be opened.
pub(crate) async fn identity(
    shared: &Shared,
    server: &Stored<Endpoint>,
    key: Option<Key>,
) -> Result<Option<ClientIdentity>, StepError> {
    let Some((_, name)) = server.noun.target.client_key() else { return Ok(None) };
    let bad = |why: &str| StepError::permanent("EP0884", format!("key '{name}' {why}"));
    let key = key.ok_or_else(|| bad("is not there, create it or change the endpoint"))?;
    let now = shared.recorder.env().now();
    if key.key_type != KeyType::Tls {
        return Err(bad("is not of type tls"));
    }
    if let Some(why) = key.why_unusable(now) {
        return Err(bad(why));
    }
    let private = shared.file_access.private_key(server.site, &key).await?;
    let read = ClientIdentity::read(key.public.as_bytes(), &private);
    read.map(Some).map_err(|error| bad(&error.to_string()))
}
