//! XML as WebDAV needs it: elements with namespaces and text, without attributes.

use quick_xml::NsReader;
use quick_xml::escape::{escape, unescape};
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::name::ResolveResult;

use crate::bad_body::BadBody;
use crate::limits::{BODY_BYTES, DEPTH, ELEMENTS};

/// The namespace of what RFC 4918 defines.
pub const DAV: &str = "DAV:";

/// The name of an element; of a property.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PropertyName {
    /// The namespace, resolved; empty where the name has none.
    pub namespace: String,
    /// The name without a prefix.
    pub name: String,
}

impl PropertyName {
    /// One that RFC 4918 defines.
    pub fn dav(name: &str) -> PropertyName {
        PropertyName { namespace: DAV.to_owned(), name: name.to_owned() }
    }

    /// True if RFC 4918 defines it by this name.
    pub fn is_dav(&self, name: &str) -> bool {
        self.namespace == DAV && self.name == name
    }
}

/// An element with what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    /// Its name with the namespace.
    pub name: PropertyName,
    /// What is in it, in order.
    pub nodes: Vec<Node>,
}

/// What an element holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// An element in the element.
    Element(Element),
    /// Text between elements, unescaped.
    Text(String),
}

impl Element {
    /// An element that RFC 4918 defines.
    pub fn dav(name: &str, nodes: Vec<Node>) -> Element {
        Element { name: PropertyName::dav(name), nodes }
    }

    /// The elements directly in it.
    pub fn elements(&self) -> impl Iterator<Item = &Element> {
        self.nodes.iter().filter_map(|node| match node {
            Node::Element(element) => Some(element),
            Node::Text(_) => None,
        })
    }

    /// The element of RFC 4918 of this name that lies directly in it.
    pub fn child(&self, name: &str) -> Option<&Element> {
        self.elements().find(|element| element.name.is_dav(name))
    }

    /// The text directly in it.
    pub fn text(&self) -> String {
        let texts = self.nodes.iter().filter_map(|node| match node {
            Node::Text(text) => Some(&**text),
            Node::Element(_) => None,
        });
        texts.collect()
    }

    /// Appends it as XML that stands for itself, whatever is around it.
    pub fn write(&self, out: &mut String) {
        let prefix = open(&self.name, out);
        if self.nodes.is_empty() {
            out.push_str("/>");
            return;
        }
        out.push('>');
        for node in &self.nodes {
            match node {
                Node::Element(element) => element.write(out),
                Node::Text(text) => out.push_str(&clean(text)),
            }
        }
        close(&self.name, prefix, out);
    }

    /// Reads the one element of a body.
    ///
    /// # Errors
    /// It is no XML in UTF-8, or larger than the limits say. Document types are refused: nobody
    /// needs one here, and entities of them are how small bodies become large.
    pub fn parse(body: &[u8]) -> Result<Element, BadBody> {
        if body.len() > BODY_BYTES {
            return Err(BadBody::TooLarge);
        }
        let text = std::str::from_utf8(body).map_err(|_| BadBody::Syntax)?;
        let mut reader = NsReader::from_str(text.trim_start_matches('\u{feff}'));
        reader.config_mut().expand_empty_elements = true;
        let mut open: Vec<Element> = Vec::new();
        let mut count = 0;
        let mut root: Option<Element> = None;
        loop {
            let (namespace, event) = reader.read_resolved_event().map_err(|_| BadBody::Syntax)?;
            match event {
                Event::Start(start) => {
                    count += 1;
                    if count > ELEMENTS || open.len() >= DEPTH {
                        return Err(BadBody::TooLarge);
                    }
                    if root.is_some() {
                        return Err(BadBody::Syntax);
                    }
                    drop_layout(open.last_mut());
                    open.push(Element { name: name(&namespace, &start)?, nodes: Vec::new() });
                }
                Event::End(_) => {
                    drop_layout(open.last_mut());
                    let done = open.pop().ok_or(BadBody::Syntax)?;
                    match open.last_mut() {
                        Some(parent) => parent.nodes.push(Node::Element(done)),
                        None => root = Some(done),
                    }
                }
                Event::Text(text) => {
                    add(&mut open, &text.decode().map_err(|_| BadBody::Syntax)?)?;
                }
                Event::CData(text) => {
                    add(&mut open, &text.decode().map_err(|_| BadBody::Syntax)?)?;
                }
                Event::GeneralRef(reference) => add(&mut open, &referred(&reference)?)?,
                Event::DocType(_) => return Err(BadBody::DocumentType),
                Event::Decl(_) | Event::PI(_) | Event::Comment(_) | Event::Empty(_) => {}
                Event::Eof => break,
            }
        }
        root.filter(|_| open.is_empty()).ok_or(BadBody::Syntax)
    }
}

