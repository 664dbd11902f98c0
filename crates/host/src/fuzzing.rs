//! One entry for the fuzzer: the first byte says what the others are.

use std::sync::{Arc, OnceLock};

use entrepot_tn3270_proto::CodePage;

use crate::model::{Model, check};
use crate::player::{Recording, fuzz_client};

/// A logo and a menu, with a question about the terminal between.
const RECORDED: &str = "\
< 0x0   fffd18fffa1801fff0fffd19fffb19fffd00fffb00
> 0x0   fffb18fffa180049424d2d333237382d322d45fff0fffb19fffd19fffb00fffd00
< 0x0   f5c21d60d3d6c7d61d4cffef
> 0x0   7d4040114040c1ffef
< 0x0   f3000501ff02ffef
> 0x0   88000481ffef
< 0x0   f1c21d60d4c5d5e4ffef
";

/// Feeds bytes of a fuzzer to the reader of models, to the compiler of recordings, or to a player,
/// as what a client sends.
pub fn fuzz(bytes: &[u8]) {
    static PAGE: OnceLock<Option<Arc<CodePage>>> = OnceLock::new();
    let page = PAGE.get_or_init(|| CodePage::new(37).map(Arc::new));
    let Some((page, (&kind, rest))) = page.as_ref().zip(bytes.split_first()) else { return };
    let text = String::from_utf8_lossy(rest);
    match kind % 3 {
        0 => {
            if let Ok(model) = Model::read(&text) {
                assert!(check(&model).iter().all(|finding| !finding.problem.is_empty()));
            }
        }
        1 => {
            if let Ok(recording) = Recording::compile("fuzz", &text, Arc::clone(page)) {
                fuzz_client(Arc::new(recording), &[]);
            }
        }
        _ => {
            if let Ok(recording) = Recording::compile("fuzz", RECORDED, Arc::clone(page)) {
                fuzz_client(Arc::new(recording), rest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_fuzzer_begins_with_does_no_harm() {
        let model = include_str!("../tests/models/loans.yaml");
        for end in (0..model.len()).step_by(7) {
            fuzz(&[&[0], &model.as_bytes()[..end]].concat());
            // Without a piece in its midst.
            let rest = &model.as_bytes()[(end + 11).min(model.len())..];
            fuzz(&[&[0], &model.as_bytes()[..end], rest].concat());
        }
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tn3270-proto/tests/traces");
        for entry in std::fs::read_dir(folder).unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            fuzz(&[&[1], bytes.as_slice()].concat());
            fuzz(&[&[1], &bytes[..bytes.len() / 2]].concat());
            fuzz(&[&[2], &bytes[..bytes.len().min(4000)]].concat());
        }
        let agreed: &[u8] = b"\xff\xfb\x18\xff\xfa\x18\x00IBM-3278-2-E\xff\xf0\
            \xff\xfb\x19\xff\xfd\x19\xff\xfb\x00\xff\xfd\x00";
        let keys: &[u8] = b"\x7d\xff\xef\x88\xff\xef\x6d\xff\xef\xff\xf5";
        for end in 0..=agreed.len() {
            fuzz(&[&[2], &agreed[..end], keys].concat());
        }
    }
}
