//! Archives of tools, and of people who mean harm.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::process::Command;

use super::*;
use crate::tools;

mod hostile;

/// Keeps what was whole.
#[derive(Default)]
struct Kept {
    files: BTreeMap<String, Vec<u8>>,
    open: Option<(String, Vec<u8>)>,
}

impl FileSink<EntryName> for Kept {
    fn begin(&mut self, label: &EntryName) -> io::Result<()> {
        assert!(self.open.is_none());
        self.open = Some((label.as_str().to_owned(), Vec::new()));
        Ok(())
    }
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.open.as_mut().unwrap().1.extend_from_slice(bytes);
        Ok(())
    }
    fn end(&mut self) -> io::Result<()> {
        let (name, bytes) = self.open.take().unwrap();
        assert!(self.files.insert(name, bytes).is_none());
        Ok(())
    }
}

type Files = BTreeMap<String, Vec<u8>>;

fn extracted(format: ArchiveFormat, bytes: &[u8]) -> Result<Files, TransformError> {
    let mut kept = Kept::default();
    extract(format, &ArchiveLimits::default(), Cursor::new(bytes), &mut kept)?;
    assert!(kept.open.is_none());
    Ok(kept.files)
}

fn created(format: ArchiveFormat, files: &Files) -> Vec<u8> {
    let mut contents: Vec<&[u8]> = files.values().map(Vec::as_slice).collect();
    let packed = files.keys().zip(&mut contents).map(|(name, content)| Packed {
        name: EntryName::new(name).unwrap(),
        size: content.len() as u64,
        content,
    });
    let mut archive = Cursor::new(Vec::new());
    create(format, packed, &mut archive).unwrap();
    archive.into_inner()
}

const FORMATS: [ArchiveFormat; 4] = [
    ArchiveFormat::Zip,
    ArchiveFormat::Tar(None),
    ArchiveFormat::Tar(Some(Compression::Gzip)),
    ArchiveFormat::Tar(Some(Compression::Zstd)),
];

fn sample() -> Files {
    let long = format!("{}/{}.txt", "folder".repeat(30), "name".repeat(40));
    let noise: Vec<u8> =
        (0..300_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    [
        ("a.txt".to_owned(), b"one\n".to_vec()),
        ("b/c/d.bin".to_owned(), noise),
        ("empty".to_owned(), Vec::new()),
        (long, b"long".to_vec()),
        ("ä/ö ü.txt".to_owned(), b"umlaut".to_vec()),
    ]
    .into()
}

#[test]
fn archives_of_ours_are_read_by_the_usual_tools() {
    for format in FORMATS {
        let files = sample();
        let archive = created(format, &files);
        assert_eq!(archive, created(format, &files), "not the same archive twice");
        assert_eq!(extracted(format, &archive).unwrap(), files);
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("archive"), &archive).unwrap();
        let out = folder.path().join("out");
        std::fs::create_dir(&out).unwrap();
        let commands: &[&[&str]] = match format {
            ArchiveFormat::Zip => {
                &[&["unzip", "-q", "../archive"], &["bsdtar", "-xf", "../archive"]]
            }
            ArchiveFormat::Tar(_) => {
                &[&["tar", "-xf", "../archive"], &["bsdtar", "-xf", "../archive"]]
            }
        };
        for command in commands {
            let mut run = Command::new(command[0]);
            run.args(&command[1..]).current_dir(&out).env("LC_ALL", "C.UTF-8");
            tools::run(&mut run, b"").unwrap();
            for (name, bytes) in &files {
                assert!(std::fs::read(out.join(name)).unwrap() == *bytes, "{command:?} {name}");
            }
            std::fs::remove_dir_all(&out).unwrap();
            std::fs::create_dir(&out).unwrap();
        }
    }
}

/// A folder with the sample, and a folder without files.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in sample() {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    std::fs::create_dir(folder.path().join("nothing")).unwrap();
    folder
}

fn made_by(script: &str) -> Vec<u8> {
    let folder = folder();
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", script]).current_dir(folder.path()).env("LC_ALL", "C.UTF-8");
    tools::run(&mut shell, b"").unwrap()
}

#[test]
fn archives_of_the_usual_tools_are_read() {
    let tar = ArchiveFormat::Tar(None);
    for (format, script) in [
        (ArchiveFormat::Zip, "zip -q -r - . >../z$$.zip; cat ../z$$.zip; rm ../z$$.zip"),
        (ArchiveFormat::Zip, "zip -q -r ../z$$.zip .; cat ../z$$.zip; rm ../z$$.zip"),
        (ArchiveFormat::Zip, "zip -q -fz -r ../z$$.zip .; cat ../z$$.zip; rm ../z$$.zip"),
        (
            ArchiveFormat::Zip,
            "bsdtar -c --format zip -f ../b$$.zip *; cat ../b$$.zip; rm ../b$$.zip",
        ),
        (tar, "tar -c ."),
        (tar, "tar -c --format=pax *"),
        (tar, "tar -c --format=ustar --exclude='folder*' *; "),
        (tar, "bsdtar -c ."),
        (ArchiveFormat::Tar(Some(Compression::Gzip)), "tar -cz ."),
        (ArchiveFormat::Tar(Some(Compression::Zstd)), "tar -c . | zstd -c"),
    ] {
        let mut wanted = sample();
        if script.contains("exclude") {
            wanted.retain(|name, _| !name.starts_with("folder"));
        }
        let found = extracted(format, &made_by(script));
        let found = found.unwrap_or_else(|error| panic!("{script}: {error}"));
        assert!(found == wanted, "{script}: {:?}", found.keys());
    }
}

