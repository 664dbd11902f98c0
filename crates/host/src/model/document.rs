//! The file of a model as it is written.

use std::collections::BTreeSet;

use entrepot_nouns::Period;
use entrepot_tn3270_proto::CodePage;
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::entries::{Entries, Entry, Named, Scalar};
use super::items::{HostKey, ModelField, Pattern};
use super::output::Output;
use super::recordset::Recordset;
use super::standing::EntityIndex;
use crate::limits::MODEL_BYTES;

/// A file is no model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {problem}")]
pub struct ModelError {
    /// The line in the file, from 1.
    pub line: u64,
    /// The column in that line, from 1.
    pub column: u64,
    /// What is wrong there.
    pub problem: String,
}

/// A host application.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// What it is called.
    pub model: String,
    /// Where the application is; unset: whoever uses the model says it.
    #[serde(default)]
    pub host: HostAccess,
    /// What sessions are given from outside, such as users and passwords.
    #[serde(default)]
    pub variables: Entries<Variable>,
    /// Where sessions rest; `go: home` goes there.
    pub home: Named,
    /// Where the application has ended a session; unset: nothing shows that it has.
    pub logoff: Option<Named>,
    /// The screens. The first one is where a session begins.
    pub entities: Entries<Entity>,
    /// What can be called.
    #[serde(default)]
    pub procedures: Entries<Procedure>,
    /// What procedures give at recorded sessions.
    #[serde(default)]
    pub tests: Vec<ModelTest>,
    #[serde(skip)]
    pub(super) index: EntityIndex,
}

/// A procedure called at a recording in place of the host.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelTest {
    /// The file of the recording, from the folder of the model on.
    pub trace: String,
    /// Which procedure is called.
    pub call: Named,
    /// What it is given.
    #[serde(default, rename = "in")]
    pub input: Entries<Scalar>,
    /// What sessions are given, besides the defaults.
    #[serde(default)]
    pub variables: Entries<Scalar>,
    /// The file of JSON that it must give, from the folder of the model on.
    pub want: String,
}

/// Where an application is, and as which terminal it is spoken to.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostAccess {
    /// As `entrepot host terminal` takes it: `tls://host.example:992`.
    pub address: Option<String>,
    /// Such as `IBM-3279-2-E`.
    pub terminal: Option<String>,
    /// The code page, such as 1047.
    pub codepage: Option<u16>,
    /// Names of logical units, tried one after another.
    #[serde(default)]
    pub lu: Vec<String>,
}

/// A value that a session is given.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    /// It is never shown.
    #[serde(default)]
    pub secret: bool,
    /// Its value where none is given.
    pub default: Option<String>,
}

/// A screen of the application.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Entity {
    /// By what it is known: all of them hold.
    pub is: Vec<Pattern>,
    /// Areas of it that are typed into or read.
    #[serde(default)]
    pub fields: EntityFields,
    /// How other entities are reached from it.
    #[serde(default)]
    pub ops: Entries<Operation>,
    /// The list on it.
    pub rows: Option<Recordset>,
    /// How sessions that rest there, or that clients hold there, are kept alive.
    pub keepalive: Option<KeepAlive>,
}

/// What a resting session does, so that the application does not end it.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeepAlive {
    /// The key that is pressed; it leads to the same entity, or there is a way back.
    pub key: HostKey,
    /// After so much time without another key.
    pub every: Period,
}

/// The fields of an entity.
pub type EntityFields = Entries<ModelField>;

/// What is typed and pressed to come from one entity to another.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Operation {
    /// What is typed into which field.
    #[serde(default, rename = "type")]
    pub fill: Entries<Value>,
    /// The key that is pressed then.
    pub key: HostKey,
    /// The entity that comes.
    pub to: Named,
    /// Entities that come in its place when something went wrong.
    #[serde(default, rename = "else")]
    pub otherwise: Entries<Else>,
    /// The longest time until one of them stands; unset: that of every answer of the host.
    pub timeout: Option<Period>,
}

/// What it means that another entity has come.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Else {
    /// A word that callers can act on.
    pub error: String,
    /// The status of HTTP for it.
    pub http: Option<u16>,
    /// What people are told; `$note` is what a field of the entity shows.
    pub text: Option<Value>,
}

/// What can be called from outside.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Procedure {
    /// What it does, in one sentence.
    pub summary: Option<String>,
    /// What it is given.
    #[serde(default, rename = "in")]
    pub input: Entries<Parameter>,
    /// What it gives, and of which types; unset: all that is read, with the types of the screens.
    #[serde(rename = "out")]
    pub output: Option<Entries<Output>>,
    /// What is done, in this order.
    #[serde(rename = "do")]
    pub steps: Vec<Step>,
    /// The longest time for all of it; unset: as long as each answer of the host comes in time.
    pub timeout: Option<Period>,
}

