//! Orders to the node that serves: sites, administrators, events.

use entrepot_auth::{Directory, Gate, GateOptions};
use entrepot_journal::RecordKind;
use entrepot_nouns::as2::As2Test;
use entrepot_nouns::{PerDirection, Protocol, SessionId, SessionInfo, Stored};
use parking_lot::Mutex;

use super::*;

/// A node with two sessions, which remembers what it was asked for.
#[derive(Default)]
struct FakeNode {
    sessions: Mutex<Vec<SessionInfo>>,
    orders: Mutex<Vec<String>>,
    /// The journal takes no records.
    is_full: Mutex<bool>,
    levels: Mutex<LogLevels>,
}

impl LiveNode for FakeNode {
    fn sessions(&self) -> Vec<SessionInfo> {
        let mut sessions = self.sessions.lock();
        // Half a second later a megabyte has arrived.
        let before = sessions.clone();
        sessions.iter_mut().for_each(|session| session.wire_in += 1_000_000);
        before
    }

    fn end_session(&self, id: SessionId, reason: &str) -> bool {
        let mut sessions = self.sessions.lock();
        let open = sessions.len();
        sessions.retain(|session| session.id != id);
        self.orders.lock().push(format!("end: {reason}"));
        sessions.len() < open
    }

    fn limit_session(&self, id: SessionId, rates: Option<PerDirection>) -> bool {
        self.orders.lock().push(format!("limit: {rates:?}"));
        self.sessions.lock().iter().any(|session| session.id == id)
    }

    fn limit_node(
        &self,
        rates: Option<PerDirection>,
        by: &str,
    ) -> std::result::Result<PerDirection, NotRecorded> {
        if *self.is_full.lock() {
            return Err(NotRecorded { code: "EP0301", problem: "full".to_owned() });
        }
        self.orders.lock().push(format!("limit the node by {by}"));
        Ok(rates.unwrap_or_default())
    }

    fn drain_node(&self, by: &str) -> std::result::Result<(), NotRecorded> {
        self.orders.lock().push(format!("drain by {by}"));
        Ok(())
    }

    fn log_levels(&self) -> LogLevels {
        self.levels.lock().clone()
    }

    fn set_log_levels(&self, levels: LogLevels) -> std::result::Result<(), String> {
        *self.levels.lock() = levels;
        Ok(())
    }

    fn carry_out(&self, _order: HeldOrder) -> CarriedOut<'_> {
        Box::pin(async { Err("nothing is held here".to_owned()) })
    }

    fn test_as2(&self, endpoint: Stored<Endpoint>) -> TestedAs2<'_> {
        let partner = endpoint.noun.name;
        Box::pin(async move { As2Test { partner, message_id: None, steps: Vec::new() } })
    }
}

struct World {
    bench: Bench,
    node: Arc<FakeNode>,
    gate: Gate,
    /// A session of the site `main`, and one of `north`.
    main: SessionId,
    north: SessionId,
    north_site: SiteId,
}

async fn world() -> World {
    let mut bench = bench().await;
    bench.apply("site: {name: north}").await.unwrap();
    let sites = bench.db.sites().await.unwrap();
    let north = sites.iter().find(|site| site.noun.name.as_str() == "north").unwrap();
    let north_site = SiteId(north.id);
    let env = Env::simulated(5);
    let session = |site: SiteId, account: &str| SessionInfo {
        id: env.new_id(),
        site,
        account: account.parse().unwrap(),
        protocol: Protocol::Sftp,
        address: "192.0.2.7:40000".to_owned(),
        client: "OpenSSH_9.9".to_owned(),
        algorithms: String::new(),
        opened_at: env.now(),
        bytes_in: 0,
        bytes_out: 0,
        wire_in: 0,
        wire_out: 0,
        transfers: 0,
    };
    let open = vec![session(SiteId::MAIN, "acme"), session(north_site, "boreas")];
    let (main, north) = (open[0].id, open[1].id);
    let node = Arc::new(FakeNode { sessions: Mutex::new(open), ..FakeNode::default() });
    let directory = Directory::new(bench.db.clone(), env.clone(), bench.master.clone());
    let recorder = Recorder::new(bench.journal.clone(), env, "n1".parse().unwrap());
    let gate = Gate::new(directory, recorder, GateOptions::default());
    let serving = ServingParts { node: node.clone(), gate: gate.clone() };
    bench.admin = bench.admin.with_serving(serving);
    World { bench, node, gate, main, north, north_site }
}

