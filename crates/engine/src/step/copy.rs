//! `copy`: writes the file that the steps work on into the account's view, as an upload.
//!
//! An attempt after a crash first looks whether the file is there already with these very bytes.
//! What an attempt left unfinished is the account's partial upload, and goes as those do.

use async_trait::async_trait;
use entrepot_nouns::VPath;
use entrepot_nouns::dry_run::LookedFor;
use entrepot_nouns::rule::{CopySpec, Existing};
use serde_json::json;

use super::mkdir::make_directories_above;
use super::{Input, Step, StepError, source};
use crate::files::Sink;
use crate::foresight::{Foresee, Foreseen, Foresight, InputFile};
use crate::ids::StepKey;
use crate::pattern;
use crate::pause::Pause;
use crate::run::Run;

#[async_trait]
impl Step for CopySpec {
    async fn run(&self, run: &mut Run<'_>, _key: &StepKey) -> Result<(), StepError> {
        let to = pattern::virtual_path(&self.to, run.values())?;
        let input = Input::open(run).await?;
        run.leave("to", json!(to.to_string()));
        if run.again() && is_there(run, &input, &to).await? {
            return Ok(());
        }
        run.hold.fence().await?;
        let size = input.source.size();
        let created = run.files().await?.create(&to, self.existing, size).await;
        let sink = match created {
            Err(error) if error.is_missing() => {
                make_directories_above(run, &to).await?;
                run.files().await?.create(&to, self.existing, size).await?
            }
            created => created?,
        };
        fill(run, &input, sink).await?;
        run.reached(Pause::Changed)
    }
}

#[async_trait]
impl Foresee for CopySpec {
    async fn foresee(&self, foresight: &mut Foresight<'_>) -> Result<Foreseen, StepError> {
        let to = pattern::virtual_path(&self.to, foresight.values())?;
        let found = foresight.look(&to).await?;
        let InputFile { file, open } = foresight.input()?;
        let (there, unseen) = match (found, self.existing) {
            (LookedFor::Nothing, _) => (", where nothing is", None),
            (LookedFor::File { .. }, Existing::Replace) => (" in place of the file there", None),
            (LookedFor::File { .. } | LookedFor::Directory, _) => {
                return Err(StepError::taken(&to));
            }
            (LookedFor::Unknown { why }, _) => ("", Some(why)),
        };
        let what = format!("copies {file} to '{to}'{there}");
        let result = Some(json!({"to": to.to_string()}));
        Ok(Foreseen { what, result, open: unseen.or(open) })
    }
}

/// Whether an earlier attempt has written it.
async fn is_there(run: &mut Run<'_>, input: &Input, to: &VPath) -> Result<bool, StepError> {
    let hold = run.hold;
    let there = match hold.waiting(run.files().await?.open(to)).await? {
        Err(error) if error.is_missing() => return Ok(false),
        there => there?,
    };
    if there.size() != input.source.size() {
        return Ok(false);
    }
    let wanted = input.described(run).await?;
    let found = source::digest(run, there.as_ref(), input.expected).await?;
    Ok(wanted.is(there.size(), &found))
}

async fn fill(run: &Run<'_>, input: &Input, mut sink: Box<dyn Sink>) -> Result<(), StepError> {
    match write(run, input, sink.as_mut()).await {
        Ok(()) => {
            run.hold.ended()?;
            sink.finish().await
        }
        Err(error) => {
            sink.abort().await;
            Err(error)
        }
    }
}

async fn write(run: &Run<'_>, input: &Input, sink: &mut dyn Sink) -> Result<(), StepError> {
    let mut reading = input.read();
    loop {
        let offset = reading.position();
        let Some(block) = run.hold.waiting(reading.next()).await?? else { break };
        run.hold.waiting(sink.write_at(offset, block)).await??;
    }
    reading.end().map(drop)
}
