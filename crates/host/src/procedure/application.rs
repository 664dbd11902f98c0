//! One session with an application.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use entrepot_tn3270_proto::{Key, Lock, Terminal};
use serde_json::Value as Json;

use super::called::{Call, CallError, Worked};
use crate::action::Place;
use crate::debug::{DebugRecord, Trouble, Work, WorkEnd};
use crate::error::HostError;
use crate::model::{Entity, Entry, Model};
use crate::session::{HostOptions, HostSession};
use crate::shown::shows;
use crate::view::{ScreenView, secret_areas};

/// A session with an application. Dropping it closes the connection.
#[derive(Debug)]
pub struct Application {
    model: Arc<Model>,
    session: HostSession,
    variables: BTreeMap<String, String>,
    unsent: Unsent,
    /// Whether a key has gone to the host since somebody asked.
    was_pressed: bool,
}

/// Whether something was typed that the next key sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unsent {
    Nothing,
    Typed,
}

/// Where something is typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeTo {
    /// From there on.
    Place(Place),
    /// Into a field of the entity that stands, in place of what is in it.
    Field(String),
}

/// What a screen is waited for to show; without anything it is the keyboard to be free.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScreenWait {
    /// A text that it shows.
    pub text: Option<String>,
    /// The text there; anywhere, if unset.
    pub at: Option<Place>,
    /// An entity of the model.
    pub entity: Option<String>,
    /// No longer than that; unset: as long as for every other answer of the host.
    pub timeout: Option<Duration>,
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
        variables: BTreeMap<String, String>,
    ) -> Result<Self, CallError> {
        Application::open_recorded(model, options, variables, None).await
    }

    /// The same, with a record of the session.
    ///
    /// # Errors
    /// As for [`Application::open`].
    pub async fn open_recorded(
        model: Arc<Model>,
        options: HostOptions,
        mut variables: BTreeMap<String, String>,
        mut record: Option<DebugRecord>,
    ) -> Result<Self, CallError> {
        if let Some(name) = variables.keys().find(|name| model.variables.entry(name).is_none()) {
            return Err(CallError::Caller(format!("the model has no variable '{name}'")));
        }
        for Entry { key, value } in model.variables.iter() {
            if let Some(default) = &value.default {
                variables.entry(key.name.clone()).or_insert_with(|| default.clone());
            }
        }
        if let Some(record) = &mut record {
            record.given(&secrets(&model, &variables).collect::<Vec<_>>());
        }
        let mut session = HostSession::open_recorded(options, record).await?;
        let stands = |terminal: &_| model.standing(terminal).is_some();
        let came = session.wait_until("a screen of the model", stands).await;
        let came = came.map_err(CallError::from);
        session.ended(end_of(&came));
        came?;
        let unsent = Unsent::Nothing;
        Ok(Application { model, session, variables, unsent, was_pressed: true })
    }

    /// Does something that is recorded.
    async fn recorded<T>(
        &mut self,
        work: impl FnOnce() -> Work,
        does: impl AsyncFnOnce(&mut Self) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        self.session.begun(work);
        let done = does(self).await;
        self.session.ended(end_of(&done));
        done
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
        let work = || Work::Call {
            procedure: procedure.to_owned(),
            parameters: input.keys().cloned().collect(),
        };
        self.session.begun(work);
        self.works_by_model();
        let called = self.worked().call(procedure, input).await;
        self.worked_by_model(&called);
        self.session.ended(end_of(&called));
        called
    }

    /// What is broken off in the midst may have typed something.
    fn works_by_model(&mut self) {
        self.was_pressed = true;
        self.unsent = Unsent::Typed;
    }

    fn worked_by_model<T>(&mut self, done: &Result<T, CallError>) {
        if matches!(done, Ok(_) | Err(CallError::Outcome { .. })) {
            self.was_sent();
        }
    }

    /// The host has answered. What was typed before may stand there still, and go with the next
    /// key too.
    fn was_sent(&mut self) {
        let screen = self.session.terminal().screen();
        let mut fields = screen.fields().filter_map(|at| screen.attribute(at));
        if !fields.any(|field| field.is_modified() && !field.is_protected()) {
            self.unsent = Unsent::Nothing;
        }
    }

    /// Goes where sessions rest.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn go_home(&mut self) -> Result<(), CallError> {
        self.recorded(|| Work::GoHome, async |it| it.homewards().await).await
    }

    async fn homewards(&mut self) -> Result<(), CallError> {
        let home = self.model.home.name.clone();
        self.ways_to(&home).await
    }

    /// By the fewest operations.
    async fn ways_to(&mut self, entity: &str) -> Result<(), CallError> {
        self.works_by_model();
        self.ready().await?;
        let gone = self.worked().go(entity, &Call::none()).await;
        self.worked_by_model(&gone);
        gone
    }

    /// Goes where the model says that sessions end, and closes the connection.
    pub async fn log_off(mut self) -> LoggedOff {
        let Some(end) = self.model.logoff.as_ref().map(|end| end.name.clone()) else {
            return LoggedOff::Perhaps;
        };
        let gone = self.recorded(
            || Work::LogOff,
            async |it| {
                it.ready().await?;
                it.worked().go(&end, &Call::none()).await
            },
        );
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
        if let Err(error) = self.session.take_in_what_came().await {
            self.session.failed("rest at home", &error);
            return Err(error);
        }
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
        let kept = self.recorded(
            || Work::KeepAlive,
            async |it| {
                it.worked().press(key).await?;
                it.worked().go(&home, &Call::none()).await
            },
        );
        kept.await
    }

    /// Presses the key by which the model keeps a session alive where it stands, and goes back
    /// there. Without such a key nothing is done, nor where something was typed that the key would
    /// send.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(crate) async fn keep_alive_here(&mut self) -> Result<(), CallError> {
        self.session.take_in_what_came().await?;
        let Some(here) = self.kept_alive_here() else { return Ok(()) };
        let (entity, key) = (here.key.name.clone(), here.value.keepalive.map(|it| it.key));
        let Some(key) = key else { return Ok(()) };
        let kept = self.recorded(
            || Work::KeepAlive,
            async |it| {
                it.worked().press(key).await?;
                it.worked().go(&entity, &Call::none()).await
            },
        );
        kept.await
    }

    /// The entity that stands, if a session is kept alive there.
    fn kept_alive_here(&self) -> Option<&Entry<Entity>> {
        let takes_keys = self.unsent == Unsent::Nothing && self.session.is_free();
        let stands = self.model.standing(self.session.terminal());
        stands.filter(|entity| takes_keys && entity.value.keepalive.is_some())
    }

    /// After how long without a key a session is kept alive where it stands.
    pub(crate) fn keepalive_here(&self) -> Option<Duration> {
        Some(self.kept_alive_here()?.value.keepalive?.every.duration())
    }

    /// True if a key has gone to the host since the last time that this was asked.
    pub(crate) fn take_pressed(&mut self) -> bool {
        std::mem::take(&mut self.was_pressed)
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
        let terminal = self.session.terminal();
        let stands = self.model.standing(terminal);
        let areas = secret_areas(stands.map(|entity| &entity.value));
        let words: Vec<&str> = self.secrets().collect();
        ScreenView::without(terminal, &areas, &words)
    }

    /// Takes in what the host has sent meanwhile.
    ///
    /// # Errors
    /// The connection has ended.
    pub(crate) async fn refresh(&mut self) -> Result<(), CallError> {
        Ok(self.session.take_in_what_came().await?)
    }

    /// Types a text, at the cursor unless it is said where.
    ///
    /// # Errors
    /// There is no such place, or nothing can be typed there.
    pub(crate) async fn type_text(
        &mut self,
        text: &str,
        to: Option<&TypeTo>,
    ) -> Result<(), CallError> {
        // What is typed is seen by the key that sends it.
        let work = || Work::AtScreens("type".to_owned());
        self.recorded(work, async |it| it.typed(text, to).await).await
    }

    async fn typed(&mut self, text: &str, to: Option<&TypeTo>) -> Result<(), CallError> {
        self.unsent = Unsent::Typed;
        match to {
            None => {}
            Some(TypeTo::Field(field)) => return self.worked().enter(field, text).await,
            Some(TypeTo::Place(place)) => {
                let size = self.session.terminal().screen().size();
                if place.row > size.rows || place.column > size.columns {
                    let (rows, columns) = (size.rows, size.columns);
                    let what = format!("the screen has {rows} rows and {columns} columns");
                    return Err(CallError::Caller(what));
                }
                self.session.move_cursor(*place);
            }
        }
        Ok(self.session.type_text(text).await?)
    }

    /// Presses a key; after one that goes to the host, waits until it frees the keyboard.
    ///
    /// # Errors
    /// The keyboard does not take it, or the host does not free it in time.
    pub(crate) async fn press(&mut self, key: Key) -> Result<(), CallError> {
        let work = || Work::AtScreens(format!("press {}", key.host_name()));
        let moves = matches!(key, Key::Reset | Key::Tab | Key::BackTab | Key::Home | Key::Move(_));
        let is_sent = matches!(key, Key::Aid(_));
        self.was_pressed |= is_sent;
        if !is_sent && !moves {
            self.unsent = Unsent::Typed;
        }
        self.recorded(work, async |it| Ok(it.session.press(key).await?)).await?;
        if is_sent {
            self.was_sent();
        }
        Ok(())
    }

    /// Waits for something that the screen shows.
    ///
    /// # Errors
    /// It does not come in time, or the model has no such entity.
    pub(crate) async fn wait(&mut self, wait: &ScreenWait) -> Result<(), CallError> {
        let work = || Work::AtScreens("wait".to_owned());
        self.recorded(work, async |it| it.waited(wait).await).await
    }

    async fn waited(&mut self, wait: &ScreenWait) -> Result<(), CallError> {
        let ScreenWait { text, at, entity, timeout } = wait;
        if let Some(name) = entity {
            self.known(name)?;
        }
        let model = Arc::clone(&self.model);
        let stands = |terminal: &Terminal| {
            let here = || model.standing(terminal).map(|here| &here.key.name);
            entity.as_ref().is_none_or(|wanted| here() == Some(wanted))
        };
        let shown =
            |terminal: &Terminal| text.as_ref().is_none_or(|text| shows(terminal, *at, text));
        let what = match (entity, text) {
            (Some(entity), _) => format!("'{entity}'"),
            (None, Some(text)) => format!("'{text}'"),
            (None, None) => "a free keyboard".to_owned(),
        };
        let most = timeout.unwrap_or_else(|| self.session.patience());
        let done =
            |terminal: &Terminal| terminal.lock().is_none() && stands(terminal) && shown(terminal);
        Ok(self.session.wait_within(most, &what, done).await?)
    }

    /// Goes to an entity by the fewest operations; `home` is the one where sessions rest.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(crate) async fn go(&mut self, to: &str) -> Result<(), CallError> {
        if to == "home" {
            return self.go_home().await;
        }
        let work = || Work::AtScreens(format!("go to {to}"));
        let gone = self.recorded(work, async |it| {
            it.known(to)?;
            it.ways_to(to).await
        });
        gone.await
    }

    fn known(&self, entity: &str) -> Result<(), CallError> {
        if self.model.entities.entry(entity).is_some() {
            return Ok(());
        }
        let known: Vec<&str> = self.model.entities.names().collect();
        let known = known.join(", ");
        Err(CallError::Caller(format!("there is no entity '{entity}': there are {known}")))
    }

    /// True while nothing that was begun with the host was broken off.
    pub fn is_whole(&self) -> bool {
        self.session.is_whole()
    }

    fn secrets(&self) -> impl Iterator<Item = &str> {
        secrets(&self.model, &self.variables)
    }

    /// Waits until the keyboard is free and an entity stands.
    async fn ready(&mut self) -> Result<(), CallError> {
        // What somebody typed where nothing can be typed: the host knows nothing of it.
        let lock = self.session.terminal().lock();
        if matches!(lock, Some(Lock::Protected | Lock::Numeric | Lock::Overflow)) {
            self.session.press(Key::Reset).await?;
        }
        let model = Arc::clone(&self.model);
        let ready =
            |terminal: &Terminal| terminal.lock().is_none() && model.standing(terminal).is_some();
        Ok(self.session.wait_until("a screen of the model", ready).await?)
    }

    fn worked(&mut self) -> Worked<'_> {
        let Application { model, session, variables, .. } = self;
        Worked { model, session, variables }
    }
}

/// The values that the model calls secret.
fn secrets<'a>(
    model: &'a Model,
    variables: &'a BTreeMap<String, String>,
) -> impl Iterator<Item = &'a str> {
    let secret = model.variables.iter().filter(|entry| entry.value.secret);
    secret.filter_map(|entry| variables.get(&entry.key.name)).map(String::as_str)
}

/// How it is recorded.
fn end_of<T>(done: &Result<T, CallError>) -> WorkEnd {
    let Err(error) = done else { return WorkEnd::Done };
    let trouble = Trouble { code: error.code(), error: error.to_string() };
    match error {
        CallError::Outcome { .. } | CallError::Caller(_) => WorkEnd::Refused(trouble),
        _ => WorkEnd::Failed(trouble),
    }
}
