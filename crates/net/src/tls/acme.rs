//! What authorities that speak ACME (RFC 8555) need of TLS: requests for certificates, what a
//! certificate that came says of itself, and the answer to the challenge tls-alpn-01 (RFC 8737).

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::digest;
use entrepot_nouns::{CertificateName, Secret, Timestamp};
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{Acceptor, NoServerSessionStorage};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::StartHandshake;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;

use super::clients::provider;
use super::config::chain;
use super::error::{HandshakeError, TlsConfigError};
use super::identity::names;
use super::records::Records;
use super::server::TlsServer;
use super::stream::TlsStream;
use super::validity::{Validity, validity};
use crate::limits::{HANDSHAKE_TIME, TLS_SEND_BYTES};

/// The protocol by which an authority says that it checks a name (RFC 8737 §6.2).
const ACME_TLS: &[u8] = b"acme-tls/1";

/// A request for a certificate (RFC 2986), with the key that the certificate is for.
#[derive(Debug)]
pub struct CertificateRequest {
    /// The request, DER.
    pub der: Vec<u8>,
    /// A new key, as PEM: ECDSA over P-256.
    pub key: Secret,
}

/// Makes a key, and the request for its certificate.
///
/// # Errors
/// A name is none of DNS.
pub fn certificate_request(names: Vec<String>) -> Result<CertificateRequest, TlsConfigError> {
    let failed = |error: rcgen::Error| TlsConfigError::Key(error.to_string());
    let key = KeyPair::generate().map_err(failed)?;
    let mut params = CertificateParams::new(names).map_err(failed)?;
    params.distinguished_name = DistinguishedName::new();
    let request = params.serialize_request(&key).map_err(failed)?;
    Ok(CertificateRequest { der: request.der().to_vec(), key: Secret::new(key.serialize_pem()) })
}

/// What a server's own certificate says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnCertificate {
    /// The names of DNS in it, in small letters.
    pub names: Vec<String>,
    /// Not valid before.
    pub not_before: Timestamp,
    /// Not valid from this moment on.
    pub not_after: Timestamp,
    /// Nobody else has signed it.
    pub is_self_signed: bool,
}

impl OwnCertificate {
    /// Reads the first certificate of a chain, PEM.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn read(pem: &[u8]) -> Result<Self, TlsConfigError> {
        let unreadable = |reason: String| TlsConfigError::Certificate { place: 1, reason };
        let chain = chain(pem)?;
        let own = chain.first().ok_or(TlsConfigError::NoCertificate)?;
        let certificate =
            Certificate::from_der(own).map_err(|error| unreadable(error.to_string()))?;
        let Validity { from, to } = validity(&certificate);
        let stated = names(&certificate).ok_or_else(|| unreadable("its names".to_owned()))?;
        let of_dns = |name| match name {
            CertificateName::Dns(name) => Some(name),
            _ => None,
        };
        Ok(OwnCertificate {
            names: stated.into_iter().filter_map(of_dns).collect(),
            not_before: from,
            not_after: to,
            is_self_signed: certificate.tbs_certificate.issuer
                == certificate.tbs_certificate.subject,
        })
    }
}

/// The first message of a client, before anything was answered: what it asks for decides what it is
/// answered.
pub struct TlsHello<S>(StartHandshake<Records<S>>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsHello<S> {
    /// Reads it.
    ///
    /// # Errors
    /// It is none of TLS, or took more than 10 s.
    pub async fn read(stream: S) -> Result<Self, HandshakeError> {
        let reading = LazyConfigAcceptor::new(Acceptor::default(), Records::as_they_come(stream));
        match timeout(HANDSHAKE_TIME, reading).await {
            Ok(start) => Ok(TlsHello(start?)),
            Err(_) => Err(HandshakeError::Timeout),
        }
    }

    /// The name that an authority checks, if the client is one and does nothing else.
    pub fn challenged_name(&self) -> Option<String> {
        let hello = self.0.client_hello();
        let mut protocols = hello.alpn()?;
        let is_challenge = protocols.next() == Some(ACME_TLS) && protocols.next().is_none();
        hello.server_name().filter(|_| is_challenge).map(str::to_ascii_lowercase)
    }

    /// Shakes hands as a server.
    ///
    /// # Errors
    /// As [`TlsServer::accept`].
    pub async fn accept(self, server: &TlsServer) -> Result<TlsStream<S>, HandshakeError> {
        self.shake_hands(server.server_config()).await
    }

    /// Answers the challenge for the name that the client asks for, and closes.
    ///
    /// # Errors
    /// The handshake failed, or took more than 10 s.
    pub async fn answer(self, key_authorization: &str) -> Result<(), HandshakeError> {
        let name = self.challenged_name().unwrap_or_default();
        let config = challenge_config(&name, key_authorization)
            .map_err(|error| HandshakeError::Failed(std::io::Error::other(error)))?;
        let mut stream = self.shake_hands(Arc::new(config)).await?;
        // The authority has seen the certificate and closes as well.
        let _ = timeout(HANDSHAKE_TIME, stream.shutdown()).await;
        Ok(())
    }

    async fn shake_hands(self, config: Arc<ServerConfig>) -> Result<TlsStream<S>, HandshakeError> {
        let accepting = self.0.into_stream_with(config, |connection| {
            connection.set_buffer_limit(Some(TLS_SEND_BYTES));
        });
        match timeout(HANDSHAKE_TIME, accepting).await {
            Ok(accepted) => Ok(TlsStream::new(accepted?)),
            Err(_) => Err(HandshakeError::Timeout),
        }
    }
}

impl<S> fmt::Debug for TlsHello<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsHello").finish_non_exhaustive()
    }
}

