//! One call of the API: who calls, and what was sent.

use std::str::FromStr;

use axum::body::Bytes;
use axum::http::header::{CONTENT_TYPE, IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderName, Method, StatusCode};
use entrepot_admin::{Actor, Once, Request, Response as Answer, explained, is_dangerous};
use entrepot_nouns::NounVersion;
use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

use super::query::Query;
use super::served::Api;
use crate::login::SignedIn;
use crate::problem::Problem;

/// The key under which a request may be repeated (draft-ietf-httpapi-idempotency-key-header).
pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// One call, its path and query already taken apart.
pub(crate) struct Call {
    pub(crate) api: Api,
    /// The administrator who calls, at the site that the call is about.
    pub(crate) actor: Actor,
    /// Its session, for what outlasts the request.
    pub(crate) signed_in: SignedIn,
    pub(crate) method: Method,
    /// The path and query as they were sent.
    pub(crate) target: String,
    /// The words of the path at the places of the route's parameters, in order.
    pub(crate) path: Vec<String>,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Call {
    /// The word of the path at the first parameter of the route.
    pub(crate) fn word<T: FromStr<Err: std::fmt::Display>>(&self) -> Result<T, Problem> {
        let text = self.path.first().map(String::as_str).unwrap_or_default();
        text.parse().map_err(|problem: T::Err| Problem::malformed(problem.to_string()))
    }

    /// Asks the administration, at most once if the client has named a key.
    pub(crate) async fn ask(&self, request: Request) -> Result<Answer, Problem> {
        if let Some(browser) = self.signed_in.browser()
            && is_dangerous(&request)
        {
            browser.must_be_proven()?;
        }
        let admin = &self.api.admin;
        let answer = match self.once()? {
            Some(once) => admin.handle_once(&self.actor, request, &once).await,
            None => admin.handle(&self.actor, request).await,
        };
        Ok(answer?)
    }

    /// As [`Call::ask`], or only what it would do if the client asks for that.
    pub(crate) async fn change(&mut self, request: Request) -> Result<Answer, Problem> {
        let is_dry = self.query.flag("dry_run")?;
        self.query.finish()?;
        if is_dry {
            let of = Box::new(request);
            return Ok(self.api.admin.handle(&self.actor, Request::DryRun { of }).await?);
        }
        self.ask(request).await
    }

    fn once(&self) -> Result<Option<Once>, Problem> {
        let is_safe = matches!(self.method, Method::GET | Method::HEAD);
        let Some(key) = self.headers.get(IDEMPOTENCY_KEY).filter(|_| !is_safe) else {
            return Ok(None);
        };
        let key = key.to_str().map_err(|_| Problem::malformed("'Idempotency-Key' is no text"))?;
        let mut request = Vec::with_capacity(self.body.len() + self.target.len() + 64);
        let condition = self.headers.get(IF_MATCH).map(|value| value.as_bytes());
        let parts = [self.method.as_str().as_bytes(), self.target.as_bytes()];
        for part in parts.into_iter().chain([condition.unwrap_or_default(), &self.body]) {
            request.extend_from_slice(&(part.len() as u64).to_be_bytes());
            request.extend_from_slice(part);
        }
        Ok(Some(Once { key: key.to_owned(), request }))
    }

    /// The body as JSON.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        let is_json = self.headers.get(CONTENT_TYPE).is_none_or(|value| {
            let media = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default();
            let media = media.trim().to_ascii_lowercase();
            media == "application/json" || media == "application/merge-patch+json"
        });
        if !is_json {
            let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            let problem = "the body of this request is 'application/json', in a merge patch also \
                           'application/merge-patch+json'";
            return Err(Problem::new(status, "EP1113", problem));
        }
        serde_json::from_slice(&self.body).map_err(|error| unreadable(&error))
    }

    /// The versions of `If-Match`; empty: any will do.
    pub(crate) fn if_match(&self) -> Vec<NounVersion> {
        let mut versions = Vec::new();
        for tag in self.tags(IF_MATCH) {
            if tag == "*" {
                return Vec::new();
            }
            // What is no version of ours is the version of no noun: the condition fails.
            let none = NounVersion { id: Uuid::nil(), revision: 0 };
            versions.push(unquoted(&tag).unwrap_or(none));
        }
        versions
    }

    /// True if the client has this version already.
    pub(crate) fn has(&self, version: NounVersion) -> bool {
        let known = |tag: &str| tag == "*" || unquoted(tag) == Some(version);
        self.tags(IF_NONE_MATCH).iter().any(|tag| known(tag.trim_start_matches("W/")))
    }

    fn tags(&self, name: HeaderName) -> Vec<String> {
        let lines = self.headers.get_all(name).iter();
        let lines = lines.filter_map(|value| value.to_str().ok());
        let tags = lines.flat_map(|line| line.split(',')).map(str::trim);
        tags.filter(|tag| !tag.is_empty()).map(str::to_owned).collect()
    }
}

fn unquoted(tag: &str) -> Option<NounVersion> {
    tag.strip_prefix('"')?.strip_suffix('"')?.parse().ok()
}

/// The body has not the form that the request needs.
pub(crate) fn unreadable(error: &serde_json::Error) -> Problem {
    let message = format!("the request cannot be taken: {}", explained(&error.to_string()));
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "EP0205", message)
}

/// A value that has not the form that the request needs.
pub(crate) fn typed<T: DeserializeOwned>(value: Value) -> Result<T, Problem> {
    serde_json::from_value(value).map_err(|error| unreadable(&error))
}
