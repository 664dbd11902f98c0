//! Endpoints where no files lie: servers that steps of rules talk to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::{OnByDefault, is_default};
use crate::name::Name;
use crate::noun::FieldError;
use crate::secret::{Sealed, Secret};

/// A server that takes requests of HTTP: `http` steps send them there, and nowhere else.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebTarget {
    /// `https://host/path`, or `http://`; the paths of steps are put behind it.
    pub url: String,
    /// Login name, with which the password makes Basic authentication (RFC 7617).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The field of requests that the password stands in, such as `X-Api-Key`. Without it and
    /// `user` the password is a bearer token (RFC 6750).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// The password is the secret of a client of OAuth 2.0, which gets a bearer token for it. Goes
    /// with neither `user` nor `header`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oauth: Option<OauthClient>,
    /// The password, sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_sealed: Option<Sealed>,
    /// Password or token. Accepted in documents and requests only: sealed on the way in, never
    /// stored or shown.
    #[serde(default, skip_serializing)]
    pub password: Option<Secret>,
    /// A key of type `tls`: its certificate proves to the server who we are (mutual TLS).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Name>,
    /// Authorities that sign its certificate, PEM; unset: those this machine trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorities: Option<String>,
    /// Allow private addresses, for servers inside one's own network.
    #[serde(default, skip_serializing_if = "is_default")]
    pub allow_private: bool,
}

/// Who we are to a server that gives tokens for requests (RFC 6749 §4.4, client credentials).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OauthClient {
    /// Where tokens are asked for: `https://host/path`, or `http://`. It is dialled and its
    /// certificate is checked as the server's own.
    pub token_url: String,
    /// The name of the client.
    pub client: String,
    /// What the token is to be good for, as that server calls it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// Which servers it is to be good for, where several are served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
    /// Where the client says its name and secret.
    #[serde(default, skip_serializing_if = "is_default")]
    pub proof: OauthProof,
}

/// Where a client of OAuth 2.0 says its name and secret (RFC 6749 §2.3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OauthProof {
    /// By Basic authentication.
    #[default]
    Basic,
    /// In the body of the request.
    Body,
}

/// A receiver of web hooks, as Standard Webhooks 1.0 has them: `webhook` steps post events there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookTarget {
    /// `https://host/path`, or `http://`.
    pub url: String,
    /// Whether anything is sent there. A receiver that answers 410 (Gone) wants nothing more: the
    /// server sets this to false, and an administrator back to true.
    #[serde(default = "bool::on", skip_serializing_if = "OnByDefault::is_on")]
    pub enabled: bool,
    /// The key that signs, sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key_sealed: Option<Sealed>,
    /// The key that signs: `whsec_` and 24 to 64 bytes as base64. While the receiver changes its
    /// key, both, with a blank between. Accepted in documents and requests only: sealed on the way
    /// in, never stored or shown.
    #[serde(default, skip_serializing)]
    pub secret_key: Option<Secret>,
    /// A key of type `tls`: its certificate proves to the receiver who we are (mutual TLS).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Name>,
    /// Authorities that sign the receiver's certificate, PEM; unset: those this machine trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorities: Option<String>,
    /// Allow private addresses, for servers inside one's own network.
    #[serde(default, skip_serializing_if = "is_default")]
    pub allow_private: bool,
}

/// A server that takes mail: `mail` steps hand messages over to it (RFC 6409).
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MailTarget {
    /// Host name or address.
    pub host: String,
    /// Port; unset: 587, with TLS at once 465, without TLS 25.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// When TLS begins.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tls: MailTls,
    /// The address that messages are from, and that errors are mailed to: `us@example.com`, or
    /// with a name, `Files <us@example.com>`.
    pub from: String,
    /// Login name; unset: the server takes mail without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The password, sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_sealed: Option<Sealed>,
    /// Accepted in documents and requests only: sealed on the way in, never stored or shown.
    #[serde(default, skip_serializing)]
    pub password: Option<Secret>,
    /// Authorities that sign its certificate, PEM; unset: those this machine trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorities: Option<String>,
    /// Allow private addresses, for servers inside one's own network.
    #[serde(default, skip_serializing_if = "is_default")]
    pub allow_private: bool,
}

/// When TLS begins on a server of mail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MailTls {
    /// By STARTTLS; a server without it gets nothing.
    #[default]
    StartTls,
    /// At once, on a port of its own.
    Implicit,
    /// Never: messages go in clear text, and no password.
    Off,
}

