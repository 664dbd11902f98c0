//! `serve`: opens the parts, starts everything, waits, stops everything in order.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use entrepot_acme::{AcmeParts, CertificateWorker};
use entrepot_admin::{Admin, ServingParts};
use entrepot_auth::{Directory, Gate, GateOptions, PenaltySharing};
use entrepot_db::{Dialect, Drained, Incarnation};
use entrepot_engine::Drained as EngineDrained;
use entrepot_engine::{
    As2Tester, Engine, EngineOptions, EngineParts, PoolSizes, RetentionParts, RetentionWorker,
    WorkFolder,
};
use entrepot_host::Applications;
use entrepot_journal::{JournalError, Recorder, Scope};
use entrepot_net::guard::UnauthenticatedConnections;
use entrepot_net::listen::TcpAcceptor;
use entrepot_net::service_manager::{self, ServiceState};
use entrepot_nouns::{Env, Fact, SiteId};
use entrepot_proof::Heads;
use entrepot_spawn::{Spawner, SpawnerOptions};
use entrepot_vfs::{NodeLimits, Service, ServiceOptions, ServiceParts};
use entrepot_web::{LiveSource, WebApi};
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::addresses_file::{AddressesFile, OwnAddresses};
use crate::api_node::ServedApi;
use crate::certificates;
use crate::config::Config;
use crate::debug_folder::DebugFolder;
use crate::deployed::DeployedModels;
use crate::descriptors::{self, DescriptorPlan};
use crate::failed_journal;
use crate::failure::{Exit, Failure};
use crate::listeners::{ListenerParts, Listeners};
use crate::local_copy::{CopyKeeper, LocalCopy};
use crate::log::LogControl;
use crate::metrics::{Metrics, MetricsParts};
use crate::ops::{self, Ops};
use crate::ops_token::OpsToken;
use crate::own_rights::GivenUp;
use crate::parts::{Parts, dry_runner};
use crate::readiness::{self, Readiness, ReadinessParts};
use crate::reload::Reload;
use crate::sandbox;
use crate::served::ServedNode;
use crate::sinks::{self, SinkStores};
use crate::without_database::Return;

/// Serves until a signal or `stop` asks for the end, then stops in order.
pub(crate) async fn run(config: &Config, given_up: &GivenUp) -> Result<(), Failure> {
    let log = crate::log::start(&config.log)?;
    given_up.log();
    let server = Server::start(config, log).await?;
    tell(ServiceState::Ready);
    let alive = tokio::spawn(stay_alive(server.parts.recorder.clone()));
    let why = server.ended().await;
    tell(ServiceState::Stopping);
    let stopped = server.stop(&why).await;
    alive.abort();
    match why {
        ServerEnd::Asked => stopped,
        ServerEnd::JournalFailed(error) => Err(failed_journal::end(&error)),
        ServerEnd::Refused(failure) => stopped.and(Err(failure)),
        ServerEnd::Superseded => {
            let why = "another process serves as this node, with a copy of its journal; see which \
                       of the two is to go on";
            stopped.and(Err(Failure::new("EP0714", Exit::Failed, why)))
        }
    }
}

/// Why the server ends.
#[derive(Clone, Debug)]
pub(crate) enum ServerEnd {
    /// A signal, or a person.
    Asked,
    /// Another process serves as this node.
    Superseded,
    /// It started while the database was away, and the database knows another node of its name.
    Refused(Failure),
    /// A sync of the journal failed.
    JournalFailed(JournalError),
}

/// Tells the service manager, if there is one.
fn tell(state: ServiceState) {
    if let Err(error) = service_manager::notify(state) {
        tracing::warn!(%error, ?state, "the service manager cannot be told");
    }
}

/// Tells a service manager that watches this process that it works. It does not while the journal
/// takes no records because a write to its disk failed: only a new start mends that.
async fn stay_alive(recorder: Recorder) {
    let Some(time) = service_manager::watchdog_time() else { return };
    let mut ticks = tokio::time::interval(time / 3);
    loop {
        ticks.tick().await;
        if !recorder.journal().usage().suspect {
            tell(ServiceState::Alive);
        }
    }
}

