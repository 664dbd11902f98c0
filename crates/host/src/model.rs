//! The model of a host application: its screens (entities), how to get from one to another
//! (operations), lists on them (recordsets), and procedures over all of that. A YAML file.

mod check;
mod document;
mod entries;
mod items;
mod output;
mod pattern;
mod recordset;
mod results;
mod schema;
mod standing;

pub use check::{Finding, check};
pub use document::{
    Continue, Each, Else, Entity, EntityFields, HostAccess, KeepAlive, Listed, Model, ModelError,
    ModelTest, On, Operation, Parameter, ParameterKind, Pick, Procedure, Read, ReadRows, Step,
    Value, Variable,
};
pub use entries::{Entries, Entry, Named, Scalar};
pub use items::{
    ColumnKind, HostKey, Matching, ModelColumn, ModelField, Pattern, RecordRows, Rows,
};
pub(crate) use output::is_count;
pub use output::{Output, OutputRows};
pub use recordset::{Next, RecordSize, Recordset, RowTest, SkipBlank};
pub use results::{Described, RowSet, described};
pub use schema::schema;
