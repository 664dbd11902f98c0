//! `/metrics`: the meters of every part, read when asked (OpenMetrics 1.0 text).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use entrepot_auth::Gate;
use entrepot_db::{Db, DbError, JobCounts, LaneCounts};
use entrepot_engine::Engine;
use entrepot_host::{Gauge, ModelFigures, StateGauge};
use entrepot_journal::{Recorder, SYNC_BUCKETS_US};
use entrepot_net::guard::UnauthenticatedConnections;
use entrepot_nouns::{Direction, Pool, Protocol, Timestamp};
use entrepot_proof::SinkMeters;
use entrepot_ssh::wire;
use entrepot_vfs::{Service, UploadEnd};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

/// Longest wait for the database when asked for metrics.
const DATABASE_TIME: Duration = Duration::from_secs(1);

/// Most lanes of jobs that are added up.
const LANES_READ: usize = 10_000;
/// Most lanes of jobs that are told apart: those in which most wait.
const LANE_ROWS: usize = 64;

/// Most kinds of client software that are told apart.
const CLIENT_ROWS: usize = 32;

type Encoded = Result<(), fmt::Error>;
/// Labels of one sample.
type Labels<'a, const N: usize> = [(&'static str, &'a str); N];

/// What metrics are read from.
pub(crate) struct MetricsParts {
    pub(crate) recorder: Recorder,
    pub(crate) vfs: Service,
    pub(crate) gate: Gate,
    pub(crate) engine: Arc<Engine>,
    pub(crate) db: Db,
    pub(crate) unauthenticated: UnauthenticatedConnections,
}

/// Reads all meters. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Metrics(Arc<MetricsParts>);

impl Metrics {
    pub(crate) fn new(parts: MetricsParts) -> Self {
        Metrics(Arc::new(parts))
    }

    /// The text that a scraper gets. Jobs are missing while the database is away.
    pub(crate) async fn encode(&self, sinks: Vec<Arc<SinkMeters>>) -> String {
        let counted = async {
            let lanes = self.0.db.busy_lanes(LANES_READ).await?;
            Ok::<_, DbError>(JobsScrape { counts: self.0.db.job_counts().await?, lanes })
        };
        let jobs = tokio::time::timeout(DATABASE_TIME, counted).await;
        let jobs = jobs.ok().and_then(Result::ok);
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Scrape { parts: self.0.clone(), jobs, sinks }));
        let mut text = String::new();
        if prometheus_client::encoding::text::encode(&mut text, &registry).is_err() {
            tracing::error!("metrics cannot be written");
        }
        text
    }
}

/// What the database says of jobs.
struct JobsScrape {
    counts: JobCounts,
    lanes: Vec<LaneCounts>,
}

/// One answer to a scraper.
struct Scrape {
    parts: Arc<MetricsParts>,
    jobs: Option<JobsScrape>,
    sinks: Vec<Arc<SinkMeters>>,
}

impl fmt::Debug for Scrape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scrape")
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Encoded {
        self.sessions_and_logins(&mut encoder)?;
        self.budgets(&mut encoder)?;
        self.bytes_and_transfers(&mut encoder)?;
        self.stores(&mut encoder)?;
        self.journal(&mut encoder)?;
        self.engine(&mut encoder)?;
        self.sinks(&mut encoder)?;
        self.host_sessions(&mut encoder)?;
        self.jobs(&mut encoder)
    }
}

impl Scrape {
    fn sessions_and_logins(&self, encoder: &mut DescriptorEncoder) -> Encoded {
        let meters = self.parts.vfs.meters();
        gauge(encoder, "entrepot_sessions", "Open sessions.", meters.sessions() as f64)?;
        self.sessions_by(encoder)?;
        let logins = self.parts.gate.meters();
        let mut family = counter(encoder, "entrepot_logins", "Logins by result.")?;
        sample(&mut family, [("result", "granted")], logins.granted())?;
        sample(&mut family, [("result", "refused")], logins.refused())?;
        sample(&mut family, [("result", "limited")], logins.limited())?;
        self.without_login(encoder)
    }