fn name(namespace: &ResolveResult<'_>, start: &BytesStart<'_>) -> Result<PropertyName, BadBody> {
    let text =
        |bytes: &[u8]| std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| BadBody::Syntax);
    let namespace = match namespace {
        ResolveResult::Bound(namespace) => {
            let namespace = text(namespace.as_ref())?;
            unescape(&namespace).map_err(|_| BadBody::Syntax)?.into_owned()
        }
        ResolveResult::Unbound => String::new(),
        ResolveResult::Unknown(_) => return Err(BadBody::Syntax),
    };
    // A prefix that is bound to nothing (`xmlns:a=""`) is no name in XML 1.0.
    if namespace.is_empty() && start.name().prefix().is_some() {
        return Err(BadBody::Syntax);
    }
    if !namespace.chars().all(is_allowed) {
        return Err(BadBody::Syntax);
    }
    let name = text(start.local_name().as_ref())?;
    if !is_name(&name) {
        return Err(BadBody::Syntax);
    }
    Ok(PropertyName { namespace, name })
}

/// A name without a prefix (Namespaces in XML 1.0 §3, NCName).
fn is_name(name: &str) -> bool {
    let starts = |it: char| {
        matches!(it,
            'A'..='Z' | '_' | 'a'..='z' | '\u{c0}'..='\u{d6}' | '\u{d8}'..='\u{f6}'
            | '\u{f8}'..='\u{2ff}' | '\u{370}'..='\u{37d}' | '\u{37f}'..='\u{1fff}'
            | '\u{200c}' | '\u{200d}' | '\u{2070}'..='\u{218f}' | '\u{2c00}'..='\u{2fef}'
            | '\u{3001}'..='\u{d7ff}' | '\u{f900}'..='\u{fdcf}' | '\u{fdf0}'..='\u{fffd}'
            | '\u{10000}'..='\u{effff}')
    };
    let follows = |it: char| {
        starts(it)
            || matches!(it, '-' | '.' | '0'..='9' | '\u{b7}' | '\u{300}'..='\u{36f}'
                | '\u{203f}' | '\u{2040}')
    };
    name.starts_with(starts) && name.chars().all(follows)
}

fn referred(reference: &BytesRef<'_>) -> Result<String, BadBody> {
    if let Some(character) = reference.resolve_char_ref().map_err(|_| BadBody::Syntax)? {
        return Ok(character.to_string());
    }
    let name = reference.decode().map_err(|_| BadBody::Syntax)?;
    let known = match &*name {
        "amp" => "&",
        "lt" => "<",
        "gt" => ">",
        "quot" => "\"",
        "apos" => "'",
        _ => return Err(BadBody::Syntax),
    };
    Ok(known.to_owned())
}

/// Leaves out what was read of text since the last tag, if it is blanks alone: that is layout.
fn drop_layout(open: Option<&mut Element>) {
    let Some(element) = open else { return };
    if let Some(Node::Text(text)) = element.nodes.last()
        && text.trim().is_empty()
    {
        element.nodes.pop();
    }
}

/// Text comes in pieces: a reference (`&lt;`) and a comment end one.
fn add(open: &mut [Element], text: &str) -> Result<(), BadBody> {
    if !text.chars().all(is_allowed) {
        return Err(BadBody::Syntax);
    }
    let Some(element) = open.last_mut() else {
        return if text.trim().is_empty() { Ok(()) } else { Err(BadBody::Syntax) };
    };
    match element.nodes.last_mut() {
        Some(Node::Text(before)) => before.push_str(text),
        _ => element.nodes.push(Node::Text(text.to_owned())),
    }
    Ok(())
}

