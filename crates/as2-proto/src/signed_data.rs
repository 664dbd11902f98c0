//! SignedData (RFC 5652 §5): reading and checking a detached signature, and making one.

use std::sync::Arc;

use entrepot_crypto::der::{self, DerError, Reader, Value};
use entrepot_crypto::{Certificate, DigestAlgorithm, PrivateKey, SignatureScheme};

use crate::cms::to_der;
use crate::limits;
use crate::mic::{Finished, LineEnds, Mic};
use crate::oid::{self, SignatureOid};

/// Why a signature does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// It is no SignedData, or uses what is not known here.
    #[error("the signature cannot be read")]
    Malformed,
    /// None of the partner's certificates signed.
    #[error("no certificate of the partner made the signature")]
    Stranger,
    /// The partner's certificate signed something else.
    #[error("the content is not what was signed")]
    Content,
    /// The partner's certificate signed a digest that was not computed of the content.
    #[error("the signature has a digest that is not taken")]
    Digest(DigestAlgorithm),
}

impl From<DerError> for SignatureError {
    fn from(_: DerError) -> Self {
        SignatureError::Malformed
    }
}

/// A signature that holds.
#[derive(Debug, Clone)]
pub struct VerifiedSignature {
    /// Whose it is, of the certificates that were trusted.
    pub certificate: Arc<Certificate>,
    /// How it was made.
    pub scheme: SignatureScheme,
    /// The digest of the content that it covers.
    pub mic: Mic,
    /// Whether the bytes that came were signed, or the same text with other line ends.
    pub line_ends: LineEnds,
    /// This signature alone, with the certificate, as SignedData without content, in DER. What the
    /// signature does not cover is left out of it.
    pub detached: Vec<u8>,
}

impl VerifiedSignature {
    /// Checks [`VerifiedSignature::detached`] again, of content that had this digest, by any of
    /// these certificates. Content of another digest is not what was signed.
    ///
    /// # Errors
    /// As for a signature that comes with its content.
    pub fn check_again(
        detached: &[u8],
        mic: Mic,
        trusted: &[Arc<Certificate>],
    ) -> Result<VerifiedSignature, SignatureError> {
        verify(detached, &Finished::one(mic), trusted)
    }

    /// The certificates that [`VerifiedSignature::detached`] brings along.
    pub fn certificates(detached: &[u8]) -> Vec<Certificate> {
        certificates(detached).unwrap_or_default()
    }
}

/// Who a recipient or signer is.
#[derive(Debug)]
pub(crate) enum Identifier<'a> {
    IssuerAndSerial { issuer: &'a [u8], serial: &'a [u8] },
    KeyId(&'a [u8]),
}

impl<'a> Identifier<'a> {
    /// Reads IssuerAndSerialNumber or `[0]` SubjectKeyIdentifier.
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, DerError> {
        if let Some(id) = reader.optional(der::context_primitive(0))? {
            return Ok(Identifier::KeyId(id.content));
        }
        let mut both = reader.tagged(der::SEQUENCE)?.values();
        let issuer = both.tagged(der::SEQUENCE)?.raw;
        let serial = both.tagged(der::INTEGER)?.content;
        Ok(Identifier::IssuerAndSerial { issuer, serial })
    }

    pub(crate) fn names(&self, certificate: &Certificate) -> bool {
        match self {
            Identifier::IssuerAndSerial { issuer, serial } => {
                certificate.issuer == *issuer && certificate.serial == *serial
            }
            Identifier::KeyId(id) => certificate.key_id.as_deref() == Some(id),
        }
    }
}

struct SignerInfo<'a> {
    id: Identifier<'a>,
    digest: DigestAlgorithm,
    attributes: Option<Value<'a>>,
    /// Scheme and digest of the signature itself.
    scheme: SignatureScheme,
    signature: &'a [u8],
    whole: Value<'a>,
}

