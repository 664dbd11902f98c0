//! COPY and MOVE (RFC 4918 §9.8, §9.9).

use axum::http::StatusCode;
use axum::response::Response;
use bytes::BytesMut;
use entrepot_dav_proto::{Change, Depth, Overwrite, headers};
use entrepot_nouns::VPath;
use entrepot_vfs::{
    Attributes, Create, CreateIntent, Download, EntryKind, Existing, Upload, Vfs, VfsError,
};

use super::dav_request::{DavRequest, target_of, without_parent};
use super::locking;
use super::trees::{self, Failed, Member};
use crate::limits::BATCH_BYTES;
use crate::problem::Problem;

/// Where something goes, and what becomes of what is there.
struct Going {
    to: VPath,
    /// What the new name has now.
    there: Option<Attributes>,
    depth: Depth,
}

pub(super) async fn copy(asked: DavRequest) -> Result<Response, Problem> {
    let from = asked.path().clone();
    let source = asked.vfs().published(&from).await?.ok_or(VfsError::NotFound)?;
    let going = going(&asked, source.kind).await?;
    locking::check(&asked, &going.to, change_of(&going)).await?;
    let _running = asked.context.connection.meter.running();
    let failed = carry(&asked, &from, source.kind, &going).await?;
    trees::outcome(failed, &going.to, status(&going))
}

pub(super) async fn rename(asked: DavRequest) -> Result<Response, Problem> {
    let from = asked.path().clone();
    let source = asked.vfs().published(&from).await?.ok_or(VfsError::NotFound)?;
    let going = going(&asked, source.kind).await?;
    locking::check(&asked, &from, Change::Tree).await?;
    locking::check(&asked, &going.to, change_of(&going)).await?;
    let vfs = asked.vfs();
    let is_file = |kind| kind == EntryKind::File;
    let replaces_file = going.there.as_ref().is_some_and(|there| is_file(there.kind));
    let cleared =
        if replaces_file && is_file(source.kind) { Vec::new() } else { clear(vfs, &going).await };
    if !cleared.is_empty() {
        return trees::outcome(cleared, &going.to, status(&going));
    }
    let failed = match vfs.rename(&from, &going.to, Existing::Replace).await {
        Ok(_) => Vec::new(),
        Err(VfsError::OtherMount) => {
            let _running = asked.context.connection.meter.running();
            let mut failed = carry(&asked, &from, source.kind, &going).await?;
            if failed.is_empty() {
                failed = trees::remove(vfs, &from, source.kind).await;
            }
            failed
        }
        Err(error) => return Err(without_parent(error.into())),
    };
    locking::forget(&asked, &from).await;
    trees::outcome(failed, &going.to, status(&going))
}

fn status(going: &Going) -> StatusCode {
    if going.there.is_some() { StatusCode::NO_CONTENT } else { StatusCode::CREATED }
}

fn change_of(going: &Going) -> Change {
    if going.there.is_some() { Change::Tree } else { Change::New }
}

/// Reads and checks where the request leads.
async fn going(asked: &DavRequest, kind: EntryKind) -> Result<Going, Problem> {
    let wanted = asked.field("destination").ok_or_else(|| {
        Problem::malformed("the request needs a Destination: where the copy or the file goes")
    })?;
    let to = headers::destination(wanted, asked.host.as_deref())?;
    let to = target_of(to)?.path;
    let depth = Depth::parse(asked.field("depth"), Depth::Infinity)?;
    if depth == Depth::One {
        return Err(Problem::malformed("Depth is 0 or infinity here"));
    }
    let is_inside = to.below(asked.path()).is_some() && kind == EntryKind::Directory;
    let is_around = asked.path().below(&to).is_some();
    if to == *asked.path() || is_inside && depth == Depth::Infinity || is_around {
        let why = "source and destination are the same, or one lies in the other";
        return Err(Problem::new(StatusCode::FORBIDDEN, "EP1013", why));
    }
    let parent = to.parent().unwrap_or_else(VPath::root);
    let above = asked.vfs().published(&parent).await?;
    if above.is_none_or(|above| above.kind != EntryKind::Directory) {
        let why = "the directory that the destination names is not there; make it first";
        return Err(Problem::new(StatusCode::CONFLICT, "EP0401", why));
    }
    let there = asked.vfs().published(&to).await?;
    let overwrite = Overwrite::parse(asked.field("overwrite"))?;
    if there.is_some() && overwrite == Overwrite::Refuse {
        let why = "the name is taken, and the request asks not to replace what has it";
        return Err(Problem::new(StatusCode::PRECONDITION_FAILED, "EP1009", why));
    }
    Ok(Going { to, there, depth })
}

