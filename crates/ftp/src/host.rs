//! Which site a client means: HOST (RFC 7151) and the server name of TLS (RFC 6066 §3).

use std::net::IpAddr;

use entrepot_auth::ReachedSite;
use entrepot_ftp_proto::{Answer, Refusal, Why};

use crate::session::Conversation;

/// Said while the database is away and was never asked before.
const UNKNOWN_NOW: &str = "Host names are not known at this moment: try again later.";

/// A site and the host name by which a client has chosen it.
struct ChosenSite {
    site: ReachedSite,
    host: String,
}

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

    /// Chooses the site whose accounts log in now: that of HOST; else that of the server name, if
    /// any is reached by it; else the listener's own. What was said in clear gives way to the
    /// server name. Client and log are told of a site that is not the listener's own.
    pub(crate) async fn choose_site(&mut self) -> Result<(), Refusal> {
        let own = self.house.context.site;
        let chosen = self.wanted_site().await?.filter(|chosen| chosen.site.id != own);
        let before = std::mem::replace(&mut self.site, own);
        self.machine.settings_mut().login_host = None;
        if let Some(ChosenSite { site, host }) = chosen {
            if before != site.id {
                let (peer, listener) = (self.control.peer(), &self.house.context.listener);
                let site = &site.name;
                tracing::info!(%peer, %listener, host, %site, "the host name chose the site");
            }
            self.site = site.id;
            self.machine.settings_mut().login_host = Some(host);
        }
        Ok(())
    }

    /// The site of the host name that counts, if there is one.
    async fn wanted_site(&mut self) -> Result<Option<ChosenSite>, Refusal> {
        let own = self.house.context.site;
        let asked = self.server_name();
        let said = self.machine.host().filter(|said| asked.is_none_or(|asked| asked == *said));
        let is_said = said.is_some();
        let Some(host) = said.or(asked).map(str::to_owned) else { return Ok(None) };
        if host.parse::<IpAddr>().is_ok() {
            return Ok(None);
        }
        match self.house.context.gate.site_of_host(own, &host).await {
            Ok(Some(site)) => Ok(Some(ChosenSite { site, host })),
            // It was served when it was said.
            Ok(None) if is_said => Err(Refusal::new(Why::Denied)),
            Ok(None) => Ok(None),
            Err(_) => Err(Refusal::told(451, UNKNOWN_NOW)),
        }
    }
}
