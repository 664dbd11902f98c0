//! Reaching an object store: credentials, and a dialler that goes only where it may (no clear
//! text and no private address unless allowed, no redirect, no proxy from the environment).

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use async_trait::async_trait;
use entrepot_nouns::endpoint::{ObjectProvider, ObjectRequests, ObjectTarget};
use object_store::aws::{AmazonS3Builder, Checksum};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::list::PaginatedListStore;
use object_store::multipart::MultipartStore;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};
use parking_lot::Mutex;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::requests::Requests;
use crate::ResolvedSecrets;
use crate::error::{Result, StoreError};
use crate::limits::{OBJECT_BACKOFF_LEAST, OBJECT_BACKOFF_MOST, OBJECT_TRIED_FOR};

/// The faces of one client that are used here.
pub(super) struct Backend {
    pub(super) objects: Arc<dyn ObjectStore>,
    pub(super) parts: Arc<dyn MultipartStore>,
    pub(super) pages: Arc<dyn PaginatedListStore>,
    pub(super) fresh_only: FreshOnly,
    pub(super) provider: ObjectProvider,
}

impl Backend {
    fn new<S>(store: S, fresh_only: FreshOnly, provider: ObjectProvider) -> Self
    where
        S: ObjectStore + MultipartStore + PaginatedListStore,
    {
        let store = Arc::new(store);
        let (objects, parts, pages) = (Arc::clone(&store), Arc::clone(&store), store);
        Backend { objects, parts, pages, fresh_only, provider }
    }
}

/// Builds the client for `target`; nothing is dialled yet.
pub(super) fn connect(target: &ObjectTarget, secrets: &ResolvedSecrets) -> Result<Backend> {
    check_url(target)?;
    let fresh_only = FreshOnly::default();
    let dialler = Dialler {
        allow_private: target.allow_private,
        fresh_only: fresh_only.clone(),
        provider: target.provider,
        requests: target.requests.clone(),
    };
    let secret = match &secrets.secret {
        None => None,
        Some(secret) => Some(
            std::str::from_utf8(secret.expose())
                .map_err(|_| StoreError::Denied("the secret key is not UTF-8 text".to_owned()))?,
        ),
    };
    // The dialler keeps the time limits.
    let options = ClientOptions::new().with_allow_http(target.allow_private);
    let retry = retries(&target.requests);
    let provider = target.provider;
    match provider {
        ObjectProvider::S3 => {
            let built = s3(target, secret)?.with_client_options(options).with_retry(retry);
            built
                .with_http_connector(dialler)
                .build()
                .map(|s| Backend::new(s, fresh_only, provider))
        }
        ObjectProvider::Azure => {
            let built = azure(target, secret).with_client_options(options).with_retry(retry);
            built
                .with_http_connector(dialler)
                .build()
                .map(|s| Backend::new(s, fresh_only, provider))
        }
        ObjectProvider::Gcs => {
            let built = gcs(target, secret).with_client_options(options).with_retry(retry);
            built
                .with_http_connector(dialler)
                .build()
                .map(|s| Backend::new(s, fresh_only, provider))
        }
    }
    .map_err(|error| StoreError::Denied(format!("the endpoint cannot be used as written: {error}")))
}

/// How often the client library tries a request.
fn retries(requests: &ObjectRequests) -> RetryConfig {
    let first = requests.backoff().duration().max(OBJECT_BACKOFF_LEAST);
    RetryConfig {
        max_retries: requests.attempts().saturating_sub(1) as usize,
        retry_timeout: OBJECT_TRIED_FOR,
        backoff: BackoffConfig {
            init_backoff: first,
            // With a lower one the library could not draw a pause.
            max_backoff: first.max(OBJECT_BACKOFF_MOST),
            ..BackoffConfig::default()
        },
    }
}

fn s3(target: &ObjectTarget, secret: Option<&str>) -> Result<AmazonS3Builder> {
    let region = target.region.as_deref().unwrap_or("us-east-1");
    let mut builder = AmazonS3Builder::new().with_bucket_name(&target.bucket).with_region(region);
    if let Some(url) = &target.url {
        builder = builder.with_endpoint(url);
    }
    if target.object_lock {
        builder = builder.with_checksum_algorithm(Checksum::SHA256);
    }
    match (&target.access_key_id, secret) {
        (Some(id), Some(secret)) => {
            Ok(builder.with_access_key_id(id).with_secret_access_key(secret))
        }
        // The role of the machine comes from a link-local address.
        (None, None) if target.allow_private => Ok(builder),
        _ => Err(StoreError::Denied(
            "give both 'access_key_id' and 'secret_key' (or neither and 'allow_private', for the \
             role of the machine)"
                .to_owned(),
        )),
    }
}

