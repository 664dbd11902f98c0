//! Triple DES in CBC (FIPS 46-3, SP 800-67), decryption only, by a boolean circuit over many blocks
//! at a time: each bit of a block is a vector of its own, which holds that bit of 64, 256 or 512
//! blocks. It takes a tenth to a thirtieth of the time of code with tables, and its time depends on
//! nothing but the length, which tables cannot have. Keys whose parts are equal, as partners with
//! two-key triple DES send them, are keys like others; the parity bits are ignored.
//!
//! Encryption in CBC cannot be done so, as each block needs the one before.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod cbc;
mod generator;
mod kernel;
mod padded;
mod portable;
mod schedule;
#[cfg(test)]
mod tests;
mod wiring;

pub(crate) use padded::PaddedDecryption;
