//! `bench host`: procedures of a host application, called over HTTP by many clients; on a node and
//! a host that are made for it, or at another server.

use bytes::Bytes;
use entrepot_host::SAMPLE_MODEL;
use entrepot_host::model::Model;
use entrepot_loadgen::https::{BenchError, Login, Target};
use entrepot_loadgen::procedures::{
    self, Connections, HostReport, HostRow, ProcedureBench, RowCosts, RowName, Watched,
};
use entrepot_nouns::{Env, Secret};
use serde_json::{Value, json};

use super::host_node::{BenchNode, Deployed, HostSide, PoolUse, ServerSide};
use super::host_sample::{SEARCH, SampleCall, Screens, UPDATE, screens_of};
use super::{host_s3270, password, report_file};
use crate::args::{BenchHostArgs, BenchHostPart};
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Measures, and prints row by row.
pub(super) async fn run(output: Output, args: &BenchHostArgs, env: &Env) -> Result<(), Failure> {
    let mut table = Table { output, env, rows: Vec::new() };
    if output == Output::Human {
        println!("{}", HostRow::heading());
    }
    match &args.target {
        Some(target) => table.other_server(target, args).await?,
        None => {
            let mut node = BenchNode::start(&args.folder, env).await?;
            let measured = table.all_parts(&mut node, args).await;
            node.end().await.and(measured)?;
        }
    }
    let report = HostReport::of(&table.rows);
    if let Some(file) = &args.report {
        report_file::write(&report, file)?;
    }
    output.value(&report, || {
        println!();
        print!("{report}");
    })?;
    if report.is_clean() {
        return Ok(());
    }
    let what = "not every transaction gave what it should: see what failed";
    Err(Failure::new("EP0209", Exit::Findings, what.to_owned()))
}

/// The rows so far.
struct Table<'a> {
    output: Output,
    env: &'a Env,
    rows: Vec<HostRow>,
}

/// How a row is measured.
#[derive(Clone, Copy, Debug)]
struct RowSetup {
    call: SampleCall,
    clients: u16,
    pool: PoolUse,
    debug: &'static str,
    server: ServerSide,
    host: HostSide,
    connections: Connections,
    /// What is said of it behind the procedure and the pool.
    note: &'static str,
}

impl RowSetup {
    fn name(&self) -> String {
        let pool = match self.pool {
            PoolUse::Kept => "pool",
            PoolUse::OneCall => "no pool",
        };
        let kept = match self.connections {
            Connections::KeptAlive => "",
            Connections::NewEachTime => ", reconnecting",
        };
        let note = if self.note.is_empty() { String::new() } else { format!(", {}", self.note) };
        format!("{}, {pool}{note}{kept}", self.call.name)
    }

    fn bench(
        &self,
        node: &BenchNode,
        args: &BenchHostArgs,
        model: &str,
    ) -> Result<ProcedureBench, Failure> {
        let input = self.call.input();
        Ok(ProcedureBench {
            target: node.target(self.server, model, self.call.procedure)?,
            login: Some(node.login()),
            input: Bytes::from(json!(input).to_string()),
            clients: usize::from(self.clients),
            transactions: args.transactions,
            connections: self.connections,
            deadline: args.deadline,
            watched: node.watched(self.host),
        })
    }
}

/// Entities of the models of `size`.
const ENTITIES: [usize; 3] = [10, 50, 100];

/// The sample application with so many entities. Those that it never shows come first, so that each
/// screen is compared with all of them.
fn model_of(entities: usize) -> String {
    let own = Model::read(SAMPLE_MODEL).map_or(0, |model| model.entities.names().count());
    let others: String = (own..entities)
        .map(|number| {
            format!(
                "  Other{number}:\n    is: [\"LX{number:03} @ 1,72\"]\n    \
                 ops: {{menu: {{key: PF12, to: Menu}}}}\n"
            )
        })
        .collect();
    SAMPLE_MODEL.replacen("entities:\n", &format!("entities:\n{others}"), 1)
}

