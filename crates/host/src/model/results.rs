//! What procedures are given and give: for whoever calls them, and for descriptions of interfaces.

use serde::Serialize;
use serde_json::{Map, Value as Json, json};

use super::document::{Model, ParameterKind, Procedure, Read, Step};
use super::entries::Entry;
use super::items::ColumnKind;

/// A recordset in the result of a procedure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RowSet {
    /// Its field in the result.
    pub name: String,
    /// What its records have, in the order of the model.
    pub columns: Vec<String>,
}

/// A procedure, as callers need to know it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Described {
    /// What it is called.
    pub name: String,
    /// What it does, in one sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The schema of what it is given.
    pub input: Json,
    /// The schema of what it gives.
    pub output: Json,
}

/// All procedures of a model.
pub fn described(model: &Model) -> Vec<Described> {
    let one = |Entry { key, value }: &Entry<Procedure>| Described {
        name: key.name.clone(),
        summary: value.summary.clone(),
        input: input(value),
        output: output(model, value),
    };
    model.procedures.iter().map(one).collect()
}

impl Model {
    /// The recordsets that a procedure gives.
    pub fn row_sets(&self, procedure: &str) -> Vec<RowSet> {
        let steps = self.procedures.value(procedure).map_or(&[][..], |it| it.steps.as_slice());
        let mut sets = Vec::new();
        for step in steps {
            let (name, inner) = match step {
                Step::Read(Read::Rows(rows)) => (&rows.name, Default::default()),
                Step::Each(each) => (&each.rows, each.steps.as_slice()),
                _ => continue,
            };
            let entity = name.name.split('.').next().unwrap_or_default();
            let rows = self.entities.value(entity).and_then(|entity| entity.rows.as_ref());
            sets.extend(rows.map(|rows| {
                let read = rows.columns.iter().filter(|column| column.value.out);
                let mut columns: Vec<String> = read.map(|it| it.key.name.clone()).collect();
                for name in self.fields_read(inner) {
                    if !columns.contains(&name) {
                        columns.push(name);
                    }
                }
                RowSet { name: rows.name.name.clone(), columns }
            }));
        }
        sets
    }

    /// The fields that steps read.
    fn fields_read<'m>(&'m self, steps: &'m [Step]) -> impl Iterator<Item = String> + 'm {
        let entities = steps.iter().filter_map(|step| match step {
            Step::Read(Read::Fields(name)) => self.entities.value(&name.name),
            _ => None,
        });
        let shown = entities.flat_map(|entity| entity.fields.iter());
        shown.filter(|field| !field.value.secret).map(|field| field.key.name.clone())
    }
}

fn input(procedure: &Procedure) -> Json {
    let (mut fields, mut required) = (Map::new(), Vec::new());
    for Entry { key, value } in procedure.input.iter() {
        let (kind, most) = match value.kind {
            ParameterKind::String => ("string", value.max),
            ParameterKind::Integer => ("integer", None),
        };
        let mut schema = Map::from_iter([("type".to_owned(), json!(kind))]);
        schema.extend(most.map(|most| ("maxLength".to_owned(), json!(most))));
        match &value.default {
            Some(default) => drop(schema.insert("default".to_owned(), json!(default.0))),
            None => required.push(key.name.as_str()),
        }
        fields.insert(key.name.clone(), Json::Object(schema));
    }
    json!({
        "type": "object",
        "properties": fields,
        "required": required,
        "additionalProperties": false,
    })
}

fn output(model: &Model, procedure: &Procedure) -> Json {
    json!({"type": "object", "properties": read(model, &procedure.steps)})
}

/// The schemas of what steps read.
fn read(model: &Model, steps: &[Step]) -> Map<String, Json> {
    let mut fields = Map::new();
    for step in steps {
        let (name, inner) = match step {
            Step::Read(Read::Fields(name)) => {
                let entity = model.entities.value(&name.name);
                let shown = entity.into_iter().flat_map(|entity| entity.fields.iter());
                let shown = shown.filter(|field| !field.value.secret);
                fields.extend(shown.map(|it| (it.key.name.clone(), schema(&it.value.kind))));
                continue;
            }
            Step::Read(Read::Rows(rows)) => (&rows.name, Default::default()),
            Step::Each(each) => (&each.rows, each.steps.as_slice()),
            _ => continue,
        };
        let entity = name.name.split('.').next().unwrap_or_default();
        let rows = model.entities.value(entity).and_then(|entity| entity.rows.as_ref());
        let Some(rows) = rows else { continue };
        let columns = rows.columns.iter().filter(|column| column.value.out);
        let mut record: Map<String, Json> =
            columns.map(|it| (it.key.name.clone(), schema(&it.value.kind))).collect();
        record.extend(read(model, inner));
        let record = json!({"type": "object", "properties": record});
        fields.insert(rows.name.name.clone(), json!({"type": "array", "items": record}));
    }
    fields
}

fn schema(kind: &ColumnKind) -> Json {
    match kind {
        ColumnKind::Text => json!({"type": "string"}),
        ColumnKind::Integer => json!({"type": ["integer", "null"]}),
        ColumnKind::Decimal => {
            json!({"type": ["string", "null"], "pattern": "^-?[0-9]*(\\.[0-9]*)?$"})
        }
        ColumnKind::Date(_) => json!({"type": ["string", "null"], "format": "date"}),
    }
}
