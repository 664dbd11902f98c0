//! Digests of a stream: BLAKE3 always, SHA-256 (FIPS 180-4) when asked for.
//!
//! BLAKE3 is kept as subtrees of whole segments, so that a digest can be noted and gone on with,
//! and so that a run of zeros need not be hashed byte by byte: what the subtree of a segment of
//! zeros is depends on its place alone, and each is computed once in the life of the process.

use std::sync::{LazyLock, OnceLock};

use aws_lc_rs::digest::{Context, SHA256};
use blake3::hazmat::{
    ChainingValue, HasherExt as _, Mode, merge_subtrees_non_root, merge_subtrees_root,
};
use entrepot_nouns::Digests;

/// Bytes of one subtree of a digest that can be noted. A power of two.
const SEGMENT: u64 = 1024 * 1024;

/// Zeros hashed at a time where no subtree is at hand.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// The subtrees of segments of zeros, by the number of segments before them: of the first 64 GiB.
static ZERO_SEGMENTS: LazyLock<Vec<OnceLock<ChainingValue>>> =
    LazyLock::new(|| vec![OnceLock::new(); ZERO_SEGMENTS_KEPT]);
const ZERO_SEGMENTS_KEPT: usize = 65_536;

/// A hasher of what follows so many segments.
fn hasher_behind(segments: u64) -> blake3::Hasher {
    // Made anew each time: `reset` of 1.8 keeps a part of the offset.
    let mut hasher = blake3::Hasher::new();
    hasher.set_input_offset(segments * SEGMENT);
    hasher
}

/// The subtree of a segment of zeros behind so many segments.
fn zero_segment(before: u64) -> ChainingValue {
    let compute = || {
        let mut hasher = hasher_behind(before);
        for _ in 0..SEGMENT / ZEROS.len() as u64 {
            hasher.update(&ZEROS);
        }
        hasher.finalize_non_root()
    };
    let known = usize::try_from(before).ok().and_then(|before| ZERO_SEGMENTS.get(before));
    known.map_or_else(compute, |known| *known.get_or_init(compute))
}

/// Whether SHA-256 is computed beside BLAKE3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sha256 {
    /// It is computed, which costs about 0.5 s of CPU a GiB.
    Wanted,
    /// Only BLAKE3 is computed.
    Unwanted,
}

/// Digests of what was fed so far.
#[derive(Clone)]
pub struct StreamDigest {
    /// The segment at hand.
    blake3: Box<blake3::Hasher>,
    /// What lies before it.
    segments: Segments,
    sha256: Option<Context>,
    length: u64,
}

/// Subtrees of BLAKE3 from left to right (the paper's §5.1.2: at most one a size, but for those
/// that wait to be merged until it is known that more follows).
#[derive(Clone, Default)]
struct Segments {
    stack: Vec<ChainingValue>,
    count: u64,
}

impl Segments {
    /// Merges what is whole, now that more follows.
    fn merge(&mut self) {
        while self.stack.len() > self.count.count_ones() as usize {
            let (Some(right), Some(left)) = (self.stack.pop(), self.stack.pop()) else { return };
            self.stack.push(merge_subtrees_non_root(&left, &right, Mode::Hash));
        }
    }

    fn push(&mut self, segment: ChainingValue) {
        self.merge();
        self.stack.push(segment);
        self.count += 1;
    }

    /// The hash of all, `last` being what follows the stack.
    fn root(mut self, last: Option<ChainingValue>) -> Option<[u8; 32]> {
        let mut right = match last {
            Some(last) => {
                self.merge();
                last
            }
            None => self.stack.pop()?,
        };
        while self.stack.len() > 1 {
            right = merge_subtrees_non_root(&self.stack.pop()?, &right, Mode::Hash);
        }
        Some(*merge_subtrees_root(&self.stack.pop()?, &right, Mode::Hash).as_bytes())
    }
}

