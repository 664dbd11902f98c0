//! What is PostgreSQL's alone: outages, roles, TLS, settings of the server.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use entrepot_nouns::{Env, SiteId};
use entrepot_testkit::postgres::Postgres;

use super::{journal, name, node_id, piece, project, uploaded};
use crate::{Backend, Db, DbError, DbOptions, EventFilter, Projection, TransferFilter};

async fn blocking<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(act).await.unwrap()
}

async fn launched() -> (Arc<Postgres>, Db) {
    let (server, url) = blocking(|| {
        let server = Arc::new(Postgres::launch().unwrap());
        let url = server.create_database().unwrap();
        (server, url)
    })
    .await;
    let db = Db::open(&url, DbOptions::default()).await.unwrap();
    (server, db)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pool_recovers_after_a_restart() {
    let (server, db) = launched().await;
    let env = Env::simulated(1);
    let events = journal((0..3).map(|n| uploaded(&env, &format!("/{n}"))).collect());
    project(&db, "n1", &events[..1], &[]).await;
    let stopped = server.clone();
    blocking(move || stopped.stop().unwrap()).await;
    let node = name("n1");
    let piece = piece(&node, &events[..2], &[]);
    for _ in 0..3 {
        assert!(db.project(&piece).await.unwrap_err().is_unavailable());
        assert!(db.ping().await.unwrap_err().is_unavailable());
        assert!(db.begin().await.err().unwrap().is_unavailable());
        assert!(db.nodes().await.unwrap_err().is_unavailable());
    }
    let refused = Db::open(&server.url("postgres", "test_0"), DbOptions::default()).await;
    assert!(refused.unwrap_err().is_unavailable());
    let started = server.clone();
    blocking(move || started.start().unwrap()).await;
    // Every connection of the pool died: the first call finds a live one.
    db.project(&piece).await.unwrap();
    assert_eq!(db.events(SiteId::MAIN, &EventFilter::default()).await.unwrap().len(), 2);
    let restarted = server.clone();
    blocking(move || {
        restarted.kill().unwrap();
        restarted.start().unwrap();
    })
    .await;
    db.ping().await.unwrap();
    assert_eq!(db.projected_up_to(node_id("n1")).await.unwrap(), 2);
}

/// The server ends a connection as it is used: a read goes on with another.
#[tokio::test]
async fn a_read_survives_the_end_of_its_connection() {
    let db = super::postgres_db().await;
    super::raw(&db, "CREATE SEQUENCE tries").await;
    let sql = crate::sql::sql!(
        "SELECT CASE WHEN nextval('tries') = 1 THEN pg_terminate_backend(pg_backend_pid()) ",
        "ELSE TRUE END, pg_sleep(0)::TEXT, currval('tries')",
    );
    assert_eq!(db.read(sql, vec![], |row| row.int(2)).await.unwrap(), [2]);
}

/// Two projectors go on through kills of the server, repeating what got no answer: nothing is
/// missing and nothing is double.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_in_the_middle_lose_and_double_nothing() {
    let (server, db) = launched().await;
    let quiet = Arc::new(AtomicBool::new(false));
    let (answered, failed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = tokio::task::JoinSet::new();
    for node in ["n1", "n2"] {
        let (db, quiet) = (db.clone(), quiet.clone());
        let (answered, failed) = (answered.clone(), failed.clone());
        tasks.spawn(async move {
            let (env, node, mut sequence) = (Env::real(), name(node), 0);
            while !quiet.load(Ordering::SeqCst) {
                let events: Vec<_> = (0..10)
                    .map(|n| (sequence + n + 1, uploaded(&env, &format!("/{node}/{n}"))))
                    .collect();
                sequence += 10;
                let after = sequence - 10;
                let piece = Projection { after, ..piece(&node, &events, &[]) };
                while let Err(error) = db.project(&piece).await {
                    assert!(error.is_unavailable(), "{error}");
                    failed.fetch_add(1, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                }
                answered.fetch_add(10, Ordering::SeqCst);
            }
            sequence
        });
    }
    for _ in 0..3 {
        let before = answered.load(Ordering::SeqCst);
        while answered.load(Ordering::SeqCst) < before + 300 {
            tokio::task::yield_now().await;
        }
        let killed = server.clone();
        blocking(move || {
            killed.kill().unwrap();
            killed.start().unwrap();
        })
        .await;
    }
    quiet.store(true, Ordering::SeqCst);
    let mut written = 0;
    while let Some(sequence) = tasks.join_next().await {
        written += sequence.unwrap();
    }
    assert!(failed.load(Ordering::SeqCst) > 0, "no kill was noticed");
    let mut after = 0;
    let mut ids = std::collections::HashSet::new();
    let mut rows = 0;
    loop {
        let page = EventFilter { after_sequence: Some(after), ..EventFilter::default() };
        let found = db.events(SiteId::MAIN, &page).await.unwrap();
        let Some(last) = found.last() else { break };
        after = last.sequence;
        rows += found.len();
        ids.extend(found.iter().map(|row| row.event.id));
    }
    assert_eq!((rows as u64, ids.len() as u64), (written, written));
    for node in ["n1", "n2"] {
        assert!(db.projected_up_to(node_id(node)).await.unwrap() > 0, "{node}");
    }
    let filter = TransferFilter { limit: 10, ..TransferFilter::default() };
    assert_eq!(db.transfers(SiteId::MAIN, &filter).await.unwrap().len(), 10);
}

#[tokio::test]
async fn the_serving_role_cannot_change_tables() {
    let url = super::postgres_url().await;
    let database = url.rsplit('/').next().unwrap().to_owned();
    let serving = format!("serving_{database}");
    let role = format!("CREATE ROLE \"{serving}\" LOGIN");
    blocking(move || Postgres::shared().run_sql("postgres", &role).unwrap()).await;
    let serving_url = Postgres::shared().url(&serving, &database);
    // Without tables and without the right to make them it says so.
    let refused = Db::open(&serving_url, DbOptions::default()).await.unwrap_err();
    assert!(matches!(refused, DbError::Schema(_)), "{refused}");
    let options = DbOptions { migrate_url: Some(url), ..DbOptions::default() };
    drop(Db::open(&serving_url, options).await.unwrap());
    let db = Db::open(&serving_url, DbOptions::default()).await.unwrap();
    project(&db, "n1", &journal(vec![uploaded(&Env::simulated(1), "/a")]), &[]).await;
    db.begin().await.unwrap().commit().await.unwrap();
    let Backend::Postgres(postgres) = &*db.backend else { panic!("not PostgreSQL") };
    for ddl in [
        "CREATE TABLE evil (x BIGINT)",
        "DROP TABLE events",
        "ALTER TABLE accounts ADD COLUMN evil TEXT",
        "TRUNCATE events",
        "CREATE FUNCTION f() RETURNS BIGINT LANGUAGE SQL AS 'SELECT 1'",
        "DELETE FROM refinery_schema_history",
    ] {
        let refused = postgres.raw(ddl).await.unwrap_err();
        assert!(refused.to_string().contains("42501"), "{ddl}: {refused}");
    }
}

#[tokio::test]
async fn nodes_may_start_together_on_an_empty_database() {
    let url = super::postgres_url().await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let url = url.clone();
        let options = DbOptions { connections: Some(2), ..DbOptions::default() };
        tasks.spawn(async move { Db::open(&url, options).await });
    }
    while let Some(opened) = tasks.join_next().await {
        assert_eq!(opened.unwrap().unwrap().sites().await.unwrap().len(), 1);
    }
}

/// A default that would lose commits is overridden; a server without fsync is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_are_durable() {
    let (server, url) = blocking(|| {
        let server = Postgres::launch().unwrap();
        let url = server.create_database().unwrap();
        server.run_sql("postgres", "ALTER DATABASE test_0 SET synchronous_commit = off").unwrap();
        (server, url)
    })
    .await;
    let db = Db::open(&url, DbOptions::default()).await.unwrap();
    let shown = db
        .read(crate::sql::sql!("SELECT current_setting('synchronous_commit')"), vec![], |row| {
            row.text(0)
        })
        .await;
    assert_eq!(shown.unwrap(), ["on"]);
    drop(db);
    let server = blocking(move || {
        server.stop().unwrap();
        server.configure("fsync = off").unwrap();
        server.start().unwrap();
        server
    })
    .await;
    let refused = Db::open(&url, DbOptions::default()).await.unwrap_err();
    assert!(matches!(refused, DbError::NotDurable { setting: "fsync", .. }), "{refused}");
    drop(server);
}

