//! `doctor`: looks at what a server needs and says what to do about what it finds.

use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use entrepot_db::{Db, DbOptions};
use entrepot_nouns::{Env, Timestamp};
use serde::Serialize;

use crate::config::{Config, MasterKeySource};
use crate::descriptors::{self, DescriptorPlan};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::parts::master_key;
use crate::sandbox::{self, Apart};

/// Number of syncs that are measured; the report shows their median.
const SYNCS: usize = 32;
/// A durable upload waits for about three syncs; above this each one is felt.
const SLOW_SYNC: Duration = Duration::from_millis(10);
/// A database farther away than this delays configuration, not uploads.
const SLOW_DATABASE: Duration = Duration::from_millis(20);
/// Descriptors for a few thousand sessions.
const DESCRIPTORS: u64 = 8192;
/// Free space below which the next large upload fails.
const FREE_BYTES: u64 = 1 << 30;
/// Send buffers for 1 Gbit/s at 50 ms round trip.
const WAN_BUFFER_BYTES: u64 = 12 << 20;
/// No clock of a machine that runs this program shows an earlier time.
const EARLIEST: Timestamp = Timestamp(1_767_225_600_000_000);

/// One thing looked at.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    verdict: Verdict,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Good,
    Warning,
    Bad,
}

impl Check {
    fn good(name: &'static str, found: impl Into<String>) -> Check {
        Check { name, verdict: Verdict::Good, found: found.into(), advice: None }
    }

