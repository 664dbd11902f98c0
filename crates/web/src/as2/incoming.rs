//! One message of a partner, from its head to its receipt.

use std::sync::Arc;
use std::time::Duration;

use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use entrepot_as2_proto::{
    As2Headers, DigestAlgorithm, Disposition, Headers, LeastSecurity, Legacy, Mic, MicalgStyle,
    OwnKey, Protection, ReceiveOptions, Received, Receiver, SignatureEvidence, is_message_id,
};
use entrepot_auth::{As2NotTold, As2OwnKey, As2Partner, AuthError, as2};
use entrepot_nouns::endpoint::{As2Legacy, As2Protection, As2Security};
use entrepot_nouns::event::{As2Message, As2Receipt, As2Refusal, As2Signature};
use entrepot_nouns::transfer::hex;
use entrepot_nouns::{Secret, Timestamp};
use entrepot_vfs::{As2Arrival, IncomingCommand, Session, VfsError};
use tokio::sync::oneshot;
use tokio::time::timeout;
use zeroize::Zeroizing;

use super::payload_file::PayloadFile;
use super::receipts::{Receipts, answer, asked_digest};
use crate::context::RequestContext;
use crate::hooks::CommandRules;
use crate::limits::{
    AS2_INFLATE_RATIO, AS2_PAYLOAD_BYTES, AS2_PIECE_BYTES, AS2_SUBJECT_CHARACTERS,
};
use crate::login::SignedIn;
use crate::problem::Problem;
use crate::sessions::{Holder, UsedSession};
use crate::upload_body::UploadBody;

/// A message whose partner is known.
pub(super) struct Incoming {
    pub(super) context: RequestContext,
    pub(super) partner: Arc<As2Partner>,
    /// The header of HTTP.
    pub(super) fields: Headers,
    /// The same as it is kept.
    pub(super) head: String,
    pub(super) names: As2Headers,
}

