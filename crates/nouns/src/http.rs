//! What a listener of HTTPS or HTTP offers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::is_default;
use crate::limits::{HTTP_API_BODY_BYTES, HTTP_LEAST_RATE, HTTP_REQUESTS, HTTP_SECONDS};
use crate::noun::FieldError;

/// What only a listener of HTTPS or HTTP has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpOptions {
    /// What it serves, so that administration can stay on an address of this machine while files
    /// face the world. Unset: everything.
    #[serde(default = "HttpService::all")]
    pub serve: Vec<HttpService>,
    /// Every request is answered with the same address under `https` and this port, and nothing is
    /// served: for port 80 beside a listener of HTTPS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect_to_https: Option<u16>,
    /// How long clients may take, and how much they may ask for at once.
    #[serde(default, skip_serializing_if = "is_default")]
    pub limits: HttpLimits,
}

impl Default for HttpOptions {
    fn default() -> Self {
        HttpOptions {
            serve: HttpService::all(),
            redirect_to_https: None,
            limits: HttpLimits::default(),
        }
    }
}

/// One of the things that a listener may serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HttpService {
    /// `/api/v1`: administration, and what an account may ask of itself.
    Api,
    /// `/files`: the files of accounts, for programs and browsers.
    Files,
    /// `/dav`: the same files as WebDAV, for file managers and mounts.
    Dav,
    /// `/s`: share links, for everybody who has one.
    Links,
    /// `/hooks`: web hooks that start rules, for senders that sign them.
    Hooks,
    /// `/as2`: messages of partners of AS2. Listeners of `http` may serve it to the world, for
    /// messages are signed and encrypted by themselves.
    As2,
    /// `/api/v1/models/MODEL/procedures` and `sessions`: procedures of host applications and
    /// sessions with them, for accounts that may use them.
    Host,
}

impl HttpService {
    fn all() -> Vec<HttpService> {
        use HttpService::{Api, As2, Dav, Files, Hooks, Host, Links};
        vec![Api, Files, Dav, Links, Hooks, As2, Host]
    }
}

/// How long clients of a listener may take, and how much they may ask for at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HttpLimits {
    /// The head of a request must be there so many seconds after its first byte.
    pub header_seconds: u32,
    /// The longest pause within the body of a request.
    pub body_seconds: u32,
    /// The least bytes a second that must come of a body, looked at over 30 seconds in which the
    /// server waits for the client; 0: however few.
    pub least_body_bytes_per_second: u32,
    /// The whole body of a request of the API must be there within so many seconds.
    pub api_body_seconds: u32,
    /// Longest body of a request of the API, in bytes.
    pub api_body_bytes: u32,
    /// The longest time in which a client takes nothing of an answer.
    pub answer_seconds: u32,
    /// A connection without a request is closed after so long.
    pub idle_seconds: u32,
    /// A connection is closed after so many requests.
    pub connection_requests: u32,
    /// Requests that are worked on at a time, over all connections; further ones are answered 503.
    pub requests: u32,
    /// Messages of AS2 that are received or wait for their publish, over all connections; further
    /// ones are answered 503. A message has about a MiB of memory, and its payload lies in the
    /// staging of its account's files.
    pub as2_messages: u32,
    /// Of these, messages that are published at a time; further ones wait for it, whole.
    pub as2_at_once: u32,
    /// The longest time from the last byte of a message of AS2 to its receipt; after that it is
    /// answered 503, told as `as2.refused`, and may be sent again.
    pub as2_seconds: u32,
}

impl Default for HttpLimits {
    fn default() -> Self {
        HttpLimits {
            header_seconds: 15,
            body_seconds: 120,
            least_body_bytes_per_second: 0,
            api_body_seconds: 120,
            api_body_bytes: 16 << 20,
            answer_seconds: 120,
            idle_seconds: 60,
            connection_requests: 100_000,
            requests: 2_000,
            as2_messages: 1_000,
            as2_at_once: 100,
            as2_seconds: 900,
        }
    }
}

