//! The client's side of TLS for files: the server is known by pinned certificates or by
//! authorities, and data connections resume the session of their control connection.

use std::collections::VecDeque;
use std::fmt;
use std::fmt::Write as _;
use std::sync::Arc;

use aws_lc_rs::digest;
use entrepot_nouns::Secret;
use parking_lot::Mutex;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls13ClientSessionValue,
    WebPkiServerVerifier,
};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, DigitallySignedStruct, NamedGroup, RootCertStore, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::client::ClientTlsStream;
use super::config::{certified, chain};
use super::error::{HandshakeError, TlsConfigError};
use super::signatures::Signatures;
use super::stream::resumed;
use crate::limits::{CLIENT_TLS_TICKETS, HANDSHAKE_TIME, TLS_SEND_BYTES};

/// Bytes of a fingerprint.
const FINGERPRINT_BYTES: usize = digest::SHA256_OUTPUT_LEN;

/// By what a server is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerTrust {
    /// Its own certificate is one of these, each as PEM or as fingerprint (SHA-256 in hexadecimal,
    /// with or without colons and `SHA256:` before it). Names and dates do not count.
    Pinned(Vec<String>),
    /// These sign it (PEM), it names the host, and it has not expired.
    Authorities(Vec<u8>),
    /// The same with the authorities that this machine trusts.
    System,
}

/// What proves to servers who we are: a certificate, those that signed it, and its key.
#[derive(Clone)]
pub struct ClientIdentity(Arc<SingleCertAndKey>);

impl ClientIdentity {
    /// Of certificates as PEM, the own one first, and its unencrypted key as PEM.
    ///
    /// # Errors
    /// They cannot be read, or do not belong together.
    pub fn read(certificates: &[u8], key: &Secret) -> Result<Self, TlsConfigError> {
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let certified = certified(&chain(certificates)?, key, &provider)?;
        Ok(ClientIdentity(Arc::new(SingleCertAndKey::from(certified))))
    }
}

impl fmt::Debug for ClientIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientIdentity").finish_non_exhaustive()
    }
}

/// A client of one server. Each [`TlsClient::session`] of it remembers tickets of its own.
#[derive(Clone)]
pub struct TlsClient {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    tickets: Arc<Tickets>,
}

impl TlsClient {
    /// A client of `host`, TLS 1.2 or 1.3.
    ///
    /// # Errors
    /// A pin is none, no authority is known, or `host` is no name.
    pub fn new(host: &str, trust: &ServerTrust) -> Result<Self, TlsConfigError> {
        TlsClient::proving(host, trust, None)
    }

    /// The same, which shows a certificate of its own to a server that asks for one.
    ///
    /// # Errors
    /// As of [`TlsClient::new`].
    pub fn proving(
        host: &str,
        trust: &ServerTrust,
        identity: Option<&ClientIdentity>,
    ) -> Result<Self, TlsConfigError> {
        let refused = |reason: String| TlsConfigError::Authorities(reason);
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let name = server_name(host)?;
        let verifier = verifier(trust, &provider)?;
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| refused(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let config = match identity {
            Some(ClientIdentity(own)) => config.with_client_cert_resolver(own.clone()),
            None => config.with_no_client_auth(),
        };
        Ok(TlsClient { config: Arc::new(config), name, tickets: Arc::default() })
    }

    /// The same towards another host, with tickets of its own.
    ///
    /// # Errors
    /// `host` is no name.
    pub fn towards(&self, host: &str) -> Result<Self, TlsConfigError> {
        Ok(TlsClient { name: server_name(host)?, ..self.session() })
    }

    /// As rustls wants it, for clients of other protocols.
    pub fn config(&self) -> ClientConfig {
        ClientConfig::clone(&self.config)
    }

    /// For one control connection and its data connections: it resumes what they were given.
    pub fn session(&self) -> Self {
        let tickets: Arc<Tickets> = Arc::default();
        let mut config = ClientConfig::clone(&self.config);
        config.resumption = Resumption::store(Arc::clone(&tickets) as Arc<dyn ClientSessionStore>);
        TlsClient { config: Arc::new(config), name: self.name.clone(), tickets }
    }

    /// True if the next handshake cannot resume though the server gives tickets: in TLS 1.3 each
    /// counts once. A new control connection has new ones.
    pub fn is_spent(&self) -> bool {
        let held = self.tickets.0.lock();
        held.came && held.tls12.is_none() && held.tls13.is_empty()
    }

    /// Shakes hands; answers also whether an earlier session was resumed.
    ///
    /// # Errors
    /// Of the handshake; it took more than 10 s; the certificate is not trusted.
    pub async fn connect(
        &self,
        stream: TcpStream,
    ) -> Result<(ClientTlsStream, bool), HandshakeError> {
        let connector = TlsConnector::from(Arc::clone(&self.config));
        let connecting = connector.connect_with(self.name.clone(), stream, |connection| {
            connection.set_buffer_limit(Some(TLS_SEND_BYTES));
        });
        match tokio::time::timeout(HANDSHAKE_TIME, connecting).await {
            Ok(stream) => {
                let stream = stream?;
                let resumed = resumed(stream.get_ref().1.handshake_kind());
                Ok((stream, resumed))
            }
            Err(_) => Err(HandshakeError::Timeout),
        }
    }
}

impl fmt::Debug for TlsClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsClient").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What can be resumed. One server, so its name does not count.
#[derive(Default)]
struct Tickets(Mutex<HeldTickets>);

#[derive(Default)]
struct HeldTickets {
    group: Option<NamedGroup>,
    tls12: Option<Tls12ClientSessionValue>,
    /// The newest last.
    tls13: VecDeque<Tls13ClientSessionValue>,
    /// The server gives something to resume with.
    came: bool,
}

impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tickets").finish_non_exhaustive()
    }
}

