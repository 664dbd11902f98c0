//! `/uploads/…`: uploads that are continued after a break, over many requests, connections and
//! starts of the server. One engine of `vfs` in two dialects: tus 1.0 for programs that speak it,
//! and numbered parts for those that send several at once.
//!
//! | address | method | what it does |
//! | --- | --- | --- |
//! | `/uploads` | OPTIONS | what of tus is spoken |
//! | | POST | begins an upload: tus, or a document of JSON |
//! | | GET | the unfinished uploads of the account |
//! | `/uploads/ID` | HEAD | where it stands, as tus asks |
//! | | GET | where it stands, and which parts are there |
//! | | PATCH | appends bytes; the last ones publish the file |
//! | | DELETE | ends it, nothing is kept |
//! | `/uploads/ID/parts/N` | PUT | a part; the first has number 0 |
//! | `/uploads/ID/complete` | POST | publishes the file |

mod answers;
mod create;
mod receive;
mod tus;
mod upload_request;

use axum::extract::{FromRequestParts as _, Path, Request};
use axum::http::header::ALLOW;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use entrepot_vfs::UploadStage;

use crate::context::RequestContext;
use crate::login::SignedIn;
use crate::problem::Problem;
use crate::route_table::{Access, Served};
use upload_request::{UploadRequest, of_upload};

/// The addresses below `/uploads`.
pub(crate) fn served_routes() -> Vec<Served> {
    let served =
        |path, methods: &[Method], handler| Served::new(path, methods, Access::Account, handler);
    let one = [Method::HEAD, Method::GET, Method::PATCH, Method::DELETE];
    vec![
        served("/uploads", &[Method::GET, Method::POST], any(uploads)),
        served("/uploads/", &[Method::GET, Method::POST], any(uploads)),
        served("/uploads/{id}", &one, any(upload)),
        served("/uploads/{id}/parts/{number}", &[Method::PUT], any(part)),
        served("/uploads/{id}/complete", &[Method::POST], any(complete)),
    ]
}

/// All uploads, and new ones.
async fn uploads(context: RequestContext, request: Request) -> Response {
    let (mut head, body) = request.into_parts();
    if head.method == Method::OPTIONS {
        return answers::options();
    }
    let answered = async {
        tus::check_version(&head.headers)?;
        let signed_in = SignedIn::from_request_parts(&mut head, &()).await?;
        match head.method {
            Method::GET => Ok(answers::list(signed_in.vfs())),
            Method::POST => create::begin(&context, signed_in, &head.headers, body).await,
            _ => Err(not_allowed("GET, POST, OPTIONS")),
        }
    };
    tus::marked(answered.await)
}

/// What can be asked of an upload, and done to it.
async fn upload(context: RequestContext, Path(id): Path<String>, request: Request) -> Response {
    let (mut head, body) = request.into_parts();
    if head.method == Method::OPTIONS {
        return answers::options();
    }
    let answered = async {
        tus::check_version(&head.headers)?;
        let method = tus::method(&head.method, &head.headers)?;
        let request = UploadRequest::of(context, &id, &mut head).await?;
        match method {
            Method::HEAD => state(&request).await,
            Method::GET => {
                let status = request.upload.status().await.map_err(of_upload)?;
                Ok(answers::state(&status))
            }
            Method::PATCH => receive::append(request, body).await,
            Method::DELETE => {
                request.upload.terminate().await.map_err(of_upload)?;
                Ok(StatusCode::NO_CONTENT.into_response())
            }
            _ => Err(not_allowed("HEAD, GET, PATCH, DELETE, OPTIONS")),
        }
    };
    tus::marked(answered.await)
}

/// Says where an upload stands. One whose bytes are all there is published first: a client takes
/// such an upload for done, and must hear of it if it is not.
async fn state(request: &UploadRequest) -> Result<Response, Problem> {
    let status = request.upload.status().await.map_err(of_upload)?;
    if !answers::is_due(&status) {
        return Ok(answers::standing(StatusCode::OK, &status));
    }
    receive::publish(&request.upload, &status, &request.rules()).await?;
    let status = request.upload.status().await.map_err(of_upload)?;
    Ok(answers::standing(StatusCode::OK, &status))
}

async fn part(
    context: RequestContext,
    Path((id, number)): Path<(String, String)>,
    request: Request,
) -> Result<Response, Problem> {
    let (mut head, body) = request.into_parts();
    if head.method != Method::PUT {
        return Err(not_allowed("PUT"));
    }
    let number = number.parse().map_err(|_| Problem::malformed("a part has a number"))?;
    let request = UploadRequest::of(context, &id, &mut head).await?;
    receive::part(request, number, body).await
}

async fn complete(
    context: RequestContext,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let (mut head, _) = request.into_parts();
    if head.method != Method::POST {
        return Err(not_allowed("POST"));
    }
    let request = UploadRequest::of(context, &id, &mut head).await?;
    let status = request.upload.status().await.map_err(of_upload)?;
    if let (UploadStage::Receiving, Some(size)) = (&status.stage, status.size)
        && status.offset < size
    {
        let why = format!(
            "bytes of this upload are missing: {} of {size} are there without a gap; GET of the \
             upload shows which parts",
            status.offset
        );
        return Err(Problem::new(StatusCode::CONFLICT, "EP0416", why));
    }
    let uploaded = receive::publish(&request.upload, &status, &request.rules()).await?;
    let status = request.upload.status().await.map_err(of_upload)?;
    Ok(answers::completed(&status.path, &uploaded))
}

fn not_allowed(allowed: &'static str) -> Problem {
    let why = format!("this address takes {allowed}");
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "EP1012", why)
        .with(ALLOW, HeaderValue::from_static(allowed))
}

/// For fuzzing: what is read from fields of requests.
pub(crate) fn fuzz(data: &[u8]) {
    tus::fuzz(data);
}
