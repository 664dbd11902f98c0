//! The changes of one noun that requests ask for.

use entrepot_nouns::{AnyNoun, Kind, NounVersion, Stored};
use serde_json::Value;

use crate::diff;
use crate::document::{self, Source};
use crate::error::{AdminError, Result};
use crate::near;
use crate::plan::Wanted;
use crate::reader::{NounKey, State};
use crate::request::Request;
use crate::secrets;

/// A change of one noun.
pub(crate) enum NounChange {
    Create(AnyNoun),
    Replace { noun: AnyNoun, if_match: Vec<NounVersion> },
    Patch { key: NounKey, patch: Value, if_match: Vec<NounVersion> },
    Delete { key: NounKey, if_match: Vec<NounVersion> },
}

impl NounChange {
    /// What the request asks for; the request itself if that is something else.
    pub(crate) fn of(request: Request) -> std::result::Result<Self, Box<Request>> {
        Ok(match request {
            Request::Create { noun } => NounChange::Create(*noun),
            Request::Replace { noun, if_match } => NounChange::Replace { noun: *noun, if_match },
            Request::Change { kind, name, patch, if_match } => {
                NounChange::Patch { key: NounKey { kind, name }, patch, if_match }
            }
            Request::Delete { kind, name, if_match } => {
                NounChange::Delete { key: NounKey { kind, name }, if_match }
            }
            other => return Err(Box::new(other)),
        })
    }

    /// The noun that is changed.
    pub(crate) fn key(&self) -> NounKey {
        match self {
            NounChange::Create(noun) | NounChange::Replace { noun, .. } => NounKey::of(noun),
            NounChange::Patch { key, .. } | NounChange::Delete { key, .. } => key.clone(),
        }
    }

    /// What is wanted of a configuration that holds `state`.
    pub(crate) fn wanted(&self, state: &State) -> Result<Wanted> {
        let key = self.key();
        match self {
            NounChange::Create(noun) => {
                if state.contains_key(&key) {
                    return Err(AdminError::Exists { kind: key.kind, name: key.name.to_string() });
                }
                Ok(Wanted::noun(noun.clone()))
            }
            NounChange::Replace { noun, if_match } => {
                stored(state, &key, if_match)?;
                Ok(Wanted::noun(noun.clone()))
            }
            NounChange::Patch { patch, if_match, .. } => {
                Ok(Wanted::noun(patched(&stored(state, &key, if_match)?.noun, patch)?))
            }
            NounChange::Delete { if_match, .. } => {
                if key.kind == Kind::Site && key.name.as_str() == "main" {
                    let problem = "the site 'main' cannot be deleted, it owns all others";
                    return Err(AdminError::Refused { problem: problem.to_owned() });
                }
                stored(state, &key, if_match)?;
                Ok(Wanted::without(key))
            }
        }
    }
}

/// The noun, if it has one of the versions that the change is for.
fn stored<'a>(
    state: &'a State,
    key: &NounKey,
    if_match: &[NounVersion],
) -> Result<&'a Stored<AnyNoun>> {
    let stored = state.get(key).ok_or_else(|| absent(state, key))?;
    let now = stored.version();
    if if_match.is_empty() || if_match.contains(&now) {
        return Ok(stored);
    }
    Err(AdminError::Changed { kind: key.kind, name: key.name.to_string(), now })
}

fn absent(state: &State, key: &NounKey) -> AdminError {
    let of_kind = state.keys().filter(|other| other.kind == key.kind);
    near::missing(key.kind, &key.name, of_kind.map(|other| &other.name))
}

/// The noun with the patch applied, typed again.
fn patched(stored: &AnyNoun, patch: &Value) -> Result<AnyNoun> {
    let (kind, name) = (stored.kind(), stored.name());
    let refused = |field: &str, problem: String| AdminError::Field {
        place: document::place(&[], &Source::Request, field),
        kind,
        name: name.to_string(),
        field: field.to_owned(),
        problem,
    };
    if !patch.is_object() {
        return Err(refused("patch", "give an object of the fields to change".to_owned()));
    }
    if patch.get("name").is_some_and(|new| new.as_str() != Some(name.as_str())) {
        return Err(refused("name", "a name never changes; create another one".to_owned()));
    }
    let mut body = Value::Object(diff::body(stored));
    secrets::make_way(&mut body, patch);
    diff::merge(&mut body, patch);
    let typed = Value::Object([(kind.as_str().to_owned(), body)].into_iter().collect());
    serde_path_to_error::deserialize(typed).map_err(|error| {
        let path = error.path().to_string();
        let field = path.strip_prefix(kind.as_str()).unwrap_or(&path).trim_start_matches('.');
        let field = if field.is_empty() { "patch" } else { field };
        let secret = secrets::SECRET_INPUTS.contains(&field.rsplit('.').next().unwrap_or(field));
        let problem = if secret {
            "it must be one text".to_owned()
        } else {
            near::explained(&error.inner().to_string())
        };
        refused(field, problem)
    })
}
