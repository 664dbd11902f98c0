//! Logins that a hook decides: a program that says what it is told to say.

use entrepot_crypto::{SealingContext, totp};
use entrepot_nouns::login::{ExecHook, LoginCheck, LoginHook};
use entrepot_nouns::{Account, AccountType, AuthMethod, Env, Listener, SiteId};
use entrepot_spawn::{Allowed, Helper, Spawner, SpawnerOptions};

use super::{World, granted, name, secret, wrong};
use crate::Verdict;

/// A world whose listener asks this program.
async fn world(program: &[&str]) -> World {
    let world = World::new().await;
    let allowed = Allowed::new(["/bin/echo", "/bin/sleep", "/bin/false"].map(Into::into)).unwrap();
    let options = SpawnerOptions { helper: Helper::Thread, ..SpawnerOptions::new(allowed) };
    world.gate.start_programs_by(Spawner::new(options, Env::real()));
    let program = program.iter().map(|&word| word.to_owned()).collect();
    let hook = LoginHook::Exec(ExecHook { program });
    let mut listener = super::listener("none");
    listener.policy = None;
    listener.login = Some(LoginCheck { hook, seconds: Some(1), accounts: None });
    world.put(&listener).await;
    world
}

async fn plain(world: &World, account: &str) {
    world.account(account, |account| account.password_hash = None).await;
}

/// Why the last login was refused.
fn reason(world: &World) -> String {
    let last = serde_json::to_value(entrepot_testbed::events(&world.journal).last()).unwrap();
    last["reason"].as_str().unwrap_or_default().to_owned()
}

async fn refused(world: &World, user: &str) -> String {
    let verdict = world.attempt().password(user, &wrong()).await;
    assert!(matches!(verdict, Verdict::Refused { .. }), "{verdict:?}");
    let appended = world.journal.usage().appended;
    world.journal.sync(appended).await.unwrap();
    reason(world)
}

#[tokio::test]
async fn a_hook_with_a_list_lets_nobody_in_as_another_account() {
    let world = world(&["/bin/echo", r#"{"allow": true, "account": "shop"}"#]).await;
    plain(&world, "shop").await;
    let group = |account: &mut Account| {
        account.account_type = AccountType::Group;
        account.password_hash = None;
    };
    world.account("guests", group).await;
    let mut listener = world.db.find::<Listener>(SiteId::MAIN, &name("sftp")).await;
    let mut listener = listener.as_mut().unwrap().take().unwrap().noun;
    let mut list = async |accounts: &[&str]| {
        let check = listener.login.as_mut().unwrap();
        check.accounts = Some(accounts.iter().map(|account| name(account)).collect());
        world.put(&listener).await;
    };
    for accounts in [&[][..], &["other", "nobody"], &["guests"]] {
        list(accounts).await;
        let why = refused(&world, "anna").await;
        assert!(why.contains("may not let anybody in"), "{accounts:?}: {why}");
    }
    list(&["shop"]).await;
    assert!(granted(&world.attempt().password("anna", &wrong()).await));
    list(&["guests"]).await;
    let member = |account: &mut Account| {
        account.password_hash = None;
        account.groups = vec![name("guests")];
    };
    world.account("shop", member).await;
    assert!(granted(&world.attempt().password("anna", &wrong()).await), "a member of the group");
}

#[tokio::test]
async fn a_hook_lets_any_name_in_as_the_account_it_names_and_no_other() {
    let world = world(&["/bin/echo", r#"{"allow": true, "account": "shop"}"#]).await;
    plain(&world, "shop").await;
    world.account("own", |_| {}).await;
    for user in ["anna@example.com", "nobody", "shop"] {
        let verdict = world.attempt().password(user, &wrong()).await;
        let Verdict::Granted(grant) = verdict else { panic!("{user}: {verdict:?}") };
        assert_eq!(grant.principal().account.name, name("shop"), "{user}");
        let live = world.enlist(&grant).unwrap();
        plain(&world, "shop").await;
        assert_eq!(live.end_reason(), None, "it ends with its account only");
    }
    assert_eq!(world.gate.hashes(), 0);
    assert!(!granted(&world.attempt().password("own", &wrong()).await), "its password is here");
    assert!(granted(&world.attempt().password("own", &secret("own")).await));
}

#[tokio::test]
async fn a_hook_opens_no_door_that_is_closed() {
    let world = world(&["/bin/echo", r#"{"allow": true}"#]).await;
    for account in ["admin", "off", "code", "key"] {
        plain(&world, account).await;
    }
    let change = |account: &'static str, change: fn(&mut entrepot_nouns::Account)| {
        world.account(account, move |account| {
            account.password_hash = None;
            change(account);
        })
    };
    change("admin", |account| account.account_type = AccountType::Admin).await;
    change("off", |account| account.enabled = false).await;
    change("key", |account| account.login = vec![vec![AuthMethod::PublicKey]]).await;
    change("group", |account| account.account_type = AccountType::Group).await;
    let code = totp::new_secret(&world.env);
    let context = SealingContext::code_generator(&name("main"), &name("code"));
    let sealed = world.directory.master().seal(&world.env, &context, &code);
    world
        .account("code", |account| {
            account.password_hash = None;
            account.totp_sealed = Some(sealed.unwrap());
        })
        .await;
    for (user, why) in [
        ("admin", "a login hook lets no administrator in"),
        ("off", "the account is disabled"),
        ("key", "the account asks for more than a password"),
        ("code", "the account asks for more than a password"),
        ("group", "a group cannot log in"),
        ("nobody", "the login hook names no account"),
    ] {
        assert_eq!(refused(&world, user).await, why, "{user}");
    }
}

#[tokio::test]
async fn a_hook_that_does_not_decide_refuses_and_counts_against_nobody() {
    for (program, why) in [
        (&["/bin/false"][..], "the login hook did not decide: exit code 1"),
        (&["/bin/sleep", "60"], "the login hook did not decide: "),
        (&["/bin/echo", "yes"], "the login hook did not decide: its answer is no JSON"),
        (&["/bin/cat"], "the login hook did not decide: the program '/bin/cat' is not allowed"),
    ] {
        let world = world(program).await;
        plain(&world, "shop").await;
        let said = refused(&world, "shop").await;
        assert!(said.starts_with(why), "{program:?}: {said}");
        let limited = world.gate.meters().limited();
        assert_eq!(limited, 0);
    }
    let world = world(&["/bin/echo", r#"{"allow": false}"#]).await;
    assert_eq!(refused(&world, "shop").await, "the login hook refused");
    let mut guesses = tokio::task::JoinSet::new();
    for _ in 0..25 {
        let mut attempt = world.attempt_from("198.51.100.9");
        guesses.spawn(async move { attempt.password("shop", &wrong()).await });
    }
    guesses.join_all().await;
    assert!(world.gate.meters().limited() > 0, "guesses through a hook go on for ever");
}
