//! A bare server of SFTP over the transport of this program: whoever comes is logged in, and files
//! are written from their beginning to their end.

mod channel;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use entrepot_net::guard::UnauthenticatedConnections;
use entrepot_net::listen;
use entrepot_net::meter::SessionMeter;
use entrepot_net::server::{Listening, Server, ServerShared};
use entrepot_nouns::{AuthMethod, Env, Secret};
use entrepot_ssh::server::{
    Link, Program, Replies, Service, Services, Ssh, SshConfig, SshOptions, Started, Summary,
    Verdict,
};
use entrepot_ssh::{Certificate, ChannelId, PublicKey, keys};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::error::BenchError;
use crate::bare::BareServer;
use crate::bare::files::Files;
use crate::limits::CONCURRENCY;

use channel::Channel;

/// Serves SFTP from memory, with this host key (OpenSSH form) or one of its own making.
///
/// # Errors
/// The address is taken, or the key cannot be read.
pub fn serve_bare(
    address: SocketAddr,
    host_key: Option<Secret>,
    env: &Env,
) -> Result<BareServer, BenchError> {
    let host_key = match host_key {
        Some(key) => key,
        None => keys::generate(env, "bare")?.private,
    };
    let config = SshConfig::new(&SshOptions::new(vec![host_key]))?;
    let acceptor = listen::bind(address)?;
    let address = acceptor.local_address();
    // It stops by being dropped.
    let never = CancellationToken::new();
    let shared = ServerShared {
        // All clients may come at once, and from one address.
        unauthenticated: UnauthenticatedConnections::new(CONCURRENCY, CONCURRENCY),
        env: env.clone(),
        drain: Duration::ZERO,
        stopping: never.clone(),
    };
    // The sender is gone then, and the configuration stays what it is.
    let config = watch::channel(config).1;
    let protocol = Ssh(BareServices(Arc::default()));
    let server = Server { listening: Listening { acceptor, config, shared }, protocol };
    Ok(BareServer::spawn(address, server.run(never)))
}

struct BareServices(Arc<Files>);

impl Services for BareServices {
    type Service = BareService;

    fn admits(&self, _: SocketAddr) -> bool {
        true
    }

    fn connect(&self, _: SocketAddr, _: &Arc<SessionMeter>) -> BareService {
        BareService { files: Arc::clone(&self.0), channels: Vec::new() }
    }
}

/// One SSH connection.
struct BareService {
    files: Arc<Files>,
    channels: Vec<Channel>,
}

impl BareService {
    fn channel(&mut self, id: ChannelId) -> Option<&mut Channel> {
        self.channels.iter_mut().find(|channel| channel.id() == id)
    }

    fn forget(&mut self, id: ChannelId) {
        self.channels.retain(|channel| channel.id() != id);
    }
}

impl Service for BareService {
    fn methods(&mut self) -> Vec<AuthMethod> {
        vec![AuthMethod::PublicKey, AuthMethod::Password]
    }

    async fn greeted(&mut self) -> Result<(), String> {
        Ok(())
    }

    async fn offered(&mut self, _: &str, _: &PublicKey) -> bool {
        true
    }

    async fn public_key(&mut self, _: &str, _: &PublicKey, _: &str) -> Verdict {
        Verdict::Granted
    }

    async fn certificate(&mut self, _: &str, _: &Certificate) -> Verdict {
        Verdict::Granted
    }

    async fn asked(&mut self, _: &str) -> Vec<AuthMethod> {
        vec![AuthMethod::Password]
    }

    async fn answers(&mut self, _: &str, _: &[(AuthMethod, Secret)]) -> Verdict {
        Verdict::Granted
    }

    async fn password(&mut self, _: &str, _: &Secret) -> Verdict {
        Verdict::Granted
    }

    async fn logged_in(&mut self, _: Link) -> Result<(), String> {
        Ok(())
    }

    async fn start(&mut self, channel: ChannelId, program: Program<'_>) -> Started {
        match program {
            Program::Subsystem("sftp") => {
                self.channels.push(Channel::new(channel, Arc::clone(&self.files)));
                Started::Running
            }
            Program::Subsystem(_) => Started::Failed,
            Program::Exec(_) | Program::Shell => Started::Declined("only SFTP is served here"),
        }
    }

    async fn data(&mut self, data: &[u8], out: &mut Replies<'_>) {
        let id = out.channel();
        if self.channel(id).is_some_and(|channel| channel.receive(data, out).is_err()) {
            out.finish(1);
            self.forget(id);
        }
    }

    async fn writable(&mut self, out: &mut Replies<'_>) {
        if let Some(channel) = self.channel(out.channel()) {
            channel.go_on(out);
        }
    }

    async fn eof(&mut self, out: &mut Replies<'_>) {
        out.finish(0);
        self.forget(out.channel());
    }

    async fn closed(&mut self, channel: ChannelId) {
        self.forget(channel);
    }

    fn forwarding_refused(&mut self, _: &'static str) {}

    async fn ended(self, _: &Summary) {}
}