fn azure(target: &ObjectTarget, secret: Option<&str>) -> MicrosoftAzureBuilder {
    let mut builder = MicrosoftAzureBuilder::new().with_container_name(&target.bucket);
    if let Some(account) = &target.access_key_id {
        builder = builder.with_account(account);
    }
    if let Some(secret) = secret {
        builder = builder.with_access_key(secret);
    }
    if let Some(url) = &target.url {
        builder = builder.with_endpoint(url.clone());
    }
    builder
}

fn gcs(target: &ObjectTarget, secret: Option<&str>) -> GoogleCloudStorageBuilder {
    let mut builder = GoogleCloudStorageBuilder::new().with_bucket_name(&target.bucket);
    if let Some(secret) = secret {
        builder = builder.with_service_account_key(secret);
    }
    if let Some(url) = &target.url {
        builder = builder.with_base_url(url);
    }
    builder
}

/// Refuses at once what the dialler would refuse later, for a clear answer.
fn check_url(target: &ObjectTarget) -> Result<()> {
    let Some(text) = &target.url else { return Ok(()) };
    let denied = |why: &str| Err(StoreError::Denied(format!("the url '{text}' {why}")));
    let Ok(url) = reqwest::Url::parse(text) else { return denied("is no URL") };
    if !url.username().is_empty() || url.password().is_some() {
        return Err(StoreError::Denied("the url holds a user: give the key as such".to_owned()));
    }
    match (url.scheme(), target.allow_private) {
        ("https", _) | ("http", true) => {}
        ("http", false) => {
            return denied("is clear text: use https, or set 'allow_private' inside one's network");
        }
        _ => return denied("must begin with https://"),
    }
    let Some(host) = url.host_str() else { return denied("names no host") };
    if !(target.allow_private || is_name_or_public(host)) {
        return denied("is a private address: set 'allow_private' if it is meant");
    }
    Ok(())
}

/// True for a host name, which is checked when it is resolved, and for a public IP address.
fn is_name_or_public(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    match bare.parse::<IpAddr>() {
        Ok(address) => entrepot_net::dial::is_public(address),
        Err(_) => true,
    }
}

/// Uploads that must not replace anything, by upload id: their completion carries the condition,
/// which the client library has no way to ask for.
#[derive(Clone, Default, Debug)]
pub(super) struct FreshOnly(Arc<Mutex<HashSet<String>>>);

impl FreshOnly {
    /// Marks an upload while the guard lives.
    pub(super) fn mark(&self, upload: &str) -> Marked {
        self.0.lock().insert(upload.to_owned());
        Marked { all: self.clone(), upload: upload.to_owned() }
    }

    fn covers(&self, query: &str) -> bool {
        let all = self.0.lock();
        !all.is_empty()
            && query.split('&').filter_map(|pair| pair.strip_prefix("uploadId=")).any(|id| {
                // Ids are compared in the form of a query value.
                all.iter().any(|marked| encode(marked) == id || marked == id)
            })
    }
}

/// As `serde_urlencoded` writes a value.
fn encode(text: &str) -> String {
    let mut url = reqwest::Url::parse("x:y").ok();
    if let Some(url) = &mut url {
        url.query_pairs_mut().append_pair("k", text);
    }
    let query = url.as_ref().and_then(|url| url.query()).unwrap_or_default();
    query.strip_prefix("k=").unwrap_or_default().to_owned()
}

/// Takes the mark off when dropped.
pub(super) struct Marked {
    all: FreshOnly,
    upload: String,
}

impl Drop for Marked {
    fn drop(&mut self) {
        self.all.0.lock().remove(&self.upload);
    }
}

/// Makes the HTTP client.
#[derive(Debug)]
struct Dialler {
    allow_private: bool,
    fresh_only: FreshOnly,
    provider: ObjectProvider,
    requests: ObjectRequests,
}

