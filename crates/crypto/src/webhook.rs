//! Signatures of web hooks: of Standard Webhooks 1.0 (HMAC-SHA-256 over id, time and body), and of
//! the body alone.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use entrepot_nouns::Secret;
use zeroize::Zeroizing;

use crate::constant_time_eq;
use crate::limits::SIGNATURES;

/// What comes before a key in its text.
const PREFIX: &str = "whsec_";

/// A message as it is signed.
#[derive(Clone, Copy)]
pub struct SignedMessage<'a> {
    /// The same for every attempt to deliver it.
    pub id: &'a str,
    /// Of this attempt, in seconds since 1970.
    pub at_seconds: i64,
    /// As it is sent.
    pub body: &'a [u8],
}

/// The value of the field `webhook-signature`: one signature for each key of `keys`, which stand
/// with a blank between them. `None` if one of them is no key.
pub fn signatures(keys: &Secret, message: SignedMessage<'_>) -> Option<String> {
    let keys = std::str::from_utf8(keys.expose()).ok()?;
    let signed: Option<Vec<String>> = keys.split(' ').map(|key| signature(key, message)).collect();
    signed.map(|signed| signed.join(" "))
}

/// Whether one of `signatures`, as a request has them with blanks between, is that of this key.
/// Takes as long for a wrong one as for a right one. Those of other versions count for nothing.
pub fn is_signed(key: &Secret, message: SignedMessage<'_>, signatures: &str) -> bool {
    let Ok(key) = std::str::from_utf8(key.expose()) else { return false };
    let Some(right) = signature(key, message) else { return false };
    let shown = signatures.split(' ').take(SIGNATURES);
    shown.fold(false, |is_right, it| constant_time_eq(it.as_bytes(), right.as_bytes()) | is_right)
}

/// HMAC-SHA-256 of a body alone.
pub fn body_signature(key: &Secret, body: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key.expose()), body).as_ref().to_vec()
}

fn signature(key: &str, message: SignedMessage<'_>) -> Option<String> {
    let bytes = Zeroizing::new(STANDARD.decode(key.strip_prefix(PREFIX)?).ok()?);
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, &bytes));
    context.update(format!("{}.{}.", message.id, message.at_seconds).as_bytes());
    context.update(message.body);
    Some(format!("v1,{}", STANDARD.encode(context.sign())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification.
    #[test]
    fn a_signature_is_that_of_the_specification() {
        let message = SignedMessage {
            id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
            at_seconds: 1_614_265_330,
            body: br#"{"test": 2432232314}"#,
        };
        let key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let one = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        let of = |keys: &str| signatures(&Secret::new(keys), message);
        assert_eq!(of(key).as_deref(), Some(one));
        let both = of(&format!("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD {key}")).unwrap();
        assert!(both.ends_with(one) && both.matches("v1,").count() == 2, "{both}");
        let knows = |shown: &str| is_signed(&Secret::new(key), message, shown);
        assert!(knows(one) && knows(&both) && knows(&format!("v1a,x {one}")));
        let other = SignedMessage { at_seconds: message.at_seconds + 1, ..message };
        assert!(!is_signed(&Secret::new(key), other, one), "the time is signed");
        let other = SignedMessage { body: b"{}", ..message };
        assert!(!is_signed(&Secret::new(key), other, one), "the body is signed");
        let other = SignedMessage { id: "msg_2", ..message };
        assert!(!is_signed(&Secret::new(key), other, one), "the id is signed");
        assert!(!knows("") && !knows("v1,") && !knows(one.trim_start_matches("v1,")));
        assert!(!is_signed(&Secret::new("***"), message, one));
        assert_eq!(of("whsec_***"), None);
        assert_eq!(of("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), None);
    }

    /// The example of RFC 4231 §4.3.
    #[test]
    fn a_signature_of_a_body_is_hmac_sha_256() {
        let signed = body_signature(&Secret::new("Jefe"), b"what do ya want for nothing?");
        let hex: String = signed.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    }
}
