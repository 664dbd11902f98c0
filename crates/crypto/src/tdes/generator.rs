#![cfg(test)]
//! Makes the circuits of the S-boxes, `sboxes.rs` of each path: `UPDATE_CIRCUITS=1 cargo test -p
//! entrepot-crypto circuits` writes them, and without that variable the same test holds that the
//! files are what is made here.
//!
//! A circuit is found by the method of M. Kwan, "Reducing the Gate Count of Bitslice DES" (2000),
//! with a random choice where his tries everything. What computes a table is looked for among the
//! gates that are there: one gate, one more gate over them, two more gates. If there is none, an
//! input is chosen, each half of the table is found with the other half left open, and joined. A
//! seed fixes every choice; those below are the best of many (`look_for_better_circuits`).

mod emit;
mod search;

use std::path::PathBuf;

use search::{Circuit, Gates, search};

/// The S-boxes of FIPS 46-3, each as four rows of sixteen columns.
const S: [[u8; 64]; 8] = [
    [
        14, 4, 13, 1, 2, 15, 11, 8, 3, 10, 6, 12, 5, 9, 0, 7, 0, 15, 7, 4, 14, 2, 13, 1, 10, 6, 12,
        11, 9, 5, 3, 8, 4, 1, 14, 8, 13, 6, 2, 11, 15, 12, 9, 7, 3, 10, 5, 0, 15, 12, 8, 2, 4, 9,
        1, 7, 5, 11, 3, 14, 10, 0, 6, 13,
    ],
    [
        15, 1, 8, 14, 6, 11, 3, 4, 9, 7, 2, 13, 12, 0, 5, 10, 3, 13, 4, 7, 15, 2, 8, 14, 12, 0, 1,
        10, 6, 9, 11, 5, 0, 14, 7, 11, 10, 4, 13, 1, 5, 8, 12, 6, 9, 3, 2, 15, 13, 8, 10, 1, 3, 15,
        4, 2, 11, 6, 7, 12, 0, 5, 14, 9,
    ],
    [
        10, 0, 9, 14, 6, 3, 15, 5, 1, 13, 12, 7, 11, 4, 2, 8, 13, 7, 0, 9, 3, 4, 6, 10, 2, 8, 5,
        14, 12, 11, 15, 1, 13, 6, 4, 9, 8, 15, 3, 0, 11, 1, 2, 12, 5, 10, 14, 7, 1, 10, 13, 0, 6,
        9, 8, 7, 4, 15, 14, 3, 11, 5, 2, 12,
    ],
    [
        7, 13, 14, 3, 0, 6, 9, 10, 1, 2, 8, 5, 11, 12, 4, 15, 13, 8, 11, 5, 6, 15, 0, 3, 4, 7, 2,
        12, 1, 10, 14, 9, 10, 6, 9, 0, 12, 11, 7, 13, 15, 1, 3, 14, 5, 2, 8, 4, 3, 15, 0, 6, 10, 1,
        13, 8, 9, 4, 5, 11, 12, 7, 2, 14,
    ],
    [
        2, 12, 4, 1, 7, 10, 11, 6, 8, 5, 3, 15, 13, 0, 14, 9, 14, 11, 2, 12, 4, 7, 13, 1, 5, 0, 15,
        10, 3, 9, 8, 6, 4, 2, 1, 11, 10, 13, 7, 8, 15, 9, 12, 5, 6, 3, 0, 14, 11, 8, 12, 7, 1, 14,
        2, 13, 6, 15, 0, 9, 10, 4, 5, 3,
    ],
    [
        12, 1, 10, 15, 9, 2, 6, 8, 0, 13, 3, 4, 14, 7, 5, 11, 10, 15, 4, 2, 7, 12, 9, 5, 6, 1, 13,
        14, 0, 11, 3, 8, 9, 14, 15, 5, 2, 8, 12, 3, 7, 0, 4, 10, 1, 13, 11, 6, 4, 3, 2, 12, 9, 5,
        15, 10, 11, 14, 1, 7, 6, 0, 8, 13,
    ],
    [
        4, 11, 2, 14, 15, 0, 8, 13, 3, 12, 9, 7, 5, 10, 6, 1, 13, 0, 11, 7, 4, 9, 1, 10, 14, 3, 5,
        12, 2, 15, 8, 6, 1, 4, 11, 13, 12, 3, 7, 14, 10, 15, 6, 8, 0, 5, 9, 2, 6, 11, 13, 8, 1, 4,
        10, 7, 9, 5, 0, 15, 14, 2, 3, 12,
    ],
    [
        13, 2, 8, 4, 6, 15, 11, 1, 10, 9, 3, 14, 5, 0, 12, 7, 1, 15, 13, 8, 10, 3, 7, 4, 12, 5, 6,
        11, 0, 14, 9, 2, 7, 11, 4, 1, 9, 12, 14, 2, 0, 6, 10, 13, 15, 3, 5, 8, 2, 1, 14, 7, 4, 10,
        8, 13, 15, 12, 9, 0, 3, 5, 6, 11,
    ],
];

