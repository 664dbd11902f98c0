//! What a browser says of a passkey, verified (Web Authentication, W3C Recommendation Level 2, §7).
//! Attestation is neither asked for nor looked at, so that the browser hands the public key over in
//! a plain form (§5.2.1.1): docs/adr/0014-passkeys-without-a-library.md.

use std::fmt;
use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use entrepot_crypto::passkey::sha256;
use entrepot_crypto::{PasskeyKey, constant_time_eq};
use entrepot_nouns::{AccountId, PasskeyAlgorithm, PasskeyPublic};
use serde::Deserialize;

use crate::limits::{AUTHENTICATOR_BYTES, CLIENT_DATA_BYTES};

/// Flags of authenticator data (§6.1).
const USER_PRESENT: u8 = 0x01;
const USER_VERIFIED: u8 = 0x04;
const BACKUP_ELIGIBLE: u8 = 0x08;
const BACKED_UP: u8 = 0x10;
const HAS_CREDENTIAL: u8 = 0x40;

/// The address that a page of ours was loaded from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageOrigin {
    host: String,
    port: Option<u16>,
    encrypted: bool,
}

impl PageOrigin {
    /// Of the host that a request names. `encrypted`: TLS ends here and not at a proxy.
    /// `None`: a passkey cannot be made at a host that is an IP address (§5.1.2).
    pub fn new(host: &str, port: Option<u16>, encrypted: Encryption) -> Option<PageOrigin> {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let is_address = host.starts_with('[') || host.parse::<IpAddr>().is_ok();
        let encrypted = encrypted == Encryption::Here;
        (!is_address && !host.is_empty()).then_some(PageOrigin { host, port, encrypted })
    }

    /// The host, which passkeys that are made there belong to.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// How browsers reach it. Behind a proxy that speaks TLS with the browser, connections to us
    /// may be in clear text; only this machine is reached without TLS.
    fn scheme(&self) -> &'static str {
        if self.encrypted || !self.is_this_machine() { "https" } else { "http" }
    }

    fn is_this_machine(&self) -> bool {
        self.host == "localhost" || self.host.ends_with(".localhost")
    }

    /// True if it is the origin as a browser spells it (RFC 6454 §6.2). Behind a proxy that speaks
    /// TLS with the browser, connections to us may be in clear text; and browsers trust this
    /// machine without TLS.
    fn is(&self, origin: &str) -> bool {
        let (rest, usual) = if let Some(rest) = origin.strip_prefix("https://") {
            (rest, 443)
        } else if let Some(rest) = origin.strip_prefix("http://") {
            if self.encrypted || !self.is_this_machine() {
                return false;
            }
            (rest, 80)
        } else {
            return false;
        };
        let (host, port) = match rest.split_once(':') {
            Some((host, port)) => (host, port.parse::<u16>().ok()),
            None => (rest, Some(usual)),
        };
        host == self.host && port == Some(self.port.unwrap_or(usual))
    }
}

/// As a browser spells it.
impl fmt::Display for PageOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, host) = (self.scheme(), &self.host);
        let usual = if scheme == "https" { 443 } else { 80 };
        match self.port.filter(|port| *port != usual) {
            Some(port) => write!(f, "{scheme}://{host}:{port}"),
            None => write!(f, "{scheme}://{host}"),
        }
    }
}

/// Where the TLS of a page ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// At this server.
    Here,
    /// At a proxy in front of it, or there is none.
    Elsewhere,
}

/// What a browser answers that was asked to sign in with a passkey; texts are base64url without
/// padding.
#[derive(Clone, Debug)]
pub struct PasskeyAnswer {
    /// What the authenticator knows the passkey by.
    pub credential: String,
    /// What the browser says of the page and the challenge: JSON.
    pub client_data: String,
    /// What the authenticator says of itself.
    pub authenticator_data: String,
    /// Of the authenticator, over both.
    pub signature: String,
    /// The account, as it was named when the passkey was made; empty: not said.
    pub user_handle: String,
}

