//! One session under TLS: its control connection and its data connections, bound together by the
//! tickets it gives out.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use rustls::pki_types::CertificateDer;
use rustls::server::{ProducesTickets, StoresServerSessions};
use rustls::{HandshakeKind, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};

use super::config::{ClientCertificates, TlsConfig};
use super::error::HandshakeError;
use super::identity::ClientCertificate;
use super::records::Records;
use super::stream::{TlsInfo, TlsStream};
use crate::limits::{
    HANDSHAKE_TIME, KNOWN_SESSION_BYTES, KNOWN_SESSIONS, TICKET_KEY_TIME, TLS_SEND_BYTES,
    UNPROVED_TICKETS,
};

/// The session's name inside a ticket, in front of what rustls keeps there.
const ID_BYTES: usize = 16;
/// The number of the connection that was given the ticket, behind it.
const SERIAL_BYTES: usize = 8;
/// The number of the control connection.
const CONTROL: u64 = 0;
/// Tickets of a control connection in TLS 1.3.
const CONTROL_TICKETS: usize = 2;
/// Tickets of a download in TLS 1.3: curl uses one for each.
const DOWNLOAD_TICKETS: usize = 2;

/// What a data connection carries, as the server sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carries {
    /// A file or a list to the client, who is given new tickets.
    Download,
    /// A file from the client. No tickets in TLS 1.3: a client that closes over unread ones makes
    /// its kernel reset the connection, and the tail of the file is lost.
    Upload,
}

/// Whether data connections must resume the session of the control connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reuse {
    /// They must: nobody else can take or send a file.
    #[default]
    Required,
    /// They may; a full handshake is taken too.
    Preferred,
    /// They need not, and are given no tickets to resume with.
    Off,
}

/// The TLS of one session. Cheap to clone.
#[derive(Clone)]
pub struct TlsSession {
    config: TlsConfig,
    own: Arc<Own>,
}

/// What makes it this session.
#[derive(Debug)]
struct Own {
    id: [u8; ID_BYTES],
    serials: Mutex<Serials>,
    /// Of TLS 1.2, by their ids: curl asks for no tickets there.
    known: Mutex<HashMap<Vec<u8>, Known>>,
    /// The certificate that was shown on the control connection.
    client: Mutex<Option<CertificateDer<'static>>>,
}

/// A session of TLS 1.2 as rustls keeps it, with the serial of the connection that began it.
type Known = (u64, Vec<u8>);

/// Which data connections may be resumed. One is given its tickets while it shakes hands, before
/// anyone knows whether it resumed; until that is known, and for ever if it did not, its tickets
/// are worth nothing. Otherwise a stranger could shake hands in full, be refused, and come back
/// with the tickets of the first time.
#[derive(Debug)]
struct Serials {
    next: u64,
    unproved: HashSet<u64>,
}

impl TlsSession {
    pub(super) fn new(config: TlsConfig) -> Self {
        let mut id = [0; ID_BYTES];
        config.0.env.fill_random(&mut id);
        let serials = Serials { next: CONTROL + 1, unproved: HashSet::new() };
        let (serials, known, client) = (Mutex::new(serials), Mutex::default(), Mutex::default());
        TlsSession { config, own: Arc::new(Own { id, serials, known, client }) }
    }

    /// Shakes hands on the control connection; any ticket of ours resumes, so that logins are
    /// cheap.
    ///
    /// # Errors
    /// It failed, or took more than 10 s.
    pub async fn accept_control<S>(&self, stream: S) -> Result<TlsStream<S>, HandshakeError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let issuer = Issuer { session: self.clone(), serial: CONTROL, takes: Takes::Any };
        let config = self.server_config(issuer, CONTROL_TICKETS);
        let stream = shake_hands(config, Records::one_by_one(stream)).await?;
        *self.own.client.lock() = stream.info().client_certificates.first().cloned();
        Ok(stream)
    }

    /// Shakes hands on a data connection, also where we have dialled: the server is the server.
    ///
    /// # Errors
    /// It failed, took more than 10 s, did not resume this session though it must, or is of another
    /// client by its certificate.
    pub async fn accept_data<S>(
        &self,
        stream: S,
        carries: Carries,
        reuse: Reuse,
    ) -> Result<TlsStream<S>, HandshakeError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let serial = self.own.serials.lock().begin();
        let takes = if reuse == Reuse::Off { Takes::None } else { Takes::Own };
        let tickets = match carries {
            _ if serial.is_none() || reuse == Reuse::Off => 0,
            Carries::Upload => 0,
            Carries::Download => DOWNLOAD_TICKETS,
        };
        let issuer = Issuer { session: self.clone(), serial: serial.unwrap_or(u64::MAX), takes };
        let config = self.server_config(issuer, tickets);
        // If this future is dropped or fails, the serial stays unproved.
        let stream = shake_hands(config, Records::as_they_come(stream)).await?;
        if !stream.info().resumed && reuse == Reuse::Required {
            return Err(HandshakeError::NotResumed);
        }
        let client = self.own.client.lock().clone();
        if client.is_some() && stream.info().client_certificates.first() != client.as_ref() {
            return Err(HandshakeError::OtherClient);
        }
        if let Some(serial) = serial {
            self.own.serials.lock().unproved.remove(&serial);
        }
        Ok(stream)
    }

    /// Which certificates clients were asked for when the session began.
    pub fn clients(&self) -> &ClientCertificates {
        self.config.clients()
    }

    /// The certificate that the client of a connection of this session has shown, now or when it
    /// began what it resumed: tickets are shared by configurations of equal authorities only.
    pub fn client(&self, info: &TlsInfo) -> Option<ClientCertificate> {
        let own = info.client_certificates.first()?;
        ClientCertificate::read(own, self.config.certifies())
    }

    #[cfg(test)]
    pub(super) fn own_serial_for_tests(&self) -> Option<u64> {
        self.own.serials.lock().begin()
    }

    fn server_config(&self, issuer: Issuer, tickets: usize) -> Arc<ServerConfig> {
        let mut config = self.config.0.server.clone();
        config.session_storage = Arc::new(issuer.clone());
        config.ticketer = Arc::new(issuer);
        config.send_tls13_tickets = tickets;
        Arc::new(config)
    }
}

