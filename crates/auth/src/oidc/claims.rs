//! What a verified ID token says of a person, and what a site asks of it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use entrepot_nouns::OidcProvider;
use serde_json::{Map, Value};

/// The claims of a verified ID token.
#[derive(Debug)]
pub(crate) struct Person(Map<String, Value>);

impl Person {
    /// Of a token that was verified; `None`: it has no subject.
    pub(super) fn of(token: &str) -> Option<Person> {
        let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
        let person = Person(serde_json::from_slice(&payload).ok()?);
        person.text("sub").is_some().then_some(person)
    }

    /// What the provider knows the person by.
    pub(crate) fn subject(&self) -> &str {
        self.text("sub").unwrap_or_default()
    }

    /// To whom the token was given, if it says so (Core §2).
    pub(super) fn authorized_party(&self) -> Option<&str> {
        self.text("azp")
    }

    fn text(&self, claim: &str) -> Option<&str> {
        self.0.get(claim)?.as_str().filter(|text| !text.is_empty())
    }

    pub(super) fn number(&self, claim: &str) -> Option<i64> {
        self.0.get(claim)?.as_i64()
    }

    /// The e-mail address, if the provider has verified it. Some say so by a text.
    fn verified_email(&self) -> Option<&str> {
        let verified = self.0.get("email_verified")?;
        let is_verified = verified == &Value::Bool(true) || verified == &Value::from("true");
        self.text("email").filter(|_| is_verified)
    }

    /// The name of the account, by the claim that the site has chosen.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn account_name(&self, provider: &OidcProvider) -> Result<&str, String> {
        let claim = provider.claim();
        if claim == "email" {
            let unverified = || "the provider has verified no e-mail address".to_owned();
            return self.verified_email().ok_or_else(unverified);
        }
        self.text(claim).ok_or_else(|| format!("the claim '{claim}' is missing"))
    }

    /// Why the site lets nobody in of whom this is said; `None`: it may.
    pub(crate) fn why_unwanted(&self, provider: &OidcProvider) -> Option<String> {
        if let Some(required) = &provider.required {
            let has = match self.0.get(&required.claim) {
                Some(Value::Array(all)) => all.iter().any(|one| *one == *required.value),
                Some(one) => *one == *required.value,
                None => false,
            };
            if !has {
                return Some(format!("the claim '{}' is not as required", required.claim));
            }
        }
        if provider.email_domains.is_empty() {
            return None;
        }
        let domain = self.verified_email().and_then(|email| email.rsplit_once('@'));
        let listed = |named: &str| {
            provider.email_domains.iter().any(|domain| domain.eq_ignore_ascii_case(named))
        };
        let is_listed = domain.is_some_and(|(_, named)| listed(named));
        (!is_listed).then(|| "no verified e-mail address of a domain that is let in".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provider(more: &str) -> OidcProvider {
        let json = format!(r#"{{"issuer":"https://a.example","client_id":"e"{more}}}"#);
        serde_json::from_str(&json).unwrap()
    }

    fn person(claims: &str) -> Person {
        let token = format!("e30.{}.", URL_SAFE_NO_PAD.encode(claims));
        Person::of(&token).unwrap()
    }

    #[test]
    fn an_account_is_named_by_one_claim_and_by_mail_only_if_verified() {
        let anna = person(r#"{"sub":"1","preferred_username":"anna","email":"a@b.example"}"#);
        assert_eq!(anna.account_name(&provider("")).unwrap(), "anna");
        let by_mail = provider(r#","claim":"email""#);
        assert!(anna.account_name(&by_mail).is_err(), "unverified");
        let json = r#"{"sub":"1","email":"a@b.example","email_verified":true}"#;
        assert_eq!(person(json).account_name(&by_mail).unwrap(), "a@b.example");
        assert!(person(json).account_name(&provider("")).is_err(), "missing");
        assert!(Person::of(&format!("e30.{}.", URL_SAFE_NO_PAD.encode("{}"))).is_none());
    }

    #[test]
    fn a_site_asks_for_a_group_and_for_domains_of_mail() {
        let group = provider(r#","required":{"claim":"groups","value":"staff"}"#);
        for (claims, is_let) in [
            (r#"{"sub":"1","groups":["x","staff"]}"#, true),
            (r#"{"sub":"1","groups":"staff"}"#, true),
            (r#"{"sub":"1","groups":["staffing"]}"#, false),
            (r#"{"sub":"1"}"#, false),
        ] {
            assert_eq!(person(claims).why_unwanted(&group).is_none(), is_let, "{claims}");
        }
        let domains = provider(r#","email_domains":["Example.com"]"#);
        for (claims, is_let) in [
            (r#"{"sub":"1","email":"a@example.COM","email_verified":true}"#, true),
            (r#"{"sub":"1","email":"a@example.com","email_verified":false}"#, false),
            (r#"{"sub":"1","email":"a@example.com"}"#, false),
            (r#"{"sub":"1","email":"a@sub.example.com","email_verified":true}"#, false),
            (r#"{"sub":"1","email":"example.com","email_verified":true}"#, false),
        ] {
            assert_eq!(person(claims).why_unwanted(&domains).is_none(), is_let, "{claims}");
        }
    }
}
