//! Content keys for keys of elliptic curves (RFC 5753): the sender makes a key for this message,
//! both sides agree on a secret, and the content key is wrapped with what is derived of that.

use aws_lc_rs::key_wrap::{AES_128, AES_256, AesKek, KeyWrap as _};
use zeroize::Zeroizing;

use crate::algorithms::DigestAlgorithm;
use crate::der;
use crate::key::PrivateKey;

/// How a content key is wrapped (RFC 3394).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyWrapping {
    /// AES with a key of 128 bits.
    Aes128,
    /// AES with a key of 256 bits.
    Aes256,
}

impl KeyWrapping {
    fn key_bytes(self) -> usize {
        match self {
            KeyWrapping::Aes128 => 16,
            KeyWrapping::Aes256 => 32,
        }
    }

    fn opened(self, key: &[u8], wrapped: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let cipher = match self {
            KeyWrapping::Aes128 => &AES_128,
            KeyWrapping::Aes256 => &AES_256,
        };
        let mut plain = Zeroizing::new(vec![0; wrapped.len()]);
        // `unwrap` is the inverse of `wrap`; it fails where the key is damaged.
        let unwrapped = AesKek::new(cipher, key).ok()?.unwrap(wrapped, &mut plain).ok()?;
        Some(Zeroizing::new(unwrapped.to_vec()))
    }
}

/// What a message says of the agreement.
#[derive(Clone, Copy, Debug)]
pub struct KeyAgreement<'a> {
    /// The point of the key that the sender made.
    pub point: &'a [u8],
    /// The digest of the derivation (ANSI X9.63).
    pub digest: DigestAlgorithm,
    /// How the content key is wrapped.
    pub wrapping: KeyWrapping,
    /// The AlgorithmIdentifier that says so, as it came.
    pub wrapping_algorithm: &'a [u8],
    /// What the sender adds to the derivation (`ukm`).
    pub added: Option<&'a [u8]>,
}

impl KeyAgreement<'_> {
    /// The content key in `wrapped`, or `substitute` where there is none of that length.
    pub fn content_key(
        &self,
        own: &PrivateKey,
        wrapped: &[u8],
        substitute: &[u8],
    ) -> Zeroizing<Vec<u8>> {
        let found = own.agree(self.point).ok().and_then(|secret| {
            let key = self.derived(&secret);
            self.wrapping.opened(&key, wrapped)
        });
        let fits = |key: &Zeroizing<Vec<u8>>| key.len() == substitute.len();
        found.filter(fits).unwrap_or_else(|| Zeroizing::new(substitute.to_vec()))
    }

    /// ECC-CMS-SharedInfo (RFC 5753 section 7.2).
    fn shared_info(&self) -> Vec<u8> {
        let bits = (self.wrapping.key_bytes() as u32 * 8).to_be_bytes();
        let string = |bytes: &[u8]| der::write(der::OCTET_STRING, bytes);
        let added = self.added.map(|added| der::write(der::context(0), &string(added)));
        let length = der::write(der::context(2), &string(&bits));
        let parts = [self.wrapping_algorithm, &added.unwrap_or_default(), &length];
        der::write_all(der::SEQUENCE, &parts)
    }

    fn derived(&self, secret: &[u8]) -> Zeroizing<Vec<u8>> {
        let (info, length) = (self.shared_info(), self.wrapping.key_bytes());
        let mut key = Zeroizing::new(Vec::new());
        let mut counter = 1u32;
        while key.len() < length {
            let input = Zeroizing::new([secret, &counter.to_be_bytes(), &info].concat());
            key.extend_from_slice(&self.digest.hash().hash(&input));
            counter += 1;
        }
        key.truncate(length);
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_unwrapped_as_the_standard_has_it() {
        // RFC 3394 §4.1.
        let key: Vec<u8> = (0..16).collect();
        let plain: Vec<u8> = (0..16).map(|at| at * 0x11).collect();
        let wrapped = [
            0x1f, 0xa6, 0x8b, 0x0a, 0x81, 0x12, 0xb4, 0x47, 0xae, 0xf3, 0x4b, 0xd8, 0xfb, 0x5a,
            0x7b, 0x82, 0x9d, 0x3e, 0x86, 0x23, 0x71, 0xd2, 0xcf, 0xe5,
        ];
        let unwrapped = KeyWrapping::Aes128.opened(&key, &wrapped).unwrap();
        assert_eq!(unwrapped[..], plain[..]);
        let mut changed = wrapped;
        changed[3] ^= 1;
        assert!(KeyWrapping::Aes128.opened(&key, &changed).is_none());
        assert!(KeyWrapping::Aes256.opened(&key, &wrapped).is_none());
    }
}