/// A running node.
pub(crate) struct Server {
    config: Config,
    parts: Parts,
    vfs: Service,
    engine: Arc<Engine>,
    /// Starts programs for rules.
    spawner: Spawner,
    /// Host applications that are deployed here.
    applications: Applications,
    listeners: Listeners,
    addresses: AddressesFile,
    /// Ends the server: a signal, `stop`, or the end of [`Server::stop`].
    asked: CancellationToken,
    /// Cancelled when another process serves as this node.
    superseded: CancellationToken,
    /// Why the database that is back does not take this node, if so.
    refused: watch::Sender<Option<Failure>>,
    /// Ends the tasks that serve until the very end.
    end: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

impl Server {
    /// Opens and starts everything; nothing listens before recovery is done.
    pub(crate) async fn start(config: &Config, log: LogControl) -> Result<Server, Failure> {
        let descriptors = DescriptorPlan::new(descriptors::raise()?, config.workers);
        let core = Core::start(config, &log, descriptors).await?;
        let Core { parts, directory, gate, admin, vfs, spawner, applications, engine } = core;
        let (asked, end) = (vfs.draining(), CancellationToken::new());
        let mut tasks = vec![tokio::spawn(directory.clone().run(end.clone()))];
        tasks.extend(renew_hashes(&gate, &admin, &end));
        let unauthenticated = UnauthenticatedConnections::within(descriptors.without_login);
        let metrics = metrics(&parts, &vfs, &gate, &engine, &unauthenticated);
        let heads = crate::receipt::open(config, &parts).await?;
        tasks.push(tokio::spawn(heads.clone().run(end.clone())));
        let stores = SinkStores::new(&parts, &vfs);
        tasks.extend(sinks::start(config, &heads, &stores, &end)?);
        tasks.push(keep_retention(&parts, &heads, &vfs, &engine, &end));
        let drained = engine.drained();
        let reload = Arc::new(Reload::new(config.clone(), log));
        tasks.extend(reload_on_signals(reload.clone(), asked.clone()));
        let readiness = Readiness::new(ReadinessParts {
            recorder: parts.recorder.clone(),
            vfs: vfs.clone(),
            drained: drained.clone(),
            stop: asked.clone(),
        });
        let node = served_api(&parts, &metrics, &heads, &engine);
        let api = web_api(&admin, node, &vfs, &parts.env).with_applications(applications.clone());
        let ops = Ops {
            admin: admin.clone(),
            metrics,
            heads,
            readiness: readiness.clone(),
            stop: asked.clone(),
            token: OpsToken::make(&config.data, &parts.env)?,
            reload,
        };
        let own_addresses = start_ops(config, ops, &end, &mut tasks).await?;
        let shared = ListenerParts { gate, vfs: vfs.clone(), unauthenticated, api };
        // No session may pass by a rule that is not known yet.
        engine.ready().await;
        tasks.push(share_penalties(&shared.gate, &end).await);
        tasks.extend(keep_credentials(&shared.gate, &end));
        let addresses = AddressesFile::new(&config.data, own_addresses);
        let listeners = Listeners::new(config, &parts, admin.clone(), shared, addresses.clone());
        tasks.extend(stop_on_signals(asked.clone()));
        listeners.open_all(&drained).await?;
        readiness.listens();
        tasks.push(keep_certificates(&parts, &admin, drained.clone(), &end));
        let listening = listeners.clone().follow(directory.watch(), drained.clone(), end.clone());
        tasks.push(tokio::spawn(listening));
        let deployed = DeployedModels::new(&parts, applications.clone());
        tasks.push(tokio::spawn(deployed.follow(directory.watch(), drained, end.clone())));
        let refused = watch::Sender::new(None);
        tasks.extend(keep_copy(config, &parts, &engine, &directory, &end));
        tasks.extend(come_back(&parts, admin, &engine, &refused, &end));
        let (config, superseded) = (config.clone(), engine.superseded());
        Ok(Server {
            config,
            parts,
            vfs,
            engine,
            spawner,
            applications,
            listeners,
            addresses,
            asked,
            superseded,
            refused,
            end,
            tasks,
        })
    }

