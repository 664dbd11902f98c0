//! Keys that say who may use them.

use entrepot_nouns::Role;

use super::*;

const NOUNS: &str = "account: {name: treasury, type: group}
---
account: {name: tina, type: admin, groups: [treasury]}
---
account: {name: eve, type: admin}
---
key:
  {name: hook-key, type: web-hook, users: [treasury],
   private: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw}
---
key: {name: free-key, type: web-hook, private: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw}
";

fn rule(key: &str, note: &str) -> Value {
    json!({"rule": {"name": "r", "note": note, "when": {"hook": {"keys": [key]}},
        "do": [{"exec": {"argv": ["/bin/true"]}}]}})
}

#[tokio::test]
async fn a_key_that_names_its_users_is_used_by_nobody_else() {
    let bench = bench().await;
    bench.apply(NOUNS).await.unwrap();
    let ask = async |who: &str, request: Request| {
        let rights = Role::Administrator.rights();
        let actor = Actor::with_rights(who.to_owned(), SiteId::MAIN, rights);
        bench.admin.handle(&actor, request).await
    };
    let create =
        |noun: Value| Request::Create { noun: Box::new(serde_json::from_value(noun).unwrap()) };
    let change = |kind: Kind, of: &str, patch: Value| Request::Change {
        kind,
        name: name(of),
        patch,
        if_match: Vec::new(),
    };
    let refused = |answer: Result<Response>| {
        let error = answer.unwrap_err();
        assert_eq!((error.code(), error.class()), ("EP0885", ProblemClass::Denied), "{error}");
        assert!(error.to_string().contains("is not for 'eve', but for treasury"), "{error}");
    };
    // Nor is it shown what such a change would do.
    let tried = || create(rule("hook-key", ""));
    refused(ask("eve", Request::DryRun { of: Box::new(tried()) }).await);
    refused(ask("eve", tried()).await);
    ask("tina", tried()).await.unwrap();
    refused(ask("eve", change(Kind::Rule, "r", json!({"note": "mine"}))).await);
    let text = crate::document::write(&[serde_json::from_value(rule("hook-key", "mine")).unwrap()]);
    let documents = document(&text.unwrap());
    refused(ask("eve", Request::Apply { documents, prune: false }).await);
    for patch in [json!({"users": []}), json!({"users": ["eve"]}), json!({"enabled": false})] {
        refused(ask("eve", change(Kind::Key, "hook-key", patch)).await);
    }
    ask("tina", change(Kind::Rule, "r", json!({"note": "ours"}))).await.unwrap();
    // What no longer names it is everybody's.
    let other = json!({"when": {"hook": {"keys": ["free-key"]}}});
    ask("eve", change(Kind::Rule, "r", other)).await.unwrap();
    ask("eve", change(Kind::Rule, "r", json!({"note": "mine"}))).await.unwrap();
    bench.change(Kind::Key, "hook-key", json!({"users": ["eve"]})).await.unwrap();
    ask("eve", change(Kind::Key, "hook-key", json!({"users": []}))).await.unwrap();
    let partner = json!({"account": {"name": "pat", "type": "partner"}});
    bench.create(partner).await.unwrap();
    let wrong = bench.change(Kind::Key, "hook-key", json!({"users": ["pat"]})).await.unwrap_err();
    assert!(wrong.to_string().contains("neither of type admin nor a group"), "{wrong}");
}
