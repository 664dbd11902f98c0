//! How messages are built.

use std::sync::Arc;

use bytes::Bytes;
use entrepot_as2_proto::{
    As2Name, Compression, ContentSecrets, DigestAlgorithm, Envelope, Field, Headers, MicalgStyle,
    OwnKey, RsaPadding, SendPlan, SendRandom, SentMic, Signer, Signing, micalg_name,
};
use entrepot_crypto::random_text;
use entrepot_nouns::Env;
use zeroize::Zeroizing;

use super::error::As2BenchError;
use crate::limits::{AS2_BOUNDARY_CHARACTERS, AS2_MESSAGE_BYTES, AS2_PIECE_BYTES};

/// What messages are like.
pub struct MessageRecipe {
    /// Who sends: the field `AS2-From`.
    pub from: As2Name,
    /// Who receives: the field `AS2-To`.
    pub to: As2Name,
    /// Signs; none: messages are not signed.
    pub own: Option<OwnKey>,
    /// Whom messages are encrypted for, and how; none: they are not.
    pub envelope: Option<Envelope>,
    /// The digest of signature and receipt.
    pub digest: DigestAlgorithm,
    /// How that is called.
    pub style: MicalgStyle,
    /// Whether and when the payload is compressed.
    pub compression: Compression,
    /// The payload: random bytes.
    pub payload: Bytes,
    /// Its media type.
    pub content_type: String,
    /// Its name; none: receivers call the file by its Message-ID.
    pub file_name: Option<String>,
    /// The receipt that is asked for.
    pub receipt: ReceiptWish,
    /// How often a message is built.
    pub making: Making,
}

/// Which receipt is asked for, as the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiptWish {
    /// A signed one.
    Signed,
    /// One without signature.
    Unsigned,
    /// None: a status of 2xx is all that is known.
    None,
}

/// How often a message is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Making {
    /// Once for each iteration, and sent under one id after another: what is measured is the
    /// server.
    Once,
    /// Each one: signature, content key and encryption of its own. What is measured is both sides.
    Each,
}

/// A message that can be sent under any id.
pub(super) struct BuiltMessage {
    /// Its fields, but for the id and those of HTTP.
    pub(super) fields: Vec<Field>,
    pub(super) body: Bytes,
    pub(super) mic: SentMic,
}

impl MessageRecipe {
    /// A payload of random bytes.
    ///
    /// # Errors
    /// It is larger than what is held in memory.
    pub fn random_payload(bytes: u64, env: &Env) -> Result<Bytes, As2BenchError> {
        let bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes <= AS2_MESSAGE_BYTES);
        let mut payload = vec![0; bytes.ok_or(As2BenchError::TooLarge)?];
        env.fill_random(&mut payload);
        Ok(payload.into())
    }

    /// Builds one message, whose body is held in memory.
    pub(super) fn build(&self, env: &Env) -> Result<BuiltMessage, As2BenchError> {
        let signing = self.own.as_ref().map(|own| Signing {
            signer: Signer {
                certificate: Arc::clone(&own.certificate),
                key: Arc::clone(&own.key),
                digest: self.digest,
                padding: RsaPadding::Pkcs1,
                time: env.now().seconds(),
            },
            style: self.style,
        });
        let plan = SendPlan {
            content_type: self.content_type.clone(),
            file_name: self.file_name.clone(),
            payload_bytes: self.payload.len() as u64,
            compression: self.compression,
            signing,
            envelope: self.envelope.clone(),
            mic_algorithm: self.digest,
        };
        let random = random(env);
        let compressed = match plan.measure(&random)? {
            Some(mut measure) => {
                measure.push(&self.payload)?;
                Some(measure.finish()?)
            }
            None => None,
        };
        let mut outgoing = plan.start(&random, compressed)?;
        let mut fields = self.fields();
        fields.push(field("Content-Type", outgoing.content_type().to_owned()));
        let disposition = outgoing.content_disposition();
        fields.extend(disposition.map(|it| field("Content-Disposition", it.to_owned())));
        let length = usize::try_from(outgoing.content_length()).or(Err(As2BenchError::TooLarge))?;
        let mut body = Vec::with_capacity(length);
        body.extend(outgoing.head()?);
        for piece in self.payload.chunks(AS2_PIECE_BYTES) {
            body.extend(outgoing.push(piece)?);
        }
        let finish = outgoing.finish()?;
        body.extend(finish.last);
        Ok(BuiltMessage { fields, body: body.into(), mic: finish.sent })
    }

    /// The header without what follows from the body.
    pub(super) fn headers(&self) -> Headers {
        Headers::new(self.fields())
    }

    fn fields(&self) -> Vec<Field> {
        let mut fields = vec![
            field("AS2-Version", "1.2".to_owned()),
            field("AS2-From", self.from.field()),
            field("AS2-To", self.to.field()),
            field("MIME-Version", "1.0".to_owned()),
            field("Content-Transfer-Encoding", "binary".to_owned()),
            field("Subject", "entrepot bench as2".to_owned()),
            field("User-Agent", "entrepot-bench".to_owned()),
        ];
        if self.receipt != ReceiptWish::None {
            let to = "as2@entrepot.invalid".to_owned();
            fields.push(field("Disposition-Notification-To", to));
        }
        if self.receipt == ReceiptWish::Signed {
            let micalg = micalg_name(self.digest, self.style);
            let options = format!(
                "signed-receipt-protocol=optional, pkcs7-signature; \
                 signed-receipt-micalg=optional, {micalg}"
            );
            fields.push(field("Disposition-Notification-Options", options));
        }
        fields
    }
}

fn field(name: &str, value: String) -> Field {
    Field { name: name.to_owned(), value }
}

fn random(env: &Env) -> SendRandom {
    let mut key = Zeroizing::new([0; 32]);
    env.fill_random(key.as_mut_slice());
    let mut iv = [0; 16];
    env.fill_random(&mut iv);
    let boundary = format!("bench-{}", random_text(env, AS2_BOUNDARY_CHARACTERS));
    SendRandom { boundary, secrets: ContentSecrets { key, iv } }
}
