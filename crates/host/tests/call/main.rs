//! Procedures of the sample model, called at the sample application.

mod debug;
mod each;
mod held;
mod library;
mod orders;
mod output;
mod pool;
mod schema;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use entrepot_host::model::Model;
use entrepot_host::{
    Application, CallError, CodePage, Device, HostError, HostOptions, SAMPLE_LOANS,
    SAMPLE_MANY_LOANS, SAMPLE_MODEL, SampleHost, SampleLoan,
};
use entrepot_net::tls::ServerTrust;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use library::LastPage;

const MODEL: &str = SAMPLE_MODEL;

fn options(address: &str) -> HostOptions {
    HostOptions {
        address: address.parse().unwrap(),
        device: Device::default(),
        lus: Vec::new(),
        page: CodePage::new(37).unwrap(),
        trust: ServerTrust::System,
        patience: Duration::from_secs(20),
    }
}

fn values(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

const CLERK: [(&str, &str); 2] = [("user", "CLERK"), ("password", "SECRET")];

async fn called(model: &str, last: LastPage, input: &[(&str, &str)]) -> Result<Value, CallError> {
    let model = Arc::new(Model::read(model).unwrap());
    let address = library::open(last);
    let mut application =
        Application::open(Arc::clone(&model), options(&address), values(&CLERK)).await?;
    application.call("find_loans", values(input)).await
}

fn all_loans() -> Value {
    let loans = (0..SAMPLE_LOANS).map(|place| {
        let SampleLoan { id, title, due, fine } = SampleLoan::at(place);
        let due = format!("2026-11-{}", &due[..2]);
        let fine = if fine.is_empty() { Value::Null } else { json!("1250.50") };
        json!({"id": id, "title": title, "due": due, "fine": fine})
    });
    json!({"reader": "NOVAK", "loans": loans.collect::<Vec<_>>()})
}

#[tokio::test]
async fn a_procedure_gives_exactly_what_the_application_has() {
    let reader = [("reader", "NOVAK")];
    assert_eq!(called(MODEL, LastPage::Told, &reader).await.unwrap(), all_loans());
    // A page that shows the same again is the last one.
    assert_eq!(called(MODEL, LastPage::Repeated, &reader).await.unwrap(), all_loans());
    let nothing = called(MODEL, LastPage::Told, &[("reader", "EMPTY")]).await.unwrap();
    assert_eq!(nothing, json!({"reader": "EMPTY", "loans": []}));
}

/// As many screens as the search of the benchmark that others publish has.
#[tokio::test]
async fn the_long_list_of_the_sample_takes_28_screens() {
    let host = SampleHost::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let (address, library, stop) = (host.address(), host.library(), CancellationToken::new());
    let serving = tokio::spawn(host.run(stop.clone()));
    let mut before = 0;
    // No page is turned for records that are not wanted.
    for (limit, records, screens) in
        [("", SAMPLE_MANY_LOANS, 28), (", limit: 13", 13, 3), (", limit: 14", 14, 4)]
    {
        let read = format!("rows: Loans.loans{limit}}}");
        let model = MODEL.replacen("rows: Loans.loans}", &read, 1);
        let model = Arc::new(Model::read(&model).unwrap());
        let options = options(&address.to_string());
        let mut application = Application::open(model, options, values(&CLERK)).await.unwrap();
        application.go_home().await.unwrap();
        assert_eq!(library.screens(), before + 3);
        let found = application.call("find_loans", values(&[("reader", "MANY")])).await.unwrap();
        assert_eq!(found["loans"].as_array().unwrap().len(), records);
        assert_eq!(library.screens(), before + 3 + screens);
        before = library.screens();
    }
    stop.cancel();
    serving.await.unwrap();
}

#[tokio::test]
async fn a_session_is_used_again_and_goes_home_between() {
    let model = Arc::new(Model::read(MODEL).unwrap());
    let address = library::open(LastPage::Told);
    let mut application =
        Application::open(Arc::clone(&model), options(&address), values(&CLERK)).await.unwrap();
    for _ in 0..3 {
        let refused = application.call("find_loans", values(&[("reader", "NOBODY")])).await;
        let Err(CallError::Outcome { error, http, text }) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!((error.as_str(), http, text.as_str()), ("not_found", 404, "NO SUCH READER"));
        let found = application.call("find_loans", values(&[("reader", "NOVAK")])).await.unwrap();
        assert_eq!(found, all_loans());
    }
}

#[tokio::test]
async fn what_goes_wrong_is_told_in_the_words_of_the_model() {
    let model = Arc::new(Model::read(MODEL).unwrap());
    let address = library::open(LastPage::Told);
    let wrong = values(&[("user", "CLERK"), ("password", "WRONG")]);
    let mut application =
        Application::open(Arc::clone(&model), options(&address), wrong).await.unwrap();
    let error = application.call("find_loans", values(&[("reader", "X")])).await.unwrap_err();
    assert_eq!(
        (error.code(), error.to_string().as_str()),
        ("EP1307", "not_authorised: NOT AUTHORISED")
    );
    for (input, words) in [
        (values(&[]), "'reader' was not given"),
        (values(&[("raeder", "X")]), "no parameter 'raeder'"),
        (values(&[("reader", "A NAME OF MORE THAN TWENTY LETTERS")]), "too long"),
    ] {
        let error = application.call("find_loans", input).await.unwrap_err();
        assert_eq!(error.code(), "EP1306");
        assert!(error.to_string().contains(words), "{error}");
    }
    let error = application.call("find", values(&[])).await.unwrap_err();
    assert!(error.to_string().contains("there are find_loans"), "{error}");
    let unknown =
        Application::open(Arc::clone(&model), options(&address), values(&[("usr", "X")])).await;
    assert_eq!(unknown.unwrap_err().code(), "EP1306");
    // Without a password the way stops where it is needed.
    let nobody = values(&[("user", "CLERK")]);
    let mut application =
        Application::open(Arc::clone(&model), options(&address), nobody).await.unwrap();
    let error = application.call("find_loans", values(&[("reader", "X")])).await.unwrap_err();
    assert!(error.to_string().contains("'password' was not given"), "{error}");
}

#[tokio::test]
async fn an_application_that_is_another_one_is_noticed() {
    let reader = [("reader", "NOVAK")];
    // A number where the screen has letters.
    let other = MODEL.replace("17 len 30 out", "17 len 30 out integer");
    let error = called(&other, LastPage::Told, &reader).await.unwrap_err();
    assert!(error.to_string().contains("'title' of 'Loans' shows 'TITLE OF BOOK 0'"), "{error}");
    // The procedure expects something else than what comes.
    let other = MODEL.replace("          Loans: continue", "          Menu: continue");
    let error = called(&other, LastPage::Told, &reader).await.unwrap_err();
    assert_eq!(error.code(), "EP1308");
    assert!(error.to_string().contains("shows 'Loans' where Menu or Find"), "{error}");
    // No screen of the model ever comes.
    let model = Arc::new(Model::read(&MODEL.replace("CENTRAL LIBRARY", "OTHER LIBRARY")).unwrap());
    let options =
        HostOptions { patience: Duration::from_secs(1), ..options(&library::open(LastPage::Told)) };
    let late = Application::open(Arc::clone(&model), options, values(&CLERK)).await.unwrap_err();
    assert!(matches!(late, CallError::Host(HostError::Late { .. })), "{late}");
}

/// The record stands on the third page, is selected there, and changed.
#[tokio::test]
async fn a_record_is_picked_and_changed() {
    let model = Arc::new(Model::read(MODEL).unwrap());
    let address = library::open(LastPage::Told);
    let mut application =
        Application::open(Arc::clone(&model), options(&address), values(&CLERK)).await.unwrap();
    let input = |id, due| values(&[("reader", "NOVAK"), ("id", id), ("due", due)]);
    let renewed = application.call("renew_loan", input("1028", "24.12.2027")).await.unwrap();
    assert_eq!(renewed, json!({"number": 1028, "due": "24.12.2027", "note": "RENEWED"}));
    for (id, due, wanted) in [
        ("1003", "24.12.2020", "not_valid: DAY NOT VALID"),
        ("9999", "24.12.2027", "no_such_loan: this reader has no such loan"),
    ] {
        let error = application.call("renew_loan", input(id, due)).await.unwrap_err();
        assert_eq!(error.to_string(), wanted);
    }
    // The session goes on from wherever it stands.
    let renewed = application.call("renew_loan", input("1000", "01.01.2027")).await.unwrap();
    assert_eq!(renewed["number"], 1000);
}
