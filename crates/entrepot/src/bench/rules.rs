//! `bench rules`: events become jobs, and jobs are done, on a node of its own without entrances.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use entrepot_admin::Document;
use entrepot_crypto::{Sha256, StreamDigest, document_version};
use entrepot_db::{DbError, RuleDocument};
use entrepot_engine::{Times, replayed_job};
use entrepot_journal::Scope;
use entrepot_loadgen::process::spent;
use entrepot_loadgen::{Latency, Measure, Report};
use entrepot_nouns::event::FileFact;
use entrepot_nouns::{Digests, Env, Fact, Job, Name, Protocol, ReplayId, Rule, SiteId};
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
/// The rule whose jobs are measured.
const RULE: &str = "bench";
/// How often it is looked how many files of a folder are known.
const LISTED: Duration = Duration::from_millis(500);
/// Listings of a folder in which nothing happens.
const QUIET_LISTINGS: u64 = 10;
/// How often the metrics are read.
const SCRAPES: usize = 200;
/// Jobs that wait are made so many in a transaction.
const WAITING_BATCH: usize = 1_000;

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
            RulesWorkload::Watch => "rule-watch",
            RulesWorkload::Match => "rule-match",
            RulesWorkload::Latency => "rule-latency",
            RulesWorkload::Scrape => "rule-scrape",
        }
    }

    /// What starts the rule, and what it does.
    fn rule(self) -> String {
        let when = match self {
            // It would start on each file, and does on none: what is measured is the watching.
            RulesWorkload::Watch => {
                "{watch: {endpoint: bench-in, path: /, every: 1s, stable: 1s}}, if: 'false'"
            }
            RulesWorkload::Match => "{event: file.uploaded}, if: 'false'",
            _ => "{event: file.uploaded}",
        };
        format!("when: {when}, do: {}", self.steps())
    }

    fn steps(self) -> &'static str {
        match self {
            RulesWorkload::Steps
            | RulesWorkload::Watch
            | RulesWorkload::Match
            | RulesWorkload::Latency
            | RulesWorkload::Scrape => {
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
    let memory = memory_bytes();
    let core = Core::start(&config, log, limit).await?;
    let done = match workload {
        RulesWorkload::Watch => watch(&core, args, memory, env).await,
        _ => match wait(&core, args.waiting, env).await {
            Ok(()) => match workload {
                RulesWorkload::Scrape => Ok(scrape(&core, env).await),
                RulesWorkload::Match => matching(&core, facts, args, env).await,
                RulesWorkload::Latency => one_by_one(&core, facts, env).await,
                _ => work(&core, facts, args, env).await,
            },
            Err(error) => Err(error),
        },
    };
    core.engine.stop(Duration::from_secs(1)).await;
    core.spawner.stop().await;
    core.vfs.stop().await;
    core.parts.close().await?;
    let Done { unit, units, seconds, cpu, taken, latency_ms } = done?;
    let more = match (workload, args.waiting) {
        (RulesWorkload::Watch, _) => format!("-{}-files", args.count),
        (RulesWorkload::Match, _) => format!("-{}-rules", args.rules),
        (_, 0) => String::new(),
        (_, count) => format!("-{count}-waiting"),
    };
    Ok(Measure {
        workload: format!("{}{more}", workload.as_str()),
        users: None,
        unit: unit.to_owned(),
        units,
        seconds,
        rate: units / seconds,
        megabytes_per_second: None,
        latency_ms,
        server_cpu_seconds_per_unit: Some(cpu / units),
        client_cpu_seconds_per_unit: None,
        server_bytes_per_unit: taken,
        server_threads_per_unit: None,
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
         rule: {{name: {RULE}, {}}}\n",
        json!(folder.join("in")),
        json!(folder.join("out")),
        workload.rule(),
    );
    let text = match workload {
        RulesWorkload::Match => text + &lookers(args.rules),
        _ => text,
    };
    let documents = [Document { file: "<bench>".to_owned(), text }];
    ask(&config, json!({"request": "apply", "documents": documents, "prune": false})).await?;
    Ok(config)
}

/// Rules that start on files of folders in which nothing arrives.
fn lookers(count: usize) -> String {
    let rule = |number: usize| {
        format!(
            "---\nrule: {{name: looks-{number}, when: {{event: file.uploaded}}, \
             if: \"file.path.startsWith('/partner-{number}/')\", do: [{{delete: {{}}}}]}}\n"
        )
    };
    (0..count).map(rule).collect()
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
        facts.push(fact(env, number, args.size, digests));
    }
    Ok(facts)
}

/// What the event of an upload says.
fn fact(env: &Env, number: usize, size: u64, digests: Digests) -> FileFact {
    FileFact {
        transfer: env.new_id(),
        path: format!("/f{number}"),
        size,
        digests,
        protocol: Protocol::Sftp,
        started_at: env.now(),
        identity: None,
        displaced: None,
        temporary: false,
        as2: None,
    }
}

/// Makes jobs that wait: each has failed once, and is tried again at some time of the day after
/// tomorrow. They lie among each other, as those of partners that are away do.
async fn wait(core: &Core, count: usize, env: &Env) -> Result<(), Failure> {
    let failed = |error: DbError| failed(error.to_string());
    let db = &core.parts.db;
    let name: Name = RULE.parse().map_err(|error| Failure::start(format!("{error}")))?;
    let Some(rule) = db.find::<Rule>(SiteId::MAIN, &name).await.map_err(failed)? else {
        return Err(Failure::start("the rule of the bench is gone".to_owned()));
    };
    let document = RuleDocument::of(&rule, document_version);
    let document = document.map_err(|error| Failure::start(error.to_string()))?;
    let (now, day) = (env.now(), Duration::from_secs(86_400));
    for part in 0..count.div_ceil(WAITING_BATCH) {
        let first = part * WAITING_BATCH;
        let jobs = (first..count.min(first + WAITING_BATCH)).map(|number| {
            let fact = Fact::FileUploaded { file: fact(env, number, 1_024, Digests::default()) };
            let event = core.parts.recorder.event(&Scope::site(SiteId::MAIN), fact);
            // As far apart as their numbers are not.
            let second = (number as u64).wrapping_mul(7_919) % day.as_secs();
            let due_at = now.plus(day).plus(day).plus(Duration::from_secs(second));
            let job = replayed_job(&event, &rule, ReplayId(env.new_id()), now);
            let rule_version = Some(document.version.clone());
            Job { due_at, rule_version, attempts: 1, epoch: 1, ..job }
        });
        let jobs: Vec<Job> = jobs.collect();
        let mut tx = db.begin().await.map_err(failed)?;
        let documents = std::slice::from_ref(&document);
        tx.insert_jobs(&jobs, documents, now).await.map_err(failed)?;
        tx.commit().await.map_err(failed)?;
    }
    Ok(())
}

/// What it took.
struct Done {
    /// What one unit is.
    unit: &'static str,
    units: f64,
    seconds: f64,
    /// Seconds of this process.
    cpu: f64,
    /// Bytes of memory, where they are looked at.
    taken: Option<f64>,
    /// Of claims of jobs, or of listings.
    latency_ms: Option<Latency>,
}

/// Seconds of this process.
fn cpu_seconds() -> f64 {
    spent(std::process::id()).map_or(0.0, |spent| spent.cpu.as_secs_f64())
}

fn memory_bytes() -> f64 {
    spent(std::process::id()).map_or(0.0, |spent| spent.memory_bytes as f64)
}

fn latency(times: &Times) -> Option<Latency> {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    (times.count() > 0).then(|| Latency {
        p50: ms(times.quantile(500)),
        p95: ms(times.quantile(950)),
        p99: ms(times.quantile(990)),
        max: ms(times.longest()),
    })
}

/// Waits until all files of the folder are known, and lets the folder be listed for a while in
/// which nothing happens to it. `memory`: bytes that the process had before.
async fn watch(
    core: &Core,
    args: &BenchRulesArgs,
    memory: f64,
    env: &Env,
) -> Result<Done, Failure> {
    let failed = |error: DbError| failed(error.to_string());
    let db = &core.parts.db;
    let name: Name = RULE.parse().map_err(|error| Failure::start(format!("{error}")))?;
    let rule = db.find::<Rule>(SiteId::MAIN, &name).await.map_err(failed)?;
    let rule = rule.ok_or_else(|| Failure::start("the rule of the bench is gone".to_owned()))?;
    while db.watched_files(rule.id).await.map_err(failed)?.len() < args.count {
        tokio::time::sleep(LISTED).await;
    }
    let listings = &core.engine.meters().listings;
    // The one that found the last of them may not have ended.
    let first = listings.count() + 1;
    while listings.count() < first {
        tokio::time::sleep(LOOK).await;
    }
    let (begun, cpu) = (env.elapsed(), cpu_seconds());
    while listings.count() < first + QUIET_LISTINGS {
        tokio::time::sleep(LOOK).await;
    }
    let seconds = env.elapsed().saturating_sub(begun).as_secs_f64();
    Ok(Done {
        unit: "listing",
        units: QUIET_LISTINGS as f64,
        seconds,
        cpu: cpu_seconds() - cpu,
        taken: Some(memory_bytes() - memory),
        latency_ms: latency(listings),
    })
}

/// Reads the metrics of the node again and again.
async fn scrape(core: &Core, env: &Env) -> Done {
    let metrics = core.metrics();
    let mut times = Vec::new();
    let cpu = cpu_seconds();
    for _ in 0..SCRAPES {
        let begun = env.elapsed();
        metrics.encode(Vec::new()).await;
        times.push(env.elapsed().saturating_sub(begun).as_secs_f64() * 1e3);
    }
    timed("scrape", times, cpu)
}

/// What took each of these milliseconds; the process had taken `cpu` seconds before.
fn timed(unit: &'static str, mut times: Vec<f64>, cpu: f64) -> Done {
    times.sort_by(f64::total_cmp);
    let at = |part: usize| times.get(times.len() * part / 100).or(times.last()).copied();
    let [p50, p95, p99, max] = [50, 95, 99, 100].map(|part| at(part).unwrap_or_default());
    Done {
        unit,
        units: times.len() as f64,
        seconds: times.iter().sum::<f64>() / 1e3,
        cpu: cpu_seconds() - cpu,
        taken: None,
        latency_ms: Some(Latency { p50, p95, p99, max }),
    }
}

/// Records one event after the other, each when the job of the one before is done.
async fn one_by_one(core: &Core, facts: Vec<FileFact>, env: &Env) -> Result<Done, Failure> {
    let (mut times, cpu, scope) = (Vec::new(), cpu_seconds(), scope()?);
    for file in facts {
        let done = &core.engine.meters().jobs_done;
        let before = done.load(Ordering::Relaxed);
        let recorded = core.parts.recorder.record_durable(&scope, Fact::FileUploaded { file });
        recorded.await.map_err(|error| failed(error.to_string()))?;
        let begun = env.elapsed();
        while done.load(Ordering::Relaxed) == before {
            tokio::time::sleep(LOOK).await;
        }
        times.push(env.elapsed().saturating_sub(begun).as_secs_f64() * 1e3);
    }
    Ok(timed("job", times, cpu))
}

/// Records the events, and waits until they are in the database.
async fn matching(
    core: &Core,
    facts: Vec<FileFact>,
    args: &BenchRulesArgs,
    env: &Env,
) -> Result<Done, Failure> {
    let scope = scope()?;
    let (begun, cpu) = (env.elapsed(), cpu_seconds());
    let journal = core.parts.recorder.journal();
    for file in facts {
        let recorded = core.parts.recorder.record(&scope, Fact::FileUploaded { file });
        recorded.map_err(|error| failed(error.to_string()))?;
    }
    let last = journal.usage().appended;
    journal.sync(last).await.map_err(|error| failed(error.to_string()))?;
    let node = core.parts.recorder.node_id();
    let reached = || core.parts.db.projected_up_to(node);
    while reached().await.map_err(|error| failed(error.to_string()))? < last {
        tokio::time::sleep(LOOK).await;
    }
    Ok(Done {
        unit: "event",
        units: args.count as f64,
        seconds: env.elapsed().saturating_sub(begun).as_secs_f64(),
        cpu: cpu_seconds() - cpu,
        taken: None,
        latency_ms: None,
    })
}

/// Whose files arrive.
fn scope() -> Result<Scope, Failure> {
    let account = Some(ACCOUNT.parse().map_err(|error| Failure::start(format!("{error}")))?);
    Ok(Scope { account, ..Scope::site(SiteId::MAIN) })
}

fn failed(text: String) -> Failure {
    Failure::new("EP0209", Exit::Failed, text)
}

/// Records the events, and waits until the jobs that they start are done.
async fn work(
    core: &Core,
    facts: Vec<FileFact>,
    args: &BenchRulesArgs,
    env: &Env,
) -> Result<Done, Failure> {
    let recorder = &core.parts.recorder;
    let scope = scope()?;
    let (begun, before) = (env.elapsed(), cpu_seconds());
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
    Ok(Done {
        unit: "job",
        units: args.count as f64,
        seconds,
        cpu: cpu_seconds() - before,
        taken: None,
        latency_ms: latency(&meters.claims),
    })
}
