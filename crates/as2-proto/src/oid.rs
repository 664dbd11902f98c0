//! The object identifiers of messages (RFC 5652, 5083, 3274, 3370, 5754, 4055), as the content of
//! their values.

use entrepot_crypto::{ContentCipher, DigestAlgorithm, KeyWrapping};

macro_rules! pkcs {
    ($($number:literal),+) => { &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, $($number),+] };
}

pub(crate) const DATA: &[u8] = pkcs!(1, 7, 1);
pub(crate) const SIGNED_DATA: &[u8] = pkcs!(1, 7, 2);
pub(crate) const ENVELOPED_DATA: &[u8] = pkcs!(1, 7, 3);
pub(crate) const COMPRESSED_DATA: &[u8] = pkcs!(1, 9, 16, 1, 9);
pub(crate) const AUTH_ENVELOPED_DATA: &[u8] = pkcs!(1, 9, 16, 1, 23);
pub(crate) const ZLIB: &[u8] = pkcs!(1, 9, 16, 3, 8);

pub(crate) const CONTENT_TYPE: &[u8] = pkcs!(1, 9, 3);
pub(crate) const MESSAGE_DIGEST: &[u8] = pkcs!(1, 9, 4);
pub(crate) const SIGNING_TIME: &[u8] = pkcs!(1, 9, 5);

pub(crate) const RSA: &[u8] = pkcs!(1, 1, 1);
pub(crate) const RSA_OAEP: &[u8] = pkcs!(1, 1, 7);
pub(crate) const MGF1: &[u8] = pkcs!(1, 1, 8);
pub(crate) const RSA_PSS: &[u8] = pkcs!(1, 1, 10);
pub(crate) const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];

const AES: [u8; 8] = [0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x01];
const TRIPLE_DES_CBC: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 3, 7];

const CIPHERS: [(u8, ContentCipher); 6] = [
    (2, ContentCipher::Aes128Cbc),
    (22, ContentCipher::Aes192Cbc),
    (42, ContentCipher::Aes256Cbc),
    (6, ContentCipher::Aes128Gcm),
    (26, ContentCipher::Aes192Gcm),
    (46, ContentCipher::Aes256Gcm),
];

/// The digest of a standard or cofactor agreement of ECDH (RFC 5753 §7.1.4); on the curves here the
/// two are the same.
pub(crate) fn agreement(oid: &[u8]) -> Option<DigestAlgorithm> {
    match oid {
        [0x2b, 0x81, 0x05, 0x10, 0x86, 0x48, 0x3f, 0x00, 2 | 3] => Some(DigestAlgorithm::Sha1),
        [0x2b, 0x81, 0x04, 0x01, 0x0b | 0x0e, 1] => Some(DigestAlgorithm::Sha256),
        [0x2b, 0x81, 0x04, 0x01, 0x0b | 0x0e, 2] => Some(DigestAlgorithm::Sha384),
        [0x2b, 0x81, 0x04, 0x01, 0x0b | 0x0e, 3] => Some(DigestAlgorithm::Sha512),
        _ => None,
    }
}

/// How a content key is wrapped.
pub(crate) fn key_wrapping(oid: &[u8]) -> Option<KeyWrapping> {
    match oid.strip_prefix(&AES)? {
        [5] => Some(KeyWrapping::Aes128),
        [45] => Some(KeyWrapping::Aes256),
        _ => None,
    }
}

/// The cipher of an identifier.
pub(crate) fn cipher(oid: &[u8]) -> Option<ContentCipher> {
    if oid == TRIPLE_DES_CBC {
        return Some(ContentCipher::TripleDesCbc);
    }
    let number = match oid.strip_prefix(&AES)? {
        [number] => *number,
        _ => return None,
    };
    CIPHERS.iter().find(|row| row.0 == number).map(|row| row.1)
}

/// The identifier of a cipher.
pub(crate) fn of_cipher(cipher: ContentCipher) -> Vec<u8> {
    match CIPHERS.iter().find(|row| row.1 == cipher) {
        Some(row) => [&AES[..], &[row.0]].concat(),
        None => TRIPLE_DES_CBC.to_vec(),
    }
}

/// What an identifier of a signature algorithm says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignatureOid {
    /// RSA v1.5, of the digest that the signer names elsewhere.
    RsaAnyDigest,
    /// RSA v1.5 of this digest.
    Rsa(DigestAlgorithm),
    /// PSS; parameters say which.
    Pss,
    /// ECDSA of this digest.
    Ecdsa(DigestAlgorithm),
    /// ECDSA, of the digest that the signer names elsewhere.
    EcdsaAnyDigest,
}

