//! A folder as an archive: read back by other programs, whole and in pieces, never silently wrong.

use std::io::Write as _;
use std::process::Command;

use entrepot_nouns::Rights;
use entrepot_storage::fault::SimDisk;

use super::{How, Random, World, content, path, put};
use crate::{Result, Vfs, VfsError, ZipArchive};

async fn all(archive: &mut ZipArchive) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let next = archive.read_at(bytes.len() as u64, 100_000).await?;
        if next.is_empty() {
            return Ok(bytes);
        }
        bytes.extend(next);
    }
}

async fn range(archive: &mut ZipArchive, start: u64, end: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < end - start {
        let at = start + bytes.len() as u64;
        let next = archive.read_at(at, (end - at) as usize).await.unwrap();
        assert!(!next.is_empty(), "the archive ends at {at}");
        bytes.extend(next);
    }
    bytes
}

/// The files of an archive as Python reads them, `name size crc` a line; it compares checksums.
fn as_python_reads(archive: &[u8]) -> String {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(archive).unwrap();
    let script = "import sys, zipfile\n\
        z = zipfile.ZipFile(sys.argv[1])\n\
        bad = z.testzip()\n\
        assert bad is None, bad\n\
        for i in z.infolist():\n    print(i.filename, i.file_size, i.date_time[0])\n";
    let told = Command::new("python3").args(["-c", script]).arg(file.path()).output().unwrap();
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    if let Ok(unzip) = Command::new("unzip").arg("-tqq").arg(file.path()).output() {
        assert!(unzip.status.success(), "{}", String::from_utf8_lossy(&unzip.stdout));
    }
    String::from_utf8(told.stdout).unwrap()
}

async fn filled(vfs: &Vfs) {
    for directory in ["/d", "/d/größe", "/d/empty", "/d/größe/deep"] {
        vfs.make_directory(&path(directory)).await.unwrap();
    }
    for (number, at) in
        ["/d/a", "/d/größe/é.txt", "/d/größe/deep/b\\c", "/d/none", "/out"].into_iter().enumerate()
    {
        put(vfs, at, &content(number as u64, number * 70_001 % 280_004)).await.unwrap();
    }
}

#[tokio::test]
async fn other_programs_read_it_and_its_length_is_known_before() {
    let world = World::new().await;
    let node = world.start(&SimDisk::new(&world.env), &How::default()).await;
    let session = world.session(&node, "alice").await;
    filled(session.vfs()).await;
    let mut archive = session.vfs().zip(&path("/d")).await.unwrap();
    let whole = all(&mut archive).await.unwrap();
    assert_eq!(whole.len() as u64, archive.size());
    let told = as_python_reads(&whole);
    let lines: Vec<&str> = told.lines().collect();
    let wanted = [
        "d/ 0 2027",
        "d/a 0 2027",
        "d/empty/ 0 2027",
        "d/größe/ 0 2027",
        "d/none 210003 2027",
        "d/größe/deep/ 0 2027",
        "d/größe/é.txt 70001 2027",
        "d/größe/deep/b_c 140002 2027",
    ];
    assert_eq!(lines, wanted);
    assert_eq!(archive.entries(), wanted.len() as u64);
    // The root has no name, and an empty archive is one.
    let mut root = session.vfs().zip(&path("/")).await.unwrap();
    let whole = all(&mut root).await.unwrap();
    assert!(as_python_reads(&whole).contains("\nout "), "{}", as_python_reads(&whole));
    let mut empty = session.vfs().zip(&path("/d/empty")).await.unwrap();
    assert_eq!(as_python_reads(&all(&mut empty).await.unwrap()), "empty/ 0 2027\n");
    assert_eq!(session.vfs().zip(&path("/out")).await.err(), Some(VfsError::NotDirectory));
}

/// Also where no checksum is known: another node, or after a restart.
#[tokio::test]
async fn every_range_has_the_bytes_of_the_whole() {
    let world = World::new().await;
    let disk = SimDisk::new(&world.env);
    let node = world.start(&disk, &How::default()).await;
    let session = world.session(&node, "alice").await;
    filled(session.vfs()).await;
    let mut first = session.vfs().zip(&path("/d")).await.unwrap();
    let whole = all(&mut first).await.unwrap();
    let tag = first.tag().to_owned();
    drop((first, session));
    node.stop().await;
    let node = world.start(&disk, &How::default()).await;
    let session = world.session(&node, "alice").await;
    let mut random = Random(9);
    let size = whole.len() as u64;
    let mut archive = session.vfs().zip(&path("/d")).await.unwrap();
    assert_eq!((archive.tag(), archive.size()), (tag.as_str(), size));
    for round in 0..200 {
        let start = random.below(size);
        let length = if round % 2 == 0 { 200 } else { random.below(size) };
        let end = size.min(start + length);
        let found = range(&mut archive, start, end).await;
        assert!(found == whole[start as usize..end as usize], "{start}..{end}");
    }
    assert!(archive.read_at(size, 10).await.unwrap().is_empty());
    assert!(archive.read_at(u64::MAX, 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_file_that_changes_or_goes_cuts_the_archive_off() {
    let world = World::new().await;
    for change in ["replace", "remove", "replace-sent"] {
        let node = world.start(&SimDisk::new(&world.env), &How::default()).await;
        let session = world.session(&node, "alice").await;
        let vfs = session.vfs();
        vfs.make_directory(&path("/d")).await.unwrap();
        for at in ["/d/a", "/d/b"] {
            put(vfs, at, &content(1, 200_000)).await.unwrap();
        }
        let mut archive = vfs.zip(&path("/d")).await.unwrap();
        let before = archive.tag().to_owned();
        range(&mut archive, 0, 100_000).await;
        let changed = match change {
            "remove" => {
                vfs.remove(&path("/d/b")).await.unwrap();
                "/d/b"
            }
            "replace" => {
                put(vfs, "/d/b", &content(2, 200_000)).await.unwrap();
                "/d/b"
            }
            _ => {
                put(vfs, "/d/a", &content(2, 200_000)).await.unwrap();
                "/d/a"
            }
        };
        let wanted = VfsError::Changed { path: changed.to_owned() };
        assert_eq!(all(&mut archive).await.err(), Some(wanted), "{change}");
        assert_ne!(vfs.zip(&path("/d")).await.unwrap().tag(), before, "{change}");
    }
}

#[tokio::test]
async fn only_what_the_session_may_list_and_read_is_in_it() {
    let world = World::new().await;
    let read_only = |mount: &mut entrepot_nouns::Mount| mount.rights = Rights::read_only();
    world.account("carol", "/in", |_| {}).await;
    world.mount("carol-box", "carol", "/in/box", |mount| mount.rights = Rights::none()).await;
    world.mount("carol-pub", "carol", "/in/pub", read_only).await;
    let node = world.start(&SimDisk::new(&world.env), &How::default()).await;
    let carol = world.session(&node, "carol").await;
    put(carol.vfs(), "/in/f", b"content").await.unwrap();
    let mut archive = carol.vfs().zip(&path("/in")).await.unwrap();
    let told = as_python_reads(&all(&mut archive).await.unwrap());
    let names: Vec<_> = told.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(names, ["in/", "in/box/", "in/f", "in/pub/", "in/pub/f"]);
}
