//! What procedures are given and give: for whoever calls them, and for descriptions of interfaces.

use serde::Serialize;
use serde_json::{Map, Value as Json, json};

use super::document::{Entity, Model, ParameterKind, Procedure, Read, Step};
use super::entries::{Entries, Entry};
use super::items::ColumnKind;
use super::output::{Output, OutputRows, is_count};
use super::recordset::Recordset;

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

impl RowSet {
    /// What a record has in a column; `detail.due` is a field of an object in it.
    pub fn value<'r>(record: &'r Json, column: &str) -> Option<&'r Json> {
        record.get(column).or_else(|| {
            let (part, field) = column.split_once('.')?;
            record.get(part)?.get(field)
        })
    }
}

impl Model {
    /// The recordsets that a procedure gives.
    pub fn row_sets(&self, procedure: &str) -> Vec<RowSet> {
        let Some(procedure) = self.procedures.value(procedure) else { return Vec::new() };
        let steps = procedure.steps.as_slice();
        if let Some(output) = &procedure.output {
            let sets = output.lists().filter_map(|(name, rows)| self.set_of(name, rows));
            return sets.collect();
        }
        let mut sets = Vec::new();
        for step in steps {
            let (name, inner) = match step {
                Step::Read(Read::Rows(rows)) => (&rows.name, Default::default()),
                Step::Each(each) => (&each.rows.name, each.steps.as_slice()),
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

    /// A list that a procedure gives by its `out`.
    fn set_of(&self, name: &str, list: &OutputRows) -> Option<RowSet> {
        let rows = self.recordset_of(list)?;
        let read = rows.columns.iter().filter(|column| column.value.out);
        let mut columns: Vec<String> = read.map(|it| it.key.name.clone()).collect();
        for (part, entity) in &list.parts {
            let fields = self.entities.value(entity).into_iter().flat_map(|it| it.fields.iter());
            let shown = fields.filter(|field| !field.value.secret);
            columns.extend(shown.map(|field| format!("{part}.{}", field.key.name)));
        }
        Some(RowSet { name: name.to_owned(), columns })
    }

    /// The recordset that a list has, if there is one of that name.
    pub(super) fn recordset_of(&self, list: &OutputRows) -> Option<&Recordset> {
        let rows = self.entities.value(&list.entity)?.rows.as_ref()?;
        (list.rows == "rows" || list.rows == rows.name.name).then_some(rows)
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
    object(match &procedure.output {
        Some(output) => said(model, procedure, output),
        None => read(model, &procedure.steps),
    })
}

/// Of an object that has all of these.
fn object(properties: Map<String, Json>) -> Json {
    let required: Vec<&String> = properties.keys().collect();
    json!({"type": "object", "required": required, "properties": properties})
}

/// The schemas of what a procedure gives by its `out`.
fn said(model: &Model, procedure: &Procedure, output: &Entries<Output>) -> Map<String, Json> {
    let read = read(model, &procedure.steps);
    let mut properties = Map::new();
    for entry in output.iter() {
        let name = &entry.key.name;
        let schema = match &entry.value {
            Output::Field(_) if is_count(entry) && !read.contains_key(name) => {
                json!({"type": "integer", "minimum": 0})
            }
            Output::Field(kind) => schema(kind),
            Output::Entity(entity) => object(fields(model.entities.value(entity))),
            Output::Rows(list) => {
                let mut record = model.recordset_of(list).map(columns).unwrap_or_default();
                for (part, entity) in &list.parts {
                    record.insert(part.clone(), object(fields(model.entities.value(entity))));
                }
                json!({"type": "array", "items": object(record)})
            }
        };
        properties.insert(name.clone(), schema);
    }
    properties
}

/// The schemas of what an entity shows.
fn fields(entity: Option<&Entity>) -> Map<String, Json> {
    let shown = entity.into_iter().flat_map(|entity| entity.fields.iter());
    let shown = shown.filter(|field| !field.value.secret);
    shown.map(|it| (it.key.name.clone(), schema(&it.value.kind))).collect()
}

/// The schemas of what the columns show that are read.
fn columns(rows: &Recordset) -> Map<String, Json> {
    let read = rows.columns.iter().filter(|column| column.value.out);
    read.map(|it| (it.key.name.clone(), schema(&it.value.kind))).collect()
}

/// The schemas of what steps read.
fn read(model: &Model, steps: &[Step]) -> Map<String, Json> {
    let mut found = Map::new();
    for step in steps {
        let (name, inner) = match step {
            Step::Read(Read::Fields(name)) => {
                found.extend(fields(model.entities.value(&name.name)));
                continue;
            }
            Step::Read(Read::Rows(rows)) => (&rows.name, Default::default()),
            Step::Each(each) => (&each.rows.name, each.steps.as_slice()),
            _ => continue,
        };
        let entity = name.name.split('.').next().unwrap_or_default();
        let rows = model.entities.value(entity).and_then(|entity| entity.rows.as_ref());
        let Some(rows) = rows else { continue };
        let mut record = columns(rows);
        record.extend(read(model, inner));
        found.insert(rows.name.name.clone(), json!({"type": "array", "items": object(record)}));
    }
    found
}

fn schema(kind: &ColumnKind) -> Json {
    match kind {
        ColumnKind::Text => json!({"type": "string"}),
        ColumnKind::Integer => json!({"type": ["integer", "null"]}),
        ColumnKind::Number => json!({"type": ["number", "null"]}),
        ColumnKind::Decimal => {
            json!({"type": ["string", "null"], "pattern": "^-?[0-9]*(\\.[0-9]*)?$"})
        }
        ColumnKind::Date(_) => json!({"type": ["string", "null"], "format": "date"}),
    }
}
