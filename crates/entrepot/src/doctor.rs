//! `doctor`: looks at what a server needs and says what to do about what it finds.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use entrepot_db::{AcmeFailure, AcmeOrder, Db, DbError, DbOptions, ListenerPlace, OldTables};
use entrepot_nouns::{
    Endpoint, EndpointTarget, Env, Listener, Name, Site, SiteId, Stored, Timestamp,
};
use serde::Serialize;

use crate::config::{Config, MasterKeySource};
use crate::descriptors::{self, DescriptorPlan};
use crate::failure::{Exit, Failure};
use crate::local_copy::LocalCopy;
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
    let mut checks = vec![
        process_file(config),
        data_folder(&config.data),
        key(&config.master_key),
        clock(&env),
        space(&config.data),
        sync_speed(&env, &config.data),
    ];
    checks.extend(database(&config.database).await);
    checks.extend(configuration_copy(config));
    checks.extend([descriptors(config.workers), wan_buffers(), programs(config), journal(config)]);
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

/// It may hold the password of the database, and says which programs the server starts.
fn process_file(config: &Config) -> Check {
    const NAME: &str = "process file";
    let found = config.file.display().to_string();
    let meta = match std::fs::metadata(&config.file) {
        Ok(meta) => meta,
        Err(error) => return Check::bad(NAME, format!("{found}: {error}"), "restore it"),
    };
    let (mode, advice) = (meta.permissions().mode() & 0o777, format!("chmod 600 {found}"));
    if mode & 0o022 != 0 {
        return Check::bad(NAME, format!("{found} can be changed by others"), advice);
    }
    // A package gives it to root, and to the group of the server to read.
    let is_of_root = meta.uid() == 0 && mode & 0o037 == 0;
    if mode & 0o077 == 0 || is_of_root {
        return Check::good(NAME, found);
    }
    if has_password(&config.database) {
        let found = format!("{found} can be read by others, with the password of the database");
        return Check::bad(NAME, found, advice);
    }
    Check::warning(NAME, format!("{found} can be read by others"), advice)
}

