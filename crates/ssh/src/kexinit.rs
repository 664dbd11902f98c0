//! What a client offers in its KEXINIT (RFC 4253 §7.1), and what follows from it.

use russh::Preferred;
use russh::keys::{Algorithm, Certificate, PrivateKey};

use crate::wire;

/// SSH_MSG_KEXINIT (RFC 4253 §12).
pub(crate) const KEXINIT: u8 = 20;
/// Length of the cookie before the lists.
const COOKIE_BYTES: usize = 16;

/// The lists of a KEXINIT that concern us, as they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offer {
    kex: String,
    host_key: String,
    cipher_in: String,
    cipher_out: String,
    mac_in: String,
    mac_out: String,
}

/// Algorithms in use on a connection, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Algorithms {
    /// The method of key exchange, such as `curve25519-sha256`.
    pub kex: String,
    /// The host key's signature.
    pub host_key: String,
    /// Cipher from the client to us.
    pub cipher_in: String,
    /// Cipher from us to the client.
    pub cipher_out: String,
    /// MAC from the client to us; empty with a cipher that authenticates by itself.
    pub mac_in: String,
    /// MAC from us to the client.
    pub mac_out: String,
}

impl std::fmt::Display for Algorithms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.kex, self.host_key, self.cipher_in)?;
        if !self.mac_in.is_empty() {
            write!(f, " {}", self.mac_in)?;
        }
        if self.cipher_out != self.cipher_in || self.mac_out != self.mac_in {
            write!(f, " / {} {}", self.cipher_out, self.mac_out)?;
        }
        Ok(())
    }
}

impl Offer {
    /// From a binary packet behind its length: padding length, type, cookie, lists.
    pub(crate) fn parse(packet: &[u8]) -> Option<Self> {
        let (head, mut lists) = packet.split_at_checked(1 + 1 + COOKIE_BYTES)?;
        if head.get(1) != Some(&KEXINIT) {
            return None;
        }
        let mut next = || {
            let list = wire::take(&mut lists)?;
            std::str::from_utf8(list).ok().map(str::to_owned)
        };
        Some(Offer {
            kex: next()?,
            host_key: next()?,
            cipher_in: next()?,
            cipher_out: next()?,
            mac_in: next()?,
            mac_out: next()?,
        })
    }

    /// True if one of these ciphers is offered in each direction.
    pub(crate) fn has_cipher(&self, names: &[&str]) -> bool {
        let has = |list: &str| list.split(',').any(|offered| names.contains(&offered));
        has(&self.cipher_in) && has(&self.cipher_out)
    }

    /// What both sides will use: of each list the client's first that the server has.
    pub(crate) fn agree(
        &self,
        preferred: &Preferred,
        keys: &[PrivateKey],
        certificates: &[Certificate],
    ) -> Algorithms {
        let kex: Vec<&str> = preferred.kex.iter().map(AsRef::as_ref).collect();
        let ciphers: Vec<&str> = preferred.cipher.iter().map(AsRef::as_ref).collect();
        let macs: Vec<&str> = preferred.mac.iter().map(AsRef::as_ref).collect();
        let mut host_keys = Vec::new();
        for algorithm in preferred.key.iter() {
            if keys.iter().any(|key| is_of(&key.algorithm(), algorithm)) {
                host_keys.push(algorithm.as_str().to_owned());
            }
            if certificates.iter().any(|it| is_of(&it.algorithm(), algorithm)) {
                host_keys.push(algorithm.to_certificate_type());
            }
        }
        let host_keys: Vec<&str> = host_keys.iter().map(String::as_str).collect();
        let (cipher_in, cipher_out) =
            (first(&self.cipher_in, &ciphers), first(&self.cipher_out, &ciphers));
        let mac = |cipher: &str, list: &str| {
            let own = cipher.contains("-gcm") || cipher.contains("poly1305");
            if own { String::new() } else { first(list, &macs) }
        };
        Algorithms {
            kex: first(&self.kex, &kex),
            host_key: first(&self.host_key, &host_keys),
            mac_in: mac(&cipher_in, &self.mac_in),
            mac_out: mac(&cipher_out, &self.mac_out),
            cipher_in,
            cipher_out,
        }
    }
}

/// True if a key of one algorithm can make signatures of the other: RSA has several.
fn is_of(key: &Algorithm, signature: &Algorithm) -> bool {
    match signature {
        Algorithm::Rsa { .. } => matches!(key, Algorithm::Rsa { .. }),
        other => key == other,
    }
}

fn first(offered: &str, known: &[&str]) -> String {
    offered.split(',').find(|name| known.contains(name)).unwrap_or_default().to_owned()
}

/// For fuzzing: whatever comes is read or refused.
pub fn fuzz(data: &[u8]) {
    if let Some(offer) = Offer::parse(data) {
        let _ = offer.has_cipher(&["aes128-gcm@openssh.com"]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::{Offered, Preset};
    use crate::keys;

    fn packet(lists: &[&str]) -> Vec<u8> {
        let mut packet = vec![4, KEXINIT];
        packet.extend([7; COOKIE_BYTES]);
        for list in lists {
            wire::put(&mut packet, list.as_bytes());
        }
        packet
    }

    #[test]
    fn what_both_sides_have_is_the_clients_first() {
        let packet = packet(&[
            "sntrup761x25519-sha512,curve25519-sha256,ext-info-c",
            "ssh-ed25519-cert-v01@openssh.com,ssh-ed25519",
            "chacha20-poly1305@openssh.com,aes128-gcm@openssh.com",
            "aes128-ctr",
            "hmac-sha2-256",
            "hmac-sha2-256,hmac-sha2-512-etm@openssh.com",
        ]);
        let offer = Offer::parse(&packet).unwrap();
        assert!(!offer.has_cipher(&["aes128-gcm@openssh.com"]), "in one direction only");
        assert!(offer.has_cipher(&["aes128-gcm@openssh.com", "aes128-ctr"]));
        let pair = keys::generate(&entrepot_nouns::Env::simulated(1), "x").unwrap();
        let key = keys::private(&pair.private).unwrap();
        let preferred = Offered::new(Preset::Modern, &[]).server();
        let agreed = offer.agree(&preferred, &[key], &[]);
        assert_eq!(
            agreed.to_string(),
            "curve25519-sha256 ssh-ed25519 chacha20-poly1305@openssh.com / aes128-ctr \
             hmac-sha2-512-etm@openssh.com"
        );
        for cut in 0..packet.len() {
            assert_eq!(Offer::parse(&packet[..cut]), None, "cut at {cut}");
        }
    }
}
