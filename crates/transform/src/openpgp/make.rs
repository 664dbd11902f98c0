//! A new key of ours, both halves.

use entrepot_nouns::{Env, Secret};
use pgp::composed::{ArmorOptions, EncryptionCaps, KeyType, SecretKeyParamsBuilder, SubkeyParams};
use pgp::composed::{SecretKeyParams, SubkeyParamsBuilder};
use pgp::crypto::ecc_curve::ECCCurve;
use pgp::crypto::hash::HashAlgorithm;
use pgp::crypto::sym::SymmetricKeyAlgorithm;
use pgp::types::{KeyVersion, Timestamp};

use super::keys::seconds;
use super::{Entropy, bad_key};
use crate::error::TransformError;

/// Longest name of a key's owner, in bytes.
const OWNER_BYTES: usize = 500;

/// A new key of ours, both halves as text.
pub struct MadeKey {
    /// What partners encrypt to, and verify our signatures with.
    pub public: String,
    /// For us; no passphrase protects it.
    pub private: Secret,
    /// What people compare, in hexadecimal digits.
    pub fingerprint: String,
}

/// Makes a key that signs, and a part of it to which others encrypt: Ed25519 and Curve25519 in the
/// form that GnuPG makes since 2.1 and everybody reads (RFC 4880, version 4). It has no end.
/// `owner` is its user id, such as `Example Ltd <edi@example.com>`.
///
/// # Errors
/// The name of the owner is empty, too long or has control characters.
pub fn make(owner: &str, env: &Env) -> Result<MadeKey, TransformError> {
    if owner.trim().is_empty() || owner.len() > OWNER_BYTES || owner.chars().any(char::is_control) {
        let text = format!("the owner of a key is a name of at most {OWNER_BYTES} bytes");
        return Err(TransformError::BadKey(text));
    }
    let created = Timestamp::from_secs(seconds(env.now()));
    let params = params(owner, created).map_err(TransformError::BadKey)?;
    let key = params.generate(Entropy(env)).map_err(bad_key)?;
    let public = key.to_public_key().to_armored_string(ArmorOptions::default());
    let private = key.to_armored_string(ArmorOptions::default());
    let fingerprint = super::SecretKey::parse(private.as_deref().unwrap_or_default().as_bytes())?;
    Ok(MadeKey {
        public: public.map_err(bad_key)?,
        private: Secret::new(private.map_err(bad_key)?),
        fingerprint: fingerprint.public().fingerprint(),
    })
}

fn params(owner: &str, created: Timestamp) -> Result<SecretKeyParams, String> {
    let opens: SubkeyParams = SubkeyParamsBuilder::default()
        .version(KeyVersion::V4)
        .key_type(KeyType::ECDH(ECCCurve::Curve25519Legacy))
        .can_encrypt(EncryptionCaps::All)
        .created_at(created)
        .build()
        .map_err(|error| error.to_string())?;
    SecretKeyParamsBuilder::default()
        .version(KeyVersion::V4)
        .key_type(KeyType::Ed25519Legacy)
        .can_certify(true)
        .can_sign(true)
        .created_at(created)
        .primary_user_id(owner.to_owned())
        .preferred_symmetric_algorithms([SymmetricKeyAlgorithm::AES256].into_iter().collect())
        .preferred_hash_algorithms(
            [HashAlgorithm::Sha512, HashAlgorithm::Sha256].into_iter().collect(),
        )
        .subkey(opens)
        .build()
        .map_err(|error| error.to_string())
}
