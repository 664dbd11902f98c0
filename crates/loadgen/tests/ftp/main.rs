//! `bench ftp` against a small server made of the protocol machine, against bad ones, and against
//! the bare server.

mod bare;
mod server;

use std::net::SocketAddr;
use std::time::Duration;

use entrepot_loadgen::ftp::{self, FtpBench, Step, Tls, Workload};
use entrepot_loadgen::{Counts, Report, WatchError};
use entrepot_net::tls::TlsVersion;
use entrepot_nouns::{Env, Secret};

use server::{Fake, Script};

fn bench(server: &Fake, tls: Tls) -> FtpBench {
    bench_at(server.address, tls)
}

fn bench_at(address: SocketAddr, tls: Tls) -> FtpBench {
    FtpBench {
        host: address.ip().to_string(),
        port: address.port(),
        user: "alice".to_owned(),
        password: Secret::new("secret"),
        folder: String::new(),
        tls,
        tls_version: None,
        size: 5_000_003,
        small_size: 1024,
        count: 3,
        concurrency: 4,
        deadline: Duration::from_secs(20),
        server_pid: Some(std::process::id()),
        server_group: None,
        rounds: 2,
    }
}

async fn run(bench: &FtpBench, steps: &[Step]) -> Report {
    ftp::run(bench, steps, &Env::real(), |_| ()).await.unwrap()
}

fn passive(workload: Workload) -> Step {
    Step { workload, active: false }
}

#[tokio::test]
async fn every_workload_ends_without_error_in_clear_and_under_tls() {
    for (tls, script) in [(Tls::Off, Script::Good), (Tls::Explicit, Script::Tls)] {
        let server = Fake::start(script).await;
        let bench = bench(&server, tls);
        let mut steps = Step::USUAL.to_vec();
        steps.push(passive(Workload::Mixed));
        let report = run(&bench, &steps).await;
        assert_eq!(report.rounds.len(), 2 * steps.len());
        for measure in &report.rounds {
            let large = measure.unit == "GiB";
            let counts = measure.counts.unwrap();
            assert!(counts.is_clean() && measure.failures.is_empty(), "{measure:?}");
            assert_eq!(counts.done, if large { 1 } else { 12 }, "{measure:?}");
            assert!(measure.server_cpu_seconds_per_unit.is_some(), "{measure:?}");
            if tls == Tls::Explicit {
                assert!(counts.resumed > 0 || large || measure.workload == "logins-tls");
                assert!(counts.handshakes >= counts.done, "{measure:?}");
            }
        }
        // What was sent arrived whole; nothing is left behind.
        let stored = server.stored();
        assert!(stored.iter().all(|size| [1024, 5_000_003].contains(size)), "{stored:?}");
        // Passive, active, a third of the mixed ones, and what the three steps with RETR read.
        let small = stored.iter().filter(|size| **size == 1024).count();
        assert_eq!(small, 24 + 24 + 8 + 3);
        assert_eq!(server.files(), 0);
    }
}

#[tokio::test]
async fn names_tell_the_mode_and_tls() {
    let name = |workload, active, tls| Step { workload, active }.name(tls);
    assert_eq!(name(Workload::Retr, true, None), "retr-active");
    assert_eq!(name(Workload::Download, false, Some(TlsVersion::Tls13)), "download-tls");
    assert_eq!(name(Workload::Stor, false, Some(TlsVersion::Tls12)), "stor-tls12");
}

/// All 4 users × 3 operations of each round.
fn counts(report: &Report) -> Vec<Counts> {
    report.rounds.iter().map(|measure| measure.counts.unwrap()).collect()
}

#[tokio::test]
async fn a_server_that_refuses_is_counted() {
    let server = Fake::start(Script::Good).await;
    let wrong = FtpBench { password: Secret::new("wrong"), rounds: 1, ..bench(&server, Tls::Off) };
    let report = run(&wrong, &[passive(Workload::Logins), passive(Workload::Retr)]).await;
    for counted in counts(&report) {
        assert_eq!((counted.done, counted.failed, counted.hung), (0, 12, 0), "{report}");
    }
    assert!(report.rounds[0].failures.iter().any(|failure| failure.contains("530")), "{report}");
    assert!(report.rounds[0].server_cpu_seconds_per_unit.is_none());
}

#[tokio::test]
async fn a_server_that_hangs_is_counted_and_not_waited_for() {
    for script in [Script::Silent, Script::HangsInTransfers] {
        let server = Fake::start(script).await;
        let deadline = Duration::from_millis(200);
        let bench = FtpBench { deadline, rounds: 1, ..bench(&server, Tls::Off) };
        let report = run(&bench, &[passive(Workload::Stor)]).await;
        let counted = counts(&report)[0];
        let all = (counted.done, counted.failed, counted.hung, counted.not_tried);
        assert_eq!(all, (0, 0, 4, 8), "{report}");
        assert!(report.to_string().contains("4 hung"), "{report}");
    }
}

#[tokio::test]
async fn garbage_and_short_files_are_counted() {
    for (script, sentence) in
        [(Script::Garbage, "no reply"), (Script::Short, "bytes came of"), (Script::Gone, "hung up")]
    {
        let server = Fake::start(script).await;
        let bench = FtpBench { rounds: 1, ..bench(&server, Tls::Off) };
        let report = run(&bench, &[passive(Workload::Retr)]).await;
        let counted = counts(&report)[0];
        assert_eq!((counted.done, counted.failed), (0, 12), "{report}");
        let told = &report.rounds[0].failures;
        assert!(told.iter().any(|failure| failure.contains(sentence)), "{script:?}: {told:?}");
    }
}

#[tokio::test]
async fn a_process_that_does_not_exist_is_told() {
    let server = Fake::start(Script::Good).await;
    let bench = FtpBench { server_pid: Some(u32::MAX), ..bench(&server, Tls::Off) };
    let error = ftp::run(&bench, &[passive(Workload::Logins)], &Env::real(), |_| ()).await;
    assert!(matches!(error, Err(ftp::BenchError::Watch(WatchError::NoProcess(u32::MAX)))));
    let bench = FtpBench { server_group: Some("/nowhere".into()), ..bench };
    let error = ftp::run(&bench, &[passive(Workload::Logins)], &Env::real(), |_| ()).await;
    assert!(matches!(error, Err(ftp::BenchError::Watch(WatchError::NoGroup(_)))));
}
