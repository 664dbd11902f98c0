//! `bench as2 --pyas2lib`: the same messages for a node of ours and for processes of pyas2lib, in
//! turn. The library is no server: a script around it takes messages from HTTP and answers with
//! receipts, and stores nothing.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use entrepot_loadgen::as2::{As2Bench, As2Report, Iteration};
use entrepot_loadgen::https::Target;
use entrepot_loadgen::process::peak_resident_bytes;
use entrepot_loadgen::{Measure, Report};
use entrepot_nouns::Env;
use serde::Serialize;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};

use super::as2_loopback::Loopback;
use super::report_file;
use crate::args::BenchAs2Args;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// The receiver, for Python.
const SCRIPT: &str = include_str!("pyas2lib_receiver.py");
/// What it may take to start, and to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is measured beside pyas2lib.
pub(super) struct Beside<'a> {
    /// The messages, to the node.
    pub(super) bench: As2Bench,
    pub(super) loopback: &'a mut Loopback,
    /// The program that runs pyas2lib.
    pub(super) python: &'a Path,
    pub(super) args: &'a BenchAs2Args,
}

/// The report of every measurement, and what is compared.
#[derive(Serialize)]
struct BesideReport {
    receivers: Vec<Receiver>,
    /// Rounds and iterations of both, in turn.
    #[serde(flatten)]
    report: As2Report,
}

/// What one receiver made of its messages.
#[derive(Serialize)]
struct Receiver {
    name: String,
    processes: u16,
    /// Messages that were acknowledged as they should, of all iterations.
    delivered: u64,
    missed: u64,
    /// Of the iteration with the median rate.
    messages_per_second: f64,
    cpu_ms_per_message: Option<f64>,
    /// The peaks of its processes, added up.
    peak_resident_bytes: Option<u64>,
}

/// Where one of the two is.
struct Side {
    name: String,
    processes: u16,
    target: Target,
    pid: Option<u32>,
    group: Option<PathBuf>,
}

/// Measures both, and prints block by block.
pub(super) async fn run(output: Output, beside: Beside<'_>, env: &Env) -> Result<(), Failure> {
    let processes = beside.args.pyas2lib_processes.unwrap_or_else(processors);
    let python = Pyas2lib::start(&beside, processes).await?;
    let target = format!("http://127.0.0.1:{}/", python.port);
    let theirs = Side {
        name: format!("pyas2lib {}", python.version),
        processes,
        target: Target::address(&target).map_err(Failure::usage)?,
        pid: python.child.id(),
        group: None,
    };
    let measured = in_turn(output, beside, theirs, env).await;
    python.end().await.and(measured)
}

fn processors() -> u16 {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    u16::try_from(count).unwrap_or(u16::MAX)
}

async fn in_turn(
    output: Output,
    beside: Beside<'_>,
    theirs: Side,
    env: &Env,
) -> Result<(), Failure> {
    let Beside { mut bench, loopback, args, .. } = beside;
    let ours = Side {
        name: "entrepot".to_owned(),
        processes: 1,
        target: bench.target.clone(),
        pid: bench.server_pid,
        group: bench.server_group.take(),
    };
    let sides = [ours, theirs];
    let (mut rounds, mut iterations) = (Vec::<Measure>::new(), Vec::<Iteration>::new());
    let wanted = std::mem::replace(&mut bench.iterations, 1);
    for number in 1..=wanted.max(1) {
        for side in &sides {
            bench.target = side.target.clone();
            (bench.server_pid, bench.server_group) = (side.pid, side.group.clone());
            let report = entrepot_loadgen::as2::run(&bench, env, |_| ()).await;
            let report = report.map_err(|error| failed(error.to_string()))?;
            loopback.sweep()?;
            for iteration in report.iterations {
                let iteration = Iteration { number, ..iteration };
                if output == Output::Human {
                    println!("{:<24}{}\n{iteration}", "Receiver:", side.name);
                }
                iterations.push(iteration);
            }
            let named = |round| Measure { workload: side.name.clone(), ..round };
            rounds.extend(report.report.rounds.into_iter().map(named));
        }
    }
    let report = Report::of(rounds);
    let receivers: Vec<Receiver> = sides.iter().map(|side| side.receiver(&report)).collect();
    if let Some(ours) = receivers.first() {
        loopback.reconcile(ours.delivered, ours.missed)?;
    }
    let report = BesideReport { receivers, report: As2Report { report, iterations } };
    if let Some(file) = &args.report {
        report_file::write(&report, file)?;
    }
    output.value(&report, || print!("{}\n{report}", report.report.report))
}

fn failed(why: String) -> Failure {
    Failure::new("EP0209", Exit::Failed, why)
}

