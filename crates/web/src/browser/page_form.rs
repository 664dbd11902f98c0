//! What a form of a page sends (`application/x-www-form-urlencoded`).

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts as _, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use entrepot_nouns::http::HttpService;

use crate::api::query::Query;
use crate::context::RequestContext;
use crate::limits::PAGE_FORM_BYTES;
use crate::login::{Browser, Submitted};
use crate::problem::Problem;

/// A form of somebody who need not be signed in: its fields, each once or often.
pub(super) struct OpenForm {
    pub(super) context: RequestContext,
    pub(super) headers: HeaderMap,
    fields: Query,
}

/// A form of a page of the sign-in that sends it.
pub(super) struct BrowserForm {
    pub(super) browser: Browser,
    pub(super) form: OpenForm,
}

impl OpenForm {
    /// A field; empty if the form has none of the name.
    pub(super) fn text(&mut self, name: &str) -> Result<String, Problem> {
        Ok(self.fields.one(name)?.unwrap_or_default())
    }

    /// All values of a field, such as of boxes that are ticked.
    pub(super) fn all(&mut self, name: &str) -> Result<Vec<String>, Problem> {
        self.fields.all(name)
    }

    /// Where the browser goes next, if the form says so and it is an address of ours.
    pub(super) fn target(&mut self) -> Result<String, Problem> {
        let named = self.fields.one("to")?;
        Ok(target(&self.context, named))
    }

    async fn read(
        context: RequestContext,
        headers: HeaderMap,
        body: Body,
    ) -> Result<Self, Problem> {
        let kind = headers.get(CONTENT_TYPE).map(|kind| kind.as_bytes()).unwrap_or_default();
        if !kind.starts_with(b"application/x-www-form-urlencoded") {
            let why = "this address takes the form of its page \
                       (application/x-www-form-urlencoded)";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "EP1013", why));
        }
        let body = axum::body::to_bytes(body, PAGE_FORM_BYTES).await.map_err(|_| {
            Problem::malformed(format!(
                "the form cannot be read, or is more than {PAGE_FORM_BYTES} bytes long"
            ))
        })?;
        let text = std::str::from_utf8(&body);
        let text = text.map_err(|_| Problem::malformed("the form is no UTF-8"))?;
        Ok(OpenForm { context, headers, fields: Query::parse(text)? })
    }
}

impl<S: Send + Sync> FromRequest<S> for OpenForm {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let (mut parts, body) = request.into_parts();
        let context = RequestContext::from_request_parts(&mut parts, state).await?;
        OpenForm::read(context, parts.headers, body).await
    }
}

impl<S: Send + Sync> FromRequest<S> for BrowserForm {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let (mut parts, body) = request.into_parts();
        let context = RequestContext::from_request_parts(&mut parts, state).await?;
        let submitted = Submitted::from_request_parts(&mut parts, state).await?;
        let Submitted { signed_in, mut check } = submitted;
        let browser = Browser::of(context.clone(), signed_in)?;
        let mut form = OpenForm::read(context, parts.headers, body).await?;
        check.give(form.text("csrf")?.as_bytes());
        check.must_be_passed()?;
        Ok(BrowserForm { browser, form })
    }
}

/// An address of ours that was named as the next one; else that of the files, or of the account
/// where none are served.
pub(super) fn target(context: &RequestContext, named: Option<String>) -> String {
    let serves_files = context.connection.config.serves(HttpService::Files);
    let usual = if serves_files { "/files/" } else { "/account" };
    named.filter(|to| is_ours(to)).unwrap_or_else(|| usual.to_owned())
}

/// A path, and not what a browser takes for the beginning of another host.
fn is_ours(to: &str) -> bool {
    let is_plain = to.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    is_plain && to.starts_with('/') && !to.starts_with("//")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_led_to_another_site() {
        assert!(is_ours("/files/a%20b/?cursor=x"));
        for bad in ["", "https://evil.example", "//evil.example", "/\\evil.example", "/a\r\nX: y"] {
            assert!(!is_ours(bad), "{bad:?}");
        }
    }
}
