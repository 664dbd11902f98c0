//! 64 blocks at a time, in words that every processor has.

mod sboxes;

use super::kernel::kernel;

type V = u64;
type Shift = u32;
const BYTES: usize = 8;

kernel!();

/// The first bit of a block is the highest one.
#[inline]
fn load(bytes: &[u8; BYTES]) -> V {
    u64::from_be_bytes(*bytes)
}

#[inline]
fn store(vector: V, bytes: &mut [u8; BYTES]) {
    *bytes = vector.to_be_bytes();
}

#[inline]
fn splat(word: u64) -> V {
    word
}

#[inline]
fn xor(a: V, b: V) -> V {
    a ^ b
}

#[inline]
fn and(a: V, b: V) -> V {
    a & b
}

#[inline]
fn or(a: V, b: V) -> V {
    a | b
}

/// `a` where `b` is not.
#[inline]
fn and_not(a: V, b: V) -> V {
    a & !b
}

#[inline]
fn left<const BITS: Shift>(a: V) -> V {
    a << BITS
}

#[inline]
fn right<const BITS: Shift>(a: V) -> V {
    a >> BITS
}
