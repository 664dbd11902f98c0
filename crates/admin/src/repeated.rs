//! The door for requests that their sender may repeat.

use crate::actor::Actor;
use crate::admin::{Admin, Answering};
use crate::as2_request::As2Request;
use crate::once::{KeptRequest, Once};
use crate::permissions;
use crate::request::Request;

impl Admin {
    /// As [`Admin::handle`], at most once for a key and an actor within
    /// [`crate::limits::ANSWERS_FOR`]: a repetition gets the answer of the first time. What was
    /// refused is not remembered, it changed nothing.
    ///
    /// # Errors
    /// [`crate::AdminError::KeyReused`] if the key was used for another request; as `handle`.
    pub fn handle_once<'a>(
        &'a self,
        actor: &'a Actor,
        request: Request,
        once: &'a Once,
    ) -> Answering<'a> {
        Box::pin(async move {
            actor.must(permissions::needed(&request))?;
            let parts = self.parts();
            let kept = KeptRequest::new(once, actor, &parts.master, &parts.env)?;
            parts.db.forget_answers(kept.forgotten_before()).await?;
            if let Some(answer) = kept.answer(&parts.db).await? {
                return Ok(answer);
            }
            let answer = match request {
                Request::Create { .. }
                | Request::Replace { .. }
                | Request::Change { .. }
                | Request::Delete { .. } => self.change_noun(actor, request, Some(&kept)).await?,
                Request::RunRule { name, parameters } => {
                    self.run_rule_once(actor, &name, &parameters, Some(&kept)).await?
                }
                Request::As2 { ask: As2Request::Send { partner, order } } => {
                    self.send_as2(actor, &partner, &order, Some(&kept)).await?
                }
                request => self.handle(actor, request).await?,
            };
            // A change of a noun has kept it already, unless there was nothing to change; so has
            // the start of a rule, or of a message.
            if let Err(error) = kept.keep(&parts.db, &answer).await {
                tracing::warn!(%error, "an answer is not kept: a repetition is a new request");
            }
            Ok(answer)
        })
    }
}
