//! The evidence of a message of AS2 in one file: what came and left, the receipt byte by byte, the
//! certificates, and our own receipt of the event that says so. It is checked offline.
//!
//! The event is in the journal, and our receipt proves it; what stands beside it is there to be
//! read, and each part of it is compared with the event. The partner's receipt (or ours, of a
//! message that came) proves itself besides, by its signature; so does the message that came.

mod check;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use entrepot_as2_proto::{Field, Headers, Mic, VerifiedSignature, brought_certificates};
use entrepot_crypto::Certificate;
use entrepot_nouns::as2::{As2Entry, As2State};
use entrepot_nouns::event::{As2Message, As2Receipt, As2Signature, As2Tls};
use entrepot_nouns::transfer::hex;
use entrepot_nouns::{Digests, Direction, Event, Fact, Key, KeyType, Name, SiteId, TransferId};
use serde::{Deserialize, Serialize};

use crate::error::{ProofError, Result};
use crate::heads::Heads;
use crate::receipt::Receipt;

/// What a bundle calls its form.
const FORMAT: &str = "entrepot-as2-evidence/1";

/// The evidence of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct As2Bundle {
    /// Which form it has: `entrepot-as2-evidence/1`.
    pub format: String,
    /// What the event says of the message, to be read.
    pub parts: As2Parts,
    /// The certificates that signed the message or the receipt, as far as they are known.
    pub certificates: Vec<BundledCertificate>,
    /// Our own receipt: the event, and its place in the journal of the node that recorded it.
    pub record: Receipt,
}

/// What an event says of a message, part by part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct As2Parts {
    /// Who sent what to whom, and what became of it.
    pub message: BundledMessage,
    /// The header of the request that carried it, a field a line.
    pub head: Option<String>,
    /// The connection that it came or left by, under TLS.
    pub tls: Option<As2Tls>,
    /// The message integrity check: a digest as base64, and its algorithm.
    pub mic: Option<String>,
    /// The file, with the digests of all of it.
    pub file: Option<BundledFile>,
    /// The signature of a message that came, without what was signed; older evidence has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<As2Signature>,
    /// The receipt, byte by byte: ours of a message that came, the partner's of one that left.
    pub receipt: Option<As2Receipt>,
}

/// Who sent what to whom.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundledMessage {
    /// When its event was recorded.
    pub at: entrepot_nouns::Timestamp,
    /// Seen from the node that recorded it.
    pub direction: Direction,
    /// What became of it.
    pub state: As2State,
    /// The endpoint of the partner.
    pub partner: Option<Name>,
    /// The AS2 name of who sent it.
    pub from: String,
    /// The AS2 name of who received it.
    pub to: String,
    /// The Message-ID, if it had one.
    pub message_id: Option<String>,
    /// The line for people.
    pub subject: Option<String>,
    /// The media type of the file.
    pub content_type: Option<String>,
    /// SHA-256 of the certificate that signed it.
    pub signed_by: Option<String>,
    /// The cipher that it went under.
    pub cipher: Option<String>,
    /// What the receipt says of a message that was refused or rejected.
    pub disposition: Option<String>,
}

/// The file that a message brought or took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundledFile {
    /// Where it is here, or what it is called there.
    pub path: String,
    /// How large it is, in bytes.
    pub size: u64,
    /// The digests of all of it.
    pub digests: Digests,
}

/// A certificate of one of the two sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundledCertificate {
    /// SHA-256 of it, 64 hexadecimal digits.
    pub fingerprint: String,
    /// The certificate, as others write and read it.
    pub pem: String,
}

/// One thing that was checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct As2Check {
    /// The part of the bundle that it is about.
    pub part: &'static str,
    /// Whether it holds.
    pub holds: bool,
    /// What was found, in a sentence without a full stop.
    pub found: String,
}

impl As2Parts {
    /// What an event says; `None`: it tells of no message.
    pub fn of(event: &Event) -> Option<As2Parts> {
        let parts = |direction, state, message: &As2Message, disposition, file| As2Parts {
            message: BundledMessage {
                at: event.at,
                direction,
                state,
                partner: Some(message.partner.clone()),
                from: message.from.clone(),
                to: message.to.clone(),
                message_id: Some(message.message_id.clone()),
                subject: message.subject.clone(),
                content_type: Some(message.content_type.clone()),
                signed_by: message.signed_by.clone(),
                cipher: message.cipher.clone(),
                disposition,
            },
            head: message.head.clone(),
            tls: message.tls.clone(),
            mic: message.mic.clone(),
            file,
            signature: message.signature.as_deref().cloned(),
            receipt: message.receipt.as_deref().cloned(),
        };
        if let Fact::As2Rejected { rejection } = &event.fact {
            let disposition = Some(rejection.disposition.clone());
            let (path, size) = (rejection.path.clone(), rejection.size);
            let file = Some(BundledFile { path, size, digests: Digests::default() });
            let (direction, state) = (Direction::Out, As2State::Rejected);
            return Some(parts(direction, state, &rejection.message, disposition, file));
        }
        if let Fact::As2Refused { refusal } = &event.fact {
            return Some(As2Parts {
                message: BundledMessage {
                    at: event.at,
                    direction: Direction::In,
                    state: As2State::Refused,
                    partner: refusal.partner.clone(),
                    from: refusal.from.clone(),
                    to: refusal.to.clone(),
                    message_id: refusal.message_id.clone(),
                    subject: None,
                    content_type: None,
                    signed_by: None,
                    cipher: None,
                    disposition: Some(refusal.disposition.clone()),
                },
                head: refusal.head.clone(),
                tls: refusal.tls.clone(),
                mic: None,
                file: None,
                signature: None,
                receipt: refusal.receipt.as_deref().cloned(),
            });
        }
        let file = event.fact.file()?;
        let message = file.as2.as_deref()?;
        let (direction, state) = match &event.fact {
            Fact::FileDelivered { .. } => (Direction::Out, As2State::Delivered),
            _ => (Direction::In, As2State::Received),
        };
        let (path, size, digests) = (file.path.clone(), file.size, file.digests);
        Some(parts(direction, state, message, None, Some(BundledFile { path, size, digests })))
    }
}

