//! `health`: what containers and load balancers ask, answered by an exit code.

use std::time::Duration;

use entrepot_net::http::{Client, Method, Request, StatusCode};
use serde_json::json;

use crate::args::HealthArgs;
use crate::config::Config;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// A server that takes longer to say how it is, is not well.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest answer that is read.
const ANSWER_BYTES: usize = 4096;

/// Asks the server behind the ops socket. Every failure has exit code 1, for container runtimes
/// give the others meanings of their own.
pub(crate) async fn run(config: &Config, output: Output, args: &HealthArgs) -> Result<(), Failure> {
    let path = if args.live { "/live" } else { "/ready" };
    let said = ask(config, path).await.map_err(|why| {
        Failure::new("EP0907", Exit::Failed, format!("the server is not well: {why}"))
    })?;
    output.value(&json!({"healthy": true, "says": said}), || println!("{said}"))
}

/// What the server says if it is well, or why it is not.
async fn ask(config: &Config, path: &str) -> Result<String, String> {
    let request = Request::new(Method::GET, &format!("http://entrepot{path}"));
    let mut request = request.map_err(|error| error.to_string())?;
    (request.head_time, request.body_time) = (PATIENCE, PATIENCE);
    let answer = Client::over_socket(&config.ops_socket).send(request).await;
    let answer = answer.map_err(|error| error.to_string())?;
    let status = answer.status;
    let body = answer.body.read_all(ANSWER_BYTES).await.map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&body).trim().to_owned();
    if status == StatusCode::OK { Ok(said) } else { Err(said) }
}
