//! Files that their mount holds: read where they lie, released once, or kept from everybody.

use bytes::Bytes;
use entrepot_journal::Scope;
use entrepot_nouns::event::HeldFact;
use entrepot_nouns::mount::TRASH_NAME;
use entrepot_nouns::rule::When;
use entrepot_nouns::{Event, Fact, JobState, Noun as _, Rule, StorePath, TransferState, VPath};
use entrepot_vfs::held_at;
use serde_json::{Value as Json, json};

use super::world::{
    SITE, World, cut_everywhere, doing, fact, files, memory_store, name, published,
};

fn on_held(list: Json) -> Rule {
    Rule { when: When::Event("file.held".to_owned()).into(), ..doing(list) }
}

/// As an upload to a mount that holds leaves it.
async fn hold(world: &mut World, path: &str, content: &[u8]) -> Event {
    let path: VPath = path.parse().unwrap();
    let file = fact(&world.env, &path, content);
    let home = world.file_access.home.clone();
    world.target("home", home.clone()).await;
    home.make_directory(&TRASH_NAME.parse().unwrap()).await.unwrap();
    let at = held_at(&StorePath::root(), file.transfer).unwrap();
    let staged = home.stage(file.transfer, &at).await.unwrap();
    staged.write_at(0, Bytes::copy_from_slice(content)).await.unwrap();
    staged.sync().await.unwrap();
    staged.publish(&published(content.len() as u64)).await.unwrap();
    let scope = Scope { account: Some(name("acme")), ..Scope::site(SITE) };
    let stored = path.as_str().trim_start_matches('/').to_owned();
    let held = HeldFact { file, endpoint: name("home"), prefix: String::new(), stored };
    let event = world.recorder.event(&scope, Fact::FileHeld { held });
    world.recorder.seal(&event).await.unwrap();
    event
}

#[tokio::test(start_paused = true)]
async fn a_held_file_is_read_where_it_lies_and_released_once_wherever_a_node_dies() {
    let to = |path: &str| json!({"deliver": {"endpoint": "out", "path": path}});
    let mut number = 850;
    let cuts = cut_everywhere(async |cut| {
        number += 1;
        let mut world = World::new(number).await;
        let out = memory_store(&world.env);
        world.target("out", out.clone()).await;
        let steps = json!([to("before/{name}"), {"release": {}}, to("after/{name}")]);
        world.put(&on_held(steps)).await;
        world.options.pauses = cut.pauses();
        let event = hold(&mut world, "/a", b"four").await;
        world.start();
        let done = world.ended(world.job_of(&event, "r").await).await;
        assert_eq!((done.state, &done.error), (JobState::Done, &None), "cut {}", cut.at);
        let (here, there) = (files(&world.file_access.home).await, files(&out).await);
        assert_eq!(here.keys().collect::<Vec<_>>(), ["a"], "cut {}", cut.at);
        assert_eq!(here["a"], b"four");
        assert_eq!(
            (there.len(), &*there["before/a"], &*there["after/a"]),
            (2, &b"four"[..], &b"four"[..])
        );
        world.projected().await;
        assert_eq!(world.events("file.delivered").await.len(), 2, "cut {}", cut.at);
    })
    .await;
    assert!(cuts > 6, "{cuts}");
}

#[tokio::test(start_paused = true)]
async fn a_file_in_quarantine_is_released_by_no_rule() {
    let mut number = 900;
    let cuts = cut_everywhere(async |cut| {
        number += 1;
        let mut world = World::new(number).await;
        let steps = json!([{"quarantine": {"reason": "'{name}' is odd"}}, {"release": {}}]);
        world.put(&on_held(steps)).await;
        world.options.pauses = cut.pauses();
        let event = hold(&mut world, "/a", b"four").await;
        world.start();
        let refused = world.ended(world.job_of(&event, "r").await).await;
        let error = refused.error.unwrap_or_default();
        assert!(error.starts_with("EP0836: '/a' is in quarantine"), "cut {}: {error}", cut.at);
        world.projected().await;
        let told = world.events("file.quarantined").await;
        assert_eq!(told.len(), 1, "cut {}", cut.at);
        let Fact::FileQuarantined { held, reason } = &told[0].fact else { panic!("{told:?}") };
        assert_eq!(reason, "'a' is odd");
        let known = world.db.transfer(SITE, held.file.transfer).await.unwrap().unwrap();
        assert_eq!(known.state, TransferState::Quarantined);
        assert!(!files(&world.file_access.home).await.contains_key("a"));
    })
    .await;
    assert!(cuts > 2, "{cuts}");
}

#[test]
fn only_rules_on_held_files_release_and_they_touch_no_other_file() {
    let said = |rule: &Rule| rule.check().unwrap_err().to_string();
    for step in [json!({"release": {}}), json!({"quarantine": {"reason": "odd"}})] {
        on_held(json!([step])).check().unwrap();
        assert!(said(&doing(json!([step]))).contains("file.held"), "{step}");
    }
    for step in [json!({"move": {"to": "/x"}}), json!({"delete": {}})] {
        assert!(said(&on_held(json!([step]))).contains("release it"), "{step}");
    }
    assert!(said(&on_held(json!([{"quarantine": {"reason": " "}}]))).contains("say why"));
    let rule = on_held(json!([{"quarantine": {"reason": "{nothing}"}}]));
    assert!(crate::check_rule(&rule).unwrap_err().to_string().contains("nothing"));
    let rule = Rule {
        condition: Some("file.size > 3 && file.name == 'a'".into()),
        ..on_held(json!([{"release": {}}]))
    };
    crate::check_rule(&rule).unwrap();
}
