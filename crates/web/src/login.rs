//! Who a request is from: a name and a password, an API token, or the cookie of a browser that has
//! signed in. Whatever it shows, the gate decides; what follows is a session.

mod browser;
mod form_check;
mod password;
mod token;

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::header::{LOCATION, WWW_AUTHENTICATE};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use entrepot_admin::Actor;
use entrepot_auth::Principal;
use entrepot_nouns::Name;
use entrepot_vfs::{Session, Vfs};

use crate::accept::Wanted;
use crate::context::RequestContext;
use crate::credentials::Credentials;
use crate::files::path::encode_into;
use crate::hooks::CommandRules;
use crate::page::Viewer;
use crate::problem::{FORM_CHALLENGE, Problem};
use crate::sessions::UsedSession;

pub(crate) use browser::{
    BrowserSignIn, challenge_cookie, oidc_cookie, set_challenge_cookie, set_cookie,
    set_oidc_cookie, sign_out, unset_cookie, unset_oidc_cookie,
};
pub(crate) use form_check::FormCheck;

/// The account that a request is from, with its open session: an extractor of handlers, which
/// refuses requests of nobody.
#[derive(Clone)]
pub(crate) struct SignedIn {
    session: UsedSession,
    browser: Option<Arc<BrowserSignIn>>,
}

impl SignedIn {
    /// With a session that was opened otherwise, such as by a share link.
    pub(crate) fn with(session: UsedSession) -> SignedIn {
        SignedIn { session, browser: None }
    }

    pub(crate) fn session(&self) -> &Session {
        self.session.vfs_session()
    }

    /// The rules on what it asks for.
    pub(crate) fn rules(&self, context: &RequestContext) -> CommandRules {
        CommandRules::of(context, &self.session)
    }

    /// The rules on what it asks for, which an account lets it do by a link.
    pub(crate) fn rules_of_link(&self, context: &RequestContext, owner: &Name) -> CommandRules {
        CommandRules::of_link(context, &self.session, owner)
    }

    pub(crate) fn vfs(&self) -> &Vfs {
        self.session().vfs()
    }

    /// The account as it is now.
    pub(crate) fn principal(&self) -> Arc<Principal> {
        self.session().principal()
    }

    /// The browser that has signed in, if a cookie says who the request is from.
    pub(crate) fn browser(&self) -> Option<&BrowserSignIn> {
        self.browser.as_deref()
    }

    /// As pages show who reads them.
    pub(crate) fn viewer(&self) -> Viewer {
        let csrf = self
            .browser()
            .map(|browser| String::from_utf8_lossy(browser.known.csrf.expose()).into_owned());
        Viewer { account: self.principal().account.name.to_string(), csrf }
    }

    /// A problem as clients of this session see it: that the account may not do something on files
    /// may be the doing of the scopes of its API token.
    pub(crate) fn explained(&self, problem: Problem) -> Problem {
        if problem.code != "EP0402" {
            return problem;
        }
        let Some(scopes) = self.session().scopes() else { return problem };
        let words: Vec<&str> = scopes.iter().map(|scope| scope.as_str()).collect();
        let scopes = if words.is_empty() { "none".to_owned() } else { words.join(", ") };
        let detail = format!("{}; the scopes of this API token are: {scopes}", problem.detail);
        Problem { detail, ..problem }
    }

    /// Completes when the account may not go on.
    pub(crate) async fn ended(&self) {
        self.session.ended().await;
    }
}

impl<S: Send + Sync> FromRequestParts<S> for SignedIn {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Submitted { signed_in, check } = Submitted::from_request_parts(parts, state).await?;
        check.must_be_passed()?;
        Ok(signed_in)
    }
}

/// The account that a request is from, before it is known that a page of ours made a browser send
/// it: an extractor for handlers that look for that in a form.
pub(crate) struct Submitted {
    pub(crate) signed_in: SignedIn,
    pub(crate) check: FormCheck,
}

