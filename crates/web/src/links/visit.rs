//! Who shows the secret of a link: which link it is, and whether it opens.

use std::sync::Arc;

use axum::http::header::COOKIE;
use axum::http::{HeaderMap, StatusCode, Uri};
use entrepot_auth::{LinkEnd, LinkPassword, LinkUses, LinkVerdict, Principal};
use entrepot_net::meter::EndClass;
use entrepot_nouns::{LinkTerms, Secret};
use entrepot_vfs::Session;

use crate::context::RequestContext;
use crate::credentials::Credentials;
use crate::hooks::CommandRules;
use crate::login::SignedIn;
use crate::problem::Problem;
use crate::sessions::Holder;

/// The code of a link whose password is not shown.
pub(super) const ASKS_PASSWORD: &str = "EP1163";
/// The cookie that stands for the password of a link.
pub(super) const COOKIE_NAME: &str = "entrepot-link";

/// An address of a link, taken apart.
pub(super) struct LinkAddress {
    pub(super) secret: Secret,
    /// `/s/SECRET`, as the client wrote it.
    pub(super) root: String,
    /// What follows, encoded.
    pub(super) path: String,
}

impl LinkAddress {
    pub(super) fn of(uri: &Uri) -> Option<LinkAddress> {
        let rest = uri.path().strip_prefix("/s/")?;
        let (secret, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        Some(LinkAddress {
            secret: Secret::new(secret.as_bytes()),
            root: format!("/s/{secret}"),
            path: path.to_owned(),
        })
    }
}

/// A link that is open.
pub(super) struct LinkVisit {
    pub(super) context: RequestContext,
    pub(super) signed_in: SignedIn,
    /// The account of the link.
    pub(super) link: Arc<Principal>,
    pub(super) terms: LinkTerms,
    pub(super) uses: LinkUses,
    /// The address of the link without the server: `/s/SECRET`.
    pub(super) root: String,
}

/// What a request shows of the password, in a form that outlives it.
enum Shown {
    Nothing,
    Typed(Secret),
    Remembered(Secret),
}

impl Shown {
    fn of(fields: &HeaderMap) -> Result<Shown, Problem> {
        // `curl -u :PASSWORD`; the name is ignored.
        if let Some(Credentials::Basic { password, .. }) = Credentials::of(fields)? {
            return Ok(Shown::Typed(password));
        }
        let lines = fields.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
        let mut cookies = lines.flat_map(|line| line.split(';'));
        let value =
            cookies.find_map(|cookie| cookie.trim().strip_prefix(COOKIE_NAME)?.strip_prefix('='));
        Ok(value.map_or(Shown::Nothing, |value| Shown::Remembered(Secret::new(value.as_bytes()))))
    }

    fn as_password(&self) -> LinkPassword<'_> {
        match self {
            Shown::Nothing => LinkPassword::Unshown,
            Shown::Typed(password) => LinkPassword::Typed(password),
            Shown::Remembered(cookie) => LinkPassword::Remembered(cookie),
        }
    }
}

impl LinkVisit {
    /// Opens the link of an address with what the fields of the request show.
    ///
    /// # Errors
    /// It opens nothing, or not for this client.
    pub(super) async fn open(
        context: &RequestContext,
        address: &LinkAddress,
        fields: &HeaderMap,
    ) -> Result<LinkVisit, Problem> {
        let shown = Shown::of(fields)?;
        LinkVisit::open_with(context, address, shown.as_password()).await
    }

