//! New host keys are announced to clients that know an old one, so that they learn them before the
//! old one goes (OpenSSH's PROTOCOL, 2.5).

use russh::keys::PrivateKey;
use russh::keys::signature::Signer;

use crate::wire::{put, software, take};

/// The request that announces.
pub(crate) const ANNOUNCE: &str = "hostkeys-00@openssh.com";
/// The request by which a client asks for proofs.
pub(crate) const PROVE: &str = "hostkeys-prove-00@openssh.com";

/// True if a client of this identification line learns host keys: an error in what it is told is
/// shown to people, so nobody else is told.
pub(crate) fn learns(client: &str) -> bool {
    let software = software(client);
    software.starts_with("OpenSSH_") || software.starts_with("AsyncSSH_")
}

/// All public keys, one string each.
pub(crate) fn announcement(keys: &[PrivateKey]) -> Vec<u8> {
    let mut fields = Vec::new();
    for blob in keys.iter().filter_map(blob) {
        put(&mut fields, &blob);
    }
    fields
}

/// A signature with each key asked for, in that order; `None` if one is not ours, or none is asked.
pub(crate) fn proofs(keys: &[PrivateKey], session: &[u8], asked: &[u8]) -> Option<Vec<u8>> {
    let (mut rest, mut proofs) = (asked, Vec::new());
    let mut count = 0;
    while !rest.is_empty() {
        count += 1;
        let wanted = take(&mut rest)?;
        let key = keys.iter().find(|key| blob(key).as_deref() == Some(wanted))?;
        if count > keys.len() {
            return None;
        }
        let mut message = Vec::new();
        for field in [PROVE.as_bytes(), session, wanted] {
            put(&mut message, field);
        }
        let signature: Vec<u8> = key.try_sign(&message).ok()?.try_into().ok()?;
        put(&mut proofs, &signature);
    }
    (count > 0).then_some(proofs)
}

/// The wire form of the public half (RFC 4253 §6.6).
fn blob(key: &PrivateKey) -> Option<Vec<u8>> {
    key.public_key().to_bytes().ok()
}

#[cfg(test)]
mod tests {
    use entrepot_nouns::Env;
    use russh::keys::signature::Verifier as _;
    use russh::keys::ssh_key::Signature;

    use super::*;
    use crate::keys::{self, KeyKind};

    #[test]
    fn each_key_that_is_asked_for_proves_itself_and_no_other() {
        let env = Env::simulated(1);
        let kinds = [KeyKind::Ed25519, KeyKind::EcdsaP256, KeyKind::Rsa3072];
        let made = kinds.map(|kind| keys::generate_kind(&env, kind, "").unwrap());
        let ours = made.map(|pair| keys::private(&pair.private).unwrap());
        let announced = announcement(&ours);
        let answer = proofs(&ours, b"session", &announced).unwrap();
        let (mut blobs, mut signatures) = (&announced[..], &answer[..]);
        for key in &ours {
            let mut message = Vec::new();
            for field in [PROVE.as_bytes(), b"session", take(&mut blobs).unwrap()] {
                put(&mut message, field);
            }
            let signature = Signature::try_from(take(&mut signatures).unwrap()).unwrap();
            assert!(!signature.algorithm().as_str().contains("ssh-rsa"), "SHA-2 only");
            key.public_key().key_data().verify(&message, &signature).unwrap();
        }
        assert!(blobs.is_empty() && signatures.is_empty());
        let [ed25519, ..] = &ours;
        let one = std::slice::from_ref(ed25519);
        assert_eq!(proofs(one, b"session", &announced), None, "a key that is not ours");
        assert_eq!(proofs(one, b"session", &announcement(&[one[0].clone(), one[0].clone()])), None);
        assert_eq!(proofs(one, b"session", b""), None);
        assert_eq!(proofs(one, b"session", &[0, 0, 0, 9, 1]), None);
    }
}