    /// Connections that have not logged in.
    fn without_login(&self, encoder: &mut DescriptorEncoder) -> Encoded {
        let counts = self.parts.unauthenticated.counts();
        let name = "entrepot_connections_without_login";
        let mut family = gauges(encoder, name, "Open connections that have not logged in.")?;
        for (state, count) in [("waiting", counts.waiting), ("checking", counts.checking)] {
            family.encode_family(&[("state", state)])?.encode_gauge(&(count as f64))?;
        }
        let about = "Connections without a login that found no room, or gave way to another one.";
        let mut family = counter(encoder, "entrepot_connections_turned_away", about)?;
        sample(&mut family, [("how", "refused")], counts.refused)?;
        sample(&mut family, [("how", "gave-way")], counts.evicted)
    }

    /// What accounts share: how much of it is in use, and how often there was none.
    fn budgets(&self, encoder: &mut DescriptorEncoder) -> Encoded {
        let budgets = self.parts.vfs.budgets();
        let about = "In use, of what accounts share.";
        let mut family = gauges(encoder, "entrepot_budget_used", about)?;
        for budget in &budgets {
            family.encode_family(&[("kind", budget.kind)])?.encode_gauge(&(budget.used as f64))?;
        }
        let about = "How much there is of what accounts share.";
        let mut family = gauges(encoder, "entrepot_budget_limit", about)?;
        for budget in &budgets {
            let limit = budget.limit as f64;
            family.encode_family(&[("kind", budget.kind)])?.encode_gauge(&limit)?;
        }
        let about = "How often an account had its share, or nothing was left.";
        let mut family = counter(encoder, "entrepot_budget_refused", about)?;
        for budget in &budgets {
            sample(&mut family, [("kind", budget.kind)], budget.refused)?;
        }
        Ok(())
    }

    /// Sessions by the algorithms and by the software of the client, without its version.
    fn sessions_by(&self, encoder: &mut DescriptorEncoder) -> Encoded {
        let mut algorithms: BTreeMap<String, u64> = BTreeMap::new();
        let mut clients: BTreeMap<String, u64> = BTreeMap::new();
        for session in self.parts.vfs.sessions() {
            *algorithms.entry(session.algorithms).or_default() += 1;
            let software = wire::software(&session.client);
            let name = software.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            // A client chooses its name: one that chooses many makes no more rows than this.
            let known = clients.len() < CLIENT_ROWS || clients.contains_key(name);
            *clients.entry(if known { name } else { "other" }.to_owned()).or_default() += 1;
        }
        let name = "entrepot_sessions_by_algorithms";
        let mut family = gauges(encoder, name, "Open sessions by SSH algorithms.")?;
        for (algorithms, count) in &algorithms {
            let labels = [("algorithms", algorithms.as_str())];
            family.encode_family(&labels)?.encode_gauge(&(*count as f64))?;
        }
        let name = "entrepot_sessions_by_client";
        let mut family = gauges(encoder, name, "Open sessions by client software.")?;
        for (client, count) in &clients {
            let labels = [("client", client.as_str())];
            family.encode_family(&labels)?.encode_gauge(&(*count as f64))?;
        }
        Ok(())
    }

    fn bytes_and_transfers(&self, encoder: &mut DescriptorEncoder) -> Encoded {
        let meters = self.parts.vfs.meters();
        let mut family = counter(encoder, "entrepot_bytes", "Bytes of files moved.")?;
        for direction in [Direction::In, Direction::Out] {
            for protocol in Protocol::ALL {
                let labels = [("direction", direction.as_str()), ("protocol", protocol.as_str())];
                sample(&mut family, labels, meters.bytes(direction, protocol))?;
            }
        }
        let mut family = counter(encoder, "entrepot_transfers", "Transfers that ended, by state.")?;
        for end in UploadEnd::ALL {
            let labels = [("direction", "in"), ("state", end.as_str())];
            sample(&mut family, labels, meters.uploads(end))?;
        }
        let labels = [("direction", "out"), ("state", "completed")];
        sample(&mut family, labels, meters.downloads())?;
        let about = "Uploads that went over the local disk to a store that takes bytes in order.";
        let mut family = counter(encoder, "entrepot_spooled_uploads", about)?;
        family.encode_counter::<NoLabelSet, u64, f64>(&meters.spooled(), None)?;
        let about = "What they have there now.";
        gauge(encoder, "entrepot_spool_bytes", about, meters.spool_bytes() as f64)?;
        let mut family = gauges(encoder, "entrepot_active_transfers", "Transfers running now.")?;
        for direction in [Direction::In, Direction::Out] {
            let labels = [("direction", direction.as_str())];
            family.encode_family(&labels)?.encode_gauge(&(meters.active(direction) as f64))?;
        }
        Ok(())
    }

