//! What a step may ask when it says what it would do: the values of placeholders and expressions,
//! and what is there. Nothing that can be asked changes anything.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use entrepot_db::{Db, EventFilter};
use entrepot_nouns::dry_run::{EventOrigin, ForeseenExpression, LookedAt, LookedFor};
use entrepot_nouns::noun::Stored;
use entrepot_nouns::rule::{FindSpec, StepSpec};
use entrepot_nouns::{Endpoint, Event, Fact, Job, Name, StepAddress, StorePath, VPath};
use entrepot_spawn::Allowed;
use entrepot_storage::{EntryKind, Meta, StoreError};
use serde_json::Value as Json;

use crate::calendars::Calendars;
use crate::condition::Subject;
use crate::files::{AccountFiles, FileAccess};
use crate::limits::LOOK;
use crate::noted::Noted;
use crate::pattern::{self, Values};
use crate::step::find::Files;
use crate::step::{self, Expected, StepError, changed};
use crate::versions::RunRule;

/// Beside [`crate::step::Step`], of each step: what its `run` would do at the first attempt.
#[async_trait]
pub(crate) trait Foresee: Send + Sync {
    /// Finds it out without touching anything; the error that it would end with, if that can be
    /// seen.
    async fn foresee(&self, foresight: &mut Foresight<'_>) -> Result<Foreseen, StepError>;
}

/// What a step would do.
#[derive(Debug, Default)]
pub(crate) struct Foreseen {
    /// A sentence that begins with a verb, such as `removes '/in/a'`.
    pub(crate) what: String,
    /// What the step would leave for later ones, as its record would have it.
    pub(crate) result: Option<Json>,
    /// Why nobody can say before it runs how it ends; unset: it would end well.
    pub(crate) open: Option<String>,
}

impl Foreseen {
    /// It would do this, and end well.
    pub(crate) fn doing(what: impl Into<String>) -> Foreseen {
        Foreseen { what: what.into(), ..Foreseen::default() }
    }

    /// It would do this; how it ends is open.
    pub(crate) fn open(what: impl Into<String>, why: impl Into<String>) -> Foreseen {
        Foreseen { what: what.into(), open: Some(why.into()), ..Foreseen::default() }
    }
}

/// What dry runs look at.
#[derive(Clone)]
pub(crate) struct LookedAtParts {
    pub(crate) db: Db,
    /// The programs that the node allows.
    pub(crate) allowed: Allowed,
    /// Unset: no server runs in this process, and files are not looked at.
    pub(crate) access: Option<Arc<dyn FileAccess>>,
}

/// See the module. One for each dry run.
pub(crate) struct Foresight<'a> {
    pub(crate) parts: &'a LookedAtParts,
    pub(crate) rule: Arc<RunRule>,
    pub(crate) calendars: Arc<Calendars>,
    /// The job that would be made; it never is.
    pub(crate) job: Job,
    pub(crate) origin: EventOrigin,
    /// The step under way.
    pub(crate) address: StepAddress,
    /// What the steps before would have left.
    pub(crate) noted: Noted,
    /// Where the step under way would write or remove a file.
    pub(crate) target: Option<LookedAt>,
    /// Expressions that the step under way evaluated.
    pub(crate) expressions: Vec<ForeseenExpression>,
    /// What is at the path of the event now.
    pub(crate) file: Option<LookedAt>,
    /// Where the file would be; unset: the event is about none.
    pub(crate) path: Option<VPath>,
    /// A step would have removed it.
    pub(crate) is_gone: bool,
    pub(crate) files: Result<Option<Box<dyn AccountFiles>>, StepError>,
}

