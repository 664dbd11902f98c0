//! What a request of a partner shows besides its message, where that was agreed: it logs in as the
//! account of the partner, by HTTP Basic, by a certificate under TLS, or by both. The gate decides,
//! as for every other request of that account.

use axum::http::{HeaderMap, StatusCode};
use entrepot_auth::As2Partner;
use entrepot_nouns::Secret;
use entrepot_nouns::endpoint::As2Login;

use crate::context::RequestContext;
use crate::credentials::Credentials;
use crate::login::sign_in;
use crate::problem::Problem;

/// Passes if the request logs in as was agreed.
pub(super) async fn of_login(
    context: &RequestContext,
    partner: &As2Partner,
    fields: &HeaderMap,
) -> Result<(), Problem> {
    if partner.target.require.login == As2Login::None {
        return Ok(());
    }
    let Some(account) = &partner.target.account else { return Err(refused()) };
    let has_certificate = context.connection.certificate(context.shared()).is_some();
    let shown = match Credentials::of(fields)? {
        Some(Credentials::Basic { user, password }) if user == account.as_str() => {
            Credentials::Basic { user, password }
        }
        // The certificate alone may be enough.
        None if has_certificate => {
            Credentials::Basic { user: account.to_string(), password: Secret::new(Vec::new()) }
        }
        _ => return Err(refused()),
    };
    sign_in(context, shown).await.map(drop)
}

fn refused() -> Problem {
    let why = "messages of this partner log in as its account: by HTTP Basic, or by the \
               certificate of the client";
    Problem::new(StatusCode::UNAUTHORIZED, "EP1223", why)
}
