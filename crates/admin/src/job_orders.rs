//! Orders about jobs, with the seal of what they recorded.

use entrepot_nouns::JobId;

use crate::actor::Actor;
use crate::admin::Admin;
use crate::error::Result;
use crate::jobs::{self, JobAction};
use crate::request::Response;

impl Admin {
    pub(crate) async fn act(
        &self,
        actor: &Actor,
        id: JobId,
        action: JobAction,
    ) -> Result<Response> {
        let event = jobs::act(self.parts(), actor, id, action).await?;
        self.seal_now(&[event]).await;
        Ok(Response::Done)
    }
}
