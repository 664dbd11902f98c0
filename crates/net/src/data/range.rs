//! Ranges of ports for passive data connections.

use std::fmt;
use std::str::FromStr;

use entrepot_nouns::Env;

use crate::limits::DATA_PORTS;

/// Ports from the first to the last, both included; as text `50000-50999`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    /// `None` if it is empty or holds port 0.
    pub fn new(first: u16, last: u16) -> Option<Self> {
        (first > 0 && first <= last).then_some(PortRange { first, last })
    }

    pub(super) fn contains(self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }

    /// All its ports, in an order that nobody can foretell.
    pub(super) fn shuffled(self, env: &Env) -> Vec<u16> {
        let mut ports: Vec<u16> = (self.first..=self.last).collect();
        let mut random = vec![0; ports.len() * 4];
        env.fill_random(&mut random);
        let (words, _) = random.as_chunks::<4>();
        for (place, word) in words.iter().enumerate().rev() {
            let choice = u32::from_le_bytes(*word);
            let choices = u64::try_from(place).unwrap_or(0) + 1;
            // Scaled, not divided: the product of 32 bits and at most 17 never overflows.
            let other = usize::try_from((u64::from(choice) * choices) >> 32).unwrap_or(0);
            ports.swap(place, other);
        }
        ports
    }
}

impl Default for PortRange {
    fn default() -> Self {
        PortRange { first: DATA_PORTS.0, last: DATA_PORTS.1 }
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

impl FromStr for PortRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse::<u16>().ok();
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let range = number(first).zip(number(last)).and_then(|(a, b)| PortRange::new(a, b));
        range.ok_or_else(|| format!("'{text}' is not a range of ports such as 50000-50999"))
    }
}
