//! What is wrong with a model that can be read: names that lead nowhere, entities that nothing
//! reaches or that cannot be told apart, and what nothing uses.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use super::document::{
    Each, Else, Entity, Model, ModelTest, On, Pick, Procedure, Read, Step, Value,
};
use super::entries::{Entries, Entry, Named};
use super::items::Pattern;
use super::output::{Output, OutputRows, is_count};
use super::recordset::{RecordSize, Recordset};
use crate::limits::FINDINGS;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The line in the file, from 1.
    pub line: u64,
    /// The column of the name, from 1.
    pub column: u64,
    /// `dangling`, `unreachable`, `overlapping` or `unused`.
    pub kind: &'static str,
    /// What it is, and what may be meant.
    pub problem: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.line, self.column, self.kind, self.problem)
    }
}

/// All that is wrong with a model, in the order of the file.
pub fn check(model: &Model) -> Vec<Finding> {
    let mut checker = Checker { model, found: Vec::new(), used: BTreeSet::new() };
    checker.entity(&model.home);
    if let Some(end) = &model.logoff {
        checker.entity(end);
    }
    for Entry { key, value } in model.entities.iter() {
        checker.entity_itself(key, value);
    }
    for Entry { value, .. } in model.procedures.iter() {
        checker.procedure(value);
    }
    for test in &model.tests {
        checker.test(test);
    }
    checker.unreachable();
    checker.overlapping();
    checker.unused();
    let mut found = checker.found;
    found.sort_by_key(|finding| (finding.line, finding.column));
    found.truncate(FINDINGS);
    found
}

struct Checker<'a> {
    model: &'a Model,
    found: Vec<Finding>,
    /// Variables, and fields as `Entity.field`.
    used: BTreeSet<String>,
}

/// Where a value stands, and so what its name may lead to.
#[derive(Clone, Copy)]
struct Scope<'a> {
    /// The entity whose fields it may name, with its name.
    entity: Option<&'a Entry<Entity>>,
    procedure: Option<&'a Procedure>,
    /// The recordset whose columns it may name: one of its records is open.
    record: Option<&'a Recordset>,
}

impl<'a> Checker<'a> {
    fn report(&mut self, at: &Named, kind: &'static str, problem: String) {
        let Named { line, column, .. } = *at;
        self.found.push(Finding { line, column, kind, problem });
    }