/// What stands before the name of an element in its tags.
#[derive(Clone, Copy)]
pub(crate) struct Prefix(&'static str);

/// Appends the opening tag without its end.
pub(crate) fn open(name: &PropertyName, out: &mut String) -> Prefix {
    let prefix = if name.namespace == DAV {
        Prefix("D:")
    } else if name.namespace.is_empty() {
        Prefix("")
    } else {
        Prefix("x:")
    };
    out.push('<');
    out.push_str(prefix.0);
    out.push_str(&name.name);
    match prefix.0 {
        "D:" => out.push_str(" xmlns:D=\"DAV:\""),
        "x:" => {
            out.push_str(" xmlns:x=\"");
            out.push_str(&clean(&name.namespace));
            out.push('"');
        }
        _ => {}
    }
    prefix
}

pub(crate) fn close(name: &PropertyName, prefix: Prefix, out: &mut String) {
    out.push_str("</");
    out.push_str(prefix.0);
    out.push_str(&name.name);
    out.push('>');
}

/// What XML 1.0 can write (§2.2).
fn is_allowed(character: char) -> bool {
    match character {
        '\t' | '\n' | '\r' => true,
        '\u{fffe}' | '\u{ffff}' => false,
        other => other >= ' ',
    }
}

/// Text as it stands in XML; what cannot be written becomes U+FFFD.
pub(crate) fn clean(text: &str) -> String {
    let shown = |it: char| if is_allowed(it) { it } else { '\u{fffd}' };
    let replaced: String = text.chars().map(shown).collect();
    escape(&replaced).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_goes_round() {
        let body = "<?xml version=\"1.0\"?>\n<a:x xmlns:a=\"DAV:\" xmlns=\"urn:z\">\n <b>1 &lt; \
                    &#50;<![CDATA[&]]></b><c xmlns=\"\"/>\n</a:x>";
        let element = Element::parse(body.as_bytes()).unwrap();
        assert!(element.name.is_dav("x"));
        let names: Vec<_> = element.elements().map(|it| &*it.name.namespace).collect();
        assert_eq!(names, ["urn:z", ""]);
        assert_eq!(element.elements().next().unwrap().text(), "1 < 2&");
        let mut written = String::new();
        element.write(&mut written);
        assert_eq!(Element::parse(written.as_bytes()).unwrap(), element, "{written}");
    }

    #[test]
    fn blanks_before_a_reference_are_text() {
        let element = Element::parse(b"<a> &quot;b<!-- --> </a>").unwrap();
        assert_eq!(element.text(), " \"b ");
        let element = Element::parse(b"<a> <b/> <!-- --> </a>").unwrap();
        assert_eq!(element.nodes.len(), 1);
    }

    #[test]
    fn what_is_not_taken() {
        let syntax = [
            "",
            "x",
            "<a>",
            "<a/><b/>",
            "<a/>x",
            "</a>",
            "<a>&b;</a>",
            "<p:a/>",
            "<a></b>",
            "< />",
            "<a\"/>",
            "<1/>",
            "<a xmlns:b='u'><b:c:d/></a>",
            "<a>&#1;</a>",
        ];
        for body in syntax {
            assert_eq!(Element::parse(body.as_bytes()), Err(BadBody::Syntax), "{body}");
        }
        assert_eq!(Element::parse(b"<a>\xff</a>"), Err(BadBody::Syntax));
        let doctype = "<!DOCTYPE a [<!ENTITY b \"c\">]><a/>";
        assert_eq!(Element::parse(doctype.as_bytes()), Err(BadBody::DocumentType));
        let deep = format!("{}{}", "<a>".repeat(DEPTH + 1), "</a>".repeat(DEPTH + 1));
        assert_eq!(Element::parse(deep.as_bytes()), Err(BadBody::TooLarge));
        let wide = format!("<a>{}</a>", "<b/>".repeat(ELEMENTS));
        assert_eq!(Element::parse(wide.as_bytes()), Err(BadBody::TooLarge));
        assert_eq!(Element::parse(&[b' '; BODY_BYTES + 1]), Err(BadBody::TooLarge));
    }

    #[test]
    fn what_xml_cannot_write_is_replaced() {
        assert_eq!(clean("a\u{1}<&\"\u{ffff}é"), "a\u{fffd}&lt;&amp;&quot;\u{fffd}é");
    }
}
