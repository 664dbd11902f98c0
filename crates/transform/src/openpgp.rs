//! OpenPGP (RFC 9580, and RFC 4880 as GnuPG speaks it), by rPGP.
//!
//! What rPGP leaves to its user is decided here: which key of several is used and for what, whether
//! it is valid at a time, which signature counts, and how much a message may ask for.

mod keys;
mod make;
mod read;

use std::io::{BufReader, Read, Seek, SeekFrom, Write};

use entrepot_nouns::{Env, Timestamp};
use pgp::composed::{
    ArmorOptions, Deserializable, DetachedSignature, Encryption, MessageBuilder, SubpacketConfig,
};
use pgp::crypto::aead::{AeadAlgorithm, ChunkSize};
use pgp::crypto::sym::SymmetricKeyAlgorithm;
use pgp::errors::Error;
use pgp::packet::{Subpacket, SubpacketData};
use pgp::ser::Serialize;
use pgp::types::{KeyVersion, Password, SigningKey};
use rand::{CryptoRng, RngCore};

use crate::error::TransformError;
use crate::flow::{Bounds, Flow, Input};
use crate::limits::{BLOCK_BYTES, OPENPGP_SIGNATURE_BYTES, OPENPGP_SIGNATURES};

use keys::seconds;
pub use keys::{PublicKey, SecretKey, Usage};
pub use make::{MadeKey, make};
pub use read::{Opened, decrypt, verify};

/// Whether the result is text (`-----BEGIN PGP MESSAGE-----`) or bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Armor {
    /// Text, a third longer.
    Text,
    /// Bytes, as most programs expect them.
    Binary,
}

/// What to make of a file.
pub struct Sealing<'a> {
    /// Who can read it.
    pub to: &'a [&'a PublicKey],
    /// Who signs it.
    pub signers: &'a [&'a SecretKey],
    /// The form of the result.
    pub armor: Armor,
    /// The time that signatures say, and at which keys must be valid.
    pub at: Timestamp,
}

/// The randomness of an [`Env`] for rPGP.
pub(crate) struct Entropy<'a>(pub(crate) &'a Env);

impl RngCore for Entropy<'_> {
    fn next_u32(&mut self) -> u32 {
        let mut bytes = [0; 4];
        self.fill_bytes(&mut bytes);
        u32::from_le_bytes(bytes)
    }

    fn next_u64(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.fill_bytes(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        self.0.fill_random(bytes);
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), rand::Error> {
        self.fill_bytes(bytes);
        Ok(())
    }
}

impl CryptoRng for Entropy<'_> {}

/// Seconds since 1970, as OpenPGP counts until 2106.
fn bad_key(error: Error) -> TransformError {
    TransformError::BadKey(format!("the keys cannot be used: {error}"))
}

type Builder<'a, R, E> = MessageBuilder<'a, Input<R>, E>;

/// Encrypts a file to all keys of `to`, signed by all of `signers` inside. Without compression, for
/// AES-256; by the newer form (SEIPDv2) if every key announces it.
pub fn encrypt(
    sealing: &Sealing<'_>,
    env: &Env,
    reader: impl Read,
    writer: impl Write,
) -> Result<(), TransformError> {
    if sealing.to.is_empty() {
        return Err(TransformError::BadKey("name a key to encrypt to".to_owned()));
    }
    let at = seconds(sealing.at);
    let keys = sealing.to.iter().map(|key| key.for_encryption(at));
    let keys = keys.collect::<Result<Vec<_>, _>>()?;
    let flow = Flow::default();
    let builder = Builder::from_reader("", flow.input(reader));
    let cipher = SymmetricKeyAlgorithm::AES256;
    if keys.iter().all(|key| key.takes_seipdv2) {
        let (aead, chunk) = (AeadAlgorithm::Ocb, ChunkSize::default());
        let mut builder = builder.seipd_v2(Entropy(env), cipher, aead, chunk);
        for key in &keys {
            use keys::Component::{Primary, Sub};
            let added = match key.component {
                Primary(key) => builder.encrypt_to_key(Entropy(env), key).map(drop),
                Sub(key) => builder.encrypt_to_key(Entropy(env), key).map(drop),
            };
            added.map_err(bad_key)?;
        }
        return write_message(&flow, sealing, builder, env, writer);
    }
    let mut builder = builder.seipd_v1(Entropy(env), cipher);
    for key in &keys {
        use keys::Component::{Primary, Sub};
        let added = match key.component {
            Primary(key) => builder.encrypt_to_key(Entropy(env), key).map(drop),
            Sub(key) => builder.encrypt_to_key(Entropy(env), key).map(drop),
        };
        added.map_err(bad_key)?;
    }
    write_message(&flow, sealing, builder, env, writer)
}

/// Puts a file and its signatures into one message that everybody can read.
pub fn sign(
    sealing: &Sealing<'_>,
    env: &Env,
    reader: impl Read,
    writer: impl Write,
) -> Result<(), TransformError> {
    if sealing.signers.is_empty() {
        return Err(TransformError::BadKey("name a key to sign with".to_owned()));
    }
    let flow = Flow::default();
    let builder = Builder::from_reader("", flow.input(reader));
    write_message(&flow, sealing, builder, env, writer)
}

