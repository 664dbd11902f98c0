//! Which algorithms are offered. Lists of our own, for russh's defaults leave out aes128-gcm and
//! still contain SHA-1 signatures and MACs that are not encrypt-then-MAC.

use std::borrow::Cow;

pub use entrepot_nouns::AlgorithmPreset as Preset;
use russh::keys::{Algorithm, EcdsaCurve, HashAlg};
use russh::{Preferred, cipher, compression, kex, mac};

/// What one side offers: a preset, and weak algorithms by their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offered {
    preset: Preset,
    legacy: Vec<String>,
}

/// Key exchange: post-quantum first.
const KEX: &[kex::Name] = &[
    kex::MLKEM768X25519_SHA256,
    kex::CURVE25519,
    kex::CURVE25519_PRE_RFC_8731,
    kex::DH_G16_SHA512,
    kex::DH_G18_SHA512,
];

const KEX_COMPATIBLE: &[kex::Name] = &[
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
];

/// SP 800-56A: curves of SP 800-186 and groups of RFC 3526.
const KEX_FIPS: &[kex::Name] = &[
    kex::ECDH_SHA2_NISTP256,
    kex::ECDH_SHA2_NISTP384,
    kex::ECDH_SHA2_NISTP521,
    kex::DH_G16_SHA512,
    kex::DH_G18_SHA512,
    kex::DH_G14_SHA256,
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

const KEYS_FIPS: &[Algorithm] = &[
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

const CIPHERS_FIPS: &[cipher::Name] = &[
    cipher::AES_128_GCM,
    cipher::AES_256_GCM,
    cipher::AES_256_CTR,
    cipher::AES_192_CTR,
    cipher::AES_128_CTR,
];

/// The ciphers that cost the server least by far (download 2.3 times less CPU than chacha20).
const GCM: &[cipher::Name] = &[cipher::AES_128_GCM, cipher::AES_256_GCM];
/// The same as they stand in a client's KEXINIT.
pub(crate) const GCM_NAMES: &[&str] = &["aes128-gcm@openssh.com", "aes256-gcm@openssh.com"];

const MACS: &[mac::Name] = &[mac::HMAC_SHA256_ETM, mac::HMAC_SHA512_ETM];

const MACS_COMPATIBLE: &[mac::Name] =
    &[mac::HMAC_SHA256_ETM, mac::HMAC_SHA512_ETM, mac::HMAC_SHA256, mac::HMAC_SHA512];

/// Offered by name only; the names are those of [`entrepot_nouns::policy::LEGACY_ALGORITHMS`].
const LEGACY_KEX: &[kex::Name] = &[kex::DH_G14_SHA1];
const LEGACY_CIPHERS: &[cipher::Name] =
    &[cipher::AES_128_CBC, cipher::AES_192_CBC, cipher::AES_256_CBC];
const LEGACY_MACS: &[mac::Name] = &[mac::HMAC_SHA1_ETM, mac::HMAC_SHA1];
/// RSA signatures with SHA-1.
const SSH_RSA: Algorithm = Algorithm::Rsa { hash: None };

/// None: zlib before login is an attack surface, and files are compressed already.
const COMPRESSION: &[compression::Name] = &[compression::NONE];

/// Announced by a server: signature algorithms and strict key exchange.
const SERVER_MARKS: &[kex::Name] =
    &[kex::EXTENSION_SUPPORT_AS_SERVER, kex::EXTENSION_OPENSSH_STRICT_KEX_AS_SERVER];
/// The same by a client.
const CLIENT_MARKS: &[kex::Name] =
    &[kex::EXTENSION_SUPPORT_AS_CLIENT, kex::EXTENSION_OPENSSH_STRICT_KEX_AS_CLIENT];

impl Offered {
    /// A preset, and weak algorithms besides; names that are none of those are left out.
    pub fn new(preset: Preset, legacy: &[String]) -> Self {
        Offered { preset, legacy: legacy.to_vec() }
    }

    pub(crate) fn server(&self) -> Preferred {
        self.with(SERVER_MARKS)
    }

    /// As [`Offered::server`] for a client that has AES-GCM too. In SSH the client's order decides,
    /// and OpenSSH's begins with chacha20; what is not offered to it cannot win.
    pub(crate) fn server_of_gcm(&self) -> Preferred {
        Preferred { cipher: Cow::Borrowed(GCM), ..self.server() }
    }

    pub(crate) fn client(&self) -> Preferred {
        self.with(CLIENT_MARKS)
    }

    /// True if signatures of this algorithm are taken from host keys and users.
    pub(crate) fn accepts(&self, algorithm: &Algorithm) -> bool {
        self.keys().contains(algorithm)
    }

    fn keys(&self) -> Vec<Algorithm> {
        let keys = match self.preset {
            Preset::Modern | Preset::Compatible => KEYS,
            Preset::Fips => KEYS_FIPS,
        };
        let legacy = self.has(SSH_RSA.as_str()).then_some(SSH_RSA);
        keys.iter().cloned().chain(legacy).collect()
    }

    fn has(&self, name: &str) -> bool {
        self.legacy.iter().any(|legacy| legacy == name)
    }

    fn and<N: AsRef<str> + Copy>(&self, usual: &[N], legacy: &[N], marks: &[N]) -> Cow<'static, [N]>
    where
        [N]: ToOwned<Owned = Vec<N>>,
    {
        let weak = legacy.iter().filter(|name| self.has(name.as_ref()));
        Cow::Owned(usual.iter().chain(weak).chain(marks).copied().collect())
    }

    fn with(&self, marks: &[kex::Name]) -> Preferred {
        let kex = match self.preset {
            Preset::Modern => KEX,
            Preset::Compatible => KEX_COMPATIBLE,
            Preset::Fips => KEX_FIPS,
        };
        let ciphers = match self.preset {
            Preset::Modern | Preset::Compatible => CIPHERS,
            Preset::Fips => CIPHERS_FIPS,
        };
        let macs = match self.preset {
            Preset::Modern | Preset::Fips => MACS,
            Preset::Compatible => MACS_COMPATIBLE,
        };
        Preferred {
            kex: self.and(kex, LEGACY_KEX, marks),
            key: Cow::Owned(self.keys()),
            host_key_certificates: Cow::Borrowed(&[]),
            cipher: self.and(ciphers, LEGACY_CIPHERS, &[]),
            mac: self.and(macs, LEGACY_MACS, &[]),
            compression: Cow::Borrowed(COMPRESSION),
        }
    }
}

#[cfg(test)]
mod tests {
    use entrepot_nouns::policy::LEGACY_ALGORITHMS;

    use super::*;

    fn names(preferred: &Preferred) -> Vec<String> {
        let names = preferred.kex.iter().map(AsRef::<str>::as_ref);
        let names = names.chain(preferred.cipher.iter().map(AsRef::as_ref));
        let names = names.chain(preferred.mac.iter().map(AsRef::as_ref));
        let keys = preferred.key.iter().map(Algorithm::as_str);
        names.chain(keys).map(str::to_owned).collect()
    }

    #[test]
    fn strict_key_exchange_is_announced_and_nothing_weak_is() {
        for preset in [Preset::Modern, Preset::Compatible, Preset::Fips] {
            let offered = Offered::new(preset, &[]);
            for (preferred, strict) in [
                (offered.server(), kex::EXTENSION_OPENSSH_STRICT_KEX_AS_SERVER),
                (offered.client(), kex::EXTENSION_OPENSSH_STRICT_KEX_AS_CLIENT),
            ] {
                assert!(preferred.kex.contains(&strict));
                let names = names(&preferred);
                for weak in LEGACY_ALGORITHMS {
                    assert!(!names.iter().any(|name| name == weak), "{weak}");
                }
                assert!(!names.iter().any(|name| name.ends_with("sha1") || name == "3des-cbc"));
                assert_eq!(preferred.compression.as_ref(), [compression::NONE]);
                let first = preferred.kex.first();
                assert_eq!(
                    first == Some(&kex::MLKEM768X25519_SHA256),
                    preset != Preset::Fips,
                    "post-quantum first"
                );
            }
        }
    }

    #[test]
    fn fips_offers_neither_curve25519_nor_chacha20() {
        let names = names(&Offered::new(Preset::Fips, &[]).server()).join(",");
        for not in ["25519", "chacha20", "sk-"] {
            assert!(!names.contains(not), "{not} in {names}");
        }
        assert!(!Offered::new(Preset::Fips, &[]).accepts(&Algorithm::Ed25519));
    }

    #[test]
    fn weak_algorithms_are_offered_by_name_and_last() {
        for weak in LEGACY_ALGORITHMS {
            let offered = Offered::new(Preset::Modern, &[weak.to_owned()]);
            let (plain, more) =
                (names(&Offered::new(Preset::Modern, &[]).server()), { names(&offered.server()) });
            assert_eq!(more.len(), plain.len() + 1, "{weak}");
            assert!(more.iter().any(|name| name == weak), "{weak}");
        }
        let offered = Offered::new(Preset::Modern, &["aes128-cbc".to_owned()]);
        assert_eq!(offered.server().cipher.last(), Some(&cipher::AES_128_CBC));
        assert_eq!(offered.server_of_gcm().cipher.as_ref(), GCM, "who has GCM gets nothing else");
    }
}
