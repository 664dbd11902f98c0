//! What a listener of FTP offers.

use std::net::IpAddr;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::{OnByDefault, is_default};

/// What only a listener of FTP has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FtpOptions {
    /// Ports of passive data connections, such as `50000-50999`; unset: 61000-65535.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passive_ports: Option<Ports>,
    /// The address told in PASV, by who asks; the first entry that fits counts. Empty: the address
    /// that the client reached us at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passive_addresses: Vec<PassiveAddress>,
    /// Whether we connect to clients that ask for it (PORT, EPRT).
    #[serde(default = "bool::on", skip_serializing_if = "OnByDefault::is_on")]
    pub active: bool,
    /// Whose data connections are taken.
    #[serde(default)]
    pub data_peer: DataPeers,
    /// Networks besides the client's own address, with `data_peer: networks`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub data_networks: Vec<IpNet>,
    /// When TLS begins on the control connection; the rest of it is in the listener's `tls`.
    #[serde(default)]
    pub tls: FtpTls,
    /// What must be encrypted. Unset: logins and data, unless `tls` is `off`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_required: Option<TlsRequired>,
    /// Whether encrypted data connections must resume the session of their control connection.
    #[serde(default)]
    pub tls_reuse: TlsReuse,
    /// Whether a client may end TLS on its control connection (CCC).
    #[serde(default, skip_serializing_if = "is_default")]
    pub clear_control: bool,
    /// Words of SITE by which administrators steer the node; empty: none is offered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub site_commands: Vec<SiteCommand>,
    /// Whether clients may have data compressed (MODE Z), and how much at first: 1 to 9.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compression: Option<u8>,
    /// What a transfer in TYPE A, the type that sessions begin with, does to ends of lines.
    #[serde(default)]
    pub ascii: AsciiTransfers,
}

impl Default for FtpOptions {
    fn default() -> Self {
        FtpOptions {
            passive_ports: None,
            passive_addresses: Vec::new(),
            active: true,
            data_peer: DataPeers::default(),
            data_networks: Vec::new(),
            tls: FtpTls::default(),
            tls_required: None,
            tls_reuse: TlsReuse::default(),
            clear_control: false,
            site_commands: Vec::new(),
            compression: None,
            ascii: AsciiTransfers::default(),
        }
    }
}

/// Ports from the first to the last, both included; as text `50000-50999`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct Ports {
    first: u16,
    last: u16,
}

impl Ports {
    /// The first, above 0.
    pub fn first(self) -> u16 {
        self.first
    }

    /// The last, not below the first.
    pub fn last(self) -> u16 {
        self.last
    }
}

impl TryFrom<String> for Ports {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse::<u16>().ok();
        let (first, last) = text.split_once('-').unwrap_or((&text, &text));
        match (number(first), number(last)) {
            (Some(first), Some(last)) if first > 0 && first <= last => Ok(Ports { first, last }),
            _ => Err(format!("'{text}' is not a range of ports such as 50000-50999")),
        }
    }
}

impl From<Ports> for String {
    fn from(ports: Ports) -> String {
        format!("{}-{}", ports.first, ports.last)
    }
}

/// An address that PASV tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PassiveAddress {
    /// What is told: the address of a router or balancer in front of us.
    pub address: IpAddr,
    /// To clients of these networks; empty: to all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub clients: Vec<IpNet>,
}

impl FtpOptions {
    /// What must be encrypted.
    pub fn required(&self) -> TlsRequired {
        match self.tls {
            FtpTls::Off => TlsRequired::None,
            FtpTls::Explicit | FtpTls::Implicit => self.tls_required.unwrap_or_default(),
        }
    }

    /// What clients may send and be sent in clear text; `None`: nothing.
    pub fn clear_text(&self) -> Option<ClearText> {
        match (self.tls, self.required()) {
            (_, TlsRequired::LoginAndData) => None,
            (FtpTls::Implicit, _) | (_, TlsRequired::Login) => Some(ClearText::Files),
            (FtpTls::Off | FtpTls::Explicit, TlsRequired::None) => {
                Some(ClearText::PasswordsAndFiles)
            }
        }
    }
}

