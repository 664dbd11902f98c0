//! Web hooks: whom a rule believes, what comes again, and what is durable before the answer.

use std::net::Ipv4Addr;

use entrepot_crypto::SealingContext;
use entrepot_crypto::webhook::{SignedMessage, body_signature, signatures};
use entrepot_net::http::{HeaderMap, HeaderName, HeaderValue};
use entrepot_net::tls::ClientCertificate;
use entrepot_nouns::{EventId, Fact, Rule, Timestamp};
use serde_json::{Value, json};

use super::*;
use crate::limits::{HOOK_AGE, HOOK_SEEN};
use crate::{HookMessage, HookReceipt, HookRefusal};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const BODY: &[u8] = br#"{"order": {"id": 7}}"#;

impl World {
    async fn hook_key(&self, label: &str, secret: &str) {
        let mut key = Key::new(name(label), KeyType::WebHook, String::new());
        let context = SealingContext::private_key(&name("main"), &key.name);
        let sealed = self.bed.master.seal(&self.env, &context, &Secret::new(secret));
        key.private_sealed = Some(sealed.unwrap());
        self.put(&key).await;
    }

    /// The rule `r` with this hook, whose key `shop` has the secret.
    async fn hook(&self, hook: Value) -> Rule {
        let mut fields = json!({"keys": ["shop"]});
        fields.as_object_mut().unwrap().extend(hook.as_object().unwrap().clone());
        let rule: Rule = serde_json::from_value(json!({
            "name": "r", "when": {"hook": fields}, "do": [{"exec": {"argv": ["/bin/true"]}}],
        }))
        .unwrap();
        self.put(&rule).await;
        rule
    }

    async fn post(&self, fields: &[(&str, String)], body: &[u8]) -> Result<EventId, HookRefusal> {
        self.post_to(&self.gate, fields, body).await
    }

    async fn post_to(
        &self,
        gate: &Gate,
        fields: &[(&str, String)],
        body: &[u8],
    ) -> Result<EventId, HookRefusal> {
        let hook = gate.rule_hook(SiteId::MAIN, &name("r")).await.unwrap().unwrap();
        let mut map = HeaderMap::new();
        for (field, value) in fields {
            let field: HeaderName = field.parse().unwrap();
            map.append(field, HeaderValue::from_str(value).unwrap());
        }
        let address = Ipv4Addr::new(192, 0, 2, 9).into();
        let received =
            hook.receive(HookMessage { fields: &map, body, address, certificate: None }).await;
        match received? {
            HookReceipt::Event(event) => Ok(event),
            HookReceipt::Hint => panic!("it is no hook that brings events"),
        }
    }

    /// As the specification has it, signed at `seconds` with these keys.
    fn standard(&self, id: &str, seconds: i64, keys: &str) -> Vec<(&'static str, String)> {
        let message = SignedMessage { id, at_seconds: seconds, body: BODY };
        vec![
            ("webhook-id", id.to_owned()),
            ("webhook-timestamp", seconds.to_string()),
            ("webhook-signature", signatures(&Secret::new(keys), message).unwrap()),
        ]
    }

    fn now(&self) -> i64 {
        self.env.now().seconds()
    }

    async fn hooks_recorded(&self) -> Vec<Event> {
        let is_hook = |event: &Event| matches!(event.fact, Fact::HookReceived { .. });
        self.recorded().await.into_iter().filter(is_hook).collect()
    }

    /// As the projector does.
    async fn project(&self) {
        let known = self.db.events(SiteId::MAIN, &entrepot_db::EventFilter::default()).await;
        let known: Vec<EventId> = known.unwrap().into_iter().map(|row| row.event.id).collect();
        for event in self.hooks_recorded().await {
            if !known.contains(&event.id) {
                let mut tx = self.db.begin().await.unwrap();
                tx.insert_event(&event).await.unwrap();
                tx.commit().await.unwrap();
            }
        }
    }

    /// Another node, or this one after a restart: it remembers nothing.
    fn second_gate(&self) -> Gate {
        let options = GateOptions { cost: HashCost::for_tests() };
        Gate::new(self.directory.clone(), self.bed.recorder.clone(), options)
    }
}

fn is_unproven(result: Result<EventId, HookRefusal>) -> bool {
    matches!(result, Err(HookRefusal::Unproven))
}

