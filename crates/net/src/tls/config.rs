//! How a listener presents itself under TLS.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::digest;
use entrepot_nouns::{Env, Secret, Timestamp};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::NoServerSessionStorage;
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, SupportedProtocolVersion, version};
use thiserror::Error;
use x509_cert::der::Decode as _;

use super::clients::{self, ClientCertificates, Trust, provider};
use super::error::TlsConfigError;
use super::identity::ClientCertificate;
use super::stream::TlsInfo;
use super::tickets::TicketKeys;
use super::validity::{Validity, validity};
use super::version::TlsVersion;
use crate::limits::CERTIFICATE_WARNING_TIME;

/// What a listener is given.
#[derive(Clone, Debug)]
pub struct TlsOptions {
    /// The certificate chain as PEM, the server's own first.
    pub chain: Vec<u8>,
    /// The private key as unencrypted PEM.
    pub key: Secret,
    /// Certificates of clients.
    pub clients: ClientCertificates,
    /// The least version.
    pub least: TlsVersion,
}

/// What an operator should know of a certificate that works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TlsWarning {
    /// It is over.
    #[error("the certificate has expired on {0}: clients will refuse it, renew it")]
    Expired(Timestamp),
    /// It has not begun.
    #[error("the certificate is valid from {0} only: look at the clock, or wait")]
    NotYetValid(Timestamp),
    /// It is nearly over.
    #[error("the certificate expires on {0}: renew it")]
    ExpiresSoon(Timestamp),
}

/// A configuration that works. Cheap to clone; a listener holds it in a `watch`, so that a
/// connection sees the one of the moment it came.
#[derive(Clone)]
pub struct TlsConfig(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) env: Env,
    pub(super) server: ServerConfig,
    pub(super) tickets: Arc<TicketKeys>,
    /// What must be equal for tickets to be shared.
    chain: Vec<CertificateDer<'static>>,
    clients: ClientCertificates,
    validity: Validity,
}

impl TlsConfig {
    /// Reads certificate and key.
    ///
    /// # Errors
    /// One of them is missing, unreadable or does not belong to the other.
    pub fn new(options: &TlsOptions, env: &Env) -> Result<Self, TlsConfigError> {
        let chain = chain(&options.chain)?;
        let provider = provider();
        let certified = Arc::new(certified(&chain, &options.key, &provider)?);
        let validity = own_validity(&chain)?;
        let clients = clients::verifier(&options.clients, &provider)?;
        let versions: &[&SupportedProtocolVersion] = match options.least {
            TlsVersion::Tls12 => &[&version::TLS13, &version::TLS12],
            TlsVersion::Tls13 => &[&version::TLS13],
        };
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .map_err(|error| TlsConfigError::Key(error.to_string()))?
            .with_client_cert_verifier(clients)
            .with_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(certified)));
        // Tickets only: a stored session is given out once in TLS 1.3 and belongs to nobody.
        server.session_storage = Arc::new(NoServerSessionStorage {});
        let clients = options.clients.clone();
        let tickets = Arc::new(TicketKeys::new(env.clone()));
        let env = env.clone();
        Ok(TlsConfig(Arc::new(Inner { env, server, tickets, chain, clients, validity })))
    }

    /// The configuration that follows this one. Clients can resume what they began here, unless
    /// the certificate or the policy of client certificates is another.
    ///
    /// # Errors
    /// As [`TlsConfig::new`].
    pub fn renewed(&self, options: &TlsOptions) -> Result<Self, TlsConfigError> {
        let mut next = TlsConfig::new(options, &self.0.env)?;
        let old = &self.0;
        if let Some(inner) = Arc::get_mut(&mut next.0)
            && inner.chain == old.chain
            && inner.clients == old.clients
        {
            inner.tickets = Arc::clone(&old.tickets);
        }
        Ok(next)
    }

    /// What an operator should know now.
    pub fn warning(&self) -> Option<TlsWarning> {
        let (now, Validity { from, to }) = (self.0.env.now(), self.0.validity);
        if now < from {
            Some(TlsWarning::NotYetValid(from))
        } else if now >= to {
            Some(TlsWarning::Expired(to))
        } else if now.plus(CERTIFICATE_WARNING_TIME) >= to {
            Some(TlsWarning::ExpiresSoon(to))
        } else {
            None
        }
    }

    /// SHA-256 of the server's own certificate in hexadecimal, as clients pin it.
    pub fn fingerprint(&self) -> String {
        let own = self.0.chain.first().map_or(&[][..], |own| own.as_ref());
        let hex = |byte: &u8| format!("{byte:02x}");
        digest::digest(&digest::SHA256, own).as_ref().iter().map(hex).collect()
    }

    /// When the certificate expires.
    pub fn expires(&self) -> Timestamp {
        self.0.validity.to
    }

    /// Which certificates clients are asked for.
    pub fn clients(&self) -> &ClientCertificates {
        &self.0.clients
    }

    /// The certificate that the client of a connection has shown, now or when it began what it
    /// resumed: tickets are shared by configurations of equal authorities only.
    pub fn client(&self, info: &TlsInfo) -> Option<ClientCertificate> {
        let read = ClientCertificate::read(info.client_certificates.first()?)?;
        Some(ClientCertificate { certified: self.certifies(), ..read })
    }

    /// True if no certificate of a client is taken that its authorities have not signed.
    fn certifies(&self) -> bool {
        use ClientCertificates::{Optional, Required};
        matches!(&self.0.clients, Optional(Trust::Authorities(_)) | Required(Trust::Authorities(_)))
    }
}

impl fmt::Debug for TlsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { clients, validity, .. } = &*self.0;
        let mut debug = f.debug_struct("TlsConfig");
        debug.field("clients", clients).field("validity", validity).finish_non_exhaustive()
    }
}

pub(super) fn chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsConfigError> {
    let mut chain = Vec::new();
    for (place, certificate) in (1..).zip(CertificateDer::pem_slice_iter(pem)) {
        chain.push(
            certificate.map_err(|error| TlsConfigError::Certificate {
                place,
                reason: error.to_string(),
            })?,
        );
    }
    if chain.is_empty() { Err(TlsConfigError::NoCertificate) } else { Ok(chain) }
}

pub(super) fn certified(
    chain: &[CertificateDer<'static>],
    key: &Secret,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsConfigError> {
    use rustls::pki_types::pem::Error as PemError;
    let key = PrivateKeyDer::from_pem_slice(key.expose()).map_err(|error| match error {
        PemError::NoItemsFound => TlsConfigError::NoKey,
        other => TlsConfigError::Key(other.to_string()),
    })?;
    CertifiedKey::from_der(chain.to_vec(), key, provider).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => TlsConfigError::KeyMismatch,
        rustls::Error::InvalidCertificate(reason) => {
            TlsConfigError::Certificate { place: 1, reason: format!("{reason:?}") }
        }
        other => TlsConfigError::Key(other.to_string()),
    })
}

/// Of the server's own certificate.
fn own_validity(chain: &[CertificateDer<'static>]) -> Result<Validity, TlsConfigError> {
    let own = chain.first().ok_or(TlsConfigError::NoCertificate)?;
    let certificate = x509_cert::Certificate::from_der(own)
        .map_err(|error| TlsConfigError::Certificate { place: 1, reason: error.to_string() })?;
    Ok(validity(&certificate))
}
