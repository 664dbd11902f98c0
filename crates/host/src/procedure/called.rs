//! The steps of a procedure, on one session with an application.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use entrepot_nouns::Period;
use entrepot_tn3270_proto::Key;
use serde_json::{Map, Value as Json};
use tokio::time::timeout;

use super::gathered::Gathered;
use super::values::value;
use crate::error::HostError;
use crate::limits::WAYS;
use crate::model::{
    ColumnKind, Else, Entity, Entries, Entry, HostKey, Model, ModelField, On, Operation, Output,
    ParameterKind, Procedure, Read, Step, Value,
};
use crate::session::HostSession;
use crate::shown::text_at;
use crate::view::keyboard;

/// A procedure did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The host, or the connection to it.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The caller asked for something that the model has not, or gave it wrongly.
    #[error("{0}")]
    Caller(String),
    /// The application said no, as the model foresees it.
    #[error("{error}: {text}")]
    Outcome {
        /// The word of the model.
        error: String,
        /// The status of HTTP for it.
        http: u16,
        /// What people are told.
        text: String,
    },
    /// The application went where the model does not expect it.
    #[error("the application shows '{stands}' where {wanted} was expected")]
    Lost {
        /// The entity that stands.
        stands: String,
        /// What was expected.
        wanted: String,
    },
    /// What a field shows is nothing of its kind.
    #[error("the field '{field}' of '{entity}' shows '{text}', which is no {kind}")]
    Kind {
        /// The entity that stands.
        entity: String,
        /// Its field or column.
        field: String,
        /// What is shown.
        text: String,
        /// What it should be, such as `whole number`.
        kind: String,
    },
}

impl CallError {
    /// The error catalogue's code.
    pub fn code(&self) -> &'static str {
        match self {
            CallError::Host(error) => error.code(),
            CallError::Caller(_) => "EP1306",
            CallError::Outcome { .. } => "EP1307",
            CallError::Lost { .. } | CallError::Kind { .. } => "EP1308",
        }
    }
}

/// A session that is worked by a model.
pub(super) struct Worked<'m> {
    pub(super) model: &'m Model,
    pub(super) session: &'m mut HostSession,
    pub(super) variables: &'m BTreeMap<String, String>,
}

/// What a procedure works with.
#[derive(Default)]
pub(super) struct Call<'m> {
    input: BTreeMap<String, String>,
    /// What the record shows that is open, by its columns.
    pub(super) record: BTreeMap<String, String>,
    /// What the procedure gives, if its model says it.
    pub(super) output: Option<&'m Entries<Output>>,
    pub(super) gathered: Gathered<'m>,
}

impl Call<'_> {
    /// Of no procedure, for ways between entities.
    pub(super) fn none() -> Self {
        Call::default()
    }

    /// What the procedure gives.
    fn result(self) -> Json {
        let Call { output, gathered, .. } = self;
        Json::Object(match output {
            Some(output) => gathered.shaped(output),
            None => gathered.flat(),
        })
    }
}

impl<'m> Worked<'m> {
    /// Calls a procedure; answers what it has read.
    pub(super) async fn call(
        mut self,
        procedure: &str,
        input: BTreeMap<String, String>,
    ) -> Result<Json, CallError> {
        let model = self.model;
        let found = model.procedures.value(procedure).ok_or_else(|| {
            let known: Vec<&str> = model.procedures.names().collect();
            let known = known.join(", ");
            CallError::Caller(format!("there is no procedure '{procedure}': there are {known}"))
        })?;
        let (input, output) = (parameters(found, input)?, found.output.as_ref());
        let mut call = Call { input, output, ..Call::default() };
        let Some(most) = found.timeout.map(Period::duration) else {
            self.steps(&found.steps, &mut call).await?;
            return Ok(call.result());
        };
        match timeout(most, self.steps(&found.steps, &mut call)).await {
            Ok(done) => done.map(|()| call.result()),
            Err(_) => Err(CallError::Host(HostError::Late {
                what: format!("the end of '{procedure}'"),
                seconds: most.as_secs(),
                keyboard: keyboard(self.session.terminal()),
            })),
        }
    }

    async fn steps(&mut self, steps: &'m [Step], call: &mut Call<'m>) -> Result<(), CallError> {
        for step in steps {
            match step {
                Step::Each(each) => self.each(each, call).await?,
                step => self.step(step, call).await?,
            }
        }
        Ok(())
    }

