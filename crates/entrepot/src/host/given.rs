//! What arguments of the host commands name: files, code pages, models.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use entrepot_host::model::Model;
use entrepot_host::{CodePage, Device, HostAddress, HostOptions};
use entrepot_net::tls::{
    ClientCertificates, ServerTrust, TlsConfig, TlsConfigError, TlsOptions, TlsVersion, self_signed,
};
use entrepot_nouns::{Env, Secret};

use crate::args::HostTrustArgs;
use crate::failure::{Exit, Failure};

pub(super) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| Failure::file(format!("'{}': {error}", path.display())))
}

pub(super) fn code_page(name: &str) -> Result<CodePage, Failure> {
    CodePage::named(name).ok_or_else(|| {
        let known = CodePage::numbers().iter().map(ToString::to_string).collect::<Vec<_>>();
        let known = known.join(", ");
        Failure::usage(format!("'{name}' is no code page: there are {known}"))
    })
}

pub(super) fn trust(args: &HostTrustArgs) -> Result<ServerTrust, Failure> {
    Ok(match (&args.ca, args.pins.as_slice()) {
        (Some(ca), _) => ServerTrust::Authorities(read(ca)?),
        (None, []) => ServerTrust::System,
        (None, pins) => ServerTrust::Pinned(pins.to_vec()),
    })
}

/// The model in a file.
pub(super) fn model(file: &Path) -> Result<Model, Failure> {
    let text = String::from_utf8_lossy(&read(file)?).into_owned();
    Model::read(&text).map_err(|error| {
        let what = format!("'{}' is no model: {error}", file.display());
        Failure::new("EP1305", Exit::Invalid, what)
    })
}

/// How the host of a model is connected to.
pub(crate) fn host_options(
    model: &Model,
    address: HostAddress,
    trust: ServerTrust,
    patience: Duration,
) -> Result<HostOptions, Failure> {
    let device = match &model.host.terminal {
        None => Device::default(),
        Some(name) => Device::named(name)
            .ok_or_else(|| Failure::usage(format!("'{name}' of the model is no terminal")))?,
    };
    /// Of US English, as for `host terminal`.
    const USUAL_PAGE: u16 = 37;
    let number = model.host.codepage.unwrap_or(USUAL_PAGE);
    let page = CodePage::new(number)
        .ok_or_else(|| Failure::usage(format!("'{number}' of the model is no code page")))?;
    Ok(HostOptions { address, device, lus: model.host.lu.clone(), page, trust, patience })
}

/// TLS by a certificate that is made now, for an address of this machine.
pub(super) fn own_certificate(address: IpAddr, env: &Env) -> Result<TlsConfig, Failure> {
    let names = vec!["localhost".to_owned(), address.to_string()];
    let own = self_signed(names).map_err(wrong_certificate)?;
    tls_config(own.chain.into_bytes(), own.key, env)
}

/// TLS by a certificate and its key.
pub(super) fn tls_config(chain: Vec<u8>, key: Secret, env: &Env) -> Result<TlsConfig, Failure> {
    let clients = ClientCertificates::Off;
    let options = TlsOptions { chain, key, clients, least: TlsVersion::Tls12 };
    TlsConfig::new(&options, env).map_err(wrong_certificate)
}

fn wrong_certificate(error: TlsConfigError) -> Failure {
    Failure::new(error.code(), Exit::Invalid, error.to_string())
}
