//! The message integrity check (RFC 4130 §7.3.1): digests of the bytes that came, names of their
//! algorithms, and how two of them are compared.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use entrepot_crypto::DigestAlgorithm;
use entrepot_crypto::hash::Hasher;

use crate::mime::base64_decoded;

/// How a digest is called in `micalg` and in receipts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MicalgStyle {
    /// `sha-256`, of RFC 5751.
    #[default]
    Dashed,
    /// `sha256`, of RFC 3851.
    Plain,
}

/// The digest of a name: in any case, with or without dashes, alone or as part of the name of a
/// signature.
pub fn micalg(name: &str) -> Option<DigestAlgorithm> {
    let name = name.trim().trim_matches('"').to_ascii_lowercase();
    let name = name.strip_prefix("rsassa-pss-").or(name.strip_prefix("rsa-")).unwrap_or(&name);
    match name.replace(['-', '_'], "").as_str() {
        "sha1" => Some(DigestAlgorithm::Sha1),
        "sha256" | "sha2256" => Some(DigestAlgorithm::Sha256),
        "sha384" | "sha2384" => Some(DigestAlgorithm::Sha384),
        "sha512" | "sha2512" => Some(DigestAlgorithm::Sha512),
        _ => None,
    }
}

/// The name of a digest.
pub fn micalg_name(algorithm: DigestAlgorithm, style: MicalgStyle) -> &'static str {
    match (algorithm, style) {
        (DigestAlgorithm::Sha1, MicalgStyle::Dashed) => "sha-1",
        (DigestAlgorithm::Sha256, MicalgStyle::Dashed) => "sha-256",
        (DigestAlgorithm::Sha384, MicalgStyle::Dashed) => "sha-384",
        (DigestAlgorithm::Sha512, MicalgStyle::Dashed) => "sha-512",
        (DigestAlgorithm::Sha1, MicalgStyle::Plain) => "sha1",
        (DigestAlgorithm::Sha256, MicalgStyle::Plain) => "sha256",
        (DigestAlgorithm::Sha384, MicalgStyle::Plain) => "sha384",
        (DigestAlgorithm::Sha512, MicalgStyle::Plain) => "sha512",
    }
}

/// A digest and its algorithm. Two are equal whatever spelling they came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mic {
    /// What the digest is.
    pub algorithm: DigestAlgorithm,
    /// The bytes of it.
    pub digest: Vec<u8>,
}

impl Mic {
    /// Reads `base64, algorithm` as in `Received-Content-MIC`.
    pub fn parse(text: &str) -> Option<Mic> {
        let (digest, algorithm) = text.rsplit_once(',')?;
        let algorithm = micalg(algorithm)?;
        let digest = base64_decoded(digest.as_bytes()).ok()?;
        (digest.len() == algorithm.hash().bytes()).then_some(Mic { algorithm, digest })
    }

    /// As it stands in a receipt.
    pub fn text(&self, style: MicalgStyle) -> String {
        format!("{}, {}", STANDARD.encode(&self.digest), micalg_name(self.algorithm, style))
    }
}

impl fmt::Display for Mic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(MicalgStyle::Dashed))
    }
}

#[derive(Clone)]
struct Running {
    algorithm: DigestAlgorithm,
    hasher: Hasher,
}

/// Digests over one stream of bytes, in one pass. Where a line ends in LF alone, digests over the
/// same text with CRLF are computed beside: a signer may have counted those.
#[derive(Clone)]
pub(crate) struct Digests {
    raw: Vec<Running>,
    canonical: Option<Vec<Running>>,
    lines: Lines,
}

/// Whether line ends are looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lines {
    /// They are; this is the byte before the next one.
    Watched { last: u8 },
    /// The content is binary: it is signed as it is.
    Ignored,
}

/// Whose bytes a digest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineEnds {
    /// Those that came.
    AsReceived,
    /// CRLF where LF came.
    Canonical,
}

fn update_all(all: &mut [Running], bytes: &[u8]) {
    all.iter_mut().for_each(|running| running.hasher.update(bytes));
}

impl Digests {
    pub(crate) fn new(algorithms: &[DigestAlgorithm]) -> Self {
        let mut sorted = algorithms.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let running = |algorithm: DigestAlgorithm| Running {
            algorithm,
            hasher: Hasher::new(algorithm.hash()),
        };
        Digests {
            raw: sorted.into_iter().map(running).collect(),
            canonical: None,
            lines: Lines::Watched { last: 0 },
        }
    }

    /// What follows is binary: only the bytes that came count.
    pub(crate) fn ignore_lines(&mut self) {
        self.lines = Lines::Ignored;
        self.canonical = None;
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        if let Lines::Watched { last } = self.lines {
            self.watch(bytes, last);
        } else {
            update_all(&mut self.raw, bytes);
        }
    }

