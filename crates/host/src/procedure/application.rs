//! One session with an application.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as Json;

use super::called::{Call, CallError, Worked};
use crate::error::HostError;
use crate::model::{Entry, Model};
use crate::session::{HostOptions, HostSession};
use crate::view::{ScreenView, SecretArea};

/// A session with an application. Dropping it closes the connection.
#[derive(Debug)]
pub struct Application {
    model: Arc<Model>,
    session: HostSession,
    variables: BTreeMap<String, String>,
}

/// Whether an application knows that a session has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoggedOff {
    /// It showed the entity where sessions end.
    Surely,
    /// The connection is closed; the application may not have noticed.
    Perhaps,
}

impl Application {
    /// Connects, and waits until an entity of the model stands.
    ///
    /// # Errors
    /// A variable is not known or has no value, or the host shows nothing of the model.
    pub async fn open(
        model: Arc<Model>,
        options: HostOptions,
        mut variables: BTreeMap<String, String>,
    ) -> Result<Self, CallError> {
        if let Some(name) = variables.keys().find(|name| model.variables.entry(name).is_none()) {
            return Err(CallError::Caller(format!("the model has no variable '{name}'")));
        }
        for Entry { key, value } in model.variables.iter() {
            if let Some(default) = &value.default {
                variables.entry(key.name.clone()).or_insert_with(|| default.clone());
            }
        }
        let mut session = HostSession::open(options).await?;
        let stands = |terminal: &_| model.standing(terminal).is_some();
        session.wait_until("a screen of the model", stands).await?;
        Ok(Application { model, session, variables })
    }

    /// Calls a procedure; answers what it has read.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn call(
        &mut self,
        procedure: &str,
        input: BTreeMap<String, String>,
    ) -> Result<Json, CallError> {
        self.worked().call(procedure, input).await
    }

    /// Goes where sessions rest.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn go_home(&mut self) -> Result<(), CallError> {
        let home = self.model.home.name.clone();
        self.ready().await?;
        self.worked().go(&home, &Call::none()).await
    }

    /// Goes where the model says that sessions end, and closes the connection.
    pub async fn log_off(mut self) -> LoggedOff {
        let Some(end) = self.model.logoff.as_ref().map(|end| end.name.clone()) else {
            return LoggedOff::Perhaps;
        };
        let gone = async {
            self.ready().await?;
            self.worked().go(&end, &Call::none()).await
        };
        match gone.await {
            Ok(()) => LoggedOff::Surely,
            Err(error) => {
                tracing::debug!(%error, "a session was not logged off");
                LoggedOff::Perhaps
            }
        }
    }

    /// Takes in what the host has sent meanwhile; answers whether the session is where it rests,
    /// and takes keys.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn is_at_home(&mut self) -> Result<bool, HostError> {
        self.session.take_in_what_came().await?;
        Ok(self.session.is_free() && self.standing() == Some(&self.model.home.name))
    }

    /// Presses the key by which the model keeps a session alive where it rests, and waits until it
    /// rests there again. Without such a key nothing is done.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn keep_alive(&mut self) -> Result<(), CallError> {
        let home = self.model.home.name.clone();
        let Some(key) = self.model.keepalive().map(|keepalive| keepalive.key) else {
            return Ok(());
        };
        self.worked().press(key).await?;
        self.worked().go(&home, &Call::none()).await
    }

    /// The time after which the model keeps a resting session alive.
    pub fn keepalive_every(&self) -> Option<Duration> {
        self.model.keepalive().map(|keepalive| keepalive.every.duration())
    }

    /// The entity that stands.
    pub fn standing(&self) -> Option<&str> {
        let stands = self.model.standing(self.session.terminal());
        stands.map(|entry| entry.key.name.as_str())
    }

    /// What the screen shows, without what the model calls secret.
    pub fn screen(&self) -> ScreenView {
        let entity = self.model.standing(self.session.terminal());
        let fields = entity.into_iter().flat_map(|entity| entity.value.fields.iter());
        let secret = fields.filter(|field| field.value.secret);
        let areas: Vec<SecretArea> =
            secret.map(|Entry { value, .. }| SecretArea::new(value.at, value.length)).collect();
        let words: Vec<&str> = self.secrets().collect();
        self.session.screen().without(&areas, &words)
    }

    /// True while nothing that was begun with the host was broken off.
    pub fn is_whole(&self) -> bool {
        self.session.is_whole()
    }

    fn secrets(&self) -> impl Iterator<Item = &str> {
        let secret = self.model.variables.iter().filter(|entry| entry.value.secret);
        secret.filter_map(|entry| self.variables.get(&entry.key.name)).map(String::as_str)
    }

    /// Waits until the keyboard is free and an entity stands.
    async fn ready(&mut self) -> Result<(), CallError> {
        let model = Arc::clone(&self.model);
        let ready = |terminal: &entrepot_tn3270_proto::Terminal| {
            terminal.lock().is_none() && model.standing(terminal).is_some()
        };
        Ok(self.session.wait_until("a screen of the model", ready).await?)
    }

    fn worked(&mut self) -> Worked<'_> {
        let Application { model, session, variables } = self;
        Worked { model, session, variables }
    }
}
