//! POST: an upload begins, and may bring its first bytes along.

use axum::Json;
use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use entrepot_nouns::{Digests, Timestamp, VPath};
use entrepot_vfs::{CreatedUpload, NewResumable, ResumableStatus, Vfs, VfsError};
use serde::Deserialize;
use serde_json::Value;

use super::answers;
use super::receive::{AppendStart, append_body, is_offset_octets, length, publish_if_whole};
use super::tus::{self, Metadata, UPLOAD_DEFER_LENGTH, UPLOAD_LENGTH, UPLOAD_METADATA};
use super::upload_request::{UPLOAD_TICKET, of_upload};
use crate::context::RequestContext;
use crate::files::conflict::Conflict;
use crate::files::upload::{REPR_DIGEST, sha256_of};
use crate::hooks::{CommandRules, writing};
use crate::limits::DOCUMENT_BYTES;
use crate::login::SignedIn;
use crate::problem::Problem;
use crate::upload_body::UploadBody;

const UPLOAD_CONFLICT: HeaderName = HeaderName::from_static("upload-conflict");

/// An upload that is to begin.
struct NewUpload {
    path: VPath,
    how: NewResumable,
}

/// The document that begins an upload.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UploadDocument {
    path: VPath,
    size: Option<u64>,
    part_bytes: Option<u64>,
    modified: Option<Timestamp>,
    #[serde(default)]
    conflict: Conflict,
    /// What the whole file must be.
    #[serde(default)]
    digests: Digests,
}

/// Begins an upload.
pub(super) async fn begin(
    context: &RequestContext,
    signed_in: SignedIn,
    fields: &HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let patience = context.connection.config.body_time();
    let mut body = UploadBody::new(body, signed_in.clone(), patience);
    let kind = fields.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let (vfs, rules) = (signed_in.vfs(), signed_in.rules(context));
    if kind.split(';').next().is_some_and(|kind| kind.trim() == "application/json") {
        let document = body.whole(DOCUMENT_BYTES).await?;
        let created = create(vfs, &rules, of_document(&document)?).await?;
        let status = created.upload.status().await.map_err(of_upload)?;
        return Ok(created_document(&created, &status));
    }
    let new = of_fields(fields, &vfs.home())?;
    let is_empty = new.how.size == Some(0);
    let checksum = tus::checksum(fields)?;
    let created = create(vfs, &rules, new).await?;
    if !is_offset_octets(fields) && !is_empty {
        let status = created.upload.status().await.map_err(of_upload)?;
        return Ok(created_answer(&created, answers::standing(StatusCode::CREATED, &status)));
    }
    let _running = context.connection.meter.running();
    let first = async {
        let start = AppendStart { offset: 0, checksum, body_bytes: length(fields) };
        let status = append_body(&created.upload, start, &mut body).await?;
        publish_if_whole(&created.upload, status, &rules).await
    };
    match first.await {
        Ok(response) => Ok(created_answer(&created, response)),
        Err(problem) => {
            // The client has not heard the address: it can only begin anew.
            if let Err(error) = created.upload.terminate().await {
                tracing::debug!(%error, "an upload that failed at once is not there any more");
            }
            Err(problem)
        }
    }
}

/// Begins an upload, if rules let it: what its further requests bring is not asked about.
async fn create(vfs: &Vfs, rules: &CommandRules, new: NewUpload) -> Result<CreatedUpload, Problem> {
    let NewUpload { path, how } = new;
    let command = rules.before(|| writing("write", "POST", &path)).await?;
    match vfs.create_resumable(&path, how).await {
        // They are told when it ends.
        Ok(created) => Ok(created),
        Err(error) => rules.after(command, Err(error.into()), StatusCode::CREATED).await,
    }
}

