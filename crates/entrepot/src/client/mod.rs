//! `get` and `put`: files to and from any SFTP or FTP server, over the same stores that rules
//! deliver with.

mod get;
mod place;
mod put;

use std::path::{Path, PathBuf};

use entrepot_nouns::endpoint::{FtpMode, FtpTarget, FtpTls, PublishBy, SftpTarget};
use entrepot_nouns::{EndpointTarget, Env, Secret, StorePath};
use entrepot_ssh::keys;
use entrepot_storage::{AnyStore, ResolvedSecrets, StoreError};
use indicatif::{ProgressBar, ProgressStyle};
use place::{Place, Scheme};
use serde::Serialize;

use crate::args::ServerArgs;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::standard_input::line_from_stdin;
use crate::table;

pub(crate) use get::run as get;
pub(crate) use put::run as put;

/// Bytes read or written at a time.
const PIECE_BYTES: usize = 1 << 20;

/// One file moved.
#[derive(Debug, Serialize)]
struct Moved {
    from: String,
    to: String,
    bytes: u64,
    /// Where it was gone on with; 0: from the start.
    resumed_at: u64,
}

/// A server, and what to show meanwhile.
struct Session {
    store: AnyStore,
    place: Place,
    resume: bool,
    recursive: bool,
    progress: ProgressBar,
    moved: Vec<Moved>,
}

impl Session {
    async fn open(url: &str, args: &ServerArgs) -> Result<Session, Failure> {
        let place = Place::parse(url).map_err(Failure::usage)?;
        args.check(place.scheme)?;
        let target = match place.scheme {
            Scheme::Sftp => EndpointTarget::Sftp(sftp_target(&place, args)?),
            Scheme::Ftp | Scheme::Ftps => EndpointTarget::Ftp(ftp_target(&place, args)?),
        };
        let secrets = secrets(&place, args)?;
        let store = entrepot_storage::open(&target, &secrets, &Env::real()).await;
        let store = store.map_err(|error| failed(url, &error))?;
        let progress = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template(
            "{bar:30} {bytes} of {total_bytes}  {binary_bytes_per_sec}  {eta}  {msg}",
        ) {
            progress.set_style(style);
        }
        let (resume, recursive) = (args.resume, args.recursive);
        Ok(Session { store, place, resume, recursive, progress, moved: Vec::new() })
    }

    /// A file begins.
    fn begin(&self, name: &str, bytes: u64, done: u64) {
        self.progress.set_message(name.to_owned());
        self.progress.set_length(bytes);
        self.progress.set_position(done);
        self.progress.reset_eta();
    }

    fn url(&self, path: &StorePath) -> String {
        self.place.url(path)
    }

    /// Says what was moved.
    fn tell(self, output: Output) -> Result<(), Failure> {
        self.progress.finish_and_clear();
        output.rows(&self.moved, |moved| {
            for file in moved {
                let resumed = match file.resumed_at {
                    0 => String::new(),
                    at => format!(", resumed at {at}"),
                };
                // The names of a server may be anybody's.
                let names = table::printable(&format!("{} -> {}", file.from, file.to));
                println!("{names} ({} bytes{resumed})", file.bytes);
            }
        })
    }
}

impl ServerArgs {
    /// What means nothing to such a server is a mistake, not a wish.
    fn check(&self, scheme: Scheme) -> Result<(), Failure> {
        let keys = self.identity.is_some() || !self.accept_host_key.is_empty();
        let sftp = keys || self.known_hosts.is_some();
        let tls = !self.accept_certificate.is_empty() || self.authorities.is_some();
        let why = match scheme {
            Scheme::Sftp if tls || self.clear_text || self.active => {
                "an sftp:// URL takes no certificates, no --clear-text and no --active"
            }
            Scheme::Ftp | Scheme::Ftps if sftp => {
                "an FTP server takes a password and is known by its certificate"
            }
            Scheme::Ftps if self.clear_text => "ftps:// is never in clear text",
            Scheme::Ftp if self.clear_text && tls => "nobody shows a certificate in clear text",
            _ => return Ok(()),
        };
        Err(Failure::usage(why))
    }
}

/// Where paths begin on the server: empty for the login directory.
fn root(place: &Place) -> String {
    if place.from_home { String::new() } else { "/".to_owned() }
}

fn sftp_target(place: &Place, args: &ServerArgs) -> Result<SftpTarget, Failure> {
    Ok(SftpTarget {
        host: place.host.clone(),
        port: place.port,
        user: place.user.clone(),
        host_keys: host_keys(place, args)?,
        root: root(place),
        key: None,
        password_sealed: None,
        password: None,
        allow_private: true,
        // Other clients write over the old file: this is never worse.
        publish: PublishBy::RemoveAndRename,
    })
}

