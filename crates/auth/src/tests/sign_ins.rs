//! Browsers sign in, are known by their cookie on every node, and are signed out.

use entrepot_crypto::{BearerKind, SealingContext, bearer_token, totp};
use entrepot_nouns::AuthMethod::Totp;
use entrepot_nouns::{Fact, Sealed};

use super::*;
use crate::SignIn;
use crate::limits::{SIGN_IN_FRESH, SIGN_INS_OF_ACCOUNT};

fn peer_at(address: &str) -> Peer {
    Peer {
        site: SiteId::MAIN,
        home: SiteId::MAIN,
        protocol: Protocol::Sftp,
        encrypted: true,
        listener: name("web"),
        address: format!("{address}:999").parse().unwrap(),
        client: "test".to_owned(),
        algorithms: String::new(),
    }
}

fn peer() -> Peer {
    peer_at("192.0.2.1")
}

impl World {
    async fn signed_in(&self, cookie: &Secret) -> Option<SignIn> {
        self.gate.signed_in(cookie, peer()).await.unwrap()
    }

    /// Signs an account in by its password; gives the cookie.
    async fn sign_in(&self, account: &str) -> Secret {
        let grant = self.grant(account).await;
        self.gate.open_sign_in(&grant, "Firefox").await.unwrap().cookie
    }

    /// Another node over the same database.
    fn other_gate(&self) -> Gate {
        let directory = Directory::new(self.db.clone(), self.env.clone(), self.bed.master.clone());
        let recorder = self.bed.recorder_beside("n2");
        let options = GateOptions { cost: HashCost::for_tests() };
        Gate::new(directory, recorder, options)
    }

