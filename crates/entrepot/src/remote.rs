//! `--server`: commands carried out by the API of a server, over HTTPS.
//!
//! What it guarantees: a token or password leaves this machine only over TLS, and only to a server
//! whose certificate is trusted; over HTTP only to this machine itself.

mod follow;

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use entrepot_admin::{Problem, ProblemClass, Response};
use entrepot_net::dial::DialPolicy;
use entrepot_net::http::{self, ClearText, Client, HeaderValue, HttpError, Method, header};
use entrepot_net::tls::ServerTrust;
use entrepot_nouns::as2::As2MessageName;
use entrepot_nouns::{Name, TransferId};
use entrepot_proof::{As2Bundle, Receipt};
use entrepot_web::remote::{self, RemoteCall, RemoteError, RemoteRequest};
use serde_json::Value;

use crate::args::RemoteArgs;
use crate::ask;
use crate::failure::{Exit, Failure};
use crate::standard_input::line_from_stdin;

/// Longest answer: a page of a list, or the documents of a whole configuration.
const ANSWER_BYTES: usize = 256 << 20;
/// A configuration with many passwords takes its time.
const ANSWER_TIME: Duration = Duration::from_secs(600);

/// A server whose API is asked. Not `Debug`: it holds a token or a password.
#[derive(Clone)]
pub(crate) struct RemoteServer {
    /// Scheme, host and port.
    url: String,
    client: Client,
    authorization: HeaderValue,
    site: Option<Name>,
}

impl RemoteServer {
    /// The server that the command line names, if it names one. The password of `--user` is read
    /// from standard input.
    pub(crate) fn of(args: &RemoteArgs, site: Option<&Name>) -> Result<Option<Self>, Failure> {
        let Some(url) = &args.server else { return Ok(None) };
        let url = url.trim_end_matches('/').to_owned();
        let parsed = http::Request::new(Method::GET, &url);
        parsed.map_err(|error| failed(&url, &error))?;
        Ok(Some(RemoteServer {
            client: Client::new(trust(args)?),
            authorization: authorization(args)?,
            site: site.cloned(),
            url,
        }))
    }

    /// The same server at the site `main`, whichever site the command line names.
    pub(crate) fn at_main(&self) -> RemoteServer {
        RemoteServer { site: None, ..self.clone() }
    }

    /// Asks; a long list takes several calls.
    pub(crate) async fn ask(&self, request: &Value) -> Result<Response, Failure> {
        let request = RemoteRequest::new(request, self.site.as_ref());
        let mut request = request.map_err(|error| self.refused(error))?;
        while let Some(call) = request.call() {
            let answer = self.send(&call, ANSWER_TIME).await;
            let answer = answer.map_err(|error| failed(&self.url, &error))?;
            let (status, body) = self.whole(answer).await?;
            request.receive(status, &body).map_err(|error| self.refused(error))?;
        }
        request.answer().map_err(|error| self.refused(error))
    }

    /// The receipt of a transfer.
    pub(crate) async fn receipt(&self, transfer: TransferId) -> Result<Receipt, Failure> {
        let site = self.site.as_ref().map(|site| format!("?site={site}")).unwrap_or_default();
        let target = format!("/api/v1/transfers/{transfer}/receipt{site}");
        let answer = self.send(&get(target), ANSWER_TIME).await;
        let answer = answer.map_err(|error| failed(&self.url, &error))?;
        let (status, body) = self.whole(answer).await?;
        if status != 200 {
            return Err(self.refused(remote::refusal(status, &body)));
        }
        serde_json::from_slice(&body).map_err(|error| self.odd(&error.to_string()))
    }

    /// The evidence of a message of AS2.
    pub(crate) async fn as2_evidence(&self, name: &As2MessageName) -> Result<As2Bundle, Failure> {
        let site = self.site.as_ref().map(|site| format!("?site={site}")).unwrap_or_default();
        let name = remote::encoded(&name.to_string());
        let target = format!("/api/v1/as2/messages/{name}/evidence{site}");
        let answer = self.send(&get(target), ANSWER_TIME).await;
        let answer = answer.map_err(|error| failed(&self.url, &error))?;
        let (status, body) = self.whole(answer).await?;
        if status != 200 {
            return Err(self.refused(remote::refusal(status, &body)));
        }
        serde_json::from_slice(&body).map_err(|error| self.odd(&error.to_string()))
    }