    fn dangling<'n>(&mut self, at: &Named, what: &str, known: impl Iterator<Item = &'n str>) {
        let nearest = nearest(&at.name, known);
        let meant = nearest.map(|name| format!(" (did you mean '{name}'?)")).unwrap_or_default();
        self.report(at, "dangling", format!("there is no {what} '{}'{meant}", at.name));
    }

    /// The entity that a name means; none is reported.
    fn entity(&mut self, name: &Named) -> Option<&'a Entry<Entity>> {
        let found = self.model.entities.entry(&name.name);
        if found.is_none() {
            self.dangling(name, "entity", self.model.entities.names());
        }
        found
    }

    fn entity_itself(&mut self, key: &Named, entity: &'a Entity) {
        if entity.is.is_empty() {
            self.report(key, "overlapping", format!("'{}' is known by nothing", key.name));
        }
        let this = self.model.entities.entry(&key.name);
        let scope = Scope { entity: this, procedure: None, record: None };
        for Entry { value: op, .. } in entity.ops.iter() {
            self.fill(&op.fill, scope);
            self.entity(&op.to);
            for Entry { key, value } in op.otherwise.iter() {
                let other = self.entity(key);
                self.outcome(value, Scope { entity: other, procedure: None, record: None });
            }
        }
        if let Some(rows) = &entity.rows {
            let tested = match &rows.size {
                RecordSize::Start(test) | RecordSize::Delimiter(test) => test.column(),
                RecordSize::Rows(_) => None,
            };
            let named = rows.skip.iter().map(|skip| &skip.0).chain(tested);
            for name in named.filter(|name| rows.columns.entry(&name.name).is_none()) {
                self.dangling(name, "column", rows.columns.names());
            }
        }
    }

    fn fill(&mut self, fill: &'a Entries<Value>, scope: Scope<'a>) {
        for Entry { key, value } in fill.iter() {
            if let Some(entity) = scope.entity {
                self.field(key, entity);
            }
            self.value(value, scope);
        }
    }

    /// A field of an entity that something is typed into.
    fn field(&mut self, name: &Named, entity: &'a Entry<Entity>) {
        match entity.value.fields.value(&name.name) {
            None => {
                let what = format!("field of '{}' called", entity.key.name);
                self.dangling(name, &what, entity.value.fields.names());
            }
            Some(field) => {
                if field.out {
                    let problem = format!("'{}' is only read", name.name);
                    self.report(name, "dangling", problem);
                }
                self.used.insert(format!("{}.{}", entity.key.name, name.name));
            }
        }
    }

    fn outcome(&mut self, outcome: &'a Else, scope: Scope<'a>) {
        if let Some(text) = &outcome.text {
            self.value(text, scope);
        }
    }

    fn value(&mut self, value: &Value, scope: Scope<'a>) {
        let Some(name) = value.name() else { return };
        if scope.procedure.is_some_and(|it| it.input.entry(name).is_some())
            || scope.record.is_some_and(|it| it.columns.entry(name).is_some())
        {
            return;
        }
        if self.model.variables.entry(name).is_some() {
            self.used.insert(name.to_owned());
            return;
        }
        let entity = scope.entity.filter(|it| it.value.fields.entry(name).is_some());
        if let Some(entity) = entity {
            self.used.insert(format!("{}.{name}", entity.key.name));
            return;
        }
        let named = Named { name: name.to_owned(), ..value.0 };
        let fields = scope.entity.into_iter().flat_map(|it| it.value.fields.names());
        let inputs = scope.procedure.into_iter().flat_map(|it| it.input.names());
        let known = fields.chain(inputs).chain(self.model.variables.names());
        self.dangling(&named, "field, parameter or variable", known);
    }

    fn procedure(&mut self, procedure: &'a Procedure) {
        let scope = Scope { entity: None, procedure: Some(procedure), record: None };
        self.steps(&procedure.steps, scope);
        for output in procedure.output.iter().flat_map(Entries::iter) {
            self.output(output, procedure);
        }
    }

    /// What a procedure gives must have been read by one of its steps.
    fn output(&mut self, output: &Entry<Output>, procedure: &'a Procedure) {
        let key = &output.key;
        let unread = |what: String| format!("'{}' is {what}, which no step reads", key.name);
        match &output.value {
            Output::Field(_) => {
                let read = entities_read(&procedure.steps);
                let entities = read.filter_map(|name| self.model.entities.value(name));
                let fields = entities.flat_map(|entity| entity.fields.iter());
                let shown = fields.filter(|field| !field.value.secret);
                let names: Vec<&str> = shown.map(|field| field.key.name.as_str()).collect();
                let lists = procedure.output.iter().flat_map(Entries::lists).count();
                let counts = is_count(output) && lists == 1;
                if !counts && !names.contains(&key.name.as_str()) {
                    self.dangling(key, "field that a step reads,", names.into_iter());
                }
            }
            Output::Entity(entity) => {
                if self.entity(&Named { name: entity.clone(), ..*key }).is_some()
                    && !entities_read(&procedure.steps).any(|read| read == entity)
                {
                    self.report(key, "dangling", unread(format!("the entity '{entity}'")));
                }
            }
            Output::Rows(rows) => self.output_rows(key, rows, procedure),
        }
    }

    fn output_rows(&mut self, key: &Named, list: &OutputRows, procedure: &'a Procedure) {
        let name = format!("{}.{}", list.entity, list.rows);
        let Some(rows) = self.model.recordset_of(list) else {
            self.recordset(&Named { name, ..*key });
            return;
        };
        let whole = format!("{}.{}", list.entity, rows.name.name);
        let mut inner = procedure.steps.iter().filter_map(|step| match step {
            Step::Read(Read::Rows(rows)) if rows.name.name == whole => Some([].as_slice()),
            Step::Each(each) if each.rows.name.name == whole => Some(each.steps.as_slice()),
            _ => None,
        });
        let Some(steps) = inner.next_back() else {
            let problem = format!("'{}' is the list '{whole}', which no step reads", key.name);
            self.report(key, "dangling", problem);
            return;
        };
        for (part, entity) in &list.parts {
            if self.entity(&Named { name: entity.clone(), ..*key }).is_some()
                && !entities_read(steps).any(|read| read == entity)
            {
                let problem = format!(
                    "'{part}' of '{}' is the entity '{entity}', which no step reads in each record",
                    key.name
                );
                self.report(key, "dangling", problem);
            }
        }
    }

    fn steps(&mut self, steps: &'a [Step], scope: Scope<'a>) {
        // Which entity stands is known where a step says it.
        let mut entity = scope.entity;
        for step in steps {
            let scope = Scope { entity, ..scope };
            match step {
                Step::Go(name) => {
                    let home = &self.model.home;
                    entity = self.entity(if name.name == "home" { home } else { name });
                }
                Step::Fill(fill) => self.fill(fill, scope),
                Step::Key(_) => entity = None,
                Step::On(cases) => {
                    entity = None;
                    for Entry { key, value } in cases.iter() {
                        let case = self.entity(key);
                        match value {
                            On::Continue(_) => entity = case,
                            On::Error(outcome) => {
                                self.outcome(outcome, Scope { entity: case, ..scope });
                            }
                        }
                    }
                }
                Step::Read(Read::Rows(rows)) => {
                    self.recordset(&rows.name);
                    if let Some(limit) = &rows.limit {
                        self.value(limit, scope);
                    }
                }
                Step::Pick(pick) => {
                    self.pick(pick, scope);
                    entity = None;
                }
                Step::Each(each) => entity = self.each(each, scope),
                Step::Read(Read::Fields(name)) => {
                    if let Some(entity) = self.entity(name) {
                        let fields = entity.value.fields.names();
                        self.used.extend(fields.map(|it| format!("{}.{it}", entity.key.name)));
                    }
                }
            }
        }
    }

    /// `Loans.loans`: the recordset of an entity.
    fn recordset(&mut self, name: &Named) -> Option<&'a Recordset> {
        let all = self.model.entities.iter().filter_map(|entity| {
            let rows = entity.value.rows.as_ref()?;
            Some((format!("{}.{}", entity.key.name, rows.name.name), rows))
        });
        let all: Vec<(String, &Recordset)> = all.collect();
        let found = all.iter().find(|(known, _)| *known == name.name).map(|(_, rows)| *rows);
        if found.is_none() {
            self.dangling(name, "recordset", all.iter().map(|(known, _)| known.as_str()));
        }
        found
    }

    /// Its columns, in which something stands or is typed.
    fn columns(
        &mut self,
        rows: Option<&'a Recordset>,
        columns: [&'a Entries<Value>; 2],
        scope: Scope<'a>,
    ) {
        for Entry { key, value } in columns.into_iter().flat_map(Entries::iter) {
            if let Some(rows) = rows
                && rows.columns.entry(&key.name).is_none()
            {
                self.dangling(key, "column", rows.columns.names());
            }
            self.value(value, scope);
        }
    }

    /// The entity that stands behind it: the one of the recordset.
    fn each(&mut self, each: &'a Each, scope: Scope<'a>) -> Option<&'a Entry<Entity>> {
        let record = self.recordset(&each.rows.name);
        if let Some(rows) = record.filter(|rows| rows.next.is_some() && rows.previous.is_none())
            && let Some(last) = &each.rows.last
        {
            let name = &rows.name.name;
            let problem = format!("the last ones of '{name}' need 'previous', a key back to them");
            self.report(&last.0, "dangling", problem);
        }
        let of_record = Scope { record, ..scope };
        self.columns(record, [&each.matching, &each.fill], of_record);
        for count in each.limit.iter().chain(&each.rows.last) {
            self.value(count, scope);
        }
        self.steps(&each.steps, Scope { entity: None, ..of_record });
        self.model.entities.entry(each.rows.name.name.split('.').next().unwrap_or_default())
    }

    fn pick(&mut self, pick: &'a Pick, scope: Scope<'a>) {
        let rows = self.recordset(&pick.rows);
        self.columns(rows, [&pick.matching, &pick.fill], scope);
        if let Some(missing) = &pick.missing {
            self.outcome(missing, scope);
        }
    }

    fn test(&mut self, test: &ModelTest) {
        match self.model.procedures.value(&test.call.name) {
            None => self.dangling(&test.call, "procedure", self.model.procedures.names()),
            Some(procedure) => {
                for Entry { key, .. } in test.input.iter() {
                    if procedure.input.entry(&key.name).is_none() {
                        self.dangling(key, "parameter", procedure.input.names());
                    }
                }
            }
        }
        for Entry { key, .. } in test.variables.iter() {
            if self.model.variables.entry(&key.name).is_none() {
                self.dangling(key, "variable", self.model.variables.names());
            }
        }
    }

    /// Entities that no operation, key or case of a procedure leads to.
    fn unreachable(&mut self) {
        let mut reached = BTreeSet::new();
        let mut todo: Vec<&str> = self.model.entities.names().take(1).collect();
        for Entry { value: procedure, .. } in self.model.procedures.iter() {
            let cases = procedure.all_steps().filter_map(|step| match step {
                Step::On(cases) => Some(cases.names()),
                _ => None,
            });
            todo.extend(cases.flatten());
        }
        while let Some(name) = todo.pop() {
            let Some(entity) = self.model.entities.value(name) else { continue };
            if reached.insert(name) {
                for Entry { value: op, .. } in entity.ops.iter() {
                    todo.push(&op.to.name);
                    todo.extend(op.otherwise.names());
                }
            }
        }
        let lost = self.model.entities.iter().filter(|it| !reached.contains(it.key.name.as_str()));
        for Entry { key, .. } in lost {
            let problem = format!("nothing leads to '{}': give an operation 'to' it", key.name);
            self.report(key, "unreachable", problem);
        }
    }

    /// Entities of which each screen is one of another entity, too.
    fn overlapping(&mut self) {
        let entities = &self.model.entities.0;
        for (at, Entry { key, value }) in entities.iter().enumerate() {
            let others = entities.iter().take(at);
            // The one that stands first is taken.
            let hidden = others
                .filter(|_| !value.is.is_empty())
                .find(|other| other.value.is.iter().all(|test| is_implied(test, &value.is)));
            if let Some(other) = hidden {
                let (name, other) = (&key.name, &other.key.name);
                let problem = format!(
                    "each screen of '{name}' is one of '{other}', which stands before it: add a \
                     test to '{other}', or put '{name}' first"
                );
                self.report(key, "overlapping", problem);
            }
        }
    }

    fn unused(&mut self) {
        for Entry { key, .. } in self.model.variables.iter() {
            if !self.used.contains(&key.name) {
                self.report(key, "unused", format!("nothing uses the variable '{}'", key.name));
            }
        }
        for Entry { key: entity, value } in self.model.entities.iter() {
            for Entry { key, .. } in value.fields.iter() {
                if !self.used.contains(&format!("{}.{}", entity.name, key.name)) {
                    let problem = format!("nothing types or reads '{}'", key.name);
                    self.report(key, "unused", problem);
                }
            }
        }
    }
}

