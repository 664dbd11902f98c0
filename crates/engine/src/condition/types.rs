//! What conditions may look at, with its types: taken from the schema of events, so that a new kind
//! of event needs no second list.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use cel::{Context, Program, Value};
use entrepot_nouns::Event;
use entrepot_nouns::call::{Call, Parameter, ParameterType};
use entrepot_nouns::rule::{Triggers, When};
use serde_json::Value as Json;

use crate::noted::Noted;

/// A value of each type.
const EACH_TYPE: [&str; 12] = [
    "'a'",
    "1",
    "true",
    "1.5",
    "1u",
    "b'a'",
    "timestamp('2020-01-01T00:00:00Z')",
    "duration('1s')",
    "null",
    "[]",
    "['a']",
    "{}",
];

/// Types that a value may have, before it counts as one of which nothing is known.
const KINDS_MOST: usize = 16;

/// What is known of a value before there is one.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Type {
    /// Nothing is known of it.
    Any,
    /// A plain value; it stands for all of its type.
    Plain(Value),
    /// A list of values of one type.
    List(Box<Type>),
    /// A map from keys of one type to values of one type.
    Map(Box<Type>, Box<Type>),
    /// A map that has these fields and no others.
    Record(Arc<Record>),
    /// The name of a type, such as `int`.
    Name,
    /// One of several types, none of which is unknown or again one of several; of none where there
    /// is never a value, as in a list without elements.
    OneOf(Vec<Type>),
}

/// The fields of a record.
#[derive(Debug, PartialEq)]
pub(super) struct Record {
    /// What holds the fields, as messages say it.
    pub what: String,
    /// The type of each.
    pub fields: BTreeMap<String, Type>,
}

impl Type {
    pub(super) fn text() -> Type {
        Type::Plain("a".into())
    }

    pub(super) fn int() -> Type {
        Type::Plain(Value::Int(1))
    }

    pub(super) fn flag() -> Type {
        Type::Plain(Value::Bool(true))
    }

    /// What is known of a value that has one of these types.
    pub(super) fn one_of(types: impl IntoIterator<Item = Type>) -> Type {
        let mut kinds: Vec<Type> = Vec::new();
        for of in types.into_iter().flat_map(Type::choices) {
            match of {
                Type::Any => return Type::Any,
                of if kinds.iter().any(|kind| kind.is_like(&of)) => {}
                of => kinds.push(of),
            }
        }
        match kinds.len() {
            1 => kinds.remove(0),
            0..=KINDS_MOST => Type::OneOf(kinds),
            _ => Type::Any,
        }
    }

    /// A list of values of these types; of what comes into one without values nothing is known.
    pub(super) fn list_of(values: Vec<Type>) -> Type {
        let inner = if values.is_empty() { Type::Any } else { Type::one_of(values) };
        Type::List(Box::new(inner))
    }

    fn choices(self) -> Vec<Type> {
        match self {
            Type::OneOf(kinds) => kinds,
            one => vec![one],
        }
    }

    /// Each type that it may have; of a list whose elements have several types, a list of each.
    pub(super) fn kinds(&self) -> Vec<Type> {
        match self {
            Type::OneOf(kinds) => kinds.iter().flat_map(Type::kinds).collect(),
            Type::List(inner) if !inner.is_never() => {
                inner.kinds().into_iter().map(|inner| Type::List(Box::new(inner))).collect()
            }
            one => vec![one.clone()],
        }
    }

    /// True for the type of what is never there.
    fn is_never(&self) -> bool {
        matches!(self, Type::OneOf(kinds) if kinds.is_empty())
    }

    /// The types that it may have where nothing is known of it.
    pub(super) fn possible(&self) -> Vec<Type> {
        if *self != Type::Any {
            return vec![self.clone()];
        }
        static EACH: OnceLock<Vec<Type>> = OnceLock::new();
        let each = || {
            let values = EACH_TYPE.iter().filter_map(|source| {
                Program::compile(source).ok()?.execute(&Context::default()).ok()
            });
            values.map(Type::of).collect()
        };
        EACH.get_or_init(each).clone()
    }

