//! What an SSH client sends in clear text, up to its NEWKEYS: who it is and which algorithms it
//! offers (RFC 4253 §4.2, §6, §7).

use std::sync::Arc;

use entrepot_net::meter::{SessionMeter, Stage};
use parking_lot::Mutex;

use crate::kexinit::{Algorithms, KEXINIT, Offer};
use crate::limits::{CLEAR_PACKET_BYTES, IDENTIFICATION_BYTES};

/// SSH_MSG_NEWKEYS (RFC 4253 §12).
const NEWKEYS: u8 = 21;

/// The algorithms a client offers, shared by its stream, which reads them, and its handler. Empty
/// until its KEXINIT has come, and after [`ClientOffer::agree`].
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientOffer(Arc<Mutex<Option<Box<Offer>>>>);

impl ClientOffer {
    /// True if the offer has come and fulfils the condition.
    pub(crate) fn is(&self, condition: impl FnOnce(&Offer) -> bool) -> bool {
        self.0.lock().as_deref().is_some_and(condition)
    }

    /// Takes the offer out and answers what follows from it.
    pub(crate) fn agree(&self, on: impl FnOnce(&Offer) -> Algorithms) -> Option<Algorithms> {
        self.0.lock().take().map(|offer| on(&offer))
    }
}

/// Follows the clear text of a peer up to its NEWKEYS: identification line, then packets of
/// `uint32 packet_length, byte padding_length, byte type, …` (RFC 4253 §6).
#[derive(Debug, Default)]
pub(crate) struct ClearText {
    state: Clear,
    /// The packet that is coming, as long as it may be a KEXINIT.
    kexinit: Vec<u8>,
    offer: ClientOffer,
}

#[derive(Debug)]
enum Clear {
    Line(Vec<u8>),
    Length { seen: u8, value: u32 },
    Body { length: u32, seen: u32, kind: u8 },
    Done,
}

impl Default for Clear {
    fn default() -> Self {
        Clear::Line(Vec::new())
    }
}

impl ClearText {
    pub(crate) fn offer(&self) -> ClientOffer {
        self.offer.clone()
    }

    pub(crate) fn is_done(&self) -> bool {
        matches!(self.state, Clear::Done)
    }

    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        meter: &SessionMeter,
    ) -> Result<(), &'static str> {
        let mut rest = bytes;
        while let [first, tail @ ..] = rest {
            match &mut self.state {
                Clear::Done => return Ok(()),
                Clear::Line(line) => {
                    line.push(*first);
                    if *first == b'\n' {
                        meter.identified(line);
                        meter.advance(Stage::Identified);
                        self.state = Clear::Length { seen: 0, value: 0 };
                    } else if line.len() >= IDENTIFICATION_BYTES {
                        return Err("the identification line is too long");
                    }
                    rest = tail;
                }
                Clear::Length { seen, value } => {
                    *value = (*value << 8) | u32::from(*first);
                    *seen += 1;
                    let (whole, length) = (*seen == 4, *value);
                    if whole && (length == 0 || length > CLEAR_PACKET_BYTES) {
                        return Err("a packet before the key exchange is too long");
                    }
                    if whole {
                        self.state = Clear::Body { length, seen: 0, kind: 0 };
                    }
                    rest = tail;
                }
                Clear::Body { .. } => rest = self.body(rest, meter),
            }
        }
        Ok(())
    }

    /// Goes on in the body of a packet; answers what is behind it.
    fn body<'a>(&mut self, bytes: &'a [u8], meter: &SessionMeter) -> &'a [u8] {
        let Clear::Body { length, seen, kind } = &mut self.state else { return bytes };
        let missing = usize::try_from(*length - *seen).unwrap_or(usize::MAX);
        let (here, behind) = bytes.split_at_checked(missing).unwrap_or((bytes, &[]));
        if *seen <= 1
            && let Some(byte) = here.get(usize::from(*seen == 0))
        {
            *kind = *byte;
        }
        *seen += u32::try_from(here.len()).unwrap_or(u32::MAX);
        if *seen <= 1 || *kind == KEXINIT {
            self.kexinit.extend_from_slice(here);
        }
        if *seen >= *length {
            let packet = std::mem::take(&mut self.kexinit);
            if *kind == KEXINIT {
                *self.offer.0.lock() = Offer::parse(&packet).map(Box::new);
                meter.advance(Stage::Exchanging);
            }
            self.state = if *kind == NEWKEYS {
                meter.advance(Stage::Encrypted);
                Clear::Done
            } else {
                Clear::Length { seen: 0, value: 0 }
            };
        }
        behind
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use entrepot_nouns::Env;

    use super::*;

    pub(crate) fn packet(kind: u8, length: usize) -> Vec<u8> {
        let mut bytes = u32::try_from(length).unwrap().to_be_bytes().to_vec();
        bytes.extend([4, kind]);
        bytes.resize(4 + length, 0);
        bytes
    }

    pub(crate) fn opening() -> Vec<u8> {
        let mut bytes = b"SSH-2.0-test\r\n".to_vec();
        bytes.extend(packet(KEXINIT, 700));
        bytes.extend(packet(30, 44));
        bytes.extend(packet(NEWKEYS, 12));
        bytes
    }

    #[test]
    fn the_stage_is_the_same_however_the_bytes_are_split() {
        let bytes = opening();
        for split in 0..bytes.len() {
            let meter = SessionMeter::new(Env::simulated(1));
            let mut clear = ClearText::default();
            clear.receive(&bytes[..split], &meter).unwrap();
            clear.receive(&bytes[split..], &meter).unwrap();
            assert!(clear.is_done(), "split at {split}");
            assert_eq!(meter.client(), "SSH-2.0-test");
        }
        let meter = SessionMeter::new(Env::simulated(1));
        let mut clear = ClearText::default();
        for byte in &bytes {
            clear.receive(&[*byte], &meter).unwrap();
        }
        assert!(clear.is_done());
        // Behind NEWKEYS everything is encrypted and may look like anything.
        clear.receive(&[0xff; 8], &meter).unwrap();
    }

    #[test]
    fn the_offer_of_a_client_is_heard_however_it_is_cut() {
        let mut body = vec![4, KEXINIT];
        body.extend([7; 16]);
        for list in ["curve25519-sha256", "ssh-ed25519", "a,aes128-gcm@openssh.com", "b", "c", "d"]
        {
            body.extend(u32::try_from(list.len()).unwrap().to_be_bytes());
            body.extend(list.as_bytes());
        }
        let packet = [&u32::try_from(body.len()).unwrap().to_be_bytes()[..], &body].concat();
        for cut in 1..packet.len() {
            let meter = SessionMeter::new(Env::simulated(1));
            let mut clear = ClearText::default();
            clear.receive(b"SSH-2.0-x\r\n", &meter).unwrap();
            clear.receive(&packet[..cut], &meter).unwrap();
            assert!(!clear.offer().is(|_| true), "cut at {cut}");
            clear.receive(&packet[cut..], &meter).unwrap();
            assert!(clear.offer().is(|offer| offer.has_cipher(&["aes128-gcm@openssh.com", "b"])));
            assert!(clear.kexinit.capacity() == 0, "it is kept no longer than needed");
        }
    }
}
