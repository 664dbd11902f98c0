//! The sample application in this process: what is called there, and what it shows then.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use entrepot_host::model::Model;
use entrepot_host::{Application, CallError, HostAddress, HostTls, SAMPLE_MODEL, SampleHost};
use entrepot_net::tls::ServerTrust;
use tokio_util::sync::CancellationToken;

use crate::failure::{Exit, Failure};
use crate::host::host_options;

/// Longest wait for a screen.
const PATIENCE: Duration = Duration::from_secs(30);

/// A procedure of the sample application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SampleCall {
    pub(super) name: &'static str,
    pub(super) procedure: &'static str,
    input: &'static [(&'static str, &'static str)],
}

pub(super) const SEARCH: SampleCall =
    SampleCall { name: "search", procedure: "find_loans", input: &[("reader", "MANY")] };
pub(super) const UPDATE: SampleCall = SampleCall {
    name: "update",
    procedure: "renew_loan",
    input: &[("reader", "MANY"), ("id", "1003"), ("due", "24.12.2027")],
};

impl SampleCall {
    /// What the procedure is given.
    pub(super) fn input(&self) -> BTreeMap<String, String> {
        let text = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        self.input.iter().map(text).collect()
    }
}

/// Screens that a session of the sample application takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Screens {
    pub(super) to_home: u64,
    pub(super) call: u64,
    pub(super) log_off: u64,
}

/// A session at home.
pub(super) async fn sample_session(address: SocketAddr) -> Result<Application, Failure> {
    let model = Model::read(SAMPLE_MODEL).map_err(|error| wrong(error.to_string()))?;
    let address = HostAddress {
        host: address.ip().to_string(),
        port: address.port(),
        tls: HostTls::WhenAsked,
    };
    let options = host_options(&model, address, ServerTrust::System, PATIENCE)?;
    let values = [("user", "CLERK"), ("password", "SECRET")].into_iter();
    let values = values.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let opened = Application::open(Arc::new(model), options, values).await;
    let mut application = opened.map_err(not_called)?;
    application.go_home().await.map_err(not_called)?;
    Ok(application)
}

/// The application cannot be worked.
pub(super) fn not_called(error: CallError) -> Failure {
    wrong(error.to_string())
}

fn wrong(what: String) -> Failure {
    Failure::new("EP0209", Exit::Failed, what)
}

/// Counts the screens that the sample application shows, so that the table says what there was.
pub(super) async fn screens_of(call: SampleCall) -> Result<Screens, Failure> {
    let host = SampleHost::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
        .map_err(|error| wrong(error.to_string()))?;
    let (address, library, stop) = (host.address(), host.library(), CancellationToken::new());
    let serving = tokio::spawn(host.run(stop.clone()));
    let counted = async {
        let mut application = sample_session(address).await?;
        let to_home = library.screens();
        application.call(call.procedure, call.input()).await.map_err(not_called)?;
        let called = library.screens();
        application.log_off().await;
        Ok(Screens { to_home, call: called - to_home, log_off: library.screens() - called })
    };
    let counted = counted.await;
    stop.cancel();
    // It ends with the token, and has nothing to say.
    let _ = serving.await;
    counted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_screens_of_the_sample_are_counted() {
        let search = screens_of(SEARCH).await.unwrap();
        assert_eq!(search, Screens { to_home: 3, call: 28, log_off: 1 });
        let update = screens_of(UPDATE).await.unwrap();
        assert_eq!(update, Screens { to_home: 3, call: 6, log_off: 1 });
    }
}
