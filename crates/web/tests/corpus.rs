//! Replays the fuzzer's corpus on stable, and makes it: with `UPDATE_CORPUS=1` the seeds below are
//! written to `fuzz/corpus/web`.

use std::path::{Path, PathBuf};

use entrepot_web::fuzz;

/// What of a request is read: a range with the size of its file, a path, fields of tus, a form.
const SEEDS: [(&str, &[u8]); 25] = [
    ("range", b"\0\0\0\0\0\0\x01\0bytes=1-9"),
    ("range-end", b"\0\0\0\0\0\0\x01\0bytes=-300"),
    ("range-several", b"\0\0\0\0\0\0\x01\0bytes=1-2,5-"),
    ("path", b"/a%20b/%C3%A4.txt"),
    ("path-climbs", b"/a/%2e%2e/b"),
    ("path-slash", b"/a%2fb"),
    ("path-cut", b"/a%2"),
    ("metadata", b"filename d29ybGRfZG9taW5hdGlvbl9wbGFuLnBkZg==,is_confidential"),
    ("metadata-folder", b"name YS50eHQ=, folder L2lu, conflict cmVwbGFjZQ==, filetype eC95"),
    ("metadata-twice", b"a YQ==,a YQ=="),
    ("metadata-bad", b"filename ?, b /w==, \xc3\xa4 YQ=="),
    ("checksum", b"sha1 Kq5sNclPz7QV2+lfQIuc6R7oRu0="),
    ("checksum-crc32c", b"crc32c 4waSgw=="),
    ("checksum-short", b"sha256 YQ=="),
    ("digest", b"sha-256=:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=:"),
    ("digest-several", b"unixsum=:AAA=:, crc32c=:4waSgw==:;q=1, sha=:YQ==:"),
    ("digest-open", b"sha-256=:ungW"),
    ("number", b"0001048576"),
    ("number-large", b"18446744073709551616"),
    ("number-sign", b"+1"),
    (
        "form",
        b"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\n\
        content\r\n--b--\r\n",
    ),
    (
        "form-several",
        b"--b\r\nContent-Disposition: form-data; name=\"replace\"\r\n\r\ntrue\r\n--b\r\n\
        Content-Disposition: form-data; name=\"mkdir\"\r\n\r\nd\r\n--b\r\nContent-Disposition: \
        form-data; name=\"file\"; filename*=UTF-8''%C3%A4\r\nContent-Type: x/y\r\n\r\n\r\n--b--",
    ),
    ("form-cut", b"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a"),
    ("form-nested", b"--b\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\n--b--"),
    ("form-none", b"--b--"),
];

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/web")
}

fn files() -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(corpus()).unwrap();
    entries.map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect()
}

#[test]
fn the_corpus_passes() {
    if std::env::var_os("UPDATE_CORPUS").is_some() {
        std::fs::create_dir_all(corpus()).unwrap();
        for (name, bytes) in SEEDS {
            std::fs::write(corpus().join(name), bytes).unwrap();
        }
    }
    let files = files();
    assert!(files.len() >= SEEDS.len(), "the corpus is not there");
    for bytes in &files {
        fuzz(bytes);
    }
}

/// A poor man's fuzzer for stable: random changes to what gets far.
#[test]
fn random_changes_pass() {
    let files = files();
    let mut seed = 0x2545_f491_4f6c_dd1du64;
    let mut next = move |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % below as u64).unwrap()
    };
    for _ in 0..20_000 {
        let mut bytes = files[next(files.len())].clone();
        for _ in 0..=next(3) {
            let at = next(bytes.len());
            bytes[at] = u8::try_from(next(256)).unwrap();
        }
        if next(4) == 0 {
            bytes.truncate(next(bytes.len()));
        }
        fuzz(&bytes);
    }
}
