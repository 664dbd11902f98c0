//! What is recorded of sessions, and when it is written.

use std::io;
use std::sync::{Arc, Mutex};

use entrepot_host::{
    Applications, Called, Caller, DebugEvent, DebugFile, DebugFiles, DebugMessage, DebugPlace,
    Deployment, HostClient, Key, Place, ProcedureCall, ProcedureError, Scope, SessionKind,
    SessionWork, TypeTo,
};
use entrepot_nouns::endpoint::Tn3270Target;
use entrepot_nouns::{Env, Model, Secret, SiteId};
use entrepot_testbed::{Testbed, name};
use serde_json::{Value, json};

use crate::library::{LastPage, Library};
use crate::{MODEL, values};

/// Keeps files in memory.
#[derive(Default)]
struct Shelf(Mutex<Vec<(DebugPlace, String)>>);

impl DebugFiles for Shelf {
    fn keep(&self, place: &DebugPlace, text: &str, most: usize) -> io::Result<()> {
        assert_eq!((place.site, &place.model, most), (SiteId::MAIN, &name("loans"), 7));
        self.0.lock().unwrap().push((place.clone(), text.to_owned()));
        Ok(())
    }
}

/// A deployed model whose sessions are recorded, at an application of its own.
struct Recorded {
    applications: Applications,
    library: Arc<Library>,
    shelf: Arc<Shelf>,
    _bed: Testbed,
}

const USERS: &str = "user,password\nCLERK1,SECRET\n";

impl Recorded {
    async fn start(debug: Value) -> Recorded {
        Recorded::start_with(MODEL, USERS, debug).await
    }

    async fn start_with(model: &str, users: &str, debug: Value) -> Recorded {
        let bed = Testbed::start_in_memory(Env::real()).await;
        let shelf = Arc::new(Shelf::default());
        let files: Arc<dyn DebugFiles> = shelf.clone();
        let applications = Applications::with_debug_files(bed.recorder.clone(), files);
        let library = Library::open(LastPage::Told);
        let recorded = Recorded { applications, library, shelf, _bed: bed };
        recorded.deploy(model, users, debug);
        recorded
    }

    fn deploy(&self, definition: &str, users: &str, mut debug: Value) {
        debug["files"] = json!(7);
        let (host, port) = self.library.address.rsplit_once(':').unwrap();
        let target = Tn3270Target { port: port.parse().ok(), ..Tn3270Target::new(host) };
        let model: Model = serde_json::from_value(json!({
            "name": "loans", "endpoint": "mainframe", "definition": definition, "debug": debug,
            "pool": {"max": 1, "wait": "20s", "user_rest": "0s"}, "callers": {"clerks": ["*"]},
            "terminals": ["clerks"],
        }))
        .unwrap();
        let users = Some(Secret::from(users.to_owned()));
        let deployment = Deployment { site: SiteId::MAIN, model, target, users };
        assert_eq!(self.applications.settle(vec![deployment]), []);
    }

    async fn find(&self, reader: &str) -> Result<Called, ProcedureError> {
        let call = ProcedureCall {
            scope: Scope::site(SiteId::MAIN),
            caller: Caller(1),
            model: name("loans"),
            procedure: "find_loans".to_owned(),
            input: values(&[("reader", reader)]),
        };
        self.applications.call(call).await
    }

    fn opened(&self) -> u64 {
        self.applications.figures(SiteId::MAIN, &name("loans")).unwrap().opened
    }

    /// Waits until the session is at home again.
    async fn rests(&self) {
        let figures = || self.applications.figures(SiteId::MAIN, &name("loans")).unwrap();
        let resting = async {
            while figures().idle.now == 0 {
                tokio::task::yield_now().await;
            }
        };
        let rests = tokio::time::timeout(std::time::Duration::from_secs(60), resting).await;
        assert!(rests.is_ok(), "{:?}", figures());
    }

