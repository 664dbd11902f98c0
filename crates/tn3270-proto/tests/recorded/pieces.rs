//! Whatever the pieces in which the bytes come, the screen is the same, and what is no data stream
//! does no harm.

use std::sync::Arc;

use entrepot_tn3270_proto::model::Device;
use entrepot_tn3270_proto::observer::{Observer, Seen};
use entrepot_tn3270_proto::trace::{self, Origin};
use entrepot_tn3270_proto::{CodePage, Terminal, fuzz};

use crate::{blocks, feed, terminal, traces};

/// Takes all of the bytes, and leaves what goes to the host.
fn take(terminal: &mut Terminal, mut bytes: &[u8]) {
    while terminal.next(&mut bytes).is_some() {}
}

#[test]
fn the_pieces_in_which_bytes_come_change_nothing() {
    let mut shown = 0;
    for (name, text) in traces() {
        let (mut whole, mut split) = (terminal(Device::default()), terminal(Device::default()));
        for block in blocks(&text) {
            take(&mut whole, &block);
            block.chunks(1).for_each(|byte| take(&mut split, byte));
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
    for (name, wanted) in [("hello", "ello"), ("sruvm", "LOGOFF AT")] {
        let found = traces.iter().find(|(known, _)| known == name);
        let (_, text) = found.unwrap();
        let mut terminal = terminal(Device::default());
        let mut seen = false;
        for block in blocks(text) {
            feed(&mut terminal, &block);
            seen |= terminal.rows().iter().any(|row| row.contains(wanted));
        }
        assert!(seen, "{name}: {:#?}", terminal.rows());
    }
}

/// As the fuzzer feeds them: as streams and records of either end, and as texts of traces.
#[test]
fn what_the_fuzzer_begins_with_does_no_harm() {
    for (_, text) in traces() {
        for kind in 0..6 {
            for block in blocks(&text) {
                fuzz(&[&[kind], block.as_slice()].concat());
                // Cut off in its midst.
                fuzz(&[&[kind], &block[..block.len() / 2]].concat());
            }
            fuzz(&[&[kind], text.as_bytes()].concat());
        }
    }
}

/// What is seen of either side, put together again, is what was sent.
#[test]
fn an_observer_loses_nothing_of_either_side() {
    let mut records = 0;
    for (name, text) in traces() {
        let mut observer = Observer::new(Arc::new(CodePage::new(37).unwrap()));
        let (mut sent, mut seen) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
        for block in trace::read(&text) {
            let side = usize::from(block.origin == Origin::Host);
            sent[side].extend_from_slice(&block.bytes);
            let mut input = block.bytes.as_slice();
            while let Some(piece) = observer.next(block.origin, &mut input) {
                records += usize::from(matches!(piece, Seen::Record { .. }));
                piece.put(&mut seen[side]);
            }
        }
        // What a trace breaks off in is no record yet.
        assert!(sent[0].starts_with(&seen[0]) && sent[0].len() < seen[0].len() + 8, "{name}");
        assert!(sent[1].starts_with(&seen[1]), "{name}");
    }
    assert!(records > 300, "{records}");
}
