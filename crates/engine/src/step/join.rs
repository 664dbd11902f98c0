//! `join`: puts the parts of a file together that lie in the account's view, in the order of their
//! numbers. A part that is missing may come yet: the step is tried again.

use std::collections::BTreeSet;

use async_trait::async_trait;
use entrepot_nouns::VPath;
use entrepot_nouns::rule::JoinSpec;
use serde_json::{Value as Json, json};

use super::change::{foreseen_file, made_name};
use super::made::Making;
use super::many::leave_paths;
use super::{Input, Step, StepError};
use crate::files::AccountFiles;
use crate::foresight::{Foresee, Foreseen, Foresight};
use crate::ids::StepKey;
use crate::limits::JOIN_PARTS;
use crate::pattern::{self, PartNames, Values};
use crate::pause::Pause;
use crate::run::Run;

#[async_trait]
impl Step for JoinSpec {
    async fn run(&self, run: &mut Run<'_>, key: &StepKey) -> Result<(), StepError> {
        let name = name(self, run.values())?;
        let parts = pattern::part_names(&self.from, run.values())?;
        let count = self.count.as_ref().map(|count| run.value(count, &run.noted));
        let count = count.transpose()?.map(|count| number(&count)).transpose()?;
        let hold = run.hold;
        let numbers = hold.waiting(numbers(run.files().await?, &parts)).await??;
        let paths = paths(&parts, &numbers, count)?;
        run.reached(Pause::SourceOpen)?;
        let mut making = Making::begin(run, key).await?;
        if let Err(error) = join(run, &mut making, &paths).await {
            making.discard().await;
            return Err(error);
        }
        run.reached(Pause::Written)?;
        making.finish(run, name).await?;
        run.leave("parts", json!(paths.len()));
        leave_paths(run, paths.iter());
        run.reached(Pause::Published)
    }
}

fn name(spec: &JoinSpec, values: Values<'_>) -> Result<String, StepError> {
    made_name(values, spec.name.as_deref(), str::to_owned)
}

/// How many parts an expression says that there must be.
fn number(given: &Json) -> Result<u32, StepError> {
    let number = given.as_u64().and_then(|number| u32::try_from(number).ok());
    number.filter(|number| (1..=JOIN_PARTS).contains(number)).ok_or_else(|| {
        let given: String = given.to_string().chars().take(64).collect();
        let text = format!("'count' gives {given}, and must give a number from 1 to {JOIN_PARTS}");
        StepError::permanent("EP0812", text)
    })
}

/// The numbers of the parts that are there.
async fn numbers(files: &dyn AccountFiles, parts: &PartNames) -> Result<BTreeSet<u32>, StepError> {
    let found = files.names(&parts.folder, &|name| parts.number(name).is_some()).await;
    let names = match found {
        Err(error) if error.is_missing() => Vec::new(),
        found => found?,
    };
    Ok(names.iter().filter_map(|name| parts.number(name)).collect())
}

/// The paths of all parts.
///
/// # Errors
/// One is missing, or there is one too many.
fn paths(
    parts: &PartNames,
    numbers: &BTreeSet<u32>,
    count: Option<u32>,
) -> Result<Vec<VPath>, StepError> {
    let last = numbers.last().copied().unwrap_or(1);
    let count = count.unwrap_or(last);
    if let Some(missing) = (1..=count).find(|number| !numbers.contains(number)) {
        let (path, there) = (parts.path(missing)?, numbers.len());
        let text = format!("part {missing}, '{path}', is not there; {there} parts are");
        return Err(StepError::transient("EP0880", text));
    }
    if last > count || count > JOIN_PARTS {
        let (path, most) = (parts.path(last)?, count.min(JOIN_PARTS));
        let text = format!("part {last}, '{path}', is one too many: {most} are to be joined");
        return Err(StepError::permanent("EP0880", text));
    }
    let paths = (1..=count).map(|number| parts.path(number)).collect::<Result<_, _>>();
    Ok(paths?)
}

async fn join(run: &mut Run<'_>, making: &mut Making, paths: &[VPath]) -> Result<(), StepError> {
    for path in paths {
        let hold = run.hold;
        let source = hold.waiting(run.files().await?.open(path)).await??;
        let part = Input::whatever(path.clone(), source);
        let mut reading = part.read();
        while let Some(block) = hold.waiting(reading.next()).await?? {
            making.write(run, block).await?;
            run.reached(Pause::BlockWritten)?;
        }
        reading.end()?;
    }
    Ok(())
}

#[async_trait]
impl Foresee for JoinSpec {
    async fn foresee(&self, foresight: &mut Foresight<'_>) -> Result<Foreseen, StepError> {
        let name = name(self, foresight.values())?;
        let parts = pattern::part_names(&self.from, foresight.values())?;
        let noted = foresight.noted.clone();
        let count = self.count.as_ref().map(|count| foresight.value("count", count, &noted));
        let count = count.transpose()?.map(|count| number(&count)).transpose()?;
        let first = parts.path(1)?;
        let what = match foresight.account_files()? {
            Some(files) => {
                let paths = paths(&parts, &numbers(files, &parts).await?, count)?;
                format!("joins {} parts, '{first}' the first of them, as '{name}'", paths.len())
            }
            None => format!("joins '{first}' and what follows it as '{name}'"),
        };
        Ok(foreseen_file(foresight, what, name))
    }
}
