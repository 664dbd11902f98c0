#![cfg(test)]
//! Writes circuits as Rust, as rustfmt would have them.

use super::search::{Circuit, Gate, Signal};
use crate::tdes::wiring::TO;

/// For which path circuits of two inputs are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    Avx2,
    Portable,
}

const TITLE: &str = "//! The S-boxes of DES as circuits, made by `generator.rs`: do not edit.\n";

pub(super) fn ternary(circuits: &[Circuit; 8]) -> String {
    let mut text = format!("{TITLE}\nuse super::{{V, gate}};\n\n{}", complemented(circuits));
    for (number, circuit) in circuits.iter().enumerate() {
        text.push_str("\n#[target_feature(enable = \"avx512f,avx512bw\")]\n");
        open(&mut text, number);
        for (at, gate) in circuit.gates.iter().enumerate() {
            let [a, b, c] = gate.of.map(value);
            text.push_str(&format!(
                "    let n{at} = gate::<{:#04x}>({a}, {b}, {c});\n",
                gate.truth
            ));
        }
        close(&mut text, circuit);
    }
    text
}

pub(super) fn binary(circuits: &[Circuit; 8], target: Target) -> String {
    let mut text =
        format!("{TITLE}\nuse super::{{V, and, and_not, or, xor}};\n\n{}", complemented(circuits));
    for (number, circuit) in circuits.iter().enumerate() {
        text.push('\n');
        if target == Target::Avx2 {
            text.push_str("#[target_feature(enable = \"avx2\")]\n");
        }
        open(&mut text, number);
        let mut inside = None;
        for (at, gate) in circuit.gates.iter().enumerate() {
            let named = |of: usize| match &inside {
                Some(expression) if of == at + 5 => String::clone(expression),
                _ => value(of),
            };
            let [a, b, _] = gate.of.map(named);
            let (name, a, b) = match gate.truth {
                0b1000 => ("and", a, b),
                0b0100 => ("and_not", a, b),
                0b0010 => ("and_not", b, a),
                0b0110 => ("xor", a, b),
                _ => ("or", a, b),
            };
            let expression = format!("{name}({a}, {b})");
            if is_for_the_next(circuit, at) && expression.len() < 40 {
                inside = Some(expression);
            } else {
                inside = None;
                text.push_str(&format!("    let n{at} = {expression};\n"));
            }
        }
        close(&mut text, circuit);
    }
    text
}

/// Whether the gate behind this one is the only one that reads it: then it is written inside that.
fn is_for_the_next(circuit: &Circuit, at: usize) -> bool {
    let this = at + 6;
    let reads = |gate: &Gate| gate.of[..2].iter().filter(|of| **of == this).count();
    let is_output = |output: &Signal| matches!(output, Signal::Value { at, .. } if *at == this);
    let all: usize = circuit.gates.iter().map(reads).sum();
    let next = circuit.gates.get(at + 1).map_or(0, reads);
    all == 1 && next == 1 && !circuit.outputs.iter().any(is_output)
}

/// Which bits of the half block that a round writes come out complemented.
fn complemented(circuits: &[Circuit; 8]) -> String {
    let mut bits = 0u32;
    for (circuit, to) in circuits.iter().zip(TO) {
        for (output, place) in circuit.outputs.iter().zip(to) {
            if matches!(output, Signal::Value { complemented: true, .. }) {
                bits |= 1 << place;
            }
        }
    }
    format!("pub(in crate::tdes) const COMPLEMENTED: u32 = {bits:#010x};\n")
}

fn open(text: &mut String, number: usize) {
    text.push_str("#[inline]\n");
    text.push_str(&format!("pub(super) fn s{}(b: [V; 6]) -> [V; 4] {{\n", number + 1));
    text.push_str("    let [b0, b1, b2, b3, b4, b5] = b;\n");
}

fn close(text: &mut String, circuit: &Circuit) {
    let outputs: Vec<String> = circuit
        .outputs
        .iter()
        .map(|output| match output {
            Signal::Value { at, .. } => value(*at),
            Signal::Constant(_) => unreachable!("no output of a box is constant"),
        })
        .collect();
    text.push_str(&format!("    [{}]\n}}\n", outputs.join(", ")));
}

/// The name of a value: the inputs come first.
fn value(at: usize) -> String {
    at.checked_sub(6).map_or(format!("b{at}"), |gate| format!("n{gate}"))
}
