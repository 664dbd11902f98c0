//! What a client says of the bytes of one request, and whether it is so.

use entrepot_crypto::{HashAlgorithm, Hasher};

/// What the bytes of one request must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// CRC-32C (RFC 9260, appendix A): finds accidents, at hardly any cost.
    Crc32c(u32),
    /// A hash that [`HashAlgorithm`] names.
    Hash {
        /// Which hash it is.
        algorithm: HashAlgorithm,
        /// The hash of the bytes.
        value: Vec<u8>,
    },
}

/// The comparison while the bytes come.
pub(super) enum Check {
    Crc32c { wanted: u32, found: u32 },
    Hash { wanted: Vec<u8>, found: Box<Hasher> },
}

impl Check {
    pub(super) fn new(checksum: Checksum) -> Check {
        match checksum {
            Checksum::Crc32c(wanted) => Check::Crc32c { wanted, found: 0 },
            Checksum::Hash { algorithm, value } => {
                Check::Hash { wanted: value, found: Box::new(Hasher::new(algorithm)) }
            }
        }
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        match self {
            Check::Crc32c { found, .. } => *found = crc32c::crc32c_append(*found, bytes),
            Check::Hash { found, .. } => found.update(bytes),
        }
    }

    pub(super) fn agrees(self) -> bool {
        match self {
            Check::Crc32c { wanted, found } => wanted == found,
            Check::Hash { wanted, found } => wanted == found.finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        let agrees = |checksum| {
            let mut check = Check::new(checksum);
            check.update(b"12345");
            check.update(b"6789");
            check.agrees()
        };
        // The check value of CRC-32C, and that of SHA-1 as `sha1sum` says it.
        assert!(agrees(Checksum::Crc32c(0xe306_9283)));
        assert!(!agrees(Checksum::Crc32c(0xcbf4_3926)));
        let sha1 = HashAlgorithm::Sha1.hash(b"123456789");
        let of = |value| Checksum::Hash { algorithm: HashAlgorithm::Sha1, value };
        assert!(agrees(of(sha1.clone())));
        assert!(!agrees(of(sha1[1..].to_vec())));
    }
}
