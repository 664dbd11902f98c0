//! Triple DES beside the library's, on every path that this processor has.

use entrepot_nouns::Env;

use super::cbc::{Path, TripleDes};
use super::padded::PaddedDecryption;
use crate::algorithms::ContentCipher;
use crate::cipher::{ContentSecrets, Decryptor, Encryptor};

fn random(env: &Env, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    env.fill_random(&mut bytes);
    bytes
}

fn random_key(env: &Env) -> [u8; 24] {
    random(env, 24).try_into().unwrap()
}

fn random_iv(env: &Env) -> [u8; 8] {
    random(env, 8).try_into().unwrap()
}

/// What AWS-LC decrypts, without padding taken off.
fn by_the_library(key: &[u8; 24], iv: &[u8; 8], sealed: &[u8]) -> Vec<u8> {
    let way = crate::ffi::Way::Decrypt;
    let mut cipher = crate::ffi::Cipher::new(ContentCipher::TripleDesCbc, way, key, iv).unwrap();
    let mut plain = Vec::new();
    // A block more, so that none is held back as the one with the padding.
    cipher.update(&[sealed, &[0; 8]].concat(), &mut plain).unwrap();
    assert_eq!(plain.len(), sealed.len());
    plain
}

#[test]
fn the_example_of_the_standard_on_every_path() {
    // NIST SP 800-67 appendix B.1, spelled as there: each block for itself, so that each is a
    // message.
    let key: [u8; 24] = [
        0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
        0x01, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x01, 0x23,
    ];
    let plain = b"The qufck brown fox jump";
    let sealed: [u64; 3] = [0xa826_fd8c_e53b_855f, 0xcce2_1c81_1225_6fe6, 0x68d5_c05d_d9b6_b900];
    for path in Path::all() {
        for (plain, sealed) in plain.as_chunks::<8>().0.iter().zip(sealed) {
            let mut block = sealed.to_be_bytes();
            TripleDes::by(path, &key, [0; 8]).decrypt(&mut block);
            assert_eq!(block, *plain, "{path:?}");
        }
    }
}

#[test]
fn single_des_of_the_old_standard_on_every_path() {
    // NBS SP 500-20: variable plaintext, variable key, permutation operation and substitution
    // tables, some of each. Three equal keys are single DES.
    let table: [(u64, u64, u64); 11] = [
        (0x0101_0101_0101_0101, 0x8000_0000_0000_0000, 0x95f8_a5e5_dd31_d900),
        (0x0101_0101_0101_0101, 0x0000_0000_0000_0001, 0x166b_40b4_4aba_4bd6),
        (0x8001_0101_0101_0101, 0x0000_0000_0000_0000, 0x95a8_d728_13da_a94d),
        (0x0101_0101_0101_0102, 0x0000_0000_0000_0000, 0x869e_fd7f_9f26_5a09),
        (0x1046_9134_8998_0131, 0x0000_0000_0000_0000, 0x88d5_5e54_f54c_97b4),
        (0x7ca1_1045_4a1a_6e57, 0x01a1_d6d0_3977_6742, 0x690f_5b0d_9a26_939b),
        (0x0131_d961_9dc1_376e, 0x5cd5_4ca8_3def_57da, 0x7a38_9d10_354b_d271),
        (0x3849_674c_2602_319e, 0x5145_4b58_2ddf_440a, 0x7178_876e_01f1_9b2a),
        (0x0170_f175_468f_b5e6, 0x0756_d8e0_7747_61d2, 0x0cd3_da02_0021_dc09),
        (0x1c58_7f1c_1392_4fef, 0x3055_3228_6d6f_295a, 0x63fa_c0d0_34d9_f793),
        (0x0123_4567_89ab_cdef, 0x4e6f_7720_6973_2074, 0x3fa4_0e8a_984d_4815),
    ];
    for path in Path::all() {
        for (key, plain, sealed) in table {
            let key: [u8; 24] = [key.to_be_bytes(); 3].concat().try_into().unwrap();
            let mut block = sealed.to_be_bytes();
            TripleDes::by(path, &key, [0; 8]).decrypt(&mut block);
            assert_eq!(u64::from_be_bytes(block), plain, "{path:?}");
        }
    }
}

