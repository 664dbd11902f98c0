//! How a command reaches the `admin` crate: through the ops socket of the running server, or, when
//! none runs, on the database itself.

use std::time::Duration;

use bytes::Bytes;
use entrepot_admin::{Actor, Problem, ProblemClass, Request, Response, explained};
use entrepot_net::http::{self, Client, HeaderValue, HttpError, Method, StatusCode};
use entrepot_nouns::SiteId;
use serde_json::Value;

use crate::config::Config;
use crate::failure::{Exit, Failure};
use crate::ops_token;
use crate::parts::{Opening, Parts};

/// Longest answer of the server: lists come in pages, and events at most so many at a time.
const ANSWER_BYTES: usize = 1 << 30;

/// Asks; `request` is the JSON form of [`Request`]. It is not the type itself because that never
/// writes a plain secret out again.
pub(crate) async fn ask(config: &Config, request: Value) -> Result<Response, Failure> {
    if let Some(answer) = post(config, &of_site("/v1/request", config), Some(&request)).await? {
        return decode(answer).await;
    }
    let request: Request = serde_json::from_value(request)
        .map_err(|error| explained(&error.to_string()))
        .map_err(|problem| Failure::usage(format!("the request cannot be taken: {problem}")))?;
    let parts = Parts::open(config, Opening::MustBeSound).await?;
    let admin = parts.admin(None);
    admin.join().await.map_err(|error| problem(Problem::from(error)))?;
    let actor = actor_of(rustix::process::getuid().as_raw());
    let answer = match admin.at_site(actor, config.site.as_ref()).await {
        Ok(actor) => admin.handle(&actor, request).await,
        Err(error) => Err(error),
    };
    parts.close().await?;
    answer.map_err(|error| problem(Problem::from(error)))
}

/// True if a server runs on this node.
pub(crate) async fn server_answers(config: &Config) -> Result<bool, Failure> {
    let request = serde_json::json!({"request": "nodes"});
    Ok(post(config, "/v1/request", Some(&request)).await?.is_some())
}

/// Asks only a running server.
pub(crate) async fn ask_server<T: serde::de::DeserializeOwned>(
    config: &Config,
    path: &str,
    body: Option<&Value>,
) -> Result<T, Failure> {
    match post(config, path, body).await? {
        Some(answer) => decode(answer).await,
        None => Err(Failure::ops(format!(
            "no server answers at '{}'; start it with 'entrepot serve'",
            config.ops_socket.display()
        ))),
    }
}

/// Asks a running server; `None` if none runs.
pub(crate) async fn ask_or<T: serde::de::DeserializeOwned>(
    config: &Config,
    path: &str,
    body: &Value,
) -> Result<Option<T>, Failure> {
    match post(config, path, Some(body)).await? {
        Some(answer) => decode(answer).await.map(Some),
        None => Ok(None),
    }
}

/// Sends a request; `None` if no server listens there. The server may take as long as it needs:
/// it is on this machine, and the caller is a person who can interrupt.
pub(crate) async fn post(
    config: &Config,
    path: &str,
    body: Option<&Value>,
) -> Result<Option<http::Response>, Failure> {
    let body = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
    let mut request = http::Request::new(Method::POST, &format!("http://entrepot{path}"))
        .map_err(|error| Failure::ops(error.to_string()))?
        .content(HeaderValue::from_static("application/json"), body);
    if let Some(token) = ops_token::read(&config.data) {
        request = request.header(ops_token::FIELD, token);
    }
    (request.head_time, request.body_time) = (Duration::MAX, Duration::MAX);
    match Client::over_socket(&config.ops_socket).send(request).await {
        Ok(response) => Ok(Some(response)),
        Err(HttpError::Socket { .. }) => Ok(None),
        Err(error) => Err(hung_up(&error)),
    }
}

/// The connection to the server ended before its answer did.
pub(crate) fn hung_up(error: &HttpError) -> Failure {
    Failure::ops(format!("the server hung up: {error}"))
}

async fn decode<T: serde::de::DeserializeOwned>(answer: http::Response) -> Result<T, Failure> {
    let status = answer.status;
    let body = answer.body.read_all(ANSWER_BYTES).await;
    let bytes = body.map_err(|error| Failure::ops(format!("the answer was cut: {error}")))?;
    let odd = |error: serde_json::Error| {
        Failure::ops(format!("the server's answer cannot be read ({error}); is its version ours?"))
    };
    if status == StatusCode::OK {
        return serde_json::from_slice(&bytes).map_err(odd);
    }
    Err(problem(serde_json::from_slice(&bytes).map_err(odd)?))
}

/// The command line's form of a problem that `admin` names.
pub(crate) fn problem(problem: Problem) -> Failure {
    let exit = match problem.class {
        ProblemClass::NotFound => Exit::NotFound,
        ProblemClass::Invalid
        | ProblemClass::Conflict
        | ProblemClass::Changed
        | ProblemClass::Denied => Exit::Invalid,
        ProblemClass::Unavailable => Exit::Unavailable,
        ProblemClass::Failed => Exit::Failed,
    };
    Failure::new(&problem.code, exit, problem.message)
}

/// The path of a request about the site that the command line names.
pub(crate) fn of_site(path: &str, config: &Config) -> String {
    match &config.site {
        Some(site) => format!("{path}?site={site}"),
        None => path.to_owned(),
    }
}

/// The actor behind a local socket: the user that the kernel names. Whoever may read the data
/// directory may do everything.
pub(crate) fn actor_of(uid: u32) -> Actor {
    Actor::of_machine(format!("cli:uid-{uid}"), SiteId::MAIN)
}
