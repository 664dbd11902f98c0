//! Replays the fuzzer's corpus on stable, each file also cut at every byte.

use std::path::Path;

#[test]
fn the_corpus_is_read_without_harm() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/openssh");
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        for end in 0..=bytes.len() {
            entrepot_openssh::fuzz(&bytes[..end]);
        }
        files += 1;
    }
    assert!(files >= 3, "the corpus is gone");
}
