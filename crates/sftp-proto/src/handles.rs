//! Handles: eight bytes, four of place and four of generation, so that a closed handle is never
//! taken for a later one.

use crate::limits::HANDLES;

/// A handle as the wire carries it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle {
    place: u32,
    generation: u32,
}

impl Handle {
    /// One that is never open: what a handle of another length than eight bytes is read as.
    pub const NONE: Handle = Handle { place: u32::MAX, generation: 0 };

    /// The eight bytes.
    pub fn to_wire(self) -> [u8; 8] {
        (u64::from(self.place) << 32 | u64::from(self.generation)).to_be_bytes()
    }

    /// Reads a handle back.
    pub fn from_wire(bytes: &[u8]) -> Handle {
        let Ok(bytes) = <[u8; 8]>::try_from(bytes) else {
            return Handle::NONE;
        };
        let [a, b, c, d, e, f, g, h] = bytes;
        Handle {
            place: u32::from_be_bytes([a, b, c, d]),
            generation: u32::from_be_bytes([e, f, g, h]),
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
    free: Vec<u32>,
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
            && let Some(slot) = usize::try_from(place).ok().and_then(|at| self.places.get_mut(at))
        {
            slot.value = Some(value);
            return Ok(Handle { place, generation: slot.generation });
        }
        let place = u32::try_from(self.places.len()).map_err(|_| Full(self.most))?;
        self.places.push(Place { generation: 1, value: Some(value) });
        Ok(Handle { place, generation: 1 })
    }

    fn slot(&mut self, handle: Handle) -> Option<&mut Place<T>> {
        let slot = self.places.get_mut(usize::try_from(handle.place).ok()?)?;
        (slot.generation == handle.generation).then_some(slot)
    }

    /// What is open under `handle`.
    pub fn get(&self, handle: Handle) -> Option<&T> {
        let slot = self.places.get(usize::try_from(handle.place).ok()?)?;
        if slot.generation == handle.generation { slot.value.as_ref() } else { None }
    }

    /// What is open under `handle`, to change it.
    pub fn get_mut(&mut self, handle: Handle) -> Option<&mut T> {
        self.slot(handle)?.value.as_mut()
    }

    /// What is open under two different handles, to change both; `None` unless both are.
    pub fn pair_mut(&mut self, a: Handle, b: Handle) -> Option<(&mut T, &mut T)> {
        let place = |handle: Handle| usize::try_from(handle.place).ok();
        let [first, second] = self.places.get_disjoint_mut([place(a)?, place(b)?]).ok()?;
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
        self.places.iter().zip(0u32..).filter_map(|(slot, place)| {
            let handle = Handle { place, generation: slot.generation };
            slot.value.as_ref().map(|value| (handle, value))
        })
    }

    /// All that is open, to change it.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Handle, &mut T)> {
        self.places.iter_mut().zip(0u32..).filter_map(|(slot, place)| {
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
            assert_eq!(Handle::from_wire(&handle.to_wire()), handle);
        }
        for odd in [&b""[..], b"1234567", b"123456789", b"\xff\xff\xff\xff\0\0\0\0"] {
            assert_eq!(handles.get(Handle::from_wire(odd)), None);
        }
    }
}