    /// Opens it with this of its password.
    ///
    /// # Errors
    /// As [`LinkVisit::open`].
    pub(super) async fn open_with(
        context: &RequestContext,
        address: &LinkAddress,
        password: LinkPassword<'_>,
    ) -> Result<LinkVisit, Problem> {
        let sessions = &context.shared.sessions;
        // Who shows another password is another client.
        let mut proof = address.secret.expose().to_vec();
        match password {
            LinkPassword::Unshown => {}
            LinkPassword::Typed(secret) | LinkPassword::Remembered(secret) => {
                proof.push(0);
                proof.extend_from_slice(secret.expose());
            }
        }
        let peer = context.peer().ip();
        let key = sessions.key(context.site, Holder::Link, &Secret::new(proof), peer);
        let session = sessions.find_or_open(&key, new_session(context, address, password)).await?;
        context.connection.signed_in(&session);
        let signed_in = SignedIn::with(session);
        let link = signed_in.principal();
        let terms = link.link_terms().cloned().ok_or_else(unknown)?;
        let uses = context.shared().gate().link_uses(&link).await?;
        let (context, root) = (context.clone(), address.root.clone());
        Ok(LinkVisit { context, signed_in, link, terms, uses, root })
    }
}

impl LinkVisit {
    /// The rules on what the link opens: they are those on its owner.
    pub(super) fn rules(&self) -> CommandRules {
        self.signed_in.rules_of_link(&self.context, &self.terms.owner)
    }
}

async fn new_session(
    context: &RequestContext,
    address: &LinkAddress,
    password: LinkPassword<'_>,
) -> Result<Session, Problem> {
    let (connection, shared) = (&context.connection, context.shared());
    let peer = connection.as_peer(shared, context.site);
    let mut attempt = connection.attempt(shared, peer).await;
    let checking = connection.checking();
    let verdict = attempt.link(&address.secret, password).await;
    drop(attempt);
    drop(checking);
    let problem = match verdict {
        LinkVerdict::Granted(grant) => {
            return Session::open(shared.vfs(), *grant).await.map_err(Problem::from);
        }
        LinkVerdict::AsksPassword => {
            let why =
                "this link has a password: send it with HTTP Basic, such as 'curl -u :PASSWORD'";
            Problem::new(StatusCode::UNAUTHORIZED, ASKS_PASSWORD, why)
        }
        LinkVerdict::WrongPassword => {
            let why = "the password of this link is wrong";
            Problem::new(StatusCode::UNAUTHORIZED, ASKS_PASSWORD, why)
        }
        LinkVerdict::Ended(LinkEnd::Expired) => {
            let why = "this link has expired; ask who sent it for a new one";
            Problem::new(StatusCode::GONE, "EP1161", why)
        }
        LinkVerdict::Ended(LinkEnd::Revoked) => {
            let why = "this link was taken back; ask who sent it for a new one";
            Problem::new(StatusCode::GONE, "EP1162", why)
        }
        LinkVerdict::Unknown => unknown(),
        LinkVerdict::Limited => {
            connection.end(EndClass::Login, "too many wrong links or passwords");
            let why = "too many wrong links or passwords came from your address; try again later";
            Problem::new(StatusCode::TOO_MANY_REQUESTS, "EP1165", why)
        }
        LinkVerdict::Later => {
            let why = "the link cannot be checked at this moment; try again later";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "EP1003", why)
        }
        LinkVerdict::Refused => {
            let why = "this link cannot be used from here; ask who sent it";
            Problem::new(StatusCode::FORBIDDEN, "EP1167", why)
        }
    };
    Err(problem)
}

fn unknown() -> Problem {
    let why = "there is no such link; check that the whole address was copied";
    Problem::new(StatusCode::NOT_FOUND, "EP1160", why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_secret_and_a_path() {
        let of = |uri: &str| {
            let address = LinkAddress::of(&uri.parse().unwrap()).unwrap();
            (
                String::from_utf8(address.secret.expose().to_vec()).unwrap(),
                address.root,
                address.path,
            )
        };
        let parts =
            |secret: &str, path: &str| (secret.to_owned(), format!("/s/{secret}"), path.to_owned());
        assert_eq!(of("/s/abc"), parts("abc", ""));
        assert_eq!(of("/s/abc/"), parts("abc", "/"));
        assert_eq!(of("/s/abc/d%20e/f?x"), parts("abc", "/d%20e/f"));
    }
}
