//! Whom a command asks: the node of this machine, through its ops socket or its database, or a
//! server anywhere, by its API.

use entrepot_admin::Response;
use entrepot_nouns::Name;
use serde_json::Value;

use crate::ask;
use crate::config::Config;
use crate::failure::Failure;
use crate::remote::{RemoteServer, local_only};

/// What answers the requests of a command.
#[derive(Clone)]
pub(crate) enum AdminClient {
    /// The node of this machine.
    Local(Box<Config>),
    /// A server that was named on the command line.
    Remote(RemoteServer),
}

impl AdminClient {
    /// Asks; without a server the request is handled on the database itself.
    pub(crate) async fn ask(&self, request: Value) -> Result<Response, Failure> {
        match self {
            AdminClient::Local(config) => ask::ask(config, request).await,
            AdminClient::Remote(server) => server.ask(&request).await,
        }
    }

    /// Asks only a running server.
    pub(crate) async fn ask_server(&self, request: Value) -> Result<Response, Failure> {
        match self {
            AdminClient::Local(config) => {
                let path = ask::of_site("/v1/request", config);
                ask::ask_server(config, &path, Some(&request)).await
            }
            AdminClient::Remote(server) => server.ask(&request).await,
        }
    }

    /// The same at the site `main`, whichever site the command line names.
    pub(crate) fn at_main(&self) -> AdminClient {
        match self {
            AdminClient::Local(config) => {
                AdminClient::Local(Box::new(Config { site: None, ..Config::clone(config) }))
            }
            AdminClient::Remote(server) => AdminClient::Remote(server.at_main()),
        }
    }

    /// The process file of the node of this machine, for what only that node can do.
    pub(crate) fn config(self) -> Result<Config, Failure> {
        match self {
            AdminClient::Local(config) => Ok(*config),
            AdminClient::Remote(_) => Err(local_only("it works on the node of this machine")),
        }
    }

    /// The name of the node of this machine.
    pub(crate) fn node(&self) -> Result<Name, Failure> {
        match self {
            AdminClient::Local(config) => Ok(config.node.clone()),
            AdminClient::Remote(_) => {
                Err(Failure::usage("with --server the node must be named: see 'node list'"))
            }
        }
    }
}
