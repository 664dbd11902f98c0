//! One connection: the client machine between the session task, which brings answers, and a task
//! that sends requests. Neither waits for the other, nor for a caller.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use entrepot_net::dial::{self, DialPolicy};
use entrepot_net::gather::Gathering;
use entrepot_sftp_proto::Attrs;
use entrepot_sftp_proto::client::{
    Answer, Client, Depth, Event, Extent, NamedEntry, NotBegun, Op, OpError, RemoteHandle,
};
use entrepot_ssh::client::{Arrival, ChannelWriter, ClientOptions, SshClient};
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, mpsc, oneshot};
use tokio::task::JoinHandle;

use super::errors::{Failed, no_channel, not_reached};
use crate::budget::Permit;
use crate::error::{Result, StoreError};
use crate::limits::{SFTP_ANSWER, SFTP_CONNECT, SFTP_LIST_PAGES};

/// Where a server is and how to log in.
pub(super) struct Place {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) policy: DialPolicy,
    /// Directory on the server below which everything lies; empty: the login directory.
    pub(super) root: String,
    pub(super) login: ClientOptions,
}

/// The error of a failed WRITE, kept for its writer.
pub(super) type Outcome = Arc<Mutex<Option<StoreError>>>;

/// What a write holds until the server has answered it.
pub(super) struct OnItsWay {
    pub(super) _room: OwnedSemaphorePermit,
    pub(super) _memory: Option<Permit>,
}

/// A connection, logged in, with its channel. Ends when dropped.
pub(super) struct Remote {
    shared: Arc<Shared>,
    root: String,
    sender: JoinHandle<()>,
    _ssh: SshClient,
}

struct Shared {
    state: Mutex<State>,
    /// Something may be there to send.
    output: Notify,
}

/// Who waits for the end of an operation.
enum Waiter {
    Caller(oneshot::Sender<Result<Answer, Failed>>),
    Bytes {
        read: BytesMut,
        caller: oneshot::Sender<Result<Bytes, Failed>>,
    },
    Pages(mpsc::Sender<Result<Vec<NamedEntry>, Failed>>),
    Write {
        outcome: Outcome,
        _on_its_way: OnItsWay,
    },
    /// No operation waits; what is kept is released.
    Kept {
        _keep: Box<dyn Send>,
    },
}

/// What goes out in order of its being asked, as there is room.
enum Queued {
    Write { op: Op, data: Bytes },
    Close { handle: RemoteHandle, keep: Box<dyn Send> },
}

struct State {
    client: Client,
    waiters: HashMap<Op, Waiter>,
    queue: VecDeque<Queued>,
    ready: Option<oneshot::Sender<()>>,
    lost: Option<String>,
    /// Counts what arrives, so that patience knows progress from silence.
    arrivals: u64,
}

