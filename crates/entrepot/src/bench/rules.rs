//! `bench rules`: events become jobs, and jobs are done, on a node of its own without entrances.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use entrepot_admin::Document;
use entrepot_crypto::{Sha256, StreamDigest};
use entrepot_journal::Scope;
use entrepot_loadgen::process::spent;
use entrepot_loadgen::{Measure, Report};
use entrepot_nouns::event::FileFact;
use entrepot_nouns::{Env, Fact, Protocol, SiteId};
use entrepot_spawn::Allowed;
use serde_json::json;

use crate::args::{BenchRulesArgs, InitArgs, RulesWorkload};
use crate::ask::ask;
use crate::config::{Config, ExecLimits, Log};
use crate::descriptors::{self, DescriptorPlan};
use crate::failure::{Exit, Failure};
use crate::init;
use crate::log::{self, LogControl};
use crate::parts::private_folder;
use crate::serve::Core;

/// How often it is looked how many jobs are done.
const LOOK: Duration = Duration::from_millis(2);
/// The account whose files arrive.
const ACCOUNT: &str = "bench";

/// Measures every workload as often as asked for, one after the other, each on a new node.
pub(super) async fn run(
    args: &BenchRulesArgs,
    env: &Env,
    tell: impl Fn(&Measure),
) -> Result<Report, Failure> {
    let log = log::start(&Log { level: "error".to_owned(), ..Log::default() })?;
    let mut rounds = Vec::new();
    for _ in 0..args.rounds.max(1) {
        for workload in workloads(args) {
            if args.folder.exists() {
                let folder = args.folder.display();
                return Err(Failure::usage(format!("'{folder}' exists: name a folder to be made")));
            }
            let measured = measure(args, workload, env, &log).await;
            // A node of a bench holds nothing that anybody wants.
            if let Err(error) = std::fs::remove_dir_all(&args.folder) {
                tracing::error!(%error, "the folder of the bench stays");
            }
            let measure = measured?;
            tell(&measure);
            rounds.push(measure);
        }
    }
    Ok(Report::of(rounds))
}

/// What is measured.
pub(super) fn workloads(args: &BenchRulesArgs) -> Vec<RulesWorkload> {
    match args.workloads.as_slice() {
        [] => vec![RulesWorkload::Steps, RulesWorkload::Deliver, RulesWorkload::Exec],
        some => some.to_vec(),
    }
}

impl RulesWorkload {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            RulesWorkload::Steps => "rule-steps",
            RulesWorkload::Deliver => "rule-deliver",
            RulesWorkload::Exec => "rule-exec",
        }
    }

    fn steps(self) -> &'static str {
        match self {
            RulesWorkload::Steps => {
                "[{set: {large: 'file.size > 1000'}}, {check: {that: 'true', message: no}}]"
            }
            RulesWorkload::Deliver => "[{deliver: {endpoint: bench-out, path: '{name}'}}]",
            RulesWorkload::Exec => "[{exec: {argv: [/bin/true]}}]",
        }
    }
}

async fn measure(
    args: &BenchRulesArgs,
    workload: RulesWorkload,
    env: &Env,
    log: &LogControl,
) -> Result<Measure, Failure> {
    let config = prepare(args, workload).await?;
    let facts = files(&args.folder.join("in"), args, env)?;
    let limit = DescriptorPlan::new(descriptors::raise()?, config.workers);
    let core = Core::start(&config, log, limit).await?;
    let done = work(&core, facts, args, env).await;
    core.engine.stop(Duration::from_secs(1)).await;
    core.spawner.stop().await;
    core.vfs.stop().await;
    core.parts.close().await?;
    let Done { seconds, cpu } = done?;
    let units = args.count as f64;
    Ok(Measure {
        workload: workload.as_str().to_owned(),
        unit: "job".to_owned(),
        units,
        seconds,
        rate: units / seconds,
        megabytes_per_second: None,
        latency_ms: None,
        server_cpu_seconds_per_unit: Some(cpu / units),
        client_cpu_seconds_per_unit: None,
        server_bytes_per_unit: None,
        failures: Vec::new(),
        counts: None,
    })
}

