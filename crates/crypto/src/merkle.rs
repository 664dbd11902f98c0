//! Merkle trees over a log that only grows, as Certificate Transparency has them (RFC 9162 §2.1).
//!
//! A leaf is hashed as SHA-256(0x00 ‖ data), a node as SHA-256(0x01 ‖ left ‖ right). The root over
//! the first `size` leaves commits to each of them; an inclusion path of about log₂(size) hashes
//! shows that one leaf is among them, without the others.
//!
//! Hashes are taken from whoever stores them, by [`Subtrees`]: only roots of complete subtrees are
//! asked for, which never change once they are known.

use aws_lc_rs::digest::{Context, SHA256};

/// A SHA-256 value.
pub type Hash = [u8; 32];

/// Roots of complete subtrees of a tree that is stored somewhere.
pub trait Subtrees {
    /// Why a root cannot be read.
    type Error;

    /// The root over the 2^`level` leaves from leaf `index` × 2^`level` on. It is asked only of
    /// subtrees that lie within the tree as a whole.
    ///
    /// # Errors
    /// If the stored hashes cannot be read.
    fn root_of(&self, level: u32, index: u64) -> Result<Hash, Self::Error>;
}

/// The hash of a leaf (RFC 9162 §2.1.1).
pub fn leaf_hash(data: &[u8]) -> Hash {
    digest(&[&[0x00], data])
}

/// The hash of the node above two others (RFC 9162 §2.1.1).
pub fn node_hash(left: &Hash, right: &Hash) -> Hash {
    digest(&[&[0x01], left, right])
}

fn digest(parts: &[&[u8]]) -> Hash {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(part);
    }
    let mut hash = Hash::default();
    for (to, from) in hash.iter_mut().zip(context.finish().as_ref()) {
        *to = *from;
    }
    hash
}

/// The root over the first `size` leaves; of an empty tree the hash of nothing.
///
/// # Errors
/// What `subtrees` says.
pub fn root<S: Subtrees>(subtrees: &S, size: u64) -> Result<Hash, S::Error> {
    if size == 0 { Ok(digest(&[])) } else { range_root(subtrees, 0, size) }
}

/// The inclusion path of leaf `index` in the tree of the first `size` leaves, from the leaf
/// upwards (RFC 9162 §2.1.3.1). `None` if the tree has no such leaf.
///
/// # Errors
/// What `subtrees` says.
pub fn inclusion_path<S: Subtrees>(
    subtrees: &S,
    index: u64,
    size: u64,
) -> Result<Option<Vec<Hash>>, S::Error> {
    if index >= size {
        return Ok(None);
    }
    let (mut from, mut to) = (0, size);
    let mut path = Vec::new();
    while to - from > 1 {
        let middle = from + largest_power_below(to - from);
        if index < middle {
            path.push(range_root(subtrees, middle, to)?);
            to = middle;
        } else {
            path.push(range_root(subtrees, from, middle)?);
            from = middle;
        }
    }
    path.reverse();
    Ok(Some(path))
}

/// True if `path` leads from the hash of leaf `index` to the root of a tree of `size` leaves
/// (RFC 9162 §2.1.3.2).
pub fn is_included(leaf: &Hash, index: u64, size: u64, path: &[Hash], root: &Hash) -> bool {
    if index >= size {
        return false;
    }
    let (mut at, mut last) = (index, size - 1);
    let mut hash = *leaf;
    for beside in path {
        if last == 0 {
            return false;
        }
        if at % 2 == 1 || at == last {
            hash = node_hash(beside, &hash);
            while at % 2 == 0 && at != 0 {
                at >>= 1;
                last >>= 1;
            }
        } else {
            hash = node_hash(&hash, beside);
        }
        at >>= 1;
        last >>= 1;
    }
    last == 0 && hash == *root
}

/// The root over the leaves `from..to`; `from` is a multiple of a power of two that is at least
/// `to - from`, as it always is where a tree is split as the RFC splits it.
fn range_root<S: Subtrees>(subtrees: &S, from: u64, to: u64) -> Result<Hash, S::Error> {
    let count = to - from;
    if count.is_power_of_two() {
        let level = count.trailing_zeros();
        return subtrees.root_of(level, from >> level);
    }
    let middle = from + largest_power_below(count);
    let left = range_root(subtrees, from, middle)?;
    let right = range_root(subtrees, middle, to)?;
    Ok(node_hash(&left, &right))
}

/// The largest power of two below `count`, which is at least 2.
fn largest_power_below(count: u64) -> u64 {
    1 << (63 - (count - 1).leading_zeros())
}

/// The root over hashes that lie in memory, a power of two of them.
///
/// `None` if they are none, or not a power of two.
pub fn complete_root(hashes: &[Hash]) -> Option<Hash> {
    if !hashes.len().is_power_of_two() {
        return None;
    }
    let mut level = hashes.to_vec();
    while level.len() > 1 {
        level = level
            .chunks_exact(2)
            .filter_map(|pair| match pair {
                [left, right] => Some(node_hash(left, right)),
                _ => None,
            })
            .collect();
    }
    level.first().copied()
}

