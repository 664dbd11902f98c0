//! Messages of others: encrypted, compressed and signed, layer by layer.

use std::io::{self, BufRead, BufReader, Read, Write};

use entrepot_nouns::Timestamp;
use flate2::bufread::{DeflateDecoder, ZlibDecoder};
use pgp::composed::{DecryptionOptions, Message, TheRing};
use pgp::types::{Seipdv1ReadMode, VerifyingKey};

use super::keys::Component;
use super::{PublicKey, SecretKey, not_signed, seconds};
use crate::error::TransformError;
use crate::flow::{Bounds, Flow, copy, too_silent};
use crate::limits::{
    BLOCK_BYTES, OPENPGP_COMPRESSED_LAYERS, OPENPGP_LAYERS, OPENPGP_SIGNATURES,
    OPENPGP_SILENT_BYTES,
};

/// What is wanted of a message.
pub struct Opened<'a> {
    /// Who may have signed it; empty: nobody is asked for.
    pub signed_by: &'a [&'a PublicKey],
    /// The time at which keys must be valid.
    pub at: Timestamp,
    /// How much may come of it.
    pub bounds: Bounds,
}

/// Whether a message must be encrypted.
enum Kind<'a> {
    Encrypted(&'a [&'a SecretKey]),
    Signed,
}

impl Kind<'_> {
    /// What is said of everything that is no such message.
    fn fault(&self) -> fn() -> TransformError {
        match self {
            Kind::Encrypted(_) => || TransformError::NotDecrypted,
            Kind::Signed => || TransformError::bad("it is no signed OpenPGP message, or damaged"),
        }
    }

    /// What is said of a compressed layer without content. Of an encrypted message nothing else
    /// than of all others: who changes messages of others would learn what is in them.
    fn silence(&self) -> fn() -> TransformError {
        match self {
            Kind::Encrypted(_) => self.fault(),
            Kind::Signed => too_silent,
        }
    }
}

/// Decrypts a message by whichever of `keys` opens it. With `signed_by`, a good signature of one of
/// these is needed, and its fingerprint is the answer.
pub fn decrypt(
    wanted: &Opened<'_>,
    keys: &[&SecretKey],
    reader: impl Read + Send,
    writer: impl Write,
) -> Result<Option<String>, TransformError> {
    open(wanted, &Kind::Encrypted(keys), reader, writer)
}

/// Takes a file out of the message that has it and its signatures. Answers the fingerprint of the
/// key of `signed_by` that made a good one.
pub fn verify(
    wanted: &Opened<'_>,
    reader: impl Read + Send,
    writer: impl Write,
) -> Result<String, TransformError> {
    let signer = open(wanted, &Kind::Signed, reader, writer)?;
    signer.ok_or_else(not_signed)
}

fn open(
    wanted: &Opened<'_>,
    kind: &Kind<'_>,
    reader: impl Read + Send,
    writer: impl Write,
) -> Result<Option<String>, TransformError> {
    let flow = Flow::default();
    let bad = kind.fault();
    let input = flow.input(reader).limited_to(OPENPGP_SILENT_BYTES, bad);
    let input = BufReader::with_capacity(BLOCK_BYTES, input);
    let mut output = flow.output(writer, wanted.bounds);
    let read = || {
        let (message, _) = Message::from_reader(input).map_err(|_| bad())?;
        let mut message = innermost(&flow, message, kind)?.ok_or_else(bad)?;
        let copied = copy(&mut message, &mut output).and_then(|_| output.flush());
        copied.map_err(|_| bad())?;
        Ok::<_, TransformError>(message)
    };
    // Whatever a library says, a fault of the disk or a bound that was passed comes first.
    let message = flow.ended(read())?;
    let signer = signer(wanted, &message);
    let asked = !wanted.signed_by.is_empty() || matches!(kind, Kind::Signed);
    if asked && signer.is_none() {
        return Err(not_signed());
    }
    Ok(signer)
}

