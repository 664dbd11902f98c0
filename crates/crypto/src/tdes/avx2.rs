//! 256 blocks at a time, with AVX2.

mod sboxes;

use std::arch::x86_64::{
    __m256i, _mm256_and_si256, _mm256_andnot_si256, _mm256_loadu_si256, _mm256_or_si256,
    _mm256_set1_epi64x, _mm256_setr_epi8, _mm256_shuffle_epi8, _mm256_slli_epi64,
    _mm256_srli_epi64, _mm256_storeu_si256, _mm256_xor_si256,
};

use super::kernel::kernel;

type V = __m256i;
type Shift = i32;
const BYTES: usize = 32;

kernel!(#[target_feature(enable = "avx2")]);

/// Turns the bytes of each lane, so that the first bit of a block is the highest one; twice is
/// nothing.
#[target_feature(enable = "avx2")]
#[inline]
fn turned(vector: V) -> V {
    let order = _mm256_setr_epi8(
        7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13,
        12, 11, 10, 9, 8,
    );
    _mm256_shuffle_epi8(vector, order)
}

#[target_feature(enable = "avx2")]
#[inline]
fn load(bytes: &[u8; BYTES]) -> V {
    // SAFETY: reads the 32 bytes of the array, which need not be aligned.
    turned(unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) })
}

#[target_feature(enable = "avx2")]
#[inline]
fn store(vector: V, bytes: &mut [u8; BYTES]) {
    // SAFETY: writes the 32 bytes of the array, which need not be aligned.
    unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), turned(vector)) }
}

#[target_feature(enable = "avx2")]
#[inline]
fn splat(word: u64) -> V {
    _mm256_set1_epi64x(word.cast_signed())
}

#[target_feature(enable = "avx2")]
#[inline]
fn xor(a: V, b: V) -> V {
    _mm256_xor_si256(a, b)
}

#[target_feature(enable = "avx2")]
#[inline]
fn and(a: V, b: V) -> V {
    _mm256_and_si256(a, b)
}

#[target_feature(enable = "avx2")]
#[inline]
fn or(a: V, b: V) -> V {
    _mm256_or_si256(a, b)
}

/// `a` where `b` is not.
#[target_feature(enable = "avx2")]
#[inline]
fn and_not(a: V, b: V) -> V {
    _mm256_andnot_si256(b, a)
}

#[target_feature(enable = "avx2")]
#[inline]
fn left<const BITS: Shift>(a: V) -> V {
    _mm256_slli_epi64::<BITS>(a)
}

#[target_feature(enable = "avx2")]
#[inline]
fn right<const BITS: Shift>(a: V) -> V {
    _mm256_srli_epi64::<BITS>(a)
}
