//! Web hooks that start rules: which rule one is for, whether its sender is who may start it, and
//! the event that says so, durable before the sender hears of it.
//!
//! What holds: whether a signature is absent, wrong or old, the sender hears the same. A message
//! that came before, to whichever node, leads to the event that it led to then: the id of an event
//! follows from the rule and the id, or else the content, of the message.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use entrepot_crypto::webhook::{SignedMessage, body_signature, is_signed};
use entrepot_crypto::{SealingContext, Sha256, StreamDigest, constant_time_eq, derived_id};
use entrepot_journal::Scope;
use entrepot_net::http::HeaderMap;
use entrepot_net::tls::ClientCertificate;
use entrepot_nouns::transfer::hex;
use entrepot_nouns::web_hook::{HmacEncoding, HmacScheme, HookScheme, WebHook};
use entrepot_nouns::{
    Event, EventId, Fact, Key, KeyType, Name, Rule, Secret, SiteId, Stored, Timestamp,
};
use serde_json::Value;

use super::Gate;
use crate::error::{AuthError, Result};
use crate::identity;
use crate::limits::{
    HOOK_AGE, HOOK_DEPTH, HOOK_FIELD_BYTES, HOOK_RECORD_BYTES, HOOK_SEEN, HOOK_VALUES,
};

/// The web hook of a rule, before anything of a message is believed.
pub struct RuleHook {
    gate: Gate,
    rule: Stored<Rule>,
    hook: WebHook,
    keys: Vec<Secret>,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookReceipt {
    /// The event that it came, on which rules start, is durable.
    Event(EventId),
    /// The folder that the rule watches is listed soon.
    Hint,
}

/// A message as it came.
#[derive(Clone, Copy, Debug)]
pub struct HookMessage<'a> {
    /// The fields of the request.
    pub fields: &'a HeaderMap,
    /// Its bytes, which are what is signed.
    pub body: &'a [u8],
    /// Where it comes from.
    pub address: IpAddr,
    /// The certificate of the client, whose key it has shown to have. Certified: by an authority of
    /// a listener of the rule's site.
    pub certificate: Option<&'a ClientCertificate>,
}

/// Why a message starts nothing.
#[derive(Debug, thiserror::Error)]
pub enum HookRefusal {
    /// It is not signed, not rightly, or too old: the sender does not learn which.
    #[error("the request does not prove that it comes from a sender that this rule knows")]
    Unproven,
    /// More came within this minute than the rule takes.
    #[error("the rule takes no more messages in this minute; send it again later")]
    TooMany {
        /// When it is asked for again.
        wait: Duration,
    },
    /// The body is not what a rule can look at.
    #[error("the body is {0}; nothing was started")]
    Body(String),
    /// The database or the journal is away: the sender may try again.
    #[error(transparent)]
    Later(#[from] AuthError),
}

impl Gate {
    /// The web hook of the enabled rule of this name at a site; `None` if it has none.
    ///
    /// # Errors
    /// The database is away.
    pub async fn rule_hook(&self, site: SiteId, name: &Name) -> Result<Option<RuleHook>> {
        let db = self.0.directory.db();
        let Some(rule) = db.find::<Rule>(site, name).await? else { return Ok(None) };
        let told_by = rule.noun.when.told_by().filter(|_| rule.noun.enabled);
        let Some((_, hook)) = told_by else { return Ok(None) };
        let hook = hook.clone();
        let Some(site_name) = self.0.directory.site_name(site).await? else { return Ok(None) };
        let mut keys = Vec::new();
        for name in &hook.keys {
            let key = db.find::<Key>(site, name).await?;
            keys.extend(key.and_then(|key| self.hook_key(&site_name, &key.noun)));
        }
        Ok(Some(RuleHook { gate: self.clone(), rule, hook, keys }))
    }

    /// The secret of a key, if it counts now.
    fn hook_key(&self, site: &Name, key: &Key) -> Option<Secret> {
        let now = self.0.recorder.env().now();
        let is_valid = key.not_before.is_none_or(|from| now >= from)
            && key.not_after.is_none_or(|until| now < until);
        if key.key_type != KeyType::WebHook || !key.enabled || !is_valid {
            return None;
        }
        let context = SealingContext::private_key(site, &key.name);
        let opened = self.0.directory.master().open(&context, key.private_sealed.as_ref()?);
        opened
            .inspect_err(|error| {
                tracing::error!(key = key.name.as_str(), %error, "a key cannot be opened");
            })
            .ok()
    }
}

impl RuleHook {
    /// Longest body that the rule takes.
    pub fn limit_bytes(&self) -> usize {
        usize::try_from(self.hook.limit_bytes).unwrap_or(usize::MAX)
    }

