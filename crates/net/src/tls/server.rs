//! TLS of protocols whose every connection stands for itself, such as HTTP: no connection belongs
//! to another one, so tickets are bound to nothing but the certificate.

use std::fmt;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::server::ProducesTickets;
use tokio::io::{AsyncRead, AsyncWrite};

use super::config::TlsConfig;
use super::error::HandshakeError;
use super::records::Records;
use super::session::shake_hands;
use super::stream::TlsStream;
use super::tickets::TicketKeys;
use crate::limits::{TICKET_KEY_TIME, TICKETS};

/// Takes connections under TLS. Cheap to clone.
#[derive(Clone)]
pub struct TlsServer {
    tls: TlsConfig,
    config: Arc<ServerConfig>,
}

impl TlsConfig {
    /// For connections of a protocol that is chosen by ALPN (RFC 7301) among `protocols`, the best
    /// first. A client that offers none of them is refused; one that offers nothing is not.
    pub fn server(&self, protocols: &[&[u8]]) -> TlsServer {
        let mut config = self.0.server.clone();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        config.ticketer = Arc::new(Tickets(Arc::clone(&self.0.tickets)));
        config.send_tls13_tickets = TICKETS;
        TlsServer { tls: self.clone(), config: Arc::new(config) }
    }
}

impl TlsServer {
    /// Shakes hands; a ticket of ours resumes.
    ///
    /// # Errors
    /// It failed, or took more than 10 s.
    pub async fn accept<S>(&self, stream: S) -> Result<TlsStream<S>, HandshakeError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        shake_hands(Arc::clone(&self.config), Records::as_they_come(stream)).await
    }

    pub(super) fn server_config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }

    /// The configuration that it was made from.
    pub fn config(&self) -> &TlsConfig {
        &self.tls
    }
}

impl fmt::Debug for TlsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsServer").field("config", &self.tls).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Tickets(Arc<TicketKeys>);

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        u32::try_from(TICKET_KEY_TIME.as_secs()).unwrap_or(u32::MAX)
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.0.seal(plain)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.0.open(cipher)
    }
}
