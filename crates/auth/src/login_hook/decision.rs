//! What a hook decides, and how it says so in JSON.

use serde::Deserialize;

use crate::limits::HOOK_ANSWER_BYTES;

/// The JSON document that it answers with; further fields are ignored.
#[derive(Deserialize)]
struct HookResponse {
    allow: bool,
    /// The account to log in as; unset: the one of the name in the request.
    #[serde(default)]
    account: Option<String>,
}

/// The result of a check.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HookDecision {
    /// The password is right; the login is as this account.
    Allowed(String),
    /// The password is wrong, or the hook refuses the name.
    Refused,
    /// No usable answer came; the reason, without anything that the hook wrote.
    Failed(String),
    /// Too many logins wait for a hook already.
    Busy,
}

/// The decision that an answer about `user` holds.
pub(super) fn decision(answer: &[u8], user: &str) -> Result<HookDecision, String> {
    if answer.len() > HOOK_ANSWER_BYTES {
        return Err("it said too much".to_owned());
    }
    // Not the answer itself: it may show the password.
    let answer: HookResponse = serde_json::from_slice(answer)
        .map_err(|_| r#"its answer is no JSON such as {"allow": false}"#.to_owned())?;
    Ok(match answer {
        HookResponse { allow: false, .. } => HookDecision::Refused,
        HookResponse { account, .. } => {
            HookDecision::Allowed(account.unwrap_or_else(|| user.to_owned()))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_is_one() {
        let said = |text: &str| decision(text.as_bytes(), "anna");
        assert_eq!(said(r#"{"allow": true}"#), Ok(HookDecision::Allowed("anna".to_owned())));
        let acme = r#"{"allow": true, "account": "acme", "more": 1}"#;
        assert_eq!(said(acme), Ok(HookDecision::Allowed("acme".to_owned())));
        assert_eq!(said(r#"{"allow": false, "account": "acme"}"#), Ok(HookDecision::Refused));
        for odd in
            ["", "true", "{}", r#"{"allow": "true"}"#, r#"{"allow": 1}"#, r#"{"allow": true"#]
        {
            assert!(said(odd).is_err(), "{odd}");
        }
        assert!(said(&" ".repeat(HOOK_ANSWER_BYTES + 1)).is_err());
        let secret = said(r#"{"allow": "hunter2"}"#).unwrap_err();
        assert!(!secret.contains("hunter2"), "{secret}");
    }
}
