//! Password hashes: argon2id (RFC 9106) in PHC string form.

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};
use entrepot_nouns::Secret;

use crate::limits::{HASH_MEMORY_KIB, PASSWORD_BYTES, PHC_BYTES};

/// What one hash costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashCost {
    /// Memory in KiB.
    pub memory_kib: u32,
    /// Passes over it.
    pub passes: u32,
    /// Degree of parallelism of Argon2 (its `p`).
    pub lanes: u32,
}

impl Default for HashCost {
    /// 64 MiB, 3 passes, 1 lane.
    fn default() -> Self {
        HashCost { memory_kib: 65_536, passes: 3, lanes: 1 }
    }
}

impl HashCost {
    /// So cheap that it protects nothing: for tests.
    pub fn for_tests() -> Self {
        HashCost { memory_kib: 64, passes: 1, lanes: 1 }
    }

    fn hasher(self) -> Result<Argon2<'static>, PasswordError> {
        let params = Params::new(self.memory_kib, self.passes, self.lanes, None);
        let params = params.map_err(|error| PasswordError::Unusable(error.to_string()))?;
        Ok(Argon2::new(Algorithm::Argon2id, Version::V0x13, params))
    }
}

/// Why a password could not be hashed or compared.
#[derive(Debug, thiserror::Error)]
pub enum PasswordError {
    /// Longer than 1,024 bytes.
    #[error("the password is longer than {PASSWORD_BYTES} bytes, use a shorter one")]
    TooLong,
    /// Not a hash that this program understands.
    #[error("the password hash cannot be used: {0}")]
    Unusable(String),
}

/// Refuses a password that [`hash`] would refuse, without any work.
pub fn check_length(password: &Secret) -> Result<(), PasswordError> {
    if password.expose().len() > PASSWORD_BYTES {
        return Err(PasswordError::TooLong);
    }
    Ok(())
}

/// Hashes with a fresh random `salt`. Takes tens of milliseconds: call it from a bounded pool.
pub fn hash(password: &Secret, cost: HashCost, salt: &[u8; 16]) -> Result<String, PasswordError> {
    check_length(password)?;
    let hashed = cost.hasher()?.hash_password_with_salt(password.expose(), salt);
    hashed
        .map(|hash: PasswordHash| hash.to_string())
        .map_err(|error| PasswordError::Unusable(error.to_string()))
}

/// True if `password` is the one behind `phc`. As expensive as [`hash`], right or wrong.
pub fn verify(password: &Secret, phc: &str) -> Result<bool, PasswordError> {
    check_length(password)?;
    let parsed = parse(phc)?;
    let cost = cost_of(&parsed)?;
    match cost.hasher()?.verify_password(password.expose(), &parsed) {
        Ok(()) => Ok(true),
        Err(argon2::password_hash::Error::PasswordInvalid) => Ok(false),
        Err(error) => Err(PasswordError::Unusable(error.to_string())),
    }
}

/// Checks the form of a hash from a document, without any work.
pub fn check(phc: &str) -> Result<(), PasswordError> {
    cost_of(&parse(phc)?).map(drop)
}

/// The memory in KiB that comparing with `phc` takes; of what is no hash, nothing.
pub fn memory_kib(phc: &str) -> u32 {
    parse(phc).and_then(|parsed| cost_of(&parsed)).map_or(0, |cost| cost.memory_kib)
}

/// True if `phc` was made with another cost than `cost` and should be made anew at a login.
pub fn is_outdated(phc: &str, cost: HashCost) -> bool {
    parse(phc).and_then(|parsed| cost_of(&parsed)).map_or(true, |found| found != cost)
}

/// A hash that no password fits, of the given cost: verified for unknown names, so that they take
/// the same work as known ones.
pub fn dummy(cost: HashCost) -> Result<String, PasswordError> {
    hash(&Secret::new(*b"no account has this password"), cost, b"no account salt!")
}

fn parse(phc: &str) -> Result<PasswordHash, PasswordError> {
    if phc.len() > PHC_BYTES {
        return Err(PasswordError::Unusable("it is too long".to_owned()));
    }
    let parsed = PasswordHash::new(phc);
    let parsed = parsed.map_err(|error| PasswordError::Unusable(error.to_string()))?;
    if parsed.algorithm.as_str() != "argon2id" {
        return Err(PasswordError::Unusable(format!(
            "'{}' is not argon2id, set the password anew",
            parsed.algorithm
        )));
    }
    Ok(parsed)
}

fn cost_of(parsed: &PasswordHash) -> Result<HashCost, PasswordError> {
    let params = Params::try_from(parsed);
    let params = params.map_err(|error| PasswordError::Unusable(error.to_string()))?;
    if params.m_cost() > HASH_MEMORY_KIB {
        return Err(PasswordError::Unusable("it asks for more than 1 GiB of memory".to_owned()));
    }
    Ok(HashCost { memory_kib: params.m_cost(), passes: params.t_cost(), lanes: params.p_cost() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn right_and_wrong() {
        let cost = HashCost::for_tests();
        let phc = hash(&Secret::new(*b"open sesame"), cost, &[7; 16]).unwrap();
        assert!(phc.starts_with("$argon2id$v=19$m=64,t=1,p=1$"), "{phc}");
        assert!(verify(&Secret::new(*b"open sesame"), &phc).unwrap());
        assert!(!verify(&Secret::new(*b"open sesamE"), &phc).unwrap());
        assert!(!is_outdated(&phc, cost));
        assert!(is_outdated(&phc, HashCost::default()));
        assert_eq!((memory_kib(&phc), memory_kib("plain")), (64, 0));
        assert!(!verify(&Secret::new(*b"x"), &dummy(cost).unwrap()).unwrap());
    }

    #[test]
    fn odd_hashes_and_passwords_are_refused_without_work() {
        let long = Secret::new(vec![b'a'; PASSWORD_BYTES + 1]);
        assert!(matches!(
            hash(&long, HashCost::for_tests(), &[0; 16]),
            Err(PasswordError::TooLong)
        ));
        for bad in ["", "plain", "$2y$10$abc", "$scrypt$ln=1$c2FsdHNhbHQ$aGFzaGhhc2g"] {
            assert!(check(bad).is_err(), "{bad:?} was taken");
        }
        let greedy = "$argon2id$v=19$m=4000000,t=1,p=1$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNo";
        assert!(check(greedy).is_err(), "a greedy hash was taken");
    }
}
