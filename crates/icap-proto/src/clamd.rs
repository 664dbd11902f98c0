//! clamd's own way (`clamd(8)`, INSTREAM): the file in blocks, and a line for an answer.

use crate::head::IcapError;
use crate::limits::{CHUNK_BYTES, HEAD_BYTES, THREAT_CHARACTERS};
use crate::scan::Verdict;

/// One file on one connection; used as [`crate::Scan`] is.
#[derive(Debug)]
pub struct ClamdScan {
    output: Vec<u8>,
    input: Vec<u8>,
    left: u64,
    verdict: Option<Verdict>,
}

impl ClamdScan {
    /// Begins with the command.
    pub fn new(size: u64) -> ClamdScan {
        let mut scan = ClamdScan {
            output: b"zINSTREAM\0".to_vec(),
            input: Vec::new(),
            left: size,
            verdict: None,
        };
        scan.end_if_sent();
        scan
    }

    /// What is to be sent; empty if nothing is.
    pub fn output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// How many bytes of content it takes now.
    pub fn room(&self) -> Option<usize> {
        let open = usize::try_from(self.left).unwrap_or(usize::MAX).min(CHUNK_BYTES);
        (open > 0 && self.verdict.is_none()).then_some(open)
    }

    /// The next bytes of the file, at most as many as [`ClamdScan::room`] says; others are left
    /// out, and then the file never ends.
    pub fn content(&mut self, bytes: &[u8]) {
        let taken = bytes.get(..self.room().unwrap_or_default()).unwrap_or(bytes);
        // At most CHUNK_BYTES.
        let Ok(length @ 1..) = u32::try_from(taken.len()) else { return };
        self.output.extend_from_slice(&length.to_be_bytes());
        self.output.extend_from_slice(taken);
        self.left = self.left.saturating_sub(u64::from(length));
        self.end_if_sent();
    }

    fn end_if_sent(&mut self) {
        if self.left == 0 {
            self.output.extend_from_slice(&0u32.to_be_bytes());
        }
    }

    /// Takes what the server sent.
    ///
    /// # Errors
    /// It is no answer of clamd.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(), IcapError> {
        self.input.extend_from_slice(bytes);
        let Some(end) = self.input.iter().position(|byte| *byte == 0) else {
            let long = self.input.len() > HEAD_BYTES;
            return if long { Err(IcapError::HeadTooLong) } else { Ok(()) };
        };
        if self.verdict.is_none() {
            let answer = self.input.get(..end).unwrap_or_default();
            self.verdict = Some(self.meaning(&String::from_utf8_lossy(answer)));
        }
        Ok(())
    }

    fn meaning(&self, answer: &str) -> Verdict {
        let plain = answer.chars().map(|c| if c.is_control() { ' ' } else { c });
        let answer: String = plain.take(THREAT_CHARACTERS).collect();
        let said = answer.strip_prefix("stream: ").unwrap_or(&answer);
        match (said, said.strip_suffix(" FOUND")) {
            (_, Some(threat)) => Verdict::Found { threat: threat.to_owned() },
            ("OK", None) if self.left == 0 => Verdict::Clean,
            _ => Verdict::Unsure { why: format!("it answered '{said}'") },
        }
    }

    /// The connection has ended.
    ///
    /// # Errors
    /// It ended before the answer did.
    pub fn closed(&self) -> Result<(), IcapError> {
        if self.verdict.is_some() { Ok(()) } else { Err(IcapError::Cut) }
    }

    /// What the server says, once it has said it.
    pub fn verdict(&self) -> Option<&Verdict> {
        self.verdict.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(answer: &[u8]) -> Option<Verdict> {
        let mut scan = ClamdScan::new(3);
        scan.content(b"abc");
        assert_eq!(scan.output(), b"zINSTREAM\0\0\0\0\x03abc\0\0\0\0");
        for byte in answer {
            scan.receive(&[*byte]).unwrap();
        }
        scan.verdict().cloned()
    }

    #[test]
    fn a_table_of_answers() {
        assert_eq!(judged(b"stream: OK\0"), Some(Verdict::Clean));
        assert_eq!(judged(b"stream: OK"), None);
        let threat = "Eicar-Test.UNOFFICIAL".to_owned();
        let found = judged(b"stream: Eicar-Test.UNOFFICIAL FOUND\0");
        assert_eq!(found, Some(Verdict::Found { threat }));
        for unsure in [
            &b"INSTREAM size limit exceeded. ERROR\0"[..],
            b"stream: Can't allocate memory ERROR\0",
            b"UNKNOWN COMMAND\0",
            b"stream: NOT OK\0",
            b"\0",
        ] {
            assert!(matches!(judged(unsure), Some(Verdict::Unsure { .. })), "{unsure:?}");
        }
    }

    /// Of such a file it has seen a part.
    #[test]
    fn clean_before_the_end_is_not_clean() {
        let mut scan = ClamdScan::new(3);
        scan.content(b"ab");
        scan.receive(b"stream: OK\0").unwrap();
        assert!(matches!(scan.verdict(), Some(Verdict::Unsure { .. })));
        assert_eq!(ClamdScan::new(0).output(), b"zINSTREAM\0\0\0\0\0");
        assert_eq!(ClamdScan::new(1).closed(), Err(IcapError::Cut));
    }
}
