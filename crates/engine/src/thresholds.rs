//! What fills up or runs out is told before it does: keys that end soon, a journal that fills. A
//! rule on such an event writes to whoever looks after it.
//!
//! The event of a key has an id that follows from the key, its end and the days, so that the nodes
//! of an installation, and one that starts anew, tell it once. How full a journal is each node
//! tells of its own, once until it held less again.

use std::sync::Arc;
use std::time::Duration;

use entrepot_db::{Db, DbError};
use entrepot_journal::{Recorder, Scope, Usage};
use entrepot_net::tls::certificate_end;
use entrepot_nouns::event::{ExpiringFact, JournalFact};
use entrepot_nouns::noun::Stored;
use entrepot_nouns::{Event, Fact, Key, KeyType, SiteId, Timestamp};
use entrepot_transform::openpgp::PublicKey;
use tokio_util::sync::CancellationToken;

use crate::ids;
use crate::limits::{JOURNAL_LOOK, JOURNAL_PERCENT, JOURNAL_PERCENT_LESS, KEY_DAYS, KEYS_LOOK};
use crate::membership::Membership;

/// What is needed to look at keys and journal.
pub(crate) struct ThresholdParts {
    pub(crate) db: Db,
    pub(crate) recorder: Recorder,
    pub(crate) membership: Arc<Membership>,
}

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Looks at the keys and the journal until `stop`.
pub(crate) async fn run(parts: ThresholdParts, stop: CancellationToken) {
    if !parts.membership.is_counted(&stop).await {
        return;
    }
    let (mut told, mut keys_due) = (0, Duration::ZERO);
    while !stop.is_cancelled() {
        told = journal(&parts, told);
        let now = parts.recorder.env().elapsed();
        if now >= keys_due {
            match keys(&parts).await {
                Ok(()) => keys_due = now.saturating_add(KEYS_LOOK),
                Err(error) => {
                    tracing::warn!(code = "EP0801", %error, "ends of keys are looked at later");
                }
            }
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = tokio::time::sleep(JOURNAL_LOOK) => {}
        }
    }
}

/// Tells how full the journal is, if it is fuller than was told; what counts as told from now on.
fn journal(parts: &ThresholdParts, told: u32) -> u32 {
    let usage = parts.recorder.journal().usage();
    let percent = percent(&usage);
    let level = level(percent, told);
    if level > told {
        let (bytes, limit_bytes) = (usage.unreleased_bytes, usage.limit_bytes);
        tracing::warn!(code = "EP0878", percent, bytes, "the journal fills");
        let filling = JournalFact { percent: level, bytes, limit_bytes };
        let fact = Fact::JournalFilling { filling };
        if let Err(error) = parts.recorder.record(&Scope::site(SiteId::MAIN), fact) {
            tracing::warn!(code = error.code(), %error, "that the journal fills is not recorded");
        }
    }
    level
}

fn percent(usage: &Usage) -> u32 {
    let percent = usage.unreleased_bytes.saturating_mul(100) / usage.limit_bytes.max(1);
    u32::try_from(percent).unwrap_or(u32::MAX)
}

/// The filling that is told of a journal that is `percent` full, where `told` was told before.
fn level(percent: u32, told: u32) -> u32 {
    let reached = |percent: u32| {
        JOURNAL_PERCENT.into_iter().filter(|level| *level <= percent).max().unwrap_or_default()
    };
    // One that goes up and down about a filling is told once.
    reached(percent).max(told.min(reached(percent.saturating_add(JOURNAL_PERCENT_LESS))))
}

/// Tells of the keys that end soon.
async fn keys(parts: &ThresholdParts) -> Result<(), DbError> {
    for site in parts.db.sites().await? {
        let site = SiteId(site.id);
        for key in parts.db.list::<Key>(site).await? {
            let now = parts.recorder.env().now();
            let Some(event) = expiring(parts, site, key, now).await else { continue };
            if parts.db.event(event.id).await?.is_some() {
                continue;
            }
            if let Err(error) = parts.recorder.seal(&event).await {
                tracing::warn!(code = error.code(), %error, "that a key ends is told later");
            }
        }
    }
    Ok(())
}

/// What is to be told of a key.
async fn expiring(
    parts: &ThresholdParts,
    site: SiteId,
    key: Stored<Key>,
    now: Timestamp,
) -> Option<Event> {
    let id = key.id;
    let (name, key_type) = (key.noun.name.clone(), key.noun.key_type);
    // Whether the parts of an OpenPGP key are valid takes signatures.
    let looked = tokio::task::spawn_blocking(move || end_of(&key.noun, now)).await;
    let not_after = looked.ok().flatten()?;
    let days = days(not_after, now)?;
    let end = ExpiringFact { key: name, not_after, days };
    let fact = match key_type {
        KeyType::Tls | KeyType::As2 => Fact::CertificateExpiring { end },
        _ => Fact::KeyExpiring { end },
    };
    let event = parts.recorder.event(&Scope::site(site), fact);
    Some(Event { id: ids::expiring(id, not_after, days), ..event })
}

/// When a key ends, if it counts and somebody should know. Tokens, links and passkeys are renewed
/// by those who use them.
fn end_of(key: &Key, now: Timestamp) -> Option<Timestamp> {
    let own = match key.key_type {
        KeyType::ApiToken | KeyType::Link | KeyType::Passkey => return None,
        _ if !key.enabled => return None,
        KeyType::Tls | KeyType::As2 => certificate_end(&key.public),
        KeyType::OpenPgp => {
            let soon = KEY_DAYS.into_iter().max().map_or(now, |days| now.plus(DAY * days));
            let public = PublicKey::parse(key.public.as_bytes()).ok();
            public.and_then(|public| public.ends_between(now, soon))
        }
        KeyType::SshHost | KeyType::SshUser | KeyType::SshUserCa | KeyType::WebHook => None,
    };
    own.into_iter().chain(key.not_after).min()
}

/// Of the days that are told the fewest within which it ends; `None`: it has longer.
fn days(not_after: Timestamp, now: Timestamp) -> Option<u32> {
    let ends_within = |days: &u32| not_after <= now.plus(DAY * *days);
    KEY_DAYS.into_iter().filter(ends_within).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filling_is_told_once_until_the_journal_held_less() {
        let mut told = 0;
        let mut told_of = Vec::new();
        for percent in [10, 49, 50, 47, 51, 41, 40, 39, 60, 99, 76, 92, 79, 91, 30, 95] {
            let level = level(percent, told);
            if level > told {
                told_of.push((percent, level));
            }
            told = level;
        }
        assert_eq!(told_of, [(50, 50), (60, 50), (99, 90), (92, 90), (91, 90), (95, 90)]);
    }

    #[test]
    fn the_end_of_a_key_is_told_at_its_days() {
        let end = Timestamp::from_seconds(100 * 86_400);
        for (before, told) in [
            (61.0, None),
            (60.0, Some(60)),
            (30.1, Some(60)),
            (29.9, Some(30)),
            (6.9, Some(7)),
            (1.0, Some(1)),
            (0.1, Some(1)),
            (0.0, Some(0)),
        ] {
            let now = end.minus(DAY.mul_f64(before));
            assert_eq!(days(end, now), told, "{before}");
        }
        assert_eq!(days(end, end.plus(DAY)), Some(0));
    }
}