impl Procedure {
    /// All steps, with those that are done for each record.
    pub fn all_steps(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().flat_map(|step| {
            let inner = match step {
                Step::Each(each) => each.steps.as_slice(),
                _ => &[],
            };
            std::iter::once(step).chain(inner)
        })
    }
}

/// A value that a procedure is given.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// What it may be.
    #[serde(default, rename = "type")]
    pub kind: ParameterKind,
    /// Its most letters.
    pub max: Option<usize>,
    /// Its value where none is given; without one it must be given.
    pub default: Option<Scalar>,
}

/// What a parameter may be.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ParameterKind {
    /// A text of any kind.
    #[default]
    String,
    /// A whole number.
    Integer,
}

/// One step of a procedure.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// To an entity, by the fewest operations; `home` is the home of the model.
    Go(Named),
    /// Types into fields of the entity that stands.
    Fill(Entries<Value>),
    /// Presses a key, and waits until an entity of the model stands.
    Key(HostKey),
    /// What the entity that stands means.
    On(Entries<On>),
    /// Reads what the entity shows into the result.
    Read(Read),
    /// Finds a record on the pages of a recordset, types into it, and presses a key.
    Pick(Pick),
    /// Opens the records of a recordset one after the other, and does something with each.
    Each(Each),
}

/// What is done for each record of a recordset.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Each {
    /// The recordset: `Loans.loans`, or of those that are meant the last ones:
    /// `Loans.loans.last($n)`.
    pub rows: Listed,
    /// What columns of a record show for it to be one of them; without any all are.
    #[serde(default, rename = "where")]
    pub matching: Entries<Value>,
    /// No more records than that.
    pub limit: Option<Value>,
    /// What is typed into which columns; without any the cursor is put on the record.
    #[serde(default, rename = "type")]
    pub fill: Entries<Value>,
    /// The key that opens the record.
    pub key: HostKey,
    /// What is done then. What is read becomes a part of the record; `$column` is what it shows.
    #[serde(rename = "do")]
    pub steps: Vec<Step>,
}

/// Records of a recordset, as `Loans.loans` or `Loans.loans.last($n)`.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(with = "String")]
pub struct Listed {
    /// The recordset: `Loans.loans`.
    pub name: Named,
    /// Of those that are meant only so many, the last ones.
    pub last: Option<Value>,
}

impl<'de> Deserialize<'de> for Listed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Named { name, line, column } = Named::deserialize(deserializer)?;
        let named = |name: &str| Named { name: name.trim().to_owned(), line, column };
        let Some((set, rest)) = name.split_once('(') else {
            return Ok(Listed { name: named(&name), last: None });
        };
        let count = rest.strip_suffix(')').map(str::trim).filter(|count| !count.is_empty());
        match (set.strip_suffix(".last"), count) {
            (Some(set), Some(count)) => {
                Ok(Listed { name: named(set), last: Some(Value(named(count))) })
            }
            _ => Err(D::Error::custom(format!(
                "'{name}' are no records: write it as in 'Loans.loans.last($n)'"
            ))),
        }
    }
}

/// Which record is picked, and how.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pick {
    /// The recordset: `Loans.loans`.
    pub rows: Named,
    /// What its columns show; the first record of which all of it holds is meant.
    #[serde(rename = "where")]
    pub matching: Entries<Value>,
    /// What is typed into which columns; without any the cursor is put on the record.
    #[serde(default, rename = "type")]
    pub fill: Entries<Value>,
    /// The key that is pressed then.
    pub key: HostKey,
    /// What it means that there is no such record.
    pub missing: Option<Else>,
}

/// What it means for a procedure that an entity stands.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum On {
    /// `continue`: the procedure goes on.
    Continue(Continue),
    /// The procedure ends with an error.
    Error(Else),
}

/// The word `continue`.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Continue {
    /// The procedure goes on.
    Continue,
}

/// What is read.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(try_from = "ReadForm")]
#[schemars(with = "ReadSchema")]
pub enum Read {
    /// The records of a recordset, page by page.
    Rows(ReadRows),
    /// All readable fields of an entity.
    Fields(Named),
}

/// Records that are read.
#[derive(Clone, Debug)]
pub struct ReadRows {
    /// The recordset: `Loans.loans`.
    pub name: Named,
    /// No more records than that; without it all.
    pub limit: Option<Value>,
}

/// What stands in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadForm {
    rows: Option<Named>,
    limit: Option<Value>,
    fields: Option<Named>,
}