    /// Waits until someone asks the server to stop, or it cannot go on.
    pub(crate) async fn ended(&self) -> ServerEnd {
        tokio::select! {
            () = self.asked.cancelled() => ServerEnd::Asked,
            () = self.superseded.cancelled() => ServerEnd::Superseded,
            failure = self.refused() => ServerEnd::Refused(failure),
            error = self.parts.recorder.journal().failed() => {
                failed_journal::remember(&self.config.data, self.parts.env.now(), &error);
                tokio::time::sleep(failed_journal::NOTICE).await;
                ServerEnd::JournalFailed(error)
            }
        }
    }

    /// Waits for a database that does not take this node.
    async fn refused(&self) -> Failure {
        let mut refused = self.refused.subscribe();
        loop {
            if let Some(failure) = &*refused.borrow_and_update() {
                return failure.clone();
            }
            // The sender is the server's own.
            let _ = refused.changed().await;
        }
    }

    /// Address and host keys (OpenSSH form) of each open listener.
    pub(crate) async fn listening(&self) -> Vec<(SocketAddr, Vec<String>)> {
        self.listeners.listening().await
    }

    /// Lets running transfers end within the limit, then ends everything, last of all the journal.
    /// Where that has failed, no transfer could be acknowledged any more: they are cut.
    pub(crate) async fn stop(self, why: &ServerEnd) -> Result<(), Failure> {
        self.asked.cancel();
        let limit = match why {
            ServerEnd::JournalFailed(_) => Duration::ZERO,
            ServerEnd::Asked | ServerEnd::Superseded | ServerEnd::Refused(_) => {
                Duration::from_secs(self.config.drain_seconds)
            }
        };
        tracing::info!(limit_seconds = limit.as_secs(), "stopping");
        self.vfs.drain();
        self.listeners.stop(limit).await;
        let recorder = self.parts.recorder.clone();
        let scope = Scope::site(SiteId::MAIN);
        let stopped = recorder.record_durable(&scope, Fact::NodeStopped {}).await;
        let stopped = stopped
            .map(drop)
            .map_err(|error| Failure::new(error.code(), Exit::Failed, error.to_string()));
        self.end.cancel();
        for task in self.tasks {
            // A panic was logged where it happened; the stop goes on.
            let _ = task.await;
        }
        self.engine.stop(limit).await;
        self.applications.stop().await;
        self.spawner.stop().await;
        self.vfs.stop().await;
        let _ = std::fs::remove_file(&self.config.ops_socket);
        self.addresses.remove();
        stopped.and(self.parts.close().await)?;
        tracing::info!("stopped");
        Ok(())
    }
}

/// What serves, without its entrances.
pub(crate) struct Core {
    pub(crate) parts: Parts,
    directory: Directory,
    gate: Gate,
    admin: Arc<Admin>,
    pub(crate) vfs: Service,
    pub(crate) spawner: Spawner,
    pub(crate) applications: Applications,
    pub(crate) engine: Arc<Engine>,
}

impl Core {
    /// What is known of a node without entrances.
    pub(crate) fn metrics(&self) -> Metrics {
        let nobody = UnauthenticatedConnections::within(0);
        metrics(&self.parts, &self.vfs, &self.gate, &self.engine, &nobody)
    }

