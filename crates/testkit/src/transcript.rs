//! Transcripts as text files: found, replayed, compared or written anew. The protocol crates,
//! which depend on nothing of ours, take this file in by its path.

use std::path::{Path, PathBuf};

/// The `*.txt` of a folder with their text, by name.
pub fn all(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("a folder of transcripts")
        .map(|entry| entry.expect("a transcript").path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "txt"))
        .collect();
    files.sort();
    assert!(files.len() >= 10, "the transcripts are not there");
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("a transcript is text");
        (path, text)
    };
    files.into_iter().map(read).collect()
}

/// Fails unless each is replayed as it is written; with `UPDATE_TRANSCRIPTS=1` writes what was
/// replayed.
pub fn check(folder: &Path, replay: impl Fn(&str) -> String) {
    for (path, text) in all(folder) {
        let replayed = replay(&text);
        if std::env::var_os("UPDATE_TRANSCRIPTS").is_some() {
            std::fs::write(&path, &replayed).expect("a transcript is written");
        } else {
            assert_same(&path, &text, &replayed);
        }
    }
}

/// Fails with the first line that differs.
pub fn assert_same(path: &Path, want: &str, got: &str) {
    let pairs = want.lines().map(Some).chain([None]).zip(got.lines().map(Some).chain([None]));
    let differs = pairs.enumerate().find(|(_, (want, got))| want != got);
    if let Some((number, (want, got))) = differs {
        panic!("{}:\nline {}\nwant {want:?}\ngot  {got:?}", path.display(), number + 1);
    }
    assert!(want == got, "{}: ends of lines differ", path.display());
}

/// The bytes of a text with `\r`, `\n`, `\0`, `\xNN`, and `\` before anything else.
pub fn unescape(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text.bytes());
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'\\' => match rest.next().expect("something behind a backslash") {
                b'n' => b'\n',
                b'r' => b'\r',
                b'0' => 0,
                b'x' => {
                    let digits = [rest.next(), rest.next()].map(|digit| digit.expect("a digit"));
                    let digits = std::str::from_utf8(&digits).expect("digits");
                    u8::from_str_radix(digits, 16).expect("hexadecimal digits")
                }
                other => other,
            },
            other => other,
        });
    }
    bytes
}
