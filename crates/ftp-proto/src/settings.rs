//! What a session offers: decided by the adapter from listener, policy and account.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// How TLS is offered on the control connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsMode {
    /// No certificate: AUTH is 502.
    #[default]
    Off,
    /// By AUTH TLS.
    Explicit,
    /// From the first byte: the adapter has made it stand before it makes the machine.
    Implicit,
}

/// What TYPE A means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AsciiPolicy {
    /// Ends of lines are converted.
    #[default]
    Convert,
    /// TYPE A is taken, bytes go as they are.
    Binary,
    /// A transfer in TYPE A is 504.
    Refuse,
}

/// Digests of HASH and the X verbs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// IEEE 802.3, as in zip.
    Crc32,
    /// RFC 1321: for old clients, it protects against no attacker.
    Md5,
    /// FIPS 180-4: for old clients, as MD5.
    Sha1,
    /// FIPS 180-4, with 32 bytes.
    Sha256,
    /// FIPS 180-4, with 64 bytes.
    Sha512,
}

impl Algorithm {
    /// All, the best first.
    pub const ALL: [Algorithm; 5] =
        [Self::Sha256, Self::Sha512, Self::Sha1, Self::Md5, Self::Crc32];

    /// The name of draft-bryan-ftpext-hash.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Crc32 => "CRC32",
            Algorithm::Md5 => "MD5",
            Algorithm::Sha1 => "SHA-1",
            Algorithm::Sha256 => "SHA-256",
            Algorithm::Sha512 => "SHA-512",
        }
    }

    /// The algorithm of that name.
    pub fn named(name: &str) -> Option<Algorithm> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name().eq_ignore_ascii_case(name))
    }
}

/// When active mode is allowed, and to whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActivePolicy {
    /// False: PORT and EPRT are 502.
    pub allowed: bool,
    /// True: ports below 1024 are taken too.
    pub low_ports: bool,
    /// Networks (address, prefix bits) besides the peer's own address: FXP by policy.
    pub others: Vec<(IpAddr, u8)>,
}

impl Default for ActivePolicy {
    fn default() -> Self {
        ActivePolicy { allowed: true, low_ports: false, others: Vec::new() }
    }
}

/// Which words of SITE there are; HELP and CHMOD, UTIME are for everyone, the last two for
/// administrators only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SiteVerbs {
    /// `SITE CHMOD` is offered.
    pub chmod: bool,
    /// `SITE UTIME` is offered.
    pub utime: bool,
    /// `SITE MKDIR` makes parents too.
    pub mkdir: bool,
    /// `SITE COPY` is offered.
    pub copy: bool,
    /// `SITE LIMIT`, for administrators.
    pub limit: bool,
    /// `SITE SHUTDOWN`, for administrators.
    pub shutdown: bool,
}

impl Default for SiteVerbs {
    fn default() -> Self {
        SiteVerbs {
            chmod: true,
            utime: true,
            mkdir: true,
            copy: true,
            limit: false,
            shutdown: false,
        }
    }
}

