//! Structures of CMS (RFC 5652 §6, RFC 5083, RFC 3274) around content that streams: everything but
//! the content is collected as DER, whatever BER it came as.

use entrepot_crypto::der::{self, Reader};

use crate::ber::{BerError, BerReader, Event};
use crate::limits;

/// Which structure is around the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CmsKind {
    Enveloped,
    AuthEnveloped,
    Compressed,
}

/// What precedes the content.
#[derive(Debug)]
pub(crate) struct CmsHead {
    pub(crate) kind: CmsKind,
    /// The fields of the structure before the one that holds the content, as DER.
    pub(crate) fields: Vec<u8>,
    /// The fields beside the content: its type, and of encryption the algorithm.
    pub(crate) beside: Vec<u8>,
}

/// What comes next.
#[derive(Debug)]
pub(crate) enum CmsEvent<'a> {
    Head(CmsHead),
    Content(&'a [u8]),
    ContentEnd,
    /// The structure is over; what followed the content in it, as DER.
    End {
        after: Vec<u8>,
    },
}

/// A value that has begun: its tag, and what was collected of it.
struct Frame {
    tag: u8,
    content: Vec<u8>,
    /// The content is somewhere inside; what preceded it was handed out with the head.
    around_content: bool,
}

impl Frame {
    fn new(tag: u8) -> Frame {
        Frame { tag, content: Vec::new(), around_content: false }
    }
}

/// Constructed OCTET STRING.
const CONSTRUCTED_STRING: u8 = der::OCTET_STRING | 0x20;

/// Where the reader is.
enum Place {
    Before,
    /// In the content, which began this many values ago.
    Content {
        depth: usize,
    },
    After,
}

/// Reads one structure.
pub(crate) struct CmsReader {
    ber: BerReader,
    frames: Vec<Frame>,
    place: Place,
    collected: usize,
}

impl Default for CmsReader {
    fn default() -> Self {
        CmsReader {
            ber: BerReader::default(),
            frames: Vec::new(),
            place: Place::Before,
            collected: 0,
        }
    }
}

impl CmsReader {
    pub(crate) fn is_finished(&self) -> bool {
        self.ber.is_finished()
    }

