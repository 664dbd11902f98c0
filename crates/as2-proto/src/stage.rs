//! The layers of a message that is received, each a stage that hands what it unwraps to the next.
//!
//! A stage works on its input in steps and stops between two of them while the caller has not taken
//! the output, or the next stage has work left. What it did not get to waits in `pending`. So a few
//! bytes that inflate to many never take more memory than a step makes of them.

use crate::limits;
use crate::mic::Finished;
use crate::mime::Headers;
use crate::options::{ReceiveError, ReceiveOptions};
use crate::signed_data::VerifiedSignature;

/// What all stages of a message share.
pub(crate) struct Context {
    pub(crate) options: ReceiveOptions,
    /// Payload that the caller has not taken.
    pub(crate) output: Vec<u8>,
    pub(crate) facts: Facts,
    /// Makes the stage of an entity whose header comes first. A layer does not know which others
    /// there are.
    pub(crate) entity: fn(Around) -> Stage,
}

/// What was found so far.
#[derive(Default)]
pub(crate) struct Facts {
    pub(crate) cipher: Option<entrepot_crypto::ContentCipher>,
    pub(crate) compressed: bool,
    pub(crate) signature: Option<VerifiedSignature>,
    /// The header of the payload; of a plain message that of HTTP.
    pub(crate) payload: Option<Headers>,
    pub(crate) payload_bytes: u64,
    /// The bytes of that header, where the payload is what follows them, and not encoded.
    pub(crate) payload_head: Option<Vec<u8>>,
    /// The payload was reached, and no signature is around it.
    pub(crate) is_unsigned: bool,
    /// Digests of content that no signature covers.
    pub(crate) unsigned: Finished,
}

/// What is around a stage.
#[derive(Clone, Copy, Default)]
pub(crate) struct Around {
    pub(crate) encryption: bool,
    pub(crate) signature: bool,
    pub(crate) layers: usize,
    pub(crate) compressions: usize,
}

impl Around {
    /// Inside another layer, if there may be one more.
    pub(crate) fn deeper(self) -> Result<Around, ReceiveError> {
        if self.layers >= limits::LAYERS {
            return Err(ReceiveError::UnsupportedFormat);
        }
        Ok(Around { layers: self.layers + 1, ..self })
    }
}

/// Whether more input comes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Input {
    Coming,
    /// All of it came, but not all was worked on.
    Ended,
    Finished,
}

/// What a step did.
pub(crate) struct Step {
    /// Bytes of the input that it took.
    pub(crate) taken: usize,
    /// The layer that the input turned out to be, and that gets the rest of it.
    pub(crate) becomes: Option<Box<dyn Layer>>,
}

impl Step {
    pub(crate) fn took(taken: usize) -> Step {
        Step { taken, becomes: None }
    }
}

/// What unwraps one layer.
pub(crate) trait Layer: Send {
    /// Works on a piece at the start of the input, which is not empty.
    fn step(&mut self, bytes: &[u8], context: &mut Context) -> Result<Step, ReceiveError>;

    /// No input follows: ends this layer and those inside; `false` while they have work left.
    fn finish(&mut self, context: &mut Context) -> Result<bool, ReceiveError>;

    /// The stage that gets what is unwrapped.
    fn next(&mut self) -> Option<&mut Stage> {
        None
    }

    /// What an error of the next stage means here.
    fn contain(&mut self, result: Result<(), ReceiveError>) -> Result<(), ReceiveError> {
        result
    }

    /// Whether the content is declared as binary, as far as that is known.
    fn is_binary(&self) -> bool {
        false
    }
}

/// A layer and the input that waits for it.
pub(crate) struct Stage {
    pending: Vec<u8>,
    /// Bytes at the start of `pending` that are done.
    done: usize,
    input: Input,
    layer: Box<dyn Layer>,
}

impl Stage {
    pub(crate) fn new(layer: Box<dyn Layer>) -> Self {
        Stage { pending: Vec::new(), done: 0, input: Input::Coming, layer }
    }

    /// Takes more input.
    pub(crate) fn push(&mut self, bytes: &[u8], context: &mut Context) -> Result<(), ReceiveError> {
        if !self.pending.is_empty() {
            self.pending.drain(..std::mem::take(&mut self.done));
            self.pending.extend_from_slice(bytes);
            return Ok(());
        }
        let done = self.run(bytes, context)?;
        self.pending.extend_from_slice(bytes.get(done..).unwrap_or_default());
        Ok(())
    }

    /// No more input comes.
    pub(crate) fn end(&mut self, context: &mut Context) -> Result<(), ReceiveError> {
        if self.input == Input::Coming {
            self.input = Input::Ended;
        }
        self.end_if_possible(context)
    }

    /// Goes on with what waits.
    pub(crate) fn pump(&mut self, context: &mut Context) -> Result<(), ReceiveError> {
        let pumped = self.layer.next().map_or(Ok(()), |next| next.pump(context));
        self.layer.contain(pumped)?;
        if !self.pending.is_empty() {
            let waiting = std::mem::take(&mut self.pending);
            let done = std::mem::take(&mut self.done);
            let done = done + self.run(waiting.get(done..).unwrap_or_default(), context)?;
            if done < waiting.len() {
                // It stays where it is: however much a caller hands over is copied once.
                (self.pending, self.done) = (waiting, done);
            }
        }
        self.end_if_possible(context)
    }

    /// Whether there is work left that needs no more input.
    pub(crate) fn has_work(&mut self) -> bool {
        let own = !self.pending.is_empty() || self.input == Input::Ended;
        own || self.layer.next().is_some_and(Stage::has_work)
    }

    /// Whether the content is declared as binary, once that is known.
    pub(crate) fn is_binary(&self) -> bool {
        self.layer.is_binary()
    }

    fn is_blocked(&mut self, context: &Context) -> bool {
        let full = context.output.len() >= limits::OUTPUT_BYTES;
        full || self.layer.next().is_some_and(Stage::has_work)
    }

    /// Works on input as far as it may; how many bytes are done.
    fn run(&mut self, bytes: &[u8], context: &mut Context) -> Result<usize, ReceiveError> {
        let mut done = 0;
        while let Some(rest @ [_, ..]) = bytes.get(done..)
            && !self.is_blocked(context)
        {
            let step = self.layer.step(rest, context)?;
            done += step.taken;
            if let Some(layer) = step.becomes {
                self.layer = layer;
            }
        }
        Ok(done)
    }

    fn end_if_possible(&mut self, context: &mut Context) -> Result<(), ReceiveError> {
        let ready = self.input == Input::Ended && self.pending.is_empty();
        if ready && !self.is_blocked(context) && self.layer.finish(context)? {
            self.input = Input::Finished;
        }
        Ok(())
    }
}

pub(crate) fn first(bytes: &[u8], most: usize) -> &[u8] {
    bytes.get(..most).unwrap_or(bytes)
}
