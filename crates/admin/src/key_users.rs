//! Who may use a key: a key can name them, and then nobody else changes it or what names it.
//!
//! Whoever writes a rule or an endpoint that names a key has the key do what it says: so each
//! change of such a noun is looked at, not only the one that first names the key.

use entrepot_auth::groups_of;
use entrepot_db::Db;
use entrepot_nouns::{Account, AnyNoun, Key, Kind, Name};

use crate::actor::Actor;
use crate::error::{AdminError, Result};
use crate::plan::Step;
use crate::planned_change::Action;
use crate::reader::{NounKey, State};

/// Refuses changes of keys, and of what names them, to an actor whom they do not name.
pub(crate) async fn check(db: &Db, actor: &Actor, before: &State, steps: &[Step]) -> Result<()> {
    // Whoever works on the machine of a node reads what it can.
    if actor.account().is_none() {
        return Ok(());
    }
    let mut known = None;
    for step in steps {
        let shown = &step.shown;
        if matches!(shown.action, Action::Unchanged | Action::Compare) {
            continue;
        }
        let mut keys = Vec::new();
        let old = before.get(&NounKey::new(shown.kind, &shown.name));
        if let Some(AnyNoun::Key(key)) = old.map(|stored| &stored.noun) {
            keys.push(key.clone());
        }
        let named = step.noun.as_ref().map(AnyNoun::references).unwrap_or_default();
        for reference in named.iter().filter(|reference| reference.kind == Kind::Key) {
            // One that this very change makes is its author's.
            let key = db.find::<Key>(actor.site, &reference.name).await?;
            keys.extend(key.map(|key| key.noun));
        }
        for key in keys.iter().filter(|key| !key.users.is_empty()) {
            let names = match &known {
                Some(names) => names,
                None => known.insert(names_of(db, actor).await?),
            };
            if !key.users.iter().any(|user| names.contains(user)) {
                return Err(AdminError::KeyOfOthers {
                    actor: actor.name.clone(),
                    key: key.name.to_string(),
                    users: key.users.iter().map(Name::as_str).collect::<Vec<_>>().join(", "),
                });
            }
        }
    }
    Ok(())
}

/// The account behind the actor, and its groups; none where it is one of another site.
async fn names_of(db: &Db, actor: &Actor) -> Result<Vec<Name>> {
    let Some(name) = actor.own_account() else { return Ok(Vec::new()) };
    let Some(account) = db.find::<Account>(actor.site, &name).await? else {
        return Ok(Vec::new());
    };
    let groups = groups_of(db, actor.site, &account.noun).await?;
    Ok(groups.into_iter().chain([name]).collect())
}