    /// What is known of a value that has either type.
    fn or(self, other: &Type) -> Type {
        match (self, other) {
            (one, other) if one == *other => one,
            (Type::Record(one), Type::Record(other)) => {
                let (what, mut fields) =
                    (format!("{} or {}", one.what, other.what), one.fields.clone());
                for (name, of) in &other.fields {
                    let common = match fields.remove(name) {
                        Some(before) => before.or(of),
                        None => Type::Any,
                    };
                    fields.insert(name.clone(), common);
                }
                for name in one.fields.keys().filter(|name| !other.fields.contains_key(*name)) {
                    fields.insert(name.clone(), Type::Any);
                }
                Type::Record(Arc::new(Record { what, fields }))
            }
            _ => Type::Any,
        }
    }

    /// The type of `value`, as far as one look at it tells.
    pub(super) fn of(value: Value) -> Type {
        match value {
            Value::List(list) => {
                Type::list_of(list.iter().map(|inner| Type::of(inner.clone())).collect())
            }
            Value::Map(_) => Type::Map(Box::new(Type::Any), Box::new(Type::Any)),
            Value::Function(..) | Value::Opaque(_) | Value::Struct(_) => Type::Any,
            // Any other number would do, and 0 does not where it is divided by.
            Value::Int(_) => Type::int(),
            Value::UInt(_) => Type::Plain(Value::UInt(1)),
            Value::Float(_) => Type::Plain(Value::Float(1.5)),
            plain => Type::Plain(plain),
        }
    }

    /// Whether both are of one type.
    pub(super) fn is_like(&self, other: &Type) -> bool {
        match (self, other) {
            (Type::Plain(one), Type::Plain(other)) => {
                std::mem::discriminant(one) == std::mem::discriminant(other)
            }
            (Type::List(one), Type::List(other)) => one.is_like(other),
            (Type::Map(key, value), Type::Map(other_key, other_value)) => {
                key.is_like(other_key) && value.is_like(other_value)
            }
            (Type::OneOf(some), Type::OneOf(others)) => {
                let all_in = |some: &[Type], others: &[Type]| {
                    some.iter().all(|one| others.iter().any(|other| one.is_like(other)))
                };
                all_in(some, others) && all_in(others, some)
            }
            _ => self == other,
        }
    }

    /// Of the types that it may have those that are none of a condition.
    pub(super) fn other_than_flag(&self) -> Option<Type> {
        self.other_than(|of| matches!(of, Type::Plain(Value::Bool(_))))
    }

    /// Of the types that it may have those that are no point in time.
    pub(super) fn other_than_instant(&self) -> Option<Type> {
        self.other_than(|of| matches!(of, Type::Plain(Value::Timestamp(_))))
    }

    /// Of the types that it may have those that are no list.
    pub(super) fn other_than_list(&self) -> Option<Type> {
        self.other_than(|of| matches!(of, Type::List(_)))
    }

    fn other_than(&self, is_right: impl Fn(&Type) -> bool) -> Option<Type> {
        let mut wrong = self.clone().choices();
        wrong.retain(|of| *of != Type::Any && !is_right(of));
        if wrong.is_empty() { None } else { Some(Type::one_of(wrong)) }
    }

    /// Values that stand for all of the type.
    pub(super) fn samples(&self) -> Vec<Value> {
        match self {
            Type::Any | Type::Name => Vec::new(),
            // What texts can be read as: functions that read them fail on others.
            Type::Plain(Value::String(_)) => {
                let texts = ["a", "1", "true", "2020-01-01T00:00:00Z", "1s", "UTC", "192.0.2.1"];
                texts.map(Value::from).to_vec()
            }
            Type::Plain(value) => vec![value.clone()],
            Type::List(inner) => {
                let first = inner.samples().into_iter().next();
                vec![first.into_iter().collect::<Vec<Value>>().into()]
            }
            Type::OneOf(kinds) => kinds.iter().flat_map(Type::samples).collect(),
            Type::Map(..) | Type::Record(_) => {
                vec![std::collections::HashMap::<String, Value>::new().into()]
            }
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Any => f.write_str("anything"),
            Type::Plain(value) => value.type_of().fmt(f),
            Type::List(_) => f.write_str("list"),
            Type::Map(..) | Type::Record(_) => f.write_str("map"),
            Type::Name => f.write_str("type"),
            Type::OneOf(kinds) if kinds.is_empty() => f.write_str("nothing"),
            Type::OneOf(kinds) => {
                let mut names = kinds.iter().map(Type::to_string).collect::<Vec<_>>();
                names.dedup();
                f.write_str(&names.join(" or "))
            }
        }
    }
}