/// The right edge of a tree that grows leaf by leaf: gives its root at any moment, and no path.
#[derive(Clone, Debug, Default)]
pub struct Frontier {
    size: u64,
    /// Roots of complete subtrees from left to right, one for each bit of `size` that is set.
    subtrees: Vec<Hash>,
}

impl Frontier {
    /// That of the first `size` leaves of a tree that is stored.
    ///
    /// # Errors
    /// What `stored` says.
    pub fn of<S: Subtrees>(stored: &S, size: u64) -> Result<Self, S::Error> {
        let mut frontier = Frontier { size, subtrees: Vec::new() };
        let mut from = 0u64;
        for level in (0..u64::BITS).rev().filter(|level| size >> level & 1 == 1) {
            frontier.subtrees.push(stored.root_of(level, from >> level)?);
            from += 1 << level;
        }
        Ok(frontier)
    }

    /// How many leaves there are.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Appends the hash of a leaf.
    pub fn push(&mut self, leaf: Hash) {
        let mut hash = leaf;
        // Each set bit at the low end is a complete subtree that the new leaf completes another
        // with.
        for _ in 0..self.size.trailing_ones() {
            if let Some(left) = self.subtrees.pop() {
                hash = node_hash(&left, &hash);
            }
        }
        self.subtrees.push(hash);
        self.size += 1;
    }

    /// The root over all leaves; of an empty tree the hash of nothing.
    pub fn root(&self) -> Hash {
        let mut from_right = self.subtrees.iter().rev().copied();
        match from_right.next() {
            Some(last) => from_right.fold(last, |right, left| node_hash(&left, &right)),
            None => digest(&[]),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    /// All leaves in memory.
    struct Leaves(Vec<Hash>);

    impl Subtrees for Leaves {
        type Error = Infallible;

        fn root_of(&self, level: u32, index: u64) -> Result<Hash, Infallible> {
            let (width, index) = (1usize << level, usize::try_from(index).expect("small"));
            let hashes = &self.0[index * width..(index + 1) * width];
            Ok(complete_root(hashes).expect("a power of two"))
        }
    }

    fn hex(hash: &Hash) -> String {
        hash.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The test vectors that implementations of RFC 6962 and 9162 share.
    #[test]
    fn roots_are_those_of_the_common_test_vectors() {
        let data: [&[u8]; 8] = [
            b"",
            &[0x00],
            &[0x10],
            &[0x20, 0x21],
            &[0x30, 0x31],
            &[0x40, 0x41, 0x42, 0x43],
            &[0x50, 0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57],
            &[
                0x60, 0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x6b, 0x6c, 0x6d,
                0x6e, 0x6f,
            ],
        ];
        let roots = [
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
            "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
            "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
            "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
            "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
            "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
            "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
            "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
        ];
        let leaves = Leaves(data.iter().map(|data| leaf_hash(data)).collect());
        for (size, expected) in roots.iter().enumerate() {
            let Ok(found) = root(&leaves, size as u64);
            assert_eq!(hex(&found), *expected, "{size} leaves");
        }
    }

    #[test]
    fn a_tree_that_grows_has_the_root_of_the_tree_as_a_whole() {
        let leaves = Leaves((0u8..200).map(|number| leaf_hash(&[number])).collect());
        let mut frontier = Frontier::default();
        for size in 0..=200u64 {
            let Ok(whole) = root(&leaves, size);
            assert_eq!((frontier.size(), frontier.root()), (size, whole));
            let Ok(stored) = Frontier::of(&leaves, size);
            assert_eq!(stored.root(), whole);
            if let Some(leaf) = leaves.0.get(usize::try_from(size).expect("small")) {
                frontier.push(*leaf);
            }
        }
    }

    #[test]
    fn each_leaf_of_each_tree_has_a_path_and_no_other_leaf_has_it() {
        let leaves = Leaves((0u8..70).map(|number| leaf_hash(&[number])).collect());
        for size in 1..=70u64 {
            let Ok(whole) = root(&leaves, size);
            for index in 0..size {
                let Ok(path) = inclusion_path(&leaves, index, size);
                let path = path.expect("the leaf is in the tree");
                let leaf = leaves.0[usize::try_from(index).expect("small")];
                assert!(is_included(&leaf, index, size, &path, &whole), "{index} of {size}");
                let other = leaf_hash(b"another");
                assert!(!is_included(&other, index, size, &path, &whole));
                assert!(!is_included(&leaf, index + 1, size, &path, &whole), "{index} of {size}");
                assert!(!is_included(&leaf, index, size, &path, &other));
                let mut longer = path.clone();
                longer.push(other);
                assert!(!is_included(&leaf, index, size, &longer, &whole));
                if let Some((_, shorter)) = path.split_last() {
                    assert!(!is_included(&leaf, index, size, shorter, &whole));
                }
            }
            let Ok(none) = inclusion_path(&leaves, size, size);
            assert_eq!(none, None);
        }
    }

    #[test]
    fn only_a_power_of_two_of_hashes_is_a_complete_tree() {
        let hash = leaf_hash(b"");
        assert_eq!(complete_root(&[]), None);
        assert_eq!(complete_root(&[hash]), Some(hash));
        assert_eq!(complete_root(&[hash; 2]), Some(node_hash(&hash, &hash)));
        assert_eq!(complete_root(&[hash; 3]), None);
    }
}
