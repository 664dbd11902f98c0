//! GET and HEAD: a file, or a part of it.

use std::fmt::Write as _;

use axum::body::Body;
use axum::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, RANGE,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use bytes::BytesMut;
use entrepot_net::meter::Running;
use entrepot_vfs::{Attributes, Download, EntryKind, VfsError};
use futures_util::stream;

use super::file_request::FileRequest;
use super::listing;
use super::path::encode_into;
use super::range::{self, Ranged};
use super::upload::{REPR_DIGEST, repr_digest};
use super::validators::{self, Condition, Purpose, Validators};
use super::versions;
use crate::limits::PIECE_BYTES;
use crate::login::SignedIn;
use crate::problem::Problem;

/// Whatever a file is, a browser stores it, and runs nothing of it.
const UNTRUSTED: HeaderValue = HeaderValue::from_static("default-src 'none'; sandbox");

/// Answers with a file, or with the listing of a directory.
pub(crate) async fn get(asked: FileRequest) -> Result<Response, Problem> {
    if asked.target.is_directory {
        return listing::answer(&asked).await;
    }
    let (vfs, path) = (asked.signed_in.vfs(), &asked.target.path);
    let version = versions::asked_for(&asked.query)?;
    let fields = &asked.fields;
    let is_head = asked.method == Method::HEAD;
    if is_head || validators::has_conditions(fields) {
        // An open file would be recorded as a download.
        let attributes = match version {
            Some(id) => vfs.version_attributes(path, id).await.map_err(versions::refused)?,
            None => vfs.published(path).await?.ok_or(VfsError::NotFound)?,
        };
        if attributes.kind == EntryKind::Directory {
            return listing::answer(&asked).await;
        }
        let known = Validators::of(path, &attributes);
        if let Some(unmodified) = unmodified(&known, fields)? {
            return Ok(unmodified);
        }
        if is_head {
            let head = head_of_file(&asked, &attributes).await?;
            return Ok(head.answer(Body::empty()));
        }
    }
    let file = match version {
        Some(id) => vfs.open_version(path, id).await.map_err(versions::refused)?,
        None => match vfs.open(path).await {
            Err(VfsError::IsDirectory) => return listing::answer(&asked).await,
            file => file?,
        },
    };
    let head = head_of_file(&asked, file.attributes()).await?;
    let running = asked.context.connection.meter.running();
    let signed_in = asked.signed_in.clone();
    let (at, left) = (head.first, head.length);
    let sending = Sending { file, at, left, _signed_in: signed_in, _running: running };
    Ok(head.answer(sending.body()))
}

/// The answer to a client that has the state at hand already.
///
/// # Errors
/// The request is meant for another state.
pub(super) fn unmodified(
    known: &Validators,
    fields: &HeaderMap,
) -> Result<Option<Response>, Problem> {
    match validators::evaluate(fields, Purpose::Read, Some(known)) {
        Condition::Met => Ok(None),
        Condition::Failed => Err(validators::failed()),
        Condition::NotModified => {
            let mut response = StatusCode::NOT_MODIFIED.into_response();
            known.add_to(response.headers_mut());
            Ok(Some(response))
        }
    }
}

/// What a download sends, or a part of it.
pub(super) struct Representation<'a> {
    pub(super) known: &'a Validators,
    pub(super) size: u64,
    /// The name under which a browser stores it.
    pub(super) name: &'a str,
    pub(super) media_type: HeaderValue,
}

/// The head of an answer, and what of the representation follows it.
pub(super) struct Head {
    status: StatusCode,
    fields: HeaderMap,
    pub(super) first: u64,
    pub(super) length: u64,
}

impl Head {
    pub(super) fn answer(self, body: Body) -> Response {
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        *response.headers_mut() = self.fields;
        response
    }
}

async fn head_of_file(asked: &FileRequest, attributes: &Attributes) -> Result<Head, Problem> {
    let (vfs, path) = (asked.signed_in.vfs(), &asked.target.path);
    let shown = Representation {
        known: &Validators::of(path, attributes),
        size: attributes.size,
        name: path.file_name().unwrap_or_default(),
        media_type: HeaderValue::from_static("application/octet-stream"),
    };
    let mut head = headed(&shown, &asked.fields)?;
    let sha256 = if wants_sha256(&asked.fields) {
        // What cannot be computed now is left out: the field asks, and does not demand.
        vfs.sha256(path, attributes).await.ok()
    } else {
        vfs.known_sha256(path, attributes).await?
    };
    if let Some(digest) = sha256.and_then(|sha256| repr_digest(&sha256)) {
        head.fields.insert(REPR_DIGEST, digest);
    }
    Ok(head)
}

