//! What `bench https` measures, and against what.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use entrepot_net::tls::TlsVersion;
use entrepot_nouns::Secret;

use crate::wan::Wan;

/// What is measured, and against what.
#[derive(Clone, Debug)]
pub struct HttpsBench {
    /// The server and the folder to work in.
    pub target: Target,
    /// The version of HTTP that is spoken.
    pub version: HttpVersion,
    /// The only version of TLS.
    pub tls_version: TlsVersion,
    /// Who signs in, with every request; none: nobody.
    pub login: Option<Login>,
    /// The address that [`Workload::Fetch`] reads, with its query.
    pub path: String,
    /// The address at which uploads of tus are created.
    pub tus_path: String,
    /// Bytes of a large file.
    pub size: u64,
    /// Bytes of a small file.
    pub small_size: u64,
    /// Small files, or answers of [`Workload::Fetch`], of each stream.
    pub count: u64,
    /// Requests at a time.
    pub concurrency: usize,
    /// Connections of HTTP/2 that they share; none: one for large files, else one for each stream.
    pub connections: Option<usize>,
    /// What a small request may take; a large file gets more, by its size.
    pub deadline: Duration,
    /// How often the connection of each upload of [`Workload::Tus`] is cut.
    pub cuts: u64,
    /// The users of [`Workload::Users`].
    pub crowd: Crowd,
    /// A long line between client and server.
    pub wan: Option<Wan>,
    /// Process id of a local server, for its CPU time.
    pub server_pid: Option<u32>,
    /// Folder of its control group, where it has one of its own: finer than the process tree.
    pub server_group: Option<PathBuf>,
    /// Rounds of each workload.
    pub rounds: u32,
}

/// A server and a folder on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Under TLS, whatever the certificate, or in clear text.
    pub scheme: Scheme,
    /// Host name or address.
    pub host: String,
    /// Where it listens: 443 or 80 if the URL has no port.
    pub port: u16,
    /// Path of the folder, with a slash at its end; `{n}` stands for the number of the user.
    pub folder: String,
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        let wrong =
            || format!("'{text}' is no URL of a folder such as https://localhost:8443/files/");
        let target = Target::read(text).ok_or_else(wrong)?;
        let folder = match target.folder.trim_end_matches('/') {
            "" => "/".to_owned(),
            folder => format!("{folder}/"),
        };
        Ok(Target { folder, ..target })
    }
}

impl Target {
    /// A server and one address on it, which stands as `folder`, as it is.
    ///
    /// # Errors
    /// It is no URL: a sentence.
    pub fn address(text: &str) -> Result<Target, String> {
        let wrong = || format!("'{text}' is no URL such as https://localhost:8443/as2");
        Target::read(text).ok_or_else(wrong)
    }

    fn read(text: &str) -> Option<Target> {
        let (scheme, rest) = match text.split_once("://")? {
            ("http", rest) => (Scheme::Http, rest),
            ("https", rest) => (Scheme::Https, rest),
            _ => return None,
        };
        let (authority, folder) = rest.split_once('/').unwrap_or((rest, ""));
        let usual = if scheme == Scheme::Https { 443 } else { 80 };
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, port.parse().ok()?),
            _ => (authority, usual),
        };
        if host.is_empty() || folder.contains(['?', '#', ' ']) {
            return None;
        }
        Some(Target { scheme, host: host.to_owned(), port, folder: format!("/{folder}") })
    }
}

/// Whether there is TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// There is none, also where a password is sent.
    Http,
    /// From the first byte on; the certificate is not checked.
    Https,
}

/// A version of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpVersion {
    /// HTTP/1.1: each stream has its connection.
    Http1,
    /// HTTP/2: streams share connections.
    Http2,
}

/// A name and a password, for HTTP Basic.
#[derive(Clone, Debug)]
pub struct Login {
    /// The account; `{n}` stands for the number of the user, from 1.
    pub user: String,
    /// The password of all of them.
    pub password: Secret,
}

/// Users who come one after another, do something, think, and do it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crowd {
    /// How many come.
    pub users: usize,
    /// How many of them upload; the others look at their folder.
    pub uploading: usize,
    /// What each of them does after its sign-in, so many times.
    pub tests: u64,
    /// The mean time between two tests of a user; each is between half of it and one and a half.
    pub think_time: Duration,
    /// The time in which all of them have come.
    pub ramp: Duration,
    /// What the sizes, 10, 25, 50 and 100 MB, are divided by.
    pub scale: u64,
}

/// One kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// One large file up each stream, by PUT.
    Upload,
    /// The same large file down each stream.
    Download,
    /// New small files up, by PUT.
    Put,
    /// The same small file down.
    Get,
    /// One address read again and again, such as a noun or a list of a REST API.
    Fetch,
    /// Users who sign in, think, look and upload.
    Users,
    /// One large file up each stream, by tus 1.0, with cut connections.
    Tus,
}

impl Workload {
    /// What is measured where nothing is named.
    pub const USUAL: [Workload; 4] =
        [Workload::Upload, Workload::Download, Workload::Put, Workload::Get];

    /// The word, lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Workload::Upload => "upload",
            Workload::Download => "download",
            Workload::Put => "put",
            Workload::Get => "get",
            Workload::Fetch => "fetch",
            Workload::Users => "users",
            Workload::Tus => "tus",
        }
    }

    pub(super) fn unit(self) -> &'static str {
        match self {
            Workload::Upload | Workload::Download | Workload::Tus => "GiB",
            Workload::Put | Workload::Get => "file",
            Workload::Fetch => "answer",
            Workload::Users => "test",
        }
    }

    pub(super) fn is_large(self) -> bool {
        self.unit() == "GiB"
    }

    /// Whether a file must be there.
    pub(super) fn reads(self) -> bool {
        matches!(self, Workload::Download | Workload::Get)
    }

    /// The name in reports, such as `put-h2`.
    pub fn name(self, version: HttpVersion) -> String {
        match version {
            HttpVersion::Http1 => format!("{}-h1", self.as_str()),
            HttpVersion::Http2 => format!("{}-h2", self.as_str()),
        }
    }
}

impl HttpsBench {
    /// Connections that `streams` of a workload share.
    pub(super) fn connections(&self, workload: Workload, streams: usize) -> usize {
        let usual = match workload {
            Workload::Upload | Workload::Download => 1,
            _ => streams,
        };
        match (self.version, workload) {
            // A user has a browser of his own, and a cut must not end what others do.
            (HttpVersion::Http1, _) | (_, Workload::Users | Workload::Tus) => streams,
            (HttpVersion::Http2, _) => self.connections.unwrap_or(usual).clamp(1, streams.max(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets() {
        let read = |text: &str| {
            let target: Target = text.parse().ok()?;
            Some((target.scheme, target.host, target.port, target.folder))
        };
        let (http, https) = (Scheme::Http, Scheme::Https);
        let with = |scheme, host: &str, port, folder: &str| {
            Some((scheme, host.to_owned(), port, folder.to_owned()))
        };
        assert_eq!(read("https://a.example"), with(https, "a.example", 443, "/"));
        assert_eq!(read("https://a:8443/files/{n}"), with(https, "a", 8443, "/files/{n}/"));
        assert_eq!(read("http://[::1]/f/"), with(http, "[::1]", 80, "/f/"));
        assert_eq!(read("http://[::1]:81"), with(http, "[::1]", 81, "/"));
        for wrong in ["a:1", "ftp://a", "https://", "https://:1/", "https://a:b/", "http://a/?q"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
