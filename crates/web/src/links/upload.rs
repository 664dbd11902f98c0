//! Files that recipients of a link add: by PUT, or by a form. No file replaces another: a name that
//! is taken gets a number, which who may only upload is not told.

use axum::Json;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use bytes::{Bytes, BytesMut};
use entrepot_auth::LinkUse;
use entrepot_nouns::transfer::hex;
use entrepot_nouns::{LinkAction, VPath};
use entrepot_vfs::{Upload, Uploaded, VfsError};
use multer::{Field, Multipart};
use serde_json::json;

use super::arrived::Arrived;
use super::asked::Asked;
use super::download::used_up;
use super::page;
use super::visit::LinkVisit;
use crate::accept::Wanted;
use crate::hooks::writing;
use crate::limits::{BATCH_BYTES, FORM_FILES};
use crate::problem::Problem;
use crate::upload_body::UploadBody;

/// Where the bytes of a file come from.
enum Source {
    Body(UploadBody),
    Part(Field<'static>),
}

impl Source {
    async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        match self {
            Source::Body(body) => body.next().await,
            Source::Part(part) => part.chunk().await.map_err(unreadable),
        }
    }
}

/// Takes one whole file.
pub(super) async fn put(asked: Asked, request: Request) -> Result<Response, Problem> {
    let Asked { visit, target, .. } = asked;
    let fields = request.headers();
    let expected = length(fields)?;
    if fields.contains_key(CONTENT_RANGE) {
        return Err(Problem::malformed("PUT takes a whole file; leave Content-Range out"));
    }
    let name = match (target.path.parent(), target.path.file_name()) {
        (Some(above), Some(name)) if above.is_root() && !target.is_directory => name.to_owned(),
        _ => {
            let why =
                "name the file behind the link, as 'curl -T FILE https://HOST/s/SECRET/' does";
            return Err(Problem::new(StatusCode::BAD_REQUEST, "EP1004", why));
        }
    };
    check_room(&visit, expected)?;
    let _running = visit.context.connection.meter.running();
    let body = body_of(&visit, request.into_body());
    let arrived = receive(&visit, &name, Source::Body(body), expected).await?;
    Ok((StatusCode::CREATED, Json(arrived)).into_response())
}

/// Takes the files of a form.
pub(super) async fn form(asked: Asked, request: Request) -> Result<Response, Problem> {
    let visit = asked.visit;
    let wanted = Wanted::of(request.headers());
    let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let boundary = multer::parse_boundary(kind.unwrap_or_default())
        .map_err(|_| Problem::malformed("POST takes a form with files (multipart/form-data)"))?;
    check_room(&visit, None)?;
    let _running = visit.context.connection.meter.running();
    let body = body_of(&visit, request.into_body());
    let mut parts = Multipart::new(body.into_stream(), boundary);
    let mut arrived = Vec::new();
    loop {
        match next_file(&visit, &mut parts, arrived.len()).await {
            Ok(None) => break,
            Ok(Some(file)) => arrived.extend(file),
            Err(problem) => return Err(after(&arrived, problem)),
        }
    }
    if arrived.is_empty() {
        return Err(Problem::malformed("the form has no file; choose one"));
    }
    if wanted == Wanted::Html {
        return Ok(page::arrived(&visit, &arrived));
    }
    Ok((StatusCode::CREATED, Json(json!({ "arrived": arrived }))).into_response())
}

/// Takes the next file of a form; the inner `None`: the part is none.
async fn next_file(
    visit: &LinkVisit,
    parts: &mut Multipart<'static>,
    before: usize,
) -> Result<Option<Option<Arrived>>, Problem> {
    let Some(part) = parts.next_field().await.map_err(unreadable)? else { return Ok(None) };
    // A form whose person has chosen no file has a part without a name.
    let Some(name) = part.file_name().filter(|name| !name.is_empty()) else {
        return Ok(Some(None));
    };
    if before >= FORM_FILES {
        let why = format!("a form has at most {FORM_FILES} files; send the rest in another one");
        return Err(Problem::malformed(why));
    }
    // Some browsers send the whole path of the file on the person's machine.
    let name = name.rsplit(['/', '\\']).next().unwrap_or_default().to_owned();
    receive(visit, &name, Source::Part(part), None).await.map(Some).map(Some)
}

/// Whoever sent several files must learn which of them are here.
fn after(arrived: &[Arrived], problem: Problem) -> Problem {
    if arrived.is_empty() {
        return problem;
    }
    let names: Vec<&str> = arrived.iter().map(|file| file.name.as_str()).collect();
    let detail = format!("{}; these files arrived: {}", problem.detail, names.join(", "));
    Problem { detail, ..problem }
}

fn body_of(visit: &LinkVisit, body: Body) -> UploadBody {
    UploadBody::new(body, visit.signed_in.clone(), visit.context.connection.config.body_time())
}

