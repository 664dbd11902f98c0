//! Steps that talk to other servers.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{OnError, ReplyTime, StepFlaw};
use crate::document::is_default;
use crate::endpoint::header_flaw;
use crate::name::Name;

/// Sends a request of HTTP to an endpoint of kind `web`.
///
/// Each attempt has the same `Idempotency-Key`: a server that knows it acts once, any other acts
/// once or more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpSpec {
    /// The endpoint; its URL comes before `path`, and its password goes along.
    pub endpoint: Name,
    /// What is asked for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub method: HttpMethod,
    /// Behind the URL of the endpoint, with the query if there is one. Placeholders as in paths;
    /// what they stand for is percent-encoded.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// More fields of the request; placeholders as in paths.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// What is sent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub body: HttpBody,
    /// The statuses with which the step is done; unset: 200 to 299.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub done: Vec<u16>,
    /// What of the answer is kept for later steps, beside `steps.NAME.status`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub answer: HttpAnswer,
    /// Time for the whole exchange: connecting, sending, and the answer.
    #[serde(default = "http_seconds", skip_serializing_if = "is_http_seconds")]
    pub timeout_seconds: u32,
    /// In a rule `after` a command: whether its reply waits for the answer.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reply: ReplyTime,
}

/// A method of HTTP (RFC 9110 §9.3, RFC 5789).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum HttpMethod {
    /// Act on what is sent.
    #[default]
    Post,
    /// Store what is sent.
    Put,
    /// Change what is there.
    Patch,
    /// Answer with what is there.
    Get,
    /// Answer with the head alone.
    Head,
    /// Remove what is there.
    Delete,
}

impl HttpMethod {
    /// As it stands in a request.
    pub fn as_str(self) -> &'static str {
        match self {
            HttpMethod::Post => "POST",
            HttpMethod::Put => "PUT",
            HttpMethod::Patch => "PATCH",
            HttpMethod::Get => "GET",
            HttpMethod::Head => "HEAD",
            HttpMethod::Delete => "DELETE",
        }
    }
}

/// What a request carries. In a document `none`, `file`, or a mapping with `json`, `form` or
/// `text`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HttpBody {
    /// Nothing at all.
    #[default]
    None,
    /// The bytes of the file that the steps work on, streamed; the last of them are sent only if it
    /// is what it has to be.
    File,
    /// This value, as JSON; in each text in it placeholders are replaced.
    Json(serde_json::Value),
    /// These fields, as a form of a browser sends them; placeholders as in paths.
    Form(BTreeMap<String, String>),
    /// This text; placeholders as in paths. What they stand for is escaped if the `Content-Type`
    /// in `headers` says JSON, XML or HTML.
    Text(String),
}

/// What of the answer is kept as `steps.NAME.answer`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HttpAnswer {
    /// Nothing; it is not read.
    #[default]
    Ignore,
    /// Its text, 32 KiB at most.
    Text,
    /// The value that its JSON is, 32 KiB at most.
    Json,
}

/// Posts the event that the job is for as JSON, signed as Standard Webhooks 1.0 says. Each attempt
/// has the same `webhook-id`, by which the receiver knows what came twice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookSpec {
    /// An endpoint of kind `webhook`.
    pub endpoint: Name,
}

/// Hands a message over to an endpoint of kind `mail`. Each attempt has the same Message-ID, and
/// goes to those recipients only for whom none was taken yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MailSpec {
    /// The endpoint; messages are from the address that it names.
    pub endpoint: Name,
    /// Addresses, one each, such as `ops@example.com` or `Ops <ops@example.com>`; placeholders as
    /// in paths.
    pub to: Vec<String>,
    /// One line; placeholders as in paths.
    pub subject: String,
    /// The message; placeholders as in paths.
    pub text: String,
    /// The message as HTML, for readers that show it; what placeholders stand for is escaped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
    /// What goes along.
    #[serde(default, skip_serializing_if = "is_default")]
    pub attach: MailAttachment,
}

/// Shows the file to an endpoint of kind `scanner`, and goes on if that says that it is clean.
///
/// It leaves `verdict` (`clean`, `found` or `unsure`), with `threat` or `why`; before a command on
/// a file that is not there it leaves `none`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScanSpec {
    /// An endpoint of kind `scanner`.
    pub endpoint: Name,
    /// What if something was found: `continue` leaves it to later steps, which see the verdict.
    #[serde(default, skip_serializing_if = "is_default")]
    pub found: OnError,
    /// What if nobody can say: the scanner is away, late, or does not scan such files. `fail` tries
    /// again and fails with the last attempt; `continue` leaves it to later steps.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unsure: OnError,
    /// In a rule `after` a command: whether its reply waits for the verdict.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reply: ReplyTime,
}

/// What goes along with a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MailAttachment {
    /// Nothing at all.
    #[default]
    None,
    /// The file, 10 MiB at most.
    File,
}

impl MailSpec {
    pub(crate) fn check(&self) -> Result<(), StepFlaw> {
        if self.to.is_empty() || self.to.len() > crate::limits::MAIL_RECIPIENTS {
            return Err(("mail.to", "from 1 to 50 addresses"));
        }
        if self.subject.trim().is_empty() {
            return Err(("mail.subject", "say what the message is about"));
        }
        Ok(())
    }
}

fn http_seconds() -> u32 {
    60
}

// The signature is what serde's `skip_serializing_if` asks for.
fn is_http_seconds(seconds: &u32) -> bool {
    *seconds == http_seconds()
}

impl HttpSpec {
    pub(crate) fn check(&self) -> Result<(), StepFlaw> {
        if self.headers.keys().any(|name| header_flaw(name).is_some()) {
            return Err(("http.headers", "has a field that no step can set"));
        }
        if self.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization")) {
            return Err(("http.headers", "a secret is no part of a rule: the endpoint has it"));
        }
        if !self.path.is_empty() && !self.path.starts_with(['/', '?']) {
            return Err(("http.path", "begins with '/', or with '?' for a query alone"));
        }
        if self.path.contains('#') {
            return Err(("http.path", "what follows a '#' is never sent"));
        }
        if self.done.iter().any(|status| !(200..600).contains(status)) {
            return Err(("http.done", "statuses are from 200 to 599"));
        }
        if self.timeout_seconds == 0 || self.timeout_seconds > 24 * 3600 {
            return Err(("http.timeout_seconds", "from 1 to 86400"));
        }
        let without_body = matches!(self.method, HttpMethod::Get | HttpMethod::Head);
        if without_body && self.body != HttpBody::None {
            return Err(("http.body", "a request of GET or HEAD carries nothing"));
        }
        Ok(())
    }
}
