//! Ciphers of message content (RFC 3565, 5084, 3370 §5.1), fed piece by piece.

use zeroize::Zeroizing;

use crate::algorithms::ContentCipher;
use crate::ffi::{Cipher, Way};
use crate::tdes::PaddedDecryption;

/// The longest key of a [`ContentCipher`].
pub const MAX_KEY_BYTES: usize = 32;

/// Bytes of a tag of GCM as it is written here; one that is read may have as few as 12.
pub const TAG_BYTES: usize = 16;

/// The content did not decrypt: key, padding or tag, and it is not said which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the content does not decrypt")]
pub struct DecryptError;

/// Turns encrypted content back, piece by piece.
pub struct Decryptor(Decryption);

enum Decryption {
    Library {
        cipher: Cipher,
        kind: ContentCipher,
    },
    /// By code of our own: much faster, and its time says nothing of the key.
    TripleDes(PaddedDecryption),
}

impl Decryptor {
    /// A key or IV of a length that the cipher does not take is refused.
    pub fn new(kind: ContentCipher, key: &[u8], iv: &[u8]) -> Result<Self, DecryptError> {
        if kind == ContentCipher::TripleDesCbc {
            let key = key.try_into().or(Err(DecryptError))?;
            let iv = iv.try_into().or(Err(DecryptError))?;
            return Ok(Decryptor(Decryption::TripleDes(PaddedDecryption::new(key, iv))));
        }
        let cipher = Cipher::new(kind, Way::Decrypt, key, iv).or(Err(DecryptError))?;
        Ok(Decryptor(Decryption::Library { cipher, kind }))
    }

    /// Appends to `output` what the next piece is; up to a block waits inside, of triple DES up to
    /// 4 KiB.
    pub fn update(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<(), DecryptError> {
        match &mut self.0 {
            Decryption::Library { cipher, .. } => {
                cipher.update(input, output).or(Err(DecryptError))
            }
            Decryption::TripleDes(decryption) => {
                decryption.update(input, output);
                Ok(())
            }
        }
    }

    /// Appends the last bytes, once padding or `tag` are right. Content of GCM that was appended
    /// before proves nothing until this succeeds.
    pub fn finish(self, tag: &[u8], output: &mut Vec<u8>) -> Result<(), DecryptError> {
        let (mut cipher, kind) = match self.0 {
            Decryption::Library { cipher, kind } => (cipher, kind),
            Decryption::TripleDes(decryption) => {
                return decryption.finish(output).or(Err(DecryptError));
            }
        };
        if kind.is_gcm() {
            if !(12..=TAG_BYTES).contains(&tag.len()) {
                return Err(DecryptError);
            }
            cipher.expect_tag(tag).or(Err(DecryptError))?;
        }
        cipher.finish(output).or(Err(DecryptError))
    }
}

/// Encrypts content piece by piece.
pub struct Encryptor {
    cipher: Cipher,
    kind: ContentCipher,
}

/// What a cipher starts from. Both come from a random source and are used once.
pub struct ContentSecrets {
    /// The first [`ContentCipher::key_bytes`] are the key.
    pub key: Zeroizing<[u8; MAX_KEY_BYTES]>,
    /// The first [`ContentCipher::iv_bytes`] are the IV.
    pub iv: [u8; 16],
}

impl ContentSecrets {
    /// The key that a cipher takes.
    pub fn key_of(&self, cipher: ContentCipher) -> &[u8] {
        self.key.get(..cipher.key_bytes()).unwrap_or_default()
    }

    /// The IV that a cipher takes.
    pub fn iv_of(&self, cipher: ContentCipher) -> &[u8] {
        self.iv.get(..cipher.iv_bytes()).unwrap_or_default()
    }
}

impl Encryptor {
    /// Fails only where AWS-LC has no memory.
    pub fn new(kind: ContentCipher, secrets: &ContentSecrets) -> Result<Self, DecryptError> {
        let (key, iv) = (secrets.key_of(kind), secrets.iv_of(kind));
        let cipher = Cipher::new(kind, Way::Encrypt, key, iv).or(Err(DecryptError))?;
        Ok(Encryptor { cipher, kind })
    }

