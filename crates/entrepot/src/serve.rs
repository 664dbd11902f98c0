//! `serve`: opens the parts, starts everything, waits, stops everything in order.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use entrepot_admin::{Admin, ServingParts};
use entrepot_auth::{Directory, Gate, GateOptions, PenaltySharing};
use entrepot_engine::{Engine, EngineOptions, EngineParts, RetentionParts, RetentionWorker};
use entrepot_journal::{Recorder, Scope};
use entrepot_net::guard::UnauthenticatedConnections;
use entrepot_net::service_manager::{self, ServiceState};
use entrepot_nouns::{Fact, SiteId};
use entrepot_proof::Heads;
use entrepot_spawn::{Spawner, SpawnerOptions};
use entrepot_vfs::{NodeLimits, Service, ServiceOptions, ServiceParts};
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::addresses_file::AddressesFile;
use crate::config::Config;
use crate::descriptors::{self, DescriptorPlan};
use crate::failure::{Exit, Failure};
use crate::listeners::{ListenerParts, Listeners};
use crate::log::LogControl;
use crate::metrics::{Metrics, MetricsParts};
use crate::ops::{self, Ops};
use crate::ops_token::OpsToken;
use crate::own_rights::GivenUp;
use crate::parts::Parts;
use crate::reload::Reload;
use crate::sandbox;
use crate::served::ServedNode;
use crate::sinks;

