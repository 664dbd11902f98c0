//! Which bytes of an upload have been written: an ordered set of disjoint ranges.

use crate::limits;

/// Too many separate ranges.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

/// Disjoint, non-empty, not touching each other, in order. Writing in order keeps one range and
/// allocates nothing.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// One range from the start, `0..len`.
    pub(crate) fn prefix(len: u64) -> Self {
        Ranges(if len == 0 { Vec::new() } else { vec![(0, len)] })
    }

    /// Ranges as [`Ranges::list`] gave them.
    pub(crate) fn of(list: Vec<(u64, u64)>) -> Self {
        Ranges(list)
    }

    /// The ranges in order.
    pub(crate) fn list(self) -> Vec<(u64, u64)> {
        self.0
    }

    /// True if all of `start..end` is there.
    pub(crate) fn holds(&self, start: u64, end: u64) -> bool {
        self.0.iter().any(|range| range.0 <= start && end <= range.1)
    }

    /// How many there would be if `start..end` came too.
    pub(crate) fn count_with(&self, start: u64, end: u64) -> usize {
        let touching = self.0.iter().filter(|range| range.0 <= end && start <= range.1);
        self.0.len() + 1 - touching.count()
    }

    /// Adds `start..end`, and joins it to the ranges that it touches.
    pub(crate) fn add(&mut self, start: u64, end: u64) -> Result<(), TooMany> {
        if start >= end {
            return Ok(());
        }
        if let Some((_, last)) = self.0.last_mut()
            && *last == start
        {
            *last = end;
            return Ok(());
        }
        // Those that touch start..end lie between `from` and `to`.
        let from = self.0.partition_point(|range| range.1 < start);
        let to = self.0.partition_point(|range| range.0 <= end);
        let touching = self.0.get(from..to).unwrap_or_default();
        let new = (
            touching.first().map_or(start, |range| range.0.min(start)),
            touching.last().map_or(end, |range| range.1.max(end)),
        );
        if touching.is_empty() && self.0.len() >= limits::RANGES {
            return Err(TooMany);
        }
        self.0.splice(from..to, [new]);
        Ok(())
    }

    /// Forgets everything at and behind `len`.
    pub(crate) fn cut(&mut self, len: u64) {
        self.0.retain(|range| range.0 < len);
        if let Some(last) = self.0.last_mut() {
            last.1 = last.1.min(len);
        }
    }

    /// `0..len` is there now, and nothing behind it.
    pub(crate) fn fill(&mut self, len: u64) {
        *self = Ranges::prefix(len);
    }

    /// Length of the prefix without a hole.
    pub(crate) fn contiguous(&self) -> u64 {
        self.0.first().map_or(0, |range| if range.0 == 0 { range.1 } else { 0 })
    }

    /// One past the last byte written.
    pub(crate) fn end(&self) -> u64 {
        self.0.last().map_or(0, |range| range.1)
    }

    /// What is missing of `0..len`, in order.
    pub(crate) fn holes(&self, len: u64) -> Vec<(u64, u64)> {
        let mut holes = Vec::new();
        let mut at = 0;
        for (start, end) in &self.0 {
            if *start >= len {
                break;
            }
            if at < *start {
                holes.push((at, *start));
            }
            at = *end;
        }
        if at < len {
            holes.push((at, len));
        }
        holes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn in_order_is_one_range() {
        let mut ranges = Ranges::default();
        for at in 0..1000 {
            ranges.add(at * 10, at * 10 + 10).unwrap();
        }
        assert_eq!(ranges, Ranges::prefix(10_000));
        assert_eq!(ranges.holes(10_005), [(10_000, 10_005)]);
    }

    #[test]
    fn their_number_is_limited() {
        let mut ranges = Ranges::default();
        for at in 0..limits::RANGES as u64 {
            ranges.add(at * 4, at * 4 + 1).unwrap();
        }
        assert_eq!(ranges.add(u64::MAX - 1, u64::MAX), Err(TooMany));
        assert_eq!(ranges.add(1, 4), Ok(()), "one that closes a hole is taken");
    }

    proptest! {
        #[test]
        fn agrees_with_a_bitmap(
            writes in proptest::collection::vec((0u64..200, 0u64..40), 0..40),
            cut in 0u64..300,
        ) {
            let mut ranges = Ranges::default();
            let mut bitmap = vec![false; 512];
            for (start, len) in writes {
                ranges.add(start, start + len).unwrap();
                bitmap[start as usize..(start + len) as usize].fill(true);
            }
            if cut < 250 {
                ranges.cut(cut);
                bitmap[cut as usize..].fill(false);
            }
            let prefix = bitmap.iter().take_while(|set| **set).count() as u64;
            prop_assert_eq!(ranges.contiguous(), prefix);
            let end = bitmap.iter().rposition(|set| *set).map_or(0, |at| at as u64 + 1);
            prop_assert_eq!(ranges.end(), end);
            let mut rebuilt = vec![true; 300];
            for (start, end) in ranges.holes(300) {
                rebuilt[start as usize..end as usize].fill(false);
            }
            prop_assert_eq!(&rebuilt[..], &bitmap[..300]);
        }
    }
}
