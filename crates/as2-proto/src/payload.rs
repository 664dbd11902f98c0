//! What is inside all layers of a message: decoded, counted, and digested where no signature is
//! around it.

use crate::limits;
use crate::mic::Digests;
use crate::mime::{Base64Decoder, Headers, QuotedPrintableDecoder, TransferEncoding};
use crate::options::ReceiveError;
use crate::stage::{Around, Context, Layer, Step, first};

/// The content that no layer is inside of.
pub(crate) struct Payload {
    digests: Option<Digests>,
    encoding: Encoding,
    binary: bool,
}

enum Encoding {
    None,
    Base64(Base64Decoder),
    QuotedPrintable(QuotedPrintableDecoder),
}

impl Payload {
    pub(crate) fn new(
        headers: Headers,
        raw: &[u8],
        around: Around,
        context: &mut Context,
    ) -> Result<Self, ReceiveError> {
        let encoding = headers.transfer_encoding().or(Err(ReceiveError::Malformed))?;
        // A signature around it has digests of its own.
        let mut digests =
            (!around.signature).then(|| Digests::new(&context.options.mic_algorithms));
        if let Some(digests) = &mut digests {
            digests.ignore_lines();
            digests.update(raw);
        }
        context.facts.payload = Some(headers);
        context.facts.is_unsigned = !around.signature;
        if matches!(encoding, TransferEncoding::Text | TransferEncoding::Binary)
            && raw.len() <= limits::EVIDENCE_ENTITY_HEAD_BYTES
        {
            context.facts.payload_head = Some(raw.to_vec());
        }
        let binary = encoding == TransferEncoding::Binary;
        let encoding = match encoding {
            TransferEncoding::Base64 => Encoding::Base64(Base64Decoder::default()),
            TransferEncoding::QuotedPrintable => {
                Encoding::QuotedPrintable(QuotedPrintableDecoder::default())
            }
            TransferEncoding::Text | TransferEncoding::Binary => Encoding::None,
        };
        Ok(Payload { digests, encoding, binary })
    }
}

impl Layer for Payload {
    fn step(&mut self, bytes: &[u8], context: &mut Context) -> Result<Step, ReceiveError> {
        let bytes = first(bytes, limits::STEP);
        if let Some(digests) = &mut self.digests {
            digests.update(bytes);
        }
        let before = context.output.len();
        let mut decoded = Ok(());
        match &mut self.encoding {
            Encoding::None => context.output.extend_from_slice(bytes),
            Encoding::Base64(decoder) => decoded = decoder.update(bytes, &mut context.output),
            Encoding::QuotedPrintable(decoder) => decoder.update(bytes, &mut context.output),
        }
        count(context, before)?;
        decoded.or(Err(ReceiveError::Malformed))?;
        Ok(Step::took(bytes.len()))
    }

    fn finish(&mut self, context: &mut Context) -> Result<bool, ReceiveError> {
        let before = context.output.len();
        match &mut self.encoding {
            Encoding::None => {}
            Encoding::Base64(decoder) => {
                let last = std::mem::take(decoder).finish(&mut context.output);
                last.or(Err(ReceiveError::Malformed))?;
            }
            Encoding::QuotedPrintable(decoder) => decoder.finish(&mut context.output),
        }
        count(context, before)?;
        if let Some(digests) = self.digests.take() {
            context.facts.unsigned = digests.finish();
        }
        Ok(true)
    }

    fn is_binary(&self) -> bool {
        self.binary
    }
}

fn count(context: &mut Context, before: usize) -> Result<(), ReceiveError> {
    context.facts.payload_bytes += (context.output.len() - before) as u64;
    if context.facts.payload_bytes > context.options.max_payload_bytes {
        return Err(ReceiveError::TooLarge);
    }
    Ok(())
}