impl MailTarget {
    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(match self.tls {
            MailTls::StartTls => 587,
            MailTls::Implicit => 465,
            MailTls::Off => 25,
        })
    }

    /// The address alone, without a name before it.
    pub fn sender(&self) -> &str {
        let inner = self.from.rsplit_once('<').and_then(|(_, rest)| rest.strip_suffix('>'));
        inner.unwrap_or(&self.from)
    }

    pub(super) fn check(&self) -> Result<(), FieldError> {
        let flaw =
            |field: &str, text: &str| Err(FieldError::new(format!("target.mail.{field}"), text));
        if self.host.is_empty() {
            return flaw("host", "name the server");
        }
        let is_address = self.sender().split_once('@').is_some_and(|(name, host)| {
            let plain = |c: char| c.is_ascii_graphic() && !"<>@".contains(c);
            let plain = |part: &str| !part.is_empty() && part.chars().all(plain);
            plain(name) && plain(host)
        });
        if !is_address || self.from.chars().any(char::is_control) {
            return flaw("from", "give an address such as files@example.com");
        }
        let has_password = self.password.is_some() || self.password_sealed.is_some();
        if has_password != self.user.is_some() {
            return flaw("user", "give both 'user' and 'password', or none");
        }
        if has_password && self.tls == MailTls::Off {
            return flaw("tls", "a password never goes in clear text");
        }
        Ok(())
    }
}

/// A scanner of files: `scan` steps show them to it.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScannerTarget {
    /// `icap://host:1344/service` (RFC 3507) or under TLS `icaps://`; `clamd://host:3310`; or
    /// `clamd:/run/clamav/clamd.ctl`, a socket of this machine.
    pub url: String,
    /// As what files are shown to a service of ICAP.
    #[serde(default, skip_serializing_if = "is_default")]
    pub method: ScannerMethod,
    /// Authorities that sign its certificate, PEM; unset: those this machine trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorities: Option<String>,
    /// Allow private addresses, for scanners inside one's own network.
    #[serde(default, skip_serializing_if = "is_default")]
    pub allow_private: bool,
}

/// As what a service of ICAP gets files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ScannerMethod {
    /// As what a web server answered.
    #[default]
    Respmod,
    /// As what a client posted.
    Reqmod,
}

/// Whether a scanner is reached under TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScannerTls {
    /// From the start.
    On,
    /// In clear text.
    Off,
}

/// Where a scanner is, and what it speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScannerAddress {
    /// A service of ICAP.
    Icap {
        /// Name or address, an IPv6 address in its brackets.
        host: String,
        /// The usual one, unless the URL names another.
        port: u16,
        /// Whether it is under TLS.
        tls: ScannerTls,
        /// Host and, unless it is the usual one, port.
        authority: String,
        /// The path there, with its query.
        service: String,
    },
    /// clamd at a port.
    Clamd {
        /// Name or address, an IPv6 address in its brackets.
        host: String,
        /// The usual one, unless the URL names another.
        port: u16,
    },
    /// clamd at a Unix socket.
    ClamdSocket(std::path::PathBuf),
}

impl ScannerTarget {
    /// What the URL says; `None` if it is none.
    pub fn address(&self) -> Option<ScannerAddress> {
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_plain(&self.url) {
            return None;
        }
        let (scheme, rest) = self.url.split_once(':')?;
        if scheme == "clamd" && rest.starts_with('/') && !rest.starts_with("//") {
            return Some(ScannerAddress::ClamdSocket(rest.into()));
        }
        let rest = rest.strip_prefix("//")?;
        let (authority, service) = rest.split_once('/').unwrap_or((rest, ""));
        // The colons of an IPv6 address stand before the bracket that closes it.
        let named = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port.parse().ok()?)),
            _ => (authority, None),
        };
        let (host, port) = named;
        if host.is_empty() || host.contains(['@', '?', '#']) {
            return None;
        }
        let (host, usual) = (host.to_owned(), |usual: u16| port.unwrap_or(usual));
        match scheme {
            "clamd" if service.is_empty() => {
                Some(ScannerAddress::Clamd { host, port: usual(3310) })
            }
            "icap" | "icaps" if !service.is_empty() && !service.contains('#') => {
                let is_tls = scheme == "icaps";
                Some(ScannerAddress::Icap {
                    host,
                    port: usual(if is_tls { 11344 } else { 1344 }),
                    tls: if is_tls { ScannerTls::On } else { ScannerTls::Off },
                    authority: authority.to_owned(),
                    service: service.to_owned(),
                })
            }
            _ => None,
        }
    }

    pub(super) fn check(&self) -> Result<(), FieldError> {
        if self.address().is_none() {
            let text = "give icap://host:1344/service, icaps://…, clamd://host:3310 or \
                        clamd:/path/of/its/socket";
            return Err(FieldError::new("target.scanner.url", text));
        }
        Ok(())
    }
}

/// Fields of requests that say where a message goes or ends; nobody else may set them.
const OWN_HEADERS: [&str; 6] =
    ["host", "connection", "content-length", "transfer-encoding", "te", "upgrade"];

