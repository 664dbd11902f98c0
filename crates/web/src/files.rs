//! `/files/…`: the files of the account that a request is from.
//!
//! | method | what it does |
//! | --- | --- |
//! | GET, HEAD | a file, or the listing of a directory |
//! | GET `?zip` | a directory as an archive, or with `&name=…` chosen entries of it |
//! | GET `?search=TEXT` | entries below a directory by their names |
//! | GET `?trash` | what was removed below a directory and can be put back |
//! | GET `?versions` | the versions of a file that can be put back |
//! | GET, HEAD `?version=ID` | one of them, as a file |
//! | PUT | a whole file |
//! | DELETE | removes a file or an empty directory; where there is a trash, any directory |
//! | DELETE `?trash`, `?trash=ID` | deletes for good what was removed |
//! | DELETE `?version=ID` | deletes a version of a file for good |
//! | POST `?mkdir` | makes a directory |
//! | POST `?move=PATH` | gives another name, within a mount; `&replace=true` replaces what has it |
//! | POST `?copy=PATH` | copies a file or a directory with all below it |
//! | POST `?restore=ID` | puts back what was removed |
//! | POST `?version=ID` | puts back a version of a file |
//! | POST `?zip`, names | as GET `?zip`, of more entries |
//! | POST, a form | uploads files into a directory; makes, removes or puts back some |

mod changes;
pub(crate) mod commands;
pub(crate) mod conflict;
pub(crate) mod download;
mod file_request;
mod form;
pub(crate) mod listing;
pub(crate) mod page;
pub(crate) mod path;
pub(crate) mod range;
mod search;
pub(crate) mod trash;
pub(crate) mod upload;
pub(crate) mod validators;
mod versions;
pub(crate) mod zip;

use axum::body::Body;
use axum::extract::{Query, Request};
use axum::http::header::ALLOW;
use axum::http::{HeaderValue, Method, StatusCode, Uri};
use axum::response::Response;
use axum::routing::{any, get};

use crate::answers::redirect;
use crate::context::RequestContext;
use crate::login::{FormCheck, Submitted};
use crate::problem::Problem;
use crate::route_table::{Access, Served};
use commands::Directory;
use path::FilePath;

pub(crate) use validators::date;

pub(crate) use file_request::{FileRequest, FilesQuery};

/// The addresses below `/files`, and `/`, which leads there.
pub(crate) fn served_routes() -> Vec<Served> {
    let get_only = [Method::GET];
    let files = [Method::GET, Method::HEAD, Method::PUT, Method::DELETE, Method::POST];
    let to_files = |status| get(move || async move { redirect(status, "/files/") });
    vec![
        Served::new("/", &get_only, Access::Everybody, to_files(StatusCode::SEE_OTHER)),
        Served::new(
            "/files",
            &get_only,
            Access::Everybody,
            to_files(StatusCode::PERMANENT_REDIRECT),
        ),
        Served::new("/files/", &files, Access::Account, any(file)),
        Served::new("/files/{*path}", &files, Access::Account, any(file)),
    ]
}

async fn file(
    context: RequestContext,
    submitted: Submitted,
    request: Request,
) -> Result<Response, Problem> {
    let Submitted { signed_in, check } = submitted;
    let target = target(request.uri())?;
    let query = Query::<FilesQuery>::try_from_uri(request.uri());
    let Query(query) = query.map_err(|error| Problem::malformed(error.body_text()))?;
    let (head, body) = request.into_parts();
    let (method, fields) = (head.method, head.headers);
    let who = signed_in.clone();
    let asked = FileRequest { context, signed_in, target, query, method, fields };
    let answered = carry_out(asked, Sent { uri: head.uri, check, body });
    answered.await.map_err(|problem| who.explained(problem))
}

/// What comes with a request beside its head.
struct Sent {
    uri: Uri,
    check: FormCheck,
    body: Body,
}

async fn carry_out(asked: FileRequest, sent: Sent) -> Result<Response, Problem> {
    let Sent { uri, check, body } = sent;
    let FilesQuery { mkdir, new_path, copy, zip, restore, version, .. } = &asked.query;
    if asked.method == Method::POST && zip.is_some() {
        // It reads, as GET does.
        return zip::post(asked, body).await;
    }
    let actions = [mkdir, new_path, copy, restore, version];
    if asked.method == Method::POST && actions.iter().all(|action| action.is_none()) {
        // The form has what the check asks for.
        return form::upload(asked, check, body).await;
    }
    check.must_be_passed()?;
    let is_zip = zip.is_some() || asked.target.is_directory && zip::is_wanted(&asked.fields);
    let directory = if is_zip { Directory::Archived } else { Directory::Listed };
    let rules = asked.signed_in.rules(&asked.context);
    let command = if rules.look() { commands::command_of(&asked, directory).await? } else { None };
    let action = Action { uri, directory, body };
    match rules.begin(command).await? {
        Some(begun) => begun.carry_out(Box::pin(act(asked, action))).await,
        None => act(asked, action).await,
    }
}

/// What a request for one thing comes with.
struct Action {
    uri: Uri,
    directory: Directory,
    body: Body,
}

async fn act(asked: FileRequest, action: Action) -> Result<Response, Problem> {
    let Action { uri, directory, body } = action;
    let is_zip = directory == Directory::Archived;
    match asked.method {
        Method::GET | Method::HEAD if asked.query.search.is_some() => search::answer(&asked).await,
        Method::GET | Method::HEAD if asked.query.trash.is_some() => trash::list(&asked).await,
        Method::GET | Method::HEAD if asked.query.versions.is_some() => {
            versions::list(&asked).await
        }
        Method::GET | Method::HEAD if is_zip => zip::get(asked, &uri).await,
        Method::GET | Method::HEAD => download::get(asked).await,
        Method::DELETE if asked.query.version.is_some() => versions::remove(&asked).await,
        Method::PUT | Method::DELETE if versions::is_asked_for(&asked.query) => {
            Err(versions::not_all_of_them())
        }
        Method::PUT => upload::put(asked, body).await,
        Method::DELETE if asked.query.trash.is_some() => trash::purge(&asked).await,
        Method::DELETE => changes::delete(asked).await,
        Method::POST if asked.query.restore.is_some() => trash::restore(&asked).await,
        Method::POST if asked.query.version.is_some() => versions::restore(&asked).await,
        Method::POST if asked.query.mkdir.is_some() => changes::make_directory(asked).await,
        Method::POST if asked.query.new_path.is_some() => changes::rename(asked).await,
        Method::POST => changes::copy(asked).await,
        _ => {
            let why = "files take GET, HEAD, PUT, DELETE and POST";
            let allowed = HeaderValue::from_static("GET, HEAD, PUT, DELETE, POST");
            Err(Problem::new(StatusCode::METHOD_NOT_ALLOWED, "EP1012", why).with(ALLOW, allowed))
        }
    }
}

fn target(uri: &Uri) -> Result<FilePath, Problem> {
    let encoded = uri.path().strip_prefix("/files").ok_or_else(Problem::nothing_here)?;
    Ok(path::decode(encoded)?)
}

/// For fuzzing: paths of addresses, and ranges.
pub(crate) fn fuzz(data: &[u8]) {
    form::fuzz(data);
    path::fuzz(data);
    range::fuzz(data);
}