    fn stores(&self, encoder: &mut DescriptorEncoder) -> Encoded {
        let name = "entrepot_store_sick";
        let mut family = gauges(encoder, name, "1 while the endpoint takes no changes.")?;
        // Sites may have endpoints of one name.
        let mut states: BTreeMap<_, bool> = BTreeMap::new();
        for state in self.parts.vfs.stores() {
            *states.entry(state.endpoint).or_default() |= state.is_sick;
        }
        for (endpoint, is_sick) in states {
            let labels = [("endpoint", endpoint.as_str())];
            family.encode_family(&labels)?.encode_gauge(&f64::from(u8::from(is_sick)))?;
        }
        Ok(())
    }

    fn journal(&self, encoder: &mut DescriptorEncoder) -> Encoded {
        let journal = self.parts.recorder.journal();
        let (usage, meters) = (journal.usage(), journal.meters());
        let lag = self.parts.engine.lag();
        let name = "entrepot_journal_lag_records";
        gauge(encoder, name, "Durable records the database has not.", lag.records as f64)?;
        let name = "entrepot_journal_lag_seconds";
        gauge(encoder, name, "Age of the oldest of them.", lag.seconds)?;
        let about = "Bytes of the files that steps of rules made for later steps.";
        gauge(encoder, "entrepot_work_bytes", about, self.parts.engine.work_bytes() as f64)?;
        let fill = usage.unreleased_bytes as f64 / (usage.limit_bytes.max(1)) as f64;
        gauge(encoder, "entrepot_journal_fill_ratio", "Of its limit; at 1 uploads wait.", fill)?;
        let suspect = f64::from(u8::from(usage.suspect));
        gauge(encoder, "entrepot_journal_suspect", "1 after a failed fsync.", suspect)?;
        let copied = f64::from(u8::from(self.parts.db.answers_from_copy()));
        let name = "entrepot_configuration_from_copy";
        gauge(encoder, name, "1 while the node's copy stands in for the database.", copied)?;
        let mut family = counter(encoder, "entrepot_journal_records", "Records appended.")?;
        family.encode_counter::<NoLabelSet, u64, f64>(&meters.records(), None)?;
        let buckets: Vec<(f64, u64)> = SYNC_BUCKETS_US
            .iter()
            .map(|us| *us as f64 / 1e6)
            .chain([f64::MAX])
            .zip(meters.sync_buckets())
            .collect();
        let name = "entrepot_journal_fsync_seconds";
        let mut histogram =
            encoder.encode_descriptor(name, "Time of fsync.", None, MetricType::Histogram)?;
        let sum = meters.sync_time().as_secs_f64();
        histogram.encode_histogram::<NoLabelSet>(sum, meters.syncs(), &buckets, None)
    }

    fn engine(&self, encoder: &mut DescriptorEncoder) -> Encoded {
        let meters = self.parts.engine.meters();
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut family = counter(encoder, "entrepot_job_attempts", "Attempts of jobs by result.")?;
        sample(&mut family, [("result", "done")], of(&meters.jobs_done))?;
        sample(&mut family, [("result", "retried")], of(&meters.jobs_retried))?;
        sample(&mut family, [("result", "failed")], of(&meters.jobs_failed))?;
        let name = "entrepot_retention_deleted";
        let mut family = counter(encoder, name, "What retention deleted.")?;
        sample(&mut family, [("what", "events")], of(&meters.deleted_events))?;
        sample(&mut family, [("what", "transfers")], of(&meters.deleted_transfers))?;
        sample(&mut family, [("what", "jobs")], of(&meters.deleted_jobs))?;
        sample(&mut family, [("what", "records")], of(&meters.deleted_records))?;
        sample(&mut family, [("what", "trash")], of(&meters.purged_trash))?;
        let name = "entrepot_retention_failures";
        let mut family = counter(encoder, name, "Times that retention could not delete.")?;
        family.encode_counter::<NoLabelSet, u64, f64>(&of(&meters.retention_failures), None)?;
        let mut family = counter(encoder, "entrepot_deliveries", "Files delivered.")?;
        family.encode_counter::<NoLabelSet, u64, f64>(&of(&meters.deliveries), None)?;
        let mut family = counter(encoder, "entrepot_delivery_bytes", "Bytes delivered.")?;
        family.encode_counter::<NoLabelSet, u64, f64>(&of(&meters.delivery_bytes), None)
    }

