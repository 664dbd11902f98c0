//! A certificate of our own making, for the time until a real one is there.

use entrepot_nouns::Secret;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

use super::error::TlsConfigError;

/// A certificate signed by its own key, both as PEM.
#[derive(Debug)]
pub struct SelfSigned {
    /// The certificate alone: there is no authority above it.
    pub chain: String,
    /// Its key: ECDSA over P-256.
    pub key: Secret,
}

/// Makes a certificate for names and addresses. It does not expire: clients that trust it have
/// been told to trust this very one.
///
/// # Errors
/// A name is none of DNS.
pub fn self_signed(names: Vec<String>) -> Result<SelfSigned, TlsConfigError> {
    let failed = |error: rcgen::Error| TlsConfigError::Key(error.to_string());
    let key = KeyPair::generate().map_err(failed)?;
    let mut subject = DistinguishedName::new();
    let name = names.first().map_or("entrepot", String::as_str).to_owned();
    subject.push(DnType::CommonName, name);
    let mut params = CertificateParams::new(names).map_err(failed)?;
    params.distinguished_name = subject;
    let certificate = params.self_signed(&key).map_err(failed)?;
    Ok(SelfSigned { chain: certificate.pem(), key: Secret::new(key.serialize_pem()) })
}

#[cfg(test)]
mod tests {
    use entrepot_nouns::Env;

    use super::*;
    use crate::tls::{ClientCertificates, TlsConfig, TlsOptions, TlsVersion};

    #[test]
    fn it_serves_a_listener_at_once() {
        let own = self_signed(vec!["files.example".to_owned(), "192.0.2.1".to_owned()]).unwrap();
        let options = TlsOptions {
            chain: own.chain.into_bytes(),
            key: own.key,
            clients: ClientCertificates::Off,
            least: TlsVersion::Tls12,
        };
        let config = TlsConfig::new(&options, &Env::real()).unwrap();
        assert_eq!(config.warning(), None);
    }
}
