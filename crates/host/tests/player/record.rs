//! What was recorded between a player and a terminal is played again.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use entrepot_host::{
    CodePage, HostAddress, HostSession, HostTls, Key, PlayerOptions, PlayerTls, Recorder,
    RecorderOptions, Recording, TraceFiles,
};
use entrepot_net::tls::{
    ClientCertificates, ServerTrust, TlsConfig, TlsOptions, TlsVersion, self_signed,
};
use entrepot_nouns::Env;
use tokio_util::sync::CancellationToken;

use crate::{DEVICE, ENTER, Playing};

/// A logo; a sign-on whose second field is hidden; a menu.
const SIGN_ON: &str = "\
< 0x0   fffd18fffa1801fff0fffd19fffb19fffd00fffb00
> 0x0   fffb18fffa180049424d2d333237382d322d45fff0fffb19fffd19fffb00fffd00
< 0x0   f5c31140401d60e2c9c7d511c1501d401311c2601d4c11c3f01d60ffef
> 0x0   7dc1d111c1d1c1c211c261e7e7ffef
< 0x0   f5c21d60d4c5d5e4ffef
";

/// Traces of sessions in memory.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl TraceFiles for Kept {
    fn create(&self, _session: u64) -> std::io::Result<Box<dyn Write + Send>> {
        Ok(Box::new(self.clone()))
    }
}

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

async fn signs_on(session: &mut HostSession) {
    session.press(Key::Home).await.unwrap();
    session.type_text("AB").await.unwrap();
    session.press(Key::Tab).await.unwrap();
    session.type_text("GEHEIM").await.unwrap();
    session.press(ENTER).await.unwrap();
    session.wait_for(None, "MENU").await.unwrap();
}

/// Records a session with what plays at `to`, and answers its trace.
async fn recorded(playing: &Playing, to: HostAddress, trust: ServerTrust) -> String {
    let kept = Kept::default();
    let options = RecorderOptions {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        to,
        trust,
        patience: Duration::from_secs(20),
        page: CodePage::new(37).unwrap(),
    };
    let recorder = Recorder::bind(options, Box::new(kept.clone()), Env::real()).unwrap();
    let address = recorder.address();
    let stop = CancellationToken::new();
    let report = tokio::spawn(recorder.run(stop.clone()));
    let mut through = playing.options(DEVICE);
    through.address = HostAddress {
        host: address.ip().to_string(),
        port: address.port(),
        tls: HostTls::WhenAsked,
    };
    let mut session = HostSession::open(through).await.unwrap();
    signs_on(&mut session).await;
    drop(session);
    stop.cancel();
    let report = report.await.unwrap();
    assert_eq!((report.sessions, report.failed), (1, 0));
    let text = kept.0.lock().unwrap().clone();
    String::from_utf8(text).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_recorded_is_played_again_and_has_no_passwords() {
    let own = self_signed(vec!["localhost".to_owned()]).unwrap();
    let tls = TlsOptions {
        chain: own.chain.into_bytes(),
        key: own.key,
        clients: ClientCertificates::Off,
        least: TlsVersion::Tls12,
    };
    let config = TlsConfig::new(&tls, &Env::real()).unwrap();
    let trust = ServerTrust::Pinned(vec![config.fingerprint()]);
    let page = Arc::new(CodePage::new(37).unwrap());
    let original = Arc::new(Recording::compile("sign-on", SIGN_ON, Arc::clone(&page)).unwrap());
    for (tls, begins) in [
        (PlayerTls::Off, HostTls::WhenAsked),
        (PlayerTls::FromTheStart(config.server(&[])), HostTls::FromTheStart),
        (PlayerTls::Asked(config.server(&[])), HostTls::WhenAsked),
    ] {
        let options = PlayerOptions { tls, ..PlayerOptions::of(Arc::clone(&original)) };
        let playing = Playing::start(options);
        let to = HostAddress { tls: begins, ..playing.address.clone() };
        let text = recorded(&playing, to, trust.clone()).await;
        assert_eq!(playing.ends().await.answered, 1);
        // GEHEIM in EBCDIC is nowhere, and six asterisks are in its place.
        assert!(!text.contains("c7c5c8c5c9d4") && text.contains("5c5c5c5c5c5c"), "{text}");
        let again = Recording::compile("again", &text, Arc::clone(&page)).unwrap();
        assert_eq!((again.keys(), again.device_type()), (1, Some(DEVICE)));
        let playing = Playing::start(PlayerOptions::of(Arc::new(again)));
        let mut session = playing.open(DEVICE).await.unwrap();
        signs_on(&mut session).await;
        let report = playing.ends().await;
        assert_eq!((report.answered, report.repeated), (1, 0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_is_not_there_is_told_to_the_operator() {
    let options = RecorderOptions {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        to: "127.0.0.1:1".parse().unwrap(),
        trust: ServerTrust::System,
        patience: Duration::from_secs(20),
        page: CodePage::new(37).unwrap(),
    };
    let kept = Kept::default();
    let recorder = Recorder::bind(options, Box::new(kept.clone()), Env::real()).unwrap();
    let playing = Playing::start(PlayerOptions::of(crate::short()));
    let mut through = playing.options(DEVICE);
    through.address.port = recorder.address().port();
    let stop = CancellationToken::new();
    let report = tokio::spawn(recorder.run(stop.clone()));
    assert!(HostSession::open(through).await.is_err());
    stop.cancel();
    let report = report.await.unwrap();
    assert_eq!((report.sessions, report.failed), (1, 1));
    assert!(kept.0.lock().unwrap().is_empty());
    playing.ends().await;
}
