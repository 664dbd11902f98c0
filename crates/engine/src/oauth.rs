//! Tokens of OAuth 2.0 by which servers of `http` steps know us (RFC 6749 §4.4, client
//! credentials). One is asked for when a step needs it, and used until it ends or is refused; it is
//! kept in memory alone.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use entrepot_net::dial::DialPolicy;
use entrepot_net::http::{Client, HeaderValue, Method, Request, Response, StatusCode, header};
use entrepot_nouns::endpoint::{OauthClient, OauthProof};
use entrepot_nouns::{Name, Secret};
use parking_lot::Mutex;
use serde::Deserialize;
use uuid::Uuid;

use crate::http_request::percent;
use crate::limits::{
    TOKEN_ANSWER_BYTES, TOKEN_MARGIN, TOKEN_TIME, TOKEN_TIME_MOST, TOKEN_WAIT, TOKENS,
};
use crate::web_client;

/// The tokens of a node.
#[derive(Default)]
pub(crate) struct Tokens(Mutex<HashMap<TokenOf, Held>>);

/// What a token is of: an endpoint as it is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TokenOf {
    pub(crate) endpoint: Uuid,
    pub(crate) version: i64,
}

struct Held {
    token: Secret,
    /// No step uses it from this moment on, by `Env::elapsed`.
    until: Duration,
}

/// Why there is no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TokenError {
    /// There may be one later.
    #[error("{0}")]
    Later(String),
    /// There will be none until something is changed.
    #[error("{0}")]
    Never(String),
}

/// Whom a token is asked of, and for whom.
pub(crate) struct Asking<'a> {
    pub(crate) endpoint: &'a Name,
    pub(crate) oauth: &'a OauthClient,
    pub(crate) secret: &'a Secret,
    pub(crate) client: &'a Client,
    pub(crate) dial: DialPolicy,
}

/// What a server that gives tokens answers (RFC 6749 §5.1).
#[derive(Deserialize)]
struct Given {
    access_token: Secret,
    token_type: String,
    #[serde(default)]
    expires_in: Option<u64>,
}

/// Why it gives none (§5.2).
#[derive(Deserialize)]
struct Refused {
    error: String,
    #[serde(default)]
    error_description: Option<String>,
}

impl Tokens {
    /// The token that was got before, if it is good for a while yet.
    pub(crate) fn held(&self, of: TokenOf, now: Duration) -> Option<Secret> {
        let held = self.0.lock();
        let held = held.get(&of).filter(|held| now < held.until)?;
        Some(held.token.clone())
    }

    /// It was refused: the next step asks for another one.
    pub(crate) fn forget(&self, of: TokenOf) {
        self.0.lock().remove(&of);
    }

    /// Asks for a token, which is remembered as long as its server says, from `now` on.
    pub(crate) async fn ask(
        &self,
        of: TokenOf,
        asking: &Asking<'_>,
        now: Duration,
    ) -> Result<Secret, TokenError> {
        let Asking { endpoint, client, .. } = *asking;
        let not_given = |text: String| format!("no token for endpoint '{endpoint}': {text}");
        let response = client.send(request(asking)?).await.map_err(|error| {
            let text = not_given(error.to_string());
            if error.is_temporary() { TokenError::Later(text) } else { TokenError::Never(text) }
        })?;
        let status = response.status;
        if status != StatusCode::OK {
            let text = not_given(refusal(response).await);
            let later = web_client::may_pass(status);
            return Err(if later { TokenError::Later(text) } else { TokenError::Never(text) });
        }
        let body = response.body.read_all(TOKEN_ANSWER_BYTES).await;
        let body = body.map_err(|error| {
            TokenError::Later(not_given(format!("the answer broke off ({error})")))
        })?;
        // What is wrong with the answer is not quoted: there may be a token in it.
        let given: Given = serde_json::from_slice(&body)
            .map_err(|_| TokenError::Never(not_given("the answer has none".to_owned())))?;
        if !given.token_type.eq_ignore_ascii_case("bearer") {
            let kind: String =
                given.token_type.chars().filter(|c| !c.is_control()).take(32).collect();
            let text = not_given(format!("it is of type '{kind}' and must be of type 'bearer'"));
            return Err(TokenError::Never(text));
        }
        let time = given.expires_in.map_or(TOKEN_TIME, Duration::from_secs).min(TOKEN_TIME_MOST);
        self.keep(of, given.access_token.clone(), now, time.saturating_sub(TOKEN_MARGIN));
        Ok(given.access_token)
    }

    fn keep(&self, of: TokenOf, token: Secret, now: Duration, time: Duration) {
        let mut held = self.0.lock();
        if held.len() >= TOKENS {
            held.retain(|_, held| now < held.until);
        }
        if held.len() >= TOKENS {
            held.clear();
        }
        // An endpoint that was changed has another version, and needs the old token no more.
        held.retain(|known, _| known.endpoint != of.endpoint);
        held.insert(of, Held { token, until: now.saturating_add(time) });
    }
}

fn request(asking: &Asking<'_>) -> Result<Request, TokenError> {
    let Asking { endpoint, oauth, secret, dial, .. } = *asking;
    let secret = std::str::from_utf8(secret.expose()).map_err(|_| {
        let text = format!("the password of endpoint '{endpoint}' is no text");
        TokenError::Never(text)
    })?;
    let mut form = vec![("grant_type", "client_credentials".to_owned())];
    if !oauth.scopes.is_empty() {
        form.push(("scope", oauth.scopes.join(" ")));
    }
    form.extend(oauth.audience.clone().map(|audience| ("audience", audience)));
    if oauth.proof == OauthProof::Body {
        form.push(("client_id", oauth.client.clone()));
        form.push(("client_secret", secret.to_owned()));
    }
    let form = form.iter().map(|(name, value)| format!("{name}={}", percent(value)));
    let form = form.collect::<Vec<_>>().join("&");
    let made = Request::new(Method::POST, &oauth.token_url);
    let mut request = made.map_err(|error| TokenError::Never(error.to_string()))?;
    request.dial = dial;
    request.head_time = TOKEN_WAIT;
    request.headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    if oauth.proof == OauthProof::Basic {
        // Both are encoded as in a form before they are put together (§2.3.1).
        let value = web_client::basic(&percent(&oauth.client), percent(secret).as_bytes());
        let unfit =
            || TokenError::Never(format!("the login of endpoint '{endpoint}' fits in no header"));
        let value = value.ok_or_else(unfit)?;
        request.headers.insert(header::AUTHORIZATION, value);
    }
    let media_type = HeaderValue::from_static("application/x-www-form-urlencoded");
    Ok(request.content(media_type, Bytes::from(form)))
}

/// Why no token was given, in the words of the server.
async fn refusal(response: Response) -> String {
    let status = response.status;
    let body = response.body.read_all(TOKEN_ANSWER_BYTES).await.unwrap_or_default();
    let Ok(refused) = serde_json::from_slice::<Refused>(&body) else {
        return format!("its server answered {status}");
    };
    let said = refused
        .error_description
        .map_or(refused.error.clone(), |more| format!("{}: {more}", refused.error));
    let said: String = said.chars().filter(|c| !c.is_control()).take(200).collect();
    format!("its server answered {status}: {said}")
}
