//! TLS of sessions, with rustls as the client, over a pair of pipes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use entrepot_nouns::{AccountId, Env, Secret, Timestamp};
use rcgen::{CertificateParams, KeyPair};
use rustls::client::{ClientSessionMemoryCache, ClientSessionStore, Resumption};
use rustls::client::{Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, NamedGroup, RootCertStore, version};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream as ClientStream;

use super::*;

const NAME: &str = "ftp.example.org";

/// A certificate of `NAME` and its key, as PEM.
pub(crate) fn certificate() -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![NAME.to_owned()]).unwrap();
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

pub(crate) fn options() -> TlsOptions {
    let (chain, key) = certificate();
    TlsOptions {
        chain: chain.into_bytes(),
        key: Secret::new(key),
        clients: ClientCertificates::Off,
        least: TlsVersion::Tls12,
    }
}

/// An account's identifier.
pub(crate) fn account(number: u8) -> AccountId {
    format!("0192f1c4-7d7a-7abc-8def-0000000000{number:02x}").parse().unwrap()
}

fn env() -> Env {
    let env = Env::simulated(1);
    env.set_now(Timestamp::from_seconds(1_900_000_000));
    env
}

/// What a client remembers, with a count of the tickets of TLS 1.3 that it was given.
#[derive(Debug)]
struct Memory {
    cache: ClientSessionMemoryCache,
    tickets: AtomicUsize,
}

impl ClientSessionStore for Memory {
    fn set_kx_hint(&self, server: ServerName<'static>, group: NamedGroup) {
        self.cache.set_kx_hint(server, group);
    }
    fn kx_hint(&self, server: &ServerName<'_>) -> Option<NamedGroup> {
        self.cache.kx_hint(server)
    }
    fn set_tls12_session(&self, server: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.cache.set_tls12_session(server, value);
    }
    fn tls12_session(&self, server: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.cache.tls12_session(server)
    }
    fn remove_tls12_session(&self, server: &ServerName<'static>) {
        self.cache.remove_tls12_session(server);
    }
    fn insert_tls13_ticket(&self, server: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.tickets.fetch_add(1, Ordering::Relaxed);
        self.cache.insert_tls13_ticket(server, value);
    }
    fn take_tls13_ticket(&self, server: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.cache.take_tls13_ticket(server)
    }
}

/// A client program: it trusts the chain, and remembers sessions.
#[derive(Clone)]
pub(crate) struct Client {
    config: Arc<ClientConfig>,
    memory: Arc<Memory>,
}

impl Client {
    pub(crate) fn new(options: &TlsOptions, least: TlsVersion) -> Self {
        Client::with(options, least, None)
    }

    fn with(options: &TlsOptions, only: TlsVersion, own: Option<(String, String)>) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&options.chain).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let versions =
            if only == TlsVersion::Tls12 { [&version::TLS12] } else { [&version::TLS13] };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match own {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => builder
                .with_client_auth_cert(
                    vec![CertificateDer::from_pem_slice(chain.as_bytes()).unwrap()],
                    PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
                )
                .unwrap(),
        };
        let cache = ClientSessionMemoryCache::new(32);
        let memory = Arc::new(Memory { cache, tickets: AtomicUsize::new(0) });
        config.resumption = Resumption::store(Arc::clone(&memory) as Arc<dyn ClientSessionStore>);
        Client { config: Arc::new(config), memory }
    }

    pub(crate) async fn connect<S>(&self, stream: S) -> io::Result<ClientStream<S>>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    {
        let name = ServerName::try_from(NAME).unwrap();
        TlsConnector::from(Arc::clone(&self.config)).connect(name, stream).await
    }

    fn tickets(&self) -> usize {
        self.memory.tickets.load(Ordering::Relaxed)
    }
}

type Pair = (TlsStream<DuplexStream>, ClientStream<DuplexStream>);