impl<S: Send + Sync> FromRequestParts<S> for Submitted {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let context = RequestContext::from_request_parts(parts, state).await?;
        let cookie = browser::cookie(&parts.headers, &context.connection);
        let signed_in = match (Credentials::of(&parts.headers)?, cookie) {
            (Some(credentials), _) => sign_in(&context, credentials).await?,
            (None, Some(cookie)) => match browser::find_or_open(&context, cookie).await? {
                Some((session, browser)) => {
                    context.connection.signed_in(&session);
                    SignedIn { session, browser: Some(Arc::new(browser)) }
                }
                None => return Err(nobody(parts)),
            },
            (None, None) => return Err(nobody(parts)),
        };
        let browser = signed_in.browser.as_ref();
        let check = FormCheck::of(&parts.method, &parts.headers, browser);
        Ok(Submitted { signed_in, check })
    }
}

/// Nobody is signed in: a browser is led to the page where it can, a program is asked for
/// credentials.
fn nobody(parts: &Parts) -> Problem {
    let why = "sign in: send the name and the password of an account, or an API token, with the \
               request";
    let path = parts.uri.path();
    // Clients of WebDAV are no browsers, whatever they accept.
    let is_browser = Wanted::of(&parts.headers) == Wanted::Html && !path.starts_with("/dav");
    if !is_browser {
        return Problem::new(StatusCode::UNAUTHORIZED, "EP1000", why);
    }
    let mut there = "/sign-in?to=".to_owned();
    encode_into(&mut there, parts.uri.path_and_query().map_or("/files/", |path| path.as_str()));
    let is_load = matches!(parts.method, Method::GET | Method::HEAD);
    match there.parse() {
        Ok(there) if is_load => {
            Problem::new(StatusCode::SEE_OTHER, "EP1000", why).with(LOCATION, there)
        }
        _ => Problem::new(StatusCode::UNAUTHORIZED, "EP1000", "sign in, then try again")
            .with(WWW_AUTHENTICATE, FORM_CHALLENGE),
    }
}

/// A browser that has signed in: an extractor of pages that are for nobody else, such as a program
/// with an API token.
pub(crate) struct Browser {
    pub(crate) context: RequestContext,
    pub(crate) signed_in: SignedIn,
    pub(crate) sign_in: Arc<BrowserSignIn>,
}

impl Browser {
    /// Of a request that is from somebody.
    ///
    /// # Errors
    /// No cookie says who.
    pub(crate) fn of(context: RequestContext, signed_in: SignedIn) -> Result<Browser, Problem> {
        let sign_in = signed_in.browser.clone().ok_or_else(|| {
            let why = "this page is for browsers that have signed in at /sign-in";
            Problem::new(StatusCode::FORBIDDEN, "EP1019", why)
        })?;
        Ok(Browser { context, signed_in, sign_in })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Browser {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let context = RequestContext::from_request_parts(parts, state).await?;
        Browser::of(context, SignedIn::from_request_parts(parts, state).await?)
    }
}

/// An administrator and the site it works on: an extractor of handlers, which refuses others.
pub(crate) struct Administrator {
    /// The account, for the administration.
    pub(crate) actor: Actor,
    /// The session that it signed in with.
    pub(crate) signed_in: SignedIn,
}

impl<S: Send + Sync> FromRequestParts<S> for Administrator {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let signed_in = SignedIn::from_request_parts(parts, state).await?;
        let scopes = signed_in.session().scopes();
        let actor = Actor::of_principal(&signed_in.principal(), scopes.as_deref())?;
        Ok(Administrator { actor, signed_in })
    }
}

/// The session of credentials; each kind of them has its arm.
pub(crate) async fn sign_in(
    context: &RequestContext,
    credentials: Credentials,
) -> Result<SignedIn, Problem> {
    let session = match credentials {
        Credentials::Basic { user, password } => {
            password::find_or_open(context, &user, &password).await?
        }
        Credentials::Bearer { token } => token::find_or_open(context, &token).await?,
    };
    context.connection.signed_in(&session);
    Ok(SignedIn { session, browser: None })
}
