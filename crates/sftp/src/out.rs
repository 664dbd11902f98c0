//! Where answers go: into the session task that is asking, or into a list that another task sends.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use entrepot_ssh::ChannelId;
use entrepot_ssh::server::{Link, Replies};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::limits::OUTBOX_BYTES;

/// Takes the answers of one channel.
pub(crate) trait Out: Send {
    /// Sends a frame.
    fn send(&mut self, answer: Bytes);

    /// Sends a sentence to the client's standard error.
    fn tell(&mut self, sentence: Bytes);

    /// True if the client takes no more at the moment: large answers should wait.
    fn is_full(&self) -> bool;
}

impl Out for Replies<'_> {
    fn send(&mut self, answer: Bytes) {
        Replies::send(self, answer);
    }

    fn tell(&mut self, sentence: Bytes) {
        self.send_error_text(sentence);
    }

    fn is_full(&self) -> bool {
        self.has_pending()
    }
}

/// What a channel's own task has to say; [`Outbox::deliver`] sends it. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outbox(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    list: Mutex<List>,
    filled: Notify,
    emptied: Notify,
}

#[derive(Debug, Default)]
struct List {
    letters: VecDeque<Letter>,
    bytes: u64,
}

#[derive(Debug)]
enum Letter {
    Answer(Bytes),
    Sentence(Bytes),
    Finish(u32),
}

impl Letter {
    fn len(&self) -> u64 {
        match self {
            Letter::Answer(bytes) | Letter::Sentence(bytes) => {
                u64::try_from(bytes.len()).unwrap_or(u64::MAX)
            }
            Letter::Finish(_) => 0,
        }
    }
}

impl Outbox {
    fn put(&self, letter: Letter) {
        let mut list = self.0.list.lock();
        list.bytes = list.bytes.saturating_add(letter.len());
        list.letters.push_back(letter);
        drop(list);
        self.0.filled.notify_one();
    }

    /// Ends the channel behind all that was put before.
    pub(crate) fn finish(&self, status: u32) {
        self.put(Letter::Finish(status));
    }

    /// Bytes that wait.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.list.lock().bytes
    }

    /// Waits until the list is no longer full.
    pub(crate) async fn room(&self) {
        while self.is_full() {
            self.0.emptied.notified().await;
        }
    }

    /// Sends until the channel is finished or the connection is over.
    pub(crate) async fn deliver(self, link: Link, channel: ChannelId) {
        loop {
            let letter = self.next().await;
            let sent = match letter {
                Letter::Answer(bytes) => link.send(channel, bytes).await,
                Letter::Sentence(bytes) => link.send_error_text(channel, bytes).await,
                Letter::Finish(status) => {
                    if let Err(error) = link.finish(channel, status).await {
                        tracing::trace!(%error, "the channel could not be finished");
                    }
                    return;
                }
            };
            if sent.is_err() {
                return;
            }
        }
    }

    /// Takes what comes up to the end of the channel; gives the exit status.
    pub(crate) async fn discard(self) -> u32 {
        loop {
            if let Letter::Finish(status) = self.next().await {
                return status;
            }
        }
    }

    async fn next(&self) -> Letter {
        loop {
            if let Some(letter) = self.take() {
                self.0.emptied.notify_one();
                return letter;
            }
            self.0.filled.notified().await;
        }
    }

    fn take(&self) -> Option<Letter> {
        let mut list = self.0.list.lock();
        let letter = list.letters.pop_front()?;
        list.bytes = list.bytes.saturating_sub(letter.len());
        Some(letter)
    }
}

impl Out for Outbox {
    fn send(&mut self, answer: Bytes) {
        self.put(Letter::Answer(answer));
    }

    fn tell(&mut self, sentence: Bytes) {
        self.put(Letter::Sentence(sentence));
    }

    fn is_full(&self) -> bool {
        self.0.list.lock().bytes >= OUTBOX_BYTES
    }
}