    async fn send(&self, call: &RemoteCall, time: Duration) -> Result<http::Response, HttpError> {
        let url = format!("{}{}", self.url, call.target);
        let request = http::Request::new(call.method.clone(), &url);
        let mut request = request?;
        request.dial = DialPolicy { allow_private: true };
        request.clear_text = ClearText::ThisMachine;
        (request.head_time, request.body_time) = (time, time);
        let mut authorization = self.authorization.clone();
        authorization.set_sensitive(true);
        let mut request = request.header(header::AUTHORIZATION, authorization);
        if let Some(version) = &call.if_match
            && let Ok(version) = HeaderValue::try_from(version)
        {
            request = request.header(header::IF_MATCH, version);
        }
        if let Some(body) = &call.body {
            let json = HeaderValue::from_static("application/json");
            request = request.content(json, Bytes::from(body.clone()));
        }
        self.client.send(request).await
    }

    /// The status and the whole body of an answer.
    async fn whole(&self, answer: http::Response) -> Result<(u16, Bytes), Failure> {
        let status = answer.status.as_u16();
        let body = answer.body.read_all(ANSWER_BYTES).await;
        Ok((status, body.map_err(|error| failed(&self.url, &error))?))
    }

    fn refused(&self, error: RemoteError) -> Failure {
        match error {
            RemoteError::LocalOnly { why } => local_only(why),
            RemoteError::Request(why) => {
                let why = entrepot_admin::explained(&why);
                Failure::usage(format!("the request cannot be taken: {why}"))
            }
            RemoteError::Refused(problem) => ask::problem(problem),
            RemoteError::Answer(why) => self.odd(&why),
        }
    }

    fn odd(&self, why: &str) -> Failure {
        ask::problem(Problem {
            code: "EP1117".to_owned(),
            message: format!(
                "what answers at '{}' is no API of ours, or of another version: {why}",
                self.url
            ),
            class: ProblemClass::Unavailable,
        })
    }
}

/// The command has no form over the network.
pub(crate) fn local_only(why: &str) -> Failure {
    let message = format!("this command takes no --server: {why}");
    Failure::new("EP1116", Exit::Invalid, message)
}

fn get(target: String) -> RemoteCall {
    RemoteCall { method: Method::GET, target, if_match: None, body: None }
}

/// How the server is known; without options by the authorities that this machine trusts.
fn trust(args: &RemoteArgs) -> Result<ServerTrust, Failure> {
    if !args.server_certificate.is_empty() {
        let pins = args.server_certificate.iter().map(|pin| match pin.strip_prefix('@') {
            Some(file) => read(Path::new(file)),
            None => Ok(pin.clone()),
        });
        return Ok(ServerTrust::Pinned(pins.collect::<Result<_, Failure>>()?));
    }
    match &args.ca {
        Some(file) => Ok(ServerTrust::Authorities(read(file)?.into_bytes())),
        None => Ok(ServerTrust::System),
    }
}

/// What says who we are.
fn authorization(args: &RemoteArgs) -> Result<HeaderValue, Failure> {
    let field = match (&args.token, &args.user) {
        (Some(token), _) => {
            let token = match token.strip_prefix('@') {
                Some(file) => read(Path::new(file))?,
                None => token.clone(),
            };
            format!("Bearer {}", token.trim())
        }
        (None, Some(user)) => remote::basic(user, &line_from_stdin()?),
        (None, None) => {
            let why = "--server needs an API token (--token or ENTREPOT_TOKEN), or an account \
                       (--user) whose password is read from standard input";
            return Err(Failure::usage(why));
        }
    };
    let unfit = |_| Failure::usage("the token has characters that no token has");
    HeaderValue::try_from(field).map_err(unfit)
}

fn read(file: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(file)
        .map_err(|error| Failure::file(format!("cannot read '{}': {error}", file.display())))
}

fn failed(url: &str, error: &HttpError) -> Failure {
    Failure::new(error.code(), Exit::Unavailable, format!("'{url}': {error}"))
}
