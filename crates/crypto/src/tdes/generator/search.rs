#![cfg(test)]
//! The search for one circuit: the choices of a seed, taken as they come.

/// Which gates a circuit may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gates {
    /// Any function of three values.
    Ternary,
    /// And, or, exclusive or, and-not of two values; whether a value is complemented is kept beside
    /// it and costs nothing.
    Binary,
}

/// A gate over values: 0 to 5 are the inputs b0 to b5, 6 and on the gates before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gate {
    pub(super) of: [usize; 3],
    /// Ternary: bit `a << 2 | b << 1 | c` is the value for those inputs. Binary: bit `a << 1 | b`,
    /// and the lowest is 0.
    pub(super) truth: u8,
}

/// A value, perhaps complemented, or a constant.
#[derive(Clone, Copy, Debug)]
pub(super) enum Signal {
    Constant(bool),
    Value { at: usize, complemented: bool },
}

/// The circuit of a box.
pub(super) struct Circuit {
    pub(super) gates: Vec<Gate>,
    pub(super) outputs: [Signal; 4],
}

const INPUTS: usize = 6;

/// What is to be computed: a table, of which only the rows in `cared` count.
#[derive(Clone, Copy)]
struct Wanted {
    table: u64,
    cared: u64,
}

struct Search {
    kind: Gates,
    /// What each value is for each input.
    tables: Vec<u64>,
    gates: Vec<Gate>,
    most: usize,
    random: u64,
}

/// The circuit that a seed leads to, unless it has more than so many gates.
pub(super) fn search(kind: Gates, tables: [u64; 4], seed: u64, most: usize) -> Option<Circuit> {
    let input = |bit: usize| (0..64).fold(0, |table, x: u64| table | (x >> (5 - bit) & 1) << x);
    let mut search = Search {
        kind,
        tables: (0..INPUTS).map(input).collect(),
        gates: Vec::new(),
        most,
        random: seed.wrapping_mul(0xd134_2543_de82_ef95),
    };
    let mut order = [0, 1, 2, 3];
    search.shuffle(&mut order);
    let mut outputs = [Signal::Constant(false); 4];
    for output in order {
        let wanted = Wanted { table: tables[output], cared: !0 };
        outputs[output] = search.find(wanted, 0)?;
        assert_eq!(search.table(outputs[output]), tables[output]);
    }
    Some(Circuit { gates: search.gates, outputs })
}

