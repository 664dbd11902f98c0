//! Certificates of TLS, and sites chosen by their host names.

use entrepot_db::Db;
use entrepot_net::tls::ClientCertificate;
use entrepot_nouns::AuthMethod::{Certificate, Password, Totp};
use entrepot_nouns::{CertificateName, Site, Timestamp};

use super::*;
use crate::limits::KEYS_OFFERED;

const MAIL: &str = "email:ops@acme.example";

fn shown(world: &World) -> ClientCertificate {
    let now = world.env.now();
    ClientCertificate {
        fingerprint: [7; 32],
        names: vec![MAIL.parse().unwrap(), "cn:acme".parse().unwrap()],
        not_before: now,
        not_after: now.plus(Duration::from_secs(3600)),
        certified: true,
    }
}

async fn with_certificates(world: &World, names: &[&str], login: Vec<Vec<AuthMethod>>) {
    let certificates: Vec<CertificateName> = names.iter().map(|it| it.parse().unwrap()).collect();
    let change = |account: &mut Account| {
        account.certificates = certificates;
        account.login = login;
    };
    world.account("acme", change).await;
}

async fn admits(world: &World, shown: &ClientCertificate) -> bool {
    granted(&world.attempt().tls_certificate("acme", shown).await)
}

#[tokio::test(start_paused = true)]
async fn a_name_counts_if_an_authority_vouched_and_a_fingerprint_always() {
    let world = World::new().await;
    world.account("other", |_| {}).await;
    let good = shown(&world);
    with_certificates(&world, &[MAIL], Vec::new()).await;
    assert!(admits(&world, &good).await);
    let verdict = world.attempt().tls_certificate("acme", &good).await;
    let Verdict::Granted(grant) = verdict else { panic!("refused") };
    assert_eq!(grant.proof(), format!("certificate {MAIL}"));
    assert!(!granted(&world.attempt().tls_certificate("other", &good).await));
    assert!(!granted(&world.attempt().tls_certificate("nobody", &good).await));
    let anybody = ClientCertificate { certified: false, ..good.clone() };
    assert!(!admits(&world, &anybody).await, "nobody vouched for the name");
    let dated = |from: i64, to: i64| {
        let at = |seconds: i64| Timestamp::from_seconds(world.env.now().seconds() + seconds);
        ClientCertificate { not_before: at(from), not_after: at(to), ..good.clone() }
    };
    assert!(!admits(&world, &dated(1, 9)).await, "not yet");
    assert!(!admits(&world, &dated(-9, 0)).await, "not any more");
    with_certificates(&world, &[&format!("SHA256:{}", "07".repeat(32))], Vec::new()).await;
    assert!(admits(&world, &anybody).await);
    assert!(!admits(&world, &ClientCertificate { fingerprint: [8; 32], ..good.clone() }).await);
    assert_eq!(world.gate.meters().refused(), 0, "a certificate is held against nobody");
}

#[tokio::test(start_paused = true)]
async fn what_else_the_account_asks_for_follows_its_certificate() {
    let world = World::new().await;
    let good = shown(&world);
    with_certificates(&world, &[MAIL], vec![vec![Certificate, Password]]).await;
    let mut attempt = world.attempt();
    assert!(!granted(&attempt.password("acme", &secret("acme")).await), "out of order");
    let step = attempt.tls_certificate("acme", &good).await;
    assert!(matches!(step, Verdict::Partial { ref next } if *next == [Password]), "{step:?}");
    assert_eq!(attempt.proving(), Some("acme"));
    // Another name begins with nothing.
    let peer = attempt.peer.clone();
    attempt.begin_again(peer);
    assert!(!granted(&attempt.password("acme", &secret("acme")).await), "it was forgotten");
    attempt.tls_certificate("acme", &good).await;
    assert!(granted(&attempt.password("acme", &secret("acme")).await));
    with_certificates(&world, &[MAIL], vec![vec![Certificate, Totp]]).await;
    let step = world.attempt().tls_certificate("acme", &good).await;
    assert!(matches!(step, Verdict::Partial { ref next } if *next == [Totp]), "{step:?}");
}

