//! The node and the hosts that `bench host` measures: processes of their own, so that what each of
//! them spends is known.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use entrepot_loadgen::https::{BenchError, Login, Target};
use entrepot_loadgen::procedures::{self, ProcedureBench, RowCosts, RowName, Watched};
use entrepot_loadgen::process::spent;
use entrepot_nouns::{Env, Name, Secret};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Child;

use super::host_sample::{SEARCH, not_called, sample_session};
use super::node_process::{
    LOOK, NodeProcess, PATIENCE, apply, free_address, in_new_folder, new_node, program,
};
use crate::ask::{ask, server_answers};
use crate::config::Config;
use crate::failure::{Exit, Failure};

/// A server that has worked less than a tenth of that time rests.
const QUIET: Duration = Duration::from_millis(300);
/// The account that calls.
const ACCOUNT: &str = "bench";
/// Sessions that are opened at the same time.
const OPENING: u16 = 50;

/// Between clients and the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerSide {
    Clear,
    Tls,
}

/// Which host there is, and how the server reaches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostSide {
    Clear,
    Tls,
    /// A Trace Player in clear text, with a recording of the sample application.
    Player,
}

impl HostSide {
    /// What its endpoint is called.
    fn endpoint(self) -> &'static str {
        match self {
            HostSide::Clear => "clear",
            HostSide::Tls => "tls",
            HostSide::Player => "player",
        }
    }
}

/// What becomes of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PoolUse {
    /// There is one for each client, and it is used again.
    Kept,
    /// Each call has a new one, which is logged off behind it.
    OneCall,
}

/// A model that is called.
pub(super) struct Deployed<'a> {
    pub(super) model: &'a str,
    /// Of the sample application, or with more entities.
    pub(super) definition: &'a str,
    pub(super) sessions: u16,
    pub(super) pool: PoolUse,
    pub(super) debug: &'a str,
    pub(super) host: HostSide,
}

/// A node with the sample application, until it is ended.
pub(super) struct BenchNode {
    config: Config,
    folder: PathBuf,
    server: NodeProcess,
    clear: BenchHost,
    tls: BenchHost,
    player: BenchHost,
    http: SocketAddr,
    https: SocketAddr,
    password: String,
}

/// A host as a process.
struct BenchHost {
    child: Child,
    address: SocketAddr,
    fingerprint: Option<String>,
}

impl BenchNode {
    /// Makes a node, and starts it and its hosts.
    pub(super) async fn start(folder: &Path, env: &Env) -> Result<BenchNode, Failure> {
        in_new_folder(folder, BenchNode::make(folder, env)).await
    }

    async fn make(folder: &Path, env: &Env) -> Result<BenchNode, Failure> {
        let config = new_node(folder).await?;
        let (http, https) = (free_address()?, free_address()?);
        let sample = ["host", "sample", "--listen", "127.0.0.1:0"];
        let clear = BenchHost::start(sample).await?;
        let tls = BenchHost::start(sample.into_iter().chain(["--tls"])).await?;
        let player = BenchHost::start_player(clear.address, &folder.join("traces")).await?;
        let mut random = [0; 16];
        env.fill_random(&mut random);
        let password: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let nouns = [
            json!({"account": {"name": ACCOUNT, "type": "service", "password": password}}),
            listener("http", http),
            listener("https", https),
            clear.endpoint(HostSide::Clear),
            tls.endpoint(HostSide::Tls),
            player.endpoint(HostSide::Player),
        ];
        apply(&config, &nouns).await?;
        let server = serving(&config, folder, env).await?;
        let folder = folder.to_owned();
        Ok(BenchNode { config, folder, server, clear, tls, player, http, https, password })
    }

    /// Starts the server again, which has grown with the rows before.
    pub(super) async fn restart(&mut self, env: &Env) -> Result<(), Failure> {
        self.server.stop().await?;
        self.server = serving(&self.config, &self.folder, env).await?;
        Ok(())
    }

    fn host(&self, side: HostSide) -> &BenchHost {
        match side {
            HostSide::Clear => &self.clear,
            HostSide::Tls => &self.tls,
            HostSide::Player => &self.player,
        }
    }

    /// Where terminals reach the host.
    pub(super) fn host_address(&self, side: HostSide) -> SocketAddr {
        self.host(side).address
    }