impl World {
    async fn at_site(&self, site: SiteId, request: Request) -> Result<Response> {
        let actor = Actor::of_machine("cli:root".to_owned(), site);
        self.bench.admin.handle(&actor, request).await
    }

    async fn sessions(&self, site: SiteId) -> Vec<SessionRow> {
        match self.at_site(site, Request::Sessions).await.unwrap() {
            Response::Sessions { sessions } => sessions,
            other => panic!("{other:?}"),
        }
    }

    /// The events of a kind in the journal, as JSON: no engine projects them here.
    fn recorded(&self, kind: &str) -> Vec<Value> {
        // Only what is durable is read; what comes before a durable record is too.
        self.bench.journal.append_durable_here(RecordKind::Event, b"{}").unwrap();
        let records = self.bench.journal.reader(0).read_now(100).unwrap();
        let events = records.iter().map(|it| serde_json::from_slice(&it.payload).unwrap());
        events.filter(|event: &Value| event["kind"] == kind).collect()
    }
}

#[tokio::test]
async fn the_log_is_changed_by_subject_with_an_event_and_by_main_alone() {
    let world = world().await;
    let set = |json: Value| -> Request {
        serde_json::from_value(json!({"request": "set-log-levels", "levels": json})).unwrap()
    };
    let change = set(json!({"auth": "debug", "net": "trace"}));
    let refused = world.at_site(world.north_site, change.clone()).await;
    assert!(refused.is_err() && world.node.levels.lock().is_empty());
    world.at_site(SiteId::MAIN, change).await.unwrap();
    let answer = world.at_site(SiteId::MAIN, set(json!({"net": null}))).await.unwrap();
    let Response::LogLevels { levels } = answer else { panic!("{answer:?}") };
    assert_eq!(levels, LogLevels::from([(LogSubject::Auth, LogLevel::Debug)]));
    assert_eq!(*world.node.levels.lock(), levels);
    world.at_site(SiteId::MAIN, Request::ResetLogLevels).await.unwrap();
    let changed = world.recorded("log.changed");
    let told: Vec<&Value> = changed.iter().map(|event| &event["levels"]).collect();
    assert_eq!(told, [&json!(["auth=debug", "net=trace"]), &json!(["auth=debug"]), &json!([])]);
    assert!(changed.iter().all(|event| event["by"] == "cli:root"), "{changed:?}");
    for odd in [json!({"authh": "debug"}), json!({"auth": "loud"})] {
        let request = json!({"request": "set-log-levels", "levels": odd});
        assert!(serde_json::from_value::<Request>(request).is_err());
    }
}

#[tokio::test]
async fn an_export_is_recorded_with_who_read_what() {
    let world = world().await;
    let account = json!({"name": "a", "password": "correct horse"});
    world.bench.create(json!({"account": account})).await.unwrap();
    for kinds in [vec![], vec![Kind::Site, Kind::Mount]] {
        world.at_site(SiteId::MAIN, Request::Export { kinds }).await.unwrap();
    }
    let exported = world.recorded("config.exported");
    let secrets: Vec<&Value> = exported.iter().map(|event| &event["secrets"]).collect();
    assert_eq!(secrets, [true, false], "{exported:?}");
    assert_eq!(exported[0]["kinds"].as_array().unwrap().len(), Kind::ALL.len());
    assert_eq!(exported[1]["kinds"], json!(["site", "mount"]));
    assert!(exported.iter().all(|event| event["by"] == "cli:root"), "{exported:?}");
}

const SLOW: RateOrder = RateOrder::Set { upload: Some(500_000), download: None };

#[tokio::test]
async fn a_site_sees_its_own_sessions_and_main_sees_all() {
    let world = world().await;
    let rows = world.sessions(SiteId::MAIN).await;
    let shown: Vec<(&str, &str)> =
        rows.iter().map(|row| (row.site.as_str(), row.session.account.as_str())).collect();
    assert_eq!(shown, [("main", "acme"), ("north", "boreas")]);
    assert_eq!((rows[0].in_per_second, rows[0].out_per_second), (2_000_000, 0));
    let told = serde_json::to_value(&rows[1]).unwrap();
    assert_eq!((&told["site"], &told["site_id"]), (&json!("north"), &json!(world.north_site)));
    assert_eq!(serde_json::from_value::<SessionRow>(told).unwrap(), rows[1]);
    let rows = world.sessions(world.north_site).await;
    assert_eq!(rows.iter().map(|row| row.session.id).collect::<Vec<_>>(), [world.north]);
}

