//! DES over as many blocks as a vector has bits. The code is the same for every path, but a
//! function for AVX has to say so, and one that is generic cannot: so it is a macro.

/// The functions of a path, in whose module are the vector `V`, its `BYTES`, `Shift`, and what is
/// done with it: `load`, `store`, `splat`, `xor`, `and`, `left`, `right`; the S-boxes in `sboxes`.
macro_rules! kernel {
    ($(#[$feature:meta])?) => {
        use super::schedule::{Pass, Round, Schedule};
        use super::wiring::{BLOCK, FROM, IP, TO};

        pub(super) use sboxes::COMPLEMENTED;

        /// Bytes of as many blocks as a vector has bits.
        pub(super) const BATCH: usize = 64 * BYTES;

        /// Half a block: a vector for each bit.
        type Half = [V; 32];

        /// Decrypts whole blocks in place; `chain` is the ciphertext before them.
        $(#[$feature])?
        pub(super) fn decrypt(schedule: &Schedule, chain: &mut [u8; BLOCK], data: &mut [u8]) {
            let (batches, rest) = data.as_chunks_mut::<BATCH>();
            for batch in batches {
                decrypt_batch(schedule, chain, batch);
            }
            let whole = rest.len() / BLOCK * BLOCK;
            let Some((rest, _)) = rest.split_at_mut_checked(whole) else { return };
            let Some(last) = rest.last_chunk::<BLOCK>() else { return };
            let last = *last;
            let mut batch = [0; BATCH];
            batch.iter_mut().zip(rest.iter()).for_each(|(to, from)| *to = *from);
            decrypt_batch(schedule, chain, &mut batch);
            rest.iter_mut().zip(batch).for_each(|(to, from)| *to = from);
            *chain = last;
        }

        $(#[$feature])?
        fn decrypt_batch(schedule: &Schedule, chain: &mut [u8; BLOCK], batch: &mut [u8; BATCH]) {
            let Some(last) = batch.last_chunk::<BLOCK>().copied() else { return };
            let mut bits = [splat(0); 64];
            for (vector, bytes) in bits.iter_mut().zip(batch.as_chunks::<BYTES>().0) {
                *vector = load(bytes);
            }
            transpose(&mut bits);
            let (mut l, mut r) = ([splat(0); 32], [splat(0); 32]);
            // The permutation has numbers below 64.
            l.iter_mut().chain(&mut r).zip(IP).for_each(|(half, bit)| *half = bits[bit]);
            // The halves change places at the end of each DES, and the final permutation of one is
            // undone by the initial permutation of the next.
            let [third, second, first] = &schedule.0;
            des(&mut l, &mut r, third);
            des(&mut r, &mut l, second);
            des(&mut l, &mut r, first);
            r.iter().chain(&l).zip(IP).for_each(|(half, bit)| bits[bit] = *half);
            transpose(&mut bits);
            // From the end, so that the ciphertext before a vector is still there.
            for (at, vector) in bits.iter().enumerate().rev() {
                let before = previous(batch, at, chain);
                let plain = xor(*vector, load(&before));
                if let Some(bytes) = batch.as_chunks_mut::<BYTES>().0.get_mut(at) {
                    store(plain, bytes);
                }
            }
            *chain = last;
        }

        /// The ciphertext that lies a block before a vector's.
        #[inline]
        fn previous(batch: &[u8; BATCH], at: usize, chain: &[u8; BLOCK]) -> [u8; BYTES] {
            let start = (at * BYTES).checked_sub(BLOCK);
            let bytes = start.and_then(|start| batch.get(start..)?.first_chunk::<BYTES>());
            if let Some(bytes) = bytes {
                return *bytes;
            }
            let mut bytes = [0; BYTES];
            bytes.iter_mut().zip(chain.iter().chain(batch)).for_each(|(to, from)| *to = *from);
            bytes
        }

        /// Turns a square of 64 by 64 bits in each lane: the first vector gets the first bits of
        /// all blocks. Twice is nothing.
        $(#[$feature])?
        fn transpose(bits: &mut [V; 64]) {
            exchange::<32>(bits, 0x0000_0000_ffff_ffff);
            exchange::<16>(bits, 0x0000_ffff_0000_ffff);
            exchange::<8>(bits, 0x00ff_00ff_00ff_00ff);
            exchange::<4>(bits, 0x0f0f_0f0f_0f0f_0f0f);
            exchange::<2>(bits, 0x3333_3333_3333_3333);
            exchange::<1>(bits, 0x5555_5555_5555_5555);
        }

        /// Exchanges the squares of that width beside the diagonal.
        $(#[$feature])?
        #[inline]
        fn exchange<const WIDTH: Shift>(bits: &mut [V; 64], mask: u64) {
            let (width, mask) = (WIDTH as usize, splat(mask));
            for pair in bits.chunks_exact_mut(2 * width) {
                let (upper, lower) = pair.split_at_mut(width);
                for (upper, lower) in upper.iter_mut().zip(lower) {
                    let changed = and(xor(*upper, right::<WIDTH>(*lower)), mask);
                    *upper = xor(*upper, changed);
                    *lower = xor(*lower, left::<WIDTH>(changed));
                }
            }
        }

        /// DES between its permutations.
        $(#[$feature])?
        #[inline(never)]
        fn des(l: &mut Half, r: &mut Half, pass: &Pass) {
            let (pairs, _) = pass.as_chunks::<2>();
            for [one, other] in pairs {
                round(l, r, one);
                round(r, l, other);
            }
        }

        $(#[$feature])?
        #[inline]
        fn round(to: &mut Half, from: &Half, keys: &Round) {
            add::<0>(to, sboxes::s1(keyed::<0>(from, keys)));
            add::<1>(to, sboxes::s2(keyed::<1>(from, keys)));
            add::<2>(to, sboxes::s3(keyed::<2>(from, keys)));
            add::<3>(to, sboxes::s4(keyed::<3>(from, keys)));
            add::<4>(to, sboxes::s5(keyed::<4>(from, keys)));
            add::<5>(to, sboxes::s6(keyed::<5>(from, keys)));
            add::<6>(to, sboxes::s7(keyed::<6>(from, keys)));
            add::<7>(to, sboxes::s8(keyed::<7>(from, keys)));
        }

        /// What an S-box reads.
        $(#[$feature])?
        #[inline]
        fn keyed<const BOX: usize>(from: &Half, keys: &Round) -> [V; 6] {
            // The box is below 8: six words of 48 are its own, and its bits are below 32.
            let [a, b, c, d, e, f] = FROM[BOX];
            let key = 6 * BOX;
            [
                xor(from[a], splat(keys[key])),
                xor(from[b], splat(keys[key + 1])),
                // As above.
                xor(from[c], splat(keys[key + 2])),
                xor(from[d], splat(keys[key + 3])),
                xor(from[e], splat(keys[key + 4])),
                xor(from[f], splat(keys[key + 5])),
            ]
        }

        /// Adds what an S-box gives.
        $(#[$feature])?
        #[inline]
        fn add<const BOX: usize>(to: &mut Half, output: [V; 4]) {
            // The box is below 8, and its bits are below 32.
            let [a, b, c, d] = TO[BOX];
            let [p, q, s, t] = output;
            to[a] = xor(to[a], p);
            to[b] = xor(to[b], q);
            // As above.
            to[c] = xor(to[c], s);
            to[d] = xor(to[d], t);
        }
    };
}

pub(super) use kernel;
