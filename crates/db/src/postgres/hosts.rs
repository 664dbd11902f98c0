//! A connection to the one of several hosts that takes writes.
//!
//! The driver tries the hosts of a URL in turn, but a host that accepts a connection and then says
//! nothing would use up the time of all. Here each has its own.

use std::future::Future;
use std::pin::Pin;

use deadpool_postgres::Connect;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::config::{Host, TargetSessionAttrs};
use tokio_postgres::{Client, Config, Error, NoTls};

use super::tls::Tls;
use crate::limits;

/// Tries hosts in the order of the URL.
pub(super) struct InTurn {
    hosts: Vec<Config>,
    tls: Tls,
}

type Connected = Result<(Client, JoinHandle<()>), Error>;

impl InTurn {
    /// The hosts that `config` names; `None` if it names only one.
    pub(super) fn of(config: &Config, tls: &Tls) -> Option<InTurn> {
        let count = config.get_hosts().len();
        if count < 2 {
            return None;
        }
        let hosts = (0..count).filter_map(|index| one(config, index)).collect();
        Some(InTurn { hosts, tls: tls.clone() })
    }

    async fn connect_in_turn(&self) -> Connected {
        let mut why: Option<Error> = None;
        for host in &self.hosts {
            let tried = timeout(limits::POSTGRES_HOST, connect(host, &self.tls)).await;
            match tried.unwrap_or_else(|_| Err(Error::__private_api_timeout())) {
                Ok(connected) => return Ok(connected),
                // What a server says is worth more than that another one says nothing.
                Err(error) if why.as_ref().is_none_or(|why| why.as_db_error().is_none()) => {
                    why = Some(error);
                }
                Err(_) => {}
            }
        }
        Err(why.unwrap_or_else(Error::__private_api_timeout))
    }
}

impl Connect for InTurn {
    fn connect(&self, _: &Config) -> Pin<Box<dyn Future<Output = Connected> + Send + '_>> {
        Box::pin(self.connect_in_turn())
    }
}

/// The configuration with its host of this index alone, which must take writes.
fn one(config: &Config, index: usize) -> Option<Config> {
    let mut one = Config::new();
    match config.get_hosts().get(index)? {
        Host::Tcp(host) => one.host(host),
        Host::Unix(path) => one.host_path(path),
    };
    if let Some(address) = config.get_hostaddrs().get(index) {
        one.hostaddr(*address);
    }
    let ports = config.get_ports();
    if let Some(port) = ports.get(index).or_else(|| ports.first()) {
        one.port(*port);
    }
    if let Some(user) = config.get_user() {
        one.user(user);
    }
    if let Some(password) = config.get_password() {
        one.password(password);
    }
    if let Some(name) = config.get_dbname() {
        one.dbname(name);
    }
    if let Some(options) = config.get_options() {
        one.options(options);
    }
    one.target_session_attrs(TargetSessionAttrs::ReadWrite)
        .ssl_mode(config.get_ssl_mode())
        .channel_binding(config.get_channel_binding())
        .connect_timeout(limits::POSTGRES_HOST)
        .tcp_user_timeout(limits::POSTGRES_SILENCE)
        .keepalives_idle(limits::POSTGRES_SILENCE)
        .application_name("entrepot");
    Some(one)
}

async fn connect(host: &Config, tls: &Tls) -> Connected {
    match tls {
        Tls::Off => {
            let (client, connection) = host.connect(NoTls).await?;
            Ok((client, driven(connection)))
        }
        Tls::Verified(connector) => {
            let (client, connection) = host.connect(connector.clone()).await?;
            Ok((client, driven(connection)))
        }
    }
}

/// The task that moves a connection's bytes; it ends with its client.
fn driven<E: std::fmt::Display>(
    connection: impl Future<Output = Result<(), E>> + Send + 'static,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to the database ended");
        }
    })
}