impl Foresight<'_> {
    pub(crate) fn event(&self) -> &Event {
        &self.job.event
    }

    /// What placeholders and expressions of the step under way are taken from.
    pub(crate) fn values(&self) -> Values<'_> {
        Values { event: &self.job.event, noted: Some(&self.noted) }
    }

    /// Whether an expression of the step under way holds; `field` has it.
    pub(crate) fn holds(&mut self, field: &str, expression: &str) -> Result<bool, StepError> {
        let subject = self.subject(&self.noted);
        let explained = self.rule.explained(expression, &subject);
        self.expressions.push(ForeseenExpression { field: field.to_owned(), explained });
        let holds = self.rule.holds(expression, &subject);
        holds.map_err(|error| StepError::permanent("EP0803", error.to_string()))
    }

    /// What an expression of the step under way gives, where `noted` is what steps left.
    pub(crate) fn value(
        &mut self,
        field: &str,
        expression: &str,
        noted: &Noted,
    ) -> Result<Json, StepError> {
        let subject = self.subject(noted);
        let explained = self.rule.explained(expression, &subject);
        self.expressions.push(ForeseenExpression { field: field.to_owned(), explained });
        let value = self.rule.value(expression, &subject);
        value.map_err(|error| StepError::permanent("EP0803", error.to_string()))
    }

    fn subject(&self, noted: &Noted) -> Subject {
        self.rule.subject(&self.job.event, &self.calendars).with_noted(&self.job.event, noted)
    }

    /// Where the file would be in the account's view.
    pub(crate) fn path(&self) -> Result<VPath, StepError> {
        let kind = self.event().fact.kind();
        let none = || StepError::permanent("EP0812", format!("event '{kind}' is about no file"));
        self.path.clone().ok_or_else(none)
    }

    /// Where the file would be, if the steps before leave it there, and it is the one of the event;
    /// and why that is not certain.
    pub(crate) fn source(&self) -> Result<Source, StepError> {
        let path = self.path()?;
        if self.is_gone {
            return Err(StepError::missing(&path));
        }
        self.account_files()?;
        if let Fact::FileHeld { .. } = self.event().fact {
            // It is hidden: what has the name is another file.
            return Ok(Source { path, open: None });
        }
        let found = self.file.as_ref().map(|file| &file.found);
        let open = match (found, self.origin) {
            (_, EventOrigin::MadeUp) | (None, _) => None,
            (Some(LookedFor::Nothing), _) => return Err(StepError::missing(&path)),
            (Some(LookedFor::File { size, .. }), _) => {
                let expected = Expected::of(self.event());
                if expected.is_some_and(|expected| expected.size != *size) {
                    return Err(changed(&path));
                }
                None
            }
            (Some(LookedFor::Directory), _) => {
                let text = format!("'{path}' is a directory");
                return Err(StepError::permanent("EP0812", text));
            }
            (Some(LookedFor::Unknown { why }), _) => Some(why.clone()),
        };
        Ok(Source { path, open })
    }

    /// The file that `deliver` and its like would work on: one that a step before would have made,
    /// or that of [`Foresight::source`].
    pub(crate) fn input(&self) -> Result<InputFile, StepError> {
        if let Some(made) = &self.noted.file {
            let file = format!("'{}', which step '{}' makes,", made.name, made.step);
            return Ok(InputFile { file, open: None });
        }
        let Source { path, open } = self.source()?;
        Ok(InputFile { file: format!("'{path}'"), open })
    }

    /// The account's view: nothing where no server runs, and where it may be there later.
    ///
    /// # Errors
    /// There will be none.
    pub(crate) fn account_files(&self) -> Result<Option<&dyn AccountFiles>, StepError> {
        match &self.files {
            Ok(files) => Ok(files.as_deref()),
            Err(error @ StepError::Permanent { .. }) => Err(error.clone()),
            Err(_) => Ok(None),
        }
    }

    /// An endpoint by name.
    pub(crate) async fn endpoint(&self, name: &Name) -> Result<Stored<Endpoint>, StepError> {
        let found = self.parts.db.find::<Endpoint>(self.job.site, name).await;
        let found = found.map_err(|error| StepError::transient("EP0801", error.to_string()))?;
        found.ok_or_else(|| {
            let text = format!("there is no endpoint '{name}', create it or change the rule");
            StepError::permanent("EP0811", text)
        })
    }

    /// What is at a path of an endpoint. The step under way would write there.
    pub(crate) async fn look_at_endpoint(
        &mut self,
        endpoint: &Stored<Endpoint>,
        path: &StorePath,
    ) -> LookedFor {
        let found = self.stat(endpoint, path).await;
        let name = endpoint.noun.name.clone();
        let (endpoint, path, found) = (Some(name), path.to_string(), found);
        self.target = Some(LookedAt { endpoint, path, found: found.clone() });
        found
    }

    async fn stat(&self, endpoint: &Stored<Endpoint>, path: &StorePath) -> LookedFor {
        let unknown = |why: String| LookedFor::Unknown { why };
        let Some(access) = &self.parts.access else { return unknown(NO_SERVER.to_owned()) };
        let store = match access.store(endpoint).await {
            Ok(store) => store,
            Err(error) => return unknown(error.to_string()),
        };
        let looking = tokio::time::timeout(LOOK, store.stat(path)).await;
        match looking {
            Ok(Ok(meta)) => of_meta(&meta),
            Ok(Err(StoreError::NotFound | StoreError::NotDirectory)) => LookedFor::Nothing,
            Ok(Err(error)) => unknown(error.to_string()),
            Err(_) => unknown(late()),
        }
    }

    /// The files that a step goes through, or why that is not known now.
    pub(crate) async fn found(
        &self,
        endpoint: &Stored<Endpoint>,
        find: &FindSpec,
        folder: VPath,
    ) -> Result<Result<Files, String>, StepError> {
        let Some(access) = &self.parts.access else { return Ok(Err(NO_SERVER.to_owned())) };
        let store = access.store(endpoint).await?;
        let looking = tokio::time::timeout(LOOK, step::find::found(find, &store, folder)).await;
        looking.map_or_else(|_| Ok(Err(late())), |found| found.map(Ok))
    }

    /// What is at a path of the account's view. The step under way would write or remove it.
    pub(crate) async fn look(&mut self, path: &VPath) -> Result<LookedFor, StepError> {
        self.account_files()?;
        let found = look(&self.files, path).await;
        let path = path.to_string();
        self.target = Some(LookedAt { endpoint: None, path, found: found.clone() });
        Ok(found)
    }

    /// The address of the client whose session caused the event.
    pub(crate) async fn address(&self) -> Option<String> {
        if let Some(command) = self.event().fact.command() {
            return Some(command.address.clone());
        }
        let filter = EventFilter {
            kinds: vec!["session.opened".to_owned()],
            session: Some(self.event().session?),
            limit: 1,
            ..EventFilter::default()
        };
        let found = self.parts.db.events(self.job.site, &filter).await.ok()?;
        found.into_iter().find_map(|row| match row.event.fact {
            Fact::SessionOpened { address, .. } => Some(address),
            _ => None,
        })
    }

    /// The placeholders in the texts of a step that have a value, with it.
    pub(crate) fn placeholders(&self, spec: &StepSpec) -> BTreeMap<String, String> {
        let mut texts = Vec::new();
        // The texts of a step with branches are those of the steps inside it.
        let json = match spec {
            StepSpec::If(_) | StepSpec::Each(_) | StepSpec::Parallel(_) => Json::Null,
            spec => serde_json::to_value(spec).unwrap_or_default(),
        };
        collect_texts(&json, &mut texts);
        let words = texts.iter().flat_map(|text| pattern::words(text));
        let known = words.filter_map(|word| {
            let value = pattern::value(word, self.values()).ok()?;
            Some((word.to_owned(), value))
        });
        known.collect()
    }
}

