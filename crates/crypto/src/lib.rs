//! Cryptography that needs nothing but CPU: digests of streams, password hashes, sealing at rest,
//! Merkle trees and signed notes, tokens that clients show, signatures of passkeys; the keys,
//! certificates and ciphers of messages that travel by AS2.

mod agreement;
mod algorithms;
pub mod bearer_token;
pub mod cipher;
pub mod container;
pub mod der;
mod derived_id;
pub mod digest;
mod document;
mod ffi;
pub mod hash;
pub mod key;
pub mod limits;
pub mod merkle;
pub mod passkey;
pub mod password;
pub mod process_key;
pub mod recovery_code;
pub mod seal;
pub mod sealing_context;
pub mod signed_note;
mod tdes;
pub mod totp;
pub mod webhook;
pub mod x509;

pub use agreement::{KeyAgreement, KeyWrapping};
pub use algorithms::{ContentCipher, DigestAlgorithm};
pub use bearer_token::{BearerKind, TokenError, TokenHash};
pub use derived_id::derived_id;
pub use digest::{Sha256, StreamDigest};
pub use document::document_version;
pub use hash::{HashAlgorithm, Hasher};
pub use key::{KeyTransport, PrivateKey, PublicKey, SignatureScheme};
pub use passkey::PasskeyKey;
pub use password::HashCost;
pub use process_key::ProcessKey;
pub use seal::MasterKey;
pub use sealing_context::SealingContext;
pub use signed_note::{Checkpoint, NoteError, NoteSigner, NoteVerifier};
pub use x509::Certificate;

use entrepot_nouns::Env;

/// Compares without telling by its time where two values differ. Lengths are not secret.
pub fn constant_time_eq(a: &[u8], b: &[u8]) -> bool {
    use subtle::ConstantTimeEq;
    a.ct_eq(b).into()
}

/// Random letters and digits, each of 62 equally likely: about 5.95 bits a letter.
pub fn random_text(env: &Env, length: usize) -> String {
    const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let mut text = String::with_capacity(length);
    let mut random = [0u8; 64];
    while text.len() < length {
        env.fill_random(&mut random);
        // A byte above the largest multiple of 62 would prefer some letters: it is dropped.
        let fair = random.iter().filter(|byte| **byte < 248);
        let letters = fair.filter_map(|byte| LETTERS.get(usize::from(*byte % 62)));
        text.extend(letters.take(length - text.len()).map(|letter| char::from(*letter)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_text_is_unbiased() {
        let env = Env::simulated(1);
        let text = random_text(&env, 62_000);
        assert_eq!(text.len(), 62_000);
        let mut counts = [0u32; 128];
        for byte in text.bytes() {
            counts[usize::from(byte)] += 1;
        }
        let used: Vec<u32> = counts.into_iter().filter(|count| *count > 0).collect();
        assert_eq!(used.len(), 62);
        assert!(used.iter().all(|count| (850..1150).contains(count)), "{used:?}");
    }

    #[test]
    fn comparison() {
        assert!(constant_time_eq(b"same", b"same"));
        assert!(!constant_time_eq(b"same", b"sama"));
        assert!(!constant_time_eq(b"same", b"sam"));
    }
}
