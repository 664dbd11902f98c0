//! What the steps of a procedure have read, and what it gives of that.

use serde_json::{Map, Value as Json};

use crate::model::{Entries, Output, OutputRows, is_count};

/// What steps have read, in their order.
#[derive(Debug, Default)]
pub(super) struct Gathered<'m> {
    read: Vec<Part<'m>>,
    /// The records of a recordset that was not read.
    none: Vec<Json>,
}

#[derive(Debug)]
enum Part<'m> {
    /// Fields of an entity.
    Fields { entity: &'m str, fields: Map<String, Json> },
    /// Fields whose types the model says in `out`.
    Said(Map<String, Json>),
    /// The records of the recordset of an entity.
    Records { entity: &'m str, name: &'m str, records: Vec<Json> },
}

impl<'m> Gathered<'m> {
    pub(super) fn fields(&mut self, entity: &'m str, fields: Map<String, Json>) {
        self.read.push(Part::Fields { entity, fields });
    }

    pub(super) fn said(&mut self, fields: Map<String, Json>) {
        self.read.push(Part::Said(fields));
    }

    pub(super) fn records(&mut self, entity: &'m str, name: &'m str, records: Vec<Json>) {
        self.read.push(Part::Records { entity, name, records });
    }

    /// All of it, one beside the other: what was read last under a name stays.
    pub(super) fn flat(self) -> Map<String, Json> {
        let mut result = Map::new();
        for part in self.read {
            match part {
                Part::Fields { fields, .. } | Part::Said(fields) => result.extend(fields),
                Part::Records { name, records, .. } => {
                    result.insert(name.to_owned(), Json::Array(records));
                }
            }
        }
        result
    }

    /// What of it a procedure gives. No list is named twice.
    pub(super) fn shaped(mut self, output: &Entries<Output>) -> Map<String, Json> {
        let counted = output.lists().next().map(|(_, rows)| self.records_of(&rows.entity).len());
        let mut result = Map::new();
        for entry in output.iter() {
            let name = &entry.key.name;
            let given = match &entry.value {
                Output::Field(_) => {
                    let count = || counted.filter(|_| is_count(entry)).map(Json::from);
                    self.field(name).cloned().or_else(count)
                }
                Output::Entity(entity) => self.entity(entity).cloned().map(Json::Object),
                Output::Rows(rows) => {
                    Some(Json::Array(std::mem::take(self.records_of(&rows.entity))))
                }
            };
            result.insert(name.clone(), given.unwrap_or_default());
        }
        result
    }

    /// What each record has besides its columns.
    pub(super) fn of_record(self, record: &mut Map<String, Json>, list: Option<&OutputRows>) {
        let Some(list) = list else {
            record.extend(self.flat());
            return;
        };
        for (name, entity) in &list.parts {
            let fields = self.entity(entity).cloned().map(Json::Object);
            record.insert(name.clone(), fields.unwrap_or_default());
        }
    }

    fn entity(&self, wanted: &str) -> Option<&Map<String, Json>> {
        self.read.iter().rev().find_map(|part| match part {
            Part::Fields { entity, fields } if *entity == wanted => Some(fields),
            _ => None,
        })
    }

    fn field(&self, name: &str) -> Option<&Json> {
        self.read.iter().rev().find_map(|part| match part {
            Part::Said(fields) => fields.get(name),
            Part::Fields { .. } | Part::Records { .. } => None,
        })
    }

    /// The records of an entity that were read last.
    fn records_of(&mut self, wanted: &str) -> &mut Vec<Json> {
        let found = self
            .read
            .iter()
            .rposition(|part| matches!(part, Part::Records { entity, .. } if *entity == wanted));
        match found.and_then(|at| self.read.get_mut(at)) {
            Some(Part::Records { records, .. }) => records,
            _ => &mut self.none,
        }
    }
}