/// The entities whose fields steps read.
fn entities_read(steps: &[Step]) -> impl Iterator<Item = &str> {
    steps.iter().filter_map(|step| match step {
        Step::Read(Read::Fields(name)) => Some(name.name.as_str()),
        _ => None,
    })
}

/// True if a test holds wherever all of `tests` hold.
fn is_implied(test: &Pattern, tests: &[Pattern]) -> bool {
    if tests.contains(test) {
        return true;
    }
    match test {
        Pattern::Text { text, at } => tests.iter().any(|other| match other {
            // A part of a longer text at the same row.
            Pattern::Text { text: whole, at: begin } if begin.row == at.row => {
                let skipped = at.column.checked_sub(begin.column);
                let rest = skipped.map(|skipped| whole.chars().skip(skipped).collect::<String>());
                rest.is_some_and(|rest| rest.starts_with(text.as_str()))
            }
            _ => false,
        }),
        Pattern::Any(any) => any.iter().any(|one| is_implied(one, tests)),
        _ => false,
    }
}

/// The name that is most like one, if any is.
fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    /// Likeness from 0 to 1 below which nobody would have meant it.
    const LEAST: f64 = 0.7;
    let likeness = |other: &str| strsim::jaro_winkler(&name.to_lowercase(), &other.to_lowercase());
    let known = known.map(|other| (likeness(other), other)).filter(|(like, _)| *like >= LEAST);
    known.max_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, other)| other)
}

#[cfg(test)]
mod tests;
