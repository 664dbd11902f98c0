//! Puts writes in order for stores that take bytes only so: a bounded window in memory.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::limits::REORDER_BYTES;

/// Writes that wait for what comes before them.
#[derive(Debug, Default)]
pub(super) struct Order {
    next: u64,
    waiting: BTreeMap<u64, Bytes>,
    bytes: u64,
}

impl Order {
    /// Goes on behind `next` bytes.
    pub(super) fn behind(next: u64) -> Self {
        Order { next, ..Order::default() }
    }

    /// Takes a write, or gives it back: it overwrites what is stored, or lies too far ahead.
    pub(super) fn take(&mut self, offset: u64, data: Bytes) -> Result<(), Bytes> {
        if data.is_empty() {
            return Ok(());
        }
        let length = data.len() as u64;
        let overlaps = self
            .waiting
            .range(..offset + length)
            .next_back()
            .is_some_and(|(start, waiting)| start + waiting.len() as u64 > offset);
        if offset < self.next || overlaps || self.bytes + length > REORDER_BYTES {
            return Err(data);
        }
        self.bytes += length;
        self.waiting.insert(offset, data);
        Ok(())
    }

    /// Takes out what waits, in order.
    pub(super) fn drain(&mut self) -> BTreeMap<u64, Bytes> {
        self.bytes = 0;
        std::mem::take(&mut self.waiting)
    }

    /// The write that is next, if it has come.
    pub(super) fn next(&mut self) -> Option<(u64, Bytes)> {
        let entry = self.waiting.first_entry()?;
        if *entry.key() != self.next {
            return None;
        }
        let (offset, data) = entry.remove_entry();
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
    use super::*;

    fn drain(order: &mut Order) -> Vec<u64> {
        std::iter::from_fn(|| order.next().map(|(offset, _)| offset)).collect()
    }

    #[test]
    fn writes_come_out_in_order() {
        let mut order = Order::default();
        order.take(4, Bytes::from_static(b"5678")).unwrap();
        assert_eq!(drain(&mut order), [0u64; 0]);
        order.take(0, Bytes::from_static(b"1234")).unwrap();
        assert_eq!(drain(&mut order), [0, 4]);
        assert!(order.is_settled());
        assert!(order.take(2, Bytes::from_static(b"x")).is_err(), "an overwrite was taken");
        order.take(20, Bytes::from_static(b"ab")).unwrap();
        assert!(order.take(19, Bytes::from_static(b"abc")).is_err(), "an overlap was taken");
        assert!(!order.is_settled());
    }

    #[test]
    fn the_window_is_bounded() {
        let mut order = Order::default();
        let block = Bytes::from(vec![0; 1 << 20]);
        let taken = (1..100).take_while(|at| order.take(at << 20, block.clone()).is_ok()).count();
        assert_eq!(taken as u64, REORDER_BYTES >> 20);
    }
}