impl SignerInfo<'_> {
    /// SignedData of this signer alone; its bytes up to the signature stay as they came.
    fn detached(&self, certificate: &Certificate) -> Result<Vec<u8>, DerError> {
        let mut fields = self.whole.values();
        let mut covered: Vec<&[u8]> = Vec::new();
        while let Some(tag) = fields.peek() {
            covered.push(fields.read()?.raw);
            if tag == der::OCTET_STRING {
                break;
            }
        }
        // With no certificate but X.509 that of SignedData is the same (RFC 5652 §5.1).
        let version = covered.first().copied().unwrap_or_default();
        let signer = der::write_all(der::SEQUENCE, &covered);
        Ok(signed_data(version, self.digest, certificate, &signer))
    }
}

/// SignedData without content, of one signer.
fn signed_data(
    version: &[u8],
    digest: DigestAlgorithm,
    certificate: &Certificate,
    signer: &[u8],
) -> Vec<u8> {
    let digest = der::write(der::SEQUENCE, &der::write(der::OID, oid::of_digest(digest)));
    let content = der::write(der::SEQUENCE, &der::write(der::OID, oid::DATA));
    let data = der::write_all(
        der::SEQUENCE,
        &[
            version,
            &der::write(der::SET, &digest),
            &content,
            &der::write(der::context(0), certificate.der()),
            &der::write(der::SET, signer),
        ],
    );
    let oid = der::write(der::OID, oid::SIGNED_DATA);
    der::write_all(der::SEQUENCE, &[&oid, &der::write(der::context(0), &data)])
}

/// Checks the signature in `part`, of DER or BER, over content with these digests, by any of the
/// trusted certificates. Certificates that it brings along are not looked at.
pub(crate) fn verify(
    part: &[u8],
    digests: &Finished,
    trusted: &[Arc<Certificate>],
) -> Result<VerifiedSignature, SignatureError> {
    match signers(part) {
        Ok(signers) => verify_any(&signers, digests, trusted),
        Err(_) => {
            let rewritten = to_der(part).or(Err(SignatureError::Malformed))?;
            verify_any(&signers(&rewritten)?, digests, trusted)
        }
    }
}

/// The certificates that a signature brings along, in their order; those that cannot be read are
/// left out. Nothing says that any of them is to be trusted.
pub(crate) fn certificates(part: &[u8]) -> Result<Vec<Certificate>, SignatureError> {
    let der = to_der(part).or(Err(SignatureError::Malformed))?;
    let mut info = Reader::new(&der).tagged(der::SEQUENCE)?.values();
    info.tagged(der::OID)?;
    let mut data = info.tagged(der::context(0))?.values().tagged(der::SEQUENCE)?.values();
    data.small_integer()?;
    data.tagged(der::SET)?;
    data.tagged(der::SEQUENCE)?;
    let Some(list) = data.optional(der::context(0))? else { return Ok(Vec::new()) };
    let mut list = list.values();
    let mut found = Vec::new();
    while !list.is_empty() && found.len() < limits::CERTIFICATES {
        found.extend(Certificate::from_der(list.tagged(der::SEQUENCE)?.raw).ok());
    }
    Ok(found)
}

fn signers(bytes: &[u8]) -> Result<Vec<SignerInfo<'_>>, SignatureError> {
    let mut info = Reader::new(bytes).tagged(der::SEQUENCE)?.values();
    if info.tagged(der::OID)?.content != oid::SIGNED_DATA {
        return Err(SignatureError::Malformed);
    }
    let mut data = info.tagged(der::context(0))?.values().tagged(der::SEQUENCE)?.values();
    data.small_integer()?;
    data.tagged(der::SET)?;
    let mut content = data.tagged(der::SEQUENCE)?.values();
    content.tagged(der::OID)?;
    // What was signed lies in the other part: content in here would be something else.
    content.end()?;
    data.optional(der::context(0))?;
    data.optional(der::context(1))?;
    let mut list = data.tagged(der::SET)?.values();
    let mut signers = Vec::new();
    let mut unknown = 0;
    while !list.is_empty() {
        match signer(list.tagged(der::SEQUENCE)?) {
            Ok(signer) => signers.push(signer),
            Err(_) => unknown += 1,
        }
        if signers.len() + unknown > limits::SIGNERS {
            return Err(SignatureError::Malformed);
        }
    }
    if signers.is_empty() { Err(SignatureError::Malformed) } else { Ok(signers) }
}