impl Remote {
    /// Dials, logs in, opens the channel, agrees on the version and finds the root.
    pub(super) async fn connect(place: &Place) -> Result<Remote> {
        let stream = dial::tcp(&place.host, place.port, &place.policy, SFTP_CONNECT).await;
        let stream = stream.map_err(|error| not_reached(&error))?;
        let ssh = SshClient::connect(Gathering::new(stream), &place.login).await;
        let ssh = ssh.map_err(|error| no_channel(&error))?;
        let (ready, is_ready) = oneshot::channel();
        let shared =
            Arc::new(Shared { state: Mutex::new(State::new(ready)), output: Notify::new() });
        let receiving = Arc::clone(&shared);
        let receiver = Box::new(move |arrival: Arrival<'_>| receiving.arrive(arrival));
        let writer = ssh.open_sftp(receiver).await.map_err(|error| no_channel(&error))?;
        let sender = tokio::spawn(send(Arc::clone(&shared), writer));
        let mut remote = Remote { shared, root: String::new(), sender, _ssh: ssh };
        let answered = remote.patient(is_ready).await?;
        if answered.is_err() {
            return Err(remote.why_lost().into());
        }
        remote.root = remote.find_root(&place.root).await?;
        Ok(remote)
    }

    async fn find_root(&self, root: &str) -> Result<String> {
        let asked = if root.is_empty() { "." } else { root };
        match self.ask(|client| client.realpath(asked)).await? {
            Answer::Name(name) => String::from_utf8(name)
                .map(|name| name.trim_end_matches('/').to_owned())
                .map_err(|_| StoreError::Denied("the root's name is not UTF-8".to_owned())),
            other => Err(unexpected(&other).into()),
        }
    }

    /// The absolute name on the server.
    pub(super) fn path(&self, path: &entrepot_nouns::StorePath) -> String {
        match (path.is_root(), self.root.is_empty()) {
            (true, true) => "/".to_owned(),
            (true, false) => self.root.clone(),
            _ => format!("{}/{}", self.root, path.as_str()),
        }
    }

    /// True if nothing can be asked any more.
    pub(super) fn is_lost(&self) -> bool {
        self.shared.state.lock().lost.is_some()
    }

    fn why_lost(&self) -> Failed {
        let lost = self.shared.state.lock().lost.clone();
        Failed::Lost(lost.unwrap_or_else(|| "the server does not answer".to_owned()))
    }

    /// Most bytes of one READ.
    pub(super) fn read_bytes(&self) -> u64 {
        u64::from(self.shared.state.lock().client.data_bytes().0)
    }

    /// Asks one thing and waits for the answer.
    pub(super) async fn ask(
        &self,
        begin: impl FnOnce(&mut Client) -> Result<Op, NotBegun>,
    ) -> Result<Answer, Failed> {
        let answered = self.begin(begin)?;
        self.answer(answered).await
    }

    /// Asks one thing; the answer is waited for by [`Remote::answer`].
    pub(super) fn begin(
        &self,
        begin: impl FnOnce(&mut Client) -> Result<Op, NotBegun>,
    ) -> Result<oneshot::Receiver<Result<Answer, Failed>>, Failed> {
        let (caller, answered) = oneshot::channel();
        self.start(|state| {
            let op = begin(&mut state.client).map_err(Failed::NotBegun)?;
            state.waiters.insert(op, Waiter::Caller(caller));
            Ok(())
        })?;
        Ok(answered)
    }

    pub(super) async fn answer<T>(
        &self,
        answered: oneshot::Receiver<Result<T, Failed>>,
    ) -> Result<T, Failed> {
        match self.patient(answered).await? {
            Ok(result) => result,
            Err(_) => Err(self.why_lost()),
        }
    }

    /// Attributes of a name without following a link.
    pub(super) async fn lstat(&self, path: &str) -> Result<Attrs, Failed> {
        attrs_of(self.ask(|client| client.lstat(path)).await?)
    }

    /// Attributes of an open file.
    pub(super) async fn fstat(&self, handle: &RemoteHandle) -> Result<Attrs, Failed> {
        attrs_of(self.ask(|client| client.fstat(handle)).await?)
    }

    /// Reads `len` bytes at `offset`, fewer only at the end of the file.
    pub(super) fn read(
        &self,
        handle: &RemoteHandle,
        offset: u64,
        len: u64,
    ) -> Result<oneshot::Receiver<Result<Bytes, Failed>>, Failed> {
        let (caller, answered) = oneshot::channel();
        let end = offset.saturating_add(len);
        self.start(|state| {
            let op = state.client.get(handle, Extent { offset, end: Some(end), expected: end });
            let read = BytesMut::with_capacity(usize::try_from(len).unwrap_or(0));
            state.waiters.insert(op, Waiter::Bytes { read, caller });
            Ok(())
        })?;
        Ok(answered)
    }

    /// Puts `data` into the queue; a failure is left in `outcome`, `on_its_way` is let go when the
    /// server has answered.
    pub(super) fn write(
        &self,
        handle: &RemoteHandle,
        offset: u64,
        data: Bytes,
        outcome: &Outcome,
        on_its_way: OnItsWay,
    ) -> Result<(), Failed> {
        self.start(|state| {
            let op = state.client.put(handle, offset);
            let outcome = Arc::clone(outcome);
            state.waiters.insert(op, Waiter::Write { outcome, _on_its_way: on_its_way });
            state.queue.push_back(Queued::Write { op, data });
            Ok(())
        })
    }

    /// Closes a file behind everything that was written to it; nobody waits. `keep` is let go
    /// when it is closed.
    pub(super) fn close_later(&self, handle: RemoteHandle, keep: Box<dyn Send>) {
        // A connection that is lost has closed it already.
        let _ = self.start(|state| {
            state.queue.push_back(Queued::Close { handle, keep });
            Ok(())
        });
    }

    /// Begins a listing; its pages come through the channel, which ends with the listing.
    pub(super) fn list(&self, path: &str) -> Result<Pages, Failed> {
        let (sender, pages) = mpsc::channel(SFTP_LIST_PAGES);
        let mut begun = None;
        self.start(|state| {
            let op = state.client.list(path).map_err(Failed::NotBegun)?;
            state.waiters.insert(op, Waiter::Pages(sender));
            begun = Some(op);
            Ok(())
        })?;
        Ok(Pages { op: begun, pages })
    }

    /// The next page of a listing; `None` at its end.
    pub(super) async fn page(&self, pages: &mut Pages) -> Result<Option<Vec<NamedEntry>>, Failed> {
        let page = self.patient(pages.pages.recv()).await?;
        match (page, pages.op) {
            (Some(page), Some(op)) => {
                let page = page?;
                self.start(|state| {
                    state.client.list_more(op);
                    Ok(())
                })?;
                Ok(Some(page))
            }
            _ if self.is_lost() => Err(self.why_lost()),
            _ => Ok(None),
        }
    }

    /// Lets a listing go before its end.
    pub(super) fn end_list(&self, pages: &Pages) {
        let Some(op) = pages.op else { return };
        let _ = self.start(|state| {
            state.client.cancel(op);
            Ok(())
        });
    }

    /// Changes the machine, then sees what that brought.
    fn start(&self, change: impl FnOnce(&mut State) -> Result<(), Failed>) -> Result<(), Failed> {
        let mut state = self.shared.state.lock();
        if let Some(why) = &state.lost {
            return Err(Failed::Lost(why.clone()));
        }
        change(&mut state)?;
        state.take(&[]);
        drop(state);
        self.shared.output.notify_one();
        Ok(())
    }

    /// Waits as long as anything arrives at all; a server silent for [`SFTP_ANSWER`] is given up.
    pub(super) async fn patient<F: Future>(&self, future: F) -> Result<F::Output, Failed> {
        let mut future = std::pin::pin!(future);
        loop {
            let before = self.shared.state.lock().arrivals;
            if let Ok(output) = tokio::time::timeout(SFTP_ANSWER, &mut future).await {
                return Ok(output);
            }
            let mut state = self.shared.state.lock();
            if state.arrivals == before {
                state.lose("the server does not answer");
                return Err(Failed::Lost("the server does not answer".to_owned()));
            }
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.shared.state.lock().lose("the connection was ended");
        self.sender.abort();
    }
}

/// A listing under way.
pub(super) struct Pages {
    op: Option<Op>,
    pages: mpsc::Receiver<Result<Vec<NamedEntry>, Failed>>,
}

/// An answer of a kind that does not belong to what was asked: the machine tells none.
pub(super) fn unexpected(answer: &Answer) -> Failed {
    Failed::Lost(format!("the answer does not fit: {answer:?}"))
}

fn attrs_of(answer: Answer) -> Result<Attrs, Failed> {
    match answer {
        Answer::Attrs(attrs) => Ok(attrs),
        other => Err(unexpected(&other)),
    }
}

/// The sending task: ends with the connection.
async fn send(shared: Arc<Shared>, writer: ChannelWriter) {
    loop {
        let (next, lost) = {
            let mut state = shared.state.lock();
            (state.client.poll_output(), state.lost.is_some())
        };
        match next {
            _ if lost => return,
            None => shared.output.notified().await,
            Some(bytes) => {
                if let Err(error) = writer.send(bytes).await {
                    shared.state.lock().lose(&error.to_string());
                    return;
                }
            }
        }
    }
}

impl Shared {
    /// Called inside the session task.
    fn arrive(&self, arrival: Arrival<'_>) {
        let mut state = self.state.lock();
        match arrival {
            Arrival::Data(bytes) => {
                state.arrivals = state.arrivals.wrapping_add(1);
                state.take(bytes);
            }
            Arrival::ErrorText(text) => {
                let text = String::from_utf8_lossy(text);
                tracing::debug!(text = text.trim(), "the SFTP server says");
            }
            Arrival::End => state.lose("the server ended the connection"),
        }
        drop(state);
        self.output.notify_one();
    }
}

impl State {
    fn new(ready: oneshot::Sender<()>) -> Self {
        State {
            client: Client::new(Depth::default()),
            waiters: HashMap::new(),
            queue: VecDeque::new(),
            ready: Some(ready),
            lost: None,
            arrivals: 0,
        }
    }

    /// Takes bytes in, wakes those who wait, and uses the window that this opened.
    fn take(&mut self, bytes: &[u8]) {
        self.dispatch(bytes);
        self.supply();
        self.dispatch(&[]);
    }

    fn dispatch(&mut self, mut bytes: &[u8]) {
        loop {
            match self.client.next(&mut bytes) {
                Ok(None) => return,
                Err(fault) => return self.lose(&fault.to_string()),
                Ok(Some(Event::Ready)) => {
                    // The waiting operation may have been dropped.
                    let _ = self.ready.take().map(|ready| ready.send(()));
                }
                Ok(Some(Event::Data { op, data, .. })) => {
                    if let Some(Waiter::Bytes { read, .. }) = self.waiters.get_mut(&op) {
                        // One READ a get: what is asked again comes behind what came.
                        read.extend_from_slice(data);
                    }
                }
                Ok(Some(Event::Names { op, names })) => match self.waiters.get(&op) {
                    // There is room: no more is asked than was taken.
                    Some(Waiter::Pages(pages)) if pages.try_send(Ok(names)).is_ok() => {}
                    _ => self.client.cancel(op),
                },
                Ok(Some(Event::Ended { op, result })) => self.end(op, result),
            }
        }
    }

    fn end(&mut self, op: Op, result: Result<Answer, OpError>) {
        let result = result.map_err(Failed::Op);
        match self.waiters.remove(&op) {
            // A caller that has gone does not want to know.
            Some(Waiter::Caller(caller)) => drop(caller.send(result)),
            Some(Waiter::Bytes { read, caller }) => {
                drop(caller.send(result.map(|_| read.freeze())));
            }
            Some(Waiter::Pages(pages)) => {
                if let Err(failed) = result {
                    drop(pages.try_send(Err(failed)));
                }
            }
            Some(Waiter::Write { outcome, .. }) => {
                if let Err(failed) = result {
                    outcome.lock().get_or_insert(failed.into());
                }
            }
            Some(Waiter::Kept { .. }) | None => {}
        }
    }

    /// Passes queued data to the machine as far as it takes it.
    fn supply(&mut self) {
        while let Some(front) = self.queue.pop_front() {
            match front {
                Queued::Write { op, mut data } => {
                    while !data.is_empty() && self.client.want_data(op).is_some() {
                        let taken = self.client.supply(op, data.clone());
                        data.advance(taken);
                    }
                    if data.is_empty() {
                        self.client.put_end(op);
                    } else if self.waiters.contains_key(&op) && !self.client.is_over(op) {
                        self.queue.push_front(Queued::Write { op, data });
                        return;
                    }
                }
                Queued::Close { handle, keep } => {
                    if let Ok(op) = self.client.close(&handle) {
                        self.waiters.insert(op, Waiter::Kept { _keep: keep });
                    }
                }
            }
        }
    }

    /// The connection is gone: every waiting operation fails.
    fn lose(&mut self, why: &str) {
        if self.lost.is_some() {
            return;
        }
        self.lost = Some(why.to_owned());
        self.ready = None;
        self.queue.clear();
        let lost = || Failed::Lost(why.to_owned());
        for (_, waiter) in self.waiters.drain() {
            match waiter {
                Waiter::Caller(caller) => drop(caller.send(Err(lost()))),
                Waiter::Bytes { caller, .. } => drop(caller.send(Err(lost()))),
                Waiter::Pages(pages) => drop(pages.try_send(Err(lost()))),
                Waiter::Write { outcome, .. } => {
                    outcome.lock().get_or_insert(lost().into());
                }
                Waiter::Kept { .. } => {}
            }
        }
    }
}
