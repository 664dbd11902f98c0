//! What can go wrong with certificates and handshakes.

use thiserror::Error;

/// Why a certificate, a key or a list of authorities cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TlsConfigError {
    /// The chain is empty.
    #[error(
        "there is no certificate in the chain: give it as PEM, the server's own certificate first"
    )]
    NoCertificate,
    /// A certificate cannot be read.
    #[error("the certificate {place} of the chain cannot be read: {reason}")]
    Certificate {
        /// Which one, from 1.
        place: usize,
        /// What is wrong.
        reason: String,
    },
    /// There is no private key.
    #[error("there is no private key: give it as unencrypted PEM (PKCS#8, PKCS#1 or SEC1)")]
    NoKey,
    /// The key cannot be used.
    #[error(
        "the private key cannot be used: {0}; give RSA from 2,048 bits, P-256, P-384 or Ed25519"
    )]
    Key(String),
    /// Key and certificate belong to different pairs.
    #[error(
        "the private key does not belong to the first certificate of the chain: give the key that \
         the certificate was asked for with"
    )]
    KeyMismatch,
    /// What the other side's certificate is checked by cannot be used.
    #[error("the authorities or pins of certificates cannot be used: {0}")]
    Authorities(String),
}

impl TlsConfigError {
    /// The code of the page in `docs/errors`.
    pub fn code(&self) -> &'static str {
        match self {
            TlsConfigError::NoCertificate => "EP0240",
            TlsConfigError::Certificate { .. } => "EP0241",
            TlsConfigError::NoKey => "EP0242",
            TlsConfigError::Key(_) => "EP0243",
            TlsConfigError::KeyMismatch => "EP0244",
            TlsConfigError::Authorities(_) => "EP0245",
        }
    }
}

/// Why a connection did not get into TLS.
#[derive(Debug, Error)]
pub enum HandshakeError {
    /// It took too long.
    #[error("the TLS handshake was not done in time")]
    Timeout,
    /// The peer does not speak TLS as we do, or went away.
    #[error("the TLS handshake failed: {0}")]
    Failed(#[from] std::io::Error),
    /// The data connection does not resume the session of its control connection.
    #[error(
        "the data connection does not resume the TLS session of the control connection: switch on \
         session reuse in the client, or set tls_reuse in the policy of the account"
    )]
    NotResumed,
    /// The data connection shows another certificate than its control connection did.
    #[error(
        "the data connection does not show the certificate of the control connection: show the \
         same one on both, or resume the session"
    )]
    OtherClient,
}

impl HandshakeError {
    /// The code of the page in `docs/errors`.
    pub fn code(&self) -> &'static str {
        match self {
            HandshakeError::Timeout => "EP0246",
            HandshakeError::Failed(_) => "EP0247",
            HandshakeError::NotResumed => "EP0248",
            HandshakeError::OtherClient => "EP0249",
        }
    }
}
