//! What the API answers, as the administration answers it.

use entrepot_admin::{As2Request, EventQuery, Request, Response as Answer};
use entrepot_nouns::{AnyNoun, Kind, Stored};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::answer::ROW_FIELDS;
use super::links::MadeLink;
use super::tokens::MadeToken;

type Result<T> = std::result::Result<T, serde_json::Error>;

/// What has come from the server.
#[derive(Default)]
pub(crate) struct Answered {
    /// The body of an answer that is no list.
    pub(crate) value: Value,
    /// The rows of all pages.
    pub(crate) items: Vec<Value>,
    /// The cursor behind them.
    pub(crate) next: Option<String>,
}

impl Answered {
    fn rows<T: DeserializeOwned>(self) -> Result<Vec<T>> {
        self.items.into_iter().map(serde_json::from_value).collect()
    }

    /// The cursor, in the form that a request takes it.
    fn next<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        self.next.as_ref().map(|next| serde_json::from_value(json!(next))).transpose()
    }

    fn number<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        self.next.as_ref().map(|next| serde_json::from_str(next)).transpose()
    }

    fn of<T: DeserializeOwned>(self) -> Result<T> {
        serde_json::from_value(self.value)
    }

    /// A field of the body.
    fn field<T: DeserializeOwned>(&mut self, name: &str) -> Result<T> {
        serde_json::from_value(self.value.get_mut(name).map(Value::take).unwrap_or_default())
    }

    fn noun(mut self, kind: Kind) -> Result<Answer> {
        let warnings: Option<Vec<String>> = self.field("warnings")?;
        let noun = Box::new(stored(kind, self.value)?);
        Ok(Answer::Noun { noun, warnings: warnings.unwrap_or_default() })
    }

    fn made_link(self) -> Result<Answer> {
        let MadeLink { link, addresses } = self.of()?;
        Ok(Answer::MadeLink { link: Box::new(link), addresses })
    }

    fn transfers(self) -> Result<Answer> {
        Ok(Answer::Transfers { next: self.next()?, transfers: self.rows()? })
    }

    fn made_token(self) -> Result<Answer> {
        let MadeToken { token, key } = self.of()?;
        Ok(Answer::Token { token, noun: Box::new(stored(Kind::Key, Value::Object(key))?) })
    }

    fn rates(mut self) -> Result<Answer> {
        Ok(Answer::Rates { upload: self.field("upload")?, download: self.field("download")? })
    }

    /// The oldest first, in whatever order they were asked for.
    fn events(mut self, filter: &EventQuery) -> Result<Answer> {
        if filter.after.is_none() {
            self.items.reverse();
        }
        Ok(Answer::Events { next: self.number()?, events: self.rows()? })
    }

    fn as2(self, ask: &As2Request) -> Result<Answer> {
        Ok(match ask {
            As2Request::Messages(_) => {
                Answer::As2Messages { next: self.next()?, messages: self.rows()? }
            }
            As2Request::Message(_) => Answer::As2Message { message: self.of()? },
            As2Request::Test(_) => Answer::As2Test { test: self.of()? },
            As2Request::Resend(_) | As2Request::Send { .. } => {
                Answer::As2Sending { sending: self.of()? }
            }
            As2Request::Cancel(_) => Answer::Done,
        })
    }

    fn heads(self) -> Result<Answer> {
        Ok(Answer::JournalHeads { next: self.number()?, heads: self.rows()? })
    }

    fn recovery_codes(mut self) -> Result<Answer> {
        Ok(Answer::RecoveryCodes { codes: self.field("codes")? })
    }

    fn link(self) -> Result<Answer> {
        Ok(Answer::Link { link: Box::new(self.of()?) })
    }

    fn plan(mut self) -> Result<Answer> {
        Ok(Answer::Plan { changes: self.field("changes")?, warnings: self.field("warnings")? })
    }
}

