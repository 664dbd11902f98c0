//! The keys of the rounds, each bit as a word of zeros or of ones.

use zeroize::{Zeroize, ZeroizeOnDrop};

use super::wiring::{BLOCK, FROM, PC1, PC2, ROTATED};

/// The words of one round, those of the first S-box first.
pub(super) type Round = [u64; 48];

/// The rounds of DES in the order in which they are run.
pub(super) type Pass = [Round; 16];

/// The three passes of a decryption: the third key backwards, the second forwards, the first
/// backwards.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(super) struct Schedule(pub(super) [Pass; 3]);

impl Schedule {
    /// `complemented` are the bits that an S-box circuit leaves complemented in the half block that
    /// a round writes.
    pub(super) fn new(key: &[u8; 24], complemented: u32) -> Box<Self> {
        let mut schedule = Box::new(Schedule([[[0; 48]; 16]; 3]));
        let (keys, _) = key.as_chunks::<BLOCK>();
        for (number, (pass, key)) in schedule.0.iter_mut().zip(keys.iter().rev()).enumerate() {
            for (round, rotated) in pass.iter_mut().zip(ROTATED) {
                fill(round, u64::from_be_bytes(*key), rotated);
            }
            if number != 1 {
                pass.reverse();
            }
            for (at, round) in pass.iter_mut().enumerate() {
                // The half block that this round reads was written by every other round before it.
                let writes = at.div_ceil(2);
                if writes % 2 == 1 {
                    correct(round, complemented);
                }
            }
        }
        schedule
    }
}

/// All ones where the bit is set. No branch depends on it.
fn spread(bit: u64) -> u64 {
    0u64.wrapping_sub(bit & 1)
}

fn fill(round: &mut Round, key: u64, rotated: usize) {
    const HALF: usize = 28;
    for (word, chosen) in round.iter_mut().zip(PC2) {
        let half = chosen / HALF * HALF;
        let before = half + (chosen - half + rotated) % HALF;
        // `before` is below 56: the remainder is below 28, and `half` is 0 or 28.
        let bit = PC1[before];
        *word = spread(key >> (63 - bit));
    }
}

/// Has a round read the complement of bits that were written complemented.
fn correct(round: &mut Round, complemented: u32) {
    for (word, bit) in round.iter_mut().zip(FROM.iter().flatten()) {
        *word ^= spread(u64::from(complemented) >> bit);
    }
}
