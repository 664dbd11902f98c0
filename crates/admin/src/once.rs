//! Requests that their sender may repeat: under the same key the same request is answered again as
//! it was the first time, on every node, and changes nothing.
//!
//! The answer to a change of a noun, or to the start of a rule, is kept in its transaction. That
//! to any other request is kept right after it; if the node ends between, a repetition is a new
//! request.

use entrepot_crypto::MasterKey;
use entrepot_db::{AnswerKey, Db, StoredAnswer, Tx};
use entrepot_nouns::transfer::hex;
use entrepot_nouns::{Env, Timestamp};

use crate::actor::Actor;
use crate::error::{AdminError, Result};
use crate::limits;
use crate::request::Response;

/// What makes a request one that may be repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Once {
    /// Chosen by the client, another one for each request: 1 to 255 characters of ASCII.
    pub key: String,
    /// Everything by which two requests differ, as the client sent it; only a keyed hash of it is
    /// stored.
    pub request: Vec<u8>,
}

/// A request that may be repeated, as it is stored.
pub(crate) struct KeptRequest {
    key: AnswerKey,
    /// The keyed hash: a request may hold a password.
    request: String,
    at: Timestamp,
}

impl KeptRequest {
    pub(crate) fn new(once: &Once, actor: &Actor, master: &MasterKey, env: &Env) -> Result<Self> {
        let is_good = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
        let length = 1..=limits::KEY_BYTES;
        if !length.contains(&once.key.len()) || !once.key.bytes().all(is_good) {
            let problem = "an idempotency key has 1 to 255 characters of ASCII".to_owned();
            return Err(AdminError::Query { problem });
        }
        let key = AnswerKey { site: actor.site, actor: actor.name.clone(), key: once.key.clone() };
        let request = hex(&master.keyed_hash("idempotency", &once.request));
        Ok(KeptRequest { key, request, at: env.now() })
    }

    /// The answer that was given before, if there is one.
    pub(crate) async fn answer(&self, db: &Db) -> Result<Option<Response>> {
        let forgotten = self.forgotten_before();
        let found = db.answer(&self.key).await?.filter(|kept| kept.at >= forgotten);
        let Some(kept) = found else { return Ok(None) };
        if kept.request != self.request {
            return Err(AdminError::KeyReused { key: self.key.key.clone() });
        }
        let answer = serde_json::from_str(&kept.answer);
        answer.map(Some).map_err(|error| AdminError::Internal {
            what: "reading a kept answer",
            problem: error.to_string(),
        })
    }

    /// Before this moment answers are forgotten.
    pub(crate) fn forgotten_before(&self) -> Timestamp {
        self.at.minus(limits::ANSWERS_FOR)
    }

    fn kept(&self, answer: &Response) -> Result<StoredAnswer> {
        let answer = serde_json::to_string(answer).map_err(|error| AdminError::Internal {
            what: "keeping an answer",
            problem: error.to_string(),
        })?;
        Ok(StoredAnswer { request: self.request.clone(), answer, at: self.at })
    }

    /// Keeps the answer with the change that it tells of.
    pub(crate) async fn keep_in(&self, tx: &mut Tx, answer: &Response) -> Result<()> {
        Ok(tx.keep_answer(&self.key, &self.kept(answer)?).await?)
    }

    /// Keeps the answer, unless it was kept already.
    pub(crate) async fn keep(&self, db: &Db, answer: &Response) -> Result<()> {
        Ok(db.keep_answer(&self.key, &self.kept(answer)?).await?)
    }
}
