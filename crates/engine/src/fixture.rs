//! Things the tests of this crate share.

use entrepot_nouns::event::FileFact;
use entrepot_nouns::{Digests, Env, Event, Fact, Protocol, SiteId};

use crate::calendars::RuleSite;

/// The site `main`, without calendars.
pub(crate) fn main_site() -> RuleSite {
    RuleSite { name: "main".to_owned(), ..RuleSite::default() }
}

/// A small file that `acme` uploaded.
pub(crate) fn uploaded(path: &str) -> Event {
    let env = Env::simulated(11);
    Event {
        id: env.new_id(),
        at: env.now(),
        clock: None,
        site: SiteId::MAIN,
        node: "n1".parse().unwrap(),
        account: Some("acme".parse().unwrap()),
        session: None,
        job: None,
        cause: None,
        depth: 0,
        fact: Fact::FileUploaded {
            file: FileFact {
                transfer: env.new_id(),
                path: path.to_owned(),
                size: 3,
                digests: Digests { blake3: Some([7; 32]), sha256: None },
                protocol: Protocol::Sftp,
                started_at: env.now(),
                identity: None,
                displaced: None,
                temporary: false,
                as2: None,
            },
        },
    }
}
