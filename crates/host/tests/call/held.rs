//! Sessions that clients hold over many requests.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use entrepot_host::{
    Applications, Caller, Deployment, Holding, HostClient, HostScreen, Key, Place, PoolFigures,
    ProcedureError, Scope, ScreenWait, SessionKind, SessionWork, TypeTo,
};
use entrepot_nouns::endpoint::Tn3270Target;
use entrepot_nouns::{Env, Event, Fact, Model, Secret, SessionId, SiteId};
use entrepot_testbed::{Testbed, events, name};
use serde_json::{Value, json};

use crate::library::{Door, LastPage, Library};
use crate::{MODEL, all_loans, values};

/// A deployed model, at an application of its own.
struct Held {
    applications: Applications,
    library: Arc<Library>,
    bed: Testbed,
}

const USERS: &str = "user,password\nCLERK1,SECRET\nCLERK2,SECRET\n";

impl Held {
    async fn start(pool: Value) -> Held {
        Held::start_at(Env::real(), pool).await
    }

    async fn start_at(env: Env, pool: Value) -> Held {
        let bed = Testbed::start_in_memory(env).await;
        let applications = Applications::new(bed.recorder.clone());
        let held = Held { applications, library: Library::open(LastPage::Told), bed };
        held.deploy(pool);
        held
    }

    fn deploy(&self, pool: Value) {
        self.deploy_model(MODEL, pool);
    }

    fn deploy_model(&self, definition: &str, pool: Value) {
        let (host, port) = self.library.address.rsplit_once(':').unwrap();
        let target = Tn3270Target { port: port.parse().ok(), ..Tn3270Target::new(host) };
        let model: Model = serde_json::from_value(json!({
            "name": "loans", "endpoint": "mainframe", "definition": definition, "pool": pool,
            "callers": {"clerks": ["find_loans"], "readers": ["find_loans"]},
            "terminals": ["clerks"],
        }))
        .unwrap();
        let users = Some(Secret::from(USERS.to_owned()));
        let deployment = Deployment { site: SiteId::MAIN, model, target, users };
        assert_eq!(self.applications.settle(vec![deployment]), []);
    }

    async fn opened(&self, client: &HostClient, kind: SessionKind) -> SessionId {
        self.applications.open_session(client.clone(), kind).await.unwrap().id
    }

    async fn does(
        &self,
        client: &HostClient,
        id: SessionId,
        work: SessionWork,
    ) -> Result<HostScreen, ProcedureError> {
        self.applications.work_at_screens(client, id, work).await
    }

    /// What stands after something that must come about.
    async fn stands(&self, client: &HostClient, id: SessionId, work: SessionWork) -> String {
        self.does(client, id, work).await.unwrap().entity.unwrap_or_default()
    }

    fn figures(&self) -> PoolFigures {
        self.applications.figures(SiteId::MAIN, &name("loans")).unwrap()
    }

    /// What was recorded of the end of a session, the first one being 0.
    async fn end(&self, number: usize) -> Value {
        until("the event", || async { self.ends().into_iter().nth(number) }).await
    }

    fn ends(&self) -> Vec<Value> {
        let all: Vec<Event> = events(self.bed.recorder.journal());
        let ends = all.into_iter().filter_map(|event| match event.fact {
            Fact::HostSessionEnded { end } => Some(serde_json::to_value(end).unwrap()),
            _ => None,
        });
        ends.collect()
    }
}

fn client(account: u128, group: &str) -> HostClient {
    HostClient {
        scope: Scope { account: Some(name("anna")), ..Scope::site(SiteId::MAIN) },
        caller: Caller(account),
        lineage: vec![name("anna"), name(group)],
        model: name("loans"),
    }
}

fn clerk() -> HostClient {
    client(1, "clerks")
}

fn into_field(field: &str, text: &str) -> SessionWork {
    SessionWork::Type { text: text.to_owned(), to: Some(TypeTo::Field(field.to_owned())) }
}

fn press(key: &str) -> SessionWork {
    SessionWork::Press(Key::named(key).unwrap())
}

fn go(to: &str) -> SessionWork {
    SessionWork::Go(to.to_owned())
}

/// Lets the pool take in what came back to it: its task runs on the thread of the test.
async fn settled() {
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
}