/// The file that a step works on.
pub(crate) struct Source {
    pub(crate) path: VPath,
    /// Why it is not certain that it is there.
    pub(crate) open: Option<String>,
}

/// A file that a step would copy.
pub(crate) struct InputFile {
    /// As a sentence names it.
    pub(crate) file: String,
    /// Why it is not certain that it is there.
    pub(crate) open: Option<String>,
}

/// Stands for the digest of a file of which nobody has read the content.
pub(crate) const UNREAD: &str = "(digest)";

/// Why nothing was looked at.
pub(crate) const NO_SERVER: &str = "no server runs in this process, which alone opens files";

/// What is at a path of the account's view.
pub(crate) async fn look(
    files: &Result<Option<Box<dyn AccountFiles>>, StepError>,
    path: &VPath,
) -> LookedFor {
    let unknown = |why: String| LookedFor::Unknown { why };
    let opened = match files {
        Ok(Some(opened)) => opened,
        Ok(None) => return unknown(NO_SERVER.to_owned()),
        Err(error) => return unknown(error.to_string()),
    };
    match tokio::time::timeout(LOOK, opened.look(path)).await {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => unknown(error.to_string()),
        Err(_) => unknown(late()),
    }
}

fn late() -> String {
    format!("no answer within {} s", LOOK.as_secs())
}

/// What a store says of a name.
pub(crate) fn of_meta(meta: &Meta) -> LookedFor {
    match meta.kind {
        EntryKind::File => LookedFor::File { size: meta.size, modified: meta.modified },
        EntryKind::Directory | EntryKind::Link => LookedFor::Directory,
    }
}

fn collect_texts<'j>(json: &'j Json, texts: &mut Vec<&'j str>) {
    match json {
        Json::String(text) => texts.push(text),
        Json::Array(items) => items.iter().for_each(|item| collect_texts(item, texts)),
        Json::Object(fields) => fields.values().for_each(|field| collect_texts(field, texts)),
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}
