//! Replays the fuzzer's corpus, `fuzz/corpus/dav_proto`, on stable: a file is a body or a header.

use std::path::Path;

use entrepot_dav_proto::fuzz;

#[test]
fn the_corpus_passes() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/dav_proto");
    let entries = std::fs::read_dir(corpus).unwrap();
    let files: Vec<_> = entries.map(|entry| std::fs::read(entry.unwrap().path())).collect();
    assert!(files.len() >= 17, "the corpus is not there");
    for bytes in files {
        fuzz(&bytes.unwrap());
    }
}
