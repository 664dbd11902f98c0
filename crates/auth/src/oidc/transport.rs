//! How providers are reached: by the HTTP client of this project, so that its rules on addresses,
//! certificates, sizes and times hold.

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use entrepot_net::dial::DialPolicy;
use entrepot_net::http::{ClearText, Client, HttpError, Request};
use entrepot_net::tls::ServerTrust;
use entrepot_nouns::OidcProvider;
use openidconnect::{AsyncHttpClient, HttpRequest, HttpResponse};

use crate::limits::OIDC_ANSWER_BYTES;

/// Reaches one provider.
pub(super) struct Transport {
    client: Client,
    allow_private: bool,
    /// Addresses without TLS are asked too; they must be of this machine.
    clear: bool,
}

impl Transport {
    pub(super) fn new(provider: &OidcProvider) -> Self {
        let trust = match &provider.authorities {
            Some(pem) => ServerTrust::Authorities(pem.clone().into_bytes()),
            None => ServerTrust::System,
        };
        let clear = provider.issuer.is_clear();
        Transport { client: Client::new(trust), allow_private: provider.private || clear, clear }
    }

    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (parts, body) = request.into_parts();
        let url = parts.uri.to_string();
        // What the provider publishes names further addresses: none leads out of TLS.
        if parts.uri.scheme_str() != Some("https") && !self.clear {
            return Err(HttpError::Url { url });
        }
        let mut request = Request::new(parts.method, &url)?;
        request.headers = parts.headers;
        request.body = Bytes::from(body);
        request.dial = DialPolicy { allow_private: self.allow_private };
        request.clear_text = ClearText::ThisMachine;
        let response = self.client.send(request).await?;
        let (status, headers) = (response.status, response.headers);
        let body = response.body.read_all(OIDC_ANSWER_BYTES).await?;
        let mut answer = HttpResponse::new(body.to_vec());
        *answer.status_mut() = status;
        *answer.headers_mut() = headers;
        Ok(answer)
    }
}

impl<'c> AsyncHttpClient<'c> for Transport {
    type Error = HttpError;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'c>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(self.send(request))
    }
}
