//! The fields of tus 1.0 (<https://tus.io/protocols/resumable-upload>), and of RFC 9530 beside
//! them: read without any IO.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use entrepot_vfs::{Checksum, HashAlgorithm};

use crate::problem::Problem;

pub(super) const TUS_RESUMABLE: HeaderName = HeaderName::from_static("tus-resumable");
pub(super) const TUS_VERSION: HeaderName = HeaderName::from_static("tus-version");
pub(super) const UPLOAD_OFFSET: HeaderName = HeaderName::from_static("upload-offset");
pub(super) const UPLOAD_LENGTH: HeaderName = HeaderName::from_static("upload-length");
pub(super) const UPLOAD_DEFER_LENGTH: HeaderName = HeaderName::from_static("upload-defer-length");
pub(super) const UPLOAD_METADATA: HeaderName = HeaderName::from_static("upload-metadata");
pub(super) const UPLOAD_EXPIRES: HeaderName = HeaderName::from_static("upload-expires");
const UPLOAD_CHECKSUM: HeaderName = HeaderName::from_static("upload-checksum");
const CONTENT_DIGEST: HeaderName = HeaderName::from_static("content-digest");
const METHOD_OVERRIDE: HeaderName = HeaderName::from_static("x-http-method-override");
/// The only version there is.
pub(super) const VERSION: HeaderValue = HeaderValue::from_static("1.0.0");
/// The media type of bytes that are appended.
pub(super) const OFFSET_OCTETS: &str = "application/offset+octet-stream";
/// What a checksum may be made with, as OPTIONS names it.
pub(super) const CHECKSUMS: HeaderValue =
    HeaderValue::from_static("sha256,crc32c,sha512,sha1,md5,crc32");

/// Refuses what is written for another version of tus. A request that names none is taken.
pub(super) fn check_version(fields: &HeaderMap) -> Result<(), Problem> {
    match fields.get(TUS_RESUMABLE) {
        Some(version) if version != VERSION => {
            let why = "this server speaks tus 1.0.0 only";
            Err(Problem::new(StatusCode::PRECONDITION_FAILED, "EP1088", why)
                .with(TUS_VERSION, VERSION))
        }
        _ => Ok(()),
    }
}

/// The method of a request, which clients that can send no PATCH name in a field.
pub(super) fn method(method: &Method, fields: &HeaderMap) -> Result<Method, Problem> {
    match fields.get(METHOD_OVERRIDE) {
        Some(named) if *method == Method::POST => Method::from_bytes(named.as_bytes())
            .map_err(|_| Problem::malformed("X-HTTP-Method-Override names no method")),
        _ => Ok(method.clone()),
    }
}

/// An answer that says which version it is written for.
pub(super) fn marked(answered: Result<Response, Problem>) -> Response {
    match answered {
        Ok(mut response) => {
            response.headers_mut().insert(TUS_RESUMABLE, VERSION);
            response
        }
        Err(problem) => problem.with(TUS_RESUMABLE, VERSION).into_response(),
    }
}

/// A field that is a number of bytes.
pub(super) fn number(fields: &HeaderMap, name: &HeaderName) -> Result<Option<u64>, Problem> {
    let Some(value) = text(fields, name)? else { return Ok(None) };
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let number = value.parse().ok().filter(|_| is_number);
    number.map(Some).ok_or_else(|| Problem::malformed(format!("{name} is no number of bytes")))
}

/// A field that may be there once.
pub(super) fn text<'a>(
    fields: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'a str>, Problem> {
    let mut values = fields.get_all(name).iter();
    let value = match (values.next(), values.next()) {
        (None, _) => return Ok(None),
        (Some(value), None) => value.to_str().ok(),
        (Some(_), Some(_)) => None,
    };
    let value = value.map(str::trim);
    value.map(Some).ok_or_else(|| Problem::malformed(format!("{name} cannot be read")))
}

/// What a client says of a file: pairs of a key and a value.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Metadata(Vec<(String, String)>);

impl Metadata {
    /// Reads `key BASE64, key BASE64, key`.
    ///
    /// # Errors
    /// It is not written so; a sentence says why.
    pub(super) fn parse(field: &str) -> Result<Metadata, &'static str> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for pair in field.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once(' ').unwrap_or((pair, ""));
            if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err("a key of Upload-Metadata is not of ASCII");
            }
            if pairs.iter().any(|(known, _)| known == key) {
                return Err("a key of Upload-Metadata comes twice");
            }
            let value = STANDARD.decode(value.trim());
            let value = value.map_err(|_| "a value of Upload-Metadata is not in base64")?;
            let value = String::from_utf8(value);
            let value = value.map_err(|_| "a value of Upload-Metadata is not of UTF-8")?;
            pairs.push((key.to_owned(), value));
        }
        Ok(Metadata(pairs))
    }

    /// The value of a key.
    pub(super) fn value(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }
}

/// What the bytes of a request must be: `Upload-Checksum` of tus, or `Content-Digest` of RFC 9530.
///
/// # Errors
/// It cannot be read, or names no algorithm that is known here.
pub(super) fn checksum(fields: &HeaderMap) -> Result<Option<Checksum>, Problem> {
    if let Some(field) = text(fields, &UPLOAD_CHECKSUM)? {
        return upload_checksum(field).map(Some);
    }
    text(fields, &CONTENT_DIGEST)?.map(content_digest).transpose()
}

