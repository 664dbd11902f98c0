//! A message that is sent: the payload is fed as it is read, the body comes out as it can leave.
//!
//! Every layer's size is known before the first byte: a signature of RSA has a fixed length, one of
//! ECDSA is filled up behind the last boundary, padding is computed. Only compressed content has to
//! be measured beforehand, by compressing it once and dropping the result.

use entrepot_crypto::cipher::{ContentSecrets, Encryptor};
use entrepot_crypto::der;
use entrepot_crypto::{ContentCipher, DigestAlgorithm};
use flate2::{Compress, Compression as Level, FlushCompress, Status};

use crate::envelope::{Envelope, tag_field};
use crate::limits;
use crate::mdn::{signature_part, signed_type};
use crate::mic::{Digests, LineEnds, Mic, MicalgStyle};
use crate::mime::quoted;
use crate::oid;
use crate::signed_data::Signer;

/// When the payload is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// It never is.
    #[default]
    None,
    /// Before it is signed.
    BeforeSigning,
    /// The signed message is, before it is encrypted.
    AfterSigning,
}

/// How a message is signed.
#[derive(Clone)]
pub struct Signing {
    /// The key that signs.
    pub signer: Signer,
    /// How the digest is called in `micalg`.
    pub style: MicalgStyle,
}

/// What a message is to be.
#[derive(Clone)]
pub struct SendPlan {
    /// The payload's media type.
    pub content_type: String,
    /// The payload's name.
    pub file_name: Option<String>,
    /// Bytes of the payload.
    pub payload_bytes: u64,
    /// Whether and when it is compressed.
    pub compression: Compression,
    /// Whether and how it is signed.
    pub signing: Option<Signing>,
    /// Whether and for whom it is encrypted.
    pub envelope: Option<Envelope>,
    /// The digest of the receipt where the message is not signed.
    pub mic_algorithm: DigestAlgorithm,
}

/// A message cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The key of the station cannot sign so, or that of the partner cannot be encrypted to.
    #[error("the certificate's key cannot do what is asked")]
    Key,
    /// The payload has another length than was said, or compresses otherwise than it did before.
    #[error("the file has changed while it was sent")]
    Changed,
    /// The media type has characters that a header cannot have.
    #[error("the media type or the file's name has control characters")]
    Header,
}

/// What is drawn for one message. Each is used once.
pub struct SendRandom {
    /// Separates the parts: letters and digits, at least 24 of them random.
    pub boundary: String,
    /// Key and IV of the content.
    pub secrets: ContentSecrets,
}

/// A message of which nothing was encoded yet.
pub struct Outgoing {
    layers: Vec<Layer>,
    content_type: String,
    content_disposition: Option<String>,
    bytes: u64,
    mic_algorithm: DigestAlgorithm,
}

/// The digests that the receipt for a message may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentMic {
    /// The one of RFC 4130.
    pub mic: Mic,
    /// Of what is compressed and then signed, the one that as2-lib answers with: over the entity
    /// before compression.
    pub uncompressed: Option<Mic>,
}

enum Layer {
    Payload { head: Vec<u8>, digests: Digests, left: u64 },
    Compressed { head: Vec<u8>, compress: Box<Compress>, left: u64 },
    Signed { head: Vec<u8>, digests: Option<Digests>, signing: Box<Signing>, close: Close },
    Encrypted { head: Vec<u8>, encryptor: Option<Encryptor>, cipher: ContentCipher },
}

/// What follows a signed part, but for the signature.
struct Close {
    boundary: String,
    bytes: usize,
}

/// A header and how much follows it.
struct Shape {
    content_type: String,
    disposition: Option<String>,
    bytes: u64,
}

impl Shape {
    /// The header as bytes, for where the entity is inside another.
    fn head(&self) -> Vec<u8> {
        let mut head = format!("Content-Type: {}\r\n", self.content_type);
        head.push_str("Content-Transfer-Encoding: binary\r\n");
        if let Some(disposition) = &self.disposition {
            head.push_str(&format!("Content-Disposition: {disposition}\r\n"));
        }
        head.push_str("\r\n");
        head.into_bytes()
    }
}

