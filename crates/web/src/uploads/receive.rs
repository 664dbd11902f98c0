//! PATCH, and PUT of a part: bytes on their way into an upload.

use axum::body::Body;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use entrepot_vfs::{
    Append, Checksum, PartUpload, ResumableStatus, ResumableUpload, UploadStage, Uploaded, VfsError,
};
use futures_util::future::BoxFuture;

use super::answers;
use super::tus::{self, OFFSET_OCTETS, UPLOAD_LENGTH, UPLOAD_OFFSET};
use super::upload_request::{UploadRequest, of_upload};
use crate::hooks::{CommandRules, to_its_end, writing};
use crate::limits::BATCH_BYTES;
use crate::problem::Problem;
use crate::upload_body::UploadBody;

/// What the bytes of a request become.
enum Target {
    Append(Append),
    Part(PartUpload),
}

impl Target {
    async fn write(&mut self, bytes: Bytes) -> Result<(), VfsError> {
        match self {
            Target::Append(append) => append.write(bytes).await,
            Target::Part(part) => part.write(bytes).await,
        }
    }

    /// Completes when its client has come back by another request.
    fn displaced(&self) -> BoxFuture<'static, ()> {
        match self {
            Target::Append(append) => Box::pin(append.displaced()),
            Target::Part(part) => Box::pin(part.displaced()),
        }
    }

    async fn end(self) -> Result<ResumableStatus, VfsError> {
        match self {
            Target::Append(append) => append.end().await,
            Target::Part(part) => part.end().await,
        }
    }
}

/// PATCH: appends where the upload stands. With the last byte the file is published.
pub(super) async fn append(request: UploadRequest, body: Body) -> Result<Response, Problem> {
    check_media_type(&request.fields)?;
    let offset = tus::number(&request.fields, &UPLOAD_OFFSET)?;
    let offset = offset.ok_or_else(|| Problem::malformed("PATCH needs an Upload-Offset"))?;
    let checksum = tus::checksum(&request.fields)?;
    let status = request.upload.status().await.map_err(of_upload)?;
    if let UploadStage::Finished(uploaded) = status.stage {
        return Err(of_upload(VfsError::OffsetMismatch { offset: uploaded.size }));
    }
    if let Some(size) = tus::number(&request.fields, &UPLOAD_LENGTH)? {
        request.upload.set_size(size).await.map_err(of_upload)?;
    }
    let _running = request.context.connection.meter.running();
    let mut body = request.body(body);
    let start = AppendStart { offset, checksum, body_bytes: length(&request.fields) };
    let status = append_body(&request.upload, start, &mut body).await?;
    publish_if_whole(&request.upload, status, &request.rules()).await
}

/// How a request appends.
pub(super) struct AppendStart {
    pub(super) offset: u64,
    pub(super) checksum: Option<Checksum>,
    /// Bytes of the body, as far as its head says.
    pub(super) body_bytes: Option<u64>,
}

/// Appends a body; what it says at its end is durable.
pub(super) async fn append_body(
    upload: &ResumableUpload,
    start: AppendStart,
    body: &mut UploadBody,
) -> Result<ResumableStatus, Problem> {
    upload.displace_append().await;
    let append = upload.append(start.offset, start.checksum).await.map_err(of_upload)?;
    receive(Target::Append(append), body, start.body_bytes).await
}

/// Answers with where the upload stands, and publishes it before if nothing is missing.
pub(super) async fn publish_if_whole(
    upload: &ResumableUpload,
    status: ResumableStatus,
    rules: &CommandRules,
) -> Result<Response, Problem> {
    if !answers::is_due(&status) {
        return Ok(answers::standing(StatusCode::NO_CONTENT, &status));
    }
    let uploaded = publish(upload, &status, rules).await?;
    let status = upload.status().await.map_err(of_upload)?;
    let mut response = answers::standing(StatusCode::NO_CONTENT, &status);
    answers::add_published(response.headers_mut(), &status.path, &uploaded);
    Ok(response)
}

/// Publishes an upload. Rules were asked when it began, and are told now, unless it is published
/// already.
pub(super) async fn publish(
    upload: &ResumableUpload,
    status: &ResumableStatus,
    rules: &CommandRules,
) -> Result<Uploaded, Problem> {
    if !rules.look() || matches!(status.stage, UploadStage::Finished(_)) {
        return Ok(upload.finish().await?);
    }
    let mut command = rules.asked_before(|| writing("write", "POST", &status.path));
    let (upload, told) = (upload.clone(), rules.clone());
    let publishing = async move {
        let uploaded = upload.finish().await.map_err(Problem::from);
        if let (Some(command), Ok(status)) = (&mut command, upload.status().await) {
            command.stored_at(&status.path);
        }
        told.after_upload(command, uploaded, StatusCode::OK).await
    };
    to_its_end(Box::pin(publishing)).await
}

/// PUT of a part.
pub(super) async fn part(
    request: UploadRequest,
    number: u64,
    body: Body,
) -> Result<Response, Problem> {
    let checksum = tus::checksum(&request.fields)?;
    let status = request.upload.status().await.map_err(of_upload)?;
    if let UploadStage::Finished(_) = status.stage {
        let why = "the file of this upload is published; it takes no further part";
        return Err(Problem::new(StatusCode::CONFLICT, "EP0412", why));
    }
    request.upload.displace_part(number).await;
    let part = request.upload.part(number, checksum).await.map_err(of_upload)?;
    let _running = request.context.connection.meter.running();
    let mut body = request.body(body);
    let status = receive(Target::Part(part), &mut body, length(&request.fields)).await?;
    Ok(answers::standing(StatusCode::NO_CONTENT, &status))
}

fn check_media_type(fields: &HeaderMap) -> Result<(), Problem> {
    if is_offset_octets(fields) {
        return Ok(());
    }
    let why = format!("the bytes of an upload come as Content-Type: {OFFSET_OCTETS}");
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "EP1089", why))
}

/// True if the body is bytes of a file, as tus marks them.
pub(super) fn is_offset_octets(fields: &HeaderMap) -> bool {
    let kind = fields.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case(OFFSET_OCTETS))
}

/// Bytes of the body, as far as the head of the request says.
pub(super) fn length(fields: &HeaderMap) -> Option<u64> {
    fields.get(CONTENT_LENGTH).map(HeaderValue::to_str)?.ok()?.parse().ok()
}

/// Takes a body to its end: one batch is written while the next one comes. What breaks off leaves
/// what came before it, as the engine keeps it.
async fn receive(
    mut target: Target,
    body: &mut UploadBody,
    body_bytes: Option<u64>,
) -> Result<ResumableStatus, Problem> {
    body.stop_with(target.displaced());
    let mut left = body_bytes.unwrap_or(u64::MAX);
    let mut batch = room_for(left);
    let mut filled = body.fill(&mut batch).await;
    while filled.is_ok() && !batch.is_empty() {
        left = left.saturating_sub(batch.len() as u64);
        let mut next = room_for(left);
        let (written, next_filled) =
            tokio::join!(target.write(batch.freeze()), body.fill(&mut next));
        written.map_err(of_upload)?;
        (batch, filled) = (next, next_filled);
    }
    if filled.is_err() && !batch.is_empty() {
        // What came before the break counts too.
        target.write(batch.freeze()).await.map_err(of_upload)?;
    }
    filled?;
    target.end().await.map_err(of_upload)
}

/// Room for a batch of what is left of a body.
fn room_for(left: u64) -> BytesMut {
    BytesMut::with_capacity(usize::try_from(left).unwrap_or(BATCH_BYTES).min(BATCH_BYTES))
}
