//! `wait`: lets the job rest. What it decides is recorded with the step, so that a restart, or
//! another node, waits no longer and no shorter; the rest itself is the time from which on the job
//! may be claimed for its next step, and nothing of the node is held meanwhile.

use async_trait::async_trait;
use entrepot_nouns::Timestamp;
use entrepot_nouns::rule::WaitSpec;
use serde_json::{Value as Json, json};

use super::{Step, StepError};
use crate::foresight::{Foresee, Foreseen, Foresight};
use crate::ids::StepKey;
use crate::noted::UNTIL;
use crate::run::Run;

/// When the job goes on that comes to this step at `now`; `value` gives what an expression gives.
fn instant(
    spec: &WaitSpec,
    now: Timestamp,
    value: impl FnOnce(&str) -> Result<Json, StepError>,
) -> Result<Timestamp, StepError> {
    let Some(expression) = &spec.until else {
        return Ok(spec.period.map_or(now, |period| now.plus(period.duration())));
    };
    let given = value(expression)?;
    let instant = given.as_str().and_then(|text| text.parse().ok());
    instant.ok_or_else(|| {
        let text = format!("'wait.until' gives {given}, which is no point in time");
        StepError::permanent("EP0803", text)
    })
}

#[async_trait]
impl Step for WaitSpec {
    async fn run(&self, run: &mut Run<'_>, _key: &StepKey) -> Result<(), StepError> {
        let now = run.shared.recorder.env().now();
        let until = instant(self, now, |expression| run.value(expression, &run.noted))?;
        run.result = Some(json!({ UNTIL: until }));
        Ok(())
    }
}

#[async_trait]
impl Foresee for WaitSpec {
    async fn foresee(&self, foresight: &mut Foresight<'_>) -> Result<Foreseen, StepError> {
        let now = foresight.event().at;
        let noted = foresight.noted.clone();
        let until = instant(self, now, |expression| foresight.value("until", expression, &noted))?;
        let what = match self.period {
            Some(period) => format!("rests for {period}"),
            None => format!("rests until {until}"),
        };
        let result = Some(json!({ UNTIL: until }));
        Ok(Foreseen { what, result, open: None })
    }
}