/// Puts a layer's own header before what it writes first, and counts it.
fn nested(shape: &mut Shape, layer: &mut Layer) {
    let own = shape.head();
    shape.bytes += own.len() as u64;
    let head = match layer {
        Layer::Payload { head, .. }
        | Layer::Compressed { head, .. }
        | Layer::Signed { head, .. }
        | Layer::Encrypted { head, .. } => head,
    };
    head.splice(..0, own);
}

impl SendPlan {
    /// How large the compressed content is, for [`SendPlan::start`]: a measure that is fed what
    /// will be sent. `None` where nothing is compressed.
    pub fn measure(&self, random: &SendRandom) -> Result<Option<Measure>, SendError> {
        if self.compression == Compression::None {
            return Ok(None);
        }
        let signing = self.signing.clone();
        let inner = SendPlan {
            compression: Compression::None,
            signing: signing.filter(|_| self.compression == Compression::AfterSigning),
            envelope: None,
            ..self.clone()
        };
        let mut outgoing = inner.start(random, None)?;
        let mut shape = Shape {
            content_type: outgoing.content_type.clone(),
            disposition: outgoing.content_disposition.clone(),
            bytes: outgoing.bytes,
        };
        if let Some(outermost) = outgoing.layers.last_mut() {
            nested(&mut shape, outermost);
        }
        let compress = Box::new(Compress::new(Level::new(LEVEL), true));
        outgoing.layers.push(Layer::Compressed { head: Vec::new(), compress, left: u64::MAX });
        let mut started = Vec::new();
        outgoing.begin(&mut started)?;
        Ok(Some(Measure { outgoing, bytes: started.len() as u64 }))
    }

    /// A message that is ready to be fed. `compressed_bytes` is what [`Measure`] counted.
    pub fn start(
        &self,
        random: &SendRandom,
        compressed_bytes: Option<u64>,
    ) -> Result<Outgoing, SendError> {
        let mut layers = vec![self.payload()?];
        let mut shape = self.payload_shape();
        let add = |layers: &mut Vec<Layer>, shape: &mut Shape, wrapped: Wrapped| {
            if let Some(inner) = layers.last_mut() {
                nested(shape, inner);
            }
            layers.push(wrapped.layer);
            *shape = wrapped.shape;
        };
        if self.compression == Compression::BeforeSigning {
            let wrapped = compressed(compressed_bytes.ok_or(SendError::Changed)?);
            add(&mut layers, &mut shape, wrapped);
        }
        if let Some(signing) = &self.signing {
            let inner = shape.bytes + shape.head().len() as u64;
            let layer = signed_layer(signing, &random.boundary);
            let close = match &layer {
                Layer::Signed { close, head, .. } => (close.bytes + head.len()) as u64,
                _ => 0,
            };
            let content_type = signed_type(signing.signer.digest, signing.style, &random.boundary);
            let outer = Shape { content_type, disposition: None, bytes: inner + close };
            add(&mut layers, &mut shape, Wrapped { layer, shape: outer });
        }
        if self.compression == Compression::AfterSigning {
            let wrapped = compressed(compressed_bytes.ok_or(SendError::Changed)?);
            add(&mut layers, &mut shape, wrapped);
        }
        if let Some(envelope) = &self.envelope {
            let inner = shape.bytes + shape.head().len() as u64;
            add(&mut layers, &mut shape, encrypted(envelope, &random.secrets, inner)?);
        }
        Ok(Outgoing {
            layers,
            content_type: shape.content_type,
            content_disposition: shape.disposition,
            bytes: shape.bytes,
            mic_algorithm: self.mic_algorithm,
        })
    }

    fn payload(&self) -> Result<Layer, SendError> {
        let clean = |text: &str| !text.chars().any(char::is_control);
        if !clean(&self.content_type) || !self.file_name.as_deref().is_none_or(clean) {
            return Err(SendError::Header);
        }
        // What is signed as it is has its digest in the layer of the signature.
        let mut digests = match &self.signing {
            None => Digests::new(&[self.mic_algorithm]),
            Some(signing) if self.compression == Compression::BeforeSigning => {
                Digests::new(&[signing.signer.digest])
            }
            Some(_) => Digests::new(&[]),
        };
        digests.ignore_lines();
        Ok(Layer::Payload { head: Vec::new(), digests, left: self.payload_bytes })
    }

    fn payload_shape(&self) -> Shape {
        let name = self.file_name.as_deref();
        Shape {
            content_type: self.content_type.clone(),
            disposition: name.map(disposition),
            bytes: self.payload_bytes,
        }
    }
}