/// Either `rows`, with or without a limit, or `fields`.
#[derive(JsonSchema)]
#[schemars(untagged, deny_unknown_fields)]
#[expect(dead_code, reason = "it is there for its schema")]
enum ReadSchema {
    /// The records of a recordset: `Loans.loans`.
    Rows {
        /// The recordset, all pages of it.
        rows: Named,
        /// No more records than that.
        limit: Option<Value>,
    },
    /// All readable fields of an entity.
    Fields {
        /// The entity that stands.
        fields: Named,
    },
}

impl TryFrom<ReadForm> for Read {
    type Error = &'static str;

    fn try_from(form: ReadForm) -> Result<Read, Self::Error> {
        match form {
            ReadForm { rows: Some(name), limit, fields: None } => {
                Ok(Read::Rows(ReadRows { name, limit }))
            }
            ReadForm { rows: None, limit: None, fields: Some(name) } => Ok(Read::Fields(name)),
            _ => Err("'read' takes either 'rows', with or without a 'limit', or 'fields'"),
        }
    }
}

/// A value as it is written: a text, or `$name` for a variable, a parameter or a field.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
pub struct Value(pub Named);

impl Value {
    /// The name behind the dollar sign.
    pub fn name(&self) -> Option<&str> {
        self.0.name.strip_prefix('$')
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Named::deserialize(deserializer).map(Value)
    }
}

impl Model {
    /// How sessions are kept alive where they rest.
    pub(crate) fn keepalive(&self) -> Option<KeepAlive> {
        self.entities.value(&self.home.name).and_then(|home| home.keepalive)
    }

    /// What can be read as a model, and is none.
    fn check_steps(&self) -> Result<(), String> {
        let ops = self.entities.iter().flat_map(|entity| entity.value.ops.iter());
        let ops = ops.map(|op| (&op.key, op.value.timeout));
        let timed = self.procedures.iter().map(|it| (&it.key, it.value.timeout));
        if let Some((name, _)) =
            ops.chain(timed).find(|(_, timeout)| *timeout == Some(Period::from_seconds(0)))
        {
            return Err(format!("the timeout of '{}' is nothing: give at least 1s", name.name));
        }
        let kept = |entity: &&Entry<Entity>| {
            entity.value.keepalive.is_some_and(|it| it.every == Period::from_seconds(0))
        };
        if let Some(Entry { key, .. }) = self.entities.iter().find(kept) {
            let what = format!("the keepalive of '{}' is done all the time", key.name);
            return Err(format!("{what}: give at least 1s"));
        }
        for Entry { key, value } in self.procedures.iter() {
            let mut inner = value.steps.iter().filter_map(|step| match step {
                Step::Each(each) => Some(&each.steps),
                _ => None,
            });
            if inner.any(|steps| steps.iter().any(|step| matches!(step, Step::Each(_)))) {
                return Err(format!("'{}' has an 'each' in an 'each'", key.name));
            }
            let mut seen = BTreeSet::new();
            let mut lists = value.output.iter().flat_map(Entries::lists);
            if let Some((name, _)) = lists.find(|(_, rows)| !seen.insert(&rows.entity)) {
                return Err(format!("'{name}' of '{}' is a list that it gives already", key.name));
            }
        }
        Ok(())
    }

    /// Reads a file. What its names lead to is looked at by [`super::check`].
    ///
    /// # Errors
    /// It is no YAML, or no model.
    pub fn read(text: &str) -> Result<Model, ModelError> {
        let at = |line, column, problem: String| ModelError { line, column, problem };
        if text.len() > MODEL_BYTES {
            return Err(at(1, 1, format!("it has more than {MODEL_BYTES} bytes")));
        }
        // No snippet: the lines around an error may hold a password.
        let options = serde_saphyr::options! { with_snippet: false };
        let model: Model = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
            let place = error.location();
            let (line, column) = place.map_or((1, 1), |place| (place.line(), place.column()));
            let mut problem = error.without_snippet().to_string();
            // The place stands in front already.
            for tail in [
                format!(" at line {line}, column {column}"),
                format!("line {line}, column {column}: "),
            ] {
                problem = problem.replace(&tail, "");
            }
            at(line, column, problem)
        })?;
        model.check_steps().map_err(|problem| at(1, 1, problem))?;
        let first = model.entities.0.first();
        if first.is_none() {
            return Err(at(1, 1, "it has no entities".to_owned()));
        }
        if model.host.codepage.is_some_and(|number| CodePage::new(number).is_none()) {
            return Err(at(1, 1, "its code page is not known".to_owned()));
        }
        Ok(model)
    }
}
