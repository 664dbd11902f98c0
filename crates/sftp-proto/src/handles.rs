//! Handles: a place and a generation, so that a closed handle is never taken for a later one.
//! On the wire they are hexadecimal digits, because some clients keep handles as text:
//! russh-sftp takes none that is not UTF-8.

use crate::limits::HANDLES;

/// Digits of the place, which is below [`HANDLES`].
const PLACE_DIGITS: usize = 4;
/// Digits of the generation.
const GENERATION_DIGITS: usize = 8;

/// A handle as the wire carries it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle {
    place: u16,
    generation: u32,
}

impl Handle {
    /// One that is never open: what anything but twelve lowercase hexadecimal digits is read as.
    pub const NONE: Handle = Handle { place: u16::MAX, generation: 0 };

    /// The digits: four of the place, then eight of the generation.
    pub fn to_wire(self) -> [u8; PLACE_DIGITS + GENERATION_DIGITS] {
        let number = u64::from(self.place) << 32 | u64::from(self.generation);
        std::array::from_fn(|index| {
            let shift = 4 * (PLACE_DIGITS + GENERATION_DIGITS - 1 - index);
            let digit = u32::try_from(number >> shift & 0xf).ok();
            let digit = digit.and_then(|digit| char::from_digit(digit, 16));
            digit.and_then(|digit| u8::try_from(digit).ok()).unwrap_or(b'0')
        })
    }

    /// Reads a handle back. Only what [`Handle::to_wire`] gives is one: no capitals, no sign.
    pub fn from_wire(bytes: &[u8]) -> Handle {
        if bytes.len() != PLACE_DIGITS + GENERATION_DIGITS {
            return Handle::NONE;
        }
        let mut number = 0u64;
        for byte in bytes {
            let digit = match byte {
                b'0'..=b'9' => byte - b'0',
                b'a'..=b'f' => byte - b'a' + 10,
                _ => return Handle::NONE,
            };
            number = number << 4 | u64::from(digit);
        }
        match (u16::try_from(number >> 32), u32::try_from(number & u64::from(u32::MAX))) {
            (Ok(place), Ok(generation)) => Handle { place, generation },
            _ => Handle::NONE,
        }
    }
}

/// All places are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} files and listings are open: close some first")]
pub struct Full(pub usize);

struct Place<T> {
    generation: u32,
    value: Option<T>,
}

/// The open files and listings of a channel.
pub struct Handles<T> {
    places: Vec<Place<T>>,
    free: Vec<u16>,
    most: usize,
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Handles::new(HANDLES)
    }
}

impl<T> Handles<T> {
    /// An empty table for at most `most` handles (no more than [`HANDLES`]).
    pub fn new(most: usize) -> Self {
        Handles { places: Vec::new(), free: Vec::new(), most: most.min(HANDLES) }
    }

    /// True if [`Handles::insert`] would fail: ask before opening a file.
    pub fn is_full(&self) -> bool {
        self.len() >= self.most
    }

    /// Keeps `value` under a new handle.
    ///
    /// # Errors
    /// [`Full`] at the limit.
    pub fn insert(&mut self, value: T) -> Result<Handle, Full> {
        if self.is_full() {
            return Err(Full(self.most));
        }
        if let Some(place) = self.free.pop()
            && let Some(slot) = self.places.get_mut(usize::from(place))
        {
            slot.value = Some(value);
            return Ok(Handle { place, generation: slot.generation });
        }
        let place = u16::try_from(self.places.len()).map_err(|_| Full(self.most))?;
        self.places.push(Place { generation: 1, value: Some(value) });
        Ok(Handle { place, generation: 1 })
    }

    fn slot(&mut self, handle: Handle) -> Option<&mut Place<T>> {
        let slot = self.places.get_mut(usize::from(handle.place))?;
        (slot.generation == handle.generation).then_some(slot)
    }

    /// What is open under `handle`.
    pub fn get(&self, handle: Handle) -> Option<&T> {
        let slot = self.places.get(usize::from(handle.place))?;
        if slot.generation == handle.generation { slot.value.as_ref() } else { None }
    }