impl Incoming {
    /// Takes the body. A refusal travels in a receipt where one was asked for.
    pub(super) async fn receive(self, mut body: UploadBody) -> Result<Response, Problem> {
        let now = self.context.shared().env().now();
        if let Some(problem) = self.flaw_of_address() {
            return Err(problem);
        }
        if let Some(flaw) = self.flaw_of_head() {
            return self.refuse(flaw, now).await;
        }
        let (shared, config) = (self.context.shared(), &self.context.connection.config);
        let Some(_place) = shared.as2_messages.find(config.as2_messages()) else {
            let why = "too many messages are on their way at this moment; send it again later";
            return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "EP1224", why));
        };
        let session = self.session().await?;
        let rules = CommandRules::of_messages(&self.context, &session);
        let signed_in = SignedIn::with(session);
        body.is_of(signed_in.clone());
        let message_id = self.names.message_id.as_deref().unwrap_or_default();
        let folder = &self.partner.target.folder;
        let mut file = PayloadFile::new(signed_in.vfs(), folder, message_id);
        match self.unpack(&mut body, &mut file, now).await {
            Ok(Ok(received)) => self.publish(file, received, &rules, now).await,
            Ok(Err(disposition)) => {
                file.drop_all().await;
                self.refuse(disposition, now).await
            }
            Err(problem) => {
                file.drop_all().await;
                Err(problem)
            }
        }
    }

    /// What is wrong with the message before any of its body came.
    fn flaw_of_head(&self) -> Option<Disposition> {
        if !self.names.message_id.as_deref().is_some_and(is_message_id) {
            return Some(Disposition::InvalidMessageId);
        }
        let options = &self.names.receipt.as_ref()?.options;
        if options.unsupported_required {
            return Some(Disposition::UnsupportedFormat);
        }
        let unknown = options.digests_asked && options.digests.is_empty();
        unknown.then_some(Disposition::UnsupportedMicAlgorithms)
    }

    /// Why the receipt cannot be sent where it shall go. That is said in no receipt, for there is
    /// nowhere to send it.
    fn flaw_of_address(&self) -> Option<Problem> {
        let address = self.names.receipt.as_ref()?.delivery.as_ref()?;
        if self.partner.may_have_receipts_at(address) {
            return None;
        }
        let why = "the address of Receipt-Delivery-Option is at no host that was agreed";
        Some(Problem::new(StatusCode::FORBIDDEN, "EP1206", why))
    }

    /// The session of the account that the messages of the partner are for. Another one when what
    /// was agreed has changed.
    async fn session(&self) -> Result<UsedSession, Problem> {
        let context = &self.context;
        let (shared, connection) = (context.shared(), &context.connection);
        let (endpoint, revision) = self.partner.version;
        let proof = Secret::new([endpoint.as_bytes().as_slice(), &revision.to_le_bytes()].concat());
        let sessions = &shared.sessions;
        let key = sessions.key(context.site, Holder::As2, &proof, context.peer().ip());
        let open = async {
            let mut attempt = shared.gate().attempt(connection.as_peer(shared, context.site));
            let grant = attempt.as2(&self.partner).await.map_err(not_admitted)?;
            Session::open(shared.vfs(), grant).await.map_err(Problem::from)
        };
        let session = sessions.find_or_open(&key, open).await?;
        connection.signed_in(&session);
        Ok(session)
    }

    /// Feeds the body through all layers, the payload into its file.
    async fn unpack(
        &self,
        body: &mut UploadBody,
        file: &mut PayloadFile<'_>,
        now: Timestamp,
    ) -> Result<Result<Received, Disposition>, Problem> {
        let mut receiver = Receiver::new(&self.fields, self.options(now));
        while let Some(mut bytes) = body.next().await? {
            while !bytes.is_empty() {
                let piece: Bytes = bytes.split_to(bytes.len().min(AS2_PIECE_BYTES));
                receiver.receive(&piece);
                write_out(&mut receiver, file).await?;
            }
        }
        receiver.end();
        write_out(&mut receiver, file).await?;
        Ok(receiver.outcome_under(&least_security(self.partner.target.require)))
    }

    fn options(&self, now: Timestamp) -> ReceiveOptions {
        let mut substitute_key = Zeroizing::new([0; 32]);
        self.context.shared().env().fill_random(substitute_key.as_mut_slice());
        let own_key = |key: As2OwnKey| OwnKey { certificate: key.certificate, key: key.private };
        ReceiveOptions {
            keys: self.partner.own_keys(now).into_iter().map(own_key).collect(),
            trusted: self.partner.certificates(now),
            substitute_key,
            mic_algorithms: vec![self.asked_digest()],
            other_digests: other_digests(as2::digest(self.partner.target.require.digest)),
            max_payload_bytes: AS2_PAYLOAD_BYTES,
            max_inflate_ratio: AS2_INFLATE_RATIO,
        }
    }

    /// The digest of the message integrity check where no signature says which.
    fn asked_digest(&self) -> DigestAlgorithm {
        asked_digest(&self.names).unwrap_or(DigestAlgorithm::Sha256)
    }

    fn receipts(&self, now: Timestamp) -> Receipts<'_> {
        let key = self.partner.own_keys(now).into_iter().next();
        Receipts::signed_by(&self.names, self.context.shared().env(), key)
    }

    /// The message is right: its file is published, unless it was before, or rules do not let it
    /// pass.
    async fn publish(
        &self,
        mut file: PayloadFile<'_>,
        received: Received,
        rules: &CommandRules,
        now: Timestamp,
    ) -> Result<Response, Problem> {
        let mic = received.mic(self.asked_digest());
        let receipt = self.receipts(now).make(Disposition::Processed, mic.as_ref());
        let message = self.message(&received, mic.as_ref(), receipt.clone());
        let (asked, (passed, mut passing)) = (rules.clone(), oneshot::channel());
        let (shared, config) = (self.context.shared(), &self.context.connection.config);
        let publish = async {
            let place = shared.as2_at_once.wait_for_one(config.as2_at_once()).await;
            let path = file.end(&received.payload).await?;
            let permission = async move {
                let text = path.as_str();
                let command =
                    asked.ask(|| IncomingCommand::writing("write", text, Some(&path))).await?;
                // Who waits for the file takes it.
                let _ = passed.send(command);
                Ok(place)
            };
            file.finish(message, permission).await
        };
        let Ok(arrival) = timeout(config.as2_time(), publish).await else {
            return self.give_up(config.as2_time()).await;
        };
        let receipt = match arrival.map_err(not_stored)? {
            As2Arrival::Published(uploaded) => {
                let command = passing.try_recv().ok().flatten();
                rules.after_message(command, &uploaded).await;
                receipt
            }
            As2Arrival::Refused(refusal) if refusal.is_permanent() => {
                return self.refuse(Disposition::UnexpectedProcessingError, now).await;
            }
            // The partner sends it again under the same id.
            As2Arrival::Refused(refusal) => return Err(refusal.into()),
            As2Arrival::Before(Some(before)) => before.receipt.map(|receipt| *receipt),
            As2Arrival::Before(None) => {
                self.receipts(now).make(Disposition::DuplicateDocument, mic.as_ref())
            }
            As2Arrival::Underway => {
                let why = "a message of this id is being received, or its node has not said yet \
                           what became of it; send it again later, under the same id";
                return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "EP1207", why));
            }
        };
        match receipt {
            Some(receipt) => answer(&self.names, &receipt),
            None => Ok(StatusCode::OK.into_response()),
        }
    }

    fn message(
        &self,
        received: &Received,
        mic: Option<&Mic>,
        receipt: Option<As2Receipt>,
    ) -> As2Message {
        let content_type = received.payload.value("content-type").unwrap_or("text/plain");
        let signed_by = received.signature.as_ref();
        As2Message {
            partner: self.partner.endpoint.clone(),
            from: self.names.from.as_str().to_owned(),
            to: self.names.to.as_str().to_owned(),
            message_id: self.names.message_id.clone().unwrap_or_default(),
            subject: self.names.subject.as_ref().map(|subject| shortened(subject)),
            content_type: shortened(content_type),
            mic: mic.map(|mic| mic.text(MicalgStyle::default())),
            signed_by: signed_by.map(|signature| hex(&signature.certificate.fingerprint())),
            signature: received.signature_evidence().map(|SignatureEvidence { detached, head }| {
                Box::new(As2Signature { cms: STANDARD.encode(detached), head })
            }),
            cipher: received.cipher.map(|cipher| cipher.name().to_owned()),
            compressed: received.compressed,
            head: Some(self.head.clone()),
            tls: self.context.connection.as2_tls(),
            receipt: receipt.map(Box::new),
        }
    }

    /// The message was not published in time: its sender sends it again under the same id. What a
    /// publish that has begun is doing goes on to its end, and then a copy gets the receipt.
    async fn give_up(&self, time: Duration) -> Result<Response, Problem> {
        let why = format!("not published within {} s", time.as_secs());
        tell_of_refusal(&self.context, &self.partner, self.refusal(&why, None)).await?;
        let why = format!("the message was {why}; send it again later, under the same id");
        Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "EP1225", why))
    }

    fn refusal(&self, disposition: &str, receipt: Option<As2Receipt>) -> As2Refusal {
        As2Refusal {
            partner: Some(self.partner.endpoint.clone()),
            from: self.names.from.as_str().to_owned(),
            to: self.names.to.as_str().to_owned(),
            message_id: self.names.message_id.as_deref().map(shortened),
            disposition: disposition.to_owned(),
            address: self.context.peer().ip().to_canonical().to_string(),
            head: Some(self.head.clone()),
            tls: self.context.connection.as2_tls(),
            receipt: receipt.map(Box::new),
        }
    }

    /// The message counts for nothing. What its sender learns is also in the audit log.
    async fn refuse(&self, disposition: Disposition, now: Timestamp) -> Result<Response, Problem> {
        let receipt = self.receipts(now).make(disposition, None);
        let refusal = self.refusal(disposition.text(), receipt.clone());
        tell_of_refusal(&self.context, &self.partner, refusal).await?;
        match receipt {
            Some(receipt) => answer(&self.names, &receipt),
            None => {
                let why = format!("the message was refused: {}", disposition.explanation());
                Err(Problem::new(StatusCode::BAD_REQUEST, "EP1208", why))
            }
        }
    }
}