/// Opens layer after layer, down to the content and its signatures; `None` if it is no message of
/// this kind.
fn innermost<'a>(
    flow: &Flow,
    mut message: Message<'a>,
    kind: &Kind<'_>,
) -> Result<Option<Message<'a>>, TransformError> {
    let (mut encrypted, mut compressed) = (0, 0);
    for _ in 0..OPENPGP_LAYERS {
        message = match message {
            Message::Encrypted { .. } => {
                let Kind::Encrypted(keys) = kind else { return Ok(None) };
                encrypted += 1;
                if encrypted > 1 {
                    return Ok(None);
                }
                let Ok(opened) = decrypted(message, keys) else { return Ok(None) };
                opened
            }
            Message::Compressed { .. } => {
                compressed += 1;
                if compressed > OPENPGP_COMPRESSED_LAYERS {
                    let text =
                        format!("it is compressed more than {OPENPGP_COMPRESSED_LAYERS} times");
                    return Err(TransformError::OverBound(text));
                }
                let Ok(opened) = decompressed(flow, message, kind.silence()) else {
                    return Ok(None);
                };
                opened
            }
            Message::Signed { ref reader, .. } => {
                if reader.num_signatures() > OPENPGP_SIGNATURES {
                    let text = format!("it has more than {OPENPGP_SIGNATURES} signatures");
                    return Err(TransformError::OverBound(text));
                }
                // Signatures are over the content itself, in all messages that are seen.
                let is_content = reader.get_ref().is_literal();
                return Ok((is_content && is_open(kind, encrypted)).then_some(message));
            }
            Message::Literal { .. } => return Ok(is_open(kind, encrypted).then_some(message)),
        };
    }
    Ok(None)
}

/// What is not encrypted at all was not made by somebody who followed the agreement.
fn is_open(kind: &Kind<'_>, encrypted: u32) -> bool {
    matches!(kind, Kind::Signed) || encrypted > 0
}

fn decrypted<'a>(message: Message<'a>, keys: &[&SecretKey]) -> pgp::errors::Result<Message<'a>> {
    // The packets of old, which anybody can change, stay refused; those of newer GnuPG are read. No
    // passphrases: deriving a key of one may ask for gigabytes. Streamed: what is written is staged
    // until the checksum at the end was right.
    let options = DecryptionOptions::new()
        .enable_gnupg_aead()
        .set_seipdv1_read_mode(Seipdv1ReadMode::Streaming);
    let ring = TheRing {
        secret_keys: keys.iter().map(|key| key.secret()).collect(),
        decrypt_options: options,
        ..TheRing::default()
    };
    message.decrypt_the_ring(ring, true).map(|(message, _)| message)
}

/// The message in a compressed one. rPGP would decompress too, but keep what it finds without a
/// bound: here what comes out of each layer is counted.
fn decompressed<'a>(
    flow: &Flow,
    mut message: Message<'a>,
    silence: fn() -> TransformError,
) -> pgp::errors::Result<Message<'a>> {
    let mut algorithm = [0];
    message.read_exact(&mut algorithm)?;
    let decoder = match algorithm {
        [0] => Decoder::Plain(message),
        [1] => Decoder::Deflate(DeflateDecoder::new(message)),
        [2] => Decoder::Zlib(ZlibDecoder::new(message)),
        _ => return Err(io::Error::other("a compression that is not supported").into()),
    };
    let layer = Layer { decoder, flow: flow.clone() };
    let counted = flow.layer(layer).limited_to(OPENPGP_SILENT_BYTES, silence);
    Message::from_bytes(BufReader::with_capacity(BLOCK_BYTES, counted))
}

/// What is in a compressed packet. Its end is reached only after that of the packets around it:
/// there stands the checksum of the encryption.
struct Layer<'a> {
    decoder: Decoder<'a>,
    flow: Flow,
}

enum Decoder<'a> {
    Plain(Message<'a>),
    Deflate(DeflateDecoder<Message<'a>>),
    Zlib(ZlibDecoder<Message<'a>>),
}

impl Read for Layer<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (read, around) = match &mut self.decoder {
            Decoder::Plain(message) => return message.read(buffer),
            Decoder::Deflate(decoder) => (decoder.read(buffer)?, decoder.get_mut()),
            Decoder::Zlib(decoder) => (decoder.read(buffer)?, decoder.get_mut()),
        };
        if read == 0 && !buffer.is_empty() {
            // Sequoia hides the length of a file by bytes behind the compressed data. Nobody keeps
            // them.
            loop {
                let length = around.fill_buf()?.len();
                if length == 0 {
                    break;
                }
                around.consume(length);
                self.flow.progressed();
            }
        }
        Ok(read)
    }
}

/// The key of `signed_by` that made a good signature on a message that was read to its end.
fn signer(wanted: &Opened<'_>, message: &Message<'_>) -> Option<String> {
    let Message::Signed { reader, .. } = message else { return None };
    let at = seconds(wanted.at);
    (0..reader.num_signatures()).find_map(|index| {
        let signature = reader.signature(index)?;
        wanted.signed_by.iter().find_map(|key| {
            let component: &dyn VerifyingKey = match key.may_have_made(signature, at)? {
                Component::Primary(key) => key,
                Component::Sub(key) => key,
            };
            message.verify_nested_explicit(index, component).ok()?;
            Some(key.fingerprint())
        })
    })
}
