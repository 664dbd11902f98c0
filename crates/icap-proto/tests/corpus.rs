//! Replays the fuzzer's corpus on stable, and makes it: with `UPDATE_CORPUS=1` answers of servers
//! and cuts of them are written to `fuzz/corpus/icap_proto`.

use std::path::PathBuf;

/// Answers as c-icap 0.5.10 and clamd 1.4.6 give them, and what others might.
const ANSWERS: &[&str] = &[
    "ICAP/1.0 204 Unmodified\r\nServer: C-ICAP/0.5.10\r\nConnection: keep-alive\r\n\r\n",
    "ICAP/1.0 100 Continue\r\n\r\nICAP/1.0 204 Unmodified\r\n\r\n",
    "ICAP/1.0 200 OK\r\nMethods: RESPMOD, REQMOD\r\nISTag: \"CI0001\"\r\nOptions-TTL: 3600\r\n\
     Preview: 1024\r\nAllow: 204\r\n\r\n",
    "ICAP/1.0 100 Continue\r\n\r\nICAP/1.0 200 OK\r\n\
     X-Infection-Found: Type=0; Resolution=2; Threat=Eicar-Test.UNOFFICIAL;\r\n\
     X-Violations-Found: 1\r\n\t-\r\n\tEicar-Test.UNOFFICIAL\r\n\t0\r\n\t0\r\n\
     Encapsulated: res-hdr=0, res-body=108\r\n\r\nHTTP/1.0 403 Forbidden\r\n\r\n",
    "ICAP/1.0 200 OK\r\nEncapsulated: req-hdr=0, res-hdr=18, res-body=60\r\n\r\nGET / HTTP/1.1\r\n\
     \r\nHTTP/1.1 200 OK\r\n\r\na\r\n0123456789\r\n0\r\n\r\n",
    "ICAP/1.0 404 Service not found\r\n\r\n",
    "ICAP/1.0 500 Server error\r\n folded\r\n\r\n",
    "stream: OK\0",
    "stream: Eicar-Test.UNOFFICIAL FOUND\0",
];

fn corpus() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/icap_proto")
}

#[test]
fn the_corpus_passes() {
    if std::env::var_os("UPDATE_CORPUS").is_some() {
        std::fs::create_dir_all(corpus()).unwrap();
        for (number, answer) in ANSWERS.iter().enumerate() {
            for (cut, size) in [(1, 0u8), (1, 9), (1, 200), (2, 9), (3, 200)] {
                let bytes = [&[size], &answer.as_bytes()[..answer.len() / cut]].concat();
                std::fs::write(corpus().join(format!("{number}-{cut}-{size}")), bytes).unwrap();
            }
        }
    }
    let mut count = 0;
    for entry in std::fs::read_dir(corpus()).unwrap() {
        entrepot_icap_proto::fuzz(&std::fs::read(entry.unwrap().path()).unwrap());
        count += 1;
    }
    assert!((30..=200).contains(&count), "{count} files");
}