    /// So many files were written; none of them has a secret.
    async fn files(&self, wanted: usize) -> Vec<DebugFile> {
        let written = async {
            while self.shelf.0.lock().unwrap().len() < wanted {
                tokio::task::yield_now().await;
            }
        };
        let late = tokio::time::timeout(std::time::Duration::from_secs(60), written).await;
        let files = self.shelf.0.lock().unwrap().clone();
        assert!(late.is_ok() && files.len() == wanted, "{} files, not {wanted}", files.len());
        for (place, text) in &files {
            let file = text.to_ascii_uppercase();
            assert!(!file.contains("SECRET") && !file.contains("HANDMADE"), "{text}");
            assert!(place.file.ends_with(".jsonl"), "{place:?}");
        }
        files.iter().map(|(_, text)| DebugFile::read(text).unwrap()).collect()
    }

    /// Logs off; answers all files.
    async fn stopped(self, wanted: usize) -> Vec<DebugFile> {
        self.applications.stop().await;
        self.files(wanted).await
    }
}

/// A message in some words.
fn told(message: &DebugMessage) -> String {
    match &message.event {
        DebugEvent::Screen { entity, .. } => entity.clone().unwrap_or("?".to_owned()),
        DebugEvent::Key { key, typed, .. } => {
            let typed: Vec<&str> = typed.iter().map(|field| field.text.as_str()).collect();
            format!("{key} {}", typed.join(" ")).trim().to_owned()
        }
        DebugEvent::Begun { work } if work.starts_with("connect") => "connect".to_owned(),
        DebugEvent::Begun { work } => work.clone(),
        DebugEvent::Ended { refused: Some(why), .. } => format!("refused: {why}"),
        DebugEvent::Ended { .. } => "ended".to_owned(),
        DebugEvent::Failed { code, error, .. } => {
            format!("{}: {error}", code.as_deref().unwrap_or("-"))
        }
    }
}

fn all_told(file: &DebugFile) -> Vec<String> {
    file.messages.iter().map(told).collect()
}

#[tokio::test]
async fn a_session_is_recorded_from_its_begin_to_its_end_without_secrets() {
    let recorded = Recorded::start(json!({"level": "everything"})).await;
    recorded.find("EMPTY").await.unwrap();
    recorded.find("NOBODY").await.unwrap_err();
    recorded.rests().await;
    let files = recorded.stopped(1).await;
    let wanted = [
        "connect",
        "Logo",
        "ended",
        "go home",
        "ENTER LOANS",
        "Signon",
        "ENTER CLERK1 ******",
        "?",
        "Menu",
        "ended",
        "call find_loans with reader",
        "ENTER 1",
        "Find",
        "ENTER EMPTY",
        "Loans",
        "PF12",
        "Menu",
        "ended",
        "call find_loans with reader",
        "ENTER 1",
        "Find",
        "ENTER NOBODY",
        "Find",
        "refused: not_found: NO SUCH READER",
        "go home",
        "PF12",
        "Menu",
        "ended",
        "log off",
        "PF3",
        "Logo",
        "ended",
    ];
    assert_eq!(all_told(&files[0]), wanted);
    let header = &files[0].header;
    assert_eq!((header.session, header.part, header.failures, header.dropped), (1, 1, 0, 0));
    // The host's own screens, field by field.
    let DebugEvent::Screen { screen, .. } = &files[0].messages[5].event else { panic!() };
    assert!(screen.rows[0].ends_with("LB010") && screen.keyboard == "free", "{screen:?}");
    assert!(screen.fields.iter().any(|field| field.hidden && field.begins.row == 14));
    let DebugEvent::Screen { screen, .. } = &files[0].messages[7].event else { panic!() };
    assert!(screen.rows[0].ends_with("WORKING"), "{screen:?}");
    assert_eq!(screen.keyboard, "system");
}