impl Side {
    /// What all rounds of this side say. Its processes still run.
    fn receiver(&self, report: &Report) -> Receiver {
        let is_it = |measure: &&Measure| measure.workload == self.name;
        let counts = report.rounds.iter().filter(is_it).filter_map(|round| round.counts);
        let (mut delivered, mut missed) = (0, 0);
        for counts in counts {
            delivered += counts.done;
            missed += counts.failed + counts.hung + counts.not_tried;
        }
        let median = report.medians.iter().find(is_it);
        let cpu = median.and_then(|median| median.server_cpu_seconds_per_unit);
        Receiver {
            name: self.name.clone(),
            processes: self.processes,
            delivered,
            missed,
            messages_per_second: median.map_or(0.0, |median| median.rate),
            cpu_ms_per_message: cpu.map(|seconds| seconds * 1e3),
            peak_resident_bytes: self.pid.and_then(peak_resident_bytes),
        }
    }
}

impl fmt::Display for BesideReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, processes, rate) = ("RECEIVER", "PROCESSES", "MESSAGES/S");
        let (delivered, missed, cpu) = ("DELIVERED", "MISSED", "CPU MS");
        let memory = "PEAK MIB";
        writeln!(
            f,
            "{name:<16} {processes:>9} {delivered:>9} {missed:>7} {rate:>10} {cpu:>9} {memory:>9}"
        )?;
        for receiver in &self.receivers {
            let Receiver { name, processes, delivered, missed, .. } = receiver;
            let rate = receiver.messages_per_second;
            let cell = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
            let cpu = cell(receiver.cpu_ms_per_message.map(|ms| format!("{ms:.3}")));
            let mib = |bytes: u64| format!("{:.0}", bytes as f64 / f64::from(1 << 20));
            let peak = cell(receiver.peak_resident_bytes.map(mib));
            writeln!(
                f,
                "{name:<16} {processes:>9} {delivered:>9} {missed:>7} {rate:>10.1} {cpu:>9} \
                 {peak:>9}"
            )?;
        }
        Ok(())
    }
}

/// Processes of pyas2lib, which end with the pipe that we hold.
struct Pyas2lib {
    child: Child,
    orders: ChildStdin,
    version: String,
    port: u16,
}

impl Pyas2lib {
    async fn start(beside: &Beside<'_>, processes: u16) -> Result<Pyas2lib, Failure> {
        let Beside { loopback, python, args, .. } = beside;
        let shown = python.display();
        let cannot = |what: String| {
            failed(format!(
                "'{shown}' runs no receiver of pyas2lib: {what}; scripts/need test makes a Python \
                 that does (target/clients-venv/bin/python3), and so does '{shown} -m pip install \
                 pyas2lib==1.4.4'"
            ))
        };
        let log = args.folder.join("pyas2lib.log");
        let errors = File::create(&log)
            .map_err(|error| Failure::file(format!("cannot write '{}': {error}", log.display())))?;
        let mut child = Command::new(python)
            .args(["-u", "-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| cannot(error.to_string()))?;
        let station = loopback.station();
        let setup = json!({
            "from": args.from.as_str(), "to": args.to.as_str(), "processes": processes,
            "certificate": station.public, "partner": loopback.partner().public,
            "key": String::from_utf8_lossy(station.private.expose()),
        });
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (mut orders, answers) = pipes.ok_or_else(|| cannot("it has no pipes".to_owned()))?;
        let asked = async {
            orders.write_all(format!("{setup}\n").as_bytes()).await?;
            let mut line = String::new();
            BufReader::new(answers).read_line(&mut line).await?;
            std::io::Result::Ok(line)
        };
        // Why there is no answer the log says better.
        let answer = tokio::time::timeout(PATIENCE, asked).await;
        let answer = answer.ok().and_then(Result::ok).unwrap_or_default();
        let words = answer.trim().split_once(' ');
        let read = words.and_then(|(version, port)| Some((version.to_owned(), port.parse().ok()?)));
        let Some((version, port)) = read else {
            let log = std::fs::read_to_string(&log).unwrap_or_default();
            let last = log.lines().last().unwrap_or("it does not answer");
            return Err(cannot(last.to_owned()));
        };
        Ok(Pyas2lib { child, orders, version, port })
    }

    async fn end(self) -> Result<(), Failure> {
        let Pyas2lib { mut child, orders, .. } = self;
        drop(orders);
        let cannot = |why: String| Failure::start(format!("pyas2lib cannot be stopped: {why}"));
        match tokio::time::timeout(PATIENCE, child.wait()).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(cannot(error.to_string())),
            Err(_) => Err(cannot("it goes on".to_owned())),
        }
    }
}