#[tokio::test]
async fn wrong_urls_are_told_from_outages() {
    let url = super::postgres_url().await;
    let unknown = format!("{url}_missing");
    let role = url.replace("postgres@", "nobody_here@");
    let tls = format!("{url}?sslmode=require");
    for wrong in [&*unknown, &*role, &*tls, "postgres://u@h/d?nonsense=1", "postgres://u@h:x/d"] {
        let refused = Db::open(wrong, DbOptions::default()).await.unwrap_err();
        assert!(matches!(refused, DbError::Setup(_)), "{wrong}: {refused}");
    }
    let database = url.rsplit('/').next().unwrap();
    let socket = Postgres::shared().socket_url("postgres", database);
    Db::open(&socket, DbOptions::default()).await.unwrap().ping().await.unwrap();
}

/// Makes an authority and a certificate for 127.0.0.1 with the openssl program.
fn certificates(folder: &std::path::Path) {
    let openssl = |arguments: &str| {
        let mut command = Command::new("openssl");
        let output = command.args(arguments.split(' ')).current_dir(folder).output();
        let output = output.expect("the test needs openssl: run 'apt-get install openssl'");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2";
    for authority in ["ca", "other"] {
        openssl(&format!(
            "req -x509 {key} -subj /CN={authority} -keyout {authority}.key -out {authority}.pem"
        ));
    }
    openssl(&format!("req {key} -subj /CN=server -keyout server.key -out server.csr"));
    std::fs::write(folder.join("names"), "subjectAltName=IP:127.0.0.1").unwrap();
    openssl(
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
         -extfile names -out server.pem",
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_knows_with_whom_it_speaks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let (server, url) = blocking(move || {
        certificates(&path);
        let server = Postgres::launch().unwrap();
        for file in ["server.pem", "server.key"] {
            server.install(file, &std::fs::read(path.join(file)).unwrap()).unwrap();
        }
        server
            .configure("ssl = on\nssl_cert_file = 'server.pem'\nssl_key_file = 'server.key'")
            .unwrap();
        server.stop().unwrap();
        server.start().unwrap();
        let url = server.create_database().unwrap();
        (server, url)
    })
    .await;
    let with = |authority: &str, url: &str| {
        let file = folder.path().join(format!("{authority}.pem"));
        format!("{url}?sslmode=require&sslrootcert={}", file.display())
    };
    let db = Db::open(&with("ca", &url), DbOptions::default()).await.unwrap();
    let sql = crate::sql::sql!("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()");
    assert_eq!(db.read(sql, vec![], |row| row.bool(0)).await.unwrap(), [true]);
    let by_name = url.replace("127.0.0.1", "localhost");
    for wrong in [with("other", &url), with("ca", &by_name), format!("{url}?sslmode=require")] {
        let refused = Db::open(&wrong, DbOptions::default()).await.unwrap_err();
        assert!(matches!(refused, DbError::Setup(_)), "{wrong}: {refused}");
    }
    drop(server);
}

/// One that accepts and says nothing, one that takes no writes, one that does: it is found within
/// the time that the first two are given.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_host_that_takes_writes_is_found() {
    let (servers, urls) = blocking(|| {
        let servers = [Postgres::launch().unwrap(), Postgres::launch().unwrap()];
        let urls = servers.each_ref().map(|server| server.create_database().unwrap());
        let standby = "ALTER DATABASE test_0 SET default_transaction_read_only = on";
        servers[0].run_sql("postgres", standby).unwrap();
        (servers, urls)
    })
    .await;
    let dark = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let host = |url: &str| url.split(['@', '/']).nth(3).unwrap().to_owned();
    let (dark, standby, primary) =
        (dark.local_addr().unwrap().to_string(), host(&urls[0]), host(&urls[1]));
    let url = |hosts: &[&str]| format!("postgres://postgres@{}/test_0", hosts.join(","));
    let began = std::time::Instant::now();
    let options = DbOptions { connections: Some(1), ..DbOptions::default() };
    let db = Db::open(&url(&[&dark, &standby, &primary]), options).await.unwrap();
    // Two connections, one of them to make tables.
    assert!(began.elapsed() < std::time::Duration::from_secs(10), "{:?}", began.elapsed());
    db.begin().await.unwrap().commit().await.unwrap();
    let port = crate::sql::sql!("SELECT CAST(inet_server_port() AS BIGINT)");
    let port = db.read(port, vec![], |row| row.int(0)).await.unwrap();
    assert!(primary.ends_with(&format!(":{}", port[0])), "{port:?} is not {primary}");
    let refused = Db::open(&url(&[&standby, &dark]), DbOptions::default()).await.unwrap_err();
    assert!(refused.is_unavailable(), "{refused}");
    drop(servers);
}