/// A control connection; its client has read its tickets.
pub(crate) async fn control(session: &TlsSession, client: &Client) -> Pair {
    let (near, far) = duplex(64 * 1024);
    let (server, client) = tokio::join!(session.accept_control(near), client.connect(far));
    let (mut server, mut client) = (server.unwrap(), client.unwrap());
    reply(&mut server, &mut client).await;
    (server, client)
}

/// Something is said on the control connection, and read.
async fn reply(server: &mut TlsStream<DuplexStream>, client: &mut ClientStream<DuplexStream>) {
    server.write_all(b"220").await.unwrap();
    server.flush().await.unwrap();
    client.read_exact(&mut [0; 3]).await.unwrap();
}

/// A data connection from handshake to end; answers whether it was taken, and resumed.
async fn data(session: &TlsSession, client: &Client, reuse: Reuse) -> Result<bool, HandshakeError> {
    let (near, far) = duplex(64 * 1024);
    let server = async {
        let mut stream = session.accept_data(near, reuse).await?;
        stream.shutdown().await?;
        Ok::<bool, HandshakeError>(stream.info().resumed)
    };
    let (server, ()) = tokio::join!(server, async {
        let mut stream = client.connect(far).await.unwrap();
        let _ = stream.read_to_end(&mut Vec::new()).await;
    });
    server
}

pub(crate) async fn download(
    session: &TlsSession,
    client: &Client,
) -> Result<bool, HandshakeError> {
    data(session, client, Reuse::Required).await
}

const VERSIONS: [TlsVersion; 2] = [TlsVersion::Tls12, TlsVersion::Tls13];

#[tokio::test]
async fn data_connections_resume_their_own_session_again_and_again() {
    let options = options();
    let config = TlsConfig::new(&options, &env()).unwrap();
    for version in VERSIONS {
        let client = Client::new(&options, version);
        let session = config.session();
        let (mut server, mut far) = control(&session, &client).await;
        let info = server.info().clone();
        assert_eq!((info.version, info.resumed), (version, false));
        assert_eq!(info.server_name.as_deref(), Some(NAME));
        assert!(info.suite.contains("GCM") || info.suite.contains("CHACHA20"), "{info:?}");
        for round in 0..5 {
            assert!(download(&session, &client).await.unwrap(), "{version} {round}");
            server.send_ticket().unwrap();
            reply(&mut server, &mut far).await;
        }
    }
}

#[tokio::test]
async fn another_sessions_ticket_is_not_taken() {
    let options = options();
    let config = TlsConfig::new(&options, &env()).unwrap();
    for version in VERSIONS {
        let (one, other) = (config.session(), config.session());
        let client = Client::new(&options, version);
        let _control = control(&one, &client).await;
        let refused = download(&other, &client).await.unwrap_err();
        assert_eq!(refused.code(), "EP0248", "{version}");
    }
}

#[tokio::test]
async fn whoever_shakes_hands_in_full_has_nothing_to_come_back_with() {
    let options = options();
    let config = TlsConfig::new(&options, &env()).unwrap();
    for version in VERSIONS {
        let owner = Client::new(&options, version);
        let session = config.session();
        let _control = control(&session, &owner).await;
        let thief = Client::new(&options, version);
        for _ in 0..3 {
            let refused = download(&session, &thief).await.unwrap_err();
            assert_eq!(refused.code(), "EP0248", "{version}");
        }
        assert_eq!(thief.tickets(), 0, "{version}");
        assert!(download(&session, &owner).await.unwrap());
    }
}

#[tokio::test]
async fn where_reuse_is_preferred_a_full_handshake_counts_and_where_off_nothing_resumes() {
    let options = options();
    let config = TlsConfig::new(&options, &env()).unwrap();
    for version in VERSIONS {
        let (session, client) = (config.session(), Client::new(&options, version));
        let preferred = || data(&session, &client, Reuse::Preferred);
        assert!(!preferred().await.unwrap());
        assert!(!preferred().await.unwrap(), "a data connection gives nothing to resume");
        let _control = control(&session, &client).await;
        assert!(preferred().await.unwrap());
        assert!(!data(&session, &client, Reuse::Off).await.unwrap());
    }
}

