//! The stage of CMS: decrypts or inflates what it holds.

use entrepot_crypto::cipher::Decryptor;
use flate2::{Decompress, FlushDecompress, Status};

use crate::cms::{CmsEvent, CmsHead, CmsKind, CmsReader};
use crate::envelope::{self, Opened, Tag};
use crate::limits;
use crate::oid;
use crate::options::{ReceiveError, ReceiveOptions};
use crate::own_key::Sealed;
use crate::stage::{Around, Context, Layer, Stage, Step, first};

/// Inflated bytes before the ratio to compressed ones is looked at.
const RATIO_FREE_BYTES: u64 = 16 << 20;

pub(crate) struct CmsStage {
    reader: CmsReader,
    around: Around,
    content: Content,
    next: Option<Box<Stage>>,
    /// Whether what is inside was decrypted.
    opened: bool,
    /// Why the content counts for nothing. It is read to the end all the same, so that neither time
    /// nor the moment of the answer tells where it went wrong.
    failed: Option<ReceiveError>,
    told: Told,
}

/// What a peer may learn of what went wrong inside.
///
/// Whoever changes encrypted bytes must not see from the answer whether the last block happened to
/// end with padding (Vaudenay's attack): what is wrong has to have the same name with padding and
/// without. A tag proves that nothing was changed, so that behind one all may be told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    /// Everything: nothing is encrypted, or a tag follows.
    All,
    /// More content comes, and so the padding has not been looked at.
    BeforePadding,
    /// The padding was right.
    BehindPadding,
}

enum Content {
    /// The head has not come.
    Unknown,
    Encrypted(Box<Encrypted>),
    Compressed(Box<Inflater>),
    /// It cannot be opened.
    Sealed,
    /// All of it came.
    Done,
}

struct Encrypted {
    decryptor: Decryptor,
    tag: Tag,
    /// The last bytes, which may be the tag.
    held: Vec<u8>,
}

struct Inflater {
    inflate: Decompress,
    compressed: u64,
    inflated: u64,
    ended: bool,
}

impl CmsStage {
    pub(crate) fn new(around: Around) -> Self {
        CmsStage {
            reader: CmsReader::default(),
            around,
            content: Content::Unknown,
            next: None,
            opened: false,
            failed: None,
            told: Told::All,
        }
    }

    /// What a structure that cannot be read means: of one that may be encrypted no more is said.
    fn malformed(&self) -> ReceiveError {
        match self.content {
            Content::Compressed(_) => ReceiveError::Decompression,
            _ => ReceiveError::Decryption,
        }
    }

    fn handle(&mut self, event: CmsEvent<'_>, context: &mut Context) -> Result<(), ReceiveError> {
        match event {
            CmsEvent::Head(head) => self.head(&head, context),
            CmsEvent::Content(bytes) => self.content(bytes, context),
            CmsEvent::ContentEnd => self.content_end(context),
            CmsEvent::End { after } => self.structure_end(&after, context),
        }
    }

    fn head(&mut self, head: &CmsHead, context: &mut Context) -> Result<(), ReceiveError> {
        if head.kind == CmsKind::Compressed {
            // One before and one after signing.
            let compressions = self.around.compressions + 1;
            if compressions > limits::COMPRESSIONS {
                return Err(ReceiveError::UnsupportedFormat);
            }
            self.content = Content::Compressed(Box::new(compressed(head)?));
            context.facts.compressed = true;
            let around = Around { compressions, ..self.around };
            self.next = Some(Box::new((context.entity)(around)));
            return Ok(());
        }
        // One encryption, and the outermost: a signature has to be inside it.
        if self.around.encryption || self.around.signature {
            return Err(ReceiveError::UnsupportedFormat);
        }
        let options = &context.options;
        match envelope::open(head, &options.keys, &options.substitute_key) {
            Ok(Opened { cipher, decryptor, tag }) => {
                self.told = if cipher.is_gcm() { Told::All } else { Told::BeforePadding };
                context.facts.cipher = Some(cipher);
                let held = Vec::new();
                self.content = Content::Encrypted(Box::new(Encrypted { decryptor, tag, held }));
                self.opened = true;
                let around = Around { encryption: true, ..self.around };
                self.next = Some(Box::new((context.entity)(around)));
            }
            Err(Sealed) => {
                self.content = Content::Sealed;
                self.failed = Some(ReceiveError::Decryption);
            }
        }
        Ok(())
    }