#[tokio::test(start_paused = true)]
async fn a_session_ends_when_its_certificate_is_over_or_taken_away() {
    for expires in [true, false] {
        let world = World::new().await;
        with_certificates(&world, &[MAIL], Vec::new()).await;
        let verdict = world.attempt().tls_certificate("acme", &shown(&world)).await;
        let Verdict::Granted(grant) = verdict else { panic!("refused") };
        let live = world.enlist(&grant).unwrap();
        world.directory.refresh().await.unwrap();
        assert_eq!(live.end_reason(), None);
        if expires {
            world.env.advance(Duration::from_secs(3600));
            world.directory.refresh().await.unwrap();
        } else {
            with_certificates(&world, &["cn:somebody else"], Vec::new()).await;
        }
        let reason = live.end_reason().expect("it goes on");
        assert!(reason.contains("certificate"), "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_connection_shows_its_certificate_with_so_many_names() {
    let world = World::new().await;
    let good = shown(&world);
    with_certificates(&world, &[MAIL], Vec::new()).await;
    let mut attempt = world.attempt();
    for _ in 1..KEYS_OFFERED {
        assert!(!granted(&attempt.tls_certificate("nobody", &good).await));
        let peer = attempt.peer.clone();
        attempt.begin_again(peer);
    }
    assert!(granted(&attempt.tls_certificate("acme", &good).await), "the last one");
    let peer = attempt.peer.clone();
    attempt.begin_again(peer);
    assert!(!granted(&attempt.tls_certificate("acme", &good).await), "one more");
    assert!(granted(&attempt.password("acme", &secret("acme")).await));
}

/// Stores a noun at a site.
async fn put_at<N: Noun>(world: &World, db: &Db, site: SiteId, noun: &N) {
    let mut tx = db.begin().await.unwrap();
    let id = world.env.new_id::<entrepot_nouns::AccountId>().0;
    tx.put(site, id, noun, world.env.now()).await.unwrap();
    tx.commit().await.unwrap();
    world.directory.refresh().await.unwrap();
}

/// A site with a host name.
async fn add_north(world: &World) -> SiteId {
    let site: Site = serde_json::from_str(r#"{"name":"north","hosts":["north.example"]}"#).unwrap();
    world.put(&site).await;
    let found = world.gate.site_of_host(SiteId::MAIN, "NORTH.example").await;
    let site = found.unwrap().expect("a site");
    assert_eq!(site.name, name("north"));
    site.id
}

#[tokio::test(start_paused = true)]
async fn a_host_name_leads_to_the_accounts_of_its_site() {
    let world = World::new().await;
    assert!(!world.gate.knows_hosts(SiteId::MAIN).await.unwrap());
    world.account("acme", |_| {}).await;
    let north = add_north(&world).await;
    assert!(world.gate.knows_hosts(SiteId::MAIN).await.unwrap());
    assert_ne!(north, SiteId::MAIN);
    for other in ["south.example", "192.0.2.1", "north.example:21", ""] {
        assert_eq!(world.gate.site_of_host(SiteId::MAIN, other).await.unwrap(), None, "{other}");
    }
    let mut attempt = world.attempt();
    let peer = Peer { site: north, ..attempt.peer.clone() };
    attempt.begin_again(peer.clone());
    let verdict = attempt.password("acme", &secret("acme")).await;
    assert!(!granted(&verdict), "an account of another site");
    let mut own = Account::new(name("acme"), AccountType::Partner);
    own.password_hash =
        Some(password::hash(&secret("north"), HashCost::for_tests(), &[2; 16]).unwrap());
    put_at(&world, &world.db, north, &own).await;
    assert!(!granted(&attempt.password("acme", &secret("acme")).await));
    let Verdict::Granted(grant) = attempt.password("acme", &secret("north")).await else {
        panic!("refused")
    };
    assert_eq!((grant.principal().site, grant.peer().home), (north, SiteId::MAIN));
    // What the listener's policy says holds for it too, and ends it.
    let live = world.enlist(&grant).unwrap();
    let listener = r#"{"name":"sftp","protocol":"sftp","address":"[::]:22","policy":"door"}"#;
    let mut door = Policy::new(name("door"));
    door.deny = vec!["192.0.2.0/24".parse().unwrap()];
    world.put(&door).await;
    world.put::<Listener>(&serde_json::from_str(listener).unwrap()).await;
    assert!(live.end_reason().is_some());
    attempt.begin_again(peer);
    assert!(!granted(&attempt.password("acme", &secret("north")).await), "the door is shut");
}

#[tokio::test(start_paused = true)]
async fn authorities_of_a_listener_vouch_for_names_of_its_own_site_only() {
    let world = World::new().await;
    let north = add_north(&world).await;
    let mut acme = Account::new(name("acme"), AccountType::Partner);
    acme.certificates = vec![MAIL.parse().unwrap()];
    put_at(&world, &world.db, north, &acme).await;
    let mut pinned = Account::new(name("pinned"), AccountType::Partner);
    pinned.certificates = vec![format!("SHA256:{}", "07".repeat(32)).parse().unwrap()];
    put_at(&world, &world.db, north, &pinned).await;
    let mut attempt = world.attempt();
    let peer = Peer { site: north, ..attempt.peer.clone() };
    attempt.begin_again(peer.clone());
    let good = shown(&world);
    assert!(!granted(&attempt.tls_certificate("acme", &good).await), "vouched for by others");
    let Verdict::Granted(grant) = attempt.tls_certificate("pinned", &good).await else {
        panic!("a fingerprint needs nobody to vouch for it")
    };
    // The same holds while the session lives.
    let live = world.enlist(&grant).unwrap();
    pinned.certificates = vec![MAIL.parse().unwrap()];
    let known = world.db.find::<Account>(north, &pinned.name).await.unwrap().unwrap();
    let mut tx = world.db.begin().await.unwrap();
    tx.put(north, known.id, &pinned, world.env.now()).await.unwrap();
    tx.commit().await.unwrap();
    world.directory.refresh().await.unwrap();
    assert!(live.end_reason().is_some(), "the name alone counts");
    // By a listener of its own site the name counts.
    let mut attempt = world.attempt();
    attempt.begin_again(Peer { home: north, ..peer });
    assert!(granted(&attempt.tls_certificate("acme", &good).await));
}

#[tokio::test(start_paused = true)]
async fn listeners_of_main_serve_all_sites_and_others_their_own() {
    let world = World::new().await;
    let north = add_north(&world).await;
    let mut south: Site = serde_json::from_str(r#"{"name":"south"}"#).unwrap();
    world.put(&south).await;
    let id = world.db.find::<Site>(SiteId::MAIN, &name("south")).await.unwrap().unwrap().id;
    let at = SiteId(id);
    let gate = &world.gate;
    let reached =
        async |home, host| gate.site_of_host(home, host).await.unwrap().map(|site| site.id);
    assert_eq!(reached(SiteId::MAIN, "north.example").await, Some(north));
    assert_eq!(reached(north, "north.example").await, Some(north));
    assert_eq!(reached(at, "north.example").await, None);
    assert!(gate.knows_hosts(north).await.unwrap() && !gate.knows_hosts(at).await.unwrap());
    south.hosts = vec!["south.example".parse().unwrap()];
    world.put(&south).await;
    assert!(gate.knows_hosts(at).await.unwrap());
    assert_eq!(reached(at, "south.example").await, Some(at));
    assert_eq!(reached(north, "south.example").await, None);
}

/// A site that cannot be read.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
struct Broken {
    name: Name,
    hosts: u32,
}

impl Noun for Broken {
    const KIND: entrepot_nouns::Kind = entrepot_nouns::Kind::Site;
    fn name(&self) -> &Name {
        &self.name
    }
    fn references(&self) -> Vec<entrepot_nouns::Reference> {
        Vec::new()
    }
    fn check(&self) -> Result<(), entrepot_nouns::FieldError> {
        Ok(())
    }
}

async fn break_sites(world: &World) {
    let mut tx = world.db.begin().await.unwrap();
    let id = world.env.new_id::<entrepot_nouns::AccountId>().0;
    let broken = Broken { name: name("broken"), hosts: 5 };
    tx.put(SiteId::MAIN, id, &broken, world.env.now()).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn host_names_are_known_while_the_database_is_away() {
    let world = World::new().await;
    let north = add_north(&world).await;
    let of_north = || world.gate.site_of_host(SiteId::MAIN, "north.example");
    assert_eq!(of_north().await.unwrap().map(|site| site.id), Some(north));
    // Everything is forgotten, and cannot be asked for again.
    break_sites(&world).await;
    world.directory.forget_for_tests();
    assert!(world.db.sites().await.is_err(), "sites can be read");
    assert_eq!(of_north().await.unwrap().map(|site| site.id), Some(north));
    let unknown = world.gate.site_of_host(SiteId::MAIN, "other.example").await;
    assert_eq!(unknown.unwrap(), None);
    let strange = World::new().await;
    break_sites(&strange).await;
    assert!(strange.gate.site_of_host(SiteId::MAIN, "north.example").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn digests_are_paid_for_by_the_account_whatever_its_sessions() {
    let world = World::new().await;
    let mut policy = Policy::new(name("few"));
    policy.digest_bytes_per_hour = Some(1000);
    world.put(&policy).await;
    world.account("acme", |account| account.policy = Some(name("few"))).await;
    let first = world.enlist(&world.grant("acme").await).unwrap();
    assert!(first.may_digest(800));
    drop(first);
    let second = world.enlist(&world.grant("acme").await).unwrap();
    assert!(!second.may_digest(300), "another session has the same budget");
    assert!(second.may_digest(200));
    let rule = world.gate.internal(SiteId::MAIN, &name("acme"), "a rule").await.unwrap();
    assert!(world.enlist(&rule).unwrap().may_digest(5000), "rules do what they are told");
}