/// Reads the fields of tus.
fn of_fields(fields: &HeaderMap, home: &VPath) -> Result<NewUpload, Problem> {
    let size = tus::number(fields, &UPLOAD_LENGTH)?;
    let is_deferred = match tus::text(fields, &UPLOAD_DEFER_LENGTH)? {
        None => false,
        Some("1") => true,
        Some(_) => return Err(Problem::malformed("Upload-Defer-Length can only be 1")),
    };
    if size.is_some() == is_deferred {
        let why = "the request needs either Upload-Length or Upload-Defer-Length: 1; an upload by \
            parts begins with a document (Content-Type: application/json)";
        return Err(Problem::malformed(why));
    }
    let metadata = tus::text(fields, &UPLOAD_METADATA)?.unwrap_or_default();
    let known = Metadata::parse(metadata).map_err(Problem::malformed)?;
    let conflict = match tus::text(fields, &UPLOAD_CONFLICT)?.or(known.value("conflict")) {
        Some(word) => Conflict::of(word)?,
        None => Conflict::default(),
    };
    let modified = known.value("modified").map(str::parse::<Timestamp>).transpose();
    let how = NewResumable {
        size,
        part_bytes: None,
        modified: modified.map_err(Problem::malformed)?,
        on_conflict: conflict.into(),
        expected: Digests { blake3: None, sha256: expected_sha256(fields)? },
        metadata: metadata.to_owned(),
    };
    Ok(NewUpload { path: path_of(&known, home)?, how })
}

/// The path that metadata name: `folder`, or the account's home, and `filename`.
fn path_of(metadata: &Metadata, home: &VPath) -> Result<VPath, Problem> {
    let flaw = |error: String| Problem::new(StatusCode::BAD_REQUEST, "EP1004", error);
    let name = metadata.value("filename").or(metadata.value("name")).unwrap_or_default();
    // Some clients send the whole path of the file on the person's machine.
    let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
    if name.is_empty() {
        return Err(Problem::malformed("Upload-Metadata needs a filename"));
    }
    let folder = match metadata.value("folder") {
        Some(folder) => folder.parse().map_err(|error| flaw(format!("'{folder}': {error}")))?,
        None => home.clone(),
    };
    folder.join(name).map_err(|error| flaw(format!("'{name}': {error}")))
}

fn expected_sha256(fields: &HeaderMap) -> Result<Option<[u8; 32]>, Problem> {
    let Some(field) = tus::text(fields, &REPR_DIGEST)? else { return Ok(None) };
    let why = "Repr-Digest has no sha-256=:BASE64: that can be read";
    sha256_of(field).map(Some).ok_or_else(|| Problem::malformed(why))
}

fn of_document(document: &[u8]) -> Result<NewUpload, Problem> {
    let document: UploadDocument = serde_json::from_slice(document)
        .map_err(|error| Problem::malformed(format!("the document cannot be read: {error}")))?;
    if document.path.is_root() {
        return Err(VfsError::IsDirectory.into());
    }
    let how = NewResumable {
        size: document.size,
        part_bytes: document.part_bytes,
        modified: document.modified,
        on_conflict: document.conflict.into(),
        expected: document.digests,
        metadata: String::new(),
    };
    Ok(NewUpload { path: document.path, how })
}

/// Adds where the upload is continued, and by what ticket.
fn created_answer(created: &CreatedUpload, mut response: Response) -> Response {
    *response.status_mut() = StatusCode::CREATED;
    let fields = response.headers_mut();
    let location = format!("/uploads/{}", created.upload.id());
    for (name, value) in [(LOCATION, &location), (UPLOAD_TICKET, &created.ticket)] {
        if let Ok(mut value) = HeaderValue::from_str(value) {
            value.set_sensitive(name == UPLOAD_TICKET);
            fields.insert(name, value);
        }
    }
    response
}

fn created_document(created: &CreatedUpload, status: &ResumableStatus) -> Response {
    let mut shown = answers::shown(status);
    if let Value::Object(fields) = &mut shown {
        fields.insert("ticket".to_owned(), Value::String(created.ticket.clone()));
    }
    created_answer(created, Json(shown).into_response())
}