    fn content(&mut self, bytes: &[u8], context: &mut Context) -> Result<(), ReceiveError> {
        match &mut self.content {
            Content::Encrypted(encrypted) => {
                let mut plain = Vec::with_capacity(bytes.len() + 16);
                let update = encrypted.update(bytes, &mut plain);
                if update.is_err() {
                    self.fail(ReceiveError::Decryption);
                }
                self.forward(&plain, context)
            }
            Content::Compressed(inflater) => {
                let mut plain = Vec::new();
                let result = inflater.update(bytes, &context.options, &mut plain);
                result.or(Err(ReceiveError::Decompression))?;
                self.forward(&plain, context)
            }
            Content::Sealed => Ok(()),
            Content::Unknown | Content::Done => Err(self.malformed()),
        }
    }

    fn forward(&mut self, plain: &[u8], context: &mut Context) -> Result<(), ReceiveError> {
        let Some(next) = &mut self.next else { return Ok(()) };
        let pushed = next.push(plain, context);
        self.contain(pushed)
    }

    fn fail(&mut self, error: ReceiveError) {
        use ReceiveError::{Authentication, Decompression, Decryption, Integrity, TooLarge};
        let told = match (error, self.told) {
            // What is signed was there to its last byte, and nothing behind it.
            (Authentication | Integrity, Told::All | Told::BehindPadding) => error,
            (TooLarge, Told::All | Told::BeforePadding) => error,
            (Decompression, Told::All) => error,
            // What lies encrypted and cannot be read was not decrypted rightly, for all a peer
            // learns.
            _ => Decryption,
        };
        self.failed.get_or_insert(told);
        self.next = None;
    }

    fn content_end(&mut self, context: &mut Context) -> Result<(), ReceiveError> {
        match &self.content {
            // The tag comes behind the content.
            Content::Encrypted(encrypted) if encrypted.tag == Tag::Behind => Ok(()),
            Content::Encrypted(_) => self.decrypted(None, context),
            Content::Compressed(inflater) if !inflater.ended => Err(ReceiveError::Decompression),
            Content::Compressed(_) => {
                self.content = Content::Done;
                let ended = self.next.as_mut().map_or(Ok(()), |next| next.end(context));
                self.contain(ended)
            }
            Content::Sealed => Ok(()),
            Content::Unknown | Content::Done => Err(self.malformed()),
        }
    }

    fn structure_end(&mut self, after: &[u8], context: &mut Context) -> Result<(), ReceiveError> {
        if !matches!(self.content, Content::Encrypted(_)) {
            return Ok(());
        }
        let tag = envelope::read_tag(after).unwrap_or_default();
        self.decrypted(Some(tag), context)
    }

    /// Checks padding or tag, and ends the next stage.
    fn decrypted(&mut self, tag: Option<&[u8]>, context: &mut Context) -> Result<(), ReceiveError> {
        let Content::Encrypted(encrypted) = std::mem::replace(&mut self.content, Content::Done)
        else {
            return Err(ReceiveError::Decryption);
        };
        let Encrypted { decryptor, held, .. } = *encrypted;
        let mut plain = Vec::new();
        let good = decryptor.finish(tag.unwrap_or(&held), &mut plain).is_ok();
        match (good, self.told) {
            (false, Told::All) => self.failed = Some(ReceiveError::Decryption),
            (false, _) => _ = self.failed.get_or_insert(ReceiveError::Decryption),
            (true, Told::All) => {}
            (true, _) => self.told = Told::BehindPadding,
        }
        if !good {
            self.next = None;
        }
        if let Some(next) = &mut self.next {
            let ended = next.push(&plain, context).and_then(|()| next.end(context));
            ended.unwrap_or_else(|error| self.fail(error));
        }
        Ok(())
    }
}

impl Layer for CmsStage {
    fn step(&mut self, bytes: &[u8], context: &mut Context) -> Result<Step, ReceiveError> {
        let most = match self.content {
            Content::Compressed(_) => limits::INFLATE_STEP,
            _ => limits::STEP,
        };
        let piece = first(bytes, most);
        if self.reader.is_finished() {
            // Line ends behind the structure, say. Inside of encryption anything else could be
            // blocks that were put there to learn whether they end with padding.
            let blank = piece.iter().all(u8::is_ascii_whitespace);
            if self.around.encryption && !blank {
                return Err(ReceiveError::Decryption);
            }
            return Ok(Step::took(piece.len()));
        }
        let mut rest = piece;
        let event = self.reader.event(&mut rest).map_err(|_| self.malformed())?;
        let taken = piece.len() - rest.len();
        if let Some(event) = event {
            self.handle(event, context)?;
        }
        Ok(Step::took(taken))
    }