    /// The processes that spend something.
    pub(super) fn watched(&self, side: HostSide) -> Watched {
        Watched { server: self.server.pid(), host: self.host(side).child.id() }
    }

    /// The address of a procedure.
    pub(super) fn target(
        &self,
        side: ServerSide,
        model: &str,
        procedure: &str,
    ) -> Result<Target, Failure> {
        let server = match side {
            ServerSide::Clear => format!("http://{}", self.http),
            ServerSide::Tls => format!("https://{}", self.https),
        };
        let address = format!("{server}/api/v1/models/{model}/procedures/{procedure}");
        Target::address(&address).map_err(Failure::usage)
    }

    /// The account that calls, with its password.
    pub(super) fn login(&self) -> Login {
        Login { user: ACCOUNT.to_owned(), password: Secret::new(self.password.clone()) }
    }

    /// Deploys a model; it can be called a moment later.
    pub(super) async fn deploy(&self, deployed: &Deployed<'_>) -> Result<(), Failure> {
        let Deployed { model, definition, sessions, pool, debug, host } = *deployed;
        let pending = sessions.min(OPENING);
        let (all, pool) = match pool {
            PoolUse::Kept => {
                let pool = json!({"initial": sessions, "max": sessions, "max_pending": pending,
                    "wait": "60s"});
                (u32::from(sessions), pool)
            }
            // While one is logged off the next one is opened.
            PoolUse::OneCall => {
                let all = u32::from(sessions) * 2;
                let pool = json!({"max": all, "max_uses": 1, "max_pending": pending,
                    "wait": "60s"});
                (all, pool)
            }
        };
        let users = (0..all).map(|_| "CLERK,SECRET\n");
        let noun = json!({"model": {
            "name": model,
            "endpoint": host.endpoint(),
            "definition": definition,
            "users": std::iter::once("user,password\n").chain(users).collect::<String>(),
            "callers": {ACCOUNT: ["*"]},
            "pool": pool,
            "debug": {"level": debug},
        }});
        apply(&self.config, &[noun]).await
    }

