//! Signatures of passkeys, and the hash that they are over.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ED25519, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256,
    VerificationAlgorithm,
};
use entrepot_nouns::PasskeyAlgorithm;

/// The public key of a passkey, ready to verify.
#[derive(Debug)]
pub struct PasskeyKey(ParsedPublicKey);

impl PasskeyKey {
    /// From SubjectPublicKeyInfo (RFC 5280 §4.1.2.7); `None`: it is no key of this algorithm, or of
    /// RSA with less than 2,048 bits.
    pub fn new(algorithm: PasskeyAlgorithm, key: &[u8]) -> Option<PasskeyKey> {
        let algorithm: &'static dyn VerificationAlgorithm = match algorithm {
            PasskeyAlgorithm::Es256 => &ECDSA_P256_SHA256_ASN1,
            PasskeyAlgorithm::EdDsa => &ED25519,
            PasskeyAlgorithm::Rs256 => &RSA_PKCS1_2048_8192_SHA256,
        };
        ParsedPublicKey::new(algorithm, key).ok().map(PasskeyKey)
    }

    /// True if it made this signature over `message`.
    pub fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        self.0.verify_sig(message, signature).is_ok()
    }
}

/// SHA-256 (FIPS 180-4).
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    // SHA-256 has 32 bytes.
    hash.copy_from_slice(digest(&SHA256, bytes).as_ref());
    hash
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::encoding::AsDer;
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
    use aws_lc_rs::signature::{
        ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256,
    };

    use super::*;

    fn verifies(algorithm: PasskeyAlgorithm, key: &[u8], signature: &[u8]) {
        let public = PasskeyKey::new(algorithm, key).unwrap();
        assert!(public.has_signed(b"message", signature), "{algorithm:?}");
        assert!(!public.has_signed(b"massage", signature), "{algorithm:?}");
        assert!(!public.has_signed(b"message", &[]), "{algorithm:?}");
        for other in PasskeyAlgorithm::ALL.into_iter().filter(|other| *other != algorithm) {
            let taken = PasskeyKey::new(other, key);
            assert!(
                taken.is_none_or(|taken| !taken.has_signed(b"message", signature)),
                "{other:?}"
            );
        }
    }

    #[test]
    fn each_algorithm_verifies_its_own_signatures_only() {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap();
        let der = AsDer::<aws_lc_rs::encoding::PublicKeyX509Der<'_>>::as_der(key.public_key());
        let signature = key.sign(&random, b"message").unwrap();
        verifies(PasskeyAlgorithm::Es256, der.unwrap().as_ref(), signature.as_ref());
        let key = Ed25519KeyPair::generate().unwrap();
        let der = AsDer::<aws_lc_rs::encoding::PublicKeyX509Der<'_>>::as_der(key.public_key());
        verifies(PasskeyAlgorithm::EdDsa, der.unwrap().as_ref(), key.sign(b"message").as_ref());
        let key = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
        let der = AsDer::<aws_lc_rs::encoding::PublicKeyX509Der<'_>>::as_der(key.public_key());
        let mut signature = vec![0; key.public_modulus_len()];
        key.sign(&RSA_PKCS1_SHA256, &random, b"message", &mut signature).unwrap();
        verifies(PasskeyAlgorithm::Rs256, der.unwrap().as_ref(), &signature);
        assert!(PasskeyKey::new(PasskeyAlgorithm::Es256, b"no key").is_none());
    }
}
