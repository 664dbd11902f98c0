//! How authorities are reached: by the HTTP client of this project, so that its rules on addresses,
//! certificates, sizes and times hold.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use entrepot_net::dial::DialPolicy;
use entrepot_net::http::{Client, HeaderMap, HttpError, Request, header};
use entrepot_net::tls::ServerTrust;
use entrepot_nouns::acme::Acme;
use entrepot_nouns::{Env, Timestamp};
use http_body_util::{BodyExt as _, Full};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use parking_lot::Mutex;

use crate::limits::ANSWER_BYTES;

/// Reaches the authority of a listener. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Transport {
    client: Client,
    allow_private: bool,
    env: Env,
    /// How long the last answer asked to wait.
    wait: Arc<Mutex<Option<Duration>>>,
}

impl Transport {
    pub(crate) fn new(acme: &Acme, env: &Env) -> Self {
        let trust = match &acme.authorities {
            Some(pem) => ServerTrust::Authorities(pem.clone().into_bytes()),
            None => ServerTrust::System,
        };
        Transport {
            client: Client::new(trust),
            allow_private: acme.allow_private,
            env: env.clone(),
            wait: Arc::default(),
        }
    }

    /// How long the last answer of the authority asked to wait (`Retry-After`).
    pub(crate) fn wait(&self) -> Option<Duration> {
        *self.wait.lock()
    }

    async fn send(&self, request: http::Request<BodyWrapper<Bytes>>) -> Result<Answer, HttpError> {
        let (parts, body) = request.into_parts();
        let url = parts.uri.to_string();
        // The directory names further URLs: none of them leads out of TLS.
        if parts.uri.scheme_str() != Some("https") {
            return Err(HttpError::Url { url });
        }
        let mut request = Request::new(parts.method, &url)?;
        request.headers = parts.headers;
        request.body = match body.collect().await {
            Ok(body) => body.to_bytes(),
            Err(never) => match never {},
        };
        request.dial = DialPolicy { allow_private: self.allow_private };
        let response = self.client.send(request).await?;
        *self.wait.lock() = retry_after(&response.headers, self.env.now());
        let (status, headers) = (response.status, response.headers);
        let body = response.body.read_all(ANSWER_BYTES).await?;
        let mut answer = http::Response::new(Full::new(body));
        *answer.status_mut() = status;
        *answer.headers_mut() = headers;
        Ok(answer)
    }
}

type Answer = http::Response<Full<Bytes>>;

impl HttpClient for Transport {
    fn request(
        &self,
        request: http::Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let transport = self.clone();
        Box::pin(async move {
            let answer = transport.send(request).await;
            answer.map(BytesResponse::from).map_err(|error| Error::Other(Box::new(error)))
        })
    }
}

/// Seconds, or a date (RFC 9110 §10.2.3).
fn retry_after(fields: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = fields.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let since_1970 = httpdate::parse_http_date(text).ok()?.duration_since(SystemTime::UNIX_EPOCH);
    let seconds = i64::try_from(since_1970.ok()?.as_secs()).ok()?;
    Some(Timestamp::from_seconds(seconds).since(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_says_how_long_to_wait_in_seconds_or_by_a_date() {
        let now = Timestamp::from_seconds(784_111_777);
        let wait = |text: &str| {
            let mut fields = HeaderMap::new();
            fields.insert(header::RETRY_AFTER, text.parse().unwrap());
            retry_after(&fields, now)
        };
        assert_eq!(wait("120"), Some(Duration::from_secs(120)));
        assert_eq!(wait("Sun, 06 Nov 1994 08:49:47 GMT"), Some(Duration::from_secs(10)));
        assert_eq!(wait("Sun, 06 Nov 1994 08:49:00 GMT"), Some(Duration::ZERO));
        assert_eq!(wait("soon"), None);
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }

    #[tokio::test]
    async fn no_url_of_a_directory_leads_out_of_tls() {
        let acme = r#"{"directory":"https://ca.example/","names":["a.example"]}"#;
        let acme: Acme = serde_json::from_str(acme).unwrap();
        let transport = Transport::new(&acme, &Env::simulated(1));
        let request = http::Request::builder().uri("http://127.0.0.1:1/new-order");
        let request = request.body(BodyWrapper::default()).unwrap();
        assert_eq!(transport.send(request).await.unwrap_err().code(), "EP0260");
    }
}
