//! Requests of the administration as calls of the API, and its answers as those of the
//! administration: for a client such as the command line, which works alike beside the node and
//! far from it. Method and path come from the table of routes, so that what is served can be
//! called. There is no IO here.

use axum::http::{Method, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use entrepot_admin::{
    As2Query, As2Request, Cursor, EventQuery, JobQuery, Problem, RateOrder, Request, RetryRule,
    RulePause, TransferQuery,
};
use entrepot_admin::{FieldFilter, Response as Answer, RuleQuestion, RuleSubject, SortOrder};
use entrepot_nouns::{Kind, Name, NounVersion};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::nouns::plural;
use super::remote_answer::{self, Answered};
use super::routes;
use crate::limits::API_ROWS_MOST;
use crate::status::class_of;

/// Why a request has no answer.
#[derive(Debug)]
pub enum RemoteError {
    /// The API has no such request: it concerns the machine of the node.
    LocalOnly {
        /// Why, the end of a sentence.
        why: &'static str,
    },
    /// The request is none of the administration.
    Request(String),
    /// The server refused it, or failed.
    Refused(Problem),
    /// What the server answered is no answer to it.
    Answer(String),
}

/// One call of the API.
#[derive(Clone, Debug)]
pub struct RemoteCall {
    /// The method of HTTP.
    pub method: Method,
    /// Path and query.
    pub target: String,
    /// The field `If-Match`.
    pub if_match: Option<String>,
    /// The body, JSON.
    pub body: Option<String>,
}

/// A request that is carried out by one call or, for a long list, by several.
pub struct RemoteRequest {
    request: Request,
    operation: Operation,
    method: Method,
    path: String,
    /// Rows that may still come.
    missing: u32,
    state: State,
    answered: Answered,
}

/// Whether another call comes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Calling,
    Done,
}

/// What is called, and with what.
struct Operation {
    /// As the table of routes names it.
    id: String,
    /// At the parameter of the path.
    word: Option<String>,
    query: Vec<QueryWord>,
    if_match: Vec<NounVersion>,
    body: Option<Value>,
    /// Most rows of a list; `None`: it gives none.
    rows: Option<u32>,
}

struct QueryWord {
    name: &'static str,
    value: String,
}

impl RemoteRequest {
    /// Of the JSON form of a request, for it alone may hold secrets in clear text.
    ///
    /// # Errors
    /// [`RemoteError::LocalOnly`], [`RemoteError::Request`].
    pub fn new(raw: &Value, site: Option<&Name>) -> Result<RemoteRequest, RemoteError> {
        let request: Request = of(raw)?;
        let mut operation = operation(&request, raw)?;
        operation.add("site", site);
        RemoteRequest::of(request, operation)
    }

    fn of(request: Request, operation: Operation) -> Result<RemoteRequest, RemoteError> {
        let route = routes::all().into_iter().find(|route| route.id == operation.id);
        let route = route.ok_or_else(|| RemoteError::Request(format!("no '{}'", operation.id)))?;
        let word = operation.word.as_deref().map(encoded).unwrap_or_default();
        let path = route.path.replace("{name}", &word).replace("{id}", &word);
        let missing = operation.rows.unwrap_or(0);
        let (method, answered) = (route.method, Answered::default());
        let state = State::Calling;
        Ok(RemoteRequest { request, operation, method, path, missing, state, answered })
    }

    /// The next call; `None`: everything has been asked.
    pub fn call(&self) -> Option<RemoteCall> {
        if self.state == State::Done {
            return None;
        }
        let pair = |name: &str, value: &str| format!("{}={}", encoded(name), encoded(value));
        let words = self.operation.query.iter();
        // The cursor of a further page takes the place of that of the first one.
        let words = words.filter(|word| word.name != "cursor" || self.answered.next.is_none());
        let mut query: Vec<String> = words.map(|word| pair(word.name, &word.value)).collect();
        if self.operation.rows.is_some() {
            query.push(pair("limit", &self.missing.min(API_ROWS_MOST).to_string()));
        }
        query.extend(self.answered.next.as_ref().map(|next| pair("cursor", next)));
        let question = if query.is_empty() { "" } else { "?" };
        let tags = self.operation.if_match.iter().map(|version| format!("\"{version}\""));
        let tags = tags.collect::<Vec<_>>().join(", ");
        Some(RemoteCall {
            method: self.method.clone(),
            target: format!("{}{question}{}", self.path, query.join("&")),
            if_match: Some(tags).filter(|tags| !tags.is_empty()),
            body: self.operation.body.as_ref().map(Value::to_string),
        })
    }

