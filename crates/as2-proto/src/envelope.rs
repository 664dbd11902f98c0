//! EnvelopedData (RFC 5652 §6) and AuthEnvelopedData (RFC 5083): opening one with an own key, and
//! what is written around content for a partner.

use std::sync::Arc;

use entrepot_crypto::cipher::{ContentSecrets, Decryptor, MAX_KEY_BYTES, TAG_BYTES};
use entrepot_crypto::der::{self, Reader, Value};
use entrepot_crypto::{Certificate, ContentCipher, DigestAlgorithm, KeyTransport};
use zeroize::Zeroizing;

use crate::agreement;
use crate::cms::{CmsHead, CmsKind};

use crate::limits;
use crate::oid;
use crate::own_key::{OwnKey, Sealed};
use crate::signed_data::{Identifier, digest_of, mask_digest};

/// Where the tag of GCM is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tag {
    /// There is none.
    None,
    /// In the field behind the content.
    Behind,
    /// The last bytes of the content, as BouncyCastle puts it into EnvelopedData.
    Within { bytes: usize },
}

/// An envelope whose content can be decrypted as it comes.
pub(crate) struct Opened {
    pub(crate) cipher: ContentCipher,
    pub(crate) decryptor: Decryptor,
    pub(crate) tag: Tag,
}

/// Opens an envelope with the first own key that it is for. A content key that is damaged is
/// replaced by `substitute`, random bytes, so that it shows only as damaged content.
pub(crate) fn open(
    head: &CmsHead,
    keys: &[OwnKey],
    substitute: &[u8; MAX_KEY_BYTES],
) -> Result<Opened, Sealed> {
    let mut beside = Reader::new(&head.beside);
    beside.tagged(der::OID)?;
    let algorithm = content_algorithm(beside.tagged(der::SEQUENCE)?)?;
    let tag = match (algorithm.cipher.is_gcm(), head.kind) {
        (false, CmsKind::Enveloped) => Tag::None,
        (true, CmsKind::AuthEnveloped) => Tag::Behind,
        (true, CmsKind::Enveloped) => Tag::Within { bytes: algorithm.tag_bytes },
        _ => return Err(Sealed),
    };
    let mut fields = Reader::new(&head.fields);
    fields.small_integer()?;
    fields.optional(der::context(0))?;
    let mut recipients = fields.tagged(der::SET)?.values();
    let substitute = substitute.get(..algorithm.cipher.key_bytes()).ok_or(Sealed)?;
    for _ in 0..limits::RECIPIENTS {
        if recipients.is_empty() {
            break;
        }
        let recipient = recipients.read()?;
        let key = match recipient.tag {
            der::SEQUENCE => transported(recipient, keys, substitute)?,
            KEY_AGREEMENT => agreement::agreed(recipient, keys, substitute)?,
            // Others may stand beside ours.
            _ => None,
        };
        let Some(key) = key else { continue };
        let decryptor = Decryptor::new(algorithm.cipher, &key, algorithm.iv).or(Err(Sealed))?;
        return Ok(Opened { cipher: algorithm.cipher, decryptor, tag });
    }
    Err(Sealed)
}

/// KeyAgreeRecipientInfo in RecipientInfo.
const KEY_AGREEMENT: u8 = der::context(1);

/// The content key in KeyTransRecipientInfo (RFC 5652 §6.2.1), if it is for one of ours.
fn transported(
    recipient: Value<'_>,
    keys: &[OwnKey],
    substitute: &[u8],
) -> Result<Option<Zeroizing<Vec<u8>>>, Sealed> {
    let mut fields = recipient.values();
    fields.small_integer()?;
    let id = Identifier::read(&mut fields)?;
    let Some(own) = keys.iter().find(|own| id.names(&own.certificate)) else { return Ok(None) };
    let how = transport(fields.tagged(der::SEQUENCE)?)?;
    let sealed = fields.tagged(der::OCTET_STRING)?.content;
    Ok(Some(own.key.decrypt_key(how, sealed, substitute)))
}

struct ContentAlgorithm<'a> {
    cipher: ContentCipher,
    iv: &'a [u8],
    tag_bytes: usize,
}

