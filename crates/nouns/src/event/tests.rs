//! Events as JSON.

use super::*;
use crate::SiteId;
use crate::env::Env;
use crate::transfer::Digests;

#[test]
fn an_event_of_a_newer_program_goes_round_as_it_is() {
    let json = serde_json::json!({
        "id": "0192f1c4-7d7a-7abc-8def-0123456789ab",
        "at": "2026-07-01T00:00:00.000000Z",
        "site": "00000000-0000-0000-0000-000000000001",
        "node": "n1",
        "depth": 0,
        "kind": "file.eaten",
        "by": { "whale": [1, null, "x"] },
    });
    let event: Event = serde_json::from_value(json.clone()).unwrap();
    assert_eq!(event.fact.kind(), "file.eaten");
    assert_eq!(event.fact.file(), None);
    assert_eq!(serde_json::to_value(&event).unwrap(), json);
    // A kind that is known and cannot be read is damage.
    let mut known = json.clone();
    known["kind"] = "file.removed".into();
    assert!(serde_json::from_value::<Event>(known).is_err());
    let mut none = json;
    none.as_object_mut().unwrap().remove("kind");
    assert!(serde_json::from_value::<Event>(none).is_err());
}

#[test]
fn json_form_is_flat_and_goes_round() {
    let env = Env::simulated(1);
    let event = Event {
        id: env.new_id(),
        at: env.now(),
        clock: Some(EventClock { ms: 7, counter: 1, slot: 3 }),
        site: SiteId::MAIN,
        node: "n1".parse().unwrap(),
        account: Some("acme".parse().unwrap()),
        session: None,
        job: None,
        cause: None,
        depth: 0,
        fact: Fact::FileUploaded {
            file: FileFact {
                transfer: env.new_id(),
                path: "/in/a.xml".to_owned(),
                size: 3,
                digests: Digests { blake3: Some([7; 32]), sha256: None },
                protocol: Protocol::Sftp,
                started_at: env.now(),
                identity: Some("12:1700000000000000".to_owned()),
                displaced: Some(Displaced { identity: None }),
                temporary: false,
                as2: None,
            },
        },
    };
    let json = serde_json::to_value(&event).unwrap();
    assert_eq!(json["kind"], "file.uploaded");
    assert_eq!(json["path"], "/in/a.xml");
    // That something was displaced is not lost where nobody can tell what.
    assert_eq!(json["displaced"], serde_json::json!({}));
    assert_eq!(serde_json::from_value::<Event>(json).unwrap(), event);
}