    /// Takes the answer to the call.
    ///
    /// # Errors
    /// [`RemoteError::Refused`], [`RemoteError::Answer`].
    pub fn receive(&mut self, status: u16, body: &[u8]) -> Result<(), RemoteError> {
        if !(200..300).contains(&status) {
            return Err(refusal(status, body));
        }
        self.state = State::Done;
        if body.is_empty() {
            return Ok(());
        }
        let value = serde_json::from_slice(body)
            .map_err(|error| RemoteError::Answer(format!("its answer is no JSON: {error}")))?;
        if self.operation.rows.is_none() {
            self.answered.value = value;
            return Ok(());
        }
        let Value::Object(mut page) = value else {
            return Err(RemoteError::Answer("its answer is no page of a list".to_owned()));
        };
        let rows = match page.remove("items") {
            Some(Value::Array(rows)) => rows,
            _ => Vec::new(),
        };
        self.missing = self.missing.saturating_sub(u32::try_from(rows.len()).unwrap_or(u32::MAX));
        self.answered.items.extend(rows);
        self.answered.next = page.remove("next").and_then(|next| next.as_str().map(str::to_owned));
        if self.answered.next.is_some() && self.missing > 0 {
            self.state = State::Calling;
        }
        Ok(())
    }

    /// What the administration answers to the request.
    ///
    /// # Errors
    /// [`RemoteError::Answer`]: the server is another one, or of another version.
    pub fn answer(self) -> Result<Answer, RemoteError> {
        remote_answer::of(&self.request, self.answered)
            .map_err(|error| RemoteError::Answer(format!("its answer does not fit: {error}")))
    }
}

impl Operation {
    fn new(id: impl Into<String>) -> Operation {
        Operation {
            id: id.into(),
            word: None,
            query: Vec::new(),
            if_match: Vec::new(),
            body: None,
            rows: None,
        }
    }

    fn at(id: impl Into<String>, word: &impl ToString) -> Operation {
        Operation { word: Some(word.to_string()), ..Operation::new(id) }
    }

    fn list(id: impl Into<String>, rows: Option<u32>) -> Operation {
        Operation { rows: Some(rows.unwrap_or(u32::MAX)), ..Operation::new(id) }
    }

    fn with_body(self, body: Value) -> Operation {
        Operation { body: Some(body), ..self }
    }

    fn if_match(self, versions: &[NounVersion]) -> Operation {
        Operation { if_match: versions.to_vec(), ..self }
    }

    /// One more word of the query, as its JSON form writes it.
    fn add(&mut self, name: &'static str, value: Option<impl Serialize>) {
        let value = value.and_then(|value| serde_json::to_value(value).ok());
        let value = match value {
            None | Some(Value::Null) => return,
            Some(Value::String(text)) => text,
            Some(other) => other.to_string(),
        };
        self.query.push(QueryWord { name, value });
    }

    fn with(mut self, name: &'static str, value: Option<impl Serialize>) -> Operation {
        self.add(name, value);
        self
    }
}