impl ClientSessionStore for Tickets {
    fn set_kx_hint(&self, _: ServerName<'static>, group: NamedGroup) {
        self.0.lock().group = Some(group);
    }

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        self.0.lock().group
    }

    fn set_tls12_session(&self, _: ServerName<'static>, value: Tls12ClientSessionValue) {
        let mut held = self.0.lock();
        (held.tls12, held.came) = (Some(value), true);
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.0.lock().tls12.clone()
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {
        self.0.lock().tls12 = None;
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, value: Tls13ClientSessionValue) {
        let mut held = self.0.lock();
        if held.tls13.len() >= CLIENT_TLS_TICKETS {
            held.tls13.pop_front();
        }
        held.tls13.push_back(value);
        held.came = true;
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.0.lock().tls13.pop_back()
    }
}

fn server_name(host: &str) -> Result<ServerName<'static>, TlsConfigError> {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    ServerName::try_from(bare.to_owned())
        .map_err(|_| TlsConfigError::Authorities(format!("'{host}' is no name of a server")))
}

fn verifier(
    trust: &ServerTrust,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, TlsConfigError> {
    let refused = |reason: String| TlsConfigError::Authorities(reason);
    let roots = match trust {
        ServerTrust::Pinned(pins) => {
            let pins = pins.iter().map(|pin| fingerprint(pin)).collect::<Result<_, _>>()?;
            return Ok(Arc::new(Pinned { pins, signatures: Signatures::new(provider) }));
        }
        ServerTrust::Authorities(pem) => super::clients::roots(pem)?,
        ServerTrust::System => {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            roots
        }
    };
    if roots.is_empty() {
        let none = "none is known on this machine: name authorities, or pin the certificate";
        return Err(refused(none.to_owned()));
    }
    let builder =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    let verifier = builder.build().map_err(|error| refused(error.to_string()))?;
    Ok(verifier)
}

/// Of a pin: the digest it says, or that of the certificate it is.
fn fingerprint(pin: &str) -> Result<[u8; FINGERPRINT_BYTES], TlsConfigError> {
    let refused = |reason: &str| TlsConfigError::Authorities(reason.to_owned());
    if pin.contains("-----BEGIN") {
        let certificate = CertificateDer::from_pem_slice(pin.as_bytes())
            .map_err(|_| refused("a pinned certificate is not PEM"))?;
        return Ok(digest_of(&certificate));
    }
    let no_pin = || refused("a pin is neither PEM nor a SHA-256 fingerprint of 64 digits");
    let hex: String = pin.trim().chars().filter(|character| *character != ':').collect();
    let hex = hex.strip_prefix("SHA256").unwrap_or(&hex);
    let mut bytes = [0; FINGERPRINT_BYTES];
    if hex.len() != 2 * FINGERPRINT_BYTES || !hex.is_ascii() {
        return Err(no_pin());
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        let digits = hex.get(2 * at..2 * at + 2).ok_or_else(no_pin)?;
        *byte = u8::from_str_radix(digits, 16).map_err(|_| no_pin())?;
    }
    Ok(bytes)
}

fn digest_of(certificate: &[u8]) -> [u8; FINGERPRINT_BYTES] {
    let digest = digest::digest(&digest::SHA256, certificate);
    let mut bytes = [0; FINGERPRINT_BYTES];
    bytes.iter_mut().zip(digest.as_ref()).for_each(|(to, from)| *to = *from);
    bytes
}

/// Takes the pinned certificates only, of whoever has their keys.
#[derive(Debug)]
struct Pinned {
    pins: Vec<[u8; FINGERPRINT_BYTES]>,
    signatures: Signatures,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let shown = digest_of(end_entity);
        if self.pins.contains(&shown) {
            return Ok(ServerCertVerified::assertion());
        }
        let mut text = String::new();
        for byte in shown {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        Err(rustls::Error::General(format!(
            "the server shows the certificate 'SHA256:{text}', which is not pinned: compare it \
             with its owner, then add it to 'certificates' of the endpoint"
        )))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signatures.check_tls12(message, cert, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signatures.check_tls13(message, cert, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signatures.schemes()
    }
}
