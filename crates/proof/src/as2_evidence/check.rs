//! What of a bundle holds, and what does not.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use entrepot_as2_proto::{
    Mic, Outcome, ReadReceipt, ReceiptError, SignatureError, VerifiedSignature, bare_message_id,
    read_receipt,
};
use entrepot_crypto::{Certificate, NoteVerifier};
use entrepot_nouns::Event;
use entrepot_nouns::as2::As2State;
use entrepot_nouns::event::As2Receipt;
use entrepot_nouns::transfer::hex;

use super::{As2Bundle, As2Check, As2Parts, SignedFile, opened};
use crate::receipt;

/// A part that holds, and why.
fn holds(part: &'static str, found: impl Into<String>) -> As2Check {
    As2Check { part, holds: true, found: found.into() }
}

/// A part that does not hold, and why.
fn fails(part: &'static str, found: impl Into<String>) -> As2Check {
    As2Check { part, holds: false, found: found.into() }
}

impl As2Bundle {
    /// SHA-256 of the certificate that signed the receipt, of those that are here.
    pub fn signer(&self) -> Option<String> {
        signer(self)
    }

    /// What the partner signed, if that is the file behind a header which is here.
    pub fn signed_file(&self) -> Option<SignedFile> {
        let head = self.parts.signature.as_ref()?.head.clone()?;
        Some(SignedFile { head, mic: Mic::parse(self.parts.mic.as_deref()?)? })
    }

    /// Checks all of it, offline. Without a key the one that the bundle names is taken: then it
    /// is for the reader to know whose that is.
    pub fn check(&self, key: Option<&NoteVerifier>) -> Vec<As2Check> {
        all(self, key)
    }
}

/// Checks all of a bundle.
fn all(bundle: &As2Bundle, key: Option<&NoteVerifier>) -> Vec<As2Check> {
    let (record, event) = record(bundle, key);
    let mut checks = vec![record];
    match event.as_ref().and_then(As2Parts::of) {
        Some(said) => checks.extend(compared(&bundle.parts, &said)),
        None => checks.push(fails("record", "its event tells of no message of AS2")),
    }
    let certificates = certificates(bundle, &mut checks);
    checks.push(signature(bundle, &certificates));
    let signer = mdn(bundle, &certificates, &mut checks);
    owners(bundle, &certificates, signer.as_deref(), &mut checks);
    checks
}

/// Our own receipt, and the event in it, proven or not.
fn record(bundle: &As2Bundle, key: Option<&NoteVerifier>) -> (As2Check, Option<Event>) {
    let record = &bundle.record;
    let event = || serde_json::from_value(record.event.clone()).ok();
    if record.format != receipt::FORMAT {
        return (fails("record", format!("its format is '{}'", record.format)), event());
    }
    let own = record.key.parse::<NoteVerifier>();
    let key = match (key, own) {
        (_, Err(error)) => return (fails("record", format!("its key: {error}")), event()),
        (Some(key), Ok(own)) if key.to_string() != own.to_string() => {
            return (fails("record", "it names another key than the one given"), event());
        }
        (_, Ok(own)) => own,
    };
    match record.verify(&key) {
        Ok(verified) => {
            let at = verified.signed_at.as_deref().unwrap_or("an unknown time");
            let found = format!(
                "'{}' is record {} of {}, under a head signed at {at}",
                verified.event.fact.kind(),
                verified.record,
                key.name()
            );
            (holds("record", found), Some(verified.event))
        }
        Err(error) => (fails("record", error.to_string()), event()),
    }
}

/// Each part, beside what the event says.
fn compared(parts: &As2Parts, said: &As2Parts) -> Vec<As2Check> {
    let same = [
        ("message", parts.message == said.message),
        ("head", parts.head == said.head),
        ("tls", parts.tls == said.tls),
        ("mic", parts.mic == said.mic),
        ("file", parts.file == said.file),
        ("signature", parts.signature == said.signature),
        ("receipt", parts.receipt == said.receipt),
    ];
    let check = |(part, same)| {
        if same { holds(part, "as recorded") } else { fails(part, "is not as it was recorded") }
    };
    same.map(check).into()
}

/// The certificates that are what they say they are.
fn certificates(bundle: &As2Bundle, checks: &mut Vec<As2Check>) -> Vec<Arc<Certificate>> {
    let mut good = Vec::new();
    for bundled in &bundle.certificates {
        match bundled.certificate() {
            Some(certificate) if hex(&certificate.fingerprint()) == bundled.fingerprint => {
                good.push(certificate);
            }
            Some(_) => {
                let found = format!("{} is the fingerprint of another one", bundled.fingerprint);
                checks.push(fails("certificates", found));
            }
            None => {
                let found = format!("{} cannot be read", bundled.fingerprint);
                checks.push(fails("certificates", found));
            }
        }
    }
    good
}

/// The signature of the message: its certificate has signed content of the digest that was
/// computed when the message came.
fn signature(bundle: &As2Bundle, certificates: &[Arc<Certificate>]) -> As2Check {
    const PART: &str = "signature";
    let (parts, message) = (&bundle.parts, &bundle.parts.message);
    let Some(kept) = &parts.signature else {
        let why = match (&message.signed_by, message.state) {
            (None, As2State::Refused) => "the message was refused: its signature is not kept",
            (None, _) => "the message was not signed",
            (Some(_), As2State::Received) => {
                "the message was signed, but its signature is not here: it was received before \
                 signatures were kept, or that was too large"
            }
            (Some(_), _) => "the message was signed here: its signature is not kept",
        };
        return holds(PART, why);
    };
    let Ok(cms) = STANDARD.decode(&kept.cms) else { return fails(PART, "it is no base64") };
    let Some(mic) = parts.mic.as_deref().and_then(Mic::parse) else {
        return fails(PART, "no digest is recorded that it could be of");
    };
    let is_signer = |it: &&Arc<Certificate>| Some(hex(&it.fingerprint())) == message.signed_by;
    let trusted: Vec<Arc<Certificate>> = certificates.iter().filter(is_signer).cloned().collect();
    match VerifiedSignature::check_again(&cms, mic, &trusted) {
        Ok(verified) => {
            let signer = hex(&verified.certificate.fingerprint());
            holds(PART, format!("certificate {signer} signed the content with the recorded MIC"))
        }
        Err(SignatureError::Content) => fails(PART, "it is of other content: its digest differs"),
        Err(error) => fails(PART, error.to_string()),
    }
}