/// All that a session's verbs depend on. FEAT and HELP tell the truth about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The client, as PROXY protocol or the socket say. IPv4-mapped ones count as IPv4.
    pub peer: SocketAddr,
    /// Our end of the control connection.
    pub local: SocketAddr,
    /// The words of the 220, a line for each `\n`.
    pub greeting: String,
    /// How TLS is offered.
    pub tls: TlsMode,
    /// USER without TLS is 530.
    pub require_tls: bool,
    /// Transfers without PROT P are 521, PROT C is 534.
    pub protect_data: bool,
    /// CCC is allowed.
    pub clear_control: bool,
    /// A USER is shown to the adapter: a client certificate may suffice (232).
    pub ask_user: bool,
    /// Every command is shown before it runs, and its code after.
    pub hooked: bool,
    /// Digests that HASH and the X verbs offer; the first is the default of HASH.
    pub algorithms: Vec<Algorithm>,
    /// HOST is offered.
    pub host: bool,
    /// The host whose accounts log in, where the client has chosen others than the listener's own:
    /// the answers to USER and PASS name it.
    pub login_host: Option<String>,
    /// ACCT after the login is asked for; else 202.
    pub accounts: bool,
    /// MODE Z is offered, with this level at first (1 to 9).
    pub compression: Option<u8>,
    /// Passive mode is offered.
    pub passive: bool,
    /// Whether and where PORT and EPRT connect to.
    pub active: ActivePolicy,
    /// Words of SITE.
    pub site: SiteVerbs,
    /// AVBL is offered: the store knows its room.
    pub space: bool,
    /// MFCT and the fact `create` are offered: the store keeps times of creation.
    pub creation_times: bool,
    /// What TYPE A means.
    pub ascii: AsciiPolicy,
    /// Wrong passwords before the session is closed.
    pub login_attempts: u32,
    /// From the beginning to a login.
    pub login_limit: Duration,
    /// From one command to the next, transfers apart (RFC 1123 §4.1.3.2: at least 5 minutes).
    pub idle_limit: Duration,
}

impl Settings {
    /// What a listener offers by default: clear text, all digests.
    pub fn new(peer: SocketAddr, local: SocketAddr) -> Settings {
        Settings {
            peer,
            local,
            greeting: "Entrepot is ready.".to_owned(),
            tls: TlsMode::Off,
            require_tls: false,
            protect_data: false,
            clear_control: false,
            ask_user: false,
            hooked: false,
            algorithms: Algorithm::ALL.to_vec(),
            host: false,
            login_host: None,
            accounts: false,
            compression: None,
            passive: true,
            active: ActivePolicy::default(),
            site: SiteVerbs::default(),
            space: true,
            creation_times: false,
            ascii: AsciiPolicy::Convert,
            login_attempts: 3,
            login_limit: Duration::from_secs(60),
            idle_limit: Duration::from_secs(600),
        }
    }

    /// Whether a data connection may go to `address`: the peer's own address or one of the
    /// policy's, and no low port (RFC 2577 §3).
    pub(crate) fn may_connect(&self, address: SocketAddr) -> bool {
        let ip = address.ip().to_canonical();
        let known = ip == self.peer.ip().to_canonical()
            || self.active.others.iter().any(|(network, bits)| contains(*network, *bits, ip));
        known && (self.active.low_ports || address.port() >= 1024)
    }
}

fn contains(network: IpAddr, bits: u8, address: IpAddr) -> bool {
    let equal = |a: u128, b: u128, width: u32| {
        let host_bits = width.saturating_sub(u32::from(bits));
        a.checked_shr(host_bits).unwrap_or(0) == b.checked_shr(host_bits).unwrap_or(0)
    };
    match (network, address) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            equal(u128::from(u32::from(a)), u128::from(u32::from(b)), 32)
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => equal(u128::from(a), u128::from(b), 128),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_goes_to_the_peer_and_to_listed_networks_only() {
        let mut settings =
            Settings::new("[::ffff:10.1.2.3]:999".parse().unwrap(), "10.0.0.1:21".parse().unwrap());
        let may = |settings: &Settings, text: &str| settings.may_connect(text.parse().unwrap());
        assert!(may(&settings, "10.1.2.3:1024"));
        assert!(!may(&settings, "10.1.2.3:1023"));
        assert!(!may(&settings, "10.1.2.4:2000"));
        settings.active.others =
            vec![("10.9.0.0".parse().unwrap(), 16), ("fd00::".parse().unwrap(), 8)];
        assert!(may(&settings, "10.9.200.1:2000"));
        assert!(may(&settings, "[fd12::1]:2000"));
        assert!(!may(&settings, "10.8.0.1:2000"));
        assert!(!may(&settings, "[fe80::1]:2000"));
        settings.active.others = vec![("0.0.0.0".parse().unwrap(), 0)];
        assert!(may(&settings, "192.0.2.1:2000"));
    }
}