    fn watch(&mut self, bytes: &[u8], last: u8) {
        let before = |at: usize| at.checked_sub(1).and_then(|at| bytes.get(at));
        let ends = memchr::memchr_iter(b'\n', bytes)
            .filter(|at| before(*at).copied().unwrap_or(last) != b'\r');
        let mut start = 0;
        let mut raw_start = 0;
        // Lines are short: they are put together, so that the digests see much at a time.
        let mut text = Vec::new();
        for at in ends {
            if self.canonical.is_none() {
                // Up to here both are the same.
                update_all(&mut self.raw, bytes.get(raw_start..at).unwrap_or_default());
                raw_start = at;
                start = at;
                self.canonical = Some(self.raw.clone());
            }
            text.extend_from_slice(bytes.get(start..at).unwrap_or_default());
            text.extend_from_slice(b"\r\n");
            start = at + 1;
        }
        update_all(&mut self.raw, bytes.get(raw_start..).unwrap_or_default());
        if let Some(canonical) = &mut self.canonical {
            text.extend_from_slice(bytes.get(start..).unwrap_or_default());
            update_all(canonical, &text);
        }
        if let Some(last) = bytes.last() {
            self.lines = Lines::Watched { last: *last };
        }
    }

    /// The digests of what came so far.
    pub(crate) fn snapshot(&self) -> Finished {
        self.clone().finish()
    }

    pub(crate) fn finish(self) -> Finished {
        let finish = |all: Vec<Running>| -> Vec<Mic> {
            let one = |running: Running| Mic {
                algorithm: running.algorithm,
                digest: running.hasher.finish(),
            };
            all.into_iter().map(one).collect()
        };
        Finished { raw: finish(self.raw), canonical: finish(self.canonical.unwrap_or_default()) }
    }
}

/// Digests that are done.
#[derive(Debug, Clone, Default)]
pub(crate) struct Finished {
    raw: Vec<Mic>,
    canonical: Vec<Mic>,
}

impl Finished {
    /// A digest that was computed before.
    pub(crate) fn one(mic: Mic) -> Finished {
        Finished { raw: vec![mic], canonical: Vec::new() }
    }

    /// The digest of an algorithm, where it was computed.
    pub(crate) fn of(&self, algorithm: DigestAlgorithm, ends: LineEnds) -> Option<&Mic> {
        let all = match ends {
            LineEnds::AsReceived => &self.raw,
            LineEnds::Canonical => &self.canonical,
        };
        all.iter().find(|mic| mic.algorithm == algorithm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_all_spellings_are_known() {
        use DigestAlgorithm::{Sha1, Sha256, Sha384, Sha512};
        let table = [
            ("sha1", Some(Sha1)),
            ("sha-1", Some(Sha1)),
            ("SHA1", Some(Sha1)),
            ("sha256", Some(Sha256)),
            ("Sha-256", Some(Sha256)),
            ("sha2-256", Some(Sha256)),
            ("rsa-sha256", Some(Sha256)),
            ("rsassa-pss-sha-256", Some(Sha256)),
            (" \"sha-384\" ", Some(Sha384)),
            ("sha512", Some(Sha512)),
            ("md5", None),
            ("sha", None),
            ("", None),
        ];
        for (name, expected) in table {
            assert_eq!(micalg(name), expected, "{name}");
        }
        for algorithm in DigestAlgorithm::ALL {
            for style in [MicalgStyle::Dashed, MicalgStyle::Plain] {
                assert_eq!(micalg(micalg_name(algorithm, style)), Some(algorithm));
            }
        }
    }

    #[test]
    fn mics_compare_by_what_they_are() {
        let mic = |text: &str| Mic::parse(text);
        let digest = STANDARD.encode([7; 20]);
        let plain = mic(&format!("{digest}, sha1")).unwrap();
        assert_eq!(mic(&format!(" {}\t{},SHA-1", &digest[..9], &digest[9..])), Some(plain.clone()));
        assert_eq!(mic(&plain.text(MicalgStyle::Plain)), Some(plain.clone()));
        assert_eq!(mic(&plain.to_string()), Some(plain));
        for bad in ["", "sha1", ", sha1", "AAAA, sha1", &format!("{digest}, md5")] {
            assert_eq!(mic(bad), None, "{bad}");
        }
    }

    #[test]
    fn both_forms_of_line_ends_are_counted_at_every_cut() {
        let table = [
            ("a\r\nb\r\n", None),
            ("a\nb\r\nc\n", Some("a\r\nb\r\nc\r\n")),
            ("\n\n", Some("\r\n\r\n")),
            ("a\r\n\nb", Some("a\r\n\r\nb")),
        ];
        for (text, canonical) in table {
            for piece in 1..=text.len() {
                let mut digests = Digests::new(&[DigestAlgorithm::Sha256]);
                text.as_bytes().chunks(piece).for_each(|piece| digests.update(piece));
                let done = digests.finish();
                let of = |text: &str| DigestAlgorithm::Sha256.hash().hash(text.as_bytes());
                let found =
                    |ends| done.of(DigestAlgorithm::Sha256, ends).map(|mic| mic.digest.clone());
                assert_eq!(found(LineEnds::AsReceived), Some(of(text)), "{text:?} {piece}");
                assert_eq!(found(LineEnds::Canonical), canonical.map(of), "{text:?} {piece}");
            }
        }
    }

    #[test]
    fn binary_content_is_never_changed() {
        let mut digests = Digests::new(&[DigestAlgorithm::Sha1, DigestAlgorithm::Sha1]);
        digests.update(b"head\n");
        digests.ignore_lines();
        digests.update(b"a\nb");
        let done = digests.finish();
        assert!(done.of(DigestAlgorithm::Sha1, LineEnds::Canonical).is_none());
        assert_eq!(done.raw.len(), 1);
    }
}
