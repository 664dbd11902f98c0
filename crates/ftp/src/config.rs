//! How a listener presents itself.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use entrepot_ftp_proto::{ActivePolicy, AsciiPolicy, Settings, TlsMode};
use entrepot_net::control::{ControlOptions, ControlTls};
use entrepot_net::data::{DataPeer, PortRange};
use entrepot_net::server::Admission;
use entrepot_net::tls::{ClientCertificates as Clients, Reuse, TlsConfig};
use entrepot_nouns::Listener;
use entrepot_nouns::ftp::{
    AsciiTransfers, DataPeers, FtpOptions, FtpTls, SiteCommand, TlsRequired, TlsReuse,
};

use crate::limits::LOGIN_TIME;

/// How a listener presents itself; changed while it serves. Cheap to clone.
#[derive(Clone, Debug)]
pub struct FtpConfig(Arc<Manner>);

#[derive(Debug)]
struct Manner {
    control: ControlOptions,
    options: FtpOptions,
    banner: String,
    data_peer: DataPeer,
}

impl FtpConfig {
    /// Of a listener; `tls` unless its TLS is off.
    pub fn new(listener: &Listener, tls: Option<TlsConfig>) -> FtpConfig {
        let options = listener.ftp.clone().unwrap_or_default();
        let tls = match (options.tls, tls) {
            (FtpTls::Off, _) | (_, None) => ControlTls::Off,
            (FtpTls::Explicit, Some(tls)) => ControlTls::Explicit(tls),
            (FtpTls::Implicit, Some(tls)) => ControlTls::Implicit(tls),
        };
        let data_peer = match options.data_peer {
            DataPeers::Same => DataPeer::Same,
            DataPeers::Networks => DataPeer::Networks(options.data_networks.clone()),
            DataPeers::AnyResumed => DataPeer::AnyResumed,
        };
        let admission = Arc::new(Admission::of(listener));
        let control = ControlOptions { admission, tls, login_time: LOGIN_TIME };
        let banner = listener.banner.trim_end().to_owned();
        FtpConfig(Arc::new(Manner { control, options, banner, data_peer }))
    }

    pub(crate) fn control(&self) -> &ControlOptions {
        &self.0.control
    }

    /// Which certificates clients are asked for.
    pub(crate) fn clients(&self) -> &Clients {
        match &self.0.control.tls {
            ControlTls::Off => &Clients::Off,
            ControlTls::Explicit(tls) | ControlTls::Implicit(tls) => tls.clients(),
        }
    }

    pub(crate) fn ports(&self) -> PortRange {
        let ports = self.0.options.passive_ports;
        ports.and_then(|ports| PortRange::new(ports.first(), ports.last())).unwrap_or_default()
    }

    pub(crate) fn data_peer(&self) -> &DataPeer {
        &self.0.data_peer
    }

    /// What the policy of an account says goes before what the listener does.
    pub(crate) fn reuse(&self, account: Option<TlsReuse>) -> Reuse {
        match account.unwrap_or(self.0.options.tls_reuse) {
            TlsReuse::Required => Reuse::Required,
            TlsReuse::Preferred => Reuse::Preferred,
            TlsReuse::Off => Reuse::Off,
        }
    }

    /// The address that PASV tells a client.
    pub(crate) fn passive_address(&self, client: IpAddr) -> Option<IpAddr> {
        let client = client.to_canonical();
        let mut addresses = self.0.options.passive_addresses.iter();
        let fits = |of: &[ipnet::IpNet]| of.is_empty() || of.iter().any(|it| it.contains(&client));
        addresses.find(|told| fits(&told.clients)).map(|told| told.address)
    }

    /// What a session's machine needs to know.
    pub(crate) fn settings(&self, peer: SocketAddr, local: SocketAddr) -> Settings {
        let Manner { control, options, banner, data_peer } = &*self.0;
        let mut settings = Settings::new(peer, local);
        if !banner.is_empty() {
            settings.greeting.clone_from(banner);
        }
        settings.tls = match control.tls {
            ControlTls::Off => TlsMode::Off,
            ControlTls::Explicit(_) => TlsMode::Explicit,
            ControlTls::Implicit(_) => TlsMode::Implicit,
        };
        let required = options.required();
        let certified = matches!(self.clients(), Clients::Required(_));
        settings.require_tls = required != TlsRequired::None || certified;
        settings.protect_data = required == TlsRequired::LoginAndData;
        // The site of a login is looked for when its name is said.
        settings.ask_user = true;
        settings.clear_control = options.clear_control;
        settings.compression = options.compression;
        settings.ascii = match options.ascii {
            AsciiTransfers::Convert => AsciiPolicy::Convert,
            AsciiTransfers::Binary => AsciiPolicy::Binary,
            AsciiTransfers::Refuse => AsciiPolicy::Refuse,
        };
        let others = match data_peer {
            DataPeer::Networks(networks) => {
                networks.iter().map(|net| (net.addr(), net.prefix_len())).collect()
            }
            DataPeer::Same | DataPeer::AnyResumed => Vec::new(),
        };
        settings.active = ActivePolicy { allowed: options.active, low_ports: false, others };
        settings.login_limit = LOGIN_TIME;
        settings.site.limit = options.site_commands.contains(&SiteCommand::Limit);
        settings.site.shutdown = options.site_commands.contains(&SiteCommand::Shutdown);
        settings
    }
}