    /// Where signed heads are sent.
    fn sinks(&self, encoder: &mut DescriptorEncoder) -> Encoded {
        if self.sinks.is_empty() {
            return Ok(());
        }
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut family = counter(encoder, "entrepot_sink_heads", "Signed heads sent.")?;
        for meters in &self.sinks {
            sample(&mut family, [("sink", meters.name.as_str())], of(&meters.sent))?;
        }
        let mut family = counter(encoder, "entrepot_sink_failures", "Refusals of a sink.")?;
        for meters in &self.sinks {
            sample(&mut family, [("sink", meters.name.as_str())], of(&meters.failures))?;
        }
        let help = "Records that signed heads cover and those sent do not.";
        let mut family = gauges(encoder, "entrepot_sink_behind_records", help)?;
        for meters in &self.sinks {
            let behind = of(&meters.behind) as f64;
            family.encode_family(&[("sink", meters.name.as_str())])?.encode_gauge(&behind)?;
        }
        Ok(())
    }

    /// Sessions with hosts, by state.
    fn host_sessions(&self, encoder: &mut DescriptorEncoder) -> Encoded {
        let models = self.parts.engine.applications().all_figures();
        let at = |gauge: &Gauge| gauge.peak_at.map_or(0.0, |at| at.micros() as f64 / 1e6);
        type Shown<'a> = &'a dyn Fn(&Gauge) -> f64;
        let families: [(&str, &str, Shown<'_>); 3] = [
            ("entrepot_host_sessions", "Sessions with hosts.", &|it| it.now as f64),
            ("entrepot_host_sessions_peak", "Most at a time.", &|it| it.peak as f64),
            ("entrepot_host_sessions_peak_timestamp_seconds", "When there were so many.", &at),
        ];
        for (name, about, shown) in families {
            let mut family = gauges(encoder, name, about)?;
            for ModelFigures { site, model, figures } in &models {
                for StateGauge { state, gauge } in figures.states() {
                    let (site, model) = (site.to_string(), model.to_string());
                    let labels =
                        [("site", site.as_str()), ("model", model.as_str()), ("state", state)];
                    family.encode_family(&labels)?.encode_gauge(&shown(&gauge))?;
                }
            }
        }
        Ok(())
    }

    fn jobs(&self, encoder: &mut DescriptorEncoder) -> Encoded {
        self.places(encoder)?;
        let Some(JobsScrape { counts: jobs, lanes }) = &self.jobs else { return Ok(()) };
        let mut family = gauges(encoder, "entrepot_jobs", "Jobs in the database by state.")?;
        for (state, count) in
            [("ready", jobs.ready), ("running", jobs.running), ("failed", jobs.failed)]
        {
            family.encode_family(&[("state", state)])?.encode_gauge(&(count as f64))?;
        }
        let now = self.parts.recorder.env().now();
        let oldest = jobs.oldest_due.map_or(0.0, |due| now.since(due).as_secs_f64());
        gauge(encoder, "entrepot_job_oldest_due_seconds", "Age of the oldest due job.", oldest)?;
        self.lanes(encoder, lanes)
    }

    /// The places of this node.
    fn places(&self, encoder: &mut DescriptorEncoder) -> Encoded {
        let pools = self.parts.engine.pools();
        let mut family = gauges(encoder, "entrepot_pool_places", "Places of the node's pools.")?;
        for used in &pools {
            let size = used.size as f64;
            family.encode_family(&[("pool", used.pool.as_str())])?.encode_gauge(&size)?;
        }
        let about = "Places that steps of jobs have.";
        let mut family = gauges(encoder, "entrepot_pool_places_taken", about)?;
        for used in &pools {
            let taken = used.taken as f64;
            family.encode_family(&[("pool", used.pool.as_str())])?.encode_gauge(&taken)?;
        }
        let handed_over = self.parts.engine.meters().jobs_handed_over.load(Ordering::Relaxed);
        let about = "Times a job went back into the queue, for its next step runs elsewhere.";
        let mut family = counter(encoder, "entrepot_jobs_handed_over", about)?;
        family.encode_counter::<NoLabelSet, u64, f64>(&handed_over, None)
    }

    /// Whom jobs wait for.
    fn lanes(&self, encoder: &mut DescriptorEncoder, lanes: &[LaneCounts]) -> Encoded {
        let now = self.parts.recorder.env().now();
        let age = |at: Option<Timestamp>| at.map_or(0.0, |at| now.since(at).as_secs_f64());
        let about = "Jobs by pool and state.";
        let mut family = gauges(encoder, "entrepot_pool_jobs", about)?;
        for pool in Pool::ALL {
            let of_pool = || lanes.iter().filter(|lane| lane.lane.lane().pool == pool);
            let ready: u64 = of_pool().map(|lane| lane.ready).sum();
            let running: u64 = of_pool().map(|lane| lane.running).sum();
            for (state, count) in [("ready", ready), ("running", running)] {
                let labels = [("pool", pool.as_str()), ("state", state)];
                family.encode_family(&labels)?.encode_gauge(&(count as f64))?;
            }
        }
        let about = "How long the first job has waited that a pool has no place for.";
        let mut family = gauges(encoder, "entrepot_pool_oldest_due_seconds", about)?;
        for pool in Pool::ALL {
            let of_pool = lanes.iter().filter(|lane| lane.lane.lane().pool == pool);
            let oldest = of_pool.filter_map(|lane| lane.claim_at).min();
            family.encode_family(&[("pool", pool.as_str())])?.encode_gauge(&age(oldest))?;
        }
        // Sites may have rules and endpoints of one name.
        let mut rows: BTreeMap<[String; 3], [f64; 3]> = BTreeMap::new();
        for counts in lanes.iter().take(LANE_ROWS) {
            let lane = counts.lane.lane();
            let rule = counts.lane.rule().unwrap_or_default().to_owned();
            let endpoint = lane.endpoint.map_or_else(String::new, |name| name.to_string());
            let [ready, running, oldest] =
                rows.entry([lane.pool.as_str().to_owned(), endpoint, rule]).or_default();
            *ready += counts.ready as f64;
            *running += counts.running as f64;
            *oldest = oldest.max(age(counts.claim_at));
        }
        let metrics = [
            ("entrepot_lane_jobs_ready", "Jobs that wait, by the lane in which they do."),
            ("entrepot_lane_jobs_running", "Jobs that run, by their lane."),
            ("entrepot_lane_oldest_due_seconds", "How long the first job of a lane has waited."),
        ];
        for (at, (name, about)) in metrics.into_iter().enumerate() {
            let mut family = gauges(encoder, name, about)?;
            for ([pool, endpoint, rule], values) in &rows {
                let labels =
                    [("pool", pool.as_str()), ("endpoint", endpoint), ("rule", rule.as_str())];
                let value = values.get(at).copied().unwrap_or_default();
                family.encode_family(&labels)?.encode_gauge(&value)?;
            }
        }
        Ok(())
    }
}

fn gauge(encoder: &mut DescriptorEncoder, name: &str, help: &str, value: f64) -> Encoded {
    gauges(encoder, name, help)?.encode_gauge(&value)
}

fn gauges<'a>(
    encoder: &'a mut DescriptorEncoder,
    name: &'a str,
    help: &str,
) -> Result<MetricEncoder<'a>, fmt::Error> {
    encoder.encode_descriptor(name, help, None, MetricType::Gauge)
}

fn counter<'a>(
    encoder: &'a mut DescriptorEncoder,
    name: &'a str,
    help: &str,
) -> Result<MetricEncoder<'a>, fmt::Error> {
    encoder.encode_descriptor(name, help, None, MetricType::Counter)
}

fn sample<const N: usize>(
    family: &mut MetricEncoder<'_>,
    labels: Labels<'_, N>,
    value: u64,
) -> Encoded {
    family.encode_family(&labels)?.encode_counter::<NoLabelSet, u64, f64>(&value, None)
}
