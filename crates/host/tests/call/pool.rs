//! Pools of sessions with the sample application.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use entrepot_host::model::Model;
use entrepot_host::{CallError, Caller, Holding, Pool, PoolError, PoolFigures, PoolSettings};
use entrepot_nouns::{Env, Period, SessionPool};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::library::{Door, LastPage, Library};
use crate::{CLERK, MODEL, all_loans, options, values};

/// A pool that runs.
struct Running {
    pool: Pool,
    stop: CancellationToken,
    keeper: JoinHandle<()>,
}

impl Running {
    fn new(library: &Library, limits: SessionPool, users: &[&str]) -> Running {
        Running::of(MODEL, library, limits, users)
    }

    fn of(model: &str, library: &Library, limits: SessionPool, users: &[&str]) -> Running {
        limits.check("pool").unwrap();
        let mut host = options(&library.address);
        host.patience = Duration::from_secs(20);
        let user = |name: &&str| values(&[("user", *name), ("password", "SECRET")]);
        let settings = PoolSettings {
            model: Arc::new(Model::read(model).unwrap()),
            host,
            variables: if users.is_empty() { values(&CLERK) } else { BTreeMap::new() },
            users: users.iter().map(user).collect(),
            limits,
            debug: None,
        };
        let (pool, keeper) = Pool::new(settings, Env::real());
        let stop = CancellationToken::new();
        let keeper = tokio::spawn(keeper.run(stop.clone()));
        Running { pool, stop, keeper }
    }

    /// Waits until the figures are as wanted.
    async fn until(&self, what: &str, wanted: impl Fn(&PoolFigures) -> bool) -> PoolFigures {
        let seen = async {
            loop {
                let figures = self.pool.figures();
                if wanted(&figures) {
                    return figures;
                }
                tokio::task::yield_now().await;
            }
        };
        let seen = tokio::time::timeout(Duration::from_secs(60), seen).await;
        seen.unwrap_or_else(|_| panic!("{what}: {:?}", self.pool.figures()))
    }

    async fn stopped(self) -> PoolFigures {
        self.stop.cancel();
        self.keeper.await.unwrap();
        self.pool.figures()
    }
}

async fn finds(pool: &Pool, caller: u128) {
    let mut session = pool.session(Caller(caller)).await.unwrap();
    let given = session.call("find_loans", values(&[("reader", "NOVAK")])).await.unwrap();
    assert_eq!(given, all_loans());
}

#[tokio::test]
async fn callers_in_the_same_instant_are_all_served_by_few_sessions() {
    let library = Library::open(LastPage::Told);
    let limits = SessionPool {
        initial: 5,
        max: 8,
        max_pending: 2,
        wait: Period::from_seconds(120),
        ..SessionPool::default()
    };
    let running = Running::new(&library, limits, &[]);
    running.until("the sessions of the start", |figures| figures.idle.now == 5).await;
    let mut calls = tokio::task::JoinSet::new();
    for caller in 0..250 {
        let pool = running.pool.clone();
        calls.spawn(async move { finds(&pool, caller % 10).await });
    }
    while let Some(call) = calls.join_next().await {
        call.unwrap();
    }
    let figures = running.until("all home", |figures| figures.active.now == 0).await;
    assert_eq!((figures.given, figures.refused), (250, 0));
    assert!(figures.opened <= 8 && figures.pending.peak <= 2, "{figures:?}");
    assert!(figures.active.peak_at.is_some() && figures.rogue.peak == 0, "{figures:?}");
    assert!(library.came() <= 8);
    let figures = running.stopped().await;
    assert_eq!((figures.idle.now, figures.active.now, figures.broken), (0, 0, 0));
}

#[tokio::test]
async fn sessions_go_home_from_wherever_callers_leave_them() {
    let library = Library::open(LastPage::Told);
    let limits = SessionPool { max: 1, ..SessionPool::default() };
    // Whatever is found, the procedure ends where it is.
    let model = MODEL.replace("      - read: {rows: Loans.loans}\n      - go: home\n", "");
    let running = Running::of(&model, &library, limits, &[]);
    let reader = || values(&[("reader", "NOVAK")]);
    for caller in 0..3 {
        let mut session = running.pool.session(Caller(caller)).await.unwrap();
        assert_eq!(session.standing(), Some("Menu"));
        session.call("find_loans", reader()).await.unwrap();
        assert_eq!(session.standing(), Some("Loans"));
    }
    // A refusal that the model knows, and a caller that goes away in the midst of it all.
    let mut session = running.pool.session(Caller(1)).await.unwrap();
    let refused = session.call("find_loans", values(&[("reader", "NOBODY")])).await;
    assert!(matches!(refused, Err(CallError::Outcome { .. })));
    drop(session);
    let mut session = running.pool.session(Caller(1)).await.unwrap();
    {
        let mut call = std::pin::pin!(session.call("find_loans", reader()));
        let polled = std::future::poll_fn(|context| {
            std::task::Poll::Ready(call.as_mut().poll(context).is_pending())
        });
        assert!(polled.await);
    }
    drop(session);
    let session = running.pool.session(Caller(2)).await.unwrap();
    assert_eq!(session.standing(), Some("Menu"));
    drop(session);
    let figures = running.stopped().await;
    assert_eq!((figures.rogue.peak, figures.opened, figures.broken), (1, 1, 0));
    assert_eq!(library.came(), 1);
}

