//! Which site a request is for: the host that it names, as FTP chooses it by HOST and SNI.

use std::net::IpAddr;

use axum::http::header::HOST;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, Uri};
use entrepot_nouns::SiteId;

use crate::connection::Connection;
use crate::limits::HOST_BYTES;
use crate::problem::Problem;
use crate::shared::ListenerShared;

/// Host and port as a request names them.
///
/// # Errors
/// It names none, several, or one that cannot be read (RFC 9112 §3.2).
pub(crate) fn authority(uri: &Uri, fields: &HeaderMap) -> Result<Authority, Problem> {
    let malformed = || Problem::malformed("the request does not name one host that can be read");
    let mut hosts = fields.get_all(HOST).iter();
    let host = match (uri.authority(), hosts.next(), hosts.next()) {
        (_, _, Some(_)) | (None, None, None) => return Err(malformed()),
        (Some(authority), None, None) => authority.clone(),
        (in_target, Some(host), None) => {
            let host: Authority =
                host.to_str().ok().and_then(|host| host.parse().ok()).ok_or_else(malformed)?;
            if in_target.is_some_and(|target| *target != host) {
                return Err(malformed());
            }
            host
        }
    };
    let plain = !host.as_str().contains('@') && host.as_str().len() <= HOST_BYTES;
    if plain && !host.host().is_empty() { Ok(host) } else { Err(malformed()) }
}

/// The site whose accounts sign in by a request for this host: the one that has the host name, else
/// the listener's own.
///
/// # Errors
/// The connection was opened for a host of another site (421), or host names are not known now.
pub(crate) async fn site_of(
    shared: &ListenerShared,
    connection: &Connection,
    host: &Authority,
) -> Result<SiteId, Problem> {
    let chosen = site_of_name(shared, host.host()).await?;
    if let Some(name) = connection.server_name()
        && !name.eq_ignore_ascii_case(host.host())
        && site_of_name(shared, name).await? != chosen
    {
        return Err(Problem::new(
            StatusCode::MISDIRECTED_REQUEST,
            "EP1006",
            "this connection was opened for another host; open one for the host of the request",
        ));
    }
    Ok(chosen)
}

async fn site_of_name(shared: &ListenerShared, name: &str) -> Result<SiteId, Problem> {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    if bare.parse::<IpAddr>().is_ok() {
        return Ok(shared.site());
    }
    match shared.gate().site_of_host(shared.site(), &name).await {
        Ok(site) => Ok(site.map_or(shared.site(), |site| site.id)),
        Err(error) => Err(Problem::from(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(uri: &str, hosts: &[&str]) -> Option<String> {
        let mut fields = HeaderMap::new();
        for host in hosts {
            fields.append(HOST, host.parse().unwrap());
        }
        authority(&uri.parse().unwrap(), &fields).ok().map(|host| host.to_string())
    }

    #[test]
    fn a_request_names_one_host() {
        let some = |host: &str| Some(host.to_owned());
        assert_eq!(named("/a", &["files.example:8443"]), some("files.example:8443"));
        assert_eq!(named("https://files.example/a", &[]), some("files.example"));
        assert_eq!(named("/a", &["[::1]:443"]), some("[::1]:443"));
        assert_eq!(named("https://a.example/", &["a.example"]), some("a.example"));
        assert_eq!(named("/a", &[]), None);
        assert_eq!(named("/a", &["a.example", "a.example"]), None);
        assert_eq!(named("https://a.example/", &["b.example"]), None);
        assert_eq!(named("/a", &["user@a.example"]), None);
        assert_eq!(named("/a", &["a b"]), None);
        assert_eq!(named("/a", &[&"a".repeat(400)]), None);
    }
}