    /// Ends when the structure and all in it has ended.
    fn finish(&mut self, context: &mut Context) -> Result<bool, ReceiveError> {
        loop {
            if self.next.as_mut().is_some_and(|next| next.has_work()) {
                return Ok(false);
            }
            let mut nothing: &[u8] = &[];
            match self.reader.event(&mut nothing).map_err(|_| self.malformed())? {
                Some(event) => self.handle(event, context)?,
                None => break,
            }
        }
        if let Some(failed) = self.failed {
            return Err(failed);
        }
        // Without a head nothing was unwrapped.
        if !self.reader.is_finished() || matches!(self.content, Content::Unknown) {
            return Err(self.malformed());
        }
        Ok(true)
    }

    fn next(&mut self) -> Option<&mut Stage> {
        self.next.as_deref_mut()
    }

    /// Keeps what went wrong inside for the end: of encryption until padding or tag was checked, of
    /// compression until it turned out to be whole, as what it is not may look like anything. Only
    /// what is too large already is so at once.
    fn contain(&mut self, result: Result<(), ReceiveError>) -> Result<(), ReceiveError> {
        match result {
            Err(error) if self.opened => {
                self.fail(error);
                Ok(())
            }
            Err(error) if error != ReceiveError::TooLarge => {
                self.failed.get_or_insert(error);
                self.next = None;
                Ok(())
            }
            other => other,
        }
    }
}

impl Encrypted {
    fn update(&mut self, bytes: &[u8], plain: &mut Vec<u8>) -> Result<(), ReceiveError> {
        let Tag::Within { bytes: tag } = self.tag else {
            return self.decryptor.update(bytes, plain).or(Err(ReceiveError::Decryption));
        };
        self.held.extend_from_slice(bytes);
        let ready = self.held.len().saturating_sub(tag);
        let rest = self.held.split_off(ready);
        let content = std::mem::replace(&mut self.held, rest);
        self.decryptor.update(&content, plain).or(Err(ReceiveError::Decryption))
    }
}

fn compressed(head: &CmsHead) -> Result<Inflater, ReceiveError> {
    use entrepot_crypto::der::{self, Reader};
    let mut fields = Reader::new(&head.fields);
    let algorithm = fields.small_integer().and_then(|_| fields.tagged(der::SEQUENCE));
    let oid = algorithm.and_then(|value| value.values().tagged(der::OID));
    match oid {
        Ok(oid) if oid.content == oid::ZLIB => Ok(Inflater {
            inflate: Decompress::new(true),
            compressed: 0,
            inflated: 0,
            ended: false,
        }),
        _ => Err(ReceiveError::Decompression),
    }
}

/// Compressed content is damaged, or inflates to too much.
struct Refused;

impl Inflater {
    fn update(
        &mut self,
        bytes: &[u8],
        options: &ReceiveOptions,
        plain: &mut Vec<u8>,
    ) -> Result<(), Refused> {
        // What is no payload is counted too: it takes time to pass over it.
        let most = options.max_payload_bytes.saturating_mul(2).saturating_add(RATIO_FREE_BYTES);
        let mut rest = bytes;
        loop {
            let (consumed, made) = (self.inflate.total_in(), plain.len());
            plain.reserve(limits::STEP);
            let status =
                self.inflate.decompress_vec(rest, plain, FlushDecompress::None).or(Err(Refused))?;
            let taken = usize::try_from(self.inflate.total_in() - consumed).or(Err(Refused))?;
            rest = rest.get(taken..).unwrap_or_default();
            self.compressed += taken as u64;
            self.inflated += (plain.len() - made) as u64;
            let many = self.inflated > RATIO_FREE_BYTES;
            let ratio = self.inflated / self.compressed.max(1);
            if many && ratio > options.max_inflate_ratio || self.inflated > most {
                return Err(Refused);
            }
            if status == Status::StreamEnd {
                // Bytes behind the stream would be content that no digest covers.
                self.ended = true;
                return if rest.is_empty() { Ok(()) } else { Err(Refused) };
            }
            if taken == 0 && plain.len() == made {
                return if self.ended { Err(Refused) } else { Ok(()) };
            }
        }
    }
}
