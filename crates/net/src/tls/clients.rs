//! Certificates of clients.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};

use super::error::TlsConfigError;
use super::signatures::Signatures;

/// Whose certificates are taken from clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Anybody's who has its key: the account names the certificate it expects.
    AnyHolder,
    /// Those that these authorities (PEM) have signed and that are valid now.
    Authorities(Vec<u8>),
}

/// Whether clients are asked for a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificates {
    /// They are not.
    #[default]
    Off,
    /// They may show one.
    Optional(Trust),
    /// Without one there is no handshake.
    Required(Trust),
}

impl ClientCertificates {
    /// Whether a listener can be given it.
    ///
    /// # Errors
    /// Its authorities cannot be read.
    pub fn check(&self) -> Result<(), TlsConfigError> {
        verifier(self, &provider()).map(drop)
    }
}

pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

pub(super) fn verifier(
    wanted: &ClientCertificates,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsConfigError> {
    let (trust, required) = match wanted {
        ClientCertificates::Off => return Ok(WebPkiClientVerifier::no_client_auth()),
        ClientCertificates::Optional(trust) => (trust, false),
        ClientCertificates::Required(trust) => (trust, true),
    };
    let Trust::Authorities(pem) = trust else {
        return Ok(Arc::new(Holder { signatures: Signatures::new(provider), required }));
    };
    let refused = |reason: String| TlsConfigError::Authorities(reason);
    let builder =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots(pem)?), Arc::clone(provider));
    let builder = if required { builder } else { builder.allow_unauthenticated() };
    builder.build().map_err(|error| refused(error.to_string()))
}

pub(super) fn roots(pem: &[u8]) -> Result<RootCertStore, TlsConfigError> {
    let refused = |reason: String| TlsConfigError::Authorities(reason);
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| refused(error.to_string()))?;
        roots.add(certificate).map_err(|error| refused(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(refused("the list is empty".to_owned()));
    }
    Ok(roots)
}

/// Takes any certificate whose key the client has: the account says which one it expects.
#[derive(Debug)]
struct Holder {
    signatures: Signatures,
    required: bool,
}

impl ClientCertVerifier for Holder {
    fn client_auth_mandatory(&self) -> bool {
        self.required
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
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