/// The call that carries a request out. Every request has its line here.
fn operation(request: &Request, raw: &Value) -> Result<Operation, RemoteError> {
    let body = |field: &str| raw.get(field).cloned().unwrap_or_default();
    Ok(match request {
        Request::List { .. }
        | Request::Show { .. }
        | Request::Create { .. }
        | Request::Replace { .. }
        | Request::Change { .. }
        | Request::Delete { .. } => of_noun(request, raw)?,
        Request::DryRun { of } => operation(of, &body("of"))?.with("dry_run", Some(true)),
        Request::Plan { .. } | Request::Apply { .. } => of_documents(request, raw),
        Request::Export { kinds } => export(kinds),
        Request::Transfers { filter } => transfers(filter),
        Request::Transfer { id } => Operation::at("get_transfer", id),
        Request::Events { filter } => events(filter),
        Request::ExplainRules { question } => explain(question),
        Request::DryRunRule { .. } => of_rules("dry_run_rule", body("order")),
        Request::TestRules { .. } => of_rules("test_rules", body("source")),
        Request::LintRules { .. } => of_rules("lint_rules", body("source")),
        Request::DiffRules { .. } => of_rules("diff_rules", body("source")),
        Request::ReplayRule { .. } => of_rules("replay_rule", body("order")),
        Request::Trace { subject } => Operation::new("trace").with("of", Some(subject)),
        Request::As2 { ask } => of_as2(ask, raw),
        Request::Jobs { .. }
        | Request::Job { .. }
        | Request::RetryJob { .. }
        | Request::CancelJob { .. }
        | Request::DecideHeld { .. }
        | Request::Approvals
        | Request::AnswerApproval { .. }
        | Request::SeenFiles { .. }
        | Request::Forget { .. }
        | Request::PauseRule { .. }
        | Request::RunRule { .. } => of_jobs(request)?,
        Request::Certificates => Operation::list("list_certificates", None),
        Request::RenewCertificate { listener } => Operation::at("renew_certificate", listener),
        Request::Tokens { account } => of_account("list_tokens", account.as_ref()),
        Request::CreateToken { .. } => Operation::new("create_token").with_body(body("token")),
        Request::RevokeToken { name } => Operation::at("revoke_token", name),
        Request::Passkeys { account } => of_account("list_passkeys", account.as_ref()),
        Request::RemovePasskey { name } => Operation::at("remove_passkey", name),
        Request::Links { owner } => links(owner.as_ref()),
        Request::Link { name } => Operation::at("get_link", name),
        Request::CreateLink { .. } => Operation::new("create_link").with_body(body("link")),
        Request::RevokeLink { name } => Operation::at("revoke_link", name),
        Request::DeleteLink { name } => Operation::at("delete_link", name),
        Request::SignIns { account } => of_account("list_sign_ins", account.as_ref()),
        Request::EndSignIn { id } => Operation::at("end_sign_in", id),
        Request::MakeRecoveryCodes { account } => Operation::at("make_recovery_codes", account),
        Request::LoginLimits => Operation::new("list_login_limits"),
        Request::Unlock { .. } => Operation::new("unlock").with_body(body("target")),
        Request::Sessions
        | Request::EndSession { .. }
        | Request::LimitSession { .. }
        | Request::LimitNode { .. }
        | Request::StopNode
        | Request::LogLevels
        | Request::SetLogLevels { .. }
        | Request::ResetLogLevels
        | Request::Nodes
        | Request::Node { .. }
        | Request::DrainNode { .. }
        | Request::UndrainNode { .. }
        | Request::SetNodePools { .. }
        | Request::RemoveNode { .. }
        | Request::JournalHeads { .. }
        | Request::NoteBackup { .. }
        | Request::MakeSetUpToken => of_nodes(request, raw)?,
    })
}

/// The same, of documents.
fn of_documents(request: &Request, raw: &Value) -> Operation {
    let is_plan = matches!(request, Request::Plan { .. });
    let id = if is_plan { "plan_configuration" } else { "apply_configuration" };
    Operation::new(id).with_body(documents(raw))
}

