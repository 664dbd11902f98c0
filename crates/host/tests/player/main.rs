//! A player and its clients over sockets: our own terminal, s3270, and a crowd.

mod record;
mod s3270;
mod steps;
mod tnz;

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use entrepot_host::{
    CodePage, Device, HostAddress, HostError, HostOptions, HostSession, HostTls, Key, Lag, Match,
    NoMatch, Player, PlayerOptions, PlayerReport, PlayerTls, Recording, Speak,
};
use entrepot_net::tls::{
    ClientCertificates, ServerTrust, TlsConfig, TlsOptions, TlsVersion, self_signed,
};
use entrepot_nouns::Env;
use tokio::sync::Barrier;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use steps::{Step, steps};

fn text_of(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tn3270-proto/tests/traces");
    let bytes = std::fs::read(format!("{folder}/{name}.trc")).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn recording(name: &str) -> Arc<Recording> {
    let page = Arc::new(CodePage::new(37).unwrap());
    Arc::new(Recording::compile(name, &text_of(name), page).unwrap())
}

/// A player that runs.
struct Playing {
    address: HostAddress,
    stop: CancellationToken,
    report: JoinHandle<PlayerReport>,
}

impl Playing {
    fn start(options: PlayerOptions) -> Playing {
        let player = Player::bind(options).unwrap();
        let address = HostAddress {
            host: player.address().ip().to_string(),
            port: player.address().port(),
            tls: HostTls::WhenAsked,
        };
        let stop = CancellationToken::new();
        let report = tokio::spawn(player.run(stop.clone()));
        Playing { address, stop, report }
    }

    async fn ends(self) -> PlayerReport {
        self.stop.cancel();
        self.report.await.unwrap()
    }

    fn options(&self, device: &str) -> HostOptions {
        HostOptions {
            address: self.address.clone(),
            device: Device::named(device).unwrap(),
            lus: Vec::new(),
            page: CodePage::new(37).unwrap(),
            trust: ServerTrust::System,
            patience: Duration::from_secs(20),
        }
    }

    async fn open(&self, device: &str) -> Result<HostSession, HostError> {
        HostSession::open(self.options(device)).await
    }
}

/// Does what the recorded person did.
async fn work(session: &mut HostSession, steps: &[Step]) -> Result<(), HostError> {
    for step in steps {
        match step {
            Step::See { at, text } => session.wait_for(Some(*at), text).await?,
            Step::Fill { at, text } => {
                session.move_cursor(*at);
                session.press(Key::EraseEof).await?;
                session.type_text(text).await?;
            }
            Step::Press(key) => session.press(*key).await?,
        }
    }
    Ok(())
}

/// All traces of sessions with keys but those that move files (`ft_*`), need DBCS, or type lines.
const WHOLE: [&str; 7] =
    ["bid", "contention-resolution", "ibmlink", "ibmlink-cr", "ibmlink2", "no_bid", "sruvm"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_terminal_plays_whole_recordings() {
    for name in WHOLE {
        let recording = recording(name);
        let steps = steps(&text_of(name));
        let device = recording.device_type().unwrap().to_owned();
        assert!(recording.keys() > 0, "{name}");
        for speak in [Speak::Either, Speak::Plain] {
            let options = PlayerOptions { speak, ..PlayerOptions::of(Arc::clone(&recording)) };
            let playing = Playing::start(options);
            let mut session = playing.open(&device).await.unwrap();
            let done = work(&mut session, &steps).await;
            drop(session);
            let report = playing.ends().await;
            assert!(
                matches!(done, Ok(()) | Err(HostError::Closed)),
                "{name}: {done:?}, {report:?}"
            );
            assert_eq!(report.repeated, 0, "{name}: {report:?}");
        }
    }
}

/// The player negotiates for itself, so that a client which the recorded host would not take plays
/// the recording all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3270_plays_whole_recordings() {
    for name in ["contention-resolution", "ibmlink", "sruvm"] {
        let recording = recording(name);
        let steps = steps(&text_of(name));
        let device = recording.device_type().unwrap().to_owned();
        let mut ours = None;
        for speak in [Speak::Either, Speak::Plain] {
            let options = PlayerOptions { speak, ..PlayerOptions::of(Arc::clone(&recording)) };
            let playing = Playing::start(options);
            let address = playing.address.to_string();
            let (device, steps) = (device.clone(), steps.clone());
            let screen =
                tokio::task::spawn_blocking(move || s3270_works(&device, &address, &steps));
            let screen = screen.await.unwrap();
            let report = playing.ends().await;
            assert_eq!((report.clients, report.repeated), (1, 0), "{name}: {report:?}");
            // TN3270E or not: the last screen is the same.
            assert_eq!(*ours.get_or_insert_with(|| screen.clone()), screen, "{name}");
        }
    }
}

/// tnz is another terminal, which negotiates in another order and knows other device types.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tnz_plays_whole_recordings() {
    for name in ["contention-resolution", "ibmlink", "sruvm"] {
        let recording = recording(name);
        let steps = steps(&text_of(name));
        let device = recording.device_type().unwrap().to_owned();
        let mut before = None;
        for speak in [Speak::Either, Speak::Plain] {
            let options = PlayerOptions { speak, ..PlayerOptions::of(Arc::clone(&recording)) };
            let playing = Playing::start(options);
            let address = playing.address.clone();
            let (device, steps) = (device.clone(), steps.clone());
            let screen = tokio::task::spawn_blocking(move || tnz::works(&device, &address, &steps));
            let screen = screen.await.unwrap();
            let report = playing.ends().await;
            assert_eq!((report.clients, report.repeated), (1, 0), "{name}: {report:?}");
            assert_eq!(report.answered, recording.keys() as u64, "{name}: {report:?}");
            assert_eq!(*before.get_or_insert_with(|| screen.clone()), screen, "{name}");
        }
    }
}

