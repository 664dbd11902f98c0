//! An authenticator of passkeys and the browser in front of it, which say whatever a test wants.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;

/// A person was there, and was verified.
pub const VERIFIED: u8 = 0x05;
/// A person was there.
pub const PRESENT: u8 = 0x01;

/// One passkey, of ES256.
pub struct Authenticator {
    key: EcdsaKeyPair,
    /// What it knows the passkey by, in base64url.
    pub credential: String,
    /// The host that it signs for.
    pub host: String,
    /// What the browser says of the page.
    pub origin: String,
    /// What it says of the person.
    pub flags: u8,
    /// Its counter; each use says the present value.
    pub signatures: u32,
}

/// What a browser hands over; texts in base64url.
pub struct Said {
    /// As the browser has it, JSON.
    pub client_data: String,
    /// As the authenticator has it.
    pub authenticator_data: String,
    /// The signature, or of a new passkey the public half.
    pub proof: String,
}

impl Authenticator {
    /// A passkey for `https://HOST`.
    ///
    /// # Panics
    /// If no key can be made.
    pub fn new(host: &str) -> Authenticator {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap();
        let credential = URL_SAFE_NO_PAD.encode(sha256(key.public_key().as_ref()));
        let (host, origin) = (host.to_owned(), format!("https://{host}"));
        Authenticator { key, credential, host, origin, flags: VERIFIED, signatures: 0 }
    }

    /// The public half, in base64url.
    ///
    /// # Panics
    /// Never: it can be written.
    pub fn public(&self) -> String {
        let der: PublicKeyX509Der<'_> = self.key.public_key().as_der().unwrap();
        URL_SAFE_NO_PAD.encode(der.as_ref())
    }

    /// What it says when the passkey is made.
    pub fn made(&self, challenge: &str) -> Said {
        let mut data = self.data(self.flags | 0x40);
        let credential = URL_SAFE_NO_PAD.decode(&self.credential).unwrap_or_default();
        data.extend([0; 16]);
        data.extend(u16::try_from(credential.len()).unwrap_or_default().to_be_bytes());
        data.extend(credential);
        data.extend(b"the same key as COSE has it");
        Said {
            client_data: URL_SAFE_NO_PAD.encode(self.client_data("webauthn.create", challenge)),
            authenticator_data: URL_SAFE_NO_PAD.encode(data),
            proof: self.public(),
        }
    }

    /// What it says when the passkey is used.
    ///
    /// # Panics
    /// If it cannot sign.
    pub fn used(&self, challenge: &str) -> Said {
        let client_data = self.client_data("webauthn.get", challenge);
        let data = self.data(self.flags);
        let signed = [data.as_slice(), &sha256(&client_data)].concat();
        let signature = self.key.sign(&SystemRandom::new(), &signed).unwrap();
        Said {
            client_data: URL_SAFE_NO_PAD.encode(client_data),
            authenticator_data: URL_SAFE_NO_PAD.encode(data),
            proof: URL_SAFE_NO_PAD.encode(signature),
        }
    }

    fn client_data(&self, kind: &str, challenge: &str) -> Vec<u8> {
        let said = json!({"type": kind, "challenge": challenge, "origin": self.origin});
        said.to_string().into_bytes()
    }

    fn data(&self, flags: u8) -> Vec<u8> {
        let host = sha256(self.host.as_bytes());
        [&host[..], &[flags], &self.signatures.to_be_bytes()].concat()
    }
}

fn sha256(bytes: &[u8]) -> Vec<u8> {
    digest(&SHA256, bytes).as_ref().to_vec()
}
