//! What requests for uploads are answered.

use axum::Json;
use axum::http::header::{CACHE_CONTROL, CONTENT_LOCATION};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use entrepot_nouns::VPath;
use entrepot_vfs::limits::FILE_BYTES;
use entrepot_vfs::{ResumableStatus, UploadStage, Uploaded, Vfs};
use serde_json::{Value, json};

use super::tus::{
    CHECKSUMS, TUS_RESUMABLE, TUS_VERSION, UPLOAD_DEFER_LENGTH, UPLOAD_EXPIRES, UPLOAD_LENGTH,
    UPLOAD_METADATA, UPLOAD_OFFSET, VERSION,
};
use crate::files::path::address;
use crate::files::upload::{REPR_DIGEST, repr_digest};
use crate::files::validators::date;

const EXTENSIONS: HeaderValue = HeaderValue::from_static(
    "creation,creation-with-upload,creation-defer-length,expiration,termination,checksum",
);

/// What of tus is spoken.
pub(super) fn options() -> Response {
    let named = HeaderName::from_static;
    let fields = [
        (TUS_RESUMABLE, VERSION),
        (TUS_VERSION, VERSION),
        (named("tus-max-size"), HeaderValue::from(FILE_BYTES)),
        (named("tus-extension"), EXTENSIONS),
        (named("tus-checksum-algorithm"), CHECKSUMS),
    ];
    (StatusCode::NO_CONTENT, fields).into_response()
}

/// True if all bytes of an upload in order are there, and it is not published.
pub(super) fn is_due(status: &ResumableStatus) -> bool {
    let is_whole = status.size == Some(status.offset) && status.part_bytes.is_none();
    is_whole && !matches!(status.stage, UploadStage::Finished(_))
}

/// Where an upload stands, in fields of tus.
pub(super) fn standing(code: StatusCode, status: &ResumableStatus) -> Response {
    let mut response = code.into_response();
    let fields = response.headers_mut();
    fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    fields.insert(UPLOAD_OFFSET, HeaderValue::from(status.offset));
    match status.size {
        Some(size) => fields.insert(UPLOAD_LENGTH, HeaderValue::from(size)),
        None => fields.insert(UPLOAD_DEFER_LENGTH, HeaderValue::from_static("1")),
    };
    if let Ok(metadata) = HeaderValue::from_str(&status.metadata)
        && !metadata.is_empty()
    {
        fields.insert(UPLOAD_METADATA, metadata);
    }
    match status.stage {
        UploadStage::Finished(uploaded) => add_published(fields, &status.path, &uploaded),
        UploadStage::Receiving | UploadStage::Finishing => {
            if let Ok(expires) = HeaderValue::from_str(&date(status.expires_at)) {
                fields.insert(UPLOAD_EXPIRES, expires);
            }
        }
    }
    response
}

/// Where the file of an upload is, and its digest.
pub(super) fn add_published(fields: &mut HeaderMap, path: &VPath, uploaded: &Uploaded) {
    if let Ok(location) = HeaderValue::from_str(&address(path)) {
        fields.insert(CONTENT_LOCATION, location);
    }
    if let Some(digest) = uploaded.digests.sha256.and_then(|sha256| repr_digest(&sha256)) {
        fields.insert(REPR_DIGEST, digest);
    }
}

/// Where an upload stands, in words.
pub(super) fn state(status: &ResumableStatus) -> Response {
    let mut response = Json(shown(status)).into_response();
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// An upload as programs see it.
pub(super) fn shown(status: &ResumableStatus) -> Value {
    let parts = status.parts.iter().map(|range| json!([range.first, range.last]));
    let stage = match status.stage {
        UploadStage::Receiving => "receiving",
        UploadStage::Finishing => "finishing",
        UploadStage::Finished(_) => "finished",
    };
    let mut shown = json!({
        "id": status.id.to_string(),
        "path": status.path,
        "stage": stage,
        "offset": status.offset,
        "size": status.size,
        "part_bytes": status.part_bytes,
        "parts": parts.collect::<Vec<_>>(),
        "expires_at": status.expires_at,
    });
    if let (UploadStage::Finished(uploaded), Value::Object(fields)) = (status.stage, &mut shown) {
        fields.remove("expires_at");
        fields.insert("digests".to_owned(), json!(uploaded.digests));
    }
    shown
}

/// The unfinished uploads of an account.
pub(super) fn list(vfs: &Vfs) -> Response {
    let uploads: Vec<Value> = vfs.resumables().iter().map(shown).collect();
    let mut response = Json(json!({ "uploads": uploads })).into_response();
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The file that an upload became.
pub(super) fn completed(path: &VPath, uploaded: &Uploaded) -> Response {
    let shown = json!({
        "path": path,
        "size": uploaded.size,
        "digests": uploaded.digests,
        "replaced": uploaded.replaced,
        "transfer": uploaded.transfer,
    });
    let mut response = Json(shown).into_response();
    add_published(response.headers_mut(), path, uploaded);
    response
}
