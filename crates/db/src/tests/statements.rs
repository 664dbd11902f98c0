//! Nothing becomes SQL: every statement is static and prepares on both databases, and values stay
//! values whatever they hold.

use entrepot_nouns::{Account, Env, Event, Fact, JobState, SiteId};
use serde_json::json;

use super::{HeldJobs, both, event, file, journal, name, noun, project, sqlite_db, uploaded};
use crate::sql::Sql;
use crate::{Db, EventFilter, JobEnd, JobFilter, JobHold, Purpose, TransferFilter};

/// Statements for both databases.
fn common() -> Vec<Sql> {
    let files = [
        crate::ALL,
        crate::tx::ALL,
        crate::acme::ALL,
        crate::answers::ALL,
        crate::claims::ALL,
        crate::configuration::ALL,
        crate::nouns::ALL,
        crate::events::ALL,
        crate::expected::ALL,
        crate::transfers::ALL,
        crate::jobs::ALL,
        crate::approvals::ALL,
        crate::as2_log::ALL,
        crate::as2_messages::ALL,
        crate::as2_receipts::ALL,
        crate::job_steps::ALL,
        crate::lanes::ALL,
        crate::order::ALL,
        crate::waits::ALL,
        crate::wakes::ALL,
        crate::nodes::ALL,
        crate::references::ALL,
        crate::codes::ALL,
        crate::api_tokens::ALL,
        crate::heads::ALL,
        crate::link_uses::ALL,
        crate::oidc::ALL,
        crate::passkeys::ALL,
        crate::penalties::ALL,
        crate::recovery_codes::ALL,
        crate::retention::ALL,
        crate::schedules::ALL,
        crate::set_up::ALL,
        crate::sign_ins::ALL,
        crate::trash::ALL,
        crate::watches::ALL,
    ];
    let listed = files.into_iter().flatten().copied();
    listed.chain(crate::nouns::table_statements()).collect()
}

fn only_postgres() -> Vec<Sql> {
    let batches = [
        crate::acme::LEASE_POSTGRES,
        crate::as2_log::PROJECT_POSTGRES,
        crate::as2_messages::RECEIVED_POSTGRES,
        crate::as2_receipts::CLAIM_POSTGRES,
        crate::as2_receipts::QUEUE_POSTGRES,
        crate::configuration::ERA_POSTGRES,
        crate::events::PROJECT_POSTGRES,
        crate::events::SEAL_POSTGRES,
        crate::expected::COUNT_POSTGRES,
        crate::expected::FIND_POSTGRES,
        crate::transfers::UPSERT_POSTGRES,
        crate::jobs::INSERT_POSTGRES,
        crate::job_rows::ADVANCE,
        crate::job_rows::END,
        crate::job_rows::EXTEND,
        crate::job_steps::FORGET_POSTGRES,
        crate::job_steps::KEEP_POSTGRES,
        crate::job_steps::UPSERT_POSTGRES,
        crate::claims::CLAIM_POSTGRES,
        crate::jobs::EXTEND_POSTGRES,
        crate::jobs::TAKE_OVER_POSTGRES,
        crate::jobs::REPEAT_POSTGRES,
        crate::lanes::FOLD_POSTGRES,
        crate::lanes::LOCK_POSTGRES,
        crate::nodes::BEAT_POSTGRES,
        crate::nodes::START_POSTGRES,
        crate::nodes::LIST_POSTGRES,
        crate::nodes::LOCK_CURSOR_POSTGRES,
        crate::retention::LEASE_POSTGRES,
        crate::schedules::FIND_POSTGRES,
        crate::schedules::TOLD_POSTGRES,
        crate::trash::INSERT_POSTGRES,
        crate::trash::DELETE_POSTGRES,
        crate::waits::FORGET_POSTGRES,
        crate::waits::TELL_POSTGRES,
        crate::waits::WAKE_POSTGRES,
        crate::watches::KEEP_POSTGRES,
        crate::watches::LEASE_POSTGRES,
    ];
    batches.into_iter().chain(crate::postgres::ALL.iter().copied()).collect()
}

#[tokio::test]
async fn every_statement_prepares_on_sqlite() {
    let (_db, folder) = sqlite_db().await;
    let connection = rusqlite::Connection::open(folder.path().join("entrepot.db")).unwrap();
    assert!(common().len() > 50);
    for sql in common() {
        let statement =
            connection.prepare(sql.text()).unwrap_or_else(|e| panic!("{e}: {}", sql.text()));
        // SQLite counts parameters by place, PostgreSQL by number: they must agree.
        for index in 1..=statement.parameter_count() {
            let expected = format!("${index}");
            assert_eq!(statement.parameter_name(index), Some(&*expected), "{}", sql.text());
        }
    }
}

#[tokio::test]
async fn every_statement_prepares_on_postgres() {
    let db = super::postgres_db().await;
    let crate::Backend::Postgres(postgres) = &*db.backend else { panic!("not PostgreSQL") };
    for sql in common().into_iter().chain(only_postgres()) {
        postgres.prepare(sql).await.unwrap_or_else(|e| panic!("{e}: {}", sql.text()));
    }
}

