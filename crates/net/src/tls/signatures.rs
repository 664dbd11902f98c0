//! Signatures of handshakes, for whoever decides by himself which certificates he takes: that its
//! owner has the key is always checked.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{self, CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::CertificateDer;
use rustls::{DigitallySignedStruct, SignatureScheme};

/// Checks them as its provider can.
#[derive(Debug)]
pub(super) struct Signatures(Arc<CryptoProvider>);

impl Signatures {
    pub(super) fn new(provider: &Arc<CryptoProvider>) -> Self {
        Signatures(Arc::clone(provider))
    }

    pub(super) fn check_tls12(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        crypto::verify_tls12_signature(message, cert, signature, self.known())
    }

    pub(super) fn check_tls13(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        crypto::verify_tls13_signature(message, cert, signature, self.known())
    }

    pub(super) fn schemes(&self) -> Vec<SignatureScheme> {
        self.known().supported_schemes()
    }

    fn known(&self) -> &WebPkiSupportedAlgorithms {
        &self.0.signature_verification_algorithms
    }
}
