//! How files look to a client (RFC 3659 §7.5).

use std::sync::Arc;

use entrepot_ftp_proto::Time;
use entrepot_ftp_proto::entry::{Kind, Rights, Stat};
use entrepot_nouns::{Env, Right, Timestamp};
use entrepot_vfs::{Attributes, EntryKind};

/// How entries are shown. Cheap to clone.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) env: Env,
    /// Of the fact `unique`: identities of stores have inodes in them.
    key: Arc<[u8; 32]>,
}

impl View {
    /// With a key that nobody knows, not even the next start.
    pub(crate) fn new(env: Env) -> View {
        let mut key = [0; 32];
        env.fill_random(&mut key);
        View { env, key: Arc::new(key) }
    }

    pub(crate) fn now(&self) -> Time {
        time(self.env.now())
    }

    /// An entry as listings show it.
    pub(crate) fn stat(&self, of: &Attributes) -> Stat {
        let unique = of.identity.as_ref().map(|identity| {
            let hash = blake3::keyed_hash(&self.key, identity.0.as_bytes());
            u64::from_be_bytes(hash.as_bytes().first_chunk().copied().unwrap_or_default())
        });
        Stat { unique, ..stat(of) }
    }
}

fn stat(of: &Attributes) -> Stat {
    let kind = match of.kind {
        EntryKind::Directory => Kind::Directory,
        EntryKind::File | EntryKind::Link => Kind::File,
    };
    let writes = of.rights.has(Right::Write) || of.rights.has(Right::Overwrite);
    let bits = if kind == Kind::Directory { 0o755 } else { 0o644 };
    Stat {
        kind,
        size: if kind == Kind::Directory { 0 } else { of.size },
        modified: (of.modified != Timestamp::default()).then(|| time(of.modified)),
        created: None,
        mode: of.mode.unwrap_or(if writes { bits } else { bits & !0o222 }),
        rights: rights(of.rights, kind),
        unique: None,
    }
}

/// What the letters of the fact `perm` say.
fn rights(of: entrepot_nouns::Rights, kind: Kind) -> Rights {
    const FILE: [(Right, Rights); 4] = [
        (Right::Read, Rights::READ),
        (Right::Overwrite, Rights::WRITE.and(Rights::APPEND)),
        (Right::Delete, Rights::DELETE),
        (Right::Rename, Rights::RENAME),
    ];
    const DIRECTORY: [(Right, Rights); 5] = [
        (Right::List, Rights::LIST.and(Rights::ENTER)),
        (Right::Write, Rights::CREATE),
        (Right::Directories, Rights::MAKE_DIR.and(Rights::DELETE)),
        (Right::Delete, Rights::PURGE),
        (Right::Rename, Rights::RENAME),
    ];
    let table: &[(Right, Rights)] = if kind == Kind::File { &FILE } else { &DIRECTORY };
    let held = table.iter().filter(|(right, _)| of.has(*right));
    held.fold(Rights::default(), |all, (_, letters)| all.and(*letters))
}

/// As FTP writes it.
pub(crate) fn time(at: Timestamp) -> Time {
    let nanos = at.micros().rem_euclid(1_000_000).unsigned_abs() * 1000;
    Time { seconds: at.seconds(), nanos: u32::try_from(nanos).unwrap_or(0) }
}

/// What a client wrote.
pub(crate) fn timestamp(at: Time) -> Timestamp {
    let micros = at.seconds.saturating_mul(1_000_000);
    Timestamp(micros.saturating_add(i64::from(at.nanos / 1000)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_become_letters() {
        let all = entrepot_nouns::Rights::all();
        assert_eq!(rights(all, Kind::File).letters(Kind::File), "adfrw");
        assert_eq!(rights(all, Kind::Directory).letters(Kind::Directory), "cdeflmp");
        let few = entrepot_nouns::Rights::read_only();
        assert_eq!(rights(few, Kind::File).letters(Kind::File), "r");
        assert_eq!(rights(few, Kind::Directory).letters(Kind::Directory), "el");
    }

    #[test]
    fn times_before_the_epoch_keep_their_fraction() {
        let at = Timestamp(-1);
        assert_eq!(time(at), Time { seconds: -1, nanos: 999_999_000 });
        assert_eq!(timestamp(time(at)), at);
    }
}