/// Why `name` cannot be a field of a request that somebody chooses, if so.
pub(crate) fn header_flaw(name: &str) -> Option<&'static str> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Some("the name of a field has letters, digits and '-', such as X-Api-Key");
    }
    let is_own = OWN_HEADERS.iter().any(|own| own.eq_ignore_ascii_case(name));
    is_own.then_some("that field is set by the server itself")
}

impl WebTarget {
    pub(super) fn check(&self) -> Result<(), FieldError> {
        check_url("target.web.url", &self.url)?;
        check_client_key("target.web.key", self.key.as_ref(), &self.url)?;
        if self.url.contains(['?', '#']) {
            let text = "leave the query to the paths of steps";
            return Err(FieldError::new("target.web.url", text));
        }
        if let Some(flaw) = self.header.as_deref().and_then(header_flaw) {
            return Err(FieldError::new("target.web.header", flaw));
        }
        if self.user.is_some() && self.header.is_some() {
            return Err(FieldError::new("target.web.header", "give 'user' or 'header', not both"));
        }
        let has_password = self.password.is_some() || self.password_sealed.is_some();
        let needs_password = self.user.is_some() || self.header.is_some() || self.oauth.is_some();
        if let Some(oauth) = &self.oauth {
            if self.user.is_some() || self.header.is_some() {
                let text = "goes with neither 'user' nor 'header'";
                return Err(FieldError::new("target.web.oauth", text));
            }
            oauth.check()?;
        }
        if !has_password && needs_password {
            return Err(FieldError::new("target.web.password", "give a password"));
        }
        if self.user.as_deref().is_some_and(|user| user.contains(':')) {
            return Err(FieldError::new("target.web.user", "a login name has no ':'"));
        }
        if let Some(password) = &self.password
            && !is_line(password)
        {
            let text = "one line of printable ASCII characters";
            return Err(FieldError::new("target.web.password", text));
        }
        Ok(())
    }
}

/// A certificate is shown under TLS alone.
fn check_client_key(field: &str, key: Option<&Name>, url: &str) -> Result<(), FieldError> {
    let is_shown = url.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("https://"));
    if key.is_some() && !is_shown {
        return Err(FieldError::new(field, "a certificate is shown under TLS alone: use https"));
    }
    Ok(())
}

impl OauthClient {
    fn check(&self) -> Result<(), FieldError> {
        let flaw = |field: &str, text: &str| {
            Err(FieldError::new(format!("target.web.oauth.{field}"), text))
        };
        check_url("target.web.oauth.token_url", &self.token_url)?;
        let is_line = |text: &str| !text.is_empty() && !text.contains(|c: char| c.is_control());
        if !is_line(&self.client) {
            return flaw("client", "give the name of the client, in one line");
        }
        // RFC 6749 §3.3 has no blank in a scope.
        if !self.scopes.iter().all(|scope| is_line(scope) && !scope.contains(' ')) {
            return flaw("scopes", "each is one word");
        }
        if !self.audience.as_deref().is_none_or(is_line) {
            return flaw("audience", "one line");
        }
        Ok(())
    }
}

impl WebhookTarget {
    pub(super) fn check(&self) -> Result<(), FieldError> {
        check_url("target.webhook.url", &self.url)?;
        check_client_key("target.webhook.key", self.key.as_ref(), &self.url)?;
        if self.secret_key.is_none() && self.secret_key_sealed.is_none() {
            let text = "give the key that the receiver knows: 'whsec_' and base64";
            return Err(FieldError::new("target.webhook.secret_key", text));
        }
        let keys = self.secret_key.as_ref().map(|key| String::from_utf8_lossy(key.expose()));
        let mut keys = keys.iter().flat_map(|keys| keys.split(' '));
        // 24 to 64 bytes are 32 to 88 characters of base64.
        let is_key = |key: &str| {
            let coded = key.strip_prefix("whsec_").unwrap_or_default();
            let base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
            (32..=88).contains(&coded.len()) && coded.bytes().all(base64)
        };
        if !keys.all(is_key) {
            let text = "each key is 'whsec_' and the base64 of 24 to 64 bytes";
            return Err(FieldError::new("target.webhook.secret_key", text));
        }
        Ok(())
    }
}

fn is_line(secret: &Secret) -> bool {
    secret.expose().iter().all(|byte| (b' '..=b'~').contains(byte))
}