fn signer(value: Value<'_>) -> Result<SignerInfo<'_>, SignatureError> {
    let mut fields = value.values();
    fields.small_integer()?;
    let id = Identifier::read(&mut fields)?;
    let digest = digest_of(fields.tagged(der::SEQUENCE)?)?;
    let attributes = fields.optional(der::context(0))?;
    let algorithm = fields.tagged(der::SEQUENCE)?;
    let scheme = scheme_of(algorithm, digest)?;
    let signature = fields.tagged(der::OCTET_STRING)?.content;
    Ok(SignerInfo { id, digest, attributes, scheme, signature, whole: value })
}

/// The digest of an AlgorithmIdentifier.
pub(crate) fn digest_of(value: Value<'_>) -> Result<DigestAlgorithm, SignatureError> {
    let oid = value.values().tagged(der::OID)?;
    oid::digest(oid.content).ok_or(SignatureError::Malformed)
}

fn scheme_of(value: Value<'_>, digest: DigestAlgorithm) -> Result<SignatureScheme, SignatureError> {
    let mut fields = value.values();
    let found = oid::signature(fields.tagged(der::OID)?.content);
    match found.ok_or(SignatureError::Malformed)? {
        SignatureOid::RsaAnyDigest => Ok(SignatureScheme::RsaPkcs1),
        SignatureOid::EcdsaAnyDigest => Ok(SignatureScheme::Ecdsa),
        SignatureOid::Rsa(named) if named == digest => Ok(SignatureScheme::RsaPkcs1),
        SignatureOid::Ecdsa(named) if named == digest => Ok(SignatureScheme::Ecdsa),
        SignatureOid::Rsa(_) | SignatureOid::Ecdsa(_) => Err(SignatureError::Malformed),
        SignatureOid::Pss => pss(fields, digest),
    }
}

/// RSASSA-PSS-params (RFC 4055 §3.1): everything left out of them is SHA-1. They must be there;
/// pyas2lib 1.4.4 leaves them out as a whole, and means the digest of the content for both.
fn pss(mut fields: Reader<'_>, digest: DigestAlgorithm) -> Result<SignatureScheme, SignatureError> {
    let mut parameters = match fields.optional(der::SEQUENCE)? {
        Some(value) => value.values(),
        None => return Ok(SignatureScheme::RsaPss { mask: digest, salt: None }),
    };
    let hash = match parameters.optional(der::context(0))? {
        Some(value) => digest_of(value.values().tagged(der::SEQUENCE)?)?,
        None => DigestAlgorithm::Sha1,
    };
    let mask = match parameters.optional(der::context(1))? {
        Some(value) => mask_digest(value.values().tagged(der::SEQUENCE)?)?,
        None => DigestAlgorithm::Sha1,
    };
    if hash != digest {
        return Err(SignatureError::Malformed);
    }
    Ok(SignatureScheme::RsaPss { mask, salt: None })
}

/// The digest of MGF1, the one mask that is known.
pub(crate) fn mask_digest(value: Value<'_>) -> Result<DigestAlgorithm, SignatureError> {
    let mut fields = value.values();
    if fields.tagged(der::OID)?.content != oid::MGF1 {
        return Err(SignatureError::Malformed);
    }
    digest_of(fields.tagged(der::SEQUENCE)?)
}

/// The first signature by a trusted certificate that holds; else why the last one did not.
fn verify_any(
    signers: &[SignerInfo<'_>],
    digests: &Finished,
    trusted: &[Arc<Certificate>],
) -> Result<VerifiedSignature, SignatureError> {
    let mut failure = SignatureError::Stranger;
    for signer in signers {
        for certificate in trusted.iter().filter(|it| signer.id.names(it)) {
            match verify_one(signer, digests, certificate) {
                Ok(verified) => return Ok(verified),
                Err(error) => failure = error,
            }
        }
    }
    Err(failure)
}

fn verify_one(
    signer: &SignerInfo<'_>,
    digests: &Finished,
    certificate: &Arc<Certificate>,
) -> Result<VerifiedSignature, SignatureError> {
    let mics = [LineEnds::AsReceived, LineEnds::Canonical]
        .into_iter()
        .filter_map(|ends| digests.of(signer.digest, ends).map(|mic| Counted { mic, ends }));
    let detached = signer.detached(certificate)?;
    let verified = |counted: &Counted<'_>| VerifiedSignature {
        certificate: Arc::clone(certificate),
        scheme: signer.scheme,
        mic: counted.mic.clone(),
        line_ends: counted.ends,
        detached: detached.clone(),
    };
    let holds = |digest: &[u8]| {
        let key = &certificate.key;
        key.verifies(signer.scheme, signer.digest, digest, signer.signature)
    };
    let Some(attributes) = signer.attributes else {
        let mut mics = mics;
        let found = mics.find(|counted| holds(&counted.mic.digest));
        return found.as_ref().map(verified).ok_or(SignatureError::Content);
    };
    // The partner has signed the attributes, or it was somebody else; then they say of what.
    let hash = signer.digest.hash();
    let received = der::write(der::SET, attributes.content);
    if !holds(&hash.hash(&received)) && !holds(&hash.hash(&sorted(attributes)?)) {
        return Err(SignatureError::Stranger);
    }
    let signed = message_digest(attributes)?;
    let mut mics = mics.peekable();
    if mics.peek().is_none() {
        return Err(SignatureError::Digest(signer.digest));
    }
    let found = mics.find(|counted| counted.mic.digest == signed);
    found.as_ref().map(verified).ok_or(SignatureError::Content)
}

struct Counted<'a> {
    mic: &'a Mic,
    ends: LineEnds,
}