impl Search {
    /// By SplitMix64, a generator of which nothing depends but which circuit is tried.
    fn below(&mut self, bound: usize) -> usize {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    fn shuffle(&mut self, list: &mut [usize]) {
        for at in (1..list.len()).rev() {
            let other = self.below(at + 1);
            list.swap(at, other);
        }
    }

    fn table(&self, signal: Signal) -> u64 {
        match signal {
            Signal::Constant(value) => 0u64.wrapping_sub(u64::from(value)),
            Signal::Value { at, complemented: true } => !self.tables[at],
            Signal::Value { at, complemented: false } => self.tables[at],
        }
    }

    fn has_room_for(&self, gates: usize) -> bool {
        self.gates.len() + gates <= self.most
    }

    fn add(&mut self, gate: Gate, table: u64) -> Option<Signal> {
        self.gates.push(gate);
        self.tables.push(table);
        let at = self.tables.len() - 1;
        self.has_room_for(0).then_some(Signal::Value { at, complemented: false })
    }

    fn ternary(&mut self, of: [usize; 3], truth: u8) -> Option<Signal> {
        let inputs = of.map(|at| self.tables[at]);
        let table = (0..8)
            .filter(|row| truth >> row & 1 == 1)
            .fold(0, |table, row| table | rows3(inputs, row));
        self.add(Gate { of, truth }, table)
    }

    /// Any function of two values: a value that is there already, or a gate.
    fn binary(&mut self, a: usize, b: usize, truth: u8) -> Option<Signal> {
        let complemented = truth & 1 == 1;
        let truth = if complemented { truth ^ 0xf } else { truth };
        let (x, y) = (self.tables[a], self.tables[b]);
        let table = match truth {
            0 => return Some(Signal::Constant(complemented)),
            0b1100 => return Some(Signal::Value { at: a, complemented }),
            0b1010 => return Some(Signal::Value { at: b, complemented }),
            0b1000 => x & y,
            0b0100 => x & !y,
            0b0010 => y & !x,
            0b0110 => x ^ y,
            _ => x | y,
        };
        for (same, turned) in [(table, false), (!table, true)] {
            if let Some(at) = self.tables.iter().position(|it| *it == same) {
                return Some(Signal::Value { at, complemented: complemented ^ turned });
            }
        }
        let added = self.add(Gate { of: [a, b, 0], truth }, table)?;
        Some(if complemented { complement(added) } else { added })
    }

    /// A signal that is as wanted, with as few gates more as can be seen. `None` where there would
    /// be too many. Inputs in `used` have been split by.
    fn find(&mut self, wanted: Wanted, used: u8) -> Option<Signal> {
        if let Some(there) = self.there(wanted) {
            return Some(there);
        }
        if !self.has_room_for(1) {
            return None;
        }
        let mut order: Vec<usize> = (0..self.tables.len()).collect();
        self.shuffle(&mut order);
        let found = match self.kind {
            Gates::Ternary => self.ternary_of_two(wanted, &order),
            Gates::Binary => self.binary_of_two(wanted, &order),
        };
        if let Some(found) = found {
            return found;
        }
        let found = match self.kind {
            Gates::Ternary => self.ternary_of_three(wanted, &order),
            Gates::Binary if self.has_room_for(2) => self.binary_of_three(wanted, &order),
            Gates::Binary => None,
        };
        if let Some(found) = found {
            return found;
        }
        if self.kind == Gates::Ternary
            && self.has_room_for(2)
            && let Some(found) = self.ternary_of_five(wanted, &order)
        {
            return found;
        }
        self.split(wanted, used)
    }

    fn there(&self, wanted: Wanted) -> Option<Signal> {
        let Wanted { table, cared } = wanted;
        if table & cared == 0 || !table & cared == 0 {
            return Some(Signal::Constant(table & cared != 0));
        }
        self.tables.iter().enumerate().find_map(|(at, there)| match (there ^ table) & cared {
            0 => Some(Signal::Value { at, complemented: false }),
            all if all == cared => Some(Signal::Value { at, complemented: true }),
            _ => None,
        })
    }

    fn binary_of_two(&mut self, wanted: Wanted, order: &[usize]) -> Option<Option<Signal>> {
        for (i, a) in order.iter().enumerate() {
            for b in &order[..i] {
                if let Some(truth) = truth2(self.tables[*a], self.tables[*b], wanted) {
                    return Some(self.binary(*a, *b, truth));
                }
            }
        }
        None
    }

    fn ternary_of_two(&mut self, wanted: Wanted, order: &[usize]) -> Option<Option<Signal>> {
        for (i, a) in order.iter().enumerate() {
            for b in &order[..i] {
                if let Some(truth) = truth2(self.tables[*a], self.tables[*b], wanted) {
                    let both = |row: &u8| truth >> (row >> 1) & 1 == 1;
                    let truth = (0..8).filter(both).fold(0, |all, row| all | 1 << row);
                    return Some(self.ternary([*a, *b, *a], truth));
                }
            }
        }
        None
    }

    /// A gate over a value and one new gate.
    fn binary_of_three(&mut self, wanted: Wanted, order: &[usize]) -> Option<Option<Signal>> {
        for (i, a) in order.iter().enumerate() {
            for b in &order[..i] {
                let (x, y) = (self.tables[*a], self.tables[*b]);
                let inner = [(8u8, x & y), (4, x & !y), (2, y & !x), (6, x ^ y), (14, x | y)];
                for (truth, table) in inner {
                    for c in order.iter().filter(|c| *c != a && *c != b) {
                        let Some(outer) = truth2(table, self.tables[*c], wanted) else { continue };
                        let inner = self.binary(*a, *b, truth);
                        return Some(inner.and_then(|inner| self.binary_over(inner, *c, outer)));
                    }
                }
            }
        }
        None
    }

    fn binary_over(&mut self, inner: Signal, c: usize, truth: u8) -> Option<Signal> {
        match inner {
            Signal::Value { at, complemented: false } => self.binary(at, c, truth),
            // The rows where the inner value is 0 and where it is 1 change places.
            Signal::Value { at, .. } => self.binary(at, c, truth >> 2 | (truth & 3) << 2),
            Signal::Constant(_) => unreachable!("the inner gate is a function of both"),
        }
    }

    fn ternary_of_three(&mut self, wanted: Wanted, order: &[usize]) -> Option<Option<Signal>> {
        for (i, a) in order.iter().enumerate() {
            for (j, b) in order[..i].iter().enumerate() {
                let (x, y) = (self.tables[*a], self.tables[*b]);
                let rows = [!x & !y, !x & y, x & !y, x & y].map(|rows| rows & wanted.cared);
                for c in &order[..j] {
                    if let Some(truth) = truth3(rows, self.tables[*c], wanted.table) {
                        return Some(self.ternary([*a, *b, *c], truth));
                    }
                }
            }
        }
        None
    }

    /// A gate over two values and a new gate over three others.
    fn ternary_of_five(&mut self, wanted: Wanted, order: &[usize]) -> Option<Option<Signal>> {
        let (one, zero) = (wanted.table & wanted.cared, !wanted.table & wanted.cared);
        if wanted.cared.count_ones() > 32 {
            return None;
        }
        for a in 0..order.len() {
            for b in 0..a {
                for c in 0..b {
                    let inputs = [a, b, c].map(|at| self.tables[order[at]]);
                    let rows: [u64; 8] =
                        std::array::from_fn(|row| rows3(inputs, row) & wanted.cared);
                    for d in 0..c {
                        let fourth = self.tables[order[d]];
                        let rows = halves::<8, 16>(rows, fourth);
                        for e in 0..d {
                            let fifth = self.tables[order[e]];
                            let Some(rows) = Rows::of(&rows, fifth, one, zero) else { continue };
                            let five = [a, b, c, d, e].map(|at| order[at]);
                            if let Some(pair) = rows.pair() {
                                return Some(self.two_gates(five, pair));
                            }
                        }
                    }
                }
            }
        }
        None
    }

    fn two_gates(&mut self, five: [usize; 5], pair: Pair) -> Option<Signal> {
        let inner = pair.inner.map(|at| five[at]);
        let Signal::Value { at, .. } = self.ternary(inner, pair.inner_truth)? else { return None };
        let [first, second] = pair.outer.map(|place| five[place]);
        self.ternary([at, first, second], pair.outer_truth)
    }

    /// Finds each half of the table by one input, and joins them.
    fn split(&mut self, wanted: Wanted, used: u8) -> Option<Signal> {
        let free: Vec<usize> = (0..INPUTS).filter(|bit| used >> bit & 1 == 0).collect();
        let by = free[self.below(free.len())];
        let used = used | 1 << by;
        let one_first = self.below(2) == 1;
        let rows = self.tables[by];
        let half = |one: bool| {
            let half = if one { rows } else { !rows };
            Wanted { cared: wanted.cared & half, ..wanted }
        };
        let first = self.find(half(one_first), used)?;
        match self.kind {
            Gates::Ternary => {
                let second = self.find(half(!one_first), used)?;
                let (one, zero) = if one_first { (first, second) } else { (second, first) };
                self.choose(by, one, zero)
            }
            Gates::Binary => {
                // wanted = first ^ (selected & difference)
                let table = wanted.table ^ self.table(first);
                let difference = self.find(Wanted { table, ..half(!one_first) }, used)?;
                let there = Signal::Value { at: by, complemented: one_first };
                let selected = self.and(there, difference)?;
                self.xor(first, selected)
            }
        }
    }

    /// `one` where the input is 1, else `zero`.
    fn choose(&mut self, by: usize, one: Signal, zero: Signal) -> Option<Signal> {
        let place = |signal: Signal| match signal {
            Signal::Constant(_) => by,
            Signal::Value { at, .. } => at,
        };
        let value = |signal: Signal, bit: bool| match signal {
            Signal::Constant(value) => value,
            Signal::Value { complemented, .. } => bit ^ complemented,
        };
        let holds = |row: &u8| match row & 4 {
            0 => value(zero, row & 1 != 0),
            _ => value(one, row & 2 != 0),
        };
        let truth = (0..8u8).filter(holds).fold(0, |all, row| all | 1 << row);
        self.ternary([by, place(one), place(zero)], truth)
    }

    fn and(&mut self, a: Signal, b: Signal) -> Option<Signal> {
        match (a, b) {
            (Signal::Constant(false), _) | (_, Signal::Constant(false)) => {
                Some(Signal::Constant(false))
            }
            (Signal::Constant(true), other) | (other, Signal::Constant(true)) => Some(other),
            (
                Signal::Value { at: x, complemented: not_x },
                Signal::Value { at: y, complemented: not_y },
            ) => {
                let row = u8::from(!not_x) << 1 | u8::from(!not_y);
                self.binary(x, y, 1 << row)
            }
        }
    }

    fn xor(&mut self, a: Signal, b: Signal) -> Option<Signal> {
        match (a, b) {
            (Signal::Constant(value), other) | (other, Signal::Constant(value)) => {
                Some(if value { complement(other) } else { other })
            }
            (
                Signal::Value { at: x, complemented: not_x },
                Signal::Value { at: y, complemented: not_y },
            ) => self.binary(x, y, if not_x ^ not_y { 0b1001 } else { 0b0110 }),
        }
    }
}

fn complement(signal: Signal) -> Signal {
    match signal {
        Signal::Constant(value) => Signal::Constant(!value),
        Signal::Value { at, complemented } => Signal::Value { at, complemented: !complemented },
    }
}

/// The rows where three values are as the bits of `row` say.
fn rows3(values: [u64; 3], row: usize) -> u64 {
    let [a, b, c] = values;
    let of = |value: u64, bit: usize| if row & bit == 0 { !value } else { value };
    of(a, 4) & of(b, 2) & of(c, 1)
}

/// Each set of rows cut in two by a value.
fn halves<const N: usize, const M: usize>(rows: [u64; N], value: u64) -> [u64; M] {
    std::array::from_fn(|at| rows[at / 2] & if at % 2 == 0 { !value } else { value })
}

/// The function of two values that is as wanted.
fn truth2(a: u64, b: u64, wanted: Wanted) -> Option<u8> {
    let mut truth = 0;
    for (row, rows) in [!a & !b, !a & b, a & !b, a & b].into_iter().enumerate() {
        let rows = rows & wanted.cared;
        match rows & wanted.table {
            0 => {}
            all if all == rows => truth |= 1 << row,
            _ => return None,
        }
    }
    Some(truth)
}

/// The function of three values that is as wanted; `rows` are those of the first two.
fn truth3(rows: [u64; 4], c: u64, table: u64) -> Option<u8> {
    let mut truth = 0;
    for (at, rows) in rows.into_iter().enumerate() {
        for (bit, rows) in [rows & !c, rows & c].into_iter().enumerate() {
            match rows & table {
                0 => {}
                all if all == rows => truth |= 1 << (2 * at + bit),
                _ => return None,
            }
        }
    }
    Some(truth)
}

/// What a function of five values has to be: bit `a << 4 | b << 3 | c << 2 | d << 1 | e`.
struct Rows {
    one: u32,
    zero: u32,
}

/// Two gates, the inner one over three of five values, the outer one over it and the other two.
struct Pair {
    inner: [usize; 3],
    inner_truth: u8,
    outer: [usize; 2],
    outer_truth: u8,
}

impl Rows {
    fn of(rows: &[u64; 16], e: u64, ones: u64, zeros: u64) -> Option<Rows> {
        let (mut one, mut zero) = (0, 0);
        for (at, rows) in rows.iter().enumerate() {
            for (bit, rows) in [rows & !e, rows & e].into_iter().enumerate() {
                match (rows & ones != 0, rows & zeros != 0) {
                    (true, true) => return None,
                    (true, false) => one |= 1u32 << (2 * at + bit),
                    (false, true) => zero |= 1u32 << (2 * at + bit),
                    (false, false) => {}
                }
            }
        }
        Some(Rows { one, zero })
    }

