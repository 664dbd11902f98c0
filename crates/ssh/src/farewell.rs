//! What a client is told whose connection ends before its key exchange begins: SSH_MSG_DISCONNECT
//! in clear text (RFC 4253 §11.1). Until NEWKEYS packets are not encrypted (§6), and either side
//! may disconnect at any time; OpenSSH, PuTTY and the libraries show the sentence.

use russh::Disconnect;

use crate::wire;

/// The number of the message SSH_MSG_DISCONNECT (RFC 4253 §12).
const DISCONNECT: u8 = 1;
/// A packet without encryption is a multiple of this long, its length field included.
const BLOCK_BYTES: usize = 8;
/// Least padding of a packet.
const LEAST_PADDING: usize = 4;

/// The packet that ends a connection, to be sent behind our identification line.
pub(crate) fn in_clear(reason: Disconnect, sentence: &str) -> Vec<u8> {
    let mut payload = vec![DISCONNECT];
    payload.extend_from_slice(&(reason as u32).to_be_bytes());
    wire::put(&mut payload, sentence.as_bytes());
    wire::put(&mut payload, b"en");
    // packet_length, padding_length, payload, padding (RFC 4253 §6).
    let unpadded = 4 + 1 + payload.len();
    let padding = BLOCK_BYTES - (unpadded + LEAST_PADDING) % BLOCK_BYTES + LEAST_PADDING;
    // Our sentences are short, and the padding is shorter than two blocks.
    let length = u32::try_from(1 + payload.len() + padding).unwrap_or(u32::MAX);
    let mut packet = length.to_be_bytes().to_vec();
    packet.push(u8::try_from(padding).unwrap_or(u8::MAX));
    packet.extend_from_slice(&payload);
    packet.resize(packet.len() + padding, 0);
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_has_whole_blocks_and_padding_enough() {
        for length in 0..64 {
            let packet = in_clear(Disconnect::ByApplication, &"x".repeat(length));
            assert_eq!(packet.len() % BLOCK_BYTES, 0, "{length}");
            let (head, rest) = packet.split_first_chunk::<4>().unwrap();
            assert_eq!(u32::from_be_bytes(*head) as usize, rest.len());
            let padding = usize::from(rest[0]);
            assert!((LEAST_PADDING..LEAST_PADDING + BLOCK_BYTES + 1).contains(&padding));
            let mut fields = &rest[1 + 5..rest.len() - padding];
            assert_eq!(rest[1..6], [1, 0, 0, 0, 11]);
            assert_eq!(wire::take(&mut fields).unwrap().len(), length);
            assert_eq!((wire::take(&mut fields), fields), (Some(&b"en"[..]), &b""[..]));
        }
    }
}