    /// Takes a message: what it is for is durable when this returns.
    ///
    /// # Errors
    /// It starts nothing.
    pub async fn receive(
        &self,
        message: HookMessage<'_>,
    ) -> std::result::Result<HookReceipt, HookRefusal> {
        let now = self.gate.0.recorder.env().now();
        let Some(known_by) = self.proven(message, now) else {
            let (rule, address) = (self.rule.noun.name.as_str(), message.address);
            tracing::info!(rule, %address, "a web hook was refused: its proof is missing or wrong");
            return Err(HookRefusal::Unproven);
        };
        let most = self.hook.per_minute;
        let counted = self.gate.0.web_hooks.count(*self.rule.id.as_bytes(), most);
        counted.map_err(|wait| HookRefusal::TooMany { wait })?;
        if self.rule.noun.when.watch().is_some() {
            let hinted = self.gate.0.directory.db().hint_watch(self.rule.id).await;
            hinted.map_err(AuthError::from)?;
            return Ok(HookReceipt::Hint);
        }
        let body = read_body(message.body)?;
        let stretch = now.seconds().div_euclid(seconds(HOOK_SEEN));
        let id = self.event_id(&known_by, stretch);
        let cell = self.gate.0.web_hooks.cell(id);
        let recorded = cell.get_or_try_init(|| async {
            let before = self.event_id(&known_by, stretch - 1);
            if let Some(id) = self.came_before(&[id, before], now).await? {
                return Ok::<EventId, AuthError>(id);
            }
            let event = self.event(id, message, body);
            self.gate.0.recorder.seal(&event).await?;
            Ok(id)
        });
        let recorded = *recorded.await?;
        if recorded != id {
            // It is repeated only as long as the event of the stretch before is not too old.
            self.gate.0.web_hooks.forget(id);
        }
        Ok(HookReceipt::Event(recorded))
    }

    /// By what a message is known, if it comes from a sender who knows a key.
    fn proven(&self, message: HookMessage<'_>, now: Timestamp) -> Option<Vec<u8>> {
        let field = |name: &str| {
            let mut values = message.fields.get_all(name).iter();
            // A field that stands twice says nothing.
            match (values.next(), values.next()) {
                (Some(value), None) => value.to_str().ok(),
                _ => None,
            }
        };
        let one_of = |is_right: &dyn Fn(&Secret) -> bool| {
            self.keys.iter().fold(false, |is_any, key| is_right(key) | is_any)
        };
        let by_body = || {
            let mut digest = StreamDigest::new(Sha256::Unwanted);
            digest.update(message.body);
            [b"body:".as_slice(), &digest.finish().blake3.unwrap_or_default()].concat()
        };
        let message_id =
            || field("webhook-id").filter(|id| (1..=HOOK_FIELD_BYTES).contains(&id.len()));
        let by_id = |id: &str| [b"id:", id.as_bytes()].concat();
        match &self.hook.scheme {
            HookScheme::Standard => {
                let id = message_id()?;
                let at_seconds: i64 = field("webhook-timestamp")?.parse().ok()?;
                let signatures = field("webhook-signature")?;
                let signed = SignedMessage { id, at_seconds, body: message.body };
                let is_proven = one_of(&|key| is_signed(key, signed, signatures));
                let is_fresh = now.seconds().abs_diff(at_seconds) <= HOOK_AGE.as_secs();
                (is_proven && is_fresh).then(|| by_id(id))
            }
            HookScheme::Github => {
                let scheme = HmacScheme {
                    header: "x-hub-signature-256".to_owned(),
                    prefix: "sha256=".to_owned(),
                    encoding: HmacEncoding::Hex,
                };
                let shown = field(&scheme.header)?;
                one_of(&|key| is_signed_body(key, &scheme, message.body, shown)).then(by_body)
            }
            HookScheme::Hmac(scheme) => {
                let shown = field(&scheme.header)?;
                one_of(&|key| is_signed_body(key, scheme, message.body, shown)).then(by_body)
            }
            HookScheme::Bearer => {
                let (word, shown) = field("authorization")?.split_once(' ')?;
                let is_right =
                    |key: &Secret| constant_time_eq(key.expose(), shown.trim().as_bytes());
                let is_proven = word.eq_ignore_ascii_case("bearer") && one_of(&is_right);
                // Who knows the key may also say which message it is.
                is_proven.then(|| message_id().map_or_else(by_body, by_id))
            }
            HookScheme::Certificate(scheme) => {
                let shown = message.certificate.filter(|shown| identity::is_valid(shown, now))?;
                identity::named(&scheme.of, shown)?;
                Some(message_id().map_or_else(by_body, by_id))
            }
        }
    }

