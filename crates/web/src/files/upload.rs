//! PUT: a whole file. Nothing is visible before all of it has come and is durable.

use axum::body::Body;
use axum::http::header::{
    CONTENT_LENGTH, CONTENT_RANGE, HeaderName, IF_MATCH, IF_NONE_MATCH, LOCATION,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::BytesMut;
use entrepot_nouns::VPath;
use entrepot_vfs::{Create, CreateIntent, Upload, Uploaded, Vfs, VfsError};

use super::file_request::FileRequest;
use super::path::address;
use super::validators::{self, Validators};
use crate::hooks::Published;
use crate::limits::BATCH_BYTES;
use crate::problem::Problem;
use crate::upload_body::UploadBody;

/// Digests of the content (RFC 9530).
pub(crate) const REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");

/// Takes a whole file.
pub(crate) async fn put(asked: FileRequest, body: Body) -> Result<Response, Problem> {
    let FileRequest { context, signed_in, target, fields, .. } = asked;
    let path = &target.path;
    if target.is_directory {
        return Err(VfsError::IsDirectory.into());
    }
    if fields.contains_key(CONTENT_RANGE) {
        return Err(Problem::malformed("PUT takes a whole file; leave Content-Range out"));
    }
    let vfs = signed_in.vfs();
    validators::check(vfs, path, &fields).await?;
    let is_new = fields.get(IF_NONE_MATCH).is_some_and(|value| value == "*");
    let intent = if is_new { CreateIntent::Exclusive } else { CreateIntent::New };
    let expected_size = length(&fields)?;
    let how = Create { intent, expected_size, append: false };
    let created = vfs.create(path, how).await;
    // The name was taken meanwhile.
    let created = created.map_err(|error| match error {
        VfsError::Exists if is_new => validators::failed(),
        error => error.into(),
    });
    let _running = context.connection.meter.running();
    let patience = context.connection.config.body_time();
    let mut body = UploadBody::new(body, signed_in.clone(), patience);
    let upload = take(created?, &mut body, expected_size).await?;
    let upload = check_again(vfs, path, &fields, upload).await?;
    let uploaded = upload.finish().await?;
    let mut response = answer(vfs, path, &uploaded).await?;
    if signed_in.rules(&context).look() {
        response.extensions_mut().insert(Published(uploaded));
    }
    Ok(response)
}

fn length(fields: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(length) = fields.get(CONTENT_LENGTH) else { return Ok(None) };
    let length = length.to_str().ok().and_then(|length| length.parse().ok());
    length.map(Some).ok_or_else(|| Problem::malformed("Content-Length cannot be read"))
}

/// A file may have changed while its successor came.
async fn check_again(
    vfs: &Vfs,
    path: &VPath,
    fields: &HeaderMap,
    upload: Upload,
) -> Result<Upload, Problem> {
    if !fields.contains_key(IF_MATCH) {
        return Ok(upload);
    }
    if let Err(problem) = validators::check(vfs, path, fields).await {
        upload.abort().await;
        return Err(problem);
    }
    Ok(upload)
}

/// Writes all that comes. What is refused is dropped; what breaks off is kept, hidden, for its
/// owner to resume by another protocol.
pub(super) async fn take(
    mut upload: Upload,
    body: &mut UploadBody,
    expected_size: Option<u64>,
) -> Result<Upload, Problem> {
    match write(&mut upload, body, expected_size).await {
        Ok(()) => Ok(upload),
        Err(Stop::Refused(error)) => {
            upload.abort().await;
            Err(error.into())
        }
        Err(Stop::Broken(problem)) => {
            upload.interrupt(&problem.detail).await;
            Err(problem)
        }
    }
}

/// Why an upload does not go on.
enum Stop {
    Refused(VfsError),
    Broken(Problem),
}

async fn write(
    upload: &mut Upload,
    body: &mut UploadBody,
    expected_size: Option<u64>,
) -> Result<(), Stop> {
    let size = expected_size.and_then(|size| usize::try_from(size).ok()).unwrap_or(BATCH_BYTES);
    let mut batch = BytesMut::with_capacity(size.min(BATCH_BYTES));
    let mut at = 0;
    body.fill(&mut batch).await.map_err(Stop::Broken)?;
    while !batch.is_empty() {
        let count = batch.len() as u64;
        if upload.try_write_at(at, &batch).map_err(Stop::Refused)? {
            batch.clear();
            body.fill(&mut batch).await.map_err(Stop::Broken)?;
        } else {
            let mut next = BytesMut::with_capacity(BATCH_BYTES);
            let (written, filled) =
                tokio::join!(upload.write_at(at, batch.freeze()), body.fill(&mut next));
            written.map_err(Stop::Refused)?;
            filled.map_err(Stop::Broken)?;
            batch = next;
        }
        at += count;
    }
    Ok(())
}

async fn answer(vfs: &Vfs, path: &VPath, uploaded: &Uploaded) -> Result<Response, Problem> {
    let status = if uploaded.replaced { StatusCode::NO_CONTENT } else { StatusCode::CREATED };
    let mut response = status.into_response();
    let fields = response.headers_mut();
    if let Ok(attributes) = vfs.stat(path).await {
        Validators::of(path, &attributes).add_to(fields);
    }
    if let Some(digest) = uploaded.digests.sha256.and_then(|sha256| repr_digest(&sha256)) {
        fields.insert(REPR_DIGEST, digest);
    }
    if let Ok(location) = HeaderValue::from_str(&address(path)) {
        fields.insert(LOCATION, location);
    }
    Ok(response)
}

/// A SHA-256 as `Repr-Digest` shows it.
pub(crate) fn repr_digest(sha256: &[u8; 32]) -> Option<HeaderValue> {
    HeaderValue::from_str(&format!("sha-256=:{}:", STANDARD.encode(sha256))).ok()
}

/// The SHA-256 that a `Repr-Digest` names.
pub(crate) fn sha256_of(field: &str) -> Option<[u8; 32]> {
    let member = |member: &str| {
        let value = member.trim().strip_prefix("sha-256=:")?.strip_suffix(':')?;
        STANDARD.decode(value).ok()?.try_into().ok()
    };
    field.split(',').find_map(member)
}
