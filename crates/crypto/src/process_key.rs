//! A key of this process alone: what is hashed under it is worthless to anyone else.

use entrepot_nouns::Env;
use zeroize::Zeroizing;

/// A random key that is never written anywhere.
pub struct ProcessKey(Zeroizing<[u8; 32]>);

impl ProcessKey {
    /// A new one.
    pub fn generate(env: &Env) -> Self {
        let mut bytes = Zeroizing::new([0; 32]);
        env.fill_random(bytes.as_mut());
        ProcessKey(bytes)
    }

    /// Keyed BLAKE3 of `parts`, each led by its length: no two lists give the same input.
    pub fn hash(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        *hasher.finalize().as_bytes()
    }
}

impl std::fmt::Debug for ProcessKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ProcessKey(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_parts_and_other_keys_give_other_hashes() {
        let env = Env::simulated(1);
        let (one, other) = (ProcessKey::generate(&env), ProcessKey::generate(&env));
        assert_eq!(one.hash(&[b"a", b"bc"]), one.hash(&[b"a", b"bc"]));
        assert_ne!(one.hash(&[b"a", b"bc"]), one.hash(&[b"ab", b"c"]));
        assert_ne!(one.hash(&[b"a", b"bc"]), other.hash(&[b"a", b"bc"]));
    }
}