    fn bad(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Check {
        Check { name, verdict: Verdict::Bad, found: found.into(), advice: Some(advice.into()) }
    }

    fn warning(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Check {
        Check { verdict: Verdict::Warning, ..Check::bad(name, found, advice) }
    }
}

/// Runs `doctor`; exit code 6 if anything is bad.
pub(crate) async fn run(config: &Config, output: Output) -> Result<(), Failure> {
    let env = Env::real();
    let checks = vec![
        Check::good("process file", config.file.display().to_string()),
        data_folder(&config.data),
        key(&config.master_key),
        clock(&env),
        space(&config.data),
        sync_speed(&env, &config.data),
        database(&config.database).await,
        descriptors(config.workers),
        wan_buffers(),
        programs(config),
        journal(config),
    ];
    output.rows(&checks, |checks| {
        for check in checks {
            let mark = match check.verdict {
                Verdict::Good => "ok  ",
                Verdict::Warning => "warn",
                Verdict::Bad => "BAD ",
            };
            println!("{mark}  {:<14} {}", check.name, check.found);
            if let Some(advice) = &check.advice {
                println!("      {:<14} → {advice}", "");
            }
        }
    })?;
    match checks.iter().filter(|check| check.verdict == Verdict::Bad).count() {
        0 => Ok(()),
        bad => Err(Failure::new("EP0208", Exit::Findings, format!("{bad} checks are bad"))),
    }
}

fn data_folder(data: &Path) -> Check {
    const NAME: &str = "data directory";
    let found = data.display().to_string();
    match std::fs::metadata(data) {
        Err(error) => Check::bad(NAME, format!("{found}: {error}"), "make it: entrepot init"),
        Ok(meta) if meta.permissions().mode() & 0o077 != 0 => {
            Check::bad(NAME, format!("{found} is open to others"), format!("chmod 700 {found}"))
        }
        Ok(meta) if meta.uid() != rustix::process::geteuid().as_raw() => Check::warning(
            NAME,
            format!("{found} belongs to user {}", meta.uid()),
            "run the server and its commands as that user",
        ),
        Ok(_) => Check::good(NAME, found),
    }
}

fn key(source: &MasterKeySource) -> Check {
    let found = match source {
        MasterKeySource::File(path) => path.display().to_string(),
        MasterKeySource::Environment(name) => format!("environment variable {name}"),
    };
    match master_key(source) {
        Ok(_) => Check::good("master key", found),
        Err(failure) => Check::bad(
            "master key",
            failure.message,
            "restore it from your backup: without it sealed secrets cannot be read",
        ),
    }
}

fn clock(env: &Env) -> Check {
    let now = env.now();
    if now < EARLIEST {
        Check::bad("clock", now.to_string(), "set the clock: expiry dates depend on it")
    } else {
        Check::good("clock", now.to_string())
    }
}

fn space(data: &Path) -> Check {
    match rustix::fs::statvfs(data) {
        Err(error) => Check::bad("disk space", error.to_string(), "check the data directory"),
        Ok(stat) => {
            let free = stat.f_bavail.saturating_mul(stat.f_frsize);
            let found = format!("{} free, {} inodes", crate::table::bytes(free), stat.f_favail);
            if free < FREE_BYTES {
                Check::warning("disk space", found, "make room before uploads fail")
            } else {
                Check::good("disk space", found)
            }
        }
    }
}

/// Median of small durable writes, the price of one acknowledged upload being about three.
fn sync_speed(env: &Env, data: &Path) -> Check {
    const NAME: &str = "disk sync";
    match measure_syncs(env, data) {
        Err(error) => Check::bad(NAME, error.to_string(), "check the data directory"),
        Ok(median) => {
            let found = format!("{:.3} ms a sync (median of {SYNCS})", median.as_secs_f64() * 1e3);
            if median > SLOW_SYNC {
                Check::warning(NAME, found, "use a disk with a protected write cache")
            } else {
                Check::good(NAME, found)
            }
        }
    }
}

fn measure_syncs(env: &Env, data: &Path) -> std::io::Result<Duration> {
    let path = data.join(".doctor-sync");
    let mut file = std::fs::File::create(&path)?;
    let mut times = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        let before = env.elapsed();
        file.write_all(&[0; 4096])?;
        file.sync_data()?;
        times.push(env.elapsed().saturating_sub(before));
    }
    std::fs::remove_file(&path)?;
    times.sort();
    Ok(times.get(SYNCS / 2).copied().unwrap_or_default())
}

async fn database(url: &str) -> Check {
    const NAME: &str = "database";
    let advice = "check the URL and that the database runs; open sessions go on meanwhile";
    let db = match Db::open(url, DbOptions::default()).await {
        Ok(db) => db,
        Err(error) => return Check::bad(NAME, error.to_string(), advice),
    };
    match db.ping().await {
        Err(error) => Check::bad(NAME, error.to_string(), advice),
        Ok(time) => {
            let found = format!("{} in {:.3} ms", db.dialect(), time.as_secs_f64() * 1e3);
            if time > SLOW_DATABASE {
                Check::warning(NAME, found, "bring the database nearer")
            } else {
                Check::good(NAME, found)
            }
        }
    }
}

fn descriptors(workers: usize) -> Check {
    const NAME: &str = "descriptors";
    let allowed = descriptors::allowed();
    let plan = DescriptorPlan::new(allowed, workers);
    let found = format!("{allowed}, of which {} for sessions and their files", plan.accounts);
    let advice = |least| format!("allow {least} or more: LimitNOFILE= in the unit, or ulimit -Hn");
    if allowed < descriptors::LEAST {
        Check::bad(NAME, found, advice(descriptors::LEAST))
    } else if allowed < DESCRIPTORS {
        Check::warning(NAME, found, advice(DESCRIPTORS))
    } else {
        Check::good(NAME, found)
    }
}

fn programs(config: &Config) -> Check {
    const NAME: &str = "programs";
    match sandbox::found(config) {
        Err(failure) => Check::bad(NAME, failure.message, "correct [exec] in the process file"),
        Ok(Apart::Not) => Check::warning(
            NAME,
            sandbox::NOT_APART,
            "name a user for them: [exec] user = \"…\" in the process file",
        ),
        Ok(apart) => Check::good(NAME, apart.to_string()),
    }
}

fn wan_buffers() -> Check {
    const NAME: &str = "send buffers";
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_wmem").unwrap_or_default();
    let most: Option<u64> = text.split_whitespace().nth(2).and_then(|number| number.parse().ok());
    match most {
        None => Check::warning(NAME, "cannot be read", "look at net.ipv4.tcp_wmem yourself"),
        Some(most) if most < WAN_BUFFER_BYTES => Check::warning(
            NAME,
            format!("at most {}", crate::table::bytes(most)),
            "for long distances: sysctl net.ipv4.tcp_wmem='4096 16384 16777216'",
        ),
        Some(most) => Check::good(NAME, format!("at most {}", crate::table::bytes(most))),
    }
}

fn journal(config: &Config) -> Check {
    let folder = config.journal();
    if !folder.is_dir() {
        return Check::good("journal", "none yet: it is made at the first start");
    }
    match entrepot_journal::verify(&folder) {
        Err(error) => Check::bad("journal", error.to_string(), "see docs/errors"),
        Ok(report) if !report.is_intact() => Check::bad(
            "journal",
            "the chain is broken",
            "run 'entrepot journal verify' and keep the folder as evidence",
        ),
        Ok(report) => Check::good("journal", format!("{} records, chain intact", report.records)),
    }
}
