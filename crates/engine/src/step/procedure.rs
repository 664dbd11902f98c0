//! `procedure`: calls a procedure of a host application, and makes a file of what it gives.
//!
//! What a procedure does in its application happens at least once: an attempt that a crash cut off
//! calls it again.

use std::collections::BTreeMap;

use async_trait::async_trait;
use bytes::Bytes;
use entrepot_host::model::RowSet;
use entrepot_host::{CallError, Called, Caller, ProcedureCall, ProcedureError, Scope};
use entrepot_nouns::rule::{ProcedureFormat, ProcedureSpec};
use serde_json::{Map, Value as Json};

use super::change::{foreseen_file, made_name};
use super::made::Making;
use super::{Step, StepError};
use crate::foresight::{Foresee, Foreseen, Foresight};
use crate::ids::StepKey;
use crate::pattern::{self, PatternError, Values};
use crate::pause::Pause;
use crate::run::Run;

/// Rules take one turn among those who wait for a session.
const RULES: Caller = Caller(0);
/// Bytes of a file that are written at a time.
const BLOCK_BYTES: usize = 64 << 10;

#[async_trait]
impl Step for ProcedureSpec {
    async fn run(&self, run: &mut Run<'_>, key: &StepKey) -> Result<(), StepError> {
        let (name, input) = (name(self, run.values())?, input(self, run.values())?);
        let call = ProcedureCall {
            scope: Scope {
                job: Some(run.job.id),
                cause: Some(run.job.event.id),
                depth: run.job.event.depth.saturating_add(1),
                ..Scope::site(run.job.site)
            },
            caller: RULES,
            model: self.model.clone(),
            procedure: self.call.clone(),
            input,
        };
        run.hold.fence().await?;
        let applications = run.shared.applications.clone();
        let called = run.hold.waiting(applications.call(call)).await?.map_err(failed)?;
        let content = match self.format {
            ProcedureFormat::Csv => csv(self, &called)?,
            ProcedureFormat::Json => format!("{}\n", called.result),
        };
        run.reached(Pause::SourceOpen)?;
        let mut making = Making::begin(run, key).await?;
        let content = Bytes::from(content);
        for begin in (0..content.len()).step_by(BLOCK_BYTES) {
            let end = content.len().min(begin + BLOCK_BYTES);
            if let Err(error) = making.write(run, content.slice(begin..end)).await {
                making.discard().await;
                return Err(error);
            }
            run.reached(Pause::BlockWritten)?;
        }
        run.reached(Pause::Written)?;
        making.finish(run, name).await?;
        leave(run, called);
        run.reached(Pause::Published)
    }
}

/// What later steps can look at: fields as they are, and of recordsets how many records they have.
fn leave(run: &mut Run<'_>, called: Called) {
    let Json::Object(fields) = called.result else { return };
    let told = fields.into_iter().map(|(name, value)| match value {
        Json::Array(records) => (name, Json::from(records.len())),
        value => (name, value),
    });
    run.leave("result", Json::Object(told.collect::<Map<_, _>>()));
}

fn name(spec: &ProcedureSpec, values: Values<'_>) -> Result<String, StepError> {
    made_name(values, Some(&spec.name), str::to_owned)
}

fn input(
    spec: &ProcedureSpec,
    values: Values<'_>,
) -> Result<BTreeMap<String, String>, PatternError> {
    let text =
        |(name, text): (&String, &String)| Ok((name.clone(), pattern::expand(text, values)?));
    spec.input.iter().map(text).collect()
}

/// Placeholders of a rule that could not be replaced.
pub(crate) fn check(
    spec: &ProcedureSpec,
    values: Values<'_>,
) -> Result<(), (&'static str, PatternError)> {
    input(spec, values).map_err(|error| ("procedure.in", error))?;
    pattern::expand(&spec.name, values).map(drop).map_err(|error| ("procedure.name", error))
}

fn failed(error: ProcedureError) -> StepError {
    let (code, text) = (error.code(), error.to_string());
    match error {
        ProcedureError::Call {
            error: CallError::Caller(_) | CallError::Outcome { .. }, ..
        }
        | ProcedureError::NotAllowed { .. }
        | ProcedureError::NoTerminal(_)
        | ProcedureError::NoSession(_) => StepError::permanent(code, text),
        // A host that is away, a model that is being changed: it may pass.
        ProcedureError::NoModel(_)
        | ProcedureError::Pool(_)
        | ProcedureError::Busy(_)
        | ProcedureError::Suspended(_)
        | ProcedureError::HoldsEnough { .. }
        | ProcedureError::Call { .. }
        | ProcedureError::Journal(_) => StepError::transient(code, text),
    }
}

