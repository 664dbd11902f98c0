//! `serve`: opens the parts, starts everything, waits, stops everything in order.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use entrepot_admin::ServingParts;
use entrepot_auth::{Directory, Gate, GateOptions, PenaltySharing};
use entrepot_engine::{Engine, EngineOptions, EngineParts};
use entrepot_journal::Scope;
use entrepot_net::guard::UnauthenticatedConnections;
use entrepot_nouns::{Fact, SiteId};
use entrepot_spawn::{Spawner, SpawnerOptions};
use entrepot_vfs::{Service, ServiceOptions, ServiceParts};
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::addresses_file::AddressesFile;
use crate::config::Config;
use crate::failure::{Exit, Failure};
use crate::listeners::{ListenerParts, Listeners};
use crate::log::LogControl;
use crate::metrics::{Metrics, MetricsParts};
use crate::ops::{self, Ops};
use crate::parts::Parts;
use crate::served::ServedNode;

/// Serves until a signal or `stop` asks for the end, then stops in order.
pub(crate) async fn run(config: &Config) -> Result<(), Failure> {
    let log = crate::log::start(&config.log)?;
    let server = Server::start(config, log).await?;
    server.stopped().await;
    server.stop().await
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
    /// Ends the tasks that serve until the very end.
    end: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

impl Server {
    /// Opens and starts everything; nothing listens before recovery is done.
    pub(crate) async fn start(config: &Config, log: LogControl) -> Result<Server, Failure> {
        let parts = Parts::open(config).await?;
        let env = parts.env.clone();
        let directory = Directory::new(parts.db.clone(), env.clone(), parts.master.clone());
        let gate = Gate::new(directory.clone(), parts.recorder.clone(), GateOptions::default());
        let admin = parts.admin(Some(directory.clone()));
        let pending = admin.seal_pending().await;
        pending.map_err(|error| crate::ask::problem(error.into()))?;
        let vfs = start_vfs(config, &parts, &directory).await?;
        let node = Arc::new(ServedNode { vfs: vfs.clone(), log });
        let admin = Arc::new(admin.with_serving(ServingParts { node, gate: gate.clone() }));
        let started = Fact::NodeStarted { version: env!("CARGO_PKG_VERSION").to_owned() };
        record(&parts, started)?;
        let spawner = spawner(config, &parts);
        gate.start_programs_by(spawner.clone());
        let engine = Arc::new(Engine::start(EngineParts {
            db: parts.db.clone(),
            recorder: parts.recorder.clone(),
            vfs: vfs.clone(),
            gate: gate.clone(),
            spawner: spawner.clone(),
            options: EngineOptions { workers: config.workers, ..EngineOptions::default() },
        }));
        let (asked, end) = (vfs.draining(), CancellationToken::new());
        let mut tasks = vec![tokio::spawn(directory.clone().run(end.clone()))];
        let heartbeat = (admin.clone(), asked.clone(), end.clone());
        tasks.push(tokio::spawn(async move {
            let (admin, draining, until) = heartbeat;
            admin.keep_node_alive(draining, until).await;
        }));
        if let Some(outdated) = gate.outdated_passwords() {
            let (admin, until) = (admin.clone(), end.clone());
            tasks.push(tokio::spawn(async move { admin.renew_hashes(outdated, until).await }));
        }
        let unauthenticated = UnauthenticatedConnections::default();
        let metrics = Metrics::new(MetricsParts {
            recorder: parts.recorder.clone(),
            vfs: vfs.clone(),
            gate: gate.clone(),
            engine: engine.clone(),
            db: parts.db.clone(),
            unauthenticated: unauthenticated.clone(),
        });
        let ready = Arc::new(AtomicBool::new(false));
        let ops = Ops { admin: admin.clone(), metrics, ready: ready.clone(), stop: asked.clone() };
        let ops_address = start_ops(config, ops, &end, &mut tasks).await?;
        let shared = ListenerParts { gate, vfs: vfs.clone(), unauthenticated };
        // No session may pass by a rule that is not known yet.
        engine.ready().await;
        tasks.push(share_penalties(&shared.gate, &end).await);
        let addresses = AddressesFile::new(&config.data, ops_address);
        let listeners = Listeners::new(config, &parts, admin, shared, addresses.clone());
        listeners.open_all().await?;
        ready.store(true, Ordering::Release);
        tasks.push(tokio::spawn(signals(asked.clone())));
        tasks.push(tokio::spawn(listeners.clone().follow(directory.watch(), end.clone())));
        let config = config.clone();
        Ok(Server { config, parts, vfs, engine, spawner, listeners, addresses, asked, end, tasks })
    }

    /// Waits until someone asks the server to stop.
    pub(crate) async fn stopped(&self) {
        self.asked.cancelled().await;
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
) -> Result<Service, Failure> {
    let started = Service::start(ServiceParts {
        recorder: parts.recorder.clone(),
        directory: directory.clone(),
        db: parts.db.clone(),
        env: parts.env.clone(),
        master: parts.master.clone(),
        options: ServiceOptions {
            boot: boot_id(),
            spool: Some(config.data.join("spool")),
            ..ServiceOptions::default()
        },
    });
    let (vfs, report) = started
        .await
        .map_err(|error| Failure::new(error.code(), Exit::Failed, error.to_string()))?;
    tracing::info!(?report, torn_bytes = parts.recovered.torn_bytes, "recovered");
    Ok(vfs)
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
fn spawner(config: &Config, parts: &Parts) -> Spawner {
    let exec = &config.exec;
    let options = SpawnerOptions {
        children: exec.children,
        queue: exec.queue,
        ..SpawnerOptions::new(exec.allowed.clone())
    };
    Spawner::new(options, parts.env.clone())
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
