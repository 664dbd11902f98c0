//! Puts writes in order for stores that take bytes only so: a bounded window in memory.

use std::collections::BTreeMap;

use bytes::Bytes;
use entrepot_storage::budget::{Permit, Share};

use crate::limits::{REORDER_BYTES, REORDER_WRITE_BYTES, REORDER_WRITES};

/// A write that waits, with its memory.
#[derive(Debug)]
pub(super) struct Early {
    pub(super) data: Bytes,
    pub(super) _memory: Option<Permit>,
}

/// Writes that wait for what comes before them.
#[derive(Debug, Default)]
pub(super) struct Order {
    next: u64,
    waiting: BTreeMap<u64, Early>,
    bytes: u64,
}

impl Order {
    /// Goes on behind `next` bytes.
    pub(super) fn behind(next: u64) -> Self {
        Order { next, ..Order::default() }
    }

    /// Takes a write, or gives it back: it overwrites what is stored, lies too far ahead, or there
    /// is no memory in which it could wait.
    pub(super) fn take(&mut self, offset: u64, data: Bytes, memory: &Share) -> Result<(), Bytes> {
        if data.is_empty() {
            return Ok(());
        }
        let length = data.len() as u64;
        let overlaps = self
            .waiting
            .range(..offset + length)
            .next_back()
            .is_some_and(|(start, waiting)| start + waiting.data.len() as u64 > offset);
        let is_full = self.bytes + length > REORDER_BYTES || self.waiting.len() >= REORDER_WRITES;
        if offset < self.next || overlaps || is_full {
            return Err(data);
        }
        // What is next goes out at once.
        let waits = offset > self.next;
        let permit = waits.then(|| memory.take(length + REORDER_WRITE_BYTES));
        if let Some(None) = permit {
            return Err(data);
        }
        self.bytes += length;
        self.waiting.insert(offset, Early { data, _memory: permit.flatten() });
        Ok(())
    }

    /// Takes out what waits, in order.
    pub(super) fn drain(&mut self) -> BTreeMap<u64, Early> {
        self.bytes = 0;
        std::mem::take(&mut self.waiting)
    }

    /// The write that is next, if it has come.
    pub(super) fn next(&mut self) -> Option<(u64, Bytes)> {
        let entry = self.waiting.first_entry()?;
        if *entry.key() != self.next {
            return None;
        }
        let (offset, Early { data, .. }) = entry.remove_entry();
        self.next = offset + data.len() as u64;
        self.bytes -= data.len() as u64;
        Some((offset, data))
    }

    /// Where the first of what waits begins.
    pub(super) fn first_waiting(&self) -> Option<u64> {
        self.waiting.keys().next().copied()
    }

    /// True if nothing waits.
    pub(super) fn is_settled(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use entrepot_storage::budget::{Budget, Holder, Standing};

    use super::*;

    fn memory(bytes: u64) -> (Budget, Share) {
        let budget = Budget::new(2 * bytes, 0);
        let share = budget.share(Holder::Node, Standing::Ordinary);
        (budget, share)
    }

    fn drain(order: &mut Order) -> Vec<u64> {
        std::iter::from_fn(|| order.next().map(|(offset, _)| offset)).collect()
    }

    #[test]
    fn writes_come_out_in_order() {
        let (budget, memory) = memory(1 << 30);
        let mut order = Order::default();
        order.take(4, Bytes::from_static(b"5678"), &memory).unwrap();
        assert_eq!(drain(&mut order), [0u64; 0]);
        order.take(0, Bytes::from_static(b"1234"), &memory).unwrap();
        assert_eq!(drain(&mut order), [0, 4]);
        assert!(order.is_settled());
        assert!(
            order.take(2, Bytes::from_static(b"x"), &memory).is_err(),
            "an overwrite was taken"
        );
        order.take(20, Bytes::from_static(b"ab"), &memory).unwrap();
        assert!(
            order.take(19, Bytes::from_static(b"abc"), &memory).is_err(),
            "an overlap was taken"
        );
        assert!(!order.is_settled());
        assert_eq!(budget.used(), 2 + REORDER_WRITE_BYTES, "what went out takes memory");
        order.drain();
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn the_window_is_bounded() {
        let (_budget, memory) = memory(1 << 30);
        let block = Bytes::from(vec![0; 1 << 20]);
        let taken = |order: &mut Order, memory: &Share| {
            let takes = |at: &u64| order.take(at << 20, block.clone(), memory).is_ok();
            (1..100).take_while(takes).count() as u64
        };
        assert_eq!(taken(&mut Order::default(), &memory), REORDER_BYTES >> 20);
        let (_budget, little) = self::memory(4 << 20);
        let mut order = Order::default();
        assert_eq!(taken(&mut order, &little), 3, "and by the memory of the account");
        assert!(order.take(0, block.clone(), &little).is_ok(), "what is next needs none");
        let (_budget, memory) = self::memory(1 << 30);
        let mut order = Order::default();
        let byte = Bytes::from_static(b"x");
        let takes = |at: &u64| order.take(at * 2, byte.clone(), &memory).is_ok();
        assert_eq!((1..100_000).take_while(takes).count(), REORDER_WRITES);
    }
}
