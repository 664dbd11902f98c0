//! When an event happened among those of all nodes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A hybrid clock: time as the database has it, and what makes it unique. It grows from each
/// event of a node to the next, also while the node's clock is set back. In JSON it is text:
/// `ms.counter.slot`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EventClock {
    /// Milliseconds since 1970, by the node's clock less what it was ahead of the database's.
    pub ms: i64,
    /// Counts the events of one millisecond.
    pub counter: u32,
    /// Of the node, so that no two nodes have the same.
    pub slot: u32,
}

impl fmt::Display for EventClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.ms, self.counter, self.slot)
    }
}

impl FromStr for EventClock {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not the clock of an event (ms.counter.slot)");
        let mut parts = text.split('.');
        let ms = parts.next().and_then(|part| part.parse().ok()).ok_or_else(wrong)?;
        let counter = parts.next().and_then(|part| part.parse().ok()).ok_or_else(wrong)?;
        let slot = parts.next().and_then(|part| part.parse().ok()).ok_or_else(wrong)?;
        if parts.next().is_some() {
            return Err(wrong());
        }
        Ok(EventClock { ms, counter, slot })
    }
}

impl Serialize for EventClock {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for EventClock {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_three_numbers() {
        assert_eq!("7.1.3".parse(), Ok(EventClock { ms: 7, counter: 1, slot: 3 }));
        assert!("7.1".parse::<EventClock>().is_err() && "7.1.3.4".parse::<EventClock>().is_err());
    }
}
