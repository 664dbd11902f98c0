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
use crate::request::{Request, Response};

impl Admin {
    /// Lists browsers, or signs one out.
    pub(crate) async fn browsers(&self, actor: &Actor, request: Request) -> Result<Response> {
        let parts = self.parts();
        match request {
            Request::SignIns { account } => list(parts, actor, account.as_ref()).await,
            Request::EndSignIn { id } => end(parts, self.serving().ok(), actor, id).await,
            _ => Err(AdminError::Internal {
                what: "browsers that are signed in",
                problem: "another request came".to_owned(),
            }),
        }
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
