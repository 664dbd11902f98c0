//! GET of a directory as a zip archive: all of it, or chosen entries. Its bytes are made while they
//! are sent; length, ranges and state are known before.

use std::collections::BTreeSet;

use axum::Form;
use axum::body::Body;
use axum::extract::{FromRequest as _, Query, Request};
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use entrepot_net::meter::Running;
use entrepot_nouns::VPath;
use entrepot_vfs::{IncomingCommand, Vfs, VfsError, ZipArchive};
use futures_util::stream;
use serde::Deserialize;

use super::download::{self, Representation};
use super::file_request::FileRequest;
use super::validators::Validators;
use crate::hooks::reading;
use crate::limits::{ARCHIVE_NAMES, DOCUMENT_BYTES, PIECE_BYTES};
use crate::login::SignedIn;
use crate::problem::Problem;
use crate::upload_body::UploadBody;

const ZIP: HeaderValue = HeaderValue::from_static("application/zip");

/// True if a client takes nothing but an archive of a directory.
pub(super) fn is_wanted(fields: &HeaderMap) -> bool {
    let accepted = fields.get(ACCEPT).and_then(|accepted| accepted.to_str().ok());
    accepted.is_some_and(|accepted| accepted.trim() == "application/zip")
}

/// Answers with the archive of a directory, or of the entries that the address names.
pub(super) async fn get(asked: FileRequest, uri: &Uri) -> Result<Response, Problem> {
    answer(asked, chosen_names(uri)?).await
}

/// The entries that an address names; none: it means all.
pub(crate) fn chosen_names(uri: &Uri) -> Result<BTreeSet<String>, Problem> {
    let pairs = Query::<Vec<(String, String)>>::try_from_uri(uri);
    let Query(pairs) = pairs.map_err(|error| Problem::malformed(error.body_text()))?;
    Ok(names_of(pairs))
}

/// Answers with the archive of the entries that the body names: more of them than an address has
/// room for.
pub(super) async fn post(asked: FileRequest, body: Body) -> Result<Response, Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Names {
        names: BTreeSet<String>,
    }
    let patience = asked.context.connection.config.body_time();
    let mut body = UploadBody::new(body, asked.signed_in.clone(), patience);
    let body = body.whole(DOCUMENT_BYTES).await?;
    let kind = asked.fields.get(CONTENT_TYPE).cloned();
    let kind = kind.unwrap_or(HeaderValue::from_static(""));
    let names = if kind.as_bytes().starts_with(b"application/json") {
        let unreadable = |error| Problem::malformed(format!("the names cannot be read: {error}"));
        serde_json::from_slice::<Names>(&body).map_err(unreadable)?.names
    } else {
        let mut request = Request::new(Body::from(body.freeze()));
        *request.method_mut() = Method::POST;
        request.headers_mut().insert(CONTENT_TYPE, kind);
        let form = Form::<Vec<(String, String)>>::from_request(request, &()).await;
        let Form(pairs) = form.map_err(|error| Problem::malformed(error.body_text()))?;
        names_of(pairs)
    };
    if names.is_empty() {
        return Err(Problem::malformed("name the entries of the archive: name=A&name=B"));
    }
    answer(asked, names).await
}

fn names_of(pairs: Vec<(String, String)>) -> BTreeSet<String> {
    pairs.into_iter().filter(|(key, _)| key == "name").map(|(_, name)| name).collect()
}

async fn answer(asked: FileRequest, names: BTreeSet<String>) -> Result<Response, Problem> {
    let rules = asked.signed_in.rules(&asked.context);
    let is_asked = rules.look() && asked.method != Method::HEAD;
    let command = is_asked.then(|| command_of(&asked.target.path, &names));
    match rules.begin(command).await? {
        Some(begun) => begun.carry_out(Box::pin(packed(asked, names))).await,
        None => packed(asked, names).await,
    }
}

async fn packed(asked: FileRequest, names: BTreeSet<String>) -> Result<Response, Problem> {
    let archive = archive_of(asked.signed_in.vfs(), &asked.target.path, &names).await?;
    send(asked, archive)
}

/// An archive in the words of rules: they are asked about the folder, or about each entry that was
/// chosen, as they are about a folder that is moved.
pub(crate) fn command_of(folder: &VPath, names: &BTreeSet<String>) -> IncomingCommand {
    // What is no name is refused when it is looked for.
    let mut chosen = names.iter().filter_map(|name| folder.join(name).ok());
    let first = chosen.next();
    let command = reading("read", "GET", first.as_ref().unwrap_or(folder));
    chosen.fold(command, |command, path| command.and(Some(&path)))
}

/// The archive of a directory, or of the named entries of it.
pub(crate) async fn archive_of(
    vfs: &Vfs,
    folder: &VPath,
    names: &BTreeSet<String>,
) -> Result<ZipArchive, Problem> {
    if names.len() > ARCHIVE_NAMES {
        let why = format!("an archive may have {ARCHIVE_NAMES} chosen entries; choose folders");
        return Err(Problem::malformed(why));
    }
    for name in names {
        folder.join(name).map_err(|error| {
            Problem::new(StatusCode::BAD_REQUEST, "EP1004", format!("'{name}': {error}"))
        })?;
    }
    Ok(if names.is_empty() { vfs.zip(folder).await? } else { vfs.zip_of(folder, names).await? })
}

/// Answers with an archive of the folder that a request names.
pub(crate) fn send(asked: FileRequest, archive: ZipArchive) -> Result<Response, Problem> {
    let folder = &asked.target.path;
    let known = Validators::of_archive(archive.tag());
    if let Some(unmodified) = download::unmodified(&known, &asked.fields)? {
        return Ok(unmodified);
    }
    let name = format!("{}.zip", folder.file_name().unwrap_or("files"));
    let shown =
        Representation { known: &known, size: archive.size(), name: &name, media_type: ZIP };
    let head = download::headed(&shown, &asked.fields)?;
    if asked.method == Method::HEAD {
        return Ok(head.answer(Body::empty()));
    }
    let sending = Sending {
        archive,
        at: head.first,
        left: head.length,
        _running: asked.context.connection.meter.running(),
        _signed_in: asked.signed_in,
    };
    Ok(head.answer(sending.body()))
}

/// An archive on its way to the client: one piece at a time, when the client has taken the last
/// one.
struct Sending {
    archive: ZipArchive,
    at: u64,
    left: u64,
    /// The least rate holds, and a draining server waits.
    _running: Running,
    /// The session is open while it is used.
    _signed_in: SignedIn,
}

impl Sending {
    fn body(self) -> Body {
        Body::from_stream(stream::try_unfold(self, |mut sending| async move {
            if sending.left == 0 {
                return Ok(None);
            }
            let piece = sending.next_piece().await?;
            Ok::<_, VfsError>(Some((piece, sending)))
        }))
    }

    /// The headers of small files are short: they go together.
    async fn next_piece(&mut self) -> Result<Bytes, VfsError> {
        let want = usize::try_from(self.left).unwrap_or(usize::MAX).min(PIECE_BYTES);
        let mut piece = BytesMut::new();
        while piece.len() < want {
            let bytes = self.archive.read_at(self.at, want - piece.len()).await?;
            if bytes.is_empty() {
                return Err(VfsError::Conflict);
            }
            let count = bytes.len() as u64;
            self.at = self.at.saturating_add(count);
            self.left = self.left.saturating_sub(count);
            if piece.is_empty() && bytes.len() == want {
                return Ok(bytes);
            }
            piece.extend_from_slice(&bytes);
        }
        Ok(piece.freeze())
    }
}
