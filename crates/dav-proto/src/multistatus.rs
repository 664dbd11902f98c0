//! The body of a 207 (RFC 4918 §13), written as it grows: a folder may have many entries.

use crate::element::{Element, PropertyName, clean, close, open};

/// What a property holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Nothing: its name was asked for, or it is not there.
    Empty,
    /// Text that is escaped when it is written.
    Text(String),
    /// Elements, each with its content.
    Elements(Vec<Element>),
}

/// A property with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Property {
    /// Its name with the namespace.
    pub name: PropertyName,
    /// What it holds.
    pub value: Value,
}

/// Properties that one status is true of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PropStat {
    /// Such as 200 or 404.
    pub status: u16,
    /// The properties that have it.
    pub properties: Vec<Property>,
}

/// A body in the making.
#[derive(Debug)]
pub struct MultiStatus {
    text: String,
}

impl Default for MultiStatus {
    fn default() -> Self {
        let text = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"DAV:\">\n";
        MultiStatus { text: text.to_owned() }
    }
}

impl MultiStatus {
    /// Adds a resource with its properties; `href` is its percent-encoded path.
    pub fn properties(&mut self, href: &str, groups: &[PropStat]) {
        self.begin(href);
        for group in groups.iter().filter(|group| !group.properties.is_empty()) {
            self.text.push_str("<D:propstat><D:prop>");
            for property in &group.properties {
                write(property, &mut self.text);
            }
            self.text.push_str("</D:prop>");
            self.status(group.status);
            self.text.push_str("</D:propstat>");
        }
        self.text.push_str("</D:response>\n");
    }

    /// Adds a resource that this status is true of as a whole, with the precondition that failed
    /// (§16), if one did.
    pub fn outcome(&mut self, href: &str, status: u16, condition: Option<&str>) {
        self.begin(href);
        self.status(status);
        if let Some(condition) = condition {
            self.text.push_str("<D:error>");
            Element::dav(condition, Vec::new()).write(&mut self.text);
            self.text.push_str("</D:error>");
        }
        self.text.push_str("</D:response>\n");
    }

    /// Takes what was written so far, to be sent.
    pub fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    /// What is left, with the end.
    pub fn finish(mut self) -> String {
        self.text.push_str("</D:multistatus>\n");
        self.text
    }

    fn begin(&mut self, href: &str) {
        self.text.push_str("<D:response><D:href>");
        self.text.push_str(&clean(href));
        self.text.push_str("</D:href>");
    }

    fn status(&mut self, status: u16) {
        self.text.push_str(&format!("<D:status>HTTP/1.1 {status} {}</D:status>", reason(status)));
    }
}

/// A body with one property, as LOCK answers (§9.10.1).
pub fn property_body(property: &Property) -> String {
    let mut text =
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:prop xmlns:D=\"DAV:\">".to_owned();
    write(property, &mut text);
    text.push_str("</D:prop>\n");
    text
}

/// A body that says which precondition failed (§16).
pub fn error_body(condition: &str) -> String {
    let mut text =
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:error xmlns:D=\"DAV:\">".to_owned();
    Element::dav(condition, Vec::new()).write(&mut text);
    text.push_str("</D:error>\n");
    text
}

fn write(property: &Property, out: &mut String) {
    let prefix = open(&property.name, out);
    match &property.value {
        Value::Empty => {
            out.push_str("/>");
            return;
        }
        Value::Text(text) => {
            out.push('>');
            out.push_str(&clean(text));
        }
        Value::Elements(elements) => {
            out.push('>');
            for element in elements {
                element.write(out);
            }
        }
    }
    close(&property.name, prefix, out);
}

/// The words of a status; clients read the number.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        204 => "No Content",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        409 => "Conflict",
        412 => "Precondition Failed",
        423 => "Locked",
        424 => "Failed Dependency",
        507 => "Insufficient Storage",
        _ => "Status",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_names_whatever_they_hold() {
        let mut body = MultiStatus::default();
        let text = |text: &str| Value::Text(text.to_owned());
        let property = |name, value| Property { name: PropertyName::dav(name), value };
        let displayed = property("displayname", text("</D:displayname><evil>&\u{2}"));
        let kind = Value::Elements(vec![Element::dav("collection", Vec::new())]);
        let found =
            PropStat { status: 200, properties: vec![displayed, property("resourcetype", kind)] };
        let other = PropertyName { namespace: "urn:\"x".to_owned(), name: "y".to_owned() };
        let missing = PropStat {
            status: 404,
            properties: vec![Property { name: other.clone(), value: Value::Empty }],
        };
        body.properties("/dav/a%20b&c", &[found, missing]);
        let first = body.take();
        body.outcome("/dav/x", 423, Some("lock-token-submitted"));
        let all = first + &body.finish();
        let root = Element::parse(all.as_bytes()).unwrap_or_else(|error| panic!("{error}: {all}"));
        let responses: Vec<_> = root.elements().collect();
        assert_eq!(responses.len(), 2);
        assert_eq!(responses[0].child("href").unwrap().text(), "/dav/a%20b&c");
        let groups: Vec<_> =
            responses[0].elements().filter(|it| it.name.is_dav("propstat")).collect();
        let shown = groups[0].child("prop").unwrap().child("displayname").unwrap();
        assert_eq!(shown.text(), "</D:displayname><evil>&\u{fffd}");
        assert_eq!(groups[1].child("prop").unwrap().elements().next().unwrap().name, other);
        assert_eq!(groups[1].child("status").unwrap().text(), "HTTP/1.1 404 Not Found");
        assert!(responses[1].child("error").unwrap().child("lock-token-submitted").is_some());
    }
}
