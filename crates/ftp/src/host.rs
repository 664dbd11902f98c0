//! Which site a client means: HOST (RFC 7151) and the server name of TLS (RFC 6066 §3).

use std::net::IpAddr;

use entrepot_auth::ReachedSite;
use entrepot_ftp_proto::{Answer, Refusal, Why};

use crate::control::ControlConnection;
use crate::shared::ListenerShared;

/// Said while the database is away and was never asked before.
const UNKNOWN_NOW: &str = "Host names are not known at this moment: try again later.";

/// A site and the host name by which a client has chosen it.
pub(crate) struct ChosenSite {
    pub(crate) site: ReachedSite,
    pub(crate) host: String,
}

/// The name of the server that the client has asked TLS for.
fn server_name(connection: &ControlConnection) -> Option<&str> {
    connection.stream.tls_info()?.server_name.as_deref()
}

/// HOST. Under TLS it is the name that the client has begun TLS with (RFC 7151 §3.2).
pub(crate) async fn choose(
    shared: &ListenerShared,
    connection: &ControlConnection,
    name: &str,
) -> Answer {
    if server_name(connection).is_some_and(|asked| asked != name) {
        return Answer::Refused(Refusal::new(Why::NotFound));
    }
    // The machine has compared an address with our own.
    if name.parse::<IpAddr>().is_ok() {
        return Answer::Done;
    }
    match shared.gate.site_of_host(shared.site, name).await {
        Ok(Some(_)) => Answer::Done,
        Ok(None) => Answer::Refused(Refusal::new(Why::NotFound)),
        Err(_) => Answer::Refused(Refusal::told(451, UNKNOWN_NOW)),
    }
}

/// The site of the host name that counts at USER, if there is one: that of HOST, else that of the
/// server name of TLS. A HOST that was sent in clear text gives way to the server name.
pub(crate) async fn site_of_login(
    shared: &ListenerShared,
    connection: &ControlConnection,
) -> Result<Option<ChosenSite>, Refusal> {
    let asked = server_name(connection);
    let sent = connection.machine.host().filter(|sent| asked.is_none_or(|asked| asked == *sent));
    let by_command = sent.is_some();
    let Some(host) = sent.or(asked).map(str::to_owned) else { return Ok(None) };
    if host.parse::<IpAddr>().is_ok() {
        return Ok(None);
    }
    match shared.gate.site_of_host(shared.site, &host).await {
        Ok(Some(site)) => Ok(Some(ChosenSite { site, host })),
        // It was served when HOST was answered.
        Ok(None) if by_command => Err(Refusal::new(Why::Denied)),
        Ok(None) => Ok(None),
        Err(_) => Err(Refusal::told(451, UNKNOWN_NOW)),
    }
}
