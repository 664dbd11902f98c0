//! The client's side of TLS towards services that are asked: their certificate is checked.

use std::io;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore, crypto};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::ClientTlsStream;

/// A client that talks to nobody whose certificate is not right. Cheap to clone.
#[derive(Clone, Debug)]
pub struct VerifiedClient(Arc<ClientConfig>);

impl VerifiedClient {
    /// Believes these certificates (PEM), or, without any, whom this machine trusts.
    ///
    /// # Errors
    /// They cannot be read, or there is none.
    pub fn new(authorities: Option<&str>) -> io::Result<Self> {
        let mut roots = RootCertStore::empty();
        match authorities {
            Some(pem) => {
                for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
                    let certificate = certificate.map_err(io::Error::other)?;
                    roots.add(certificate).map_err(io::Error::other)?;
                }
            }
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        if roots.is_empty() {
            return Err(io::Error::other("no certificate is known that could vouch for it"));
        }
        let provider = Arc::new(crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(VerifiedClient(Arc::new(config)))
    }

    /// Shakes hands with `host`, a name or an address.
    ///
    /// # Errors
    /// Of the handshake; also that it is somebody else.
    pub async fn connect(&self, host: &str, stream: TcpStream) -> io::Result<ClientTlsStream> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        TlsConnector::from(Arc::clone(&self.0)).connect(name, stream).await
    }
}
