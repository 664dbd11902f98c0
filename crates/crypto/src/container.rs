//! Certificates and keys as other programs write them: PEM, DER, PKCS #7 (`.p7b`) and PKCS #12
//! (`.p12`, `.pfx`), told apart by what they begin with.

use std::ffi::CString;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use crate::der::{self, Reader};
use crate::ffi::{self, Contained, NotContained};
use crate::key::PrivateKey;
use crate::limits::{CONTAINER_BYTES, CONTAINER_CERTIFICATES};
use crate::x509::{Certificate, pem_blocks};

/// What a file holds: certificates in its order, and private keys.
#[derive(Debug, Default)]
pub struct Container {
    /// Those of both sides, authorities among them.
    pub certificates: Vec<Certificate>,
    /// All private keys.
    pub keys: Vec<ContainedKey>,
}

/// A private key of a file.
#[derive(Debug)]
pub struct ContainedKey {
    /// As it is used.
    pub key: PrivateKey,
    pkcs8: Zeroizing<Vec<u8>>,
}

/// Why a file is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ContainerError {
    /// Nothing that is known begins like this.
    #[error("it is neither PEM, DER, PKCS #7 nor PKCS #12")]
    Unknown,
    /// It is damaged, or uses what is not known here.
    #[error("it is damaged, or protected by an algorithm that is not known here")]
    Unreadable,
    /// It is under a password, and none was given.
    #[error("it is protected by a password, and none was given")]
    PasswordMissing,
    /// It is under another password.
    #[error("the password is not the one that protects it")]
    Password,
    /// More than any real file has.
    #[error(
        "it is larger than {CONTAINER_BYTES} bytes, or has more than {CONTAINER_CERTIFICATES} \
             certificates"
    )]
    TooLarge,
    /// A private key that messages and connections cannot use.
    #[error(
        "its private key is of a kind that cannot be used: RSA of 2,048 to 8,192 bits, or \
             an elliptic curve of NIST"
    )]
    Key,
    /// A certificate that cannot be used.
    #[error("one of its certificates cannot be used")]
    Certificate,
}

impl ContainedKey {
    /// As PEM of PKCS #8, unencrypted.
    pub fn pem(&self) -> Zeroizing<String> {
        Zeroizing::new(pem("PRIVATE KEY", &self.pkcs8))
    }
}

