//! Recorded sessions of real hosts, and malformed streams: whatever the pieces in which the bytes
//! come, the screen is the same, and what is no data stream does no harm.

use std::sync::Arc;

use entrepot_tn3270_proto::client::{ClientOptions, Wish};
use entrepot_tn3270_proto::trace::{self, Origin};
use entrepot_tn3270_proto::{CodePage, NumericFields, Terminal, TerminalOptions};

fn terminal() -> Terminal {
    Terminal::new(TerminalOptions {
        client: ClientOptions { start_tls: Wish::Refuse, ..ClientOptions::default() },
        page: Arc::new(CodePage::named("037").unwrap()),
        numeric: NumericFields::TakeAll,
    })
}

fn feed(terminal: &mut Terminal, mut bytes: &[u8]) {
    while terminal.next(&mut bytes).is_some() {}
}

/// The traces with what hosts sent in them, by name.
fn traces() -> Vec<(String, Vec<Vec<u8>>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/traces");
    let mut found = Vec::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "trc") {
            continue;
        }
        let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
        let blocks = trace::read(&text).into_iter();
        let blocks = blocks.filter(|block| block.origin == Origin::Host).map(|block| block.bytes);
        found.push((path.display().to_string(), blocks.collect()));
    }
    found.sort();
    found
}

#[test]
fn the_pieces_in_which_bytes_come_change_nothing() {
    let traces = traces();
    assert_eq!(traces.len(), 50);
    let mut shown = 0;
    for (name, blocks) in traces {
        let (mut whole, mut split) = (terminal(), terminal());
        for block in &blocks {
            feed(&mut whole, block);
            block.chunks(1).for_each(|byte| feed(&mut split, byte));
            assert_eq!(whole.rows(), split.rows(), "{name}");
            assert_eq!(whole.lock(), split.lock(), "{name}");
            assert_eq!(whole.screen().cursor(), split.screen().cursor(), "{name}");
            assert_eq!(*whole.output(), *split.output(), "{name}");
        }
        shown += usize::from(whole.rows().iter().any(|row| !row.trim().is_empty()));
    }
    assert!(shown > 20, "only {shown} traces show something");
}

#[test]
fn sessions_of_hosts_show_what_a_person_saw() {
    let traces = traces();
    for (name, wanted) in [("hello.trc", "ello"), ("sruvm.trc", "LOGOFF AT")] {
        let found = traces.iter().find(|(path, _)| path.ends_with(&format!("/{name}")));
        let (_, blocks) = found.unwrap();
        let mut terminal = terminal();
        let mut seen = false;
        for block in blocks {
            feed(&mut terminal, block);
            seen |= terminal.rows().iter().any(|row| row.contains(wanted));
        }
        assert!(seen, "{name}: {:#?}", terminal.rows());
    }
}
