//! Keys of certificates: signatures of finished digests and transport of content keys.
//!
//! Content keys come back by implicit rejection: whatever is wrong with an encrypted key, a random
//! key that was drawn before takes its place, in the same time, and what follows fails like any
//! content that was damaged. So no peer learns whether its guess had the right padding
//! (Bleichenbacher's attack).

use std::fmt;

use subtle::{Choice, ConditionallySelectable as _, ConstantTimeEq as _};
use zeroize::Zeroizing;

use crate::algorithms::DigestAlgorithm;
use crate::der;
use crate::ffi::{Padding, Pkey};

/// How a signature is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureScheme {
    /// RSA with the padding of PKCS #1 v1.5.
    RsaPkcs1,
    /// RSA-PSS. Without a length of the salt it is found in the signature, and as long as the
    /// digest where one is made.
    RsaPss {
        /// The hash behind the mask.
        mask: DigestAlgorithm,
        /// Bytes of the salt.
        salt: Option<u16>,
    },
    /// ECDSA on P-256, P-384 or P-521, as DER.
    Ecdsa,
}

/// How a content key travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyTransport {
    /// RSA with the padding of PKCS #1 v1.5.
    Pkcs1,
    /// RSA-OAEP without a label.
    Oaep {
        /// The hash of the label.
        digest: DigestAlgorithm,
        /// The hash behind the mask.
        mask: DigestAlgorithm,
    },
}

/// A key is malformed, of a kind that is not used here, or cannot do what it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Not a key, or neither RSA nor of an elliptic curve.
    #[error("no key of RSA or of an elliptic curve")]
    Malformed,
    /// The kind of key and the operation do not fit.
    #[error("the key cannot do that")]
    Unfit,
}

/// The public half of a certificate's key.
pub struct PublicKey(Pkey);

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({} bits)", self.0.bits())
    }
}

fn padding(key: &Pkey, scheme: SignatureScheme) -> Result<Padding, KeyError> {
    match scheme {
        SignatureScheme::RsaPkcs1 if key.is_rsa() => Ok(Padding::Pkcs1),
        SignatureScheme::RsaPss { mask, salt } if key.is_rsa() => Ok(Padding::Pss { mask, salt }),
        SignatureScheme::Ecdsa if key.is_ec() => Ok(Padding::None),
        _ => Err(KeyError::Unfit),
    }
}

impl PublicKey {
    /// A SubjectPublicKeyInfo of DER.
    pub fn from_spki(der: &[u8]) -> Result<Self, KeyError> {
        let key = Pkey::public(der).or(Err(KeyError::Malformed))?;
        if !key.is_rsa() && !key.is_ec() {
            return Err(KeyError::Malformed);
        }
        Ok(PublicKey(key))
    }

    /// Whether it is one of RSA; else it is of an elliptic curve.
    pub fn is_rsa(&self) -> bool {
        self.0.is_rsa()
    }

    /// The size that the key is known by.
    pub fn bits(&self) -> usize {
        self.0.bits()
    }

    /// Bytes of a content key that was encrypted to it.
    pub fn encrypted_key_bytes(&self) -> usize {
        self.0.size_bytes()
    }

    /// Whether the signature is one of this digest by this key.
    pub fn verifies(
        &self,
        scheme: SignatureScheme,
        algorithm: DigestAlgorithm,
        digest: &[u8],
        signature: &[u8],
    ) -> bool {
        padding(&self.0, scheme)
            .is_ok_and(|padding| self.0.verify(padding, algorithm, digest, signature).is_ok())
    }

    /// A content key for the owner of the private half.
    pub fn encrypt_key(&self, how: KeyTransport, key: &[u8]) -> Result<Vec<u8>, KeyError> {
        if !self.0.is_rsa() {
            return Err(KeyError::Unfit);
        }
        self.0.encrypt(transport_padding(how), key).or(Err(KeyError::Unfit))
    }
}

fn transport_padding(how: KeyTransport) -> Padding {
    match how {
        KeyTransport::Pkcs1 => Padding::Pkcs1,
        KeyTransport::Oaep { digest, mask } => Padding::Oaep { digest, mask },
    }
}

/// A private key. It does not show in Debug.
pub struct PrivateKey(Pkey);

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(***)")
    }
}

