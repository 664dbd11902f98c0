//! Requests of `http` steps as their rule asks for them, before anything is sent.
//!
//! What placeholders stand for is data wherever it goes: percent-encoded in paths and forms,
//! escaped in JSON, XML and HTML, refused in fields that cannot hold it.

use std::fmt::Write as _;

use bytes::Bytes;
use entrepot_net::http::{HeaderName, HeaderValue, header};
use entrepot_nouns::rule::{HttpBody, HttpSpec};
use serde_json::Value as Json;

use crate::pattern::{self, PatternError, Values};

/// A request without the server that it goes to.
pub(crate) struct Draft {
    /// Path and query, behind the URL of the endpoint; empty, or begins with `/` or `?`.
    pub(crate) path: String,
    /// Fields of the request, the media type among them.
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) content: Content,
}

/// What a request carries.
#[derive(Debug, PartialEq)]
pub(crate) enum Content {
    Bytes(Bytes),
    /// The file of the event.
    File,
}

impl Draft {
    /// The request that `spec` asks for.
    pub(crate) fn of(spec: &HttpSpec, values: Values<'_>) -> Result<Draft, PatternError> {
        let path = path(&spec.path, values)?;
        let mut headers = Vec::with_capacity(spec.headers.len() + 1);
        for (name, pattern) in &spec.headers {
            let wrong = || {
                let why = "one line of printable characters is possible".to_owned();
                PatternError::NotSent(format!("the header '{name}'"), why)
            };
            let value = pattern::expand(pattern, values)?;
            let field = HeaderName::try_from(name.as_str()).map_err(|_| wrong())?;
            headers.push((field, HeaderValue::try_from(value).map_err(|_| wrong())?));
        }
        let given = headers.iter().find(|(name, _)| *name == header::CONTENT_TYPE);
        let given = given.and_then(|(_, value)| value.to_str().ok()).map(str::to_owned);
        let (content, media_type) = match &spec.body {
            HttpBody::None => (Content::Bytes(Bytes::new()), None),
            HttpBody::File => (Content::File, Some("application/octet-stream")),
            HttpBody::Json(value) => {
                let text = json(value, values)?.to_string();
                (Content::Bytes(text.into()), Some("application/json"))
            }
            HttpBody::Form(fields) => {
                let mut form = String::new();
                for (name, pattern) in fields {
                    let and = if form.is_empty() { "" } else { "&" };
                    let value = percent(&pattern::expand(pattern, values)?);
                    // Writing to a string does not fail.
                    let _ = write!(form, "{and}{}={value}", percent(name));
                }
                (Content::Bytes(form.into()), Some("application/x-www-form-urlencoded"))
            }
            HttpBody::Text(text) => {
                let escape = Escape::of(given.as_deref().unwrap_or_default());
                let value = |word: &str| Ok(escape.apply(pattern::value(word, values)?));
                let text = pattern::expand_with(text, value)?;
                (Content::Bytes(text.into()), Some("text/plain; charset=utf-8"))
            }
        };
        if let (None, Some(media_type)) = (given, media_type) {
            headers.push((header::CONTENT_TYPE, HeaderValue::from_static(media_type)));
        }
        Ok(Draft { path, headers, content })
    }
}

/// How what a placeholder stands for is written into a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Escape {
    Nothing,
    Json,
    Markup,
}

impl Escape {
    /// In a text of this media type.
    fn of(media_type: &str) -> Escape {
        let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let is = |word: &str| essence.ends_with(&format!("/{word}"));
        if is("json") || essence.ends_with("+json") {
            Escape::Json
        } else if is("xml") || is("html") || essence.ends_with("+xml") {
            Escape::Markup
        } else {
            Escape::Nothing
        }
    }

    fn apply(self, value: String) -> String {
        match self {
            Escape::Nothing => value,
            Escape::Json => {
                let quoted = Json::from(value).to_string();
                let inner = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
                inner.unwrap_or_default().to_owned()
            }
            Escape::Markup => markup(&value),
        }
    }
}

/// A value as text of XML or HTML, in content as in attributes.
pub(crate) fn markup(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for character in value.chars() {
        match character {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '"' => text.push_str("&quot;"),
            '\'' => text.push_str("&#39;"),
            // XML 1.0 has no way to write the other control characters.
            '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' => text.push('\u{fffd}'),
            other => text.push(other),
        }
    }
    text
}

