//! Recorded sessions of real hosts, and malformed streams, fed to a terminal: test data of the
//! x3270 project, `tests/traces`.

mod pieces;
mod s3270;

use std::sync::Arc;

use entrepot_tn3270_proto::client::{ClientOptions, Wish};
use entrepot_tn3270_proto::model::Device;
use entrepot_tn3270_proto::trace::{self, Origin};
use entrepot_tn3270_proto::{CodePage, NumericFields, Terminal, TerminalOptions};

/// The traces by their names, without the ending.
fn traces() -> Vec<(String, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/traces");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut traces: Vec<(String, String)> = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "trc"))
        .map(|path| {
            let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
            (path.file_stem().unwrap().to_string_lossy().into_owned(), text)
        })
        .collect();
    traces.sort();
    assert_eq!(traces.len(), 50);
    traces
}

/// What the host sent, a write each.
fn blocks(text: &str) -> impl Iterator<Item = Vec<u8>> {
    let blocks = trace::read(text).into_iter();
    blocks.filter(|block| block.origin == Origin::Host).map(|block| block.bytes)
}

fn terminal(device: Device) -> Terminal {
    Terminal::new(TerminalOptions {
        client: ClientOptions { device, start_tls: Wish::Refuse, ..ClientOptions::default() },
        page: Arc::new(CodePage::new(37).unwrap()),
        numeric: NumericFields::TakeAll,
    })
}

fn feed(terminal: &mut Terminal, mut bytes: &[u8]) {
    while terminal.next(&mut bytes).is_some() {}
    terminal.output().clear();
}
