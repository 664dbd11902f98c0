//! When an authority is asked for a certificate.

use std::time::Duration;

use entrepot_db::AcmeOrder;
use entrepot_net::tls::OwnCertificate;
use entrepot_nouns::Timestamp;
use entrepot_nouns::acme::{Acme, renewal_time};

use crate::limits::{RETRY_AUTHORITY, RETRY_FIRST, RETRY_LONGEST};

/// Whether the authority is to be asked now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Now,
    Later,
}

/// The settings of a listener.
#[derive(Clone, Copy)]
pub(crate) struct Settings<'a> {
    pub(crate) acme: &'a Acme,
    /// Their JSON form.
    pub(crate) text: &'a str,
}

/// Of a listener that shows this certificate.
pub(crate) fn due(
    settings: Settings<'_>,
    shown: Option<&OwnCertificate>,
    known: &AcmeOrder,
    now: Timestamp,
) -> Due {
    let Settings { acme, text } = settings;
    if known.asked {
        return Due::Now;
    }
    // What an operator has corrected is tried at once.
    let is_corrected = known.settings.as_deref() != Some(text);
    if let Some(failure) = known.failure.as_ref().filter(|_| !is_corrected) {
        return if now < failure.retry_at { Due::Later } else { Due::Now };
    }
    let subject = acme.subject();
    let is_issued = known.issued.as_ref().is_some_and(|issued| issued.subject == subject);
    let fits = shown.filter(|shown| {
        let has = |name: &str| shown.names.iter().any(|it| it == name);
        !shown.is_self_signed && subject.names.iter().all(|name| has(name.as_str()))
    });
    match fits {
        Some(shown) if is_issued && now < renewal_time(shown.not_before, shown.not_after) => {
            Due::Later
        }
        _ => Due::Now,
    }
}

/// The pause after so many failures in a row, of which the authority has said how long it wants to
/// be left alone. `share` of 0 to 255 spreads listeners that failed together.
pub(crate) fn pause(failures: u64, wanted: Option<Duration>, share: u8) -> Duration {
    let doublings = u32::try_from(failures.saturating_sub(1)).unwrap_or(u32::MAX).min(16);
    let pause = RETRY_FIRST.saturating_mul(1 << doublings).min(RETRY_LONGEST);
    let spread = pause / 4 * u32::from(share) / 255;
    (pause + spread).max(wanted.unwrap_or_default().min(RETRY_AUTHORITY))
}

#[cfg(test)]
mod tests {
    use entrepot_db::{AcmeFailure, AcmeIssued};

    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn acme(names: &str) -> Acme {
        let document = format!(r#"{{"directory":"https://ca.example/","names":[{names}]}}"#);
        serde_json::from_str(&document).unwrap()
    }

    fn shown(from: Timestamp) -> OwnCertificate {
        OwnCertificate {
            names: vec!["a.example".to_owned(), "b.example".to_owned()],
            not_before: from,
            not_after: from.plus(90 * DAY),
            is_self_signed: false,
        }
    }

    fn issued(acme: &Acme, from: Timestamp) -> AcmeOrder {
        let (subject, not_after) = (acme.subject(), from.plus(90 * DAY));
        let issued = AcmeIssued { subject, not_before: from, not_after };
        AcmeOrder { issued: Some(issued), settings: Some("s".to_owned()), ..AcmeOrder::default() }
    }

    #[test]
    fn a_certificate_is_renewed_at_two_thirds_of_its_time() {
        let (from, acme) = (Timestamp::from_seconds(1_900_000_000), acme(r#""a.example""#));
        let known = issued(&acme, from);
        let at = |after: Duration| {
            due(Settings { acme: &acme, text: "s" }, Some(&shown(from)), &known, from.plus(after))
        };
        assert_eq!(at(Duration::ZERO), Due::Later);
        assert_eq!(at(60 * DAY - Duration::from_secs(1)), Due::Later);
        assert_eq!(at(60 * DAY), Due::Now);
        assert_eq!(at(100 * DAY), Due::Now);
    }

    #[test]
    fn what_is_shown_must_be_what_was_asked_for() {
        let from = Timestamp::from_seconds(1_900_000_000);
        let settings = acme(r#""a.example""#);
        let known = issued(&settings, from);
        let shown = shown(from);
        let of = |acme: &Acme, shown: Option<&OwnCertificate>, known: &AcmeOrder| {
            due(Settings { acme, text: "s" }, shown, known, from)
        };
        assert_eq!(of(&settings, Some(&shown), &known), Due::Later);
        assert_eq!(of(&settings, None, &known), Due::Now);
        assert_eq!(of(&settings, Some(&shown), &AcmeOrder::default()), Due::Now);
        let own = OwnCertificate { is_self_signed: true, ..shown.clone() };
        assert_eq!(of(&settings, Some(&own), &known), Due::Now);
        let more = acme(r#""a.example","b.example""#);
        assert_eq!(of(&more, Some(&shown), &known), Due::Now, "it was not asked for");
        let other = acme(r#""c.example""#);
        assert_eq!(of(&other, Some(&shown), &issued(&other, from)), Due::Now);
        let elsewhere = Acme { directory: "https://other.example/".to_owned(), ..settings.clone() };
        assert_eq!(of(&elsewhere, Some(&shown), &known), Due::Now);
        let asked = AcmeOrder { asked: true, ..known };
        assert_eq!(of(&settings, Some(&shown), &asked), Due::Now);
    }

    #[test]
    fn a_failure_is_waited_out_unless_the_settings_change_or_somebody_asks() {
        let (now, acme) = (Timestamp::from_seconds(1_900_000_000), acme(r#""a.example""#));
        let failure = AcmeFailure {
            count: 1,
            code: "EP1131".to_owned(),
            problem: String::new(),
            retry_at: now.plus(DAY),
        };
        let failed = AcmeOrder {
            settings: Some("s".to_owned()),
            failure: Some(failure),
            ..AcmeOrder::default()
        };
        assert_eq!(due(Settings { acme: &acme, text: "s" }, None, &failed, now), Due::Later);
        assert_eq!(
            due(Settings { acme: &acme, text: "s" }, None, &failed, now.plus(DAY)),
            Due::Now
        );
        assert_eq!(due(Settings { acme: &acme, text: "other" }, None, &failed, now), Due::Now);
        let asked = AcmeOrder { asked: true, ..failed };
        assert_eq!(due(Settings { acme: &acme, text: "s" }, None, &asked, now), Due::Now);
    }

    #[test]
    fn pauses_grow_and_are_never_shorter_than_the_authority_wants() {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        assert_eq!(pause(1, None, 0), minutes(15));
        assert_eq!(pause(2, None, 0), minutes(30));
        assert_eq!(pause(3, None, 0), minutes(60));
        assert_eq!(pause(100, None, 0), minutes(12 * 60));
        assert_eq!(pause(u64::MAX, None, 255), minutes(15 * 60));
        assert_eq!(pause(1, Some(minutes(200)), 0), minutes(200));
        assert_eq!(pause(1, Some(minutes(1)), 0), minutes(15));
        assert_eq!(pause(1, Some(Duration::MAX), 0), RETRY_AUTHORITY);
    }
}
