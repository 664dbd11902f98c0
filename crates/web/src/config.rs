//! How a listener presents itself.

use std::sync::Arc;
use std::time::Duration;

use entrepot_net::server::Admission;
use entrepot_net::tls::{ClientCertificates, TlsConfig, TlsServer};
use entrepot_nouns::acme::AcmeChallenge;
use entrepot_nouns::http::{HttpOptions, HttpService};
use entrepot_nouns::{Listener, Protocol};

/// What we speak under TLS, the best first.
const PROTOCOLS: [&[u8]; 2] = [H2, b"http/1.1"];

/// The name of HTTP/2 in ALPN (RFC 9113 §3.2).
pub(crate) const H2: &[u8] = b"h2";

/// How a listener presents itself; changed while it serves. Cheap to clone.
#[derive(Clone, Debug)]
pub struct WebConfig(Arc<Manner>);

#[derive(Debug)]
struct Manner {
    protocol: Protocol,
    admission: Admission,
    options: HttpOptions,
    tls: Option<TlsServer>,
    answers_challenges: bool,
}

impl WebConfig {
    /// Of a listener; `tls` where its protocol is HTTPS.
    pub fn new(listener: &Listener, tls: Option<TlsConfig>) -> WebConfig {
        let acme = listener.tls.acme.as_ref();
        WebConfig(Arc::new(Manner {
            protocol: listener.protocol,
            admission: Admission::of(listener),
            options: listener.http.clone().unwrap_or_default(),
            tls: tls.map(|tls| tls.server(&PROTOCOLS)),
            answers_challenges: acme.is_some_and(|it| it.challenge == AcmeChallenge::TlsAlpn01),
        }))
    }

    pub(crate) fn protocol(&self) -> Protocol {
        self.0.protocol
    }

    pub(crate) fn admission(&self) -> &Admission {
        &self.0.admission
    }

    pub(crate) fn tls(&self) -> Option<&TlsServer> {
        self.0.tls.as_ref()
    }

    /// Under TLS authorities check whether a name leads here (tls-alpn-01).
    pub(crate) fn answers_challenges(&self) -> bool {
        self.0.answers_challenges
    }

    /// The port of HTTPS that clients are sent to, if nothing else is done here.
    pub(crate) fn redirect_to_https(&self) -> Option<u16> {
        self.0.options.redirect_to_https
    }

    /// Which certificates clients are asked for.
    pub(crate) fn clients(&self) -> &ClientCertificates {
        self.tls().map_or(&ClientCertificates::Off, |tls| tls.config().clients())
    }

    pub(crate) fn serves(&self, service: HttpService) -> bool {
        self.0.options.serve.contains(&service)
    }

    /// The head of a request must be there so long after its first byte.
    pub(crate) fn header_time(&self) -> Duration {
        seconds(self.0.options.limits.header_seconds)
    }

    /// The longest pause within the body of a request.
    pub(crate) fn body_time(&self) -> Duration {
        seconds(self.0.options.limits.body_seconds)
    }

    /// The least bytes a second of a body; 0: however few.
    pub(crate) fn least_body_rate(&self) -> u32 {
        self.0.options.limits.least_body_bytes_per_second
    }

    /// The whole body of a request of the API must be there so long after its head.
    pub(crate) fn api_body_time(&self) -> Duration {
        seconds(self.0.options.limits.api_body_seconds)
    }

    /// Longest body of a request of the API.
    pub(crate) fn api_body_bytes(&self) -> usize {
        usize::try_from(self.0.options.limits.api_body_bytes).unwrap_or(usize::MAX)
    }

    /// The longest time in which a client takes nothing of an answer.
    pub(crate) fn answer_time(&self) -> Duration {
        seconds(self.0.options.limits.answer_seconds)
    }

    /// A connection without a request is closed after so long.
    pub(crate) fn idle_time(&self) -> Duration {
        seconds(self.0.options.limits.idle_seconds)
    }

    /// A connection is closed after so many requests.
    pub(crate) fn connection_requests(&self) -> u32 {
        self.0.options.limits.connection_requests
    }

    /// Requests that are worked on at a time, over all connections.
    pub(crate) fn requests(&self) -> usize {
        count(self.0.options.limits.requests)
    }

    /// Messages of AS2 that are received or wait for their publish.
    pub(crate) fn as2_messages(&self) -> usize {
        count(self.0.options.limits.as2_messages)
    }

    /// Messages of AS2 that are published at a time.
    pub(crate) fn as2_at_once(&self) -> usize {
        count(self.0.options.limits.as2_at_once)
    }

    /// The longest time from the last byte of a message of AS2 to its receipt.
    pub(crate) fn as2_time(&self) -> Duration {
        seconds(self.0.options.limits.as2_seconds)
    }
}

fn count(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

fn seconds(seconds: u32) -> Duration {
    Duration::from_secs(u64::from(seconds))
}