/// Seeds of the best circuits that were found, and how many gates each has.
const TERNARY: [(u64, usize); 8] =
    [(5203, 31), (3502, 30), (10718, 29), (623, 20), (1989, 31), (40, 32), (356, 30), (1429, 30)];
const BINARY: [(u64, usize); 8] =
    [(100506, 68), (401661, 56), (1266, 63), (687, 48), (27, 66), (491, 63), (1455, 62), (332, 62)];

/// The truth table of an output of a box, its bit x for the input x; output 0 is the highest bit.
fn table(of_box: usize, output: usize) -> u64 {
    (0..64).fold(0, |table, input| {
        let (row, column) = ((input >> 5 & 1) << 1 | input & 1, input >> 1 & 15);
        let bit = S[of_box][row * 16 + column] >> (3 - output) & 1;
        table | u64::from(bit) << input
    })
}

fn tables(of_box: usize) -> [u64; 4] {
    std::array::from_fn(|output| table(of_box, output))
}

fn circuits(gates: Gates) -> [Circuit; 8] {
    let recorded = match gates {
        Gates::Ternary => TERNARY,
        Gates::Binary => BINARY,
    };
    std::array::from_fn(|of_box| {
        let (seed, size) = recorded[of_box];
        let circuit = search(gates, tables(of_box), seed, size).expect("the recorded size");
        assert_eq!(circuit.gates.len(), size, "S{}", of_box + 1);
        circuit
    })
}

fn holds(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/tdes").join(name);
    if std::env::var_os("UPDATE_CIRCUITS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap();
    assert!(there == text, "{name} is not what is generated: run with UPDATE_CIRCUITS=1");
}

#[test]
fn ternary_circuits_are_what_is_generated() {
    holds("avx512/sboxes.rs", &emit::ternary(&circuits(Gates::Ternary)));
}

#[test]
fn binary_circuits_are_what_is_generated() {
    let circuits = circuits(Gates::Binary);
    holds("avx2/sboxes.rs", &emit::binary(&circuits, emit::Target::Avx2));
    holds("portable/sboxes.rs", &emit::binary(&circuits, emit::Target::Portable));
}

/// `SECONDS=60 cargo test --release -p entrepot-crypto better_circuits -- --ignored --nocapture`
#[test]
#[ignore = "takes minutes; finds seeds for the tables above"]
fn look_for_better_circuits() {
    let seconds = std::env::var("SECONDS").map_or(1, |text| text.parse().unwrap());
    for gates in [Gates::Ternary, Gates::Binary] {
        for of_box in 0..8 {
            let (begun, mut best) = (std::time::Instant::now(), (0, 200));
            for seed in 0.. {
                if let Some(found) = search(gates, tables(of_box), seed, best.1 - 1) {
                    best = (seed, found.gates.len());
                }
                if begun.elapsed().as_secs() >= seconds {
                    break;
                }
            }
            println!("{gates:?} S{}: {best:?}", of_box + 1);
            assert!(best.1 < 200);
        }
    }
}
