//! `bench https` against the bare server, which keeps files in memory and knows no accounts.

use std::time::Duration;

use entrepot_loadgen::https::{
    self, Crowd, HttpVersion, HttpsBench, Login, Scheme, Target, Workload,
};
use entrepot_loadgen::wan::Wan;
use entrepot_loadgen::{BareServer, Report, Scenario};
use entrepot_net::tls::TlsVersion;
use entrepot_nouns::{Env, Secret};

fn server(scheme: Scheme) -> BareServer {
    https::serve_bare("127.0.0.1:0".parse().unwrap(), scheme, &Env::real()).unwrap()
}

fn bench(server: &BareServer, scheme: Scheme, version: HttpVersion) -> HttpsBench {
    let address = server.address();
    HttpsBench {
        target: Target {
            scheme,
            host: address.ip().to_string(),
            port: address.port(),
            folder: "/files/{n}/".to_owned(),
        },
        version,
        tls_version: TlsVersion::Tls13,
        login: Some(Login { user: "user-{n}".to_owned(), password: Secret::new("secret") }),
        path: "/files/".to_owned(),
        tus_path: "/uploads".to_owned(),
        size: 3_000_001,
        small_size: 10_240,
        count: 3,
        concurrency: 4,
        connections: Some(2),
        deadline: Duration::from_secs(60),
        cuts: 2,
        crowd: Crowd {
            users: 6,
            uploading: 4,
            tests: 2,
            think_time: Duration::from_millis(2),
            ramp: Duration::from_millis(10),
            scale: 100,
        },
        wan: None,
        server_pid: Some(std::process::id()),
        server_group: None,
        rounds: 1,
    }
}

async fn run(bench: &HttpsBench, workloads: &[Workload]) -> Report {
    https::run(bench, workloads, &Env::real(), |_| ()).await.unwrap()
}

const STREAMS: [Workload; 6] = [
    Workload::Upload,
    Workload::Put,
    Workload::Get,
    Workload::Fetch,
    Workload::Tus,
    Workload::Download,
];

#[tokio::test]
async fn every_workload_ends_without_error() {
    let ways = [
        (Scheme::Http, HttpVersion::Http1),
        (Scheme::Https, HttpVersion::Http1),
        (Scheme::Https, HttpVersion::Http2),
    ];
    for (scheme, version) in ways {
        let server = server(scheme);
        let mut bench = bench(&server, scheme, version);
        // All read one folder.
        bench.target.folder = "/files/".to_owned();
        let report = run(&bench, &STREAMS).await;
        assert_eq!(report.rounds.len(), STREAMS.len());
        for measure in &report.rounds {
            let large = measure.unit == "GiB";
            let counts = measure.counts.unwrap();
            assert!(counts.is_clean() && measure.failures.is_empty(), "{measure:?}");
            assert_eq!(counts.done, if large { 4 } else { 12 }, "{measure:?}");
            assert!(measure.server_cpu_seconds_per_unit.is_some(), "{measure:?}");
            if large {
                let bytes = measure.units * f64::from(1 << 30);
                assert!((bytes - 12_000_004.0).abs() < 1.0, "{measure:?}");
            }
        }
        let passed: Vec<u64> = report.scenarios.iter().map(|row| row.passed).collect();
        assert_eq!(passed, [4, 12, 12, 12, 4, 4]);
        // The cuts are real: each begins another connection, and so does what must be sent again.
        let cut = report.rounds[4].counts.unwrap();
        let least = if scheme == Scheme::Https { 12 } else { 0 };
        assert!(cut.handshakes >= least, "{version:?}: {cut:?}");
    }
}

#[tokio::test]
async fn users_come_think_and_are_counted_by_what_they_did() {
    for version in [HttpVersion::Http1, HttpVersion::Http2] {
        let server = server(Scheme::Https);
        let report = run(&bench(&server, Scheme::Https, version), &[Workload::Users]).await;
        let rows: Vec<(&str, u64, u64)> = report
            .scenarios
            .iter()
            .map(|Scenario { name, total, passed, .. }| (name.as_str(), *total, *passed))
            .collect();
        let wanted = [
            ("sign in", 6, 6),
            ("list the folder", 4, 4),
            ("upload 10 MB / 100", 2, 2),
            ("upload 25 MB / 100", 2, 2),
            ("upload 50 MB / 100", 2, 2),
            ("upload 100 MB / 100", 2, 2),
        ];
        assert_eq!(rows, wanted);
        assert_eq!(report.rounds[0].counts.unwrap().handshakes, 6);
        let table = report.to_string();
        assert!(table.contains("SCENARIO") && table.contains("TESTS/S"), "{table}");
        let text = serde_json::to_string(&report).unwrap();
        let read: Report = serde_json::from_str(&text).unwrap();
        let passed = |report: &Report| report.scenarios.iter().map(|row| row.passed).sum::<u64>();
        assert_eq!((passed(&read), read.scenarios.len()), (18, report.scenarios.len()));
    }
}

#[tokio::test]
async fn what_is_refused_or_of_the_wrong_kind_is_counted() {
    let server = server(Scheme::Https);
    let mut bench = bench(&server, Scheme::Https, HttpVersion::Http1);
    bench.path = "/nothing".to_owned();
    let report = run(&bench, &[Workload::Fetch]).await;
    let counts = report.rounds[0].counts.unwrap();
    assert_eq!((counts.done, counts.failed), (0, 12));
    assert_eq!((report.scenarios[0].total, report.scenarios[0].failed), (12, 12));
    assert!(report.rounds[0].failures[0].contains("404"), "{report}");
    bench.target.scheme = Scheme::Http;
    let report = run(&bench, &[Workload::Put]).await;
    assert_eq!(report.rounds[0].counts.unwrap().done, 0);
    assert!(!report.rounds[0].failures.is_empty());
}

#[tokio::test]
async fn a_long_line_lies_between() {
    let server = server(Scheme::Https);
    let mut bench = bench(&server, Scheme::Https, HttpVersion::Http2);
    bench.target.folder = "/".to_owned();
    bench.wan = Some(Wan { delay: Duration::from_millis(40), rate: None });
    bench.concurrency = 1;
    let report = run(&bench, &[Workload::Upload]).await;
    let measure = &report.rounds[0];
    assert!(measure.counts.unwrap().is_clean(), "{measure:?}");
    assert!(measure.latency_ms.unwrap().p50 >= 40.0, "{measure:?}");
    assert!(report.on_the_way.unwrap().up_bytes > 0);
}
