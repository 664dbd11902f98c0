//! The password of a link, shown by a form of a browser.

use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::header::{LOCATION, SET_COOKIE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use entrepot_auth::LinkPassword;
use entrepot_nouns::Secret;

use super::page;
use super::visit::{ASKS_PASSWORD, COOKIE_NAME, LinkAddress, LinkVisit};
use crate::accept::Wanted;
use crate::context::RequestContext;
use crate::limits::LINK_PASSWORD_BYTES;
use crate::problem::Problem;

/// A browser shows the password in a form, and is given a cookie that stands for it at this link.
pub(super) async fn take(
    context: RequestContext,
    address: &LinkAddress,
    request: Request,
) -> Result<Response, Problem> {
    let wanted = Wanted::of(request.headers());
    let body = to_bytes(request.into_body(), LINK_PASSWORD_BYTES).await;
    let body = body.map_err(|_| Problem::malformed("the form cannot be read"))?;
    let password =
        password_of(&body).ok_or_else(|| Problem::malformed("the form has no field 'password'"))?;
    let opened = LinkVisit::open_with(&context, address, LinkPassword::Typed(&password)).await;
    let visit = match opened {
        Err(problem) if problem.code == ASKS_PASSWORD && wanted == Wanted::Html => {
            return Ok(page::password(context.shared().env(), StatusCode::FORBIDDEN));
        }
        visit => visit?,
    };
    let mut response = StatusCode::SEE_OTHER.into_response();
    let fields = response.headers_mut();
    // The invariant: an address that came as one has no byte that a field cannot have.
    if let Ok(root) = HeaderValue::from_str(&address.root) {
        fields.insert(LOCATION, root);
    }
    if let Some(cookie) = context.shared().gate().link_cookie(&visit.link, &address.secret) {
        let value = String::from_utf8_lossy(cookie.expose());
        let secure = if context.connection.is_encrypted() { "; Secure" } else { "" };
        let path = &address.root;
        let line = format!("{COOKIE_NAME}={value}; Path={path}; HttpOnly; SameSite=Strict{secure}");
        if let Ok(mut line) = HeaderValue::from_str(&line) {
            line.set_sensitive(true);
            fields.insert(SET_COOKIE, line);
        }
    }
    Ok(response)
}

/// The field of a form that browsers encode (application/x-www-form-urlencoded).
fn password_of(body: &[u8]) -> Option<Secret> {
    let mut fields = body.split(|byte| *byte == b'&');
    let value = fields.find_map(|field| field.strip_prefix(b"password="))?;
    let mut plain = Vec::with_capacity(value.len());
    let mut rest = value;
    while let [first, behind @ ..] = rest {
        rest = behind;
        plain.push(match first {
            b'+' => b' ',
            b'%' => {
                let [high, low, behind @ ..] = behind else { return None };
                rest = behind;
                let digit = |byte: u8| char::from(byte).to_digit(16);
                u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()?
            }
            byte => *byte,
        });
    }
    Some(Secret::new(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_decoded() {
        let of = |body: &str| password_of(body.as_bytes()).map(|it| it.expose().to_vec());
        assert_eq!(of("password=a+b%26%C3%A4"), Some("a b&ä".as_bytes().to_vec()));
        assert_eq!(of("x=1&password="), Some(Vec::new()));
        assert_eq!(of("password=%4"), None);
        assert_eq!(of("other=1"), None);
    }
}