/// The same, of what concerns runs of rules.
fn of_jobs(request: &Request) -> Result<Operation, RemoteError> {
    Ok(match request {
        Request::Jobs { filter } => jobs(filter),
        Request::Job { id } => Operation::at("get_job", id),
        Request::RetryJob { id, rule } => Operation::at("retry_job", id)
            .with("rule", (*rule != RetryRule::Pinned).then_some(rule)),
        Request::CancelJob { id } => Operation::at("cancel_job", id),
        Request::DecideHeld { id, decision } => {
            Operation::at("decide_held", id).with_body(json!({ "decision": decision }))
        }
        Request::Approvals => Operation::new("list_approvals"),
        Request::AnswerApproval { id, step, verdict, why } => Operation::at("answer_approval", id)
            .with_body(json!({ "step": step, "verdict": verdict, "why": why })),
        Request::RunRule { name, parameters } => {
            Operation::at("run_rule", name).with_body(json!({ "parameters": parameters }))
        }
        Request::PauseRule { name, to: RulePause::Paused } => Operation::at("pause_rule", name),
        Request::PauseRule { name, to: RulePause::Resumed } => Operation::at("resume_rule", name),
        Request::SeenFiles { rule, after, limit } => Operation::at("list_seen_files", rule)
            .with("after", after.as_ref())
            .with("limit", limit.as_ref()),
        Request::Forget { rule, path } => {
            Operation::at("forget_file", rule).with_body(json!({ "path": path }))
        }
        other => return Err(RemoteError::Request(format!("{other:?} is not of jobs"))),
    })
}

/// The same, of nouns.
fn of_noun(request: &Request, raw: &Value) -> Result<Operation, RemoteError> {
    let noun = |kind: Kind| raw.pointer(&format!("/noun/{kind}")).cloned().unwrap_or_default();
    Ok(match request {
        Request::List { kind, filter, sort, after, limit } => {
            nouns(*kind, filter, sort.as_ref(), after.as_ref(), *limit)
        }
        Request::Show { kind, name } => Operation::at(format!("get_{kind}"), name),
        Request::Create { noun: it } => {
            Operation::new(format!("create_{}", it.kind())).with_body(noun(it.kind()))
        }
        Request::Replace { noun: it, if_match } => {
            let operation = Operation::at(format!("replace_{}", it.kind()), it.name());
            operation.with_body(noun(it.kind())).if_match(if_match)
        }
        Request::Change { kind, name, if_match, .. } => {
            let operation = Operation::at(format!("patch_{kind}"), name);
            operation.with_body(raw.get("patch").cloned().unwrap_or_default()).if_match(if_match)
        }
        Request::Delete { kind, name, if_match } => {
            Operation::at(format!("delete_{kind}"), name).if_match(if_match)
        }
        other => return Err(RemoteError::Request(format!("{other:?} is not of nouns"))),
    })
}

/// The same, of what concerns nodes and their sessions.
fn of_nodes(request: &Request, raw: &Value) -> Result<Operation, RemoteError> {
    let rates = |rates: &RateOrder, set: &str, reset: &str, word: Option<String>| {
        let operation = match rates {
            RateOrder::Set { upload, download } => {
                let limits = json!({ "upload": upload, "download": download });
                Operation::new(set).with_body(limits)
            }
            RateOrder::Reset => Operation::new(reset),
        };
        Operation { word, ..operation }
    };
    Ok(match request {
        Request::Sessions => Operation::list("list_sessions", None),
        Request::EndSession { id } => Operation::at("end_session", id),
        Request::LimitSession { id, rates: order } => {
            rates(order, "limit_session", "unlimit_session", Some(id.to_string()))
        }
        Request::LimitNode { rates: order } => rates(order, "limit_node", "unlimit_node", None),
        Request::StopNode => Operation::new("stop_node"),
        Request::LogLevels => Operation::new("get_log_levels"),
        Request::SetLogLevels { .. } => {
            let levels = raw.get("levels").cloned().unwrap_or_default();
            Operation::new("change_log_levels").with_body(levels)
        }
        Request::ResetLogLevels => Operation::new("reset_log_levels"),
        Request::Nodes => Operation::list("list_nodes", None),
        Request::Node { name } => Operation::at("get_node", name),
        Request::DrainNode { name } => Operation::at("drain_node", name),
        Request::UndrainNode { name } => Operation::at("undrain_node", name),
        Request::SetNodePools { name, .. } => {
            let places = raw.get("places").cloned().unwrap_or_default();
            Operation::at("set_node_pools", name).with_body(places)
        }
        Request::RemoveNode { name, lost } => {
            Operation::at("remove_node", name).with("lost", lost.then_some(true))
        }
        Request::JournalHeads { after, limit } => {
            let limit = limit.unwrap_or(entrepot_admin::limits::QUERY_ROWS_DEFAULT);
            let heads = Operation::list("list_journal_heads", Some(limit));
            heads.with("cursor", Some(after).filter(|after| **after > 0))
        }
        Request::NoteBackup { .. } => {
            return Err(RemoteError::LocalOnly { why: "a backup is made on the node's machine" });
        }
        Request::MakeSetUpToken => {
            let why = "the first administrator is made on the node's machine";
            return Err(RemoteError::LocalOnly { why });
        }
        other => return Err(RemoteError::Request(format!("{other:?} is not of nodes"))),
    })
}