/// Records a refusal, unless too many were told within this minute. When this returns, a receipt
/// that is to be sent is on stable storage.
pub(super) async fn tell_of_refusal(
    context: &RequestContext,
    partner: &As2Partner,
    refusal: As2Refusal,
) -> Result<(), Problem> {
    let shared = context.shared();
    let peer = context.connection.as_peer(shared, context.site);
    let told = shared.gate().attempt(peer).as2_refused(partner, refusal).await;
    told.map_err(|not_told| match not_told {
        As2NotTold::TooMany(wait) => {
            let why = "too many messages of this partner were refused within this minute";
            let wait = HeaderValue::from(wait.as_secs().saturating_add(1));
            let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "EP1209", why);
            problem.with(RETRY_AFTER, wait)
        }
        As2NotTold::NotRecorded(error) => {
            Problem { status: StatusCode::SERVICE_UNAVAILABLE, ..Problem::from(error) }
        }
    })
}

/// Writes all that is unwrapped.
async fn write_out(receiver: &mut Receiver, file: &mut PayloadFile<'_>) -> Result<(), Problem> {
    while let Some(bytes) = receiver.output() {
        file.write(receiver.payload(), &bytes).await.map_err(not_stored)?;
        // What inflates to much must not keep others waiting.
        tokio::task::consume_budget().await;
    }
    Ok(())
}