struct DigestRow {
    algorithm: DigestAlgorithm,
    oid: &'static [u8],
    with_rsa: &'static [u8],
    with_ecdsa: &'static [u8],
}

const DIGESTS: [DigestRow; 4] = [
    DigestRow {
        algorithm: DigestAlgorithm::Sha1,
        oid: &[0x2b, 0x0e, 0x03, 0x02, 0x1a],
        with_rsa: pkcs!(1, 1, 5),
        with_ecdsa: &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 1],
    },
    DigestRow {
        algorithm: DigestAlgorithm::Sha256,
        oid: &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 1],
        with_rsa: pkcs!(1, 1, 11),
        with_ecdsa: &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2],
    },
    DigestRow {
        algorithm: DigestAlgorithm::Sha384,
        oid: &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 2],
        with_rsa: pkcs!(1, 1, 12),
        with_ecdsa: &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 3],
    },
    DigestRow {
        algorithm: DigestAlgorithm::Sha512,
        oid: &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 3],
        with_rsa: pkcs!(1, 1, 13),
        with_ecdsa: &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 4],
    },
];

/// The digest of an identifier.
pub(crate) fn digest(oid: &[u8]) -> Option<DigestAlgorithm> {
    DIGESTS.iter().find(|row| row.oid == oid).map(|row| row.algorithm)
}

/// The identifier of a digest.
pub(crate) fn of_digest(algorithm: DigestAlgorithm) -> &'static [u8] {
    DIGESTS.iter().find(|row| row.algorithm == algorithm).map_or(&[], |row| row.oid)
}

/// The identifier of ECDSA with a digest.
pub(crate) fn ecdsa_with(algorithm: DigestAlgorithm) -> &'static [u8] {
    DIGESTS.iter().find(|row| row.algorithm == algorithm).map_or(&[], |row| row.with_ecdsa)
}

/// What an identifier says of a signature.
pub(crate) fn signature(oid: &[u8]) -> Option<SignatureOid> {
    match oid {
        RSA => return Some(SignatureOid::RsaAnyDigest),
        RSA_PSS => return Some(SignatureOid::Pss),
        EC_PUBLIC_KEY => return Some(SignatureOid::EcdsaAnyDigest),
        _ => {}
    }
    DIGESTS.iter().find_map(|row| {
        let rsa = (row.with_rsa == oid).then_some(SignatureOid::Rsa(row.algorithm));
        rsa.or((row.with_ecdsa == oid).then_some(SignatureOid::Ecdsa(row.algorithm)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The dotted form, as the specifications print it.
    fn dotted(oid: &[u8]) -> String {
        let first = oid[0];
        let mut text = format!("{}.{}", first / 40, first % 40);
        let mut number = 0u64;
        for byte in &oid[1..] {
            number = number << 7 | u64::from(byte & 0x7f);
            if byte & 0x80 == 0 {
                text.push_str(&format!(".{number}"));
                number = 0;
            }
        }
        text
    }

    #[test]
    fn identifiers_are_those_of_the_specifications() {
        let table: [(&[u8], &str); 11] = [
            (DATA, "1.2.840.113549.1.7.1"),
            (SIGNED_DATA, "1.2.840.113549.1.7.2"),
            (ENVELOPED_DATA, "1.2.840.113549.1.7.3"),
            (COMPRESSED_DATA, "1.2.840.113549.1.9.16.1.9"),
            (AUTH_ENVELOPED_DATA, "1.2.840.113549.1.9.16.1.23"),
            (ZLIB, "1.2.840.113549.1.9.16.3.8"),
            (RSA_PSS, "1.2.840.113549.1.1.10"),
            (RSA_OAEP, "1.2.840.113549.1.1.7"),
            (TRIPLE_DES_CBC, "1.2.840.113549.3.7"),
            (of_digest(DigestAlgorithm::Sha1), "1.3.14.3.2.26"),
            (of_digest(DigestAlgorithm::Sha512), "2.16.840.1.101.3.4.2.3"),
        ];
        for (oid, text) in table {
            assert_eq!(dotted(oid), text);
        }
        for number in [2, 22, 42, 6, 26, 46] {
            let oid = [&AES[..], &[number]].concat();
            assert_eq!(dotted(&oid), format!("2.16.840.1.101.3.4.1.{number}"));
            assert_eq!(of_cipher(cipher(&oid).unwrap()), oid);
        }
        assert_eq!(
            cipher(&of_cipher(ContentCipher::TripleDesCbc)),
            Some(ContentCipher::TripleDesCbc)
        );
        assert_eq!(cipher(DATA), None);
    }
}