fn nouns(
    kind: Kind,
    filter: &[FieldFilter],
    sort: Option<&SortOrder>,
    after: Option<&Cursor>,
    limit: Option<u32>,
) -> Operation {
    let limit = limit.unwrap_or(entrepot_admin::limits::LIST_ROWS_DEFAULT);
    let mut list = Operation::list(format!("list_{}", plural(kind)), Some(limit));
    filter.iter().for_each(|filter| list.add("filter", Some(filter)));
    list.add("sort", sort);
    list.add("cursor", after);
    list
}

fn documents(raw: &Value) -> Value {
    let field = |name: &str| raw.get(name).cloned().unwrap_or_default();
    json!({ "documents": field("documents"), "prune": field("prune") })
}

fn transfers(filter: &TransferQuery) -> Operation {
    let limit = filter.limit.unwrap_or(entrepot_admin::limits::QUERY_ROWS_DEFAULT);
    let mut list = Operation::list("list_transfers", Some(limit));
    list.add("account", filter.account.as_ref());
    list.add("state", filter.state);
    list.add("direction", filter.direction);
    list.add("path", filter.path.as_ref());
    list.add("since", filter.since);
    list.add("cursor", filter.after.as_ref());
    list
}

fn events(filter: &EventQuery) -> Operation {
    let limit = filter.limit.unwrap_or(entrepot_admin::limits::QUERY_ROWS_DEFAULT);
    let mut list = Operation::list("list_events", Some(limit));
    filter.kinds.iter().for_each(|kind| list.add("kind", Some(kind)));
    list.add("account", filter.account.as_ref());
    list.add("path", filter.path.as_ref());
    list.add("session", filter.session);
    list.add("transfer", filter.transfer);
    list.add("job", filter.job);
    list.add("since", filter.since);
    list.add("until", filter.until);
    match filter.after {
        Some(after) => {
            list.add("order", Some("oldest"));
            list.add("cursor", Some(after));
        }
        None => list.add("cursor", filter.before),
    }
    list
}

fn of_as2(ask: &As2Request, raw: &Value) -> Operation {
    match ask {
        As2Request::Messages(filter) => as2_messages(filter),
        As2Request::Message(name) => Operation::at("get_as2_message", name),
        As2Request::Test(partner) => Operation::at("test_as2_partner", partner),
        As2Request::Send { partner, .. } => {
            let order = raw.pointer("/ask/send/order").cloned();
            Operation::at("send_as2_file", partner).with_body(order.unwrap_or_default())
        }
        As2Request::Resend(name) => Operation::at("resend_as2_message", name),
        As2Request::Cancel(name) => Operation::at("cancel_as2_message", name),
    }
}

fn as2_messages(filter: &As2Query) -> Operation {
    let limit = filter.limit.unwrap_or(entrepot_admin::limits::QUERY_ROWS_DEFAULT);
    let mut list = Operation::list("list_as2_messages", Some(limit));
    list.add("partner", filter.partner.as_ref());
    list.add("message", filter.message.as_ref());
    list.add("direction", filter.direction.map(|direction| direction.as_str()));
    list.add("state", filter.state);
    list.add("since", filter.since);
    list.add("until", filter.until);
    list.add("cursor", filter.after.as_ref());
    list
}

