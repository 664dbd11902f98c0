//! gzip (RFC 1952) and Zstandard (RFC 8878).

use std::io::{self, BufReader, Read, Write};

use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;

use crate::error::TransformError;
use crate::flow::{Bounds, Flow, copy};
use crate::limits::{BLOCK_BYTES, ZSTD_WINDOW_LOG};

/// A format of compressed files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// By `gzip`, known everywhere: `.gz`.
    Gzip,
    /// By `zstd`, quicker and smaller: `.zst`.
    Zstd,
}

impl Compression {
    /// What the names of such files end in.
    pub fn extension(self) -> &'static str {
        match self {
            Compression::Gzip => "gz",
            Compression::Zstd => "zst",
        }
    }

    /// The levels that it knows, from quick to small.
    pub fn levels(self) -> std::ops::RangeInclusive<u32> {
        match self {
            Compression::Gzip => 1..=9,
            // Above, decoders need more than the usual memory.
            Compression::Zstd => 1..=19,
        }
    }

    /// The level of its own tool.
    pub fn usual_level(self) -> u32 {
        match self {
            Compression::Gzip => 6,
            Compression::Zstd => 3,
        }
    }
}

fn damaged(error: io::Error) -> TransformError {
    TransformError::bad(format!("the compressed data is damaged: {error}"))
}

/// A writer that compresses what is written to it; [`Compressor::finish`] ends the file.
pub(crate) enum Compressor<W: Write> {
    Gzip(GzEncoder<W>),
    Zstd(zstd::stream::write::Encoder<'static, W>),
}

impl<W: Write> Compressor<W> {
    pub(crate) fn new(format: Compression, level: u32, writer: W) -> io::Result<Self> {
        Ok(match format {
            // Neither name nor time: the same bytes give the same file.
            Compression::Gzip => {
                Compressor::Gzip(GzEncoder::new(writer, flate2::Compression::new(level)))
            }
            Compression::Zstd => {
                let level = i32::try_from(level).unwrap_or(i32::MAX);
                let mut encoder = zstd::stream::write::Encoder::new(writer, level)?;
                encoder.include_checksum(true)?;
                Compressor::Zstd(encoder)
            }
        })
    }

    pub(crate) fn finish(self) -> io::Result<W> {
        match self {
            Compressor::Gzip(encoder) => encoder.finish(),
            Compressor::Zstd(encoder) => encoder.finish(),
        }
    }
}

impl<W: Write> Write for Compressor<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Compressor::Gzip(encoder) => encoder.write(bytes),
            Compressor::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Compressor::Gzip(encoder) => encoder.flush(),
            Compressor::Zstd(encoder) => encoder.flush(),
        }
    }
}

/// A reader of what is in a compressed file, all members of it.
pub(crate) fn decoder<'a, R: Read + 'a>(
    format: Compression,
    reader: R,
) -> io::Result<Box<dyn Read + 'a>> {
    let reader = BufReader::with_capacity(BLOCK_BYTES, reader);
    Ok(match format {
        Compression::Gzip => Box::new(MultiGzDecoder::new(reader)),
        Compression::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(reader)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG)?;
            Box::new(decoder)
        }
    })
}

/// Compresses all of `reader`.
pub fn compress(
    format: Compression,
    level: u32,
    reader: impl Read,
    writer: impl Write,
) -> Result<(), TransformError> {
    let flow = Flow::default();
    let mut input = flow.input(reader);
    let run = || {
        let mut compressor = Compressor::new(format, level, flow.output(writer, Bounds::none()))?;
        copy(&mut input, &mut compressor)?;
        compressor.finish()?.flush()
    };
    let ended: io::Result<()> = run();
    flow.ended(ended.map_err(damaged))
}