fn csv(spec: &ProcedureSpec, called: &Called) -> Result<String, StepError> {
    let set = row_set(spec, &called.row_sets)?;
    let mut text = String::new();
    line(&mut text, set.columns.iter().map(String::as_str));
    let records = called.result.get(&set.name).and_then(Json::as_array);
    for record in records.into_iter().flatten() {
        let cells: Vec<String> =
            set.columns.iter().map(|name| cell(RowSet::value(record, name))).collect();
        line(&mut text, cells.iter().map(String::as_str));
    }
    Ok(text)
}

fn row_set<'s>(spec: &ProcedureSpec, sets: &'s [RowSet]) -> Result<&'s RowSet, StepError> {
    let names = || sets.iter().map(|set| set.name.as_str()).collect::<Vec<_>>().join(", ");
    let (found, problem) = match &spec.rows {
        Some(rows) => {
            let found = sets.iter().find(|set| set.name == *rows);
            (found, format!("'{}' gives no rows '{rows}': there are {}", spec.call, names()))
        }
        None => {
            let problem = if sets.is_empty() {
                format!("'{}' gives no rows: write a file of JSON", spec.call)
            } else {
                format!("'{}' gives more than one list of rows, name one: {}", spec.call, names())
            };
            (sets.first().filter(|_| sets.len() == 1), problem)
        }
    };
    found.ok_or_else(|| StepError::permanent("EP1316", problem))
}

fn cell(value: Option<&Json>) -> String {
    match value {
        None | Some(Json::Null) => String::new(),
        Some(Json::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}

/// One line of RFC 4180.
fn line<'c>(text: &mut String, cells: impl Iterator<Item = &'c str>) {
    for (at, cell) in cells.enumerate() {
        if at > 0 {
            text.push(',');
        }
        if cell.contains(['"', ',', '\r', '\n']) {
            text.push('"');
            text.push_str(&cell.replace('"', "\"\""));
            text.push('"');
        } else {
            text.push_str(cell);
        }
    }
    text.push_str("\r\n");
}

#[async_trait]
impl Foresee for ProcedureSpec {
    async fn foresee(&self, foresight: &mut Foresight<'_>) -> Result<Foreseen, StepError> {
        let name = name(self, foresight.values())?;
        let input = input(self, foresight.values())?;
        let given: Vec<String> =
            input.iter().map(|(name, value)| format!("{name}='{value}'")).collect();
        let with =
            if given.is_empty() { String::new() } else { format!(" with {}", given.join(", ")) };
        let what = format!("calls '{}' of '{}'{with}, as '{name}'", self.call, self.model);
        Ok(foreseen_file(foresight, what, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn spec(rows: Option<&str>) -> ProcedureSpec {
        let json = json!({"model": "m", "call": "find", "name": "f.csv", "rows": rows});
        serde_json::from_value(json).unwrap()
    }

    fn set(name: &str) -> RowSet {
        RowSet { name: name.to_owned(), columns: vec!["id".to_owned(), "title".to_owned()] }
    }

    #[test]
    fn rows_are_lines_in_the_order_of_the_model() {
        let result = json!({"loans": [
            {"title": "A, \"B\"", "id": 7, "more": {"due": "D", "id": 1}},
            {"id": null, "title": "C"},
        ]});
        let mut of_parts = set("loans");
        of_parts.columns.push("more.due".to_owned());
        let called = Called { result: result.clone(), row_sets: vec![of_parts] };
        let wanted = "id,title,more.due\r\n7,\"A, \"\"B\"\"\",D\r\n,C,\r\n";
        assert_eq!(csv(&spec(None), &called).unwrap(), wanted);
        let called = Called { result, row_sets: vec![set("loans")] };
        let wanted = "id,title\r\n7,\"A, \"\"B\"\"\"\r\n,C\r\n";
        assert_eq!(csv(&spec(None), &called).unwrap(), wanted);
        assert_eq!(csv(&spec(Some("loans")), &called).unwrap(), wanted);
    }

    #[test]
    fn which_rows_are_meant_must_be_clear() {
        for (rows, sets, words) in [
            (None, vec![], "gives no rows: write a file of JSON"),
            (None, vec![set("a"), set("b")], "name one: a, b"),
            (Some("c"), vec![set("a")], "gives no rows 'c': there are a"),
        ] {
            let error = row_set(&spec(rows), &sets).unwrap_err().to_string();
            assert!(error.contains(words) && error.starts_with("EP1316"), "{error}");
        }
    }
}
