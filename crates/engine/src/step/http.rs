//! `http`: sends a request to a server of the rule's choice.
//!
//! The server is not ours, so what it does happens at least once: an attempt that a crash or a lost
//! lease cut off is made again, with the same `Idempotency-Key`. A server that knows that key acts
//! once.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use entrepot_net::dial::DialPolicy;
use entrepot_net::http::{
    BodyWriter, Client, HeaderName, HeaderValue, HttpError, Method, Request, Response, header,
    streamed,
};
use entrepot_net::tls::ClientIdentity;
use entrepot_nouns::endpoint::WebTarget;
use entrepot_nouns::rule::{HttpAnswer, HttpMethod, HttpSpec};
use entrepot_nouns::{Endpoint, EndpointTarget, Name, Secret, Stored, Timestamp};
use serde_json::{Value as Json, json};

use super::source::Input;
use super::{Step, StepError};
use crate::http_request::{Content, Draft};
use crate::ids::{self, StepKey};
use crate::limits::HTTP_ANSWER_BYTES;
use crate::oauth::{Asking, TokenError, TokenOf};
use crate::pattern::Values;
use crate::pause::Pause;
use crate::run::Run;
use crate::shared::Shared;
use crate::web_client;

/// The code of an answer with which a step is never done.
pub(crate) const REFUSED: &str = "EP0891";

/// The field by which a server knows a request that comes again
/// (draft-ietf-httpapi-idempotency-key-header).
const KEY_FIELD: HeaderName = HeaderName::from_static("idempotency-key");

#[async_trait]
impl Step for HttpSpec {
    async fn run(&self, run: &mut Run<'_>, key: &StepKey) -> Result<(), StepError> {
        let draft = draft(self, run.values())?;
        let server = run.endpoint(&self.endpoint).await?;
        let identity = run.identity(&server).await?;
        let asking = HttpAsking { shared: run.shared, spec: self, server: &server, identity };
        let key = ids::sent_by_step(run.job.id, key).to_string();
        let ready = run.hold.waiting(asking.prepare(draft, &key)).await??;
        let answered = match ready.content {
            Content::Bytes(bytes) => {
                let mut request = ready.request;
                request.body = bytes;
                run.hold.fence().await?;
                let sent = run.hold.waiting(ready.client.send(request)).await?;
                sent.map_err(|error| not_sent(&self.endpoint, &error))?
            }
            Content::File => send_file(self, run, &ready.client, ready.request).await?,
        };
        run.reached(Pause::Published)?;
        match run.hold.waiting(asking.judge(ready.held, answered)).await? {
            Ok(result) => {
                run.result = Some(result);
                Ok(())
            }
            Err(refused) => {
                run.asked_to_wait = refused.wait;
                Err(refused.error)
            }
        }
    }
}

/// The request that a step asks for.
///
/// # Errors
/// What a placeholder stands for cannot be sent there.
pub(crate) fn draft(spec: &HttpSpec, values: Values<'_>) -> Result<Draft, StepError> {
    Draft::of(spec, values).map_err(|error| StepError::permanent("EP0890", error.to_string()))
}

/// What sends the request of a step.
pub(crate) struct HttpAsking<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) spec: &'a HttpSpec,
    pub(crate) server: &'a Stored<Endpoint>,
    /// What is shown to the server if it asks who we are.
    pub(crate) identity: Option<ClientIdentity>,
}

/// A request that can be sent.
struct ReadyRequest {
    client: Client,
    request: Request,
    content: Content,
    /// It shows a token that was got before.
    held: Option<TokenOf>,
}

/// An answer with which a step is not done.
pub(crate) struct HttpRefused {
    pub(crate) error: StepError,
    /// How long the server asks to wait.
    wait: Option<Duration>,
}

impl From<StepError> for HttpRefused {
    fn from(error: StepError) -> HttpRefused {
        HttpRefused { error, wait: None }
    }
}