/// The fingerprint of who signed the receipt.
fn signer(bundle: &As2Bundle) -> Option<String> {
    mdn(bundle, &certificates(bundle, &mut Vec::new()), &mut Vec::new())
}

/// The receipt by itself: signature, message, disposition and MIC. The fingerprint of who signed.
fn mdn(
    bundle: &As2Bundle,
    certificates: &[Arc<Certificate>],
    checks: &mut Vec<As2Check>,
) -> Option<String> {
    let Some(receipt) = &bundle.parts.receipt else {
        checks.push(holds("receipt", "there is none: none was asked for, or none was given"));
        return None;
    };
    let read = match read(receipt, certificates) {
        Ok(read) => read,
        Err(found) => {
            checks.push(fails("receipt", found));
            return None;
        }
    };
    let signer = read.signature.as_ref().map(|it| hex(&it.certificate.fingerprint()));
    match &signer {
        Some(signer) => checks.push(holds("receipt", format!("signed by certificate {signer}"))),
        None => checks.push(holds("receipt", "not signed")),
    }
    checks.push(subject(bundle, &read));
    checks.push(disposition(bundle, &read));
    checks.push(mic(bundle, &read));
    signer
}

fn read(receipt: &As2Receipt, trusted: &[Arc<Certificate>]) -> Result<ReadReceipt, String> {
    let (fields, body) = opened(receipt).ok_or("its body is no base64")?;
    read_receipt(&fields, &body, trusted).map_err(|error| match error {
        ReceiptError::Malformed => "it is no receipt".to_owned(),
        ReceiptError::Signature(why) => format!("its signature does not hold: {why}"),
    })
}

fn subject(bundle: &As2Bundle, read: &ReadReceipt) -> As2Check {
    let about = read.original_message_id.as_deref().map(bare_message_id);
    let message = bundle.parts.message.message_id.as_deref().map(bare_message_id);
    match (about, message) {
        (Some(about), Some(message)) if about != message => {
            fails("receipt", format!("it is for the message {about}"))
        }
        (Some(about), _) => holds("receipt", format!("it is for the message {about}")),
        (None, _) => holds("receipt", "it names no message"),
    }
}

/// What the receipt says goes with what became of the message.
fn disposition(bundle: &As2Bundle, read: &ReadReceipt) -> As2Check {
    let says = format!("it says '{}'", read.disposition);
    let is_duplicate = match &read.outcome {
        Outcome::Processed => false,
        Outcome::Warning(text) | Outcome::Error(text) | Outcome::Failure(text) => {
            text.to_ascii_lowercase().contains("duplicate-document")
        }
    };
    let fits = match bundle.parts.message.state {
        As2State::Received | As2State::Delivered => read.outcome.is_success() || is_duplicate,
        As2State::Refused => !read.outcome.is_success(),
        // It may have confirmed other bytes.
        As2State::Rejected => true,
        As2State::Awaiting | As2State::Unconfirmed => false,
    };
    if fits { holds("receipt", says) } else { fails("receipt", says) }
}

/// The MIC of the receipt is that of the message.
fn mic(bundle: &As2Bundle, read: &ReadReceipt) -> As2Check {
    let Some(text) = &bundle.parts.mic else {
        return holds("mic", "none is recorded that the receipt could have");
    };
    let Some(recorded) = Mic::parse(text) else { return fails("mic", "it cannot be read") };
    let is_rejected = bundle.parts.message.state == As2State::Rejected;
    match &read.mic {
        Some(mic) if *mic == recorded => holds("mic", "that of the receipt"),
        Some(mic) if is_rejected => holds("mic", format!("the receipt has another one, {mic}")),
        None if is_rejected => holds("mic", "the receipt has none"),
        Some(mic) => fails("mic", format!("the receipt has {mic}")),
        None => fails("mic", "the receipt has none"),
    }
}

/// Each certificate signed the message, the receipt, or came along with the receipt.
fn owners(
    bundle: &As2Bundle,
    certificates: &[Arc<Certificate>],
    signer: Option<&str>,
    checks: &mut Vec<As2Check>,
) {
    let brought = bundle.parts.receipt.iter().flat_map(super::certificates_of);
    let brought: Vec<String> = brought.map(|it| hex(&it.fingerprint())).collect();
    for certificate in certificates {
        let fingerprint = hex(&certificate.fingerprint());
        let signed_message = bundle.parts.message.signed_by.as_deref() == Some(&fingerprint);
        let found = match (signed_message, signer == Some(&fingerprint)) {
            (true, true) => "signed message and receipt",
            (true, false) => "signed the message",
            (false, true) => "signed the receipt",
            (false, false) if brought.contains(&fingerprint) => "came along with the receipt",
            (false, false) => {
                let found = format!("{fingerprint} signed nothing of this message");
                checks.push(fails("certificates", found));
                continue;
            }
        };
        checks.push(holds("certificates", format!("{fingerprint} {found}")));
    }
}
