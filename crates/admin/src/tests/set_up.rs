//! The first administrator is made by a token, once.

use std::time::Duration;

use entrepot_nouns::{Account, AccountType};

use super::*;

impl Bench {
    async fn set_up_token(&self) -> Result<Secret> {
        match self.ask(Request::MakeSetUpToken).await? {
            Response::SetUpToken { token, .. } => Ok(Secret::new(token.expose())),
            other => panic!("{other:?}"),
        }
    }

    async fn set_up(&self, token: &Secret, called: &str, password: &str) -> Result<()> {
        self.admin.set_up(token, name(called), Secret::new(password)).await
    }
}

#[tokio::test]
async fn a_token_makes_the_first_administrator_and_is_gone() {
    let bench = bench().await;
    bench.apply("account: {name: acme}").await.unwrap();
    assert!(!bench.admin.waits_for_set_up().await.unwrap());
    let older = bench.set_up_token().await.unwrap();
    let token = bench.set_up_token().await.unwrap();
    assert!(bench.admin.waits_for_set_up().await.unwrap());
    assert!(matches!(bench.set_up(&older, "root", "long enough").await, Err(AdminError::NoSetUp)));
    let short = bench.set_up(&token, "root", "short").await.unwrap_err();
    assert_eq!(short.code(), "EP0120", "{short}");
    let taken = bench.set_up(&token, "acme", "long enough").await.unwrap_err();
    assert_eq!(taken.code(), "EP0106", "{taken}");
    bench.set_up(&token, "root", "long enough").await.expect("mistakes did not use it up");
    let made = bench.db.find::<Account>(SiteId::MAIN, &name("root")).await.unwrap().unwrap().noun;
    assert_eq!((made.account_type, made.role, made.password), (AccountType::Admin, None, None));
    let again = bench.set_up(&token, "other", "long enough").await.unwrap_err();
    assert_eq!((again.code(), again.class()), ("EP1042", ProblemClass::Denied));
    assert!(!bench.admin.waits_for_set_up().await.unwrap());
    assert_eq!(bench.set_up_token().await.unwrap_err().code(), "EP0111", "there is one");
    let last = bench.events().await.pop().unwrap();
    let Fact::ConfigChanged { by, .. } = &last.fact else { panic!("{last:?}") };
    assert_eq!((by.as_str(), last.account), ("set-up:token", None));
}

#[tokio::test]
async fn a_token_ends_and_counts_no_more_beside_an_administrator() {
    let bench = bench().await;
    let late = bench.set_up_token().await.unwrap();
    bench.env.advance(Duration::from_secs(86_400));
    assert!(matches!(bench.set_up(&late, "root", "long enough").await, Err(AdminError::NoSetUp)));
    assert!(!bench.admin.waits_for_set_up().await.unwrap());
    let token = bench.set_up_token().await.unwrap();
    bench.apply("account: {name: olga, type: admin, role: operator}").await.unwrap();
    assert!(bench.admin.waits_for_set_up().await.unwrap(), "an operator is no administrator");
    bench.apply("account: {name: boss, type: admin}").await.unwrap();
    assert!(matches!(bench.set_up(&token, "root", "long enough").await, Err(AdminError::NoSetUp)));
    assert!(!bench.admin.waits_for_set_up().await.unwrap());
    assert!(matches!(
        bench.set_up(&wrong_token(), "root", "long enough").await,
        Err(AdminError::NoSetUp)
    ));
}

fn wrong_token() -> Secret {
    Secret::new(*b"epi_x")
}

#[tokio::test]
async fn of_two_who_have_the_token_one_becomes_the_administrator() {
    let bench = bench().await;
    let token = bench.set_up_token().await.unwrap();
    let (one, two) = tokio::join!(
        bench.set_up(&token, "one", "long enough"),
        bench.set_up(&token, "two", "long enough"),
    );
    assert_eq!(usize::from(one.is_ok()) + usize::from(two.is_ok()), 1, "{one:?} {two:?}");
}
