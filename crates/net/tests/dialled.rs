//! The client's side of TLS for files: what it trusts, what it resumes, what it takes for an end.

use std::io::ErrorKind;
use std::net::SocketAddr;

use entrepot_net::dialled::Dialled;
use entrepot_net::tls::{
    ClientCertificates, Reuse, SelfSigned, ServerTrust, TlsClient, TlsConfig, TlsOptions,
    TlsSession, TlsVersion, self_signed,
};
use entrepot_nouns::Env;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

fn server() -> (TlsConfig, SelfSigned) {
    let own = self_signed(vec!["files.example".to_owned()]).unwrap();
    let options = TlsOptions {
        chain: own.chain.clone().into_bytes(),
        key: own.key.clone(),
        clients: ClientCertificates::Off,
        least: TlsVersion::Tls12,
    };
    (TlsConfig::new(&options, &Env::real()).unwrap(), own)
}

async fn pair() -> (TcpStream, Dialled) {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let dialled = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (listener.accept().await.unwrap().0, Dialled::Clear(dialled))
}

fn client(host: &str, trust: &ServerTrust) -> TlsClient {
    TlsClient::new(host, trust).unwrap()
}

/// A control connection whose client has read something, and with it its tickets.
async fn control(session: &TlsSession, client: &TlsClient) -> Result<(), String> {
    let (near, far) = pair().await;
    let (server, dialled) = tokio::join!(session.accept_control(near), far.start_tls(client));
    let (mut dialled, _) = dialled.map_err(|error| error.to_string())?;
    server.unwrap().write_all(b"220").await.unwrap();
    dialled.read_exact(&mut [0; 3]).await.unwrap();
    Ok(())
}

/// True if the upload's handshake resumed.
async fn upload(session: &TlsSession, client: &TlsClient, reuse: Reuse) -> bool {
    let (near, far) = pair().await;
    let accept = session.accept_data(near, reuse);
    let (server, dialled) = tokio::join!(accept, far.start_tls(client));
    dialled.unwrap().1 && server.is_ok()
}

#[tokio::test]
async fn a_session_resumes_until_its_tickets_are_spent_and_says_so() {
    let (config, own) = server();
    let trust = ServerTrust::Pinned(vec![own.chain]);
    let all = client("files.example", &trust);
    for _ in 0..2 {
        let (session, ours) = (config.session(), all.session());
        assert!(!ours.is_spent(), "a server that gave nothing yet may give none at all");
        control(&session, &ours).await.unwrap();
        let mut resumed = 0;
        while !ours.is_spent() {
            assert!(upload(&session, &ours, Reuse::Required).await);
            resumed += 1;
        }
        assert_eq!(resumed, 1, "a control connection gives a ticket at its start");
        assert!(!upload(&session, &ours, Reuse::Preferred).await, "nothing is left to resume");
    }
}

#[tokio::test]
async fn only_who_is_pinned_or_signed_for_this_name_is_trusted() {
    let (config, own) = server();
    let session = config.session();
    let other = self_signed(vec!["files.example".to_owned()]).unwrap();
    let authorities = ServerTrust::Authorities(own.chain.clone().into_bytes());
    let pinned = |pem: &str| ServerTrust::Pinned(vec![pem.to_owned()]);
    for (host, trust, taken) in [
        ("files.example", pinned(&own.chain), true),
        ("192.0.2.7", pinned(&own.chain), true),
        ("files.example", pinned(&other.chain), false),
        ("files.example", authorities.clone(), true),
        ("other.example", authorities, false),
        ("files.example", ServerTrust::Authorities(other.chain.into_bytes()), false),
    ] {
        let (near, far) = pair().await;
        let client = client(host, &trust).session();
        let (_, dialled) = tokio::join!(session.accept_control(near), far.start_tls(&client));
        assert_eq!(dialled.is_ok(), taken, "{host} {trust:?}");
    }
    for bad in ["", "SHA256:12", &"zz".repeat(32), "-----BEGIN nothing"] {
        let trust = ServerTrust::Pinned(vec![bad.to_owned()]);
        assert!(TlsClient::new("files.example", &trust).is_err(), "{bad}");
    }
    assert!(TlsClient::new("no name", &pinned(&own.chain)).is_err());
}

/// A bare FIN is not the end of a file.
#[tokio::test]
async fn the_end_is_close_notify_and_nothing_else() {
    let (config, own) = server();
    let session = config.session();
    let ours = client("files.example", &ServerTrust::Pinned(vec![own.chain])).session();
    for closes in [true, false] {
        let (near, far) = pair().await;
        let (server, dialled) = tokio::join!(session.accept_control(near), far.start_tls(&ours));
        let (mut server, mut dialled) = (server.unwrap(), dialled.unwrap().0);
        server.write_all(b"content").await.unwrap();
        server.flush().await.unwrap();
        if closes {
            server.shutdown().await.unwrap();
        }
        assert!(dialled.is_open() || closes);
        drop(server);
        let mut got = Vec::new();
        let end = dialled.read_to_end(&mut got).await;
        assert_eq!(got, b"content");
        match (closes, end) {
            (true, Ok(7)) => {}
            (false, Err(error)) if error.kind() == ErrorKind::UnexpectedEof => {}
            (_, other) => panic!("closes: {closes}, {other:?}"),
        }
        assert!(!dialled.is_open());
    }
}