/// The path of a request; what placeholders stand for is one component, or a part of one.
fn path(pattern: &str, values: Values<'_>) -> Result<String, PatternError> {
    let text = pattern::expand_with(pattern, |word| Ok(percent(&pattern::value(word, values)?)))?;
    let wrong = |why: &str| PatternError::NotSent(format!("'{text}'"), why.to_owned());
    let names = text.split('?').next().unwrap_or_default();
    if names.split('/').any(|name| matches!(name, "." | "..")) {
        return Err(wrong("a path has no component '.' or '..'"));
    }
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\"<>\\^`{|}#".contains(&byte);
    if !text.bytes().all(is_plain) {
        return Err(wrong("write blanks and special characters of a path as %20 and the like"));
    }
    Ok(text)
}

/// With everything escaped but what RFC 3986 §2.3 calls unreserved.
pub(crate) fn percent(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

/// The value with the placeholders in its texts replaced.
fn json(value: &Json, values: Values<'_>) -> Result<Json, PatternError> {
    Ok(match value {
        Json::String(pattern) => Json::String(pattern::expand(pattern, values)?),
        Json::Array(items) => {
            Json::Array(items.iter().map(|item| json(item, values)).collect::<Result<_, _>>()?)
        }
        Json::Object(fields) => {
            let fields =
                fields.iter().map(|(name, field)| Ok((name.clone(), json(field, values)?)));
            Json::Object(fields.collect::<Result<_, PatternError>>()?)
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => value.clone(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::uploaded;

    fn draft(name: &str, spec: Json) -> Result<Draft, PatternError> {
        let mut whole = json!({"endpoint": "e"});
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let spec: HttpSpec = serde_json::from_value(whole).unwrap();
        let event = uploaded(&format!("/in/{name}"));
        Draft::of(&spec, Values::from(&event))
    }

    fn body(name: &str, spec: Json) -> String {
        match draft(name, spec).unwrap().content {
            Content::Bytes(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
            Content::File => "the file".to_owned(),
        }
    }

    #[test]
    fn what_a_peer_named_stays_data_wherever_it_goes() {
        let name = "a\"b&c=d<e>?f#g%h i\u{e4}{date}\\";
        let path = draft(name, json!({"path": "/files/{name}?n={name}"})).unwrap().path;
        let coded = "a%22b%26c%3Dd%3Ce%3E%3Ff%23g%25h%20i%C3%A4%7Bdate%7D%5C";
        assert_eq!(path, format!("/files/{coded}?n={coded}"));
        let in_json = json!({"body": {"json": {"n": "{name}", "list": ["{name}", 1, null]}}});
        let sent: Json = serde_json::from_str(&body(name, in_json)).unwrap();
        assert_eq!(sent, json!({"n": name, "list": [name, 1, null]}));
        assert_eq!(body(name, json!({"body": {"form": {"n": "{name}"}}})), format!("n={coded}"));
        let typed = |media_type: &str| {
            body(
                name,
                json!({"headers": {"Content-Type": media_type}, "body": {"text": "'{name}'"}}),
            )
        };
        assert_eq!(typed("text/csv"), format!("'{name}'"));
        let json_text = typed("application/problem+json; charset=utf-8").replace('\'', "\"");
        assert_eq!(serde_json::from_str::<Json>(&json_text).unwrap(), json!(name));
        let marked = "'a&quot;b&amp;c=d&lt;e&gt;?f#g%h i\u{e4}{date}\\'";
        assert_eq!(typed("text/xml"), marked);
    }

    #[test]
    fn a_name_leads_to_no_other_path_and_ends_no_field() {
        assert!(draft("..", json!({"path": "/files/{name}/x"})).is_err());
        assert!(draft("x", json!({"path": "/files/../{name}"})).is_err());
        assert!(draft("x", json!({"path": "/a b/{name}"})).is_err());
        let header = json!({"headers": {"X-Name": "{name}"}});
        let wrong = draft("a\r\nX-Admin: yes", header.clone()).err().unwrap().to_string();
        assert!(wrong.contains("X-Name"), "{wrong}");
        let fields = draft("plain", header).unwrap().headers;
        assert_eq!(fields, [("x-name".parse().unwrap(), HeaderValue::from_static("plain"))]);
    }

    #[test]
    fn a_body_has_the_media_type_of_its_form_unless_the_rule_says_another() {
        let media_type = |spec: Json| {
            let fields = draft("n", spec).unwrap().headers;
            let all: Vec<_> = fields.iter().map(|(_, it)| it.to_str().unwrap()).collect();
            all.join(" ")
        };
        assert_eq!(media_type(json!({})), "");
        assert_eq!(media_type(json!({"body": "file"})), "application/octet-stream");
        assert_eq!(media_type(json!({"body": {"json": 1}})), "application/json");
        let own = json!({"headers": {"content-type": "text/csv"}, "body": "file"});
        assert_eq!(media_type(own), "text/csv");
    }
}
