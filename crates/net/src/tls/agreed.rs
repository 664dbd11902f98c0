//! What was agreed on with a server.

use aws_lc_rs::digest;
use rustls::{ClientConnection, ProtocolVersion};

use super::version::TlsVersion;

/// What a connection of ours under TLS has agreed on with its server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTls {
    /// The version, TLS 1.2 or later.
    pub version: TlsVersion,
    /// The cipher suite, by its name in the registry (RFC 8446 §B.4).
    pub suite: String,
    /// SHA-256 of the certificate that the server showed.
    pub certificate: Option<[u8; 32]>,
}

impl ServerTls {
    /// Of a connection whose handshake is done.
    pub(crate) fn of(connection: &ClientConnection) -> ServerTls {
        let is_new = connection.protocol_version() == Some(ProtocolVersion::TLSv1_3);
        let suite = connection.negotiated_cipher_suite().map(|suite| suite.suite());
        let own = connection.peer_certificates().and_then(<[_]>::first);
        let certificate = own.and_then(|own| {
            let digest = digest::digest(&digest::SHA256, own);
            digest.as_ref().try_into().ok()
        });
        ServerTls {
            version: if is_new { TlsVersion::Tls13 } else { TlsVersion::Tls12 },
            suite: suite.and_then(|suite| suite.as_str()).unwrap_or_default().to_owned(),
            certificate,
        }
    }
}
