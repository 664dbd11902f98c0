//! One session under TLS: its control connection and its data connections, bound together by the
//! tickets that control connections give out.
//!
//! A ticket names a client program and the account that had logged in. A program is told by the
//! tickets that it resumes: its first control connection names it, and one that resumes a ticket
//! is of the program that was given it. A data connection is taken if its ticket is of the same
//! program or of the same account: clients with several sessions (rclone, `curl --parallel`) keep
//! one memory of tickets for all of them, and mix them.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use entrepot_nouns::{AccountId, Env};
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use rustls::server::{ProducesTickets, StoresServerSessions};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};

use super::clients::ClientCertificates;
use super::config::TlsConfig;
use super::error::HandshakeError;
use super::identity::ClientCertificate;
use super::records::Records;
use super::stream::{TlsInfo, TlsStream};
use super::version::TlsVersion;
use crate::limits::{
    HANDSHAKE_TIME, KNOWN_SESSION_BYTES, KNOWN_SESSIONS, TICKET_KEY_TIME, TLS_SEND_BYTES,
};

/// The program's name inside a ticket, in front of the account's and of what rustls keeps there.
const PROGRAM_BYTES: usize = 16;
/// The account's identifier inside a ticket.
const ACCOUNT_BYTES: usize = 16;
/// In place of an account's identifier where nobody has logged in.
const NOBODY: [u8; ACCOUNT_BYTES] = [0; ACCOUNT_BYTES];

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
    /// Of TLS 1.2, by their ids: curl asks for no tickets there.
    known: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
    /// The certificate that was shown on the control connection.
    client: Mutex<Option<CertificateDer<'static>>>,
    owner: Mutex<TicketOwner>,
}

/// Whom tickets of a session name.
#[derive(Debug)]
struct TicketOwner {
    /// Made when the first ticket is given or taken.
    program: Option<[u8; PROGRAM_BYTES]>,
    /// Who has logged in.
    account: Option<[u8; ACCOUNT_BYTES]>,
    /// The program of the ticket that was offered last. It proves nothing before the handshake has
    /// resumed it, for tickets are offered in clear text.
    offered: Option<[u8; PROGRAM_BYTES]>,
}

impl TlsConfig {
    /// For a new control connection.
    pub fn session(&self) -> TlsSession {
        TlsSession::new(self.clone())
    }
}

impl TlsSession {
    pub(super) fn new(config: TlsConfig) -> Self {
        let owner = Mutex::new(TicketOwner { program: None, account: None, offered: None });
        let own = Own { known: Mutex::default(), client: Mutex::default(), owner };
        TlsSession { config, own: Arc::new(own) }
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
        let records = Records::one_by_one(stream);
        let mut stream = shake_hands(self.server_config(Role::Control), records).await?;
        *self.own.client.lock() = stream.info().client_certificates.first().cloned();
        if stream.info().version == TlsVersion::Tls13 {
            self.own.owner.lock().shook_hands(stream.info());
            // GnuTLS's clients wait for it behind their handshake, 50 ms at most.
            stream.send_ticket()?;
            stream.flush().await?;
        }
        Ok(stream)
    }

    /// Somebody has logged in, or out: tickets that are given from now on speak of that account.
    pub fn belongs_to(&self, account: Option<AccountId>) {
        self.own.owner.lock().account = account.map(|account| account.0.into_bytes());
    }

    /// Shakes hands on a data connection, also where we have dialled: the server is the server. It
    /// gives no tickets out. In TLS 1.3 a client that uploads and closes over an unread ticket
    /// makes its kernel reset the connection, and the tail of the file is lost; and a
    /// client that shakes hands in full must have nothing to come back with. The control connection
    /// gives them: [`TlsStream::send_ticket`].
    ///
    /// # Errors
    /// It failed, took more than 10 s, did not resume this session though it must, or is of another
    /// client by its certificate.
    pub async fn accept_data<S>(
        &self,
        stream: S,
        reuse: Reuse,
    ) -> Result<TlsStream<S>, HandshakeError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let role = if reuse == Reuse::Off { Role::Unbound } else { Role::Data };
        let stream = shake_hands(self.server_config(role), Records::as_they_come(stream)).await?;
        if !stream.info().resumed && reuse == Reuse::Required {
            return Err(HandshakeError::NotResumed);
        }
        let client = self.own.client.lock().clone();
        if client.is_some() && stream.info().client_certificates.first() != client.as_ref() {
            return Err(HandshakeError::OtherClient);
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
        self.config.client(info)
    }