impl StreamDigest {
    /// The digest of an empty stream. It can be noted at every whole MiB from the second on, where
    /// SHA-256 is not wanted.
    pub fn new(sha256: Sha256) -> Self {
        let sha256 = match sha256 {
            Sha256::Wanted => Some(Context::new(&SHA256)),
            Sha256::Unwanted => None,
        };
        StreamDigest { blake3: Box::default(), segments: Segments::default(), sha256, length: 0 }
    }

    /// Goes on where [`StreamDigest::note`] was taken, `length` bytes from the start; `None` if
    /// these do not fit each other.
    pub fn resume(length: u64, note: &[u8]) -> Option<Self> {
        let (stack, rest) = note.as_chunks();
        let count = length / SEGMENT;
        let fits = length.is_multiple_of(SEGMENT) && rest.is_empty() && count > 1;
        // What waits to be merged is one more a whole subtree that the last segment ends.
        let wanted = (count - u64::from(count > 0)).count_ones() as usize + 1;
        if !fits || stack.len() != wanted {
            return None;
        }
        let mut digest = StreamDigest::new(Sha256::Unwanted);
        *digest.blake3 = hasher_behind(count);
        digest.segments = Segments { stack: stack.to_vec(), count };
        digest.length = length;
        Some(digest)
    }

    /// What [`StreamDigest::resume`] needs to go on from here; `None` where that is not possible.
    pub fn note(&self) -> Option<Vec<u8>> {
        let at_end = self.length.is_multiple_of(SEGMENT) && self.length > SEGMENT;
        if self.sha256.is_some() || !at_end {
            return None;
        }
        let mut segments = self.segments.clone();
        if self.blake3.count() > 0 {
            segments.push(self.blake3.finalize_non_root());
        }
        Some(segments.stack.concat())
    }

    /// A segment that is whole becomes a subtree, now that more follows.
    fn seal(&mut self) {
        if self.blake3.count() == SEGMENT {
            self.segments.push(self.blake3.finalize_non_root());
            *self.blake3 = hasher_behind(self.segments.count);
        }
    }

    fn update_segments(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            self.seal();
            let room = usize::try_from(SEGMENT - self.blake3.count()).unwrap_or(usize::MAX);
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.blake3.update(now);
            bytes = later;
        }
    }

    /// Feeds the next bytes. Larger pieces are faster: BLAKE3 works on several KiB at once.
    pub fn update(&mut self, bytes: &[u8]) {
        self.update_segments(bytes);
        if let Some(sha256) = &mut self.sha256 {
            sha256.update(bytes);
        }
        self.length += bytes.len() as u64;
    }

    /// Feeds so many zeros. Of whole MiB, BLAKE3 hashes those that no stream of this process had at
    /// the same place; SHA-256 needs them all.
    pub fn update_zeros(&mut self, count: u64) {
        let mut left = count;
        while left > 0 {
            self.seal();
            // The last segment stays at hand: without another one it would be no subtree.
            if self.blake3.count() == 0 && left > SEGMENT && self.sha256.is_none() {
                self.segments.push(zero_segment(self.segments.count));
                *self.blake3 = hasher_behind(self.segments.count);
                (left, self.length) = (left - SEGMENT, self.length + SEGMENT);
                continue;
            }
            let whole = ZEROS.len() as u64;
            let room = SEGMENT - self.blake3.count();
            let now = usize::try_from(left.min(room).min(whole)).unwrap_or(ZEROS.len());
            let (zeros, _) = ZEROS.split_at(now);
            self.update(zeros);
            left -= now as u64;
        }
    }

    /// How many bytes were fed.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The digests of what was fed; more may follow.
    pub fn finish(&self) -> Digests {
        let sha256 =
            self.sha256.clone().and_then(|sha256| sha256.finish().as_ref().try_into().ok());
        let blake3 = if self.segments.stack.is_empty() {
            Some(*self.blake3.finalize().as_bytes())
        } else {
            let last = (self.blake3.count() > 0).then(|| self.blake3.finalize_non_root());
            self.segments.clone().root(last)
        };
        Digests { blake3, sha256 }
    }
}