/// Removes what has the new name.
async fn clear(vfs: &Vfs, going: &Going) -> Vec<Failed> {
    match &going.there {
        Some(there) => trees::remove(vfs, &going.to, there.kind).await,
        None => Vec::new(),
    }
}

/// Copies a file, or a tree; the answer names what was not copied.
async fn carry(
    asked: &DavRequest,
    from: &VPath,
    kind: EntryKind,
    going: &Going,
) -> Result<Vec<Failed>, Problem> {
    let vfs = asked.vfs();
    let replaces_file = going.there.as_ref().is_some_and(|it| it.kind == EntryKind::File);
    if kind == EntryKind::File && (replaces_file || going.there.is_none()) {
        copy_file(vfs, from, &going.to).await.map_err(|error| without_parent(error.into()))?;
        return Ok(Vec::new());
    }
    let failed = clear(vfs, going).await;
    if !failed.is_empty() {
        return Ok(failed);
    }
    let mut failed = Vec::new();
    let source = Member { path: from.clone(), kind, depth: 0 };
    copy_tree(vfs, source, Copied { to: &going.to, depth: going.depth }, &mut failed).await;
    Ok(failed)
}

/// How a member of a tree is copied.
#[derive(Clone, Copy)]
struct Copied<'a> {
    to: &'a VPath,
    depth: Depth,
}

async fn copy_tree(vfs: &Vfs, member: Member, how: Copied<'_>, failed: &mut Vec<Failed>) {
    let made = match member.kind {
        EntryKind::Directory => vfs.make_directory(how.to).await,
        EntryKind::File | EntryKind::Link => copy_file(vfs, &member.path, how.to).await,
    };
    if let Err(error) = made {
        let (path, kind) = (how.to.clone(), member.kind);
        failed.push(Failed { path, kind, problem: error.into() });
        return;
    }
    if member.kind != EntryKind::Directory || how.depth == Depth::Zero {
        return;
    }
    let inside = match trees::members(vfs, &member).await {
        Ok(inside) => inside,
        Err(problem) => return failed.push(member.failed(problem)),
    };
    for child in inside {
        let name = child.path.file_name().unwrap_or_default();
        match how.to.join(name) {
            Ok(to) => Box::pin(copy_tree(vfs, child, Copied { to: &to, ..how }, failed)).await,
            Err(error) => failed.push(child.failed(Problem::malformed(error.to_string()))),
        }
    }
}

async fn copy_file(vfs: &Vfs, from: &VPath, to: &VPath) -> Result<(), VfsError> {
    let file = vfs.open(from).await?;
    let expected_size = Some(file.attributes().size);
    let how = Create { intent: CreateIntent::New, expected_size, append: false };
    let mut upload = vfs.create(to, how).await?;
    if let Err(error) = pump(&file, &mut upload).await {
        upload.abort().await;
        return Err(error);
    }
    upload.finish().await?;
    file.finish().await;
    Ok(())
}

async fn pump(file: &Download, upload: &mut Upload) -> Result<(), VfsError> {
    let mut at = 0;
    loop {
        let read = file.read_at(at, BytesMut::new(), BATCH_BYTES).await?;
        if read.is_empty() {
            return Ok(());
        }
        let count = read.len() as u64;
        upload.write_at(at, read.freeze()).await?;
        at += count;
    }
}
