//! `bench`: measures any server of SFTP, FTP, HTTPS or AS2, and the rules of this one.

mod as2;
mod as2_loopback;
mod as2_parties;
mod as2_pyas2lib;
mod bare;
mod host;
mod host_node;
mod host_s3270;
mod host_sample;
mod https;
mod node_process;
mod password;
mod report_file;
mod rules;

use std::path::Path;

use entrepot_loadgen::ftp::{self, FtpBench, Step};
use entrepot_loadgen::sftp::{self, Login, Mix, SftpBench, Workload};
use entrepot_loadgen::wan::Wan;
use entrepot_loadgen::{Measure, page};
use entrepot_nouns::{Env, Secret};
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::{self, BenchCommand, BenchFtpArgs, BenchPageArgs, BenchSftpArgs};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::standard_input::line_from_stdin;

/// Measures a server and prints the report; or merges reports into a page.
pub(crate) async fn run(output: Output, command: BenchCommand) -> Result<(), Failure> {
    let env = Env::real();
    let (report, file) = match command {
        BenchCommand::Sftp(args) => {
            let file = args.report.clone();
            let (bench, workloads) = read(args)?;
            let progress = progress(workloads.len(), bench.rounds);
            progress.set_message(workloads.first().map_or("", |workload| workload.as_str()));
            let report = sftp::run(&bench, &workloads, &env, |measure| tell(&progress, measure));
            let report = report.await;
            progress.finish_and_clear();
            (report.map_err(|error| error.to_string()), file)
        }
        BenchCommand::Ftp(args) => {
            let file = args.report.clone();
            let (bench, steps) = read_ftp(args)?;
            let progress = progress(steps.len(), bench.rounds);
            let report = ftp::run(&bench, &steps, &env, |measure| tell(&progress, measure)).await;
            progress.finish_and_clear();
            (report.map_err(|error| error.to_string()), file)
        }
        BenchCommand::Https(args) => {
            let file = args.report.clone();
            let (bench, workloads) = https::read(*args)?;
            let progress = progress(workloads.len(), bench.rounds);
            let report = entrepot_loadgen::https::run(&bench, &workloads, &env, |measure| {
                tell(&progress, measure);
            });
            let report = report.await;
            progress.finish_and_clear();
            (report.map_err(|error| error.to_string()), file)
        }
        BenchCommand::Rules(args) => {
            let progress = progress(rules::workloads(&args).len(), args.rounds);
            let report = rules::run(&args, &env, |measure| tell(&progress, measure)).await;
            progress.finish_and_clear();
            (Ok(report?), args.report)
        }
        BenchCommand::Host(args) => return host::run(output, &args, &env).await,
        BenchCommand::As2(args) => return as2::run(output, &args, &env).await,
        BenchCommand::BareSftp(args) => return bare::serve_sftp(&args, &env).await,
        BenchCommand::BareFtp(args) => return bare::serve_ftp(&args).await,
        BenchCommand::BareHttps(args) => return bare::serve_https(&args, &env).await,
        BenchCommand::Page(args) => return write_page(&args),
    };
    let report = report.map_err(|error| Failure::new("EP0209", Exit::Failed, error))?;
    if let Some(file) = file {
        report_file::write(&report, &file)?;
    }
    output.value(&report, || print!("{report}"))
}

fn write_page(args: &BenchPageArgs) -> Result<(), Failure> {
    let mut samples = Vec::new();
    for file in &args.reports {
        let text = std::fs::read_to_string(file)
            .map_err(|error| Failure::file(format!("cannot read '{}': {error}", file.display())))?;
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        samples.extend(page::read(&name, &text).map_err(Failure::usage)?);
    }
    let write = |file: &Path, text: &str| {
        std::fs::write(file, text)
            .map_err(|error| Failure::file(format!("cannot write '{}': {error}", file.display())))
    };
    if let Some(folder) = &args.plots {
        for plot in page::plots(&samples) {
            write(&folder.join(format!("{}.svg", plot.name)), &plot.svg)?;
        }
    }
    match &args.out {
        Some(out) => write(out, &page::page(&args.title, &samples)),
        None => Ok(()),
    }
}

fn progress(steps: usize, rounds: u32) -> ProgressBar {
    let progress = ProgressBar::new(steps as u64 * u64::from(rounds.max(1)));
    if let Ok(style) = ProgressStyle::with_template("{bar:30} round {pos} of {len}  {msg}") {
        progress.set_style(style);
    }
    progress
}

fn tell(progress: &ProgressBar, measure: &Measure) {
    progress.set_message(format!("{}: {:.1} {}/s", measure.workload, measure.rate, measure.unit));
    progress.inc(1);
}

fn host_and_port(target: &str) -> Result<(String, u16), Failure> {
    target
        .rsplit_once(':')
        .and_then(|(host, port)| Some((host.to_owned(), port.parse().ok()?)))
        .ok_or_else(|| Failure::usage(format!("'{target}' is not HOST:PORT")))
}

fn read_ftp(args: BenchFtpArgs) -> Result<(FtpBench, Vec<Step>), Failure> {
    let (host, port) = host_and_port(&args.target)?;
    let password = password::read(args.password_file.as_deref(), args.password_env.as_deref())?;
    let steps = match args.workloads.as_slice() {
        [] => Step::USUAL.to_vec(),
        some => some
            .iter()
            .map(|workload| Step { workload: ftp_workload_of(*workload), active: args.active })
            .collect(),
    };
    let bench = FtpBench {
        host,
        port,
        user: args.user,
        password: Secret::new(password),
        folder: args.folder,
        tls: match args.tls {
            None => ftp::Tls::Off,
            Some(args::FtpTls::Explicit) => ftp::Tls::Explicit,
            Some(args::FtpTls::Implicit) => ftp::Tls::Implicit,
        },
        tls_version: args.tls_version,
        size: args.size,
        small_size: args.small_size,
        count: args.count,
        concurrency: args.concurrency,
        deadline: args.deadline,
        server_pid: args.server_pid,
        server_group: args.server_group,
        rounds: args.rounds,
    };
    Ok((bench, steps))
}

fn ftp_workload_of(workload: args::FtpWorkload) -> ftp::Workload {
    match workload {
        args::FtpWorkload::Logins => ftp::Workload::Logins,
        args::FtpWorkload::Retr => ftp::Workload::Retr,
        args::FtpWorkload::Stor => ftp::Workload::Stor,
        args::FtpWorkload::Mixed => ftp::Workload::Mixed,
        args::FtpWorkload::Exec => ftp::Workload::Exec,
        args::FtpWorkload::IdleSessions => ftp::Workload::IdleSessions,
        args::FtpWorkload::Download => ftp::Workload::Download,
        args::FtpWorkload::Upload => ftp::Workload::Upload,
    }
}

fn read(args: BenchSftpArgs) -> Result<(SftpBench, Vec<Workload>), Failure> {
    let (host, port) = host_and_port(&args.target)?;
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
        server_group: args.server_group,
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
