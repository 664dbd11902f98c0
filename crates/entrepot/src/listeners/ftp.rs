//! Listeners of FTP: their certificate, and how they present themselves.

use entrepot_ftp::FtpConfig;
use entrepot_model::ftp::FtpTls;
use entrepot_model::tls::{ClientCertificates as Asked, LeastVersion};
use entrepot_model::{FieldError, Key, KeyType, Listener, Name, SiteId};
use entrepot_net::tls::{
    self, ClientCertificates, TlsConfig, TlsConfigError, TlsOptions, TlsVersion, Trust,
};
use tokio::sync::watch;

use super::{Listeners, Wanted, database};
use crate::failure::{Exit, Failure};

/// How an open listener presents itself, and its TLS: a new certificate follows the old one.
pub(super) struct Manner {
    config: watch::Sender<FtpConfig>,
    tls: Option<TlsConfig>,
}

impl Listeners {
    /// The key of a listener's TLS, if it has any; a missing one is made.
    pub(super) async fn tls_key(
        &self,
        site: SiteId,
        listener: &Listener,
    ) -> Result<Vec<Key>, Failure> {
        if listener.ftp.as_ref().is_some_and(|ftp| ftp.tls == FtpTls::Off) {
            return Ok(Vec::new());
        }
        let own: Name = match &listener.tls.key {
            Some(name) => {
                let found = self.0.db.find::<Key>(site, name).await.map_err(database)?;
                return Ok(found.into_iter().map(|stored| stored.noun).collect());
            }
            None => format!("{}-tls", listener.name)
                .parse()
                .map_err(|error| Failure::config(format!("the name of a key: {error}")))?,
        };
        let found = self.0.db.find::<Key>(site, &own).await.map_err(database)?;
        Ok(vec![match found {
            Some(stored) => stored.noun,
            None => self.make_tls_key(site, listener, own).await?,
        }])
    }

    async fn make_tls_key(
        &self,
        site: SiteId,
        listener: &Listener,
        name: Name,
    ) -> Result<Key, Failure> {
        let mut names = vec!["localhost".to_owned()];
        let address = listener.address.ip();
        if address.is_unspecified() {
            names.extend(["127.0.0.1".to_owned(), "::1".to_owned()]);
        } else {
            names.push(address.to_string());
        }
        let own = tls::self_signed(names).map_err(|error| unusable(&error))?;
        tracing::info!(key = %name, "made a certificate, signed by itself");
        let mut key = Key::new(name, KeyType::Tls, own.chain);
        key.private = Some(own.key);
        self.keep_made(site, key).await
    }

    /// For a listener that is about to open.
    pub(super) fn ftp(
        &self,
        wanted: &Wanted,
    ) -> Result<(Manner, watch::Receiver<FtpConfig>), Failure> {
        let tls = match self.tls_options(wanted)? {
            Some(options) => {
                Some(TlsConfig::new(&options, &self.0.env).map_err(|error| unusable(&error))?)
            }
            None => None,
        };
        warn(wanted, tls.as_ref());
        let (config, shown) = watch::channel(FtpConfig::new(&wanted.noun, tls.clone()));
        Ok((Manner { config, tls }, shown))
    }

    /// For connections from now on.
    pub(super) fn change_ftp(&self, manner: &mut Manner, wanted: &Wanted) -> Result<(), Failure> {
        let tls = match (self.tls_options(wanted)?, &manner.tls) {
            (None, _) => None,
            (Some(options), Some(old)) => Some(old.renewed(&options)),
            (Some(options), None) => Some(TlsConfig::new(&options, &self.0.env)),
        };
        manner.tls = tls.transpose().map_err(|error| unusable(&error))?;
        warn(wanted, manner.tls.as_ref());
        manner.config.send_replace(FtpConfig::new(&wanted.noun, manner.tls.clone()));
        Ok(())
    }

    fn tls_options(&self, wanted: &Wanted) -> Result<Option<TlsOptions>, Failure> {
        let Some(key) = wanted.keys.first() else { return Ok(None) };
        Ok(Some(TlsOptions {
            chain: key.public.clone().into_bytes(),
            key: self.open_key(key)?,
            clients: clients(&wanted.noun),
            least: match wanted.noun.tls.least_version {
                LeastVersion::Tls12 => TlsVersion::Tls12,
                LeastVersion::Tls13 => TlsVersion::Tls13,
            },
        }))
    }
}

/// Whose certificates are taken from clients.
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

/// Whether the authorities of a listener can be read: with others than those it must not be served.
pub(crate) fn check(listener: &Listener) -> Result<(), FieldError> {
    let checked = clients(listener).check();
    checked.map_err(|error| FieldError::new("tls.client_authorities", error.to_string()))
}

fn unusable(error: &TlsConfigError) -> Failure {
    Failure::new(error.code(), Exit::Failed, error.to_string())
}

fn warn(wanted: &Wanted, tls: Option<&TlsConfig>) {
    if let Some(warning) = tls.and_then(TlsConfig::warning) {
        tracing::warn!(listener = %wanted.noun.name, "{warning}");
    }
}