/// The variables that an expression may use.
pub(super) struct Scope(pub(super) BTreeMap<String, Type>);

impl Scope {
    /// Of the condition of a rule that starts on these. What not all of them have may be null, or
    /// missing in `event`.
    pub(super) fn rule(triggers: &Triggers) -> Scope {
        let mut known: BTreeMap<&str, Type> = BTreeMap::new();
        let each = triggers.all().iter().map(variables).collect::<Vec<_>>();
        for (name, of) in each.iter().flatten() {
            let is_in_all = each.iter().all(|variables| variables.contains_key(name));
            let common = match known.remove(name) {
                _ if !is_in_all => Type::Any,
                Some(before) => before.or(of),
                None => of.clone(),
            };
            known.insert(name, common);
        }
        Scope(known.into_iter().map(|(name, of)| (name.to_owned(), of)).collect())
    }

    /// Of a step of such a rule, which may have steps of these names and set these variables.
    pub(super) fn step(triggers: &Triggers, names: &Noted) -> Scope {
        let mut scope = Scope::rule(triggers);
        let vars = names.vars.keys().map(|name| (name.as_str(), Type::Any));
        scope.0.insert("vars".to_owned(), record("vars", vars));
        let left = Type::Map(Box::new(Type::text()), Box::new(Type::Any));
        let steps = names.steps.keys().map(|name| (name.as_str(), left.clone()));
        scope.0.insert("steps".to_owned(), record("steps", steps));
        if names.turn.is_some() {
            scope.0.insert("item".to_owned(), Type::Any);
            scope.0.insert("index".to_owned(), Type::int());
        }
        scope
    }
}

fn variables(when: &When) -> BTreeMap<&'static str, Type> {
    let file = ["path", "dir", "name", "stem", "extension", "digest"];
    let file = file.map(|name| (name, Type::text()));
    let file = file.into_iter().chain([("size", Type::int())]);
    let texts = ["protocol", "verb", "argument", "path", "account", "ip", "listener", "digest"];
    let numbers = ["code", "bytes", "duration"];
    let command = texts
        .map(|name| (name, Type::text()))
        .into_iter()
        .chain(numbers.map(|name| (name, Type::int())))
        .chain([("writes", Type::flag())]);
    let mut variables = BTreeMap::from([
        ("event", event(&when.kinds().collect::<Vec<_>>())),
        ("file", record("file", file)),
        ("command", record("command", command)),
        ("account", Type::text()),
        ("site", Type::text()),
    ]);
    if matches!(when, When::Hook(_)) {
        let headers = Type::Map(Box::new(Type::text()), Box::new(Type::text()));
        let fields = [("body", Type::Any), ("headers", headers)];
        variables.insert("hook", record("hook", fields.into_iter()));
    }
    if let When::Call(call) = when {
        variables.insert("params", parameters(call));
    }
    variables
}

fn parameters(call: &Call) -> Type {
    let of = |parameter: &Parameter| match parameter.of {
        ParameterType::String => Type::text(),
        ParameterType::Int => Type::int(),
        ParameterType::Double => Type::Plain(Value::Float(1.5)),
        ParameterType::Bool => Type::flag(),
    };
    let fields = call.parameters.iter().map(|(name, parameter)| (name.clone(), of(parameter)));
    Type::Record(Arc::new(Record { what: "params".to_owned(), fields: fields.collect() }))
}