fn check_url(field: &str, url: &str) -> Result<(), FieldError> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let authority = rest.and_then(|rest| rest.split(['/', '?', '#']).next()).unwrap_or_default();
    if authority.is_empty() || url.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(FieldError::new(field, "give a URL such as https://host.example/path"));
    }
    if authority.contains('@') {
        let text = "leave user and password out of the URL: they have fields of their own";
        return Err(FieldError::new(field, text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::Endpoint;
    use crate::noun::Noun as _;

    fn flaw(target: serde_json::Value) -> Option<String> {
        let endpoint = serde_json::json!({"name": "e", "target": target});
        let endpoint: Endpoint = serde_json::from_value(endpoint).unwrap();
        endpoint.check().err().map(|error| error.field)
    }

    #[test]
    fn servers_that_cannot_be_are_named_by_their_field() {
        let web = |fields: serde_json::Value| flaw(serde_json::json!({"web": fields}));
        let url = "https://erp.example/api";
        assert_eq!(web(serde_json::json!({"url": url})), None);
        assert_eq!(web(serde_json::json!({"url": url, "user": "u", "password": "p"})), None);
        for (bad, field) in [
            (serde_json::json!({"url": "erp.example"}), "target.web.url"),
            (serde_json::json!({"url": "https://u:p@erp.example"}), "target.web.url"),
            (serde_json::json!({"url": "https://erp.example/a?b=c"}), "target.web.url"),
            (serde_json::json!({"url": "https:///path"}), "target.web.url"),
            (serde_json::json!({"url": url, "user": "u"}), "target.web.password"),
            (
                serde_json::json!({"url": url, "header": "a b", "password": "p"}),
                "target.web.header",
            ),
            (
                serde_json::json!({"url": url, "header": "Host", "password": "p"}),
                "target.web.header",
            ),
            (serde_json::json!({"url": url, "password": "a\r\nb: c"}), "target.web.password"),
        ] {
            assert_eq!(web(bad.clone()).as_deref(), Some(field), "{bad}");
        }
    }

    #[test]
    fn a_mail_server_gets_no_password_in_the_clear() {
        let mail = |fields: serde_json::Value| {
            let mut whole = serde_json::json!({"host": "mx.example", "from": "us@example.com"});
            whole.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            flaw(serde_json::json!({ "mail": whole }))
        };
        assert_eq!(mail(serde_json::json!({})), None);
        assert_eq!(mail(serde_json::json!({"from": "Us <us@example.com>"})), None);
        assert_eq!(mail(serde_json::json!({"user": "u", "password": "p"})), None);
        for (bad, field) in [
            (serde_json::json!({"host": ""}), "target.mail.host"),
            (serde_json::json!({"from": "us"}), "target.mail.from"),
            (serde_json::json!({"from": "us@example.com>\r\nRCPT TO:<a@b"}), "target.mail.from"),
            (serde_json::json!({"user": "u"}), "target.mail.user"),
            (serde_json::json!({"user": "u", "password": "p", "tls": "off"}), "target.mail.tls"),
        ] {
            assert_eq!(mail(bad.clone()).as_deref(), Some(field), "{bad}");
        }
    }

    #[test]
    fn a_scanner_is_where_its_url_says() {
        use super::{ScannerAddress, ScannerTarget, ScannerTls};
        let at =
            |url: &str| ScannerTarget { url: url.to_owned(), ..ScannerTarget::default() }.address();
        let icap = |host: &str, port, tls, authority: &str| {
            let (host, authority) = (host.to_owned(), authority.to_owned());
            Some(ScannerAddress::Icap { host, port, tls, authority, service: "av?x=1".to_owned() })
        };
        assert_eq!(at("icap://av/av?x=1"), icap("av", 1344, ScannerTls::Off, "av"));
        assert_eq!(at("icaps://[::1]:99/av?x=1"), icap("[::1]", 99, ScannerTls::On, "[::1]:99"));
        assert_eq!(at("icap://[::1]/av?x=1"), icap("[::1]", 1344, ScannerTls::Off, "[::1]"));
        let clamd = Some(ScannerAddress::Clamd { host: "av".to_owned(), port: 3310 });
        assert_eq!(at("clamd://av"), clamd);
        assert_eq!(at("clamd:/run/c"), Some(ScannerAddress::ClamdSocket("/run/c".into())));
        for bad in [
            "",
            "av",
            "http://av/x",
            "icap://av",
            "icap:///x",
            "clamd://av/x",
            "icap://a b/x",
            "icap://av:port/x",
            "icap://u@av/x",
            "clamd:run",
        ] {
            assert_eq!(at(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_web_hook_has_keys_that_can_sign() {
        let hook = |key: &str| {
            flaw(serde_json::json!({"webhook": {"url": "https://a.example/", "secret_key": key}}))
        };
        let key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        assert_eq!(hook(key), None);
        assert_eq!(hook(&format!("{key} {key}")), None);
        for bad in ["", "secret", "whsec_short", &format!("{key},{key}"), &format!("{key} ")] {
            assert_eq!(hook(bad).as_deref(), Some("target.webhook.secret_key"), "{bad}");
        }
    }
}