    pub(crate) async fn start(
        config: &Config,
        log: &LogControl,
        descriptors: DescriptorPlan,
    ) -> Result<Core, Failure> {
        let parts = Parts::open_to_serve(config).await?;
        let env = parts.env.clone();
        let directory = Directory::new(parts.db.clone(), env, parts.master.clone());
        let options = GateOptions { cost: config.hash_cost };
        let gate = Gate::new(directory.clone(), parts.recorder.clone(), options);
        let admin = parts.admin(Some(directory.clone()));
        if parts.away.is_none() {
            admin.join().await.map_err(|error| crate::ask::problem(error.into()))?;
        }
        let vfs = start_vfs(config, &parts, &directory, descriptors).await?;
        let runner = parts.dry_runner().with_files(vfs.clone(), gate.clone());
        let admin = admin.with_rule_dry_runner(dry_runner(runner));
        let tester = As2Tester::new(vfs.clone(), gate.clone(), parts.env.clone());
        let (files, log) = (vfs.clone(), log.clone());
        let node = Arc::new(ServedNode { vfs: files, log, gate: gate.clone(), tester });
        let admin = Arc::new(admin.with_serving(ServingParts { node, gate: gate.clone() }));
        let spawner = spawner(config, &parts)?;
        gate.start_programs_by(spawner.clone());
        let pools = PoolSizes::each(descriptors.places);
        let debug = Arc::new(DebugFolder::new(&config.data));
        let applications = Applications::with_debug_files(parts.recorder.clone(), debug);
        let hands = EngineHands {
            vfs: &vfs,
            gate: &gate,
            spawner: &spawner,
            applications: &applications,
            pools,
        };
        let engine = start_engine(config, &parts, hands).await?;
        Ok(Core { parts, directory, gate, admin, vfs, spawner, applications, engine })
    }
}

/// Keeps the copy that the node starts from while the database is away; none of a local file.
fn keep_copy(
    config: &Config,
    parts: &Parts,
    engine: &Arc<Engine>,
    directory: &Directory,
    end: &CancellationToken,
) -> Option<JoinHandle<()>> {
    let keeper = CopyKeeper {
        copy: LocalCopy::new(&config.data, parts.master.clone()),
        db: parts.db.clone(),
        recorder: parts.recorder.clone(),
        engine: engine.clone(),
        directory: directory.clone(),
    };
    let is_remote = parts.db.dialect() == Dialect::Postgres;
    is_remote.then(|| tokio::spawn(keeper.run(end.clone())))
}

/// Waits for a database that was away at the start.
fn come_back(
    parts: &Parts,
    admin: Arc<Admin>,
    engine: &Arc<Engine>,
    refused: &watch::Sender<Option<Failure>>,
    end: &CancellationToken,
) -> Option<JoinHandle<()>> {
    parts.away.as_ref()?;
    let back = Return { start: parts.node_start(), admin, engine: engine.clone() };
    let (refused, until) = (refused.clone(), end.clone());
    Some(tokio::spawn(async move {
        if let Some(failure) = back.wait(until).await {
            tracing::error!(code = failure.code, "{}", failure.message);
            refused.send_replace(Some(failure));
        }
    }))
}

async fn start_vfs(
    config: &Config,
    parts: &Parts,
    directory: &Directory,
    descriptors: DescriptorPlan,
) -> Result<Service, Failure> {
    tracing::info!(?descriptors, "file descriptors");
    let started = Service::start(ServiceParts {
        recorder: parts.recorder.clone(),
        directory: directory.clone(),
        db: parts.db.clone(),
        env: parts.env.clone(),
        master: parts.master.clone(),
        options: ServiceOptions {
            boot: boot_id(),
            spool: Some(config.data.join("spool")),
            limits: NodeLimits {
                descriptors: descriptors.accounts,
                sessions: config.sessions,
                memory_bytes: config.memory_bytes,
            },
            own_files: config.kept_from_endpoints(),
            ..ServiceOptions::default()
        },
    });
    let (vfs, report) = started
        .await
        .map_err(|error| Failure::new(error.code(), Exit::Failed, error.to_string()))?;
    tracing::info!(?report, torn_bytes = parts.recovered.torn_bytes, "recovered");
    Ok(vfs)
}

/// Makes hashes of passwords that have become too cheap anew after logins.
fn renew_hashes(
    gate: &Gate,
    admin: &Arc<Admin>,
    end: &CancellationToken,
) -> Option<JoinHandle<()>> {
    let outdated = gate.outdated_passwords()?;
    let (admin, until) = (admin.clone(), end.clone());
    Some(tokio::spawn(async move { admin.renew_hashes(outdated, until).await }))
}

fn metrics(
    parts: &Parts,
    vfs: &Service,
    gate: &Gate,
    engine: &Arc<Engine>,
    unauthenticated: &UnauthenticatedConnections,
) -> Metrics {
    Metrics::new(MetricsParts {
        recorder: parts.recorder.clone(),
        vfs: vfs.clone(),
        gate: gate.clone(),
        engine: engine.clone(),
        db: parts.db.clone(),
        unauthenticated: unauthenticated.clone(),
    })
}

/// What listeners of HTTP serve of the administration.
fn web_api(admin: &Arc<Admin>, node: ServedApi, vfs: &Service, env: &Env) -> WebApi {
    let live = LiveSource { vfs: vfs.clone(), env: env.clone() };
    WebApi::new(admin.clone(), Arc::new(node), live)
}

/// What listeners of HTTP show of this node.
fn served_api(parts: &Parts, metrics: &Metrics, heads: &Heads, engine: &Engine) -> ServedApi {
    ServedApi {
        heads: heads.clone(),
        metrics: metrics.clone(),
        projected: engine.projected(),
        db: parts.db.clone(),
        id: parts.recorder.node_id(),
    }
}

/// Asks authorities for the certificates of listeners.
fn keep_certificates(
    parts: &Parts,
    admin: &Arc<Admin>,
    drained: EngineDrained,
    end: &CancellationToken,
) -> JoinHandle<()> {
    let worker = CertificateWorker::new(AcmeParts {
        db: parts.db.clone(),
        admin: admin.clone(),
        master: parts.master.clone(),
        recorder: parts.recorder.clone(),
        env: parts.env.clone(),
    });
    tokio::spawn(certificates::keep(worker, drained, end.clone()))
}

/// Deletes what is older than it is to be kept.
fn keep_retention(
    parts: &Parts,
    heads: &Heads,
    vfs: &Service,
    engine: &Engine,
    end: &CancellationToken,
) -> JoinHandle<()> {
    let worker = RetentionWorker::new(RetentionParts {
        db: parts.db.clone(),
        recorder: parts.recorder.clone(),
        heads: heads.clone(),
        vfs: vfs.clone(),
        meters: engine.meters().clone(),
    });
    tokio::spawn(worker.run(end.clone()))
}

/// What the engine works with, and on how much at a time.
struct EngineHands<'a> {
    vfs: &'a Service,
    gate: &'a Gate,
    spawner: &'a Spawner,
    applications: &'a Applications,
    pools: PoolSizes,
}

