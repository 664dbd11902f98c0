//! Browsers that are signed in: listed, and signed out by an administrator.

use entrepot_auth::SignInInfo;
use entrepot_auth::limits::LISTED_SIGN_INS;
use entrepot_journal::Scope;
use entrepot_nouns::event::SignInEndedFact;
use entrepot_nouns::{Fact, Name, SessionId};

use crate::actor::Actor;
use crate::admin::Admin;
use crate::error::{AdminError, Result};
use crate::parts::{AdminParts, ServingParts};
use crate::request::Response;

impl Admin {
    /// Browsers that are signed in.
    pub(crate) async fn list_sign_ins(
        &self,
        actor: &Actor,
        account: Option<&Name>,
    ) -> Result<Response> {
        list(self.parts(), actor, account).await
    }

    /// Signs a browser out.
    pub(crate) async fn end_sign_in(&self, actor: &Actor, id: SessionId) -> Result<Response> {
        end(self.parts(), self.serving().ok(), actor, id).await
    }
}

/// The browsers that are signed in at the site of the actor, or as one of its accounts.
async fn list(parts: &AdminParts, actor: &Actor, account: Option<&Name>) -> Result<Response> {
    let rows = parts.db.sign_ins(actor.site, account, LISTED_SIGN_INS).await?;
    Ok(Response::SignIns { sign_ins: rows.into_iter().map(SignInInfo::from).collect() })
}

/// Signs a browser out, on all nodes.
async fn end(
    parts: &AdminParts,
    serving: Option<&ServingParts>,
    actor: &Actor,
    id: SessionId,
) -> Result<Response> {
    let missing = AdminError::NoSignIn { id };
    let Some(row) = parts.db.sign_in(actor.site, id).await? else { return Err(missing) };
    let (name, reason) = (row.account, "ended by an administrator".to_owned());
    let ended = SignInEndedFact { name, reason, by: Some(actor.name.clone()) };
    let fact = Fact::SignInEnded { ended };
    let scope = Scope { account: actor.account(), session: Some(id), ..Scope::site(actor.site) };
    parts.recorder.record_durable(&scope, fact).await?;
    parts.db.end_sign_in(actor.site, id).await?;
    if let Some(serving) = serving {
        serving.gate.forget_sign_in(id);
    }
    Ok(Response::Done)
}
