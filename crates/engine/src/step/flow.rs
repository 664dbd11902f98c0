//! `if`, `set`, `check` and `stop`: steps that decide how the job goes on. They touch nothing
//! outside the job, and what they decided is recorded before a step begins that does more, so that
//! no later attempt decides anew what anybody has seen.

use async_trait::async_trait;
use entrepot_nouns::rule::{
    CheckSpec, IfSpec, RefuseSpec, SetSpec, StopEnding, StopSpec, Variable,
};
use serde_json::json;

use super::{Step, StepError};
use crate::foresight::{Foresee, Foreseen, Foresight};
use crate::ids::StepKey;
use crate::limits::NOTED_BYTES;
use crate::noted::{BRANCH, Noted, VARIABLES};
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
impl Foresee for IfSpec {
    async fn foresee(&self, foresight: &mut Foresight<'_>) -> Result<Foreseen, StepError> {
        let branch = if foresight.holds("when", &self.when)? { "then" } else { "else" };
        let what = match branch {
            "else" if self.otherwise.is_empty() => {
                "takes neither branch: there is no 'else'".into()
            }
            branch => format!("takes the branch '{branch}'"),
        };
        let result = Some(json!({ BRANCH: branch }));
        Ok(Foreseen { what, result, open: None })
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
        check_size(&noted)?;
        run.result = Some(json!({ VARIABLES: set }));
        Ok(())
    }
}

#[async_trait]
impl Foresee for SetSpec {
    async fn foresee(&self, foresight: &mut Foresight<'_>) -> Result<Foreseen, StepError> {
        let mut noted = foresight.noted.clone();
        let mut set = serde_json::Map::new();
        for Variable { name, expression } in &self.0 {
            let value = foresight.value(name, expression, &noted)?;
            set.insert(name.clone(), value.clone());
            noted.vars.insert(name.clone(), value);
        }
        check_size(&noted)?;
        let shown = set.iter().map(|(name, value)| format!("vars.{name} = {value}"));
        let what = format!("sets {}", shown.collect::<Vec<_>>().join(", "));
        let result = Some(json!({ VARIABLES: set }));
        Ok(Foreseen { what, result, open: None })
    }
}

pub(crate) fn check_size(noted: &Noted) -> Result<(), StepError> {
    if noted.size() <= NOTED_BYTES {
        return Ok(());
    }
    let text = format!("the variables of a job have {NOTED_BYTES} bytes at most");
    Err(StepError::permanent("EP0814", text))
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
impl Foresee for CheckSpec {
    async fn foresee(&self, foresight: &mut Foresight<'_>) -> Result<Foreseen, StepError> {
        if foresight.holds("that", &self.that)? {
            return Ok(Foreseen::doing("finds that it holds"));
        }
        let text = pattern::expand(&self.message, foresight.values())?;
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

#[async_trait]
impl Foresee for StopSpec {
    async fn foresee(&self, foresight: &mut Foresight<'_>) -> Result<Foreseen, StepError> {
        let text = pattern::expand(&self.message, foresight.values())?;
        match self.ending {
            StopEnding::Failed => Err(StepError::permanent("EP0815", text)),
            StopEnding::Done if text.is_empty() => Ok(Foreseen::doing("ends the job as done")),
            StopEnding::Done => Ok(Foreseen::doing(format!("ends the job as done: {text}"))),
        }
    }
}

#[async_trait]
impl Foresee for RefuseSpec {
    async fn foresee(&self, _foresight: &mut Foresight<'_>) -> Result<Foreseen, StepError> {
        Ok(Foreseen::doing(format!("refuses the command with {}: {}", self.code, self.text)))
    }
}