/// Decompresses all of `reader`: each member or frame of it, to its end.
pub fn decompress(
    format: Compression,
    bounds: Bounds,
    reader: impl Read,
    writer: impl Write,
) -> Result<(), TransformError> {
    let flow = Flow::default();
    let input = flow.decoded(reader);
    let mut output = flow.output(writer, bounds);
    let run = || {
        copy(&mut decoder(format, input)?, &mut output)?;
        if flow.read() == 0 {
            return Err(io::Error::other("the file is empty"));
        }
        output.flush()
    };
    let ended: io::Result<()> = run();
    flow.ended(ended.map_err(damaged))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::tool;

    fn compressed(format: Compression, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        compress(format, format.usual_level(), bytes, &mut out).unwrap();
        out
    }

    fn decompressed(format: Compression, bytes: &[u8]) -> Result<Vec<u8>, TransformError> {
        let mut out = Vec::new();
        decompress(format, Bounds::default(), bytes, &mut out)?;
        Ok(out)
    }

    const BOTH: [(Compression, &str); 2] =
        [(Compression::Gzip, "gzip"), (Compression::Zstd, "zstd")];

    fn sample() -> Vec<u8> {
        (0..200_000u32).flat_map(|n| n.wrapping_mul(n).to_le_bytes()).collect()
    }

    #[test]
    fn the_usual_tools_and_these_functions_read_each_other() {
        for (format, name) in BOTH {
            for bytes in [Vec::new(), b"one line\n".to_vec(), sample()] {
                let ours = compressed(format, &bytes);
                assert_eq!(ours, compressed(format, &bytes), "not the same file twice");
                assert_eq!(tool(&[name, "-d", "-c"], &ours), bytes, "{name}");
                let theirs = tool(&[name, "-c"], &bytes);
                assert_eq!(decompressed(format, &theirs).unwrap(), bytes, "{name}");
                let two = [theirs.clone(), ours].concat();
                assert_eq!(decompressed(format, &two).unwrap(), bytes.repeat(2), "{name}");
            }
        }
    }

    #[test]
    fn a_cut_or_changed_file_is_an_error() {
        for (format, name) in BOTH {
            let whole = compressed(format, &sample());
            for length in [0, 1, 5, 17, whole.len() / 2, whole.len() - 1] {
                let cut = decompressed(format, &whole[..length]);
                assert!(matches!(cut, Err(TransformError::BadInput(_))), "{name} {length}");
            }
            for at in [whole.len() / 2, whole.len() - 2] {
                let mut changed = whole.clone();
                changed[at] ^= 1;
                assert!(decompressed(format, &changed).is_err(), "{name} {at}");
            }
            let tail = [whole.clone(), b"tail".to_vec()].concat();
            assert!(decompressed(format, &tail).is_err(), "{name}: bytes behind it");
        }
    }

    #[test]
    fn a_bomb_ends_at_its_bound() {
        for (format, name) in BOTH {
            let zeros = compressed(format, &vec![0; 64 << 20]);
            let mut out = Vec::new();
            let ended = decompress(format, Bounds::default(), zeros.as_slice(), &mut out);
            assert!(matches!(ended, Err(TransformError::OverBound(_))), "{name}");
            assert!(out.len() as u64 <= 2 << 20 | (zeros.len() as u64 * 200), "{name}");
            let wide = Bounds { output_bytes: 64 << 20, ratio: u64::MAX };
            decompress(format, wide, zeros.as_slice(), io::sink()).unwrap();
            let narrow = Bounds { output_bytes: (64 << 20) - 1, ratio: u64::MAX };
            assert!(decompress(format, narrow, zeros.as_slice(), io::sink()).is_err(), "{name}");
        }
    }

    #[test]
    fn whose_fault_it_is_stands_in_the_error() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("gone"))
            }
        }
        impl Write for Broken {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::Error::other("full"))
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        for (format, name) in BOTH {
            let read = decompress(format, Bounds::default(), Broken, io::sink());
            assert!(matches!(read, Err(TransformError::Read(_))), "{name}: {read:?}");
            let ours = compressed(format, b"bytes");
            let written = decompress(format, Bounds::default(), ours.as_slice(), Broken);
            assert!(matches!(written, Err(TransformError::Write(_))), "{name}: {written:?}");
            let written = compress(format, 1, sample().as_slice(), Broken);
            assert!(matches!(written, Err(TransformError::Write(_))), "{name}: {written:?}");
        }
    }
}
