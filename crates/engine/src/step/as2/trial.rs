//! A test of the connection to a partner of AS2: each thing that a delivery needs, one after the
//! other, up to a signed message of a few bytes and its receipt. It is a message like others, so
//! the partner has its file afterwards; nothing of it is a job here.

use std::sync::Arc;

use entrepot_as2_proto::{Finish, Outgoing, SendError};
use entrepot_auth::{As2Partner, Gate};
use entrepot_net::dial::{self, DialPolicy};
use entrepot_net::dialled::Dialled;
use entrepot_net::http::{Client, UrlServer, server_of};
use entrepot_net::tls::{ServerTrust, TlsClient};
use entrepot_nouns::as2::{As2Test, As2TestStep};
use entrepot_nouns::endpoint::As2ReceiptKind;
use entrepot_nouns::transfer::hex;
use entrepot_nouns::{Endpoint, EndpointTarget, Env, Stored, Timestamp, TransferId};
use entrepot_vfs::Service;

use super::carried;
use super::draft::{As2Draft, PartnerKeys};
use super::receipt::{Confirmed, SentMessage, Tries};
use super::{AskedReceipt, Sending, random};
use crate::files::FileAccess;
use crate::limits::AS2_RECEIPT_BYTES;
use crate::session_files::SessionFileAccess;
use crate::step::StepError;
use crate::web_client;

/// What the test message holds.
const CONTENT: &[u8] = b"This file tests a connection of AS2. It needs no processing.\r\n";

/// Tests connections to partners. Cheap to clone.
#[derive(Clone)]
pub struct As2Tester {
    access: Arc<dyn FileAccess>,
    env: Env,
    web: Client,
}

/// Why a test goes no further: the step that failed, and what was found.
struct Stopped {
    step: &'static str,
    found: String,
}

/// What is known of a partner once its keys were found.
struct Known {
    sending: Sending,
    server: UrlServer,
    url: String,
}

impl As2Tester {
    /// By what the node knows of partners.
    pub fn new(vfs: Service, gate: Gate, env: Env) -> As2Tester {
        let access = Arc::new(SessionFileAccess::new(vfs, gate));
        As2Tester { access, env, web: Client::new(ServerTrust::System) }
    }

    /// Tests the connection to the partner of an endpoint.
    pub async fn test(&self, endpoint: &Stored<Endpoint>) -> As2Test {
        let partner = endpoint.noun.name.clone();
        let mut test = As2Test { partner, message_id: None, steps: Vec::new() };
        if let Err(Stopped { step, found }) = self.steps(endpoint, &mut test).await {
            test.steps.push(As2TestStep { step: step.to_owned(), passed: false, found });
        }
        test
    }

    async fn steps(&self, endpoint: &Stored<Endpoint>, test: &mut As2Test) -> Result<(), Stopped> {
        let mut passed = |step: &str, found: String| {
            test.steps.push(As2TestStep { step: step.to_owned(), passed: true, found });
        };
        let (known, found) = self.known(endpoint).await?;
        passed("keys", found);
        let (stream, found) = known.connect(&self.env).await?;
        passed("connection", found);
        if let Some(found) = known.under_tls(stream).await? {
            passed("tls", found);
        }
        let message = self.send(&known).await?;
        passed("message", message.found.clone());
        let found = message.judge(&known.sending)?;
        passed("receipt", found);
        test.message_id = Some(known.sending.message_id);
        Ok(())
    }

    /// The keys of both sides, and where the partner's server is.
    async fn known(&self, endpoint: &Stored<Endpoint>) -> Result<(Known, String), Stopped> {
        let stop = |found: String| Stopped { step: "keys", found };
        let of_step = |error: StepError| stop(error.to_string());
        let name = &endpoint.noun.name;
        let kind = endpoint.noun.target.as_str();
        if !matches!(endpoint.noun.target, EndpointTarget::As2(_)) {
            return Err(stop(format!("endpoint '{name}' is of kind '{kind}' and no partner")));
        }
        let partner = self.access.as2_partner(endpoint.site, name).await.map_err(of_step)?;
        let partner =
            partner.ok_or_else(|| stop("the endpoint was changed just now".to_owned()))?;
        let secret = self.access.secret(endpoint).await.map_err(of_step)?;
        let started_at = self.env.now();
        let keys = PartnerKeys::of(&partner, started_at).map_err(of_step)?;
        let no_url = || stop(format!("nothing is sent to endpoint '{name}', for it has no 'url'"));
        let url = partner.target.url.clone().ok_or_else(no_url)?;
        let server = server_of(&url).ok_or_else(|| stop(format!("'{url}' is no URL")))?;
        let found = keys_found(&partner, started_at);
        let id: TransferId = self.env.new_id();
        let message_id = format!("<test-{}@entrepot>", id.0);
        let draft = As2Draft {
            name: "entrepot-test.txt".to_owned(),
            content_type: "text/plain".to_owned(),
            subject: Some("Test of the connection".to_owned()),
        };
        let sending =
            Sending { draft, partner, keys, secret, message_id, transfer: id, started_at };
        Ok((Known { sending, server, url }, found))
    }