impl fmt::Debug for TlsSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsSession").finish_non_exhaustive()
    }
}

impl Serials {
    /// For a new data connection; `None`: too many were unproved, this one gets no tickets.
    fn begin(&mut self) -> Option<u64> {
        if self.unproved.len() >= UNPROVED_TICKETS {
            return None;
        }
        let serial = self.next;
        self.next += 1;
        self.unproved.insert(serial);
        Some(serial)
    }

    fn is_proved(&self, serial: u64) -> bool {
        serial < self.next && !self.unproved.contains(&serial)
    }
}

async fn shake_hands<S>(
    config: Arc<ServerConfig>,
    stream: Records<S>,
) -> Result<TlsStream<S>, HandshakeError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let acceptor = tokio_rustls::TlsAcceptor::from(config);
    let accepting = acceptor.accept_with(stream, |connection| {
        connection.set_buffer_limit(Some(TLS_SEND_BYTES));
    });
    match tokio::time::timeout(HANDSHAKE_TIME, accepting).await {
        Ok(accepted) => Ok(TlsStream::new(accepted?)),
        Err(_) => Err(HandshakeError::Timeout),
    }
}

/// True if it resumed.
pub(super) fn resumed(kind: Option<HandshakeKind>) -> bool {
    kind == Some(HandshakeKind::Resumed)
}

/// Whose tickets a connection resumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    Any,
    Own,
    None,
}

/// Gives tickets to one connection and takes them from it.
#[derive(Clone, Debug)]
struct Issuer {
    session: TlsSession,
    serial: u64,
    takes: Takes,
}

impl ProducesTickets for Issuer {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        u32::try_from(TICKET_KEY_TIME.as_secs()).unwrap_or(u32::MAX)
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        if self.serial == u64::MAX || self.takes == Takes::None {
            return None;
        }
        let marked = [self.session.own.id.as_slice(), &self.serial.to_be_bytes(), plain].concat();
        self.session.config.0.tickets.seal(&marked)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        if self.takes == Takes::None {
            return None;
        }
        let marked = self.session.config.0.tickets.open(cipher)?;
        let (id, rest) = marked.split_first_chunk::<ID_BYTES>()?;
        let (serial, plain) = rest.split_first_chunk::<SERIAL_BYTES>()?;
        let own = &self.session.own;
        let is_own = || *id == own.id && own.serials.lock().is_proved(u64::from_be_bytes(*serial));
        (self.takes == Takes::Any || is_own()).then(|| plain.to_vec())
    }
}

/// Sessions of TLS 1.2 by their ids, under the same rule as tickets, but that an id is never taken
/// by another session: a login with one shakes hands in full.
impl StoresServerSessions for Issuer {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        let mut known = self.session.own.known.lock();
        let fits =
            self.can_cache() && known.len() < KNOWN_SESSIONS && value.len() <= KNOWN_SESSION_BYTES;
        if fits {
            known.insert(key, (self.serial, value));
        }
        fits
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let own = &self.session.own;
        let (serial, value) = own.known.lock().get(key).cloned().filter(|_| self.can_cache())?;
        own.serials.lock().is_proved(serial).then_some(value)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.get(key)
    }

    fn can_cache(&self) -> bool {
        self.serial != u64::MAX && self.takes != Takes::None
    }
}

#[cfg(test)]
mod tests {
    use entrepot_model::Env;

    use super::*;
    use crate::tls::tests::options;

    #[test]
    fn a_session_with_a_long_chain_is_not_kept() {
        let config = TlsConfig::new(&options(), &Env::simulated(1)).unwrap();
        let issuer = Issuer { session: config.session(), serial: CONTROL, takes: Takes::Any };
        let longest = vec![7; KNOWN_SESSION_BYTES];
        assert!(!issuer.put(vec![1], [&longest[..], &[7]].concat()));
        assert_eq!(issuer.get(&[1]), None);
        assert!(issuer.put(vec![2], longest.clone()));
        assert_eq!(issuer.get(&[2]), Some(longest));
    }
}
