//! Codes that stand in for those of a code generator that its owner has lost: 80 random bits in
//! letters that people can copy from paper (Crockford's base32). Only their hash is stored.

use entrepot_nouns::{AccountId, Env, Secret};
use zeroize::Zeroizing;

/// Without I, L, O and U, which look like others or make words.
const LETTERS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// Letters of a code: five bits each.
const LENGTH: usize = 16;
const BYTES: usize = LENGTH * 5 / 8;
const GROUP: usize = 4;

/// Makes a code: four groups of four letters.
pub fn make(env: &Env) -> Secret {
    let mut random = Zeroizing::new([0; BYTES]);
    env.fill_random(random.as_mut());
    let bit = |at: usize| {
        let byte = random.get(at / 8).copied().unwrap_or_default();
        usize::from(byte >> (7 - at % 8) & 1)
    };
    let mut code = Zeroizing::new(String::with_capacity(LENGTH + LENGTH / GROUP));
    for at in 0..LENGTH {
        if at > 0 && at % GROUP == 0 {
            code.push('-');
        }
        let letter = (at * 5..at * 5 + 5).fold(0, |value, at| value << 1 | bit(at));
        code.push(char::from(LETTERS.get(letter).copied().unwrap_or_default()));
    }
    Secret::new(code.as_bytes())
}

/// The hash of a code of this account as 64 hexadecimal digits; `None` if the text is no such code.
/// Small letters, spaces and hyphens are taken as people write them, and so are `O`, `I` and `L`.
pub fn hash(account: AccountId, given: &Secret) -> Option<String> {
    let mut letters = Zeroizing::new(Vec::with_capacity(LENGTH));
    for byte in given.expose().iter().filter(|byte| !b" -".contains(byte)) {
        let letter = match byte.to_ascii_uppercase() {
            b'O' => b'0',
            b'I' | b'L' => b'1',
            letter => letter,
        };
        if !LETTERS.contains(&letter) || letters.len() == LENGTH {
            return None;
        }
        letters.push(letter);
    }
    if letters.len() != LENGTH {
        return None;
    }
    let mut hasher = blake3::Hasher::new_derive_key("entrepot 2026 recovery code");
    hasher.update(account.0.as_bytes());
    hasher.update(&letters);
    Some(hasher.finalize().to_hex().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_known_as_people_write_it_and_belongs_to_one_account() {
        let env = Env::simulated(1);
        let (acme, anna) = (env.new_id::<AccountId>(), env.new_id::<AccountId>());
        let code = make(&env);
        let text = std::str::from_utf8(code.expose()).unwrap().to_owned();
        assert_eq!((text.len(), text.matches('-').count()), (19, 3), "{text}");
        let known = hash(acme, &code).unwrap();
        for written in [
            text.to_lowercase(),
            text.replace('-', ""),
            text.replace('-', " "),
            text.replace('0', "o").replace('1', "l"),
        ] {
            assert_eq!(hash(acme, &Secret::new(written.clone())), Some(known.clone()), "{written}");
        }
        assert_ne!(hash(anna, &code).unwrap(), known);
        assert_ne!(hash(acme, &make(&env)).unwrap(), known);
        for other in ["", "123456", &text[1..], &format!("{text}0"), &text.replace('-', "u")] {
            assert_eq!(hash(acme, &Secret::new(other.to_owned())), None, "{other}");
        }
    }
}
