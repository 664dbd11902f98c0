//! What a request shows of who it is from, before anything of it is checked.

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use entrepot_nouns::Secret;

use crate::limits::CREDENTIAL_BYTES;
use crate::problem::Problem;

/// One way in which a request says who it is from. Each has its arm in `login::sign_in`.
pub(crate) enum Credentials {
    /// A name and a password with every request (RFC 7617).
    Basic { user: String, password: Secret },
    /// An API token with every request (RFC 6750 §2.1).
    Bearer { token: Secret },
}

impl Credentials {
    /// Reads the fields of a request; `None`: it shows nothing.
    ///
    /// # Errors
    /// What it shows cannot be read.
    pub(crate) fn of(fields: &HeaderMap) -> Result<Option<Credentials>, Problem> {
        let mut shown = fields.get_all(AUTHORIZATION).iter();
        let Some(shown) = (match (shown.next(), shown.next()) {
            (only, None) => only,
            (_, Some(_)) => {
                return Err(Problem::malformed("the request has several Authorization fields"));
            }
        }) else {
            return Ok(None);
        };
        let unreadable = || Problem::malformed("the Authorization field cannot be read");
        let shown = shown.to_str().map_err(|_| unreadable())?;
        let (scheme, rest) = shown.split_once(' ').ok_or_else(unreadable)?;
        if scheme.eq_ignore_ascii_case("basic") {
            return basic(rest.trim()).map(Some).ok_or_else(unreadable);
        }
        if scheme.eq_ignore_ascii_case("bearer") {
            let token = rest.trim();
            let is_token = !token.is_empty() && token.len() <= CREDENTIAL_BYTES;
            let token = is_token.then(|| Credentials::Bearer { token: Secret::new(token) });
            return token.map(Some).ok_or_else(unreadable);
        }
        let why = "this kind of Authorization is not known here: use Basic or Bearer";
        Err(Problem::malformed(why))
    }
}

fn basic(encoded: &str) -> Option<Credentials> {
    if encoded.len() > 4 * CREDENTIAL_BYTES {
        return None;
    }
    // In a type that is wiped when it is dropped.
    let plain = Secret::new(STANDARD.decode(encoded).ok()?);
    let at = plain.expose().iter().position(|byte| *byte == b':')?;
    let (user, password) = plain.expose().split_at_checked(at)?;
    let password = password.get(1..).unwrap_or_default();
    if user.len().max(password.len()) > CREDENTIAL_BYTES {
        return None;
    }
    let user = std::str::from_utf8(user).ok()?.to_owned();
    Some(Credentials::Basic { user, password: Secret::new(password) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(field: &str) -> Result<Option<(String, Vec<u8>)>, u16> {
        let mut fields = HeaderMap::new();
        fields.insert(AUTHORIZATION, field.parse().unwrap());
        match Credentials::of(&fields) {
            Ok(Some(Credentials::Basic { user, password })) => {
                Ok(Some((user, password.expose().to_vec())))
            }
            Ok(Some(Credentials::Bearer { token })) => {
                Ok(Some(("bearer".to_owned(), token.expose().to_vec())))
            }
            Ok(None) => Ok(None),
            Err(problem) => Err(problem.status.as_u16()),
        }
    }

    #[test]
    fn names_and_passwords_are_read_as_rfc_7617_writes_them() {
        let aladdin = Ok(Some(("Aladdin".to_owned(), b"open sesame".to_vec())));
        assert_eq!(read("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="), aladdin);
        assert_eq!(read("basic  QWxhZGRpbjpvcGVuIHNlc2FtZQ=="), aladdin);
        // "a:b:c": a colon belongs to the password.
        assert_eq!(read("Basic YTpiOmM="), Ok(Some(("a".to_owned(), b"b:c".to_vec()))));
        for bad in ["Basic", "Basic ???", "Basic YWJj", "Digest YTpi", "Basic /zpi", "Bearer "] {
            assert_eq!(read(bad), Err(400), "{bad}");
        }
        assert_eq!(read("Bearer ept_a"), Ok(Some(("bearer".to_owned(), b"ept_a".to_vec()))));
        assert!(matches!(Credentials::of(&HeaderMap::new()), Ok(None)));
        let mut twice = HeaderMap::new();
        twice.append(AUTHORIZATION, "Basic YTpi".parse().unwrap());
        twice.append(AUTHORIZATION, "Basic YTpj".parse().unwrap());
        assert!(Credentials::of(&twice).is_err());
    }
}
