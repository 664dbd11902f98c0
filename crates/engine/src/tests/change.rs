//! Steps that make another file of the file: packed, unpacked, encrypted, signed, summed.

use entrepot_nouns::rule::Step;
use entrepot_nouns::{Job, JobState, Key, KeyType, Rule, Sealed};
use entrepot_storage::AnyStore;
use serde_json::{Value as Json, json};

use super::world::{World, content, cut_everywhere, files, memory_store, rule};
use crate::check_rule;

/// The key that everybody knows, of the fuzzers of `transform`.
const PRIVATE: &str = include_str!("../../../transform/src/fuzzing/key.asc");

fn doing(list: Json) -> Rule {
    let steps: Vec<Step> = serde_json::from_value(list).unwrap();
    Rule { steps, ..rule("r", Vec::new()) }
}

/// A node with the endpoint `out` and the key `ours`.
struct Shop {
    world: World,
    out: AnyStore,
}

impl Shop {
    async fn new(seed: u64, rule: &Rule) -> Shop {
        let world = World::new(seed).await;
        let out = memory_store(&world.env);
        world.target("out", out.clone()).await;
        let public = include_str!("public-key.asc").to_owned();
        let mut ours = Key::new("ours".parse().unwrap(), KeyType::OpenPgp, public);
        ours.private_sealed = Some(Sealed(PRIVATE.to_owned()));
        world.put(&ours).await;
        check_rule(rule).unwrap();
        world.put(rule).await;
        Shop { world, out }
    }

    async fn folder(&self, name: &str) {
        self.world.file_access.home.make_directory(&name.parse().unwrap()).await.unwrap();
    }

    async fn ended(&mut self, name: &str, bytes: &[u8]) -> Job {
        let event = self.world.upload(&format!("/in/{name}"), bytes).await;
        let job = self.world.job_of(&event, "r").await;
        self.world.ended(job).await
    }
}

async fn run(seed: u64, list: Json, name: &str, bytes: &[u8]) -> (Shop, Job) {
    let mut shop = Shop::new(seed, &doing(list)).await;
    shop.world.start();
    let job = shop.ended(name, bytes).await;
    (shop, job)
}

fn deliver(path: &str) -> Json {
    json!({"deliver": {"endpoint": "out", "path": path}})
}