#[tokio::test]
async fn what_led_to_an_error_is_written_at_once_and_the_level_changes_under_open_sessions() {
    // A procedure that expects another screen than the one that comes.
    let model = MODEL.replace("          Loans: continue", "          Menu: continue");
    let recorded = Recorded::start_with(&model, USERS, json!({"level": "nothing"})).await;
    assert_eq!(recorded.find("EMPTY").await.unwrap_err().code(), "EP1308");
    recorded.files(0).await;
    recorded.deploy(&model, USERS, json!({"level": "errors"}));
    recorded.find("NOBODY").await.unwrap_err();
    assert_eq!(recorded.find("EMPTY").await.unwrap_err().code(), "EP1308");
    let lost = "EP1308: the application shows 'Loans' where Menu or Find was expected";
    let file = recorded.files(1).await.remove(0);
    let told = all_told(&file);
    assert_eq!(told.last().map(String::as_str), Some(lost), "{told:?}");
    assert!(told.contains(&"refused: not_found: NO SUCH READER".to_owned()), "{told:?}");
    // Of a second error, what came behind the first one.
    recorded.find("EMPTY").await.unwrap_err();
    let second = recorded.files(2).await.remove(1);
    assert_eq!((second.header.part, second.header.failures), (2, 2));
    assert_eq!(told_last(&second), lost);
    assert!(!all_told(&second).contains(&"ENTER NOBODY".to_owned()));
    recorded.deploy(&model, USERS, json!({"level": "nothing"}));
    recorded.find("EMPTY").await.unwrap_err();
    let opened = recorded.opened();
    recorded.stopped(2).await;
    assert_eq!(opened, 1);
}

fn told_last(file: &DebugFile) -> String {
    file.messages.last().map(told).unwrap_or_default()
}

#[tokio::test]
async fn of_sessions_with_errors_all_is_written_and_of_others_nothing() {
    // One who may be signed on twice: of the first time the library does not know that it ended.
    let users = "user,password\nCLERK,SECRET\n";
    let recorded = Recorded::start_with(MODEL, users, json!({"level": "error-sessions"})).await;
    recorded.find("EMPTY").await.unwrap();
    recorded.find("NOBODY").await.unwrap_err();
    recorded.library.cut(crate::library::Door::Open);
    // It is noticed where the next one asks.
    recorded.find("EMPTY").await.unwrap();
    let files = recorded.stopped(1).await;
    let told = all_told(&files[0]);
    assert_eq!((told[0].as_str(), files[0].header.failures), ("connect", 1));
    assert!(told_last(&files[0]).starts_with("EP1301"), "{told:?}");
}

#[tokio::test]
async fn a_sign_on_that_is_refused_is_an_error_and_its_password_is_nowhere() {
    let users = "user,password\nCLERK2,XSecret\n";
    let recorded = Recorded::start_with(MODEL, users, json!({"level": "errors"})).await;
    let found = recorded.find("EMPTY");
    tokio::pin!(found);
    let file = tokio::select! {
        files = recorded.files(1) => files,
        _ = &mut found => recorded.files(1).await,
    };
    let told = all_told(&file[0]);
    assert_eq!(told_last(&file[0]), "EP1307: not_authorised: NOT AUTHORISED", "{told:?}");
    assert!(told.contains(&"ENTER CLERK2 *******".to_owned()), "{told:?}");
}

#[tokio::test]
async fn what_somebody_types_into_a_hidden_field_is_nowhere() {
    let recorded = Recorded::start(json!({"level": "everything"})).await;
    let client = HostClient {
        scope: Scope { account: Some(name("anna")), ..Scope::site(SiteId::MAIN) },
        caller: Caller(1),
        lineage: vec![name("clerks")],
        model: name("loans"),
    };
    let own = SessionKind::Own(values(&[("user", "X")]));
    let id = recorded.applications.open_session(client.clone(), own).await.unwrap().id;
    let work = async |work| recorded.applications.work_at_screens(&client, id, work).await.unwrap();
    let into = |field: &str, text: &str| SessionWork::Type {
        text: text.to_owned(),
        to: Some(TypeTo::Field(field.to_owned())),
    };
    let press = || SessionWork::Press(Key::named("ENTER").unwrap());
    // What is typed for all to see before anybody knows that it is a password.
    work(into("cmd", "HANDMADE")).await;
    work(press()).await;
    work(SessionWork::Go("Signon".to_owned())).await;
    work(into("user", "CLERK")).await;
    work(into("pass", "Handmade")).await;
    work(press()).await;
    recorded.applications.end_session(&client, id).await.unwrap();
    let files = recorded.stopped(1).await;
    let told = all_told(&files[0]);
    assert!(told.contains(&"ENTER CLERK ********".to_owned()), "{told:?}");
    assert!(told.contains(&"ENTER ********".to_owned()), "{told:?}");
}

