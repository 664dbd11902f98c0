//! The engine: projects the journal into the database, matches rules, works jobs.
mod backoff;
mod condition;
#[cfg(test)]
mod fixture;
pub mod limits;
mod pattern;