/// Serves until a signal or `stop` asks for the end, then stops in order.
pub(crate) async fn run(config: &Config, given_up: &GivenUp) -> Result<(), Failure> {
    let log = crate::log::start(&config.log)?;
    given_up.log();
    let server = Server::start(config, log).await?;
    tell(ServiceState::Ready);
    let alive = tokio::spawn(stay_alive(server.parts.recorder.clone()));
    server.stopped().await;
    let superseded = server.superseded.is_cancelled();
    tell(ServiceState::Stopping);
    let stopped = server.stop().await;
    alive.abort();
    stopped?;
    if superseded {
        let why = "another process serves as this node, with a copy of its journal; see which of \
                   the two is to go on";
        return Err(Failure::new("EP0714", Exit::Failed, why));
    }
    Ok(())
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
    listeners: Listeners,
    addresses: AddressesFile,
    /// Ends the server: a signal, `stop`, or the end of [`Server::stop`].
    asked: CancellationToken,
    /// Cancelled when another process serves as this node.
    superseded: CancellationToken,
    /// Ends the tasks that serve until the very end.
    end: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

impl Server {
    /// Opens and starts everything; nothing listens before recovery is done.
    pub(crate) async fn start(config: &Config, log: LogControl) -> Result<Server, Failure> {
        let descriptors = DescriptorPlan::new(descriptors::raise()?, config.workers);
        let parts = Parts::open(config).await?;
        let env = parts.env.clone();
        let directory = Directory::new(parts.db.clone(), env.clone(), parts.master.clone());
        let gate = Gate::new(directory.clone(), parts.recorder.clone(), GateOptions::default());
        let admin = parts.admin(Some(directory.clone()));
        admin.join().await.map_err(|error| crate::ask::problem(error.into()))?;
        let vfs = start_vfs(config, &parts, &directory, descriptors).await?;
        let node = Arc::new(ServedNode { vfs: vfs.clone(), log: log.clone() });
        let admin = Arc::new(admin.with_serving(ServingParts { node, gate: gate.clone() }));
        let spawner = spawner(config, &parts)?;
        gate.start_programs_by(spawner.clone());
        let engine = start_engine(config, &parts, &vfs, &gate, &spawner).await?;
        let (asked, end) = (vfs.draining(), CancellationToken::new());
        let mut tasks = vec![tokio::spawn(directory.clone().run(end.clone()))];
        tasks.extend(renew_hashes(&gate, &admin, &end));
        let unauthenticated = UnauthenticatedConnections::within(descriptors.without_login);
        let metrics = metrics(&parts, &vfs, &gate, &engine, &unauthenticated);
        let ready = Arc::new(AtomicBool::new(false));
        let heads = crate::receipt::open(config, &parts).await?;
        tasks.push(tokio::spawn(heads.clone().run(end.clone())));
        tasks.extend(sinks::start(config, &heads, &end)?);
        tasks.push(keep_retention(&parts, &heads, &vfs, &engine, &end));
        let drained = engine.drained();
        let reload = Arc::new(Reload::new(config.clone(), log));
        tasks.push(tokio::spawn(reload_on_signals(reload.clone(), asked.clone())));
        let ops = Ops {
            admin: admin.clone(),
            metrics,
            heads,
            ready: ready.clone(),
            drained: drained.clone(),
            stop: asked.clone(),
            token: OpsToken::make(&config.data, &env)?,
            reload,
        };
        let ops_address = start_ops(config, ops, &end, &mut tasks).await?;
        let shared = ListenerParts { gate, vfs: vfs.clone(), unauthenticated };
        // No session may pass by a rule that is not known yet.
        engine.ready().await;
        tasks.push(share_penalties(&shared.gate, &end).await);
        let addresses = AddressesFile::new(&config.data, ops_address);
        let listeners = Listeners::new(config, &parts, admin, shared, addresses.clone());
        if drained.is_drained() {
            tracing::warn!("this node is drained: it opens no listener before 'node undrain'");
        }
        listeners.open_all(&drained).await?;
        ready.store(true, Ordering::Release);
        tasks.push(tokio::spawn(signals(asked.clone())));
        let following = listeners.clone().follow(directory.watch(), drained, end.clone());
        tasks.push(tokio::spawn(following));
        let (config, superseded) = (config.clone(), engine.superseded());
        Ok(Server {
            config,
            parts,
            vfs,
            engine,
            spawner,
            listeners,
            addresses,
            asked,
            superseded,
            end,
            tasks,
        })
    }

    /// Waits until someone asks the server to stop, or another process serves as this node.
    pub(crate) async fn stopped(&self) {
        tokio::select! {
            () = self.asked.cancelled() => {}
            () = self.superseded.cancelled() => {}
        }
    }

    /// Address and host keys (OpenSSH form) of each open listener.
    pub(crate) async fn listening(&self) -> Vec<(std::net::SocketAddr, Vec<String>)> {
        self.listeners.listening().await
    }

    /// Lets running transfers end within the limit, then ends everything, last of all the journal.
    pub(crate) async fn stop(self) -> Result<(), Failure> {
        self.asked.cancel();
        let limit = Duration::from_secs(self.config.drain_seconds);
        tracing::info!(limit_seconds = self.config.drain_seconds, "stopping");
        self.vfs.drain();
        self.listeners.stop(limit).await;
        let recorder = self.parts.recorder.clone();
        let scope = Scope::site(SiteId::MAIN);
        let stopped = recorder.record_durable(&scope, Fact::NodeStopped {});
        stopped
            .await
            .map_err(|error| Failure::new(error.code(), Exit::Failed, error.to_string()))?;
        self.end.cancel();
        for task in self.tasks {
            // A panic was logged where it happened; the stop goes on.
            let _ = task.await;
        }
        match Arc::try_unwrap(self.engine) {
            Ok(engine) => engine.stop(limit).await,
            Err(_) => tracing::warn!("the engine is still in use"),
        }
        self.spawner.stop().await;
        self.vfs.stop().await;
        let _ = std::fs::remove_file(&self.config.ops_socket);
        self.addresses.remove();
        self.parts.close().await?;
        tracing::info!("stopped");
        Ok(())
    }
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

/// Counts this start of the node, and begins to project and to work.
async fn start_engine(
    config: &Config,
    parts: &Parts,
    vfs: &Service,
    gate: &Gate,
    spawner: &Spawner,
) -> Result<Arc<Engine>, Failure> {
    let incarnation = parts.start_node().await?;
    record(parts, Fact::NodeStarted { version: env!("CARGO_PKG_VERSION").to_owned() })?;
    Ok(Arc::new(Engine::start(EngineParts {
        db: parts.db.clone(),
        recorder: parts.recorder.clone(),
        vfs: vfs.clone(),
        gate: gate.clone(),
        spawner: spawner.clone(),
        incarnation,
        options: EngineOptions { workers: config.workers, ..EngineOptions::default() },
    })))
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

/// Opens the ops socket and the ops listener.
async fn start_ops(
    config: &Config,
    ops: Ops,
    end: &CancellationToken,
    tasks: &mut Vec<JoinHandle<()>>,
) -> Result<Option<std::net::SocketAddr>, Failure> {
    let socket = bind_socket(&config.ops_socket)?;
    let (local, until) = (ops.clone(), end.clone());
    tasks.push(tokio::spawn(async move {
        if let Err(error) = ops::serve_socket(socket, local, until).await {
            tracing::error!(%error, "the ops socket failed");
        }
    }));
    let Some(address) = config.ops_address else { return Ok(None) };
    let listener = entrepot_net::listen::bind(address)
        .map_err(|error| Failure::new(error.code(), Exit::Failed, error.to_string()))?;
    let bound = listener.local_address();
    let until = end.clone();
    tasks.push(tokio::spawn(async move {
        if let Err(error) = ops::serve_listener(listener.into_inner(), ops, until).await {
            tracing::error!(%error, "the ops listener failed");
        }
    }));
    Ok(Some(bound))
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

/// Reads the process file again at each SIGHUP, until `asked`.
async fn reload_on_signals(reload: Arc<Reload>, asked: CancellationToken) {
    let Ok(mut hang_up) = signal(SignalKind::hangup()) else {
        tracing::error!("cannot listen for SIGHUP; use 'entrepot reload'");
        return;
    };
    loop {
        tokio::select! {
            () = asked.cancelled() => return,
            _ = hang_up.recv() => {}
        }
        if let Err(failure) = reload.now() {
            tracing::error!(code = failure.code, "{}", failure.message);
        }
    }
}

async fn signals(asked: CancellationToken) {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        tracing::error!("cannot listen for signals; use 'entrepot stop'");
        return;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        () = asked.cancelled() => {}
    }
    asked.cancel();
}
