//! The file on its way through the layers of a message into a request.

use std::time::Duration;

use bytes::Bytes;
use entrepot_as2_proto::{Outgoing, SendError, SendPlan, SendRandom, SentMic};
use entrepot_net::http::{BodyWriter, HttpError};
use entrepot_nouns::Digests;

use crate::step::StepError;
use crate::step::source::Input;

/// All of a message has left.
pub(super) struct Fed {
    /// Of the file.
    pub(super) digests: Digests,
    pub(super) sent: SentMic,
}

/// Why the message did not leave.
pub(super) enum NotFed {
    Step(StepError),
    Request(HttpError),
}

impl NotFed {
    pub(super) fn told(self, not_sent: &impl Fn(&HttpError) -> StepError) -> StepError {
        match self {
            NotFed::Step(error) => error,
            NotFed::Request(error) => not_sent(&error),
        }
    }
}

impl From<StepError> for NotFed {
    fn from(error: StepError) -> Self {
        NotFed::Step(error)
    }
}

/// What an error of the encoder means.
pub(super) fn not_made(input: &Input, error: SendError) -> StepError {
    match error {
        SendError::Changed => input.changed(),
        SendError::Key | SendError::Header => {
            StepError::permanent("EP1210", format!("no message can be made: {error}"))
        }
    }
}

/// Where the message goes. The last bytes of it are kept back until the file is known to be the one
/// of the event: a receiver does not take the rest for a message.
pub(super) struct Leaving {
    writer: BodyWriter,
    held: Option<Bytes>,
    patience: Duration,
}

impl Leaving {
    pub(super) fn new(writer: BodyWriter, patience: Duration) -> Leaving {
        Leaving { writer, held: None, patience }
    }

    async fn write(&mut self, bytes: Vec<u8>) -> Result<(), NotFed> {
        if bytes.is_empty() {
            return Ok(());
        }
        match self.held.replace(bytes.into()) {
            Some(before) => self.leave(before).await,
            None => Ok(()),
        }
    }

    async fn leave(&mut self, bytes: Bytes) -> Result<(), NotFed> {
        match tokio::time::timeout(self.patience, self.writer.write(bytes)).await {
            Err(_) => Err(NotFed::Request(HttpError::Timeout(self.patience))),
            Ok(Ok(())) => Ok(()),
            // The server has answered, or is gone: the request says which.
            Ok(Err(_)) => std::future::pending().await,
        }
    }

    async fn end(mut self) -> Result<(), NotFed> {
        match self.held.take() {
            Some(last) => self.leave(last).await,
            None => Ok(()),
        }
    }
}

/// Feeds the file into the message, and the message into its request.
pub(super) async fn feed(
    input: &Input,
    outgoing: Outgoing,
    mut leaving: Leaving,
) -> Result<Fed, NotFed> {
    let not_made = |error| not_made(input, error);
    let mut outgoing = outgoing;
    leaving.write(outgoing.head().map_err(not_made)?).await?;
    let mut reading = input.read();
    while let Some(block) = reading.next().await? {
        let made = encoded(move || {
            let made = outgoing.push(&block)?;
            Ok((outgoing, made))
        });
        let (next, bytes) = made.await?.map_err(not_made)?;
        outgoing = next;
        leaving.write(bytes).await?;
    }
    if reading.position() != input.source.size() {
        return Err(input.changed().into());
    }
    let digests = reading.end()?;
    let finish = encoded(move || outgoing.finish()).await?.map_err(not_made)?;
    leaving.write(finish.last).await?;
    leaving.end().await?;
    Ok(Fed { digests, sent: finish.sent })
}

/// How large the compressed content of a message is, which takes reading the file once more.
pub(super) async fn measured(
    input: &Input,
    plan: &SendPlan,
    random: &SendRandom,
) -> Result<Option<u64>, StepError> {
    let not_made = |error| not_made(input, error);
    let Some(mut measure) = plan.measure(random).map_err(not_made)? else { return Ok(None) };
    let mut reading = input.read();
    while let Some(block) = reading.next().await? {
        let pushed = encoded(move || {
            measure.push(&block)?;
            Ok(measure)
        });
        measure = pushed.await?.map_err(not_made)?;
    }
    reading.end()?;
    let counted = encoded(move || measure.finish()).await?;
    counted.map(Some).map_err(not_made)
}

/// Encrypts, compresses or signs on a thread that may block.
async fn encoded<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SendError> + Send + 'static,
) -> Result<Result<T, SendError>, StepError> {
    let ended = |error: tokio::task::JoinError| {
        StepError::transient("EP1210", format!("the message was not made: {error}"))
    };
    tokio::task::spawn_blocking(work).await.map_err(ended)
}