    pub(super) async fn step(
        &mut self,
        step: &'m Step,
        call: &mut Call<'m>,
    ) -> Result<(), CallError> {
        match step {
            Step::Go(name) if name.name == "home" => self.go(&self.model.home.name, call).await,
            Step::Go(name) => self.go(&name.name, call).await,
            Step::Fill(fill) => self.fill(fill, call).await,
            Step::Key(key) => self.press(*key).await.map(drop),
            Step::On(cases) => self.judge(cases, call),
            Step::Read(Read::Fields(name)) => self.read_fields(&name.name, call),
            Step::Read(Read::Rows(rows)) => self.read_rows(rows, call).await,
            Step::Pick(pick) => self.pick(pick, call).await,
            // One in another one is refused where the model is read.
            Step::Each(_) => Err(self.lost("a step that can be done for a record")),
        }
    }

    /// The entity that stands. A session rests only where one does.
    fn standing(&self) -> Result<&'m Entry<Entity>, CallError> {
        let stands = self.model.standing(self.session.terminal());
        stands.ok_or_else(|| self.lost("a screen of the model"))
    }

    pub(super) fn lost(&self, wanted: &str) -> CallError {
        let stands = self.model.standing(self.session.terminal());
        let stands = stands.map_or("an unknown screen", |stands| &stands.key.name).to_owned();
        CallError::Lost { stands, wanted: wanted.to_owned() }
    }

    /// Presses a key; the host has answered when an entity of the model stands.
    pub(super) async fn press(&mut self, key: HostKey) -> Result<&'m Entry<Entity>, CallError> {
        let patience = self.session.patience();
        self.press_within(key, patience).await
    }

    /// The same within another time.
    async fn press_within(
        &mut self,
        key: HostKey,
        patience: Duration,
    ) -> Result<&'m Entry<Entity>, CallError> {
        let HostKey(key) = key;
        let model = self.model;
        let done = |terminal: &entrepot_tn3270_proto::Terminal| {
            terminal.lock().is_none() && model.standing(terminal).is_some()
        };
        self.session.press_until(key, patience, "a screen of the model", done).await?;
        self.standing()
    }

    /// Takes the way with the fewest operations. Where the application goes elsewhere, the way is
    /// looked for anew from there.
    pub(super) async fn go(&mut self, to: &str, call: &Call<'_>) -> Result<(), CallError> {
        for _ in 0..WAYS {
            let here = self.standing()?;
            if here.key.name == to {
                return Ok(());
            }
            let op = first_operation(self.model, &here.key.name, to)
                .ok_or_else(|| self.lost(&format!("a way to '{to}'")))?;
            self.fill(&op.fill, call).await?;
            let timeout = op.timeout.map(Period::duration);
            let patience = timeout.unwrap_or_else(|| self.session.patience());
            let came = self.press_within(op.key, patience).await?;
            if let Some(otherwise) = op.otherwise.value(&came.key.name) {
                return Err(self.outcome(otherwise, call));
            }
        }
        Err(self.lost(&format!("'{to}'")))
    }

    async fn fill(&mut self, fill: &Entries<Value>, call: &Call<'_>) -> Result<(), CallError> {
        for Entry { key, value } in fill.iter() {
            let text = self.resolve(value, call)?;
            self.enter(&key.name, &text).await?;
        }
        Ok(())
    }

    /// Types a text into a field of the entity that stands, in place of what is in it.
    pub(super) async fn enter(&mut self, name: &str, text: &str) -> Result<(), CallError> {
        let entity = self.standing()?;
        let field = entity.value.fields.value(name).ok_or_else(|| {
            let entity = &entity.key.name;
            CallError::Caller(format!("'{entity}', which stands, has no field '{name}'"))
        })?;
        if text.chars().count() > field.length {
            let length = field.length;
            let what = format!("what goes into '{name}' has more than {length} letters");
            return Err(CallError::Caller(what));
        }
        if field.secret {
            self.session.keeps_secret(text);
        }
        self.session.move_cursor(field.at);
        self.session.press(Key::EraseEof).await?;
        self.session.type_text(text).await?;
        Ok(())
    }

    /// A value: a parameter, else a column of the record that is open, else a variable, else what
    /// a field of the entity shows.
    pub(super) fn resolve(&self, value: &Value, call: &Call<'_>) -> Result<String, CallError> {
        let Some(name) = value.name() else { return Ok(value.0.name.clone()) };
        let given = call.input.get(name).or_else(|| call.record.get(name));
        if let Some(known) = given.or_else(|| self.variables.get(name)) {
            return Ok(known.clone());
        }
        if self.model.variables.entry(name).is_some() {
            return Err(CallError::Caller(format!("the variable '{name}' was not given")));
        }
        let field = self.standing()?.value.fields.value(name);
        let field = field.filter(|field| !field.secret);
        let shown = |field: &ModelField| {
            text_at(self.session.terminal(), field.at, field.length).trim().to_owned()
        };
        field.map(shown).ok_or_else(|| CallError::Caller(format!("nothing is called '{name}'")))
    }

    pub(super) fn outcome(&self, otherwise: &Else, call: &Call<'_>) -> CallError {
        /// Where the model says nothing else: the application refused.
        const UNPROCESSABLE: u16 = 422;
        let text = otherwise.text.as_ref().map(|text| self.resolve(text, call));
        let http = otherwise.http.unwrap_or(UNPROCESSABLE);
        match text.unwrap_or_else(|| Ok("the application refused".to_owned())) {
            Ok(text) => CallError::Outcome { error: otherwise.error.clone(), http, text },
            Err(error) => error,
        }
    }

    fn judge(&self, cases: &Entries<On>, call: &Call<'_>) -> Result<(), CallError> {
        let stands = self.standing()?;
        match cases.value(&stands.key.name) {
            Some(On::Continue(_)) => Ok(()),
            Some(On::Error(otherwise)) => Err(self.outcome(otherwise, call)),
            None => {
                let names: Vec<&str> = cases.names().collect();
                Err(self.lost(&names.join(" or ")))
            }
        }
    }

    pub(super) fn entity(&self, name: &str) -> Result<&'m Entry<Entity>, CallError> {
        let stands = self.standing()?;
        if stands.key.name == name { Ok(stands) } else { Err(self.lost(&format!("'{name}'"))) }
    }

    fn read_fields(&self, name: &'m str, call: &mut Call<'m>) -> Result<(), CallError> {
        let entity = self.entity(name)?;
        let (mut fields, mut said) = (Map::new(), Map::new());
        for Entry { key, value: field } in entity.value.fields.iter() {
            if field.secret {
                continue;
            }
            let text = text_at(self.session.terminal(), field.at, field.length);
            let read =
                |kind| value(kind, &text).ok_or_else(|| wrong_kind(name, &key.name, kind, &text));
            if let Some(kind) = call.output.and_then(|output| output.kind_of(&key.name)) {
                said.insert(key.name.clone(), read(kind)?);
            }
            fields.insert(key.name.clone(), read(&field.kind)?);
        }
        call.gathered.fields(name, fields);
        call.gathered.said(said);
        Ok(())
    }
}