/// Reads `sha256 BASE64`.
fn upload_checksum(field: &str) -> Result<Checksum, Problem> {
    let (name, value) = field.split_once(' ').unwrap_or((field, ""));
    checksum_of(name, value.trim()).unwrap_or_else(|| Err(unknown_algorithm()))
}

/// Reads the dictionary `sha-256=:BASE64:, crc32c=:BASE64:` and takes the first that is known.
fn content_digest(field: &str) -> Result<Checksum, Problem> {
    let member = |member: &str| {
        let (name, value) = member.trim().split_once('=')?;
        let name = match name {
            "sha-256" => "sha256",
            "sha-512" => "sha512",
            "sha" => "sha1",
            name => name,
        };
        let value = value.strip_prefix(':')?.strip_suffix(':')?;
        checksum_of(name, value)
    };
    field.split(',').find_map(member).unwrap_or_else(|| Err(unknown_algorithm()))
}

/// The checksum of an algorithm; `None`: no such algorithm is known here.
fn checksum_of(name: &str, value: &str) -> Option<Result<Checksum, Problem>> {
    let malformed = || Problem::malformed("the checksum is not in base64, or not of its length");
    let value = STANDARD.decode(value).ok();
    if name == "crc32c" {
        let value = value.and_then(|value| <[u8; 4]>::try_from(value).ok());
        let sum = value.map(|value| Checksum::Crc32c(u32::from_be_bytes(value)));
        return Some(sum.ok_or_else(malformed));
    }
    let algorithm = HashAlgorithm::named(name)?;
    let value = value.filter(|value| value.len() == algorithm.bytes());
    Some(value.map(|value| Checksum::Hash { algorithm, value }).ok_or_else(malformed))
}

fn unknown_algorithm() -> Problem {
    let why = "the checksum is made with no algorithm that is known here: use sha256 or crc32c";
    Problem::new(StatusCode::BAD_REQUEST, "EP1090", why)
}

/// For fuzzing: fields of any bytes.
pub(super) fn fuzz(data: &[u8]) {
    let Ok(field) = std::str::from_utf8(data) else { return };
    if let Ok(metadata) = Metadata::parse(field) {
        let long = metadata.0.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
        assert!(long <= field.len(), "metadata grows");
    }
    for read in [upload_checksum(field), content_digest(field)] {
        if let Ok(Checksum::Hash { algorithm, value }) = read {
            assert_eq!(value.len(), algorithm.bytes());
        }
    }
    let Ok(value) = HeaderValue::from_bytes(data) else { return };
    let fields = HeaderMap::from_iter([(UPLOAD_OFFSET, value.clone()), (METHOD_OVERRIDE, value)]);
    // What is read is what the field shows.
    if let Ok(Some(number)) = number(&fields, &UPLOAD_OFFSET) {
        assert_eq!(field.trim().trim_start_matches('0').parse().unwrap_or(0), number);
    }
    let _ = method(&Method::POST, &fields);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_read_as_tus_writes_it() {
        let read = Metadata::parse("filename d29ybGQucGRm,is_confidential, folder L8Ok").unwrap();
        assert_eq!(read.value("filename"), Some("world.pdf"));
        assert_eq!(read.value("is_confidential"), Some(""));
        assert_eq!(read.value("folder"), Some("/ä"));
        assert_eq!(read.value("none"), None);
        assert_eq!(Metadata::parse(""), Ok(Metadata::default()));
        for bad in ["a YQ==,a YQ==", "a ?", "a /w==", "ä YQ=="] {
            assert!(Metadata::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn checksums_have_a_known_algorithm_and_its_length() {
        let sha1 = HashAlgorithm::Sha1.hash(b"abc");
        let encoded = STANDARD.encode(&sha1);
        let wanted = Checksum::Hash { algorithm: HashAlgorithm::Sha1, value: sha1 };
        assert_eq!(upload_checksum(&format!("sha1 {encoded}")).unwrap(), wanted);
        assert_eq!(content_digest(&format!("x=1, sha=:{encoded}:")).unwrap(), wanted);
        let crc = content_digest("crc32c=:4waSgw==:").unwrap();
        assert_eq!(crc, Checksum::Crc32c(0xe306_9283));
        for (bad, code) in [("sha1", "EP1013"), ("sha1 YQ==", "EP1013"), ("blake2 YQ==", "EP1090")]
        {
            assert_eq!(upload_checksum(bad).unwrap_err().code, code, "{bad}");
        }
        assert_eq!(content_digest("sha-256=abc").unwrap_err().code, "EP1090");
    }

    #[test]
    fn numbers_are_digits_alone() {
        let read = |value: &str| {
            let value = value.parse().unwrap();
            number(&HeaderMap::from_iter([(UPLOAD_OFFSET, value)]), &UPLOAD_OFFSET).ok()
        };
        assert_eq!(read("0012"), Some(Some(12)));
        for bad in ["", "+1", "-1", "1.0", "99999999999999999999"] {
            assert_eq!(read(bad), None, "{bad}");
        }
        assert_eq!(number(&HeaderMap::new(), &UPLOAD_OFFSET).unwrap(), None);
    }
}
