//! Requests about names and files that move no data.

use bytes::BytesMut;
use entrepot_ftp_proto::ascii::ToNetwork;
use entrepot_ftp_proto::{Algorithm, Answer, ByteRange, Changes, Refusal, Request, Why};
use entrepot_nouns::{Right, VPath};
use entrepot_vfs::{
    Attributes, Create, CreateIntent, EntryKind, Existing, HashAlgorithm, HashRange, Upload, Vfs,
    VfsError,
};

use crate::limits::{BLOCK_BYTES, COUNTED_BYTES};
use crate::listing;
use crate::paths::path;
use crate::stats::{View, time, timestamp};
use crate::status::{refusal, refused};
use crate::tree;

type Done<T> = Result<T, Refusal>;

/// Attributes of a name; of the account's own cut upload where that waits to replace the file.
async fn known(vfs: &Vfs, at: &VPath) -> Done<Attributes> {
    match vfs.unfinished(at).await {
        Some(unfinished) => Ok(unfinished),
        None => refused(vfs.stat(at).await),
    }
}

/// Carries a request out.
pub(crate) async fn answer(vfs: Vfs, view: View, request: Request) -> Answer {
    let done = match request {
        Request::StatPath(target) => listing::here(&vfs, &view, target).await,
        Request::Size { path, ascii: false } => size(&vfs, &path).await.map(Answer::Number),
        Request::Size { path, ascii: true } => size_as_text(&vfs, &path).await.map(Answer::Number),
        Request::Modified(path) => modified(&vfs, &path).await,
        Request::Entry(path) => entry(&vfs, &view, &path).await,
        Request::Hash { path, algorithm, range } => hash(&vfs, &path, algorithm, range).await,
        Request::Space(path) => space(&vfs, &path).await.map(Answer::Number),
        Request::TreeSize(path) => tree_size(&vfs, &path).await.map(Answer::Number),
        Request::Change { path, changes } => set(&vfs, &path, changes).await,
        other => change(&vfs, other).await.map(|()| Answer::Done),
    };
    done.unwrap_or_else(Answer::Refused)
}

/// Those that are answered by `Done`.
async fn change(vfs: &Vfs, request: Request) -> Done<()> {
    match request {
        Request::ChangeDir(to) => enter(vfs, &to).await,
        Request::MakeDir { path: at, parents } => {
            let at = path(&at)?;
            if parents {
                make_directories_above(vfs, &at).await?;
            }
            refused(vfs.make_directory(&at).await)
        }
        Request::RemoveDir(at) => refused(vfs.remove_directory(&path(&at)?).await),
        Request::RemoveTree(at) => refused(tree::remove(vfs, &path(&at)?).await),
        Request::Delete(at) => refused(vfs.remove(&path(&at)?).await),
        Request::RenameFrom(at) => may_rename(vfs, &at).await,
        Request::Rename { from, to } => rename(vfs, &from, &to).await,
        Request::Copy { from, to } => combine(vfs, &to, &[from]).await,
        Request::Combine { target, parts } => {
            combine(vfs, &target, &parts).await?;
            for part in &parts {
                refused(vfs.remove(&path(part)?).await)?;
            }
            Ok(())
        }
        _ => Err(Refusal::new(Why::Unsupported)),
    }
}

async fn enter(vfs: &Vfs, to: &str) -> Done<()> {
    match refused(vfs.stat(&path(to)?).await)?.kind {
        EntryKind::Directory => Ok(()),
        EntryKind::File | EntryKind::Link => Err(refusal(&VfsError::NotDirectory)),
    }
}

/// Makes the directories above a name that are not there yet.
async fn make_directories_above(vfs: &Vfs, at: &VPath) -> Done<()> {
    let mut missing = Vec::new();
    let mut above = at.parent();
    while let Some(directory) = above {
        if vfs.stat(&directory).await.is_ok() {
            break;
        }
        above = directory.parent();
        missing.push(directory);
    }
    for directory in missing.iter().rev() {
        refused(vfs.make_directory(directory).await)?;
    }
    Ok(())
}

async fn may_rename(vfs: &Vfs, at: &str) -> Done<()> {
    let found = refused(vfs.stat(&path(at)?).await)?;
    if found.rights.has(Right::Rename) { Ok(()) } else { Err(Refusal::new(Why::Denied)) }
}

/// RNTO replaces a file, never a directory.
async fn rename(vfs: &Vfs, from: &str, to: &str) -> Done<()> {
    let (from, to) = (path(from)?, path(to)?);
    if from != to
        && let Ok(there) = vfs.stat(&to).await
        && there.kind == EntryKind::Directory
    {
        return Err(refusal(&VfsError::IsDirectory));
    }
    refused(vfs.rename(&from, &to, Existing::Replace).await.map(drop))
}