    /// What is open under `handle`, to change it.
    pub fn get_mut(&mut self, handle: Handle) -> Option<&mut T> {
        self.slot(handle)?.value.as_mut()
    }

    /// What is open under two different handles, to change both; `None` unless both are.
    pub fn pair_mut(&mut self, a: Handle, b: Handle) -> Option<(&mut T, &mut T)> {
        let places = [usize::from(a.place), usize::from(b.place)];
        let [first, second] = self.places.get_disjoint_mut(places).ok()?;
        let is_open = first.generation == a.generation && second.generation == b.generation;
        first.value.as_mut().zip(second.value.as_mut()).filter(|_| is_open)
    }

    /// Takes what is open under `handle` out; the handle is dead from now on.
    pub fn remove(&mut self, handle: Handle) -> Option<T> {
        let slot = self.slot(handle)?;
        let value = slot.value.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(handle.place);
        Some(value)
    }

    /// How many are open.
    pub fn len(&self) -> usize {
        self.places.len().saturating_sub(self.free.len())
    }

    /// True if none is open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All that is open.
    pub fn iter(&self) -> impl Iterator<Item = (Handle, &T)> {
        self.places.iter().zip(0u16..).filter_map(|(slot, place)| {
            let handle = Handle { place, generation: slot.generation };
            slot.value.as_ref().map(|value| (handle, value))
        })
    }

    /// All that is open, to change it.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Handle, &mut T)> {
        self.places.iter_mut().zip(0u16..).filter_map(|(slot, place)| {
            let handle = Handle { place, generation: slot.generation };
            slot.value.as_mut().map(|value| (handle, value))
        })
    }

    /// Takes everything out, as at the end of a channel.
    pub fn drain(&mut self) -> Vec<T> {
        let open: Vec<Handle> = self.iter().map(|(handle, _)| handle).collect();
        open.into_iter().filter_map(|handle| self.remove(handle)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_handle_never_opens_again() {
        let mut handles = Handles::new(2);
        let a = handles.insert('a').unwrap();
        let b = handles.insert('b').unwrap();
        assert_eq!(handles.insert('c'), Err(Full(2)));
        assert_eq!(handles.remove(a), Some('a'));
        assert_eq!(handles.remove(a), None);
        let c = handles.insert('c').unwrap();
        assert_eq!(c.to_wire()[..4], a.to_wire()[..4], "the place is used again");
        assert_eq!((handles.get(a), handles.get(c)), (None, Some(&'c')));
        assert_eq!((handles.len(), handles.get_mut(b)), (2, Some(&mut 'b')));
        assert_eq!(handles.pair_mut(b, c), Some((&mut 'b', &mut 'c')));
        for (one, other) in [(a, b), (b, b), (b, Handle::NONE)] {
            assert_eq!(handles.pair_mut(one, other), None);
        }
        assert_eq!(handles.drain(), vec!['c', 'b']);
        assert!(handles.is_empty() && handles.get(b).is_none());
    }

    #[test]
    fn handles_go_over_the_wire_and_odd_ones_are_none() {
        let mut handles = Handles::default();
        for value in 0..1000u32 {
            let handle = handles.insert(value).unwrap();
            assert!(handle.to_wire().is_ascii(), "{handle:?}");
            assert_eq!(Handle::from_wire(&handle.to_wire()), handle);
        }
        for odd in [
            &b""[..],
            b"00000000001",
            b"0000000000010",
            b"00000000000A",
            b"+00000000001",
            b"0000 0000001",
            b"ffff00000000",
            b"\0\0\0\0\0\0\0\x01",
        ] {
            assert_eq!(handles.get(Handle::from_wire(odd)), None, "{odd:?}");
        }
        // Capitals name no handle, even where small letters do.
        let tenth = handles.iter().nth(10).unwrap().0.to_wire();
        assert_eq!(&tenth, b"000a00000001");
        assert_eq!(handles.get(Handle::from_wire(&tenth.to_ascii_uppercase())), None);
    }
}