    /// The first way to have it from two gates.
    fn pair(&self) -> Option<Pair> {
        (0..5).find_map(|first| (0..first).find_map(|second| self.pair_with([first, second])))
    }

    fn pair_with(&self, outer: [usize; 2]) -> Option<Pair> {
        let mut others = (0..5).filter(|at| !outer.contains(at));
        let inner = std::array::from_fn(|_| others.next().unwrap_or(0));
        let place = |values: &[usize], bits: usize| {
            let last = values.len() - 1;
            let chosen = values.iter().enumerate().filter(|(at, _)| bits >> (last - at) & 1 == 1);
            chosen.fold(0, |all, (_, value)| all | 1 << (4 - value))
        };
        // What the inner gate has to be, and the outer one for it.
        let (mut inner_one, mut inner_zero, mut outer_truth) = (0u8, 0u8, 0u8);
        for row in 0..4 {
            let bit = |all: u32, cell: usize| {
                let at: usize = place(&outer, row) | place(&inner, cell);
                ((all >> at & 1) as u8) << cell
            };
            let one = (0..8).fold(0, |all, cell| all | bit(self.one, cell));
            let zero = (0..8).fold(0, |all, cell| all | bit(self.zero, cell));
            if one == 0 {
                continue;
            }
            if zero == 0 {
                outer_truth |= 1 << row | 1 << (row + 4);
            } else if inner_one & zero == 0 && inner_zero & one == 0 {
                (inner_one, inner_zero) = (inner_one | one, inner_zero | zero);
                outer_truth |= 1 << (row + 4);
            } else if inner_one & one == 0 && inner_zero & zero == 0 {
                (inner_one, inner_zero) = (inner_one | zero, inner_zero | one);
                outer_truth |= 1 << row;
            } else {
                return None;
            }
        }
        Some(Pair { inner, inner_truth: inner_one, outer, outer_truth })
    }
}