    /// The id of the event of a message in a stretch of time, the same on every node.
    fn event_id(&self, known_by: &[u8], stretch: i64) -> EventId {
        let rule = self.rule.id.as_bytes();
        EventId(derived_id("hook", &[rule, known_by, &stretch.to_le_bytes()]))
    }

    /// The event of the same message, if one is in the database and not too old.
    async fn came_before(&self, ids: &[EventId], now: Timestamp) -> Result<Option<EventId>> {
        for id in ids {
            let found = self.gate.0.directory.db().event(*id).await?;
            if found.is_some_and(|row| now.since(row.event.at) < HOOK_SEEN) {
                return Ok(Some(*id));
            }
        }
        Ok(None)
    }

    fn event(&self, id: EventId, message: HookMessage<'_>, body: Value) -> Event {
        let kept = self.hook.kept_headers().into_iter().filter_map(|name| {
            let value = message.fields.get(&name)?.to_str().ok()?;
            let value = value.get(..HOOK_FIELD_BYTES).unwrap_or(value).to_owned();
            Some((name, value))
        });
        let fact = Fact::HookReceived {
            rule: self.rule.noun.name.clone(),
            address: message.address.to_string(),
            headers: kept.collect::<BTreeMap<_, _>>(),
            body,
        };
        let event = self.gate.0.recorder.event(&Scope::site(self.rule.site), fact);
        Event { id, ..event }
    }
}

fn is_signed_body(key: &Secret, scheme: &HmacScheme, body: &[u8], shown: &str) -> bool {
    let Some(shown) = shown.strip_prefix(scheme.prefix.as_str()) else { return false };
    let right = body_signature(key, body);
    let (right, shown) = match scheme.encoding {
        HmacEncoding::Hex => (hex(&right), shown.to_ascii_lowercase()),
        HmacEncoding::Base64 => (STANDARD.encode(&right), shown.to_owned()),
    };
    constant_time_eq(right.as_bytes(), shown.as_bytes())
}

fn seconds(time: Duration) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
}

/// The body as it is recorded.
fn read_body(bytes: &[u8]) -> std::result::Result<Value, HookRefusal> {
    let bad = |why: &str| HookRefusal::Body(why.to_owned());
    let read: Value = serde_json::from_slice(bytes)
        .map_err(|error| HookRefusal::Body(format!("no JSON ({error})")))?;
    if !read.is_object() && !read.is_array() {
        return Err(bad("neither an object nor a list of JSON"));
    }
    let mut values = 0;
    if depth(&read, &mut values) > HOOK_DEPTH {
        return Err(HookRefusal::Body(format!("nested more than {HOOK_DEPTH} deep")));
    }
    if values > HOOK_VALUES {
        return Err(HookRefusal::Body(format!("made of more than {HOOK_VALUES} values")));
    }
    settled(read).ok_or_else(|| bad("longer when it is recorded than an event may be"))
}

/// How deep a value nests, and how many there are in it. It is read by a parser that stops at 128.
fn depth(value: &Value, count: &mut usize) -> usize {
    *count += 1;
    let inner = match value {
        Value::Array(items) => items.iter().map(|item| depth(item, count)).max(),
        Value::Object(fields) => fields.values().map(|field| depth(field, count)).max(),
        _ => return 0,
    };
    inner.unwrap_or(0) + 1
}

/// The value, once writing and reading it again gives the same: numbers with a point may take a few
/// turns, and journal and database must have the same of them. `None` if it is too long for an
/// event, or never settles.
fn settled(mut value: Value) -> Option<Value> {
    const TURNS: u32 = 8;
    for _ in 0..TURNS {
        let text = serde_json::to_vec(&value).ok().filter(|it| it.len() <= HOOK_RECORD_BYTES)?;
        let again: Value = serde_json::from_slice(&text).ok()?;
        if again == value {
            return Some(value);
        }
        value = again;
    }
    None
}
