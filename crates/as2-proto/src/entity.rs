//! An entity whose header comes first, and which layer its type makes of it.

use crate::limits;
use crate::mime::{Base64Decoder, Headers};
use crate::options::ReceiveError;
use crate::payload::Payload;
use crate::stage::{Around, Context, Layer, Stage, Step, first};
use crate::stage_cms::CmsStage;
use crate::stage_signed::SignedStage;

/// The stage of an entity.
pub(crate) fn entity(around: Around) -> Stage {
    Stage::new(Box::new(Head { bytes: Vec::new(), around }))
}

/// The layer of a body with this header, of which `raw` are the bytes; of HTTP there are none.
pub(crate) fn body(
    headers: Headers,
    raw: &[u8],
    around: Around,
    context: &mut Context,
) -> Result<Box<dyn Layer>, ReceiveError> {
    let kind = headers.content_type().or(Err(ReceiveError::Malformed))?;
    let around = around.deeper()?;
    match kind.value.as_str() {
        "application/pkcs7-mime" | "application/x-pkcs7-mime" => Ok(Box::new(Sniff { around })),
        "multipart/signed" if !around.signature => {
            Ok(Box::new(SignedStage::new(&kind, around, context)?))
        }
        // Wrappers that are not known, or not here, are no payload.
        "multipart/signed" | "multipart/encrypted" => Err(ReceiveError::UnsupportedFormat),
        other
            if other.starts_with("application/pkcs7-")
                || other.starts_with("application/x-pkcs7-")
                || other.starts_with("application/pgp-") =>
        {
            Err(ReceiveError::UnsupportedFormat)
        }
        _ => Ok(Box::new(Payload::new(headers, raw, around, context)?)),
    }
}

/// The header of an entity as far as it came.
struct Head {
    bytes: Vec<u8>,
    around: Around,
}

impl Layer for Head {
    fn step(&mut self, bytes: &[u8], context: &mut Context) -> Result<Step, ReceiveError> {
        for (at, byte) in bytes.iter().enumerate() {
            self.bytes.push(*byte);
            if *byte == b'\n' && ends_with_empty_line(&self.bytes) {
                let headers = Headers::parse(&self.bytes).or(Err(ReceiveError::Malformed))?;
                let layer = body(headers, &self.bytes, self.around, context)?;
                return Ok(Step { taken: at + 1, becomes: Some(layer) });
            }
            if self.bytes.len() > limits::HEAD_BYTES {
                return Err(ReceiveError::Malformed);
            }
        }
        Ok(Step::took(bytes.len()))
    }

    fn finish(&mut self, _: &mut Context) -> Result<bool, ReceiveError> {
        Err(ReceiveError::Malformed)
    }
}

fn ends_with_empty_line(bytes: &[u8]) -> bool {
    matches!(bytes, b"\n" | b"\r\n") || bytes.ends_with(b"\n\n") || bytes.ends_with(b"\n\r\n")
}

/// CMS comes, as it is or as base64: the first byte tells.
struct Sniff {
    around: Around,
}

impl Layer for Sniff {
    fn step(&mut self, bytes: &[u8], _: &mut Context) -> Result<Step, ReceiveError> {
        let cms: Box<dyn Layer> = Box::new(CmsStage::new(self.around));
        // DER begins with a SEQUENCE, and the base64 of one with the letter M.
        let layer = if bytes.first() == Some(&entrepot_crypto::der::SEQUENCE) {
            cms
        } else {
            Box::new(Base64 { decoder: Base64Decoder::default(), next: Stage::new(cms) })
        };
        Ok(Step { taken: 0, becomes: Some(layer) })
    }

    fn finish(&mut self, _: &mut Context) -> Result<bool, ReceiveError> {
        Err(ReceiveError::Decryption)
    }
}

/// CMS as base64. What would be in it may be encrypted: no more is said than of that.
struct Base64 {
    decoder: Base64Decoder,
    next: Stage,
}

impl Layer for Base64 {
    fn step(&mut self, bytes: &[u8], context: &mut Context) -> Result<Step, ReceiveError> {
        let piece = first(bytes, limits::STEP);
        let mut decoded = Vec::with_capacity(piece.len());
        let updated = self.decoder.update(piece, &mut decoded);
        self.next.push(&decoded, context)?;
        updated.or(Err(ReceiveError::Decryption))?;
        Ok(Step::took(piece.len()))
    }

    fn finish(&mut self, context: &mut Context) -> Result<bool, ReceiveError> {
        let mut decoded = Vec::new();
        let last = std::mem::take(&mut self.decoder).finish(&mut decoded);
        last.or(Err(ReceiveError::Decryption))?;
        self.next.push(&decoded, context)?;
        self.next.end(context)?;
        Ok(true)
    }

    fn next(&mut self) -> Option<&mut Stage> {
        Some(&mut self.next)
    }
}