fn explain(question: &RuleQuestion) -> Operation {
    let mut explain = Operation::new("explain_rules").with("rule", question.rule.as_ref());
    match &question.about {
        RuleSubject::Event(event) => explain.add("event", Some(event)),
        RuleSubject::Path(path) => explain.add("path", Some(path)),
    }
    explain
}

fn jobs(filter: &JobQuery) -> Operation {
    let limit = filter.limit.unwrap_or(entrepot_admin::limits::QUERY_ROWS_DEFAULT);
    let mut list = Operation::list("list_jobs", Some(limit));
    list.add("state", filter.state);
    list.add("rule", filter.rule.as_ref());
    list.add("cursor", filter.after.as_ref());
    list
}

fn export(kinds: &[Kind]) -> Operation {
    let mut export = Operation::new("export_configuration");
    kinds.iter().for_each(|kind| export.add("kind", Some(kind)));
    export
}

fn links(owner: Option<&Name>) -> Operation {
    Operation::list("list_links", None).with("owner", owner)
}

/// A question about rules, which its body says.
fn of_rules(id: &str, body: Value) -> Operation {
    Operation::new(id).with_body(body)
}

fn of_account(id: &str, account: Option<&Name>) -> Operation {
    Operation::list(id, None).with("account", account)
}

/// The call that follows the events which pass `filter`, the JSON form of a query of events, from
/// behind the event `after` on. Times and pages mean nothing to it.
///
/// # Errors
/// [`RemoteError::Request`].
pub fn event_stream(
    filter: &Value,
    after: i64,
    site: Option<&Name>,
) -> Result<RemoteCall, RemoteError> {
    let query = EventQuery { after: None, before: None, since: None, until: None, ..of(filter)? };
    let mut stream = Operation { id: "follow_events".to_owned(), rows: None, ..events(&query) };
    stream.add("last_event_id", Some(after));
    stream.add("site", site);
    let request = RemoteRequest::of(Request::Events { filter: query }, stream)?;
    request.call().ok_or_else(|| RemoteError::Request("there is nothing to call".to_owned()))
}

/// The field `Authorization` of a name and a password (RFC 7617).
pub fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

fn of<T: DeserializeOwned>(value: &Value) -> Result<T, RemoteError> {
    serde_json::from_value(value.clone()).map_err(|error| RemoteError::Request(error.to_string()))
}

/// What a refusal says, of a problem (RFC 9457) or of what stands before the server.
pub fn refusal(status: u16, body: &[u8]) -> RemoteError {
    let fields: Map<String, Value> = serde_json::from_slice(body).unwrap_or_default();
    let text = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
    match text("code").zip(text("detail")) {
        Some((code, message)) => {
            let class = class_of(StatusCode::from_u16(status).unwrap_or_default());
            RemoteError::Refused(Problem { code, message, class })
        }
        None => RemoteError::Answer(format!("it answered with the status {status}")),
    }
}

