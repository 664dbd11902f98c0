//! The database URL and what it says about TLS.
//!
//! Stricter than libpq: `sslmode` is `disable` or one of `require`, `verify-ca`, `verify-full`,
//! and these three all check the certificate chain and the host name; the modes that encrypt
//! without knowing with whom are refused. Without `sslmode` a Unix socket or a loopback address
//! is spoken to in clear, any other host as with `verify-full`. `sslrootcert` names a PEM file of
//! trusted authorities; without it those of the system are trusted.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::{DbError, Result};
use crate::limits;

/// How a server is spoken to.
#[derive(Clone)]
pub(crate) enum Tls {
    /// In clear: asked for by `sslmode=disable`, or the server is local.
    Off,
    /// Over TLS, chain and name checked.
    Verified(MakeRustlsConnect),
}

/// Reads a `postgres://` URL.
pub(crate) fn parse(url: &str) -> Result<(Config, Tls)> {
    let (rest, mode, roots) = split(url)?;
    let mut config: Config = rest.parse().map_err(|e: tokio_postgres::Error| {
        DbError::Setup(format!("the URL is not of the form postgres://user@host/database ({e})"))
    })?;
    let encrypted = match mode.as_deref() {
        Some("disable") => false,
        Some("require" | "verify-ca" | "verify-full") => true,
        None => !config.get_hosts().iter().all(is_local),
        Some(other) => {
            return Err(DbError::Setup(format!(
                "sslmode '{other}' does not say with whom we speak; use 'verify-full', or \
                 'disable' on a network you trust"
            )));
        }
    };
    config
        .connect_timeout(limits::POSTGRES_CONNECT)
        .tcp_user_timeout(limits::POSTGRES_SILENCE)
        .keepalives_idle(limits::POSTGRES_SILENCE)
        .application_name("entrepot");
    if !encrypted {
        config.ssl_mode(SslMode::Disable);
        return Ok((config, Tls::Off));
    }
    config.ssl_mode(SslMode::Require);
    Ok((config, Tls::Verified(MakeRustlsConnect::new(client(roots.as_deref())?))))
}

fn is_local(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            let address = name.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
            name == "localhost" || address.is_ok_and(|address| address.is_loopback())
        }
    }
}

/// Takes `sslmode` and `sslrootcert` out of the URL: the driver knows fewer modes and no file.
fn split(url: &str) -> Result<(String, Option<String>, Option<String>)> {
    let (address, query) = url.split_once('?').unwrap_or((url, ""));
    let (mut mode, mut roots, mut kept) = (None, None, Vec::new());
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("sslmode", value)) => mode = Some(decode(value)?),
            Some(("sslrootcert", value)) => roots = Some(decode(value)?),
            _ => kept.push(pair),
        }
    }
    let mut rest = address.to_owned();
    if !kept.is_empty() {
        rest.push('?');
        rest.push_str(&kept.join("&"));
    }
    Ok((rest, mode, roots))
}

/// Percent-decoding (RFC 3986 §2.1).
fn decode(text: &str) -> Result<String> {
    let broken = || DbError::Setup(format!("'{text}' in the URL is not percent-encoded UTF-8"));
    let mut bytes = Vec::with_capacity(text.len());
    let mut left = text.bytes();
    while let Some(byte) = left.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| byte.and_then(|b| char::from(b).to_digit(16));
        let (high, low) = (digit(left.next()), digit(left.next()));
        let value = high.zip(low).map(|(high, low)| high * 16 + low).ok_or_else(broken)?;
        bytes.push(u8::try_from(value).map_err(|_| broken())?);
    }
    String::from_utf8(bytes).map_err(|_| broken())
}

fn client(roots_file: Option<&str>) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    match roots_file {
        Some(file) => {
            let unusable =
                |e: &dyn std::fmt::Display| DbError::Setup(format!("sslrootcert '{file}': {e}"));
            let certificates = CertificateDer::pem_file_iter(file).map_err(|e| unusable(&e))?;
            for certificate in certificates {
                let certificate = certificate.map_err(|e| unusable(&e))?;
                roots.add(certificate).map_err(|e| unusable(&e))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if roots.is_empty() {
        return Err(DbError::Setup(
            "no certificate authority is known to check the server with; name a PEM file with \
             sslrootcert"
                .to_owned(),
        ));
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| DbError::Setup(e.to_string()))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encrypted(url: &str) -> bool {
        let (config, tls) = parse(url).unwrap();
        let verified = matches!(tls, Tls::Verified(_));
        assert_eq!(config.get_ssl_mode() == SslMode::Require, verified);
        verified
    }

    #[test]
    fn only_local_servers_are_spoken_to_in_clear_by_default() {
        assert!(!encrypted("postgres://u@127.0.0.1/d"));
        assert!(!encrypted("postgres://u@localhost:5433/d?application_name=x"));
        assert!(!encrypted("postgres://u@%2Frun%2Fpostgresql/d"));
        assert!(!encrypted("postgres://u@db.example.com/d?sslmode=disable"));
        for mode in ["require", "verify-ca", "verify-full"] {
            assert!(encrypted(&format!("postgres://u@127.0.0.1/d?sslmode={mode}")));
        }
        assert!(encrypted("postgres://u@db.example.com/d"));
        assert!(encrypted("postgres://u@127.0.0.1,db.example.com/d"));
    }

    #[test]
    fn modes_that_check_nothing_are_refused() {
        for mode in ["prefer", "allow", "REQUIRE", "%zz", ""] {
            let url = format!("postgres://u@h/d?sslmode={mode}");
            assert!(matches!(parse(&url), Err(DbError::Setup(_))), "{mode} was taken");
        }
    }

    #[test]
    fn the_file_of_authorities_may_be_percent_encoded() {
        let error = parse("postgres://u@h/d?sslrootcert=%2Fno%20where").err().unwrap();
        assert!(error.to_string().contains("'/no where'"), "{error}");
    }
}
