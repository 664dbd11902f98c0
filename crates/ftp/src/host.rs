//! Which site a client means: HOST (RFC 7151) and the server name of TLS (RFC 6066 §3).

use std::net::IpAddr;

use entrepot_ftp_proto::{Answer, Refusal, Why};
use entrepot_model::SiteId;

use crate::session::Conversation;

/// Said while the database is away and was never asked before.
const UNKNOWN_NOW: &str = "Host names are not known at this moment: try again later.";

impl Conversation {
    /// The name of the server that the client has asked TLS for.
    fn server_name(&self) -> Option<&str> {
        self.control.tls_info()?.server_name.as_deref()
    }

    /// HOST. Under TLS it is the name that the client has begun TLS with (RFC 7151 §3.2).
    pub(crate) async fn choose(&mut self, name: &str) -> Answer {
        if self.server_name().is_some_and(|asked| asked != name) {
            return Answer::Refused(Refusal::new(Why::NotFound));
        }
        // The machine has seen that it is our own.
        if name.parse::<IpAddr>().is_ok() {
            return Answer::Done;
        }
        let context = &self.house.context;
        match context.gate.site_of_host(context.site, name).await {
            Ok(Some(_)) => Answer::Done,
            Ok(None) => Answer::Refused(Refusal::new(Why::NotFound)),
            Err(_) => Answer::Refused(Refusal::told(451, UNKNOWN_NOW)),
        }
    }

    /// The site whose accounts log in now: that of HOST; else that of the server name, if any is
    /// reached by it; else the listener's own. What was said in clear gives way to the server name.
    pub(crate) async fn wanted_site(&mut self) -> Result<SiteId, Refusal> {
        let own = self.house.context.site;
        let asked = self.server_name();
        let said = self.machine.host().filter(|said| asked.is_none_or(|asked| asked == *said));
        let is_said = said.is_some();
        let Some(name) = said.or(asked).map(str::to_owned) else { return Ok(own) };
        if name.parse::<IpAddr>().is_ok() {
            return Ok(own);
        }
        match self.house.context.gate.site_of_host(own, &name).await {
            Ok(Some(site)) => Ok(site),
            // It was served when it was said.
            Ok(None) if is_said => Err(Refusal::new(Why::Denied)),
            Ok(None) => Ok(own),
            Err(_) => Err(Refusal::told(451, UNKNOWN_NOW)),
        }
    }
}