#[test]
fn a_cut_archive_is_an_error_wherever_it_is_cut() {
    let files: Files = [("a".to_owned(), vec![7; 700]), ("b".to_owned(), vec![0; 600])].into();
    for format in FORMATS {
        let whole = created(format, &files);
        // A tar archive is whole from its first block of zeros on.
        let needed = match format {
            ArchiveFormat::Tar(None) => whole.len() - 512,
            _ => whole.len(),
        };
        for length in 0..needed {
            assert!(extracted(format, &whole[..length]).is_err(), "{format:?} {length}");
        }
    }
}

#[test]
fn hostile_archives_are_refused() {
    let archives = hostile::archives();
    assert!(archives.len() >= 40, "{}", archives.len());
    for hostile::Archive { what, name, bytes } in archives {
        let format = ArchiveFormat::of_name(&name).unwrap();
        let found = extracted(format, &bytes);
        assert!(found.is_err(), "{what}, {name}: {:?}", found.unwrap().keys());
    }
    for hostile::Archive { what, name, bytes } in hostile::of_one_file() {
        let found = extracted(ArchiveFormat::of_name(&name).unwrap(), &bytes).unwrap();
        assert_eq!(found.keys().collect::<Vec<_>>(), ["a"], "{what}, {name}");
    }
    let all = hostile::python("[z.writestr(str(n), b'') for n in range(10000)]");
    assert_eq!(extracted(ArchiveFormat::Zip, &all).unwrap().len(), 10_000);
}

/// A record that claims a billion entries must not be believed before it was looked at.
#[test]
fn a_claim_of_many_entries_takes_no_memory() {
    let (bytes, entries) = (46_000_000_000u64, 1_000_000_000u64);
    let mut end = b"PK\x06\x06".to_vec();
    end.extend_from_slice(&44u64.to_le_bytes());
    end.extend_from_slice(&[45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    for number in [entries, entries, bytes, 2_000_000_000] {
        end.extend_from_slice(&number.to_le_bytes());
    }
    end.extend_from_slice(b"PK\x06\x07\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0");
    end.extend_from_slice(b"PK\x05\x06\0\0\0\0\xff\xff\xff\xff");
    end.extend_from_slice(&[0xff; 8]);
    end.extend_from_slice(&[0, 0]);
    assert!(extracted(ArchiveFormat::Zip, &end).is_err());
}

#[test]
fn bombs_end_at_their_bound() {
    let zeros: Files = [("a".to_owned(), vec![0; 8 << 20])].into();
    for format in FORMATS {
        let ended = extracted(format, &created(format, &zeros));
        let plain = format == ArchiveFormat::Tar(None);
        assert_eq!(ended.is_ok(), plain, "{format:?}");
        if let Err(error) = ended {
            assert!(matches!(error, TransformError::OverBound(_)), "{format:?}: {error:?}");
        }
        let bounds = Bounds { output_bytes: (8 << 20) - 1, ratio: u64::MAX };
        let limits = ArchiveLimits { bounds, ..ArchiveLimits::default() };
        let archive = Cursor::new(created(format, &zeros));
        let ended = extract(format, &limits, archive, &mut Kept::default());
        assert!(matches!(ended, Err(TransformError::OverBound(_))), "{format:?}: {ended:?}");
    }
    let many: Files = (0..20).map(|n| (n.to_string(), Vec::new())).collect();
    for format in FORMATS {
        let limits = ArchiveLimits { entries: 19, ..ArchiveLimits::default() };
        let archive = Cursor::new(created(format, &many));
        let ended = extract(format, &limits, archive, &mut Kept::default());
        assert!(matches!(ended, Err(TransformError::OverBound(_))), "{format:?}: {ended:?}");
    }
}

#[test]
fn a_file_that_grows_while_it_is_packed_is_an_error() {
    for format in FORMATS {
        for size in [3, 5] {
            let mut content: &[u8] = b"four";
            let name = EntryName::new("a").unwrap();
            let packed = [Packed { name, size, content: &mut content }];
            let ended = create(format, packed, &mut Cursor::new(Vec::new()));
            assert!(matches!(ended, Err(TransformError::Read(_))), "{format:?} {size}: {ended:?}");
        }
    }
}

#[test]
fn damage_in_a_compressed_archive_is_the_fault_of_the_archive() {
    let format = ArchiveFormat::Tar(Some(Compression::Gzip));
    let mut archive = created(format, &sample());
    let at = archive.len() - 5;
    archive[at] ^= 1;
    let ended = extracted(format, &archive);
    assert!(matches!(ended, Err(TransformError::BadInput(_))), "{ended:?}");
}