/// Every step there and back again: the same bytes, under the name that they had.
#[tokio::test(start_paused = true)]
async fn what_is_packed_or_encrypted_comes_back_as_it_was() {
    let sample = content(3, 5);
    let keys = json!(["ours"]);
    for (number, (there, name, back)) in [
        (json!({"gzip": {}}), "a.csv.gz", json!({"extract": {}})),
        (json!({"zstd": {"level": 9}}), "a.csv.zst", json!({"extract": {}})),
        (json!({"zip": {}}), "a.csv.zip", json!({"extract": {}})),
        (json!({"tar": {"compress": "gzip"}}), "a.csv.tar.gz", json!({"extract": {}})),
        (json!({"tar": {"name": "x"}}), "x", json!({"extract": {"format": "tar"}})),
        (json!({"encrypt": {"keys": keys}}), "a.csv.pgp", json!({"decrypt": {"keys": keys}})),
        (
            json!({"encrypt":
                {"keys": keys, "signers": keys, "armor": true, "name": "{stem}.asc"}}),
            "a.asc",
            json!({"decrypt": {"keys": keys, "signed_by": keys, "name": "{stem}.csv"}}),
        ),
        (
            json!({"transcode": {"from": "ibm037", "to": "ibm1047"}}),
            "a.csv",
            json!({"transcode": {"from": "ibm1047", "to": "ibm037"}}),
        ),
        (json!({"sign": {"key": "ours"}}), "a.csv.pgp", json!({"verify": {"signed_by": keys}})),
    ]
    .into_iter()
    .enumerate()
    {
        let steps = json!([there, deliver("{name}"), back, deliver("back/{name}")]);
        let (shop, job) = run(300 + number as u64, steps, "a.csv", &sample).await;
        assert_eq!((job.state, job.error), (JobState::Done, None), "{there}");
        let found = files(&shop.out).await;
        assert!(found[name] != sample, "{there}");
        assert!(found["back/a.csv"] == sample, "{there}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_damaged_file_ends_the_job_and_nothing_of_it_is_seen() {
    let sample = content(2, 3);
    let (shop, _) = run(320, json!([{"gzip": {}}, deliver("{name}")]), "a", &sample).await;
    let packed = files(&shop.out).await["a.gz"].clone();
    let mut damaged = packed.clone();
    let at = damaged.len() - 6;
    damaged[at] ^= 1;
    for (number, (name, bytes, steps, code)) in [
        ("a.gz", &damaged, json!([{"extract": {}}]), "EP0870"),
        ("a.gz", &packed, json!([{"extract": {"output_mib": 0}}]), "EP0871"),
        ("a.txt", &packed, json!([{"extract": {}}]), "EP0870"),
        ("a.pgp", &packed, json!([{"decrypt": {"keys": ["ours"]}}]), "EP0873"),
        ("a.pgp", &packed, json!([{"verify": {"signed_by": ["ours"]}}]), "EP0870"),
        (
            "a",
            &packed,
            json!([{"encrypt": {"keys": ["ours"]}}, {"decrypt": {"keys": ["ours"],
                "signed_by": ["ours"]}}]),
            "EP0874",
        ),
        ("a", &packed, json!([{"encrypt": {"keys": ["host"]}}]), "EP0872"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut list = steps.as_array().unwrap().clone();
        list.push(deliver("{name}"));
        let rule = doing(Json::Array(list));
        let mut shop = Shop::new(330 + number as u64, &rule).await;
        let host = Key::new("host".parse().unwrap(), KeyType::SshUser, "ssh-ed25519 A".to_owned());
        shop.world.put(&host).await;
        shop.world.start();
        let job = shop.ended(name, bytes).await;
        assert_eq!(job.state, JobState::Failed, "{steps}");
        let error = job.error.unwrap();
        assert!(error.starts_with(code) && job.attempts == 1, "{steps}: {error}");
        assert!(files(&shop.out).await.is_empty(), "{steps}");
    }
}

/// A zip archive of the usual tools' form, by our own step: two files in two folders.
fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
    use entrepot_transform::archive::{ArchiveFormat, EntryName, Packed, create};
    let mut contents: Vec<&[u8]> = entries.iter().map(|(_, bytes)| *bytes).collect();
    let packed = entries.iter().zip(&mut contents).map(|((name, bytes), content)| Packed {
        name: EntryName::new(name).unwrap(),
        size: bytes.len() as u64,
        content,
    });
    let mut bytes = Vec::new();
    create(ArchiveFormat::Zip, packed, &mut bytes).unwrap();
    bytes
}

/// Whatever the moment of a crash, the files of an archive are there once, whole.
#[tokio::test(start_paused = true)]
async fn a_crash_while_an_archive_is_taken_apart_repeats_no_file() {
    let large = content(3, 9);
    let bytes = archive(&[("one.txt", b"1"), ("b/two.bin", &large)]);
    let steps = json!([
        {"name": "open", "extract": {"to": "/new/{stem}", "existing": "refuse"}},
        {"check": {"that": "steps.open.paths == ['/new/a/one.txt', '/new/a/b/two.bin']",
            "message": "{steps.open.paths}"}},
        deliver("{steps.open.files}-{name}"),
    ]);
    let cut = cut_everywhere(async |cut| {
        let at = cut.at;
        let mut shop = Shop::new(360 + at as u64, &doing(steps.clone())).await;
        shop.world.options.pauses = cut.pauses();
        shop.world.start();
        let job = shop.ended("a.zip", &bytes).await;
        assert_eq!((job.state, job.error), (JobState::Done, None), "{at}");
        let home = files(&shop.world.file_access.home).await;
        assert_eq!(home["new/a/one.txt"], b"1", "{at}");
        assert!(home["new/a/b/two.bin"] == large, "{at}");
        assert!(files(&shop.out).await["2-a.zip"] == bytes, "{at}");
        shop.world.kill().await;
    })
    .await;
    assert!(cut > 6, "only {cut} points were cut");
}

/// Whatever the moment of a crash: each file is delivered once, with the bytes that it would have
/// had, and nothing is left on the node's disk.
#[tokio::test(start_paused = true)]
async fn a_crash_while_files_are_changed_repeats_nothing() {
    let sample = content(1, 4)[..2_000].to_vec();
    let keys = json!(["ours"]);
    let chains = [
        json!([
            {"gzip": {}}, deliver("{name}"), {"extract": {}},
            {"zstd": {}}, deliver("{name}"), {"extract": {}},
            {"zip": {}}, deliver("{name}"), {"extract": {}}, deliver("back/{name}"),
        ]),
        json!([
            {"tar": {"compress": "zstd"}}, deliver("{name}"), {"extract": {}},
            {"checksum": {"verify": "/in/sums"}}, deliver("back/{name}"),
            {"checksum": {}}, deliver("{name}"),
        ]),
        json!([
            {"transcode": {"from": "iso-8859-1", "to": "utf-16be"}}, deliver("{name}"),
            {"transcode": {"from": "utf-16be", "to": "iso-8859-1"}}, deliver("back/{name}"),
        ]),
        json!([
            {"sign": {"key": "ours"}}, {"verify": {"signed_by": keys}}, deliver("{name}"),
            {"encrypt": {"keys": keys}}, {"decrypt": {"keys": keys}}, deliver("back/{name}"),
        ]),
    ];
    let sha256 = entrepot_transform::checksum::Algorithm::Sha256;
    let sum = entrepot_transform::checksum::Checksum::of(sha256, sample.as_slice()).unwrap();
    for (chain, wanted) in chains.into_iter().zip([4, 3, 2, 2]) {
        let mut first = None;
        let cut = cut_everywhere(async |cut| {
            let at = cut.at;
            let mut shop = Shop::new(500 + at as u64, &doing(chain.clone())).await;
            shop.world.publish("/in/sums", sum.line("a.csv").as_bytes()).await;
            shop.world.options.pauses = cut.pauses();
            shop.world.start();
            let job = shop.ended("a.csv", &sample).await;
            assert_eq!((job.state, job.error), (JobState::Done, None), "{at}: {chain}");
            let found = files(&shop.out).await;
            assert_eq!(found.len(), wanted, "{at}: {chain}");
            assert!(found["back/a.csv"] == sample, "{at}: {chain}");
            assert!(*first.get_or_insert_with(|| found.clone()) == found, "{at}: {chain}");
            shop.world.projected().await;
            let told = shop.world.events("file.delivered").await;
            assert_eq!(told.len(), wanted, "{at}: {chain}");
            shop.world.until(async |world| files(&world.work.store).await.is_empty()).await;
            shop.world.kill().await;
        })
        .await;
        assert!(cut > 20, "only {cut} points were cut: {chain}");
    }
}

#[tokio::test(start_paused = true)]
async fn of_a_bad_archive_not_even_the_good_files_are_published() {
    let mut bytes = archive(&[("one.txt", b"1"), ("two.txt", b"22222222222222222222")]);
    // The content of the last file: its header is right, its checksum is not.
    let at = bytes.windows(7).rposition(|bytes| bytes == b"two.txt").unwrap();
    let first = bytes.windows(7).position(|bytes| bytes == b"two.txt").unwrap();
    assert!(first < at);
    bytes[first + 8] ^= 1;
    let (shop, job) = run(400, json!([{"extract": {"to": "/new"}}]), "a.zip", &bytes).await;
    assert_eq!(job.state, JobState::Failed);
    assert!(job.error.unwrap().starts_with("EP0870"));
    let home = files(&shop.world.file_access.home).await;
    assert_eq!(home.keys().collect::<Vec<_>>(), ["in/a.zip"]);
}

#[tokio::test(start_paused = true)]
async fn a_checksum_file_is_made_and_compared() {
    let steps = json!([{"name": "sum", "checksum": {}}, deliver("{name}")]);
    let (shop, job) = run(410, steps, "a.csv", b"content\n").await;
    assert_eq!((job.state, job.error), (JobState::Done, None));
    let line = files(&shop.out).await["a.csv.sha256"].clone();
    let digest = "434728a410a78f56fc1b5899c3593436e61ab0c731e9072d95e96db290205e53";
    assert_eq!(String::from_utf8(line.clone()).unwrap(), format!("{digest}  a.csv\n"));
    let verify = json!([{"checksum": {"verify": "/in/{name}.sha256"}}, deliver("{name}")]);
    for (number, (bytes, state)) in
        [(&b"content\n"[..], JobState::Done), (&b"Content\n"[..], JobState::Failed)]
            .into_iter()
            .enumerate()
    {
        let mut shop = Shop::new(411 + number as u64, &doing(verify.clone())).await;
        // Nobody starts a rule on it.
        shop.world.publish("/in/a.csv.sha256", &line).await;
        shop.world.start();
        let job = shop.ended("a.csv", bytes).await;
        assert_eq!(job.state, state, "{:?}", job.error);
        assert_eq!(files(&shop.out).await.len(), usize::from(state == JobState::Done));
    }
}

/// Whatever the moment of a crash: the parts are the file, and each is there once.
#[tokio::test(start_paused = true)]
async fn a_crash_while_a_file_is_split_repeats_no_part() {
    let text = "one\ntwo\nthree\nfour\nfive";
    let steps = json!([
        {"name": "cut", "split": {"lines": 2, "to": "/new/{stem}.{part:03}",
            "existing": "refuse"}},
        deliver("{steps.cut.files}-{name}"),
    ]);
    let cut = cut_everywhere(async |cut| {
        let at = cut.at;
        let mut shop = Shop::new(440 + at as u64, &doing(steps.clone())).await;
        shop.world.options.pauses = cut.pauses();
        shop.world.start();
        let job = shop.ended("a.txt", text.as_bytes()).await;
        assert_eq!((job.state, job.error), (JobState::Done, None), "{at}");
        let mut home = files(&shop.world.file_access.home).await;
        home.remove("in/a.txt").unwrap();
        let mut parts: Vec<_> = home.into_iter().collect();
        parts.sort();
        let names: Vec<_> = parts.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["new/a.001", "new/a.002", "new/a.003"], "{at}");
        let bytes: Vec<_> = parts.into_iter().map(|(_, bytes)| bytes).collect();
        assert_eq!(bytes.concat(), text.as_bytes(), "{at}");
        assert_eq!(files(&shop.out).await["3-a.txt"], text.as_bytes(), "{at}");
        shop.world.kill().await;
    })
    .await;
    assert!(cut > 6, "only {cut} points were cut");
    let steps = json!([{"split": {"bytes": 1, "to": "/new/{part}", "parts": 9}}]);
    let (shop, job) = run(470, steps, "a.txt", text.as_bytes()).await;
    assert!(job.error.unwrap().starts_with("EP0871"));
    assert_eq!(files(&shop.world.file_access.home).await.len(), 1, "a part was published");
}

/// Whatever the moment of a crash: the file is what it was before it was split.
#[tokio::test(start_paused = true)]
async fn parts_are_put_together_in_the_order_of_their_numbers() {
    let text: String = (1..=11).map(|line| format!("line {line}\n")).collect();
    let steps = json!([
        {"split": {"lines": 1, "to": "/new/{stem}.{part}"}},
        {"name": "whole", "join": {"from": "/new/{stem}.{part}", "name": "{stem}-again.txt"}},
        {"check": {"that": "steps.whole.parts == 11 && steps.whole.paths[10] == '/new/a.11'",
            "message": "{steps.whole.parts}"}},
        {"deliver": {"endpoint": "out", "path": "{name}", "existing": "refuse"}},
    ]);
    let cut = cut_everywhere(async |cut| {
        let at = cut.at;
        let mut shop = Shop::new(720 + at as u64, &doing(steps.clone())).await;
        shop.world.options.pauses = cut.pauses();
        shop.folder("new").await;
        shop.world.publish("/new/a.01", b"no part: its number is written otherwise").await;
        shop.world.start();
        let job = shop.ended("a.txt", text.as_bytes()).await;
        assert_eq!((job.state, job.error), (JobState::Done, None), "{at}");
        let delivered = files(&shop.out).await;
        assert_eq!(delivered.len(), 1, "{at}");
        assert_eq!(delivered["a-again.txt"], text.as_bytes(), "{at}");
        shop.world.kill().await;
    })
    .await;
    assert!(cut > 25, "only {cut} points were cut");
}

#[tokio::test(start_paused = true)]
async fn a_gap_waits_for_its_part_and_a_part_too_many_is_refused() {
    let join = |count: Json| {
        let join = json!({"from": "/parts/{part:03}", "count": count, "name": "whole"});
        let retry = json!({"attempts": 9, "first_delay_seconds": 30, "longest_delay_seconds": 30});
        json!([{"join": join, "retry": retry}, deliver("{name}")])
    };
    for (seed, count) in [(710, json!(3)), (711, json!("file.size + 2")), (712, Json::Null)] {
        let mut shop = Shop::new(seed, &doing(join(count.clone()))).await;
        shop.folder("parts").await;
        for (number, bytes) in [("001", "one "), ("003", "three")] {
            shop.world.publish(&format!("/parts/{number}"), bytes.as_bytes()).await;
        }
        shop.world.start();
        let event = shop.world.upload("/in/a", b"1").await;
        let job = shop.world.job_of(&event, "r").await;
        shop.world.until(async |world| !world.events("job.retrying").await.is_empty()).await;
        let told = serde_json::to_value(&shop.world.events("job.retrying").await[0]).unwrap();
        let error = told["error"].as_str().unwrap();
        assert!(error.starts_with("EP0880: part 2, '/parts/002', is not there"), "{error}");
        shop.world.publish("/parts/002", b"two ").await;
        let job = shop.world.ended(job).await;
        assert_eq!((job.state, job.error), (JobState::Done, None), "{count}");
        assert_eq!(files(&shop.out).await["whole"], b"one two three", "{count}");
    }
    for (seed, count, code) in
        [(713, json!(1), "EP0880"), (714, json!("'x'"), "EP0812"), (715, json!(0), "EP0812")]
    {
        let mut shop = Shop::new(seed, &doing(join(count.clone()))).await;
        shop.folder("parts").await;
        for number in ["001", "002"] {
            shop.world.publish(&format!("/parts/{number}"), b"x").await;
        }
        shop.world.start();
        let job = shop.ended("a", b"1").await;
        assert_eq!((job.state, job.attempts), (JobState::Failed, 1), "{count}");
        assert!(job.error.unwrap().starts_with(code), "{count}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_text_of_a_mainframe_is_written_for_others_or_fails_with_its_place() {
    let transcode = json!({"from": "ibm1047", "newline": "crlf", "name": "{stem}.txt"});
    let steps = json!([{"transcode": transcode}, deliver("{name}")]);
    let (shop, job) = run(430, steps, "a.dat", &[0xc8, 0xc9, 0x15, 0x4a]).await;
    assert_eq!((job.state, job.error), (JobState::Done, None));
    assert_eq!(files(&shop.out).await["a.txt"], "HI\r\n\u{a2}".as_bytes());
    let steps = json!([{"transcode": {"from": "utf-8", "to": "ibm1047"}}, deliver("{name}")]);
    let (shop, job) = run(431, steps, "a.txt", "a\n\u{20ac}".as_bytes()).await;
    assert_eq!((job.state, job.attempts), (JobState::Failed, 1));
    let wanted = "EP0877: line 2 has the character U+20AC, which the target does not have";
    assert_eq!(job.error.as_deref(), Some(wanted));
    assert!(files(&shop.out).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_signature_of_its_own_is_made_and_checked() {
    let steps = json!([{"sign": {"key": "ours", "detached": true}}, deliver("{name}")]);
    let (shop, job) = run(420, steps, "a.csv", b"content\n").await;
    assert_eq!((job.state, job.error), (JobState::Done, None));
    let signature = files(&shop.out).await["a.csv.sig"].clone();
    let verify = json!([
        {"name": "who", "verify": {"signed_by": ["ours"], "signature": "/in/{name}.sig"}},
        deliver("{steps.who.signer}/{name}"),
    ]);
    for (number, (bytes, state)) in
        [(&b"content\n"[..], JobState::Done), (&b"Content\n"[..], JobState::Failed)]
            .into_iter()
            .enumerate()
    {
        let mut shop = Shop::new(421 + number as u64, &doing(verify.clone())).await;
        shop.world.publish("/in/a.csv.sig", &signature).await;
        shop.world.start();
        let job = shop.ended("a.csv", bytes).await;
        assert_eq!(job.state, state, "{:?}", job.error);
        assert_eq!(files(&shop.out).await.len(), usize::from(state == JobState::Done));
    }
}

#[test]
fn what_a_step_cannot_do_is_refused_when_the_rule_is_stored() {
    let refused = |step: Json| {
        let rule = doing(json!([step]));
        let checked = entrepot_nouns::noun::Noun::check(&rule).and_then(|()| check_rule(&rule));
        checked.unwrap_err().field
    };
    for (step, field) in [
        (json!({"gzip": {"level": 10}}), "do.0.gzip.level"),
        (json!({"gzip": {"name": "{nme}"}}), "do.0.gzip.name"),
        (json!({"tar": {"entry": "{nme}"}}), "do.0.tar.entry"),
        (json!({"sign": {"key": "ours", "name": "{nme}"}}), "do.0.sign.name"),
        (json!({"zstd": {"level": 0}}), "do.0.zstd.level"),
        (json!({"zip": {"entry": "{nme}"}}), "do.0.zip.entry"),
        (json!({"split": {"to": "/p/{part}"}}), "do.0.split"),
        (json!({"split": {"to": "/p/{part}", "lines": 1, "bytes": 1}}), "do.0.split"),
        (json!({"split": {"to": "/p/{name}", "lines": 1}}), "do.0.split.to"),
        (json!({"split": {"to": "p/{part}", "lines": 1}}), "do.0.split.to"),
        (json!({"split": {"to": "/p/{part:4}", "lines": 1}}), "do.0.split.to"),
        (json!({"split": {"to": "/p/{parts}", "lines": 1}}), "do.0.split.to"),
        (json!({"join": {"from": "/p/{name}"}}), "do.0.join.from"),
        (json!({"join": {"from": "/p{part}/a"}}), "do.0.join.from"),
        (json!({"join": {"from": "/p/{part:4}"}}), "do.0.join.from"),
        (json!({"join": {"from": "/p/{part}", "name": "{nme}"}}), "do.0.join.name"),
        (json!({"join": {"from": "/p/{part}", "count": "nobody"}}), "do.0.join.count"),
        (json!({"transcode": {"from": "latin1"}}), "do.0.transcode.from"),
        (json!({"transcode": {"from": "utf-8", "to": "utf-7"}}), "do.0.transcode.to"),
        (json!({"transcode": {"from": "utf-8", "name": "{nme}"}}), "do.0.transcode.name"),
        (json!({"extract": {"to": "{name}"}}), "do.0.extract.to"),
        (json!({"encrypt": {"keys": []}}), "do.0.encrypt.keys"),
        (json!({"decrypt": {"keys": []}}), "do.0.decrypt.keys"),
        (json!({"verify": {"signed_by": []}}), "do.0.verify.signed_by"),
        (json!({"checksum": {"verify": "{nme}"}}), "do.0.checksum.verify"),
    ] {
        assert_eq!(refused(step.clone()), field, "{step}");
    }
}

/// Without an event that brings one there is no file, and no account.
#[test]
fn a_rule_by_the_clock_needs_a_file_first_and_an_account_for_what_is_in_its_view() {
    let cron = entrepot_nouns::rule::When::Cron(entrepot_nouns::Cron::new("* * * * *"));
    let fetch = json!({"fetch": {"endpoint": "bank", "path": "a.zip"}});
    for (list, field) in [
        (json!([{"gzip": {}}]), "do.0.gzip"),
        (json!([{"decrypt": {"keys": ["ours"]}}]), "do.0.decrypt"),
        (json!([{"checksum": {}}]), "do.0.checksum"),
        (json!([fetch, {"extract": {"to": "/in"}}]), "do.1.extract"),
        (json!([fetch, {"checksum": {"verify": "/sums"}}]), "do.1.checksum"),
        (json!([fetch, {"verify": {"signed_by": ["k"], "signature": "/s"}}]), "do.1.verify"),
    ] {
        let rule = Rule { when: cron.clone().into(), ..doing(list.clone()) };
        let checked = entrepot_nouns::noun::Noun::check(&rule);
        assert_eq!(checked.unwrap_err().field, field, "{list}");
    }
    let list = json!([fetch, {"extract": {}}, {"zip": {}}, {"checksum": {}}]);
    let rule = Rule { when: cron.into(), ..doing(list) };
    entrepot_nouns::noun::Noun::check(&rule).and_then(|()| check_rule(&rule)).unwrap();
}

#[test]
fn a_field_that_no_step_has_is_refused_by_name() {
    let words = [
        "gzip",
        "zstd",
        "zip",
        "tar",
        "extract",
        "encrypt",
        "decrypt",
        "sign",
        "verify",
        "checksum",
        "transcode",
        "split",
        "join",
    ];
    for word in words {
        let mut fields = json!({
            "keys": ["k"], "key": "k", "signed_by": ["k"], "from": "utf-8", "to": "/{part}",
        });
        let known: &[&str] = match word {
            "encrypt" => &["keys"],
            "decrypt" => &["keys", "signed_by"],
            "sign" => &["key"],
            "transcode" | "join" => &["from"],
            "split" => &["to"],
            "verify" => &["signed_by"],
            _ => &[],
        };
        fields.as_object_mut().unwrap().retain(|field, _| known.contains(&field.as_str()));
        serde_json::from_value::<Step>(json!({word: fields})).unwrap();
        fields["nme"] = json!("x");
        let refused = serde_json::from_value::<Step>(json!({word: fields})).unwrap_err();
        assert!(refused.to_string().contains("`nme`"), "{word}: {refused}");
    }
}