/// The attributes as DER has them: in the order of their bytes.
fn sorted(attributes: Value<'_>) -> Result<Vec<u8>, DerError> {
    let mut list = attributes.values();
    let mut all = Vec::new();
    while !list.is_empty() {
        all.push(list.read()?.raw);
    }
    all.sort_unstable();
    Ok(der::write_all(der::SET, &all))
}

/// The one value of the attribute `messageDigest` (RFC 5652 §11.2).
fn message_digest(attributes: Value<'_>) -> Result<&[u8], SignatureError> {
    let mut list = attributes.values();
    let mut found = None;
    while !list.is_empty() {
        let mut attribute = list.tagged(der::SEQUENCE)?.values();
        if attribute.tagged(der::OID)?.content != oid::MESSAGE_DIGEST {
            continue;
        }
        let mut values = attribute.tagged(der::SET)?.values();
        let value = values.tagged(der::OCTET_STRING)?;
        values.end()?;
        if found.replace(value.content).is_some() {
            return Err(SignatureError::Malformed);
        }
    }
    found.ok_or(SignatureError::Malformed)
}

/// Who signs, and how.
#[derive(Clone)]
pub struct Signer {
    /// Goes along with the signature, so that a partner can look at it.
    pub certificate: Arc<Certificate>,
    /// The private half of the certificate's key.
    pub key: Arc<PrivateKey>,
    /// The digest of the content and of the attributes.
    pub digest: DigestAlgorithm,
    /// How the padding of RSA is made; a key of an elliptic curve has none.
    pub padding: RsaPadding,
    /// Seconds since 1970, for the attribute `signingTime`.
    pub time: i64,
}

/// The padding of signatures of RSA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RsaPadding {
    /// PKCS #1 v1.5, which every partner knows.
    #[default]
    Pkcs1,
    /// PSS, with a salt as long as the digest.
    Pss,
}