fn content_algorithm(value: Value<'_>) -> Result<ContentAlgorithm<'_>, Sealed> {
    let mut fields = value.values();
    let cipher = oid::cipher(fields.tagged(der::OID)?.content).ok_or(Sealed)?;
    if !cipher.is_gcm() {
        let iv = fields.tagged(der::OCTET_STRING)?.content;
        return Ok(ContentAlgorithm { cipher, iv, tag_bytes: 0 });
    }
    // GCMParameters (RFC 5084 §3.2): the length of the tag is 12 where it is left out.
    let mut parameters = fields.tagged(der::SEQUENCE)?.values();
    let iv = parameters.tagged(der::OCTET_STRING)?.content;
    let tag_bytes = if parameters.is_empty() { 12 } else { parameters.small_integer()? };
    let tag_bytes = usize::try_from(tag_bytes).or(Err(Sealed))?;
    if !(12..=TAG_BYTES).contains(&tag_bytes) {
        return Err(Sealed);
    }
    Ok(ContentAlgorithm { cipher, iv, tag_bytes })
}

/// KeyEncryptionAlgorithmIdentifier: RSA v1.5, or OAEP (RFC 4055 §4.1), whose parameters are SHA-1
/// where they are left out. A label is not supported.
fn transport(value: Value<'_>) -> Result<KeyTransport, Sealed> {
    let mut fields = value.values();
    match fields.tagged(der::OID)?.content {
        oid::RSA => return Ok(KeyTransport::Pkcs1),
        oid::RSA_OAEP => {}
        _ => return Err(Sealed),
    }
    let (mut digest, mut mask) = (DigestAlgorithm::Sha1, DigestAlgorithm::Sha1);
    if let Some(parameters) = fields.optional(der::SEQUENCE)? {
        let mut parameters = parameters.values();
        if let Some(hash) = parameters.optional(der::context(0))? {
            digest = digest_of(hash.values().tagged(der::SEQUENCE)?).or(Err(Sealed))?;
        }
        if let Some(function) = parameters.optional(der::context(1))? {
            mask = mask_digest(function.values().tagged(der::SEQUENCE)?).or(Err(Sealed))?;
        }
        if let Some(source) = parameters.optional(der::context(2))? {
            let mut source = source.values().tagged(der::SEQUENCE)?.values();
            source.tagged(der::OID)?;
            if !source.is_empty() && !source.tagged(der::OCTET_STRING)?.content.is_empty() {
                return Err(Sealed);
            }
        }
    }
    Ok(KeyTransport::Oaep { digest, mask })
}

/// For whom content is encrypted, and how.
#[derive(Clone)]
pub struct Envelope {
    /// The partner's certificate.
    pub recipient: Arc<Certificate>,
    /// The cipher; one of GCM makes AuthEnvelopedData.
    pub cipher: ContentCipher,
    /// How the content key travels.
    pub transport: KeyTransport,
}

impl Envelope {
    /// What stands before encrypted content of this length.
    pub(crate) fn head(&self, secrets: &ContentSecrets, bytes: u64) -> Result<Vec<u8>, Sealed> {
        let gcm = self.cipher.is_gcm();
        let key = secrets.key_of(self.cipher);
        let sealed = self.recipient.key.encrypt_key(self.transport, key).or(Err(Sealed))?;
        let serial = der::write(der::INTEGER, &self.recipient.serial);
        let id = der::write_all(der::SEQUENCE, &[&self.recipient.issuer, &serial]);
        let version = [der::INTEGER, 1, 0];
        let recipient = der::write_all(
            der::SEQUENCE,
            &[&version, &id, &self.transport_algorithm(), &der::write(der::OCTET_STRING, &sealed)],
        );
        let fields = [version.as_slice(), &der::write(der::SET, &recipient)].concat();
        let beside = [der::write(der::OID, oid::DATA), self.content_algorithm(secrets)].concat();
        let content = der::header(der::context_primitive(0), bytes);
        let after = if gcm { 2 + TAG_BYTES as u64 } else { 0 };

        let info_bytes = (beside.len() + content.len()) as u64 + bytes;
        let info = der::header(der::SEQUENCE, info_bytes);
        let data_bytes = (fields.len() + info.len()) as u64 + info_bytes + after;
        let data = der::header(der::SEQUENCE, data_bytes);
        let explicit_bytes = data.len() as u64 + data_bytes;
        let explicit = der::header(der::context(0), explicit_bytes);
        let kind = if gcm { oid::AUTH_ENVELOPED_DATA } else { oid::ENVELOPED_DATA };
        let kind = der::write(der::OID, kind);
        let outer = (kind.len() + explicit.len()) as u64 + explicit_bytes;
        let outer = der::header(der::SEQUENCE, outer);
        Ok([outer, kind, explicit, data, fields, info, beside, content].concat())
    }

    fn content_algorithm(&self, secrets: &ContentSecrets) -> Vec<u8> {
        let oid = der::write(der::OID, &oid::of_cipher(self.cipher));
        let iv = der::write(der::OCTET_STRING, secrets.iv_of(self.cipher));
        if !self.cipher.is_gcm() {
            return der::write_all(der::SEQUENCE, &[&oid, &iv]);
        }
        let tag_bytes = [der::INTEGER, 1, TAG_BYTES as u8];
        let parameters = der::write_all(der::SEQUENCE, &[&iv, &tag_bytes]);
        der::write_all(der::SEQUENCE, &[&oid, &parameters])
    }

    fn transport_algorithm(&self) -> Vec<u8> {
        let KeyTransport::Oaep { digest, mask } = self.transport else {
            let oid = der::write(der::OID, oid::RSA);
            return der::write_all(der::SEQUENCE, &[&oid, &[der::NULL, 0]]);
        };
        let algorithm = |of: DigestAlgorithm| {
            let oid = der::write(der::OID, oid::of_digest(of));
            der::write_all(der::SEQUENCE, &[&oid, &[der::NULL, 0]])
        };
        let mgf = der::write(der::OID, oid::MGF1);
        let mgf = der::write_all(der::SEQUENCE, &[&mgf, &algorithm(mask)]);
        let parameters = der::write_all(
            der::SEQUENCE,
            &[&der::write(der::context(0), &algorithm(digest)), &der::write(der::context(1), &mgf)],
        );
        der::write_all(der::SEQUENCE, &[&der::write(der::OID, oid::RSA_OAEP), &parameters])
    }
}

/// The tag behind content of AuthEnvelopedData.
pub(crate) fn tag_field(tag: &[u8; TAG_BYTES]) -> Vec<u8> {
    der::write(der::OCTET_STRING, tag)
}

/// The tag in what followed the content. Attributes that are authenticated along would have to be
/// known before the content, so that a message with them is refused.
pub(crate) fn read_tag(after: &[u8]) -> Result<&[u8], Sealed> {
    Ok(Reader::new(after).tagged(der::OCTET_STRING)?.content)
}
