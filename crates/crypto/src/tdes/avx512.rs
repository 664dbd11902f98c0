//! 512 blocks at a time, with AVX-512 F and BW, which has any function of three vectors as one
//! instruction.

mod sboxes;

use std::arch::x86_64::{
    __m512i, _mm512_and_si512, _mm512_loadu_si512, _mm512_set_epi64, _mm512_set1_epi64,
    _mm512_shuffle_epi8, _mm512_slli_epi64, _mm512_srli_epi64, _mm512_storeu_si512,
    _mm512_ternarylogic_epi64, _mm512_xor_si512,
};

use super::kernel::kernel;

type V = __m512i;
type Shift = u32;
const BYTES: usize = 64;

kernel!(#[target_feature(enable = "avx512f,avx512bw")]);

/// Turns the bytes of each lane, so that the first bit of a block is the highest one; twice is
/// nothing.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn turned(vector: V) -> V {
    // Places within 16 bytes, the last byte first.
    const HIGH: i64 = 0x0809_0a0b_0c0d_0e0f;
    const LOW: i64 = 0x0001_0203_0405_0607;
    let order = _mm512_set_epi64(HIGH, LOW, HIGH, LOW, HIGH, LOW, HIGH, LOW);
    _mm512_shuffle_epi8(vector, order)
}

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn load(bytes: &[u8; BYTES]) -> V {
    // SAFETY: reads the 64 bytes of the array, which need not be aligned.
    turned(unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) })
}

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn store(vector: V, bytes: &mut [u8; BYTES]) {
    // SAFETY: writes the 64 bytes of the array, which need not be aligned.
    unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), turned(vector)) }
}

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn splat(word: u64) -> V {
    _mm512_set1_epi64(word.cast_signed())
}

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn xor(a: V, b: V) -> V {
    _mm512_xor_si512(a, b)
}

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn and(a: V, b: V) -> V {
    _mm512_and_si512(a, b)
}

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn left<const BITS: Shift>(a: V) -> V {
    _mm512_slli_epi64::<BITS>(a)
}

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn right<const BITS: Shift>(a: V) -> V {
    _mm512_srli_epi64::<BITS>(a)
}

/// The function of a truth table: bit `a << 2 | b << 1 | c` of it is the value.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn gate<const TRUTH: i32>(a: V, b: V, c: V) -> V {
    _mm512_ternarylogic_epi64::<TRUTH>(a, b, c)
}