#[tokio::test]
async fn only_the_control_connection_gives_tickets() {
    let options = options();
    let config = TlsConfig::new(&options, &env()).unwrap();
    let (session, client) = (config.session(), Client::new(&options, TlsVersion::Tls13));
    let (mut server, mut far) = control(&session, &client).await;
    assert_eq!(client.tickets(), 1);
    assert!(download(&session, &client).await.unwrap());
    assert_eq!(client.tickets(), 1);
    assert!(!data(&session, &client, Reuse::Preferred).await.unwrap(), "it was used up");
    server.send_ticket().unwrap();
    reply(&mut server, &mut far).await;
    assert_eq!(client.tickets(), 2);
    assert!(download(&session, &client).await.unwrap());
}

#[tokio::test]
async fn sessions_of_one_account_share_their_tickets_and_others_do_not() {
    let options = options();
    let config = TlsConfig::new(&options, &env()).unwrap();
    let [own, other] = [1, 2].map(account);
    let pool = Client::new(&options, TlsVersion::Tls13);
    let first = config.session();
    let (mut server, mut far) = control(&first, &pool).await;
    first.belongs_to(Some(own));
    server.send_ticket().unwrap();
    reply(&mut server, &mut far).await;

    // The second session of the pool resumes that ticket, and is given one before it logs in.
    let second = config.session();
    let (server, _far) = control(&second, &pool).await;
    assert!(server.info().resumed);
    assert!(download(&first, &pool).await.unwrap(), "a ticket of the second session");

    // So it is for one that has resumed the ticket of a session where nobody had logged in yet.
    let (early, pool) = (config.session(), Client::new(&options, TlsVersion::Tls13));
    let _control = control(&early, &pool).await;
    let (_server, _far) = control(&config.session(), &pool).await;
    assert!(download(&early, &pool).await.unwrap(), "a ticket of the same program");

    for (owner, taken) in [(Some(other), false), (None, false), (Some(own), true)] {
        let (other, pool) = (config.session(), Client::new(&options, TlsVersion::Tls13));
        other.belongs_to(owner);
        let (mut server, mut far) = control(&first, &pool).await;
        server.send_ticket().unwrap();
        reply(&mut server, &mut far).await;
        assert_eq!(download(&other, &pool).await.is_ok(), taken, "{owner:?}");
    }
}

#[tokio::test]
async fn a_login_resumes_and_its_new_tickets_are_of_the_new_session() {
    let options = options();
    let config = TlsConfig::new(&options, &env()).unwrap();
    for version in VERSIONS {
        let client = Client::new(&options, version);
        let _first = control(&config.session(), &client).await;
        let session = config.session();
        let (server, _client) = control(&session, &client).await;
        assert!(server.info().resumed, "{version}");
        if version == TlsVersion::Tls13 {
            // rustls uses the tickets it got last; OpenSSL does too.
            assert!(download(&session, &client).await.unwrap());
        }
    }
}

#[tokio::test]
async fn a_new_configuration_shares_tickets_only_where_it_is_the_same_server() {
    let same = options();
    let config = TlsConfig::new(&same, &env()).unwrap();
    let client = Client::new(&same, TlsVersion::Tls13);
    let _control = control(&config.session(), &client).await;
    let again = config.renewed(&same).unwrap();
    let (server, _client) = control(&again.session(), &client).await;
    assert!(server.info().resumed);
    let clients = ClientCertificates::Optional(Trust::AnyHolder);
    let stricter = config.renewed(&TlsOptions { clients, ..same.clone() }).unwrap();
    let (server, _client) = control(&stricter.session(), &client).await;
    assert!(!server.info().resumed, "a client that was never asked does not come in by a ticket");
}

