//! `host play`: stands for a host, from traces.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use entrepot_host::{
    CodePage, Lag, Match, NoMatch, Player, PlayerOptions, PlayerReport, PlayerTls, Recording, Speak,
};
use entrepot_net::NetError;
use entrepot_net::tls::TlsConfig;
use entrepot_nouns::{Env, Secret};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::given::{code_page, own_certificate, read, tls_config};
use crate::args::{HostPlayArgs, MatchWord, NoMatchWord};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::{descriptors, table};

/// Plays until SIGTERM or SIGINT, and tells then what it did.
pub(super) async fn run(args: HostPlayArgs, output: Output) -> Result<(), Failure> {
    let env = Env::real();
    descriptors::raise()?;
    let page = Arc::new(code_page(&args.code_page)?);
    let recordings =
        args.traces.iter().map(|file| recording(file, &page)).collect::<Result<Vec<_>, _>>()?;
    let certificate = if args.tls || args.start_tls { Some(tls(&args, &env)?) } else { None };
    let options = options(&args, recordings, certificate.as_ref(), &env);
    let told = options.clone();
    let player = Player::bind(options).map_err(cannot_listen)?;
    let address = player.address();
    let fingerprint = certificate.map(|certificate| certificate.fingerprint());
    let begun = json!({"address": address, "seed": told.seed, "fingerprint": fingerprint});
    output.value(&begun, || {
        for recording in &told.recordings {
            println!("{}", table::printable(&described(recording)));
        }
        if let Some(fingerprint) = &fingerprint {
            println!("certificate: SHA-256 {fingerprint}");
        }
        if told.lag.is_some_and(|lag| (1..100).contains(&lag.percent)) {
            println!("seed: {}", told.seed);
        }
        println!("listening on {address}");
    })?;
    let stop = CancellationToken::new();
    let signals = crate::serve::stop_on_signals(stop.clone());
    let report = player.run(stop).await;
    if let Some(signals) = signals {
        signals.abort();
    }
    output.value(&report, || println!("{}", summary(&report)))
}

fn recording(file: &Path, page: &Arc<CodePage>) -> Result<Arc<Recording>, Failure> {
    let text = String::from_utf8_lossy(&read(file)?).into_owned();
    let compiled = Recording::compile(&file.display().to_string(), &text, Arc::clone(page));
    let wrong = |error: entrepot_host::RecordingError| {
        Failure::new(error.code(), Exit::Invalid, error.to_string())
    };
    compiled.map(Arc::new).map_err(wrong)
}

fn options(
    args: &HostPlayArgs,
    recordings: Vec<Arc<Recording>>,
    certificate: Option<&TlsConfig>,
    env: &Env,
) -> PlayerOptions {
    let drawn = || {
        let mut seed = [0; 8];
        env.fill_random(&mut seed);
        u64::from_le_bytes(seed)
    };
    let tls = match certificate.map(|certificate| certificate.server(&[])) {
        None => PlayerTls::Off,
        Some(server) if args.tls => PlayerTls::FromTheStart(server),
        Some(server) => PlayerTls::Asked(server),
    };
    PlayerOptions {
        listen: args.listen,
        recordings,
        speak: if args.plain { Speak::Plain } else { Speak::Either },
        matching: match args.matching {
            MatchWord::Strict => Match::Strict,
            MatchWord::Fields => Match::Fields,
            MatchWord::Aid => Match::Aid,
            MatchWord::Any => Match::Any,
        },
        no_match: match args.no_match {
            NoMatchWord::Repeat => NoMatch::Repeat,
            NoMatchWord::Forward => NoMatch::Forward,
            NoMatchWord::Search => NoMatch::Search,
            NoMatchWord::Drop => NoMatch::Drop,
        },
        loops: args.loops,
        lag: args.lag.map(|delay| Lag { delay, percent: args.lag_percent }),
        seed: args.seed.unwrap_or_else(drawn),
        cut_every: args.cut_every,
        clients: args.clients,
        time_limit: args.time_limit.map(|seconds| Duration::from_secs(seconds.get())),
        tls,
    }
}

fn tls(args: &HostPlayArgs, env: &Env) -> Result<TlsConfig, Failure> {
    let (Some(certificate), Some(key)) = (&args.certificate, &args.key) else {
        return own_certificate(args.listen.ip(), env);
    };
    let key = String::from_utf8_lossy(&read(key)?).into_owned();
    tls_config(read(certificate)?, Secret::new(key), env)
}

fn cannot_listen(error: NetError) -> Failure {
    Failure::new(error.code(), Exit::Failed, error.to_string())
}

fn described(recording: &Recording) -> String {
    let (name, keys) = (recording.name(), recording.keys());
    let device = recording.device_type().unwrap_or("an unknown terminal");
    format!("playing {name}: {keys} keys, recorded as {device}")
}

fn summary(report: &PlayerReport) -> String {
    let PlayerReport { clients, most_at_once, refused, answered, repeated, cut, late } = report;
    format!(
        "{clients} clients, {most_at_once} at once, {refused} too many; {answered} keys answered, \
         {late} of all late, {repeated} not awaited, {cut} connections cut"
    )
}