/// True of a URL with a password before its host, or among its parameters.
fn has_password(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let (before, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let user = before.rsplit_once('@').map_or("", |(user, _)| user);
    user.contains(':') || parameters.split('&').any(|it| it.starts_with("password="))
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

/// The database, and what can be seen in it.
async fn database(url: &str) -> Vec<Check> {
    let options = DbOptions { old_tables: OldTables::Refuse, ..DbOptions::default() };
    match Db::open(url, options).await {
        Ok(db) => {
            let mut checks = vec![database_speed(&db).await];
            match entrances(&db).await {
                Ok(found) => {
                    checks.extend([clear_text(&found), login_hooks(&found), directories(&found)]);
                    checks.extend(certificates(&found));
                }
                Err(error) => {
                    checks.push(Check::bad("listeners", error.to_string(), DATABASE_ADVICE));
                }
            }
            checks
        }
        Err(error @ DbError::Outdated { .. }) => {
            let advice = "make a backup, then run 'entrepot migrate' or start the server";
            vec![Check::bad("database", error.to_string(), advice)]
        }
        Err(error) => vec![Check::bad("database", error.to_string(), DATABASE_ADVICE)],
    }
}

const DATABASE_ADVICE: &str =
    "check the URL and that the database runs; open sessions go on meanwhile";

async fn database_speed(db: &Db) -> Check {
    const NAME: &str = "database";
    let advice = DATABASE_ADVICE;
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

/// What the node starts from while the database is away.
fn configuration_copy(config: &Config) -> Option<Check> {
    const NAME: &str = "copy";
    if config.database.starts_with("sqlite:") {
        return None;
    }
    // A key that cannot be read is a finding of its own.
    let master = master_key(&config.master_key).ok()?;
    Some(match LocalCopy::new(&config.data, master).read() {
        Ok(kept) => {
            let (nouns, at) = (kept.configuration.nouns(), kept.written_at);
            let revision = kept.configuration.revision;
            let found = format!("of {at}, revision {revision}, {nouns} nouns");
            Check::good(NAME, format!("{found}: starts also while the database is away"))
        }
        Err(error) => {
            let advice = "until it serves with its database, the node cannot start without it";
            Check::warning(NAME, error.to_string(), advice)
        }
    })
}

/// Sites, the listeners that are enabled, and what stands behind them.
#[derive(Default)]
struct Entrances {
    sites: Vec<Site>,
    listeners: Vec<Listener>,
    endpoints: Vec<Endpoint>,
    /// Listeners with a certificate from an authority, and what is known of it.
    certificates: Vec<(Name, AcmeOrder)>,
    /// How many nodes serve them.
    nodes: usize,
}

async fn entrances(db: &Db) -> entrepot_db::Result<Entrances> {
    let mut found = Entrances::default();
    let orders = db.acme_orders().await?;
    let mut orders: BTreeMap<ListenerPlace, AcmeOrder> = orders.into_iter().collect();
    for Stored { id, noun, .. } in db.sites().await? {
        let listeners = db.list::<Listener>(SiteId::from(id)).await?;
        let listeners = listeners.into_iter().map(|stored| stored.noun);
        for listener in listeners.filter(|listener| listener.enabled) {
            if listener.tls.acme.is_some() {
                let (site, name) = (SiteId::from(id), listener.name.clone());
                let order = orders.remove(&ListenerPlace { site, listener: name });
                found.certificates.push((listener.name.clone(), order.unwrap_or_default()));
            }
            found.listeners.push(listener);
        }
        let endpoints = db.list::<Endpoint>(SiteId::from(id)).await?;
        found.endpoints.extend(endpoints.into_iter().map(|stored| stored.noun));
        found.sites.push(noun);
    }
    found.nodes = db.nodes().await?.len();
    Ok(found)
}

/// Listeners that let passwords or files cross the network in clear text.
fn clear_text(entrances: &Entrances) -> Check {
    const NAME: &str = "listeners";
    let enabled = &entrances.listeners;
    let clear = |listener: &Listener| {
        let what = listener.clear_text()?.as_str();
        Some(format!("'{}' lets {what} cross the network in clear text", listener.name))
    };
    let clear: Vec<String> = enabled.iter().filter_map(clear).collect();
    if clear.is_empty() {
        Check::good(NAME, format!("{} enabled, none in clear text", enabled.len()))
    } else {
        let advice = "require TLS: entrepot listener change NAME ftp.tls=explicit \
                      ftp.tls_required=login-and-data (EP0280)";
        Check::warning(NAME, clear.join("; "), advice)
    }
}

/// Certificates that authorities (ACME) have not given; none where no listener asks for one.
fn certificates(entrances: &Entrances) -> Option<Check> {
    const NAME: &str = "certificates";
    let known = &entrances.certificates;
    let failed = known.iter().filter_map(|(listener, order)| {
        let failure = order.failure.as_ref()?;
        let AcmeFailure { code, problem, retry_at, .. } = failure;
        Some(format!("'{listener}' got none: {problem} ({code}); tried again on {retry_at}"))
    });
    let failed: Vec<String> = failed.collect();
    if failed.is_empty() {
        let came = known.iter().filter(|(_, order)| order.issued.is_some()).count();
        let found = format!("{came} of {} from authorities have come", known.len());
        return (!known.is_empty()).then(|| Check::good(NAME, found));
    }
    let advice = "correct what is named, then: entrepot listener renew-certificate NAME";
    Some(Check::warning(NAME, failed.join("; "), advice))
}

/// Directories that several nodes may write to without knowing of each other.
fn directories(entrances: &Entrances) -> Check {
    const NAME: &str = "directories";
    let endpoints = entrances.endpoints.iter();
    let directories =
        endpoints.filter(|found| matches!(found.target, EndpointTarget::Directory(_)));
    let (shared, own): (Vec<_>, Vec<_>) = directories.partition(|found| found.target.is_shared());
    if entrances.nodes < 2 || own.is_empty() {
        let (all, shared) = (shared.len() + own.len(), shared.len());
        return Check::good(NAME, format!("{all}, {shared} of them shared"));
    }
    let names: Vec<String> = own.iter().map(|found| format!("'{}'", found.name)).collect();
    let found = format!("{} nodes, and {} not shared", entrances.nodes, names.join(", "));
    let advice = "if it is one directory for all nodes: entrepot endpoint change NAME \
                  target.directory.shared=true (EP0271)";
    Check::warning(NAME, found, advice)
}

/// Login hooks that may let anybody in as any account but administrators.
fn login_hooks(entrances: &Entrances) -> Check {
    const NAME: &str = "login hooks";
    let sites = entrances.sites.iter().map(|site| ("site", &site.name, &site.login));
    let listeners = entrances.listeners.iter();
    let listeners = listeners.map(|listener| ("listener", &listener.name, &listener.login));
    let asked = sites.chain(listeners).filter_map(|(kind, name, login)| {
        let check = login.as_ref()?;
        Some((check.accounts.is_none(), format!("of {kind} '{name}'")))
    });
    let (open, listed): (Vec<_>, Vec<_>) = asked.partition(|(is_open, _)| *is_open);
    if open.is_empty() {
        return Check::good(NAME, format!("{}, all with a list of accounts", listed.len()));
    }
    let names: Vec<String> = open.into_iter().map(|(_, name)| name).collect();
    let found = format!("the one {} lets in as any account", names.join(", the one "));
    Check::warning(NAME, found, "name the accounts or groups it is for in login.accounts")
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
        Ok(report) if report.torn_bytes > 0 && report.findings_total == 1 => Check::warning(
            "journal",
            format!("{} records, then {} torn bytes", report.records, report.torn_bytes),
            "start the server, or run 'entrepot migrate': it sets them aside",
        ),
        Ok(report) if !report.is_intact() => Check::bad(
            "journal",
            "the chain is broken",
            "run 'entrepot journal verify' and keep the folder as evidence",
        ),
        Ok(report) => Check::good("journal", format!("{} records, chain intact", report.records)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_urls_are_seen() {
        for url in [
            "postgres://user:secret@host/name",
            "postgresql://user:p%40ss@[::1]:5432/name?sslmode=require",
            "postgres://host/name?user=u&password=secret",
        ] {
            assert!(has_password(url), "{url}");
        }
        for url in ["sqlite:///srv/a:b/entrepot.db", "postgres://user@host:5432/name"] {
            assert!(!has_password(url), "{url}");
        }
    }
}