    async fn sign_in_events(&self) -> Vec<(String, String)> {
        let told = |event: Event| match event.fact {
            Fact::SignInOpened { client, .. } => Some(("opened".to_owned(), client)),
            Fact::SignInProved { proof, .. } => Some(("proved".to_owned(), proof)),
            Fact::SignInEnded { ended } => Some(("ended".to_owned(), ended.reason)),
            _ => None,
        };
        self.recorded().await.into_iter().filter_map(told).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_cookie_stands_for_the_login_on_every_node_until_it_is_ended() {
    let world = World::new().await;
    world.account("acme", |_| {}).await;
    world.mount("acme").await;
    let opened =
        world.gate.open_sign_in(&world.grant("acme").await, "Fire\u{202e}fox").await.unwrap();
    let here = world.signed_in(&opened.cookie).await.unwrap();
    assert_eq!((here.id, here.grant.proof()), (opened.id, "password"));
    assert!(here.grant.principal().mounts[0].rights.is_all());
    assert!(here.is_csrf_token(&opened.csrf) && !here.is_csrf_token(&wrong()));
    let other = world.other_gate();
    let there = other.signed_in(&opened.cookie, peer_at("198.51.100.7")).await.unwrap().unwrap();
    assert_eq!((there.id, there.csrf), (here.id, here.csrf));
    let listed = world.gate.sign_ins(SiteId::MAIN, Some(&name("acme"))).await.unwrap();
    assert_eq!(listed[0].user_agent, "Fire\\u{202e}fox");

    let ended = world.gate.end_sign_in(SiteId::MAIN, opened.id, "signed out").await.unwrap();
    assert_eq!(ended.unwrap().account, name("acme"));
    assert!(world.signed_in(&opened.cookie).await.is_none(), "here at once");
    world.env.advance(SIGN_IN_FRESH);
    assert!(other.signed_in(&opened.cookie, peer()).await.unwrap().is_none(), "there soon");
    assert_eq!(world.gate.end_sign_in(SiteId::MAIN, opened.id, "x").await.unwrap(), None);
    let told = world.sign_in_events().await;
    let (first, last) = (told.first().unwrap(), told.last().unwrap());
    assert_eq!((first.0.as_str(), last.0.as_str()), ("opened", "ended"));
    assert_eq!(last.1, "signed out");
}

#[tokio::test(start_paused = true)]
async fn other_cookies_and_other_sites_are_signed_in_nowhere() {
    let world = World::new().await;
    world.account("acme", |_| {}).await;
    let cookie = world.sign_in("acme").await;
    let made_up = bearer_token::make(&world.env, BearerKind::SignIn);
    let api = bearer_token::make(&world.env, BearerKind::Api);
    for other in [made_up, api, Secret::new(*b""), Secret::new(*b"eps_x")] {
        assert!(world.signed_in(&other).await.is_none());
    }
    let elsewhere = Peer { site: SiteId(Uuid::from_u128(9)), ..peer() };
    assert!(world.gate.signed_in(&cookie, elsewhere).await.unwrap().is_none());
    assert!(world.signed_in(&cookie).await.is_some(), "where it belongs it still is");
}

#[tokio::test(start_paused = true)]
async fn idle_and_longest_times_are_those_of_the_policy() {
    let world = World::new().await;
    let mut policy = Policy::new(name("short"));
    (policy.sign_in_idle_minutes, policy.sign_in_hours) = (Some(10), Some(1));
    world.put(&policy).await;
    world.account("acme", |account| account.policy = Some(name("short"))).await;
    world.account("anna", |_| {}).await;
    let minutes = |count: u64| Duration::from_secs(count * 60);
    let (acme, anna) = (world.sign_in("acme").await, world.sign_in("anna").await);
    world.env.advance(minutes(10));
    assert!(world.signed_in(&acme).await.is_none(), "idle");
    assert!(world.signed_in(&anna).await.is_some(), "30 minutes unless a policy says");

    let acme = world.sign_in("acme").await;
    for _ in 0..6 {
        assert!(world.signed_in(&acme).await.is_some());
        world.env.advance(minutes(9));
    }
    world.env.advance(minutes(6));
    assert!(world.signed_in(&acme).await.is_none(), "an hour is over, whatever it does");
    let told = world.sign_in_events().await;
    assert_eq!(told.iter().filter(|(what, _)| what == "ended").count(), 2, "{told:?}");

    // What nobody asks for any more is swept, once.
    world.sign_in("acme").await;
    assert_eq!(world.gate.end_sign_ins_over().await.unwrap(), 1, "anna was idle too long");
    world.env.advance(minutes(11));
    assert_eq!(world.gate.end_sign_ins_over().await.unwrap(), 1);
    assert_eq!(world.gate.end_sign_ins_over().await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn use_keeps_a_browser_signed_in_on_all_nodes_and_is_written_once_a_minute() {
    let world = World::new().await;
    world.account("acme", |_| {}).await;
    let cookie = world.sign_in("acme").await;
    let seen = async || world.gate.sign_ins(SiteId::MAIN, None).await.unwrap()[0].seen_at;
    let at_first = seen().await;
    world.env.advance(Duration::from_secs(59));
    assert!(world.signed_in(&cookie).await.is_some());
    assert_eq!(seen().await, at_first, "written too often");
    world.env.advance(Duration::from_secs(1));
    assert!(world.signed_in(&cookie).await.is_some());
    assert_eq!(seen().await, world.env.now());
    let other = world.other_gate();
    for _ in 0..10 {
        world.env.advance(Duration::from_secs(20 * 60));
        assert!(world.signed_in(&cookie).await.is_some());
        assert!(other.signed_in(&cookie, peer()).await.unwrap().is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_of_what_proved_the_login_ends_it() {
    let world = World::new().await;
    let mut account = world.account("acme", |_| {}).await;
    let first = world.sign_in("acme").await;
    account.note = "x".to_owned();
    world.put(&account).await;
    assert!(world.signed_in(&first).await.is_some(), "nothing that matters changed");
    let new = Secret::new(*b"another password");
    account.password_hash = Some(password::hash(&new, HashCost::for_tests(), &[9; 16]).unwrap());
    world.put(&account).await;
    assert!(world.signed_in(&first).await.is_none(), "the password was changed");

    let grant = match world.attempt().password("acme", &new).await {
        Verdict::Granted(grant) => grant,
        other => panic!("{other:?}"),
    };
    let cookie = world.gate.open_sign_in(&grant, "").await.unwrap().cookie;
    account.enabled = false;
    world.put(&account).await;
    assert!(world.signed_in(&cookie).await.is_none(), "disabled");
    account.enabled = true;
    world.put(&account).await;
    assert!(world.signed_in(&cookie).await.is_none(), "it does not come back");
    let reasons: Vec<String> =
        world.sign_in_events().await.into_iter().map(|told| told.1).collect();
    assert!(reasons.iter().any(|why| why.contains("password")), "{reasons:?}");
    assert!(reasons.iter().any(|why| why.contains("disabled")), "{reasons:?}");
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_does_not_admit_an_address_refuses_it_and_ends_nothing() {
    let world = World::new().await;
    let mut policy = Policy::new(name("here"));
    policy.allow = vec!["192.0.2.0/24".parse().unwrap()];
    world.put(&policy).await;
    world.account("acme", |account| account.policy = Some(name("here"))).await;
    let cookie = world.sign_in("acme").await;
    let stolen = world.gate.signed_in(&cookie, peer_at("203.0.113.9")).await.unwrap();
    assert!(stolen.is_none());
    assert!(world.signed_in(&cookie).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn step_up_is_a_login_of_the_same_account() {
    let world = World::new().await;
    world.account("acme", |_| {}).await;
    world.account("anna", |_| {}).await;
    let cookie = world.sign_in("acme").await;
    let five = Duration::from_secs(300);
    let proven = async || {
        let shown = world.signed_in(&cookie).await.unwrap();
        shown.proven_within(five, world.env.now())
    };
    assert!(proven().await);
    world.env.advance(Duration::from_secs(301));
    assert!(!proven().await);
    let of_another = world.grant("anna").await;
    assert!(!world.gate.prove_sign_in(&cookie, &of_another).await.unwrap());
    assert!(!proven().await);
    assert!(world.gate.prove_sign_in(&cookie, &world.grant("acme").await).await.unwrap());
    assert!(proven().await);
    let told = world.sign_in_events().await;
    assert_eq!(told.iter().filter(|(what, _)| what == "proved").count(), 1, "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_code_is_asked_for_first_and_its_generator_counts() {
    let world = World::new().await;
    let secret = totp::new_secret(&world.env);
    let context = SealingContext::code_generator(&name("main"), &name("acme"));
    let sealed: Sealed = world.bed.master.seal(&world.env, &context, &secret).unwrap();
    let mut account = world.account("acme", |account| account.totp_sealed = Some(sealed)).await;
    let mut attempt = world.attempt();
    let step = attempt.password("acme", &super::secret("acme")).await;
    assert!(matches!(&step, Verdict::Partial { next } if *next == [Totp]), "{step:?}");
    let code = Secret::new(totp::code_at(&secret, world.env.now().seconds()).unwrap());
    let Verdict::Granted(grant) = attempt.code("acme", &code).await else { panic!("refused") };
    let cookie = world.gate.open_sign_in(&grant, "").await.unwrap().cookie;
    assert_eq!(world.signed_in(&cookie).await.unwrap().grant.proof(), "password + code");
    account.totp_sealed = None;
    world.put(&account).await;
    assert!(world.signed_in(&cookie).await.is_none(), "the generator was taken away");
}

#[tokio::test(start_paused = true)]
async fn what_is_shown_with_each_request_signs_no_browser_in() {
    let world = World::new().await;
    world.account("acme", |_| {}).await;
    world.key("acme").await;
    let token = bearer_token::make(&world.env, BearerKind::Api);
    let hash = bearer_token::hash(BearerKind::Api, &token).unwrap();
    let mut key = Key::new(name("t"), KeyType::ApiToken, format!("blake3:{hash}"));
    key.account = Some(name("acme"));
    key.not_after = Some(world.env.now().plus(Duration::from_secs(60)));
    world.put(&key).await;
    let by_key = world.attempt().public_key("acme", KEY, "ssh-ed25519").await;
    let by_token = world.attempt().api_token(&token).await;
    let internal = world.gate.internal(SiteId::MAIN, &name("acme"), "a rule").await.unwrap();
    for verdict in [by_key, by_token, Verdict::Granted(internal)] {
        let Verdict::Granted(grant) = verdict else { panic!("refused") };
        let refused = world.gate.open_sign_in(&grant, "").await.unwrap_err();
        assert_eq!(refused.code(), "EP0304");
    }
}

#[tokio::test(start_paused = true)]
async fn an_account_is_signed_in_so_often_and_the_idle_ones_go() {
    let world = World::new().await;
    world.account("acme", |_| {}).await;
    let mut cookies = Vec::new();
    for _ in 0..SIGN_INS_OF_ACCOUNT + 2 {
        world.env.advance(Duration::from_secs(1));
        cookies.push(world.sign_in("acme").await);
    }
    let listed = world.gate.sign_ins(SiteId::MAIN, None).await.unwrap();
    assert_eq!(listed.len(), SIGN_INS_OF_ACCOUNT);
    assert!(world.signed_in(&cookies[0]).await.is_none());
    assert!(world.signed_in(&cookies[1]).await.is_none());
    assert!(world.signed_in(&cookies[2]).await.is_some());
    assert_eq!(world.gate.known_sign_ins(), SIGN_INS_OF_ACCOUNT);
}

#[tokio::test(start_paused = true)]
async fn no_cookie_is_stored_or_recorded() {
    let world = World::new().await;
    world.account("acme", |_| {}).await;
    let opened = world.gate.open_sign_in(&world.grant("acme").await, "Firefox").await.unwrap();
    let shown = world.signed_in(&opened.cookie).await.unwrap();
    let text = std::str::from_utf8(opened.cookie.expose()).unwrap();
    let hash = bearer_token::hash(BearerKind::SignIn, &opened.cookie).unwrap().to_string();
    let mut said = format!("{opened:?} {shown:?}");
    let row = world.db.find_sign_in(&hash).await.unwrap().unwrap();
    said.push_str(&format!("{row:?}"));
    for event in world.recorded().await {
        said.push_str(&serde_json::to_string(&event).unwrap());
    }
    assert!(said.contains(&hash), "{said}");
    assert!(!said.contains(&text[4..20]), "{said}");
    let phc = world.db.find::<Account>(SiteId::MAIN, &name("acme")).await.unwrap().unwrap();
    let phc = phc.noun.password_hash.unwrap();
    assert!(!row.credentials.contains(phc.rsplit('$').next().unwrap()), "{row:?}");
}