/// The store cannot take it now: the partner sends it again under the same id.
fn not_stored(error: VfsError) -> Problem {
    let problem = Problem::from(error);
    if problem.status == StatusCode::PAYLOAD_TOO_LARGE {
        return problem;
    }
    Problem { status: StatusCode::SERVICE_UNAVAILABLE, ..problem }
}

/// An account that may not act is for its administrator to mend: the partner tries again.
fn not_admitted(error: AuthError) -> Problem {
    match error {
        AuthError::Refused { .. } => {
            let why = "messages of this partner are not taken here at this moment";
            Problem::new(StatusCode::FORBIDDEN, "EP1204", why)
        }
        other => other.into(),
    }
}

pub(super) fn shortened(text: &str) -> String {
    text.chars().take(AS2_SUBJECT_CHARACTERS).collect()
}

/// What signatures may have though `micalg` names another: of what is too weak for the partner none
/// is computed.
fn other_digests(least: DigestAlgorithm) -> Vec<DigestAlgorithm> {
    let usual = [DigestAlgorithm::Sha1, DigestAlgorithm::Sha256];
    usual.into_iter().filter(|digest| *digest > least).chain([least]).collect()
}

fn least_security(require: As2Security) -> LeastSecurity {
    let protection = |wanted: As2Protection| match wanted {
        As2Protection::Required => Protection::Required,
        As2Protection::Optional => Protection::Optional,
    };
    let digest = as2::digest(require.digest);
    let triple_des = match require.triple_des {
        As2Legacy::Refused => Legacy::Refused,
        As2Legacy::Accepted => Legacy::Accepted,
    };
    LeastSecurity {
        signature: protection(require.signature),
        encryption: protection(require.encryption),
        digest,
        triple_des,
        ..LeastSecurity::default()
    }
}
