//! Schemas of what is sent, from the definitions of its types: a field that is added to a noun
//! stands in the description of the interface at once.

use entrepot_nouns::{Account, Endpoint, Key, Kind, Listener, Model, Mount, Policy, Rule, Site};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// A schema that is made with those of all types it refers to.
#[derive(Clone)]
pub(crate) enum Schema {
    /// A noun, with the fields of its row.
    Noun(Kind),
    /// A page of nouns.
    NounPage(Kind),
    /// The changes of a plan.
    Plan,
    /// Documents of an export.
    Documents,
    /// Any fields of a noun; null removes one.
    MergePatch,
    /// An object that the documentation describes.
    Object,
    /// A type as it is sent by us, or to us.
    Type(fn(&mut Schemas) -> Value),
}

/// The schema of a type.
pub(crate) fn schema<T: JsonSchema>() -> Schema {
    Schema::Type(Schemas::of::<T>)
}

impl Schema {
    /// A page of objects of this type.
    pub(crate) fn page<T: JsonSchema>() -> Schema {
        Schema::Type(|schemas| {
            let item = schemas.of::<T>();
            page(&item)
        })
    }

    /// A list of objects of this type.
    pub(crate) fn items<T: JsonSchema>() -> Schema {
        Schema::page::<T>()
    }
}

fn page(item: &Value) -> Value {
    let about = "Hand it back as `cursor` for the next page; absent on the last.";
    json!({
        "type": "object",
        "required": ["items"],
        "properties": {
            "items": { "type": "array", "items": item },
            "next": { "type": "string", "description": about },
        },
    })
}

/// Collects the schemas of all types that are referred to.
pub(crate) struct Schemas {
    generator: SchemaGenerator,
}

impl Schemas {
    pub(crate) fn new() -> Self {
        let settings = SchemaSettings::draft2020_12().for_deserialize().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        Schemas { generator: settings.into_generator() }
    }

    fn of<T: JsonSchema>(&mut self) -> Value {
        self.generator.subschema_for::<T>().to_value()
    }

    fn noun(&mut self, kind: Kind) -> Value {
        match kind {
            Kind::Site => self.of::<Site>(),
            Kind::Policy => self.of::<Policy>(),
            Kind::Key => self.of::<Key>(),
            Kind::Endpoint => self.of::<Endpoint>(),
            Kind::Account => self.of::<Account>(),
            Kind::Mount => self.of::<Mount>(),
            Kind::Model => self.of::<Model>(),
            Kind::Rule => self.of::<Rule>(),
            Kind::Listener => self.of::<Listener>(),
        }
    }

    pub(crate) fn make(&mut self, schema: &Schema) -> Value {
        match schema {
            Schema::Noun(kind) => self.noun(*kind),
            Schema::NounPage(kind) => page(&self.noun(*kind)),
            Schema::Plan => {
                let change = self.of::<entrepot_admin::PlannedChange>();
                json!({
                    "type": "object",
                    "required": ["changes", "warnings"],
                    "properties": {
                        "changes": { "type": "array", "items": change },
                        "warnings": { "type": "array", "items": { "type": "string" } },
                    },
                })
            }
            Schema::Documents => {
                let document = self.of::<entrepot_admin::Document>();
                json!({
                    "type": "object",
                    "required": ["documents"],
                    "properties": { "documents": { "type": "array", "items": document } },
                })
            }
            Schema::MergePatch => json!({
                "type": "object",
                "description": "The fields to change; null removes one.",
            }),
            Schema::Object => json!({ "type": "object" }),
            Schema::Type(make) => make(self),
        }
    }

    /// All schemas that were referred to, by name.
    pub(crate) fn into_definitions(mut self) -> Map<String, Value> {
        let mut definitions = self.generator.take_definitions(true);
        for kind in Kind::ALL {
            let name = definition_name(kind);
            let fields = definitions.get_mut(name).and_then(|it| it.get_mut("properties"));
            if let Some(Value::Object(fields)) = fields {
                fields.extend(row_fields());
            }
        }
        let mut sorted: Vec<(String, Value)> = definitions.into_iter().collect();
        sorted.sort_by(|one, other| one.0.cmp(&other.0));
        sorted.into_iter().collect()
    }
}

pub(crate) fn definition_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Site => "Site",
        Kind::Policy => "Policy",
        Kind::Key => "Key",
        Kind::Endpoint => "Endpoint",
        Kind::Account => "Account",
        Kind::Mount => "Mount",
        Kind::Model => "Model",
        Kind::Rule => "Rule",
        Kind::Listener => "Listener",
    }
}

/// What answers say of a noun besides its own fields.
fn row_fields() -> Map<String, Value> {
    let fields = json!({
        "id": {
            "type": "string", "format": "uuid", "readOnly": true,
            "description": "Given at creation.",
        },
        "site_id": {
            "type": "string", "format": "uuid", "readOnly": true,
            "description": "The site that owns it.",
        },
        "revision": {
            "type": "integer", "readOnly": true,
            "description": "1 at creation, one more at each change.",
        },
        "changed_at": {
            "type": "string", "format": "date-time", "readOnly": true,
            "description": "When it was last changed.",
        },
        "warnings": {
            "type": "array", "items": { "type": "string" }, "readOnly": true,
            "description": "What this node will not do of it; after a change of a rule, also what \
                            is probably not meant of it.",
        },
    });
    match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_noun_has_a_field_of_its_row() {
        let mut schemas = Schemas::new();
        for kind in Kind::ALL {
            schemas.noun(kind);
        }
        let definitions = schemas.generator.take_definitions(true);
        for kind in Kind::ALL {
            let fields = definitions[definition_name(kind)]["properties"].as_object().unwrap();
            for name in row_fields().keys() {
                assert!(!fields.contains_key(name), "{kind} has a field '{name}'");
            }
        }
    }
}