#[tokio::test]
async fn close_notify_is_the_end_and_a_bare_fin_is_not() {
    let options = options();
    let config = TlsConfig::new(&options, &env()).unwrap();
    for version in VERSIONS {
        let client = Client::new(&options, version);
        let (mut server, mut far) = control(&config.session(), &client).await;
        far.write_all(b"whole").await.unwrap();
        far.shutdown().await.unwrap();
        let mut read = Vec::new();
        assert_eq!(server.read_to_end(&mut read).await.unwrap(), 5);
        assert_eq!(server.read(&mut [0; 1]).await.unwrap(), 0, "and stays so");
        server.shutdown().await.unwrap();
        assert_eq!(far.read(&mut [0; 1]).await.unwrap(), 0, "ours came too");

        let (mut server, mut far) = control(&config.session(), &client).await;
        far.write_all(b"cut").await.unwrap();
        far.flush().await.unwrap();
        let (io, _) = far.into_inner();
        drop(io);
        for _ in 0..2 {
            let error = server.read_to_end(&mut read).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        }
        assert_eq!(read, b"wholecut");
    }
}

/// What a client sends that goes back to clear text: its close_notify, and clear text behind it.
fn clear_after(far: ClientStream<DuplexStream>, text: &[u8]) -> (DuplexStream, Vec<u8>) {
    let (io, mut connection) = far.into_inner();
    connection.send_close_notify();
    let mut bytes = Vec::new();
    connection.write_tls(&mut bytes).unwrap();
    bytes.extend_from_slice(text);
    (io, bytes)
}