/// DER as PEM.
pub fn pem(label: &str, der: &[u8]) -> String {
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in STANDARD.encode(der).as_bytes().chunks(64) {
        // Base64 is ASCII.
        text.push_str(&String::from_utf8_lossy(line));
        text.push('\n');
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}

impl Container {
    /// Reads a file.
    ///
    /// # Errors
    /// Those of [`ContainerError`].
    pub fn read(bytes: &[u8], password: Option<&str>) -> Result<Container, ContainerError> {
        if bytes.len() > CONTAINER_BYTES {
            return Err(ContainerError::TooLarge);
        }
        let mut found = Container::default();
        match std::str::from_utf8(bytes) {
            Ok(text) if text.contains("-----BEGIN ") => found.add_pem(text, password)?,
            _ => found.add_der(bytes, password)?,
        }
        if found.certificates.is_empty() && found.keys.is_empty() {
            return Err(ContainerError::Unknown);
        }
        Ok(found)
    }

    fn add_pem(&mut self, text: &str, password: Option<&str>) -> Result<(), ContainerError> {
        for label in ["CERTIFICATE", "PKCS7", "CMS", "PKCS12"] {
            for block in pem_blocks(text, label) {
                self.add_der(&block, password)?;
            }
        }
        for label in ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"] {
            // The older forms are encrypted by fields in front of their base64, which no block has.
            for block in pem_blocks(text, label) {
                self.add_key(ffi::any_private_key(&block), password)?;
            }
        }
        for block in pem_blocks(text, "ENCRYPTED PRIVATE KEY") {
            self.add_encrypted(&block, password)?;
        }
        if text.contains("Proc-Type: 4,ENCRYPTED") {
            return Err(ContainerError::Unreadable);
        }
        Ok(())
    }

    /// By what stands first in it: PKCS #12 and keys begin with a version, PKCS #7 with the type of
    /// its content, certificates and encrypted keys with a sequence.
    fn add_der(&mut self, bytes: &[u8], password: Option<&str>) -> Result<(), ContainerError> {
        // Lengths may be indefinite, which only those read that are meant for it.
        let (Some(&der::SEQUENCE), Some(&length)) = (bytes.first(), bytes.get(1)) else {
            return Err(ContainerError::Unknown);
        };
        let head = if length >= 0x80 { 2 + usize::from(length & 0x7f) } else { 2 };
        match bytes.get(head).copied() {
            Some(der::OID) => {
                let contained = ffi::pkcs7(bytes).map_err(|error| told(error, password))?;
                self.add(contained, password)
            }
            Some(der::INTEGER) if bytes.get(head..head + 3) == Some(&[der::INTEGER, 1, 3]) => {
                let word = CString::new(password.unwrap_or_default());
                let word = word.map_err(|_| ContainerError::Password)?;
                let contained = ffi::pkcs12(bytes, &word).map_err(|error| told(error, password))?;
                self.add(contained, password)
            }
            Some(der::INTEGER) => self.add_key(ffi::any_private_key(bytes), password),
            Some(der::SEQUENCE) if is_encrypted_key(bytes) => self.add_encrypted(bytes, password),
            Some(der::SEQUENCE) => self.add_certificate(bytes),
            _ => Err(ContainerError::Unknown),
        }
    }

    fn add(&mut self, found: Contained, password: Option<&str>) -> Result<(), ContainerError> {
        for certificate in &found.certificates {
            self.add_certificate(certificate)?;
        }
        found.key.map_or(Ok(()), |key| self.add_key(Ok(key), password))
    }

    fn add_certificate(&mut self, der: &[u8]) -> Result<(), ContainerError> {
        if self.certificates.len() >= CONTAINER_CERTIFICATES {
            return Err(ContainerError::TooLarge);
        }
        let certificate = Certificate::from_der(der).or(Err(ContainerError::Certificate))?;
        self.certificates.push(certificate);
        Ok(())
    }

    fn add_encrypted(&mut self, der: &[u8], password: Option<&str>) -> Result<(), ContainerError> {
        let word = password.ok_or(ContainerError::PasswordMissing)?;
        self.add_key(ffi::encrypted_private_key(der, word.as_bytes()), password)
    }

    fn add_key(
        &mut self,
        read: Result<Zeroizing<Vec<u8>>, NotContained>,
        password: Option<&str>,
    ) -> Result<(), ContainerError> {
        let pkcs8 = read.map_err(|error| told(error, password))?;
        let key = PrivateKey::from_pkcs8(&pkcs8).or(Err(ContainerError::Key))?;
        self.keys.push(ContainedKey { key, pkcs8 });
        Ok(())
    }
}

fn told(error: NotContained, password: Option<&str>) -> ContainerError {
    match (error, password) {
        (NotContained::Password, None) => ContainerError::PasswordMissing,
        (NotContained::Password, Some(_)) => ContainerError::Password,
        (NotContained::Unreadable, _) => ContainerError::Unreadable,
    }
}

/// EncryptedPrivateKeyInfo (RFC 5958 §3): an algorithm and an OCTET STRING, and nothing else.
fn is_encrypted_key(bytes: &[u8]) -> bool {
    let read = || {
        let mut outer = Reader::new(bytes).tagged(der::SEQUENCE).ok()?.values();
        outer.tagged(der::SEQUENCE).ok()?;
        outer.tagged(der::OCTET_STRING).ok()?;
        outer.end().ok()
    };
    read().is_some()
}
