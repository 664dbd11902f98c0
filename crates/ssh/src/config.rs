//! How an SSH server presents itself: host keys, algorithms, banner.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use entrepot_net::server::Admission;
use entrepot_nouns::{AuthMethod, Secret};
use russh::keys::{Certificate, PrivateKey};
use russh::{MethodKind, MethodSet, Preferred, SshId};

use crate::SshError;
use crate::algorithms::{Offered, Preset};
use crate::keys;
use crate::limits;

/// How a server presents itself.
#[derive(Debug)]
pub struct SshOptions {
    /// Host keys in OpenSSH form, at least one.
    pub host_keys: Vec<Secret>,
    /// Certificates of those keys, OpenSSH form.
    pub certificates: Vec<String>,
    /// The algorithms that clients may choose from.
    pub offered: Offered,
    /// Shown before login; empty: nothing.
    pub banner: String,
    /// Which addresses are treated in ways of their own.
    pub admission: Admission,
}

impl SshOptions {
    /// These keys and the preset `modern`.
    pub fn new(host_keys: Vec<Secret>) -> Self {
        SshOptions {
            host_keys,
            certificates: Vec::new(),
            offered: Offered::new(Preset::Modern, &[]),
            banner: String::new(),
            admission: Admission::default(),
        }
    }
}

/// [`SshOptions`], checked. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SshConfig {
    /// For clients without AES-GCM.
    pub(crate) any_cipher: Arc<russh::server::Config>,
    /// For the others.
    pub(crate) gcm: Arc<russh::server::Config>,
    pub(crate) presentation: Arc<Presentation>,
}

/// What a handler needs of it.
#[derive(Debug)]
pub(crate) struct Presentation {
    pub(crate) banner: Option<String>,
    pub(crate) offered: Offered,
    pub(crate) admission: Admission,
}

/// Our identification, without a version that would tell what to attack.
const IDENTIFICATION: &str = "SSH-2.0-Entrepot";
/// As it is sent.
pub(crate) const IDENTIFICATION_LINE: &[u8] = b"SSH-2.0-Entrepot\r\n";

impl SshConfig {
    /// Reads the keys.
    ///
    /// # Errors
    /// No key, or one that cannot be read.
    pub fn new(options: &SshOptions) -> Result<Self, SshError> {
        let keys = options.host_keys.iter().map(keys::private).collect::<Result<Vec<_>, _>>()?;
        let offered = &options.offered;
        if !keys.iter().any(|key| offered.accepts(&key.algorithm()) || key.algorithm().is_rsa()) {
            return Err(SshError::Key("a server needs a host key of its algorithms".to_owned()));
        }
        let certificates = options.certificates.iter().map(|line| keys::certificate(line, &keys));
        let certificates = certificates.collect::<Result<Vec<_>, _>>()?;
        let banner = Some(options.banner.trim_end()).filter(|banner| !banner.is_empty());
        Ok(SshConfig {
            any_cipher: Arc::new(transport(keys.clone(), certificates.clone(), offered.server())),
            gcm: Arc::new(transport(keys, certificates, offered.server_of_gcm())),
            presentation: Arc::new(Presentation {
                banner: banner.map(crlf),
                offered: offered.clone(),
                admission: options.admission.clone(),
            }),
        })
    }

    /// With new keys after so many bytes in either direction, at most
    /// [`limits::REKEY_BYTES`]. Tests ask for few.
    #[must_use]
    pub fn with_rekey_bytes(mut self, bytes: usize) -> Self {
        let bytes = bytes.min(limits::REKEY_BYTES);
        // A new configuration is shared with nobody yet.
        let both = [Arc::get_mut(&mut self.any_cipher), Arc::get_mut(&mut self.gcm)];
        for config in both.into_iter().flatten() {
            config.limits = russh::Limits::new(bytes, bytes, limits::REKEY_TIME);
        }
        self
    }
}

fn transport(
    keys: Vec<PrivateKey>,
    certificates: Vec<Certificate>,
    preferred: Preferred,
) -> russh::server::Config {
    russh::server::Config {
        server_id: SshId::Standard(Cow::Borrowed(IDENTIFICATION)),
        methods: methods(&[AuthMethod::PublicKey, AuthMethod::Password]),
        // A refusal sleeps inside the session; slowing clients down is the Gate's task.
        auth_rejection_time: Duration::ZERO,
        auth_rejection_time_initial: Some(Duration::ZERO),
        keys,
        certificates,
        limits: russh::Limits::new(limits::REKEY_BYTES, limits::REKEY_BYTES, limits::REKEY_TIME),
        window_size: limits::WINDOW_BYTES,
        maximum_packet_size: limits::PACKET_BYTES,
        // Its queue is of channel streams, which we drop at once.
        channel_buffer_size: 1,
        event_buffer_size: limits::EVENT_QUEUE,
        preferred,
        max_auth_attempts: limits::LOGIN_ATTEMPTS,
        inactivity_timeout: Some(limits::INACTIVITY_TIME),
        keepalive_interval: Some(limits::KEEPALIVE_TIME),
        keepalive_max: limits::KEEPALIVE_COUNT,
        nodelay: true,
    }
}

/// RFC 4252 §5.4 wants CR LF.
fn crlf(text: &str) -> String {
    text.lines().flat_map(|line| [line, "\r\n"]).collect()
}

/// Keyboard-interactive is offered beside password: some clients only do that. Codes are asked by
/// it alone.
pub(crate) fn methods(next: &[AuthMethod]) -> MethodSet {
    let mut set = MethodSet::empty();
    for method in next {
        let kinds: &[MethodKind] = match method {
            AuthMethod::PublicKey => &[MethodKind::PublicKey],
            AuthMethod::Password => &[MethodKind::Password, MethodKind::KeyboardInteractive],
            AuthMethod::Totp => &[MethodKind::KeyboardInteractive],
            // SSH has none.
            AuthMethod::Certificate | AuthMethod::Passkey | AuthMethod::Oidc => &[],
        };
        kinds.iter().for_each(|kind| set.push(*kind));
    }
    set
}