    /// The next event from the start of `input`; `None` when that is used up.
    pub(crate) fn event<'a>(
        &mut self,
        input: &mut &'a [u8],
    ) -> Result<Option<CmsEvent<'a>>, BerError> {
        while let Some(event) = self.ber.event(input)? {
            if let Place::Content { depth } = &mut self.place {
                match event {
                    Event::Content(bytes) => return Ok(Some(CmsEvent::Content(bytes))),
                    // A string in pieces, of which some are in pieces themselves.
                    Event::Constructed { tag: CONSTRUCTED_STRING } => *depth += 1,
                    Event::Constructed { .. } => return Err(BerError),
                    Event::Primitive { tag: der::OCTET_STRING } => *depth += 1,
                    Event::Primitive { .. } => return Err(BerError),
                    Event::End if *depth > 0 => *depth -= 1,
                    Event::End => {
                        self.place = Place::After;
                        return Ok(Some(CmsEvent::ContentEnd));
                    }
                }
                continue;
            }
            match event {
                Event::Constructed { tag } | Event::Primitive { tag } => {
                    if let Some(head) = self.content_begins(tag)? {
                        self.place = Place::Content { depth: 0 };
                        return Ok(Some(CmsEvent::Head(head)));
                    }
                    self.frames.push(Frame::new(tag));
                }
                Event::Content(bytes) => self.collect(bytes)?,
                Event::End => {
                    if let Some(after) = self.ended()? {
                        return Ok(Some(CmsEvent::End { after }));
                    }
                }
            }
        }
        Ok(None)
    }

    /// The head, where a value of this tag is the content. It lies in the first place where the
    /// structures have it: `[0]` of EncryptedContentInfo, the string in `[0]` of
    /// EncapsulatedContentInfo.
    fn content_begins(&mut self, tag: u8) -> Result<Option<CmsHead>, BerError> {
        if matches!(self.place, Place::After) {
            return Ok(None);
        }
        let tags: Vec<u8> = self.frames.iter().map(|frame| frame.tag).collect();
        const INFO: [u8; 4] = [der::SEQUENCE, 0xa0, der::SEQUENCE, der::SEQUENCE];
        let compressed = match tags.strip_prefix(&INFO) {
            Some([]) if matches!(tag, 0x80 | 0xa0) => false,
            Some([0xa0]) if matches!(tag, der::OCTET_STRING | CONSTRUCTED_STRING) => true,
            _ => return Ok(None),
        };
        let content = |at: usize| self.frames.get(at).map(|frame| frame.content.as_slice());
        let oid = Reader::new(content(0).unwrap_or_default()).tagged(der::OID).or(Err(BerError))?;
        let kind = match oid.content {
            crate::oid::ENVELOPED_DATA => CmsKind::Enveloped,
            crate::oid::AUTH_ENVELOPED_DATA => CmsKind::AuthEnveloped,
            crate::oid::COMPRESSED_DATA => CmsKind::Compressed,
            _ => return Err(BerError),
        };
        if compressed != (kind == CmsKind::Compressed) {
            // `[0]` around the string: it is what comes next.
            return Ok(None);
        }
        let fields = content(2).unwrap_or_default().to_vec();
        let beside = content(3).unwrap_or_default().to_vec();
        for frame in &mut self.frames {
            frame.content.clear();
            frame.around_content = true;
        }
        Ok(Some(CmsHead { kind, fields, beside }))
    }

    fn collect(&mut self, bytes: &[u8]) -> Result<(), BerError> {
        self.collected += bytes.len();
        if self.collected > limits::CMS_HEADER_BYTES {
            return Err(BerError);
        }
        if let Some(frame) = self.frames.last_mut() {
            frame.content.extend_from_slice(bytes);
        }
        Ok(())
    }

    /// Hands a whole value to the one around it; what follows the content, when the structure ends.
    fn ended(&mut self) -> Result<Option<Vec<u8>>, BerError> {
        let frame = self.frames.pop().ok_or(BerError)?;
        self.collected += 8;
        if frame.around_content {
            return Ok((self.frames.len() == 2).then_some(frame.content));
        }
        let written = whole(&frame)?;
        if let Some(outer) = self.frames.last_mut() {
            outer.content.extend(written);
        }
        Ok(None)
    }
}

/// The DER of a value. A string that came in pieces becomes one.
fn whole(frame: &Frame) -> Result<Vec<u8>, BerError> {
    if frame.tag != CONSTRUCTED_STRING {
        return Ok(der::write(frame.tag, &frame.content));
    }
    let mut pieces = Reader::new(&frame.content);
    let mut joined = Vec::new();
    while !pieces.is_empty() {
        let piece = pieces.tagged(der::OCTET_STRING).or(Err(BerError))?;
        joined.extend_from_slice(piece.content);
    }
    Ok(der::write(der::OCTET_STRING, &joined))
}

