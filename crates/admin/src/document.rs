//! Documents: YAML texts of any number of `---` parts, each a mapping with one key, the kind; the
//! body is the noun.

use std::fmt;

use entrepot_nouns::AnyNoun;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use crate::error::{AdminError, Result};
use crate::limits;
use crate::near;
use crate::request::Document;
use crate::secrets::SECRET_INPUTS;

/// Where a noun came from: a part of a document, or a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The n-th part of the n-th document.
    Part { document: usize, part: usize, line: u64, column: u64 },
    /// A request, or the database.
    Request,
}

/// A noun and where it came from.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    pub(crate) noun: AnyNoun,
    pub(crate) source: Source,
}

/// Reads all documents.
pub(crate) fn parse(documents: &[Document]) -> Result<Vec<Given>> {
    let size = documents.iter().map(|document| document.text.len()).sum();
    let limit = limits::DOCUMENT_BYTES;
    if size > limit {
        return Err(AdminError::TooMuch { what: "bytes of documents", size, limit });
    }
    let mut nouns = Vec::new();
    for (at, document) in documents.iter().enumerate() {
        let parts: Vec<Spanned<AnyNoun>> =
            read(&document.text).map_err(|error| unreadable(document, &error))?;
        for (part, spanned) in parts.into_iter().enumerate() {
            let (line, column) = (spanned.defined.line(), spanned.defined.column());
            let source = Source::Part { document: at, part, line, column };
            nouns.push(Given { noun: spanned.value, source });
        }
        let (size, limit) = (nouns.len(), limits::DOCUMENT_NOUNS);
        if size > limit {
            return Err(AdminError::TooMuch { what: "nouns in documents", size, limit });
        }
    }
    Ok(nouns)
}

fn read<'a, T: Deserialize<'a>>(text: &'a str) -> std::result::Result<Vec<T>, serde_saphyr::Error> {
    // No snippet: the lines around an error may hold a password.
    let options = serde_saphyr::options! { with_snippet: false };
    serde_saphyr::from_multiple_with_options(text, options)
}

fn unreadable(document: &Document, error: &serde_saphyr::Error) -> AdminError {
    let place = error.location();
    let (line, column) = place.map_or((1, 1), |place| (place.line(), place.column()));
    let mut problem = error.without_snippet().to_string();
    // The place stands in front already.
    for tail in
        [format!(" at line {line}, column {column}"), format!("line {line}, column {column}: ")]
    {
        problem = problem.replace(&tail, "");
    }
    let text = document.text.lines().nth(usize::try_from(line.max(1) - 1).unwrap_or(0));
    let key = text.unwrap_or_default().trim_start().split(':').next().unwrap_or_default();
    if SECRET_INPUTS.contains(&key) {
        problem = format!("'{key}' must be one text");
    }
    AdminError::Document { file: document.file.clone(), line, column, problem: tidy(&problem) }
}

/// The parser's words for programmers, and ours for whoever wrote the document.
const WORDS: [(&str, &str); 7] = [
    ("expected string scalar", "one text is expected here"),
    ("invalid boolean", "true or false is expected here"),
    ("unknown variant", "unknown word"),
    (
        "externally tagged enum expected scalar or mapping",
        "a mapping with one key is expected here; a document begins with the kind, such as \
         'account:'",
    ),
    (
        "expected end of mapping after enum variant value",
        "only one key may stand here; put '---' before the next noun",
    ),
    ("duplicate mapping key:", "this key stands twice:"),
    (", set DuplicateKeyPolicy in Options if acceptable", "; remove one"),
];

/// One line, names in our quotes.
fn tidy(problem: &str) -> String {
    WORDS.iter().fold(near::explained(problem), |line, (theirs, ours)| line.replace(theirs, ours))
}

/// `file:line:column: ` of a field of a noun, or as near as the document comes to it.
pub(crate) fn place(documents: &[Document], source: &Source, field: &str) -> String {
    let Source::Part { document, part, line, column } = source else { return String::new() };
    let Some(document) = documents.get(*document) else { return String::new() };
    let parts: Vec<Tree> = read(&document.text).unwrap_or_default();
    let found = parts.get(*part).and_then(Tree::body).map(|body| body.locate(field));
    let (line, column) = found.unwrap_or((*line, *column));
    format!("{}:{line}:{column}: ", document.file)
}

/// The shape of a document, with the place of each key.
struct Tree {
    place: (u64, u64),
    node: Node,
}

enum Node {
    Leaf,
    Map(Vec<(String, Tree)>),
    List(Vec<Tree>),
}

impl Tree {
    /// The value of the one key of a part.
    fn body(&self) -> Option<&Tree> {
        match &self.node {
            Node::Map(entries) => entries.first().map(|(_, body)| body),
            _ => None,
        }
    }

    fn child(&self, word: &str) -> Option<&Tree> {
        match &self.node {
            Node::Map(entries) => {
                entries.iter().find(|(key, _)| key == word).map(|(_, child)| child)
            }
            Node::List(items) => items.get(word.parse::<usize>().ok()?),
            Node::Leaf => None,
        }
    }

    /// Follows a path such as `do.0.deliver.endpoint` as far as it goes.
    fn locate(&self, field: &str) -> (u64, u64) {
        let mut at = self;
        for word in field.split(['.', '[', ']']).filter(|word| !word.is_empty()) {
            let Some(child) = at.child(word) else { break };
            at = child;
        }
        at.place
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        let spanned = Spanned::<Node>::deserialize(from)?;
        let place = (spanned.referenced.line(), spanned.referenced.column());
        Ok(Tree { place, node: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        from.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

/// Scalars of any type are leaves.
macro_rules! leaves {
    ($($visit:ident: $type:ty),*) => {
        $(fn $visit<E>(self, _: $type) -> std::result::Result<Node, E> { Ok(Node::Leaf) })*
    };
}

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any YAML")
    }

    leaves! { visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str }

    fn visit_unit<E>(self) -> std::result::Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_none<E>(self) -> std::result::Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> std::result::Result<Node, D::Error> {
        Node::deserialize(from)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element::<Tree>()? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            let mut value: Tree = map.next_value()?;
            // The key is what a person looks for.
            value.place = (key.referenced.line(), key.referenced.column());
            entries.push((key.value, value));
        }
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Node::Map(entries))
    }
}

/// Writes nouns as one document text.
pub(crate) fn write(nouns: &[AnyNoun]) -> std::result::Result<String, String> {
    let mut text = String::new();
    for noun in nouns {
        if !text.is_empty() {
            text.push_str("---\n");
        }
        let part = serde_saphyr::to_string(noun).map_err(|error| error.to_string())?;
        text.push_str(&part);
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    Ok(text)
}