#[tokio::test]
async fn clear_text_goes_on_right_behind_close_notify() {
    let options = options();
    let config = TlsConfig::new(&options, &env()).unwrap();
    for version in VERSIONS {
        let client = Client::new(&options, version);
        let (server, far) = control(&config.session(), &client).await;
        let (mut io, bytes) = clear_after(far, b"PWD\r\n");
        io.write_all(&bytes).await.unwrap();
        let (mut near, ahead) = server.into_clear().await.unwrap();
        assert_eq!(&ahead[..], b"PWD\r\n", "{version}");
        near.write_all(b"257").await.unwrap();
        drop(near);
        let mut answer = Vec::new();
        io.read_to_end(&mut answer).await.unwrap();
        assert!(answer.ends_with(b"257"), "behind our close_notify");

        let (server, mut far) = control(&config.session(), &client).await;
        far.write_all(b"PWD\r\n").await.unwrap();
        assert_eq!(server.into_clear().await.unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_is_waited_for_long() {
    let options = options();
    let config = TlsConfig::new(&options, &env()).unwrap();
    let session = config.session();
    let (near, _silent) = duplex(1024);
    assert_eq!(session.accept_control(near).await.unwrap_err().code(), "EP0246");
    let (near, mut clear) = duplex(1024);
    clear.write_all(b"USER anonymous\r\n").await.unwrap();
    assert_eq!(session.accept_control(near).await.unwrap_err().code(), "EP0247");
    let client = Client::new(&options, TlsVersion::Tls13);
    let (server, _far) = control(&session, &client).await;
    assert_eq!(server.into_clear().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
}

#[tokio::test]
async fn the_clients_certificate_is_shown_and_carried_by_the_ticket() {
    let mut options = options();
    options.clients = ClientCertificates::Optional(Trust::AnyHolder);
    let config = TlsConfig::new(&options, &env()).unwrap();
    let (own, key) = certificate();
    let der = CertificateDer::from_pem_slice(own.as_bytes()).unwrap();
    for version in VERSIONS {
        let client = Client::with(&options, version, Some((own.clone(), key.clone())));
        let session = config.session();
        let (server, _far) = control(&session, &client).await;
        assert_eq!(server.info().client_certificates, std::slice::from_ref(&der));
        let (near, far) = duplex(64 * 1024);
        let accepting = session.accept_data(near, Reuse::Required);
        let (server, _far) = tokio::join!(accepting, client.connect(far));
        assert_eq!(server.unwrap().info().client_certificates, std::slice::from_ref(&der));
    }
}

#[tokio::test]
async fn a_data_connection_that_does_not_resume_shows_the_same_certificate() {
    let mut options = options();
    options.clients = ClientCertificates::Optional(Trust::AnyHolder);
    let config = TlsConfig::new(&options, &env()).unwrap();
    let own = certificate();
    for version in VERSIONS {
        let session = config.session();
        let client = Client::with(&options, version, Some(own.clone()));
        let (server, _far) = control(&session, &client).await;
        let shown = session.client(server.info()).unwrap();
        assert!(!shown.certified, "nobody has signed it");
        for (with, code) in [
            (Some(own.clone()), None),
            (Some(certificate()), Some("EP0249")),
            (None, Some("EP0249")),
        ] {
            let other = Client::with(&options, version, with);
            let (near, far) = duplex(64 * 1024);
            let accepting = session.accept_data(near, Reuse::Preferred);
            let (server, _far) = tokio::join!(accepting, other.connect(far));
            assert_eq!(server.err().map(|error| error.code()), code, "{version:?}");
        }
    }
}

#[tokio::test]
async fn a_required_certificate_is_required_and_its_authority_too() {
    let mut options = options();
    let (authority, _) = certificate();
    let trust = Trust::Authorities(authority.into_bytes());
    options.clients = ClientCertificates::Required(trust);
    let config = TlsConfig::new(&options, &env()).unwrap();
    for own in [None, Some(certificate())] {
        let client = Client::with(&options, TlsVersion::Tls13, own);
        let (near, far) = duplex(64 * 1024);
        let session = config.session();
        let (server, _far) = tokio::join!(session.accept_control(near), client.connect(far));
        assert_eq!(server.unwrap_err().code(), "EP0247");
    }
    options.clients = ClientCertificates::Optional(Trust::Authorities(b"nothing".to_vec()));
    assert_eq!(TlsConfig::new(&options, &env()).unwrap_err().code(), "EP0245");
}

#[test]
fn what_cannot_be_used_is_told_in_a_sentence() {
    let good = options();
    let code = |options: &TlsOptions| TlsConfig::new(options, &env()).unwrap_err().code();
    let bent = b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n".to_vec();
    let junk = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_vec();
    assert_eq!(code(&TlsOptions { chain: Vec::new(), ..good.clone() }), "EP0240");
    assert_eq!(code(&TlsOptions { chain: bent, ..good.clone() }), "EP0241");
    assert_eq!(code(&TlsOptions { chain: junk, ..good.clone() }), "EP0241");
    assert_eq!(code(&TlsOptions { key: Secret::new(""), ..good.clone() }), "EP0242");
    let broken = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    assert_eq!(code(&TlsOptions { key: Secret::new(broken), ..good.clone() }), "EP0243");
    assert_eq!(code(&TlsOptions { key: options().key, ..good.clone() }), "EP0244");
    assert!(!format!("{good:?}").contains("PRIVATE"));
}

#[test]
fn a_certificate_near_its_end_works_and_is_warned_about() {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![NAME.to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(2026, 1, 1);
    params.not_after = rcgen::date_time_ymd(2026, 12, 1);
    let chain = params.self_signed(&key).unwrap().pem().into_bytes();
    let options = TlsOptions { chain, key: Secret::new(key.serialize_pem()), ..options() };
    let env = env();
    let config = TlsConfig::new(&options, &env).unwrap();
    let end: Timestamp = "2026-12-01T00:00:00Z".parse().unwrap();
    let begin: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    assert_eq!(config.expires(), end);
    for (now, warning) in [
        ("2025-12-31T00:00:00Z", Some(TlsWarning::NotYetValid(begin))),
        ("2026-06-01T00:00:00Z", None),
        ("2026-11-20T00:00:00Z", Some(TlsWarning::ExpiresSoon(end))),
        ("2026-12-01T00:00:00Z", Some(TlsWarning::Expired(end))),
    ] {
        env.set_now(now.parse().unwrap());
        assert_eq!(config.warning(), warning, "{now}");
    }
    env.advance(Duration::from_secs(1));
}
