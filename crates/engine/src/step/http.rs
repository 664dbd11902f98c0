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
use crate::run::Run;
use crate::web_client;

/// The field by which a server knows a request that comes again
/// (draft-ietf-httpapi-idempotency-key-header).
const KEY_FIELD: HeaderName = HeaderName::from_static("idempotency-key");

#[async_trait]
impl Step for HttpSpec {
    async fn run(&self, run: &mut Run<'_>, key: &StepKey) -> Result<(), StepError> {
        let draft = Draft::of(self, run.values())
            .map_err(|error| StepError::permanent("EP0890", error.to_string()))?;
        let stored = run.endpoint(&self.endpoint).await?;
        let EndpointTarget::Web(target) = &stored.noun.target else {
            return Err(other_kind(&self.endpoint, stored.noun.target.as_str(), "web"));
        };
        let secret = run.hold.waiting(run.shared.file_access.secret(&stored)).await??;
        let client = web_client::client(&run.shared.web, target.authorities.as_deref());
        let proof = proof(run, &stored, target, secret.as_ref(), &client).await?;
        let mut request = request(self, target, &draft)?;
        if let Some((name, value)) = proof.field {
            request.headers.insert(name, value);
        }
        if !matches!(self.method, HttpMethod::Get | HttpMethod::Head) {
            let key = ids::sent_by_step(run.job.id, key).to_string();
            let key = HeaderValue::try_from(key).map_err(|error| {
                StepError::permanent("EP0890", format!("the key of the request: {error}"))
            })?;
            request = request.header(KEY_FIELD, key);
        }
        let response = match draft.content {
            Content::Bytes(bytes) => {
                request.body = bytes;
                run.hold.fence().await?;
                let sent = run.hold.waiting(client.send(request)).await?;
                sent.map_err(|error| not_sent(&self.endpoint, &error))?
            }
            Content::File => send_file(self, run, &client, request).await?,
        };
        if let (Some(of), 401) = (proof.held, response.status.as_u16()) {
            // It may have been taken back before its time.
            run.shared.tokens.forget(of);
            let text = format!(
                "endpoint '{}' answered 401 to a token that it took before; the next attempt asks \
                 for another one",
                self.endpoint
            );
            return Err(StepError::transient("EP0892", text));
        }
        judge(self, run, response).await
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
    run: &Run<'_>,
    stored: &Stored<Endpoint>,
    target: &WebTarget,
    secret: Option<&Secret>,
    client: &Client,
) -> Result<Proof, StepError> {
    let Some(secret) = secret else { return Ok(Proof::default()) };
    let endpoint = &stored.noun.name;
    let unfit = || {
        let text = format!("the password of endpoint '{endpoint}' fits in no header");
        StepError::permanent("EP0890", text)
    };
    let Some(oauth) = &target.oauth else {
        let field = credentials(target, secret).ok_or_else(unfit)?;
        return Ok(Proof { field: Some(field), held: None });
    };
    let of = TokenOf { endpoint: stored.id, version: stored.revision };
    let now = run.shared.recorder.env().elapsed();
    let held = run.shared.tokens.held(of, now);
    let (token, held) = match held {
        Some(token) => (token, Some(of)),
        None => {
            let dial = DialPolicy { allow_private: target.allow_private };
            let asking = Asking { endpoint, oauth, secret, client, dial };
            let asked = run.hold.waiting(run.shared.tokens.ask(of, &asking, now)).await?;
            (asked.map_err(no_token)?, None)
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

/// What the answer means for the job.
async fn judge(spec: &HttpSpec, run: &mut Run<'_>, response: Response) -> Result<(), StepError> {
    let status = response.status.as_u16();
    if !is_done(spec, status) {
        run.asked_to_wait = retry_after(&response, run.shared.recorder.env().now());
        return Err(run.hold.waiting(refusal(&spec.endpoint, response)).await?);
    }
    let mut result = json!({ "status": status });
    if spec.answer != HttpAnswer::Ignore {
        let body = run.hold.waiting(response.body.read_all(HTTP_ANSWER_BYTES)).await?;
        let body = body.map_err(|error| match error {
            HttpError::TooLong(_) => unusable(spec, &error.to_string()),
            error => not_sent(&spec.endpoint, &error),
        })?;
        let answer = match spec.answer {
            HttpAnswer::Json => serde_json::from_slice(&body)
                .map_err(|error| unusable(spec, &format!("it is no JSON: {error}")))?,
            HttpAnswer::Text | HttpAnswer::Ignore => {
                let text = std::str::from_utf8(&body);
                Json::from(text.map_err(|_| unusable(spec, "it is no UTF-8"))?)
            }
        };
        result = json!({ "status": status, "answer": answer });
    }
    run.result = Some(result);
    Ok(())
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
        StepError::permanent("EP0891", text)
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