/// A word of an address; every byte is encoded that means something there.
pub fn encoded(text: &str) -> String {
    let mut word = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                word.push(char::from(byte));
            }
            _ => word.push_str(&format!("%{byte:02X}")),
        }
    }
    word
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Operations that are no request of the administration, or that none needs.
    const OF_THE_API_ALONE: [&str; 25] = [
        "follow_sessions",
        "follow_transfers",
        "follow_throughput",
        // It finds one among all sessions.
        "get_session",
        "get_receipt",
        "get_as2_evidence",
        "follow_events",
        "get_journal_head",
        "get_metrics",
        "list_procedures",
        "describe_procedures",
        "call_procedure",
        "get_pool",
        "list_host_sessions",
        "open_host_session",
        "get_host_session",
        "suspend_host_session",
        "resume_host_session",
        "end_host_session",
        "call_in_host_session",
        "get_host_screen",
        "type_on_host_screen",
        "press_host_key",
        "wait_for_host_screen",
        "go_to_host_entity",
    ];

    /// The words of all requests, as serde knows them.
    fn words() -> Vec<String> {
        let Err(error) = serde_json::from_value::<Request>(json!({"request": "?"})) else {
            panic!("'?' is no request");
        };
        let text = error.to_string();
        let (_, listed) = text.split_once("expected one of").unwrap();
        listed.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }

    fn samples_of_questions(event: &str) -> Vec<Value> {
        vec![
            json!({"question": {"about": {"path": "/a b"}, "rule": "n"}}),
            json!({"question": {"about": {"event": event}}}),
        ]
    }

    fn samples_of_pauses() -> Vec<Value> {
        vec![json!({"name": "n", "to": "paused"}), json!({"name": "n", "to": "resumed"})]
    }

    fn samples_of_as2() -> Vec<Value> {
        vec![
            json!({"ask": {"messages": {"partner": "n", "state": "received"}}}),
            json!({"ask": {"message": "<a b@x>"}}),
            json!({"ask": {"test": "n"}}),
            json!({"ask": {"resend": "<a b@x>"}}),
            json!({"ask": {"send": {"partner": "p", "order": {"endpoint": "e", "path": "/a"}}}}),
            json!({"ask": {"cancel": "<a b@x>"}}),
        ]
    }

    /// Requests of each kind.
    fn samples(word: &str) -> Vec<Value> {
        let id = "0192f1c4-7d7a-7abc-8def-0123456789ab";
        let of_kinds = |rest: fn(Kind) -> Value| Kind::ALL.into_iter().map(rest).collect();
        let one = |rest: Value| vec![rest];
        match word {
            "list" => of_kinds(|kind| json!({"kind": kind})),
            "show" | "delete" => of_kinds(|kind| json!({"kind": kind, "name": "n"})),
            "change" => of_kinds(|kind| json!({"kind": kind, "name": "n", "patch": {}})),
            "create" | "replace" => vec![
                json!({"noun": {"site": {"name": "n"}}}),
                json!({"noun": {"account": {"name": "n"}}}),
                json!({"noun": {"policy": {"name": "n"}}}),
                json!({"noun": {"endpoint": {"name": "n", "target": {"memory": {}}}}}),
                json!({"noun": {"mount": {
                    "name": "n", "account": "n", "path": "/", "endpoint": "n",
                }}}),
                json!({"noun": {"key": {"name": "n", "type": "tls", "public": "p"}}}),
                json!({"noun": {"listener": {
                    "name": "n", "protocol": "sftp", "address": "127.0.0.1:0",
                }}}),
                json!({"noun": {"model": {"name": "n", "endpoint": "n", "definition": "d"}}}),
                json!({"noun": {"rule": {
                    "name": "n", "when": {"event": "file.uploaded"}, "do": [],
                }}}),
            ],
            "dry-run" => one(json!({"of": {"request": "delete", "kind": "key", "name": "n"}})),
            "plan" | "apply" => one(json!({"documents": [], "prune": false})),
            "export" => one(json!({"kinds": ["key"]})),
            "as2" => samples_of_as2(),
            "transfers" | "events" | "jobs" => one(json!({"filter": {}})),
            "explain-rules" => samples_of_questions(id),
            "test-rules" | "lint-rules" | "diff-rules" => one(json!({"source": {"rule": "n"}})),
            "replay-rule" => one(json!({"order": {"rule": "n", "of": {"event": id}}})),
            "trace" => one(json!({"subject": "/in/a b"})),
            "dry-run-rule" => one(json!({"order": {"rule": "n", "about": {"path": "/a b"}}})),
            "transfer" | "job" | "retry-job" | "cancel-job" | "end-session" | "end-sign-in" => {
                one(json!({"id": id}))
            }
            "answer-approval" => one(json!({"id": id, "verdict": "refused", "why": "no"})),
            "decide-held" => one(json!({"id": id, "decision": "discard"})),
            "limit-session" => {
                vec![json!({"id": id, "rates": "reset"}), json!({"id": id, "rates": {"set": {}}})]
            }
            "limit-node" => vec![json!({"rates": "reset"}), json!({"rates": {"set": {}}})],
            "pause-rule" => samples_of_pauses(),
            "seen-files" => one(json!({"rule": "n", "after": "a b", "limit": 5})),
            "forget" => one(json!({"rule": "n", "path": "a b"})),
            "run-rule" => one(json!({"name": "n", "parameters": {"day": "x"}})),
            "set-node-pools" => one(json!({"name": "n", "places": {"target": 9}})),
            "set-log-levels" => one(json!({"levels": {"auth": "debug"}})),
            "node" | "drain-node" | "undrain-node" | "remove-node" | "revoke-token"
            | "remove-passkey" | "link" | "revoke-link" | "delete-link" => {
                one(json!({"name": "n"}))
            }
            "create-link" => {
                one(json!({"link": {"owner": "n", "folder": "/", "allows": ["download"]}}))
            }
            "note-backup" => one(json!({"backup": {
                "folder": "/b", "manifest": "", "records": 0, "files": 0,
                "with_master_key": false,
            }})),
            "create-token" => one(json!({"token": {"account": "n", "scopes": []}})),
            "make-recovery-codes" => one(json!({"account": "n"})),
            "renew-certificate" => one(json!({"listener": "n"})),
            "unlock" => one(json!({"target": {"account": "n"}})),
            _ => one(json!({})),
        }
    }

    #[test]
    fn every_request_has_a_route_or_is_local_and_every_route_has_a_request() {
        let mut called = BTreeSet::new();
        let mut local = Vec::new();
        for word in words() {
            for mut sample in samples(&word) {
                sample["request"] = json!(word);
                match RemoteRequest::new(&sample, None) {
                    Ok(request) => {
                        let call = request.call().unwrap();
                        assert!(call.target.starts_with("/api/v1/"), "{word}: {call:?}");
                        assert!(!call.target.contains(['{', '}']), "{word}: {call:?}");
                        called.insert(request.operation.id);
                    }
                    Err(RemoteError::LocalOnly { .. }) => local.push(word.clone()),
                    Err(error) => panic!("{word}: {error:?}"),
                }
            }
        }
        assert_eq!(local, ["note-backup", "make-set-up-token"]);
        let alone: BTreeSet<String> = OF_THE_API_ALONE.map(str::to_owned).into();
        let served: BTreeSet<String> = routes::all().into_iter().map(|route| route.id).collect();
        let missing: Vec<_> =
            served.difference(&called).filter(|id| !alone.contains(*id)).collect();
        assert!(missing.is_empty(), "no request calls {missing:?}");
        assert!(alone.is_disjoint(&called) && alone.is_subset(&served));
    }

    #[test]
    fn long_lists_come_page_after_page() {
        let raw = json!({"request": "events", "filter": {"kinds": ["a b"], "limit": 1_200}});
        let site: Name = "north".parse().unwrap();
        let mut request = RemoteRequest::new(&raw, Some(&site)).unwrap();
        let first = request.call().unwrap();
        assert_eq!(first.target, "/api/v1/events?kind=a%20b&site=north&limit=1000");
        let page: Vec<u8> =
            json!({"items": vec![json!({}); 1_000], "next": "7"}).to_string().into();
        request.receive(200, &page).unwrap();
        let second = request.call().unwrap();
        assert_eq!(second.target, "/api/v1/events?kind=a%20b&site=north&limit=200&cursor=7");
        request.receive(200, br#"{"items": []}"#).unwrap();
        assert!(request.call().is_none());
        let refused = br#"{"code": "EP0105", "detail": "no site 'north'"}"#;
        let Err(RemoteError::Refused(problem)) = request.receive(404, refused) else { panic!() };
        assert_eq!(problem.class, entrepot_admin::ProblemClass::NotFound);
        assert!(matches!(request.receive(502, b"<html>"), Err(RemoteError::Answer(_))));
    }
}
