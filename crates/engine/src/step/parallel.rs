//! `parallel`: runs lists of steps at the same time. There is nothing to be decided at the step
//! itself, and nothing that it could fail at; [`crate::run`] runs the lists.

use async_trait::async_trait;
use entrepot_nouns::rule::{ParallelNeed, ParallelSpec};

use super::{Step, StepError};
use crate::foresight::{Foresee, Foreseen, Foresight};
use crate::ids::StepKey;
use crate::run::Run;

#[async_trait]
impl Step for ParallelSpec {
    async fn run(&self, _run: &mut Run<'_>, _key: &StepKey) -> Result<(), StepError> {
        Ok(())
    }
}

#[async_trait]
impl Foresee for ParallelSpec {
    async fn foresee(&self, _foresight: &mut Foresight<'_>) -> Result<Foreseen, StepError> {
        let count = self.branches.len();
        let what = match self.need {
            ParallelNeed::All => "goes on when all are through",
            ParallelNeed::Any => "goes on with the first that is through",
        };
        Ok(Foreseen::doing(format!("runs {count} lists of steps at the same time, and {what}")))
    }
}
