//! Certificates of our own making for messages of AS2.

use entrepot_nouns::Secret;
use rcgen::{
    CertificateParams, DistinguishedName, DnType, KeyPair, KeyUsagePurpose, PKCS_RSA_SHA256,
};

use crate::failure::Failure;

/// A certificate and its private half, both as PEM.
pub(crate) struct MessageCertificate {
    pub(crate) public: String,
    pub(crate) private: Secret,
}

/// Makes a certificate that signs messages and that messages are encrypted for, with a key of RSA
/// of 2,048 bits. It does not expire: partners trust this very one.
pub(crate) fn make(name: &str) -> Result<MessageCertificate, Failure> {
    let failed = |error: rcgen::Error| Failure::start(format!("no key can be made: {error}"));
    let key = KeyPair::generate_for(&PKCS_RSA_SHA256).map_err(failed)?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyEncipherment,
        KeyUsagePurpose::DataEncipherment,
    ];
    let certificate = params.self_signed(&key).map_err(failed)?;
    Ok(MessageCertificate { public: certificate.pem(), private: Secret::new(key.serialize_pem()) })
}
