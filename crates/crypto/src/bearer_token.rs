//! Secrets that let in whoever shows them: a prefix that tells their kind to people and to programs
//! that look for leaked secrets, 256 random bits, and a checksum that tells a mistyped one from a
//! wrong one. Only their hash is stored.

use std::fmt;
use std::str::FromStr;

use entrepot_nouns::{Env, Secret};
use zeroize::Zeroizing;

use crate::random_text;

/// Letters that hold 256 random bits: 62 letters have 5.954 bits each.
const RANDOM_LETTERS: usize = 43;
/// Letters that hold a CRC-32.
const CHECK_LETTERS: usize = 6;
const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// What a token is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BearerKind {
    /// Lets a program act as an account.
    Api,
    /// Stands for the login of a browser, as its cookie.
    SignIn,
    /// Makes the first administrator, once.
    SetUp,
    /// Opens a share link, as a part of its address.
    Link,
}

impl BearerKind {
    /// What tokens of this kind begin with.
    pub fn prefix(self) -> &'static str {
        match self {
            BearerKind::Api => "ept_",
            BearerKind::SignIn => "eps_",
            BearerKind::SetUp => "epi_",
            BearerKind::Link => "epl_",
        }
    }
}

/// BLAKE3 of a token: what is stored of it. As text 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenHash([u8; 32]);

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenHash({self})")
    }
}

impl FromStr for TokenHash {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let hash = blake3::Hash::from_hex(text).map_err(|_| TokenError::Malformed)?;
        Ok(TokenHash(*hash.as_bytes()))
    }
}

/// Why a text is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Another prefix, length or letter.
    #[error("it is no such token")]
    Malformed,
    /// Mistyped or cut: the checksum at its end is another one.
    #[error("it was mistyped or cut")]
    Checksum,
}

/// Makes a token.
pub fn make(env: &Env, kind: BearerKind) -> Secret {
    let random = Zeroizing::new(random_text(env, RANDOM_LETTERS));
    let mut token = Zeroizing::new(format!("{}{}", kind.prefix(), *random));
    let checksum = checksum(token.as_bytes());
    token.push_str(&checksum);
    Secret::new(token.as_bytes())
}

/// The hash of a token of this kind.
///
/// # Errors
/// The text is none; nothing in the error tells what it is.
pub fn hash(kind: BearerKind, given: &Secret) -> Result<TokenHash, TokenError> {
    let token = given.expose();
    let body = token.strip_prefix(kind.prefix().as_bytes()).ok_or(TokenError::Malformed)?;
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric();
    if body.len() != RANDOM_LETTERS + CHECK_LETTERS || !body.iter().all(is_letter) {
        return Err(TokenError::Malformed);
    }
    let (checked, check) = token.split_at(token.len() - CHECK_LETTERS);
    if checksum(checked).as_bytes() != check {
        return Err(TokenError::Checksum);
    }
    Ok(TokenHash(*blake3::hash(token).as_bytes()))
}

/// What forms must carry that a browser sends with this cookie, so that no other site can make it
/// send one: derived from the cookie, which it does not tell. 64 hexadecimal digits.
pub fn csrf(token: &Secret) -> Secret {
    let key = blake3::derive_key("entrepot 2026 csrf token of a sign-in", token.expose());
    Secret::new(blake3::Hash::from_bytes(key).to_hex().as_bytes())
}

/// What a browser remembers that has shown the password of a share link: it is of use for this
/// secret of the link only, and while the password is the same. 64 hexadecimal digits.
pub fn password_cookie(link: TokenHash, password_hash: &str) -> Secret {
    let mut hasher = blake3::Hasher::new_derive_key("entrepot 2026 password of a share link");
    hasher.update(&link.0);
    hasher.update(password_hash.as_bytes());
    Secret::new(hasher.finalize().to_hex().as_bytes())
}

/// The CRC-32 of `text` as letters and digits.
fn checksum(text: &[u8]) -> String {
    let mut rest = crc32fast::hash(text) as usize;
    let mut letters = [0; CHECK_LETTERS];
    for letter in letters.iter_mut().rev() {
        *letter = LETTERS.get(rest % LETTERS.len()).copied().unwrap_or_default();
        rest /= LETTERS.len();
    }
    letters.iter().map(|letter| char::from(*letter)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_known_by_its_hash_and_a_typo_by_its_checksum() {
        let env = Env::simulated(1);
        let token = make(&env, BearerKind::Api);
        let text = std::str::from_utf8(token.expose()).unwrap().to_owned();
        assert!(text.starts_with("ept_") && text.len() == 53, "{text}");
        let known = hash(BearerKind::Api, &token).unwrap();
        assert_eq!(known.to_string().parse(), Ok(known));
        assert_ne!(hash(BearerKind::Api, &make(&env, BearerKind::Api)).unwrap(), known);
        for at in 4..text.len() {
            let mut typo = text.clone().into_bytes();
            typo[at] = if typo[at] == b'x' { b'y' } else { b'x' };
            assert_eq!(hash(BearerKind::Api, &Secret::new(typo)), Err(TokenError::Checksum));
        }
        for bad in
            ["", "ept_", &text[4..], &text[..52], &format!("{text}0"), &text.replace('_', "-")]
        {
            let given = Secret::new(bad.to_owned());
            assert_eq!(hash(BearerKind::Api, &given), Err(TokenError::Malformed), "{bad}");
        }
    }

    #[test]
    fn a_cookie_has_one_csrf_token_and_is_no_api_token() {
        let env = Env::simulated(1);
        let (one, other) = (make(&env, BearerKind::SignIn), make(&env, BearerKind::SignIn));
        assert_eq!(csrf(&one), csrf(&one));
        assert_ne!(csrf(&one), csrf(&other));
        let stored = hash(BearerKind::SignIn, &one).unwrap().to_string();
        assert_ne!(csrf(&one).expose(), stored.as_bytes());
        assert_eq!(hash(BearerKind::Api, &one), Err(TokenError::Malformed));
    }

    #[test]
    fn a_checksum_has_six_letters_for_every_number() {
        assert_eq!(checksum(b"").len(), CHECK_LETTERS);
        assert_eq!(checksum(b""), "000000");
        // Their CRC-32 is the check value of CRC-32/ISO-HDLC.
        let number = checksum(b"123456789").bytes().fold(0_usize, |number, letter| {
            number * 62 + LETTERS.iter().position(|known| *known == letter).unwrap()
        });
        assert_eq!(number, 0xcbf4_3926);
    }
}