type ChallengeError = Box<dyn std::error::Error + Send + Sync>;

/// Shows a certificate with what the authority expects, and speaks nothing else.
fn challenge_config(name: &str, key_authorization: &str) -> Result<ServerConfig, ChallengeError> {
    let certified = Arc::new(challenge_certificate(name, key_authorization)?);
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    config.alpn_protocols = vec![ACME_TLS.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// A certificate for one name, signed by itself, with the digest of what the authority expects.
fn challenge_certificate(
    name: &str,
    key_authorization: &str,
) -> Result<CertifiedKey, ChallengeError> {
    let expected = digest::digest(&digest::SHA256, key_authorization.as_bytes());
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(vec![name.to_owned()])?;
    params.distinguished_name = DistinguishedName::new();
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(expected.as_ref())];
    let certificate = params.self_signed(&key)?;
    let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    // Not from what reads the certificate: it refuses the extension, which is critical.
    let private = provider().key_provider.load_private_key(private)?;
    Ok(CertifiedKey::new(vec![certificate.der().clone()], private))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use entrepot_nouns::Env;
    use tokio::net::{TcpListener, TcpStream};
    use x509_cert::der::asn1::{ObjectIdentifier, OctetString};

    use super::*;
    use crate::tls::tests::options;
    use crate::tls::{LoadClient, TlsConfig, TlsVersion, self_signed};

    /// `id-pe-acmeIdentifier` (RFC 8737 §3).
    const ACME_IDENTIFIER: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.1.31");

    #[test]
    fn a_certificate_of_our_own_making_says_so() {
        let own = self_signed(vec!["Files.example".to_owned(), "192.0.2.1".to_owned()]).unwrap();
        let read = OwnCertificate::read(own.chain.as_bytes()).unwrap();
        assert!(read.is_self_signed && read.not_before < read.not_after, "{read:?}");
        assert_eq!(read.names, ["files.example"]);
        assert_eq!(OwnCertificate::read(b"").unwrap_err(), TlsConfigError::NoCertificate);
    }

    #[test]
    fn a_request_has_the_names_and_a_new_key() {
        let names = vec!["a.example".to_owned(), "b.example".to_owned()];
        let one = certificate_request(names.clone()).unwrap();
        let other = certificate_request(names).unwrap();
        assert_ne!(one.key.expose(), other.key.expose());
        for name in ["a.example", "b.example"] {
            let is_in = one.der.windows(name.len()).any(|part| part == name.as_bytes());
            assert!(is_in, "{name}");
        }
    }

    #[test]
    fn the_certificate_of_a_challenge_has_the_digest_of_the_answer() {
        let certified = challenge_certificate("files.example", "token.thumb").unwrap();
        let certificate = Certificate::from_der(&certified.cert[0]).unwrap();
        assert_eq!(names(&certificate).unwrap(), ["dns:files.example".parse().unwrap()]);
        let extensions = certificate.tbs_certificate.extensions.unwrap();
        let identifier = extensions.iter().find(|it| it.extn_id == ACME_IDENTIFIER).unwrap();
        assert!(identifier.critical);
        let shown = OctetString::from_der(identifier.extn_value.as_bytes()).unwrap();
        assert_eq!(shown.as_bytes(), digest::digest(&digest::SHA256, b"token.thumb").as_ref());
    }

    /// The name that an authority checks by these protocols, and what such a client gets.
    async fn asked(protocols: &[&[u8]]) -> (Option<String>, Result<Vec<u8>, String>) {
        let server = TlsConfig::new(&options(), &Env::real()).unwrap().server(&[b"http/1.1"]);
        let client = LoadClient::unverified("files.example", TlsVersion::Tls13).unwrap();
        let client = client.speaking(protocols);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let serving = tokio::spawn(async move {
            let hello = TlsHello::read(listener.accept().await.unwrap().0).await.unwrap();
            let name = hello.challenged_name();
            match &name {
                Some(_) => drop(hello.answer("token.thumb").await),
                None => drop(hello.accept(&server).await),
            }
            name
        });
        let spoken = match client.connect(near).await {
            Ok((stream, _)) => Ok(stream.get_ref().1.alpn_protocol().unwrap_or_default().to_vec()),
            Err(error) => Err(error.to_string()),
        };
        (serving.await.unwrap(), spoken)
    }

    #[tokio::test]
    async fn a_challenge_gets_its_certificate_and_everybody_else_that_of_the_server() {
        let (name, spoken) = asked(&[ACME_TLS]).await;
        assert_eq!(name.as_deref(), Some("files.example"));
        // This client, which is no authority, knows the certificate by its critical extension.
        let refused = spoken.unwrap_err();
        assert!(refused.contains("UnsupportedCriticalExtension"), "{refused}");
        assert_eq!(asked(&[b"http/1.1"]).await, (None, Ok(b"http/1.1".to_vec())));
        // One that speaks something else besides is no authority.
        let (name, spoken) = asked(&[ACME_TLS, b"http/1.1"]).await;
        assert_eq!((name, spoken), (None, Ok(b"http/1.1".to_vec())));
    }
}