#[cfg(test)]
mod tests {
    use entrepot_nouns::transfer::hex;

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

    #[test]
    fn a_noted_digest_goes_on_where_it_was() {
        let bytes: Vec<u8> = (0..21 * SEGMENT + 7).map(|at| ((at * at) >> 7) as u8).collect();
        for megabytes in 0..=20 {
            let cut = (megabytes * SEGMENT) as usize;
            for end in [cut, cut + 1, cut + SEGMENT as usize, bytes.len()] {
                let wanted = Some(*blake3::hash(&bytes[..end]).as_bytes());
                let mut digest = StreamDigest::new(Sha256::Unwanted);
                bytes[..cut].chunks(300_007).for_each(|chunk| digest.update(chunk));
                let noted = digest.note();
                assert_eq!(noted.is_some(), megabytes > 1);
                digest.update(&bytes[cut..end]);
                assert_eq!(digest.finish().blake3, wanted, "{cut} to {end}");
                let Some(noted) = noted else { continue };
                let mut resumed = StreamDigest::resume(cut as u64, &noted).unwrap();
                assert_eq!(resumed.note(), Some(noted.clone()));
                resumed.update(&bytes[cut..end]);
                assert_eq!(resumed.finish().blake3, wanted, "{cut} to {end}, resumed");
                assert_eq!(resumed.length(), end as u64);
                assert!(StreamDigest::resume(cut as u64, &noted[1..]).is_none());
                assert!(StreamDigest::resume(cut as u64 + 1, &noted).is_none());
            }
        }
        let mut both = StreamDigest::new(Sha256::Wanted);
        both.update(&bytes[..2 * SEGMENT as usize]);
        assert_eq!(both.note(), None, "the state of SHA-256 is not kept");
    }
    #[test]
    fn zeros_count_as_if_they_were_fed() {
        let zeros = vec![0; 9 * SEGMENT as usize];
        let (mib, some) = (SEGMENT as usize, 70_001);
        for before in [0, some, mib - 1, mib, mib + 1, 3 * mib] {
            for run in [0, 1, some, mib, mib + 1, 2 * mib, 5 * mib - some] {
                for behind in [0, 1, mib] {
                    let mut bytes: Vec<u8> = (0..before).map(|at| (at % 251) as u8).collect();
                    let mut digest = StreamDigest::new(Sha256::Unwanted);
                    digest.update(&bytes);
                    digest.update_zeros(run as u64);
                    bytes.extend(&zeros[..run]);
                    let end: Vec<u8> = (0..behind).map(|at| (at % 13) as u8).collect();
                    digest.update(&end);
                    bytes.extend(end);
                    let wanted = Some(*blake3::hash(&bytes).as_bytes());
                    assert_eq!(digest.finish().blake3, wanted, "{before} {run} {behind}");
                    assert_eq!(digest.length(), bytes.len() as u64);
                }
            }
        }
        let mut both = [0, 1].map(|_| StreamDigest::new(Sha256::Wanted));
        both[0].update_zeros(3 * SEGMENT);
        both[1].update(&zeros[..3 * mib]);
        assert_eq!(both[0].finish(), both[1].finish());
    }

    #[test]
    fn a_second_run_of_zeros_at_the_same_place_is_not_hashed() {
        let run = 40 * SEGMENT;
        let mut digest = StreamDigest::new(Sha256::Unwanted);
        digest.update_zeros(run);
        let known = |at: &u64| ZERO_SEGMENTS[*at as usize].get().is_some();
        assert_eq!((0..39).filter(known).count(), 39);
        let first = ZERO_SEGMENTS[7].get();
        assert_eq!(first, Some(&zero_segment(7)));
        // Where no subtrees are kept they are computed.
        assert_ne!(zero_segment(ZERO_SEGMENTS_KEPT as u64), zero_segment(0));
    }
}
