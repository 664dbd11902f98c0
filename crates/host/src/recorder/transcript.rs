//! What passes between a terminal and its host, as the text of a trace without secrets.

use std::sync::Arc;

use entrepot_nouns::Timestamp;
use entrepot_tn3270_proto::CodePage;
use entrepot_tn3270_proto::enhanced::DataType;
use entrepot_tn3270_proto::observer::{Observer, Seen};
use entrepot_tn3270_proto::trace::{self, Block, Origin};
use entrepot_tn3270_proto::typed::mask_hidden;

/// Follows one session.
#[derive(Debug)]
pub(crate) struct Transcript {
    observer: Observer,
}

impl Transcript {
    pub(crate) fn new(page: Arc<CodePage>) -> Self {
        Transcript { observer: Observer::new(page) }
    }

    /// The lines for bytes of the host, as they came.
    pub(crate) fn host(&mut self, bytes: &[u8], at: Timestamp) -> String {
        let mut input = bytes;
        while self.observer.next(Origin::Host, &mut input).is_some() {}
        trace::write(&Block { origin: Origin::Host, time: time(at), bytes: bytes.to_vec() })
    }

    /// The lines for bytes of the terminal: a block for each whole piece, with what was typed where
    /// nothing is shown masked.
    pub(crate) fn terminal(&mut self, bytes: &[u8], at: Timestamp) -> String {
        let mut input = bytes;
        let mut lines = String::new();
        while let Some(mut seen) = self.observer.next(Origin::Terminal, &mut input) {
            self.mask(&mut seen);
            let mut bytes = Vec::new();
            seen.put(&mut bytes);
            if !bytes.is_empty() {
                let block = Block { origin: Origin::Terminal, time: time(at), bytes };
                lines.push_str(&trace::write(&block));
            }
        }
        lines
    }

    fn mask(&self, seen: &mut Seen) {
        match seen {
            Seen::Record { header, data } => {
                match header.map_or(DataType::Data3270, |header| header.data_type) {
                    DataType::Data3270 => mask_hidden(data, self.observer.screen()),
                    DataType::Nvt => mask_text(data),
                    _ => {}
                }
            }
            Seen::Text(text) => mask_text(text),
            seen => seen.mask_environment(),
        }
    }
}

/// Nobody can tell a password from a command on a network virtual terminal.
fn mask_text(text: &mut [u8]) {
    text.iter_mut().filter(|byte| !byte.is_ascii_control()).for_each(|byte| *byte = b'*');
}

/// `20241103.175904.105`, as traces have it.
fn time(at: Timestamp) -> Option<String> {
    /// Of the letters up to the thousandths.
    const LENGTH: usize = 19;
    at.compact().get(..LENGTH).map(|text| text.replace('-', "."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transcript() -> Transcript {
        Transcript::new(Arc::new(CodePage::new(37).unwrap()))
    }

    const AT: Timestamp = Timestamp(1_730_656_744_105_000);

    #[test]
    fn secrets_are_masked_and_their_length_stays() {
        let mut transcript = transcript();
        let negotiation = b"\xff\xfd\x19\xff\xfb\x19\xff\xfd\x00\xff\xfb\x00";
        transcript.host(negotiation, AT);
        // A hidden field at 161.
        let lines =
            transcript.host(b"\xf5\xc2\x11\xc2\x60\x1d\x4c\x11\xc3\xf0\x1d\x60\xff\xef", AT);
        assert!(lines.starts_with("20241103.175904.105 Host sent\n< 0x0   f5c211"), "{lines}");
        assert_eq!(transcript.terminal(b"\x7d\xc2\x61\x11\xc2", AT), "");
        let lines = transcript.terminal(b"\x61\xe2\xe3\xff\xff\xff\xef\xff\xfa\x27", AT);
        // The code FF was sent as two bytes, and its mask is one.
        let wanted = "20241103.175904.105 Terminal sent\n> 0x0   7dc26111c2615c5c5cffef\n";
        assert_eq!(lines, wanted);
        let lines = transcript.terminal(b"\x00\x00USER\x01me\xff\xf0", AT);
        assert!(lines.contains(&hex(b"USER\x01**")), "{lines}");
    }

    #[test]
    fn what_is_typed_without_records_is_masked() {
        let lines = transcript().terminal(b"SECRET\r\n", AT);
        assert!(lines.ends_with("> 0x0   2a2a2a2a2a2a0d0a\n"), "{lines}");
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