impl HttpAsking<'_> {
    /// The request with all that proves who asks. `key` is the same whenever the request comes
    /// again.
    async fn prepare(&self, draft: Draft, key: &str) -> Result<ReadyRequest, StepError> {
        let EndpointTarget::Web(target) = &self.server.noun.target else {
            let kind = self.server.noun.target.as_str();
            return Err(other_kind(&self.spec.endpoint, kind, "web"));
        };
        let secret = self.shared.file_access.secret(self.server).await?;
        let authorities = target.authorities.as_deref();
        let client = web_client::proving(&self.shared.web, authorities, self.identity.clone());
        let proof = proof(self, target, secret.as_ref(), &client).await?;
        let mut request = request(self.spec, target, &draft)?;
        if let Some((name, value)) = proof.field {
            request.headers.insert(name, value);
        }
        if !matches!(self.spec.method, HttpMethod::Get | HttpMethod::Head) {
            let key = HeaderValue::try_from(key).map_err(|error| {
                StepError::permanent("EP0890", format!("the key of the request: {error}"))
            })?;
            request = request.header(KEY_FIELD, key);
        }
        Ok(ReadyRequest { client, request, content: draft.content, held: proof.held })
    }

    /// Asks once, without the file; what the step leaves.
    ///
    /// # Errors
    /// Nothing came back, or an answer with which the step is not done.
    pub(crate) async fn ask(&self, draft: Draft, key: &str) -> Result<Json, StepError> {
        let ready = self.prepare(draft, key).await?;
        let Content::Bytes(bytes) = ready.content else {
            return Err(StepError::permanent("EP0890", "the file cannot be sent here"));
        };
        let mut request = ready.request;
        request.body = bytes;
        let sent = ready.client.send(request).await;
        let response = sent.map_err(|error| not_sent(&self.spec.endpoint, &error))?;
        self.judge(ready.held, response).await.map_err(|refused| refused.error)
    }

    /// What the answer means: what the step leaves, or why it is not done.
    async fn judge(&self, held: Option<TokenOf>, response: Response) -> Result<Json, HttpRefused> {
        let status = response.status.as_u16();
        if let (Some(of), 401) = (held, status) {
            // It may have been taken back before its time.
            self.shared.tokens.forget(of);
            let text = format!(
                "endpoint '{}' answered 401 to a token that it took before; the next attempt asks \
                 for another one",
                self.spec.endpoint
            );
            return Err(StepError::transient("EP0892", text).into());
        }
        if !is_done(self.spec, status) {
            let wait = retry_after(&response, self.shared.recorder.env().now());
            let error = refusal(&self.spec.endpoint, response).await;
            return Err(HttpRefused { error, wait });
        }
        if self.spec.answer == HttpAnswer::Ignore {
            return Ok(json!({ "status": status }));
        }
        let body =
            response.body.read_all(HTTP_ANSWER_BYTES).await.map_err(|error| match error {
                HttpError::TooLong(_) => unusable(self.spec, &error.to_string()),
                error => not_sent(&self.spec.endpoint, &error),
            })?;
        let answer = match self.spec.answer {
            HttpAnswer::Json => serde_json::from_slice(&body)
                .map_err(|error| unusable(self.spec, &format!("it is no JSON: {error}")))?,
            HttpAnswer::Text | HttpAnswer::Ignore => {
                let text = std::str::from_utf8(&body);
                Json::from(text.map_err(|_| unusable(self.spec, "it is no UTF-8"))?)
            }
        };
        Ok(json!({ "status": status, "answer": answer }))
    }
}

/// What proves who asks.
#[derive(Default)]
struct Proof {
    field: Option<(HeaderName, HeaderValue)>,
    /// It is a token that was got before.
    held: Option<TokenOf>,
}

async fn proof(
    asking: &HttpAsking<'_>,
    target: &WebTarget,
    secret: Option<&Secret>,
    client: &Client,
) -> Result<Proof, StepError> {
    let Some(secret) = secret else { return Ok(Proof::default()) };
    let HttpAsking { shared, server, .. } = asking;
    let endpoint = &server.noun.name;
    let unfit = || {
        let text = format!("the password of endpoint '{endpoint}' fits in no header");
        StepError::permanent("EP0890", text)
    };
    let Some(oauth) = &target.oauth else {
        let field = credentials(target, secret).ok_or_else(unfit)?;
        return Ok(Proof { field: Some(field), held: None });
    };
    let of = TokenOf { endpoint: server.id, version: server.revision };
    let now = shared.recorder.env().elapsed();
    let held = shared.tokens.held(of, now);
    let (token, held) = match held {
        Some(token) => (token, Some(of)),
        None => {
            let dial = DialPolicy { allow_private: target.allow_private };
            let asking = Asking { endpoint, oauth, secret, client, dial };
            (shared.tokens.ask(of, &asking, now).await.map_err(no_token)?, None)
        }
    };
    let value = web_client::bearer(&token).ok_or_else(unfit)?;
    Ok(Proof { field: Some((header::AUTHORIZATION, value)), held })
}

/// Sends the file; its last block leaves when the file is known to be the one of the event.
async fn send_file(
    spec: &HttpSpec,
    run: &mut Run<'_>,
    client: &Client,
    mut request: Request,
) -> Result<Response, StepError> {
    let input = Input::open(run).await?;
    run.reached(Pause::SourceOpen)?;
    let (writer, body) = streamed(input.source.size());
    request.streamed = Some(body);
    run.hold.fence().await?;
    let exchange = async {
        let mut sending = std::pin::pin!(client.send(request));
        let mut feeding = std::pin::pin!(feed(&input, writer));
        tokio::select! {
            biased;
            fed = &mut feeding => {
                // The wrong file: the request ends without its last block.
                fed?;
                sending.await.map_err(|error| not_sent(&spec.endpoint, &error))
            }
            // It may refuse before it has read all; it cannot have taken what it has not.
            sent = &mut sending => {
                let response = sent.map_err(|error| not_sent(&spec.endpoint, &error))?;
                if is_done(spec, response.status.as_u16()) {
                    let text = format!(
                        "endpoint '{}' answered {} before it had the whole file",
                        spec.endpoint, response.status
                    );
                    return Err(StepError::transient("EP0892", text));
                }
                Ok(response)
            }
        }
    };
    run.hold.waiting(exchange).await?
}