/// Counts this start of the node, and begins to project and to work.
async fn start_engine(
    config: &Config,
    parts: &Parts,
    hands: EngineHands<'_>,
) -> Result<Arc<Engine>, Failure> {
    let incarnation = match &parts.away {
        None => parts.node_start().count().await?,
        Some(kept) => {
            let drained = if kept.drained { Drained::Yes } else { Drained::No };
            Incarnation::uncounted(drained, kept.slot)
        }
    };
    record(parts, Fact::NodeStarted { version: env!("CARGO_PKG_VERSION").to_owned() })?;
    failed_journal::record(&config.data, parts).await;
    let work = work_folder(config, parts).await?;
    Ok(Arc::new(Engine::start(EngineParts {
        db: parts.db.clone(),
        recorder: parts.recorder.clone(),
        vfs: hands.vfs.clone(),
        gate: hands.gate.clone(),
        spawner: hands.spawner.clone(),
        applications: hands.applications.clone(),
        incarnation,
        work,
        options: EngineOptions { pools: hands.pools, ..EngineOptions::default() },
    })))
}

/// Where steps of rules make files for later steps.
async fn work_folder(config: &Config, parts: &Parts) -> Result<WorkFolder, Failure> {
    let path = config.data.join("work");
    let store = entrepot_storage::fs::open(&path, parts.recorder.env()).await.map_err(|error| {
        Failure::config(format!("the folder '{}' cannot be used: {error}", path.display()))
    })?;
    Ok(WorkFolder { store, path: Some(path), limit: config.work_bytes })
}

/// Lets the database know when API tokens were used, and signs out browsers whose time is over.
fn keep_credentials(gate: &Gate, end: &CancellationToken) -> [JoinHandle<()>; 2] {
    let (uses, until) = (gate.clone(), end.clone());
    let (sign_ins, end) = (gate.clone(), end.clone());
    [
        tokio::spawn(async move { uses.keep_token_uses(until).await }),
        tokio::spawn(async move { sign_ins.keep_sign_ins(end).await }),
    ]
}

/// Takes over the wrong passwords that count already, and shares those to come with other nodes.
async fn share_penalties(gate: &Gate, end: &CancellationToken) -> JoinHandle<()> {
    let mut sharing = PenaltySharing::default();
    if let Err(error) = gate.begin_sharing(&mut sharing).await {
        tracing::warn!(code = "EP0122", %error, "wrong passwords are counted on this node alone");
    }
    let (gate, end) = (gate.clone(), end.clone());
    tokio::spawn(async move { gate.keep_sharing(sharing, end).await })
}

