//! Where bits go: the tables of FIPS 46-3, counted from 0. In a circuit they are names of vectors,
//! and cost nothing.

/// Bytes of a block.
pub(super) const BLOCK: usize = 8;

/// The initial permutation: bit i of the permuted block is this bit of the block. The first half
/// is L, the second R; the final permutation is its inverse.
pub(super) const IP: [usize; 64] = [
    57, 49, 41, 33, 25, 17, 9, 1, 59, 51, 43, 35, 27, 19, 11, 3, 61, 53, 45, 37, 29, 21, 13, 5, 63,
    55, 47, 39, 31, 23, 15, 7, 56, 48, 40, 32, 24, 16, 8, 0, 58, 50, 42, 34, 26, 18, 10, 2, 60, 52,
    44, 36, 28, 20, 12, 4, 62, 54, 46, 38, 30, 22, 14, 6,
];

/// The expansion E: which bits of the half block each S-box reads.
pub(super) const FROM: [[usize; 6]; 8] = [
    [31, 0, 1, 2, 3, 4],
    [3, 4, 5, 6, 7, 8],
    [7, 8, 9, 10, 11, 12],
    [11, 12, 13, 14, 15, 16],
    [15, 16, 17, 18, 19, 20],
    [19, 20, 21, 22, 23, 24],
    [23, 24, 25, 26, 27, 28],
    [27, 28, 29, 30, 31, 0],
];

/// The permutation P: which bits of the other half block the outputs of each S-box change.
pub(super) const TO: [[usize; 4]; 8] = [
    [8, 16, 22, 30],
    [12, 27, 1, 17],
    [23, 15, 29, 5],
    [25, 19, 9, 0],
    [7, 13, 24, 2],
    [3, 28, 10, 18],
    [31, 11, 21, 6],
    [4, 26, 14, 20],
];

/// Permuted choice 1: the bits of a key that count, C before D.
pub(super) const PC1: [usize; 56] = [
    56, 48, 40, 32, 24, 16, 8, 0, 57, 49, 41, 33, 25, 17, 9, 1, 58, 50, 42, 34, 26, 18, 10, 2, 59,
    51, 43, 35, 62, 54, 46, 38, 30, 22, 14, 6, 61, 53, 45, 37, 29, 21, 13, 5, 60, 52, 44, 36, 28,
    20, 12, 4, 27, 19, 11, 3,
];

/// Permuted choice 2: the bits of C and D that are the key of a round.
pub(super) const PC2: [usize; 48] = [
    13, 16, 10, 23, 0, 4, 2, 27, 14, 5, 20, 9, 22, 18, 11, 3, 25, 7, 15, 6, 26, 19, 12, 1, 40, 51,
    30, 36, 46, 54, 29, 39, 50, 44, 32, 47, 43, 48, 38, 55, 33, 52, 45, 41, 49, 35, 28, 31,
];

/// By how many bits C and D have been rotated to the left in each round.
pub(super) const ROTATED: [usize; 16] = [1, 2, 4, 6, 8, 10, 12, 14, 15, 17, 19, 21, 23, 25, 27, 28];