/// Makes one file of others; it is seen when it is whole.
async fn combine(vfs: &Vfs, target: &str, parts: &[String]) -> Done<()> {
    let how = Create { intent: CreateIntent::New, expected_size: None, append: false };
    let mut upload = refused(vfs.create(&path(target)?, how).await)?;
    match gather(vfs, &mut upload, parts).await {
        Ok(()) => refused(upload.finish().await.map(drop)),
        Err(refused) => {
            upload.abort().await;
            Err(refused)
        }
    }
}

async fn gather(vfs: &Vfs, upload: &mut Upload, parts: &[String]) -> Done<()> {
    for part in parts {
        let source = refused(vfs.open(&path(part)?).await)?;
        let at = upload.size();
        refused(upload.copy_from(&source, 0, None, at).await)?;
    }
    Ok(())
}

/// Sets permission bits and times: all of them or, where no bits are kept, nothing.
async fn set(vfs: &Vfs, at: &str, changes: Changes) -> Done<Answer> {
    let at = path(at)?;
    if changes.created.is_some() {
        return Err(Refusal::new(Why::Unsupported));
    }
    refused(vfs.stat(&at).await)?;
    let mut answer = Answer::Done;
    if let Some(mode) = changes.mode {
        match refused(vfs.set_mode(&at, mode).await)? {
            Some(now) => answer = Answer::Mode(now & 0o7777),
            None => return Ok(Answer::NoModes),
        }
    }
    let (accessed, modified) = (changes.accessed.map(timestamp), changes.modified.map(timestamp));
    if accessed.is_some() || modified.is_some() {
        refused(vfs.set_times(&at, accessed, modified).await)?;
    }
    Ok(answer)
}

async fn space(vfs: &Vfs, at: &str) -> Done<u64> {
    Ok(refused(vfs.space(&path(at)?).await)?.free_bytes)
}

async fn tree_size(vfs: &Vfs, at: &str) -> Done<u64> {
    refused(tree::size(vfs, &path(at)?).await)
}

/// Attributes of a name that is no directory.
async fn known_file(vfs: &Vfs, at: &VPath) -> Done<Attributes> {
    let found = known(vfs, at).await?;
    match found.kind {
        EntryKind::Directory => Err(refusal(&VfsError::IsDirectory)),
        EntryKind::File | EntryKind::Link => Ok(found),
    }
}

async fn size(vfs: &Vfs, at: &str) -> Done<u64> {
    Ok(known_file(vfs, &path(at)?).await?.size)
}

/// The size in TYPE A: bytes on the wire, which only converting counts.
async fn size_as_text(vfs: &Vfs, at: &str) -> Done<u64> {
    let at = path(at)?;
    if known_file(vfs, &at).await?.size > COUNTED_BYTES {
        let sentence = "The size in ASCII of so long a file is not counted: use TYPE I.";
        return Err(Refusal::told(550, sentence));
    }
    count_as_text(vfs, &at).await
}

async fn count_as_text(vfs: &Vfs, at: &VPath) -> Done<u64> {
    let file = refused(vfs.open(at).await)?;
    let (mut offset, mut count) = (0, 0);
    let (mut converter, mut wire) = (ToNetwork::new(), Vec::new());
    loop {
        let block = BytesMut::with_capacity(BLOCK_BYTES);
        let block = refused(file.read_at(offset, block, BLOCK_BYTES).await)?;
        if block.is_empty() {
            return Ok(count);
        }
        offset += block.len() as u64;
        wire.clear();
        converter.convert(&block, &mut wire);
        count += wire.len() as u64;
    }
}

async fn modified(vfs: &Vfs, at: &str) -> Done<Answer> {
    let found = known(vfs, &path(at)?).await?;
    Ok(Answer::Modified(time(found.modified)))
}

async fn entry(vfs: &Vfs, view: &View, at: &str) -> Done<Answer> {
    Ok(Answer::Entry(view.stat(&known(vfs, &path(at)?).await?)))
}

async fn hash(vfs: &Vfs, at: &str, algorithm: Algorithm, range: Option<ByteRange>) -> Done<Answer> {
    let at = path(at)?;
    let found = refused(vfs.stat(&at).await)?;
    if found.kind == EntryKind::Directory {
        return Err(refusal(&VfsError::IsDirectory));
    }
    let start = range.map_or(0, |range| range.start).min(found.size);
    let end = range.map_or(found.size, |range| range.end.min(found.size)).max(start);
    let algorithm = match algorithm {
        Algorithm::Crc32 => HashAlgorithm::Crc32,
        Algorithm::Md5 => HashAlgorithm::Md5,
        Algorithm::Sha1 => HashAlgorithm::Sha1,
        Algorithm::Sha256 => HashAlgorithm::Sha256,
        Algorithm::Sha512 => HashAlgorithm::Sha512,
    };
    let len = range.map(|_| end - start);
    let asked = HashRange { algorithm, offset: start, len, block: None };
    let digest = refused(vfs.hash(&at, &asked).await)?;
    Ok(Answer::Digest { digest, start, end })
}
