//! Password hashes: argon2id (RFC 9106) in PHC string form.

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};
use entrepot_nouns::Secret;

use crate::limits::{
    HASH_LANES, HASH_MEMORY_KIB, HASH_PASSES, HASH_WORK_KIB, NEW_HASH_MEMORY_KIB,
    NEW_HASH_WORK_KIB, PASSWORD_BYTES, PHC_BYTES,
};

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
    /// What an operator chose for new passwords, in MiB of memory and passes over it.
    ///
    /// # Errors
    /// It would protect too little, or keep the machine busy for long.
    pub fn chosen(memory_mib: u32, passes: u32) -> Result<HashCost, PasswordError> {
        let cost = HashCost { memory_kib: memory_mib.saturating_mul(1024), passes, lanes: 1 };
        cost.check_bounds().map_err(|error| match error {
            PasswordError::Unusable(problem) => PasswordError::Cost(problem),
            other => other,
        })?;
        if cost.memory_kib < NEW_HASH_MEMORY_KIB || cost.work_kib() < NEW_HASH_WORK_KIB {
            return Err(PasswordError::Cost(format!(
                "{memory_mib} MiB and {passes} passes protect too little: the memory is {} MiB at \
                 least, and {} when multiplied by the passes",
                NEW_HASH_MEMORY_KIB >> 10,
                NEW_HASH_WORK_KIB >> 10
            )));
        }
        Ok(cost)
    }

    /// So cheap that it protects nothing: for tests.
    pub fn for_tests() -> Self {
        HashCost { memory_kib: 64, passes: 1, lanes: 1 }
    }

    /// Memory times passes, in KiB: what a guess costs too.
    fn work_kib(self) -> u64 {
        u64::from(self.memory_kib) * u64::from(self.passes)
    }

    /// Refuses what would keep the machine busy for long: a hash may come from elsewhere.
    fn check_bounds(self) -> Result<(), PasswordError> {
        let greedy = |problem: String| Err(PasswordError::Unusable(problem));
        if self.memory_kib > HASH_MEMORY_KIB {
            return greedy("it asks for more than 1 GiB of memory".to_owned());
        }
        if self.passes > HASH_PASSES {
            return greedy(format!("it asks for more than {HASH_PASSES} passes"));
        }
        if self.lanes > HASH_LANES {
            return greedy(format!("it asks for more than {HASH_LANES} lanes"));
        }
        if self.work_kib() > HASH_WORK_KIB {
            return greedy("its memory times its passes is more than 4 GiB".to_owned());
        }
        Ok(())
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
    /// New hashes may not cost this.
    #[error("{0}")]
    Cost(String),
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

/// True if a guess at the password behind `phc` costs less than one at `cost` would: it should be
/// made anew at a login.
pub fn is_outdated(phc: &str, cost: HashCost) -> bool {
    parse(phc)
        .and_then(|parsed| cost_of(&parsed))
        .is_ok_and(|found| found.work_kib() < cost.work_kib())
}

/// The hash of the same password at `cost`, with the salt of `phc`: by that, others who hold `phc`
/// see that the password has not changed ([`is_same_made_anew`]). As expensive as [`hash`].
pub fn made_anew(password: &Secret, phc: &str, cost: HashCost) -> Result<String, PasswordError> {
    check_length(password)?;
    let parsed = parse(phc)?;
    let salt = parsed.salt.ok_or_else(|| PasswordError::Unusable("it has no salt".to_owned()))?;
    let hashed = cost.hasher()?.hash_password_with_salt(password.expose(), &salt);
    hashed
        .map(|hash: PasswordHash| hash.to_string())
        .map_err(|error| PasswordError::Unusable(error.to_string()))
}

/// True if `new` is `old`, or was made of it by [`made_anew`]: it has the same salt and costs more.
/// A password that is set anew gets a salt of its own.
pub fn is_same_made_anew(old: &str, new: &str) -> bool {
    let (Ok(before), Ok(after)) = (parse(old), parse(new)) else { return old == new };
    let costs = (cost_of(&before), cost_of(&after));
    let costs_more =
        matches!(costs, (Ok(before), Ok(after)) if before.work_kib() < after.work_kib());
    old == new || (before.salt.is_some() && before.salt == after.salt && costs_more)
}

/// Names a password by its hash `phc`, and tells nothing of it: the same name for hashes that were
/// made of each other by [`made_anew`], another one once the password is set anew.
pub fn name(phc: &str) -> String {
    let salt = parse(phc).ok().and_then(|parsed| parsed.salt);
    let salt = salt.map(|salt| salt.to_string());
    let key = blake3::derive_key(
        "entrepot 2026 name of a password",
        salt.as_deref().unwrap_or(phc).as_bytes(),
    );
    blake3::Hash::from_bytes(key).to_hex().to_string()
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
    let cost =
        HashCost { memory_kib: params.m_cost(), passes: params.t_cost(), lanes: params.p_cost() };
    cost.check_bounds()?;
    Ok(cost)
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
    fn what_new_hashes_cost_is_neither_too_little_nor_too_much() {
        let usual = HashCost::default();
        assert_eq!(HashCost::chosen(64, 3).unwrap(), usual);
        for (memory_mib, passes) in [(7, 5), (12, 3), (19, 2), (46, 1), (1024, 4)] {
            HashCost::chosen(memory_mib, passes).unwrap();
        }
        for (memory_mib, passes) in [
            (0, 0),
            (6, 64),
            (7, 4),
            (34, 1),
            (64, 0),
            (1025, 1),
            (1024, 5),
            (7, 65),
            (u32::MAX, 3),
        ] {
            HashCost::chosen(memory_mib, passes).unwrap_err();
        }
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
        let phc = |cost: &str| format!("$argon2id$v=19${cost}$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNo");
        for greedy in [
            "m=4000000,t=1,p=1",
            "m=64,t=4000000000,p=1",
            "m=64,t=65,p=1",
            "m=8000,t=1,p=1000",
            "m=1048576,t=5,p=1",
        ] {
            let phc = phc(greedy);
            assert!(check(&phc).is_err(), "{greedy} was taken");
            assert!(verify(&Secret::new(*b"x"), &phc).is_err(), "{greedy} was compared");
        }
        for usual in ["m=1048576,t=4,p=1", "m=19456,t=2,p=1", "m=65536,t=3,p=4"] {
            assert!(check(&phc(usual)).is_ok(), "{usual} was refused");
        }
    }

    #[test]
    fn a_hash_made_anew_is_known_as_the_same_and_another_password_is_not() {
        let (cheap, dear) =
            (HashCost::for_tests(), HashCost { passes: 2, ..HashCost::for_tests() });
        let password = Secret::new(*b"open sesame");
        let old = hash(&password, cheap, &[7; 16]).unwrap();
        let new = made_anew(&password, &old, dear).unwrap();
        assert!(verify(&password, &new).unwrap() && !is_outdated(&new, dear));
        assert!(is_outdated(&old, dear) && !is_outdated(&new, cheap));
        assert!(is_same_made_anew(&old, &new) && is_same_made_anew(&old, &old));
        assert!(!is_same_made_anew(&new, &old), "it became cheaper");
        let other = hash(&Secret::new(*b"other"), dear, &[8; 16]).unwrap();
        assert!(name(&old) == name(&new) && name(&old) != name(&other));
        assert!(!is_same_made_anew(&old, &other));
        let same_salt = hash(&Secret::new(*b"other"), cheap, &[7; 16]).unwrap();
        assert!(!is_same_made_anew(&old, &same_salt), "somebody set it with the same salt");
        assert!(!is_same_made_anew("", "x") && is_same_made_anew("x", "x"));
    }
}