#[tokio::test]
async fn a_host_that_goes_and_comes_again_is_noticed() {
    let library = Library::open(LastPage::Told);
    let limits = SessionPool {
        initial: 3,
        max: 3,
        wait: Period::from_seconds(60),
        ..SessionPool::default()
    };
    let running = Running::new(&library, limits, &[]);
    running.until("the sessions of the start", |figures| figures.idle.now == 3).await;
    // All are cut, and each that a caller would get is replaced.
    library.cut(Door::Open);
    finds(&running.pool, 1).await;
    library.cut(Door::Closed);
    let pool = running.pool.clone();
    let call = tokio::spawn(async move { finds(&pool, 2).await });
    let figures = running.until("an attempt", |figures| figures.not_opened > 0).await;
    assert!(figures.failure.is_some());
    library.reopen();
    call.await.unwrap();
    let figures = running.stopped().await;
    assert_eq!((figures.failure, figures.refused), (None, 0));
}

#[tokio::test]
async fn without_a_host_calls_end_with_the_reason() {
    let library = Library::open(LastPage::Told);
    library.cut(Door::Closed);
    let limits =
        SessionPool { max_waiting: 2, wait: Period::from_seconds(1), ..SessionPool::default() };
    let running = Running::new(&library, limits, &[]);
    let (pool, other) = (running.pool.clone(), running.pool.clone());
    let waiting = tokio::spawn(async move { pool.session(Caller(1)).await.unwrap_err() });
    let second = tokio::spawn(async move { other.session(Caller(2)).await.unwrap_err() });
    running.until("two that wait", |figures| figures.waiting.now == 2).await;
    let crowded = running.pool.session(Caller(3)).await.unwrap_err();
    assert_eq!((crowded.code(), crowded), ("EP1310", PoolError::Crowded { waiting: 2 }));
    for late in [waiting.await.unwrap(), second.await.unwrap()] {
        assert_eq!(late.code(), "EP1311");
        assert!(late.to_string().contains("closed the connection"), "{late}");
    }
    running.stop.cancel();
    running.keeper.await.unwrap();
    assert_eq!(running.pool.session(Caller(1)).await.unwrap_err(), PoolError::Stopped);
}

/// Of the library no clerk with a number may be signed on twice.
#[tokio::test]
async fn each_user_has_one_session_and_is_logged_off_before_the_next() {
    let library = Library::open(LastPage::Told);
    let limits =
        SessionPool { max_uses: Some(1), wait: Period::from_seconds(60), ..SessionPool::default() };
    let running = Running::new(&library, limits, &["CLERK1", "CLERK2", "CLERK3"]);
    let mut calls = tokio::task::JoinSet::new();
    for caller in 0..12 {
        let pool = running.pool.clone();
        calls.spawn(async move { finds(&pool, caller).await });
    }
    while let Some(call) = calls.join_next().await {
        call.unwrap();
    }
    // Each of them signed on anew, which the library would have refused without a log-off.
    let figures = running.stopped().await;
    assert_eq!((figures.opened, figures.not_opened), (12, 0));
    assert_eq!((library.came(), library.signed_on()), (12, Vec::new()));
}

#[tokio::test]
async fn a_session_is_held_between_requests_and_nobody_else_gets_it() {
    let library = Library::open(LastPage::Told);
    let limits = SessionPool { max: 1, hold: Period::from_seconds(600), ..SessionPool::default() };
    // The procedure leaves the session where it is.
    let model = MODEL.replace("      - read: {rows: Loans.loans}\n      - go: home\n", "");
    let running = Running::of(&model, &library, limits, &[]);
    let mut session = running.pool.session(Caller(1)).await.unwrap();
    session.call("find_loans", values(&[("reader", "NOVAK")])).await.unwrap();
    let held = session.hold(Holding::Suspended).unwrap();
    let pool = running.pool.clone();
    let other = tokio::spawn(async move { pool.session(Caller(2)).await.map(drop) });
    let figures = running.until("one that waits", |figures| figures.waiting.now == 1).await;
    assert_eq!(figures.suspended.now, 1);
    let session = running.pool.resume(held).await.unwrap();
    assert_eq!(session.standing(), Some("Loans"));
    assert!(session.screen().unwrap().rows.iter().any(|row| row.contains("NOVAK")));
    // It cannot be taken twice, not even when somebody else holds the same session.
    assert_eq!(running.pool.resume(held).await.unwrap_err().code(), "EP1313");
    drop(session);
    other.await.unwrap().unwrap();
    let again = running.pool.session(Caller(3)).await.unwrap().hold(Holding::Suspended).unwrap();
    assert_eq!(running.pool.resume(held).await.unwrap_err(), PoolError::NotHeld);
    assert!(running.pool.resume(again).await.is_ok());
    let figures = running.stopped().await;
    assert_eq!((figures.opened, figures.suspended.now), (1, 0));
}

#[tokio::test]
async fn idle_sessions_are_looked_at_and_kept_alive() {
    let library = Library::open(LastPage::Told);
    let limits = SessionPool {
        min_idle: 2,
        max: 2,
        idle_check: Period::from_seconds(1),
        ..SessionPool::default()
    };
    let model = MODEL.replace("  Find:\n", "    keepalive: {key: ENTER, every: 1s}\n  Find:\n");
    let running = Running::of(&model, &library, limits, &[]);
    running.until("both", |figures| figures.idle.now == 2).await;
    library.cut(Door::Open);
    let figures = running.until("new ones", |figures| figures.opened == 4).await;
    assert_eq!(figures.broken, 2);
    running.until("both", |figures| figures.idle.now == 2).await;
    finds(&running.pool, 1).await;
    running.stopped().await;
}
