//! Test vectors of docs/receipts.md, for those who verify receipts with a program of their own:
//! `crates/proof/vectors/receipts.json`. The file is compared byte for byte with what this program
//! makes of the same key and records; `ENTREPOT_UPDATE_VECTORS=1` writes it anew.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use entrepot_crypto::merkle::{self, Frontier, Hash, Subtrees, leaf_hash};
use entrepot_crypto::{Checkpoint, NoteSigner, NoteVerifier};
use entrepot_nouns::{Secret, Timestamp};
use entrepot_proof::{ArchiveStub, EventsStub, Receipt, origin};
use serde_json::{Value, json};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/vectors/receipts.json");
const SEED: [u8; 32] = [7; 32];
const SITE: &str = "00000000-0000-0000-0000-000000000001";
const LOG: &str = "019a9f3e-7c1b-7d52-9d0e-4c4f5c3f2a10";
const TIME: Timestamp = Timestamp(1_795_420_800_000_000);

/// The tree over leaves in memory.
struct InMemory(Vec<Hash>);

impl Subtrees for InMemory {
    type Error = std::convert::Infallible;

    fn root_of(&self, level: u32, index: u64) -> Result<Hash, Self::Error> {
        let (width, index) = (1usize << level, usize::try_from(index).unwrap());
        Ok(merkle::complete_root(&self.0[index * width..][..width]).unwrap())
    }
}

/// The payload of record `number`: an upload, or nothing, as of a number that no record shows.
fn payload(number: u64) -> String {
    if number.is_multiple_of(4) {
        return String::new();
    }
    json!({
        "id": format!("019a9f3e-7c1b-7d52-9d0e-0000000000{number:02x}"),
        "at": "2026-11-23T08:00:00.000000Z",
        "site": SITE,
        "node": "node1",
        "account": "acme",
        "depth": 0,
        "kind": "file.uploaded",
        "transfer": format!("019a9f3e-7c1b-7d52-9d0e-1000000000{number:02x}"),
        "path": format!("/in/Bücher-{number}.xml"),
        "size": number * 1_000,
        "blake3": "00".repeat(32),
        "protocol": "sftp",
        "started_at": "2026-11-23T07:59:59.000000Z",
        "replaced": false,
    })
    .to_string()
}

fn head(signer: &NoteSigner, leaves: &[Hash]) -> String {
    let mut tree = Frontier::default();
    leaves.iter().for_each(|leaf| tree.push(*leaf));
    let checkpoint = Checkpoint {
        origin: signer.verifier().name().to_owned(),
        size: leaves.len() as u64,
        root: tree.root(),
        extensions: vec![format!("time {TIME}")],
    };
    signer.sign(&checkpoint.text())
}

/// Receipts that do not verify, each for one reason.
fn broken(good: &Value, shorter: &str, other: &NoteSigner, leaves: &[Hash]) -> Vec<Value> {
    let changed = |reason: &str, change: &dyn Fn(&mut Value)| {
        let mut receipt = good.clone();
        change(&mut receipt);
        json!({ "reason": reason, "receipt": receipt })
    };
    let signed_by_other = head(other, leaves);
    vec![
        changed("the path in the event was changed", &|it| it["event"]["path"] = "/in/b".into()),
        changed("the order of the event's fields was changed", &|it| {
            let event = it["event"].as_object().unwrap();
            let turned = event.iter().rev().map(|(name, value)| (name.clone(), value.clone()));
            it["event"] = Value::Object(turned.collect());
        }),
        changed("it names another record", &|it| it["record"] = 6.into()),
        changed("records begin with 1", &|it| it["record"] = 0.into()),
        changed("a hash is missing in its path", &|it| {
            it["path"].as_array_mut().unwrap().pop();
        }),
        changed("a hash is added to its path", &|it| {
            let first = it["path"][0].clone();
            it["path"].as_array_mut().unwrap().push(first);
        }),
        changed("its head is of another length", &|it| it["head"] = shorter.into()),
        changed("its head was changed after it was signed", &|it| {
            let head = it["head"].as_str().unwrap().replace("time 2026", "time 2025");
            it["head"] = head.into();
        }),
        changed("its head is signed by another key of the same name", &|it| {
            it["head"] = signed_by_other.clone().into();
        }),
    ]
}

