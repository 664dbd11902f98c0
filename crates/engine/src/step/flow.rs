//! `if`, `set`, `check` and `stop`: steps that decide how the job goes on. They touch nothing
//! outside the job, and what they decided is recorded before the next step begins, so that a
//! later attempt decides nothing anew.

use async_trait::async_trait;
use entrepot_nouns::rule::{CheckSpec, IfSpec, SetSpec, StopEnding, StopSpec};
use serde_json::json;

use super::{Step, StepError};
use crate::ids::StepKey;
use crate::limits::NOTED_BYTES;
use crate::noted::{BRANCH, VARIABLES};
use crate::pattern;
use crate::run::Run;

#[async_trait]
impl Step for IfSpec {
    async fn run(&self, run: &mut Run<'_>, _key: &StepKey) -> Result<(), StepError> {
        let branch = if run.holds(&self.when)? { "then" } else { "else" };
        run.result = Some(json!({ BRANCH: branch }));
        Ok(())
    }
}

#[async_trait]
impl Step for SetSpec {
    async fn run(&self, run: &mut Run<'_>, _key: &StepKey) -> Result<(), StepError> {
        let mut noted = run.noted.clone();
        let mut set = serde_json::Map::new();
        for variable in &self.0 {
            let value = run.value(&variable.expression, &noted)?;
            set.insert(variable.name.clone(), value.clone());
            noted.vars.insert(variable.name.clone(), value);
        }
        if noted.size() > NOTED_BYTES {
            let text = format!("the variables of a job have {NOTED_BYTES} bytes at most");
            return Err(StepError::permanent("EP0814", text));
        }
        run.result = Some(json!({ VARIABLES: set }));
        Ok(())
    }
}

#[async_trait]
impl Step for CheckSpec {
    async fn run(&self, run: &mut Run<'_>, _key: &StepKey) -> Result<(), StepError> {
        if run.holds(&self.that)? {
            return Ok(());
        }
        let text = pattern::expand(&self.message, run.values())?;
        Err(StepError::permanent("EP0815", text))
    }
}

#[async_trait]
impl Step for StopSpec {
    async fn run(&self, run: &mut Run<'_>, _key: &StepKey) -> Result<(), StepError> {
        let text = pattern::expand(&self.message, run.values())?;
        match self.ending {
            StopEnding::Failed => Err(StepError::permanent("EP0815", text)),
            StopEnding::Done => {
                if !text.is_empty() {
                    run.result = Some(json!({ "message": text }));
                }
                Ok(())
            }
        }
    }
}