    /// Appends what the next piece turns into.
    pub fn update(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<(), DecryptError> {
        self.cipher.update(input, output).or(Err(DecryptError))
    }

    /// Appends the last block, and of GCM returns the tag.
    pub fn finish(mut self, output: &mut Vec<u8>) -> Result<Option<[u8; TAG_BYTES]>, DecryptError> {
        self.cipher.finish(output).or(Err(DecryptError))?;
        if !self.kind.is_gcm() {
            return Ok(None);
        }
        self.cipher.tag().map(Some).or(Err(DecryptError))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [ContentCipher; 7] = [
        ContentCipher::Aes128Cbc,
        ContentCipher::Aes192Cbc,
        ContentCipher::Aes256Cbc,
        ContentCipher::Aes128Gcm,
        ContentCipher::Aes192Gcm,
        ContentCipher::Aes256Gcm,
        ContentCipher::TripleDesCbc,
    ];

    fn secrets() -> ContentSecrets {
        let key: Vec<u8> = (1..=32).map(|byte| byte * 7).collect();
        ContentSecrets { key: Zeroizing::new(key.try_into().unwrap()), iv: [9; 16] }
    }

    fn encrypted(kind: ContentCipher, plain: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let mut output = Vec::new();
        let mut encryptor = Encryptor::new(kind, &secrets()).unwrap();
        for piece in plain.chunks(13) {
            encryptor.update(piece, &mut output).unwrap();
        }
        let tag = encryptor.finish(&mut output).unwrap();
        (output, tag.map_or(Vec::new(), |tag| tag.to_vec()))
    }

    fn decrypted(kind: ContentCipher, sealed: &[u8], tag: &[u8]) -> Result<Vec<u8>, DecryptError> {
        let secrets = secrets();
        let mut output = Vec::new();
        let mut decryptor = Decryptor::new(kind, secrets.key_of(kind), secrets.iv_of(kind))?;
        for piece in sealed.chunks(7) {
            decryptor.update(piece, &mut output)?;
        }
        decryptor.finish(tag, &mut output)?;
        Ok(output)
    }

    #[test]
    fn every_cipher_turns_back_at_every_length_and_cut() {
        for kind in ALL {
            for length in [0usize, 1, 7, 8, 15, 16, 17, 100, 1000] {
                let plain: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
                let (sealed, tag) = encrypted(kind, &plain);
                assert_eq!(sealed.len() as u64, kind.encrypted_bytes(length as u64), "{kind:?}");
                assert_eq!(decrypted(kind, &sealed, &tag).unwrap(), plain, "{kind:?} {length}");
            }
        }
    }

    #[test]
    fn what_was_changed_is_refused() {
        let plain = [b'x'; 64];
        for kind in ALL {
            let (mut sealed, mut tag) = encrypted(kind, &plain);
            assert!(decrypted(kind, &sealed[..sealed.len() - 1], &tag).is_err(), "{kind:?}");
            if kind.is_gcm() {
                assert!(decrypted(kind, &sealed, &tag[..11]).is_err());
                assert!(decrypted(kind, &sealed, &tag[..12]).is_ok());
                tag[0] ^= 1;
                assert!(decrypted(kind, &sealed, &tag).is_err());
            } else {
                // The last byte of the padding becomes one that no block has.
                let at = sealed.len() - 1 - kind.iv_bytes();
                sealed[at] ^= 0xf0;
                assert!(decrypted(kind, &sealed, &tag).is_err(), "{kind:?}");
            }
        }
    }

    #[test]
    fn aes_is_that_of_the_standard() {
        // NIST SP 800-38A F.2.1, first block.
        let key = [
            0x2b, 0x7e, 0x15, 0x16, 0x28, 0xae, 0xd2, 0xa6, 0xab, 0xf7, 0x15, 0x88, 0x09, 0xcf,
            0x4f, 0x3c,
        ];
        let iv: Vec<u8> = (0..16).collect();
        let mut secrets =
            ContentSecrets { key: Zeroizing::new([0; 32]), iv: iv.try_into().unwrap() };
        secrets.key[..16].copy_from_slice(&key);
        let plain = [
            0x6b, 0xc1, 0xbe, 0xe2, 0x2e, 0x40, 0x9f, 0x96, 0xe9, 0x3d, 0x7e, 0x11, 0x73, 0x93,
            0x17, 0x2a,
        ];
        let mut output = Vec::new();
        let mut encryptor = Encryptor::new(ContentCipher::Aes128Cbc, &secrets).unwrap();
        encryptor.update(&plain, &mut output).unwrap();
        assert_eq!(output[..4], [0x76, 0x49, 0xab, 0xac]);
    }
}
