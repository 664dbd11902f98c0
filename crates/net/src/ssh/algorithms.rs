//! Which algorithms are offered. Lists of our own, for russh's defaults leave out aes128-gcm and
//! still contain SHA-1 signatures and MACs that are not encrypt-then-MAC.

use std::borrow::Cow;

use russh::keys::{Algorithm, EcdsaCurve, HashAlg};
use russh::{Preferred, cipher, compression, kex, mac};

/// A set of algorithms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preset {
    /// Post-quantum and modern key exchange, AEAD and encrypt-then-MAC only.
    #[default]
    Modern,
    /// Adds what clients of about 2014 need; nothing with SHA-1, CBC or below 112 bits.
    Compatible,
}

/// As a server: with the announcements of strict key exchange and of signature algorithms.
const SERVER_KEX: &[kex::Name] = &[
    kex::MLKEM768X25519_SHA256,
    kex::CURVE25519,
    kex::CURVE25519_PRE_RFC_8731,
    kex::DH_G16_SHA512,
    kex::DH_G18_SHA512,
    kex::EXTENSION_SUPPORT_AS_SERVER,
    kex::EXTENSION_OPENSSH_STRICT_KEX_AS_SERVER,
];

const SERVER_KEX_COMPATIBLE: &[kex::Name] = &[
    kex::MLKEM768X25519_SHA256,
    kex::CURVE25519,
    kex::CURVE25519_PRE_RFC_8731,
    kex::DH_G16_SHA512,
    kex::DH_G18_SHA512,
    kex::ECDH_SHA2_NISTP256,
    kex::ECDH_SHA2_NISTP384,
    kex::ECDH_SHA2_NISTP521,
    kex::DH_GEX_SHA256,
    kex::DH_G14_SHA256,
    kex::EXTENSION_SUPPORT_AS_SERVER,
    kex::EXTENSION_OPENSSH_STRICT_KEX_AS_SERVER,
];

const CLIENT_KEX: &[kex::Name] = &[
    kex::MLKEM768X25519_SHA256,
    kex::CURVE25519,
    kex::CURVE25519_PRE_RFC_8731,
    kex::DH_G16_SHA512,
    kex::DH_G18_SHA512,
    kex::EXTENSION_SUPPORT_AS_CLIENT,
    kex::EXTENSION_OPENSSH_STRICT_KEX_AS_CLIENT,
];

const CLIENT_KEX_COMPATIBLE: &[kex::Name] = &[
    kex::MLKEM768X25519_SHA256,
    kex::CURVE25519,
    kex::CURVE25519_PRE_RFC_8731,
    kex::DH_G16_SHA512,
    kex::DH_G18_SHA512,
    kex::ECDH_SHA2_NISTP256,
    kex::ECDH_SHA2_NISTP384,
    kex::ECDH_SHA2_NISTP521,
    kex::DH_GEX_SHA256,
    kex::DH_G14_SHA256,
    kex::EXTENSION_SUPPORT_AS_CLIENT,
    kex::EXTENSION_OPENSSH_STRICT_KEX_AS_CLIENT,
];

/// Host keys, and the user keys announced as `server-sig-algs` (RFC 8308 §3.1).
const KEYS: &[Algorithm] = &[
    Algorithm::Ed25519,
    Algorithm::SkEd25519,
    Algorithm::SkEcdsaSha2NistP256,
    Algorithm::Ecdsa { curve: EcdsaCurve::NistP256 },
    Algorithm::Ecdsa { curve: EcdsaCurve::NistP384 },
    Algorithm::Ecdsa { curve: EcdsaCurve::NistP521 },
    Algorithm::Rsa { hash: Some(HashAlg::Sha512) },
    Algorithm::Rsa { hash: Some(HashAlg::Sha256) },
];

/// aes128-gcm first: the fastest where the CPU has AES, and nothing weaker in practice.
const CIPHERS: &[cipher::Name] = &[
    cipher::AES_128_GCM,
    cipher::AES_256_GCM,
    cipher::CHACHA20_POLY1305,
    cipher::AES_256_CTR,
    cipher::AES_192_CTR,
    cipher::AES_128_CTR,
];

/// The ciphers that cost the server least by far (download 2.3 times less CPU than chacha20).
const GCM: &[cipher::Name] = &[cipher::AES_128_GCM, cipher::AES_256_GCM];
/// Their names.
pub(crate) const GCM_NAMES: &[&str] = &["aes128-gcm@openssh.com", "aes256-gcm@openssh.com"];

const MACS: &[mac::Name] = &[mac::HMAC_SHA256_ETM, mac::HMAC_SHA512_ETM];

const MACS_COMPATIBLE: &[mac::Name] =
    &[mac::HMAC_SHA256_ETM, mac::HMAC_SHA512_ETM, mac::HMAC_SHA256, mac::HMAC_SHA512];

/// None: zlib before login is an attack surface, and files are compressed already.
const COMPRESSION: &[compression::Name] = &[compression::NONE];

impl Preset {
    pub(crate) fn server(self) -> Preferred {
        self.with(match self {
            Preset::Modern => SERVER_KEX,
            Preset::Compatible => SERVER_KEX_COMPATIBLE,
        })
    }

    /// As [`Preset::server`] for a client that has AES-GCM too. In SSH the client's order decides,
    /// and OpenSSH's begins with chacha20; what is not offered to it cannot win.
    pub(crate) fn server_of_gcm(self) -> Preferred {
        Preferred { cipher: Cow::Borrowed(GCM), ..self.server() }
    }

    pub(crate) fn client(self) -> Preferred {
        self.with(match self {
            Preset::Modern => CLIENT_KEX,
            Preset::Compatible => CLIENT_KEX_COMPATIBLE,
        })
    }

    fn with(self, kex: &'static [kex::Name]) -> Preferred {
        Preferred {
            kex: Cow::Borrowed(kex),
            key: Cow::Borrowed(KEYS),
            host_key_certificates: Cow::Borrowed(&[]),
            cipher: Cow::Borrowed(CIPHERS),
            mac: Cow::Borrowed(match self {
                Preset::Modern => MACS,
                Preset::Compatible => MACS_COMPATIBLE,
            }),
            compression: Cow::Borrowed(COMPRESSION),
        }
    }
}

/// True if a user may log in with a signature of this algorithm.
pub(crate) fn is_accepted(algorithm: &Algorithm) -> bool {
    KEYS.contains(algorithm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strict_key_exchange_is_announced_and_nothing_weak_is() {
        for preset in [Preset::Modern, Preset::Compatible] {
            for (preferred, strict) in [
                (preset.server(), kex::EXTENSION_OPENSSH_STRICT_KEX_AS_SERVER),
                (preset.client(), kex::EXTENSION_OPENSSH_STRICT_KEX_AS_CLIENT),
            ] {
                assert!(preferred.kex.contains(&strict));
                assert_eq!(preferred.kex.first(), Some(&kex::MLKEM768X25519_SHA256));
                let names = preferred.kex.iter().map(AsRef::as_ref);
                let names = names.chain(preferred.cipher.iter().map(AsRef::as_ref));
                let names = names.chain(preferred.mac.iter().map(AsRef::as_ref));
                for name in names {
                    let name: &str = name;
                    assert!(!name.contains("sha1") && !name.contains("cbc"), "{name}");
                }
                assert!(!preferred.key.contains(&Algorithm::Rsa { hash: None }));
                assert_eq!(preferred.compression.as_ref(), [compression::NONE]);
            }
        }
    }
}
