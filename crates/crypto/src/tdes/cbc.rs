//! Blocks that are chained, and which instructions decrypt them.

use super::portable;
use super::schedule::Schedule;
use super::wiring::BLOCK;
#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};

/// Which instructions are used. A value is there only where this processor has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Path {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Portable,
}

impl Path {
    /// Those that this processor has, the fastest first.
    pub(super) fn all() -> impl Iterator<Item = Path> {
        #[cfg(target_arch = "x86_64")]
        let wide = {
            let wider = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
            let wide = is_x86_feature_detected!("avx2");
            [wider.then_some(Path::Avx512), wide.then_some(Path::Avx2)]
        };
        #[cfg(not(target_arch = "x86_64"))]
        let wide = [None];
        wide.into_iter().flatten().chain([Path::Portable])
    }

    pub(super) fn batch_bytes(self) -> usize {
        match self {
            #[cfg(target_arch = "x86_64")]
            Path::Avx512 => avx512::BATCH,
            #[cfg(target_arch = "x86_64")]
            Path::Avx2 => avx2::BATCH,
            Path::Portable => portable::BATCH,
        }
    }

    fn complemented(self) -> u32 {
        match self {
            #[cfg(target_arch = "x86_64")]
            Path::Avx512 => avx512::COMPLEMENTED,
            #[cfg(target_arch = "x86_64")]
            Path::Avx2 => avx2::COMPLEMENTED,
            Path::Portable => portable::COMPLEMENTED,
        }
    }
}

/// Decrypts one message.
pub(super) struct TripleDes {
    path: Path,
    schedule: Box<Schedule>,
    /// The block of ciphertext before the next one; at first the IV.
    pub(super) chain: [u8; BLOCK],
}

impl TripleDes {
    pub(super) fn new(key: &[u8; 24], iv: [u8; BLOCK]) -> Self {
        Self::by(Path::all().next().unwrap_or(Path::Portable), key, iv)
    }

    pub(super) fn by(path: Path, key: &[u8; 24], iv: [u8; BLOCK]) -> Self {
        TripleDes { path, schedule: Schedule::new(key, path.complemented()), chain: iv }
    }

    /// How many bytes are decrypted at a time; a batch that is not full costs as much.
    pub(super) fn batch_bytes(&self) -> usize {
        self.path.batch_bytes()
    }

    /// Decrypts whole blocks where they lie. What is behind the last whole block stays as it is.
    pub(super) fn decrypt(&mut self, data: &mut [u8]) {
        let (schedule, chain) = (&self.schedule, &mut self.chain);
        match self.path {
            // SAFETY: `Path::all` gives the path only where the processor has AVX-512 F and BW.
            #[cfg(target_arch = "x86_64")]
            Path::Avx512 => unsafe { avx512::decrypt(schedule, chain, data) },
            // SAFETY: `Path::all` gives the path only where the processor has AVX2.
            #[cfg(target_arch = "x86_64")]
            Path::Avx2 => unsafe { avx2::decrypt(schedule, chain, data) },
            Path::Portable => portable::decrypt(schedule, chain, data),
        }
    }
}