#[test]
fn every_length_up_to_five_batches_is_as_the_library_has_it() {
    let env = Env::simulated(1);
    let (key, iv) = (random_key(&env), random_iv(&env));
    for path in Path::all() {
        let most = 5 * path.batch_bytes() + 8;
        let sealed = random(&env, most);
        let expected = by_the_library(&key, &iv, &sealed);
        for length in (0..=most).step_by(8) {
            let mut data = sealed[..length].to_vec();
            let mut cipher = TripleDes::by(path, &key, iv);
            cipher.decrypt(&mut data);
            assert_eq!(data, expected[..length], "{path:?} {length}");
            let last = sealed[..length].last_chunk().copied().unwrap_or(iv);
            assert_eq!(cipher.chain, last);
        }
    }
}

#[test]
fn what_is_no_whole_block_stays_as_it_is() {
    let env = Env::simulated(2);
    let (key, iv) = (random_key(&env), random_iv(&env));
    let sealed = random(&env, 23);
    for path in Path::all() {
        let mut data = sealed.clone();
        TripleDes::by(path, &key, iv).decrypt(&mut data);
        assert_eq!(data[..16], by_the_library(&key, &iv, &sealed[..16]));
        assert_eq!(data[16..], sealed[16..]);
    }
}

#[test]
fn a_message_may_be_cut_at_every_edge() {
    let env = Env::simulated(3);
    let (key, iv) = (random_key(&env), random_iv(&env));
    for path in Path::all() {
        let batch = path.batch_bytes();
        let sealed = random(&env, 3 * batch);
        let expected = by_the_library(&key, &iv, &sealed);
        // Two cuts at whole blocks: what the first call leaves is what the second begins with.
        for first in [8, 16, batch - 8, batch, batch + 8, 2 * batch] {
            for second in [8, batch - 8, batch, batch + 8] {
                let mut data = sealed.clone();
                let mut cipher = TripleDes::by(path, &key, iv);
                let (one, rest) = data.split_at_mut(first);
                let (two, three) = rest.split_at_mut(second.min(rest.len()));
                [one, two, three].into_iter().for_each(|piece| cipher.decrypt(piece));
                assert_eq!(data, expected, "{path:?} {first} {second}");
            }
        }
    }
}

/// A message as a partner pads and encrypts it.
fn sealed(secrets: &ContentSecrets, plain: &[u8]) -> Vec<u8> {
    let mut output = Vec::new();
    let mut encryptor = Encryptor::new(ContentCipher::TripleDesCbc, secrets).unwrap();
    encryptor.update(plain, &mut output).unwrap();
    encryptor.finish(&mut output).unwrap();
    output
}

fn secrets(key: &[u8; 24], iv: &[u8; 8]) -> ContentSecrets {
    let mut secrets = ContentSecrets { key: zeroize::Zeroizing::new([0; 32]), iv: [0; 16] };
    secrets.key[..24].copy_from_slice(key);
    secrets.iv[..8].copy_from_slice(iv);
    secrets
}

#[test]
fn padded_messages_come_back_at_every_length_and_in_every_piece() {
    let env = Env::simulated(4);
    let (key, iv) = (random_key(&env), random_iv(&env));
    let secrets = secrets(&key, &iv);
    for path in Path::all() {
        let batch = path.batch_bytes();
        let lengths = [0, 1, 7, 8, 9, batch - 9, batch - 8, batch - 1, batch, batch + 1, 2 * batch];
        for length in lengths {
            let plain = random(&env, length);
            let sealed = sealed(&secrets, &plain);
            for piece in [5, 8, batch - 1, batch, batch + 3, 4 * batch] {
                let mut decryption = PaddedDecryption::with(TripleDes::by(path, &key, iv));
                let mut output = b"before".to_vec();
                sealed.chunks(piece).for_each(|piece| decryption.update(piece, &mut output));
                decryption.finish(&mut output).unwrap();
                assert_eq!(output, [b"before", &plain[..]].concat(), "{path:?} {length} {piece}");
            }
        }
    }
}