/// A whole value of BER as DER, but for the order in sets.
pub(crate) fn to_der(bytes: &[u8]) -> Result<Vec<u8>, BerError> {
    let mut reader = BerReader::default();
    let mut frames = vec![Frame::new(0)];
    let mut input = bytes;
    while let Some(event) = reader.event(&mut input)? {
        match event {
            Event::Constructed { tag } | Event::Primitive { tag } => {
                frames.push(Frame::new(tag));
            }
            Event::Content(bytes) => {
                if let Some(frame) = frames.last_mut() {
                    frame.content.extend_from_slice(bytes);
                }
            }
            Event::End => {
                let written = whole(&frames.pop().ok_or(BerError)?)?;
                frames.last_mut().ok_or(BerError)?.content.extend(written);
            }
        }
    }
    if !reader.is_finished() {
        return Err(BerError);
    }
    frames.pop().map(|frame| frame.content).ok_or(BerError)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ber::tests::indefinite;

    fn enveloped(content: &[u8]) -> Vec<u8> {
        let seq = |parts: &[&[u8]]| der::write_all(der::SEQUENCE, parts);
        let oid = |oid: &[u8]| der::write(der::OID, oid);
        let version = [2, 1, 0];
        let recipients = der::write(der::SET, &seq(&[&version, &der::write(4, &[1; 300])]));
        let algorithm = seq(&[&oid(&crate::oid::of_cipher(crate::ContentCipher::Aes128Cbc))]);
        let info = seq(&[&oid(crate::oid::DATA), &algorithm, &der::write(0x80, content)]);
        let after = der::write(0xa1, &[]);
        let data = seq(&[&version, &recipients, &info, &after]);
        seq(&[&oid(crate::oid::ENVELOPED_DATA), &der::write(0xa0, &data)])
    }

    #[test]
    fn head_content_and_end_come_alike_from_every_form_and_cut() {
        let content: Vec<u8> = (0..1000u32).map(|at| (at % 256) as u8).collect();
        let definite = enveloped(&content);
        for bytes in [definite.clone(), indefinite(&definite)] {
            for piece in [1, 7, 64, 5000] {
                let mut reader = CmsReader::default();
                let mut found = Vec::new();
                let mut order = String::new();
                for mut input in bytes.chunks(piece) {
                    while let Some(event) = reader.event(&mut input).unwrap() {
                        match event {
                            CmsEvent::Head(head) => {
                                assert_eq!(head.kind, CmsKind::Enveloped);
                                let mut fields = Reader::new(&head.fields);
                                assert_eq!(fields.small_integer(), Ok(0));
                                assert_eq!(fields.tagged(der::SET).unwrap().content.len(), 311);
                                order.push('h');
                            }
                            CmsEvent::Content(more) => found.extend_from_slice(more),
                            CmsEvent::ContentEnd => order.push('c'),
                            CmsEvent::End { after } => {
                                assert_eq!(after, [0xa1, 0]);
                                order.push('e');
                            }
                        }
                    }
                }
                assert_eq!((&found, &order[..]), (&content, "hce"));
                assert!(reader.is_finished());
            }
        }
    }

    #[test]
    fn strings_in_pieces_become_one() {
        let definite = enveloped(b"content");
        let marked = indefinite(&definite);
        assert_ne!(marked, definite);
        // The content itself is no universal string, so its pieces stay.
        assert_eq!(to_der(&definite).unwrap(), definite);
        assert!(to_der(&marked).unwrap().len() <= definite.len() + 8);
        assert_eq!(to_der(&marked[..marked.len() - 1]), Err(BerError));
    }

    #[test]
    fn content_in_pieces_is_strings_and_nothing_else() {
        let oid = |oid: &[u8]| der::write(der::OID, oid);
        let with = |content: &[u8]| {
            let info = der::write_all(der::SEQUENCE, &[&oid(crate::oid::DATA), content]);
            let data = der::write_all(der::SEQUENCE, &[&[2, 1, 0], &info]);
            let kind = oid(crate::oid::ENVELOPED_DATA);
            der::write_all(der::SEQUENCE, &[&kind, &der::write(0xa0, &data)])
        };
        let read = |bytes: &[u8]| {
            let mut reader = CmsReader::default();
            let (mut input, mut content) = (bytes, Vec::new());
            while let Some(event) = reader.event(&mut input)? {
                if let CmsEvent::Content(more) = event {
                    content.extend_from_slice(more);
                }
            }
            Ok::<_, BerError>(content)
        };
        let pieces: &[u8] = &[0xa0, 9, 4, 1, b'a', 0x24, 4, 4, 2, b'b', b'c'];
        assert_eq!(read(&with(pieces)), Ok(b"abc".to_vec()));
        for tag in [0x02, 0x0c, 0x84] {
            assert_eq!(read(&with(&[0xa0, 3, tag, 1, b'a'])), Err(BerError), "{tag}");
        }
        for tag in [0x30, 0x31, 0xa0] {
            assert_eq!(read(&with(&[0xa0, 5, tag, 3, 4, 1, b'a'])), Err(BerError), "{tag}");
        }
    }

    #[test]
    fn a_head_without_end_is_refused() {
        let bytes = enveloped(b"content");
        let endless = der::write(4, &vec![0; limits::CMS_HEADER_BYTES + 1]);
        let long = der::write(der::SEQUENCE, &endless);
        let mut reader = CmsReader::default();
        assert_eq!(reader.event(&mut &long[..]).err(), Some(BerError));
        // Signed data is none of the structures here.
        let mut swapped = bytes;
        let at = swapped.windows(9).position(|nine| nine == crate::oid::ENVELOPED_DATA).unwrap();
        swapped[at + 8] = 2;
        let mut reader = CmsReader::default();
        assert_eq!(reader.event(&mut &swapped[..]).err(), Some(BerError));
    }
}