fn length(fields: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(length) = fields.get(CONTENT_LENGTH) else { return Ok(None) };
    let length = length.to_str().ok().and_then(|length| length.parse().ok());
    length.map(Some).ok_or_else(|| Problem::malformed("Content-Length cannot be read"))
}

fn unreadable(error: multer::Error) -> Problem {
    Problem::malformed(format!("the form cannot be read or broke off: {error}"))
}

/// Refuses, before the first byte, what the limits of the link would refuse at the end.
fn check_room(visit: &LinkVisit, expected: Option<u64>) -> Result<(), Problem> {
    let (terms, uses) = (&visit.terms, &visit.uses);
    if !terms.allows(LinkAction::Upload) {
        let why = "this link takes no files";
        return Err(Problem::new(StatusCode::FORBIDDEN, "EP1167", why));
    }
    if terms.uploads.is_some_and(|most| uses.uploads >= u64::from(most)) {
        return Err(used_up());
    }
    let left = terms.upload_bytes.map(|most| most.saturating_sub(uses.upload_bytes));
    let most = left.into_iter().chain(terms.file_size_bytes).min();
    match most {
        Some(most) if expected.is_some_and(|size| size > most) || most == 0 => Err(too_large(most)),
        _ => Ok(()),
    }
}

fn too_large(most: u64) -> Problem {
    let why = format!("this link takes at most {most} bytes more in one file");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "EP1166", why)
}

/// Writes a file under a free name. What does not arrive whole leaves nothing.
async fn receive(
    visit: &LinkVisit,
    name: &str,
    mut source: Source,
    expected: Option<u64>,
) -> Result<Arrived, Problem> {
    let upload = create(visit, name, expected).await?;
    let rules = visit.rules();
    let command = match rules.before(|| writing("write", "PUT", upload.path())).await {
        Ok(command) => command,
        Err(problem) => {
            upload.abort().await;
            return Err(named(name, problem));
        }
    };
    let stored = upload.path().file_name().unwrap_or(name).to_owned();
    let uploaded = store(visit, name, upload, &mut source).await;
    let uploaded = rules.after_upload(command, uploaded, StatusCode::CREATED).await?;
    Ok(Arrived {
        name: if visit.terms.allows(LinkAction::Download) { stored } else { name.to_owned() },
        size: uploaded.size,
        blake3: uploaded.digests.blake3.map(|digest| hex(&digest)),
        sha256: uploaded.digests.sha256.map(|digest| hex(&digest)),
    })
}

/// Writes all of a file, and publishes it if the link may take one more.
async fn store(
    visit: &LinkVisit,
    name: &str,
    mut upload: Upload,
    source: &mut Source,
) -> Result<Uploaded, Problem> {
    if let Err(problem) = write(&mut upload, source).await {
        upload.abort().await;
        return Err(named(name, problem));
    }
    let gate = visit.context.shared().gate();
    let used = LinkUse::Upload(upload.size());
    let refused = match gate.take_link_use(&visit.link, used).await {
        Ok(true) => None,
        Ok(false) => Some(used_up()),
        Err(error) => Some(error.into()),
    };
    if let Some(problem) = refused {
        upload.abort().await;
        return Err(named(name, problem));
    }
    match upload.finish().await {
        Ok(uploaded) => Ok(uploaded),
        Err(error) => {
            gate.give_back_link_use(&visit.link, used).await;
            Err(named(name, error.into()))
        }
    }
}

/// Begins an upload under the name, or under the first like it that is free.
async fn create(visit: &LinkVisit, name: &str, expected: Option<u64>) -> Result<Upload, Problem> {
    let (vfs, path) = (visit.signed_in.vfs(), path_of(visit, name)?);
    let begun = vfs.create_under_free_name(&path, expected).await;
    begun.map_err(|error: VfsError| named(name, error.into()))
}

fn path_of(visit: &LinkVisit, name: &str) -> Result<VPath, Problem> {
    visit.terms.folder.join(name).map_err(|error| {
        Problem::new(StatusCode::BAD_REQUEST, "EP1004", format!("'{name}': {error}"))
    })
}

fn named(name: &str, problem: Problem) -> Problem {
    Problem { detail: format!("'{name}': {}", problem.detail), ..problem }
}

async fn write(upload: &mut Upload, source: &mut Source) -> Result<(), Problem> {
    let (mut batch, mut at) = (BytesMut::new(), 0);
    loop {
        let chunk = source.next().await?;
        let is_last = chunk.is_none();
        batch.extend_from_slice(&chunk.unwrap_or_default());
        if !batch.is_empty() && (is_last || batch.len() >= BATCH_BYTES) {
            let count = batch.len() as u64;
            if !upload.try_write_at(at, &batch)? {
                let bytes: Bytes = batch.split().freeze();
                upload.write_at(at, bytes).await?;
            }
            batch.clear();
            at += count;
        }
        if is_last {
            return Ok(());
        }
    }
}
