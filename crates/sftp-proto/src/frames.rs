//! Cuts a byte stream into frames: a length of four bytes, then so many bytes.

use crate::limits::{FRAME_BYTES, KEPT_BUFFER_BYTES};

/// A length outside `1..=FRAME_BYTES`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BadLength(pub(crate) u32);

/// Bytes of the length field.
const LENGTH_BYTES: usize = 4;

/// The incremental cutter. A frame that lies whole in the input is lent from there; only one
/// that arrives in pieces is assembled, in one buffer that is used again.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    partial: Vec<u8>,
    lent: bool,
}

/// Where a frame lies.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place<'d> {
    Input(&'d [u8]),
    Assembled,
}

impl Frames {
    /// The next whole frame without its length field, taken from the front of `input`. `None`:
    /// the input is used up.
    pub(crate) fn next<'a, 'd: 'a>(
        &'a mut self,
        input: &mut &'d [u8],
    ) -> Result<Option<&'a [u8]>, BadLength> {
        let place = self.step(input)?;
        Ok(place.map(|place| self.lend(place)))
    }

    /// As [`Frames::next`], but says where the frame lies, so that the machine can be changed
    /// before the bytes are lent.
    pub(crate) fn step<'d>(
        &mut self,
        input: &mut &'d [u8],
    ) -> Result<Option<Place<'d>>, BadLength> {
        if std::mem::take(&mut self.lent) {
            self.partial.clear();
        }
        if self.partial.is_empty()
            && let Some((head, rest)) = input.split_first_chunk::<LENGTH_BYTES>()
            && let Some((body, rest)) = rest.split_at_checked(checked_length(*head)?)
        {
            *input = rest;
            return Ok(Some(Place::Input(body)));
        }
        self.fill(input, LENGTH_BYTES);
        let Some(head) = self.partial.first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let whole = LENGTH_BYTES.saturating_add(checked_length(*head)?);
        self.partial.reserve_exact(whole.saturating_sub(self.partial.len()));
        self.fill(input, whole);
        if self.partial.len() < whole {
            return Ok(None);
        }
        self.lent = true;
        Ok(Some(Place::Assembled))
    }

    /// The frame at a place that the last [`Frames::step`] told.
    pub(crate) fn lend<'a, 'd: 'a>(&'a self, place: Place<'d>) -> &'a [u8] {
        match place {
            Place::Input(body) => body,
            Place::Assembled => self.partial.get(LENGTH_BYTES..).unwrap_or_default(),
        }
    }

    /// Moves input into the buffer until it holds `target` bytes or the input is empty.
    fn fill(&mut self, input: &mut &[u8], target: usize) {
        let wanted = target.saturating_sub(self.partial.len()).min(input.len());
        if let Some((taken, rest)) = input.split_at_checked(wanted) {
            self.partial.extend_from_slice(taken);
            *input = rest;
        }
    }

    /// Gives a large buffer back if nothing is in it, so that an idle session costs little.
    pub(crate) fn shrink(&mut self) {
        if (self.lent || self.partial.is_empty()) && self.partial.capacity() > KEPT_BUFFER_BYTES {
            self.partial = Vec::new();
            self.lent = false;
        }
    }

    /// Bytes of memory held.
    pub(crate) fn capacity(&self) -> usize {
        self.partial.capacity()
    }
}

fn checked_length(head: [u8; LENGTH_BYTES]) -> Result<usize, BadLength> {
    let length = u32::from_be_bytes(head);
    match usize::try_from(length) {
        Ok(len @ 1..=FRAME_BYTES) => Ok(len),
        _ => Err(BadLength(length)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(body: &[u8]) -> Vec<u8> {
        [&u32::try_from(body.len()).unwrap().to_be_bytes(), body].concat()
    }

    fn cut(pieces: &[&[u8]]) -> Vec<Vec<u8>> {
        let (mut frames, mut bodies) = (Frames::default(), Vec::new());
        for mut piece in pieces.iter().copied() {
            while let Some(body) = frames.next(&mut piece).unwrap() {
                bodies.push(body.to_vec());
            }
            assert!(piece.is_empty());
        }
        bodies
    }

    #[test]
    fn every_way_to_split_gives_the_same_frames() {
        let stream = [frame(b"a"), frame(b"bcd"), frame(&[7; 30])].concat();
        let whole = cut(&[&stream]);
        assert_eq!(whole.len(), 3);
        for first in 0..=stream.len() {
            for second in first..=stream.len() {
                let pieces = [&stream[..first], &stream[first..second], &stream[second..]];
                assert_eq!(cut(&pieces), whole);
            }
        }
    }

    #[test]
    fn a_whole_frame_is_lent_from_the_input() {
        let stream = frame(&[9; 100_000]);
        let mut frames = Frames::default();
        let body = frames.next(&mut stream.as_slice()).unwrap().unwrap();
        assert_eq!(body.as_ptr(), stream[4..].as_ptr());
        assert_eq!(frames.capacity(), 0);
    }

    #[test]
    fn lengths_are_checked_before_bytes_are_kept() {
        for (length, good) in [(0, false), (1, true), (262_144, true), (262_145, false)] {
            let head = u32::to_be_bytes(length);
            let mut frames = Frames::default();
            assert_eq!(frames.next(&mut head.as_slice()).is_ok(), good, "{length}");
            let mut frames = Frames::default();
            assert_eq!(frames.next(&mut &head[..3]), Ok(None));
            assert_eq!(frames.next(&mut &head[3..]).is_ok(), good, "{length} in pieces");
        }
    }

    #[test]
    fn a_large_buffer_is_given_back() {
        let stream = frame(&[1; 200_000]);
        let mut frames = Frames::default();
        assert_eq!(frames.next(&mut &stream[..50_000]), Ok(None));
        frames.shrink();
        assert!(frames.capacity() >= 200_000, "still being filled");
        assert!(frames.next(&mut &stream[50_000..]).unwrap().is_some());
        frames.shrink();
        assert_eq!(frames.capacity(), 0);
    }
}
