//! The shell of every page for people: head, style, the bar above and the policy that a browser
//! keeps to. It follows the reader's light or dark theme. A page needs no script, and
//! only those have one that offer passkeys.

use std::fmt::Write as _;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use entrepot_nouns::Env;

use crate::html::escape;

const CSS: &str = include_str!("page.css");

/// A page, to which its maker adds what stands in `main`.
pub(crate) struct Page {
    title: String,
    frame: Frame,
    main: String,
    script: Option<&'static str>,
}

/// What stands around the content of a page.
enum Frame {
    /// The bar of the server, with who is signed in.
    Bar(Option<Viewer>),
    /// One card and nothing else: what a share link opens, for people who have no account.
    Card,
}

/// Who reads a page.
#[derive(Clone, Debug)]
pub(crate) struct Viewer {
    /// The name of the account.
    pub(crate) account: String,
    /// What its forms must carry; `None`: no cookie signs the reader in, so nothing is asked for,
    /// and there is nothing to sign out of.
    pub(crate) csrf: Option<String>,
}

impl Viewer {
    /// The hidden field that every form of a page has.
    pub(crate) fn hidden(&self) -> String {
        let field = |token: &String| {
            format!("<input type=\"hidden\" name=\"csrf\" value=\"{}\">", escape(token))
        };
        self.csrf.as_ref().map(field).unwrap_or_default()
    }
}

impl Page {
    /// A page for a reader who is not signed in. The title is text.
    pub(crate) fn new(title: &str) -> Page {
        let frame = Frame::Bar(None);
        Page { title: escape(title), frame, main: String::new(), script: None }
    }

    /// A page for people who have no account here, which says nothing of the server.
    pub(crate) fn card(title: &str) -> Page {
        Page { frame: Frame::Card, ..Page::new(title) }
    }

    /// A page with the bar of who is signed in.
    pub(crate) fn of(title: &str, viewer: Viewer) -> Page {
        Page { frame: Frame::Bar(Some(viewer)), ..Page::new(title) }
    }

    /// Adds HTML; text in it must be escaped.
    pub(crate) fn push(&mut self, html: &str) {
        self.main.push_str(html);
    }

    /// Adds a script of ours, which runs when the page is there.
    pub(crate) fn script(&mut self, script: &'static str) {
        self.script = Some(script);
    }

    /// Adds a sentence about what went wrong, which is read out at once.
    pub(crate) fn alert(&mut self, text: &str) {
        self.push(&format!("<p role=\"alert\" class=\"bad\">{}</p>\n", escape(text)));
    }

    /// The answer. Nothing of it is kept by a browser or a proxy.
    pub(crate) fn answer(self, status: StatusCode, env: &Env) -> Response {
        let nonce = nonce(env);
        let mut allowed = policy(&nonce);
        if self.script.is_some() {
            allowed.push_str(&format!("; script-src 'nonce-{nonce}'; connect-src 'self'"));
        }
        let mut response = Response::new(Body::from(self.html(&nonce)));
        *response.status_mut() = status;
        let fields = response.headers_mut();
        fields.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        // Letters and digits of a nonce are always a field.
        if let Ok(policy) = HeaderValue::from_str(&allowed) {
            fields.insert(CONTENT_SECURITY_POLICY, policy);
        }
        response
    }

    fn html(&self, nonce: &str) -> String {
        let Page { title, frame, main, script } = self;
        let mut html = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"robots\" content=\"noindex,nofollow\">\n\
             <title>{title} · Entrepot</title>\n<style nonce=\"{nonce}\">{CSS}</style>\n</head>\n"
        );
        // To write into a string cannot fail.
        let _ = match frame {
            Frame::Bar(viewer) => {
                bar(&mut html, viewer.as_ref());
                write!(html, "<main id=\"main\">\n<h1>{title}</h1>\n{main}</main>\n")
            }
            Frame::Card => write!(
                html,
                "<body class=\"alone\">\n<main>\n<div class=\"card\">\n<h1>{title}</h1>\n\
                 {main}</div>\n<footer>Entrepot</footer>\n</main>\n"
            ),
        };
        if let Some(script) = script {
            let _ = writeln!(html, "<script nonce=\"{nonce}\">{script}</script>");
        }
        html.push_str("</body>\n</html>\n");
        html
    }
}

fn bar(html: &mut String, viewer: Option<&Viewer>) {
    html.push_str(
        "<body>\n<a class=\"skip\" href=\"#main\">Skip to content</a>\n<header>\n\
         <strong>Entrepot</strong>\n",
    );
    if let Some(viewer) = viewer {
        html.push_str("<nav aria-label=\"Main\"><a href=\"/files/\">Files</a>");
        if viewer.csrf.is_some() {
            html.push_str(" <a href=\"/account\">Account</a>");
        }
        // To write into a string cannot fail.
        let account = escape(&viewer.account);
        let _ = writeln!(html, "</nav>\n<span>Signed in as <b>{account}</b></span>");
        if viewer.csrf.is_some() {
            let hidden = viewer.hidden();
            let _ = writeln!(
                html,
                "<form method=\"post\" action=\"/sign-out\">{hidden}\
                 <button class=\"quiet\">Sign out</button></form>"
            );
        }
    }
    html.push_str("</header>\n");
}

/// A word that one page alone has, for its style.
fn nonce(env: &Env) -> String {
    let mut bytes = [0; 16];
    env.fill_random(&mut bytes);
    URL_SAFE_NO_PAD.encode(bytes)
}

/// What a browser may do with a page: its own style, its own forms, and no script.
fn policy(nonce: &str) -> String {
    format!(
        "default-src 'none'; style-src 'nonce-{nonce}'; form-action 'self'; \
         frame-ancestors 'none'; base-uri 'none'"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_no_script_and_shows_text_as_text() {
        let viewer = Viewer { account: "<b>".to_owned(), csrf: Some("\"x".to_owned()) };
        let mut page = Page::of("a & b", viewer);
        page.alert("<script>");
        let html = page.html("abc");
        assert!(html.contains("<title>a &amp; b · Entrepot</title>"), "{html}");
        assert!(html.contains("<b>&lt;b&gt;</b>") && html.contains("value=\"&quot;x\""), "{html}");
        assert!(html.contains("&lt;script&gt;") && !html.contains("<script"), "{html}");
        assert!(html.contains("<style nonce=\"abc\">") && policy("abc").contains("'nonce-abc'"));
        assert!(!policy("abc").contains("script-src"), "scripts are allowed");
        let plain = Page::of("x", Viewer { account: "anna".to_owned(), csrf: None }).html("abc");
        assert!(!plain.contains("Sign out") && !plain.contains("csrf"), "{plain}");
        let card = Page::card("<i>").html("abc");
        assert!(card.contains("<h1>&lt;i&gt;</h1>") && !card.contains("<header"), "{card}");
    }
}
