//! Names of the digests and ciphers of messages.

use crate::hash::HashAlgorithm;

/// A digest that signatures are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DigestAlgorithm {
    /// 160 bits, broken for signatures of what others choose: for old partners.
    Sha1,
    /// 256 bits, what is usual.
    Sha256,
    /// 384 bits, of the family of SHA-512.
    Sha384,
    /// 512 bits, the strongest here.
    Sha512,
}

impl DigestAlgorithm {
    /// All of them, the weakest first.
    pub const ALL: [DigestAlgorithm; 4] = [Self::Sha1, Self::Sha256, Self::Sha384, Self::Sha512];

    /// The hash that computes it.
    pub fn hash(self) -> HashAlgorithm {
        match self {
            DigestAlgorithm::Sha1 => HashAlgorithm::Sha1,
            DigestAlgorithm::Sha256 => HashAlgorithm::Sha256,
            DigestAlgorithm::Sha384 => HashAlgorithm::Sha384,
            DigestAlgorithm::Sha512 => HashAlgorithm::Sha512,
        }
    }
}

/// A cipher of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentCipher {
    /// AES with a key of 128 bits, CBC.
    Aes128Cbc,
    /// AES with a key of 192 bits, CBC.
    Aes192Cbc,
    /// AES with a key of 256 bits, CBC.
    Aes256Cbc,
    /// AES with a key of 128 bits, GCM.
    Aes128Gcm,
    /// AES with a key of 192 bits, GCM.
    Aes192Gcm,
    /// AES with a key of 256 bits, GCM.
    Aes256Gcm,
    /// Three keys of DES, CBC: for partners who can nothing else.
    TripleDesCbc,
}

impl ContentCipher {
    /// Its name in documents and events, such as `aes-128-cbc`.
    pub fn name(self) -> &'static str {
        match self {
            ContentCipher::Aes128Cbc => "aes-128-cbc",
            ContentCipher::Aes192Cbc => "aes-192-cbc",
            ContentCipher::Aes256Cbc => "aes-256-cbc",
            ContentCipher::Aes128Gcm => "aes-128-gcm",
            ContentCipher::Aes192Gcm => "aes-192-gcm",
            ContentCipher::Aes256Gcm => "aes-256-gcm",
            ContentCipher::TripleDesCbc => "triple-des-cbc",
        }
    }

    /// Bytes of its key.
    pub fn key_bytes(self) -> usize {
        match self {
            ContentCipher::Aes128Cbc | ContentCipher::Aes128Gcm => 16,
            ContentCipher::Aes192Cbc | ContentCipher::Aes192Gcm | ContentCipher::TripleDesCbc => 24,
            ContentCipher::Aes256Cbc | ContentCipher::Aes256Gcm => 32,
        }
    }

    /// Bytes of its IV, of GCM those of the nonce that is written here.
    pub fn iv_bytes(self) -> usize {
        match self {
            ContentCipher::TripleDesCbc => 8,
            _ if self.is_gcm() => 12,
            _ => 16,
        }
    }

    /// Whether a tag proves that the content is as it was encrypted.
    pub fn is_gcm(self) -> bool {
        use ContentCipher::{Aes128Gcm, Aes192Gcm, Aes256Gcm};
        matches!(self, Aes128Gcm | Aes192Gcm | Aes256Gcm)
    }

    /// How long so much content is once it is encrypted; a tag is not counted.
    pub fn encrypted_bytes(self, plain: u64) -> u64 {
        if self.is_gcm() {
            return plain;
        }
        let block = self.iv_bytes() as u64;
        (plain / block + 1) * block
    }
}