/// When TLS begins on the control connection.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FtpTls {
    /// Never: AUTH TLS is refused; passwords and files go in clear text.
    Off,
    /// When the client asks for it (AUTH TLS, RFC 4217 §4).
    #[default]
    Explicit,
    /// With the first byte (port 990); data is encrypted from the start.
    Implicit,
}

/// What clients of a listener of FTP must encrypt.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TlsRequired {
    /// Nobody logs in without TLS, and no file or listing crosses without it: PROT C is refused.
    #[default]
    LoginAndData,
    /// Nobody logs in without TLS; data may be in clear text (PROT C).
    Login,
    /// Clients choose, passwords included.
    None,
}

/// What may cross the network unencrypted at a listener.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClearText {
    /// Files and listings, after a login under TLS.
    Files,
    /// Passwords too, so that who listens can log in.
    PasswordsAndFiles,
}

impl ClearText {
    /// For a sentence: "lets … cross the network in clear text".
    pub fn as_str(self) -> &'static str {
        match self {
            ClearText::Files => "files",
            ClearText::PasswordsAndFiles => "passwords and files",
        }
    }
}

/// What transfers in TYPE A (RFC 959 §3.1.1.1) do.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AsciiTransfers {
    /// CRLF on the line, LF in the file.
    #[default]
    Convert,
    /// The bytes go as they are: for clients that never say TYPE I and send what is no text.
    Binary,
    /// They are refused with 504, so that nobody damages a file unawares; lists go on.
    Refuse,
}

/// A word of SITE for accounts of type `admin`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SiteCommand {
    /// `SITE LIMIT`: how fast everything together on the node may go.
    Limit,
    /// `SITE SHUTDOWN`: the end of the node.
    Shutdown,
}

/// Whose data connections are taken.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DataPeers {
    /// Those of the control connection's own address.
    #[default]
    Same,
    /// Also those of listed networks.
    Networks,
    /// Under TLS, anybody's that resumes the session.
    AnyResumed,
}

/// Whether encrypted data connections must resume the session of their control connection.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TlsReuse {
    /// They must: nobody else can take or send a file.
    #[default]
    Required,
    /// They may resume it; a full handshake is taken too.
    Preferred,
    /// They need not.
    Off,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_ports_is_text() {
        let ports = |text: &str| Ports::try_from(text.to_owned());
        assert_eq!(ports("50000-50999").map(String::from).as_deref(), Ok("50000-50999"));
        assert_eq!(ports("2121").map(|ports| (ports.first(), ports.last())), Ok((2121, 2121)));
        for bad in ["", "0-5", "9-5", "5-", "a-b", "1-70000"] {
            assert!(ports(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn nothing_said_means_required_tls_and_the_clients_own_address() {
        let options: FtpOptions = serde_json::from_str("{}").unwrap();
        assert_eq!(options, FtpOptions::default());
        assert!(options.active && options.tls == FtpTls::Explicit);
        assert_eq!(options.required(), TlsRequired::LoginAndData);
    }

    #[test]
    fn clear_text_is_what_somebody_has_named() {
        let clear = |json: &str| serde_json::from_str::<FtpOptions>(json).unwrap().clear_text();
        let (files, all) = (Some(ClearText::Files), Some(ClearText::PasswordsAndFiles));
        for (json, want) in [
            ("{}", None),
            (r#"{"tls": "implicit"}"#, None),
            (r#"{"tls": "explicit", "tls_required": "login-and-data"}"#, None),
            (r#"{"tls_required": "login"}"#, files),
            (r#"{"tls": "implicit", "tls_required": "login"}"#, files),
            (r#"{"tls": "implicit", "tls_required": "none"}"#, files),
            (r#"{"tls_required": "none"}"#, all),
            (r#"{"tls": "off"}"#, all),
        ] {
            assert_eq!(clear(json), want, "{json}");
        }
    }
}