impl HttpConnector for Dialler {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .https_only(!self.allow_private)
            .connect_timeout(self.requests.connect_timeout().duration())
            .pool_max_idle_per_host(self.requests.connections() as usize)
            .tcp_nodelay(true)
            .dns_resolver(Arc::new(Resolver { allow_private: self.allow_private }))
            .build()
            .map_err(|source| object_store::Error::Generic {
                store: "http",
                source: Box::new(source),
            })?;
        Ok(HttpClient::new(Guarded {
            requests: Requests::new(client, &self.requests),
            allow_private: self.allow_private,
            fresh_only: self.fresh_only.clone(),
            provider: self.provider,
        }))
    }
}

/// Looks at each request before it leaves.
#[derive(Debug)]
struct Guarded {
    requests: Requests,
    allow_private: bool,
    fresh_only: FreshOnly,
    provider: ObjectProvider,
}

#[async_trait]
impl HttpService for Guarded {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let host = request.uri().host().unwrap_or_default();
        if !(self.allow_private || is_name_or_public(host)) {
            let why = StoreError::Denied("a private address".to_owned());
            return Err(HttpError::new(HttpErrorKind::Unknown, why));
        }
        let completes = request.method().as_str() == "POST"
            && self.fresh_only.covers(request.uri().query().unwrap_or_default());
        if completes {
            let (name, value) = match self.provider {
                ObjectProvider::S3 | ObjectProvider::Azure => ("if-none-match", "*"),
                ObjectProvider::Gcs => ("x-goog-if-generation-match", "0"),
            };
            if let Ok(value) = value.parse() {
                request.headers_mut().insert(name, value);
            }
        }
        self.requests.send(request).await
    }
}

/// Resolves names and keeps only addresses that may be dialled; exactly these are dialled.
struct Resolver {
    allow_private: bool,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let allow_private = self.allow_private;
        Box::pin(async move {
            let found: Vec<SocketAddr> =
                tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let allowed: Vec<SocketAddr> = found
                .into_iter()
                .filter(|at| allow_private || entrepot_net::dial::is_public(at.ip()))
                .collect();
            if allowed.is_empty() {
                let why = "the name has no address that may be dialled (private ones need \
                           'allow_private')";
                return Err(why.into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str, allow_private: bool) -> ObjectTarget {
        ObjectTarget {
            url: Some(url.to_owned()),
            access_key_id: Some("id".to_owned()),
            allow_private,
            ..ObjectTarget::new("b")
        }
    }

    #[test]
    fn clear_text_and_private_addresses_are_refused_unless_allowed() {
        for url in [
            "http://s3.example.com",
            "https://127.0.0.1:9000",
            "https://10.1.2.3",
            "https://[::1]:9000",
            "https://[::ffff:169.254.169.254]",
            "https://2130706433/",
            "https://0x7f.1/",
            "https://017700000001/",
            "ftp://example.com",
            "https://user:secret@example.com",
            "not a url",
        ] {
            let refused = check_url(&target(url, false));
            assert!(matches!(refused, Err(StoreError::Denied(_))), "{url}: {refused:?}");
        }
        check_url(&target("https://s3.example.com", false)).unwrap();
        check_url(&target("http://127.0.0.1:9000", true)).unwrap();
        check_url(&target("https://10.1.2.3", true)).unwrap();
    }

    #[tokio::test]
    async fn names_of_private_addresses_are_not_dialled() {
        let resolver = |allow_private| Resolver { allow_private };
        let name = || "localhost".parse::<Name>().unwrap();
        assert!(resolver(false).resolve(name()).await.is_err());
        assert!(resolver(true).resolve(name()).await.unwrap().count() > 0);
    }

    #[test]
    fn a_marked_upload_is_found_in_its_query() {
        let fresh = FreshOnly::default();
        let guard = fresh.mark("a+b/c=");
        assert!(fresh.covers("x=1&uploadId=a%2Bb%2Fc%3D"));
        assert!(!fresh.covers("uploadId=other"));
        drop(guard);
        assert!(!fresh.covers("uploadId=a%2Bb%2Fc%3D"));
    }

    #[test]
    fn keys_come_in_pairs() {
        let none = connect(&target("https://s3.example.com", false), &ResolvedSecrets::default());
        assert!(matches!(none, Err(StoreError::Denied(_))));
        let secret = Some("key".to_owned().into());
        let both = ResolvedSecrets { secret, private_key: None };
        assert!(connect(&target("https://s3.example.com", false), &both).is_ok());
    }
}
