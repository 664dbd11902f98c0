//! MODE Z: the data of a transfer as one zlib stream (RFC 1950), as lftp, FileZilla and proftpd
//! speak it (draft-preston-ftpext-deflate-03).

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use crate::limits::{INFLATE_BYTES, INFLATE_FREE_BYTES, INFLATE_RATIO};

/// Makes the stream. For RETR and lists.
#[derive(Debug)]
pub struct Deflate(Compress);

impl Deflate {
    /// With a level of 1 (fast) to 9 (small).
    pub fn new(level: u8) -> Deflate {
        Deflate(Compress::new(Compression::new(u32::from(level.clamp(1, 9))), true))
    }

    /// Appends what is ready of the stream.
    pub fn push(&mut self, data: &[u8], out: &mut Vec<u8>) {
        self.run(data, FlushCompress::None, out);
    }

    /// Appends the rest of the stream.
    pub fn finish(mut self, out: &mut Vec<u8>) {
        self.run(&[], FlushCompress::Finish, out);
    }

    fn run(&mut self, mut data: &[u8], flush: FlushCompress, out: &mut Vec<u8>) {
        loop {
            out.reserve(INFLATE_BYTES.min(data.len() + 64));
            let before = self.0.total_in();
            let status = self.0.compress_vec(data, out, flush);
            let taken = usize::try_from(self.0.total_in() - before).unwrap_or(usize::MAX);
            data = data.get(taken..).unwrap_or_default();
            let full = out.len() == out.capacity();
            match status {
                Ok(Status::StreamEnd) | Err(_) => return,
                Ok(_) if data.is_empty() && !full && flush == FlushCompress::None => return,
                Ok(_) => {}
            }
        }
    }
}

/// Why a stream is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ZlibFlaw {
    /// It is no zlib stream, or a damaged one, or something follows it.
    #[error("the compressed data is damaged")]
    Damaged,
    /// It becomes too long for what it is ([`INFLATE_RATIO`]).
    #[error("the data is compressed more than {INFLATE_RATIO} to one: send it in MODE S")]
    TooDense,
}

/// Reads the stream. For STOR.
#[derive(Debug)]
pub struct Inflate {
    inner: Decompress,
    ended: bool,
}

impl Default for Inflate {
    fn default() -> Self {
        Inflate { inner: Decompress::new(true), ended: false }
    }
}

impl Inflate {
    /// Takes some of `data` off its front and puts what it means into `out`, at most
    /// [`INFLATE_BYTES`]. False: more data is needed.
    ///
    /// # Errors
    /// The stream is damaged, or too dense to be honest.
    pub fn next(&mut self, data: &mut &[u8], out: &mut Vec<u8>) -> Result<bool, ZlibFlaw> {
        out.clear();
        out.reserve_exact(INFLATE_BYTES);
        if self.ended {
            return if data.is_empty() { Ok(false) } else { Err(ZlibFlaw::Damaged) };
        }
        let before = self.inner.total_in();
        let status = self.inner.decompress_vec(data, out, FlushDecompress::None);
        let taken = usize::try_from(self.inner.total_in() - before).unwrap_or(usize::MAX);
        *data = data.get(taken..).unwrap_or_default();
        match status {
            Ok(Status::StreamEnd) => self.ended = true,
            Ok(Status::Ok | Status::BufError) => {}
            Err(_) => return Err(ZlibFlaw::Damaged),
        }
        let honest = INFLATE_FREE_BYTES.max(self.inner.total_in().saturating_mul(INFLATE_RATIO));
        if self.inner.total_out() > honest {
            return Err(ZlibFlaw::TooDense);
        }
        Ok(!out.is_empty() || (taken > 0 && !data.is_empty()))
    }

    /// The stream came to its own end. A client with nothing to send may send no stream.
    pub fn is_whole(&self) -> bool {
        self.ended || self.inner.total_in() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deflated(data: &[u8], piece: usize) -> Vec<u8> {
        let (mut deflate, mut out) = (Deflate::new(6), Vec::new());
        data.chunks(piece).for_each(|piece| deflate.push(piece, &mut out));
        deflate.finish(&mut out);
        out
    }

    fn inflated(wire: &[u8], piece: usize) -> Result<(Vec<u8>, bool), ZlibFlaw> {
        let (mut inflate, mut block, mut all) = (Inflate::default(), Vec::new(), Vec::new());
        for mut data in wire.chunks(piece) {
            while inflate.next(&mut data, &mut block)? {
                assert!(block.len() <= INFLATE_BYTES);
                all.extend_from_slice(&block);
            }
        }
        Ok((all, inflate.is_whole()))
    }

    #[test]
    fn what_goes_in_comes_out_however_it_is_cut() {
        let text: Vec<u8> = (0..200_000_u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        for data in [&text[..], b"x", b""] {
            for piece in [1_000, 70_000, usize::MAX] {
                let wire = deflated(data, piece);
                for piece in [1 + wire.len() / 1_000, usize::MAX] {
                    assert_eq!(inflated(&wire, piece), Ok((data.to_vec(), true)));
                }
            }
        }
        assert!(deflated(&text, 1_000).len() < text.len() / 4);
    }

    #[test]
    fn a_cut_stream_is_not_whole_and_a_damaged_one_is_refused() {
        let mut wire = deflated(&[7; 1000], 100);
        assert!(!inflated(&wire[..wire.len() - 1], 3).unwrap().1);
        assert_eq!(inflated(b"", 1), Ok((Vec::new(), true)));
        assert_eq!(inflated(b"plain text", 1), Err(ZlibFlaw::Damaged));
        wire.push(0);
        assert_eq!(inflated(&wire, 4096), Err(ZlibFlaw::Damaged));
        wire.pop();
        // Its checksum counts too.
        *wire.last_mut().unwrap() ^= 1;
        assert_eq!(inflated(&wire, 4096), Err(ZlibFlaw::Damaged));
    }

    #[test]
    fn a_bomb_does_not_go_off() {
        let some = usize::try_from(INFLATE_FREE_BYTES).unwrap();
        assert!(inflated(&deflated(&vec![0; some], 1 << 20), 4096).is_ok());
        let wire = deflated(&vec![0; some + (1 << 20)], 1 << 20);
        assert_eq!(inflated(&wire, 4096), Err(ZlibFlaw::TooDense));
    }
}