/// `Want-Repr-Digest` of RFC 9530: a preference from 0, which is none, to 10.
fn wants_sha256(fields: &HeaderMap) -> bool {
    let wanted = fields.get("want-repr-digest").and_then(|wanted| wanted.to_str().ok());
    let members = wanted.into_iter().flat_map(|wanted| wanted.split(','));
    let mut preferences = members.filter_map(|member| member.trim().strip_prefix("sha-256="));
    preferences.any(|preference| preference.parse::<u8>().is_ok_and(|number| number > 0))
}

/// The head of an answer with a representation, or with the part of it that is asked for.
///
/// # Errors
/// None of the range is in it.
pub(super) fn headed(shown: &Representation<'_>, asked: &HeaderMap) -> Result<Head, Problem> {
    let (known, size) = (shown.known, shown.size);
    let wanted = asked.get(RANGE).filter(|_| known.allow_range(asked));
    let ranged = wanted.and_then(|value| value.to_str().ok());
    let (status, first, length) = match ranged.map_or(Ranged::Whole, |text| range::read(text, size))
    {
        Ranged::Whole => (StatusCode::OK, 0, size),
        Ranged::Part { first, last } => (StatusCode::PARTIAL_CONTENT, first, last - first + 1),
        Ranged::Outside => {
            let why = "none of the range is in the file; Content-Range has its size";
            let field = header(&format!("bytes */{size}"));
            return Err(Problem::new(StatusCode::RANGE_NOT_SATISFIABLE, "EP1010", why)
                .with(CONTENT_RANGE, field));
        }
    };
    let mut fields = HeaderMap::new();
    if status == StatusCode::PARTIAL_CONTENT {
        let last = first.saturating_add(length).saturating_sub(1);
        fields.insert(CONTENT_RANGE, header(&format!("bytes {first}-{last}/{size}")));
    }
    known.add_to(&mut fields);
    fields.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    fields.insert(CONTENT_LENGTH, HeaderValue::from(length));
    fields.insert(CONTENT_TYPE, shown.media_type.clone());
    fields.insert(CONTENT_DISPOSITION, header(&disposition(shown.name)));
    fields.insert(CONTENT_SECURITY_POLICY, UNTRUSTED);
    fields.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    Ok(Head { status, fields, first, length })
}

/// Of text that we have made and that is ASCII.
fn header(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""))
}

/// RFC 6266: a name for old clients, with what they could misread replaced, and the name itself.
fn disposition(name: &str) -> String {
    let plain = |letter: char| match letter {
        '"' | '\\' | '%' | '/' => '_',
        letter if letter.is_ascii_graphic() || letter == ' ' => letter,
        _ => '_',
    };
    let mut text =
        format!("attachment; filename=\"{}\"", name.chars().map(plain).collect::<String>());
    // To write into a string cannot fail.
    let _ = write!(text, "; filename*=UTF-8''");
    encode_into(&mut text, name);
    text
}

/// A file on its way to the client: one piece at a time, when the client has taken the last one.
struct Sending {
    file: Download,
    at: u64,
    left: u64,
    /// The session is open while it is used.
    _signed_in: SignedIn,
    /// The least rate holds, and a draining server waits.
    _running: Running,
}

impl Sending {
    fn body(self) -> Body {
        Body::from_stream(stream::try_unfold(self, |mut sending| async move {
            if sending.left == 0 {
                sending.file.finish().await;
                return Ok(None);
            }
            let piece = sending.next_piece().await?;
            Ok::<_, VfsError>(Some((piece, sending)))
        }))
    }

    async fn next_piece(&mut self) -> Result<bytes::Bytes, VfsError> {
        let want = usize::try_from(self.left).unwrap_or(usize::MAX).min(PIECE_BYTES);
        let mut piece = BytesMut::zeroed(want);
        let piece = match self.file.try_read_at(self.at, &mut piece)? {
            Some(count) => {
                piece.truncate(count);
                piece
            }
            None => {
                piece.clear();
                self.file.read_at(self.at, piece, want).await?
            }
        };
        if piece.is_empty() {
            // Shorter than it was: the connection breaks, so that no client takes it for whole.
            return Err(VfsError::Conflict);
        }
        let count = piece.len() as u64;
        self.at = self.at.saturating_add(count);
        self.left = self.left.saturating_sub(count);
        Ok(piece.freeze())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_reach_old_and_new_clients() {
        let of = disposition;
        assert_eq!(of("b.txt"), "attachment; filename=\"b.txt\"; filename*=UTF-8''b.txt");
        let hostile = of("a\"\r\nX: y\\ä%41");
        assert_eq!(
            hostile,
            "attachment; filename=\"a___X: y___41\"; \
             filename*=UTF-8''a%22%0D%0AX%3A%20y%5C%C3%A4%2541"
        );
    }
}