impl Table<'_> {
    async fn all_parts(
        &mut self,
        node: &mut BenchNode,
        args: &BenchHostArgs,
    ) -> Result<(), Failure> {
        let setups = setups(args);
        let sizes = is_wanted(args, BenchHostPart::Size);
        let s3270 = args.parts.contains(&BenchHostPart::S3270)
            || (args.parts.is_empty() && host_s3270::is_there().await);
        let (mut search, mut update) = (None, None);
        for _ in 0..args.rounds.max(1) {
            for setup in &setups {
                let known = if setup.call == SEARCH { &mut search } else { &mut update };
                let screens = match known {
                    Some(screens) => *screens,
                    None => *known.insert(screens_of(setup.call).await?),
                };
                self.measure(node, args, setup, screens).await?;
            }
            if sizes {
                self.sizes(node, args).await?;
            }
            if s3270 {
                for clients in &args.clients {
                    let row = host_s3270::run(
                        node.host_address(HostSide::Clear),
                        usize::from(*clients),
                        args.transactions,
                        self.env,
                    );
                    let row = row.await?;
                    self.push(row);
                }
            }
        }
        Ok(())
    }

    /// One row: a model of its own, called by all clients.
    async fn measure(
        &mut self,
        node: &BenchNode,
        args: &BenchHostArgs,
        setup: &RowSetup,
        screens: Screens,
    ) -> Result<(), Failure> {
        let model = format!("row-{}", self.rows.len() + 1);
        let deployed = Deployed {
            model: &model,
            definition: SAMPLE_MODEL,
            sessions: setup.clients,
            pool: setup.pool,
            debug: setup.debug,
            host: setup.host,
        };
        node.deploy(&deployed).await?;
        let bench = setup.bench(node, args, &model)?;
        node.wait_for(&bench, self.env).await?;
        let of_session = match setup.pool {
            PoolUse::Kept => 0,
            PoolUse::OneCall => screens.to_home + screens.log_off,
        };
        let name = RowName { row: setup.name(), screens: screens.call + of_session };
        self.called(name, &bench).await?;
        node.retire(&model).await?;
        node.rests(self.env).await
    }

    async fn called(&mut self, name: RowName, bench: &ProcedureBench) -> Result<(), Failure> {
        let row = procedures::run(name, bench, self.env).await.map_err(failed)?;
        self.push(row);
        Ok(())
    }

    /// Two rows for each size of a model and number of sessions: at rest, and behind a search.
    async fn sizes(&mut self, node: &mut BenchNode, args: &BenchHostArgs) -> Result<(), Failure> {
        let screens = screens_of(SEARCH).await?.call;
        let setup = usual(args);
        for entities in ENTITIES {
            let (model, definition) = (format!("of-{entities}"), model_of(entities));
            for sessions in &args.sessions {
                node.restart(self.env).await?;
                let deployed = Deployed {
                    model: &model,
                    definition: &definition,
                    sessions: *sessions,
                    pool: setup.pool,
                    debug: setup.debug,
                    host: setup.host,
                };
                let handles = node.handles(setup.host) + u64::from(*sessions);
                node.deploy(&deployed).await?;
                node.wait_for_handles(setup.host, handles, self.env).await?;
                let costs = RowCosts::read(node.watched(setup.host));
                let costs = costs.map_err(|error| Failure::start(error.to_string()))?;
                let size = format!("{entities} entities, {sessions} sessions");
                let name = RowName { row: format!("at rest, {size}"), screens: 0 };
                self.push(HostRow::at_rest(name, costs));
                let bench = setup.bench(node, args, &model)?;
                let name = RowName { row: format!("search, {size}"), screens };
                self.called(name, &bench).await?;
                node.retire(&model).await?;
                node.rests(self.env).await?;
            }
        }
        Ok(())
    }

    /// One row for each number of clients, at a server that somebody else runs.
    async fn other_server(&mut self, target: &str, args: &BenchHostArgs) -> Result<(), Failure> {
        let target = Target::address(target).map_err(Failure::usage)?;
        let password = password::read(args.password_file.as_deref(), None)?;
        let user = args.user.clone().unwrap_or_default();
        let login = Some(Login { user, password: Secret::new(password) });
        let input = args.input.iter().map(|it| (it.name.clone(), json!(it.value)));
        let input = Value::Object(input.collect()).to_string();
        let connections =
            if args.reconnect { Connections::NewEachTime } else { Connections::KeptAlive };
        let row = target.folder.rsplit('/').next().unwrap_or_default().to_owned();
        for _ in 0..args.rounds.max(1) {
            for clients in &args.clients {
                let bench = ProcedureBench {
                    target: target.clone(),
                    login: login.clone(),
                    input: Bytes::from(input.clone()),
                    clients: usize::from(*clients),
                    transactions: args.transactions,
                    connections,
                    deadline: args.deadline,
                    watched: Watched { server: args.server_pid, host: None },
                };
                let screens = args.screens.unwrap_or(1);
                let name = RowName { row: row.clone(), screens };
                let row = procedures::run(name, &bench, self.env).await.map_err(failed)?;
                self.push(row);
            }
        }
        Ok(())
    }

    fn push(&mut self, row: HostRow) {
        if self.output == Output::Human {
            println!("{row}");
        }
        self.rows.push(row);
    }
}