    /// Waits until a procedure of a model can be called.
    pub(super) async fn wait_for(&self, bench: &ProcedureBench, env: &Env) -> Result<(), Failure> {
        let one = ProcedureBench { clients: 1, transactions: 1, ..bench.clone() };
        let began = env.elapsed();
        loop {
            let name = RowName { row: String::new(), screens: 1 };
            let failed = |error: BenchError| Failure::start(error.to_string());
            let row = procedures::run(name, &one, env).await.map_err(failed)?;
            if row.transactions == 1 {
                return Ok(());
            }
            if env.elapsed().saturating_sub(began) > PATIENCE {
                let (why, log) = (row.failures.join("; "), self.server.log());
                let what = format!("the procedure cannot be called: {why}\n{log}");
                return Err(Failure::new("EP0209", Exit::Failed, what));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Connections and files that a host has open.
    pub(super) fn handles(&self, side: HostSide) -> u64 {
        let spent = self.host(side).child.id().and_then(spent);
        spent.map(|spent| spent.handles).unwrap_or_default()
    }

    /// Waits until a host has so many handles, and all its sessions are at home.
    pub(super) async fn wait_for_handles(
        &self,
        side: HostSide,
        wanted: u64,
        env: &Env,
    ) -> Result<(), Failure> {
        let began = env.elapsed();
        while self.handles(side) < wanted {
            if env.elapsed().saturating_sub(began) > PATIENCE {
                let (open, log) = (self.handles(side), self.server.log());
                let what = format!("sessions do not open: {open} handles of {wanted}\n{log}");
                return Err(Failure::new("EP0209", Exit::Failed, what));
            }
            tokio::time::sleep(LOOK).await;
        }
        self.rests(env).await
    }

    /// Closes all sessions of a model.
    pub(super) async fn retire(&self, model: &str) -> Result<(), Failure> {
        let name: Name = model.parse().map_err(|_| Failure::usage(model))?;
        let request = json!({"request": "delete", "kind": "model", "name": name});
        ask(&self.config, request).await.map(drop)
    }

    /// Waits until the server has nothing to do any more: it logs sessions off and writes records
    /// behind the calls of a row, and that is no part of the next one.
    pub(super) async fn rests(&self, env: &Env) -> Result<(), Failure> {
        let spent = || {
            let costs = RowCosts::read(self.watched(HostSide::Clear));
            costs.map(|costs| costs.server).map_err(|error| Failure::start(error.to_string()))
        };
        let began = env.elapsed();
        let mut before = spent()?;
        loop {
            tokio::time::sleep(QUIET).await;
            let now = spent()?;
            let worked = now.zip(before).map_or(QUIET, |(now, before)| now.saturating_sub(before));
            if worked < QUIET / 10 || env.elapsed().saturating_sub(began) > PATIENCE {
                return Ok(());
            }
            before = now;
        }
    }

    /// Stops the processes and removes the folder.
    pub(super) async fn end(mut self) -> Result<(), Failure> {
        let mut stopped = Ok(());
        for host in [&mut self.clear, &mut self.tls, &mut self.player] {
            stopped = stopped.and(host.child.kill().await);
        }
        self.server.end().await?;
        stopped.map_err(|error| Failure::start(format!("a host cannot be stopped: {error}")))
    }
}

impl BenchHost {
    /// Records a session with an application, and plays it.
    async fn start_player(sample: SocketAddr, traces: &Path) -> Result<BenchHost, Failure> {
        let cannot = |error: std::io::Error| Failure::start(format!("the recording: {error}"));
        let (to, into) = (sample.to_string(), traces.display().to_string());
        let record = ["host", "record", "--to", &to, "--into", &into];
        let mut recorder = BenchHost::start(record).await?;
        let mut session = sample_session(recorder.address).await?;
        session.call(SEARCH.procedure, SEARCH.input()).await.map_err(not_called)?;
        session.log_off().await;
        recorder.child.kill().await.map_err(cannot)?;
        let mut recorded = std::fs::read_dir(traces).map_err(cannot)?;
        let trace = recorded.next().ok_or_else(|| Failure::start("nothing was recorded"))?;
        let trace = trace.map_err(cannot)?.path().display().to_string();
        // A search begins where the one before it ended, and the recording has one.
        BenchHost::start(["host", "play", &trace, "--no-match", "search"]).await
    }

    async fn start<'w>(words: impl IntoIterator<Item = &'w str>) -> Result<BenchHost, Failure> {
        let cannot = |error: std::io::Error| Failure::start(format!("the host: {error}"));
        let mut command = program()?;
        command.args(words);
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(cannot)?;
        let ended = || Failure::start("the host has ended");
        let mut lines = BufReader::new(child.stdout.take().ok_or_else(ended)?).lines();
        let mut fingerprint = None;
        loop {
            let line = lines.next_line().await.map_err(cannot)?.ok_or_else(ended)?;
            if let Some(pin) = line.strip_prefix("certificate: SHA-256 ") {
                fingerprint = Some(pin.to_owned());
            }
            if let Some(address) = line.strip_prefix("listening on ") {
                let address = address.parse().map_err(|_| ended())?;
                return Ok(BenchHost { child, address, fingerprint });
            }
        }
    }

    fn endpoint(&self, side: HostSide) -> Value {
        let port = self.address.port();
        let target = match &self.fingerprint {
            None => json!({"host": "127.0.0.1", "port": port}),
            Some(pin) => json!({"host": "127.0.0.1", "port": port, "tls": "implicit",
                "certificates": [pin]}),
        };
        json!({"endpoint": {"name": side.endpoint(), "target": {"tn3270": target}}})
    }
}

/// Until it answers, commands would work on its data themselves.
async fn serving(config: &Config, folder: &Path, env: &Env) -> Result<NodeProcess, Failure> {
    let answers = async || server_answers(config).await;
    NodeProcess::start(config, folder, env, answers).await
}

fn listener(protocol: &str, address: SocketAddr) -> Value {
    /// Of clients that all come from one address.
    const AT_ONCE: u32 = 10_000;
    json!({"listener": {
        "name": protocol,
        "protocol": protocol,
        "address": address.to_string(),
        "http": {"serve": ["host"], "limits": {"requests": AT_ONCE}},
        "unauthenticated": [{"network": "127.0.0.0/8", "connections": AT_ONCE}],
    }})
}