#[tokio::test]
async fn what_is_typed_where_the_model_has_a_secret_is_in_no_record_and_no_answer() {
    // The host shows this field to everybody, and what is in it on the next screen.
    let model = MODEL.replace("name: \"10,20 len 20\"", "name: \"10,20 len 20 secret\"");
    assert_ne!(model, MODEL);
    let recorded = Recorded::start_with(&model, USERS, json!({"level": "everything"})).await;
    let client = HostClient {
        scope: Scope { account: Some(name("anna")), ..Scope::site(SiteId::MAIN) },
        caller: Caller(1),
        lineage: vec![name("clerks")],
        model: name("loans"),
    };
    let id = recorded.applications.open_session(client.clone(), SessionKind::Pooled).await;
    let id = id.unwrap().id;
    let answer = async |work| {
        let shown = recorded.applications.work_at_screens(&client, id, work).await.unwrap();
        json!(shown).to_string()
    };
    answer(SessionWork::Go("Find".to_owned())).await;
    let typed = SessionWork::Type {
        text: "NOVAK".to_owned(),
        to: Some(TypeTo::Place(Place { row: 10, column: 20 })),
    };
    let shown = answer(typed).await;
    assert!(shown.contains("*****") && !shown.contains("NOVAK"), "{shown}");
    answer(SessionWork::Press(Key::named("ENTER").unwrap())).await;
    recorded.applications.end_session(&client, id).await.unwrap();
    let files = recorded.stopped(1).await;
    let told = all_told(&files[0]);
    assert!(told.contains(&"ENTER *****".to_owned()), "{told:?}");
    let text = files[0].to_string();
    assert!(!text.contains("NOVAK"), "{text}");
    let readers = files[0].messages.iter().filter_map(|message| match &message.event {
        DebugEvent::Screen { entity: Some(entity), screen } if entity == "Loans" => {
            Some(screen.rows[3].trim())
        }
        _ => None,
    });
    assert_eq!(readers.collect::<Vec<_>>(), ["*****"]);
}

#[tokio::test]
async fn the_oldest_messages_go_first() {
    let recorded = Recorded::start(json!({"level": "everything", "messages": 6})).await;
    recorded.find("NOVAK").await.unwrap();
    let files = recorded.stopped(1).await;
    let told = all_told(&files[0]);
    assert!(told.len() <= 6 && told.ends_with(&["Logo".to_owned(), "ended".to_owned()]));
    assert!(files[0].header.dropped > 10, "{:?}", files[0].header);
    // No key without the screen before it.
    assert!(!matches!(files[0].messages[0].event, DebugEvent::Key { .. }), "{told:?}");
}

#[test]
fn what_is_no_record_is_refused() {
    for (text, line) in [("", 1), ("{}\n", 1), ("{\"format\":\"other\",\"version\":1}\n", 1)] {
        assert_eq!(DebugFile::read(text).unwrap_err().line, line, "{text}");
    }
    let header = json!({
        "format": "entrepot-host-debug", "version": 1, "model": "loans", "session": 1, "part": 1,
        "opened_at": "2026-11-29T01:00:00Z", "ended_at": "2026-11-29T01:00:00Z", "failures": 0,
        "dropped": 0,
    });
    assert_eq!(DebugFile::read(&header.to_string()).unwrap().messages, []);
    let cut = format!("{header}\n{{\"at\":\n");
    assert_eq!(DebugFile::read(&cut).unwrap_err().line, 2);
    let later = header.to_string().replace("\"version\":1", "\"version\":2");
    let problem = DebugFile::read(&later).unwrap_err().to_string();
    assert!(problem.contains("a later program"), "{problem}");
}
