//! For fuzzers: bytes of strangers through every reader.

use std::io::{self, Cursor};
use std::sync::LazyLock;

use entrepot_nouns::Timestamp;

use crate::archive::{ArchiveFormat, ArchiveLimits, EntryName, FileSink, extract};
use crate::checksum::{Algorithm, Checksum};
use crate::compress::{Compression, decompress};
use crate::flow::Bounds;
use crate::openpgp::{Opened, PublicKey, SecretKey, decrypt, verify, verify_detached};

/// Small, so that what a fuzzer finds is not only that much was asked for.
const BOUNDS: Bounds = Bounds { output_bytes: 1 << 20, ratio: 200 };

/// Checks that files come one after the other, and that nothing leads elsewhere.
#[derive(Default)]
struct Looking {
    open: bool,
    bytes: u64,
}

impl FileSink<EntryName> for Looking {
    fn begin(&mut self, label: &EntryName) -> io::Result<()> {
        assert!(!std::mem::replace(&mut self.open, true), "a file in a file");
        let mut components = label.as_str().split('/');
        assert!(components.all(|part| !matches!(part, "" | "." | "..")), "{label}");
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        assert!(self.open, "bytes of no file");
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        assert!(std::mem::take(&mut self.open), "an end of no file");
        Ok(())
    }
}

/// Reads `data` as every kind of archive and compressed file.
pub fn archives(data: &[u8]) {
    let limits = ArchiveLimits { entries: 100, bounds: BOUNDS };
    for format in [
        ArchiveFormat::Zip,
        ArchiveFormat::Tar(None),
        ArchiveFormat::Tar(Some(Compression::Gzip)),
        ArchiveFormat::Tar(Some(Compression::Zstd)),
    ] {
        let mut files = Looking::default();
        if extract(format, &limits, Cursor::new(data), &mut files).is_ok() {
            assert!(!files.open && files.bytes <= BOUNDS.output_bytes);
        }
    }
    for format in [Compression::Gzip, Compression::Zstd] {
        let mut out = Vec::new();
        let _ = decompress(format, BOUNDS, data, &mut out);
        assert!(out.len() as u64 <= BOUNDS.output_bytes);
    }
}

/// Keys whose private halves everybody knows, of which a corpus is made.
struct Keys {
    secret: SecretKey,
    public: PublicKey,
}

static KEYS: LazyLock<Option<Keys>> = LazyLock::new(|| {
    let secret = SecretKey::parse(include_bytes!("fuzzing/key.asc")).ok()?;
    let public = secret.public().clone();
    Some(Keys { secret, public })
});

/// Reads `data` as every kind of OpenPGP file, and as a checksum file.
pub fn openpgp(data: &[u8]) {
    let (_, _) = (PublicKey::parse(data), SecretKey::parse(data));
    let _ = Checksum::find(Algorithm::Sha256, data, "name");
    let Some(Keys { secret, public }) = &*KEYS else { return };
    let at = Timestamp::from_seconds(1_800_000_000);
    let wanted = Opened { signed_by: &[public], at, bounds: BOUNDS };
    let mut out = Vec::new();
    let _ = decrypt(&wanted, &[secret], data, &mut out);
    let _ = verify(&wanted, data, &mut out);
    assert!(out.len() as u64 <= 2 * BOUNDS.output_bytes);
    let _ = verify_detached(data, &[public], at, Cursor::new(b"file"));
}

#[cfg(test)]
pub(crate) fn deflate(bytes: &[u8], out: &mut Vec<u8>) {
    use std::io::Write;
    let level = flate2::Compression::best();
    flate2::write::DeflateEncoder::new(out, level).write_all(bytes).unwrap();
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// Every file that a fuzzer learned from.
    fn corpus(name: &str) -> Vec<Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
        let files = std::fs::read_dir(folder).unwrap();
        files.map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect()
    }

    /// Each file, and each with a byte changed here and there, or cut off.
    fn replay(name: &str, fuzz: impl Fn(&[u8])) {
        let files = corpus(name);
        assert!(files.len() >= 4, "the corpus of {name} is gone");
        for file in files {
            fuzz(&file);
            let step = (file.len() / 60).max(1);
            for at in (0..file.len()).step_by(step) {
                fuzz(&file[..at]);
                let mut changed = file.clone();
                changed[at] ^= 0x41;
                fuzz(&changed);
            }
        }
    }

    #[test]
    fn nothing_breaks_a_reader_of_archives() {
        replay("archives", super::archives);
    }

    #[test]
    fn nothing_breaks_a_reader_of_openpgp() {
        assert!(super::KEYS.is_some());
        replay("openpgp", super::openpgp);
    }
}
