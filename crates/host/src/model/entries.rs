//! Mappings of a model whose keys are names: in their order, and with the place of each.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_saphyr::Spanned;

/// A name, and where in the file it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// As it is written.
    pub name: String,
    /// From 1; 0 where it stands in no file.
    pub line: u64,
    /// The column of its first letter, from 1.
    pub column: u64,
}

impl<'de> Deserialize<'de> for Named {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Scalar>::deserialize(deserializer)?;
        let (line, column) = (spanned.defined.line(), spanned.defined.column());
        Ok(Named { name: spanned.value.0, line, column })
    }
}

/// One entry of a mapping.
#[derive(Clone, Debug)]
pub struct Entry<T> {
    /// Its name, with its place.
    pub key: Named,
    /// What it stands for.
    pub value: T,
}

/// A mapping in the order of the file.
#[derive(Clone, Debug)]
pub struct Entries<T>(pub Vec<Entry<T>>);

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Entries(Vec::new())
    }
}

impl<T> Entries<T> {
    /// The entry with a name.
    pub fn entry(&self, name: &str) -> Option<&Entry<T>> {
        self.0.iter().find(|entry| entry.key.name == name)
    }

    /// What a name stands for.
    pub fn value(&self, name: &str) -> Option<&T> {
        self.entry(name).map(|entry| &entry.value)
    }

    /// All names, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|entry| entry.key.name.as_str())
    }

    /// All entries, in their order.
    pub fn iter(&self) -> std::slice::Iter<'_, Entry<T>> {
        self.0.iter()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntriesVisitor(PhantomData))
    }
}

impl Entries<Scalar> {
    /// The texts by their names.
    pub fn texts(&self) -> std::collections::BTreeMap<String, String> {
        self.iter().map(|entry| (entry.key.name.clone(), entry.value.0.clone())).collect()
    }
}

struct EntriesVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for EntriesVisitor<T> {
    type Value = Entries<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping of names")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<T>, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = map.next_key::<Named>()? {
            entries.push(Entry { key, value: map.next_value()? });
        }
        Ok(Entries(entries))
    }
}

/// A text, a number or a truth value, as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scalar(pub String);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl Visitor<'_> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a number")
    }

    fn visit_str<E>(self, text: &str) -> Result<Scalar, E> {
        Ok(Scalar(text.to_owned()))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Scalar, E> {
        Ok(Scalar(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Scalar, E> {
        Ok(Scalar(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Scalar, E> {
        Ok(Scalar(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Scalar, E> {
        Ok(Scalar(value.to_string()))
    }
}

impl JsonSchema for Scalar {
    fn schema_name() -> Cow<'static, str> {
        "Scalar".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "number", "boolean"] })
    }
}

impl JsonSchema for Named {
    fn schema_name() -> Cow<'static, str> {
        Scalar::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        Scalar::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Scalar::json_schema(generator)
    }
}

impl<T: JsonSchema> JsonSchema for Entries<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("{}ByName", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = generator.subschema_for::<T>();
        json_schema!({ "type": "object", "additionalProperties": value })
    }
}
