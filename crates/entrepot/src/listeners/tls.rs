//! The TLS settings of a listener, in the form that connections are served with.

use entrepot_net::tls::{ClientCertificates, TlsOptions, TlsVersion, Trust};
use entrepot_nouns::tls::{ClientCertificates as Asked, LeastVersion};
use entrepot_nouns::{FieldError, Listener, Secret};

/// The settings of `listener` with its certificate, PEM, and the private key of that.
pub(super) fn options(listener: &Listener, chain: &str, key: Secret) -> TlsOptions {
    TlsOptions {
        chain: chain.to_owned().into_bytes(),
        key,
        clients: clients(listener),
        least: match listener.tls.least_version {
            LeastVersion::Tls12 => TlsVersion::Tls12,
            LeastVersion::Tls13 => TlsVersion::Tls13,
        },
    }
}

/// Which certificates clients are asked for, and who must have signed them.
fn clients(listener: &Listener) -> ClientCertificates {
    let authorities = listener.tls.client_authorities.as_ref();
    let trust =
        authorities.map_or(Trust::AnyHolder, |pem| Trust::Authorities(pem.clone().into_bytes()));
    match listener.tls.client_certificates {
        Asked::Off => ClientCertificates::Off,
        Asked::Ask => ClientCertificates::Optional(trust),
        Asked::Require => ClientCertificates::Required(trust),
    }
}

/// Whether the authorities of a listener can be read; a listener must not be saved with others,
/// because it could not be served.
pub(crate) fn check(listener: &Listener) -> Result<(), FieldError> {
    let checked = clients(listener).check();
    checked.map_err(|error| FieldError::new("tls.client_authorities", error.to_string()))
}
