//! Files that mounts hold: an admin decides what becomes of one that no rule releases.

use entrepot_db::EventFilter;
use entrepot_journal::Scope;
use entrepot_nouns::event::{DecidedFact, HeldFact};
use entrepot_nouns::{Fact, Name, TransferId, TransferState};

use crate::actor::Actor;
use crate::admin::Admin;
use crate::error::{AdminError, Result};
use crate::live::{HeldDecision, HeldOrder};
use crate::query;
use crate::request::Response;

impl Admin {
    /// Releases or deletes a file that is held.
    pub(crate) async fn decide_held(
        &self,
        actor: &Actor,
        id: TransferId,
        decision: HeldDecision,
    ) -> Result<Response> {
        let (parts, serving) = (self.parts(), self.serving()?);
        let transfer = query::known_transfer(parts, actor.site, id).await?;
        let refused = |problem: String| AdminError::NotHeld { id: id.to_string(), problem };
        let state = transfer.state;
        if !matches!(state, TransferState::Held | TransferState::Quarantined) {
            return Err(refused(format!("it is {}", state.as_str())));
        }
        let (account, held) = self.held(actor, id).await?.ok_or_else(|| {
            refused("the event 'file.held' that says where it lies is not kept any more".into())
        })?;
        let by = actor.name.clone();
        if decision == HeldDecision::Release {
            // The upload is the account's; who let it be seen is told before.
            let scope = Scope { account: actor.own_account(), ..Scope::site(actor.site) };
            let fact =
                Fact::FileReleased { decided: DecidedFact { held: held.clone(), by: by.clone() } };
            let event = parts.recorder.event(&scope, fact);
            parts.recorder.seal(&event).await?;
        }
        let order = HeldOrder { site: actor.site, account, held, decision, by };
        serving.node.carry_out(order).await.map_err(refused)?;
        Ok(Response::Done)
    }

    /// The file of a transfer as it was told of last, and whose it is.
    async fn held(&self, actor: &Actor, id: TransferId) -> Result<Option<(Name, HeldFact)>> {
        let filter = EventFilter {
            transfer: Some(id),
            kinds: vec!["file.held".to_owned()],
            newest_first: true,
            limit: 1,
            ..EventFilter::default()
        };
        let found = self.parts().db.event_page(actor.site, &filter).await?.rows.pop();
        Ok(found.and_then(|row| match (row.event.account, row.event.fact) {
            (Some(account), Fact::FileHeld { held }) => Some((account, held)),
            _ => None,
        }))
    }
}
