//! A message that comes in pieces and ends with padding (RFC 5652 §6.3).

use subtle::{Choice, ConditionallySelectable as _, ConstantTimeEq as _, ConstantTimeLess as _};

use super::cbc::TripleDes;
use super::wiring::BLOCK;

/// The length is not that of whole blocks, or the padding is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BadPadding;

/// Decrypts a message and takes its padding off.
pub(crate) struct PaddedDecryption {
    cipher: TripleDes,
    /// Ciphertext that is no full batch yet, or that may be the end.
    held: Vec<u8>,
}

impl PaddedDecryption {
    pub(crate) fn new(key: &[u8; 24], iv: [u8; BLOCK]) -> Self {
        Self::with(TripleDes::new(key, iv))
    }

    pub(super) fn with(cipher: TripleDes) -> Self {
        PaddedDecryption { cipher, held: Vec::new() }
    }

    /// Appends full batches. The last block always stays, as it ends with padding.
    pub(crate) fn update(&mut self, input: &[u8], output: &mut Vec<u8>) {
        let batch = self.cipher.batch_bytes();
        let ready = (self.held.len() + input.len()).saturating_sub(1) / batch * batch;
        if ready == 0 {
            self.held.extend_from_slice(input);
            return;
        }
        let start = output.len();
        output.append(&mut self.held);
        output.extend_from_slice(input);
        let (_, data) = output.split_at_mut(start);
        let (whole, rest) = data.split_at_mut(ready);
        self.held.extend_from_slice(rest);
        self.cipher.decrypt(whole);
        output.truncate(start + ready);
    }

    /// Appends the rest without its padding.
    pub(crate) fn finish(mut self, output: &mut Vec<u8>) -> Result<(), BadPadding> {
        let length = self.held.len();
        if !length.is_multiple_of(BLOCK) {
            return Err(BadPadding);
        }
        self.cipher.decrypt(&mut self.held);
        let padding = self.held.last_chunk::<BLOCK>().and_then(padding_bytes).ok_or(BadPadding)?;
        output.extend_from_slice(self.held.get(..length - padding).unwrap_or_default());
        Ok(())
    }
}

/// How many bytes of the last block are padding, if it ends with so many bytes of that value. Which
/// byte is wrong changes nothing about the time.
fn padding_bytes(block: &[u8; BLOCK]) -> Option<usize> {
    let &[.., count] = block;
    let most = 8u8;
    let mut good = !count.ct_eq(&0) & !most.ct_lt(&count);
    for (before, byte) in (0..most).zip(block.iter().rev()) {
        let is_padding: Choice = before.ct_lt(&count);
        let expected = u8::conditional_select(byte, &count, is_padding);
        good &= byte.ct_eq(&expected);
    }
    bool::from(good).then_some(usize::from(count))
}