impl PrivateKey {
    /// A PrivateKeyInfo of DER (PKCS #8), not encrypted.
    pub fn from_pkcs8(der: &[u8]) -> Result<Self, KeyError> {
        let key = Pkey::private(der).or(Err(KeyError::Malformed))?;
        if !key.is_rsa() && !key.is_ec() {
            return Err(KeyError::Malformed);
        }
        Ok(PrivateKey(key))
    }

    /// Whether it is one of RSA; else it is of an elliptic curve.
    pub fn is_rsa(&self) -> bool {
        self.0.is_rsa()
    }

    /// Whether it is the private half of `public`.
    pub fn belongs_to(&self, public: &PublicKey) -> bool {
        self.0.same_public(&public.0)
    }

    /// The most bytes of a signature; one of RSA has exactly so many.
    pub fn max_signature_bytes(&self) -> usize {
        self.0.size_bytes()
    }

    /// Signs a finished digest.
    pub fn sign(
        &self,
        scheme: SignatureScheme,
        algorithm: DigestAlgorithm,
        digest: &[u8],
    ) -> Result<Vec<u8>, KeyError> {
        let padding = match padding(&self.0, scheme)? {
            Padding::Pss { mask, salt } => {
                let salt = salt.or(u16::try_from(digest.len()).ok());
                Padding::Pss { mask, salt }
            }
            other => other,
        };
        self.0.sign(padding, algorithm, digest).or(Err(KeyError::Unfit))
    }

    /// The secret in common with the owner of a public key on the same curve, of which this is the
    /// point.
    pub(crate) fn agree(&self, point: &[u8]) -> Result<Zeroizing<Vec<u8>>, KeyError> {
        let curve: &[u8] = match self.0.bits() {
            256 => &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7],
            384 => &[0x2b, 0x81, 0x04, 0x00, 0x22],
            521 => &[0x2b, 0x81, 0x04, 0x00, 0x23],
            _ => return Err(KeyError::Unfit),
        };
        if !self.0.is_ec() {
            return Err(KeyError::Unfit);
        }
        const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
        let [kind, curve] = [EC_PUBLIC_KEY, curve].map(|oid| der::write(der::OID, oid));
        let algorithm = der::write_all(der::SEQUENCE, &[&kind, &curve]);
        let point = der::write_all(der::BIT_STRING, &[&[0], point]);
        let spki = der::write_all(der::SEQUENCE, &[&algorithm, &point]);
        let peer = Pkey::public(&spki).or(Err(KeyError::Malformed))?;
        self.0.derive(&peer).map(Zeroizing::new).or(Err(KeyError::Unfit))
    }

    /// The content key in `sealed`, or `substitute` where there is none of that length: which of
    /// the two cannot be told by time or otherwise. The length is that of `substitute`.
    pub fn decrypt_key(
        &self,
        how: KeyTransport,
        sealed: &[u8],
        substitute: &[u8],
    ) -> Zeroizing<Vec<u8>> {
        match how {
            KeyTransport::Pkcs1 => {
                let block = Zeroizing::new(self.0.decrypt_raw(sealed).unwrap_or_default());
                unpadded(&block, substitute)
            }
            KeyTransport::Oaep { .. } => {
                let found = self.0.decrypt(transport_padding(how), sealed).unwrap_or_default();
                let found = Zeroizing::new(found);
                let good = found.len().ct_eq(&substitute.len());
                select(good, &found, substitute)
            }
        }
    }
}

/// Each byte of `found` where `good`, else of `substitute`, whose length it gets.
fn select(good: Choice, found: &[u8], substitute: &[u8]) -> Zeroizing<Vec<u8>> {
    let found = found.iter().chain(std::iter::repeat(&0));
    let bytes = substitute.iter().zip(found);
    Zeroizing::new(bytes.map(|(no, yes)| u8::conditional_select(no, yes, good)).collect())
}