impl Signer {
    fn scheme(&self) -> SignatureScheme {
        match self.padding {
            _ if !self.key.is_rsa() => SignatureScheme::Ecdsa,
            RsaPadding::Pkcs1 => SignatureScheme::RsaPkcs1,
            RsaPadding::Pss => SignatureScheme::RsaPss { mask: self.digest, salt: None },
        }
    }

    /// SignedData without content, over content of this digest.
    pub fn sign(&self, digest: &[u8]) -> Result<Vec<u8>, SignatureError> {
        let attributes = self.attributes(digest);
        let to_sign = self.digest.hash().hash(&der::write(der::SET, &attributes));
        let signature = self.key.sign(self.scheme(), self.digest, &to_sign);
        Ok(self.signed_data(&attributes, &signature.or(Err(SignatureError::Malformed))?))
    }

    /// How long what [`Signer::sign`] returns is at most; with a key of RSA, exactly.
    pub fn max_bytes(&self) -> usize {
        let attributes = self.attributes(&vec![0; self.digest.hash().bytes()]);
        self.signed_data(&attributes, &vec![0; self.key.max_signature_bytes()]).len()
    }

    /// The attributes one after the other, in the order of DER.
    fn attributes(&self, digest: &[u8]) -> Vec<u8> {
        let attribute = |oid: &[u8], value: &[u8]| {
            der::write_all(
                der::SEQUENCE,
                &[&der::write(der::OID, oid), &der::write(der::SET, value)],
            )
        };
        let mut all = [
            attribute(oid::CONTENT_TYPE, &der::write(der::OID, oid::DATA)),
            attribute(oid::SIGNING_TIME, &entrepot_crypto::x509::time_value(self.time)),
            attribute(oid::MESSAGE_DIGEST, &der::write(der::OCTET_STRING, digest)),
        ];
        all.sort_unstable();
        all.concat()
    }

    fn algorithm(&self) -> Vec<u8> {
        let digest = || {
            let oid = der::write(der::OID, oid::of_digest(self.digest));
            der::write_all(der::SEQUENCE, &[&oid, &[der::NULL, 0]])
        };
        match self.scheme() {
            SignatureScheme::RsaPkcs1 => {
                let oid = der::write(der::OID, oid::RSA);
                der::write_all(der::SEQUENCE, &[&oid, &[der::NULL, 0]])
            }
            SignatureScheme::Ecdsa => {
                der::write(der::SEQUENCE, &der::write(der::OID, oid::ecdsa_with(self.digest)))
            }
            SignatureScheme::RsaPss { .. } => {
                let mgf = der::write(der::OID, oid::MGF1);
                let mgf = der::write_all(der::SEQUENCE, &[&mgf, &digest()]);
                let salt = [der::INTEGER, 1, self.digest.hash().bytes() as u8];
                let [hash, mask, salt] = [(0, digest()), (1, mgf), (2, salt.to_vec())]
                    .map(|(number, value)| der::write(der::context(number), &value));
                let parameters = der::write_all(der::SEQUENCE, &[&hash, &mask, &salt]);
                der::write_all(der::SEQUENCE, &[&der::write(der::OID, oid::RSA_PSS), &parameters])
            }
        }
    }

    fn signed_data(&self, attributes: &[u8], signature: &[u8]) -> Vec<u8> {
        let version = [der::INTEGER, 1, 1];
        let digest = der::write(der::SEQUENCE, &der::write(der::OID, oid::of_digest(self.digest)));
        let serial = der::write(der::INTEGER, &self.certificate.serial);
        let id = der::write_all(der::SEQUENCE, &[&self.certificate.issuer, &serial]);
        let signer = der::write_all(
            der::SEQUENCE,
            &[
                &version,
                &id,
                &digest,
                &der::write(der::context(0), attributes),
                &self.algorithm(),
                &der::write(der::OCTET_STRING, signature),
            ],
        );
        signed_data(&version, self.digest, &self.certificate, &signer)
    }
}