#[tokio::test]
async fn orders_to_a_session_need_its_site_and_are_recorded() {
    let world = world().await;
    let end = || Request::EndSession { id: world.main };
    for request in [end(), Request::LimitSession { id: world.main, rates: SLOW }] {
        let unseen = world.at_site(world.north_site, request).await.unwrap_err();
        assert_eq!((unseen.code(), unseen.class()), ("EP0207", ProblemClass::NotFound));
    }
    assert!(world.node.orders.lock().is_empty() && world.recorded("session.ending").is_empty());

    for rates in [SLOW, RateOrder::Reset] {
        let limit = Request::LimitSession { id: world.north, rates };
        world.at_site(world.north_site, limit).await.unwrap();
    }
    let limited = world.recorded("session.limited");
    assert_eq!(
        (&limited[0]["upload"], &limited[0]["download"], &limited[0]["by_policy"]),
        (&json!(500_000), &Value::Null, &json!(false))
    );
    assert_eq!((&limited[1]["upload"], &limited[1]["by_policy"]), (&Value::Null, &json!(true)));
    assert_eq!(limited[0]["site"], json!(world.north_site));

    world.at_site(SiteId::MAIN, end()).await.unwrap();
    let ending = world.recorded("session.ending");
    assert_eq!(
        (&ending[0]["name"], &ending[0]["by"], &ending[0]["session"]),
        (&json!("acme"), &json!("cli:root"), &json!(world.main))
    );
    let again = world.at_site(SiteId::MAIN, end()).await.unwrap_err();
    assert_eq!(again.code(), "EP0207");
    assert_eq!(world.recorded("session.ending").len(), 1, "what is not open is not ended");
}

#[tokio::test]
async fn only_actors_of_main_steer_the_node() {
    let world = world().await;
    for request in [Request::LimitNode { rates: SLOW }, Request::StopNode] {
        let elsewhere = world.at_site(world.north_site, request).await.unwrap_err();
        assert_eq!(elsewhere.code(), "EP0111");
    }
    assert!(world.node.orders.lock().is_empty());
    let limit = Request::LimitNode { rates: SLOW };
    let now = world.at_site(SiteId::MAIN, limit.clone()).await.unwrap();
    assert!(matches!(now, Response::Rates { upload: Some(500_000), download: None }), "{now:?}");
    world.at_site(SiteId::MAIN, Request::StopNode).await.unwrap();
    let orders = world.node.orders.lock().clone();
    assert_eq!(orders, ["limit the node by cli:root", "drain by cli:root"]);
    *world.node.is_full.lock() = true;
    let refused = world.at_site(SiteId::MAIN, limit).await.unwrap_err();
    assert_eq!((refused.code(), refused.class()), ("EP0301", ProblemClass::Failed));
}

#[tokio::test]
async fn nothing_is_unlocked_where_nothing_is_locked() {
    let world = world().await;
    let target = UnlockTarget::Account("acme".parse().unwrap());
    let unlock = || Request::Unlock { target: target.clone() };
    let nothing = world.at_site(SiteId::MAIN, unlock()).await.unwrap_err();
    assert_eq!(nothing.code(), "EP0215");
    let limits = world.at_site(SiteId::MAIN, Request::LoginLimits).await.unwrap();
    assert!(matches!(limits, Response::LoginLimits { limits } if limits.is_empty()));
}

#[tokio::test]
async fn without_a_server_in_the_process_no_session_is_asked_for() {
    let bench = bench().await;
    let refused = bench.ask(Request::Sessions).await.unwrap_err();
    assert!(refused.to_string().contains("entrepot serve"), "{refused}");
}

#[tokio::test]
async fn an_administrator_who_logged_in_is_an_actor_of_its_site() {
    let world = world().await;
    let north = Actor::of_machine("x".to_owned(), world.north_site);
    let text = "account: {name: root, type: admin}\n---\naccount: {name: acme, type: partner}";
    let request = Request::Apply { documents: document(text), prune: false };
    world.bench.admin.handle(&north, request).await.unwrap();
    let grant = |name: &str| {
        let (gate, name) = (world.gate.clone(), name.parse::<Name>().unwrap());
        async move { gate.internal(world.north_site, &name, "a test").await.unwrap() }
    };
    let actor = Actor::of_grant(&grant("root").await).unwrap();
    assert_eq!((actor.name.as_str(), actor.site), ("root", north.site));
    let refused = Actor::of_grant(&grant("acme").await).unwrap_err();
    assert_eq!((refused.code(), refused.class()), ("EP0115", ProblemClass::Denied));
}