/// The answer to `request`.
pub(crate) fn of(request: &Request, mut answered: Answered) -> Result<Answer> {
    Ok(match request {
        Request::List { kind, .. } => {
            let next = answered.next()?;
            let rows = answered.items.into_iter();
            let nouns = rows.map(|row| stored(*kind, row)).collect::<Result<Vec<_>>>()?;
            Answer::Nouns { nouns, next }
        }
        Request::Show { kind, .. } | Request::Change { kind, .. } => answered.noun(*kind)?,
        Request::Create { noun } | Request::Replace { noun, .. } => answered.noun(noun.kind())?,
        Request::RevokeToken { .. } => answered.noun(Kind::Key)?,
        Request::DryRun { .. } | Request::Plan { .. } | Request::Apply { .. } => answered.plan()?,
        Request::Export { .. } => Answer::Documents { documents: answered.field("documents")? },
        Request::Transfers { .. } => answered.transfers()?,
        Request::Transfer { .. } => Answer::Transfer { transfer: answered.of()? },
        Request::Events { filter } => answered.events(filter)?,
        Request::ExplainRules { .. } => Answer::Explanation { explanation: answered.of()? },
        Request::DryRunRule { .. } => Answer::RuleDryRun { dry_run: answered.of()? },
        Request::TestRules { .. } => Answer::RuleTests { reports: answered.field("items")? },
        Request::LintRules { .. } => Answer::RuleFindings { findings: answered.field("items")? },
        Request::DiffRules { .. } => Answer::RuleDiffs { diffs: answered.field("items")? },
        Request::ReplayRule { .. } => Answer::RuleReplay { replay: answered.of()? },
        Request::Trace { .. } => Answer::Trace { trace: answered.of()? },
        Request::As2 { ask } => answered.as2(ask)?,
        Request::Jobs { .. } => Answer::Jobs { next: answered.next()?, jobs: answered.rows()? },
        Request::Approvals => Answer::Approvals { approvals: answered.field("items")? },
        Request::Job { .. } => Answer::Job { job: answered.of()? },
        Request::RunRule { .. } => Answer::StartedRule { started: answered.of()? },
        Request::SeenFiles { .. } => Answer::SeenFiles { files: answered.field("items")? },
        Request::Sessions => Answer::Sessions { sessions: answered.rows()? },
        Request::LimitNode { .. } => answered.rates()?,
        Request::LogLevels | Request::SetLogLevels { .. } | Request::ResetLogLevels => {
            Answer::LogLevels { levels: answered.of()? }
        }
        Request::Nodes => Answer::Nodes { nodes: answered.rows()? },
        Request::Node { .. } => Answer::Node { node: answered.of()? },
        Request::JournalHeads { .. } => answered.heads()?,
        Request::LoginLimits => Answer::LoginLimits { limits: answered.field("items")? },
        Request::Unlock { .. } => Answer::Unlocked { failures: answered.field("failures")? },
        Request::Certificates => Answer::Certificates { certificates: answered.rows()? },
        Request::Tokens { .. } => Answer::Tokens { tokens: answered.rows()? },
        Request::Passkeys { .. } => Answer::Passkeys { passkeys: answered.rows()? },
        Request::CreateToken { .. } => answered.made_token()?,
        Request::Links { .. } => Answer::Links { links: answered.rows()? },
        Request::Link { .. } | Request::RevokeLink { .. } => answered.link()?,
        Request::CreateLink { .. } => answered.made_link()?,
        Request::SignIns { .. } => Answer::SignIns { sign_ins: answered.rows()? },
        Request::MakeRecoveryCodes { .. } => answered.recovery_codes()?,
        Request::Delete { .. }
        | Request::RetryJob { .. }
        | Request::Forget { .. }
        | Request::PauseRule { .. }
        | Request::CancelJob { .. }
        | Request::DecideHeld { .. }
        | Request::AnswerApproval { .. }
        | Request::EndSession { .. }
        | Request::LimitSession { .. }
        | Request::StopNode
        | Request::DrainNode { .. }
        | Request::UndrainNode { .. }
        | Request::SetNodePools { .. }
        | Request::RemoveNode { .. }
        | Request::EndSignIn { .. }
        | Request::RenewCertificate { .. }
        | Request::DeleteLink { .. }
        | Request::RemovePasskey { .. }
        | Request::NoteBackup { .. }
        | Request::MakeSetUpToken => Answer::Done,
    })
}

/// The noun of an answer, with its row.
fn stored(kind: Kind, mut body: Value) -> Result<Stored<AnyNoun>> {
    let mut row = Map::new();
    for name in ROW_FIELDS {
        if let Some(field) = body.as_object_mut().and_then(|body| body.remove(name)) {
            let name = if name == "site_id" { "site" } else { name };
            row.insert(name.to_owned(), field);
        }
    }
    row.insert("noun".to_owned(), json!({ kind.as_str(): body }));
    serde_json::from_value(Value::Object(row))
}
