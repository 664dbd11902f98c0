//! Browsers that are signed in: an administrator sees those of its site and signs them out.

use entrepot_db::SignInRow;
use entrepot_nouns::{AccountId, SessionId, Timestamp};
use uuid::Uuid;

use super::*;

fn row(number: u128, site: SiteId, account: &str) -> SignInRow {
    let at = Timestamp::from_seconds;
    SignInRow {
        id: SessionId(Uuid::from_u128(number)),
        hash: format!("{number:064x}"),
        site,
        account: name(account),
        account_id: AccountId(Uuid::from_u128(70)),
        opened_at: at(1),
        seen_at: at(2),
        proved_at: at(1),
        ends_at: at(1000),
        idle_us: 1_000_000,
        address: "192.0.2.1".to_owned(),
        user_agent: "Firefox".to_owned(),
        proof: "password".to_owned(),
        credentials: "secret of the table".to_owned(),
    }
}

async fn listed(bench: &Bench, account: Option<&str>) -> Vec<String> {
    let answer = bench.ask(Request::SignIns { account: account.map(name) }).await.unwrap();
    let text = serde_json::to_string(&answer).unwrap();
    assert!(
        !text.contains("secret of the table") && !text.contains("00000000000000000000000b"),
        "{text}"
    );
    match answer {
        Response::SignIns { sign_ins } => {
            sign_ins.into_iter().map(|it| it.account.to_string()).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_administrator_sees_and_ends_those_of_its_site() {
    let bench = bench().await;
    let north = SiteId(Uuid::from_u128(99));
    for row in
        [row(11, SiteId::MAIN, "acme"), row(12, SiteId::MAIN, "anna"), row(13, north, "nils")]
    {
        bench.db.add_sign_in(&row).await.unwrap();
    }
    assert_eq!(listed(&bench, None).await, ["acme", "anna"]);
    assert_eq!(listed(&bench, Some("anna")).await, ["anna"]);
    let id = SessionId(Uuid::from_u128(11));
    bench.ask(Request::EndSignIn { id }).await.unwrap();
    assert_eq!(listed(&bench, None).await, ["anna"]);
    let elsewhere = SessionId(Uuid::from_u128(13));
    for gone in [id, elsewhere] {
        let error = bench.ask(Request::EndSignIn { id: gone }).await.unwrap_err();
        assert_eq!((error.code(), error.class()), ("EP1041", ProblemClass::NotFound));
    }
    assert!(bench.db.sign_in(north, elsewhere).await.unwrap().is_some());
    let ended: Vec<_> = recorded(&bench)
        .into_iter()
        .filter_map(|event| match event.fact {
            Fact::SignInEnded { ended } => Some((event.session, ended.name.to_string(), ended.by)),
            _ => None,
        })
        .collect();
    assert_eq!(ended, [(Some(id), "acme".to_owned(), Some("cli:root".to_owned()))]);
}

fn recorded(bench: &Bench) -> Vec<Event> {
    let records = bench.journal.reader(0).read_now(1_000).unwrap();
    let events = records.iter().filter(|it| it.kind == entrepot_journal::RecordKind::Event);
    events.map(|record| serde_json::from_slice(&record.payload).unwrap()).collect()
}