/// A process of a node over the same database, with a journal of its own.
fn other_node(world: &World, folder: &str, name: &str) -> Admin {
    let (bench, name) = (&world.bench, name.parse::<Name>().unwrap());
    let env = bench.env.clone();
    let folder = bench.dir.path().join(folder);
    let (journal, _) = Journal::open(&folder, &name, env.clone(), Options::default()).unwrap();
    Admin::new(AdminParts {
        db: bench.db.clone(),
        master: MasterKey::from_bytes(&[7; 32]),
        recorder: Recorder::new(journal, env.clone(), name),
        directory: None,
        env,
    })
}

#[tokio::test]
async fn a_name_is_bound_to_one_journal_until_its_node_is_removed() {
    let world = world().await;
    let main = Actor::of_machine("root".to_owned(), SiteId::MAIN);
    let admin = &world.bench.admin;
    admin.join().await.unwrap();
    admin.join().await.unwrap();
    let nodes = async || match admin.handle(&main, Request::Nodes).await.unwrap() {
        Response::Nodes { nodes } => nodes,
        other => panic!("{other:?}"),
    };
    let known = nodes().await;
    let seen = (known[0].name.as_str(), known[0].slot, known[0].state);
    assert_eq!((known.len(), seen), (1, ("n1", Some(0), NodeState::Stopped)));
    let elsewhere = world.at_site(world.north_site, Request::Nodes).await;
    assert_eq!(elsewhere.unwrap_err().code(), "EP0111");

    // Another machine with the same name, whose journal is new.
    let second = other_node(&world, "second", "n1");
    let refused = second.join().await.unwrap_err();
    assert_eq!(refused.code(), "EP0711");
    assert!(refused.to_string().contains("node remove n1 --lost"), "{refused}");
    let identity = |node: &NodeRow| entrepot_db::NodeIdentity {
        id: node.id,
        name: node.name.clone(),
        program: String::new(),
    };
    world.bench.db.start_node(&identity(&known[0]), 0).await.unwrap().unwrap();
    assert_eq!(nodes().await[0].state, NodeState::Serving);
    assert_eq!(second.join().await.unwrap_err().code(), "EP0710");
    drop(second);
    // By another name it joins, with a slot of its own.
    let second = other_node(&world, "second", "n2");
    second.join().await.unwrap();
    let seen: Vec<_> = nodes().await.into_iter().map(|node| (node.name, node.slot)).collect();
    assert_eq!(seen, [("n1".parse().unwrap(), Some(0)), ("n2".parse().unwrap(), Some(1))]);

    // The first one serves, and cannot be removed, nor can one remove itself.
    let remove = |name: &str, lost| Request::RemoveNode { name: name.parse().unwrap(), lost };
    let refused = second.handle(&main, remove("n1", true)).await.unwrap_err();
    assert_eq!(refused.code(), "EP0712");
    let refused = second.handle(&main, remove("n2", true)).await.unwrap_err();
    assert_eq!(refused.code(), "EP0712");
    let refused = second.handle(&main, remove("n9", false)).await.unwrap_err();
    assert_eq!(refused.code(), "EP0105");
    second.handle(&main, Request::DrainNode { name: "n1".parse().unwrap() }).await.unwrap();
    assert_eq!(nodes().await[0].state, NodeState::Drained);
    second.handle(&main, Request::UndrainNode { name: "n1".parse().unwrap() }).await.unwrap();
    // It falls silent; what its journal holds besides cannot be known.
    world.bench.env.advance(std::time::Duration::from_secs(5));
    assert_eq!(nodes().await[0].state, NodeState::Silent);
    let refused = second.handle(&main, remove("n1", false)).await.unwrap_err();
    assert!(refused.to_string().contains("--lost"), "{refused}");
    second.handle(&main, remove("n1", true)).await.unwrap();
    let fresh = other_node(&world, "third", "n1");
    fresh.join().await.unwrap();
    assert_eq!(nodes().await[0].slot, Some(0));
    let kinds = ["node.joined", "node.drained", "node.undrained", "node.removed"];
    let kinds = kinds.map(str::to_owned).to_vec();
    let filter = EventQuery { kinds, ..EventQuery::default() };
    let told = match admin.handle(&main, Request::Events { filter }).await.unwrap() {
        Response::Events { events, .. } => events,
        other => panic!("{other:?}"),
    };
    let told: Vec<_> = told.iter().map(|event| event.event.fact.kind().to_owned()).collect();
    let joined = "node.joined";
    let wanted = [joined, joined, "node.drained", "node.undrained", "node.removed", joined];
    assert_eq!(told, wanted);
}