pub(super) fn wrong_kind(entity: &str, field: &str, kind: &ColumnKind, text: &str) -> CallError {
    CallError::Kind {
        entity: entity.to_owned(),
        field: field.to_owned(),
        text: text.trim().to_owned(),
        kind: kind.to_string(),
    }
}

/// The first operation of the shortest way from one entity to another.
fn first_operation<'m>(model: &'m Model, from: &'m str, to: &str) -> Option<&'m Operation> {
    let mut seen = BTreeSet::from([from]);
    let mut ways: VecDeque<(&'m str, Option<&'m Operation>)> = VecDeque::from([(from, None)]);
    while let Some((here, first)) = ways.pop_front() {
        if here == to {
            return first;
        }
        let Some(entity) = model.entities.value(here) else { continue };
        for Entry { value: op, .. } in entity.ops.iter() {
            if seen.insert(&op.to.name) {
                ways.push_back((&op.to.name, first.or(Some(op))));
            }
        }
    }
    None
}

/// What a caller gave, checked and with defaults.
fn parameters(
    procedure: &Procedure,
    mut given: BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, CallError> {
    let wrong = |what: String| Err(CallError::Caller(what));
    if let Some(name) = given.keys().find(|name| procedure.input.entry(name).is_none()) {
        return wrong(format!("the procedure has no parameter '{name}'"));
    }
    for Entry { key, value: parameter } in procedure.input.iter() {
        let name = &key.name;
        let default = parameter.default.as_ref().map(|default| default.0.clone());
        let Some(text) = given.get(name).cloned().or(default) else {
            return wrong(format!("the parameter '{name}' was not given"));
        };
        if parameter.max.is_some_and(|max| text.chars().count() > max) {
            return wrong(format!("the parameter '{name}' is too long"));
        }
        if parameter.kind == ParameterKind::Integer && text.parse::<i64>().is_err() {
            return wrong(format!("the parameter '{name}' is no whole number"));
        }
        given.insert(name.clone(), text);
    }
    Ok(given)
}