/// Waits until something is so.
async fn until<T, F: Future<Output = Option<T>>>(what: &str, look: impl Fn() -> F) -> T {
    let seen = async {
        loop {
            if let Some(seen) = look().await {
                return seen;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), seen).await.unwrap_or_else(|_| panic!("{what}"))
}

#[tokio::test]
async fn a_client_works_at_the_screens_of_a_session_that_it_holds() {
    let held = Held::start(json!({"max": 1})).await;
    let clerk = clerk();
    let id = held.opened(&clerk, SessionKind::Pooled).await;
    assert_eq!(held.stands(&clerk, id, SessionWork::Screen).await, "Menu");
    assert_eq!((held.figures().active.now, held.figures().idle.now), (1, 0));
    assert_eq!(held.stands(&clerk, id, into_field("option", "1")).await, "Menu");
    assert_eq!(held.stands(&clerk, id, press("ENTER")).await, "Find");
    let to = Some(TypeTo::Place(at("10,20")));
    let typed = SessionWork::Type { text: "NOVAK".to_owned(), to };
    let screen = held.does(&clerk, id, typed).await.unwrap().screen;
    assert!(screen.rows[9].contains("NOVAK") && screen.cursor.column == 25, "{screen:?}");
    assert_eq!(held.stands(&clerk, id, press("ENTER")).await, "Loans");
    let wait = ScreenWait { text: Some("TITLE OF BOOK 12".to_owned()), ..ScreenWait::default() };
    assert_eq!(held.stands(&clerk, id, SessionWork::Wait(wait)).await, "Loans");
    assert_eq!(held.stands(&clerk, id, go("Find")).await, "Find");
    // A procedure begins wherever the session stands.
    let reader = values(&[("reader", "NOVAK")]);
    let called = held.applications.call_in_session(&clerk, id, "find_loans", reader).await;
    assert_eq!(called.unwrap().result, all_loans());
    let shown = held.applications.session(&clerk, id).unwrap();
    assert_eq!((shown.keys, shown.pooled, shown.held_until.is_some()), (2, true, true));
    assert_eq!(held.applications.sessions(&clerk).unwrap(), [shown]);
    held.applications.end_session(&clerk, id).await.unwrap();
    let gone = held.does(&clerk, id, SessionWork::Screen).await.unwrap_err();
    assert_eq!(gone.code(), "EP1313");
    let end = held.end(0).await;
    assert!(end["why"] == "ended" && end["keys"] == 2, "{end}");
    // Who is signed on behind free keys nobody knows: the next client has another session.
    let next = held.opened(&client(2, "readers"), SessionKind::Pooled).await;
    assert_ne!(next, id);
    assert_eq!(held.library.came(), 2);
    held.applications.stop().await;
    assert_eq!(held.library.signed_on(), Vec::<String>::new());
}

#[tokio::test]
async fn only_who_opened_a_session_and_may_do_something_does_it() {
    let held = Held::start(json!({"max": 3})).await;
    let (anna, reader, other) = (clerk(), client(2, "readers"), client(3, "clerks"));
    let id = held.opened(&anna, SessionKind::Pooled).await;
    for stranger in [&reader, &other] {
        let apps = &held.applications;
        for refused in [
            apps.session(stranger, id).map(drop),
            apps.hold_session(stranger, id, Holding::Suspended).await.map(drop),
            apps.call_in_session(stranger, id, "find_loans", values(&[("reader", "NOVAK")]))
                .await
                .map(drop),
            apps.end_session(stranger, id).await,
        ] {
            assert_eq!(refused.unwrap_err().code(), "EP1313");
        }
        assert_eq!(apps.sessions(stranger).unwrap(), []);
    }
    let strange = held.does(&other, id, SessionWork::Screen).await.unwrap_err();
    assert_eq!(strange.code(), "EP1313");
    // Who may only call procedures sees no screen, and opens nothing that is not of the pool.
    let own = held.opened(&reader, SessionKind::Pooled).await;
    for work in [SessionWork::Screen, press("ENTER"), go("Find")] {
        let refused = held.does(&reader, own, work).await.unwrap_err();
        assert!(matches!(refused, ProcedureError::NoTerminal(_)), "{refused}");
    }
    let call = held.applications.call_in_session(&reader, own, "renew_loan", BTreeMap::new());
    assert_eq!(call.await.unwrap_err().code(), "EP1315");
    let fresh = SessionKind::Own(BTreeMap::new());
    let refused = held.applications.open_session(reader, fresh).await.unwrap_err();
    assert_eq!(refused.code(), "EP1315");
    let nobody = client(4, "others");
    let refused = held.applications.open_session(nobody, SessionKind::Pooled).await.unwrap_err();
    assert!(matches!(refused, ProcedureError::NoSession(_)), "{refused}");
    held.applications.stop().await;
}

#[tokio::test]
async fn a_session_of_a_client_alone_has_its_own_values_and_shows_no_secret() {
    // One that rests makes place for it.
    let held = Held::start(json!({"max": 1, "initial": 1})).await;
    until("the first", || async { (held.figures().idle.now == 1).then_some(()) }).await;
    let clerk = clerk();
    let unknown = SessionKind::Own(values(&[("usr", "X")]));
    let refused = held.applications.open_session(clerk.clone(), unknown).await.unwrap_err();
    assert!(refused.code() == "EP1306" && refused.to_string().contains("user, password"));
    let own = SessionKind::Own(values(&[("user", "CLERK"), ("password", "SECRET")]));
    let id = held.opened(&clerk, own).await;
    assert_eq!(held.stands(&clerk, id, SessionWork::Screen).await, "Logo");
    assert_eq!(held.stands(&clerk, id, go("Signon")).await, "Signon");
    let hidden = held.does(&clerk, id, into_field("pass", "OTHER")).await.unwrap();
    // The value of a secret variable is hidden wherever it stands.
    let shown = held.does(&clerk, id, into_field("user", "SECRET")).await.unwrap();
    for text in [json!(hidden), json!(shown)].map(|screen| screen.to_string()) {
        assert!(!text.contains("OTHER") && !text.contains("SECRET"), "{text}");
    }
    assert!(shown.screen.rows[12].contains("******"), "{:?}", shown.screen.rows[12]);
    assert_eq!(held.stands(&clerk, id, go("home")).await, "Menu");
    assert_eq!(held.library.signed_on(), Vec::<String>::new());
    held.applications.end_session(&clerk, id).await.unwrap();
    // It was logged off, and with it nobody's session.
    until("its end", || async { (held.figures().active.now == 0).then_some(()) }).await;
    assert_eq!((held.figures().idle.now, held.figures().broken), (0, 0));
    held.applications.stop().await;
}

#[tokio::test]
async fn a_suspended_session_waits_to_be_resumed() {
    let held = Held::start(json!({"max": 1, "suspend": "1h", "hold": "1h"})).await;
    let clerk = clerk();
    let id = held.opened(&clerk, SessionKind::Pooled).await;
    assert_eq!(held.stands(&clerk, id, go("Find")).await, "Find");
    let apps = &held.applications;
    let shown = apps.hold_session(&clerk, id, Holding::Suspended).await.unwrap();
    assert_eq!(json!(shown)["state"], "suspended");
    until("the gauge", || async { (held.figures().suspended.now == 1).then_some(()) }).await;
    for refused in [
        held.does(&clerk, id, SessionWork::Screen).await.map(drop),
        apps.call_in_session(&clerk, id, "find_loans", values(&[("reader", "NOVAK")]))
            .await
            .map(drop),
    ] {
        assert_eq!(refused.unwrap_err().code(), "EP1318");
    }
    let shown = apps.hold_session(&clerk, id, Holding::Active).await.unwrap();
    assert_eq!(json!(shown)["state"], "active");
    assert_eq!(held.stands(&clerk, id, SessionWork::Screen).await, "Find");
    let figures = held.figures();
    assert_eq!((figures.suspended.now, figures.suspended.peak, figures.active.now), (0, 1, 1));
    assert!(figures.suspended.peak_at.is_some());
    // A model that changes ends all of it.
    held.deploy(json!({"max": 2}));
    let gone = until("its end", || async { held.applications.session(&clerk, id).err() }).await;
    assert_eq!(gone.code(), "EP1313");
    assert_eq!(held.end(0).await["why"], "stopped");
    held.applications.stop().await;
}

/// Suspended ones count, and those that are being opened; the accounts count apart.
#[tokio::test]
async fn an_account_holds_no_more_sessions_than_it_may() {
    let held = Held::start(json!({"max": 4, "max_held": 2})).await;
    let (anna, other) = (clerk(), client(2, "clerks"));
    let open = |client: &HostClient, kind| held.applications.open_session(client.clone(), kind);
    let own = || SessionKind::Own(values(&[("user", "CLERK"), ("password", "SECRET")]));
    // Three in the same instant.
    let (first, second, third) =
        tokio::join!(open(&anna, own()), open(&anna, own()), open(&anna, own()));
    let all = [first, second, third];
    let codes: Vec<&str> =
        all.iter().filter_map(|it| it.as_ref().err()).map(|it| it.code()).collect();
    assert_eq!(codes, ["EP1320"]);
    let id = all.iter().find_map(|it| it.as_ref().ok()).unwrap().id;
    held.applications.hold_session(&anna, id, Holding::Suspended).await.unwrap();
    let refused = open(&anna, SessionKind::Pooled).await.unwrap_err();
    assert!(refused.to_string().contains("holds 2 sessions"), "{refused}");
    held.opened(&other, SessionKind::Pooled).await;
    // One that has ended makes place.
    held.applications.end_session(&anna, id).await.unwrap();
    held.opened(&anna, SessionKind::Pooled).await;
    assert_eq!(open(&anna, own()).await.unwrap_err().code(), "EP1320");
    assert_eq!(held.applications.sessions(&anna).unwrap().len(), 2);
    held.applications.stop().await;
}

#[tokio::test]
async fn what_could_not_be_opened_is_not_held() {
    let held = Held::start(json!({"max": 1, "max_held": 1, "wait": "1s"})).await;
    let (anna, other) = (clerk(), client(2, "clerks"));
    let theirs = held.opened(&other, SessionKind::Pooled).await;
    for _ in 0..2 {
        let late = held.applications.open_session(anna.clone(), SessionKind::Pooled).await;
        assert_eq!(late.unwrap_err().code(), "EP1310");
    }
    held.applications.end_session(&other, theirs).await.unwrap();
    held.opened(&anna, SessionKind::Pooled).await;
    held.applications.stop().await;
}

/// In both states. What nobody has typed into goes to the next client.
#[tokio::test]
async fn a_session_that_its_client_leaves_is_given_back_after_its_time() {
    let env = Env::simulated(1);
    let held = Held::start_at(env.clone(), json!({"max": 1, "hold": "1h", "suspend": "1h"})).await;
    let (clerk, next) = (clerk(), client(2, "clerks"));
    let just_under = Duration::from_secs(3_599);
    for (number, how) in [Holding::Active, Holding::Suspended].into_iter().enumerate() {
        let id = held.opened(&clerk, SessionKind::Pooled).await;
        assert_eq!(held.stands(&clerk, id, go("Find")).await, "Find");
        env.advance(just_under);
        held.applications.hold_session(&clerk, id, how).await.unwrap();
        settled().await;
        // Each request begins the time anew.
        env.advance(just_under);
        held.applications.hold_session(&clerk, id, how).await.unwrap();
        settled().await;
        env.advance(Duration::from_secs(3_600));
        let other = held.opened(&next, SessionKind::Pooled).await;
        let gone = until("the end", || async { held.applications.session(&clerk, id).err() }).await;
        assert_eq!(gone.code(), "EP1313");
        let late = held.does(&clerk, id, SessionWork::Screen).await.unwrap_err();
        assert_eq!(late.code(), "EP1313");
        assert_eq!(held.end(2 * number).await["why"], "left");
        // It went home.
        assert_eq!(held.stands(&next, other, SessionWork::Screen).await, "Menu");
        held.applications.end_session(&next, other).await.unwrap();
    }
    assert_eq!((held.library.came(), held.figures().rogue.peak), (1, 1));
    assert!(held.figures().rogue.peak_at.is_some());
    // Free keys: it is logged off in place of that.
    let id = held.opened(&clerk, SessionKind::Pooled).await;
    assert_eq!(held.stands(&clerk, id, press("ENTER")).await, "Menu");
    settled().await;
    env.advance(Duration::from_secs(3_600));
    held.opened(&next, SessionKind::Pooled).await;
    assert_eq!(held.library.came(), 2);
    held.applications.stop().await;
}

#[tokio::test]
async fn one_request_works_in_a_session_and_one_that_goes_away_leaves_it_to_its_client() {
    let held = Held::start(json!({"max": 1})).await;
    let clerk = clerk();
    let id = held.opened(&clerk, SessionKind::Pooled).await;
    let wait = ScreenWait { text: Some("NEVER".to_owned()), ..ScreenWait::default() };
    let (apps, client) = (held.applications.clone(), clerk.clone());
    let waiting = tokio::spawn(async move {
        apps.work_at_screens(&client, id, SessionWork::Wait(wait)).await.map(drop)
    });
    let is_working = || async {
        held.applications.session(&clerk, id).unwrap().held_until.is_none().then_some(())
    };
    until("the wait", is_working).await;
    let busy = held.does(&clerk, id, SessionWork::Screen).await.unwrap_err();
    assert_eq!(busy.code(), "EP1317");
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    assert_eq!(held.stands(&clerk, id, SessionWork::Screen).await, "Menu");
    // What does not come in time is told, and what nobody can do.
    let wait = ScreenWait {
        entity: Some("Loans".to_owned()),
        timeout: Some(Duration::from_millis(20)),
        ..ScreenWait::default()
    };
    let late = held.does(&clerk, id, SessionWork::Wait(wait)).await.unwrap_err();
    assert_eq!(late.code(), "EP1302");
    let unknown = held.does(&clerk, id, go("Lones")).await.unwrap_err();
    assert!(unknown.code() == "EP1306" && unknown.to_string().contains("Loans"), "{unknown}");
    let locked = SessionWork::Type { text: "X".to_owned(), to: Some(TypeTo::Place(at("1,1"))) };
    assert_eq!(held.does(&clerk, id, locked).await.unwrap_err().code(), "EP1303");
    // Ways of the model free the keyboard; else it would be a key RESET.
    assert_eq!(held.stands(&clerk, id, go("home")).await, "Menu");
    let beyond = SessionWork::Type { text: "X".to_owned(), to: Some(TypeTo::Place(at("25,1"))) };
    let beyond = held.does(&clerk, id, beyond).await.unwrap_err();
    assert!(beyond.to_string().contains("24 rows"), "{beyond}");
    // The host ends it.
    held.library.cut(Door::Open);
    let broken = held.does(&clerk, id, press("ENTER")).await.unwrap_err();
    assert_eq!(broken.code(), "EP1301");
    assert_eq!(held.applications.session(&clerk, id).unwrap_err().code(), "EP1313");
    assert_eq!(held.end(0).await["why"], "broken");
    held.applications.stop().await;
}

/// A session on `Find`, where ENTER keeps it alive; the pool looks at its times when somebody asks.
struct KeptAlive {
    held: Held,
    env: Env,
    id: SessionId,
    /// Another session, which asks.
    other: SessionId,
}

impl KeptAlive {
    async fn start() -> KeptAlive {
        let env = Env::simulated(1);
        let bed = Testbed::start_in_memory(env.clone()).await;
        let applications = Applications::new(bed.recorder.clone());
        let held = Held { applications, library: Library::open(LastPage::Told), bed };
        let find = "    is: [\"LB110 @ 1,72\"]\n";
        let kept =
            MODEL.replace(find, &format!("{find}    keepalive: {{key: ENTER, every: 90s}}\n"));
        assert_ne!(kept, MODEL);
        let always = entrepot_host::model::Model::read(&kept.replace("every: 90s", "every: 0s"));
        assert!(always.unwrap_err().to_string().contains("'Find' is done all the time"));
        held.deploy_model(&kept, json!({"max": 2, "hold": "1h", "suspend": "1h"}));
        let other = held.opened(&client(2, "clerks"), SessionKind::Pooled).await;
        let id = held.opened(&clerk(), SessionKind::Pooled).await;
        assert_eq!(held.stands(&clerk(), id, go("Find")).await, "Find");
        settled().await;
        KeptAlive { held, env, id, other }
    }

    /// So many screens has the host shown, some seconds later.
    async fn screens_after(&self, seconds: u64) -> u64 {
        self.env.advance(Duration::from_secs(seconds));
        self.look().await;
        self.held.library.screens()
    }

    /// One second later the key is pressed, and the host has shown one screen more.
    async fn is_pressed(&self, screens: &mut u64) {
        self.env.advance(Duration::from_secs(1));
        *screens += 1;
        until("the key", || async {
            self.look().await;
            (self.held.library.screens() == *screens).then_some(())
        })
        .await;
    }

    /// Has the pool look at its times, and waits until nothing is done there any more.
    async fn look(&self) {
        let other = client(2, "clerks");
        for _ in 0..2 {
            settled().await;
            let apps = &self.held.applications;
            // Where its own time is over, the pool has looked.
            let _ = apps.hold_session(&other, self.other, Holding::Active).await;
        }
    }
}

/// Sessions that wait for their client, in both states. What the client has typed is not sent.
#[tokio::test]
async fn a_session_that_a_client_holds_is_kept_alive() {
    let kept = KeptAlive::start().await;
    let (apps, clerk, id) = (&kept.held.applications, clerk(), kept.id);
    let mut screens = kept.held.library.screens();
    for how in [Holding::Active, Holding::Suspended] {
        apps.hold_session(&clerk, id, how).await.unwrap();
        assert_eq!(kept.screens_after(89).await, screens);
        for _ in 0..2 {
            kept.is_pressed(&mut screens).await;
            assert_eq!(kept.screens_after(88).await, screens);
            kept.env.advance(Duration::from_secs(1));
        }
        // A request without a key changes nothing of that: the next one is due.
        apps.hold_session(&clerk, id, Holding::Active).await.unwrap();
        kept.is_pressed(&mut screens).await;
    }
    let found = kept.held.does(&clerk, id, SessionWork::Screen).await.unwrap();
    assert_eq!(found.entity.as_deref(), Some("Find"));
    assert_eq!(apps.session(&clerk, id).unwrap().keys, 0);
    // ENTER would search for it.
    assert_eq!(kept.held.stands(&clerk, id, into_field("name", "NOVAK")).await, "Find");
    settled().await;
    assert_eq!(kept.screens_after(1_000).await, screens);
    let found = kept.held.does(&clerk, id, SessionWork::Screen).await.unwrap();
    assert!(found.screen.rows[9].contains("NOVAK"), "{found:?}");
    // Its time ends all the same.
    assert_eq!(kept.held.stands(&clerk, id, go("Find")).await, "Find");
    settled().await;
    kept.env.advance(Duration::from_secs(3_600));
    kept.look().await;
    let gone = until("the end", || async { apps.session(&clerk, id).err() }).await;
    assert_eq!(gone.code(), "EP1313");
    assert_eq!(kept.held.end(0).await["why"], "left");
    kept.held.applications.stop().await;
}

#[tokio::test]
async fn a_client_waits_while_its_session_is_kept_alive() {
    let kept = KeptAlive::start().await;
    let (clerk, id) = (clerk(), kept.id);
    let screens = kept.held.library.screens();
    let held_back = kept.held.library.hold_back().await;
    kept.env.advance(Duration::from_secs(90));
    kept.look().await;
    let (apps, anna) = (kept.held.applications.clone(), clerk.clone());
    let request = async move { apps.work_at_screens(&anna, id, SessionWork::Screen).await };
    let request = tokio::spawn(request);
    kept.look().await;
    assert!(!request.is_finished());
    drop(held_back);
    let found = request.await.unwrap().unwrap();
    assert_eq!((found.entity.as_deref(), kept.held.library.screens()), (Some("Find"), screens + 1));
    assert!(found.screen.rows[23].contains("NO SUCH READER"), "{found:?}");
    // One that has ended meanwhile is noticed, and its client told.
    settled().await;
    kept.held.library.cut(Door::Open);
    kept.env.advance(Duration::from_secs(90));
    let gone = until("the end", || async {
        kept.look().await;
        kept.held.applications.session(&clerk, id).err()
    });
    assert_eq!(gone.await.code(), "EP1313");
    assert_eq!(kept.held.end(0).await["why"], "broken");
    kept.held.applications.stop().await;
}

fn at(text: &str) -> Place {
    Place::parse(text).unwrap()
}