fn failed(error: BenchError) -> Failure {
    Failure::new("EP0209", Exit::Failed, error.to_string())
}

fn is_wanted(args: &BenchHostArgs, part: BenchHostPart) -> bool {
    args.parts.is_empty() || args.parts.contains(&part)
}

/// The row that others differ from.
fn usual(args: &BenchHostArgs) -> RowSetup {
    let connections =
        if args.reconnect { Connections::NewEachTime } else { Connections::KeptAlive };
    RowSetup {
        call: SEARCH,
        clients: args.option_clients,
        pool: PoolUse::Kept,
        debug: "nothing",
        server: ServerSide::Clear,
        host: HostSide::Clear,
        connections,
        note: "",
    }
}

/// All rows of a round but those of sizes and of s3270.
fn setups(args: &BenchHostArgs) -> Vec<RowSetup> {
    let is_wanted = |part| is_wanted(args, part);
    let usual = usual(args);
    let mut setups = Vec::new();
    for (part, call) in [(BenchHostPart::Search, SEARCH), (BenchHostPart::Update, UPDATE)] {
        for pool in [PoolUse::Kept, PoolUse::OneCall] {
            let rows = args.clients.iter().filter(|_| is_wanted(part));
            setups.extend(rows.map(|clients| RowSetup { call, clients: *clients, pool, ..usual }));
        }
    }
    if is_wanted(BenchHostPart::Debug) {
        for (debug, note) in [
            ("nothing", "debug nothing"),
            ("errors", "debug errors"),
            ("everything", "debug everything"),
        ] {
            setups.push(RowSetup { debug, note, ..usual });
            setups.push(RowSetup { debug, note, pool: PoolUse::OneCall, ..usual });
        }
    }
    if is_wanted(BenchHostPart::Security) {
        for (server, host, note) in [
            (ServerSide::Clear, HostSide::Clear, "clear"),
            (ServerSide::Tls, HostSide::Clear, "TLS"),
            (ServerSide::Clear, HostSide::Tls, "TLS to the host"),
            (ServerSide::Tls, HostSide::Tls, "TLS on both sides"),
        ] {
            for connections in [Connections::KeptAlive, Connections::NewEachTime] {
                setups.push(RowSetup { server, host, note, connections, ..usual });
            }
        }
    }
    if is_wanted(BenchHostPart::Player) {
        setups.push(RowSetup { host: HostSide::Player, note: "Trace Player", ..usual });
    }
    setups
}