/// A new node, with a rule for every file that arrives.
async fn prepare(args: &BenchRulesArgs, workload: RulesWorkload) -> Result<Config, Failure> {
    let made = InitArgs {
        folder: args.folder.clone(),
        data: "data".into(),
        sftp: ([127, 0, 0, 1], 0).into(),
        ftp: None,
        https: None,
        ops: ([127, 0, 0, 1], 0).into(),
        database: args.database.clone(),
        node: None,
        master_key: None,
    };
    let config = init::make(&made).await?;
    let allowed = Allowed::new([PathBuf::from("/bin/true")])
        .map_err(|error| Failure::start(error.to_string()))?;
    let exec = ExecLimits { allowed, ..config.exec.clone() };
    let config = Config { workers: args.places, exec, ..config };
    let folder = std::path::absolute(&args.folder)
        .map_err(|error| Failure::file(format!("'{}': {error}", args.folder.display())))?;
    for inside in ["in", "out"] {
        private_folder(&folder.join(inside))?;
    }
    let text = format!(
        "account: {{name: {ACCOUNT}, type: service}}\n---\n\
         endpoint: {{name: bench-in, target: {{directory: {{path: {}}}}}}}\n---\n\
         endpoint: {{name: bench-out, target: {{directory: {{path: {}}}}}}}\n---\n\
         mount: {{name: bench-in, account: {ACCOUNT}, path: /, endpoint: bench-in}}\n---\n\
         rule: {{name: bench, when: {{event: file.uploaded}}, do: {}}}\n",
        json!(folder.join("in")),
        json!(folder.join("out")),
        workload.steps(),
    );
    let documents = [Document { file: "<bench>".to_owned(), text }];
    ask(&config, json!({"request": "apply", "documents": documents, "prune": false})).await?;
    Ok(config)
}

/// Files that lie in `folder`, and what the events of their uploads say.
fn files(folder: &Path, args: &BenchRulesArgs, env: &Env) -> Result<Vec<FileFact>, Failure> {
    let content = vec![7u8; usize::try_from(args.size).unwrap_or(usize::MAX)];
    let mut digest = StreamDigest::new(Sha256::Unwanted);
    digest.update(&content);
    let digests = digest.finish();
    let mut facts = Vec::with_capacity(args.count);
    for number in 0..args.count {
        let path = folder.join(format!("f{number}"));
        std::fs::write(&path, &content).map_err(|error| {
            Failure::file(format!("cannot write '{}': {error}", path.display()))
        })?;
        facts.push(FileFact {
            transfer: env.new_id(),
            path: format!("/f{number}"),
            size: args.size,
            digests,
            protocol: Protocol::Sftp,
            started_at: env.now(),
            identity: None,
            displaced: None,
            temporary: false,
        });
    }
    Ok(facts)
}

/// What it took.
struct Done {
    seconds: f64,
    /// Seconds of this process.
    cpu: f64,
}

/// Records the events, and waits until the jobs that they start are done.
async fn work(
    core: &Core,
    facts: Vec<FileFact>,
    args: &BenchRulesArgs,
    env: &Env,
) -> Result<Done, Failure> {
    let recorder = &core.parts.recorder;
    let account = Some(ACCOUNT.parse().map_err(|error| Failure::start(format!("{error}")))?);
    let scope = Scope { account, ..Scope::site(SiteId::MAIN) };
    let failed = |text: String| Failure::new("EP0209", Exit::Failed, text);
    let cpu = || spent(std::process::id()).map_or(0.0, |spent| spent.cpu.as_secs_f64());
    let (begun, before) = (env.elapsed(), cpu());
    for file in facts {
        let recorded = recorder.record(&scope, Fact::FileUploaded { file });
        recorded.map_err(|error| failed(error.to_string()))?;
    }
    let journal = recorder.journal();
    journal.sync(journal.usage().appended).await.map_err(|error| failed(error.to_string()))?;
    let meters = core.engine.meters();
    loop {
        let (done, lost) = (&meters.jobs_done, &meters.jobs_failed);
        if lost.load(Ordering::Relaxed) > 0 {
            return Err(failed("a job failed: see its error in the log".to_owned()));
        }
        if done.load(Ordering::Relaxed) >= args.count as u64 {
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    let seconds = env.elapsed().saturating_sub(begun).as_secs_f64();
    Ok(Done { seconds, cpu: cpu() - before })
}