/// Works through the steps, and answers the last screen that was there before the recording ended.
fn s3270_works(device: &str, address: &str, steps: &[Step]) -> Vec<String> {
    let mut terminal = s3270::S3270::start(device);
    terminal.does(&format!("Connect({address})")).unwrap();
    terminal.does("Wait(20,Unlock)").unwrap();
    let mut screen = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        for action in steps::actions(step) {
            let done = terminal.does(&action);
            // Where the recording ends with a key, the host goes away.
            assert!(done.is_ok() || number + 1 == steps.len(), "{step:?}: {done:?}");
        }
        if matches!(step, Step::Press(_)) && number + 1 < steps.len() {
            terminal.does("Wait(20,Unlock)").unwrap();
            screen = terminal.does("Ascii()").unwrap();
        }
    }
    screen
}

/// A logo, a question, an answer: what a client does again and again in the tests below.
const SHORT: &str = "\
< 0x0   fffd18fffa1801fff0fffd19fffb19fffd00fffb00
> 0x0   fffb18fffa180049424d2d333237382d322d45fff0fffb19fffd19fffb00fffd00
< 0x0   f5c21d60d3d6c7d6ffef
> 0x0   7d4040ffef
< 0x0   f5c21d60d4c5d5e4ffef
";

fn short() -> Arc<Recording> {
    let page = Arc::new(CodePage::new(37).unwrap());
    Arc::new(Recording::compile("short", SHORT, page).unwrap())
}

