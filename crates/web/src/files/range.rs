//! The Range field (RFC 9110 §14.2).

/// What of a file is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ranged {
    /// All of it: no range was asked for, or none that is taken.
    Whole,
    /// From the first byte to the last, both included.
    Part { first: u64, last: u64 },
    /// None of what was asked for is in the file.
    Outside,
}

/// Reads the field of a request for a file of `size` bytes. One range is taken; several ranges, and
/// what cannot be read, are answered with the whole file, as the RFC allows.
pub(crate) fn read(field: &str, size: u64) -> Ranged {
    let Some((unit, set)) = field.split_once('=') else { return Ranged::Whole };
    if !unit.trim().eq_ignore_ascii_case("bytes") || set.contains(',') {
        return Ranged::Whole;
    }
    let Some((first, last)) = set.trim().split_once('-') else { return Ranged::Whole };
    let part = match (number(first), number(last)) {
        (Number::Is(first), Number::Is(last)) if first <= last => {
            (first < size).then(|| (first, last.min(size.saturating_sub(1))))
        }
        (Number::Is(first), Number::Missing) => {
            size.checked_sub(1).filter(|end| first <= *end).map(|end| (first, end))
        }
        (Number::Missing, Number::Is(count)) => {
            let end = size.checked_sub(1).filter(|_| count > 0);
            end.map(|end| (size.saturating_sub(count), end))
        }
        _ => return Ranged::Whole,
    };
    part.map_or(Ranged::Outside, |(first, last)| Ranged::Part { first, last })
}

enum Number {
    Is(u64),
    Missing,
    Wrong,
}

fn number(text: &str) -> Number {
    if text.is_empty() {
        return Number::Missing;
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Number::Wrong;
    }
    // What is too large for a number is behind the end of every file.
    Number::Is(text.parse().unwrap_or(u64::MAX))
}

/// For fuzzing: what is taken lies within the file.
pub(crate) fn fuzz(data: &[u8]) {
    let Some((size, field)) = data.split_first_chunk::<8>() else { return };
    let size = u64::from_be_bytes(*size);
    let Ok(field) = std::str::from_utf8(field) else { return };
    if let Ranged::Part { first, last } = read(field, size) {
        assert!(first <= last && last < size, "{field:?} of {size}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_is_taken() {
        let part = |first, last| Ranged::Part { first, last };
        for (field, size, ranged) in [
            ("bytes=0-0", 10, part(0, 0)),
            ("bytes=0-9", 10, part(0, 9)),
            ("bytes=5-", 10, part(5, 9)),
            ("bytes=5-100", 10, part(5, 9)),
            ("bytes=-3", 10, part(7, 9)),
            ("bytes=-100", 10, part(0, 9)),
            ("Bytes= 2-3", 10, part(2, 3)),
            ("bytes=10-", 10, Ranged::Outside),
            ("bytes=0-", 0, Ranged::Outside),
            ("bytes=-0", 10, Ranged::Outside),
            ("bytes=99999999999999999999999-", 10, Ranged::Outside),
            ("bytes=0-99999999999999999999999", 10, part(0, 9)),
            ("bytes=0-1,3-4", 10, Ranged::Whole),
            ("bytes=4-3", 10, Ranged::Whole),
            ("bytes=-", 10, Ranged::Whole),
            ("bytes=a-b", 10, Ranged::Whole),
            ("bytes=+1-2", 10, Ranged::Whole),
            ("items=0-1", 10, Ranged::Whole),
            ("bytes", 10, Ranged::Whole),
            ("", 10, Ranged::Whole),
        ] {
            assert_eq!(read(field, size), ranged, "{field} of {size}");
        }
        fuzz(b"\0\0\0\0\0\0\0\x0abytes=-3");
    }
}