fn ftp_target(place: &Place, args: &ServerArgs) -> Result<FtpTarget, Failure> {
    let tls = match place.scheme {
        Scheme::Ftps => FtpTls::Implicit,
        _ if args.clear_text => FtpTls::Off,
        _ => FtpTls::Explicit,
    };
    let authorities = args
        .authorities
        .as_ref()
        .map(|file| std::fs::read_to_string(file).map_err(|error| unreadable(file, &error)));
    Ok(FtpTarget {
        port: Some(place.port),
        tls,
        certificates: args.accept_certificate.clone(),
        authorities: authorities.transpose()?,
        mode: if args.active { FtpMode::Active } else { FtpMode::Passive },
        root: root(place),
        allow_private: true,
        publish: PublishBy::RemoveAndRename,
        ..FtpTarget::new(&place.host, &place.user)
    })
}

fn unreadable(file: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::file(format!("cannot read '{}': {error}", file.display()))
}

/// Keys that may be shown: those given, and those of the known_hosts file.
fn host_keys(place: &Place, args: &ServerArgs) -> Result<Vec<String>, Failure> {
    let mut pins = args.accept_host_key.clone();
    let file = match &args.known_hosts {
        Some(file) if !file.exists() => {
            return Err(Failure::file(format!("cannot read '{}'", file.display())));
        }
        Some(file) => Some(file.clone()),
        None => std::env::home_dir().map(|home| home.join(".ssh/known_hosts")),
    };
    if let Some(file) = file {
        let known = keys::known_hosts(&file, &place.host, place.port);
        pins.extend(known.map_err(|error| unreadable(&file, &error))?);
    }
    Ok(pins)
}

fn secrets(place: &Place, args: &ServerArgs) -> Result<ResolvedSecrets, Failure> {
    let private_key = match &args.identity {
        Some(file) => {
            Some(Secret::new(std::fs::read(file).map_err(|error| unreadable(file, &error))?))
        }
        None => None,
    };
    let secret = match (args.password_stdin, &private_key) {
        (true, _) => Some(Secret::new(line_from_stdin()?)),
        (false, Some(_)) => None,
        (false, None) => Some(ask(&format!("password of {}@{}: ", place.user, place.host))?),
    };
    Ok(ResolvedSecrets { secret, private_key })
}

/// Asks on the terminal, which does not show what is typed.
fn ask(prompt: &str) -> Result<Secret, Failure> {
    use std::io::{BufRead, Write};
    let terminal = std::fs::File::options().read(true).write(true).open("/dev/tty");
    let Ok(mut terminal) = terminal else {
        return Err(Failure::usage("give --password-stdin, or --identity FILE to an SFTP server"));
    };
    let broken = |error: std::io::Error| Failure::file(format!("the terminal: {error}"));
    let before = rustix::termios::tcgetattr(&terminal).map_err(|e| broken(e.into()))?;
    let mut quiet = before.clone();
    quiet.local_modes.remove(rustix::termios::LocalModes::ECHO);
    write!(terminal, "{prompt}").map_err(broken)?;
    let now = rustix::termios::OptionalActions::Flush;
    rustix::termios::tcsetattr(&terminal, now, &quiet).map_err(|e| broken(e.into()))?;
    let mut line = String::new();
    let read = std::io::BufReader::new(&terminal).read_line(&mut line);
    // Whatever came of it, the terminal shows again what is typed.
    let shown = rustix::termios::tcsetattr(&terminal, now, &before);
    shown.map_err(|e| broken(e.into()))?;
    read.map_err(broken)?;
    writeln!(terminal).map_err(broken)?;
    Ok(Secret::new(line.trim_end_matches(['\n', '\r']).to_owned()))
}

/// What the store says, with the place it is about.
fn failed(place: &str, error: &StoreError) -> Failure {
    let exit = match error {
        StoreError::NotFound => Exit::NotFound,
        StoreError::Unavailable(_) | StoreError::NoPlace(_) => Exit::Unavailable,
        _ => Exit::Failed,
    };
    Failure::new(error.code(), exit, format!("'{place}': {error}"))
}

fn local_failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::file(format!("'{}': {error}", path.display()))
}

/// The name of a local file as it is given to the server.
fn name_of(path: &Path) -> Result<String, Failure> {
    let whole: PathBuf = path.canonicalize().map_err(|error| local_failed(path, &error))?;
    let name = whole.file_name().and_then(|name| name.to_str()).map(str::to_owned);
    name.ok_or_else(|| Failure::file(format!("'{}' has no name that is UTF-8", path.display())))
}