fn write_message<'a, R: Read, E: Encryption>(
    flow: &Flow,
    sealing: &'a Sealing<'_>,
    mut builder: Builder<'a, R, E>,
    env: &Env,
    writer: impl Write,
) -> Result<(), TransformError> {
    let at = seconds(sealing.at);
    for signer in sealing.signers {
        let key = signer.for_signing(at)?;
        let subpackets = subpackets(key, at).map_err(bad_key)?;
        builder.sign_with_subpackets(key, Password::empty(), key.hash_alg(), subpackets);
    }
    let mut output = flow.output(writer, Bounds::none());
    let written = match sealing.armor {
        Armor::Text => {
            let options = ArmorOptions::default();
            builder.to_armored_writer(Entropy(env), options, &mut output)
        }
        Armor::Binary => builder.to_writer(Entropy(env), &mut output),
    };
    let written = written.and_then(|()| Ok(output.flush()?));
    flow.ended(written.map_err(bad_key))
}

/// What a signature says besides: who made it, and when.
fn subpackets(key: &dyn SigningKey, at: u32) -> Result<SubpacketConfig, Error> {
    let created = pgp::types::Timestamp::from_secs(at);
    let hashed = vec![
        Subpacket::regular(SubpacketData::IssuerFingerprint(key.fingerprint()))?,
        Subpacket::regular(SubpacketData::SignatureCreationTime(created))?,
    ];
    let mut unhashed = Vec::new();
    if key.version() <= KeyVersion::V4 {
        unhashed.push(Subpacket::regular(SubpacketData::IssuerKeyId(key.legacy_key_id()))?);
    }
    Ok(SubpacketConfig::UserDefined { hashed, unhashed })
}

/// Writes the signature of a file as a file of its own, once for each reader of `sealing.signers`:
/// one key signs.
pub fn sign_detached(
    sealing: &Sealing<'_>,
    env: &Env,
    reader: impl Read,
    writer: impl Write,
) -> Result<(), TransformError> {
    let [signer] = sealing.signers else {
        let text = "a signature of its own is made by one key";
        return Err(TransformError::BadKey(text.to_owned()));
    };
    let at = seconds(sealing.at);
    let key = signer.for_signing(at)?;
    let flow = Flow::default();
    let input = BufReader::with_capacity(BLOCK_BYTES, flow.input(reader));
    let mut output = flow.output(writer, Bounds::none());
    let write = || {
        let signature = DetachedSignature::sign_binary_data_with_subpackets(
            Entropy(env),
            &Box::new(key),
            &Password::empty(),
            key.hash_alg(),
            input,
            subpackets(key, at)?,
        )?;
        match sealing.armor {
            Armor::Text => signature.to_armored_writer(&mut output, ArmorOptions::default())?,
            Armor::Binary => signature.to_writer(&mut output)?,
        }
        Ok(output.flush()?)
    };
    let written: Result<(), Error> = write();
    flow.ended(written.map_err(bad_key))
}

/// Checks a file against a signature that is a file of its own. Answers the fingerprint of the key
/// of `signed_by` that made it.
pub fn verify_detached(
    signature: &[u8],
    signed_by: &[&PublicKey],
    at: Timestamp,
    mut reader: impl Read + Seek,
) -> Result<String, TransformError> {
    let none = || TransformError::NotSigned("it is no OpenPGP signature".to_owned());
    if signature.len() > OPENPGP_SIGNATURE_BYTES {
        return Err(none());
    }
    let (signatures, _) = DetachedSignature::from_reader_many(signature).map_err(|_| none())?;
    let signatures: Vec<_> =
        signatures.take(OPENPGP_SIGNATURES + 1).collect::<Result<_, _>>().map_err(|_| none())?;
    if signatures.is_empty() || signatures.len() > OPENPGP_SIGNATURES {
        return Err(none());
    }
    let flow = Flow::default();
    for DetachedSignature { signature } in &signatures {
        for key in signed_by {
            let Some(component) = key.may_have_made(signature, seconds(at)) else { continue };
            reader.seek(SeekFrom::Start(0)).map_err(TransformError::Read)?;
            let content = BufReader::with_capacity(BLOCK_BYTES, flow.input(&mut reader));
            let good = match component {
                keys::Component::Primary(key) => signature.verify(key, content),
                keys::Component::Sub(key) => signature.verify(key, content),
            };
            // A source that broke says nothing of the signature.
            let verified = flow.ended(good.map_err(|_| not_signed()));
            match verified {
                Ok(()) => return Ok(key.fingerprint()),
                Err(error) if !error.is_lasting() => return Err(error),
                Err(_) => {}
            }
        }
    }
    Err(not_signed())
}

/// Nobody who may have signed did.
fn not_signed() -> TransformError {
    let text = "none of the keys that may have signed it did, or it was changed since";
    TransformError::NotSigned(text.to_owned())
}

#[cfg(test)]
mod tests;