/// Starts the programs that the process file allows; its helpers start with the first of them.
fn spawner(config: &Config, parts: &Parts) -> Result<Spawner, Failure> {
    let exec = &config.exec;
    let options = SpawnerOptions {
        children: exec.children,
        queue: exec.queue,
        isolation: sandbox::of_programs(config)?,
        ..SpawnerOptions::new(exec.allowed.clone())
    };
    Ok(Spawner::new(options, parts.env.clone()))
}

/// Which start of the machine this is, where the system tells.
fn boot_id() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn record(parts: &Parts, fact: Fact) -> Result<(), Failure> {
    let recorded = parts.recorder.record(&Scope::site(SiteId::MAIN), fact);
    recorded.map(drop).map_err(|error| Failure::new(error.code(), Exit::Failed, error.to_string()))
}

/// Opens the ops socket, the ops listener and the port for balancers.
async fn start_ops(
    config: &Config,
    ops: Ops,
    end: &CancellationToken,
    tasks: &mut Vec<JoinHandle<()>>,
) -> Result<OwnAddresses, Failure> {
    let socket = bind_socket(&config.ops_socket)?;
    let (local, until) = (ops.clone(), end.clone());
    tasks.push(tokio::spawn(async move {
        if let Err(error) = ops::serve_socket(socket, local, until).await {
            tracing::error!(%error, "the ops socket failed");
        }
    }));
    let mut own = OwnAddresses::default();
    if let Some(address) = config.agent_address {
        let listener = bind_own(address)?;
        own.agent = Some(listener.local_address());
        let served =
            readiness::serve_agent(listener.into_inner(), ops.readiness.clone(), end.clone());
        tasks.push(tokio::spawn(served));
    }
    let Some(address) = config.ops_address else { return Ok(own) };
    let listener = bind_own(address)?;
    own.ops = Some(listener.local_address());
    let until = end.clone();
    tasks.push(tokio::spawn(async move {
        if let Err(error) = ops::serve_listener(listener.into_inner(), ops, until).await {
            tracing::error!(%error, "the ops listener failed");
        }
    }));
    Ok(own)
}

fn bind_own(address: SocketAddr) -> Result<TcpAcceptor, Failure> {
    entrepot_net::listen::bind(address)
        .map_err(|error| Failure::new(error.code(), Exit::Failed, error.to_string()))
}

/// The journal's lock is held by now, so a socket file that is there is left over from a crash.
fn bind_socket(path: &Path) -> Result<UnixListener, Failure> {
    let cannot = |error: std::io::Error| {
        Failure::start(format!("cannot open the ops socket '{}': {error}", path.display()))
    };
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(cannot(error)),
        _ => {}
    }
    let listener = UnixListener::bind(path).map_err(cannot)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(cannot)?;
    Ok(listener)
}

/// Reads the process file again at each SIGHUP, until `asked`. It listens when this returns;
/// before, the signal would end the process.
fn reload_on_signals(reload: Arc<Reload>, asked: CancellationToken) -> Option<JoinHandle<()>> {
    let Ok(mut hang_up) = signal(SignalKind::hangup()) else {
        tracing::error!("cannot listen for SIGHUP; use 'entrepot reload'");
        return None;
    };
    Some(tokio::spawn(async move {
        loop {
            tokio::select! {
                () = asked.cancelled() => return,
                _ = hang_up.recv() => {}
            }
            if let Err(failure) = reload.now() {
                tracing::error!(code = failure.code, "{}", failure.message);
            }
        }
    }))
}

/// Asks for the end at SIGTERM and SIGINT. It listens when this returns: whoever sees that the node
/// is ready may stop it in good order.
pub(crate) fn stop_on_signals(asked: CancellationToken) -> Option<JoinHandle<()>> {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        tracing::error!("cannot listen for signals; use 'entrepot stop'");
        return None;
    };
    Some(tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            () = asked.cancelled() => {}
        }
        asked.cancel();
    }))
}
