//! The client's side of TLS, for measuring: whoever answers is believed.

use std::io;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme, SupportedProtocolVersion};
use rustls::{crypto, version};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::signatures::Signatures;
use super::stream::resumed;
use super::version::TlsVersion;
use crate::limits::{CLIENT_TLS_SESSIONS, TLS_SEND_BYTES};

/// A connection under TLS that we began.
pub type ClientTlsStream = tokio_rustls::client::TlsStream<TcpStream>;

/// One client and the sessions it can resume. TLS 1.3 tickets are given out once each, so that a
/// server that gives none with uploads needs TLS 1.2 for many of them.
#[derive(Clone, Debug)]
pub struct LoadClient {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl LoadClient {
    /// A client of `host` that speaks one version only and **does not check the certificate**:
    /// for load generators, never for files.
    ///
    /// # Errors
    /// `host` is no name.
    pub fn unverified(host: &str, only: TlsVersion) -> io::Result<Self> {
        let provider = Arc::new(crypto::aws_lc_rs::default_provider());
        let versions: &[&SupportedProtocolVersion] = match only {
            TlsVersion::Tls12 => &[&version::TLS12],
            TlsVersion::Tls13 => &[&version::TLS13],
        };
        let signatures = Signatures::new(&provider);
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .map_err(io::Error::other)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody { signatures }))
            .with_no_client_auth();
        config.resumption = Resumption::in_memory_sessions(CLIENT_TLS_SESSIONS);
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        Ok(LoadClient { config: Arc::new(config), name })
    }

    /// Offers these protocols by ALPN (RFC 7301), the best first.
    #[must_use]
    pub fn speaking(mut self, protocols: &[&[u8]]) -> Self {
        let names = protocols.iter().map(|name| name.to_vec()).collect();
        Arc::make_mut(&mut self.config).alpn_protocols = names;
        self
    }

    /// Shakes hands; answers whether an earlier session was resumed.
    ///
    /// # Errors
    /// Of the handshake.
    pub async fn connect(&self, stream: TcpStream) -> io::Result<(ClientTlsStream, bool)> {
        let connector = TlsConnector::from(Arc::clone(&self.config));
        let stream = connector
            .connect_with(self.name.clone(), stream, |connection| {
                connection.set_buffer_limit(Some(TLS_SEND_BYTES));
            })
            .await?;
        let resumed = resumed(stream.get_ref().1.handshake_kind());
        Ok((stream, resumed))
    }
}

/// Takes any certificate of whoever has its key.
#[derive(Debug)]
struct Anybody {
    signatures: Signatures,
}

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
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