fn record<'a>(what: &str, fields: impl Iterator<Item = (&'a str, Type)>) -> Type {
    let fields = fields.map(|(name, of)| (name.to_owned(), of)).collect();
    Type::Record(Arc::new(Record { what: what.to_owned(), fields }))
}

/// The fields of an event: those of these kinds, or if there are none, of all kinds.
fn event(kinds: &[&str]) -> Type {
    static SCHEMA: OnceLock<Json> = OnceLock::new();
    let schema = SCHEMA.get_or_init(|| schemars::schema_for!(Event).to_value());
    let shapes = Shapes { definitions: schema.get("$defs").unwrap_or(&Json::Null) };
    let mut fields = shapes.fields(schema);
    let mut known = false;
    for fact in schema.get("anyOf").and_then(Json::as_array).into_iter().flatten() {
        let fact = shapes.target(fact);
        let Some(word) = fact.pointer("/properties/kind/const").and_then(Json::as_str) else {
            continue;
        };
        if kinds.is_empty() || kinds.contains(&word) {
            known = true;
            for (name, of) in shapes.fields(fact) {
                let common = match fields.remove(&name) {
                    Some(before) if before != of => Type::Any,
                    _ => of,
                };
                fields.insert(name, common);
            }
        }
    }
    if !known {
        return Type::Any;
    }
    fields.insert("kind".to_owned(), Type::text());
    fields.insert("replaced".to_owned(), Type::flag());
    let what = match kinds {
        [] => "event".to_owned(),
        [kind] => format!("event of kind {kind}"),
        kinds => format!("event of kind {}", kinds.join(" or ")),
    };
    Type::Record(Arc::new(Record { what, fields }))
}

/// Types from a JSON Schema.
struct Shapes<'s> {
    definitions: &'s Json,
}

impl<'s> Shapes<'s> {
    /// What a reference refers to; the schema itself if it is none.
    fn target(&self, schema: &'s Json) -> &'s Json {
        let name = schema.get("$ref").and_then(Json::as_str);
        let name = name.and_then(|path| path.strip_prefix("#/$defs/"));
        name.and_then(|name| self.definitions.get(name)).unwrap_or(schema)
    }

    fn fields(&self, schema: &'s Json) -> BTreeMap<String, Type> {
        let properties = schema.get("properties").and_then(Json::as_object);
        let properties = properties.into_iter().flatten();
        properties.map(|(name, schema)| (name.clone(), self.shape(schema))).collect()
    }

    /// What may be null as well has the type that it has otherwise.
    fn shape(&self, schema: &'s Json) -> Type {
        let schema = self.target(schema);
        for list in ["anyOf", "oneOf"] {
            let Some(choices) = schema.get(list).and_then(Json::as_array) else { continue };
            let is_null = |choice: &&Json| choice.get("type") == Some(&Json::from("null"));
            let mut shapes =
                choices.iter().filter(|it| !is_null(it)).map(|choice| self.shape(choice));
            let first = shapes.next().unwrap_or(Type::Any);
            let is_same = shapes.all(|other| other == first);
            return if is_same && !schema.as_object().is_some_and(|it| it.contains_key("properties"))
            {
                first
            } else {
                Type::Any
            };
        }
        let named = match schema.get("type") {
            Some(Json::String(name)) => name.as_str(),
            Some(Json::Array(names)) => {
                let mut names = names.iter().filter_map(Json::as_str).filter(|it| *it != "null");
                match (names.next(), names.next()) {
                    (Some(only), None) => only,
                    _ => return Type::Any,
                }
            }
            _ => return Type::Any,
        };
        match named {
            "string" => Type::text(),
            "integer" => Type::int(),
            "boolean" => Type::flag(),
            "array" => {
                let inner = schema.get("items").map_or(Type::Any, |items| self.shape(items));
                Type::List(Box::new(inner))
            }
            "object" if schema.get("properties").is_some() => {
                let what = schema.get("title").and_then(Json::as_str).unwrap_or("map").to_owned();
                Type::Record(Arc::new(Record { what, fields: self.fields(schema) }))
            }
            // A number may be whole where it is read.
            _ => Type::Any,
        }
    }
}