fn is_done(spec: &HttpSpec, status: u16) -> bool {
    if spec.done.is_empty() { (200..300).contains(&status) } else { spec.done.contains(&status) }
}

/// The server has acted: asking again would not make its answer another one.
fn unusable(spec: &HttpSpec, why: &str) -> StepError {
    let text = format!("the answer of endpoint '{}' cannot be kept: {why}", spec.endpoint);
    StepError::permanent("EP0893", text)
}

pub(super) fn other_kind(endpoint: &Name, kind: &str, wanted: &str) -> StepError {
    let text = format!("endpoint '{endpoint}' is of kind {kind} and must be of kind {wanted}");
    StepError::permanent("EP0811", text)
}

/// The request with its head, without a body.
fn request(spec: &HttpSpec, target: &WebTarget, draft: &Draft) -> Result<Request, StepError> {
    let method = match spec.method {
        HttpMethod::Post => Method::POST,
        HttpMethod::Put => Method::PUT,
        HttpMethod::Patch => Method::PATCH,
        HttpMethod::Get => Method::GET,
        HttpMethod::Head => Method::HEAD,
        HttpMethod::Delete => Method::DELETE,
    };
    let base = target.url.trim_end_matches('/');
    let url =
        if draft.path.is_empty() { target.url.clone() } else { format!("{base}{}", draft.path) };
    let made = Request::new(method, &url);
    let mut request =
        made.map_err(|error| StepError::permanent(error.code(), error.to_string()))?;
    request.dial = DialPolicy { allow_private: target.allow_private };
    request.head_time = Duration::from_secs(u64::from(spec.timeout_seconds));
    request.headers.insert(header::USER_AGENT, web_client::user_agent());
    for (name, value) in &draft.headers {
        request.headers.insert(name, value.clone());
    }
    Ok(request)
}

fn no_token(error: TokenError) -> StepError {
    match error {
        TokenError::Later(text) => StepError::transient("EP0882", text),
        TokenError::Never(text) => StepError::permanent("EP0882", text),
    }
}

/// The field that proves who asks.
fn credentials(target: &WebTarget, secret: &Secret) -> Option<(HeaderName, HeaderValue)> {
    match (&target.header, &target.user) {
        (Some(name), _) => {
            Some((HeaderName::try_from(name).ok()?, web_client::sensitive(secret.expose())?))
        }
        (None, Some(user)) => {
            Some((header::AUTHORIZATION, web_client::basic(user, secret.expose())?))
        }
        (None, None) => Some((header::AUTHORIZATION, web_client::bearer(secret)?)),
    }
}

/// Writes the file into a request, but the last block only if the file is the one expected.
async fn feed(input: &Input, mut writer: BodyWriter) -> Result<(), StepError> {
    let mut reading = input.read();
    let mut held: Option<Bytes> = None;
    while let Some(block) = reading.next().await? {
        if let Some(before) = held.replace(block)
            && writer.write(before).await.is_err()
        {
            // The server has answered, or is gone: the request says which.
            return std::future::pending().await;
        }
    }
    if reading.position() != input.source.size() {
        return Err(input.changed());
    }
    reading.end()?;
    if let Some(last) = held
        && writer.write(last).await.is_err()
    {
        return std::future::pending().await;
    }
    Ok(())
}

/// Nothing came back that means anything. The server may have acted.
pub(super) fn not_sent(endpoint: &Name, error: &HttpError) -> StepError {
    let text = format!("endpoint '{endpoint}': {error}");
    if error.is_temporary() {
        StepError::transient(error.code(), text)
    } else {
        StepError::permanent(error.code(), text)
    }
}

/// What a status with which the step is not done means, in the words of the server.
pub(super) async fn refusal(endpoint: &Name, response: Response) -> StepError {
    let status = response.status;
    let text = format!("endpoint '{endpoint}' answered {}", web_client::said(response).await);
    if web_client::may_pass(status) {
        StepError::transient("EP0892", text)
    } else {
        StepError::permanent(REFUSED, text)
    }
}

/// How long the server asks to wait (RFC 9110 §10.2.3), in seconds or until a date.
pub(super) fn retry_after(response: &Response, now: Timestamp) -> Option<Duration> {
    let value = response.headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = jiff::fmt::rfc2822::parse(value).ok()?.timestamp();
    Some(Timestamp::from_seconds(until.as_second()).since(now))
}