impl HttpOptions {
    pub(crate) fn check(&self) -> Result<(), FieldError> {
        if self.serve.is_empty() && self.redirect_to_https.is_none() {
            let problem =
                "it would serve nothing: name one of api, files, dav, links, hooks, as2, host";
            return Err(FieldError::new("http.serve", problem));
        }
        if self.redirect_to_https == Some(0) {
            let problem = "use the port of the listener of https, such as 443";
            return Err(FieldError::new("http.redirect_to_https", problem));
        }
        let limits = &self.limits;
        for (field, value, most) in [
            ("header_seconds", limits.header_seconds, HTTP_SECONDS),
            ("body_seconds", limits.body_seconds, HTTP_SECONDS),
            ("api_body_seconds", limits.api_body_seconds, HTTP_SECONDS),
            ("api_body_bytes", limits.api_body_bytes, HTTP_API_BODY_BYTES),
            ("answer_seconds", limits.answer_seconds, HTTP_SECONDS),
            ("idle_seconds", limits.idle_seconds, HTTP_SECONDS),
            ("connection_requests", limits.connection_requests, HTTP_REQUESTS),
            ("requests", limits.requests, HTTP_REQUESTS),
            ("as2_messages", limits.as2_messages, HTTP_REQUESTS),
            ("as2_at_once", limits.as2_at_once, HTTP_REQUESTS),
            ("as2_seconds", limits.as2_seconds, HTTP_SECONDS),
        ] {
            if !(1..=most).contains(&value) {
                let problem = format!("from 1 to {most}");
                return Err(FieldError::new(format!("http.limits.{field}"), problem));
            }
        }
        if limits.least_body_bytes_per_second > HTTP_LEAST_RATE {
            let problem = format!("at most {HTTP_LEAST_RATE}");
            return Err(FieldError::new("http.limits.least_body_bytes_per_second", problem));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::listener::Listener;
    use crate::noun::Noun as _;

    /// The field that is wrong, if one is.
    fn wrong(rest: &str) -> Option<String> {
        let text = format!(r#"{{"name": "web", {rest}}}"#);
        let listener: Listener = serde_json::from_str(&text).unwrap();
        listener.check().err().map(|error| error.field)
    }

    #[test]
    fn clear_text_needs_this_machine_or_a_proxy() {
        let http = r#""protocol": "http", "address""#;
        assert_eq!(wrong(&format!(r#"{http}: "0.0.0.0:80""#)).unwrap(), "address");
        assert_eq!(wrong(&format!(r#"{http}: "127.0.0.1:8080""#)), None);
        assert_eq!(wrong(&format!(r#"{http}: "[::1]:8080""#)), None);
        let only_as2 = r#""0.0.0.0:80", "http": {"serve": ["as2"]}"#;
        assert_eq!(wrong(&format!("{http}: {only_as2}")), None);
        let behind = r#""0.0.0.0:80", "proxies": ["10.0.0.0/8"]"#;
        assert_eq!(wrong(&format!("{http}: {behind}")), None);
        let redirect = r#""0.0.0.0:80", "http": {"redirect_to_https": 443}"#;
        assert_eq!(wrong(&format!("{http}: {redirect}")), None);
        let https = r#""protocol": "https", "address""#;
        assert_eq!(wrong(&format!(r#"{https}: "0.0.0.0:443""#)), None);
        assert!(wrong(&format!("{https}: {redirect}")).is_some(), "https sends nobody to https");
    }

    #[test]
    fn options_are_in_reason() {
        let https = r#""protocol": "https", "address": "0.0.0.0:443", "http""#;
        assert_eq!(wrong(&format!(r#"{https}: {{}}"#)), None);
        assert_eq!(wrong(&format!(r#"{https}: {{"serve": []}}"#)).unwrap(), "http.serve");
        let limits = format!(r#"{https}: {{"limits": {{"idle_seconds": 0}}}}"#);
        assert_eq!(wrong(&limits).unwrap(), "http.limits.idle_seconds");
        let ftp = r#""protocol": "ftp", "address": "0.0.0.0:21", "http": {}"#;
        assert_eq!(wrong(ftp).unwrap(), "http");
        let tls = r#""protocol": "http", "address": "[::1]:80", "tls": {"key": "a"}"#;
        assert_eq!(wrong(tls).unwrap(), "tls");
    }
}
