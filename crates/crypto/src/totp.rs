//! Codes of a generator that keeps time (RFC 6238: HMAC-SHA-1, 6 digits, 30 s), as every
//! authenticator program makes them. Own code over the HMAC of AWS-LC: the algorithm is one HMAC
//! and one truncation, less than a dependency would bring along.

use aws_lc_rs::hmac;
use entrepot_nouns::{Env, Secret};
use zeroize::Zeroizing;

use crate::constant_time_eq;
use crate::limits::{TOTP_DRIFT, TOTP_SECRET_BYTES, TOTP_SECRET_LEAST, TOTP_STEP_SECONDS};

/// RFC 4648 §6.
const LETTERS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
/// Codes have six digits.
const MODULUS: u32 = 1_000_000;
const DIGITS: usize = 6;

/// Makes the secret of a new generator, as base32.
pub fn new_secret(env: &Env) -> Secret {
    let mut bytes = Zeroizing::new([0; TOTP_SECRET_BYTES]);
    env.fill_random(bytes.as_mut());
    Secret::new(encode(bytes.as_ref()))
}

/// Checks that a secret can be used.
///
/// # Errors
/// A sentence that says what to give.
pub fn check_secret(secret: &Secret) -> Result<(), String> {
    match decode(secret.expose()) {
        Some(bytes) if bytes.len() >= TOTP_SECRET_LEAST => Ok(()),
        Some(_) => Err(format!("it is too short, give at least {TOTP_SECRET_LEAST} bytes")),
        None => Err("give the secret of the generator as base32 (A-Z, 2-7)".to_owned()),
    }
}

/// What a generator is set up with, as text or as a QR code.
pub fn uri(issuer: &str, account: &str, secret: &Secret) -> Secret {
    let secret = String::from_utf8_lossy(secret.expose());
    // Names hold letters, digits and `. _ - @`: only the last must be escaped.
    let account = account.replace('@', "%40");
    Secret::new(format!(
        "otpauth://totp/{issuer}:{account}?secret={secret}&issuer={issuer}\
         &algorithm=SHA1&digits={DIGITS}&period={TOTP_STEP_SECONDS}"
    ))
}

/// The step whose code was given, if it is one of those that are taken at `now_seconds`. The
/// caller takes each step once (RFC 6238 §5.2).
pub fn step_of(secret: &Secret, code: &Secret, now_seconds: i64) -> Option<i64> {
    let key = key(secret)?;
    let now = now_seconds.div_euclid(TOTP_STEP_SECONDS);
    // All are compared, so that the time does not tell which.
    let mut found = None;
    for step in now.saturating_sub(TOTP_DRIFT)..=now.saturating_add(TOTP_DRIFT) {
        if constant_time_eq(at(&key, step).as_bytes(), code.expose()) {
            found = Some(step);
        }
    }
    found
}

/// The code at a moment: what the owner's generator shows.
pub fn code_at(secret: &Secret, now_seconds: i64) -> Option<String> {
    Some(at(&key(secret)?, now_seconds.div_euclid(TOTP_STEP_SECONDS)))
}

fn key(secret: &Secret) -> Option<hmac::Key> {
    let bytes = decode(secret.expose())?;
    Some(hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &bytes))
}

/// RFC 4226 §5.3.
fn at(key: &hmac::Key, step: i64) -> String {
    let tag = hmac::sign(key, &step.to_be_bytes());
    let hash = tag.as_ref();
    let offset = usize::from(hash.last().copied().unwrap_or_default() & 0xf);
    let word = hash.get(offset..).and_then(|rest| rest.first_chunk::<4>()).copied();
    let number = u32::from_be_bytes(word.unwrap_or_default()) & 0x7fff_ffff;
    format!("{:0width$}", number % MODULUS, width = DIGITS)
}

fn encode(bytes: &[u8]) -> String {
    let bit = |at: usize| {
        let byte = bytes.get(at / 8).copied().unwrap_or_default();
        usize::from(byte >> (7 - at % 8) & 1)
    };
    let group = |at: usize| (at..at + 5).fold(0, |value, at| value << 1 | bit(at));
    let letter = |at: usize| LETTERS.get(group(at)).copied().unwrap_or_default();
    (0..bytes.len() * 8).step_by(5).map(|at| char::from(letter(at))).collect()
}

/// Small letters, spaces and padding are taken as people write them.
fn decode(text: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(text.len()));
    let (mut value, mut bits) = (0u32, 0);
    for letter in text.iter().filter(|letter| !b" -=".contains(letter)) {
        let upper = letter.to_ascii_uppercase();
        let five = LETTERS.iter().position(|known| *known == upper)?;
        value = (value << 5 | u32::try_from(five).ok()?) & 0xfff;
        bits += 5;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(value >> bits & 0xff).ok()?);
        }
    }
    (!bytes.is_empty()).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6238 appendix B, SHA-1; the last six of its eight digits.
    #[test]
    fn codes_of_the_rfc() {
        let secret = Secret::new(encode(b"12345678901234567890"));
        for (time, code) in [
            (59, "287082"),
            (1_111_111_109, "081804"),
            (1_111_111_111, "050471"),
            (1_234_567_890, "005924"),
            (2_000_000_000, "279037"),
            (20_000_000_000, "353130"),
        ] {
            assert_eq!(code_at(&secret, time).unwrap(), code, "at {time}");
            assert_eq!(step_of(&secret, &Secret::new(code), time), Some(time / 30));
        }
    }

    #[test]
    fn one_step_before_and_after_is_taken_and_no_more() {
        let secret = new_secret(&Env::simulated(3));
        let code = |at: i64| Secret::new(code_at(&secret, at).unwrap());
        for (drift, taken) in [(-60, false), (-30, true), (0, true), (30, true), (60, false)] {
            let step = step_of(&secret, &code(9_000_000 + drift), 9_000_000);
            assert_eq!(step.is_some(), taken, "{drift}");
        }
        for bad in ["", "12345", "1234567", "abcdef"] {
            assert_eq!(step_of(&secret, &Secret::new(bad), 9_000_000), None);
        }
    }

    #[test]
    fn secrets_are_written_as_programs_read_them() {
        // RFC 4648 §10.
        for (plain, text) in [("f", "MY"), ("foob", "MZXW6YQ"), ("foobar", "MZXW6YTBOI")] {
            assert_eq!(encode(plain.as_bytes()), text);
            assert_eq!(decode(text.as_bytes()).unwrap().as_slice(), plain.as_bytes());
        }
        assert_eq!(decode(b"mzxw 6ytb oi======").unwrap().as_slice(), b"foobar");
        assert!(decode(b"0189").is_none() && decode(b"").is_none());
        let secret = new_secret(&Env::simulated(1));
        assert_eq!(secret.expose().len(), 32);
        assert!(check_secret(&secret).is_ok() && check_secret(&Secret::new("MZXW6")).is_err());
        let uri = uri("Entrepot", "a@b", &secret);
        let text = String::from_utf8_lossy(uri.expose()).into_owned();
        assert!(text.starts_with("otpauth://totp/Entrepot:a%40b?secret="), "{text}");
        assert_eq!(format!("{uri:?}"), "***");
    }
}
