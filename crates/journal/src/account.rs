//! How many bytes wait to be released, by sequence, in a few coarse steps.

use std::collections::VecDeque;

use crate::limits;

/// Sizes of what is not released. A step is the last sequence of some records and their bytes.
#[derive(Debug, Default)]
pub(crate) struct Account {
    steps: VecDeque<(u64, u64)>,
    total: u64,
}

impl Account {
    /// Counts a record.
    pub(crate) fn add(&mut self, sequence: u64, bytes: u64) {
        self.total += bytes;
        match self.steps.back_mut() {
            Some((last, sum)) if *sum < limits::ACCOUNT_BYTES => {
                *last = sequence;
                *sum += bytes;
            }
            _ => self.steps.push_back((sequence, bytes)),
        }
    }

    /// Stops counting what lies wholly at or before `sequence`.
    pub(crate) fn release(&mut self, sequence: u64) {
        while let Some((last, bytes)) = self.steps.front().copied() {
            if last > sequence {
                break;
            }
            self.total -= bytes;
            self.steps.pop_front();
        }
    }

    /// Bytes not released; at most one step too many.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted_and_released_in_steps() {
        let mut account = Account::default();
        for sequence in 1..=1000 {
            account.add(sequence, 1000);
        }
        assert_eq!(account.total(), 1_000_000);
        assert!(account.steps.len() < 20, "steps are coarse");
        account.release(500);
        let left = account.total();
        assert!((500_000..=500_000 + limits::ACCOUNT_BYTES + 1000).contains(&left), "{left}");
        account.release(1000);
        assert_eq!(account.total(), 0);
    }
}