    /// Sends the test message, and reads what comes back.
    async fn send(&self, known: &Known) -> Result<Answer, Stopped> {
        let stop = |found: String| Stopped { step: "message", found };
        let Known { sending, url, .. } = known;
        let terms = sending.terms();
        let not_made = |error: SendError| stop(format!("no message can be made: {error}"));
        let random = random(&self.env);
        let size = CONTENT.len() as u64;
        let plan = sending.keys.plan(&sending.draft, terms, size, sending.started_at.seconds());
        let compressed = match plan.measure(&random).map_err(not_made)? {
            Some(mut measure) => {
                measure.push(CONTENT).map_err(not_made)?;
                Some(measure.finish().map_err(not_made)?)
            }
            None => None,
        };
        let outgoing = plan.start(&random, compressed).map_err(not_made)?;
        let request = sending.request(&outgoing, AskedReceipt::AtOnce);
        let mut request = request.map_err(|error| stop(error.to_string()))?;
        let (body, finish) = made(outgoing).map_err(not_made)?;
        request.body = body.into();
        let authorities = sending.partner.target.authorities.as_deref();
        let client = web_client::client(&self.web, authorities);
        let begun = self.env.now();
        let patience = terms.timeout.0.duration();
        request.head_time = patience;
        let bytes = request.body.len();
        let response = client.send(request).await;
        let response = response.map_err(|error| stop(format!("{url}: {error}")))?;
        let status = response.status;
        if !status.is_success() {
            let said = web_client::said(response).await;
            return Err(stop(format!("{url} refused it with the status {said}")));
        }
        let fields = carried::fields(&response.headers);
        let body = response.body.read_all(AS2_RECEIPT_BYTES).await;
        let body = body.map_err(|error| stop(format!("{url}: {error}")))?.to_vec();
        let found = format!(
            "{} of {bytes} bytes was answered with the status {status} after {} ms",
            sending.message_id,
            self.env.now().since(begun).as_millis()
        );
        Ok(Answer { fields, body, sent: finish, found })
    }
}

/// All of a message, which is small.
fn made(mut outgoing: Outgoing) -> Result<(Vec<u8>, Finish), SendError> {
    let mut body = outgoing.head()?;
    body.extend(outgoing.push(CONTENT)?);
    let mut finish = outgoing.finish()?;
    body.append(&mut finish.last);
    Ok((body, finish))
}

/// What signs and what is encrypted for.
fn keys_found(partner: &As2Partner, now: Timestamp) -> String {
    let until = |seconds: i64| Timestamp::from_seconds(seconds).to_string();
    let shown = |certificate: &entrepot_crypto::Certificate| {
        let print = hex(&certificate.fingerprint());
        let print: String = print.chars().take(16).collect();
        format!("{print}\u{2026}, valid until {}", until(certificate.not_after))
    };
    let own = partner.own_keys(now).first().map(|key| shown(&key.certificate));
    let theirs = partner.certificates(now).first().map(|certificate| shown(certificate));
    let none = || "none".to_owned();
    format!("ours {}; the partner's {}", own.unwrap_or_else(none), theirs.unwrap_or_else(none))
}

impl Known {
    fn target(&self) -> &entrepot_nouns::endpoint::As2Target {
        &self.sending.partner.target
    }

    async fn connect(&self, env: &Env) -> Result<(Dialled, String), Stopped> {
        let UrlServer { host, port, .. } = &self.server;
        let policy = DialPolicy { allow_private: self.target().allow_private };
        let patience = self.sending.terms().timeout.0.duration();
        let begun = env.now();
        let stream = dial::tcp(host, *port, &policy, patience).await;
        let stop = |found: String| Stopped { step: "connection", found };
        let stream = stream.map_err(|error| stop(error.to_string()))?;
        let peer = stream.peer_addr().map_err(|error| stop(error.to_string()))?;
        let time = env.now().since(begun).as_millis();
        Ok((Dialled::Clear(stream), format!("to {host} at {peer} in {time} ms")))
    }

    /// What was agreed on; `None`: the server is reached in clear text.
    async fn under_tls(&self, stream: Dialled) -> Result<Option<String>, Stopped> {
        if !self.server.is_tls {
            return Ok(None);
        }
        let stop = |found: String| Stopped { step: "tls", found };
        let trust = match &self.target().authorities {
            Some(pem) => ServerTrust::Authorities(pem.as_bytes().to_vec()),
            None => ServerTrust::System,
        };
        let client = TlsClient::new(&self.server.host, &trust);
        let client = client.map_err(|error| stop(error.to_string()))?;
        let (stream, _) =
            stream.start_tls(&client).await.map_err(|error| stop(error.to_string()))?;
        Ok(stream.tls().map(|tls| {
            let certificate = tls.certificate.map(|it| hex(&it)).unwrap_or_default();
            format!("{} with {}; its certificate is {certificate}", tls.version, tls.suite)
        }))
    }
}

/// What came back for the test message.
struct Answer {
    fields: entrepot_as2_proto::Headers,
    body: Vec<u8>,
    sent: Finish,
    found: String,
}

impl Answer {
    /// What the receipt says, if it is as agreed.
    fn judge(&self, sending: &Sending) -> Result<String, Stopped> {
        let send = sending.terms();
        let message = SentMessage {
            endpoint: &sending.partner.endpoint,
            message_id: &sending.message_id,
            send,
            trusted: &sending.keys.certificates,
            sent: Some(&self.sent.sent),
            tries: Tries::First,
            head: None,
        };
        let confirmed = message.judge(&self.fields, &self.body);
        let confirmed = confirmed
            .map_err(|failed| Stopped { step: "receipt", found: failed.error.to_string() })?;
        let Confirmed { disposition, verified, receipt } = confirmed;
        let Some(disposition) = disposition else {
            return Ok("none was agreed: the status is all that is known".to_owned());
        };
        let is_signed = receipt.is_some_and(|receipt| receipt.certificate.is_some());
        let signed = match (is_signed, send.receipt) {
            (true, _) => "signed by a certificate of the partner",
            (false, As2ReceiptKind::Signed) => "not signed, though that was agreed",
            (false, _) => "not signed, as agreed",
        };
        let mic = if verified { "its MIC is ours" } else { "it has no MIC to compare" };
        Ok(format!("'{disposition}', {signed}, and {mic}"))
    }
}