/// What breaks out of quotes, comments, patterns, arrays, formats; and what text cannot hold.
const HOSTILE: &[&str] = &[
    "'; DROP TABLE events; --",
    "\"; DROP TABLE events; --",
    "' OR '1'='1",
    "') OR 1=1 --",
    "$$; SELECT pg_sleep(9); $$",
    "/* */ UNION SELECT 1 --",
    "\\'; --",
    "%",
    "_",
    "%' --",
    "$1",
    "?1 :a @b",
    "{},NULL,\"x\"",
    "E'\\x27'",
    "a\0b",
    "a\nb\r\tc",
    "\u{2019}\u{ff07}\u{202e}𝕏",
    "CURRENT_USER",
];

async fn values_stay_values(db: Db) {
    let env = Env::simulated(1);
    let mut events = Vec::new();
    for text in HOSTILE {
        events.push(Event {
            account: None,
            ..event(&env, Fact::FileUploaded { file: file(&env, env.new_id(), text) })
        });
    }
    let hostile = journal(events);
    let mut jobs: Vec<_> = hostile.iter().map(|_| super::job(&env, "route", env.now())).collect();
    for (job, text) in jobs.iter_mut().zip(HOSTILE) {
        job.error = Some((*text).to_owned());
    }
    project(&db, "n1", &hostile, &jobs).await;
    for text in HOSTILE {
        let stored = text.replace('\0', "\u{fffd}");
        let filter = EventFilter {
            path_contains: Some((*text).to_owned()),
            kinds: vec!["file.uploaded".to_owned(), (*text).to_owned()],
            ..EventFilter::default()
        };
        let found = db.events(SiteId::MAIN, &filter).await.unwrap();
        assert!(!found.is_empty(), "{text:?} not found");
        for row in found {
            let path = &row.event.fact.file().unwrap().path;
            assert!(path.contains(text), "{path:?} found by {text:?}");
        }
        let alone = EventFilter { kinds: vec![(*text).to_owned()], ..EventFilter::default() };
        assert_eq!(db.events(SiteId::MAIN, &alone).await.unwrap(), [], "kind {text:?}");
        let filter =
            TransferFilter { path_contains: Some((*text).to_owned()), ..Default::default() };
        for transfer in db.transfers(SiteId::MAIN, &filter).await.unwrap() {
            assert!(transfer.path.contains(&stored), "{transfer:?} found by {text:?}");
        }
        let mut tx = db.begin().await.unwrap();
        let account = noun::<Account>(json!({ "name": "x", "type": "partner", "note": text }));
        let id = SiteId::MAIN.0;
        tx.put(SiteId::MAIN, id, &account, env.now()).await.unwrap();
        assert_eq!(
            tx.find::<Account>(SiteId::MAIN, &name("x")).await.unwrap().unwrap().noun,
            account
        );
        tx.commit().await.unwrap();
    }
    let one = super::started(&db, "n1").await;
    for (error, _) in HOSTILE.iter().zip(&jobs) {
        let claimed = super::take(&db, &one, 1, env.now(), std::time::Duration::ZERO).await;
        let hold = JobHold::from(&claimed.unwrap()[0]);
        let end = JobEnd::Failed { error: (*error).to_owned() };
        assert!(db.end_job(&hold, end, env.now(), None).await.unwrap());
        let stored = db.job(SiteId::MAIN, hold.id).await.unwrap().unwrap();
        assert_eq!(stored.error.unwrap(), error.replace('\0', "\u{fffd}"));
    }
    let failed = JobFilter { state: Some(JobState::Failed), ..JobFilter::default() };
    assert_eq!(db.jobs(SiteId::MAIN, &failed).await.unwrap().len(), HOSTILE.len());
    let all = db.events(SiteId::MAIN, &EventFilter::default()).await.unwrap();
    assert_eq!(all.len(), HOSTILE.len());
}

/// A pattern sign is no pattern: it finds itself only.
async fn a_search_is_for_text_not_patterns(db: Db) {
    let env = Env::simulated(2);
    let paths = ["/in/100%", "/in/100x", "/IN/a_b", "/in/axb"];
    let events = paths.iter().map(|path| uploaded(&env, path)).collect();
    project(&db, "n1", &journal(events), &[]).await;
    for (text, expected) in [("0%", 1), ("a_b", 1), ("/in", 3), ("/IN", 1), ("", 4)] {
        let filter = EventFilter { path_contains: Some(text.to_owned()), ..EventFilter::default() };
        let found = db.events(SiteId::MAIN, &filter).await.unwrap().len();
        assert_eq!(found, expected, "searching {text:?}");
        let filter = TransferFilter { path_contains: Some(text.to_owned()), ..Default::default() };
        let found = db.transfers(SiteId::MAIN, &filter).await.unwrap().len();
        assert_eq!(found, expected, "searching {text:?}");
    }
}

both!(values_stay_values, a_search_is_for_text_not_patterns);

/// A replay looks at the jobs of each of its events.
#[tokio::test]
async fn the_jobs_of_an_event_are_found_by_the_event() {
    let (db, _folder) = sqlite_db().await;
    let of_event = |sql: &&Sql| sql.text().contains("FROM jobs WHERE event_id = $1");
    let found: Vec<&Sql> = crate::jobs::ALL.iter().filter(of_event).collect();
    let [sql] = *found else { panic!("there is another number of such statements") };
    let plan = Sql::literal(format!("EXPLAIN QUERY PLAN {}", sql.text()).leak());
    let mut work = db.work(Purpose::Other).await.unwrap();
    let values = vec![uuid::Uuid::nil().into(), 1i64.into()];
    let plan = work.query(plan, values, |row| row.text(3)).await.unwrap();
    assert!(plan.iter().any(|line| line.contains("jobs_by_event")), "{plan:?}");
}
