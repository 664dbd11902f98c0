//! `host sample`: stands for a host with a sample application.

use entrepot_host::{SAMPLE_MODEL, SampleHost};
use entrepot_nouns::Env;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::given::own_certificate;
use crate::args::HostSampleArgs;
use crate::descriptors;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Serves until SIGTERM or SIGINT.
pub(super) async fn run(args: &HostSampleArgs, output: Output) -> Result<(), Failure> {
    if args.model {
        return output.value(&json!({"definition": SAMPLE_MODEL}), || print!("{SAMPLE_MODEL}"));
    }
    descriptors::raise()?;
    let host = SampleHost::bind(args.listen)
        .map_err(|error| Failure::new(error.code(), Exit::Failed, error.to_string()))?;
    let (address, mut fingerprint) = (host.address(), None);
    let host = if args.tls {
        let tls = own_certificate(args.listen.ip(), &Env::real())?;
        fingerprint = Some(tls.fingerprint());
        host.with_tls(tls.server(&[]))
    } else {
        host
    };
    output.value(&json!({"address": address, "fingerprint": fingerprint}), || {
        if let Some(fingerprint) = &fingerprint {
            println!("certificate: SHA-256 {fingerprint}");
        }
        println!("listening on {address}");
    })?;
    let stop = CancellationToken::new();
    let signals = crate::serve::stop_on_signals(stop.clone());
    host.run(stop).await;
    if let Some(signals) = signals {
        signals.abort();
    }
    Ok(())
}
