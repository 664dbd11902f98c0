//! Digests of a stream: BLAKE3 always, SHA-256 (FIPS 180-4) when asked for.

use aws_lc_rs::digest::{Context, SHA256};
use entrepot_model::Digests;

/// Whether SHA-256 is computed beside BLAKE3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sha256 {
    /// Yes: about 0.5 s of CPU more a GiB.
    Wanted,
    /// No.
    Unwanted,
}

/// Digests of what was fed so far.
#[derive(Clone)]
pub struct StreamDigest {
    blake3: Box<blake3::Hasher>,
    sha256: Option<Context>,
    length: u64,
}

impl StreamDigest {
    /// Of nothing yet.
    pub fn new(sha256: Sha256) -> Self {
        let sha256 = match sha256 {
            Sha256::Wanted => Some(Context::new(&SHA256)),
            Sha256::Unwanted => None,
        };
        StreamDigest { blake3: Box::default(), sha256, length: 0 }
    }

    /// Feeds the next bytes. Larger pieces are faster: BLAKE3 works on several KiB at once.
    pub fn update(&mut self, bytes: &[u8]) {
        self.blake3.update(bytes);
        if let Some(sha256) = &mut self.sha256 {
            sha256.update(bytes);
        }
        self.length += bytes.len() as u64;
    }

    /// Bytes fed.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The digests of what was fed; more may follow.
    pub fn finish(&self) -> Digests {
        let sha256 =
            self.sha256.clone().and_then(|sha256| sha256.finish().as_ref().try_into().ok());
        Digests { blake3: Some(*self.blake3.finalize().as_bytes()), sha256 }
    }
}

#[cfg(test)]
mod tests {
    use entrepot_model::transfer::hex;

    use super::*;

    #[test]
    fn known_answers() {
        let mut digest = StreamDigest::new(Sha256::Wanted);
        digest.update(b"a");
        digest.update(b"bc");
        let found = digest.finish();
        // FIPS 180-4, example of "abc"; BLAKE3 test vector of "abc".
        assert_eq!(
            hex(&found.sha256.unwrap()),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(
            hex(&found.blake3.unwrap()),
            "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85"
        );
        assert_eq!(digest.length(), 3);
        assert_eq!(StreamDigest::new(Sha256::Unwanted).finish().sha256, None);
    }
}
