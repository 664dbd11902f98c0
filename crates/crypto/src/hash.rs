//! Hashes that clients ask for by name, to compare a file with theirs. MD5, SHA-1 and CRC-32 find
//! accidents, not attackers; nothing of ours relies on them.

use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA384, SHA512};
use md5::{Digest as _, Md5};

/// A hash by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashAlgorithm {
    /// 16 bytes, RFC 1321.
    Md5,
    /// 20 bytes, FIPS 180-4.
    Sha1,
    /// 32 bytes, FIPS 180-4.
    Sha256,
    /// 48 bytes, FIPS 180-4.
    Sha384,
    /// 64 bytes, FIPS 180-4.
    Sha512,
    /// ISO 3309, as of zip; high byte first.
    Crc32,
}

impl HashAlgorithm {
    const NAMED: [(&'static str, HashAlgorithm, usize); 6] = [
        ("md5", HashAlgorithm::Md5, 16),
        ("sha1", HashAlgorithm::Sha1, 20),
        ("sha256", HashAlgorithm::Sha256, 32),
        ("sha384", HashAlgorithm::Sha384, 48),
        ("sha512", HashAlgorithm::Sha512, 64),
        ("crc32", HashAlgorithm::Crc32, 4),
    ];

    fn row(self) -> Option<&'static (&'static str, HashAlgorithm, usize)> {
        Self::NAMED.iter().find(|row| row.1 == self)
    }

    /// The algorithm of a name as `check-file` uses it, such as `sha256`.
    pub fn named(name: &str) -> Option<HashAlgorithm> {
        Self::NAMED.iter().find(|row| row.0 == name).map(|row| row.1)
    }

    /// The name in [`HashAlgorithm::named`].
    pub fn name(self) -> &'static str {
        self.row().map_or("", |row| row.0)
    }

    /// The hash of bytes at hand.
    pub fn hash(self, bytes: &[u8]) -> Vec<u8> {
        let mut hasher = Hasher::new(self);
        hasher.update(bytes);
        hasher.finish()
    }

    /// How many bytes a hash has.
    pub fn bytes(self) -> usize {
        self.row().map_or(0, |row| row.2)
    }
}

/// A hash of what was fed so far.
#[derive(Clone)]
pub struct Hasher(Inner);

#[derive(Clone)]
enum Inner {
    Md5(Md5),
    Crc32(crc32fast::Hasher),
    Sha(Context),
}

impl Hasher {
    /// A hash of no bytes so far.
    pub fn new(algorithm: HashAlgorithm) -> Self {
        Hasher(match algorithm {
            HashAlgorithm::Md5 => Inner::Md5(Md5::new()),
            HashAlgorithm::Crc32 => Inner::Crc32(crc32fast::Hasher::new()),
            HashAlgorithm::Sha1 => Inner::Sha(Context::new(&SHA1_FOR_LEGACY_USE_ONLY)),
            HashAlgorithm::Sha256 => Inner::Sha(Context::new(&SHA256)),
            HashAlgorithm::Sha384 => Inner::Sha(Context::new(&SHA384)),
            HashAlgorithm::Sha512 => Inner::Sha(Context::new(&SHA512)),
        })
    }

    /// Feeds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            Inner::Md5(hasher) => hasher.update(bytes),
            Inner::Crc32(hasher) => hasher.update(bytes),
            Inner::Sha(hasher) => hasher.update(bytes),
        }
    }

    /// The hash of all bytes that were fed.
    pub fn finish(self) -> Vec<u8> {
        match self.0 {
            Inner::Md5(hasher) => hasher.finalize().to_vec(),
            Inner::Crc32(hasher) => hasher.finalize().to_be_bytes().to_vec(),
            Inner::Sha(hasher) => hasher.finish().as_ref().to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        // RFC 1321 §A.5, FIPS 180-4 examples, the check value of CRC-32.
        for (name, input, start, bytes) in [
            ("md5", "abc", "900150983cd24fb0d6963f7d28e17f72", 16),
            ("md5", "", "d41d8cd98f00b204e9800998ecf8427e", 16),
            ("sha1", "abc", "a9993e364706816aba3e25717850c26c9cd0d89d", 20),
            ("sha256", "abc", "ba7816bf8f01cfea", 32),
            ("sha384", "abc", "cb00753f45a35e8b", 48),
            ("sha512", "abc", "ddaf35a193617aba", 64),
            ("crc32", "123456789", "cbf43926", 4),
        ] {
            let algorithm = HashAlgorithm::named(name).unwrap();
            assert_eq!((algorithm.name(), algorithm.bytes()), (name, bytes));
            let mut hasher = Hasher::new(algorithm);
            let (first, rest) = input.as_bytes().split_at(input.len() / 2);
            hasher.update(first);
            hasher.update(rest);
            let hash = hasher.finish();
            assert_eq!(hash.len(), bytes);
            let text: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
            assert!(text.starts_with(start), "{name}: {text}");
        }
        assert_eq!(HashAlgorithm::named("md4"), None);
    }
}
