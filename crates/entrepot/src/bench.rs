//! `bench sftp`: measures any SFTP server.

use entrepot_loadgen::sftp::{self, Login, Mix, SftpBench, Workload};
use entrepot_loadgen::wan::Wan;
use entrepot_model::{Env, Secret};
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::{self, BenchCommand, BenchSftpArgs};
use crate::failure::{Exit, Failure};
use crate::nouns::line_from_stdin;
use crate::output::Output;

/// Runs `bench`.
pub(crate) async fn run(output: Output, command: BenchCommand) -> Result<(), Failure> {
    let BenchCommand::Sftp(args) = command;
    let file = args.report.clone();
    let (bench, workloads) = read(args)?;
    let rounds = workloads.len() as u64 * u64::from(bench.rounds.max(1));
    let progress = ProgressBar::new(rounds);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} round {pos} of {len}  {msg}") {
        progress.set_style(style);
    }
    progress.set_message(workloads.first().map_or("", |workload| workload.as_str()));
    let env = Env::real();
    let report = sftp::run(&bench, &workloads, &env, |measure| {
        progress
            .set_message(format!("{}: {:.1} {}/s", measure.workload, measure.rate, measure.unit));
        progress.inc(1);
    });
    let report = report.await;
    progress.finish_and_clear();
    let report = report.map_err(|error| Failure::new("EP0209", Exit::Failed, error.to_string()))?;
    if let Some(file) = file {
        let written = serde_json::to_vec_pretty(&report)
            .map_err(std::io::Error::other)
            .and_then(|text| std::fs::write(&file, text));
        written.map_err(|error| {
            Failure::file(format!("cannot write '{}': {error}", file.display()))
        })?;
    }
    output.value(&report, || print!("{report}"))
}

fn read(args: BenchSftpArgs) -> Result<(SftpBench, Vec<Workload>), Failure> {
    let (host, port) = args
        .target
        .rsplit_once(':')
        .and_then(|(host, port)| Some((host.to_owned(), port.parse().ok()?)))
        .ok_or_else(|| Failure::usage(format!("'{}' is not HOST:PORT", args.target)))?;
    let login = match &args.key {
        Some(file) => Login::Key(Secret::new(std::fs::read(file).map_err(|error| {
            Failure::file(format!("cannot read '{}': {error}", file.display()))
        })?)),
        None if args.password_stdin => Login::Password(Secret::new(line_from_stdin()?)),
        None => return Err(Failure::usage("give --key FILE or --password-stdin")),
    };
    let workloads = match args.workloads.as_slice() {
        [] => Workload::USUAL.to_vec(),
        some => some.iter().map(|workload| workload_of(*workload)).collect(),
    };
    let bench = SftpBench {
        host,
        port,
        user: args.user,
        login,
        folder: args.folder,
        cipher: args.cipher,
        size: args.size,
        small_size: args.small_size,
        count: args.count,
        concurrency: args.concurrency,
        server_pid: args.server_pid,
        rounds: args.rounds,
        mix: Mix { uploads: args.uploads, downloads: args.downloads, scale: args.scale },
        wan: args.delay.map(|delay| Wan { delay, rate: args.rate }),
    };
    Ok((bench, workloads))
}

fn workload_of(workload: args::Workload) -> Workload {
    match workload {
        args::Workload::Upload => Workload::Upload,
        args::Workload::Download => Workload::Download,
        args::Workload::SmallFiles => Workload::SmallFiles,
        args::Workload::Handshakes => Workload::Handshakes,
        args::Workload::IdleSessions => Workload::IdleSessions,
        args::Workload::Mixed => Workload::Mixed,
    }
}