#[test]
fn padding_is_what_the_library_takes_for_it() {
    let env = Env::simulated(5);
    let (key, iv) = (random_key(&env), random_iv(&env));
    let finish = |sealed: &[u8]| {
        let mut decryption = PaddedDecryption::new(&key, iv);
        let mut output = Vec::new();
        decryption.update(sealed, &mut output);
        decryption.finish(&mut output).map(|()| output)
    };
    assert!(finish(&[]).is_err(), "a message has padding at least");
    let good = sealed(&secrets(&key, &iv), b"0123456789");
    assert_eq!(finish(&good).unwrap(), b"0123456789");
    assert!(finish(&good[..15]).is_err() && finish(&[&good[..], &[0]].concat()).is_err());
    // Every value of the last byte, and every change of one byte of the padding: the block before
    // is what is added to it.
    for at in 8..16 {
        for change in 0..=255 {
            let mut changed = good.clone();
            changed[at - 8] ^= change;
            let way = crate::ffi::Way::Decrypt;
            let kind = ContentCipher::TripleDesCbc;
            let mut cipher = crate::ffi::Cipher::new(kind, way, &key, &iv).unwrap();
            let mut expected = Vec::new();
            cipher.update(&changed, &mut expected).unwrap();
            let there = cipher.finish(&mut expected).is_ok();
            let found = finish(&changed);
            assert_eq!(found.is_ok(), there, "{at} {change}");
            assert!(found.is_err() || found.unwrap() == expected);
        }
    }
}

#[test]
fn keys_of_two_parts_and_odd_parity_decrypt() {
    let env = Env::simulated(6);
    let (key, iv) = (random_key(&env), random_iv(&env));
    // K1 K2 K1, K1 K1 K2, and K K K.
    for order in [[0, 8, 0], [0, 0, 8], [0, 0, 0]] {
        let key: Vec<u8> = order.iter().flat_map(|at| key[*at..*at + 8].to_vec()).collect();
        let key: [u8; 24] = key.try_into().unwrap();
        let sealed = sealed(&secrets(&key, &iv), b"an order");
        let other = key.map(|byte| byte ^ 1);
        for key in [key, other] {
            let mut output = Vec::new();
            let mut decryptor = Decryptor::new(ContentCipher::TripleDesCbc, &key, &iv).unwrap();
            decryptor.update(&sealed, &mut output).unwrap();
            decryptor.finish(&[], &mut output).unwrap();
            assert_eq!(output, b"an order");
        }
    }
    for (key, iv) in [(&[1u8; 16][..], &[1u8; 8][..]), (&[1; 24], &[1; 16]), (&[], &[])] {
        assert!(Decryptor::new(ContentCipher::TripleDesCbc, key, iv).is_err());
    }
}

/// The least time of several runs, in microseconds.
fn least(mut run: impl FnMut()) -> f64 {
    let timed = |run: &mut dyn FnMut()| {
        let begun = std::time::Instant::now();
        run();
        begun.elapsed().as_secs_f64() * 1e6
    };
    (0..40).map(|_| timed(&mut run)).fold(f64::INFINITY, f64::min)
}

/// `cargo test --release -p entrepot-crypto --lib tdes_speed -- --ignored --nocapture`
#[test]
#[ignore = "measures; the figures are in docs/performance.md"]
fn tdes_speed() {
    let env = Env::simulated(7);
    let (key, iv) = (random_key(&env), random_iv(&env));
    let secrets = secrets(&key, &iv);
    for length in [8, 64, 512, 1024, 4096, 16 << 10, 64 << 10, 1 << 20] {
        let sealed = sealed(&secrets, &random(&env, length - 1));
        let mut output = Vec::with_capacity(2 << 20);
        let library = least(|| {
            let (kind, way) = (ContentCipher::TripleDesCbc, crate::ffi::Way::Decrypt);
            output.clear();
            let mut cipher = crate::ffi::Cipher::new(kind, way, &key, &iv).unwrap();
            cipher.update(&sealed, &mut output).unwrap();
            cipher.finish(&mut output).unwrap();
        });
        assert_eq!(output.len(), length - 1);
        print!("{length:8} bytes: library {library:9.1} us");
        for path in Path::all() {
            let time = least(|| {
                output.clear();
                let mut decryption = PaddedDecryption::with(TripleDes::by(path, &key, iv));
                decryption.update(&sealed, &mut output);
                decryption.finish(&mut output).unwrap();
            });
            assert_eq!(output.len(), length - 1);
            print!("  {path:?} {time:8.1}");
        }
        println!();
    }
}