fn vectors() -> Value {
    let name = origin(&"node1".parse().unwrap(), LOG.parse().unwrap());
    let signer = NoteSigner::new(&name, &Secret::new(SEED)).unwrap();
    let other = NoteSigner::new(&name, &Secret::new([8; 32])).unwrap();
    let records: Vec<String> = (1..=11).map(payload).collect();
    let leaves: Vec<Hash> = records.iter().map(|text| leaf_hash(text.as_bytes())).collect();
    let heads: Vec<Value> = [1, 2, 3, 7, 8, 11]
        .map(|size| json!({ "size": size, "note": head(&signer, &leaves[..size]) }))
        .to_vec();
    let tree = InMemory(leaves.clone());
    let Ok(path) = merkle::inclusion_path(&tree, 4, 11);
    let path: Vec<String> = path.unwrap().iter().map(|hash| STANDARD.encode(hash)).collect();
    let event: Value = serde_json::from_str(&records[4]).unwrap();
    let good = json!({
        "format": "entrepot-receipt/1",
        "event": event,
        "record": 5,
        "path": path,
        "head": head(&signer, &leaves),
        "key": signer.verifier().to_string(),
    });
    let mut pruned = Frontier::default();
    [1usize, 2, 3].iter().for_each(|record| pruned.push(leaves[record - 1]));
    let events = EventsStub {
        of: name.clone(),
        site: SITE.parse().unwrap(),
        after: 0,
        up_to: 4,
        count: 3,
        root: pruned.root(),
        older_than: TIME,
        exported: Some("00".repeat(32)),
        at: TIME,
    };
    let subtree = |level, index| {
        let Ok(root) = tree.root_of(level, index);
        root
    };
    let archive = ArchiveStub {
        of: name.clone(),
        after: 0,
        up_to: 7,
        tree: vec![subtree(2, 0), subtree(1, 2), subtree(0, 6)],
        numbers: leaf_hash(b"{\"sites\":[]}"),
        at: TIME,
    };
    json!({
        "key": {
            "private": STANDARD.encode(SEED),
            "public": signer.verifier().to_string(),
        },
        "records": records,
        "heads": heads,
        "receipt": good,
        "stubs": {
            "events": signer.sign(&events.text()),
            "archive": signer.sign(&archive.text()),
        },
        "broken": broken(&good, &head(&signer, &leaves[..8]), &other, &leaves),
    })
}

#[test]
fn the_vectors_are_what_this_program_makes() {
    let mut made = serde_json::to_string_pretty(&vectors()).unwrap();
    made.push('\n');
    if std::env::var_os("ENTREPOT_UPDATE_VECTORS").is_some() {
        std::fs::create_dir_all(Path::new(FILE).parent().unwrap()).unwrap();
        std::fs::write(FILE, &made).unwrap();
    }
    let kept = std::fs::read_to_string(FILE).unwrap();
    assert!(kept == made, "the form of heads, receipts or stubs has changed");
}

#[test]
fn each_vector_verifies_or_fails_as_it_says() {
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(FILE).unwrap()).unwrap();
    let key: NoteVerifier = kept["key"]["public"].as_str().unwrap().parse().unwrap();
    let records = kept["records"].as_array().unwrap();
    for head in kept["heads"].as_array().unwrap() {
        let checkpoint = Checkpoint::open(head["note"].as_str().unwrap(), &key).unwrap();
        assert_eq!(head["size"], checkpoint.size);
        let mut tree = Frontier::default();
        let covered = records.iter().take(usize::try_from(checkpoint.size).unwrap());
        covered.for_each(|record| tree.push(leaf_hash(record.as_str().unwrap().as_bytes())));
        assert_eq!(tree.root(), checkpoint.root);
    }
    let verify = |receipt: &Value| Receipt::parse(&receipt.to_string()).unwrap().verify(&key);
    assert_eq!(verify(&kept["receipt"]).unwrap().record, 5);
    let broken = kept["broken"].as_array().unwrap();
    assert_eq!(broken.len(), 9);
    for broken in broken {
        assert!(verify(&broken["receipt"]).is_err(), "{}", broken["reason"]);
    }
    let keys = [key];
    let events = EventsStub::open(kept["stubs"]["events"].as_str().unwrap(), &keys).unwrap();
    assert_eq!((events.after, events.up_to, events.count), (0, 4, 3));
    let archive = ArchiveStub::open(kept["stubs"]["archive"].as_str().unwrap(), &keys).unwrap();
    assert_eq!((archive.up_to, archive.tree.len()), (7, 3));
    for note in ["events", "archive"] {
        let changed = kept["stubs"][note].as_str().unwrap().replace("records 1 to", "records 2 to");
        assert!(EventsStub::open(&changed, &keys).is_err());
        assert!(ArchiveStub::open(&changed, &keys).is_err());
    }
}
