//! What clients do with sessions that they hold.

use std::collections::BTreeMap;
use std::sync::Arc;

use entrepot_journal::Scope;
use entrepot_nouns::{Name, SessionId};

use super::{Applications, Called, Deployed};
use crate::pool::{Caller, Holding};
use crate::procedure::CallError;
use crate::procedure_error::ProcedureError;
use crate::sessions::{HostScreen, HostSessionView, SessionKind, SessionWork};

/// Who does something with a session of a model.
#[derive(Clone, Debug)]
pub struct HostClient {
    /// Who it is, for the audit log.
    pub scope: Scope,
    /// Whose the sessions are, and whose turn is taken in the queue for one.
    pub caller: Caller,
    /// The account's name and its groups.
    pub lineage: Vec<Name>,
    /// Of which model.
    pub model: Name,
}

impl Applications {
    /// Opens a session that the client holds.
    ///
    /// # Errors
    /// It may not, or there is none for it.
    pub async fn open_session(
        &self,
        client: HostClient,
        kind: SessionKind,
    ) -> Result<HostSessionView, ProcedureError> {
        let deployed = self.of_client(&client)?;
        if let SessionKind::Own(variables) = &kind {
            known_variables(&deployed, variables)?;
            // Its first screen is of no use to anybody else.
            is_at_screens(&deployed, &client)?;
        }
        let sessions = Arc::clone(&deployed.sessions);
        sessions.open(client.scope, client.caller, &deployed.pool, kind).await
    }

    /// The sessions that a client holds.
    ///
    /// # Errors
    /// It may not hold any, or there is no such model.
    pub fn sessions(&self, client: &HostClient) -> Result<Vec<HostSessionView>, ProcedureError> {
        let deployed = self.of_client(client)?;
        Ok(deployed.sessions.list(client.caller, &deployed.pool))
    }

    /// A session that a client holds.
    ///
    /// # Errors
    /// It does not hold it.
    pub fn session(
        &self,
        client: &HostClient,
        id: SessionId,
    ) -> Result<HostSessionView, ProcedureError> {
        let deployed = self.of_client(client)?;
        deployed.sessions.show(id, client.caller, &deployed.pool)
    }

    /// Suspends a session, or goes on with it.
    ///
    /// # Errors
    /// The client does not hold it, or works in it.
    pub async fn hold_session(
        &self,
        client: &HostClient,
        id: SessionId,
        how: Holding,
    ) -> Result<HostSessionView, ProcedureError> {
        let deployed = self.of_client(client)?;
        deployed.sessions.hold(id, client.caller, &deployed.pool, how).await
    }

    /// Gives a session back.
    ///
    /// # Errors
    /// The client does not hold it, or works in it.
    pub async fn end_session(
        &self,
        client: &HostClient,
        id: SessionId,
    ) -> Result<(), ProcedureError> {
        let deployed = self.of_client(client)?;
        deployed.sessions.end(id, client.caller, &deployed.pool).await
    }

    /// Does something at the screens of a session, and answers what stands then.
    ///
    /// # Errors
    /// The client may not, or it does not come about.
    pub async fn work_at_screens(
        &self,
        client: &HostClient,
        id: SessionId,
        work: SessionWork,
    ) -> Result<HostScreen, ProcedureError> {
        let deployed = self.of_client(client)?;
        is_at_screens(&deployed, client)?;
        let mut request = deployed.sessions.work(id, client.caller, &deployed.pool).await?;
        let done = request.at_screens(work).await;
        match done {
            Ok(screen) => Ok(screen),
            Err(error) => Err(ProcedureError::of(error, request.session()?)),
        }
    }

    /// Calls a procedure in a session, from wherever it stands. The call is recorded, however it
    /// ends.
    ///
    /// # Errors
    /// The client may not, or it ends with an error.
    pub async fn call_in_session(
        &self,
        client: &HostClient,
        id: SessionId,
        procedure: &str,
        input: BTreeMap<String, String>,
    ) -> Result<Called, ProcedureError> {
        let deployed = self.of_client(client)?;
        self.check_right(client.scope.site, &client.model, procedure, &client.lineage)?;
        deployed.knows(procedure)?;
        let mut request = deployed.sessions.work(id, client.caller, &deployed.pool).await?;
        let mut fact = self.fact(client.model.clone(), procedure.to_owned());
        fact.host_session = Some(id);
        let called = deployed.call_in(request.session()?, procedure, input).await;
        self.record(&client.scope, fact, called)
    }

    fn of_client(&self, client: &HostClient) -> Result<Arc<Deployed>, ProcedureError> {
        let deployed = self.find(client.scope.site, &client.model)?;
        if deployed.deployment.model.may_hold_sessions(&client.lineage) {
            return Ok(deployed);
        }
        Err(ProcedureError::NoSession(client.model.clone()))
    }
}

fn is_at_screens(deployed: &Deployed, client: &HostClient) -> Result<(), ProcedureError> {
    if deployed.deployment.model.may_use_terminals(&client.lineage) {
        return Ok(());
    }
    Err(ProcedureError::NoTerminal(client.model.clone()))
}

fn known_variables(
    deployed: &Deployed,
    variables: &BTreeMap<String, String>,
) -> Result<(), ProcedureError> {
    let known = &deployed.model.variables;
    let Some(name) = variables.keys().find(|name| known.entry(name).is_none()) else {
        return Ok(());
    };
    let known: Vec<&str> = known.names().collect();
    let what = format!("the model has no variable '{name}': there are {}", known.join(", "));
    Err(ProcedureError::Call { error: CallError::Caller(what), stood: Box::default() })
}