/// Takes PKCS #1 v1.5 padding off (RFC 8017 §7.2.2), where what it holds has exactly the length of
/// `substitute`: `00 02 PS 00 K`, PS of eight or more bytes, none of them zero.
fn unpadded(block: &[u8], substitute: &[u8]) -> Zeroizing<Vec<u8>> {
    const LEAST_PADDING: usize = 8;
    // Lengths are public: the modulus and the cipher are known to all.
    let key_at = block.len().saturating_sub(substitute.len());
    if key_at < LEAST_PADDING + 3 {
        return Zeroizing::new(substitute.to_vec());
    }
    let (padding, key) = block.split_at(key_at);
    let last = key_at - 1;
    let good = padding.iter().enumerate().fold(Choice::from(1), |good, (at, byte)| {
        good & match at {
            0 => byte.ct_eq(&0),
            1 => byte.ct_eq(&2),
            _ if at == last => byte.ct_eq(&0),
            _ => !byte.ct_eq(&0),
        }
    });
    select(good, key, substitute)
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::encoding::AsDer as _;
    use aws_lc_rs::rsa::{KeyPair, KeySize};
    use aws_lc_rs::signature::KeyPair as _;

    use super::*;

    fn rsa() -> (PrivateKey, PublicKey) {
        let pair = KeyPair::generate(KeySize::Rsa2048).unwrap();
        let pkcs8 = pair.as_der().unwrap();
        let spki = pair.public_key().as_der().unwrap();
        let private = PrivateKey::from_pkcs8(pkcs8.as_ref()).unwrap();
        (private, PublicKey::from_spki(spki.as_ref()).unwrap())
    }

    #[test]
    fn every_scheme_and_digest_verifies_and_nothing_else_does() {
        let (private, public) = rsa();
        assert!(private.belongs_to(&public));
        for algorithm in DigestAlgorithm::ALL {
            let digest = algorithm.hash().hash(b"text");
            let other = algorithm.hash().hash(b"other");
            let pss = SignatureScheme::RsaPss { mask: algorithm, salt: None };
            for scheme in [SignatureScheme::RsaPkcs1, pss] {
                let signature = private.sign(scheme, algorithm, &digest).unwrap();
                assert_eq!(signature.len(), private.max_signature_bytes());
                assert!(public.verifies(scheme, algorithm, &digest, &signature));
                assert!(!public.verifies(scheme, algorithm, &other, &signature));
                assert!(!public.verifies(SignatureScheme::Ecdsa, algorithm, &digest, &signature));
            }
        }
        assert_eq!(
            private.sign(SignatureScheme::Ecdsa, DigestAlgorithm::Sha256, &[0; 32]),
            Err(KeyError::Unfit)
        );
    }

    #[test]
    fn salts_of_other_lengths_are_found() {
        let (private, public) = rsa();
        let digest = DigestAlgorithm::Sha256.hash().hash(b"text");
        for salt in [0, 20, 32, 222] {
            let mask = DigestAlgorithm::Sha256;
            let made = SignatureScheme::RsaPss { mask, salt: Some(salt) };
            let signature = private.sign(made, mask, &digest).unwrap();
            let found = SignatureScheme::RsaPss { mask, salt: None };
            assert!(public.verifies(found, mask, &digest, &signature), "{salt}");
        }
    }

    #[test]
    fn content_keys_travel_or_are_replaced() {
        use DigestAlgorithm::{Sha1, Sha256};
        let (private, public) = rsa();
        let (stranger, _) = rsa();
        let key = [5u8; 24];
        let substitute = [1u8; 24];
        let ways = [
            KeyTransport::Pkcs1,
            KeyTransport::Oaep { digest: Sha256, mask: Sha256 },
            KeyTransport::Oaep { digest: Sha256, mask: Sha1 },
            KeyTransport::Oaep { digest: Sha1, mask: Sha1 },
        ];
        for how in ways {
            let sealed = public.encrypt_key(how, &key).unwrap();
            assert_eq!(private.decrypt_key(how, &sealed, &substitute)[..], key);
            assert_eq!(private.decrypt_key(how, &sealed, &[1; 16])[..], [1; 16]);
            assert_eq!(stranger.decrypt_key(how, &sealed, &substitute)[..], substitute);
            assert_eq!(private.decrypt_key(how, &sealed[1..], &substitute)[..], substitute);
            assert_eq!(private.decrypt_key(how, &[0xff; 256], &substitute)[..], substitute);
        }
    }

    #[test]
    fn padding_is_taken_off_only_where_it_is_right() {
        let mut block = vec![0, 2];
        block.extend([9; 8]);
        block.push(0);
        block.extend([7; 16]);
        assert_eq!(unpadded(&block, &[1; 16])[..], [7; 16]);
        for at in 0..11 {
            let mut bad = block.clone();
            bad[at] = if (2..10).contains(&at) { 0 } else { bad[at] ^ 1 };
            assert_eq!(unpadded(&bad, &[1; 16])[..], [1; 16], "{at}");
        }
        assert_eq!(unpadded(&block[1..], &[1; 16])[..], [1; 16]);
        assert_eq!(unpadded(&[], &[1; 16])[..], [1; 16]);
    }
}