/// What a browser answers that was asked to make a passkey; texts as in [`PasskeyAnswer`].
#[derive(Clone, Debug)]
pub struct NewPasskey {
    /// What the authenticator knows the passkey by.
    pub credential: String,
    /// What the browser says of the page and the challenge: JSON.
    pub client_data: String,
    /// What the authenticator says of itself and of the passkey.
    pub authenticator_data: String,
    /// The public half, as SubjectPublicKeyInfo.
    pub public_key: String,
    /// How it signs, by the number of COSE.
    pub algorithm: i32,
}

/// What an answer must be to.
pub(crate) struct Asked<'a> {
    pub(crate) challenge: &'a [u8],
    pub(crate) origin: &'a PageOrigin,
}

/// What an authenticator says of itself.
struct AuthenticatorData<'a> {
    host_hash: &'a [u8],
    flags: u8,
    signatures: u32,
    /// What follows: the new passkey, extensions.
    rest: &'a [u8],
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClientData {
    #[serde(rename = "type")]
    kind: String,
    challenge: String,
    origin: String,
    #[serde(default)]
    cross_origin: bool,
}

type Checked<T> = Result<T, &'static str>;

impl Asked<'_> {
    /// Verifies a signature of the passkey (§7.2); gives the authenticator's counter.
    ///
    /// # Errors
    /// Why it proves nothing.
    pub(crate) fn verify(
        &self,
        public: &PasskeyPublic,
        account: AccountId,
        answer: &PasskeyAnswer,
    ) -> Checked<u32> {
        if public.host != self.origin.host {
            return Err("the passkey belongs to another host");
        }
        let handle = decoded(&answer.user_handle, AUTHENTICATOR_BYTES)?;
        if !handle.is_empty() && handle != account.0.as_bytes() {
            return Err("the passkey was made for another account");
        }
        let client_data = self.client_data(&answer.client_data, "webauthn.get")?;
        let data = decoded(&answer.authenticator_data, AUTHENTICATOR_BYTES)?;
        let said = self.authenticator(&data)?;
        let key = decoded(&public.key, AUTHENTICATOR_BYTES)?;
        let key = PasskeyKey::new(public.algorithm, &key);
        let key = key.ok_or("the public half of the passkey cannot be read")?;
        let signed = [data.as_slice(), sha256(&client_data).as_slice()].concat();
        let signature = decoded(&answer.signature, AUTHENTICATOR_BYTES)?;
        if !key.has_signed(&signed, &signature) {
            return Err("the signature of the passkey is wrong");
        }
        Ok(said.signatures)
    }

    /// Verifies that a new passkey is one (§7.1); gives its public half.
    ///
    /// # Errors
    /// Why it is not taken.
    pub(crate) fn verify_new(&self, new: &NewPasskey) -> Checked<PasskeyPublic> {
        self.client_data(&new.client_data, "webauthn.create")?;
        let data = decoded(&new.authenticator_data, AUTHENTICATOR_BYTES)?;
        let said = self.authenticator(&data)?;
        let credential = said.credential().ok_or("the authenticator names no new passkey")?;
        if credential != decoded(&new.credential, AUTHENTICATOR_BYTES)? {
            return Err("browser and authenticator name different passkeys");
        }
        let mut known = PasskeyAlgorithm::ALL.into_iter();
        let algorithm = known.find(|known| known.number() == new.algorithm);
        let algorithm = algorithm.ok_or("the passkey signs in a way that was not asked for")?;
        let key = decoded(&new.public_key, AUTHENTICATOR_BYTES)?;
        if PasskeyKey::new(algorithm, &key).is_none() {
            return Err("the public half of the passkey cannot be read");
        }
        Ok(PasskeyPublic {
            algorithm,
            host: self.origin.host.clone(),
            credential: URL_SAFE_NO_PAD.encode(credential),
            key: URL_SAFE_NO_PAD.encode(key),
        })
    }

    /// What the browser said, once it is about this challenge at a page of ours.
    fn client_data(&self, coded: &str, kind: &str) -> Checked<Vec<u8>> {
        let bytes = decoded(coded, CLIENT_DATA_BYTES)?;
        let said: ClientData = serde_json::from_slice(&bytes)
            .map_err(|_| "what the browser says of the passkey cannot be read")?;
        if said.kind != kind {
            return Err("the browser did something else than it was asked for");
        }
        let challenge = decoded(&said.challenge, CLIENT_DATA_BYTES)?;
        if !constant_time_eq(&challenge, self.challenge) {
            return Err("the answer is to another challenge");
        }
        if said.cross_origin || !self.origin.is(&said.origin) {
            return Err("the answer comes from a page of another site");
        }
        Ok(bytes)
    }

    /// What the authenticator said, once it is about this host and a person who was verified.
    fn authenticator<'a>(&self, data: &'a [u8]) -> Checked<AuthenticatorData<'a>> {
        let said = AuthenticatorData::read(data);
        let said = said.ok_or("what the authenticator says cannot be read")?;
        if !constant_time_eq(said.host_hash, &sha256(self.origin.host.as_bytes())) {
            return Err("the answer is for another host");
        }
        let has = |flag: u8| said.flags & flag != 0;
        if !has(USER_PRESENT) || !has(USER_VERIFIED) {
            return Err("the authenticator has not verified the person");
        }
        if has(BACKED_UP) && !has(BACKUP_ELIGIBLE) {
            return Err("what the authenticator says contradicts itself");
        }
        Ok(said)
    }
}

