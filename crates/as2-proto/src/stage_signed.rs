//! The stage of `multipart/signed` (RFC 1847 §2.1): hands the first part on, and checks the
//! signature in the second one over the bytes of the first.

use crate::limits;
use crate::mic::{Digests, Finished, micalg};
use crate::mime::{Headers, Parameterized, TransferEncoding, base64_decoded};
use crate::multipart::{PartEvent, Scanner, Section};
use crate::options::ReceiveError;
use crate::signed_data::{self, SignatureError};
use crate::stage::{Around, Context, Layer, Stage, Step, first};

pub(crate) struct SignedStage {
    scanner: Scanner,
    buffer: Vec<u8>,
    around: Around,
    /// How many parts have begun.
    parts: usize,
    ended: bool,
    digests: Option<Digests>,
    finished: Finished,
    next: Box<Stage>,
    signature: Vec<u8>,
}

impl SignedStage {
    pub(crate) fn new(
        kind: &Parameterized,
        around: Around,
        context: &Context,
    ) -> Result<Self, ReceiveError> {
        let boundary = kind.parameter("boundary").ok_or(ReceiveError::Malformed)?;
        let scanner = Scanner::new(boundary).or(Err(ReceiveError::Malformed))?;
        if let Some(protocol) = kind.parameter("protocol") {
            let known = ["application/pkcs7-signature", "application/x-pkcs7-signature"];
            if !known.contains(&protocol.trim().to_ascii_lowercase().as_str()) {
                return Err(ReceiveError::UnsupportedFormat);
            }
        }
        let named = kind.parameter("micalg").unwrap_or("");
        let mut algorithms: Vec<_> = named.split(',').filter_map(micalg).collect();
        // The parameter may be wrong; what the signature says counts.
        algorithms.extend(&context.options.other_digests);
        let inside = Around { signature: true, ..around };
        Ok(SignedStage {
            scanner,
            // Stands for the line end before a boundary that comes first.
            buffer: b"\r\n".to_vec(),
            around,
            parts: 0,
            ended: false,
            digests: Some(Digests::new(&algorithms)),
            finished: Finished::default(),
            next: Box::new((context.entity)(inside)),
            signature: Vec::new(),
        })
    }

    fn scan(&mut self, context: &mut Context) -> Result<(), ReceiveError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut start = 0;
        while let Some(rest @ [_, ..]) = buffer.get(start..) {
            let event = self.scanner.event(rest).or(Err(ReceiveError::Malformed))?;
            let Some(step) = event else { break };
            start += step.taken;
            match step.event {
                PartEvent::Bytes(count) => {
                    self.bytes(rest.get(..count).unwrap_or_default(), context)?;
                }
                PartEvent::PartBegins => self.begins(context)?,
                PartEvent::LastPartEnds => {
                    self.ended = true;
                    if self.parts != 2 {
                        return Err(ReceiveError::Malformed);
                    }
                }
            }
        }
        buffer.drain(..start.min(buffer.len()));
        self.buffer = buffer;
        Ok(())
    }

    fn begins(&mut self, context: &mut Context) -> Result<(), ReceiveError> {
        self.parts += 1;
        match self.parts {
            1 => Ok(()),
            2 => {
                if let Some(digests) = self.digests.take() {
                    self.finished = digests.finish();
                }
                self.next.end(context)
            }
            // A third part is content that nothing covers.
            _ => Err(ReceiveError::Malformed),
        }
    }

    fn bytes(&mut self, bytes: &[u8], context: &mut Context) -> Result<(), ReceiveError> {
        match (self.scanner.section(), self.parts) {
            (Section::Part, 1) => {
                self.next.push(bytes, context)?;
                if let Some(digests) = &mut self.digests {
                    if self.next.is_binary() {
                        digests.ignore_lines();
                    }
                    digests.update(bytes);
                }
                Ok(())
            }
            (Section::Part, _) => {
                self.signature.extend_from_slice(bytes);
                let most = limits::SIGNATURE_BYTES;
                if self.signature.len() > most { Err(ReceiveError::Malformed) } else { Ok(()) }
            }
            // Behind the last part whoever changes encrypted bytes could put a block to be guessed
            // at, and learn from the answer whether its padding was right.
            (Section::Epilogue, _) if self.around.encryption => {
                let blank = bytes.iter().all(u8::is_ascii_whitespace);
                if blank { Ok(()) } else { Err(ReceiveError::Malformed) }
            }
            (Section::Preamble | Section::Epilogue, _) => Ok(()),
        }
    }
}

impl Layer for SignedStage {
    fn step(&mut self, bytes: &[u8], context: &mut Context) -> Result<Step, ReceiveError> {
        let bytes = first(bytes, limits::STEP);
        self.buffer.extend_from_slice(bytes);
        self.scan(context)?;
        Ok(Step::took(bytes.len()))
    }

    fn finish(&mut self, context: &mut Context) -> Result<bool, ReceiveError> {
        let rest = std::mem::take(&mut self.buffer);
        if !self.ended {
            return Err(ReceiveError::Malformed);
        }
        if !rest.is_empty() {
            self.bytes(&rest, context)?;
        }
        let part = signature_of(&self.signature)?;
        let trusted = &context.options.trusted;
        let verified = signed_data::verify(&part, &self.finished, trusted);
        context.facts.signature = Some(verified.map_err(|error| match error {
            SignatureError::Stranger => ReceiveError::Authentication,
            SignatureError::Content => ReceiveError::Integrity,
            SignatureError::Malformed => ReceiveError::Authentication,
            SignatureError::Digest(digest) => ReceiveError::Digest(digest),
        })?);
        Ok(true)
    }

    fn next(&mut self) -> Option<&mut Stage> {
        Some(&mut self.next)
    }
}

/// The CMS in the second part.
fn signature_of(part: &[u8]) -> Result<Vec<u8>, ReceiveError> {
    let end = |mark: &[u8]| memchr::memmem::find(part, mark).map(|at| at + mark.len());
    let ends = [end(b"\r\n\r\n"), end(b"\n\n")];
    let body_at = ends.into_iter().flatten().min().ok_or(ReceiveError::Malformed)?;
    let (head, body) = part.split_at_checked(body_at).ok_or(ReceiveError::Malformed)?;
    let headers = Headers::parse(head).or(Err(ReceiveError::Malformed))?;
    let kind = headers.content_type().or(Err(ReceiveError::Malformed))?;
    let known = ["application/pkcs7-signature", "application/x-pkcs7-signature"];
    if !known.contains(&kind.value.as_str()) {
        return Err(ReceiveError::UnsupportedFormat);
    }
    let encoding = headers.transfer_encoding().or(Err(ReceiveError::Malformed))?;
    let raw = body.first() == Some(&entrepot_crypto::der::SEQUENCE);
    match encoding {
        _ if raw => Ok(body.to_vec()),
        TransferEncoding::Binary => Ok(body.to_vec()),
        _ => base64_decoded(body).or(Err(ReceiveError::Malformed)),
    }
}