const ENTER: Key = Key::Aid(entrepot_tn3270_proto::Aid::Enter);
const DEVICE: &str = "IBM-3278-2-E";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_clients_share_a_recording() {
    const CLIENTS: usize = 500;
    const ROUNDS: u64 = 3;
    let options = PlayerOptions { loops: true, ..PlayerOptions::of(short()) };
    let playing = Playing::start(options);
    let together = Arc::new(Barrier::new(CLIENTS));
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (options, together) = (playing.options(DEVICE), Arc::clone(&together));
        clients.spawn(async move {
            let mut session = HostSession::open(options).await.unwrap();
            // Nobody goes on before all are there.
            together.wait().await;
            for _ in 0..ROUNDS {
                session.press(ENTER).await.unwrap();
                session.wait_for(None, "MENU").await.unwrap();
                session.press(ENTER).await.unwrap();
                session.wait_for(None, "LOGO").await.unwrap();
            }
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended.unwrap();
    }
    let report = playing.ends().await;
    let all = CLIENTS as u64;
    assert_eq!((report.clients, report.most_at_once, report.refused), (all, all, 0));
    assert_eq!((report.answered, report.repeated), (all * ROUNDS * 2, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_too_many_is_closed() {
    let playing = Playing::start(PlayerOptions { clients: 1, ..PlayerOptions::of(short()) });
    let mut first = playing.open(DEVICE).await.unwrap();
    let second = playing.open(DEVICE).await;
    assert!(matches!(second, Err(HostError::Closed | HostError::Broken(_))), "{second:?}");
    first.press(ENTER).await.unwrap();
    let report = playing.ends().await;
    assert_eq!((report.clients, report.refused, report.answered), (1, 1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_answers_come_and_do_not_come_before() {
    let lag = |delay, percent| {
        let lag = Some(Lag { delay, percent });
        PlayerOptions { lag, ..PlayerOptions::of(short()) }
    };
    let playing = Playing::start(lag(Duration::from_millis(1), 100));
    let mut session = playing.open(DEVICE).await.unwrap();
    session.press(ENTER).await.unwrap();
    session.wait_for(None, "MENU").await.unwrap();
    let report = playing.ends().await;
    assert_eq!((report.late, report.answered), (1, 1));
    let playing = Playing::start(lag(Duration::from_secs(3600), 100));
    let patience = Duration::from_secs(1);
    let options = HostOptions { patience, ..playing.options(DEVICE) };
    let mut session = HostSession::open(options).await.unwrap();
    let late = session.press(ENTER).await;
    assert!(matches!(late, Err(HostError::Late { .. })), "{late:?}");
    let report = playing.ends().await;
    assert_eq!((report.late, report.answered), (1, 0));
    let playing = Playing::start(lag(Duration::from_secs(3600), 0));
    playing.open(DEVICE).await.unwrap().press(ENTER).await.unwrap();
    assert_eq!(playing.ends().await.late, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_so_many_answers_a_connection_is_cut() {
    let cut_every = NonZeroU64::new(3);
    let options = PlayerOptions { cut_every, loops: true, ..PlayerOptions::of(short()) };
    let playing = Playing::start(options);
    let (mut answered, mut cut) = (0, 0);
    for _ in 0..3 {
        // The keys of all clients count.
        let mut session = playing.open(DEVICE).await.unwrap();
        for _ in 0..3 {
            match session.press(ENTER).await {
                Ok(()) => answered += 1,
                Err(HostError::Closed | HostError::Broken(_)) => {
                    cut += 1;
                    break;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
    let report = playing.ends().await;
    assert_eq!((answered, cut), (6, 3));
    assert_eq!((report.answered, report.cut), (6, 3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_key_closes_the_connection_where_that_is_asked_for() {
    let options = PlayerOptions { no_match: NoMatch::Drop, ..PlayerOptions::of(short()) };
    let strict = PlayerOptions { matching: Match::Strict, ..options };
    let playing = Playing::start(strict);
    let mut session = playing.open(DEVICE).await.unwrap();
    // The cursor is somewhere else.
    session.move_cursor(entrepot_host::Place { row: 2, column: 2 });
    let closed = session.press(ENTER).await;
    assert!(matches!(closed, Err(HostError::Closed)), "{closed:?}");
    let mut session = playing.open(DEVICE).await.unwrap();
    session.press(ENTER).await.unwrap();
    let report = playing.ends().await;
    assert_eq!((report.answered, report.repeated), (1, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_sends_nothing_is_closed() {
    let time_limit = Some(Duration::from_millis(300));
    let playing = Playing::start(PlayerOptions { time_limit, ..PlayerOptions::of(short()) });
    let mut session = playing.open(DEVICE).await.unwrap();
    let closed = session.wait_for(None, "NEVER SHOWN").await;
    assert!(matches!(closed, Err(HostError::Closed)), "{closed:?}");
    playing.ends().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_begins_with_the_first_byte_or_when_the_player_asks() {
    let own = self_signed(vec!["localhost".to_owned()]).unwrap();
    let tls = TlsOptions {
        chain: own.chain.into_bytes(),
        key: own.key,
        clients: ClientCertificates::Off,
        least: TlsVersion::Tls12,
    };
    let config = TlsConfig::new(&tls, &Env::real()).unwrap();
    let trust = ServerTrust::Pinned(vec![config.fingerprint()]);
    for (tls, begins) in [
        (PlayerTls::FromTheStart(config.server(&[])), HostTls::FromTheStart),
        (PlayerTls::Asked(config.server(&[])), HostTls::WhenAsked),
    ] {
        let playing = Playing::start(PlayerOptions { tls, ..PlayerOptions::of(short()) });
        let mut options = HostOptions { trust: trust.clone(), ..playing.options(DEVICE) };
        options.address.tls = begins;
        let mut session = HostSession::open(options).await.unwrap();
        session.press(ENTER).await.unwrap();
        session.wait_for(None, "MENU").await.unwrap();
        // Who trusts another certificate gets no further than the handshake.
        let wrong = ServerTrust::Pinned(vec!["00".repeat(32)]);
        let mut options = HostOptions { trust: wrong, ..playing.options(DEVICE) };
        options.address.tls = begins;
        let refused = HostSession::open(options).await;
        assert!(matches!(refused, Err(HostError::Handshake(_))), "{refused:?}");
        assert_eq!(playing.ends().await.answered, 1);
    }
}