    fn server_config(&self, role: Role) -> Arc<ServerConfig> {
        let issuer = Issuer { session: self.clone(), role };
        let mut config = self.config.0.server.clone();
        config.session_storage = Arc::new(issuer.clone());
        config.ticketer = Arc::new(issuer);
        config.send_tls13_tickets = 0;
        Arc::new(config)
    }
}

impl TicketOwner {
    /// A control connection that resumed a ticket is of the program that was given it.
    fn shook_hands(&mut self, info: &TlsInfo) {
        if let Some(program) = self.offered.take().filter(|_| info.resumed) {
            self.program = Some(program);
        }
    }

    /// The program of the session, which a new one has a name of its own for.
    fn program(&mut self, env: &Env) -> [u8; PROGRAM_BYTES] {
        *self.program.get_or_insert_with(|| {
            let mut program = [0; PROGRAM_BYTES];
            env.fill_random(&mut program);
            program
        })
    }
}

impl fmt::Debug for TlsSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsSession").finish_non_exhaustive()
    }
}

pub(super) async fn shake_hands<S>(
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

/// What a connection is to its session, and so which tickets it gives and takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Gives tickets of this session; takes those of any, so that logins are cheap.
    Control,
    /// Gives none, and takes those of this session only.
    Data,
    /// Gives and takes none.
    Unbound,
}

/// Gives tickets to one connection and takes them from it.
#[derive(Clone, Debug)]
struct Issuer {
    session: TlsSession,
    role: Role,
}

impl ProducesTickets for Issuer {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        u32::try_from(TICKET_KEY_TIME.as_secs()).unwrap_or(u32::MAX)
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        if self.role != Role::Control {
            return None;
        }
        let marked = {
            let mut owner = self.session.own.owner.lock();
            let program = owner.program(&self.session.config.0.env);
            [&program, &owner.account.unwrap_or(NOBODY), plain].concat()
        };
        self.session.config.0.tickets.seal(&marked)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        if self.role == Role::Unbound {
            return None;
        }
        let marked = self.session.config.0.tickets.open(cipher)?;
        let (program, rest) = marked.split_first_chunk::<PROGRAM_BYTES>()?;
        let (account, plain) = rest.split_first_chunk::<ACCOUNT_BYTES>()?;
        let mut owner = self.session.own.owner.lock();
        if self.role == Role::Control {
            owner.offered = Some(*program);
            return Some(plain.to_vec());
        }
        let is_same_account = owner.account.is_some_and(|own| own == *account);
        let is_same_program = owner.program == Some(*program);
        (is_same_program || is_same_account).then(|| plain.to_vec())
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
            known.insert(key, value);
        }
        fits
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let known = self.session.own.known.lock();
        known.get(key).filter(|_| self.role != Role::Unbound).cloned()
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.get(key)
    }

    fn can_cache(&self) -> bool {
        self.role == Role::Control
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::tests::{Client, account, control, download, options};

    #[tokio::test]
    async fn a_ticket_that_was_only_overheard_speaks_of_nobody() {
        let options = options();
        let config = TlsConfig::new(&options, &Env::simulated(1)).unwrap();
        let owner = config.session();
        owner.belongs_to(Some(account(1)));
        let theirs = Issuer { session: owner.clone(), role: Role::Control };
        let ticket = theirs.encrypt(b"secrets of another connection").unwrap();

        // Tickets are offered in clear text, so anybody can offer them again; then the handshake
        // goes on in full.
        let thief = config.session();
        let ours = Issuer { session: thief.clone(), role: Role::Control };
        assert!(ours.decrypt(&ticket).is_some());
        let client = Client::new(&options, TlsVersion::Tls13);
        let (server, _far) = control(&thief, &client).await;
        assert!(!server.info().resumed);
        assert!(download(&owner, &client).await.is_err(), "a ticket of the account was given away");
    }

    #[test]
    fn a_session_with_a_long_chain_is_not_kept() {
        let config = TlsConfig::new(&options(), &Env::simulated(1)).unwrap();
        let issuer = Issuer { session: config.session(), role: Role::Control };
        let longest = vec![7; KNOWN_SESSION_BYTES];
        assert!(!issuer.put(vec![1], [&longest[..], &[7]].concat()));
        assert_eq!(issuer.get(&[1]), None);
        assert!(issuer.put(vec![2], longest.clone()));
        assert_eq!(issuer.get(&[2]), Some(longest));
    }
}
