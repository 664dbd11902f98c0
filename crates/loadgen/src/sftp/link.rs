//! One logged-in SFTP channel: the client machine, fed inside the session task, drained here.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use entrepot_net::dial::{self, DialPolicy};
use entrepot_nouns::Env;
use entrepot_sftp_proto::client::{Answer, Client, Depth, Event, Fault, Op, OpError, RemoteHandle};
use entrepot_sftp_proto::{Attrs, OpenFlags};
use entrepot_ssh::algorithms::Preset;
use entrepot_ssh::client::{
    Arrival, ChannelWriter, ClientOptions, Credential, HostKeyPins, SshClient,
};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::bench::{Login, SftpBench};
use super::error::BenchError;
use crate::limits::{ANSWER_TIME, CONNECT_TIME};

/// An open channel.
pub(super) struct Link {
    ssh: SshClient,
    writer: ChannelWriter,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    wake: Notify,
}

struct State {
    client: Client,
    ended: BTreeMap<Op, Result<Answer, OpError>>,
    fault: Option<Fault>,
    over: bool,
}

impl State {
    /// Feeds the machine; bytes of files are counted by it and not kept.
    fn arrived(&mut self, arrival: Arrival<'_>) {
        let mut input = match arrival {
            Arrival::Data(bytes) => bytes,
            Arrival::ErrorText(_) => return,
            Arrival::End => {
                self.over = true;
                return;
            }
        };
        loop {
            match self.client.next(&mut input) {
                Ok(Some(Event::Ended { op, result })) => {
                    self.ended.insert(op, result);
                }
                Ok(Some(_)) => {}
                Ok(None) => return,
                Err(fault) => {
                    self.fault.get_or_insert(fault);
                    return;
                }
            }
        }
    }
}

/// Connects and logs in.
pub(super) async fn connect(bench: &SftpBench, env: &Env) -> Result<SshClient, BenchError> {
    let policy = DialPolicy { allow_private: true };
    let stream = dial::tcp(&bench.host, bench.port, &policy, CONNECT_TIME).await?;
    let credential = match &bench.login {
        Login::Password(password) => Credential::Password(password.clone()),
        Login::Key(key) => Credential::Key(key.clone()),
    };
    let options = ClientOptions {
        user: bench.user.clone(),
        credential,
        pins: HostKeyPins::Any,
        preset: Preset::Modern,
        cipher: Some(bench.cipher.clone()),
        software: None,
        env: env.clone(),
    };
    Ok(SshClient::connect(stream, &options).await?)
}

impl Link {
    /// Connects, logs in and begins SFTP.
    pub(super) async fn open(bench: &SftpBench, env: &Env) -> Result<Link, BenchError> {
        let ssh = connect(bench, env).await?;
        let state = State {
            client: Client::new(Depth::default()),
            ended: BTreeMap::new(),
            fault: None,
            over: false,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), wake: Notify::new() });
        let receiving = shared.clone();
        let receiver = Box::new(move |arrival: Arrival<'_>| {
            receiving.state.lock().arrived(arrival);
            receiving.wake.notify_one();
        });
        let writer = ssh.open_sftp(receiver).await?;
        let link = Link { ssh, writer, shared };
        link.until(|state| state.client.is_ready().then_some(())).await?;
        Ok(link)
    }

    /// Opens a file.
    pub(super) async fn open_file(
        &self,
        path: &str,
        flags: OpenFlags,
    ) -> Result<RemoteHandle, BenchError> {
        let answer = self.ask(path, |client| client.open(path, flags, &Attrs::default())).await?;
        match answer {
            Answer::Handle(handle) => Ok(handle),
            _ => Err(BenchError::HungUp),
        }
    }

    /// Begins an operation and waits for its end.
    pub(super) async fn ask<E>(
        &self,
        what: &str,
        begin: impl FnOnce(&mut Client) -> Result<Op, E>,
    ) -> Result<Answer, BenchError>
    where
        BenchError: From<E>,
    {
        let op = begin(&mut self.shared.state.lock().client)?;
        self.end_of(what, op).await
    }

    /// Waits for the end of an operation.
    pub(super) async fn end_of(&self, what: &str, op: Op) -> Result<Answer, BenchError> {
        let result = self.until(|state| state.ended.remove(&op)).await?;
        result.map_err(|error| BenchError::Refused { what: what.to_owned(), error })
    }

    /// Writes `size` bytes of `pattern`, repeated, to an open file.
    pub(super) async fn put(
        &self,
        handle: &RemoteHandle,
        pattern: &Bytes,
        size: u64,
    ) -> Result<(), BenchError> {
        let op = self.shared.state.lock().client.put(handle, 0);
        let length = pattern.len() as u64;
        let result = self
            .until(|state| {
                while let Some(wanted) = state.client.want_data(op) {
                    let left = size.saturating_sub(wanted.start);
                    if left == 0 {
                        state.client.put_end(op);
                        break;
                    }
                    let from = wanted.start % length;
                    let take = (wanted.end - wanted.start).min(left).min(length - from);
                    let (from, to) =
                        (usize::try_from(from).ok()?, usize::try_from(from + take).ok()?);
                    state.client.supply(op, pattern.slice(from..to));
                }
                state.ended.remove(&op)
            })
            .await?;
        result.map(drop).map_err(|error| BenchError::Refused { what: "put".to_owned(), error })
    }

    /// Sends what the machine has to send until `look` finds what it looks for.
    async fn until<T>(
        &self,
        mut look: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<T, BenchError> {
        loop {
            let found = {
                let mut state = self.shared.state.lock();
                if let Some(fault) = &state.fault {
                    return Err(BenchError::Protocol(*fault));
                }
                match look(&mut state) {
                    Some(found) => Some(found),
                    None if state.over => return Err(BenchError::HungUp),
                    None => None,
                }
            };
            while let Some(bytes) = self.output() {
                self.writer.send(bytes).await?;
            }
            if let Some(found) = found {
                return Ok(found);
            }
            let waited = tokio::time::timeout(ANSWER_TIME, self.shared.wake.notified()).await;
            waited.map_err(|_| BenchError::Silent(ANSWER_TIME))?;
        }
    }

    fn output(&self) -> Option<Bytes> {
        self.shared.state.lock().client.poll_output()
    }

    /// Ends the connection.
    pub(super) async fn close(self) {
        self.ssh.close().await;
    }
}