impl<'a> AuthenticatorData<'a> {
    /// Reads what the authenticator has signed (§6.1); `None`: it is too short.
    fn read(data: &'a [u8]) -> Option<AuthenticatorData<'a>> {
        let (host_hash, data) = data.split_at_checked(32)?;
        let (flags, data) = data.split_first()?;
        let (signatures, rest) = data.split_first_chunk::<4>()?;
        let signatures = u32::from_be_bytes(*signatures);
        Some(AuthenticatorData { host_hash, flags: *flags, signatures, rest })
    }

    /// The identifier of the new passkey (§6.5.1).
    fn credential(&self) -> Option<&'a [u8]> {
        if self.flags & HAS_CREDENTIAL == 0 {
            return None;
        }
        let (_model, rest) = self.rest.split_at_checked(16)?;
        let (length, rest) = rest.split_first_chunk::<2>()?;
        let length = usize::from(u16::from_be_bytes(*length));
        let (credential, _key) = rest.split_at_checked(length)?;
        (1..=1023).contains(&length).then_some(credential)
    }
}

fn decoded(coded: &str, most: usize) -> Checked<Vec<u8>> {
    if coded.len() > most {
        return Err("the answer of the browser is too long");
    }
    URL_SAFE_NO_PAD.decode(coded).map_err(|_| "the answer of the browser is no base64url")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_that_of_the_page() {
        let at = |host: &str, port, encrypted| PageOrigin::new(host, port, encrypted).unwrap();
        let page = at("Files.Example.", None, Encryption::Here);
        assert_eq!(page.host(), "files.example");
        assert!(page.is("https://files.example") && page.is("https://files.example:443"));
        for other in [
            "http://files.example",
            "https://files.example:8443",
            "https://evil.example",
            "https://files.example.evil.example",
            "https://files.example@evil.example",
            "https://files.example/",
            "files.example",
            "null",
        ] {
            assert!(!page.is(other), "{other}");
        }
        assert!(at("files.example", Some(8443), Encryption::Here).is("https://files.example:8443"));
        let behind = at("files.example", None, Encryption::Elsewhere);
        assert!(behind.is("https://files.example") && !behind.is("http://files.example"));
        let here = at("localhost", Some(8080), Encryption::Elsewhere);
        assert!(here.is("http://localhost:8080") && !here.is("http://localhost"));
        assert!(!at("localhost", Some(8080), Encryption::Here).is("http://localhost:8080"));
        for address in ["127.0.0.1", "[::1]", "::1"] {
            assert_eq!(PageOrigin::new(address, None, Encryption::Here), None, "{address}");
        }
    }
}
