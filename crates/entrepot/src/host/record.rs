//! `host record`: stands between terminals and their host, and writes traces.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use entrepot_host::{Recorder, RecorderOptions, TraceFiles};
use entrepot_nouns::Env;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::given::{code_page, trust};
use crate::args::HostRecordArgs;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Records until SIGTERM or SIGINT, and tells then how many sessions there were.
pub(super) async fn run(args: HostRecordArgs, output: Output) -> Result<(), Failure> {
    let env = Env::real();
    let folder = args.into;
    std::fs::create_dir_all(&folder)
        .map_err(|error| Failure::file(format!("'{}': {error}", folder.display())))?;
    let options = RecorderOptions {
        listen: args.listen,
        to: args.to,
        trust: trust(&args.trust)?,
        patience: Duration::from_secs(u64::from(args.patience)),
        page: code_page(&args.code_page)?,
    };
    let files = Box::new(TracesInFolder { folder, env: env.clone() });
    let recorder = Recorder::bind(options, files, env)
        .map_err(|error| Failure::new(error.code(), Exit::Failed, error.to_string()))?;
    let address = recorder.address();
    output.value(&json!({"address": address}), || println!("listening on {address}"))?;
    let stop = CancellationToken::new();
    let signals = crate::serve::stop_on_signals(stop.clone());
    let report = recorder.run(stop).await;
    if let Some(signals) = signals {
        signals.abort();
    }
    output.value(&report, || {
        println!("{} sessions recorded, {} of them not whole", report.sessions, report.failed);
    })
}

/// Files such as `20261127-084500-0001.trc`, for their owner only.
struct TracesInFolder {
    folder: PathBuf,
    env: Env,
}

impl TraceFiles for TracesInFolder {
    fn create(&self, session: u64) -> std::io::Result<Box<dyn Write + Send>> {
        let now = self.env.now().compact();
        let (second, _) = now.rsplit_once('-').unwrap_or((&now, ""));
        let path = self.folder.join(format!("{second}-{session:04}.trc"));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        Ok(Box::new(file))
    }
}