/// The field that names a file; a name beyond ASCII is written as RFC 2231 has it.
fn disposition(name: &str) -> String {
    if name.is_ascii() {
        return format!("attachment; filename={}", quoted(name));
    }
    let mut encoded = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => {
                encoded.push(char::from(byte));
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    format!("attachment; filename*=utf-8''{encoded}")
}

/// How hard is compressed: speed before size.
const LEVEL: u32 = 3;

struct Wrapped {
    layer: Layer,
    shape: Shape,
}

fn compressed(bytes: u64) -> Wrapped {
    let zlib = der::write(der::SEQUENCE, &der::write(der::OID, oid::ZLIB));
    let data = der::write(der::OID, oid::DATA);
    let version = [der::INTEGER, 1, 0];
    let string = der::header(der::OCTET_STRING, bytes);
    let mut head = string;
    let mut whole = head.len() as u64 + bytes;
    let mut around = |tag: u8, before: &[u8], head: &mut Vec<u8>| {
        whole += before.len() as u64;
        let own = der::header(tag, whole);
        whole += own.len() as u64;
        head.splice(..0, [&own, before].concat());
    };
    around(der::context(0), &[], &mut head);
    around(der::SEQUENCE, &data, &mut head);
    around(der::SEQUENCE, &[version.as_slice(), &zlib].concat(), &mut head);
    around(der::context(0), &[], &mut head);
    around(der::SEQUENCE, &der::write(der::OID, oid::COMPRESSED_DATA), &mut head);
    let shape = Shape {
        content_type: "application/pkcs7-mime; smime-type=compressed-data; name=smime.p7z".into(),
        disposition: Some("attachment; filename=smime.p7z".into()),
        bytes: whole,
    };
    let compress = Box::new(Compress::new(Level::new(LEVEL), true));
    Wrapped { layer: Layer::Compressed { head, compress, left: bytes }, shape }
}

fn signed_layer(signing: &Signing, boundary: &str) -> Layer {
    let bytes = signature_part(&vec![0; signing.signer.max_bytes()], boundary).len();
    let mut digests = Digests::new(&[signing.signer.digest]);
    digests.ignore_lines();
    Layer::Signed {
        head: format!("--{boundary}\r\n").into_bytes(),
        digests: Some(digests),
        signing: Box::new(signing.clone()),
        close: Close { boundary: boundary.to_owned(), bytes },
    }
}

fn encrypted(
    envelope: &Envelope,
    secrets: &ContentSecrets,
    plain: u64,
) -> Result<Wrapped, SendError> {
    let cipher = envelope.cipher;
    let content = cipher.encrypted_bytes(plain);
    let head = envelope.head(secrets, content).or(Err(SendError::Key))?;
    let tag = if cipher.is_gcm() { tag_field(&[0; 16]).len() as u64 } else { 0 };
    let kind = if cipher.is_gcm() { "authEnveloped-data" } else { "enveloped-data" };
    let shape = Shape {
        content_type: format!("application/pkcs7-mime; smime-type={kind}; name=smime.p7m"),
        disposition: Some("attachment; filename=smime.p7m".into()),
        bytes: head.len() as u64 + content + tag,
    };
    let encryptor = Encryptor::new(cipher, secrets).or(Err(SendError::Key))?;
    let layer = Layer::Encrypted { head, encryptor: Some(encryptor), cipher };
    Ok(Wrapped { layer, shape })
}

/// Counts what compressed content comes to.
pub struct Measure {
    outgoing: Outgoing,
    bytes: u64,
}

impl Measure {
    /// The next bytes of the payload.
    pub fn push(&mut self, payload: &[u8]) -> Result<(), SendError> {
        self.bytes += self.outgoing.push(payload)?.len() as u64;
        Ok(())
    }

    /// All of it came: the number for [`SendPlan::start`].
    pub fn finish(mut self) -> Result<u64, SendError> {
        let mut last = Vec::new();
        self.outgoing.finish_into(&mut last)?;
        Ok(self.bytes + last.len() as u64)
    }
}

impl Outgoing {
    /// The value of `Content-Type` of the message.
    pub fn content_type(&self) -> &str {
        &self.content_type
    }

    /// The value of `Content-Disposition` of the message.
    pub fn content_disposition(&self) -> Option<&str> {
        self.content_disposition.as_deref()
    }

    /// The exact length of the body.
    pub fn content_length(&self) -> u64 {
        self.bytes
    }

    /// What the body begins with. Call it once, before any payload.
    pub fn head(&mut self) -> Result<Vec<u8>, SendError> {
        let mut output = Vec::new();
        self.begin(&mut output)?;
        Ok(output)
    }

    fn begin(&mut self, output: &mut Vec<u8>) -> Result<(), SendError> {
        for at in (0..self.layers.len()).rev() {
            let Some(layer) = self.layers.get_mut(at) else { break };
            let head = layer.take_head();
            output.extend(self.through(at + 1, head)?);
        }
        Ok(())
    }

    /// The next bytes of the payload, and what leaves for them.
    pub fn push(&mut self, payload: &[u8]) -> Result<Vec<u8>, SendError> {
        let mut pieces = payload.chunks(limits::STEP);
        let first = pieces.next().unwrap_or_default();
        let mut output = self.through(0, first.to_vec())?;
        for piece in pieces {
            output.extend(self.through(0, piece.to_vec())?);
        }
        Ok(output)
    }

    /// Takes bytes through the layers from one on.
    fn through(&mut self, from: usize, bytes: Vec<u8>) -> Result<Vec<u8>, SendError> {
        let mut bytes = bytes;
        for layer in self.layers.iter_mut().skip(from) {
            bytes = layer.update(bytes)?;
        }
        Ok(bytes)
    }

    fn finish_into(&mut self, output: &mut Vec<u8>) -> Result<(), SendError> {
        for at in 0..self.layers.len() {
            let Some(layer) = self.layers.get_mut(at) else { break };
            let last = layer.finish()?;
            output.extend(self.through(at + 1, last)?);
        }
        Ok(())
    }

    /// All of the payload came: what the body ends with, and the digests to compare.
    pub fn finish(mut self) -> Result<Finish, SendError> {
        // Digests of unsigned content are over the entity with its header, where there is one.
        let mut output = Vec::new();
        self.finish_into(&mut output)?;
        let mut signed = None;
        let mut entity = None;
        let mut compressed_before = false;
        for layer in self.layers {
            match layer {
                Layer::Payload { digests, .. } => entity = Some(digests.finish()),
                Layer::Compressed { .. } if signed.is_none() => compressed_before = true,
                Layer::Signed { digests, signing, .. } => {
                    signed = digests.map(|digests| Signed {
                        digests: digests.finish(),
                        algorithm: signing.signer.digest,
                    });
                }
                Layer::Compressed { .. } | Layer::Encrypted { .. } => {}
            }
        }
        let entity = entity.ok_or(SendError::Changed)?;
        let raw = LineEnds::AsReceived;
        let sent = match &signed {
            Some(Signed { digests, algorithm }) => {
                let mic = digests.of(*algorithm, raw).cloned().ok_or(SendError::Changed)?;
                let plain = entity.of(*algorithm, raw).cloned();
                SentMic { mic, uncompressed: plain.filter(|_| compressed_before) }
            }
            None => {
                let mic = entity.of(self.mic_algorithm, raw).cloned();
                SentMic { mic: mic.ok_or(SendError::Changed)?, uncompressed: None }
            }
        };
        Ok(Finish { last: output, sent })
    }
}

struct Signed {
    digests: crate::mic::Finished,
    algorithm: DigestAlgorithm,
}

/// The end of a message.
#[derive(Debug)]
pub struct Finish {
    /// What the body ends with.
    pub last: Vec<u8>,
    /// What the receipt has to say.
    pub sent: SentMic,
}

impl SentMic {
    /// As text, to be read again by [`SentMic::from_texts`].
    pub fn texts(&self) -> Vec<String> {
        let all = std::iter::once(&self.mic).chain(&self.uncompressed);
        all.map(|mic| mic.text(MicalgStyle::default())).collect()
    }

    /// Of the texts that [`SentMic::texts`] gave.
    pub fn from_texts(texts: &[String]) -> Option<SentMic> {
        let mut all = texts.iter().map(|text| Mic::parse(text));
        let mic = all.next()??;
        Some(SentMic { mic, uncompressed: all.next().flatten() })
    }

    /// Whether a receipt's digest says that the message arrived as it was sent.
    pub fn is_matched_by(&self, received: &Mic) -> bool {
        *received == self.mic || self.uncompressed.as_ref() == Some(received)
    }
}

impl Layer {
    fn take_head(&mut self) -> Vec<u8> {
        match self {
            Layer::Payload { head, digests, .. } => {
                digests.update(head);
                std::mem::take(head)
            }
            Layer::Compressed { head, .. }
            | Layer::Signed { head, .. }
            | Layer::Encrypted { head, .. } => std::mem::take(head),
        }
    }

    fn update(&mut self, bytes: Vec<u8>) -> Result<Vec<u8>, SendError> {
        match self {
            Layer::Payload { digests, left, .. } => {
                *left = left.checked_sub(bytes.len() as u64).ok_or(SendError::Changed)?;
                digests.update(&bytes);
                Ok(bytes)
            }
            Layer::Compressed { compress, left, .. } => {
                let mut output = Vec::new();
                deflate(compress, &bytes, FlushCompress::None, &mut output)?;
                *left = left.checked_sub(output.len() as u64).ok_or(SendError::Changed)?;
                Ok(output)
            }
            Layer::Signed { digests, .. } => {
                if let Some(digests) = digests {
                    digests.update(&bytes);
                }
                Ok(bytes)
            }
            Layer::Encrypted { encryptor, .. } => {
                let mut output = Vec::with_capacity(bytes.len() + 16);
                let encryptor = encryptor.as_mut().ok_or(SendError::Key)?;
                encryptor.update(&bytes, &mut output).or(Err(SendError::Key))?;
                Ok(output)
            }
        }
    }

    fn finish(&mut self) -> Result<Vec<u8>, SendError> {
        match self {
            Layer::Payload { left, .. } => {
                if *left == 0 {
                    Ok(Vec::new())
                } else {
                    Err(SendError::Changed)
                }
            }
            Layer::Compressed { compress, left, .. } => {
                let mut output = Vec::new();
                deflate(compress, &[], FlushCompress::Finish, &mut output)?;
                // A measure counts; a message has to come to what was counted.
                let measured = *left < u64::MAX / 2;
                *left = left.checked_sub(output.len() as u64).ok_or(SendError::Changed)?;
                if measured && *left > 0 { Err(SendError::Changed) } else { Ok(output) }
            }
            Layer::Signed { digests, signing, close, .. } => {
                let signer = &signing.signer;
                let running = digests.as_ref().ok_or(SendError::Changed)?.snapshot();
                let digest = running.of(signer.digest, LineEnds::AsReceived);
                let digest = &digest.ok_or(SendError::Key)?.digest;
                let signature = signer.sign(digest).or(Err(SendError::Key))?;
                let mut part = signature_part(&signature, &close.boundary);
                if part.len() > close.bytes {
                    return Err(SendError::Key);
                }
                // A signature of ECDSA may be a few bytes shorter than it could be.
                while part.len() < close.bytes {
                    part.push('\n');
                }
                Ok(part.into_bytes())
            }
            Layer::Encrypted { encryptor, cipher, .. } => {
                let mut output = Vec::new();
                let encryptor = encryptor.take().ok_or(SendError::Key)?;
                let tag = encryptor.finish(&mut output).or(Err(SendError::Key))?;
                if let Some(tag) = tag.filter(|_| cipher.is_gcm()) {
                    output.extend(tag_field(&tag));
                }
                Ok(output)
            }
        }
    }
}

fn deflate(
    compress: &mut Compress,
    bytes: &[u8],
    flush: FlushCompress,
    output: &mut Vec<u8>,
) -> Result<(), SendError> {
    let mut rest = bytes;
    loop {
        let (consumed, made) = (compress.total_in(), output.len());
        output.reserve(16 * 1024);
        let status = compress.compress_vec(rest, output, flush).or(Err(SendError::Changed))?;
        let taken = usize::try_from(compress.total_in() - consumed).unwrap_or(rest.len());
        rest = rest.get(taken..).unwrap_or_default();
        let done = match flush {
            FlushCompress::Finish => status == Status::StreamEnd,
            _ => rest.is_empty() && output.len() == made,
        };
        if done || taken == 0 && output.len() == made {
            return Ok(());
        }
    }
}