#[tokio::test(start_paused = true)]
async fn a_message_counts_if_it_is_signed_lately_by_a_key_of_the_rule() {
    let world = World::new().await;
    world.hook_key("shop", SECRET).await;
    world.hook(json!({"headers": ["X-Topic"]})).await;
    let mut fields = world.standard("msg_1", world.now(), SECRET);
    fields.push(("x-topic", "orders".to_owned()));
    fields.push(("cookie", "a=b".to_owned()));
    let id = world.post(&fields, BODY).await.unwrap();
    let recorded = world.hooks_recorded().await;
    assert_eq!((recorded.len(), recorded[0].id), (1, id));
    let Fact::HookReceived { rule, address, headers, body } = &recorded[0].fact else { panic!() };
    assert_eq!((rule.as_str(), address.as_str()), ("r", "192.0.2.9"));
    assert_eq!(*body, json!({"order": {"id": 7}}));
    assert_eq!(headers["x-topic"], "orders");
    assert_eq!(headers["webhook-id"], "msg_1");
    assert!(!headers.contains_key("cookie") && !headers.contains_key("webhook-signature"));
    // Old and new key at once, as a sender that changes its key sends.
    let other = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    let both = world.standard("msg_2", world.now(), &format!("{other} {SECRET}"));
    world.post(&both, BODY).await.unwrap();
    let limit = i64::try_from(HOOK_AGE.as_secs()).unwrap();
    for (at, name) in [(world.now() - limit, "msg_3"), (world.now() + limit, "msg_4")] {
        world.post(&world.standard(name, at, SECRET), BODY).await.unwrap();
    }
    let before = world.hooks_recorded().await.len();
    let good = || world.standard("msg_5", world.now(), SECRET);
    let without = |gone: &str| good().into_iter().filter(|(it, _)| *it != gone).collect();
    let mut twice = good();
    twice.push(("webhook-signature", "v1,x".to_owned()));
    let wrong: Vec<Vec<(&str, String)>> = vec![
        Vec::new(),
        without("webhook-id"),
        without("webhook-timestamp"),
        without("webhook-signature"),
        world.standard("msg_5", world.now(), other),
        world.standard("msg_5", world.now() - limit - 1, SECRET),
        world.standard("msg_5", world.now() + limit + 1, SECRET),
        twice,
    ];
    for fields in wrong {
        assert!(is_unproven(world.post(&fields, BODY).await), "{fields:?}");
    }
    assert!(is_unproven(world.post(&good(), b"{}").await), "another body");
    assert_eq!(world.hooks_recorded().await.len(), before, "a refusal left an event");
    world.post(&good(), BODY).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_other_schemes_know_their_senders_too() {
    let world = World::new().await;
    let secret = "0123456789abcdef0123456789";
    world.hook_key("shop", secret).await;
    let sign = |body: &[u8]| {
        let signed = body_signature(&Secret::new(secret), body);
        signed.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let hmac = json!({"hmac": {"header": "X-Sig", "prefix": "v0="}});
    for (scheme, field, good, bad) in [
        (json!("github"), "x-hub-signature-256", format!("sha256={}", sign(BODY)), sign(BODY)),
        (hmac, "x-sig", format!("v0={}", sign(BODY)), format!("v0={}", sign(b"{}"))),
        (json!("bearer"), "authorization", format!("Bearer {secret}"), format!("Basic {secret}")),
        (json!("bearer"), "authorization", format!("bearer {secret}"), "Bearer x".to_owned()),
    ] {
        world.hook(json!({"scheme": scheme})).await;
        assert!(is_unproven(world.post(&[(field, bad)], BODY).await), "{scheme}");
        assert!(is_unproven(world.post(&[], BODY).await), "{scheme}");
        world.post(&[(field, good)], BODY).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_comes_again_is_the_same_event_for_three_days() {
    let world = World::new().await;
    world.hook_key("shop", SECRET).await;
    world.hook(json!({})).await;
    let hour = Duration::from_secs(3600);
    // Far enough into a stretch that the repeats lie in the next one.
    let into = world.now().rem_euclid(i64::try_from(HOOK_SEEN.as_secs()).unwrap());
    let left = HOOK_SEEN - Duration::from_secs(u64::try_from(into).unwrap());
    world.env.advance(left.saturating_sub(hour));
    let send = async |gate: &Gate| {
        let hook = gate.rule_hook(SiteId::MAIN, &name("r")).await.unwrap().unwrap();
        let mut fields = HeaderMap::new();
        for (field, value) in world.standard("msg_1", world.now(), SECRET) {
            fields.insert(field, HeaderValue::from_str(&value).unwrap());
        }
        let address = Ipv4Addr::LOCALHOST.into();
        hook.receive(HookMessage { fields: &fields, body: BODY, address, certificate: None })
            .await
            .unwrap()
    };
    // Twice at once, and before any of it is in the database.
    let (first, second) = tokio::join!(send(&world.gate), send(&world.gate));
    assert_eq!(first, second);
    assert_eq!(world.hooks_recorded().await.len(), 1);
    // Another node, whose projector has not seen it: the same event, which counts once.
    assert_eq!(send(&world.second_gate()).await, first);
    world.project().await;
    for _ in 0..2 {
        world.env.advance(hour);
        assert_eq!(send(&world.gate).await, first);
        assert_eq!(send(&world.second_gate()).await, first);
    }
    world.env.advance(HOOK_SEEN);
    let later = send(&world.gate).await;
    assert_ne!(later, first, "after three days it is another message");
    assert_eq!(send(&world.second_gate()).await, later);
}

/// Wherever in a stretch of the clock a message comes: to the last second it is the same event, to
/// the node that took it and to one that has to ask the database, and from then on another one,
/// which is known for as long.
#[tokio::test(start_paused = true)]
async fn a_message_is_known_to_the_last_second_of_three_days() {
    let second = Duration::from_secs(1);
    let length = i64::try_from(HOOK_SEEN.as_secs()).unwrap();
    for into in [0, 1, length / 2, length - 1] {
        let world = World::new().await;
        world.hook_key("shop", SECRET).await;
        world.hook(json!({})).await;
        let left = (into - world.now()).rem_euclid(length);
        world.env.advance(Duration::from_secs(u64::try_from(left).unwrap()));
        assert_eq!(world.now().rem_euclid(length), into);
        let send = async || {
            let id = world.post(&world.standard("msg_1", world.now(), SECRET), BODY).await.unwrap();
            world.project().await;
            id
        };
        let again = async || {
            let fields = world.standard("msg_1", world.now(), SECRET);
            world.post_to(&world.second_gate(), &fields, BODY).await.unwrap()
        };
        let mut last = send().await;
        for round in 0..3 {
            for pause in [second, HOOK_SEEN / 2, HOOK_SEEN / 2 - second * 2] {
                world.env.advance(pause);
                assert_eq!((send().await, again().await), (last, last), "{into} {round}");
            }
            world.env.advance(second);
            let next = send().await;
            assert_ne!(next, last, "{into} {round}: it is known for more than three days");
            assert_eq!(again().await, next, "{into} {round}");
            last = next;
        }
        assert_eq!(world.hooks_recorded().await.len(), 4, "{into}");
    }
}

#[tokio::test(start_paused = true)]
async fn bodies_that_nobody_can_look_at_are_refused() {
    let world = World::new().await;
    let secret = "0123456789abcdef0123456789";
    world.hook_key("shop", secret).await;
    world.hook(json!({"scheme": "bearer"})).await;
    let post = async |body: String| {
        let field = ("authorization", format!("Bearer {secret}"));
        world.post(&[field], body.as_bytes()).await
    };
    let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let many = |count: usize| format!("[{}]", vec!["0"; count].join(","));
    post(deep(32)).await.unwrap();
    post(many(9_999)).await.unwrap();
    // Numbers that a parser reads a little wrong at first are recorded as they are read then.
    post("[0.1, 1e300, 2.2250738585072014e-308, 123456789.123456789]".to_owned()).await.unwrap();
    for bad in [
        String::new(),
        "null".to_owned(),
        "7".to_owned(),
        "{\"a\": ".to_owned(),
        deep(33),
        deep(500),
        many(10_000),
        // Each of these is written with many more digits than it has here.
        format!("[{}]", vec!["1e15"; 9_000].join(","))
            .replace("1e15", &format!("\"{}\"", "\u{1}".repeat(20))),
    ] {
        let refused = post(bad.clone()).await;
        assert!(matches!(refused, Err(HookRefusal::Body(_))), "{:.40}: {refused:?}", bad);
    }
}

#[tokio::test(start_paused = true)]
async fn a_rule_takes_so_many_in_a_minute() {
    let world = World::new().await;
    world.hook_key("shop", SECRET).await;
    world.hook(json!({"per_minute": 2})).await;
    let send = async |id: &str| world.post(&world.standard(id, world.now(), SECRET), BODY).await;
    // What proves nothing does not count.
    assert!(is_unproven(world.post(&[], BODY).await));
    send("1").await.unwrap();
    world.env.advance(Duration::from_secs(20));
    send("2").await.unwrap();
    match send("3").await {
        Err(HookRefusal::TooMany { wait }) => assert_eq!(wait, Duration::from_secs(40)),
        other => panic!("{other:?}"),
    }
    world.env.advance(Duration::from_secs(40));
    send("3").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn only_keys_that_count_now_prove_something_and_only_to_rules_that_ask() {
    let world = World::new().await;
    world.hook_key("shop", SECRET).await;
    let rule = world.hook(json!({})).await;
    let good = || world.standard("msg_1", world.now(), SECRET);
    for change in [
        |key: &mut Key, _: Timestamp| key.enabled = false,
        |key: &mut Key, now: Timestamp| key.not_after = Some(now),
        |key: &mut Key, now: Timestamp| key.not_before = Some(now.plus(Duration::from_secs(1))),
    ] {
        let stored = world.db.find::<Key>(SiteId::MAIN, &name("shop")).await.unwrap().unwrap();
        let mut key = stored.noun.clone();
        change(&mut key, world.env.now());
        world.put(&key).await;
        assert!(is_unproven(world.post(&good(), BODY).await), "{key:?}");
        world.put(&stored.noun).await;
    }
    world.post(&good(), BODY).await.unwrap();
    world.put(&Rule { enabled: false, ..rule.clone() }).await;
    assert!(world.gate.rule_hook(SiteId::MAIN, &name("r")).await.unwrap().is_none());
    let when = serde_json::from_value(json!({"event": "file.uploaded"})).unwrap();
    world.put(&Rule { when, ..rule }).await;
    assert!(world.gate.rule_hook(SiteId::MAIN, &name("r")).await.unwrap().is_none());
    assert!(world.gate.rule_hook(SiteId::MAIN, &name("x")).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_certificate_proves_a_message_while_it_is_valid_and_vouched_for() {
    let world = World::new().await;
    let of = json!({"of": ["dns:shop.example", format!("SHA256:{}", "07".repeat(32))]});
    world.hook(json!({"keys": [], "scheme": {"certificate": of}})).await;
    let now = world.env.now();
    let named = ClientCertificate {
        fingerprint: [1; 32],
        names: vec!["dns:shop.example".parse().unwrap()],
        not_before: now,
        not_after: now.plus(Duration::from_secs(3600)),
        certified: true,
    };
    let send = async |certificate: Option<&ClientCertificate>, body: &[u8]| {
        let hook = world.gate.rule_hook(SiteId::MAIN, &name("r")).await.unwrap().unwrap();
        let (fields, address) = (&HeaderMap::new(), Ipv4Addr::LOCALHOST.into());
        hook.receive(HookMessage { fields, body, address, certificate }).await
    };
    let unproven = |answer: Result<HookReceipt, HookRefusal>| {
        assert!(matches!(answer, Err(HookRefusal::Unproven)), "{answer:?}");
    };
    unproven(send(None, b"{}").await);
    let anybody = ClientCertificate { certified: false, ..named.clone() };
    unproven(send(Some(&anybody), b"{}").await);
    let other = ClientCertificate { names: Vec::new(), ..named.clone() };
    unproven(send(Some(&other), b"{}").await);
    let first = send(Some(&named), b"{}").await.unwrap();
    // Without an id a message is known by its body.
    assert_eq!(send(Some(&named), b"{}").await.unwrap(), first);
    let pinned = ClientCertificate { fingerprint: [7; 32], ..other };
    assert_ne!(send(Some(&pinned), b"[]").await.unwrap(), first);
    world.env.advance(Duration::from_secs(3600));
    unproven(send(Some(&named), b"{}").await);
}
