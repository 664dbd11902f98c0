//! A message that is received: its body is fed as it comes, the payload is taken as it gets free,
//! and at the end it is known whether it may be used.

use crate::disposition::Disposition;
use crate::entity::{body, entity};
use crate::mime::Headers;
use crate::options::{ReceiveError, ReceiveOptions};
use crate::policy::LeastSecurity;
use crate::received::Received;
use crate::stage::{Around, Context, Facts, Stage};

/// Receives one message.
pub struct Receiver {
    context: Context,
    root: Option<Stage>,
    failure: Option<ReceiveError>,
}

impl Receiver {
    /// A message whose header of HTTP came.
    pub fn new(headers: &Headers, options: ReceiveOptions) -> Self {
        let (output, facts) = (Vec::new(), Facts::default());
        let mut context = Context { options, output, facts, entity };
        // The header of HTTP is not part of what is digested.
        match body(headers.clone(), &[], Around::default(), &mut context) {
            Ok(layer) => Receiver { context, root: Some(Stage::new(layer)), failure: None },
            Err(failure) => Receiver { context, root: None, failure: Some(failure) },
        }
    }

    /// An entity as it is inside of encryption, header first.
    pub(crate) fn inside_encryption(options: ReceiveOptions) -> Self {
        let (output, facts) = (Vec::new(), Facts::default());
        let context = Context { options, output, facts, entity };
        let around = Around { encryption: true, layers: 1, ..Around::default() };
        Receiver { context, root: Some(entity(around)), failure: None }
    }

    /// The next bytes of the body. Call [`Receiver::output`] until it has none before more.
    pub fn receive(&mut self, bytes: &[u8]) {
        let Some(root) = &mut self.root else { return };
        let result = root.push(bytes, &mut self.context);
        self.note(result);
    }

    /// The body is over. More output may follow.
    pub fn end(&mut self) {
        let Some(root) = &mut self.root else { return };
        let result = root.end(&mut self.context);
        self.note(result);
    }

    /// The next bytes of the payload, of which none counts before [`Receiver::outcome`].
    pub fn output(&mut self) -> Option<Vec<u8>> {
        while self.context.output.is_empty() {
            let root = self.root.as_mut()?;
            if !root.has_work() {
                return None;
            }
            let result = root.pump(&mut self.context);
            self.note(result);
        }
        Some(std::mem::take(&mut self.context.output))
    }

    /// The header of the payload, once it came: until [`Receiver::outcome`] nobody knows who wrote
    /// it.
    pub fn payload(&self) -> Option<&Headers> {
        self.context.facts.payload.as_ref()
    }

    /// Why the message counts for nothing, as far as it is known before the end.
    pub fn failure(&self) -> Option<ReceiveError> {
        self.failure
    }

    fn note(&mut self, result: Result<(), ReceiveError>) {
        if let Err(error) = result {
            self.failure = Some(error);
            self.root = None;
            self.context.output.clear();
        }
    }

    /// What came of it under what was agreed with the partner, or what the receipt says of it.
    ///
    /// Prefer it to [`Receiver::outcome`] and [`LeastSecurity::admits`]: by these a message that is
    /// not signed has another answer where it ends with padding than where it does not, and
    /// whoever asks often enough reads what others have encrypted. Here the answer is the same.
    pub fn outcome_under(self, least: &LeastSecurity) -> Result<Received, Disposition> {
        let facts = &self.context.facts;
        let weak = facts.cipher.is_some_and(|cipher| !least.admits_cipher(cipher));
        let unsigned = facts.is_unsigned && !least.admits_unsigned();
        if weak || unsigned {
            return Err(Disposition::InsufficientMessageSecurity);
        }
        let received = self.outcome().map_err(|error| match error {
            ReceiveError::Digest(digest) if digest < least.digest => {
                Disposition::InsufficientMessageSecurity
            }
            other => other.disposition(),
        })?;
        if least.admits(&received) {
            Ok(received)
        } else {
            Err(Disposition::InsufficientMessageSecurity)
        }
    }

    /// What came of it, after [`Receiver::end`] and the last output.
    pub fn outcome(self) -> Result<Received, ReceiveError> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let facts = self.context.facts;
        Ok(Received {
            cipher: facts.cipher,
            compressed: facts.compressed,
            signature: facts.signature,
            payload: facts.payload.ok_or(ReceiveError::Malformed)?,
            payload_bytes: facts.payload_bytes,
            payload_head: facts.payload_head,
            unsigned: facts.unsigned,
        })
    }
}