impl BundledCertificate {
    fn of(certificate: &Certificate) -> BundledCertificate {
        let digits = STANDARD.encode(certificate.der());
        let mut pem = "-----BEGIN CERTIFICATE-----\n".to_owned();
        for line in digits.as_bytes().chunks(64) {
            pem.push_str(&String::from_utf8_lossy(line));
            pem.push('\n');
        }
        pem.push_str("-----END CERTIFICATE-----\n");
        BundledCertificate { fingerprint: hex(&certificate.fingerprint()), pem }
    }

    /// The one certificate that it is.
    fn certificate(&self) -> Option<Arc<Certificate>> {
        let mut all = Certificate::all_from_pem(&self.pem).ok()?;
        let one = all.pop().filter(|_| all.is_empty())?;
        Some(Arc::new(one))
    }
}

/// The header and the body of a receipt.
fn opened(receipt: &As2Receipt) -> Option<(Headers, Vec<u8>)> {
    let field = |name: &str, value: &str| Field { name: name.to_owned(), value: value.to_owned() };
    let fields = vec![field("Content-Type", &receipt.content_type)];
    Some((Headers::new(fields), STANDARD.decode(&receipt.body).ok()?))
}

/// The certificates that may have signed a receipt: the one that is recorded, and those that its
/// signature brings along.
fn certificates_of(receipt: &As2Receipt) -> Vec<Certificate> {
    let recorded = receipt.certificate.as_ref();
    let recorded = recorded.and_then(|text| STANDARD.decode(text).ok());
    let recorded = recorded.and_then(|der| Certificate::from_der(&der).ok());
    let brought = opened(receipt).map(|(fields, body)| brought_certificates(&fields, &body));
    recorded.into_iter().chain(brought.unwrap_or_default()).collect()
}

/// The certificates that a signature brings along.
fn signers_of(signature: &As2Signature) -> Vec<Certificate> {
    let read = STANDARD.decode(&signature.cms);
    read.map(|cms| VerifiedSignature::certificates(&cms)).unwrap_or_default()
}

/// What a message signed, for who has its file: behind this header it has this digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedFile {
    /// The header, byte by byte.
    pub head: String,
    /// The digest of header and file.
    pub mic: Mic,
}

impl Heads {
    /// The evidence of a message.
    ///
    /// # Errors
    /// [`ProofError::NoMessage`]; those of [`Heads::receipt`].
    pub async fn as2_evidence(&self, site: SiteId, entry: &As2Entry) -> Result<As2Bundle> {
        let none = || ProofError::NoMessage(entry.id);
        let event = entry.event.ok_or_else(none)?;
        let event = self.db().event(event).await?.map(|row| row.event);
        let event = event.filter(|event| event.site == site).ok_or_else(none)?;
        let parts = As2Parts::of(&event).ok_or_else(none)?;
        let mut certificates: Vec<BundledCertificate> = Vec::new();
        let mut add = |certificate: &Certificate| {
            let bundled = BundledCertificate::of(certificate);
            if !certificates.contains(&bundled) {
                certificates.push(bundled);
            }
        };
        parts.receipt.iter().flat_map(certificates_of).for_each(|certificate| add(&certificate));
        parts.signature.iter().flat_map(signers_of).for_each(|certificate| add(&certificate));
        if let Some(signer) = &parts.message.signed_by {
            let known = self.as2_certificates(site).await?;
            let is_it = |known: &&Certificate| hex(&known.fingerprint()) == *signer;
            known.iter().find(is_it).into_iter().for_each(add);
        }
        let record = self.receipt_of(event, TransferId(entry.id)).await?;
        Ok(As2Bundle { format: FORMAT.to_owned(), parts, certificates, record })
    }

    /// The certificates of all keys of AS2 of a site, also of those that count no more.
    async fn as2_certificates(&self, site: SiteId) -> Result<Vec<Certificate>> {
        let keys = self.db().list::<Key>(site).await?.into_iter().map(|stored| stored.noun);
        let keys = keys.filter(|key| key.key_type == KeyType::As2);
        let read = |key: Key| Certificate::all_from_pem(&key.public).unwrap_or_default();
        Ok(keys.flat_map(read).collect())
    }
}

impl As2Bundle {
    /// Reads a bundle.
    ///
    /// # Errors
    /// [`ProofError::Bundle`] if it has not the form of one.
    pub fn parse(text: &str) -> Result<Self> {
        let bundle: As2Bundle =
            serde_json::from_str(text).map_err(|error| ProofError::Bundle(error.to_string()))?;
        if bundle.format == FORMAT {
            Ok(bundle)
        } else {
            let text = format!("its format is '{}', not '{FORMAT}'", bundle.format);
            Err(ProofError::Bundle(text))
        }
    }
}
